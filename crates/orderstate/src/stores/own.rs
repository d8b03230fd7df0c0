//! Recovery of the store of the node's own partition: its newest snapshot, and the event log since.
//!
//! The store is a function of the event log, so a snapshot only shortens the replay at a start. It
//! is written like those of outside cores (`snapshots.rs`), at a record's number. Of a log whose
//! first events are gone it is not: the engine then knows the live orders, and readers from before
//! begin anew.
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
//! a snapshot that discarded orders which the   | that of the snapshot before
//! archive does not have yet                    |
//! no usable one, and the first events are past | the newest that only lacks the archive: this one
//! the retention                                | begins at its floor
//! not even that                                | empty, then the live orders of the engine at the
//!                                              | log's end; places before it are refused
//! ```
//! State: version u8, the command u64 that caused the newest event about an order, the event u64
//! after which the store began with the engine's live orders (zero for none; not in version 1),
//! length u32 and bytes of the instruments' state (without the causes of phases before version 3);
//! then stream and store as of any source.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use weir_delivery::stream::SourceStream;
use weir_delivery::{OrderStore, StoreConfig};
use weir_io::ThreadDisk;
use weir_log::SnapshotStore;
use weir_partition::agent::PartitionFigures;
use weir_partition::event_reader::{EventReader, PastRead};
use weir_partition::holds::Hold;
use weir_types::{BatchNo, ChangeId, Epoch, PartitionId, Position, Rec, Seq, Survival};
use weir_wire::event::OrderEvent;

use super::journal::{decode, load};
use super::own_figures::OwnStoreFigures;
use super::{StoreSettings, WINDOW};
use crate::markets::{MarketState, Markets, MarketsForm};
use crate::plant::{self, Plant};

/// The format of the head, before stream and store.
const VERSION: u8 = 3;
/// The last format without the causes of phases.
const VERSION_WITHOUT_CAUSES: u8 = 2;
/// The format without the event after which the store began.
const OLD_VERSION: u8 = 1;

/// The starting point of the events.
pub struct OwnStart {
    /// As in [`OwnSource`].
    pub log: Arc<PartitionFigures>,
    /// As in [`OwnSource`].
    pub figures: Arc<OwnStoreFigures>,
    /// The partition, as the source of its orders.
    pub source: PartitionId,
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
    /// The event after which the store began with the engine's live orders; zero for one that has
    /// all changes since the first event. Stores with different ones have orders at different
    /// places.
    pub begun_after: u64,
    /// True when it began so at this start: a snapshot is due at once.
    pub is_rebuilt: bool,
    /// True when an epoch of the log begins for it, of which the reader of events tells.
    pub waits_for_epoch: bool,
}

/// The records that a start needs after the store's snapshots: those after the older one of two, so
/// that a damaged newer one costs time and no order.
pub struct SnapshotsHold {
    hold: Hold,
    /// The first record that is held.
    from: u64,
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
        SnapshotsHold { hold: events.hold(HOLDER, from), from, oldest_kept }
    }

    /// Takes over the oldest kept snapshot after another one was written. The one before it was
    /// pruned only if there are two, so the hold follows one snapshot later.
    pub fn written(&mut self, oldest_kept: Position) {
        if let Some(before) = self.oldest_kept.replace(oldest_kept) {
            // A snapshot that could not be used may be older than the first record.
            self.from = self.from.max(before.0 + 1);
            self.hold.set(self.from);
        }
    }
}

/// The name under which the status shows what the store holds.
const HOLDER: &str = "order store";

/// The state of the recovered engine, which has applied all commands of the log.
#[derive(Clone, Debug, Default)]
pub struct EngineState {
    /// The last command.
    pub position: Position,
    /// The newest change of an order.
    pub last_seq: Seq,
    /// The highest record number given to an order.
    pub last_rec: Rec,
    /// The live orders, in the order of their records.
    pub orders: Vec<OrderEvent>,
    /// All instruments.
    pub markets: Vec<MarketState>,
    /// True when an epoch of the log begins for the store that is made of it; false where the
    /// present one began for such a store, and has no command.
    pub begins_epoch: bool,
}

/// The sources of the store.
pub struct OwnSource<'a> {
    /// The partition's figures: the position up to which its command log is synced.
    pub log: Arc<PartitionFigures>,
    /// The figures of the store, for other threads to read.
    pub figures: Arc<OwnStoreFigures>,
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
    /// Returns the state of the recovered engine, and sees to an epoch of the log. Called only for
    /// a log whose first events are gone, if no snapshot can be used: the store then begins with
    /// live orders, which have other places than before.
    pub engine: Box<dyn FnMut() -> anyhow::Result<EngineState> + 'a>,
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
    begun_after: u64,
    is_rebuilt: bool,
    waits_for_epoch: bool,
}

/// Appends a snapshot's head, before stream and store.
pub fn put_head(command: Position, begun_after: u64, markets: &Markets, out: &mut Vec<u8>) {
    out.push(VERSION);
    out.extend_from_slice(&command.0.to_le_bytes());
    out.extend_from_slice(&begun_after.to_le_bytes());
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
pub fn recover(mut source: OwnSource<'_>, dir: &Path) -> anyhow::Result<OwnStore> {
    let disk = ThreadDisk::open(dir, None).with_context(|| format!("{}", dir.display()))?;
    let own = source.settings.source;
    let mut snapshots = SnapshotStore::new(disk, source.log_id, own);
    let mut notes = Vec::new();
    let base = match from_snapshot(&source, &mut snapshots, &mut notes)? {
        Some((at, base)) => {
            notes.push(format!("source {own}: its store comes from the snapshot of event {at}"));
            base
        }
        None if source.events.next_record() <= 1 => nothing(&source),
        None => from_engine(&mut source, &mut notes)?,
    };
    let OwnSource { log, figures, mut events, settings, log_id, .. } = source;
    let Base { mut store, mut stream, markets, command, .. } = base;
    let Base { begun_after, is_rebuilt, waits_for_epoch, .. } = base;
    let needed = SnapshotsHold::of(&events, &snapshots.list()?);
    events.skip_to(stream.next_batch_no().0, store.epoch());
    let _ = stream.end_replay(&mut store);
    store.set_bytes_max(settings.bytes_max);
    let start = OwnStart {
        log,
        figures,
        source: settings.source,
        events,
        log_id,
        markets,
        command,
        needed,
        begun_after,
        is_rebuilt,
        waits_for_epoch,
    };
    Ok(OwnStore { store, stream, events: start, snapshots, notes })
}

/// Returns the newest snapshot from which the events go on, and the archive too. If there is none
/// and the first events are gone, the archive cannot have more than what is discarded from now on:
/// it then begins at the newest snapshot's floor.
fn from_snapshot(
    source: &OwnSource<'_>,
    snapshots: &mut SnapshotStore<ThreadDisk>,
    notes: &mut Vec<String>,
) -> anyhow::Result<Option<(Position, Base)>> {
    let last = Position(source.event_count);
    let own = source.settings.source;
    let found = load(snapshots, last, own, notes, |at, state| {
        let base = decode_own(state, source)?;
        check(at, &base, source)?;
        check_archive(&base, source)?;
        Ok(base)
    })?;
    if found.is_some() || source.older_upto.is_none() || source.events.next_record() <= 1 {
        return Ok(found);
    }
    let found = load(snapshots, last, own, &mut Vec::new(), |at, state| {
        let base = decode_own(state, source)?;
        check(at, &base, source)?;
        Ok(base)
    })?;
    if let Some((_, base)) = &found {
        notes.push(format!(
            "source {own}: cold order state begins at seq {}: it lacks orders that were discarded \
             before, and their events are past the retention",
            base.store.floor().seq
        ));
    }
    Ok(found)
}

/// Returns an empty store that will ingest all events.
fn nothing(source: &OwnSource<'_>) -> Base {
    let epoch = source.events.epochs().first();
    Base {
        store: source.settings.store(epoch),
        stream: SourceStream::of_log(source.settings.source, epoch, BatchNo(1)),
        markets: Markets::new(true),
        command: Position::NONE,
        begun_after: 0,
        is_rebuilt: false,
        waits_for_epoch: false,
    }
}

/// Returns a store with the engine's live orders, which goes on at the log's end.
///
/// The retained events before that are not used: an order may have changed before them, and one
/// that ended in them would seem to have begun there too.
///
/// The store is that of the epoch so far until the reader of events tells that it ended, behind the
/// last event. The places of live orders here and in stores from before are then of different
/// epochs: a first copy goes on in neither with the other's place. Where a start before has begun
/// the epoch and failed, the store is that epoch's, with the same places as at that start.
fn from_engine(source: &mut OwnSource<'_>, notes: &mut Vec<String>) -> anyhow::Result<Base> {
    let own = source.settings.source;
    let first = source.events.next_record();
    let epoch = source.events.epochs().current();
    let markets_before = past_markets(source);
    let EngineState { position, last_seq, last_rec, orders, markets, begins_epoch } =
        (source.engine)()?;
    let config = StoreConfig { bytes_max: u64::MAX, ..source.settings.config(epoch) };
    let mut store = OrderStore::new(config);
    if !plant::is(Plant::RebuiltOverHole) {
        store.begin_in_the_middle(last_seq, &orders, last_rec);
    }
    notes.push(format!(
        "source {own}: no snapshot of its store can be used, and the events before {first} are \
         past the retention: the store begins with the {} live orders of seq {last_seq}, and \
         readers with a token from before get ResyncFloor or ResyncEpoch",
        orders.len()
    ));
    Ok(Base {
        store,
        stream: SourceStream::of_log(own, epoch, BatchNo(source.event_count + 1)),
        markets: markets_before.go_on_with(&markets),
        command: position,
        begun_after: source.event_count,
        is_rebuilt: true,
        waits_for_epoch: begins_epoch,
    })
}

/// Returns the instruments' state from the retained events: the engine has no uncrossings.
fn past_markets(source: &OwnSource<'_>) -> Markets {
    let (mut markets, mut record) = (Markets::new(false), Vec::new());
    let mut past = source.events.past();
    for number in source.events.next_record()..=source.event_count {
        if past.read_at(number, &mut record) != PastRead::Found {
            // Values of earlier events are of no use without later ones.
            return Markets::new(false);
        }
        markets.on_record(&record);
    }
    markets
}

fn decode_own(state: &[u8], source: &OwnSource<'_>) -> anyhow::Result<Base> {
    const SHORT: &str = "it is too short";
    let (version, state) = state.split_first().context(SHORT)?;
    anyhow::ensure!(*version <= VERSION, "its format {version} is newer than this program");
    anyhow::ensure!(*version >= OLD_VERSION, "its format {version} is not read any more");
    let (command, state) = state.split_first_chunk::<8>().context(SHORT)?;
    let (begun_after, state) = match *version {
        OLD_VERSION => (&[0; 8], state),
        _ => state.split_first_chunk::<8>().context(SHORT)?,
    };
    let begun_after = u64::from_le_bytes(*begun_after);
    let (len, state) = state.split_first_chunk::<4>().context(SHORT)?;
    let len = u32::from_le_bytes(*len) as usize;
    let (markets, state) = state.split_at_checked(len).context(SHORT)?;
    let form = match *version {
        ..=VERSION_WITHOUT_CAUSES => MarketsForm::WithoutCauses,
        _ => MarketsForm::Present,
    };
    let markets = Markets::from_state(markets, form).context("its instruments cannot be read")?;
    // Recovery ignores the memory limit: changes that were once accepted are accepted again.
    let config = StoreConfig { bytes_max: u64::MAX, ..source.settings.config(Epoch::NONE) };
    let (store, stream) = decode(state, config, WINDOW)?;
    let command = Position(u64::from_le_bytes(*command));
    let (is_rebuilt, waits_for_epoch) = (false, false);
    Ok(Base { store, stream, markets, command, begun_after, is_rebuilt, waits_for_epoch })
}

/// Checks that the events continue from the snapshot of record `at`.
fn check(at: Position, base: &Base, source: &OwnSource<'_>) -> anyhow::Result<()> {
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
    Ok(())
}

/// Checks that the archive has all orders that the store has discarded.
fn check_archive(base: &Base, source: &OwnSource<'_>) -> anyhow::Result<()> {
    let floor = base.store.floor();
    let is_kept = source.older_upto.is_none_or(|upto| floor <= upto);
    anyhow::ensure!(is_kept, "what went before seq {} is not all kept yet", floor.seq);
    Ok(())
}

#[cfg(test)]
mod tests {
    use weir_delivery::{Filter, IngestOutcome, Resync};
    use weir_partition::event_reader::ReadEvent;
    use weir_types::FirmId;

    use super::*;
    use crate::agent::tests::{accepted, epochs, log_of, settings};

    /// The first event that the log retains.
    const FIRST: u64 = 8;

    /// Returns the state of an engine at the end of 20 commands, of which two orders live.
    fn engine() -> EngineState {
        EngineState {
            position: Position(20),
            last_seq: Seq(20),
            last_rec: Rec(20),
            orders: vec![accepted(3), accepted(12)],
            markets: Vec::new(),
            begins_epoch: true,
        }
    }

    /// Recovers the store of 20 events, of which those before `first` are gone.
    fn recovered(dir: &Path, first: u64, older_upto: Option<ChangeId>) -> OwnStore {
        let (mut writer, mut events) = log_of(dir, 20, epochs(1, &[]));
        events.skip_to(first, Epoch(1));
        let source = OwnSource {
            log: Arc::default(),
            figures: Arc::new(OwnStoreFigures::of(PartitionId(1))),
            settings: settings(u64::MAX),
            events,
            event_count: 20,
            log_id: 7,
            snapshot_every: u64::MAX,
            older_upto,
            engine: Box::new(move || {
                writer.end_epoch(Position(20), Epoch(2), 21);
                Ok(engine())
            }),
        };
        recover(source, &dir.join("store")).unwrap()
    }

    /// Writes a snapshot at event 10 whose store has discarded all orders before seq 5.
    fn write_snapshot(dir: &Path) {
        let disk = ThreadDisk::open(&dir.join("store"), None).unwrap();
        let mut snapshots = SnapshotStore::new(disk, 7, PartitionId(1));
        let mut store = settings(u64::MAX).store(Epoch(1));
        store.begin_in_the_middle(Seq(5), &[accepted(3)], Rec(10));
        let mut state = Vec::new();
        put_head(Position(10), 0, &Markets::new(true), &mut state);
        SourceStream::of_log(PartitionId(1), Epoch(1), BatchNo(11)).put_state(&mut state);
        store.begin_snapshot();
        while store.snapshot_chunk(1 << 16, &mut state) == Ok(weir_delivery::ChunkOutcome::More) {}
        snapshots.write(Position(10), &state).unwrap();
    }

    fn check_rebuilt() {
        let dir = tempfile::tempdir().unwrap();
        let OwnStore { store, stream, events, notes, .. } = recovered(dir.path(), FIRST, None);
        let note = notes.last().expect("a note");
        assert!(note.contains("events before 8") && note.contains("2 live orders"), "{note}");
        assert_eq!((store.live_count(), store.floor().seq), (2, Seq(20)));
        for filter in [Filter::ALL, Filter { firm_id: FirmId(77), ..Filter::ALL }] {
            for before in [1, 7, 8, 19] {
                let before = ChangeId::new(Seq(before), Rec(before));
                let checked = store.check(Epoch(1), before, &filter);
                assert_eq!(checked, Err(Resync::Floor), "{before:?} {filter:?}");
            }
            assert_eq!(store.check(Epoch(1), ChangeId::START, &filter), Ok(()));
        }
        assert_eq!((stream.next_batch_no(), events.events.next_record()), (BatchNo(21), 21));
        assert!(events.is_rebuilt && events.waits_for_epoch && events.begun_after == 20);
    }

    /// A first copy that was begun at a store with live orders of the engine goes on at no replica
    /// of the store before, whose orders have other places, nor the other way round.
    #[test]
    fn a_first_copy_goes_on_at_no_store_that_began_elsewhere() {
        let mut before = settings(u64::MAX).store(Epoch(1));
        for number in 1..=20 {
            assert_eq!(before.ingest(&accepted(number)), Ok(IngestOutcome::Inserted));
        }
        let dir = tempfile::tempdir().unwrap();
        let OwnStore { mut store, mut stream, mut events, .. } = recovered(dir.path(), FIRST, None);
        let mut record = Vec::new();
        while let ReadEvent::EpochEnded(change) = events.events.next(&mut record) {
            stream.begin_epoch(change.next, &mut store).unwrap();
        }
        assert_eq!((before.epoch(), store.epoch()), (Epoch(1), Epoch(2)));
        let filter = Filter::ALL;
        for rec in 1..=20 {
            let begun = ChangeId::new(Seq(20), Rec(rec));
            let own = ChangeId::new(Seq(rec), Rec(rec));
            assert_eq!(before.check(store.epoch(), begun, &filter), Err(Resync::Epoch), "{rec}");
            // A reader that has all orders of before goes on.
            let want = if rec == 20 { Ok(()) } else { Err(Resync::Floor) };
            assert_eq!(store.check(before.epoch(), own, &filter), want, "{rec}");
        }
    }

    #[test]
    fn a_store_without_snapshot_and_first_events_refuses_old_tokens_and_has_all_live_orders() {
        check_rebuilt();
    }

    #[cfg(feature = "planted")]
    #[test]
    fn every_planted_bug_of_a_start_without_the_first_events_is_found() {
        plant::set(Some(Plant::RebuiltOverHole));
        let is_found = std::panic::catch_unwind(check_rebuilt).is_err();
        plant::set(None);
        assert!(is_found, "it is planted");
    }

    #[test]
    fn an_archive_that_is_new_or_lost_begins_at_the_floor_of_a_store_that_cannot_be_rebuilt() {
        let at = |seq| Some(ChangeId::new(Seq(seq), Rec(seq)));
        for (first, older_upto, want) in [
            (FIRST, None, Some("comes from the snapshot of event 10")),
            (FIRST, at(5), Some("comes from the snapshot of event 10")),
            (FIRST, Some(ChangeId::START), Some("cold order state begins at seq 5")),
            // All events are there: the archive gets all orders.
            (1, Some(ChangeId::START), None),
            // The events do not go on from the snapshot.
            (12, Some(ChangeId::START), Some("begins with the 2 live orders of seq 20")),
        ] {
            let dir = tempfile::tempdir().unwrap();
            write_snapshot(dir.path());
            let OwnStore { store, stream, notes, .. } = recovered(dir.path(), first, older_upto);
            let has = |text| notes.iter().any(|note| note.contains(text));
            match want {
                Some(text) => assert!(has(text), "{text}: {notes:?}"),
                None => assert_eq!(
                    (stream.next_batch_no(), store.floor()),
                    (BatchNo(1), ChangeId::START),
                    "{notes:?}"
                ),
            }
        }
    }
}
