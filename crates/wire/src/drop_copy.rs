//! Drop copy: the reports to a firm's sessions, told to one session more.
//!
//! A stream of copies is known by its session, the firm asked for and the partition. A copy is two
//! frames with nothing between them: [`ReportCopy`], and the report as its owner gets it, with
//! stage times of zero. Each copy names the one before it, so that who has that one has no gap.

use weir_types::{CopyNo, Epoch, FirmId, Nanos, PartitionId, Reason, SessionId, Switch};

use crate::message::messages;

messages! {
    /// Asks for a stream of copies, or for its end. To ask again for a stream that is there begins
    /// it anew.
    DropCopyRequest = 60 {
        /// The first copy wanted: the number of the last one had plus one; zero wants none of the
        /// old ones.
        from_copy_no: CopyNo,
        /// The session.
        session_id: SessionId,
        /// Whose reports; zero for all that the session may see copies of.
        firm_id: FirmId,
        /// The partition's epoch when `from_copy_no` was learnt; zero where it is not known.
        epoch: Epoch,
        /// The partition.
        partition_id: PartitionId,
        /// On begins the copies, Off ends them.
        wanted: Switch,
    }

    /// How a stream stands: the answer to a [`DropCopyRequest`], and the word that comes when the
    /// node ends a stream by itself.
    DropCopyState = 61 {
        /// The lowest number that can be asked from.
        oldest_copy_no: CopyNo,
        /// The last copy before the first that comes; zero for none, and when refused.
        previous_copy_no: CopyNo,
        /// The first copy that comes, where it is there already, else a number that it is not
        /// below. When refused, the highest number that can be asked from, or, with
        /// [`Reason::ResumeOtherHistory`], the first that may be another report than was copied.
        next_copy_no: CopyNo,
        /// The newest copy that there is; zero for none.
        high_water: CopyNo,
        /// The session.
        session_id: SessionId,
        /// As asked.
        firm_id: FirmId,
        /// The partition's epoch now; with a copy's number it is a point to ask from.
        epoch: Epoch,
        /// As asked.
        partition_id: PartitionId,
        /// On when copies come from now on, Off when none do.
        wanted: Switch,
        /// Why the request was refused, or the stream ended.
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
        /// The firm that was asked for; with the partition, which stream.
        firm_id: FirmId,
        /// The session that the report is addressed to.
        owner_session_id: SessionId,
        /// That session's firm; zero for supervisors and operators.
        owner_firm_id: FirmId,
        /// The partition.
        partition_id: PartitionId,
    }

    /// How far a stream goes: sent when no copy was sent for a heartbeat interval.
    CopyMark = 63 {
        /// The node's clock.
        sending_time: Nanos,
        /// The newest copy that there is; zero for none.
        high_water: CopyNo,
        /// The session.
        session_id: SessionId,
        /// The firm that was asked for.
        firm_id: FirmId,
        /// The partition.
        partition_id: PartitionId,
    }
}
