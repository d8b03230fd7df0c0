//! Fixed addresses for nodes that are killed and started again at the same address.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// The number of candidate ports, all below the kernel's ephemeral range.
const PORTS: u16 = 10_000;

/// Returns a free local address. Its port lies outside the kernel's ephemeral range, so that no
/// outgoing connection can take it while the node is down.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = first_of_the_systems() - PORTS;
    // Test programs that run side by side start at different ports.
    let begin = u16::try_from(std::process::id() * 97 % u32::from(PORTS)).expect("below PORTS");
    for _ in 0..PORTS {
        let nth = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", first + nth)) {
            return listener.local_addr().unwrap();
        }
    }
    panic!("no port is free from {first} on");
}

/// Returns the first port of the kernel's ephemeral range.
fn first_of_the_systems() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range.ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
    first.filter(|port| *port > PORTS + 1_024).unwrap_or(32_768)
}
