//! Clients that come back by themselves do not come back once another connection has taken their
//! session over: two programs of one session would end each other's work in turn.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weir_client::subscription::{Seen, Subscription, WaitOutcome};
use weir_client::{
    BrokerClient, ClientError, Publisher, SessionConfig, SourceConfig, SourceWriter,
};
use weir_types::{Epoch, FirmId, Nanos, PartitionId, Reason, Role, SessionId};
use weir_wire::dialogue::put_logon_ack;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame, put_frame};
use weir_wire::session::{ApiKey, LogonAck, Logout};

const ME: SessionId = SessionId(5);
const STEP: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);
/// Calls after the end: a client that came back would do so within the first.
const MORE_CALLS: usize = 10;

fn config() -> SessionConfig {
    SessionConfig::new(ME, ApiKey([7; 32]))
}

/// A node that lets each connection in and, at its next message, says that another one has taken
/// the session over.
struct Node {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Node {
    fn start() -> Node {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // SYNC: the counter guards no other memory.
                counted.fetch_add(1, Ordering::Relaxed);
                serve(&mut stream.unwrap());
            }
        });
        Node { address, connections }
    }

    fn connections(&self) -> usize {
        // SYNC: the counter guards no other memory.
        self.connections.load(Ordering::Relaxed)
    }
}

fn serve(stream: &mut TcpStream) {
    let ack = LogonAck {
        server_time: Nanos(1),
        session_id: ME,
        firm_id: FirmId(1),
        heartbeat_interval_ms: 5_000,
        order_rate_max: 0,
        in_flight_max: 0,
        role: Role::Source,
    };
    let mut inbox = Vec::new();
    let mut out = Vec::new();
    hear_frame(stream, &mut inbox);
    put_logon_ack(&ack, &[], &mut out);
    stream.write_all(&out).unwrap();
    hear_frame(stream, &mut inbox);
    out.clear();
    put_frame(&Logout { session_id: ME, reason: Reason::TakenOver }, &mut out);
    stream.write_all(&out).unwrap();
    // Until the client ends the connection.
    let mut rest = [0; 4_096];
    while stream.read(&mut rest).is_ok_and(|len| len > 0) {}
}

/// Reads until a whole frame has come, and removes it.
fn hear_frame(stream: &mut TcpStream, inbox: &mut Vec<u8>) {
    loop {
        if let Framing::Frame { len, .. } = next_frame(inbox, CLIENT_FRAME_LEN_MAX) {
            inbox.drain(..len);
            return;
        }
        let mut bytes = [0; 4_096];
        let len = stream.read(&mut bytes).unwrap();
        assert!(len > 0, "the client has left");
        inbox.extend_from_slice(&bytes[..len]);
    }
}

/// Calls until there is an outcome.
fn until<T>(mut call: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(outcome) = call() {
            return outcome;
        }
        assert!(begun.elapsed() < PATIENCE, "the end does not come");
    }
}

fn is_taken_over<T>(outcome: Result<T, ClientError>) -> bool {
    outcome.is_err_and(|error| error.is_taken_over())
}

#[test]
fn a_subscription_whose_session_is_taken_over_ends_and_does_not_come_back() {
    let node = Node::start();
    let mut from = Subscription::new(node.address, config(), "fills", Seen::new());
    let ended = WaitOutcome::Ended(Reason::TakenOver, Vec::new());
    until(|| (from.next(STEP) != WaitOutcome::Nothing).then_some(()));
    assert_eq!(from.next(STEP), ended);
    assert!(from.client().take_failure().is_some_and(|failure| failure.is_taken_over()));
    for _ in 0..MORE_CALLS {
        from.flush();
        assert_eq!(from.next(STEP), ended);
        assert!(is_taken_over(from.client().poll(STEP, |_| {})));
        assert!(is_taken_over(from.client().list(FirmId::NONE)));
        std::thread::sleep(STEP);
    }
    assert_eq!(node.connections(), 1);
}

#[test]
fn a_request_about_subscriptions_that_a_takeover_ends_is_the_last_one() {
    let node = Node::start();
    let mut client = BrokerClient::new(node.address, config());
    for _ in 0..MORE_CALLS {
        assert!(is_taken_over(client.list(FirmId::NONE)));
        assert!(is_taken_over(client.poll(STEP, |_| {})));
        std::thread::sleep(STEP);
    }
    assert_eq!(node.connections(), 1);
}

#[test]
fn a_publisher_whose_session_is_taken_over_does_not_come_back() {
    let node = Node::start();
    let mut publisher = Publisher::new(node.address, config(), Epoch(1), 0);
    publisher.publish(SessionId(6), b"one");
    let failure = until(|| {
        publisher.poll(STEP);
        publisher.take_failure()
    });
    assert!(failure.is_taken_over(), "{failure}");
    for _ in 0..MORE_CALLS {
        assert_eq!(publisher.poll(STEP), 0);
    }
    assert_eq!((publisher.unacknowledged(), node.connections()), (1, 1));
}

#[test]
fn a_writer_of_a_source_whose_session_is_taken_over_does_not_come_back() {
    let node = Node::start();
    let source = SourceConfig::full(ME, PartitionId(3), Epoch(1));
    let mut writer = SourceWriter::new(node.address, config(), source);
    let ended = until(|| writer.poll(STEP, |_| {}).err());
    assert!(ended.is_taken_over(), "{ended}");
    for _ in 0..MORE_CALLS {
        assert!(is_taken_over(writer.poll(STEP, |_| {})));
        std::thread::sleep(STEP);
    }
    assert_eq!(node.connections(), 1);
}
