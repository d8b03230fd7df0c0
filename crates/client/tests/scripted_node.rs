//! The client against a node that follows a script: logon, resume, gaps, retransmission, pages.
//!
//! The script asserts the client's messages over a real socket. No clock decides an outcome.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_client::drop_copy::{Beginning, CopiedReport, DropCopy};
use weir_client::request::{LimitOrder, cancel};
use weir_client::{
    Client, ClientError, Follower, FollowerConfig, Incoming, Limits, SessionConfig, SessionEvent,
    SigningKey, Submit, Times,
};
use weir_types::*;
use weir_wire::challenge::signed_text;
use weir_wire::delivery::{
    FetchOrders, OrderPage, OrderPageBody, OrderRow, PageFlags, RowFlags, SourceState, SourceStates,
};
use weir_wire::dialogue::{
    ClientMessage, put_logon_ack, put_order_page, put_order_page_body, put_source_states,
};
use weir_wire::drop_copy::{DropCopyRequest, ReportCopy};
use weir_wire::event::{OrderEvent, RequestRejected};
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame, put_frame};
use weir_wire::group::Group;
use weir_wire::reference::DefineFirm;
use weir_wire::report::{ExecutionReport, StageTimes};
use weir_wire::session::{
    ApiKey, Challenge, Label, LogonAck, LogonReject, Logout, NodeId, Nonce, PartitionState, Reject,
    ResumePoint,
};
use weir_wire::{Message, Request};

const PATIENCE: Duration = Duration::from_secs(20);
const KEY: ApiKey = ApiKey([7; 32]);
const ME: SessionId = SessionId(5);
const P1: PartitionId = PartitionId(1);

/// The node's end of a connection.
struct Peer {
    stream: TcpStream,
    inbox: Vec<u8>,
}

/// A client's message, owned.
#[derive(Debug)]
enum ClientRequest {
    Logon {
        resume: Vec<(u16, u64)>,
        cancel_on_disconnect: bool,
    },
    ChallengeRequest,
    /// A signed logon; `is_signed` is true if its signature covers the text of [`challenge`].
    SignedLogon {
        resume: Vec<(u16, u64)>,
        is_signed: bool,
    },
    Request(Request),
    Fetch(FetchOrders, Vec<u8>),
    DropCopy(DropCopyRequest),
    Logout,
    Heartbeat,
    Gone,
}

fn resume_of(points: Group<'_, ResumePoint>) -> Vec<(u16, u64)> {
    let point = |point: ResumePoint| (point.partition_id.0, point.next_event_no.0);
    points.map(|entry| point(entry.unwrap())).collect()
}

fn signing_key() -> SigningKey {
    SigningKey::from_seed([3; 32])
}

fn challenge() -> Challenge {
    Challenge { nonce: Nonce([4; 32]), node_id: NodeId([5; 16]), session_id: ME }
}

impl Peer {
    fn hear(&mut self) -> ClientRequest {
        loop {
            match self.hear_any() {
                ClientRequest::Heartbeat => {}
                other => return other,
            }
        }
    }

    fn hear_any(&mut self) -> ClientRequest {
        loop {
            if let Framing::Frame { len, message } = next_frame(&self.inbox, CLIENT_FRAME_LEN_MAX) {
                let raw = message.unwrap();
                let said = match ClientMessage::decode(&raw).unwrap() {
                    ClientMessage::Logon(logon, points) => ClientRequest::Logon {
                        resume: resume_of(points),
                        cancel_on_disconnect: logon.cancel_on_disconnect == Switch::On,
                    },
                    ClientMessage::ChallengeRequest(_) => ClientRequest::ChallengeRequest,
                    ClientMessage::SignedLogon(logon, points) => {
                        let challenge = challenge();
                        let text = signed_text(challenge.node_id, challenge.nonce, &raw).unwrap();
                        ClientRequest::SignedLogon {
                            resume: resume_of(points),
                            is_signed: signing_key().sign(&text) == logon.signature,
                        }
                    }
                    ClientMessage::Request(request) => ClientRequest::Request(request),
                    ClientMessage::FetchOrders(fetch, tokens) => {
                        ClientRequest::Fetch(fetch, tokens.token.to_vec())
                    }
                    ClientMessage::DropCopyRequest(request) => ClientRequest::DropCopy(request),
                    ClientMessage::Logout(_) => ClientRequest::Logout,
                    ClientMessage::Heartbeat(_) => ClientRequest::Heartbeat,
                    other => panic!("a client of order entry said {other:?}"),
                };
                self.inbox.drain(..len);
                return said;
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => return ClientRequest::Gone,
                Ok(len) => self.inbox.extend_from_slice(&bytes[..len]),
            }
        }
    }

    fn hear_logon(&mut self) -> Vec<(u16, u64)> {
        match self.hear() {
            ClientRequest::Logon { resume, .. } => resume,
            other => panic!("a logon is due, not {other:?}"),
        }
    }

    fn hear_request(&mut self) -> Request {
        match self.hear() {
            ClientRequest::Request(request) => request,
            other => panic!("a request is due, not {other:?}"),
        }
    }

    fn hear_fetch(&mut self) -> (FetchOrders, Vec<u8>) {
        match self.hear() {
            ClientRequest::Fetch(fetch, token) => (fetch, token),
            other => panic!("a question is due, not {other:?}"),
        }
    }

    fn say(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        put(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn say_all(&mut self, messages: &[ExecutionReport]) {
        self.say(|out| messages.iter().for_each(|message| put_frame(message, out)));
    }

    /// Acknowledges a logon with (partition, last request, next event) of each partition.
    fn open(&mut self, states: &[(u16, u64, u64)]) {
        let ack = LogonAck {
            server_time: Nanos(1),
            session_id: ME,
            firm_id: FirmId(3),
            heartbeat_interval_ms: 5_000,
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Operator,
        };
        let states: Vec<PartitionState> = states
            .iter()
            .map(|(partition, last_request, next_event)| PartitionState {
                last_request_no: RequestNo(*last_request),
                next_event_no: EventNo(*next_event),
                oldest_event_no: EventNo(1),
                epoch: Epoch(1),
                partition_id: PartitionId(*partition),
            })
            .collect();
        self.say(|out| put_logon_ack(&ack, &states, out));
    }

    fn wait_until_gone(&mut self) {
        while !matches!(self.hear(), ClientRequest::Gone) {}
    }
}

struct Node {
    address: SocketAddr,
    script: JoinHandle<()>,
}

/// Starts a node that plays `scripts`, one per connection.
fn node(scripts: Vec<Box<dyn FnOnce(Peer) + Send>>) -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = std::thread::spawn(move || {
        for script in scripts {
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            script(Peer { stream, inbox: Vec::new() });
        }
    });
    Node { address, script }
}

fn report(event_no: u64, request_no: u64) -> ExecutionReport {
    let event = OrderEvent {
        position: Position(event_no),
        event_no: EventNo(event_no),
        request_no: RequestNo(request_no),
        rec: Rec(1),
        seq: Seq(event_no),
        order_id: OrderId::new(P1, Rec(1)),
        exec_id: ExecId(event_no),
        match_id: MatchId(0),
        transact_time: Nanos(1),
        created_time: Nanos(1),
        cl_ord_id: ClOrdId::from_number(request_no),
        orig_cl_ord_id: ClOrdId::NONE,
        price: Price(100),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty(0),
        order_qty: Qty(10),
        leaves_qty: Qty(10),
        cum_qty: Qty(0),
        display_qty: Qty(0),
        min_qty: Qty(0),
        expire_time: Nanos(0),
        session_id: ME,
        firm_id: FirmId(3),
        account_id: AccountId(1),
        instrument_id: InstrumentId(1),
        partition_id: P1,
        reason: Reason::None,
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Gtc,
        exec_inst: ExecInst::NONE,
        self_trade_prevention: SelfTradePrevention::None,
        exec_type: ExecType::New,
        ord_status: OrdStatus::New,
        liquidity: Liquidity::None,
    };
    ExecutionReport { event, stage_times: StageTimes::default() }
}

/// Returns a report of another partition.
fn report_in(partition_id: u16, event_no: u64, request_no: u64) -> ExecutionReport {
    let mut report = report(event_no, request_no);
    report.event.partition_id = PartitionId(partition_id);
    report
}

fn order(number: u64) -> Request {
    let order = LimitOrder {
        cl_ord_id: ClOrdId::from_number(number),
        instrument_id: InstrumentId(1),
        account_id: AccountId(1),
        side: Side::Buy,
        price: Price(100),
        order_qty: Qty(10),
        time_in_force: TimeInForce::Gtc,
    };
    order.request()
}

fn connect(node: &Node) -> Client {
    Client::connect(node.address, Limits::default()).unwrap()
}

fn log_on(node: &Node) -> Client {
    let mut client = connect(node);
    client.log_on(SessionConfig::new(ME, KEY), PATIENCE).unwrap();
    client
}

/// Returns the request numbers first answered, once there are `count`.
fn answers(client: &mut Client, count: usize) -> Result<Vec<u64>, ClientError> {
    let mut answered = Vec::new();
    while answered.len() < count {
        client.poll(PATIENCE, |incoming, _| {
            if let Incoming::Session(_, SessionEvent::Report { answered: Some(a), .. }) = incoming {
                answered.push(a.request_no.0);
            }
        })?;
    }
    Ok(answered)
}

#[test]
fn requests_are_numbered_over_all_partitions_and_answered_once() {
    let node = node(vec![Box::new(|mut peer| {
        assert_eq!(peer.hear_logon(), []);
        peer.open(&[(0, 0, 1), (1, 41, 8)]);
        for number in [42, 43] {
            let request = peer.hear_request();
            assert_eq!((request.request_no(), request.session_id()), (RequestNo(number), ME));
        }
        assert_eq!(peer.hear_request().request_no(), RequestNo(44), "to another partition");
        // An order and its trade are two reports of one request: one answer.
        peer.say_all(&[report(8, 42), report(9, 42), report(10, 43)]);
        peer.wait_until_gone();
    })]);
    let mut client = log_on(&node);
    assert_eq!(client.session(ME).unwrap().firm_id(), FirmId(3));
    let send = |client: &mut Client, partition_id, request| {
        client.submit(ME, partition_id, request, Times::default())
    };
    assert_eq!(send(&mut client, P1, order(1)), Submit::Sent(RequestNo(42)));
    assert_eq!(send(&mut client, P1, order(2)), Submit::Sent(RequestNo(43)));
    let firm = DefineFirm {
        request_no: RequestNo(0),
        name: Symbol::new("A").unwrap(),
        session_id: SessionId(0),
        firm_id: FirmId(1),
        live_orders_max: 0,
        fields: 0,
    };
    let define = Request::DefineFirm(firm);
    assert_eq!(send(&mut client, PartitionId(0), define), Submit::Sent(RequestNo(44)));
    assert_eq!(answers(&mut client, 2).unwrap(), [42, 43]);
    assert_eq!(client.session(ME).unwrap().unanswered_count(), 1);
    assert_eq!(client.session(ME).unwrap().last_event_no(P1), EventNo(10));
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn a_signing_session_answers_its_challenge_and_resumes_by_another() {
    let node = node(vec![
        Box::new(|mut peer| {
            assert!(matches!(peer.hear(), ClientRequest::ChallengeRequest));
            peer.say(|out| put_frame(&challenge(), out));
            match peer.hear() {
                ClientRequest::SignedLogon { resume, is_signed: true } => assert_eq!(resume, []),
                other => panic!("a signed logon is due, not {other:?}"),
            }
            peer.open(&[(1, 0, 8)]);
        }),
        Box::new(|mut peer| {
            assert!(matches!(peer.hear(), ClientRequest::ChallengeRequest));
            peer.say(|out| put_frame(&challenge(), out));
            match peer.hear() {
                ClientRequest::SignedLogon { resume, is_signed: true } => {
                    assert_eq!(resume, [(1, 8)])
                }
                other => panic!("a signed logon is due, not {other:?}"),
            }
            peer.open(&[(1, 0, 8)]);
            peer.wait_until_gone();
        }),
    ]);
    let mut client = connect(&node);
    client.log_on(SessionConfig::new(ME, signing_key()), PATIENCE).unwrap();
    client.reconnect(PATIENCE, &mut |_, _| {}).unwrap();
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn a_challenge_that_nobody_asked_for_is_not_signed() {
    let is_refused = |config: SessionConfig, is_open_first: bool| {
        let node = node(vec![Box::new(move |mut peer: Peer| {
            peer.hear();
            if is_open_first {
                peer.say(|out| put_frame(&challenge(), out));
                peer.hear();
                peer.open(&[(1, 0, 1)]);
            }
            peer.say(|out| put_frame(&challenge(), out));
            assert!(matches!(peer.hear(), ClientRequest::Gone), "nothing is said to it");
        })]);
        let mut client = connect(&node);
        let mut error = client.log_on(config, PATIENCE);
        while error.is_ok() {
            error = client.poll(PATIENCE, |_, _| {}).map(drop);
        }
        let error = error.unwrap_err();
        assert!(matches!(error, ClientError::Decode(_)), "{error}");
        drop(client);
        node.script.join().unwrap();
    };
    is_refused(SessionConfig::new(ME, KEY), false);
    is_refused(SessionConfig::new(ME, signing_key()), true);
}

#[test]
fn another_node_than_the_one_meant_gets_no_signature() {
    let node = node(vec![Box::new(|mut peer| {
        peer.hear();
        peer.say(|out| put_frame(&challenge(), out));
        assert!(matches!(peer.hear(), ClientRequest::Gone));
    })]);
    let meant =
        SessionConfig { node_id: Some(NodeId([6; 16])), ..SessionConfig::new(ME, signing_key()) };
    let mut client = connect(&node);
    let error = client.log_on(meant, PATIENCE).unwrap_err();
    assert!(
        matches!(error, ClientError::WrongNode { got, .. } if got == challenge().node_id),
        "{error}"
    );
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn after_a_loss_missed_events_come_and_only_what_the_node_lacks_is_sent_again() {
    let node = node(vec![
        Box::new(|mut peer| {
            assert_eq!(peer.hear_logon(), []);
            peer.open(&[(1, 0, 1)]);
            for _ in 0..3 {
                peer.hear_request();
            }
            peer.say_all(&[report(1, 1)]);
            // The node dies: request 2 is in its log, request 3 is not.
        }),
        Box::new(|mut peer| {
            assert_eq!(peer.hear_logon(), [(1, 2)]);
            peer.open(&[(1, 2, 3)]);
            peer.say_all(&[report(2, 2)]);
            assert_eq!(peer.hear_request(), {
                let request = order(3);
                weir_client::request::stamp(request, ME, RequestNo(3))
            });
            peer.say_all(&[report(3, 3)]);
            let next = peer.hear_request();
            assert_eq!(next.request_no(), RequestNo(4));
            peer.wait_until_gone();
        }),
    ]);
    let mut client = log_on(&node);
    for number in 1..=3 {
        let _ = client.submit(ME, P1, order(number), Times::default());
    }
    assert_eq!(answers(&mut client, 1).unwrap(), [1]);
    let lost = answers(&mut client, 1).unwrap_err();
    assert!(lost.is_connection_lost(), "{lost}");
    assert_eq!(
        client.submit(ME, P1, order(9), Times::default()),
        Submit::Sent(RequestNo(4)),
        "until told, the session takes itself for open"
    );
    let mut resubmitted = None;
    let mut answered = Vec::new();
    client
        .reconnect(PATIENCE, &mut |incoming, _| match incoming {
            Incoming::Session(_, SessionEvent::Opened { resubmitted_count, .. }) => {
                resubmitted = Some(resubmitted_count);
            }
            Incoming::Session(_, SessionEvent::Report { answered: Some(a), .. }) => {
                answered.push(a.request_no.0);
            }
            _ => {}
        })
        .unwrap();
    assert_eq!(resubmitted, Some(2), "requests 3 and 4");
    let missing = 2 - answered.len();
    answered.extend(answers(&mut client, missing).unwrap());
    assert_eq!(answered, [2, 3]);
    drop(client);
    node.script.join().unwrap();
}

/// Requests whose instruments are of another partition than the client named had no answer, and
/// after a window of them none was sent any more.
#[test]
fn a_request_is_answered_by_any_partition_and_all_are_sent_again_in_their_order() {
    let node = node(vec![
        Box::new(|mut peer| {
            assert_eq!(peer.hear_logon(), []);
            peer.open(&[(1, 0, 1), (2, 0, 1)]);
            for number in 1..=5 {
                assert_eq!(peer.hear_request().request_no(), RequestNo(number));
            }
            peer.say_all(&[report_in(2, 1, 1), report_in(1, 1, 2)]);
        }),
        Box::new(|mut peer| {
            assert_eq!(peer.hear_logon(), [(1, 2), (2, 2)]);
            peer.open(&[(1, 2, 2), (2, 1, 2)]);
            for number in 3..=5 {
                assert_eq!(peer.hear_request().request_no(), RequestNo(number));
            }
            peer.say_all(&[report_in(2, 2, 3), report_in(2, 3, 4), report_in(1, 2, 5)]);
            peer.wait_until_gone();
        }),
    ]);
    let mut client = log_on(&node);
    // Partition 9 is none of the node.
    for (number, partition) in (1..).zip([1, 1, 2, 1, 9]) {
        let sent = client.submit(ME, PartitionId(partition), order(number), Times::default());
        assert_eq!(sent, Submit::Sent(RequestNo(number)));
    }
    assert_eq!(answers(&mut client, 2).unwrap(), [1, 2]);
    assert!(answers(&mut client, 1).unwrap_err().is_connection_lost());
    client.reconnect(PATIENCE, &mut |_, _| {}).unwrap();
    assert_eq!(answers(&mut client, 3).unwrap(), [3, 4, 5]);
    assert_eq!(client.session(ME).unwrap().unanswered_count(), 0);
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn a_repeated_event_is_dropped_and_a_missing_one_is_a_gap() {
    let node = node(vec![Box::new(|mut peer| {
        peer.hear_logon();
        peer.open(&[(1, 0, 1)]);
        peer.hear_request();
        peer.say_all(&[report(1, 1), report(1, 1), report(2, 0), report(4, 0)]);
        peer.wait_until_gone();
    })]);
    let mut client = log_on(&node);
    let _ = client.submit(ME, P1, order(1), Times::default());
    let mut heard = Vec::new();
    let gap = loop {
        let polled = client.poll(PATIENCE, |incoming, _| match incoming {
            Incoming::Session(_, SessionEvent::Report { report, .. }) => {
                heard.push(report.event.event_no.0);
            }
            Incoming::Session(_, SessionEvent::Repeated) => heard.push(0),
            other => panic!("{other:?}"),
        });
        if let Err(error) = polled {
            break error;
        }
    };
    assert_eq!(heard, [1, 0, 2]);
    assert!(matches!(gap, ClientError::Gap { expected: EventNo(3), got: EventNo(4), .. }), "{gap}");
    assert!(gap.is_connection_lost());
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn a_refused_logon_says_why_and_what_could_be_asked_for() {
    let node = node(vec![Box::new(|mut peer| {
        assert!(matches!(peer.hear(), ClientRequest::Logon { cancel_on_disconnect: true, .. }));
        let reject = LogonReject {
            oldest_event_no: EventNo(7),
            next_event_no: EventNo(9),
            session_id: ME,
            epoch: Epoch(1),
            partition_id: P1,
            reason: Reason::ResumeOutOfRange,
        };
        peer.say(|out| put_frame(&reject, out));
        peer.wait_until_gone();
    })]);
    let mut client = connect(&node);
    let config = SessionConfig { cancel_on_disconnect: true, ..SessionConfig::new(ME, KEY) };
    let error = client.log_on(config, PATIENCE).unwrap_err();
    let ClientError::LogonRejected { reason, oldest_event_no, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((reason, oldest_event_no), (Reason::ResumeOutOfRange, EventNo(7)));
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn rejects_of_engine_and_gateway_answer_their_requests() {
    let node = node(vec![Box::new(|mut peer| {
        peer.hear_logon();
        peer.open(&[(1, 0, 1)]);
        peer.hear_request();
        peer.hear_request();
        let reject = Reject {
            request_no: RequestNo(2),
            field: weir_wire::session::Label::new("price"),
            session_id: ME,
            ref_template_id: 12,
            reason: Reason::FieldOutOfRange,
        };
        peer.say(|out| put_frame(&reject, out));
        peer.say(|out| put_frame(&rejected(1, 1, Reason::UnknownAccount), out));
        let logout = Logout { session_id: ME, reason: Reason::Stopping };
        peer.say(|out| put_frame(&logout, out));
        peer.wait_until_gone();
    })]);
    let mut client = log_on(&node);
    let _ = client.submit(ME, P1, order(1), Times::default());
    let cancel = cancel(ClOrdId::from_number(2), ClOrdId::from_number(1), InstrumentId(1));
    let _ = client.submit(ME, P1, cancel, Times::default());
    let mut reasons = Vec::new();
    let end = loop {
        let polled = client.poll(PATIENCE, |incoming, _| match incoming {
            Incoming::Session(_, SessionEvent::Refused { reject, answered }) => {
                reasons.push((reject.reason, answered.unwrap().request_no.0));
            }
            Incoming::Session(_, SessionEvent::Rejected { rejected, answered }) => {
                reasons.push((rejected.reason, answered.unwrap().request_no.0));
            }
            _ => {}
        });
        if let Err(error) = polled {
            break error;
        }
    };
    assert_eq!(reasons, [(Reason::FieldOutOfRange, 2), (Reason::UnknownAccount, 1)]);
    assert!(matches!(end, ClientError::LoggedOut { reason: Reason::Stopping, .. }), "{end}");
    assert_eq!(client.session(ME).unwrap().unanswered_count(), 0);
    drop(client);
    node.script.join().unwrap();
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

#[test]
fn a_session_with_too_many_unanswered_requests_says_full() {
    let node = node(vec![Box::new(|mut peer| {
        peer.hear_logon();
        peer.open(&[(1, 0, 1)]);
        peer.wait_until_gone();
    })]);
    let mut client = connect(&node);
    let config = SessionConfig { unanswered_count_max: 2, ..SessionConfig::new(ME, KEY) };
    assert_eq!(client.submit(ME, P1, order(0), Times::default()), Submit::NotOpen);
    client.log_on(config, PATIENCE).unwrap();
    let outcomes: Vec<_> =
        (0..3).map(|n| client.submit(ME, P1, order(n), Times::default())).collect();
    assert_eq!(outcomes, [Submit::Sent(RequestNo(1)), Submit::Sent(RequestNo(2)), Submit::Full]);
    drop(client);
    node.script.join().unwrap();
}

fn row(seq: u64, rec: u64, flags: RowFlags) -> OrderRow {
    let event = report(1, 0).event;
    OrderRow {
        rec: Rec(rec),
        seq: Seq(seq),
        order_id: OrderId::new(P1, Rec(rec)),
        transact_time: Nanos(1),
        created_time: Nanos(1),
        cl_ord_id: event.cl_ord_id,
        price: event.price,
        stop_px: event.stop_px,
        last_px: event.last_px,
        last_qty: event.last_qty,
        order_qty: event.order_qty,
        leaves_qty: event.leaves_qty,
        cum_qty: event.cum_qty,
        expire_time: event.expire_time,
        merged_count: 0,
        session_id: ME,
        firm_id: event.firm_id,
        account_id: event.account_id,
        instrument_id: event.instrument_id,
        partition_id: P1,
        reason: Reason::None,
        side: event.side,
        ord_type: event.ord_type,
        time_in_force: event.time_in_force,
        exec_inst: event.exec_inst,
        exec_type: event.exec_type,
        ord_status: event.ord_status,
        flags,
        display_qty: Qty(0),
    }
}

fn page(correlation_id: u64, row_count: usize, reason: Reason) -> OrderPage {
    OrderPage {
        correlation_id,
        oldest_transact_time: Nanos(0),
        asked_time: Nanos(0),
        served_time: Nanos(0),
        session_id: ME,
        row_count: u32::try_from(row_count).unwrap(),
        merged_count: 0,
        credit_left: 0,
        reason,
        flags: PageFlags::ONLINE,
    }
}

/// The attributes of each row of a page.
const ATTRIBUTES: &[u8] = b"only its source knows";

/// Sends a page's header, waits for the next fetch, and only then sends the rows.
fn serve(peer: &mut Peer, asked: u64, token: &[u8], rows: &[OrderRow]) -> u64 {
    peer.say(|out| put_order_page(&page(asked, rows.len(), Reason::None), token, out));
    let (next, next_token) = peer.hear_fetch();
    assert_eq!(next_token, token, "the next question comes before the rows do");
    if !rows.is_empty() {
        let body = OrderPageBody { correlation_id: asked, session_id: ME };
        peer.say(|out| put_order_page_body(&body, rows.iter().map(|row| (*row, ATTRIBUTES)), out));
    }
    next.correlation_id
}

fn follow(
    client: &mut Client,
    follower: &mut Follower,
    until: impl Fn(&Follower) -> bool,
) -> Result<(), ClientError> {
    while !until(follower) {
        let mut failed = None;
        client.poll(PATIENCE, |incoming, out| {
            let outcome = match incoming {
                Incoming::Page(page, token) => follower.on_page(&page, token, out).map(drop),
                Incoming::Rows(body, rows) => follower.on_rows(&body, rows, |_| {}).map(drop),
                Incoming::Sources(states, sources) => {
                    follower.on_sources(&states, sources).map(drop)
                }
                Incoming::Session(..)
                | Incoming::CopyState(_)
                | Incoming::Copy(..)
                | Incoming::CopyMark(_)
                | Incoming::Source(_)
                | Incoming::Broker(_)
                | Incoming::Market(_) => Ok(()),
            };
            failed = failed.take().or(outcome.err());
        })?;
        failed.map_or(Ok(()), Err)?;
    }
    Ok(())
}

fn following(node: &Node) -> (Client, Follower) {
    let mut client = log_on(node);
    let config = FollowerConfig { keep_orders: true, ..FollowerConfig::new(ME) };
    let mut follower = Follower::new(config, Vec::new());
    follower.ask(client.outbox());
    (client, follower)
}

#[test]
fn a_follower_asks_on_the_header_and_forgets_what_is_gone() {
    let node = node(vec![Box::new(|mut peer| {
        peer.hear_logon();
        peer.open(&[(1, 0, 1)]);
        let (fetch, token) = peer.hear_fetch();
        assert_eq!((token.len(), fetch.credit), (0, 1));
        let states = [row(1, 1, RowFlags(0)), row(2, 2, RowFlags(0)), row(2, 3, RowFlags(0))];
        let asked = serve(&mut peer, fetch.correlation_id, b"one", &states);
        let asked = serve(&mut peer, asked, b"two", &[]);
        let gone = [row(4, 1, RowFlags::TOMBSTONE), row(5, 9, RowFlags::LEAVE)];
        serve(&mut peer, asked, b"three", &gone);
        peer.wait_until_gone();
    })]);
    let (mut client, mut follower) = following(&node);
    follow(&mut client, &mut follower, |f| f.token() == b"three").unwrap();
    let known: Vec<u64> = follower.orders().values().map(|row| row.rec.0).collect();
    for order_id in follower.orders().keys() {
        assert_eq!(follower.attributes(*order_id), ATTRIBUTES, "{order_id}");
    }
    assert_eq!(known, [2, 3]);
    assert!(follower.is_online());
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn a_page_that_says_of_no_source_that_it_is_away_ends_what_was_said_before() {
    let node = node(vec![Box::new(|mut peer| {
        peer.hear_logon();
        peer.open(&[(1, 0, 1)]);
        let (fetch, _) = peer.hear_fetch();
        let asked = fetch.correlation_id;
        let away = OrderPage { flags: PageFlags::SOURCE_AWAY, ..page(asked, 0, Reason::None) };
        let states = SourceStates { correlation_id: asked, session_id: ME };
        let state = SourceState { source_id: P1, status: SourceStatus::Away };
        peer.say(|out| {
            put_order_page(&away, b"one", out);
            put_source_states(&states, &[state], out);
        });
        let (again, _) = peer.hear_fetch();
        serve(&mut peer, again.correlation_id, b"two", &[]);
        peer.wait_until_gone();
    })]);
    let (mut client, mut follower) = following(&node);
    follow(&mut client, &mut follower, |f| !f.sources().is_empty()).unwrap();
    assert_eq!(follower.sources()[0].status, SourceStatus::Away);
    follow(&mut client, &mut follower, |f| f.token() == b"two").unwrap();
    assert_eq!(follower.sources(), [], "a router that forgot its reader tells no more");
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn a_refusal_that_passes_is_asked_again_after_a_rest_and_another_is_an_error() {
    fn refuse(peer: &mut Peer, correlation_id: u64, reason: Reason) {
        let reject = Reject {
            request_no: RequestNo(correlation_id),
            field: Label::new(""),
            session_id: ME,
            ref_template_id: FetchOrders::TEMPLATE_ID,
            reason,
        };
        peer.say(|out| put_frame(&reject, out));
    }
    let node = node(vec![Box::new(|mut peer| {
        peer.hear_logon();
        peer.open(&[(1, 0, 1)]);
        let (fetch, _) = peer.hear_fetch();
        let asked = serve(&mut peer, fetch.correlation_id, b"one", &[row(9, 9, RowFlags(0))]);
        refuse(&mut peer, asked + 1_000, Reason::NotEntitled);
        refuse(&mut peer, asked, Reason::PartitionAway);
        let (again, token) = peer.hear_fetch();
        assert_eq!((&token[..], again.correlation_id > asked), (&b"one"[..], true));
        refuse(&mut peer, again.correlation_id, Reason::UnknownSource);
        peer.wait_until_gone();
    })]);
    let (mut client, mut follower) = following(&node);
    let clock = client.clock();
    let (mut refusals, mut asked_again) = (Vec::new(), 0);
    let error = loop {
        asked_again += u32::from(follower.ask_when_due(clock.now(), client.outbox()));
        let mut failed = None;
        let take = |incoming: Incoming<'_>, out: &mut Vec<u8>| match incoming {
            Incoming::Page(page, token) => drop(follower.on_page(&page, token, out).unwrap()),
            Incoming::Rows(body, rows) => {
                follower.on_rows(&body, rows, |_| {}).unwrap();
            }
            Incoming::Session(_, SessionEvent::Refused { reject, .. }) => {
                let now = clock.now();
                match follower.on_reject(&reject, now) {
                    Ok(is_ours) => {
                        refusals.push((reject.reason, is_ours));
                        let rest = follower.rest(now);
                        assert_eq!(rest.is_some_and(|rest| !rest.is_zero()), is_ours);
                    }
                    Err(error) => failed = Some(error),
                }
            }
            _ => {}
        };
        client.poll(Duration::from_millis(2), take).unwrap();
        if let Some(error) = failed {
            break error;
        }
    };
    assert!(matches!(error, ClientError::Refused { reason: Reason::UnknownSource, .. }));
    assert_eq!(refusals, [(Reason::NotEntitled, false), (Reason::PartitionAway, true)]);
    assert_eq!((asked_again, follower.orders().len()), (1, 1), "what was known stays known");
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn a_resync_forgets_everything_and_asks_from_the_oldest_legal_token() {
    let node = node(vec![Box::new(|mut peer| {
        peer.hear_logon();
        peer.open(&[(1, 0, 1)]);
        let (fetch, _) = peer.hear_fetch();
        let asked = serve(&mut peer, fetch.correlation_id, b"one", &[row(9, 9, RowFlags(0))]);
        let refused = page(asked, 0, Reason::ResyncFloor);
        peer.say(|out| put_order_page(&refused, b"oldest", out));
        let (again, token) = peer.hear_fetch();
        assert_eq!(token, b"oldest");
        // A late page of an abandoned fetch is ignored.
        peer.say(|out| put_order_page(&page(asked, 0, Reason::None), b"late", out));
        // From the floor on, (`seq`, `rec`) starts anew.
        serve(&mut peer, again.correlation_id, b"fresh", &[row(3, 1, RowFlags(0))]);
        peer.wait_until_gone();
    })]);
    let (mut client, mut follower) = following(&node);
    follow(&mut client, &mut follower, |f| f.token() == b"fresh").unwrap();
    assert_eq!(follower.orders().len(), 1);
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn rows_out_of_order_are_an_error() {
    let node = node(vec![Box::new(|mut peer| {
        peer.hear_logon();
        peer.open(&[(1, 0, 1)]);
        let (fetch, _) = peer.hear_fetch();
        let rows = [row(2, 2, RowFlags(0)), row(2, 1, RowFlags(0))];
        serve(&mut peer, fetch.correlation_id, b"one", &rows);
        peer.wait_until_gone();
    })]);
    let (mut client, mut follower) = following(&node);
    let error = follow(&mut client, &mut follower, |f| f.token() == b"one").unwrap_err();
    assert!(matches!(error, ClientError::StateOutOfOrder { .. }), "{error}");
    assert_eq!(follower.token(), b"", "rows not taken do not move the token");
    drop(client);
    node.script.join().unwrap();
}

fn head_of(report: &ExecutionReport, copy_no: u64) -> ReportCopy {
    ReportCopy {
        copy_no: CopyNo(copy_no),
        previous_copy_no: CopyNo(copy_no - 1),
        session_id: ME,
        firm_id: FirmId::NONE,
        owner_session_id: report.event.session_id,
        owner_firm_id: FirmId(3),
        partition_id: P1,
    }
}

#[test]
fn a_copy_is_no_event_of_its_owner_even_on_the_same_client_and_its_head_belongs_to_a_report() {
    let node = node(vec![Box::new(|mut peer| {
        peer.hear_logon();
        peer.open(&[(1, 0, 1)]);
        let ClientRequest::DropCopy(request) = peer.hear() else { panic!("a question for copies") };
        assert_eq!((request.from_copy_no, request.partition_id), (CopyNo(1), P1));
        let copied = report(9, 0);
        peer.say(|out| {
            put_frame(&head_of(&copied, 1), out);
            put_frame(&copied, out);
            put_frame(&head_of(&copied, 2), out);
            put_frame(&Logout { session_id: SessionId(77), reason: Reason::Stopping }, out);
        });
        peer.wait_until_gone();
    })]);
    let mut client = log_on(&node);
    let mut copies = DropCopy::new(ME, FirmId::NONE, Beginning::Oldest, &[]);
    copies.ask(P1, client.outbox());
    let mut told = Vec::new();
    let error = loop {
        let polled = client.poll(PATIENCE, |incoming, _| match incoming {
            Incoming::Copy(head, CopiedReport::Order(report)) => {
                told.push((head.copy_no, report.event.event_no));
            }
            other => panic!("{other:?}"),
        });
        if let Err(error) = polled {
            break error;
        }
    };
    assert_eq!(told, [(CopyNo(1), EventNo(9))]);
    let last = client.session(ME).map(|session| session.last_event_no(P1));
    assert_eq!(last, Some(EventNo::NONE), "nothing was said to the session itself");
    assert!(error.to_string().contains("ReportCopy"), "a head without its report: {error}");
    drop(client);
    node.script.join().unwrap();
}

#[test]
fn what_is_no_nodes_message_ends_the_connection_with_a_reason() {
    let node = node(vec![Box::new(|mut peer| {
        peer.hear_logon();
        peer.open(&[(1, 0, 1)]);
        let request = peer.hear_request();
        peer.say(|out| ClientMessage::Request(request).put(out));
        peer.wait_until_gone();
    })]);
    let mut client = log_on(&node);
    let _ = client.submit(ME, P1, order(1), Times::default());
    let error = loop {
        if let Err(error) = client.poll(PATIENCE, |_, _| {}) {
            break error;
        }
    };
    let message = error.to_string();
    assert!(message.contains(weir_wire::order_entry::NewOrder::NAME), "{message}");
    drop(client);
    node.script.join().unwrap();
}
