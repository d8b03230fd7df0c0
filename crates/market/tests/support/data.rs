//! Where recorded market data lies: the folder that `WEIR_DATA` names. It never copies any of it.

pub use weir_skip::recorded as data;
