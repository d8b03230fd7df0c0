//! A store built from a snapshot's chunks. `snapshot.rs` describes the stream.
//!
//! The input is not trusted: each chunk's checksum must hold, each entry must be possible, the last
//! chunk must confirm that all have come, and the live orders must have the digest of the
//! original's. The slots come in any order and enter the rings by place at the end.

use weir_types::{ChangeId, Epoch, Epochs, PartitionId, Rec, SourceLog};
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, RowFlags};

use crate::capture::{chunk_crc, next_chain};
use weir_wire::rows::ATTRIBUTES_LEN_MAX;

use crate::bounds::{check_place, check_rec};
use crate::filter::Keys;
use crate::index::Kind;
use crate::row::{HISTORY_LEN, Row, SlotMeta, SlotState, row_len};
use crate::snapshot::{
    CHUNK_HEADER_LEN, CRC_AT, ChunkKind, MAGIC, OLDER, PAYLOAD_LEN_MAX, Payload, RestoreError,
    SNAPSHOT_VERSION, VERSION_WITHOUT_HIGHEST, VERSION_WITHOUT_LOG, VERSION_WITHOUT_OLDER,
};
use crate::store::{OrderStore, StoreConfig};

/// The fields of the head chunk that are checked later.
#[derive(Clone, Debug)]
struct Head {
    kinds: u8,
    slot_count: u64,
    digest: u64,
    /// The highest record number so far; that of the last change in a snapshot of the version
    /// before.
    highest: Rec,
}

/// A sound chunk's header, and the chunk's length.
struct Checked {
    version: u16,
    kind: ChunkKind,
    entries: u32,
    len: usize,
}

/// A store that is being built from a snapshot.
#[derive(Clone, Debug)]
pub struct Restore {
    store: OrderStore,
    head: Option<Head>,
    /// The version of the first chunk.
    version: u16,
    /// The number of the chunk that is due, and the kind of the one before.
    number: u32,
    kind: ChunkKind,
    chain: u64,
    is_complete: bool,
    /// The slots' places, marks after records.
    order: Vec<(ChangeId, bool, u32)>,
    floors: Vec<(Kind, u64, ChangeId)>,
}

impl Restore {
    /// Returns an empty restore of a store of `config`, whose source must be the snapshot's. The
    /// epoch is the snapshot's; the keys may differ from the snapshot's, and new ones begin with
    /// the floor over everything.
    #[must_use]
    pub fn new(config: StoreConfig) -> Restore {
        Restore {
            store: OrderStore::new(config),
            head: None,
            version: SNAPSHOT_VERSION,
            number: 0,
            kind: ChunkKind::Head,
            chain: 0,
            is_complete: false,
            order: Vec::new(),
            floors: Vec::new(),
        }
    }

    /// Takes the next chunk from the start of `bytes` and returns its length.
    ///
    /// # Errors
    /// Any [`RestoreError`] of the chunk; the restore cannot be used after one.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, RestoreError> {
        let chunk = self.number;
        let Checked { version, kind, entries, len } = self.check(bytes)?;
        self.version = version;
        let (whole, payload) = (&bytes[..len], &bytes[CHUNK_HEADER_LEN..len]);
        let mut payload = Payload(payload);
        for _ in 0..entries {
            self.take_entry(kind, &mut payload)?;
        }
        if !payload.0.is_empty() {
            return Err(RestoreError::Entry { chunk, what: "the number of entries" });
        }
        self.chain = next_chain(self.chain, whole);
        self.number += 1;
        self.kind = kind;
        Ok(len)
    }

    fn take_entry(&mut self, kind: ChunkKind, from: &mut Payload<'_>) -> Result<(), RestoreError> {
        let short = RestoreError::Entry { chunk: self.number, what: "the payload's length" };
        match kind {
            ChunkKind::Head => self.take_head(from).ok_or(short)?,
            ChunkKind::Slots => self.take_slot_entry(from).ok_or(short)?,
            ChunkKind::Keys => self.take_floor(from).ok_or(short)?,
            ChunkKind::End => self.take_end(from).ok_or(short)?,
        }
    }

    fn entry(&self, what: &'static str) -> RestoreError {
        RestoreError::Entry { chunk: self.number, what }
    }

    fn check(&self, bytes: &[u8]) -> Result<Checked, RestoreError> {
        let chunk = self.number;
        let header = bytes.get(..CHUNK_HEADER_LEN).ok_or(RestoreError::Truncated { chunk })?;
        let word = |at: usize| {
            u32::from_le_bytes(*header[at..].first_chunk().expect("it is inside the header"))
        };
        if header[..4] != MAGIC {
            return Err(RestoreError::Magic { chunk });
        }
        let version = u16::from_le_bytes([header[4], header[5]]);
        let is_read = match chunk {
            0 => (VERSION_WITHOUT_HIGHEST..=SNAPSHOT_VERSION).contains(&version),
            _ => version == self.version,
        };
        if !is_read {
            return Err(RestoreError::Version { chunk, version });
        }
        let payload_len = word(12) as usize;
        if payload_len > PAYLOAD_LEN_MAX {
            return Err(self.entry("the payload's length"));
        }
        let len = CHUNK_HEADER_LEN + payload_len;
        let whole = bytes.get(..len).ok_or(RestoreError::Truncated { chunk })?;
        if chunk_crc(whole) != word(CRC_AT) {
            return Err(RestoreError::Checksum { chunk });
        }
        let kind = ChunkKind::from_code(header[6]).ok_or(self.entry("the chunk's kind"))?;
        let is_due = match (chunk, kind) {
            (0, kind) => kind == ChunkKind::Head,
            (_, ChunkKind::Head) => false,
            (_, kind) => kind as u8 >= self.kind as u8,
        };
        if word(8) != chunk || header[7] != 0 || !is_due || self.is_complete {
            return Err(RestoreError::OutOfOrder { chunk });
        }
        Ok(Checked { version, kind, entries: word(16), len })
    }

    fn take_head(&mut self, from: &mut Payload<'_>) -> Option<Result<(), RestoreError>> {
        let (got, epoch) = (PartitionId(from.u16()?), Epoch(from.u32()?));
        let want = self.store.config.source;
        if got != want {
            return Some(Err(RestoreError::WrongSource { got, want }));
        }
        let kinds = from.u8()?;
        self.store.config.epoch = epoch;
        self.store.head = from.change_id()?;
        self.store.index.set_floor(from.change_id()?);
        let (slot_count, digest) = (from.u64()?, from.u64()?);
        let highest = match self.version {
            VERSION_WITHOUT_HIGHEST => self.store.head.rec,
            _ => Rec(from.u64()?),
        };
        self.store.log = match self.version {
            VERSION_WITHOUT_HIGHEST | VERSION_WITHOUT_LOG => SourceLog::NONE,
            _ => SourceLog(from.u64()?),
        };
        if self.head.replace(Head { kinds, slot_count, digest, highest }).is_some() {
            return Some(Err(self.entry("a second head")));
        }
        let (mut last, mut ended) = (None, Vec::new());
        for _ in 0..from.u32()? {
            let (past, valid_to) = (Epoch(from.u32()?), from.change_id()?);
            if last >= Some(past) || past >= epoch {
                return Some(Err(self.entry("the order of epochs")));
            }
            last = Some(past);
            ended.push((past, valid_to));
        }
        self.store.epochs = Epochs::with_ended(epoch, ended);
        Some(Ok(()))
    }

    fn take_slot_entry(&mut self, from: &mut Payload<'_>) -> Option<Result<(), RestoreError>> {
        let (change_id, first) = (from.change_id()?, from.change_id()?);
        let (keys, next_keys) = (from.keys()?, from.keys()?);
        let code = from.u8()?;
        let standing = SlotState::from_code(code & !OLDER);
        let change_count = from.u32()?;
        let mut history = [0; HISTORY_LEN];
        for distance in &mut history {
            *distance = from.u32()?;
        }
        let len = from.u16()?;
        let row = from.bytes(usize::from(len))?;
        let Some(standing) = standing else { return Some(Err(self.entry("the standing"))) };
        let is_older = match self.version > VERSION_WITHOUT_OLDER {
            true => code & OLDER != 0,
            false if code & OLDER != 0 => return Some(Err(self.entry("the standing"))),
            false => first == ChangeId::START,
        };
        let meta = SlotMeta {
            first,
            is_older,
            next_keys,
            change_count,
            history,
            ..SlotMeta::new(change_id, keys, standing)
        };
        Some(self.check_slot(&meta, row).and_then(|()| self.add_slot(meta, row)))
    }

    /// Checks that a slot is possible and that its redundant fields agree.
    fn check_slot(&self, meta: &SlotMeta, bytes: &[u8]) -> Result<(), RestoreError> {
        let is_len = (row_len(0)..=row_len(ATTRIBUTES_LEN_MAX)).contains(&bytes.len());
        let is_len = is_len && {
            let at = row_len(0) - 2;
            usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])) == bytes.len() - row_len(0)
        };
        if !is_len {
            return Err(self.entry("the row's length"));
        }
        let chunk = self.number;
        let row =
            OrderRow::decode_block(bytes).map_err(|error| RestoreError::Row { chunk, error })?;
        let keys = Keys {
            firm_id: row.firm_id,
            account_id: row.account_id,
            instrument_id: row.instrument_id,
        };
        let (flags, is_live) = match meta.standing {
            SlotState::Leave => (RowFlags::LEAVE, None),
            SlotState::Tombstone => (RowFlags::TOMBSTONE, None),
            standing => (RowFlags::default(), Some(standing == SlotState::Live)),
        };
        let is_same = is_live.is_none_or(|is_live| {
            keys == meta.keys
                && row.ord_status.is_live() == is_live
                && row.partition_id == self.store.config.source
        });
        if row.flags != flags || !is_same || row.merged_count != 0 {
            return Err(self.entry("a row unlike its slot"));
        }
        let checked = match meta.standing {
            // The end of each resend is one `seq` above all rows and the ends before it.
            SlotState::Tombstone => check_rec(row.rec),
            _ => check_place(&row),
        };
        checked.map_err(|number| RestoreError::Number { chunk, number })?;
        let is_change_id = ChangeId::new(row.seq, row.rec) == meta.change_id && !row.rec.is_none();
        let is_first_late = meta.first > meta.change_id && !meta.is_disowned();
        if !is_change_id || meta.change_id > self.store.head || is_first_late {
            return Err(self.entry("a place"));
        }
        if meta.change_count == 0 {
            return Err(self.entry("the number of changes"));
        }
        // Merged counts are found by going back these distances.
        let back = meta.history.iter().take_while(|distance| **distance < u32::MAX);
        if back.map(|distance| u64::from(*distance)).sum::<u64>() > meta.change_id.seq.0 {
            return Err(self.entry("a distance"));
        }
        Ok(())
    }

    fn add_slot(&mut self, mut meta: SlotMeta, row: &[u8]) -> Result<(), RestoreError> {
        let store = &mut self.store;
        let bytes_max = store.config.bytes_max;
        let places = store.index.growth_bytes(u64::from(store.metas.len()));
        if bytes_max < u64::MAX
            && store.memory().total + places + crate::memory::EVENT_GROWTH_MAX > bytes_max
        {
            return Err(RestoreError::StoreFull { bytes_max });
        }
        let block = store.heap.take(row.len());
        store.heap.bytes_mut(block, row.len()).copy_from_slice(row);
        meta.hash = if meta.standing == SlotState::Live { Row(row).hash() } else { 0 };
        (meta.block, meta.row_len) = (block, u16::try_from(row.len()).expect("checked"));
        store.count_bytes(0, row.len());
        let slot = store.metas.push(meta);
        self.order.push((meta.change_id, meta.standing == SlotState::Leave, slot));
        Ok(())
    }

    fn take_floor(&mut self, from: &mut Payload<'_>) -> Option<Result<(), RestoreError>> {
        let (code, value, floor) = (from.u8()?, from.u64()?, from.change_id()?);
        let kind = Kind::EVERY.into_iter().find(|kind| *kind as u8 == code);
        let Some(kind) = kind.filter(|kind| *kind != Kind::All) else {
            return Some(Err(self.entry("the kind of a key")));
        };
        self.floors.push((kind, value, floor));
        Some(Ok(()))
    }

    fn take_end(&mut self, from: &mut Payload<'_>) -> Option<Result<(), RestoreError>> {
        let (slots, keys, chain) = (from.u64()?, from.u64()?, from.u64()?);
        let incomplete = |what| Some(Err(RestoreError::Incomplete { what }));
        let head = self.head.as_ref().expect("the head was the first chunk");
        if slots != self.order.len() as u64 || slots != head.slot_count {
            return incomplete("the number of slots");
        }
        if keys != self.floors.len() as u64 {
            return incomplete("the number of keys");
        }
        if chain != self.chain {
            return incomplete("the chain of chunks");
        }
        self.is_complete = true;
        Some(Ok(()))
    }

    /// True when the last chunk is in.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the store, once all chunks are in.
    ///
    /// # Errors
    /// [`RestoreError`] if chunks are missing, or the orders' digest is not the one in the head.
    pub fn finish(mut self) -> Result<OrderStore, RestoreError> {
        if !self.is_complete {
            return Err(RestoreError::Truncated { chunk: self.number });
        }
        let want = self.head.as_ref().expect("a complete one has a head").digest;
        self.link()?;
        let got = self.store.index.digest();
        if got != want {
            return Err(RestoreError::Digest { got, want });
        }
        Ok(self.store)
    }

    /// Makes a slot its record's latest entry. An earlier one can only be an end that keeps its
    /// place.
    fn link_record(&mut self, slot: u32, rec: Rec) -> Result<(), RestoreError> {
        let Some(earlier) = self.store.records.get(rec) else {
            self.store.records.insert(rec, slot);
            return Ok(());
        };
        if !self.store.metas.get(earlier).is_waiting() {
            return Err(self.entry("two slots of one record"));
        }
        self.store.records.replace(rec, slot);
        Ok(())
    }

    /// Enters the slots in their rings, in the order of their places.
    fn link(&mut self) -> Result<(), RestoreError> {
        let mut order = core::mem::take(&mut self.order);
        order.sort_unstable();
        self.store.index.add_slots(self.store.metas.len());
        let mut before = None;
        for (change_id, is_mark, slot) in order {
            if before == Some((change_id, is_mark)) {
                return Err(self.entry("two slots at one place"));
            }
            before = Some((change_id, is_mark));
            let meta = *self.store.metas.get(slot);
            if !is_mark {
                self.link_record(slot, change_id.rec)?;
            }
            self.store.index.insert(slot, change_id, &meta.keys, meta.hash);
            self.store.count_in(slot);
        }
        let Head { kinds, highest, .. } = self.head.take().expect("a complete one has a head");
        // The records with the highest numbers may be gone.
        self.store.records.reach(highest);
        // A snapshot does not tell which records its store had discarded.
        self.store.records.gave_up_to(highest);
        for (kind, value, floor) in core::mem::take(&mut self.floors) {
            // The original has no floor for a key of which it had no ring.
            if kinds >> kind as u8 & 1 == 1 {
                self.store.index.set_key_floor(kind, value, floor);
            }
        }
        Ok(())
    }
}

impl OrderStore {
    /// Restores a store from `bytes`, all chunks of a snapshot one after the other.
    ///
    /// # Errors
    /// Any [`RestoreError`].
    pub fn restore(config: StoreConfig, bytes: &[u8]) -> Result<OrderStore, RestoreError> {
        let (mut restore, mut bytes) = (Restore::new(config), bytes);
        while !bytes.is_empty() {
            let len = restore.take(bytes)?;
            bytes = &bytes[len..];
        }
        restore.finish()
    }
}
