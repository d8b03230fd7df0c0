//! Tools for captures and feeds: the work of `weir feed` and `weir book --capture`.
//!
//! * [`analysis`]: rates, gaps and mix of messages; [`rates`]: peaks over windows; [`plot`]: a
//!   picture of them. [`builder`]: the books at the end of a capture.
//! * [`replay`]: a capture sent again at any speed. [`record`]: datagrams written to a capture.

pub mod analysis;
pub mod builder;
pub mod plot;
pub mod rates;
pub mod record;
pub mod replay;
