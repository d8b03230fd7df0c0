//! A gateway that lies: each act without right is refused by the partition, and nothing of it
//! enters the queue to the partition's ring.

#![expect(clippy::unwrap_used, reason = "a test")]

use weir_link::codec::{BatchEntries, LinkFault, next_message};
use weir_link::grants::Grant;
use weir_link::message::{
    BindSession, BindingsNamed, CommandBatch, LinkedCommand, LogId, OpenLink, Seal, UnbindSession,
};
use weir_link::partition_end::{RequestName, Revocation, SessionPosition};
use weir_link::{PartitionEnd, PartitionTerms, PartitionView, ToGateway};
use weir_types::{
    ClOrdId, Epoch, EventNo, InstrumentId, Nanos, OrderId, PartitionId, Position, Reason,
    RequestNo, SessionId, Switch,
};
use weir_wire::frame::put_frame;
use weir_wire::order_entry::CancelOrder;
use weir_wire::reference::{DefineFirm, SessionChoice, SessionLost};
use weir_wire::{Command, Definition, Message, Request};

const HERE: PartitionId = PartitionId(1);
const HONEST: SessionId = SessionId(501);
const LIAR: SessionId = SessionId(502);
const SESSION: SessionId = SessionId(7);
const NOW: Nanos = Nanos(1_000_000_000);

/// A partition without events, in epoch 3, whose good seals are all ones.
struct Empty;

impl PartitionView for Empty {
    fn end_record(&self) -> u64 {
        1
    }

    fn epoch(&self) -> Epoch {
        Epoch(3)
    }

    fn epoch_end(&self, _: Epoch, _: u64) -> Option<(Position, Epoch)> {
        None
    }

    fn continues(&self, _: u64, epoch: Epoch) -> bool {
        epoch == Epoch(3)
    }

    fn record(&mut self, _: u64, _: &mut Vec<u8>) -> bool {
        false
    }

    fn session(&self, id: SessionId, _: EventNo, _: Epoch) -> Option<SessionPosition> {
        (id == SESSION).then(SessionPosition::default)
    }

    fn record_of(&self, _: SessionId, _: EventNo) -> u64 {
        1
    }

    fn past_records(&self, _: SessionId, _: EventNo, _: u64) -> Vec<u64> {
        Vec::new()
    }

    fn is_granted(&self, grant: &Grant) -> bool {
        grant.seal == Seal([1; 16])
    }

    fn is_trader(&self, _: SessionId) -> bool {
        true
    }
}

fn send<M: Message>(end: &mut PartitionEnd, from: SessionId, message: &M) -> Result<(), LinkFault> {
    let mut frame = Vec::new();
    put_frame(message, &mut frame);
    take(end, from, &frame)
}

fn take(end: &mut PartitionEnd, from: SessionId, frame: &[u8]) -> Result<(), LinkFault> {
    let arrived = next_message(frame, NOW).expect("it is a frame").expect("it is whole");
    end.take(from, arrived, &mut Empty)
}

fn open(session_id: SessionId) -> OpenLink {
    let (incarnation, next_record, window_bytes) = (u64::from(session_id.0), 0, 1 << 20);
    let (epoch, partition_id, log_id) = (Epoch::NONE, HERE, LogId::NONE);
    OpenLink { incarnation, next_record, window_bytes, session_id, epoch, partition_id, log_id }
}

fn bind(session_id: SessionId, generation: u64) -> BindSession {
    BindSession {
        generation,
        next_event_no: EventNo(1),
        seal: Seal([1; 16]),
        session_id,
        bound_session_id: SESSION,
        epoch: Epoch(3),
        partition_id: HERE,
        cancel_on_disconnect: Switch::Off,
        is_check: Switch::Off,
        is_again: Switch::Off,
    }
}

fn cancel(session_id: SessionId, request_no: u64) -> Command {
    Command::Request(Request::CancelOrder(CancelOrder {
        request_no: RequestNo(request_no),
        cl_ord_id: ClOrdId::NONE,
        orig_cl_ord_id: ClOrdId::NONE,
        order_id: OrderId(9),
        sending_time: Nanos(0),
        session_id,
        instrument_id: InstrumentId(1),
    }))
}

fn batch(from: SessionId, generation: u64, command: &Command) -> (CommandBatch, Vec<u8>) {
    let head = CommandBatch {
        sent_at: NOW,
        session_id: from,
        epoch: Epoch(3),
        partition_id: HERE,
        is_again: Switch::Off,
    };
    (head, framed(&head, generation, command))
}

fn framed(head: &CommandBatch, generation: u64, command: &Command) -> Vec<u8> {
    let (mut entries, mut bytes, mut frame) = (BatchEntries::default(), Vec::new(), Vec::new());
    command.encode(&mut bytes);
    entries.push(&LinkedCommand { generation, trace_id: 0, t0_before: 0 }, &bytes);
    entries.put::<_, LinkedCommand>(head, &mut frame);
    frame
}

/// Returns a partition with two open links; the session is bound to the honest gateway by
/// generation 5.
fn partition() -> PartitionEnd {
    let (lease, pulse) = (Nanos(10_000_000_000), Nanos(1_000_000_000));
    let (partition_id, incarnation, commands_max) = (HERE, 1, 4);
    let log_id = LogId([1; 16]);
    let terms = PartitionTerms { partition_id, log_id, incarnation, lease, pulse, commands_max };
    let mut end = PartitionEnd::new(terms, []);
    for gateway in [HONEST, LIAR] {
        send(&mut end, gateway, &open(gateway)).unwrap();
        let named = BindingsNamed { session_id: gateway, count: 0, partition_id: HERE };
        send(&mut end, gateway, &named).unwrap();
    }
    send(&mut end, HONEST, &bind(HONEST, 5)).unwrap();
    assert_eq!(end.bound_to(SESSION), Some((HONEST, 5)));
    end.take_output(HONEST);
    end.take_output(LIAR);
    end
}

/// Returns the reasons of refusals that a gateway was sent.
fn refusals(end: &mut PartitionEnd, gateway: SessionId) -> Vec<Reason> {
    let output = end.take_output(gateway);
    let (mut rest, mut reasons) = (&output[..], Vec::new());
    while let Some(arrived) = next_message(rest, NOW).unwrap() {
        match ToGateway::decode(&arrived.raw).unwrap() {
            ToGateway::CommandRefused(refused) => reasons.push(refused.reason),
            ToGateway::SessionBound(bound) => reasons.push(bound.reason),
            ToGateway::SessionUnbound(unbound) => reasons.push(unbound.reason),
            _ => {}
        }
        rest = &rest[arrived.len..];
    }
    reasons
}

#[test]
fn a_command_without_right_is_refused_and_reaches_no_ring() {
    for (name, from, generation, command, reason) in [
        ("of a session of another gateway", LIAR, 5, cancel(SESSION, 1), Reason::NotLoggedOn),
        (
            "of a session that is bound nowhere",
            LIAR,
            5,
            cancel(SessionId(8), 1),
            Reason::NotLoggedOn,
        ),
        ("of an old binding", HONEST, 4, cancel(SESSION, 1), Reason::NotLoggedOn),
        ("without a number", HONEST, 5, cancel(SESSION, 0), Reason::FieldOutOfRange),
        ("of the control log", HONEST, 5, firm(), Reason::WrongPartition),
    ] {
        let mut end = partition();
        take(&mut end, from, &batch(from, generation, &command).1).unwrap();
        assert_eq!(refusals(&mut end, from), [reason], "{name}");
        assert_eq!(end.next_command(), None, "{name}");
    }
    let mut end = partition();
    take(&mut end, HONEST, &batch(HONEST, 5, &cancel(SESSION, 1)).1).unwrap();
    assert_eq!(end.next_command().map(|next| next.command), Some(cancel(SESSION, 1)));
}

fn definition() -> DefineFirm {
    DefineFirm {
        request_no: RequestNo(1),
        session_id: SESSION,
        firm_id: weir_types::FirmId(3),
        live_orders_max: 0,
        fields: 0,
        name: weir_types::Symbol::NONE,
    }
}

fn firm() -> Command {
    Command::Request(Request::DefineFirm(definition()))
}

#[test]
fn a_command_that_no_gateway_may_send_ends_the_link() {
    let on = Switch::On;
    for command in [
        Command::Tick,
        Command::Import(Position(1), Definition::DefineFirm(definition())),
        Command::SessionLost(SessionLost { session_id: SESSION, cancel_on_disconnect: on }),
        Command::SessionChoice(SessionChoice { session_id: SESSION, cancel_on_disconnect: on }),
    ] {
        let mut end = partition();
        let taken = take(&mut end, HONEST, &batch(HONEST, 5, &command).1);
        assert_eq!(taken, Err(LinkFault::NotARequest), "{command:?}");
        assert_eq!(end.next_command(), None, "{command:?}");
    }
}

#[test]
fn a_batch_for_another_partition_ends_the_link_and_one_of_another_epoch_is_dropped() {
    let mut end = partition();
    let (head, _) = batch(HONEST, 5, &cancel(SESSION, 1));
    let other = CommandBatch { partition_id: PartitionId(2), ..head };
    let taken = take(&mut end, HONEST, &framed(&other, 5, &cancel(SESSION, 1)));
    assert_eq!(taken, Err(LinkFault::WrongPartition));
    let old = CommandBatch { epoch: Epoch(2), ..head };
    take(&mut end, HONEST, &framed(&old, 5, &cancel(SESSION, 1))).unwrap();
    assert_eq!((end.next_command(), refusals(&mut end, HONEST)), (None, vec![]));
}

#[test]
fn a_session_is_bound_by_a_grant_of_a_higher_generation_alone() {
    for (name, asked, reason) in [
        (
            "a forged seal",
            BindSession { seal: Seal([2; 16]), ..bind(LIAR, 9) },
            Reason::NotEntitled,
        ),
        ("a lower generation", bind(LIAR, 4), Reason::TakenOver),
        ("the same generation", bind(LIAR, 5), Reason::TakenOver),
        (
            "an unknown session",
            BindSession { bound_session_id: SessionId(8), ..bind(LIAR, 9) },
            Reason::UnknownSession,
        ),
    ] {
        let mut end = partition();
        send(&mut end, LIAR, &asked).unwrap();
        assert_eq!(refusals(&mut end, LIAR), [reason], "{name}");
        assert_eq!(end.bound_to(SESSION), Some((HONEST, 5)), "{name}");
        assert_eq!(refusals(&mut end, HONEST), [], "{name}");
    }
    let mut end = partition();
    send(&mut end, LIAR, &bind(LIAR, 6)).unwrap();
    assert_eq!(refusals(&mut end, HONEST), [Reason::TakenOver]);
    assert_eq!(end.bound_to(SESSION), Some((LIAR, 6)));
}

#[test]
fn a_gateway_ends_no_binding_of_another_one() {
    let mut end = partition();
    for (from, generation) in [(LIAR, 5), (HONEST, 4)] {
        let unbind = UnbindSession {
            generation,
            session_id: from,
            bound_session_id: SESSION,
            partition_id: HERE,
            is_ended: Switch::On,
        };
        send(&mut end, from, &unbind).unwrap();
        assert_eq!(end.bound_to(SESSION), Some((HONEST, 5)));
    }
}

/// The answer of a request whose session had logged on again meanwhile was told to nobody: the
/// gateway kept the request for ever.
#[test]
fn a_refusal_is_told_to_the_process_that_sent_the_request_while_the_session_is_bound_to_it() {
    let Command::Request(request) = cancel(SESSION, 1) else { panic!("it is a request") };
    for (gateway, told) in [(HONEST, &[Reason::LogFull][..]), (LIAR, &[])] {
        let mut end = partition();
        take(&mut end, HONEST, &batch(HONEST, 5, &cancel(SESSION, 1)).1).unwrap();
        end.command_taken();
        send(&mut end, gateway, &bind(gateway, 6)).unwrap();
        end.take_output(HONEST);
        end.take_output(LIAR);
        end.refused(RequestName::of(&request), Reason::LogFull);
        assert_eq!(refusals(&mut end, gateway), told, "{gateway}");
    }
}

#[test]
fn more_commands_than_the_terms_permit_are_not_heard_and_at_last_end_the_link() {
    let mut end = partition();
    for number in 1..=4 {
        assert!(!end.is_full(HONEST));
        take(&mut end, HONEST, &batch(HONEST, 5, &cancel(SESSION, number)).1).unwrap();
    }
    assert!(end.is_full(HONEST) && !end.is_full(LIAR));
    for number in 5..=260 {
        take(&mut end, HONEST, &batch(HONEST, 5, &cancel(SESSION, number)).1).unwrap();
    }
    let taken = take(&mut end, HONEST, &batch(HONEST, 5, &cancel(SESSION, 261)).1);
    assert_eq!(taken, Err(LinkFault::WindowOverrun));
}

/// A session that filled the window of its gateway while a disk stood, left and came back broke the
/// link of all others, again and again.
#[test]
fn commands_of_sessions_that_have_ended_wait_in_the_queue_and_break_no_link() {
    let mut end = partition();
    for number in 1..=4 {
        take(&mut end, HONEST, &batch(HONEST, 5, &cancel(SESSION, number)).1).unwrap();
    }
    let unbind = UnbindSession {
        generation: 5,
        session_id: HONEST,
        bound_session_id: SESSION,
        partition_id: HERE,
        is_ended: Switch::On,
    };
    send(&mut end, HONEST, &unbind).unwrap();
    send(&mut end, HONEST, &bind(HONEST, 6)).unwrap();
    assert!(end.is_full(HONEST));
    assert_eq!(take(&mut end, HONEST, &batch(HONEST, 6, &cancel(SESSION, 5)).1), Ok(()));
    for is_full in [true, false] {
        end.command_taken();
        assert_eq!(end.is_full(HONEST), is_full);
    }
}

#[test]
fn a_message_before_the_opening_is_out_of_place() {
    let mut end = partition();
    let stranger = SessionId(503);
    assert!(matches!(send(&mut end, stranger, &bind(stranger, 9)), Err(LinkFault::OutOfPlace(_))));
    end.disconnected(HONEST);
    assert!(matches!(send(&mut end, HONEST, &bind(HONEST, 9)), Err(LinkFault::OutOfPlace(_))));
}

/// A partition whose directory was made anew counts its epochs from one again: the gateway went on
/// with the records of the log before.
#[test]
fn a_link_goes_on_at_a_resume_point_of_the_same_log_alone() {
    for (log_id, epoch, is_continued) in [
        (LogId([1; 16]), 3, Switch::On),
        (LogId([1; 16]), 2, Switch::Off),
        (LogId([2; 16]), 3, Switch::Off),
        (LogId::NONE, 3, Switch::Off),
    ] {
        let mut end = partition();
        let point = OpenLink { next_record: 1, epoch: Epoch(epoch), log_id, ..open(HONEST) };
        send(&mut end, HONEST, &point).unwrap();
        let output = end.take_output(HONEST);
        let arrived = next_message(&output, NOW).unwrap().expect("it is whole");
        let ToGateway::LinkOpened(opened) = ToGateway::decode(&arrived.raw).unwrap() else {
            panic!("it is opened first")
        };
        assert_eq!(opened.is_continued, is_continued, "{log_id:?} {epoch}");
        assert_eq!(opened.log_id, LogId([1; 16]));
    }
}

/// Each of them took a place in the node's memory, as often as the gateway sent it.
#[test]
fn a_gateway_that_binds_again_and_again_and_reads_nothing_is_not_heard_and_fills_no_queue() {
    let mut end = partition();
    let mut count = 0;
    while !end.is_full(HONEST) {
        let cancel_on_disconnect = if count % 2 == 0 { Switch::On } else { Switch::Off };
        send(&mut end, HONEST, &BindSession { cancel_on_disconnect, ..bind(HONEST, 5) }).unwrap();
        count += 1;
        assert!(count < 10_000);
    }
    assert!(!end.is_full(LIAR));
    end.command_taken();
    assert_eq!(end.next_command(), None, "there was one choice at most");
    assert!(end.take_output(HONEST).len() < 300 * 1024);
    assert!(!end.is_full(HONEST));
}

#[test]
fn a_gateway_whose_bytes_are_not_read_on_purpose_is_not_silent() {
    let mut end = partition();
    let later = Nanos(NOW.0 + 2_600_000_000);
    end.held_back(HONEST, later);
    assert_eq!(end.tick(later), [LIAR]);
}

#[cfg(feature = "planted")]
#[test]
fn each_planted_bug_of_checks_is_found() {
    use weir_link::plant::{self, Plant};
    for (planted, test) in [
        (
            Plant::UnboundCommandTaken,
            a_command_without_right_is_refused_and_reaches_no_ring as fn(),
        ),
        (Plant::SealIgnored, a_session_is_bound_by_a_grant_of_a_higher_generation_alone),
        (Plant::LowerGenerationBinds, a_session_is_bound_by_a_grant_of_a_higher_generation_alone),
        (Plant::RightsKept, a_grant_that_is_void_binds_at_no_partition_that_was_away),
    ] {
        plant::set(Some(planted));
        let found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(found, "{planted:?}");
    }
}

/// A gateway that was cut off had its session moved to another one, where it ended: back again, its
/// orders were executed behind the logout.
#[test]
fn a_generation_below_that_of_a_binding_which_has_ended_binds_no_more() {
    let mut end = partition();
    send(&mut end, LIAR, &bind(LIAR, 6)).unwrap();
    let unbind = UnbindSession {
        generation: 6,
        session_id: LIAR,
        bound_session_id: SESSION,
        partition_id: HERE,
        is_ended: Switch::On,
    };
    send(&mut end, LIAR, &unbind).unwrap();
    assert_eq!(end.bound_to(SESSION), None);
    end.take_output(HONEST);
    for is_again in [Switch::On, Switch::Off] {
        send(&mut end, HONEST, &BindSession { is_again, ..bind(HONEST, 5) }).unwrap();
        assert_eq!(refusals(&mut end, HONEST), [Reason::TakenOver]);
    }
    send(&mut end, HONEST, &bind(HONEST, 7)).unwrap();
    assert_eq!(refusals(&mut end, HONEST), [Reason::None]);
}

/// The session went on as if its orders were still there.
#[test]
fn a_binding_whose_session_was_lost_does_not_go_on() {
    for cancel_on_disconnect in [Switch::On, Switch::Off] {
        let mut end = partition();
        send(&mut end, HONEST, &BindSession { cancel_on_disconnect, ..bind(HONEST, 5) }).unwrap();
        end.tick(NOW);
        end.disconnected(HONEST);
        end.tick(Nanos(NOW.0 + 10_000_000_000));
        assert_eq!(end.bound_to(SESSION), None);
        send(&mut end, HONEST, &open(HONEST)).unwrap();
        end.take_output(HONEST);
        // The commands that its gateway has kept since are too old.
        let again = BindSession { cancel_on_disconnect, ..bind(HONEST, 5) };
        send(&mut end, HONEST, &BindSession { is_again: Switch::On, ..again }).unwrap();
        assert_eq!(refusals(&mut end, HONEST), [Reason::PartitionAway]);
        send(&mut end, HONEST, &again).unwrap();
        let reason = match cancel_on_disconnect {
            Switch::On => Reason::PartitionAway,
            Switch::Off => Reason::None,
        };
        assert_eq!(refusals(&mut end, HONEST), [reason], "{cancel_on_disconnect:?}");
    }
}

fn revoked(good_from: u64) -> Revocation {
    Revocation { session_id: SESSION, good_from, reason: Reason::KeyReplaced }
}

/// A gateway that did not hear of it, since its link to control was cut, traded on for the session
/// whose key had been taken away.
#[test]
fn a_session_whose_rights_are_taken_away_ends_at_the_partition_whatever_its_gateway_knows() {
    for cancel_on_disconnect in [Switch::On, Switch::Off] {
        let mut end = partition();
        send(&mut end, HONEST, &BindSession { cancel_on_disconnect, ..bind(HONEST, 5) }).unwrap();
        while end.next_command().is_some() {
            end.command_taken();
        }
        end.take_output(HONEST);
        // One has entered the ring, and one waits for it.
        take(&mut end, HONEST, &batch(HONEST, 5, &cancel(SESSION, 1)).1).unwrap();
        end.command_taken();
        take(&mut end, HONEST, &batch(HONEST, 5, &cancel(SESSION, 2)).1).unwrap();
        end.revoke(&revoked(6));
        assert_eq!((end.bound_to(SESSION), end.figures().bindings), (None, 0));
        let lost = SessionLost { session_id: SESSION, cancel_on_disconnect };
        let want = (cancel_on_disconnect == Switch::On).then_some(Command::SessionLost(lost));
        assert_eq!(end.next_command().map(|next| next.command), want);
        end.command_taken();
        assert_eq!(refusals(&mut end, HONEST), [Reason::KeyReplaced]);
        take(&mut end, HONEST, &batch(HONEST, 5, &cancel(SESSION, 3)).1).unwrap();
        assert_eq!(
            (end.next_command(), refusals(&mut end, HONEST)),
            (None, vec![Reason::NotLoggedOn])
        );
        // No grant of before binds it, neither here nor elsewhere, and each later one does.
        for (gateway, generation) in [(HONEST, 5), (LIAR, 4)] {
            for is_again in [Switch::On, Switch::Off] {
                let again = BindSession { is_again, ..bind(gateway, generation) };
                send(&mut end, gateway, &again).unwrap();
                assert_eq!(refusals(&mut end, gateway), [Reason::KeyReplaced]);
            }
        }
        send(&mut end, LIAR, &bind(LIAR, 6)).unwrap();
        assert_eq!(refusals(&mut end, LIAR), [Reason::None]);
        // The number of the request that was dropped is free: it is no copy of one under way.
        take(&mut end, LIAR, &batch(LIAR, 6, &cancel(SESSION, 2)).1).unwrap();
        assert_eq!(end.next_command().map(|next| next.command), Some(cancel(SESSION, 2)));
        // An old news ends nothing.
        end.revoke(&revoked(6));
        assert_eq!(end.bound_to(SESSION), Some((LIAR, 6)));
    }
}

/// A gateway that was away went on with the session, which nobody had bound since.
#[test]
fn a_grant_that_is_void_binds_at_no_partition_that_was_away() {
    let mut end = partition();
    end.disconnected(HONEST);
    end.revoke(&revoked(9));
    send(&mut end, HONEST, &open(HONEST)).unwrap();
    end.take_output(HONEST);
    send(&mut end, HONEST, &BindSession { is_again: Switch::On, ..bind(HONEST, 5) }).unwrap();
    send(&mut end, HONEST, &bind(HONEST, 8)).unwrap();
    send(&mut end, HONEST, &bind(HONEST, 9)).unwrap();
    let told = refusals(&mut end, HONEST);
    assert_eq!(told, [Reason::KeyReplaced, Reason::KeyReplaced, Reason::None]);
}

/// The first commands of a batch were taken, and the link closed at the one that was none.
#[test]
fn a_batch_with_a_command_that_cannot_be_read_is_taken_whole_or_not_at_all() {
    let (head, _) = batch(HONEST, 5, &cancel(SESSION, 1));
    let (mut entries, mut frame) = (BatchEntries::default(), Vec::new());
    let entry = LinkedCommand { generation: 5, trace_id: 0, t0_before: 0 };
    let mut bytes = Vec::new();
    cancel(SESSION, 1).encode(&mut bytes);
    entries.push(&entry, &bytes);
    bytes.truncate(12);
    entries.push(&entry, &bytes);
    entries.put::<_, LinkedCommand>(&head, &mut frame);
    let mut end = partition();
    assert!(matches!(take(&mut end, HONEST, &frame), Err(LinkFault::Decode(_))));
    assert_eq!(end.next_command(), None);
}
