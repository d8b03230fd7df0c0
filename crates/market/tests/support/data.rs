//! The location of recorded market data: the folder in `WEIR_DATA`. The data is never copied.

pub use weir_skip::recorded as data;
