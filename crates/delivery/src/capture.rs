//! A snapshot in progress: the slots that are still to be sent, and copies of those that changed
//! before their turn. `snapshot.rs` describes the stream. The copies count towards the store's
//! memory limit; when memory is short, the snapshot is cancelled before an order is refused.

use std::collections::VecDeque;

use weir_types::{ChangeId, Epochs, PartitionId, Rec, SourceLog};

use crate::chunk::ChunkedArray;
use crate::heap::Heap;
use crate::index::{Index, Kinds};
use crate::row::{SlotMeta, SlotState};
use crate::snapshot::{
    CHUNK_HEADER_LEN, CRC_AT, ChunkKind, ChunkOutcome, KEY_ENTRY_LEN, MAGIC, OLDER, SLOT_ENTRY_LEN,
    SNAPSHOT_VERSION, SnapshotError, put_change_id, put_keys,
};
use crate::store::OrderStore;

/// Bytes of kept entries that share an allocation.
const IMAGES_LEN: usize = 16 * 1024;
/// The most bytes of an entry.
const ENTRY_LEN_MAX: usize = 1_024;
/// Slots and keys that one chunk visits at most.
const LOOK_MAX: u32 = 4_096;

/// Kept entries, one after the other.
#[derive(Clone, Debug, Default)]
struct Images {
    bytes: Vec<u8>,
    count: u32,
}

impl Images {
    fn new() -> Images {
        Images { bytes: Vec::with_capacity(IMAGES_LEN + ENTRY_LEN_MAX), count: 0 }
    }
}

/// The kept entries, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptEntries {
    images: VecDeque<Images>,
}

impl KeptEntries {
    fn add(&mut self, meta: &SlotMeta, heap: &Heap) {
        let is_full = |images: &Images| images.bytes.len() >= IMAGES_LEN;
        if self.images.back().is_none_or(is_full) {
            self.images.push_back(Images::new());
        }
        let images = self.images.back_mut().expect("put there if it was missing");
        put_slot(meta, heap, &mut images.bytes);
        images.count += 1;
    }

    /// Frees the oldest allocation of kept entries; false if there is none.
    pub(crate) fn free_one(&mut self) -> bool {
        self.images.pop_front().is_some()
    }

    /// Bytes requested from the allocator.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        let heads = self.images.capacity() * size_of::<Images>();
        (self.images.len() * (IMAGES_LEN + ENTRY_LEN_MAX) + heads) as u64
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Capture {
    source: PartitionId,
    epochs: Epochs<ChangeId>,
    log: SourceLog,
    kinds: Kinds,
    head: ChangeId,
    floor: ChangeId,
    slot_count: u64,
    digest: u64,
    /// The highest record number so far.
    highest: Rec,
    /// The kind of the next chunks.
    kind: ChunkKind,
    /// Slots before this one have been sent; those from `slot_end` on are new.
    slot_at: u32,
    slot_end: u32,
    /// One bit for each slot that was kept, or that holds something new.
    is_done: Vec<u64>,
    kept: KeptEntries,
    ring_at: u32,
    /// Counts and the chain of the chunks sent so far.
    number: u32,
    chain: u64,
    slots_out: u64,
    keys_out: u64,
}

impl Capture {
    fn new(store: &OrderStore) -> Capture {
        let slot_end = store.metas.len();
        Capture {
            source: store.config.source,
            epochs: store.epochs.clone(),
            log: store.log,
            kinds: store.config.kinds,
            head: store.head,
            floor: store.index.floor(),
            slot_count: u64::from(store.live_count) + u64::from(store.waiting_count),
            digest: store.index.digest(),
            highest: store.records.highest(),
            kind: ChunkKind::Head,
            slot_at: 0,
            slot_end,
            // The system provides zeroed memory as it is touched, so this does not take time here.
            is_done: vec![0; slot_end.div_ceil(64) as usize],
            kept: KeptEntries::default(),
            ring_at: 0,
            number: 0,
            chain: 0,
            slots_out: 0,
            keys_out: 0,
        }
    }

    /// Bytes requested from the allocator.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        (self.is_done.capacity() * 8) as u64 + self.kept.reserved_bytes()
    }

    fn is_done(&self, slot: u32) -> bool {
        self.is_done[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    /// Keeps a copy of a slot that is still to be sent, before the slot changes.
    fn keep(&mut self, slot: u32, meta: &SlotMeta, heap: &Heap) {
        if slot < self.slot_at || slot >= self.slot_end || self.is_done(slot) {
            return;
        }
        self.is_done[(slot / 64) as usize] |= 1 << (slot % 64);
        if meta.standing == SlotState::Free {
            return;
        }
        self.kept.add(meta, heap);
    }

    /// Fills a chunk's payload; returns its kind and the number of its entries.
    fn fill(
        &mut self,
        metas: &ChunkedArray<SlotMeta>,
        heap: &Heap,
        index: &Index,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> (ChunkKind, u32) {
        let kind = self.kind;
        let count = match kind {
            ChunkKind::Head => self.put_head(out),
            ChunkKind::Slots => self.put_slots(metas, heap, bytes_max, out),
            ChunkKind::Keys => self.put_key_floors(index, bytes_max, out),
            ChunkKind::End => {
                for number in [self.slots_out, self.keys_out, self.chain] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                1
            }
        };
        (kind, count)
    }

    fn put_head(&mut self, out: &mut Vec<u8>) -> u32 {
        out.extend_from_slice(&self.source.0.to_le_bytes());
        out.extend_from_slice(&self.epochs.current().0.to_le_bytes());
        out.push(self.kinds.bits());
        put_change_id(self.head, out);
        put_change_id(self.floor, out);
        out.extend_from_slice(&self.slot_count.to_le_bytes());
        out.extend_from_slice(&self.digest.to_le_bytes());
        out.extend_from_slice(&self.highest.0.to_le_bytes());
        out.extend_from_slice(&self.log.0.to_le_bytes());
        let count = u32::try_from(self.epochs.ended().len()).expect("epochs are few");
        out.extend_from_slice(&count.to_le_bytes());
        for (epoch, valid_to) in self.epochs.ended() {
            out.extend_from_slice(&epoch.0.to_le_bytes());
            put_change_id(*valid_to, out);
        }
        self.kind = ChunkKind::Slots;
        1
    }

    fn put_slots(
        &mut self,
        metas: &ChunkedArray<SlotMeta>,
        heap: &Heap,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> u32 {
        let (start, mut count) = (out.len(), 0);
        while let Some(images) = self.kept.images.front() {
            if count > 0 && out.len() - start + images.bytes.len() > bytes_max {
                break;
            }
            out.extend_from_slice(&images.bytes);
            count += images.count;
            self.kept.images.pop_front();
        }
        for _ in 0..LOOK_MAX {
            if self.slot_at == self.slot_end {
                break;
            }
            let meta = metas.get(self.slot_at);
            if meta.standing != SlotState::Free && !self.is_done(self.slot_at) {
                let len = SLOT_ENTRY_LEN + usize::from(meta.row_len);
                if count > 0 && out.len() - start + len > bytes_max {
                    break;
                }
                put_slot(meta, heap, out);
                count += 1;
            }
            self.slot_at += 1;
        }
        self.slots_out += u64::from(count);
        if self.slot_at == self.slot_end && self.kept.images.is_empty() {
            self.kind = ChunkKind::Keys;
        }
        count
    }

    fn put_key_floors(&mut self, index: &Index, bytes_max: usize, out: &mut Vec<u8>) -> u32 {
        let (start, mut count) = (out.len(), 0);
        for _ in 0..LOOK_MAX {
            let is_full = count > 0 && out.len() - start + KEY_ENTRY_LEN > bytes_max;
            if self.ring_at == index.ring_count() || is_full {
                break;
            }
            if let Some((kind, value, floor)) = index.key_floor(self.ring_at, self.head) {
                out.push(kind as u8);
                out.extend_from_slice(&value.to_le_bytes());
                // The follower itself removes the slots that were removed since the snapshot began.
                put_change_id(floor.min(self.head), out);
                count += 1;
            }
            self.ring_at += 1;
        }
        self.keys_out += u64::from(count);
        if self.ring_at == index.ring_count() {
            self.kind = ChunkKind::End;
        }
        count
    }
}

fn put_slot(meta: &SlotMeta, heap: &Heap, out: &mut Vec<u8>) {
    put_change_id(meta.change_id, out);
    put_change_id(meta.first, out);
    put_keys(&meta.keys, out);
    put_keys(&meta.next_keys, out);
    out.push(meta.standing as u8 | if meta.is_older { OLDER } else { 0 });
    out.extend_from_slice(&meta.change_count.to_le_bytes());
    for distance in meta.history {
        out.extend_from_slice(&distance.to_le_bytes());
    }
    out.extend_from_slice(&meta.row_len.to_le_bytes());
    out.extend_from_slice(heap.bytes(meta.block, usize::from(meta.row_len)));
}

impl OrderStore {
    /// Begins a snapshot of the store's current state; cancels one in progress. Until its last
    /// chunk is sent, each slot that changes is copied once: this takes memory for as many rows as
    /// change in that time.
    pub fn begin_snapshot(&mut self) {
        self.cancel_snapshot();
        self.capture = Some(Box::new(Capture::new(self)));
    }

    /// Cancels the snapshot in progress, if there is one.
    pub fn cancel_snapshot(&mut self) {
        if let Some(mut capture) = self.capture.take() {
            // The kept entries may be many: they are freed as events come in.
            self.abandoned.images.append(&mut capture.kept.images);
        }
        self.is_capture_given_up = false;
    }

    /// True from the beginning of a snapshot until its last chunk is sent.
    #[must_use]
    pub fn is_snapshot_under_way(&self) -> bool {
        self.capture.is_some()
    }

    /// Appends the snapshot's next chunk: about `bytes_max` bytes, or 17 KiB if that is more. The
    /// store may take in any changes between two calls.
    ///
    /// # Errors
    /// [`SnapshotError`] if no snapshot is in progress.
    pub fn snapshot_chunk(
        &mut self,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<ChunkOutcome, SnapshotError> {
        let Some(capture) = self.capture.as_mut() else {
            return Err(match self.is_capture_given_up {
                true => SnapshotError::GivenUp,
                false => SnapshotError::NotBegun,
            });
        };
        let (start, number) = (out.len(), capture.number);
        out.extend_from_slice(&[0; CHUNK_HEADER_LEN]);
        let (kind, count) = capture.fill(&self.metas, &self.heap, &self.index, bytes_max, out);
        let payload_len = out.len() - start - CHUNK_HEADER_LEN;
        let chunk = &mut out[start..];
        chunk[0..4].copy_from_slice(&MAGIC);
        chunk[4..6].copy_from_slice(&SNAPSHOT_VERSION.to_le_bytes());
        chunk[6] = kind as u8;
        chunk[8..12].copy_from_slice(&number.to_le_bytes());
        let len = u32::try_from(payload_len).expect("chunks are bounded");
        chunk[12..16].copy_from_slice(&len.to_le_bytes());
        chunk[16..20].copy_from_slice(&count.to_le_bytes());
        let crc = chunk_crc(chunk);
        chunk[CRC_AT..CHUNK_HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
        capture.number += 1;
        capture.chain = next_chain(capture.chain, chunk);
        if kind == ChunkKind::End {
            self.capture = None;
            return Ok(ChunkOutcome::Done);
        }
        Ok(ChunkOutcome::More)
    }

    /// Keeps a copy of a slot that is about to change, if a snapshot is in progress.
    #[inline]
    pub(crate) fn keep_for_capture(&mut self, slot: u32) {
        if let Some(capture) = &mut self.capture {
            capture.keep(slot, self.metas.get(slot), &self.heap);
            self.step_count += 1;
        }
    }
}

/// Returns the checksum of a whole chunk without its checksum field.
pub(crate) fn chunk_crc(chunk: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&chunk[..CRC_AT]);
    crc32c::crc32c_append(crc, &chunk[CHUNK_HEADER_LEN..])
}

/// Returns the chain after a chunk.
pub(crate) fn next_chain(chain: u64, chunk: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(chunk, chain)
}
