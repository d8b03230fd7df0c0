//! The gateway's end: a session that is bound again, by a takeover on its other connection; a link
//! that is opened.

use weir_link::codec::next_message;
use weir_link::gateway_end::{HandOver, SessionPoint, WantedBinding};
use weir_link::kept::LinkCommand;
use weir_link::message::{
    CommandRefused, EpochEnded, LinkOpened, LinkReady, LogId, Seal, SessionBound, SessionUnbound,
    StageSpans,
};
use weir_link::{GatewayEnd, GatewayTerms, GatewayView, LinkFault, ToGateway, ToPartition};
use weir_types::{
    ClOrdId, Epoch, EventNo, InstrumentId, Nanos, OrderId, PartitionId, Reason, RequestNo,
    SessionId, Switch,
};
use weir_wire::frame::{RawMessage, put_frame};
use weir_wire::order_entry::CancelOrder;
use weir_wire::{Message, Request};

const GATEWAY: SessionId = SessionId(501);
const SESSION: SessionId = SessionId(7);
const HERE: PartitionId = PartitionId(1);
const NOW: Nanos = Nanos(1_000_000_000);

/// A gateway that notes the answers to its bindings.
#[derive(Default)]
struct Notes(Vec<SessionBound>);

impl GatewayView for Notes {
    fn begin_anew(&mut self, _: u64, _: Epoch) {}

    fn resume_point(&mut self, _: SessionId) -> SessionPoint {
        SessionPoint { next_event_no: EventNo::NONE, epoch: Epoch::NONE }
    }

    fn defined(&mut self, _: &RawMessage<'_>) {}
    fn record(&mut self, _: u64, _: &[u8], _: bool) {}
    fn skipped(&mut self, _: u64, _: u64) {}
    fn epoch_ended(&mut self, _: &EpochEnded) {}
    fn stages(&mut self, _: &StageSpans) {}

    fn bound(&mut self, bound: &SessionBound) {
        self.0.push(*bound);
    }

    fn past_records(&mut self, _: SessionId, _: &mut dyn Iterator<Item = u64>) {}
    fn unbound(&mut self, _: &SessionUnbound) {}
    fn refused(&mut self, _: &CommandRefused) {}
    fn other(&mut self, _: &ToGateway<'_>) {}
}

fn receive<M: Message>(end: &mut GatewayEnd, notes: &mut Notes, message: &M) {
    let mut frame = Vec::new();
    put_frame(message, &mut frame);
    let arrived = next_message(&frame, NOW).expect("it is a frame").expect("it is whole");
    end.take(arrived, notes).expect("it is in place");
}

fn connect(end: &mut GatewayEnd, notes: &mut Notes) {
    end.connected(NOW);
    let opened = LinkOpened {
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
    receive(end, notes, &opened);
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
