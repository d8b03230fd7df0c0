//! Asks a venue's server for messages again: MoldUDP64 requests, answered on the same socket.

use std::io;
use std::net::{SocketAddrV4, UdpSocket};

use weir_feed::moldudp64::{Request, Session};

use super::counts::RequestCounts;
use super::super::udp::BatchReceiver;

/// The socket that asks and is answered.
#[derive(Debug)]
pub(super) struct Requester {
    pub receiver: BatchReceiver,
    pub counts: RequestCounts,
}

impl Requester {
    /// Asks this server; nobody else's answers are taken.
    pub fn open(server: SocketAddrV4) -> io::Result<Requester> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        let receiver = BatchReceiver::of(socket)?;
        Ok(Requester { receiver, counts: RequestCounts::default() })
    }

    /// Sends a request. What the system does not take is as good as lost: it is asked for again.
    pub fn ask(&mut self, session: Session, sequence: u64, count: u16) {
        let request = Request { session, sequence, count }.to_bytes();
        match self.receiver.socket().send(&request) {
            Ok(_) => self.counts.sent += 1,
            Err(_) => self.counts.unsent += 1,
        }
    }
}
