//! The stores of outside cores and the streams that feed them: the part of ingest that runs in the
//! delivery agent's cycle, before its readers.

use std::sync::{Arc, PoisonError};

use weir_delivery::Desk;
use weir_delivery::stream::{SourceStream, Taken, Window};
use weir_types::{Nanos, PartitionId, Reason};
use weir_wire::ClientMessage;
use weir_wire::frame::{Framing, next_frame, put_frame};
use weir_wire::ingest::{OpenSource, SOURCE_FRAME_LEN_MAX};

use super::figures::{IngestFigures, SourceFigures};
use super::handoff::{Asked, IngestAnswer, IngestPort, IngestRequest};

/// What a source may have without acknowledgement.
pub const WINDOW: Window = Window { batches: 256, bytes: 4 << 20 };
/// Requests taken in one cycle.
const REQUESTS_MAX: usize = 8;
/// Records looked at in one cycle at the end of a full resend.
const SWEEP_STEPS: u32 = 2_048;

/// A source's store with its readers, and its stream.
pub struct Feed {
    desk: Desk,
    stream: SourceStream,
}

/// All of them.
pub struct Feeds {
    feeds: Vec<Feed>,
    port: Option<IngestPort>,
    /// A batch whose source is at the end of a full resend.
    held: Option<IngestRequest>,
    figures: Arc<IngestFigures>,
}

impl Feeds {
    /// A store for each desk's source, fed over `port`.
    #[must_use]
    pub fn new(desks: Vec<Desk>, port: Option<IngestPort>, figures: Arc<IngestFigures>) -> Feeds {
        let feed = |desk: Desk| {
            let stream = SourceStream::new(desk.store().source(), WINDOW);
            Feed { desk, stream }
        };
        let feeds = desks.into_iter().map(feed).collect();
        let feeds = Feeds { feeds, port, held: None, figures };
        feeds.publish();
        feeds
    }

    /// The readers' desk of a source.
    ///
    /// # Errors
    /// [`Reason::UnknownSource`]; [`Reason::PartitionAway`] until its core has sent all that there
    /// is.
    pub fn desk_of(&mut self, source: PartitionId) -> Result<&mut Desk, Reason> {
        let feed = self.feeds.iter_mut().find(|feed| feed.stream.source() == source);
        let feed = feed.ok_or(Reason::UnknownSource)?;
        if feed.stream.is_whole() { Ok(&mut feed.desk) } else { Err(Reason::PartitionAway) }
    }

    /// All readers' desks.
    pub fn desks(&mut self) -> impl Iterator<Item = &mut Desk> {
        self.feeds.iter_mut().map(|feed| &mut feed.desk)
    }

    /// The same, to look at.
    pub fn desks_ref(&self) -> impl Iterator<Item = &Desk> {
        self.feeds.iter().map(|feed| &feed.desk)
    }

    /// The next time at which a gap is to be told again.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.feeds.iter().filter_map(|feed| feed.stream.next_deadline()).min()
    }

    /// Takes in what came, as far as one cycle goes; how much it did.
    pub fn work(&mut self, now: Nanos) -> usize {
        let Some(port) = &mut self.port else { return 0 };
        let mut done = 0;
        for feed in &mut self.feeds {
            done += feed.tend(now, port);
        }
        for _ in 0..REQUESTS_MAX {
            // Room for its answer, and for what each source may say by itself meanwhile.
            if port.answers.slots() <= self.feeds.len() {
                break;
            }
            let Some(request) = self.held.take().or_else(|| port.requests.pop().ok()) else {
                break;
            };
            let is_batch = matches!(request.what, Asked::Batch(_));
            if is_batch && self.feeds.iter().any(|feed| feed.stream.is_sweeping()) {
                self.held = Some(request);
                break;
            }
            let answer = take(&mut self.feeds, request, now);
            if let Some(answer) = answer {
                assert!(port.answers.push(answer).is_ok(), "room was found before");
            }
            done += 1;
        }
        if done > 0 {
            port.wake.wake();
            self.publish();
        }
        done
    }

    fn publish(&self) {
        let mut sources = self.figures.sources.lock().unwrap_or_else(PoisonError::into_inner);
        *sources = self.feeds.iter().map(|feed| (feed.stream.source(), feed.figures())).collect();
    }
}

impl Feed {
    /// What is to be done without a request: the end of a full resend, a gap that is told again.
    fn tend(&mut self, now: Nanos, port: &mut IngestPort) -> usize {
        let was_sweeping = self.stream.is_sweeping();
        let ack = self.stream.sweep(SWEEP_STEPS, self.desk.store_mut());
        let gap = self.stream.remind(now);
        let mut bytes = Vec::new();
        ack.iter().for_each(|ack| put_frame(ack, &mut bytes));
        gap.iter().for_each(|gap| put_frame(gap, &mut bytes));
        if let (Some(connection), false) = (self.stream.writer(), bytes.is_empty()) {
            let answer = IngestAnswer { connection, bytes, taken_len: 0, is_refusal: false };
            // Without room the writer asks by itself when it hears nothing.
            drop(port.answers.push(answer));
        }
        usize::from(was_sweeping)
    }

    fn figures(&self) -> SourceFigures {
        SourceFigures {
            epoch: self.stream.epoch(),
            next_batch_no: self.stream.next_batch_no(),
            is_open: self.stream.is_open(),
            is_whole: self.stream.is_whole(),
            live_orders: self.desk.store().live_count(),
            ended_orders: self.desk.store().ended_count(),
            counters: self.stream.counters(),
        }
    }
}

fn take(feeds: &mut [Feed], request: IngestRequest, now: Nanos) -> Option<IngestAnswer> {
    let connection = request.connection;
    match request.what {
        Asked::Gone => {
            feeds.iter_mut().for_each(|feed| feed.stream.close(connection));
            None
        }
        Asked::Open(open) => Some(take_open(feeds, connection, &open)),
        Asked::Batch(frame) => Some(take_batch(feeds, connection, frame, now)),
    }
}

fn take_open(feeds: &mut [Feed], connection: u64, open: &OpenSource) -> IngestAnswer {
    let feed = feeds.iter_mut().find(|feed| feed.stream.source() == open.source_id);
    let Feed { desk, stream } = feed.expect("the ingest agent knows the sources");
    let mut bytes = Vec::new();
    let opened = stream.open(open, connection, desk.store_mut());
    let is_refusal = opened.is_err();
    match opened {
        Ok(opened) => put_frame(&opened, &mut bytes),
        Err(reject) => put_frame(&reject, &mut bytes),
    }
    IngestAnswer { connection, bytes, taken_len: 0, is_refusal }
}

fn take_batch(feeds: &mut [Feed], connection: u64, frame: Vec<u8>, now: Nanos) -> IngestAnswer {
    let Framing::Frame { message: Ok(raw), .. } = next_frame(&frame, SOURCE_FRAME_LEN_MAX) else {
        unreachable!("the ingest agent hands whole frames on");
    };
    let Ok(ClientMessage::SourceBatch(batch, rows)) = ClientMessage::decode(&raw) else {
        unreachable!("the ingest agent hands batches on that decode");
    };
    let feed = feeds.iter_mut().find(|feed| feed.stream.source() == batch.source_id);
    let Feed { desk, stream } = feed.expect("the ingest agent knows the sources");
    let taken = stream.offer((&batch, rows), connection, desk.store_mut(), now);
    let taken_len = frame.len();
    // The frame's memory goes back with the answer.
    let mut bytes = frame;
    bytes.clear();
    match &taken {
        Taken::Stands(ack) => put_frame(ack, &mut bytes),
        Taken::Gap(gap) => put_frame(gap, &mut bytes),
        Taken::Rejected(reject) => put_frame(reject, &mut bytes),
        Taken::Sweeps | Taken::Early => {}
    }
    let is_refusal = matches!(taken, Taken::Rejected(_));
    IngestAnswer { connection, bytes, taken_len, is_refusal }
}
