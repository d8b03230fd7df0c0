//! Drop copy: the reports to a firm's sessions, copied to another session.
//!
//! A stream of copies is identified by its session, the firm requested and the partition. A copy is
//! two frames with nothing between them: [`ReportCopy`], and the report as its owner gets it, with
//! stage times of zero. Each copy names the one before it, so a reader that has that one has no
//! gap.

use weir_types::{CopyNo, Epoch, FirmId, Nanos, PartitionId, Reason, SessionId, Switch};

use crate::message::messages;

messages! {
    /// Starts or ends a stream of copies. A request for a running stream starts it anew.
    DropCopyRequest = 60 {
        /// The first copy wanted: the last one received plus one; zero for new copies only.
        from_copy_no: CopyNo,
        /// The session.
        session_id: SessionId,
        /// The firm whose reports are wanted; zero for every firm that the session may copy.
        firm_id: FirmId,
        /// The partition's epoch when `from_copy_no` was received; zero if unknown.
        epoch: Epoch,
        /// The partition.
        partition_id: PartitionId,
        /// On starts the stream, Off ends it.
        wanted: Switch,
    }

    /// The state of a stream: the answer to a [`DropCopyRequest`], and the notice of a stream that
    /// the node ends itself.
    DropCopyState = 61 {
        /// The lowest copy number that can be requested.
        oldest_copy_no: CopyNo,
        /// The copy before the first one that will come; zero for none, and on a refusal.
        previous_copy_no: CopyNo,
        /// The first copy that will come, if it exists already, else a lower bound of its number.
        /// On a refusal, the highest number that can be requested, or, with
        /// [`Reason::ResumeOtherHistory`], the first number whose report may differ from the one
        /// copied before.
        next_copy_no: CopyNo,
        /// The newest copy number; zero for none.
        high_water: CopyNo,
        /// The session.
        session_id: SessionId,
        /// The value of the request.
        firm_id: FirmId,
        /// The partition's current epoch; with a copy's number it makes a resume point.
        epoch: Epoch,
        /// The value of the request.
        partition_id: PartitionId,
        /// On when the stream is running, Off when it is not.
        wanted: Switch,
        /// The reason of a refusal or of the stream's end.
        reason: Reason,
    }

    /// The head of a copy; the report is the next frame.
    ReportCopy = 62 {
        /// The copy's number.
        copy_no: CopyNo,
        /// The number of the copy before this one in the stream; zero for none.
        previous_copy_no: CopyNo,
        /// The session that gets the copy.
        session_id: SessionId,
        /// The firm requested; with the partition it identifies the stream.
        firm_id: FirmId,
        /// The session that the report is addressed to.
        owner_session_id: SessionId,
        /// That session's firm; zero for supervisors and operators.
        owner_firm_id: FirmId,
        /// The partition.
        partition_id: PartitionId,
    }

    /// The high-water mark of a stream: sent when no copy was sent for a heartbeat interval.
    CopyMark = 63 {
        /// The node's clock.
        sending_time: Nanos,
        /// The newest copy number; zero for none.
        high_water: CopyNo,
        /// The session.
        session_id: SessionId,
        /// The firm requested.
        firm_id: FirmId,
        /// The partition.
        partition_id: PartitionId,
    }
}
