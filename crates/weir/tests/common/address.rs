//! Addresses for nodes that are to be found where they were after they were killed.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports that are looked at, below those that the system gives to connections on its own.
const PORTS: u16 = 10_000;

/// An address of this machine that nobody listens on. Its port is none that the system gives to
/// connections: a node that comes back does not find somebody else's connection there.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = first_of_the_systems() - PORTS;
    // Programs of tests that run side by side begin at different ports.
    let begin = u16::try_from(std::process::id() * 97 % u32::from(PORTS)).expect("below PORTS");
    for _ in 0..PORTS {
        let nth = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", first + nth)) {
            return listener.local_addr().unwrap();
        }
    }
    panic!("no port is free from {first} on");
}

/// The first of the ports that the system gives to connections.
fn first_of_the_systems() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range.ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
    first.filter(|port| *port > PORTS + 1_024).unwrap_or(32_768)
}
