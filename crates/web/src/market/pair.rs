//! The HTTP side's end of a connection to a flush thread: frames of the binary protocol in both
//! directions.
//!
//! Its memory is bounded: it reads only while its caller takes the messages.

use std::io;
use std::time::Duration;

use tokio::io::{Interest, Ready};
use tokio::net::UnixStream;
use weir_types::{EventNo, Nanos, PartitionId, Reason, SessionId, Switch};
use weir_wire::Message as _;
use weir_wire::dialogue::{NodeMessage, put_logon};
use weir_wire::frame::{Framing, next_frame, put_frame};
use weir_wire::session::{ApiKey, Heartbeat, Logon, Logout};

/// The maximum interval between messages of each end, in milliseconds; then a heartbeat is sent.
const HEARTBEAT_MS: u32 = 60_000;
/// The time that the flush thread has to answer a logon.
const LOGON_TIME: Duration = Duration::from_secs(5);
/// The number of bytes read at once.
const READ_LEN: usize = 64 * 1024;
/// The longest frame from the gateway: a thousand orders.
const FRAME_LEN_MAX: usize = 64 * 1024;

/// A connection with a session.
#[derive(Debug)]
pub(super) struct Pair {
    stream: UnixStream,
    input: Vec<u8>,
    /// The number of consumed bytes of the input.
    consumed: usize,
    /// Frames for the flush thread.
    pub outgoing: Vec<u8>,
    session_id: SessionId,
}

impl Pair {
    /// Logs a session on. The stream must be non-blocking.
    ///
    /// # Errors
    /// The gateway's reason for a refusal; [`Reason::Overloaded`] when it has no room for the
    /// connection, or does not answer.
    pub async fn log_on(
        stream: std::os::unix::net::UnixStream,
        session_id: SessionId,
        api_key: ApiKey,
    ) -> Result<Pair, Reason> {
        let stream = UnixStream::from_std(stream).map_err(|_| Reason::Overloaded)?;
        let input = Vec::with_capacity(READ_LEN);
        let mut pair = Pair { stream, input, consumed: 0, outgoing: Vec::new(), session_id };
        let logon = Logon {
            api_key,
            session_id,
            heartbeat_interval_ms: HEARTBEAT_MS,
            cancel_on_disconnect: Switch::Off,
            takeover: Switch::Off,
        };
        put_logon(&logon, &[], &mut pair.outgoing);
        let answered = tokio::time::timeout(LOGON_TIME, pair.answer()).await;
        answered.unwrap_or(Err(Reason::Overloaded))?;
        Ok(pair)
    }

    async fn answer(&mut self) -> Result<(), Reason> {
        loop {
            let ready = self.ready().await.map_err(|_| Reason::Overloaded)?;
            self.move_bytes(ready).map_err(|_| Reason::Overloaded)?;
            match self.next() {
                None => {}
                Some(NodeMessage::LogonAck(..)) => return Ok(()),
                Some(NodeMessage::LogonReject(reject)) => return Err(reject.reason),
                Some(NodeMessage::Logout(logout)) => return Err(logout.reason),
                Some(_) => return Err(Reason::Overloaded),
            }
        }
    }

    /// Returns the session.
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// Waits until bytes can be moved. Cancel-safe.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn ready(&self) -> io::Result<Ready> {
        let wanted = match self.outgoing.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        self.stream.ready(wanted).await
    }

    /// Reads and writes once, as far as possible without blocking.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the other end is closed and all was read.
    pub fn move_bytes(&mut self, ready: Ready) -> io::Result<()> {
        if ready.is_writable() && !self.outgoing.is_empty() {
            match self.stream.try_write(&self.outgoing) {
                Ok(len) => drop(self.outgoing.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Messages from before the end are read first.
                Err(_) => self.outgoing.clear(),
            }
        }
        if ready.is_readable() || ready.is_read_closed() {
            self.input.drain(..std::mem::take(&mut self.consumed));
            self.input.reserve(READ_LEN);
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                // The reason for the end is the last message.
                Ok(_) if ready.is_read_closed() => self.read_rest(),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the next complete message.
    ///
    /// # Panics
    /// When it is not a flush thread's message.
    pub fn next(&mut self) -> Option<NodeMessage<'_>> {
        match next_frame(&self.input[self.consumed..], FRAME_LEN_MAX) {
            Framing::Incomplete => None,
            Framing::Frame { len, message: Ok(raw) } => {
                self.consumed += len;
                Some(NodeMessage::decode(&raw).expect("the flush thread's own message"))
            }
            other => panic!("the flush thread makes whole frames, not {other:?}"),
        }
    }

    /// Returns the reason of the session's end, if it is among the messages that were read.
    pub fn logout_reason(&self) -> Option<Reason> {
        let mut rest = &self.input[self.consumed..];
        while let Framing::Frame { len, message } = next_frame(rest, FRAME_LEN_MAX) {
            rest = &rest[len..];
            let logout = message.ok().filter(|raw| raw.template_id == Logout::TEMPLATE_ID);
            if let Some(logout) = logout.and_then(|raw| raw.decode::<Logout>().ok()) {
                return Some(logout.reason);
            }
        }
        None
    }

    /// Returns true once the other end is closed, whether or not all was read.
    pub async fn is_closed(&self) -> bool {
        tokio::select! {
            biased;
            ready = self.stream.ready(Interest::READABLE) => {
                ready.map_or(true, Ready::is_read_closed)
            }
            () = std::future::ready(()) => false,
        }
    }

    /// Reads the rest of what a closed other end has sent: no more than the system's buffer holds.
    pub fn read_rest(&mut self) {
        loop {
            self.input.reserve(READ_LEN);
            if !matches!(self.stream.try_read_buf(&mut self.input), Ok(1..)) {
                return;
            }
        }
    }

    /// Appends a heartbeat.
    pub fn keep_alive(&mut self, now: Nanos) {
        let heartbeat = Heartbeat {
            sending_time: now,
            high_water: EventNo::NONE,
            session_id: self.session_id,
            partition_id: PartitionId::NONE,
            load_permille: 0,
        };
        put_frame(&heartbeat, &mut self.outgoing);
    }
}
