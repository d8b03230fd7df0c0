//! Extracts the UDP datagram from a captured frame.
//!
//! Link layers: Ethernet with VLAN tags, Linux cooked captures (SLL, SLL2), loopback and raw IP;
//! IPv4 with options and IPv6 with extension headers. `etherparse` parses the headers. Fragments
//! are not reassembled: market data is sent in datagrams that fit a frame.

use core::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use weir_types::Nanos;

/// A link layer, by its number in the registry of LINKTYPE values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback: a family in the capturing machine's byte order, then IP.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// IP, version 4 or 6.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD loopback: a family, then IP.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux cooked capture.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// IP version 4.
    pub const IPV4: LinkType = LinkType(228);
    /// IP version 6.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux cooked capture, second version.
    pub const LINUX_SLL2: LinkType = LinkType(276);
}

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The capture time, since the Unix epoch; zero when the capture has none.
    pub ts_recv: Nanos,
    /// Its link layer.
    pub link: LinkType,
    /// The captured bytes.
    pub data: &'a [u8],
    /// The length of the original frame.
    pub original_len: u32,
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The receive time, since the Unix epoch; zero when unknown.
    pub ts_recv: Nanos,
    /// The sender.
    pub src: SocketAddr,
    /// The destination: for multicast the group.
    pub dst: SocketAddr,
    /// The payload.
    pub payload: &'a [u8],
}

/// The reason a frame yields no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The link layer is not supported.
    #[error("link layer {0:?} is not read")]
    Link(LinkType),
    /// The frame is not UDP.
    #[error("not UDP")]
    NotUdp,
    /// The frame holds a fragment of a datagram.
    #[error("a fragment")]
    Fragment,
    /// The capture kept less than the datagram.
    #[error("the capture kept {kept} of a datagram's {len} bytes")]
    Cut {
        /// Bytes of the payload captured.
        kept: usize,
        /// Bytes of the payload on the wire.
        len: usize,
    },
    /// A header is malformed.
    #[error("a damaged header")]
    Damaged,
}

/// Returns the datagram in a frame.
///
/// # Errors
/// [`FrameError`]: the frame holds no datagram, or not all of one.
pub fn datagram<'a>(frame: &Frame<'a>) -> Result<Datagram<'a>, FrameError> {
    let packet = slice(frame)?;
    let payload = packet.net.as_ref().and_then(LaxNetSlice::ip_payload_ref);
    if payload.is_some_and(|payload| payload.fragmented) {
        return Err(FrameError::Fragment);
    }
    let Some(TransportSlice::Udp(udp)) = &packet.transport else {
        let is_damaged = packet.stop_err.is_some();
        return Err(if is_damaged { FrameError::Damaged } else { FrameError::NotUdp });
    };
    let (kept, len) = (udp.payload().len(), usize::from(udp.length()).saturating_sub(8));
    if kept < len {
        return Err(FrameError::Cut { kept, len });
    }
    let (src, dst): (IpAddr, IpAddr) = match packet.net.as_ref() {
        Some(LaxNetSlice::Ipv4(ip)) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        _ => return Err(FrameError::NotUdp),
    };
    Ok(Datagram {
        ts_recv: frame.ts_recv,
        src: SocketAddr::new(src, udp.source_port()),
        dst: SocketAddr::new(dst, udp.destination_port()),
        payload: udp.payload(),
    })
}

fn slice<'a>(frame: &Frame<'a>) -> Result<LaxSlicedPacket<'a>, FrameError> {
    let data = frame.data;
    let ip = |data| LaxSlicedPacket::from_ip(data).map_err(|_| FrameError::Damaged);
    // The two bytes of the protocol are at `at`, its payload begins at `from`.
    let cooked = |at: usize, from: usize| {
        let protocol = data.get(at..at + 2).zip(data.get(from..)).ok_or(FrameError::Damaged)?;
        let ether_type = u16::from_be_bytes([protocol.0[0], protocol.0[1]]);
        Ok(LaxSlicedPacket::from_ether_type(EtherType(ether_type), protocol.1))
    };
    match frame.link {
        LinkType::ETHERNET => LaxSlicedPacket::from_ethernet(data).map_err(|_| FrameError::Damaged),
        LinkType::LINUX_SLL => cooked(14, 16),
        LinkType::LINUX_SLL2 => cooked(0, 20),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => ip(data),
        LinkType::NULL | LinkType::LOOP => ip(data.get(4..).ok_or(FrameError::Damaged)?),
        link => Err(FrameError::Link(link)),
    }
}
