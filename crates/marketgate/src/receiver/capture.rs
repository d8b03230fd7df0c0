//! A capture or a day file as the source, at its own pace, a multiple of it, or as fast as
//! possible.

use std::net::SocketAddr;
use std::time::Duration;

use weir_feed::capture::Datagram;
use weir_types::Nanos;

use super::super::capture::{CaptureFile, FileCheck, FileProblem, Item};
use super::counts::CaptureCounts;
use crate::capture::{Pace, Speed};

/// The maximum number of items of one poll.
const ITEMS_MAX: usize = 64;

/// An item of a file, as passed on.
#[derive(Clone, Copy, Debug)]
pub(super) enum CaptureStep<'a> {
    Datagram(Datagram<'a>),
    /// A message of a day file, its time, and its sequence number.
    Message {
        ts_event: Nanos,
        message: &'a [u8],
        sequence: u64,
    },
}

/// The item that waits until it is due.
#[derive(Debug, Default)]
struct Waiting {
    is_there: bool,
    due: Nanos,
    ts: Nanos,
    /// Source and destination; `None` for a message of a day file.
    ends: Option<(SocketAddr, SocketAddr)>,
    bytes: Vec<u8>,
}

/// Reads a file at its pace.
#[derive(Debug)]
pub(super) struct Capture {
    file: CaptureFile,
    check: FileCheck,
    pace: Pace,
    start: Option<Nanos>,
    waiting: Waiting,
    pub is_over: bool,
    /// The reason the file was not read to its end, or is not of the feed.
    pub problem: Option<FileProblem>,
    pub counts: CaptureCounts,
}

impl Capture {
    pub fn new(file: CaptureFile, check: FileCheck, speed: Speed) -> Capture {
        Capture {
            file,
            check,
            pace: Pace::new(speed),
            start: None,
            waiting: Waiting::default(),
            is_over: false,
            problem: None,
            counts: CaptureCounts::default(),
        }
    }

    /// Passes on the items that are due, up to a limit; returns their number.
    pub fn poll(&mut self, now: Nanos, take: &mut dyn FnMut(&CaptureStep<'_>)) -> usize {
        let start = *self.start.get_or_insert(now);
        let mut done = 0;
        while done < ITEMS_MAX {
            if self.waiting.is_there {
                if self.waiting.due > now {
                    break;
                }
                self.waiting.is_there = false;
                hand_on(&self.waiting.taken(&self.counts), &mut self.counts, take);
                done += 1;
            }
            if self.is_over {
                break;
            }
            done += self.read(start, now, take);
        }
        done
    }

    /// Reads one item, which is passed on or kept until due; returns the number passed on.
    fn read(&mut self, start: Nanos, now: Nanos, take: &mut dyn FnMut(&CaptureStep<'_>)) -> usize {
        let Capture { file, check, pace, waiting, counts, .. } = self;
        let mut done = 0;
        let more = file.next(&mut |item| {
            let (taken, ts) = match item {
                Item::Datagram(datagram) => {
                    check.datagram(datagram.payload);
                    (CaptureStep::Datagram(*datagram), datagram.ts_recv)
                }
                Item::Message { ts_event, message } => {
                    let (ts_event, sequence) = (*ts_event, counts.messages + 1);
                    (CaptureStep::Message { ts_event, message, sequence }, ts_event)
                }
                // A symbol mapping is numbered as a message, like the records that need it.
                Item::Name { ts_event, message } => {
                    let (ts_event, sequence) = (*ts_event, counts.messages + 1);
                    (CaptureStep::Message { ts_event, message, sequence }, ts_event)
                }
                Item::Other(_) => return,
            };
            let due = pace.due(ts).map_or(Nanos(0), |due| later(start, due));
            if due > now {
                waiting.keep(&taken, due);
            } else {
                hand_on(&taken, counts, take);
                done = 1;
            }
        });
        match more {
            Ok(true) => {}
            Ok(false) => (self.is_over, self.problem) = (true, self.check.verdict().err()),
            Err(error) => (self.is_over, self.problem) = (true, Some(error.into())),
        }
        done
    }

    /// The time at which the next item is due.
    pub fn deadline(&self) -> Option<Nanos> {
        match (self.waiting.is_there, self.is_over) {
            (true, _) => Some(self.waiting.due),
            (false, true) => None,
            (false, false) => Some(Nanos(0)),
        }
    }

    /// Returns true when all items were passed on.
    pub fn is_done(&self) -> bool {
        self.is_over && !self.waiting.is_there
    }
}

fn hand_on(
    taken: &CaptureStep<'_>,
    counts: &mut CaptureCounts,
    take: &mut dyn FnMut(&CaptureStep<'_>),
) {
    match taken {
        CaptureStep::Datagram(_) => counts.datagrams += 1,
        CaptureStep::Message { .. } => counts.messages += 1,
    }
    take(taken);
}

fn later(start: Nanos, span: Duration) -> Nanos {
    Nanos(start.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}

impl Waiting {
    fn keep(&mut self, taken: &CaptureStep<'_>, due: Nanos) {
        let (ts, ends, bytes) = match taken {
            CaptureStep::Datagram(Datagram { ts_recv, src, dst, payload }) => {
                (*ts_recv, Some((*src, *dst)), *payload)
            }
            CaptureStep::Message { ts_event, message, .. } => (*ts_event, None, *message),
        };
        (self.is_there, self.due, self.ts, self.ends) = (true, due, ts, ends);
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    fn taken(&self, counts: &CaptureCounts) -> CaptureStep<'_> {
        match self.ends {
            Some((src, dst)) => {
                let (ts_recv, payload) = (self.ts, self.bytes.as_slice());
                CaptureStep::Datagram(Datagram { ts_recv, src, dst, payload })
            }
            None => {
                let (ts_event, sequence) = (self.ts, counts.messages + 1);
                CaptureStep::Message { ts_event, message: &self.bytes, sequence }
            }
        }
    }
}
