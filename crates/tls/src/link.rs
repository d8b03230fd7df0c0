//! TLS over a non-blocking stream, with bounded buffers.
//!
//! A link holds records, not a socket; each call borrows the stream. A read call reads the stream
//! once, however many records that yields; a write call writes until the stream would block. A link
//! buffers at most [`UNSENT_MAX`] bytes in outgoing records, one incoming record, 16 KiB of
//! decrypted bytes and the remainder of one read.
//!
//! A stream that ends without TLS's close_notify is [`LinkError::Truncated`]: the connection may
//! have been cut by an attacker, so it counts as lost, not closed.

use std::io::{self, ErrorKind, Read, Write};

use rustls::Connection;

/// The most bytes in records that the stream has not accepted yet.
pub const UNSENT_MAX: usize = 32 * 1024;
/// The recommended length of the buffer with which a link reads the stream.
pub const SCRATCH_LEN: usize = 32 * 1024;

/// The reason why a link ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The peer sent close_notify.
    #[error("the peer closed the connection")]
    Closed,
    /// The stream ended without close_notify.
    #[error("the connection was cut")]
    Truncated,
    /// The stream failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer violated the protocol, or sent an alert.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOutcome {
    /// The number of decrypted bytes.
    pub len: usize,
    /// True if another read may yield more without waiting for the stream.
    pub more: bool,
    /// True if the stream yielded any bytes.
    pub moved: bool,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The number of bytes put into records. They count as unsent until the stream has accepted all
    /// of them.
    pub len: usize,
    /// True if the stream accepted any bytes.
    pub moved: bool,
    /// True if the stream would block.
    pub blocked: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Link {
    tls: Connection,
    /// Bytes read from the stream and not yet passed to `tls`; used only when the caller had no
    /// room.
    unfed: Vec<u8>,
    /// The number of bytes in records that the stream has not accepted in full.
    unsent_len: usize,
    /// The error that ended the link, returned once all bytes before it are read.
    end: Option<LinkError>,
    /// True once the peer has sent close_notify.
    peer_closed: bool,
    farewell_said: bool,
}

impl Link {
    pub(crate) fn new(mut tls: Connection) -> Link {
        tls.set_buffer_limit(Some(UNSENT_MAX));
        Link {
            tls,
            unfed: Vec::new(),
            unsent_len: 0,
            end: None,
            peer_closed: false,
            farewell_said: false,
        }
    }

    /// True until the handshake is complete.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// The number of bytes passed to [`Link::write`] that the stream may not have accepted; at
    /// least 1 while any record is unsent.
    #[must_use]
    pub fn unsent_len(&self) -> usize {
        if self.tls.wants_write() { self.unsent_len.max(1) } else { 0 }
    }

    /// Decrypts the peer's bytes into `into`, after at most one read of the stream with `scratch`.
    ///
    /// # Errors
    /// [`LinkError`], once all bytes before it are read.
    pub fn read(
        &mut self,
        stream: &mut impl Read,
        into: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<ReadOutcome, LinkError> {
        let mut len = self.take(into);
        let unfed = std::mem::take(&mut self.unfed);
        len += self.feed(&unfed, &mut into[len..]);
        let (mut more, mut moved) = (true, false);
        let has_room = len < into.len() || self.tls.is_handshaking();
        if has_room && self.end.is_none() && !self.peer_closed {
            match stream.read(scratch) {
                Ok(0) => self.end = Some(LinkError::Truncated),
                Ok(read) => {
                    len += self.feed(&scratch[..read], &mut into[len..]);
                    more = read == scratch.len() || len == into.len();
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => more = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.end = Some(LinkError::Io(error)),
            }
        }
        if self.peer_closed && len < into.len() {
            self.end.get_or_insert(LinkError::Closed);
        }
        if len == 0
            && let Some(end) = self.end.take()
        {
            return Err(end);
        }
        let more = more || self.end.is_some() || self.peer_closed;
        Ok(ReadOutcome { len, more, moved })
    }

    /// Passes bytes of the stream to rustls and decrypts them; bytes without room are kept.
    fn feed(&mut self, mut bytes: &[u8], into: &mut [u8]) -> usize {
        let mut len = 0;
        while !bytes.is_empty() && self.end.is_none() && !self.peer_closed {
            if self.tls.read_tls(&mut bytes).is_err() {
                // rustls already holds 16 KiB of decrypted bytes: no room.
                self.unfed = bytes.to_vec();
                break;
            }
            match self.tls.process_new_packets() {
                Ok(state) => self.peer_closed = state.peer_has_closed(),
                Err(error) => self.end = Some(LinkError::Tls(error)),
            }
            len += self.take(&mut into[len..]);
        }
        len
    }

    /// Copies decrypted bytes to `into`.
    fn take(&mut self, into: &mut [u8]) -> usize {
        let mut len = 0;
        while len < into.len() {
            match self.tls.reader().read(&mut into[len..]) {
                Ok(0) | Err(_) => break,
                Ok(read) => len += read,
            }
        }
        len
    }

    /// Encrypts bytes into records and writes the records until the stream would block.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write(&mut self, stream: &mut impl Write, from: &[u8]) -> io::Result<WriteOutcome> {
        let mut written = WriteOutcome { len: 0, moved: false, blocked: false };
        loop {
            while self.tls.wants_write() {
                match self.tls.write_tls(stream) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(_) => written.moved = true,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        written.blocked = true;
                        return Ok(written);
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.unsent_len = 0;
            if written.len == from.len() {
                return Ok(written);
            }
            let len = self.tls.writer().write(&from[written.len..])?;
            assert!(len > 0, "an empty buffer of records takes something");
            self.unsent_len = len;
            written.len += len;
        }
    }

    /// Queues close_notify, once; [`Link::write`] sends it.
    pub fn say_farewell(&mut self) {
        if !std::mem::replace(&mut self.farewell_said, true) {
            self.tls.send_close_notify();
        }
    }

    /// Advances the handshake as far as the stream allows; returns true when it is done. Bytes of
    /// the peer behind the handshake are kept for [`Link::read`].
    ///
    /// # Errors
    /// [`LinkError`]; the alert for the peer is sent as far as the stream accepts it.
    pub fn handshake(
        &mut self,
        stream: &mut (impl Read + Write),
        scratch: &mut [u8],
    ) -> Result<bool, LinkError> {
        loop {
            self.write(stream, &[])?;
            if !self.tls.is_handshaking() {
                return Ok(self.unsent_len() == 0);
            }
            match self.read(stream, &mut [], scratch) {
                Ok(taken) if taken.moved || taken.more => {}
                Ok(_) => return Ok(false),
                Err(error) => {
                    // The alert with the reason; a peer that does not accept it closes without one.
                    let _ = self.write(stream, &[]);
                    return Err(error);
                }
            }
        }
    }
}
