//! TLS over a stream that never blocks: bytes in, bytes out, both bounded.
//!
//! A link holds records, not a socket; each call is lent the stream. It reads once a call, however
//! many records that brings, and writes until the stream takes no more. What it holds at most: the
//! records of [`UNSENT_MAX`] bytes going out, one record coming in, 16 KiB taken out of records and
//! what one read brought beyond that.
//!
//! An end without the protocol's own farewell is [`LinkError::Truncated`]: somebody may have cut
//! the connection, so it is lost, not closed.

use std::io::{self, ErrorKind, Read, Write};

use rustls::Connection;

/// The most bytes that are in records and not yet taken by the stream.
pub const UNSENT_MAX: usize = 32 * 1024;
/// A good length of the buffer that a link reads the stream with.
pub const SCRATCH_LEN: usize = 32 * 1024;

/// Why a link cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The peer said that nothing more comes.
    #[error("the peer closed the connection")]
    Closed,
    /// The stream ended without the peer's farewell.
    #[error("the connection was cut")]
    Truncated,
    /// The stream failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What came is not what the protocol wants; or the other side says so.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of the peer's.
    pub len: usize,
    /// Whether another read may give more without waiting for the stream.
    pub more: bool,
    /// Whether the stream gave anything.
    pub moved: bool,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes put into records. They count as unsent until the stream has all of them.
    pub len: usize,
    /// Whether the stream took something.
    pub moved: bool,
    /// Whether the stream takes nothing more now.
    pub blocked: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Link {
    tls: Connection,
    /// Read from the stream and not yet given to `tls`: only where the caller had no room.
    unfed: Vec<u8>,
    /// Bytes in records that the stream has not taken in whole.
    unsent_len: usize,
    /// What ended the link, once what came before it is taken.
    end: Option<LinkError>,
    /// Whether the peer has said that nothing more comes.
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

    /// Whether the two ends have not agreed yet.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Bytes handed to [`Link::write`] that the stream may not have yet; at least 1 while any
    /// record waits.
    #[must_use]
    pub fn unsent_len(&self) -> usize {
        if self.tls.wants_write() { self.unsent_len.max(1) } else { 0 }
    }

    /// Takes what the peer said into `into`, after at most one read of the stream with `scratch`.
    ///
    /// # Errors
    /// [`LinkError`], once all that came before it was taken.
    pub fn read(
        &mut self,
        stream: &mut impl Read,
        into: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<Taken, LinkError> {
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
        Ok(Taken { len, more, moved })
    }

    /// Gives bytes of the stream to rustls and takes what they hold; what finds no room waits.
    fn feed(&mut self, mut bytes: &[u8], into: &mut [u8]) -> usize {
        let mut len = 0;
        while !bytes.is_empty() && self.end.is_none() && !self.peer_closed {
            if self.tls.read_tls(&mut bytes).is_err() {
                // 16 KiB of the peer's are out of their records already: no room.
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

    /// Takes what records held.
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

    /// Puts bytes into records and the records on the stream, until it takes no more.
    ///
    /// # Errors
    /// The stream's.
    pub fn write(&mut self, stream: &mut impl Write, from: &[u8]) -> io::Result<Written> {
        let mut written = Written { len: 0, moved: false, blocked: false };
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

    /// Says farewell, once; [`Link::write`] sends it.
    pub fn say_farewell(&mut self) {
        if !std::mem::replace(&mut self.farewell_said, true) {
            self.tls.send_close_notify();
        }
    }

    /// Takes the handshake as far as the stream allows; true when it is done. Bytes of the peer's
    /// that came behind it are kept for [`Link::read`].
    ///
    /// # Errors
    /// [`LinkError`]; what is to be told to the peer is sent as far as the stream takes it.
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
                    // The alert that says why; a peer that does not take it goes without.
                    let _ = self.write(stream, &[]);
                    return Err(error);
                }
            }
        }
    }
}
