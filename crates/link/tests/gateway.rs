//! The gateway's end: a session that is bound again, by a takeover on its other connection; a link
//! that is opened; a partition that lies, and one that is away for the lease.

use weir_link::codec::{BatchEntries, next_message, put_with_group};
use weir_link::gateway_end::{Defined, HandOver, PartitionLoad, SessionPoint, WantedBinding};
use weir_link::kept::LinkCommand;
use weir_link::message::{
    CommandRefused, EpochEnded, EventBatch, LinkOpened, LinkPulse, LinkReady, LinkedEvent, LogId,
    RecordNo, Seal, SessionBound, SessionFirm, SessionFirms, SessionRecords, SessionUnbound,
    StageSpans,
};
use weir_link::{GatewayEnd, GatewayTerms, GatewayView, LinkFault, ToGateway, ToPartition};
use weir_types::{
    ClOrdId, Epoch, EventNo, FirmId, InstrumentId, Nanos, OrderId, PartitionId, Position, Reason,
    RequestNo, SessionId, Switch,
};
use weir_wire::event::RequestDone;
use weir_wire::frame::{put_frame, put_frame_with};
use weir_wire::order_entry::CancelOrder;
use weir_wire::{Event, Message, PlainEvent, Request, SCHEMA_ID, SCHEMA_VERSION};

const GATEWAY: SessionId = SessionId(501);
const SESSION: SessionId = SessionId(7);
const HERE: PartitionId = PartitionId(1);
const NOW: Nanos = Nanos(1_000_000_000);

/// A gateway that notes the answers to its bindings, and the resume point of its sessions.
struct Notes(Vec<SessionBound>, SessionPoint);

impl Default for Notes {
    fn default() -> Notes {
        Notes(Vec::new(), SessionPoint::NONE)
    }
}

impl GatewayView for Notes {
    fn begin_anew(&mut self, _: u64, _: Epoch) {}

    fn resume_point(&mut self, _: SessionId) -> SessionPoint {
        self.1
    }

    fn defined(&mut self, _: &Defined<'_>) {}
    fn record(&mut self, _: u64, _: &[u8], _: bool) {}
    fn skipped(&mut self, _: u64, _: u64) {}
    fn epoch_ended(&mut self, _: &EpochEnded) {}
    fn stages(&mut self, _: &StageSpans) {}

    fn bound(&mut self, bound: &SessionBound, _: bool) {
        self.0.push(*bound);
    }

    fn past_records(&mut self, _: SessionId, _: &mut dyn Iterator<Item = u64>) {}
    fn unbound(&mut self, _: &SessionUnbound) {}
    fn refused(&mut self, _: &CommandRefused) {}
    fn other(&mut self, _: &ToGateway<'_>) {}
}

fn receive<M: Message>(end: &mut GatewayEnd, notes: &mut Notes, message: &M) {
    hear(end, notes, message).expect("it is in place");
}

fn hear<M: Message>(end: &mut GatewayEnd, notes: &mut Notes, message: &M) -> Result<(), LinkFault> {
    let mut frame = Vec::new();
    put_frame(message, &mut frame);
    take(end, notes, &frame)
}

fn take(end: &mut GatewayEnd, notes: &mut Notes, frame: &[u8]) -> Result<(), LinkFault> {
    let arrived = next_message(frame, NOW).expect("it is a frame").expect("it is whole");
    end.take(arrived, notes)
}

const OPENED: LinkOpened = LinkOpened {
    incarnation: 1,
    next_record: 9,
    end_record: 9,
    session_id: GATEWAY,
    epoch: Epoch(1),
    lease_ms: 10_000,
    pulse_ms: 1_000,
    commands_max: 8,
    partition_id: HERE,
    is_continued: Switch::Off,
    log_id: LogId([1; 16]),
};

fn connect(end: &mut GatewayEnd, notes: &mut Notes) {
    end.connected(NOW);
    receive(end, notes, &OPENED);
    receive(end, notes, &LinkReady { session_id: GATEWAY, partition_id: HERE });
}

fn new_end() -> GatewayEnd {
    let (session_id, partition_id) = (GATEWAY, HERE);
    let terms = GatewayTerms { session_id, partition_id, incarnation: 3, window_bytes: 1 << 20 };
    GatewayEnd::new(terms)
}

fn wanted(session_id: SessionId, generation: u64) -> WantedBinding {
    let (seal, cancel_on_disconnect) = (Seal::NONE, Switch::On);
    WantedBinding { session_id, generation, seal, cancel_on_disconnect }
}

fn bound(bound_session_id: SessionId, generation: u64) -> SessionBound {
    SessionBound {
        generation,
        next_record: 9,
        last_request_no: RequestNo(2),
        next_event_no: EventNo(1),
        oldest_event_no: EventNo(1),
        session_id: GATEWAY,
        bound_session_id,
        epoch: Epoch(1),
        record_count: 0,
        partition_id: HERE,
        reason: Reason::None,
        is_check: Switch::Off,
    }
}

fn command(request_no: u64) -> LinkCommand {
    let request = Request::CancelOrder(CancelOrder {
        request_no: RequestNo(request_no),
        order_id: OrderId(0),
        cl_ord_id: ClOrdId::NONE,
        orig_cl_ord_id: ClOrdId::NONE,
        sending_time: Nanos(0),
        session_id: SESSION,
        instrument_id: InstrumentId(1),
    });
    LinkCommand { request, trace_id: 0, t0: NOW }
}

/// Returns the names of the messages that the end sends.
fn sent(end: &mut GatewayEnd) -> Vec<&'static str> {
    let output = end.take_output();
    let (mut rest, mut names) = (&output[..], Vec::new());
    while let Some(arrived) = next_message(rest, NOW).expect("it is a frame") {
        names.push(ToPartition::decode(&arrived.raw).expect("the end sends messages").name());
        rest = &rest[arrived.len..];
    }
    names
}

/// They came behind the binding, under its generation, and the client gave their numbers to others.
#[test]
fn commands_of_the_binding_before_are_sent_first_or_count_as_received() {
    let (mut end, mut notes) = (new_end(), Notes::default());
    connect(&mut end, &mut notes);
    end.bind(wanted(SESSION, 5), &mut notes);
    receive(&mut end, &mut notes, &bound(SESSION, 5));
    sent(&mut end);
    assert_eq!(end.hand_over(command(3)), HandOver::Taken);
    end.bind(wanted(SESSION, 6), &mut notes);
    assert_eq!(sent(&mut end), ["CommandBatch", "BindSession"]);
    receive(&mut end, &mut notes, &bound(SESSION, 6));
    assert_eq!(notes.0.last().map(|bound| bound.last_request_no), Some(RequestNo(3)));
}

/// While logons came faster than their answers, no command passed.
#[test]
fn a_link_opens_while_sessions_are_bound_that_it_has_not_named() {
    let (mut end, mut notes) = (new_end(), Notes::default());
    end.bind(wanted(SESSION, 5), &mut notes);
    connect(&mut end, &mut notes);
    assert!(end.is_linked() && !end.is_open());
    end.bind(wanted(SessionId(8), 6), &mut notes);
    receive(&mut end, &mut notes, &bound(SESSION, 5));
    assert!(end.is_open());
}

/// A partition that accepted the connection and said nothing kept the gateway from trying again.
#[test]
fn a_link_is_opened_in_time_and_a_partition_that_is_not_read_on_purpose_is_not_silent() {
    let (mut end, mut notes) = (new_end(), Notes::default());
    let after = |ms: u64| Nanos(NOW.0 + ms * 1_000_000);
    end.connected(NOW);
    assert_eq!(end.tick(after(5_000)), Ok(()));
    assert_eq!(end.tick(after(5_001)), Err(LinkFault::Silent));
    connect(&mut end, &mut notes);
    assert_eq!(end.tick(after(2_500)), Ok(()));
    assert_eq!(end.tick(after(2_501)), Err(LinkFault::Silent));
    end.held_back(after(2_501));
    assert_eq!(end.tick(after(5_001)), Ok(()));
}

/// Returns a frame with events of the session, each with its number and the records skipped before
/// it.
fn events(first_record: u64, numbers: &[u64], skipped_before: u32) -> Vec<u8> {
    let mut batch = BatchEntries::default();
    for number in numbers {
        let done = RequestDone {
            position: Position(*number),
            event_no: EventNo(*number),
            request_no: RequestNo(*number),
            transact_time: Nanos(0),
            cl_ord_id: ClOrdId::NONE,
            affected_count: 0,
            session_id: SESSION,
            partition_id: HERE,
            ref_template_id: 0,
            ..RequestDone::NOTHING_TOLD
        };
        let mut record = Vec::new();
        Event::Plain(PlainEvent::RequestDone(done)).encode(&mut record);
        batch.push(&LinkedEvent { skipped_before }, &record);
    }
    let head =
        EventBatch { first_record, skipped_after: 0, session_id: GATEWAY, partition_id: HERE };
    let mut frame = Vec::new();
    batch.put::<_, LinkedEvent>(&head, &mut frame);
    frame
}

/// Returns a frame that lists these records for the session.
fn listed(records: &[u64]) -> Vec<u8> {
    let head = SessionRecords {
        generation: 5,
        first_event_no: EventNo(3),
        session_id: GATEWAY,
        bound_session_id: SESSION,
        partition_id: HERE,
    };
    let entries: Vec<_> = records.iter().map(|record| RecordNo { record: *record }).collect();
    let mut frame = Vec::new();
    put_with_group(&head, &entries, &mut frame);
    frame
}

fn bound_end() -> (GatewayEnd, Notes) {
    let (mut end, mut notes) = (new_end(), Notes::default());
    connect(&mut end, &mut notes);
    end.bind(wanted(SESSION, 5), &mut notes);
    receive(&mut end, &mut notes, &bound(SESSION, 5));
    (end, notes)
}

/// The gateway's thread ended at such an event.
#[test]
fn an_event_of_a_session_that_is_not_its_next_one_closes_the_link() {
    let (mut end, mut notes) = bound_end();
    assert_eq!(take(&mut end, &mut notes, &events(9, &[1, 2], 0)), Ok(()));
    let gap = LinkFault::EventGap { session_id: SESSION, wanted: EventNo(3), found: EventNo(4) };
    assert_eq!(take(&mut end, &mut notes, &events(11, &[4], 0)), Err(gap));
    assert_eq!(end.next_record(), 11, "it does not count as received");
    let again = LinkFault::EventGap { session_id: SESSION, wanted: EventNo(3), found: EventNo(2) };
    assert_eq!(take(&mut end, &mut notes, &events(11, &[2], 0)), Err(again));
}

/// Bytes that are no event counted as received, and the link went on behind them.
#[test]
fn a_record_that_is_no_event_closes_the_link_and_is_still_the_next_one() {
    let (mut end, mut notes) = bound_end();
    let mut batch = BatchEntries::default();
    batch.push(&LinkedEvent { skipped_before: 0 }, b"no event");
    let head =
        EventBatch { first_record: 9, skipped_after: 0, session_id: GATEWAY, partition_id: HERE };
    let mut frame = Vec::new();
    batch.put::<_, LinkedEvent>(&head, &mut frame);
    assert!(matches!(take(&mut end, &mut notes, &frame), Err(LinkFault::Decode(_))));
    assert_eq!(end.next_record(), 9);
}

/// Placeholders for 260 million records overran the gateway's reader, and the process ended.
#[test]
fn a_batch_skips_no_more_records_than_a_tail_holds() {
    let (mut end, mut notes) = bound_end();
    let overrun = Err(LinkFault::WindowOverrun);
    assert_eq!(take(&mut end, &mut notes, &events(9, &[1, 2], 40_000)), overrun);
    assert_eq!(end.next_record(), 9);
    assert_eq!(take(&mut end, &mut notes, &events(9, &[1, 2], 30_000)), Ok(()));
}

#[test]
fn answers_to_bindings_with_numbers_that_cannot_be_close_the_link() {
    let good = bound(SESSION, 5);
    for lie in [
        SessionBound { next_event_no: EventNo(0), ..good },
        SessionBound { next_event_no: EventNo(1 << 62), ..good },
        SessionBound { oldest_event_no: EventNo(2), ..good },
        SessionBound { next_record: 0, ..good },
        SessionBound { next_record: u64::MAX, ..good },
        SessionBound { record_count: 1, ..good },
    ] {
        let (mut end, mut notes) = (new_end(), Notes::default());
        connect(&mut end, &mut notes);
        end.bind(wanted(SESSION, 5), &mut notes);
        let out_of_range = Err(LinkFault::OutOfRange("SessionBound"));
        assert_eq!(hear(&mut end, &mut notes, &lie), out_of_range, "{lie:?}");
        assert!(notes.0.is_empty(), "the gateway has not heard it");
    }
}

/// The gateway's reader subtracts a record from the one behind it.
#[test]
fn lists_of_records_that_do_not_ascend_or_are_too_long_close_the_link() {
    for list in [&[4_u64, 4][..], &[5, 4], &[4, 9], &[4, 5, 6]] {
        let (mut end, mut notes) = (new_end(), Notes::default());
        notes.1 = SessionPoint { next_event_no: EventNo(3), epoch: Epoch(1) };
        connect(&mut end, &mut notes);
        end.bind(wanted(SESSION, 5), &mut notes);
        let two = SessionBound { next_event_no: EventNo(5), record_count: 2, ..bound(SESSION, 5) };
        receive(&mut end, &mut notes, &two);
        let out_of_range = Err(LinkFault::OutOfRange("SessionRecords"));
        assert_eq!(take(&mut end, &mut notes, &listed(list)), out_of_range, "{list:?}");
    }
}

#[test]
fn an_opening_with_numbers_that_cannot_be_closes_the_link() {
    for lie in [
        LinkOpened { is_continued: Switch::On, log_id: LogId::NONE, next_record: 0, ..OPENED },
        LinkOpened { next_record: 0, ..OPENED },
        LinkOpened { next_record: u64::MAX, ..OPENED },
        LinkOpened { epoch: Epoch::NONE, ..OPENED },
    ] {
        let (mut end, mut notes) = (new_end(), Notes::default());
        end.connected(NOW);
        assert!(hear(&mut end, &mut notes, &lie).is_err(), "{lie:?}");
    }
}

/// The list was lost with the link, and the binding went on without it: the client had a gap.
#[test]
fn a_binding_whose_list_is_not_complete_does_not_go_on() {
    for is_complete in [false, true] {
        let (mut end, mut notes) = (new_end(), Notes::default());
        notes.1 = SessionPoint { next_event_no: EventNo(3), epoch: Epoch(1) };
        connect(&mut end, &mut notes);
        end.bind(wanted(SESSION, 5), &mut notes);
        let two = SessionBound { next_event_no: EventNo(5), record_count: 2, ..bound(SESSION, 5) };
        receive(&mut end, &mut notes, &two);
        let records = if is_complete { &[4, 5][..] } else { &[4] };
        assert_eq!(take(&mut end, &mut notes, &listed(records)), Ok(()));
        end.disconnected();
        end.connected(NOW);
        receive(&mut end, &mut notes, &LinkOpened { is_continued: Switch::On, ..OPENED });
        end.take_output();
        receive(&mut end, &mut notes, &LinkReady { session_id: GATEWAY, partition_id: HERE });
        let output = end.take_output();
        let arrived = next_message(&output, NOW).expect("it is a frame").expect("it is whole");
        let Ok(ToPartition::BindSession(bind)) = ToPartition::decode(&arrived.raw) else {
            panic!("it names its session first")
        };
        assert_eq!(bind.is_again == Switch::On, is_complete);
    }
}

/// An order that was kept for minutes was executed when the partition was back.
#[test]
fn commands_without_an_answer_are_dropped_when_the_lease_has_lapsed() {
    let (mut end, _) = bound_end();
    assert_eq!(end.hand_over(command(3)), HandOver::Taken);
    end.disconnected();
    let after = |ms: u64| Nanos(NOW.0 + ms * 1_000_000);
    assert!(!end.has_lapsed(after(9_999)));
    assert_eq!(end.kept_count(), 1);
    assert!(end.has_lapsed(after(10_000)));
    assert_eq!((end.kept_count(), end.generation_of(SESSION)), (0, None));
    assert!(!end.has_lapsed(after(20_000)), "once");
    // A link that fails to open again does not begin the time anew, and one that is open ends it.
    let (mut end, mut notes) = bound_end();
    end.disconnected();
    end.connected(after(9_000));
    end.disconnected();
    assert!(end.has_lapsed(after(10_000)));
    connect(&mut end, &mut notes);
    assert!(!end.has_lapsed(after(30_000)));
}

#[test]
fn a_message_of_a_later_version_is_passed_over() {
    let (mut end, mut notes) = bound_end();
    let mut frame = Vec::new();
    put_frame(&LinkReady { session_id: GATEWAY, partition_id: HERE }, &mut frame);
    let head = frame.len() - LinkReady::BLOCK_LENGTH - 8;
    frame[head + 2..head + 4].copy_from_slice(&159_u16.to_le_bytes());
    assert!(take(&mut end, &mut notes, &frame).is_err(), "this version has no such message");
    frame[head + 6..head + 8].copy_from_slice(&(SCHEMA_VERSION + 1).to_le_bytes());
    assert_eq!(take(&mut end, &mut notes, &frame), Ok(()));
}

#[test]
fn the_partitions_load_is_that_of_its_newest_pulse() {
    let (mut end, mut notes) = bound_end();
    assert_eq!(end.load(), PartitionLoad::default());
    let pulse = LinkPulse {
        sent_at: NOW,
        heard_sent_at: Nanos(0),
        heard_at: Nanos(0),
        bytes_used: 0,
        session_id: GATEWAY,
        queued: 4,
        waiting: 9,
        partition_id: HERE,
        load_permille: 700,
    };
    receive(&mut end, &mut notes, &pulse);
    assert_eq!(end.load(), PartitionLoad { queued: 4, waiting: 9, permille: 700 });
}

/// Behind a break of the link the naming's answer came for the question that followed it: its list
/// was another one, and the client had a gap.
#[test]
fn of_several_answers_the_last_one_counts_with_its_list() {
    let (mut end, mut notes) = (new_end(), Notes::default());
    notes.1 = SessionPoint { next_event_no: EventNo(3), epoch: Epoch(1) };
    connect(&mut end, &mut notes);
    end.bind(wanted(SESSION, 5), &mut notes);
    end.bind(wanted(SESSION, 5), &mut notes);
    let two = SessionBound { next_event_no: EventNo(5), record_count: 2, ..bound(SESSION, 5) };
    receive(&mut end, &mut notes, &two);
    assert_eq!(take(&mut end, &mut notes, &listed(&[4, 5])), Ok(()));
    assert!(notes.0.is_empty());
    let later = SessionBound { next_record: 12, ..two };
    receive(&mut end, &mut notes, &later);
    assert_eq!(take(&mut end, &mut notes, &listed(&[4, 11])), Ok(()));
    assert_eq!(notes.0, [later]);
    // One that was not asked for is nobody's.
    receive(&mut end, &mut notes, &two);
    assert_eq!(notes.0, [later]);
}

/// Control freed the sessions of a gateway whose link to it had been away for the lease.
#[test]
fn a_gateway_keeps_its_grants_over_a_lapse_of_the_link_to_control() {
    let control = PartitionId(0);
    let terms = GatewayTerms {
        session_id: GATEWAY,
        partition_id: control,
        incarnation: 3,
        window_bytes: 1 << 20,
    };
    let (mut end, mut notes) = (GatewayEnd::new(terms), Notes::default());
    end.connected(NOW);
    receive(&mut end, &mut notes, &LinkOpened { partition_id: control, ..OPENED });
    receive(&mut end, &mut notes, &LinkReady { session_id: GATEWAY, partition_id: control });
    end.bind(wanted(SESSION, 5), &mut notes);
    receive(&mut end, &mut notes, &SessionBound { partition_id: control, ..bound(SESSION, 5) });
    end.disconnected();
    assert!(end.has_lapsed(Nanos(NOW.0 + 10_000_000_000)), "it is told");
    assert_eq!(end.grants().len(), 1);
}

/// A gateway whose sessions traded sent no pulse: its stamps, its credit and the moves that it had
/// told were heard of at the next pause.
#[test]
fn pulses_are_sent_by_their_own_time_however_many_commands_are() {
    let (mut end, mut notes) = bound_end();
    sent(&mut end);
    let mut pulses = Vec::new();
    for number in 1..=8 {
        let now = Nanos(NOW.0 + number * 250_000_000);
        assert_eq!(end.hand_over(command(number)), HandOver::Taken);
        end.flush(now);
        end.tick(now).expect("it is not silent");
        if sent(&mut end).contains(&"LinkPulse") {
            pulses.push(number);
        }
    }
    assert_eq!(pulses, [4, 8], "each second");
    // Credit is told with the time at which it is, not with that of an earlier message.
    take(&mut end, &mut notes, &events(9, &[1, 2, 3], 0)).expect("it is in place");
}

/// The definitions of a partition that could not be read were missing, and nobody was told.
#[test]
fn a_message_that_cannot_be_read_closes_a_link_that_is_being_defined() {
    let firms = SessionFirms { session_id: GATEWAY, partition_id: HERE };
    let mut good = Vec::new();
    let firm = SessionFirm { bound_session_id: SESSION, firm_id: FirmId(3) };
    put_with_group(&firms, &[firm], &mut good);
    let mut ready = Vec::new();
    put_frame(&LinkReady { session_id: GATEWAY, partition_id: HERE }, &mut ready);
    for (name, frame, block_cut, rest_cut) in [("firms", &good, 0, 1), ("ready", &ready, 1, 0)] {
        let raw = next_message(frame, NOW).expect("it is a frame").expect("it is whole").raw;
        let block = &raw.block()[..raw.block().len() - block_cut];
        let rest = &raw.rest()[..raw.rest().len() - rest_cut];
        let mut damaged = Vec::new();
        put_frame_with(&mut damaged, |out| {
            for word in [block.len() as u16, raw.template_id, SCHEMA_ID, raw.version] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(block);
            out.extend_from_slice(rest);
        });
        let (mut end, mut notes) = (new_end(), Notes::default());
        end.connected(NOW);
        receive(&mut end, &mut notes, &OPENED);
        assert_eq!(take(&mut end, &mut notes, &good), Ok(()));
        let taken = take(&mut end, &mut notes, &damaged);
        assert!(matches!(taken, Err(LinkFault::Decode(_))), "{name}: {taken:?}");
    }
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_pulses_that_wait_for_a_pause_is_found() {
    use weir_link::plant::{self, Plant};
    plant::set(Some(Plant::PulsesDeferred));
    let test = pulses_are_sent_by_their_own_time_however_many_commands_are;
    let is_found = std::panic::catch_unwind(test).is_err();
    plant::set(None);
    assert!(is_found);
}
