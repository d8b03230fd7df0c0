//! The runtime of a node: agents with a duty cycle, the threads that run them, and small parts that
//! every agent shares.
//!
//! * [`agent`]: the duty cycle. [`runner`]: threads that run agents, rest and are woken.
//!   [`mod@cycle_clock`]: their time, which never steps, and the wall clock beside it.
//!   [`fd_poller`]: a poll for threads whose disks have a descriptor but no sockets.
//! * [`beat`]: a thread's heartbeat. [`cycle_times`]: the durations of its cycles.
//! * [`mod@figures`]: counters declared once, for `/status` and `/metrics`.
//! * [`line_limit`]: a limit on diagnostic lines that outsiders can cause. [`fatal`]: aborts the
//!   process when an invariant is broken.
//! * [`served_time`]: the time for which an agent has worked, over restarts.
//! * [`config_error`]: the error of a configuration value. [`civil`]: dates and times of day.
//!
//! This crate has no notion of orders, sessions or messages.

pub mod agent;
pub mod beat;
pub mod civil;
pub mod config_error;
pub mod cycle_clock;
pub mod cycle_times;
pub mod fatal;
pub mod fd_poller;
pub mod figures;
pub mod line_limit;
pub mod runner;
pub mod served_time;

pub use agent::Agent;
pub use beat::Beat;
pub use config_error::ConfigError;
pub use fatal::abort;
pub use line_limit::LineLimit;
pub use runner::{Poller, Runner, RunningThread, SocketAgent, WaitStrategy, Wake};
pub use served_time::ServedTime;
