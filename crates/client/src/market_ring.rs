//! Market data of a gateway on the same machine, from its ring in shared memory.
//!
//! [`MarketRing`] reads the subscriptions of the gateway's section `[market_gateway.shm]`: the same
//! messages as over a socket, with session zero and, as handle, the index of the subscription in
//! the configuration. It only reads: a reader that stops or dies does not affect the gateway. It
//! never waits and starts no thread; the caller chooses how to wait.
//!
//! After opening the ring and after a loss it requests snapshots: each instrument's state then
//! comes with the flag SNAPSHOT among the messages to all readers. Until then its known state may
//! be old, and changes of its orders cannot be applied. Snapshots requested by other readers come
//! too and are valid as well.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_shm::{Read, Reader, ShmError};
use weir_types::InstrumentId;
use weir_wire::DecodeError;
use weir_wire::frame::{Framing, next_frame};
use weir_wire::market_dialogue::MarketMessage;

use crate::market::Instrument;

/// The datagram that requests snapshots.
pub const ASK: [u8; 8] = *b"WEIRSNAP";
/// The interval at which it checks for a live gateway when nothing comes.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the path of the socket for snapshot requests of the ring at this path.
#[must_use]
pub fn asks_at(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".ask");
    PathBuf::from(name)
}

/// The reason why the ring is not read.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The ring does not open.
    #[error(transparent)]
    Open(#[from] ShmError),
    /// Snapshots cannot be requested.
    #[error("snapshots cannot be asked for: {0}")]
    Ask(io::Error),
    /// The ring holds data that no gateway writes.
    #[error("the ring holds what no gateway writes")]
    Broken,
    /// A message does not decode.
    #[error(transparent)]
    Message(#[from] DecodeError),
}

/// An event of a ring.
#[derive(Debug)]
pub enum RingEvent<'a> {
    /// A gateway's ring is open; all state of an earlier one is void.
    Opened,
    /// A message.
    Message(&'a MarketMessage<'a>),
    /// Messages were overwritten before they were read: the state is old until the requested
    /// snapshots come. [`MarketRing::lost`] has the number once the next message is read.
    Lost,
    /// The gateway is gone; the ring of its successor is awaited.
    Closed,
}

/// A reader of one ring, across losses and the gateway's restarts.
#[derive(Debug)]
pub struct MarketRing {
    path: PathBuf,
    asks_at: PathBuf,
    reader: Option<Reader>,
    record: Vec<u8>,
    must_ask: bool,
    /// True when the writer is gone: only messages written before are left.
    is_gone: bool,
    next_look: Option<Instant>,
    failure: Option<RingError>,
    lost_before: u64,
    instruments: HashMap<InstrumentId, Instrument>,
}

impl MarketRing {
    /// Creates a reader of the ring at this path, which need not exist yet.
    #[must_use]
    pub fn new(path: &Path) -> MarketRing {
        MarketRing {
            path: path.to_owned(),
            asks_at: asks_at(path),
            reader: None,
            record: Vec::new(),
            must_ask: false,
            is_gone: false,
            next_look: None,
            failure: None,
            lost_before: 0,
            instruments: HashMap::new(),
        }
    }

    /// Returns the error that closed the ring or prevented opening or requests; each is returned
    /// once.
    pub fn take_failure(&mut self) -> Option<RingError> {
        self.failure.take()
    }

    /// The number of lost messages, as far as known.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_before + self.reader.as_ref().map_or(0, Reader::lost)
    }

    /// Returns an instrument that a message has named.
    #[must_use]
    pub fn instrument(&self, id: InstrumentId) -> Option<&Instrument> {
        self.instruments.get(&id)
    }

    /// Passes up to `max` available messages to `sink`; returns their number. Never waits.
    pub fn poll(&mut self, max: usize, mut sink: impl FnMut(RingEvent<'_>)) -> usize {
        let mut count = 0;
        while count < max {
            let Some(reader) = &mut self.reader else {
                if !self.open() {
                    return count;
                }
                sink(RingEvent::Opened);
                continue;
            };
            match reader.read(&mut self.record) {
                Read::Record(_) => match self.tell(&mut sink) {
                    Ok(()) => count += 1,
                    Err(error) => self.close(Some(error), &mut sink),
                },
                Read::Lost => {
                    self.must_ask = true;
                    self.next_look = None;
                    sink(RingEvent::Lost);
                }
                Read::Broken => self.close(Some(RingError::Broken), &mut sink),
                // The messages written before the writer ended have been read.
                Read::Nothing if self.is_gone => self.close(None, &mut sink),
                Read::Nothing if self.is_time() => {
                    self.is_gone = !self.reader.as_ref().is_some_and(Reader::has_writer);
                    if !self.is_gone {
                        self.ask();
                        return count;
                    }
                }
                Read::Nothing => return count,
            }
        }
        count
    }

    /// Returns true when the next check is due.
    fn is_time(&mut self) -> bool {
        let now = Instant::now();
        let is_time = self.next_look.is_none_or(|at| now >= at);
        if is_time {
            self.next_look = Some(now + LOOK_INTERVAL);
        }
        is_time
    }

    fn open(&mut self) -> bool {
        if !self.is_time() {
            return false;
        }
        match Reader::open(&self.path) {
            // A gateway that died left the ring; its successor is awaited.
            Ok(reader) if !reader.has_writer() => false,
            Ok(reader) => {
                self.reader = Some(reader);
                self.is_gone = false;
                self.must_ask = true;
                self.instruments.clear();
                self.ask();
                true
            }
            Err(error) => {
                self.failure = Some(error.into());
                false
            }
        }
    }

    fn close(&mut self, failure: Option<RingError>, sink: &mut impl FnMut(RingEvent<'_>)) {
        self.lost_before = self.lost();
        self.reader = None;
        self.failure = failure.or(self.failure.take());
        sink(RingEvent::Closed);
    }

    /// Requests snapshots, if they are needed.
    fn ask(&mut self) {
        if !self.must_ask {
            return;
        }
        let asked = UnixDatagram::unbound().and_then(|socket| {
            // A request without room at the gateway is repeated.
            socket.set_nonblocking(true)?;
            socket.send_to(&ASK, &self.asks_at)
        });
        match asked {
            Ok(_) => self.must_ask = false,
            Err(error) => self.failure = Some(RingError::Ask(error)),
        }
    }

    fn tell(&mut self, sink: &mut impl FnMut(RingEvent<'_>)) -> Result<(), RingError> {
        let Framing::Frame { message, .. } = next_frame(&self.record, usize::MAX) else {
            return Err(RingError::Broken);
        };
        let raw = message?;
        let message = MarketMessage::decode(&raw).ok_or(RingError::Broken)??;
        if let MarketMessage::Instrument(message, symbol) = &message {
            let instrument = Instrument::of(message, symbol);
            self.instruments.insert(message.instrument_id, instrument);
        }
        sink(RingEvent::Message(&message));
        Ok(())
    }
}
