//! The pcap writer, with nanosecond time stamps: Ethernet, IP and UDP headers are rebuilt.
//!
//! Format: the libpcap file format 2.4, magic number 0xa1b23c4d, little-endian. The destination's
//! link address is derived from a multicast group; other link addresses are zero, because a socket
//! does not report them.

use core::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, Ipv4Header, Ipv6Header, UdpHeader};

use super::Datagram;

const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
const NANOS: u64 = 1_000_000_000;
/// The longest frame that a reader must expect: a datagram with all its headers.
const SNAP_LEN: u32 = 1 << 17;
const LINK_ETHERNET: u32 = 1;
const TIME_TO_LIVE: u8 = 1;
const ETHER_TYPE_IPV4: u16 = 0x0800;
const ETHER_TYPE_IPV6: u16 = 0x86dd;

/// The reason a datagram cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The payload is too long for a UDP datagram.
    #[error("a datagram of {len} bytes")]
    TooLong {
        /// The payload's length in bytes.
        len: usize,
    },
    /// Source and destination are of different IP versions.
    #[error("from {src} to {dst}, which are of two versions of IP")]
    Versions {
        /// The source.
        src: SocketAddr,
        /// The destination.
        dst: SocketAddr,
    },
    /// The time exceeds the format's 32 bits of seconds.
    #[error("{seconds} seconds are more than a capture's 32 bits")]
    Time {
        /// The time in seconds since the Unix epoch.
        seconds: u64,
    },
}

/// Appends the header of a file.
pub fn put_file_header(out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC_NANOS.to_le_bytes());
    out.extend_from_slice(&2_u16.to_le_bytes());
    out.extend_from_slice(&4_u16.to_le_bytes());
    for word in [0, 0, SNAP_LEN, LINK_ETHERNET] {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Appends a datagram.
///
/// # Errors
/// Returns [`WriteError`], and appends nothing.
pub fn put_datagram(out: &mut Vec<u8>, datagram: &Datagram<'_>) -> Result<(), WriteError> {
    let start = out.len();
    let written = put(out, datagram);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn put(out: &mut Vec<u8>, datagram: &Datagram<'_>) -> Result<(), WriteError> {
    let &Datagram { ts_recv, src, dst, payload } = datagram;
    let (seconds, nanos) = (ts_recv.0 / NANOS, ts_recv.0 % NANOS);
    let seconds = u32::try_from(seconds).map_err(|_| WriteError::Time { seconds })?;
    let head_at = out.len();
    out.extend_from_slice(&seconds.to_le_bytes());
    out.extend_from_slice(&(nanos as u32).to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    let frame_len = put_frame(out, src, dst, payload)?;
    out[head_at + 8..head_at + 12].copy_from_slice(&frame_len.to_le_bytes());
    out[head_at + 12..head_at + 16].copy_from_slice(&frame_len.to_le_bytes());
    Ok(())
}

/// Appends a datagram's frame and returns its length; on an error, part of the frame may remain.
pub(super) fn put_frame(
    out: &mut Vec<u8>,
    src: SocketAddr,
    dst: SocketAddr,
    payload: &[u8],
) -> Result<u32, WriteError> {
    let too_long = WriteError::TooLong { len: payload.len() };
    let udp_len = u16::try_from(payload.len() + UdpHeader::LEN).map_err(|_| too_long)?;
    let frame_at = out.len();
    put_ethernet(out, dst.ip());
    let (from, to) = (src.port(), dst.port());
    let udp = match (src.ip(), dst.ip()) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let (source, target) = (source.octets(), target.octets());
            let header = Ipv4Header::new(udp_len, TIME_TO_LIVE, IpNumber::UDP, source, target);
            let mut header = header.map_err(|_| too_long)?;
            header.header_checksum = header.calc_header_checksum();
            out.extend_from_slice(&header.to_bytes());
            UdpHeader::with_ipv4_checksum(from, to, &header, payload)
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let header = Ipv6Header {
                payload_length: udp_len,
                next_header: IpNumber::UDP,
                hop_limit: TIME_TO_LIVE,
                source: source.octets(),
                destination: target.octets(),
                ..Ipv6Header::default()
            };
            out.extend_from_slice(&header.to_bytes());
            UdpHeader::with_ipv6_checksum(from, to, &header, payload)
        }
        _ => return Err(WriteError::Versions { src, dst }),
    };
    out.extend_from_slice(&udp.map_err(|_| too_long)?.to_bytes());
    out.extend_from_slice(payload);
    u32::try_from(out.len() - frame_at).map_err(|_| too_long)
}

/// Appends the Ethernet header; a multicast group maps to a link address (RFC 1112, RFC 2464).
fn put_ethernet(out: &mut Vec<u8>, target: IpAddr) {
    let (address, ether_type) = match target {
        IpAddr::V4(group) if group.is_multicast() => {
            let [_, b, c, d] = group.octets();
            ([0x01, 0x00, 0x5e, b & 0x7f, c, d], ETHER_TYPE_IPV4)
        }
        IpAddr::V4(_) => ([0; 6], ETHER_TYPE_IPV4),
        IpAddr::V6(group) if group.is_multicast() => {
            let [.., a, b, c, d] = group.octets();
            ([0x33, 0x33, a, b, c, d], ETHER_TYPE_IPV6)
        }
        IpAddr::V6(_) => ([0; 6], ETHER_TYPE_IPV6),
    };
    out.extend_from_slice(&address);
    out.extend_from_slice(&[0; 6]);
    out.extend_from_slice(&ether_type.to_be_bytes());
}
