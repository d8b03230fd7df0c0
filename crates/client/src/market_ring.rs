//! Market data of a gateway on the same machine, from its ring in shared memory.
//!
//! [`MarketRing`] reads what the gateway's section `[market.shm]` says: the same messages as over a
//! socket, with the session zero and as handle the place of the subscription in the configuration.
//! It reads and nothing else: a reader that stands still or dies is nothing to the gateway. It
//! never waits and starts no thread; how to wait is the caller's business.
//!
//! Who opens the ring, and who lost messages, has asked for snapshots: each instrument then comes
//! as it is now, with the flag SNAPSHOT, among what is told to all. Until then what is known of it
//! may be old, and changes of its orders have nothing to be applied to. Others' snapshots come too
//! and say nothing wrong.

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

/// The datagram that asks for snapshots.
pub const ASK: [u8; 8] = *b"WEIRSNAP";
/// How often it is looked whether there is a gateway, when nothing comes.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The socket that takes what asks for snapshots of the ring at this path.
#[must_use]
pub fn asks_at(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".ask");
    PathBuf::from(name)
}

/// Why the ring is not read.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// It does not open.
    #[error(transparent)]
    Open(#[from] ShmError),
    /// Snapshots cannot be asked for.
    #[error("snapshots cannot be asked for: {0}")]
    Ask(io::Error),
    /// It holds what no gateway writes.
    #[error("the ring holds what no gateway writes")]
    Broken,
    /// A message cannot be read.
    #[error(transparent)]
    Message(#[from] DecodeError),
}

/// What comes out of a ring.
#[derive(Debug)]
pub enum RingEvent<'a> {
    /// A gateway's ring is open, and all that is known of another's is void.
    Opened,
    /// A message.
    Message(&'a MarketMessage<'a>),
    /// Messages were written over before they were read: what is known is old until snapshots
    /// come, which were asked for. How many is in [`MarketRing::lost`] with the next message.
    Lost,
    /// The gateway is gone; its next one is looked for.
    Closed,
}

/// A reader of one ring, over losses and the gateway's restarts.
#[derive(Debug)]
pub struct MarketRing {
    path: PathBuf,
    asks_at: PathBuf,
    reader: Option<Reader>,
    record: Vec<u8>,
    must_ask: bool,
    /// The writer is gone: nothing comes but what it had written.
    is_gone: bool,
    next_look: Option<Instant>,
    failure: Option<RingError>,
    lost_before: u64,
    instruments: HashMap<InstrumentId, Instrument>,
}

impl MarketRing {
    /// A reader of the ring at this path, which may not be there yet.
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

    /// What closed the ring, or keeps it from being opened or asked; each is told once.
    pub fn take_failure(&mut self) -> Option<RingError> {
        self.failure.take()
    }

    /// Messages that were lost, as far as it is known.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_before + self.reader.as_ref().map_or(0, Reader::lost)
    }

    /// An instrument that a message named.
    #[must_use]
    pub fn instrument(&self, id: InstrumentId) -> Option<&Instrument> {
        self.instruments.get(&id)
    }

    /// Tells what is there, up to `max` messages, to `sink`; how many messages it was. Never waits.
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
                // What it wrote before it went is read.
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

    /// Whether to look after what is not read.
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
            // A gateway that died left it; its next one is waited for.
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

    /// Asks for snapshots, if it must.
    fn ask(&mut self) {
        if !self.must_ask {
            return;
        }
        let asked = UnixDatagram::unbound().and_then(|socket| {
            // A gateway that has no room for it is asked again.
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
