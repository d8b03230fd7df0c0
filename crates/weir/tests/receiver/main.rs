//! A feed's receiver against a venue over real sockets of the loopback interface: two lossy lines,
//! a server for requests, snapshots, a connection. Time is simulated, so that nothing depends on
//! how fast the machine is.

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
#[path = "../../../market/examples/bench_market/memory.rs"]
mod memory;
mod passed_over;
mod recovery;
mod sessions;
mod snapshot;
mod stand;
mod strangers;
mod stream;
mod venue;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;
