//! A feed's receiver against a venue over real loopback sockets: two lossy lines, a request server,
//! snapshots, a connection. Time is simulated, so that the machine's speed does not matter.

mod allocation;
#[path = "../../../market/tests/support/data.rs"]
mod data;
mod day;
mod files;
mod full_ring;
#[path = "../../../market/tests/support/lobster_itch.rs"]
#[allow(dead_code)]
mod lobster_itch;
mod lossy;
mod market;
#[path = "../../../market/tests/support/memory.rs"]
mod memory;
mod passed_over;
mod recovery;
mod rig;
mod sessions;
mod snapshot;
mod strangers;
mod stream;
mod venue;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;
