//! An operator's commands at a node with two trading partitions, which is a script: it answers when
//! it has the requests to both, the second partition first.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;

use serde_json::Value;
use weir_types::{
    ClOrdId, Epoch, EventNo, FirmId, InstrumentId, Nanos, OrderId, PartitionId, Position, Reason,
    RequestNo, Role, SessionId,
};
use weir_wire::dialogue::{ClientMessage, put_logon_ack};
use weir_wire::event::{RequestDone, RequestRejected};
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame, put_frame};
use weir_wire::session::{LogonAck, Logout, PartitionState};
use weir_wire::{Message, Request};

use crate::support::{HANG, OPERATOR, until};

const PARTITIONS: [PartitionId; 2] = [PartitionId(1), PartitionId(2)];

/// The node's end of a connection.
struct Peer {
    stream: TcpStream,
    inbox: Vec<u8>,
}

enum Heard {
    Logon(SessionId),
    Request(Request),
    Logout,
}

impl Peer {
    fn hear(&mut self) -> Heard {
        loop {
            if let Framing::Frame { len, message } = next_frame(&self.inbox, CLIENT_FRAME_LEN_MAX) {
                let raw = message.unwrap();
                let heard = match ClientMessage::decode(&raw).unwrap() {
                    ClientMessage::Logon(logon, _) => Some(Heard::Logon(logon.session_id)),
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
            let mut bytes = [0; 4_096];
            let len = self.stream.read(&mut bytes).unwrap();
            assert!(len > 0, "the command has gone");
            self.inbox.extend_from_slice(&bytes[..len]);
        }
    }

    fn say(&mut self, message: &impl Message) {
        let mut bytes = Vec::new();
        put_frame(message, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn open(&mut self) -> SessionId {
        let Heard::Logon(session_id) = self.hear() else { panic!("a logon is due") };
        let ack = LogonAck {
            server_time: Nanos(1),
            session_id,
            firm_id: FirmId::NONE,
            heartbeat_interval_ms: 5_000,
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Operator,
        };
        let state = |partition_id| PartitionState {
            last_request_no: RequestNo(0),
            next_event_no: EventNo(1),
            oldest_event_no: EventNo(1),
            epoch: Epoch(1),
            partition_id,
        };
        let states = [PartitionId(0), PARTITIONS[0], PARTITIONS[1]].map(state);
        let mut bytes = Vec::new();
        put_logon_ack(&ack, &states, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
        session_id
    }
}

fn done(session_id: SessionId, request_no: RequestNo, partition_id: PartitionId) -> RequestDone {
    RequestDone {
        position: Position(1),
        event_no: EventNo(1),
        request_no,
        transact_time: Nanos(1),
        cl_ord_id: ClOrdId::NONE,
        affected_count: 5,
        session_id,
        partition_id,
        ref_template_id: 0,
        changed_count: 3,
        ..RequestDone::NOTHING_TOLD
    }
}

fn rejected(session_id: SessionId, request_no: RequestNo, reason: Reason) -> RequestRejected {
    RequestRejected {
        position: Position(1),
        event_no: EventNo(1),
        request_no,
        order_id: OrderId(0),
        transact_time: Nanos(1),
        cl_ord_id: ClOrdId::NONE,
        orig_cl_ord_id: ClOrdId::NONE,
        session_id,
        instrument_id: InstrumentId(0),
        partition_id: PARTITIONS[0],
        reason,
        ref_template_id: 0,
    }
}

/// Starts a node for one command, whose first partition refuses the request for a reason if one is
/// given. Returns its address, and the requests that it had.
fn start(refusal: Option<Reason>) -> (SocketAddr, JoinHandle<[Request; 2]>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let node = std::thread::spawn(move || {
        // A command that does not come fails the test.
        listener.set_nonblocking(true).unwrap();
        let (stream, _) = until("the command", || listener.accept().ok());
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let mut peer = Peer { stream, inbox: Vec::new() };
        let session_id = peer.open();
        let requests = PARTITIONS.map(|_| match peer.hear() {
            Heard::Request(request) => request,
            _ => panic!("a request to each partition is due before an answer"),
        });
        let [first, second] = requests.map(|request| request.request_no());
        peer.say(&done(session_id, second, PARTITIONS[1]));
        match refusal {
            Some(reason) => peer.say(&rejected(session_id, first, reason)),
            None => peer.say(&done(session_id, first, PARTITIONS[0])),
        }
        assert!(matches!(peer.hear(), Heard::Logout));
        peer.say(&Logout { session_id, reason: Reason::LogoutRequested });
        requests
    });
    (address, node)
}

/// Runs `weir admin WORDS` without a status page.
fn admin(address: SocketAddr, words: &[&str]) -> Output {
    let key: String = OPERATOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["admin", "--node", &address.to_string(), "--http", "127.0.0.1:1", "--json"])
        .args(["--yes", "--key", &key])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The partition to which a request goes.
fn partition_of(request: &Request) -> PartitionId {
    match request {
        Request::KillSwitch(m) => m.partition_id,
        Request::MassCancel(m) => m.partition_id,
        Request::ChangePhases(m) => m.partition_id,
        other => panic!("{other:?}"),
    }
}

const COMMANDS: [(&[&str], &str, &str); 4] = [
    (&["kill", "firm", "7"], "KillSwitch", "entry is stopped in partition 2: Firm 7"),
    (
        &["kill", "all", "--cancel"],
        "KillSwitch",
        "entry is stopped in partition 2: All 0; 5 orders are cancelled",
    ),
    (&["cancel", "firm", "7"], "MassCancel", ""),
    (&["halt", "all"], "ChangePhases", "all instruments: halted; 3 changed; 5 orders ended"),
];

/// `kill` and `cancel` stopped at the partition that refused, and the others were not asked.
#[test]
fn a_partition_that_refuses_a_command_leaves_the_others_to_it_and_is_told() {
    for (words, request, want) in COMMANDS {
        let (address, node) = start(Some(Reason::NotEntitled));
        let output = admin(address, words);
        let requests = node.join().expect("the script is played to its end");
        assert_eq!(requests.each_ref().map(partition_of), PARTITIONS, "{words:?}");
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let why = format!("partition 1: {request} is refused: NotEntitled: ");
        assert!(said.contains(&why), "{words:?}: {said}");
        assert!(said.contains("; nothing was changed; done for partition 2"), "{words:?}: {said}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        match want {
            "" => assert_eq!(told["cancelled"], 5, "{words:?}"),
            want => assert_eq!(told["done"], want, "{words:?}"),
        }
    }
}

/// A stalled partition held the requests to all behind it up.
#[test]
fn a_command_is_sent_to_all_partitions_before_an_answer_is_waited_for() {
    for (words, ..) in COMMANDS {
        let (address, node) = start(None);
        let output = admin(address, words);
        let requests = node.join().expect("the script is played to its end");
        assert_eq!(requests.each_ref().map(partition_of), PARTITIONS, "{words:?}");
        assert!(output.status.success(), "{words:?}: {output:?}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let sum = [&told["cancelled"], &told["orders_ended"]].map(Value::as_u64);
        let ends_orders = words[0] != "kill" || words.contains(&"--cancel");
        assert_eq!(sum.iter().flatten().sum::<u64>(), if ends_orders { 10 } else { 0 });
    }
}
