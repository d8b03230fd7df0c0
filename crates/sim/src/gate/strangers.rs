//! A crowd of connections from one address that never say a word, in front of a door with fewer
//! places. Each that is ended comes back at once.

use std::io::{ErrorKind, Read};
use std::net::SocketAddr;

use weir_io::net::Stream;
use weir_io::net::sim::SimNet;
use weir_types::Reason;
use weir_wire::dialogue::NodeMessage;
use weir_wire::frame::{Framing, next_frame};

use super::node::address;
use super::wire::{FRAME_MAX, READ_MAX};

/// Connections made in one step.
const CONNECTS_MAX: usize = 2;
/// The ports of the crowd's address.
const PORTS: u16 = 60_000;

/// The crowd.
#[derive(Default)]
pub struct Strangers {
    streams: Vec<Stream>,
    connection_count: u16,
}

impl Strangers {
    /// Lets the crowd grow to `wanted` connections; returns the number of those that made place
    /// for others.
    pub fn step(&mut self, net: &SimNet, wanted: usize) -> u64 {
        let mut evicted = 0;
        self.streams.retain_mut(|stream| {
            let mut room = [0; READ_MAX];
            match stream.read(&mut room) {
                Ok(len) => {
                    evicted += u64::from(is_eviction(&room[..len]));
                    len > 0
                }
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            }
        });
        for _ in 0..wanted.saturating_sub(self.streams.len()).min(CONNECTS_MAX) {
            self.connection_count = (self.connection_count + 1) % PORTS;
            let from = SocketAddr::from(([10, 0, 8, 8], 1 + self.connection_count));
            self.streams.extend(net.connect(from, address()).ok().map(Stream::Simulated));
        }
        evicted
    }
}

fn is_eviction(input: &[u8]) -> bool {
    let Framing::Frame { message: Ok(raw), .. } = next_frame(input, FRAME_MAX) else {
        return false;
    };
    matches!(
        NodeMessage::decode(&raw),
        Ok(NodeMessage::Logout(logout)) if logout.reason == Reason::TooManyConnections
    )
}
