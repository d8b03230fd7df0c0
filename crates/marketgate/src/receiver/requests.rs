//! Requests lost messages from a venue's server: MoldUDP64 requests, answered on the same socket.

use std::io;
use std::net::{SocketAddrV4, UdpSocket};

use weir_feed::moldudp64::{MoldSession, Request};

use super::super::udp::BatchReceiver;
use super::counts::RequestCounts;

/// The socket for requests and their answers.
#[derive(Debug)]
pub(super) struct Requester {
    pub receiver: BatchReceiver,
    pub counts: RequestCounts,
}

impl Requester {
    /// Opens a socket connected to `server`; datagrams of other senders are not received.
    pub fn open(server: SocketAddrV4) -> io::Result<Requester> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        let receiver = BatchReceiver::of(socket)?;
        Ok(Requester { receiver, counts: RequestCounts::default() })
    }

    /// Sends a request. One that the system does not accept counts as lost and is repeated.
    pub fn ask(&mut self, session: MoldSession, sequence: u64, count: u16) {
        let request = Request { session, sequence, count }.to_bytes();
        match self.receiver.socket().send(&request) {
            Ok(_) => self.counts.sent += 1,
            Err(_) => self.counts.unsent += 1,
        }
    }
}
