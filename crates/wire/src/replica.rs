//! Replication of a source: a replica asks a master for the entries after a position of the
//! source's history and applies them as the master did.
//!
//! An answer begins with a [`FollowState`]. Entries follow it as the frames in which they came, of
//! [`OpenSource`](crate::ingest::OpenSource) and [`SourceBatch`](crate::ingest::SourceBatch), or,
//! if the master no longer holds the entries after the replica's position, the chunks of a
//! snapshot. `docs/protocols/replica.md` specifies the protocol.

use weir_types::{Nanos, PartitionId, Rec, Seq, SessionId, Switch};

use crate::frame::{RawMessage, put_frame_with, put_message};
use crate::group::{put_data, take_data};
use crate::message::{DecodeError, messages};

/// The longest chunk of a snapshot in a [`SnapshotChunk`], in bytes.
pub const CHUNK_LEN_MAX: usize = 60 * 1024;

messages! {
    /// Asks for the entries after a position of a source's history. Each request gets one answer.
    FollowSource = 76 {
        /// The upper half of the id of the position's history, from the master; zero for none.
        history_high: u64,
        /// Its lower half.
        history_low: u64,
        /// The last entry applied; zero for none.
        position: u64,
        /// The session.
        session_id: SessionId,
        /// The next snapshot chunk wanted; zero outside of a snapshot.
        chunk_no: u32,
        /// The source that the orders belong to.
        source_id: PartitionId,
    }

    /// The head of an answer: entries or a snapshot follow; with the master's own position.
    FollowState = 77 {
        /// The upper half of the id of the source's history at this master.
        history_high: u64,
        /// Its lower half.
        history_low: u64,
        /// The last entry of this answer or of the snapshot.
        position: u64,
        /// The master's last entry.
        head_position: u64,
        /// The place of the master's latest change: its `seq`.
        head_seq: Seq,
        /// Its `rec`.
        head_rec: Rec,
        /// The master's clock.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The number of entries that follow, each as a frame of its own.
        entry_count: u32,
        /// The source that the orders belong to.
        source_id: PartitionId,
        /// On when chunks of a snapshot follow instead of entries.
        is_snapshot: Switch,
    }

    /// A chunk of a snapshot: bytes follow as a data field, at most [`CHUNK_LEN_MAX`].
    SnapshotChunk = 78 {
        /// The last entry that the snapshot holds.
        position: u64,
        /// The session.
        session_id: SessionId,
        /// The chunk's number, from zero.
        chunk_no: u32,
        /// The source that the orders belong to.
        source_id: PartitionId,
        /// On for the last one.
        is_last: Switch,
    }
}

/// Appends the frame of a snapshot chunk.
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

/// Decodes a snapshot chunk and its bytes.
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
