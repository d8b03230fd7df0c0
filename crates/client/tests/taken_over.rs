//! Clients that come back by themselves do not come back once another connection has taken their
//! session over: two programs of one session would end each other's work in turn.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use weir_client::drop_copy::Beginning;
use weir_client::subscription::{Seen, Subscription, WaitOutcome};
use weir_client::{
    BrokerClient, ClientError, DropCopy, DropCopyReader, FollowerConfig, Publisher, SessionConfig,
    SourceConfig, SourceWriter, StateClient,
};
use weir_types::{Epoch, EventNo, FirmId, Nanos, PartitionId, Reason, RequestNo, Role, SessionId};
use weir_wire::dialogue::put_logon_ack;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame, put_frame};
use weir_wire::session::{ApiKey, LogonAck, Logout, PartitionState};

const ME: SessionId = SessionId(5);
const STEP: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);
/// Calls after the end: a client that came back would do so within the first.
const MORE_CALLS: usize = 10;

fn config() -> SessionConfig {
    SessionConfig::new(ME, ApiKey([7; 32]))
}

/// A node that lets each connection in and says later that another one has taken the session over.
struct Node {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    cut: Option<Cut>,
}

/// The test's ends of the channels by which it tells a node to cut a connection.
struct Cut {
    now: Sender<()>,
    done: Receiver<()>,
}

impl Node {
    /// A node that says so at a connection's next message, and leaves the end to the client.
    fn start() -> Node {
        Node::listen(None, |mut stream| {
            logout_at_next_message(&mut stream);
            true
        })
    }

    /// A node that says so where [`Node::cut`] tells it to, and closes the connection behind that
    /// without reading more of it, as the listeners of outside cores and of subscriptions do.
    fn cutting() -> Node {
        let (now, when) = channel();
        let (told, done) = channel();
        Node::listen(Some(Cut { now, done }), move |mut stream| {
            log_on(&mut stream);
            if when.recv().is_err() {
                return false;
            }
            // A message that was received and is not read: the system answers with a reset.
            assert!(stream.peek(&mut [0; 1]).unwrap() > 0, "the client has left");
            say_taken_over(&mut stream);
            drop(stream);
            told.send(()).is_ok()
        })
    }

    fn listen(cut: Option<Cut>, mut serve: impl FnMut(TcpStream) -> bool + Send + 'static) -> Node {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // SYNC: the counter guards no other memory.
                counted.fetch_add(1, Ordering::Relaxed);
                if !serve(stream.unwrap()) {
                    break;
                }
            }
        });
        Node { address, connections, cut }
    }

    /// Ends the connection, and returns once it is closed.
    fn cut(&self) {
        let cut = self.cut.as_ref().unwrap();
        cut.now.send(()).unwrap();
        cut.done.recv_timeout(PATIENCE).unwrap();
    }

    fn connections(&self) -> usize {
        // SYNC: the counter guards no other memory.
        self.connections.load(Ordering::Relaxed)
    }
}

fn logout_at_next_message(stream: &mut TcpStream) {
    let mut inbox = log_on(stream);
    hear_frame(stream, &mut inbox);
    say_taken_over(stream);
    // Until the client ends the connection.
    let mut rest = [0; 4_096];
    while stream.read(&mut rest).is_ok_and(|len| len > 0) {}
}

/// Accepts a logon; returns the bytes that came behind it.
fn log_on(stream: &mut TcpStream) -> Vec<u8> {
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
    hear_frame(stream, &mut inbox);
    let mut out = Vec::new();
    let state = PartitionState {
        last_request_no: RequestNo::NONE,
        next_event_no: EventNo(1),
        oldest_event_no: EventNo(1),
        epoch: Epoch(1),
        partition_id: PartitionId(1),
    };
    put_logon_ack(&ack, &[state], &mut out);
    stream.write_all(&out).unwrap();
    inbox
}

fn say_taken_over(stream: &mut TcpStream) {
    let mut out = Vec::new();
    put_frame(&Logout { session_id: ME, reason: Reason::TakenOver }, &mut out);
    stream.write_all(&out).unwrap();
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

#[test]
fn a_client_of_order_state_whose_session_is_taken_over_does_not_come_back() {
    let node = Node::start();
    let mut from = StateClient::new(node.address, config());
    from.follow(FollowerConfig::new(ME), Vec::new());
    let ended = until(|| from.poll(STEP, &mut |_| {}).err());
    assert!(ended.is_taken_over(), "{ended}");
    for _ in 0..MORE_CALLS {
        from.flush();
        assert!(is_taken_over(from.poll(STEP, &mut |_| {})));
        assert!(is_taken_over(from.connect(&mut |_| {})));
        std::thread::sleep(STEP);
    }
    assert_eq!(node.connections(), 1);
}

#[test]
fn a_reader_of_copies_whose_session_is_taken_over_does_not_come_back() {
    let node = Node::start();
    let copies = DropCopy::new(ME, FirmId(1), Beginning::Now, &[]);
    let mut reader = DropCopyReader::connect(node.address, config(), copies, PATIENCE).unwrap();
    let ended = until(|| reader.poll(STEP, |_, _| {}).err());
    assert!(ended.is_taken_over(), "{ended}");
    for _ in 0..MORE_CALLS {
        assert!(is_taken_over(reader.poll(STEP, |_, _| {})));
        assert!(!reader.is_connected());
        std::thread::sleep(STEP);
    }
    assert_eq!(node.connections(), 1);
}

#[test]
fn a_writer_that_sends_into_a_closed_connection_reads_that_its_session_was_taken_over() {
    let node = Node::cutting();
    let source = SourceConfig::full(ME, PartitionId(3), Epoch(1));
    let mut writer = SourceWriter::new(node.address, config(), source);
    writer.poll(STEP, |_| {}).unwrap();
    assert!(writer.connection().is_some(), "{:?}", writer.take_failure());
    node.cut();
    writer.open_again();
    for _ in 0..MORE_CALLS {
        assert!(is_taken_over(writer.poll(STEP, |_| {})));
        std::thread::sleep(STEP);
    }
    assert_eq!(node.connections(), 1);
}

#[test]
fn a_publisher_that_sends_into_a_closed_connection_reads_that_its_session_was_taken_over() {
    let node = Node::cutting();
    let mut client = BrokerClient::new(node.address, config());
    client.publish_from(Epoch(1), 0);
    client.publish(SessionId(6), b"one");
    client.poll(STEP, |_| {}).unwrap();
    assert!(client.connection().is_some(), "{:?}", client.take_failure());
    node.cut();
    client.publish(SessionId(6), b"two");
    for _ in 0..MORE_CALLS {
        assert!(is_taken_over(client.poll(STEP, |_| {})));
        std::thread::sleep(STEP);
    }
    assert_eq!((client.unacknowledged(), node.connections()), (2, 1));
}

#[test]
fn a_client_that_only_flushes_a_closed_connection_reads_the_logout_at_its_next_poll() {
    let node = Node::cutting();
    let mut from = StateClient::new(node.address, config());
    from.follow(FollowerConfig::new(ME), Vec::new());
    from.connect(&mut |_| {}).unwrap();
    from.flush();
    node.cut();
    from.follow(FollowerConfig::new(ME), Vec::new());
    from.flush();
    from.flush();
    assert!(is_taken_over(from.poll(STEP, &mut |_| {})));
}
