//! UDP sockets, multicast and unicast, that receive and send datagrams.

mod batch;
mod plain;

pub use batch::{BATCH_MAX, BatchReceiver};
pub use plain::PlainReceiver;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};

/// The longest datagram that UDP over IPv4 carries, in bytes.
pub const DATAGRAM_LEN_MAX: usize = 65_507;

/// The parameters of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// A multicast group to join, or an address of this machine; port zero: any.
    pub address: SocketAddrV4,
    /// The local interface on which to join a group; unspecified: the system's choice.
    pub interface: Ipv4Addr,
    /// The size of the kernel's receive buffer in bytes, as far as the system allows.
    pub receive_buffer: usize,
    /// The time that a receiver waits for a datagram; `None`: it never waits.
    pub wait: Option<Duration>,
}

/// Opens a listening socket. Several may listen to one group and port, and each gets all datagrams.
///
/// # Errors
/// An I/O error of the operating system: `AddrInUse` if another socket has a unicast address.
pub fn listen(listen: &Listen) -> io::Result<UdpSocket> {
    let socket = bound(listen)?;
    if listen.address.ip().is_multicast() {
        socket.join_multicast_v4(listen.address.ip(), &listen.interface)?;
    }
    Ok(socket)
}

/// Opens a socket that receives a multicast group's datagrams from one sender only.
///
/// # Errors
/// An I/O error of the operating system.
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
    // Of two sockets on one address of this machine, one would get all: the second is refused.
    sockopt::set_socket_reuseaddr(&socket, listen.address.ip().is_multicast())?;
    // Exceeding the system's limit takes a privilege; without it, the limit applies.
    if sockopt::set_socket_recv_buffer_size_force(&socket, listen.receive_buffer).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, listen.receive_buffer)?;
    }
    // Binding to the group keeps out other groups on the same port.
    bind(&socket, &SocketAddr::V4(listen.address))?;
    let socket = UdpSocket::from(socket);
    match listen.wait {
        Some(wait) => socket.set_read_timeout(Some(wait))?,
        None => socket.set_nonblocking(true)?,
    }
    Ok(socket)
}

/// Opens a socket that sends to multicast groups from one of this machine's addresses, or to any
/// unicast address. `hops` is the number of routers that a datagram to a group may cross.
///
/// # Errors
/// An I/O error of the operating system.
pub fn sender(interface: Ipv4Addr, hops: u32) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddrV4::new(interface, 0))?;
    sockopt::set_ip_multicast_if(&socket, &interface)?;
    sockopt::set_ip_multicast_ttl(&socket, hops)?;
    socket.set_multicast_loop_v4(true)?;
    Ok(socket)
}

/// Returns true for the error of a receive call that found no datagram.
fn is_nothing(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;
