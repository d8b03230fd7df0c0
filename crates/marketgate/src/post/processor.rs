//! The post-processing thread and its figures.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_io::{Clock as _, SystemClock, monotonic_now};
use weir_types::{Nanos, WallOffset};

use super::audit::{
    AuditFigures, AuditReceiver, AuditSender, AuditWriter, QueueFigures, audit_queue,
};
use super::bars::{Bars, BarsFigures};
use super::config::PostSection;
use super::events::{
    EventFigures, EventSelection, PostEvent, PostReceiver, PostSender, post_events,
};
use super::statistics::{Statistics, StatisticsFigures};
use super::storage::{FileSystem, Storage};

/// The maximum number of records and of events in one round; the clock is read between rounds.
const ROUND_MAX: usize = 1_024;
/// The least number of bytes of a record in the queue.
const RECORD_LEN_MIN: u64 = 64;
/// The capacity of the ring of events if they feed bars only.
const EVENTS_MAX: usize = 1 << 16;
/// The sleep of an idle thread. The rings hold far more than arrives meanwhile.
const REST: Duration = Duration::from_millis(1);
/// The interval at which figures are published, in nanoseconds.
const TELL_NS: u64 = 100_000_000;

/// The progress, backlog and losses of post-processing. All zero for a part that is not configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostFigures {
    /// The queue of datagrams for the audit.
    pub queue: QueueFigures,
    /// The audit.
    pub audit: AuditFigures,
    /// The ring of events for bars and statistics.
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
    /// The figures, at most a tenth of a second old unless the thread is busy.
    #[must_use]
    pub fn figures(&self) -> PostFigures {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The inputs of post-processing; `None` for a part that is not configured.
#[derive(Debug)]
pub struct PostSenders {
    /// Datagrams for the audit.
    pub audit: Option<AuditSender>,
    /// Events for bars and statistics.
    pub events: Option<PostSender>,
}

/// The consumers of events.
#[derive(Debug)]
struct Tables {
    bars: Option<Bars>,
    statistics: Option<Statistics>,
}

/// Writes the audit, bars and statistics.
#[derive(Debug)]
pub struct PostProcessor {
    audit: Option<(AuditReceiver, AuditWriter)>,
    events: Option<PostReceiver>,
    tables: Tables,
    watch: PostWatch,
    told: Nanos,
}

impl PostProcessor {
    /// Uses a configuration whose values are in range ([`PostSection::check`]), for these lines in
    /// order of their numbers.
    ///
    /// # Errors
    /// An error of a directory, or more than 2^16 - 1 lines.
    pub fn new(
        section: &PostSection,
        lines: &[String],
    ) -> io::Result<(PostProcessor, PostSenders)> {
        PostProcessor::with_storage(section, lines, &mut || Box::new(FileSystem))
    }

    /// Creates a processor whose files are in another storage.
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
            // A directory error is reported at the start.
            files.list(&config.dir)?;
            audit = Some((receiver, AuditWriter::new(config, lines, files)?));
            senders.audit = Some(sender);
        }
        let bars = section.bars.as_ref().map(|config| Bars::new(config, storage)).transpose()?;
        let statistics = section.statistics.as_ref();
        let statistics = statistics.map(|config| Statistics::new(config, storage)).transpose()?;
        let wants = EventSelection { bars: bars.is_some(), statistics: statistics.is_some() };
        let mut events = None;
        if wants != EventSelection::default() {
            let of_statistics = section.statistics.as_ref().map(|config| config.events as usize);
            let (sender, receiver) = post_events(of_statistics.unwrap_or(EVENTS_MAX), wants);
            (senders.events, events) = (Some(sender), Some(receiver));
        }
        let tables = Tables { bars, statistics };
        let (watch, told) = (PostWatch::default(), Nanos(0));
        Ok((PostProcessor { audit, events, tables, watch, told }, senders))
    }

    /// Returns a handle with which other threads read the figures.
    #[must_use]
    pub fn watch(&self) -> PostWatch {
        self.watch.clone()
    }

    /// Notes the distance of the wall clock from the time of the polls that follow: files are named
    /// and end by it, and all intervals are measured by the time of polls.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        let Tables { bars, statistics } = &mut self.tables;
        self.audit.iter_mut().for_each(|(_, writer)| writer.wall_clock_moved(wall));
        bars.iter_mut().for_each(|bars| bars.wall_clock_moved(wall));
        statistics.iter_mut().for_each(|statistics| statistics.wall_clock_moved(wall));
    }

    /// Processes one round of pending input; returns the number of records and events taken. `now`
    /// is of a clock that never steps.
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

    /// The current figures.
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

    /// Works until `stop` is set, then processes the input pending at that moment and finishes all
    /// files. It blocks on disks, so the calling thread must be its own.
    pub fn run(mut self, stop: &AtomicBool) -> PostFigures {
        // SYNC: pairs with the stopping thread's store: input sent before that store is seen.
        while !stop.load(Ordering::Acquire) {
            let now = self.read_clocks();
            if self.poll(now) == 0 {
                std::thread::sleep(REST);
            }
        }
        let now = self.read_clocks();
        self.finish(now)
    }

    /// Returns the time, and notes the distance of the wall clock from it.
    fn read_clocks(&mut self) -> Nanos {
        let now = monotonic_now();
        self.wall_clock_moved(WallOffset::between(now, SystemClock.now()));
        now
    }

    /// Processes the input pending at this moment and finishes all files.
    pub fn finish(mut self, now: Nanos) -> PostFigures {
        let figures = self.figures();
        // No record is smaller, and input sent from now on may be dropped.
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
