//! The operator's client against a node that follows a script. No clock decides an outcome.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use weir_types::{
    AccountId, Cash, ClOrdId, Epoch, EventNo, FirmId, OrderId, PhaseReached, Role, Symbol,
};
use weir_wire::Message;
use weir_wire::dialogue::{ClientMessage, put_logon_ack};
use weir_wire::event::RequestRejected;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame, put_frame};
use weir_wire::session::{ApiKey, Label, LogonAck, Logout, PartitionState, Reject};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
const KEY: ApiKey = ApiKey([7; 32]);
const ME: SessionId = SessionId(5);
const P1: PartitionId = PartitionId(1);
const P2: PartitionId = PartitionId(2);

/// The node's end of a connection.
struct Peer {
    stream: TcpStream,
    inbox: Vec<u8>,
}

/// A client's message.
#[derive(Debug)]
enum Heard {
    Logon,
    Request(Request),
    Logout,
    Gone,
}

impl Peer {
    fn hear(&mut self) -> Heard {
        loop {
            if let Framing::Frame { len, message } = next_frame(&self.inbox, CLIENT_FRAME_LEN_MAX) {
                let raw = message.unwrap();
                let heard = match ClientMessage::decode(&raw).unwrap() {
                    ClientMessage::Logon(..) => Some(Heard::Logon),
                    ClientMessage::Request(request) => Some(Heard::Request(request)),
                    ClientMessage::Logout(_) => Some(Heard::Logout),
                    ClientMessage::Heartbeat(_) => None,
                    other => panic!("an operator said {other:?}"),
                };
                self.inbox.drain(..len);
                match heard {
                    Some(heard) => return heard,
                    None => continue,
                }
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => return Heard::Gone,
                Ok(len) => self.inbox.extend_from_slice(&bytes[..len]),
            }
        }
    }

    fn hear_request(&mut self) -> Request {
        match self.hear() {
            Heard::Request(request) => request,
            other => panic!("a request is due, not {other:?}"),
        }
    }

    /// Hears a halt of each partition; returns their numbers.
    fn hear_halts(&mut self) -> [RequestNo; 2] {
        [P1, P2].map(|partition_id| match self.hear_request() {
            Request::ChangePhases(halt) if halt.partition_id == partition_id => halt.request_no,
            other => panic!("a halt of partition {partition_id} is due, not {other:?}"),
        })
    }

    fn say(&mut self, message: &impl Message) {
        let mut bytes = Vec::new();
        put_frame(message, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Acknowledges the logon; no partition has events or requests yet.
    fn open(&mut self) {
        assert!(matches!(self.hear(), Heard::Logon));
        let ack = LogonAck {
            server_time: Nanos(1),
            session_id: ME,
            firm_id: FirmId::NONE,
            heartbeat_interval_ms: 5_000,
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Operator,
        };
        let states = [CONTROL, P1, P2].map(|partition_id| PartitionState {
            last_request_no: RequestNo(0),
            next_event_no: EventNo(1),
            oldest_event_no: EventNo(1),
            epoch: Epoch(1),
            partition_id,
        });
        let mut bytes = Vec::new();
        put_logon_ack(&ack, &states, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn close(&mut self) {
        assert!(matches!(self.hear(), Heard::Logout));
        self.say(&Logout { session_id: ME, reason: Reason::LogoutRequested });
    }
}

/// Starts a node that plays a script; returns an operator that is logged on to it.
fn operator(script: impl FnOnce(&mut Peer) + Send + 'static) -> (Admin, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let node = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut peer = Peer { stream, inbox: Vec::new() };
        peer.open();
        script(&mut peer);
    });
    (Admin::connect(address, ME, KEY, PATIENCE).unwrap(), node)
}

fn rejected(event_no: u64, request_no: u64, reason: Reason) -> RequestRejected {
    RequestRejected {
        position: Position(event_no),
        event_no: EventNo(event_no),
        request_no: RequestNo(request_no),
        order_id: OrderId(0),
        transact_time: Nanos(1),
        cl_ord_id: ClOrdId::NONE,
        orig_cl_ord_id: ClOrdId::NONE,
        session_id: ME,
        instrument_id: InstrumentId(0),
        partition_id: P1,
        reason,
        ref_template_id: 0,
    }
}

fn done(event_no: u64, request_no: u64, partition_id: PartitionId) -> RequestDone {
    RequestDone {
        position: Position(event_no),
        event_no: EventNo(event_no),
        request_no: RequestNo(request_no),
        transact_time: Nanos(1),
        cl_ord_id: ClOrdId::NONE,
        affected_count: 0,
        session_id: ME,
        partition_id,
        ref_template_id: 0,
        ..RequestDone::NOTHING_TOLD
    }
}

fn transfer() -> Transfer {
    Transfer {
        request_no: RequestNo(0),
        transfer_id: 77,
        cash: Cash(1_000),
        position_qty: 0,
        session_id: SessionId(0),
        account_id: AccountId(1),
        instrument_id: InstrumentId(0),
        partition_id: P1,
        peer_partition_id: PartitionId(0),
    }
}

/// Returns a halt of all instruments.
fn halt() -> ChangePhases {
    ChangePhases {
        request_no: RequestNo(0),
        session_id: SessionId(0),
        group_id: GroupId::NONE,
        partition_id: P1,
        phase: Phase::Halted,
        resumes: Switch::Off,
        override_collars: Switch::Off,
        through_call: Switch::Off,
    }
}

#[test]
fn an_operator_waits_for_outcomes_and_for_a_partition_to_learn() {
    let (mut admin, node) = operator(|peer| {
        let define = peer.hear_request();
        assert!(matches!(define, Request::DefineFirm(_)));
        peer.say(&done(1, 1, CONTROL));
        // The partition has not imported the account yet: the transfer is sent again.
        let transfer = |peer: &mut Peer| match peer.hear_request() {
            Request::Transfer(transfer) => transfer,
            other => panic!("{other:?}"),
        };
        let first = transfer(peer);
        peer.say(&rejected(1, 2, Reason::UnknownAccount));
        let second = transfer(peer);
        assert_eq!(first.transfer_id, second.transfer_id, "idempotent by its own number");
        assert_eq!((first.request_no, second.request_no), (RequestNo(2), RequestNo(3)));
        peer.say(&done(2, 3, P1));
        transfer(peer);
        peer.say(&rejected(3, 4, Reason::InsufficientCash));
        peer.close();
    });
    assert_eq!(admin.partitions(), [P1, P2]);
    let firm = DefineFirm {
        request_no: RequestNo(0),
        name: Symbol::new("FIRM").unwrap(),
        session_id: SessionId(0),
        firm_id: FirmId(1),
        live_orders_max: 0,
        fields: 0,
    };
    admin.define_firm(firm).unwrap();
    admin.transfer(transfer()).unwrap();
    let error = admin.transfer(transfer()).unwrap_err();
    assert!(
        matches!(error, ClientError::Refused { reason: Reason::InsufficientCash, .. }),
        "{error}"
    );
    admin.close().unwrap();
    node.join().unwrap();
}

/// A halt of a market whose orders end in many parts was given up after 10 s as not done.
#[test]
fn a_change_of_many_instruments_is_waited_for_beyond_the_time_of_an_answer() {
    let (mut admin, node) = operator(|peer| {
        assert!(matches!(peer.hear_request(), Request::Transfer(_)));
        assert!(matches!(peer.hear_request(), Request::ChangePhases(_)));
        std::thread::sleep(Duration::from_millis(50));
        let (changed_count, skipped_count, affected_count) = (3, 1, 4_000);
        let of = done(1, 2, P1);
        peer.say(&RequestDone { changed_count, skipped_count, affected_count, ..of });
        peer.close();
    });
    admin.timeout = Duration::from_millis(1);
    let error = admin.transfer(transfer()).unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
    let changed = admin.change_phases(halt()).unwrap();
    let want = PhasesChanged { changed: 3, skipped: 1, ended: 4_000, position: Position(1) };
    assert_eq!(changed, want);
    admin.timeout = PATIENCE;
    admin.close().unwrap();
    node.join().unwrap();
}

/// Returns a kill switch for a firm.
fn kill(partition_id: PartitionId, cancel_orders: Switch) -> KillSwitch {
    KillSwitch {
        request_no: RequestNo(0),
        session_id: SessionId(0),
        id: 1,
        partition_id,
        scope: weir_types::KillScope::Firm,
        switch: Switch::On,
        cancel_orders,
    }
}

/// Returns a halt of all instruments of both partitions.
fn halts() -> [(PartitionId, Request); 2] {
    [P1, P2].map(|partition_id| {
        (partition_id, Request::ChangePhases(ChangePhases { partition_id, ..halt() }))
    })
}

/// The second partition traded on for as long as the first one was stalled, without a word.
#[test]
fn a_partition_that_stalls_holds_no_other_up_and_is_told_once() {
    let (told, hear_told) = std::sync::mpsc::channel();
    let (mut admin, node) = operator(move |peer| {
        // Both are sent before either is answered.
        let [first, second] = peer.hear_halts();
        peer.say(&done(1, second.0, P2));
        let mut late = Vec::new();
        while late.last() != Some(&P1) {
            late.push(hear_told.recv_timeout(PATIENCE).expect("it is told"));
        }
        assert!(late.len() <= 2, "{late:?}: the other one once at most");
        peer.say(&RequestDone { changed_count: 3, ..done(1, first.0, P1) });
        peer.close();
        assert_eq!(hear_told.try_iter().filter(|late| *late == P1).count(), 0, "once");
    });
    admin.timeout = Duration::from_millis(1);
    let (outcomes, error) = admin.request_each(&halts(), |late| {
        told.send(late).expect("it is listened to");
    });
    assert!(error.is_none(), "{error:?}");
    let [PartitionOutcome::Done(first), PartitionOutcome::Done(second)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!((first.changed_count, second.changed_count), (3, 0));
    admin.timeout = PATIENCE;
    admin.close().unwrap();
    node.join().unwrap();
}

#[test]
fn a_gateways_refusal_is_of_the_partition_of_its_number() {
    let (mut admin, node) = operator(|peer| {
        let [first, second] = peer.hear_halts();
        assert_ne!(first, second);
        peer.say(&Reject {
            request_no: second,
            field: Label::new(""),
            session_id: ME,
            ref_template_id: ChangePhases::TEMPLATE_ID,
            reason: Reason::WrongPartition,
        });
        peer.say(&done(1, first.0, P1));
        peer.close();
    });
    let (outcomes, error) = admin.request_each(&halts(), |_| {});
    assert!(error.is_none(), "{error:?}");
    let [PartitionOutcome::Done(_), PartitionOutcome::Failed(refused)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    let ClientError::Refused { reason, .. } = refused else { panic!("{refused}") };
    assert_eq!(*reason, Reason::WrongPartition);
    admin.close().unwrap();
    node.join().unwrap();
}

#[test]
fn several_partitions_learn_of_definitions_each_in_its_time() {
    let (mut admin, node) = operator(|peer| {
        let mut numbers = [(); 2].map(|()| peer.hear_request().request_no().0);
        let unknown = Reason::UnknownFirm;
        peer.say(&RequestRejected { partition_id: P2, ..rejected(1, numbers[1], unknown) });
        peer.say(&done(1, numbers[0], P1));
        numbers[1] = peer.hear_request().request_no().0;
        peer.say(&RequestDone { affected_count: 4, ..done(2, numbers[1], P2) });
        peer.close();
    });
    let kills = [P1, P2].map(|id| (id, Request::KillSwitch(kill(id, Switch::On))));
    let (outcomes, error) = admin.request_each(&kills, |_| {});
    assert!(error.is_none(), "{error:?}");
    let [PartitionOutcome::Done(_), PartitionOutcome::Done(second)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(second.affected_count, 4);
    admin.close().unwrap();
    node.join().unwrap();
}

#[test]
fn an_answer_that_does_not_come_is_told_as_not_known() {
    let (mut admin, node) = operator(|peer| {
        assert!(matches!(peer.hear_request(), Request::KillSwitch(_)));
        let [first, _] = peer.hear_halts();
        peer.say(&done(1, first.0, P1));
    });
    admin.timeout = Duration::from_millis(1);
    // Its work has a bound.
    let kills = [(P2, Request::KillSwitch(kill(P2, Switch::Off)))];
    let (outcomes, error) = admin.request_each(&kills, |_| panic!("it is not waited for"));
    assert!(error.is_none(), "{error:?}");
    let [PartitionOutcome::Failed(ClientError::Timeout { .. })] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    admin.timeout = PATIENCE;
    let (outcomes, error) = admin.request_each(&halts(), |_| {});
    assert!(error.is_some());
    let [PartitionOutcome::Done(_), PartitionOutcome::Lost] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    let (outcomes, error) = admin.request_each(&halts(), |_| {});
    assert!(error.is_some());
    assert!(!outcomes.iter().any(|of| matches!(of, PartitionOutcome::Done(_))), "{outcomes:?}");
    node.join().unwrap();
}

#[test]
fn requests_that_are_done_in_parts_are_those_without_a_bound_of_their_work() {
    for (request, want) in [
        (Request::ChangePhases(halt()), true),
        (crate::request::cancel_all(P1), true),
        (Request::KillSwitch(kill(P1, Switch::On)), true),
        (Request::KillSwitch(kill(P1, Switch::Off)), false),
        (Request::Transfer(transfer()), false),
    ] {
        assert_eq!(is_done_in_parts(&request), want, "{request:?}");
    }
}

/// An older node does not read the session and the number of a message that it does not know.
#[test]
fn a_request_that_an_older_node_does_not_know_is_refused_at_once() {
    let (mut admin, node) = operator(|peer| {
        let change = peer.hear_request();
        assert!(matches!(change, Request::ChangePhases(_)));
        peer.say(&Reject {
            request_no: RequestNo::NONE,
            field: Label::new(""),
            session_id: SessionId::NONE,
            ref_template_id: change.template_id(),
            reason: Reason::UnknownTemplate,
        });
        let set = peer.hear_request();
        assert!(matches!(set, Request::SetPhase(_)));
        let phase_reached = PhaseReached::Halted;
        peer.say(&RequestDone { phase_reached, ..done(1, set.request_no().0, P1) });
        peer.close();
    });
    let error = admin.change_phases(halt()).unwrap_err();
    let ClientError::Refused { request, reason, .. } = error else { panic!("{error}") };
    assert_eq!((request, reason), ("ChangePhases", Reason::UnknownTemplate));
    let unanswered = admin.client.session(ME).map(crate::session::Session::unanswered_count);
    assert_eq!(unanswered, Some(0), "it is answered");
    let reached = admin.set_phase(P1, InstrumentId(1), Phase::Halted).unwrap();
    assert_eq!(reached, Phase::Halted);
    admin.close().unwrap();
    node.join().unwrap();
}

/// An older node knows `SchedulePhase` alone, of which time zero clears the schedule.
#[test]
fn the_schedule_of_one_instrument_goes_by_the_request_that_older_nodes_know() {
    let (mut admin, node) = operator(|peer| {
        for (number, want_at, is_for_one) in [(1, 9, true), (2, 0, true), (3, 0, false)] {
            let at = match peer.hear_request() {
                Request::SchedulePhase(m) if is_for_one => m.at,
                Request::SchedulePhases(m) if !is_for_one => {
                    assert_eq!((m.step, m.instrument_id), (ScheduleStep::File, InstrumentId(3)));
                    m.at
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(at, Nanos(want_at));
            peer.say(&done(number, number, P1));
        }
        peer.close();
    });
    let (group_id, instrument_id) = (GroupId::NONE, InstrumentId(3));
    let owner = ScheduleOwner { partition_id: P1, group_id, instrument_id };
    admin.file_phase(owner, Nanos(9), Phase::Closed).unwrap();
    admin.clear_schedules(owner).unwrap();
    admin.file_phase(owner, Nanos(0), Phase::Closed).unwrap();
    admin.close().unwrap();
    node.join().unwrap();
}
