//! The thread that keeps and adds up, and what it says of itself.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_io::Clock;
use weir_types::Nanos;

use super::audit::{
    AuditFigures, AuditReceiver, AuditSender, AuditWriter, QueueFigures, audit_queue,
};
use super::bars::{Bars, BarsFigures};
use super::config::PostSection;
use super::events::{EventFigures, PostEvent, PostReceiver, PostSender, Wants, post_events};
use super::statistics::{Statistics, StatisticsFigures};
use super::storage::{FileSystem, Storage};

/// Records and events of one round at most: the clock is read between rounds.
const ROUND_MAX: usize = 1_024;
/// Bytes of the queue that a record takes at least.
const RECORD_LEN_MIN: u64 = 64;
/// Events that may wait where bars alone are made of them.
const EVENTS_MAX: usize = 1 << 16;
/// A thread without work rests so long. What comes meanwhile waits in rings that hold far more.
const REST: Duration = Duration::from_millis(1);
/// Figures are told so often.
const TELL_NS: u64 = 100_000_000;

/// How far post-processing is, and what was lost. All zero for a part that is not done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostFigures {
    /// Datagrams on their way into the audit.
    pub queue: QueueFigures,
    /// The audit.
    pub audit: AuditFigures,
    /// Events on their way into bars and statistics.
    pub events: EventFigures,
    /// Bars.
    pub bars: BarsFigures,
    /// Statistics.
    pub statistics: StatisticsFigures,
}

/// The latest figures, for other threads.
#[derive(Clone, Debug, Default)]
pub struct PostWatch(Arc<Mutex<PostFigures>>);

impl PostWatch {
    /// The figures, at most a tenth of a second old while the thread has time.
    #[must_use]
    pub fn figures(&self) -> PostFigures {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where datagrams and events go in. What is not configured has none.
#[derive(Debug)]
pub struct PostSenders {
    /// Datagrams for the audit.
    pub audit: Option<AuditSender>,
    /// Events for bars and statistics.
    pub events: Option<PostSender>,
}

/// What events become.
#[derive(Debug)]
struct Tables {
    bars: Option<Bars>,
    statistics: Option<Statistics>,
}

/// Keeps and adds up.
#[derive(Debug)]
pub struct PostProcessor {
    audit: Option<(AuditReceiver, AuditWriter)>,
    events: Option<PostReceiver>,
    tables: Tables,
    watch: PostWatch,
    told: Nanos,
}

impl PostProcessor {
    /// Of a configuration whose values are in range ([`PostSection::check`]), for these lines in
    /// the order of their numbers.
    ///
    /// # Errors
    /// A directory's, or when there are more lines than 2^16 - 1.
    pub fn new(
        section: &PostSection,
        lines: &[String],
    ) -> io::Result<(PostProcessor, PostSenders)> {
        PostProcessor::with_storage(section, lines, &mut || Box::new(FileSystem))
    }

    /// The same, with files somewhere else.
    ///
    /// # Errors
    /// As [`PostProcessor::new`].
    pub fn with_storage(
        section: &PostSection,
        lines: &[String],
        storage: &mut dyn FnMut() -> Box<dyn Storage>,
    ) -> io::Result<(PostProcessor, PostSenders)> {
        let mut senders = PostSenders { audit: None, events: None };
        let mut audit = None;
        if let Some(config) = &section.audit {
            let count = u16::try_from(lines.len());
            let count = count.map_err(|_| io::Error::other("more lines than an audit numbers"))?;
            let bytes = usize::try_from(config.queue_bytes).unwrap_or(usize::MAX);
            let (sender, receiver) = audit_queue(bytes, count);
            let mut files = storage();
            // What is wrong with the directory is told at the start.
            files.list(&config.dir)?;
            audit = Some((receiver, AuditWriter::new(config, lines, files)?));
            senders.audit = Some(sender);
        }
        let bars = section.bars.as_ref().map(|config| Bars::new(config, storage)).transpose()?;
        let statistics = section.statistics.as_ref();
        let statistics = statistics.map(|config| Statistics::new(config, storage)).transpose()?;
        let wants = Wants { bars: bars.is_some(), statistics: statistics.is_some() };
        let mut events = None;
        if wants != Wants::default() {
            let of_statistics = section.statistics.as_ref().map(|config| config.events as usize);
            let (sender, receiver) = post_events(of_statistics.unwrap_or(EVENTS_MAX), wants);
            (senders.events, events) = (Some(sender), Some(receiver));
        }
        let tables = Tables { bars, statistics };
        let (watch, told) = (PostWatch::default(), Nanos(0));
        Ok((PostProcessor { audit, events, tables, watch, told }, senders))
    }

    /// What tells the figures to other threads.
    #[must_use]
    pub fn watch(&self) -> PostWatch {
        self.watch.clone()
    }

    /// Does a round of what waits; says how many records and events it took.
    pub fn poll(&mut self, now: Nanos) -> usize {
        let mut taken = 0;
        if let Some((receiver, writer)) = &mut self.audit {
            taken += receiver.take(ROUND_MAX, &mut |record| writer.record(record, now));
            writer.tick(now);
        }
        if let Some(receiver) = &mut self.events {
            let tables = &mut self.tables;
            taken += receiver.take(ROUND_MAX, &mut |event| tables.apply(event, now));
            tables.tick(now);
        }
        if now.since(self.told).0 >= TELL_NS || now < self.told {
            self.told = now;
            self.tell();
        }
        taken
    }

    /// How far it is.
    #[must_use]
    pub fn figures(&self) -> PostFigures {
        let mut figures = PostFigures::default();
        if let Some((receiver, writer)) = &self.audit {
            (figures.queue, figures.audit) = (receiver.figures(), writer.figures());
        }
        let Tables { bars, statistics } = &self.tables;
        figures.events = self.events.as_ref().map(PostReceiver::figures).unwrap_or_default();
        figures.bars = bars.as_ref().map(Bars::figures).unwrap_or_default();
        figures.statistics = statistics.as_ref().map(Statistics::figures).unwrap_or_default();
        figures
    }

    fn tell(&self) {
        *self.watch.0.lock().unwrap_or_else(PoisonError::into_inner) = self.figures();
    }

    /// Works until `stop` is set, then takes what waits at that moment, and ends all files in
    /// order. The calling thread is its own: it writes to disks and waits for them.
    pub fn run(mut self, stop: &AtomicBool, clock: &dyn Clock) -> PostFigures {
        // SYNC: pairs with the store of whoever stops it: what was sent before is taken.
        while !stop.load(Ordering::Acquire) {
            if self.poll(clock.now()) == 0 {
                std::thread::sleep(REST);
            }
        }
        self.finish(clock.now())
    }

    /// Takes what waits at this moment and ends all files in order.
    pub fn finish(mut self, now: Nanos) -> PostFigures {
        let figures = self.figures();
        // No record takes less, and what is sent meanwhile may be left.
        let records = figures.queue.waiting_bytes / RECORD_LEN_MIN;
        let rounds = records.max(figures.events.waiting) / ROUND_MAX as u64 + 2;
        for _ in 0..rounds {
            if self.poll(now) == 0 {
                break;
            }
        }
        if let Some((_, writer)) = &mut self.audit {
            writer.finish(now);
        }
        self.tables.finish(now);
        self.tell();
        self.figures()
    }
}

impl Tables {
    fn apply(&mut self, event: &PostEvent, now: Nanos) {
        if let Some(statistics) = &mut self.statistics {
            statistics.take(event, now);
        }
        let Some(bars) = &mut self.bars else { return };
        match event {
            PostEvent::Define(definition) => bars.define(definition),
            PostEvent::Trade(trade) => bars.trade(trade, now),
            PostEvent::Break(undone) => bars.trade_break(undone, now),
            PostEvent::Gap(_) | PostEvent::Untold => bars.mark_gap(),
            PostEvent::EndSession(_) => bars.end_session(now),
            PostEvent::Act(_)
            | PostEvent::Quote(_)
            | PostEvent::Call(_)
            | PostEvent::Book(_)
            | PostEvent::Void(..) => {}
        }
    }

    fn tick(&mut self, now: Nanos) {
        self.bars.iter_mut().for_each(|bars| bars.tick(now));
        self.statistics.iter_mut().for_each(|statistics| statistics.tick(now));
    }

    fn finish(&mut self, now: Nanos) {
        self.bars.iter_mut().for_each(|bars| bars.end_session(now));
        self.statistics.iter_mut().for_each(|statistics| statistics.finish(now));
    }
}
