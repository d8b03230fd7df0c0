//! Tools for captures and feeds: the work of `weir feed`.
//!
//! * [`analysis`]: rates, gaps and mix of messages; [`rates`]: peaks over windows; [`plot`]: a
//!   picture of them.
//! * [`replay`]: a capture sent again at any speed. [`record`]: datagrams written to a capture.

pub mod analysis;
pub mod plot;
pub mod rates;
pub mod record;
pub mod replay;
