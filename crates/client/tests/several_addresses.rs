//! A target of several addresses: a door that opens no session is passed over, one that refuses it
//! for good is not, and an error tells the failure of each.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_client::drop_copy::{Beginning, DropCopy};
use weir_client::{Client, ClientError, DropCopyReader, Limits, SessionConfig, Target};
use weir_types::{Epoch, EventNo, FirmId, Nanos, PartitionId, Reason, RequestNo, Role, SessionId};
use weir_wire::dialogue::put_logon_ack;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame, put_frame};
use weir_wire::session::{ApiKey, LogonAck, LogonReject, PartitionState};

const ME: SessionId = SessionId(5);
/// The time in which a door that says nothing is given up.
const SHORT: Duration = Duration::from_millis(200);

/// The answer of a door to a logon.
#[derive(Clone, Copy)]
enum Answer {
    Open,
    Refuse(Reason),
    Nothing,
}

/// A door that answers all logons alike.
struct Door {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Door {
    fn new(answer: Answer) -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                // SYNC: the counter guards no other memory.
                counted.fetch_add(1, Ordering::Relaxed);
                let mut stream = stream.unwrap();
                hear_logon(&mut stream);
                stream.write_all(&answer.bytes()).unwrap();
                held.push(stream);
            }
        });
        Door { address, connections }
    }

    fn connections(&self) -> usize {
        // SYNC: the counter guards no other memory.
        self.connections.load(Ordering::Relaxed)
    }
}

impl Answer {
    fn bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        let partition_id = PartitionId(1);
        let (event_no, epoch) = (EventNo(1), Epoch(1));
        match self {
            Answer::Open => {
                let ack = LogonAck {
                    server_time: Nanos(1),
                    session_id: ME,
                    firm_id: FirmId(1),
                    heartbeat_interval_ms: 5_000,
                    order_rate_max: 0,
                    in_flight_max: 0,
                    role: Role::Trader,
                };
                let state = PartitionState {
                    last_request_no: RequestNo::NONE,
                    next_event_no: event_no,
                    oldest_event_no: event_no,
                    epoch,
                    partition_id,
                };
                put_logon_ack(&ack, &[state], &mut out);
            }
            Answer::Refuse(reason) => {
                let reject = LogonReject {
                    oldest_event_no: event_no,
                    next_event_no: event_no,
                    session_id: ME,
                    epoch,
                    partition_id,
                    reason,
                };
                put_frame(&reject, &mut out);
            }
            Answer::Nothing => {}
        }
        out
    }
}

fn hear_logon(stream: &mut TcpStream) {
    let (mut inbox, mut bytes) = (Vec::new(), [0; 4_096]);
    while !matches!(next_frame(&inbox, CLIENT_FRAME_LEN_MAX), Framing::Frame { .. }) {
        let len = stream.read(&mut bytes).unwrap();
        inbox.extend_from_slice(&bytes[..len]);
    }
}

fn config() -> SessionConfig {
    SessionConfig::new(ME, ApiKey([7; 32]))
}

/// Returns an address at which nothing listens.
fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn target(doors: [&Door; 2]) -> Target {
    Target::from(closed()).or(doors[0].address).or(doors[1].address)
}

fn log_on(target: Target) -> Result<Client, ClientError> {
    let mut client = Client::connect(target, Limits::default())?;
    client.log_on(config(), SHORT)?;
    Ok(client)
}

#[test]
fn a_door_that_never_opens_a_session_is_passed_over() {
    for answer in [Answer::Nothing, Answer::Refuse(Reason::Overloaded)] {
        let doors = [Door::new(answer), Door::new(Answer::Open)];
        let mut client = log_on(target([&doors[0], &doors[1]])).unwrap();
        assert!(client.session(ME).unwrap().is_open());
        client.reconnect(SHORT, &mut |_, _| {}).unwrap();
        let connections = doors.each_ref().map(Door::connections);
        assert_eq!(connections, [1, 2], "the one that opened the session comes first from then on");

        let doors = [Door::new(answer), Door::new(Answer::Open)];
        let copies = DropCopy::new(ME, FirmId(1), Beginning::Now, &[]);
        let target = target([&doors[0], &doors[1]]);
        let reader = DropCopyReader::connect(target, config(), copies, SHORT).unwrap();
        assert!(reader.is_connected());
    }
}

#[test]
fn a_door_that_refuses_for_good_is_not_passed_over() {
    let doors = [Door::new(Answer::Refuse(Reason::UnknownKey)), Door::new(Answer::Open)];
    let mut client = Client::connect(target([&doors[0], &doors[1]]), Limits::default()).unwrap();
    let error = client.log_on(config(), SHORT).unwrap_err();
    assert!(
        matches!(error, ClientError::LogonRejected { reason: Reason::UnknownKey, .. }),
        "{error}"
    );
    assert!(client.reconnect(SHORT, &mut |_, _| {}).is_err());
    assert_eq!(doors.each_ref().map(Door::connections), [2, 0]);
}

#[test]
fn an_error_of_all_addresses_tells_the_failure_of_each() {
    let doors = [Door::new(Answer::Nothing), Door::new(Answer::Refuse(Reason::Overloaded))];
    let error = log_on(target([&doors[0], &doors[1]])).unwrap_err();
    let told = error.to_string();
    let ClientError::Addresses(failures) = &error else { panic!("{told}") };
    assert_eq!(failures.len(), 3);
    for (failure, wanted) in [("cannot connect", 0), ("no answer within", 0), ("overloaded", 1)] {
        assert!(
            told.contains(failure) && told.contains(&doors[wanted].address.to_string()),
            "{told}"
        );
    }
    assert!(error.is_passing());
}
