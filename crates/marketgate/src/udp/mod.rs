//! Datagrams from UDP sockets, multicast and unicast.

mod batch;
mod plain;

pub use batch::{BATCH_MAX, BatchReceiver};
pub use plain::PlainReceiver;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};

/// The longest datagram that UDP over IPv4 carries.
pub const DATAGRAM_LEN_MAX: usize = 65_507;

/// What to listen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// A multicast group, which is joined, or an address of this machine; port zero: any.
    pub address: SocketAddrV4,
    /// By which of this machine's addresses a group is joined; unspecified: the system's choice.
    pub interface: Ipv4Addr,
    /// Bytes of the kernel's buffer, as far as the system allows.
    pub receive_buffer: usize,
    /// So long a receiver waits for a datagram; `None`: not at all.
    pub wait: Option<Duration>,
}

/// A socket that listens. Several may listen to one group and port, and each gets all.
///
/// # Errors
/// The system's.
pub fn listen(listen: &Listen) -> io::Result<UdpSocket> {
    let socket = bound(listen)?;
    if listen.address.ip().is_multicast() {
        socket.join_multicast_v4(listen.address.ip(), &listen.interface)?;
    }
    Ok(socket)
}

/// The same for what one sender sends to a multicast group: what others send to it stays away.
///
/// # Errors
/// The system's.
pub fn listen_to_source(listen: &Listen, source: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = bound(listen)?;
    let (group, interface) = (listen.address.ip(), &listen.interface);
    sockopt::set_ip_add_source_membership(&socket, group, interface, &source)?;
    Ok(socket)
}

fn bound(listen: &Listen) -> io::Result<UdpSocket> {
    let flags = SocketFlags::CLOEXEC;
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = socket_with(family, kind, flags, Some(ipproto::UDP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Beyond the system's limit only with a privilege; without it, up to the limit.
    if sockopt::set_socket_recv_buffer_size_force(&socket, listen.receive_buffer).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, listen.receive_buffer)?;
    }
    // Bound to the group, so that other groups on the same port stay away.
    bind(&socket, &SocketAddr::V4(listen.address))?;
    let socket = UdpSocket::from(socket);
    match listen.wait {
        Some(wait) => socket.set_read_timeout(Some(wait))?,
        None => socket.set_nonblocking(true)?,
    }
    Ok(socket)
}

/// A socket that sends to a group by one of this machine's addresses, or to anybody. `hops` is how
/// many routers a datagram to a group may cross.
///
/// # Errors
/// The system's.
pub fn sender(interface: Ipv4Addr, hops: u32) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddrV4::new(interface, 0))?;
    sockopt::set_ip_multicast_if(&socket, &interface)?;
    sockopt::set_ip_multicast_ttl(&socket, hops)?;
    socket.set_multicast_loop_v4(true)?;
    Ok(socket)
}

/// True for what a receiver gets that waited in vain.
fn is_nothing(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;
