//! ITCH 5.0 against independent decoders, and what its messages mean.
//!
//! What the other decoders said lies in `../oracle/itch`, with the script that asked them. The real
//! frames and files do not ship with the project: `WEIR_DATA` names a folder that has them, and
//! without it those tests say loudly that they did not check.

#[path = "../support/data.rs"]
mod data;
#[path = "../support/lobster_itch.rs"]
mod lobster_itch;
#[path = "../support/udp_capture.rs"]
mod udp_capture;

mod decoders;
mod lobster_day;
mod meaning;
mod page;
