//! The messages of a link, as `docs/protocols/link.md` lists them; a test compares the two.
//!
//! `schema/weir.xml`, the contract with clients, does not have them. Their template ids, from 130
//! on, are free there.

use core::fmt;

use weir_types::{
    Epoch, EventNo, FirmId, Nanos, PartitionId, Position, Reason, RequestNo, SessionId, Switch,
};
use weir_wire::field::Field;
use weir_wire::messages;

/// The seal of a grant: proves to a partition that control made it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seal(pub [u8; 16]);

impl Seal {
    /// No seal: of a check.
    pub const NONE: Seal = Seal([0; 16]);
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(..)")
    }
}

impl Field for Seal {
    type Wire = [u8; 16];
    const SCHEMA_TYPE: &'static str = "seal";

    fn from_wire(wire: [u8; 16]) -> Option<Self> {
        Some(Seal(wire))
    }

    fn to_wire(self) -> [u8; 16] {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// The id of a partition's log, drawn at its first start: epochs of another log are others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogId(pub [u8; 16]);

impl LogId {
    /// No log: of a gateway that has no records.
    pub const NONE: LogId = LogId([0; 16]);
}

impl Field for LogId {
    type Wire = [u8; 16];
    const SCHEMA_TYPE: &'static str = "logId";

    fn from_wire(wire: [u8; 16]) -> Option<Self> {
        Some(LogId(wire))
    }

    fn to_wire(self) -> [u8; 16] {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

messages! {
    /// Opens a link to a partition, from the first record that the gateway lacks on.
    OpenLink = 130 {
        /// The number of the gateway's process, drawn at its start.
        incarnation: u64,
        /// The first record that the gateway lacks; zero for none.
        next_record: u64,
        /// The bytes of event batches that may be unused.
        window_bytes: u32,
        /// The gateway's session.
        session_id: SessionId,
        /// The epoch of the record before that; zero for none.
        epoch: Epoch,
        /// The partition.
        partition_id: PartitionId,
        /// The log of the record before that; zero for none.
        log_id: LogId,
    }

    /// States the partition's next record, and the terms of the link.
    LinkOpened = 131 {
        /// The number of the partition's process, drawn at its start.
        incarnation: u64,
        /// The first record of the link.
        next_record: u64,
        /// The partition's next record at the opening.
        end_record: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The partition's epoch.
        epoch: Epoch,
        /// The time after which absent sessions are lost, in milliseconds.
        lease_ms: u32,
        /// The interval of pulses, in milliseconds.
        pulse_ms: u32,
        /// The commands that may be unanswered.
        commands_max: u32,
        /// The partition.
        partition_id: PartitionId,
        /// On if the link goes on at the gateway's resume point.
        is_continued: Switch,
        /// The partition's log.
        log_id: LogId,
    }

    /// States the firms of the partition's sessions.
    SessionFirms = 132 {
        /// The gateway's session.
        session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
    }

    /// An entry of `SessionFirms`' group: the firm of a session.
    SessionFirm = 0 {
        /// The client's session.
        bound_session_id: SessionId,
        /// Its firm; zero for none.
        firm_id: FirmId,
    }

    /// Ends the definitions: the gateway names its sessions.
    LinkReady = 133 {
        /// The gateway's session.
        session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
    }

    /// Binds a session to the gateway, names a session that is bound, or asks if one could be.
    BindSession = 134 {
        /// The grant's generation; zero in a check.
        generation: u64,
        /// The first event wanted; zero for new events only.
        next_event_no: EventNo,
        /// The grant's seal; zero in a check.
        seal: Seal,
        /// The gateway's session.
        session_id: SessionId,
        /// The client's session.
        bound_session_id: SessionId,
        /// The epoch in which the event before that was received; zero if unknown.
        epoch: Epoch,
        /// The partition.
        partition_id: PartitionId,
        /// On if the session's loss is to cancel its live orders.
        cancel_on_disconnect: Switch,
        /// On to ask only.
        is_check: Switch,
        /// On for a session that was bound by this gateway before the link was lost.
        is_again: Switch,
    }

    /// Answers `BindSession`.
    SessionBound = 135 {
        /// The request's.
        generation: u64,
        /// The record from which on the link has the session's events.
        next_record: u64,
        /// The highest request number that the partition has received from the session.
        last_request_no: RequestNo,
        /// The number of the session's next event.
        next_event_no: EventNo,
        /// The oldest event that is still available.
        oldest_event_no: EventNo,
        /// The gateway's session.
        session_id: SessionId,
        /// The client's session.
        bound_session_id: SessionId,
        /// The partition's epoch.
        epoch: Epoch,
        /// The wanted events before `nextRecord`.
        record_count: u32,
        /// The partition.
        partition_id: PartitionId,
        /// The reason of a refusal; `None` if bound.
        reason: Reason,
        /// As requested.
        is_check: Switch,
    }

    /// Lists the records of a session's wanted events, in order.
    SessionRecords = 136 {
        /// That of `SessionBound`.
        generation: u64,
        /// The number of the first event listed.
        first_event_no: EventNo,
        /// The gateway's session.
        session_id: SessionId,
        /// The client's session.
        bound_session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
    }

    /// An entry of the groups of record numbers.
    RecordNo = 0 {
        /// The record.
        record: u64,
    }

    /// Ends a binding at the partition.
    SessionUnbound = 137 {
        /// The generation below which no grant binds; zero for none.
        generation: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The client's session.
        bound_session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
        /// The reason.
        reason: Reason,
    }

    /// Ends the naming: sessions that were not named are lost.
    BindingsNamed = 138 {
        /// The gateway's session.
        session_id: SessionId,
        /// The number of sessions named.
        count: u32,
        /// The partition.
        partition_id: PartitionId,
    }

    /// Ends the binding of a session.
    UnbindSession = 139 {
        /// The binding's generation.
        generation: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The client's session.
        bound_session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
        /// On for the session's end; Off if it may come back by another gateway.
        is_ended: Switch,
    }

    /// Requests of bound sessions, in their order.
    CommandBatch = 140 {
        /// The gateway's monotonic clock.
        sent_at: Nanos,
        /// The gateway's session.
        session_id: SessionId,
        /// The epoch up to which the gateway has read.
        epoch: Epoch,
        /// The partition.
        partition_id: PartitionId,
        /// On for commands that were kept when the link was opened.
        is_again: Switch,
    }

    /// An entry of `CommandBatch`'s group: a request follows as a data field.
    LinkedCommand = 0 {
        /// The generation of its session's binding.
        generation: u64,
        /// The number of its probe points; zero for none.
        trace_id: u64,
        /// The nanoseconds from t0 to `sentAt`.
        t0_before: u32,
    }

    /// A request that the log did not take.
    CommandRefused = 141 {
        /// The request's number.
        request_no: RequestNo,
        /// The gateway's session.
        session_id: SessionId,
        /// The client's session.
        bound_session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
        /// The template of the request.
        ref_template_id: u16,
        /// The reason.
        reason: Reason,
        /// The generation of the last copy of it.
        generation: u64,
    }

    /// Records of the partition's event log, in their order.
    EventBatch = 142 {
        /// The first record, skipped or not.
        first_record: u64,
        /// The number of records skipped behind the last one.
        skipped_after: u32,
        /// The gateway's session.
        session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
    }

    /// An entry of `EventBatch`'s group: a record follows as a data field.
    LinkedEvent = 0 {
        /// The number of records skipped before it.
        skipped_before: u32,
    }

    /// Stage times of commands of the gateway, by the partition's monotonic clock.
    StageBatch = 143 {
        /// The gateway's session.
        session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
    }

    /// An entry of `StageBatch`'s group: the stage times of one command.
    StageSpans = 0 {
        /// The position of the command.
        position: Position,
        /// The request.
        request_no: RequestNo,
        /// The number of its probe points.
        trace_id: u64,
        /// The time of t1.
        t1: Nanos,
        /// The nanoseconds from t1 to t2.
        t2: u32,
        /// The nanoseconds from t1 to t3.
        t3: u32,
        /// The nanoseconds from t1 to t4.
        t4: u32,
        /// The nanoseconds from t1 to t5.
        t5: u32,
        /// The nanoseconds from t1 to t6.
        t6: u32,
        /// The client's session.
        bound_session_id: SessionId,
    }

    /// An epoch of the partition ended before the next record.
    EpochEnded = 144 {
        /// The last position of the ended epoch that survives.
        last_valid: Position,
        /// The first record of the next epoch.
        next_record: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The ended epoch.
        ended: Epoch,
        /// The next epoch.
        next: Epoch,
        /// The partition.
        partition_id: PartitionId,
    }

    /// A sign of life, with stamps of clocks, credit and load.
    LinkPulse = 145 {
        /// The sender's monotonic clock.
        sent_at: Nanos,
        /// The other end's `sentAt` in its newest pulse; zero for none.
        heard_sent_at: Nanos,
        /// The sender's clock at the arrival of that pulse.
        heard_at: Nanos,
        /// The bytes of event batches that the gateway has used since the opening; zero from a
        /// partition.
        bytes_used: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The commands of the gateway that wait for the ring; zero from a gateway.
        queued: u32,
        /// All gateways' commands that wait for the partition; zero from a gateway.
        waiting: u32,
        /// The partition.
        partition_id: PartitionId,
        /// The partition's load, in thousandths; zero from a gateway.
        load_permille: u16,
    }

    /// Asks for records that are in memory no more.
    AskRecords = 146 {
        /// The number of the request.
        number: u64,
        /// The record from which on all passed ones are wanted; zero for those listed.
        from_record: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
        /// On for the gateway's own reader.
        is_urgent: Switch,
    }

    /// Answers `AskRecords`; without entries the first record is deleted.
    OldRecords = 147 {
        /// The number of the request.
        number: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The epoch in which they were read.
        epoch: Epoch,
        /// The partition.
        partition_id: PartitionId,
    }

    /// An entry of `OldRecords`' group: a record follows as a data field.
    OldRecord = 0 {
        /// The record's number.
        number: u64,
    }

    /// Begins or ends the events of a firm's sessions on the link, for drop copy.
    FollowFirm = 148 {
        /// The first record wanted; zero for new ones only.
        from_record: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The firm; zero for all.
        firm_id: FirmId,
        /// The partition.
        partition_id: PartitionId,
        /// On to begin.
        is_wanted: Switch,
    }

    /// Answers `FollowFirm`.
    FirmFollowed = 149 {
        /// The record from which on the link has the firm's events.
        next_record: u64,
        /// The oldest record that is still available.
        oldest_record: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The firm.
        firm_id: FirmId,
        /// The wanted records before `nextRecord`.
        record_count: u32,
        /// The partition.
        partition_id: PartitionId,
        /// The reason of a refusal.
        reason: Reason,
    }

    /// Lists the records of a firm's events, in order.
    FirmRecords = 150 {
        /// The gateway's session.
        session_id: SessionId,
        /// The firm.
        firm_id: FirmId,
        /// The partition.
        partition_id: PartitionId,
    }

    /// Claims a session whose client has proved its identity.
    ClaimSession = 151 {
        /// Control's newest stamp when the client's connection was accepted; zero for none.
        heard: Nanos,
        /// The gateway's session.
        session_id: SessionId,
        /// The client's session.
        bound_session_id: SessionId,
        /// On: takes the session over from another gateway, if that is permitted.
        takeover: Switch,
    }

    /// Answers `ClaimSession`.
    SessionClaimed = 152 {
        /// The generation of the grant.
        generation: u64,
        /// Its seal.
        seal: Seal,
        /// The gateway's session.
        session_id: SessionId,
        /// The client's session.
        bound_session_id: SessionId,
        /// The reason of a refusal; `None` if granted.
        reason: Reason,
    }

    /// Another gateway has taken the session over.
    ClaimEnded = 153 {
        /// The generation of the new grant.
        generation: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The client's session.
        bound_session_id: SessionId,
        /// The reason.
        reason: Reason,
    }

    /// The session has ended.
    ReleaseSession = 154 {
        /// The generation of the grant.
        generation: u64,
        /// The gateway's session.
        session_id: SessionId,
        /// The client's session.
        bound_session_id: SessionId,
    }

    /// Names the grants that the gateway holds.
    KeepClaims = 155 {
        /// The gateway's session.
        session_id: SessionId,
        /// On for the last frame.
        is_last: Switch,
    }

    /// An entry of `KeepClaims`' group: a grant.
    HeldGrant = 0 {
        /// The generation.
        generation: u64,
        /// The seal.
        seal: Seal,
        /// The client's session.
        bound_session_id: SessionId,
    }
}
