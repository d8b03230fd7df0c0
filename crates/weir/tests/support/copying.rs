//! A drop-copy client that keeps every frame as received, and the frames of a session's own
//! reports.

use std::time::{Duration, Instant};

use weir_client::clock::wait;
use weir_client::{Connection, Limits};
use weir_types::{CopyNo, Epoch, EventNo, FirmId, PartitionId, Role, SessionId, Switch};
use weir_wire::drop_copy::{CopyMark, DropCopyRequest, DropCopyState, ReportCopy};
use weir_wire::frame::put_frame;
use weir_wire::session::{Heartbeat, Logon, LogonAck, PartitionState, Reject, ResumePoint};
use weir_wire::{Message, NodeMessage};

use super::wire::logon_of;
use super::{HANG, Node, TRADING, Who};

/// A report as received: its template and the bytes after the message header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub template_id: u16,
    pub body: Vec<u8>,
}

/// A report copy as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    pub head: ReportCopy,
    pub report: Frame,
}

/// Returns a session that receives the copies of one firm.
pub const fn desk_of(session_id: u32, firm: FirmId) -> Who {
    Who {
        session_id: SessionId(session_id),
        firm_id: firm,
        account_id: weir_types::AccountId::NONE,
        role: Role::DropCopy,
    }
}

pub struct Desk {
    pub connection: Connection,
    who: Who,
    pub states: Vec<DropCopyState>,
    pub copies: Vec<Copy>,
    pub marks: Vec<CopyMark>,
    pub rejects: Vec<Reject>,
    head: Option<ReportCopy>,
}

impl Desk {
    pub fn log_on(node: &Node, who: Who) -> Desk {
        Desk::log_on_as(node, who, &logon_of(&who))
    }

    pub fn log_on_as(node: &Node, who: Who, logon: &Logon) -> Desk {
        let connection = Connection::open(node.address(), Limits::default()).unwrap();
        let (states, copies, marks, rejects) = Default::default();
        let mut desk = Desk { connection, who, states, copies, marks, rejects, head: None };
        open(&mut desk.connection, logon, &[]);
        desk
    }

    /// Sends a drop-copy request without waiting for the answer.
    pub fn send(&mut self, firm_id: FirmId, from: CopyNo, wanted: Switch) {
        self.send_in(TRADING, firm_id, from, wanted);
    }

    pub fn send_in(
        &mut self,
        partition_id: PartitionId,
        firm_id: FirmId,
        from: CopyNo,
        wanted: Switch,
    ) {
        let epoch = self.states.last().map_or(Epoch::NONE, |state| state.epoch);
        let session_id = self.who.session_id;
        let request = DropCopyRequest {
            from_copy_no: from,
            session_id,
            firm_id,
            epoch,
            partition_id,
            wanted,
        };
        put_frame(&request, self.connection.outbox());
        self.connection.flush().unwrap();
    }

    /// Sends a drop-copy request and returns the answer.
    pub fn ask(&mut self, firm_id: FirmId, from: CopyNo) -> DropCopyState {
        let before = self.states.len();
        self.send(firm_id, from, Switch::On);
        self.until("the state of the copies", |desk| desk.states.len() > before);
        self.states[before]
    }

    /// Receives messages until `is_there` holds.
    pub fn until(&mut self, what: &str, is_there: impl Fn(&Desk) -> bool) {
        let begun = Instant::now();
        while !is_there(self) {
            assert!(begun.elapsed() < HANG, "{what} did not come to {:?}", self.who);
            wait([&self.connection], Duration::from_millis(100)).unwrap();
            self.connection.receive().unwrap();
            self.take();
        }
    }

    /// As [`Desk::until`], with heartbeats, for a desk that would otherwise time out.
    pub fn beat_until(&mut self, what: &str, is_there: impl Fn(&Desk) -> bool) {
        let begun = Instant::now();
        while !is_there(self) {
            assert!(begun.elapsed() < HANG, "{what} did not come to {:?}", self.who);
            let heartbeat = Heartbeat {
                sending_time: weir_types::Nanos(0),
                high_water: EventNo::NONE,
                session_id: self.who.session_id,
                partition_id: TRADING,
                load_permille: 0,
            };
            put_frame(&heartbeat, self.connection.outbox());
            self.connection.flush().unwrap();
            wait([&self.connection], Duration::from_millis(20)).unwrap();
            self.connection.receive().unwrap();
            self.take();
        }
    }

    /// Sends a drop-copy request in the name of another session.
    pub fn send_as(&mut self, session_id: SessionId, from: CopyNo) {
        let me = std::mem::replace(&mut self.who.session_id, session_id);
        self.send(FirmId::NONE, from, Switch::On);
        self.who.session_id = me;
    }

    /// Handles all received messages.
    fn take(&mut self) {
        while let Some((raw, _)) = self.connection.next_raw().unwrap() {
            let report = Frame { template_id: raw.template_id, body: raw.body.to_vec() };
            if let Some(head) = self.head.take() {
                assert!(matches!(raw.template_id, 40 | 41 | 42 | 46), "a report follows its head");
                self.copies.push(Copy { head, report });
                continue;
            }
            match NodeMessage::decode(&raw).unwrap() {
                NodeMessage::ReportCopy(head) => self.head = Some(head),
                NodeMessage::DropCopyState(state) => self.states.push(state),
                NodeMessage::CopyMark(mark) => self.marks.push(mark),
                NodeMessage::Reject(reject) => self.rejects.push(reject),
                NodeMessage::Heartbeat(_) => {}
                other => panic!("a drop copy was told {other:?}"),
            }
        }
    }

    pub fn until_copies(&mut self, count: usize) {
        self.until(&format!("{count} copies"), |desk| desk.copies.len() >= count);
        assert_eq!(self.copies.len(), count);
    }

    /// Asserts that each copy names its predecessor, that the first names the one stated in
    /// `state`, and that all belong to that stream.
    pub fn check_chain(&self, state: &DropCopyState, copies: &[Copy]) {
        let mut previous = state.previous_copy_no;
        for Copy { head, .. } in copies {
            assert!(head.copy_no > previous && head.copy_no >= state.next_copy_no, "{head:?}");
            assert_eq!(head.previous_copy_no, previous);
            assert_eq!((head.session_id, head.firm_id), (self.who.session_id, state.firm_id));
            assert_eq!(head.partition_id, state.partition_id);
            previous = head.copy_no;
        }
    }

    /// Returns the copied reports of one owner.
    pub fn of_owner(&self, who: &Who) -> Vec<Frame> {
        let theirs = self.copies.iter().filter(|copy| copy.head.owner_session_id == who.session_id);
        theirs.map(|copy| copy.report.clone()).collect()
    }
}

fn open(
    connection: &mut Connection,
    logon: &Logon,
    points: &[ResumePoint],
) -> (LogonAck, Vec<PartitionState>) {
    weir_wire::dialogue::put_logon(logon, points, connection.outbox());
    connection.flush().unwrap();
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < HANG, "no answer to {logon:?}");
        wait([&*connection], Duration::from_millis(100)).unwrap();
        connection.receive().unwrap();
        if let Some((message, _)) = connection.next_message().unwrap() {
            let NodeMessage::LogonAck(ack, states) = message else { panic!("{message:?}") };
            return (ack, states.map(Result::unwrap).collect());
        }
    }
}

/// Resumes a session from its first event and returns all its frames from the trading partition.
/// Stage times are zero in events that are sent again.
pub fn told(node: &Node, who: &Who) -> Vec<Frame> {
    let mut connection = Connection::open(node.address(), Limits::default()).unwrap();
    let from_the_first =
        ResumePoint { next_event_no: EventNo(1), epoch: Epoch::NONE, partition_id: TRADING };
    let (_, states) = open(&mut connection, &logon_of(who), &[from_the_first]);
    let state = states.iter().find(|state| state.partition_id == TRADING).expect("it trades");
    let count = usize::try_from(state.next_event_no.0 - 1).unwrap();
    let mut frames = Vec::new();
    let begun = Instant::now();
    while frames.len() < count {
        assert!(begun.elapsed() < HANG, "{} of {count} events came", frames.len());
        while let Some((raw, _)) = connection.next_raw().unwrap() {
            if raw.template_id != Heartbeat::TEMPLATE_ID {
                frames.push(Frame { template_id: raw.template_id, body: raw.body.to_vec() });
            }
        }
        if frames.len() < count {
            wait([&connection], Duration::from_millis(100)).unwrap();
            connection.receive().unwrap();
        }
    }
    frames
}
