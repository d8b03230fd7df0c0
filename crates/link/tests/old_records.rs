//! Requests for old records: a gateway sees those of its sessions and definitions, and no others.
//! A link that is behind catches up in turns, or ends where its records are deleted.

#![expect(clippy::unwrap_used, reason = "a test")]

use weir_link::codec::{LinkFault, next_message, put_with_group};
use weir_link::grants::Grant;
use weir_link::message::{AskRecords, BindSession, BindingsNamed, LogId, OpenLink, RecordNo, Seal};
use weir_link::partition_end::{OldRecordRead, SessionPosition};
use weir_link::{PartitionEnd, PartitionTerms, PartitionView, ToGateway};
use weir_types::{
    ClOrdId, Epoch, EventNo, Nanos, PartitionId, Position, RequestNo, SessionId, Switch,
};
use weir_wire::event::RequestDone;
use weir_wire::frame::put_frame;
use weir_wire::{Event, Message, PlainEvent};

const HERE: PartitionId = PartitionId(1);
const GATEWAY: SessionId = SessionId(501);
const OWN: SessionId = SessionId(7);
const OTHER: SessionId = SessionId(8);
const NOW: Nanos = Nanos(1_000_000_000);

/// A partition whose records are the two sessions' in turn; the first ten are deleted, and those
/// from `in_files` on cannot be read yet.
struct Records {
    count: u64,
    in_files: u64,
}

impl PartitionView for Records {
    fn end_record(&self) -> u64 {
        self.count + 1
    }

    fn epoch(&self) -> Epoch {
        Epoch(1)
    }

    fn epoch_end(&self, _: Epoch, _: u64) -> Option<(Position, Epoch)> {
        None
    }

    fn continues(&self, _: u64, epoch: Epoch) -> bool {
        epoch == Epoch(1)
    }

    fn record(&mut self, number: u64, into: &mut Vec<u8>) -> bool {
        self.old_record(number, into) == OldRecordRead::Found
    }

    fn session(&self, _: SessionId, _: EventNo, _: Epoch) -> Option<SessionPosition> {
        Some(SessionPosition::default())
    }

    fn record_of(&self, _: SessionId, _: EventNo) -> u64 {
        self.end_record()
    }

    fn past_records(&self, _: SessionId, _: EventNo, _: u64) -> Vec<u64> {
        Vec::new()
    }

    fn old_record(&mut self, number: u64, into: &mut Vec<u8>) -> OldRecordRead {
        if number <= 10 {
            return OldRecordRead::Deleted;
        }
        if number >= self.in_files {
            return OldRecordRead::NotYet;
        }
        let done = RequestDone {
            position: Position(number),
            event_no: EventNo(number),
            request_no: RequestNo(number),
            transact_time: Nanos(0),
            cl_ord_id: ClOrdId::NONE,
            affected_count: 0,
            session_id: if number.is_multiple_of(2) { OWN } else { OTHER },
            partition_id: HERE,
            ref_template_id: 0,
            ..RequestDone::NOTHING_TOLD
        };
        into.clear();
        Event::Plain(PlainEvent::RequestDone(done)).encode(into);
        OldRecordRead::Found
    }

    fn is_granted(&self, _: &Grant) -> bool {
        true
    }

    fn is_trader(&self, _: SessionId) -> bool {
        true
    }
}

fn send<M: Message>(end: &mut PartitionEnd, view: &mut Records, message: &M) {
    let mut frame = Vec::new();
    put_frame(message, &mut frame);
    take(end, view, &frame).unwrap();
}

fn take(end: &mut PartitionEnd, view: &mut Records, frame: &[u8]) -> Result<(), LinkFault> {
    let arrived = next_message(frame, NOW).unwrap().expect("it is whole");
    end.take(GATEWAY, arrived, view)
}

/// Returns a partition with an open link, to which one session is bound.
fn partition(view: &mut Records) -> PartitionEnd {
    partition_continued(view, 0)
}

/// Returns the same with a link that goes on at a record; zero for none.
fn partition_continued(view: &mut Records, next_record: u64) -> PartitionEnd {
    let (lease, pulse) = (Nanos(10_000_000_000), Nanos(1_000_000_000));
    let (partition_id, commands_max, incarnation) = (HERE, 4, 1);
    let log_id = LogId([1; 16]);
    let terms = PartitionTerms { partition_id, log_id, incarnation, lease, pulse, commands_max };
    let mut end = PartitionEnd::new(terms, []);
    let open = OpenLink {
        incarnation: 1,
        next_record,
        window_bytes: 1 << 20,
        session_id: GATEWAY,
        epoch: Epoch(u32::from(next_record > 0)),
        partition_id: HERE,
        log_id,
    };
    send(&mut end, view, &open);
    let named = BindingsNamed { session_id: GATEWAY, count: 0, partition_id: HERE };
    send(&mut end, view, &named);
    let bind = BindSession {
        generation: 5,
        next_event_no: EventNo::NONE,
        seal: Seal::NONE,
        session_id: GATEWAY,
        bound_session_id: OWN,
        epoch: Epoch::NONE,
        partition_id: HERE,
        cancel_on_disconnect: Switch::Off,
        is_check: Switch::Off,
        is_again: Switch::Off,
    };
    send(&mut end, view, &bind);
    end.take_output(GATEWAY);
    end
}

fn ask(number: u64, from_record: u64, records: &[u64]) -> Vec<u8> {
    let (session_id, partition_id, is_urgent) = (GATEWAY, HERE, Switch::Off);
    let head = AskRecords { number, from_record, session_id, partition_id, is_urgent };
    let entries: Vec<_> = records.iter().map(|record| RecordNo { record: *record }).collect();
    let mut frame = Vec::new();
    put_with_group(&head, &entries, &mut frame);
    frame
}

/// Returns the pages that the gateway was sent: the request's number, and the records' numbers.
fn pages(end: &mut PartitionEnd, view: &mut Records) -> Vec<(u64, Vec<u64>)> {
    end.pump(GATEWAY, view, NOW);
    let output = end.take_output(GATEWAY);
    let (mut rest, mut pages) = (&output[..], Vec::new());
    while let Some(arrived) = next_message(rest, NOW).unwrap() {
        if let ToGateway::OldRecords(head, records) = ToGateway::decode(&arrived.raw).unwrap() {
            pages.push((head.number, records.map(|(entry, _)| entry.number).collect()));
        }
        rest = &rest[arrived.len..];
    }
    pages
}

#[test]
fn a_gateway_gets_the_old_records_of_its_sessions_alone() {
    let mut view = Records { count: 1_000, in_files: 900 };
    let mut end = partition(&mut view);
    for (frame, want) in [
        (ask(1, 0, &[12, 14, 15, 16]), vec![12, 14, 16]),
        // An empty page says that the first record is deleted.
        (ask(2, 0, &[4, 12]), vec![]),
        // The rest is asked for again.
        (ask(3, 0, &[896, 898, 902]), vec![896, 898]),
        (ask(4, 893, &[]), vec![894, 896, 898]),
    ] {
        take(&mut end, &mut view, &frame).unwrap();
        assert_eq!(pages(&mut end, &mut view).pop().map(|(_, page)| page), Some(want));
    }
}

#[test]
fn a_request_whose_first_record_cannot_be_read_yet_waits_and_holds_up_no_other() {
    let mut view = Records { count: 1_000, in_files: 900 };
    let mut end = partition(&mut view);
    take(&mut end, &mut view, &ask(1, 0, &[902, 904])).unwrap();
    take(&mut end, &mut view, &ask(2, 0, &[12])).unwrap();
    assert_eq!(pages(&mut end, &mut view), [(2, vec![12])]);
    assert_eq!(pages(&mut end, &mut view), []);
    view.in_files = 1_001;
    assert_eq!(pages(&mut end, &mut view), [(1, vec![902, 904])]);
}

#[test]
fn requests_beyond_the_bounds_end_the_link() {
    let many: Vec<_> = (100..229).collect();
    // Record zero stopped the reader of the files, and with it the node.
    for (records, from) in [
        (&[][..], 0),
        (&[0], 0),
        (&[0, 12], 0),
        (&[14, 12], 0),
        (&[12, 12], 0),
        (&[12], 12),
        (&many, 0),
    ] {
        let mut view = Records { count: 1_000, in_files: 900 };
        let mut end = partition(&mut view);
        let refused = take(&mut end, &mut view, &ask(1, from, records));
        assert_eq!(refused, Err(LinkFault::OutOfPlace("AskRecords")), "{records:?}");
    }
    let mut view = Records { count: 1_000, in_files: 900 };
    let mut end = partition(&mut view);
    for number in 1..=64 {
        take(&mut end, &mut view, &ask(number, 0, &[902])).unwrap();
    }
    let refused = take(&mut end, &mut view, &ask(65, 0, &[902]));
    assert_eq!(refused, Err(LinkFault::WindowOverrun));
}

/// One returning gateway stopped the links of all others until it had caught up.
#[test]
fn a_gateway_that_is_far_behind_catches_up_in_turns() {
    let mut view = Records { count: 100_000, in_files: 100_001 };
    let mut end = partition_continued(&mut view, 11);
    let (mut sum, mut turns) = (0, 0);
    while end.next_record_of(GATEWAY) != Some(100_001) {
        let count = end.pump(GATEWAY, &mut view, NOW);
        assert!((1..2 * 4_096).contains(&count), "{count} records in one turn");
        end.take_output(GATEWAY);
        (sum, turns) = (sum + count, turns + 1);
    }
    assert_eq!(sum, 99_990);
    assert!(turns > 10 && end.pump(GATEWAY, &mut view, NOW) == 0);
}

/// Such a link stayed open for ever, without an event.
#[test]
fn a_link_whose_next_record_is_deleted_has_lost_it() {
    let mut view = Records { count: 1_000, in_files: 900 };
    for (next_record, has_lost) in [(10, true), (11, false), (950, false)] {
        let mut end = partition_continued(&mut view, next_record);
        end.pump(GATEWAY, &mut view, NOW);
        assert_eq!(end.has_lost(GATEWAY), has_lost, "{next_record}");
    }
}

/// A gateway whose events came without a pause had no pulse: it did not learn the partition's load,
/// nor that its own pulses had arrived.
#[test]
fn pulses_are_sent_by_their_own_time_however_many_events_are() {
    let mut view = Records { count: 11, in_files: 1_000 };
    let mut end = partition_continued(&mut view, 11);
    let mut pulses = Vec::new();
    for number in 1..=8 {
        let now = Nanos(NOW.0 + number * 250_000_000);
        view.count += 2;
        end.pump(GATEWAY, &mut view, now);
        assert!(end.tick(now).is_empty(), "nobody is silent");
        let output = end.take_output(GATEWAY);
        let (mut rest, mut names) = (&output[..], Vec::new());
        while let Some(arrived) = next_message(rest, now).unwrap() {
            names.push(ToGateway::decode(&arrived.raw).unwrap().name());
            rest = &rest[arrived.len..];
        }
        assert!(names.contains(&"EventBatch"), "{names:?}");
        if names.contains(&"LinkPulse") {
            pulses.push(number);
        }
    }
    assert_eq!(pulses, [4, 8], "each second");
}
