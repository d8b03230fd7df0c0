//! A replica follows a source: it asks a master for what comes after a position of the source's
//! history, and takes that in as the master did.
//!
//! An answer begins with a [`FollowState`]. Entries follow it as the frames that they came in, of
//! [`OpenSource`](crate::ingest::OpenSource) and [`SourceBatch`](crate::ingest::SourceBatch), or,
//! where the replica's position is not to be had any more, the chunks of a snapshot. How it goes
//! is told in `docs/protocols/replica.md`.

use weir_types::{Nanos, PartitionId, Rec, Seq, SessionId, Switch};

use crate::frame::{RawMessage, put_frame_with, put_message};
use crate::group::{put_data, take_data};
use crate::message::{DecodeError, messages};

/// The longest piece of a snapshot in a [`SnapshotChunk`].
pub const CHUNK_LEN_MAX: usize = 60 * 1024;

messages! {
    /// Asks for what comes after a position of a source's history. One answer comes to each.
    FollowSource = 76 {
        /// Of which history the position is: as the master said; zero for none.
        history_high: u64,
        /// Its lower half.
        history_low: u64,
        /// The last entry that was taken in; zero for none.
        position: u64,
        /// The session.
        session_id: SessionId,
        /// The number of the snapshot's chunk that is due; zero outside of a snapshot.
        chunk_no: u32,
        /// Whose orders they are.
        source_id: PartitionId,
    }

    /// What is given: entries, or a snapshot, and where the master stands.
    FollowState = 77 {
        /// The source's history at this master.
        history_high: u64,
        /// Its lower half.
        history_low: u64,
        /// The last entry that is given here, or that the snapshot holds.
        position: u64,
        /// The master's last entry.
        head_position: u64,
        /// The place of its latest change: its `seq`.
        head_seq: Seq,
        /// Its `rec`.
        head_rec: Rec,
        /// The master's clock.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// How many entries follow, each as a frame of its own.
        entry_count: u32,
        /// Whose orders they are.
        source_id: PartitionId,
        /// On when chunks of a snapshot follow in the place of entries.
        is_snapshot: Switch,
    }

    /// A piece of a snapshot: bytes follow as a data field, at most [`CHUNK_LEN_MAX`].
    SnapshotChunk = 78 {
        /// The last entry that the snapshot holds.
        position: u64,
        /// The session.
        session_id: SessionId,
        /// The piece's number, from zero.
        chunk_no: u32,
        /// Whose orders they are.
        source_id: PartitionId,
        /// On for the last one.
        is_last: Switch,
    }
}

/// Appends the frame of a piece of a snapshot.
///
/// # Panics
/// When it is longer than [`CHUNK_LEN_MAX`].
pub fn put_snapshot_chunk(chunk: &SnapshotChunk, bytes: &[u8], out: &mut Vec<u8>) {
    assert!(bytes.len() <= CHUNK_LEN_MAX, "a piece of {} bytes", bytes.len());
    put_frame_with(out, |out| {
        put_message(chunk, out);
        put_data(bytes, out);
    });
}

/// A piece of a snapshot with its bytes.
///
/// # Errors
/// Any [`DecodeError`].
pub fn snapshot_chunk_of<'a>(
    raw: &RawMessage<'a>,
) -> Result<(SnapshotChunk, &'a [u8]), DecodeError> {
    let chunk = raw.decode()?;
    let (bytes, rest) = take_data(raw.rest())?;
    raw.expect_end::<SnapshotChunk>(rest)?;
    Ok((chunk, bytes))
}
