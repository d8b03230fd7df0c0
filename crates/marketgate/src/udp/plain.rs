//! Receives one datagram per system call; its time stamp is taken when the call returns.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_feed::capture::Datagram;
use weir_types::Nanos;

use super::super::{Datagrams, ReceiveCounts};
use super::{DATAGRAM_LEN_MAX, Listen, is_nothing, listen};

/// Receives datagrams one at a time.
#[derive(Debug)]
pub struct PlainReceiver {
    socket: UdpSocket,
    dst: SocketAddr,
    buffer: Vec<u8>,
    counts: ReceiveCounts,
}

impl PlainReceiver {
    /// Opens a listening socket.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    pub fn open(to: &Listen) -> io::Result<PlainReceiver> {
        let socket = listen(to)?;
        let dst = socket.local_addr()?;
        let counts = ReceiveCounts::default();
        Ok(PlainReceiver { socket, dst, buffer: vec![0; DATAGRAM_LEN_MAX], counts })
    }

    /// The local address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.dst
    }
}

/// The current time of the system clock.
pub(super) fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

impl Datagrams for PlainReceiver {
    fn receive(&mut self, take: &mut dyn FnMut(&Datagram<'_>)) -> io::Result<usize> {
        let (len, src) = match self.socket.recv_from(&mut self.buffer) {
            Ok(received) => received,
            Err(error) if is_nothing(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        self.counts.calls += 1;
        self.counts.datagrams += 1;
        self.counts.bytes += len as u64;
        let payload = &self.buffer[..len];
        take(&Datagram { ts_recv: now(), src, dst: self.dst, payload });
        Ok(1)
    }

    fn counts(&self) -> ReceiveCounts {
        self.counts
    }
}
