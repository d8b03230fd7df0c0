//! Recovery of the store of the node's own partition: its newest snapshot, and the event log since.
//!
//! The store is a function of the event log, so a snapshot only shortens the replay at a start. It
//! is written like those of outside cores (`snapshots.rs`), at a record's number.
//!
//! ```text
//! at a start                                   | the store is
//! ---------------------------------------------+---------------------------------------------
//! no snapshot                                  | empty, then all events
//! a snapshot of a retained record whose        | the snapshot's, then the events after it
//! successor is retained or does not exist yet  |
//! a snapshot after the log's end               | that of the snapshot before; this is removed
//! a snapshot with events of an epoch that were | that of the snapshot before
//! lost since                                   |
//! damaged, of another format, of another log   | that of the snapshot before
//! no usable one, and the first events are past | empty, then the retained events: orders that did
//! the retention                                | not change since are missing, and a note says so
//! a snapshot that discarded orders which the   | that of the snapshot before
//! archive does not have yet                    |
//! ```
//! State: version u8, the command u64 that caused the newest event about an order, length u32 and
//! bytes of the instruments' state; then stream and store as of any source.

use std::path::Path;

use anyhow::Context;
use weir_delivery::stream::SourceStream;
use weir_delivery::{OrderStore, StoreConfig};
use weir_io::ThreadDisk;
use weir_log::SnapshotStore;
use weir_partition::event_reader::EventReader;
use weir_partition::holds::Hold;
use weir_types::{BatchNo, ChangeId, Epoch, Position, Survival};

use super::journal::{decode, load};
use super::{OWN, StoreSettings, WINDOW};
use crate::markets::Markets;

/// The format of the head, before stream and store.
const VERSION: u8 = 1;

/// The starting point of the events.
pub struct OwnStart {
    /// The events, from the next one on.
    pub events: EventReader,
    /// The identity of the partition's command log.
    pub log_id: u128,
    /// The state of each instrument from the events so far.
    pub markets: Markets,
    /// The command that caused the newest event about an order.
    pub command: Position,
    /// The records that the next start needs.
    pub needed: SnapshotsHold,
}

/// The records that a start needs after the store's snapshots: those after the older one of two, so
/// that a damaged newer one costs time and no order.
pub struct SnapshotsHold {
    hold: Hold,
    /// The oldest snapshot that was kept at the last look.
    oldest_kept: Option<Position>,
}

impl SnapshotsHold {
    /// Keeps the records of `events` after the oldest of two snapshots, or all that there are.
    fn of(events: &EventReader, positions: &[Position]) -> SnapshotsHold {
        let first = events.next_record();
        let oldest_kept = positions.first().copied();
        let of_two = oldest_kept.filter(|_| positions.len() > 1);
        let from = of_two.map_or(first, |oldest| first.max(oldest.0 + 1));
        SnapshotsHold { hold: events.hold(HOLDER, from), oldest_kept }
    }

    /// Takes over the oldest kept snapshot after another one was written. The one before it was
    /// pruned only if there are two, so the hold follows one snapshot later.
    pub fn written(&mut self, oldest_kept: Position) {
        if let Some(before) = self.oldest_kept.replace(oldest_kept) {
            self.hold.set(before.0 + 1);
        }
    }
}

/// The name under which the status shows what the store holds.
const HOLDER: &str = "order store";

/// The sources of the store.
pub struct OwnSource {
    /// The store's settings.
    pub settings: StoreSettings,
    /// The partition's events, from the first retained one.
    pub events: EventReader,
    /// The number of events.
    pub event_count: u64,
    /// The identity of its command log.
    pub log_id: u128,
    /// The number of event bytes between snapshots.
    pub snapshot_every: u64,
    /// The last change id in the archive of discarded orders, if there is one: a snapshot whose
    /// floor is above it has discarded orders that the archive does not have yet.
    pub older_upto: Option<ChangeId>,
}

/// The recovered store and the events after it.
pub struct OwnStore {
    /// The store.
    pub store: OrderStore,
    /// The store's stream.
    pub stream: SourceStream,
    /// The events after the snapshot.
    pub events: OwnStart,
    /// The store's snapshots.
    pub snapshots: SnapshotStore<ThreadDisk>,
    /// Notes on the recovery for operators.
    pub notes: Vec<String>,
}

/// The contents of a snapshot.
struct Base {
    store: OrderStore,
    stream: SourceStream,
    markets: Markets,
    command: Position,
}

/// Appends a snapshot's head, before stream and store.
pub fn put_head(command: Position, markets: &Markets, out: &mut Vec<u8>) {
    out.push(VERSION);
    out.extend_from_slice(&command.0.to_le_bytes());
    let mut bytes = Vec::new();
    markets.put_state(&mut bytes);
    let len = u32::try_from(bytes.len()).expect("instruments are few");
    out.extend_from_slice(&len.to_le_bytes());
    out.append(&mut bytes);
}

/// Recovers the store from a snapshot in `dir`, with the events still to be ingested.
///
/// # Errors
/// When the directory cannot be read.
pub fn recover(source: OwnSource, dir: &Path) -> anyhow::Result<OwnStore> {
    let disk = ThreadDisk::open(dir, None).with_context(|| format!("{}", dir.display()))?;
    let mut snapshots = SnapshotStore::new(disk, source.log_id, OWN);
    let mut notes = Vec::new();
    let last = Position(source.event_count);
    let found = load(&mut snapshots, last, OWN, &mut notes, |at, state| {
        let base = decode_own(state, &source)?;
        check(at, &base, &source)?;
        Ok(base)
    })?;
    if let Some((at, _)) = &found {
        notes.push(format!("source {OWN}: its store comes from the snapshot of event {at}"));
    }
    let has_none = found.is_none();
    let base = found.map_or_else(|| nothing(&source), |(_, base)| base);
    let OwnSource { mut events, settings, log_id, .. } = source;
    let Base { mut store, mut stream, markets, command } = base;
    let needed = SnapshotsHold::of(&events, &snapshots.list()?);
    if has_none && events.next_record() > 1 {
        let first = events.next_record();
        notes.push(format!(
            "source {OWN}: no snapshot of its store can be used, and the events before {first} are \
             past the retention: the store lacks orders that did not change since"
        ));
    }
    events.skip_to(stream.next_batch_no().0, store.epoch());
    stream.end_replay();
    store.set_bytes_max(settings.bytes_max);
    let start = OwnStart { events, log_id, markets, command, needed };
    Ok(OwnStore { store, stream, events: start, snapshots, notes })
}

/// Returns an empty store that will ingest all events.
fn nothing(source: &OwnSource) -> Base {
    let epoch = source.events.epochs().first();
    let first = source.events.next_record();
    Base {
        store: source.settings.store(epoch),
        stream: SourceStream::of_log(OWN, epoch, BatchNo(first)),
        markets: Markets::new(first <= 1),
        command: Position::NONE,
    }
}

fn decode_own(state: &[u8], source: &OwnSource) -> anyhow::Result<Base> {
    const SHORT: &str = "it is too short";
    let (version, state) = state.split_first().context(SHORT)?;
    anyhow::ensure!(*version <= VERSION, "its format {version} is newer than this program");
    anyhow::ensure!(*version == VERSION, "its format {version} is not read any more");
    let (command, state) = state.split_first_chunk::<8>().context(SHORT)?;
    let (len, state) = state.split_first_chunk::<4>().context(SHORT)?;
    let len = u32::from_le_bytes(*len) as usize;
    let (markets, state) = state.split_at_checked(len).context(SHORT)?;
    let markets = Markets::from_state(markets).context("its instruments cannot be read")?;
    // Recovery ignores the memory limit: changes that were once accepted are accepted again.
    let config = StoreConfig { bytes_max: u64::MAX, ..source.settings.config(Epoch::NONE) };
    let (store, stream) = decode(state, config, WINDOW)?;
    Ok(Base { store, stream, markets, command: Position(u64::from_le_bytes(*command)) })
}

/// Checks that the events continue from the snapshot of record `at`.
fn check(at: Position, base: &Base, source: &OwnSource) -> anyhow::Result<()> {
    let (own, next) = (base.store.epoch(), base.stream.next_batch_no());
    anyhow::ensure!(next.0 == at.0 + 1 && base.stream.is_log(), "it is not of record {at}");
    let first = source.events.next_record();
    anyhow::ensure!(next.0 >= first, "events {next} to {} are gone", first - 1);
    match source.events.epochs().survival(own) {
        Survival::Whole => {}
        Survival::UpTo(end) => anyhow::ensure!(
            base.command <= end,
            "epoch {own} ended at {end} and it goes to {}",
            base.command
        ),
        Survival::Unknown => anyhow::bail!("its epoch {own} is not one of the log's"),
    }
    let floor = base.store.floor();
    let is_kept = source.older_upto.is_none_or(|upto| floor <= upto);
    anyhow::ensure!(is_kept, "what went before seq {} is not all kept yet", floor.seq);
    Ok(())
}
