//! Failures of an outside source, and its reset by an operator: no other source notices, readers
//! are told, and a start comes to the same.

use weir_delivery::{Entitlement, PageSink, Question, ROW_LEN};
use weir_io::SimDisk;
use weir_io::disk::sim::{CrashChoice, SimFaults};
use weir_log::LogConfig;
use weir_types::{AccountId, Durability, FirmId, InstrumentId};
use weir_wire::delivery::FetchOrders;
use weir_wire::ingest::{ResetSource, SourceReset};

use super::*;
use crate::stores::journal::recover;
use crate::stores::{Indexes, StoreSettings};

/// The messages of the stores for the cores and operators.
#[derive(Debug, Default)]
struct Answers {
    acks: Vec<(PartitionId, u64)>,
    refusals: Vec<(PartitionId, Reason)>,
    resets: Vec<SourceReset>,
    /// The bytes of windows that were freed.
    taken_len: usize,
}

/// The stores, with one of them on a simulated disk or none.
struct Stores<D: Disk> {
    stores: SourceStores<D>,
    port: StorePort,
    now: u64,
}

impl<D: Disk> Stores<D> {
    fn of(parts: Vec<SourceStoreParts<D>>) -> Stores<D> {
        let (port, from_ingest) = ingest_to_store(Wake::new(), Wake::new());
        let figures = Arc::new(IngestFigures::default());
        let stores = SourceStores::new(parts, Some(from_ingest), None, None, figures);
        Stores { stores, port, now: 1 }
    }

    /// Runs cycles with these requests.
    fn run(&mut self, requests: Vec<IngestRequest>) -> Answers {
        for request in requests {
            self.port.requests.push(request).expect("the ring has room");
        }
        let mut said = Answers::default();
        for _ in 0..200 {
            self.now += 1_000;
            self.stores.work(Nanos(self.now));
            while let Ok(answer) = self.port.answers.pop() {
                said.taken_len += answer.taken_len;
                said.hear(&answer.bytes);
            }
        }
        said
    }

    /// Returns true for each where the slow source is whole, and is told as quarantined; and its
    /// failure.
    fn slow(&self) -> (bool, bool, Option<String>) {
        let sources = self.stores.figures.sources.lock().expect("nobody else has it");
        let slow = sources.iter().find(|source| source.source == SLOW.0).expect("it is there");
        (slow.is_whole, slow.is_quarantined, slow.failure.clone())
    }
}

impl Answers {
    fn hear(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Framing::Frame { len, message } = next_frame(rest, SOURCE_FRAME_LEN_MAX) {
            match NodeMessage::decode(&message.expect("a frame")).expect("a message") {
                NodeMessage::SourceAck(ack) => self.acks.push((ack.source_id, ack.batch_no.0)),
                NodeMessage::SourceReject(reject) => {
                    self.refusals.push((reject.source_id, reject.reason));
                }
                NodeMessage::SourceReset(reset) => self.resets.push(reset),
                NodeMessage::SourceOpened(_) => {}
                other => panic!("{other:?}"),
            }
            rest = &rest[len..];
        }
    }

    /// True when there are refusals of the slow source alone, all for this reason.
    fn is_refused_for(&self, reason: Reason) -> bool {
        !self.refusals.is_empty() && self.refusals.iter().all(|it| *it == (SLOW, reason))
    }
}

/// Returns the parts of the slow source, whose log is on this disk.
fn kept(disk: &SimDisk) -> SourceStoreParts<SimDisk> {
    let indexes = Indexes::default();
    let settings =
        StoreSettings { source: SLOW, ended_orders_max: 20_000, bytes_max: u64::MAX, indexes };
    let config = LogConfig {
        durability: Durability::Disk,
        segment_bytes: 1 << 20,
        idle_after: Nanos(1_000),
        ..LogConfig::new(SLOW, 7)
    };
    let recovered = recover(&settings, WINDOW, config, disk.clone(), disk.clone());
    let recovered = recovered.expect("the log can be read");
    SourceStoreParts {
        desk: desk_with(recovered.store),
        stream: recovered.stream,
        journal: Some(recovered.journal),
        tail: recovered.tail,
        is_replica: false,
        own: None,
        snapshot_every: u64::MAX,
        cold: None,
        failure: None,
    }
}

/// Returns the parts of a source without a log.
fn passing(source: PartitionId) -> SourceStoreParts<SimDisk> {
    let SourceStoreParts { desk, stream, tail, .. } = fed(source);
    SourceStoreParts {
        desk,
        stream,
        journal: None,
        tail,
        is_replica: false,
        own: None,
        snapshot_every: u64::MAX,
        cold: None,
        failure: None,
    }
}

/// The frame decodes up to its rows, which no ingest agent hands on.
fn broken(source: PartitionId) -> IngestRequest {
    let flags = BatchFlags::default();
    let mut frame = Orders { source, epoch: 1, number: 2, flags, recs: 1..2 }.frame();
    // The group's number of rows.
    let rows_at = frame.len() - ROW_LEN - 2 - 2;
    frame[rows_at..rows_at + 2].copy_from_slice(&9u16.to_le_bytes());
    IngestRequest { connection: u64::from(source.0), what: StoreRequest::Batch(frame) }
}

fn next(source: PartitionId, epoch: u32, number: u64) -> IngestRequest {
    let flags = BatchFlags::default();
    Orders { source, epoch, number, flags, recs: 1..2 }.request()
}

fn reset(source: PartitionId) -> IngestRequest {
    let what = StoreRequest::Reset(ResetSource { session_id: SessionId(1), source_id: source });
    IngestRequest { connection: 1, what }
}

/// Seats a reader at the slow source, which is not served yet.
fn seat_a_reader<D: Disk>(stores: &mut SourceStores<D>) {
    let fetch = FetchOrders {
        correlation_id: 1,
        session_id: SessionId(2),
        firm_id: FirmId::NONE,
        account_id: AccountId::NONE,
        instrument_id: InstrumentId::NONE,
        rows_max: 0,
        rows_min: 0,
        bytes_max: 0,
        wait_max_us: 1_000_000,
        credit: 1,
        live_only: Switch::On,
        source_id: SLOW,
        min_wait_us: 0,
        credit_rows: 0,
        credit_bytes: 0,
    };
    let entitlement = Entitlement::all();
    let question =
        Question { connection: 9, fetch: &fetch, token: &[], min_token: &[], entitlement };
    let asked = stores.desk_of(SLOW).expect("it is whole").ask(&question, Nanos(1));
    assert!(!matches!(asked, weir_delivery::FetchOutcome::Refused(_)), "{asked:?}");
}

/// The frames for readers.
#[derive(Default)]
struct Frames(Vec<u8>);

impl PageSink for Frames {
    fn buffer(&mut self, _connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        Some(&mut self.0)
    }
}

/// Serves the readers, and returns the reasons of rejects.
fn serve<D: Disk>(stores: &mut SourceStores<D>) -> Vec<Reason> {
    let mut frames = Frames::default();
    for desk in stores.serving_desks() {
        let _ = desk.poll(Nanos(2), &mut frames);
    }
    let (mut reasons, mut rest) = (Vec::new(), &frames.0[..]);
    while let Framing::Frame { len, message } = next_frame(rest, SOURCE_FRAME_LEN_MAX) {
        if let Ok(NodeMessage::Reject(reject)) = NodeMessage::decode(&message.expect("a frame")) {
            reasons.push(reject.reason);
        }
        rest = &rest[len..];
    }
    reasons
}

#[test]
fn a_source_that_breaks_an_invariant_is_quarantined_and_comes_back_with_a_resend() {
    let mut rig: Stores<SimDisk> = Stores::of([SLOW, QUICK].map(passing).into());
    let _ = rig.run(full_resend(SLOW, 1, 3));
    let _ = rig.run(full_resend(QUICK, 1, 3));
    seat_a_reader(&mut rig.stores);
    let said = rig.run(vec![broken(SLOW), next(QUICK, 1, 2)]);
    assert!(said.is_refused_for(Reason::ResendNeeded), "{said:?}");
    assert_eq!(said.acks, [(QUICK, 2)]);
    let (is_whole, is_quarantined, failure) = rig.slow();
    assert_eq!((is_whole, is_quarantined), (false, true));
    assert!(failure.expect("it is told").contains("batches on that decode"));
    assert_eq!(serve(&mut rig.stores), [Reason::PartitionAway]);
    assert_eq!(rig.stores.desk_of(SLOW).err(), Some(Reason::PartitionAway));
    assert!(rig.stores.desk_of(QUICK).is_ok());
    // Places go on above those that were taken; the core takes another epoch.
    let said = rig.run(full_resend(SLOW, 2, 5));
    assert_eq!((said.acks.last(), rig.slow()), (Some(&(SLOW, 1)), (true, false, None)));
    assert_eq!(rig.stores.store_of(SLOW).map(OrderStore::ended_count), Some(5));
}

/// A reader that waited for its turn was told of orders that the epoch had voided, and kept them.
#[test]
fn readers_who_wait_are_turned_away_when_a_full_resend_is_awaited() {
    let mut rig: Stores<SimDisk> = Stores::of([SLOW, QUICK].map(passing).into());
    let _ = rig.run(full_resend(SLOW, 1, 3));
    seat_a_reader(&mut rig.stores);
    let _ = rig.run(vec![open(SLOW, 2)]);
    assert!(!rig.slow().0, "a resend is due");
    assert_eq!(serve(&mut rig.stores), [Reason::PartitionAway]);
    assert_eq!(serve(&mut rig.stores), [], "once");
    assert_eq!(rig.stores.desk_of(SLOW).err(), Some(Reason::PartitionAway));
    let _ = rig.run(full_resend(SLOW, 3, 2));
    seat_a_reader(&mut rig.stores);
    assert_eq!(serve(&mut rig.stores), []);
}

/// A failure behind a batch freed the connection's window twice, which ended the ingest thread.
#[test]
fn a_batch_that_breaks_an_invariant_frees_its_window_once_and_its_core_is_told_once() {
    for breaks_behind in [false, true] {
        let mut rig: Stores<SimDisk> = Stores::of([SLOW, QUICK].map(passing).into());
        let _ = rig.run(full_resend(SLOW, 1, 3));
        let request = if breaks_behind { next(SLOW, 1, 2) } else { broken(SLOW) };
        if breaks_behind {
            rig.stores.source_stores[0].feed_breaks_at = Some(BatchNo(3));
        }
        let StoreRequest::Batch(frame) = &request.what else { panic!("{request:?}") };
        let len = frame.len();
        let said = rig.run(vec![request]);
        assert_eq!((said.taken_len, said.acks.len()), (len, usize::from(breaks_behind)));
        assert_eq!(said.refusals, [(SLOW, Reason::ResendNeeded)]);
        assert_eq!((rig.slow().0, rig.slow().1), (false, true));
    }
}

#[test]
fn a_source_whose_archive_cannot_be_fed_is_quarantined_alone() {
    let mut rig: Stores<SimDisk> = Stores::of([SLOW, QUICK].map(passing).into());
    let _ = rig.run(full_resend(SLOW, 1, 3));
    let _ = rig.run(full_resend(QUICK, 1, 3));
    rig.stores.source_stores[0].feed_breaks_at = Some(BatchNo(2));
    let said = rig.run(vec![next(QUICK, 1, 2)]);
    assert!(said.is_refused_for(Reason::ResendNeeded), "{said:?}");
    assert_eq!((said.acks, rig.slow().1), (vec![(QUICK, 2)], true));
}

/// A failed write or sync of one source's log ended the node, and trading with it.
#[test]
fn a_failed_write_or_sync_of_a_sources_log_quarantines_it_and_acknowledges_nothing() {
    let faults = [
        SimFaults { write_fails_at: Some(0), ..SimFaults::default() },
        SimFaults { sync_fails_at: Some(0), ..SimFaults::default() },
    ];
    for faults in faults {
        let disk = SimDisk::new(1);
        let mut rig = Stores::of(vec![kept(&disk), passing(QUICK)]);
        let said = rig.run(full_resend(SLOW, 1, 3));
        assert_eq!(said.acks.last(), Some(&(SLOW, 1)));
        let _ = rig.run(full_resend(QUICK, 1, 3));
        seat_a_reader(&mut rig.stores);
        disk.set_faults(faults);
        let said = rig.run(vec![next(SLOW, 1, 2), next(QUICK, 1, 2)]);
        assert_eq!(said.acks, [(QUICK, 2)], "the other source alone");
        assert!(said.is_refused_for(Reason::SourceQuarantined), "{said:?}");
        assert_eq!((rig.slow().0, rig.slow().1), (false, true));
        assert_eq!(serve(&mut rig.stores), [Reason::PartitionAway]);
        for request in [open(SLOW, 2), reset(SLOW)] {
            let said = rig.run(vec![request]);
            assert!(said.is_refused_for(Reason::SourceQuarantined), "{said:?}");
        }
        let said = rig.run(vec![next(QUICK, 1, 3)]);
        assert_eq!(said.acks, [(QUICK, 3)]);
        rig.stores.close();
    }
}

#[test]
fn an_operator_resets_a_source_at_work_and_a_start_comes_to_the_same() {
    let disk = SimDisk::new(1);
    let mut rig = Stores::of(vec![kept(&disk), passing(QUICK)]);
    let _ = rig.run(full_resend(SLOW, 7, 3));
    let _ = rig.run(full_resend(QUICK, 1, 3));
    seat_a_reader(&mut rig.stores);
    let said = rig.run(vec![reset(SLOW), next(QUICK, 1, 2)]);
    assert!(said.is_refused_for(Reason::ResendNeeded), "its core is told: {said:?}");
    assert_eq!(said.acks, [(QUICK, 2)]);
    assert!(matches!(said.resets[..], [reset] if reset.epoch == Epoch(7)), "{said:?}");
    assert_eq!(rig.slow(), (false, false, None));
    assert_eq!(serve(&mut rig.stores), [Reason::PartitionAway]);
    // The simulated disk stays locked until its power is cut.
    rig.stores.close();
    let disk = disk.after_power_loss(CrashChoice::LoseAll);
    // A start knows it, too: places begin anywhere, and epochs go on.
    let mut rig = Stores::of(vec![kept(&disk), passing(QUICK)]);
    assert!(!rig.slow().0, "it waits for a resend");
    let said = rig.run(full_resend(SLOW, 7, 2));
    assert!(said.refusals.contains(&(SLOW, Reason::ResendNeedsEpoch)), "{said:?}");
    let low = |number, recs| {
        let flags = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
        let mut frame = Orders { source: SLOW, epoch: 8, number, flags, recs }.frame();
        let seq_at = frame.len() - ROW_LEN - 2 + weir_wire::delivery::row_offset_of("seq");
        frame[seq_at..seq_at + 8].copy_from_slice(&5u64.to_le_bytes());
        IngestRequest { connection: u64::from(SLOW.0), what: StoreRequest::Batch(frame) }
    };
    let said = rig.run(vec![open(SLOW, 8), low(1, 9..10)]);
    assert_eq!(said.acks, [(SLOW, 1)], "{said:?}");
    assert_eq!(rig.stores.store_of(SLOW).map(|store| store.head().seq), Some(Seq(5)));
    rig.stores.close();
    let disk = disk.after_power_loss(CrashChoice::LoseAll);
    let rig = Stores::of(vec![kept(&disk)]);
    assert_eq!(rig.stores.store_of(SLOW).map(OrderStore::ended_count), Some(1));
    assert!(rig.slow().0);
}

#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_of_a_failed_source_is_found() {
    use crate::plant::{self, Plant};

    let invariant: fn() =
        a_source_that_breaks_an_invariant_is_quarantined_and_comes_back_with_a_resend;
    let write: fn() =
        a_failed_write_or_sync_of_a_sources_log_quarantines_it_and_acknowledges_nothing;
    let reset: fn() = an_operator_resets_a_source_at_work_and_a_start_comes_to_the_same;
    for (bug, test) in [
        (Plant::ReadersKept, invariant),
        (
            Plant::ServedDuringResends,
            readers_who_wait_are_turned_away_when_a_full_resend_is_awaited,
        ),
        (Plant::FailureNotTold, invariant),
        (Plant::FailedWriteAcknowledged, write),
        (Plant::ResetNotKept, reset),
    ] {
        plant::set(Some(bug));
        let is_found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(is_found, "{bug:?}");
    }
}
