//! Opening: rebuilds the broker's state from the disk.
//!
//! | found | action |
//! | --- | --- |
//! | nothing | a new broker |
//! | an invalid slot of the table | the other one is used |
//! | an invalid block that had been synced | refused: damaged |
//! | an invalid block, no sync known | it and everything after it is filled with zeros |
//! | at `disk`, valid blocks, no sync known | written again elsewhere, then in place; synced |
//! | the same part twice | the copy with the higher block number is used |
//! | parts that no subscription wants | their files are removed |
//!
//! Every step can be repeated: after a crash during it, the next opening has the same result.

use std::collections::BTreeMap;

use weir_io::{Access, Disk, DiskErrorKind, FileId};
use weir_types::{Durability, Nanos};

use crate::block::{
    BLOCK_HEADER, BlockBuilder, FILE_HEADER, FileHeader, HeaderFault, PartHeader, Scan, message_at,
    open_part, scan,
};
use crate::broker::{Broker, Counters};
use crate::config::Config;
use crate::error::{BrokerError, OpenReport};
use crate::name::{MessageNo, OriginMarks, Topic};
use crate::plant::{self, Plant};
use crate::saver::Saver;
use crate::spill::{Spill, SpillFile, UNNAMED, file_name, file_of};
use crate::subscription::{Kind, Subscription};
use crate::table::{ATTACHED, SLOTS, Status, Table, TableFault};
use crate::topic::Extent;

/// The most served time that is believed: counting on from it never overflows.
const SERVED_MAX: Nanos = Nanos(1 << 62);
/// The name of a slot until it is complete for the first time.
const UNNAMED_SLOT: &str = "subscriptions.part";

/// A part found on disk.
#[derive(Clone, Copy, Debug)]
struct Found {
    head: PartHeader,
    file: u64,
    offset: u64,
    seq: u64,
}

/// A spill file found on disk.
struct FoundFile {
    number: u64,
    id: FileId,
    len: u64,
    /// `None` if its header is invalid.
    header: Option<FileHeader>,
    scan: Scan,
}

impl FoundFile {
    /// Returns the number of its last valid block, or the one before its first.
    fn last_seq(&self) -> Option<u64> {
        let header = self.header?;
        Some((header.first_seq + self.scan.blocks.len() as u64).saturating_sub(1))
    }
}

impl<D: Disk> Broker<D> {
    /// Opens the broker of a directory, or creates one. Blocks. `now` is the served time to begin
    /// with where the disk tells none.
    ///
    /// # Errors
    /// If the disk fails or its content is damaged. A repeated opening finds the same.
    pub fn open(
        config: Config,
        mut disk: D,
        now: Nanos,
    ) -> Result<(Broker<D>, OpenReport), BrokerError> {
        config.check();
        disk.lock()?;
        let names = disk.list()?;
        for unfinished in names.iter().filter(|name| [UNNAMED, UNNAMED_SLOT].contains(&&***name)) {
            disk.remove(unfinished)?;
        }
        let (table, slots, next_slot) = open_table(&mut disk, &config, &names)?;
        let mut report = report_of(&table, &config, &disk);
        let mut files = open_files(&mut disk, &table, &names)?;
        let proven = check_files(&files, &table)?;
        mend_files(&mut disk, &mut files, &mut report)?;

        let next_file = files.last().map_or(0, |file| file.number).max(table.synced_end.0) + 1;
        let seqs = files.iter().filter_map(FoundFile::last_seq);
        let next_seq = seqs.max().unwrap_or(table.synced_seq) + 1;
        let mut spill = Spill::new(table.id, next_file, next_seq, proven.min(next_seq - 1));
        spill.synced_end = table.synced_end;
        let mut saver = Saver::new(slots, next_slot, table.generation);
        saver.changed();
        let mut found = parts_of(&files);
        let unproven: Vec<_> = files.iter().filter_map(|file| unproven_of(file, proven)).collect();
        keep_files(&mut spill, files);
        if config.durability == Durability::Disk {
            write_again(&mut disk, &mut spill, &mut found, proven)?;
            settle(&mut disk, &unproven)?;
        }
        let now = served_before(&table, &found).unwrap_or(now);
        let mut broker = Broker::empty(disk, config, &report, spill, saver, now);
        broker.add_rows(table, report.may_have_lost);
        broker.add_parts(found, &mut report)?;
        report.bytes = broker.spill.bytes();
        broker.begin_run()?;
        Ok((broker, report))
    }

    fn empty(
        disk: D,
        config: Config,
        report: &OpenReport,
        spill: Spill,
        saver: Saver,
        now: Nanos,
    ) -> Broker<D> {
        let last = MessageNo::before_run(report.run);
        Broker {
            disk,
            config,
            run: report.run,
            last,
            acknowledged: last,
            topics: BTreeMap::new(),
            subscriptions: Vec::new(),
            names: BTreeMap::new(),
            attachments: 0,
            arrivals: Default::default(),
            ended: Default::default(),
            written: Default::default(),
            written_look: 1024,
            memory_bytes: 0,
            memory_messages: 0,
            spill,
            saver,
            places: OriginMarks::default(),
            now,
            opened_at: now,
            sweep_at: now,
            noted_at: now,
            lapsing_count: 0,
            full_until: None,
            no_file_until: None,
            notices: Vec::new(),
            counters: Counters::default(),
            failed: None,
            is_settling: false,
            is_closed: false,
            reaped: Vec::new(),
        }
    }

    fn add_rows(&mut self, table: Table, may_have_lost: bool) {
        self.places = table.places;
        for mut row in table.rows {
            if row.detached_at == ATTACHED {
                row.detached_at = self.now;
            }
            // The configuration may have had higher limits before.
            (row.quota, row.expire_after) = self.within_limits(row.quota, row.expire_after);
            let is_queue = matches!(row.kind, crate::table::RowKind::Queue { .. });
            row.may_have_lost |= may_have_lost && is_queue && row.status == Status::Live;
            self.insert(Subscription::from_row(row));
        }
    }

    /// Assigns the parts found to their topics, and sets the subscriptions' positions in them.
    fn add_parts(
        &mut self,
        found: BTreeMap<(Topic, MessageNo), Found>,
        report: &mut OpenReport,
    ) -> Result<(), BrokerError> {
        let mut floors: BTreeMap<Topic, MessageNo> = BTreeMap::new();
        for queue in self.subscriptions.iter().flatten().filter_map(Subscription::live_queue) {
            let floor = floors.entry(queue.topic).or_insert(queue.acked);
            *floor = (*floor).min(queue.acked);
            self.topics.entry(queue.topic).or_default();
        }
        report.subscriptions = self.names.len();
        for ((topic, _), part) in found {
            let wanted = floors.get(&topic).is_some_and(|floor| part.head.last > *floor);
            let state = self.topics.get_mut(&topic).filter(|_| wanted);
            let Some(state) = state else { continue };
            // A part that overlaps another was not written by a broker, so it is skipped whole.
            if state.extents.back().is_some_and(|before| before.head.last >= part.head.first) {
                continue;
            }
            let Found { head, file, offset, .. } = part;
            let (first_index, bytes_before) = (state.total, state.total_bytes);
            state.extents.push_back(Extent { first_index, bytes_before, head, file, offset });
            state.total += u64::from(head.count);
            state.total_bytes += u64::from(head.body_bytes);
            report.messages += u64::from(head.count);
            let file = self.spill.files.get_mut(&file).expect("it was found there");
            file.wanted += u64::from(head.length);
            file.parts.push((topic, first_index));
        }
        for topic in floors.into_keys() {
            self.note_floor(topic);
            self.note_marks(topic)?;
        }
        for id in 0..self.subscriptions.len() {
            self.place_queue(id)?;
        }
        Ok(())
    }

    /// Records the marks that every subscription of a topic has taken: their messages may be
    /// repeated.
    fn note_floor(&mut self, topic: Topic) {
        let queues = self.subscriptions.iter().flatten().filter_map(Subscription::live_queue);
        let mut taken = queues.filter(|queue| queue.topic == topic).map(|queue| &queue.taken);
        let Some(mut floor) = taken.next().cloned() else { return };
        if !plant::is(Plant::FloorOfTheFirst) {
            taken.for_each(|other| floor.keep_common(other));
        }
        self.topics.get_mut(&topic).expect("it is there").marks = floor;
    }

    /// Records the newest mark of each source with a message on disk.
    fn note_marks(&mut self, topic: Topic) -> Result<(), BrokerError> {
        let extents: Vec<Extent> = self.topics[&topic].extents.iter().copied().collect();
        for extent in extents {
            let (bytes, starts) = self.read_sound(&extent)?;
            let state = self.topics.get_mut(&topic).expect("it is there");
            for at in starts {
                let message = message_at(&bytes, at as usize).expect("the part is sound");
                state.marks.advance(message.mark);
            }
        }
        Ok(())
    }

    fn read_sound(&mut self, extent: &Extent) -> Result<(Vec<u8>, Vec<u32>), BrokerError> {
        let length = extent.head.length;
        let bytes = self.spill.read_part(&mut self.disk, extent.file, extent.offset, length)?;
        match open_part(&bytes) {
            Some((head, starts)) if head == extent.head => Ok((bytes, starts)),
            _ => {
                let file = file_name(extent.file);
                Err(BrokerError::Damaged { file, offset: extent.offset })
            }
        }
    }

    /// Sets a queue's position after the messages that it has taken.
    fn place_queue(&mut self, id: usize) -> Result<(), BrokerError> {
        let queue = self.subscriptions[id].as_ref().and_then(Subscription::live_queue);
        let Some((topic, acked)) = queue.map(|queue| (queue.topic, queue.acked)) else {
            return Ok(());
        };
        let state = &self.topics[&topic];
        let at = state.extents.partition_point(|extent| extent.head.last <= acked);
        let (mut index, mut bytes) = (state.total, state.total_bytes);
        if let Some(extent) = state.extents.get(at).copied() {
            (index, bytes) = (extent.first_index, extent.bytes_before);
            if extent.head.first <= acked {
                let (part, starts) = self.read_sound(&extent)?;
                let known = starts
                    .iter()
                    .map(|at| message_at(&part, *at as usize).expect("the part is sound"));
                for message in known.take_while(|message| message.no <= acked) {
                    (index, bytes) = (index + 1, bytes + message.body.len() as u64);
                }
            }
        }
        let state = self.topics.get_mut(&topic).expect("it is there");
        state.want(index);
        state.away += 1;
        let subscription = self.subscriptions[id].as_mut().expect("it is there");
        if let Kind::Queue(queue) = &mut subscription.kind {
            queue.put_at(index, bytes);
        }
        Ok(())
    }

    /// Saves that this run has begun, before it assigns any number.
    fn begin_run(&mut self) -> Result<(), BrokerError> {
        for topic in self.topics.keys().copied().collect::<Vec<_>>() {
            self.forget_taken(topic);
        }
        let bytes = self.table().encode();
        let file = self.saver.send();
        self.disk.write_all(file, 0, &bytes)?;
        self.disk.sync(file)?;
        self.saver.done(self.now);
        Ok(())
    }
}

/// Returns the served time that the runs before reached: no time on the disk is later. `None` if
/// there is none on it.
fn served_before(table: &Table, found: &BTreeMap<(Topic, MessageNo), Found>) -> Option<Nanos> {
    let detached = table.rows.iter().map(|row| row.detached_at).filter(|at| *at != ATTACHED);
    let published = found.values().map(|part| part.head.last_at);
    let reached = detached.chain(published).fold(table.served, Nanos::max);
    (reached > Nanos(0)).then_some(reached.min(SERVED_MAX))
}

fn report_of<D: Disk>(table: &Table, config: &Config, disk: &D) -> OpenReport {
    let is_new = table.run == 0;
    let is_lossy = match table.level {
        Durability::Memory => true,
        Durability::Os => table.boot_id != disk.boot_id(),
        Durability::Disk => false,
    };
    OpenReport {
        run: table.run.max(1) + u32::from(!plant::is(Plant::RunNotCounted) && table.run > 0),
        was_closed: table.is_closed,
        level_before: if is_new { config.durability } else { table.level },
        may_have_lost: !is_new && !table.is_closed && is_lossy,
        ..OpenReport::default()
    }
}

// ---------------------------------------------------------------------- the table

type Opened = (Table, [FileId; 2], usize);

fn open_table<D: Disk>(
    disk: &mut D,
    config: &Config,
    names: &[String],
) -> Result<Opened, BrokerError> {
    if !names.iter().any(|name| SLOTS.contains(&&**name)) {
        if names.iter().any(|name| file_of(name).is_some()) {
            return Err(BrokerError::Table);
        }
        create_slot(disk, SLOTS[0], &first_table(config, disk))?;
    }
    let mut ids = Vec::new();
    let mut newest: Option<(Table, usize)> = None;
    for (slot, name) in SLOTS.into_iter().enumerate() {
        let id = match disk.open(name, Access::Write) {
            Ok(id) => id,
            Err(error) if error.kind == DiskErrorKind::NotFound => {
                create_slot(disk, name, &[])?;
                disk.open(name, Access::Write)?
            }
            Err(error) => return Err(error.into()),
        };
        ids.push(id);
        let bytes = read_file(disk, id)?;
        match Table::decode(&bytes) {
            Ok(table) if newest.as_ref().is_none_or(|(n, _)| n.generation < table.generation) => {
                newest = Some((table, slot));
            }
            Ok(_) | Err(TableFault::Unsound) => {}
            Err(TableFault::Newer(version)) => {
                return Err(BrokerError::Newer { file: name.to_owned(), version });
            }
        }
    }
    let (table, slot) = newest.ok_or(BrokerError::Table)?;
    // After a crash of the process the system may return bytes whose sync failed: writing and
    // syncing them again puts them on the medium before the other slot is written.
    disk.write_all(ids[slot], 0, &table.encode())?;
    disk.sync(ids[slot])?;
    disk.sync_dir()?;
    Ok((table, [ids[0], ids[1]], 1 - slot))
}

fn first_table<D: Disk>(config: &Config, disk: &D) -> Vec<u8> {
    let table = Table {
        id: config.id_if_new,
        generation: 1,
        run: 0,
        level: config.durability,
        is_closed: true,
        boot_id: disk.boot_id(),
        synced_seq: 0,
        synced_end: (0, 0),
        places: OriginMarks::default(),
        served: Nanos(0),
        rows: Vec::new(),
    };
    table.encode()
}

/// Creates a slot under its name, complete or not at all.
fn create_slot<D: Disk>(disk: &mut D, name: &str, bytes: &[u8]) -> Result<(), BrokerError> {
    let id = disk.create(UNNAMED_SLOT)?;
    let written = disk.write_all(id, 0, bytes).and_then(|()| disk.sync(id));
    disk.close(id);
    written?;
    disk.rename(UNNAMED_SLOT, name)?;
    disk.sync_dir()?;
    Ok(())
}

fn read_file<D: Disk>(disk: &mut D, id: FileId) -> Result<Vec<u8>, BrokerError> {
    let len = usize::try_from(disk.len(id)?).expect("a file fits in memory");
    let mut bytes = vec![0; len];
    let read = disk.read(id, 0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

// ---------------------------------------------------------------------- spill files

fn open_files<D: Disk>(
    disk: &mut D,
    table: &Table,
    names: &[String],
) -> Result<Vec<FoundFile>, BrokerError> {
    let mut files = Vec::new();
    for (number, name) in names.iter().filter_map(|name| Some((file_of(name)?, name))) {
        let id = disk.open(name, Access::Write)?;
        let bytes = read_file(disk, id)?;
        let (header, scan) = match FileHeader::decode(&bytes) {
            Ok(header) if header.id != table.id || header.file != number => {
                return Err(BrokerError::Foreign(name.clone()));
            }
            Ok(header) => (Some(header), scan(&bytes, &header)),
            Err(HeaderFault::Unsound) => (None, Scan::default()),
            Err(HeaderFault::Newer(version)) => {
                return Err(BrokerError::Newer { file: name.clone(), version });
            }
        };
        files.push(FoundFile { number, id, len: bytes.len() as u64, header, scan });
    }
    Ok(files)
}

/// Finds the highest block known to have been synced, and refuses if one up to it is invalid.
fn check_files(files: &[FoundFile], table: &Table) -> Result<u64, BrokerError> {
    let told = |file: &FoundFile| {
        let blocks = file.scan.blocks.iter().map(|block| block.synced_seq);
        blocks.chain(file.header.map(|header| header.synced_seq)).max()
    };
    let proven = files.iter().filter_map(told).max().unwrap_or(0).max(table.synced_seq);
    for (at, file) in files.iter().enumerate() {
        let damaged = BrokerError::Damaged { file: file_name(file.number), offset: file.scan.end };
        let (synced_file, synced_end) = table.synced_end;
        if file.number == synced_file && file.scan.end < synced_end {
            return Err(damaged);
        }
        let before = at.checked_sub(1).map(|before| &files[before]);
        let before = before.filter(|before| before.number + 1 == file.number);
        let missing = match (file.last_seq(), before.and_then(FoundFile::last_seq)) {
            (Some(last), _) if file.scan.is_torn => Some(last + 1),
            (Some(last), _) => {
                let next = files.get(at + 1).filter(|next| next.number == file.number + 1);
                let first = next.and_then(|next| next.header).map(|header| header.first_seq);
                first.filter(|first| *first > last + 1).map(|_| last + 1)
            }
            (None, Some(last)) => Some(last + 1),
            (None, None) => None,
        };
        if missing.is_some_and(|missing| missing <= proven) {
            return Err(damaged);
        }
    }
    Ok(proven)
}

/// Fills torn ends with zeros and removes files without a valid header.
fn mend_files<D: Disk>(
    disk: &mut D,
    files: &mut Vec<FoundFile>,
    report: &mut OpenReport,
) -> Result<(), BrokerError> {
    for file in files.iter().filter(|file| file.header.is_none()) {
        disk.close(file.id);
        let name = file_name(file.number);
        disk.remove(&name)?;
        if file.len > 0 {
            report.torn.push((name, 0));
        }
    }
    files.retain(|file| file.header.is_some());
    disk.sync_dir()?;
    for file in files.iter().filter(|file| file.scan.is_torn) {
        let zeros = usize::try_from(file.len - file.scan.end).expect("it fits in memory");
        disk.write_all(file.id, file.scan.end, &vec![0; zeros])?;
        disk.sync(file.id)?;
        report.torn.push((file_name(file.number), file.scan.end));
    }
    Ok(())
}

/// Returns the parts of all files; of each part, the copy written last.
fn parts_of(files: &[FoundFile]) -> BTreeMap<(Topic, MessageNo), Found> {
    let mut found: BTreeMap<(Topic, MessageNo), Found> = BTreeMap::new();
    for file in files {
        for block in &file.scan.blocks {
            for &(offset, head) in &block.parts {
                let part = Found { head, file: file.number, offset, seq: block.seq };
                let known = found.entry((head.topic, head.first)).or_insert(part);
                if known.seq < part.seq {
                    *known = part;
                }
            }
        }
    }
    found
}

fn keep_files(spill: &mut Spill, files: Vec<FoundFile>) {
    for file in files {
        let kept = SpillFile { id: file.id, len: file.len, wanted: 0, parts: Vec::new() };
        spill.files.insert(file.number, kept);
    }
}

/// The range of a file's blocks that are not known to be synced.
#[derive(Clone, Copy)]
struct Unproven {
    file: FileId,
    start: u64,
    end: u64,
}

fn unproven_of(file: &FoundFile, proven: u64) -> Option<Unproven> {
    let at = file.scan.blocks.iter().position(|block| block.seq > proven)?;
    let first = file.scan.blocks[at].parts.first().map_or(0, |(offset, _)| *offset);
    // The file's header goes with its first block.
    let start = if at == 0 { 0 } else { first - BLOCK_HEADER as u64 };
    Some(Unproven { file: file.id, start, end: file.scan.end })
}

/// Writes blocks that are not known to be synced over themselves and syncs them. Their parts are
/// safe elsewhere by then; but every later block asserts that all earlier ones are on the medium,
/// and a power loss that took these after all would look like damage.
fn settle<D: Disk>(disk: &mut D, unproven: &[Unproven]) -> Result<(), BrokerError> {
    for Unproven { file, start, end } in unproven.iter().copied() {
        let len = usize::try_from(end - start).expect("a file fits in memory");
        let mut bytes = vec![0; len];
        let read = disk.read(file, start, &mut bytes)?;
        disk.write_all(file, start, &bytes[..read])?;
        disk.sync(file)?;
    }
    Ok(())
}

/// Writes the parts that are not known to be synced again, in a file of their own, and syncs them.
fn write_again<D: Disk>(
    disk: &mut D,
    spill: &mut Spill,
    found: &mut BTreeMap<(Topic, MessageNo), Found>,
    proven: u64,
) -> Result<(), BrokerError> {
    let unproven: Vec<(Topic, MessageNo)> =
        found.iter().filter(|(_, part)| part.seq > proven).map(|(key, _)| *key).collect();
    if unproven.is_empty() {
        return Ok(());
    }
    let number = spill.next_file;
    let id = disk.create(UNNAMED)?;
    disk.rename(UNNAMED, &file_name(number))?;
    disk.sync_dir()?;
    let mut len = 0;
    for key in unproven {
        let part = found.get_mut(&key).expect("it was listed");
        let bytes = spill.read_part(disk, part.file, part.offset, part.head.length)?;
        let mut builder = BlockBuilder::new(len == 0);
        let offset = len + builder.add_part(&bytes) as u64;
        let (seq, header) = (spill.next_seq, spill.header(number));
        let block = builder.finish(seq, &header);
        disk.write_all(id, len, &block)?;
        *part = Found { head: part.head, file: number, offset, seq };
        len += block.len() as u64;
        spill.next_seq += 1;
    }
    disk.sync(id)?;
    assert!(len > FILE_HEADER as u64, "at least one block was written");
    spill.synced_seq = spill.next_seq - 1;
    spill.synced_end = (number, len);
    spill.next_file = number + 1;
    spill.files.insert(number, SpillFile { id, len, wanted: 0, parts: Vec::new() });
    Ok(())
}
