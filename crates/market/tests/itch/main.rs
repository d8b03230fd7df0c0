//! Tests of ITCH 5.0 against independent decoders, and of the updates of its messages.
//!
//! The readings of the other decoders are in `../oracle/itch`, with the script that produced them.
//! The real frames and files are not part of the project: `WEIR_DATA` names their folder; without
//! it, their tests print a warning that they did not check anything.

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
