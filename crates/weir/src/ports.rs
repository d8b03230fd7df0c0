//! Default ports of this machine: a node, a market-data gateway and their pages run side by side.
//!
//! `WEIR_PORT_BASE` moves all of them together, so that a second set runs next to the first. A
//! configuration file names its addresses itself and is not moved.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use anyhow::Context;

/// The environment variable that moves all default ports; without it they begin at 7000.
pub const VARIABLE: &str = "WEIR_PORT_BASE";
const BASE: u16 = 7_000;
/// The last default port, counted from the base.
const OFFSET_MAX: u16 = 83;

/// Order entry and delivery of a node.
pub const NODE: u16 = 1;
/// A gateway's subscribers.
pub const MARKET: u16 = 3;
/// The group to which `weir serve --publish` sends.
const PUBLISH: u16 = 11;
/// Requests for messages missed of it.
const REQUESTS: u16 = 12;
/// Order entry of a gateway, which operators log on to.
pub const GATEWAY: u16 = 13;
/// A node's status page.
pub const HTTP: u16 = 80;
/// A node's order state over HTTP and WebSocket.
pub const WEB: u16 = 81;
/// A gateway's status page.
pub const GATEWAY_HTTP: u16 = 82;
/// A gateway's market data over WebSocket.
pub const GATEWAY_WEB: u16 = OFFSET_MAX;

/// The default address of a purpose, on this machine only.
#[must_use]
pub fn local(offset: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, base().unwrap_or(BASE) + offset))
}

/// The multicast group of `weir serve --publish` for the partition of an index, and the address for
/// requests.
///
/// # Errors
/// When a port of theirs would be above the last one.
pub fn published(index: usize) -> anyhow::Result<(SocketAddrV4, SocketAddrV4)> {
    let base = base()?;
    let ports = published_ports(base, index).with_context(|| {
        format!("--publish: no ports are left for partition {} behind {VARIABLE}={base}", index + 1)
    })?;
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 192, 7, 1), ports.0);
    Ok((group, SocketAddrV4::new(Ipv4Addr::LOCALHOST, ports.1)))
}

/// Each partition has its ports two behind those of the one before.
fn published_ports(base: u16, index: usize) -> Option<(u16, u16)> {
    let behind = u16::try_from(index).ok()?.checked_mul(2)?;
    let port = |offset: u16| base.checked_add(offset)?.checked_add(behind);
    Some((port(PUBLISH)?, port(REQUESTS)?))
}

/// Checks the environment variable.
///
/// # Errors
/// The accepted values.
pub fn check() -> anyhow::Result<()> {
    base().map(drop)
}

fn base() -> anyhow::Result<u16> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(BASE) };
    let text = text.to_string_lossy();
    base_of(&text).with_context(|| {
        format!("{VARIABLE}={text}: want a port from 1024 to {}", u16::MAX - OFFSET_MAX)
    })
}

fn base_of(text: &str) -> Option<u16> {
    text.parse().ok().filter(|base| (1_024..=u16::MAX - OFFSET_MAX).contains(base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_ports_differ() {
        let mut all =
            [NODE, MARKET, PUBLISH, REQUESTS, GATEWAY, HTTP, WEB, GATEWAY_HTTP, GATEWAY_WEB];
        let count = all.len();
        all.sort_unstable();
        assert_eq!(all.into_iter().collect::<std::collections::BTreeSet<_>>().len(), count);
        assert_eq!(all.last(), Some(&OFFSET_MAX));
    }

    #[test]
    fn ports_of_partitions_follow_each_other_as_far_as_there_are_ports() {
        for (base, index, want) in [
            (7_000, 0, Some((7_011, 7_012))),
            (7_000, 62, Some((7_135, 7_136))),
            (65_452, 35, Some((65_533, 65_534))),
            (65_452, 36, None),
            (7_000, 1 << 15, None),
            (7_000, usize::MAX, None),
        ] {
            assert_eq!(published_ports(base, index), want, "{base} {index}");
        }
    }

    #[test]
    fn a_base_leaves_room_for_all_ports() {
        for (text, want) in [
            ("17000", Some(17_000)),
            ("1024", Some(1_024)),
            ("65452", Some(65_452)),
            ("65453", None),
            ("80", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(base_of(text), want, "{text:?}");
        }
    }
}
