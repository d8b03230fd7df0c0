//! The disk work of a cycle: blocks written, files named and removed, the table saved.
//!
//! One block is written at a time, so that a valid block proves that those before it had been
//! written. "No space", and a process without a descriptor for the next file, are waited for; any
//! other disk failure stops the broker.

use weir_io::{Completion, Disk, DiskError, DiskErrorKind, Op, Outcome};
use weir_types::{Durability, Nanos};

use crate::block::put_message;
use crate::block::{BlockBuilder, PartHeader, StoredMessage, begin_part, end_part, open_part};
use crate::broker::{Broker, Fate};
use crate::config::OnFull;
use crate::error::{BrokerError, EvictReason};
use crate::name::Topic;
use crate::plant::{self, Plant};
use crate::spill::{Roll, SentBlock, SentPart, SpillFile, UNNAMED, file_name};
use crate::table::Table;
use crate::topic::{Extent, Message};

const BLOCK: u64 = 1;
const TABLE: u64 = 2;
const NAME: u64 = 3;
const REMOVE: u64 = 4;

impl<D: Disk> Broker<D> {
    pub(crate) fn cycle(&mut self) -> Result<usize, BrokerError> {
        let mut work = self.reap()?;
        if self.now >= self.sweep_at {
            self.sweep_at = Nanos(self.now.0 + self.config.sweep_every.0);
            work += self.sweep();
        }
        self.pass_taken();
        self.drop_written(self.config.memory_bytes_max / 2);
        work += self.write()?;
        work += self.spill.give_up_dead(&mut self.disk, self.config.file_bytes);
        work += self.remove_next();
        work += self.save();
        Ok(work)
    }

    fn reap(&mut self) -> Result<usize, BrokerError> {
        let mut reaped = std::mem::take(&mut self.reaped);
        self.disk.reap(&mut reaped);
        let count = reaped.len();
        let mut ended = Ok(());
        for completion in reaped.drain(..) {
            ended = ended.and(self.finish(completion));
        }
        self.reaped = reaped;
        ended.map(|()| count)
    }

    fn finish(&mut self, completion: Completion) -> Result<(), BrokerError> {
        let Completion { tag, buf, outcome } = completion;
        match (tag, outcome) {
            (BLOCK, Outcome::Written { bytes, .. }) => self.block_taken(buf, bytes),
            (TABLE, Outcome::Written { bytes, .. }) => self.table_taken(buf, bytes),
            (NAME, Outcome::Done) => self.named(),
            (REMOVE, Outcome::Done) => self.removed(),
            // The previous attempt removed it and could not sync the removal.
            (REMOVE, Outcome::Failed(error)) if error.kind == DiskErrorKind::NotFound => {
                self.removed();
            }
            (_, Outcome::Failed(error)) if error.kind == DiskErrorKind::Full => {
                self.found_full(tag, buf);
            }
            (_, Outcome::Failed(error)) => return Err(error.into()),
            (tag, outcome) => unreachable!("operation {tag} does not end in {outcome:?}"),
        }
        Ok(())
    }

    /// Handles a full disk: nothing was written or, after a sync, nothing is known, so it is all
    /// repeated.
    fn found_full(&mut self, tag: u64, buf: Vec<u8>) {
        self.counters.full += 1;
        let until = Nanos(self.now.0 + self.config.full_pause.0);
        match tag {
            TABLE => self.saver.full(until),
            REMOVE => self.spill.is_removing = false,
            _ => self.full_until = Some(until),
        }
        if tag == NAME {
            if let Roll::Naming(_, id) = self.spill.roll {
                self.disk.close(id);
            }
            self.spill.roll = Roll::No;
        }
        if tag == BLOCK {
            let sent = self.spill.sent.as_mut().expect("a block is on its way");
            (sent.buf, sent.from, sent.is_waiting) = (buf, 0, true);
        }
        if tag == BLOCK || tag == NAME {
            self.evict_for_disk();
        }
    }

    /// Ends the subscription with the most bytes on disk, or else the one with the most to be
    /// written.
    fn evict_for_disk(&mut self) {
        if self.config.on_full == OnFull::Refuse {
            return;
        }
        let spilled =
            self.furthest_behind(|state, bytes| state.bytes_before_memory().saturating_sub(bytes));
        let victim = spilled.or_else(|| self.furthest_behind(|state, at| state.total_bytes - at));
        if let Some(victim) = victim {
            self.evict_at(victim, EvictReason::DiskFull);
        }
    }

    // ------------------------------------------------------------------ blocks

    fn write(&mut self) -> Result<usize, BrokerError> {
        if let Some(until) = self.full_until {
            if self.now < until {
                return Ok(0);
            }
            self.full_until = None;
        }
        if self.spill.sent.is_some() {
            return Ok(self.try_again());
        }
        if self.spill.roll != Roll::No {
            return Ok(0);
        }
        let emptied = if self.is_due() { None } else { self.emptiest() };
        if !self.is_due() && emptied.is_none() {
            // Nothing waits for a file any more.
            self.no_file_until = None;
            return Ok(0);
        }
        let Some(file) = self.spill.open_file(self.config.file_bytes) else {
            return self.begin_file();
        };
        let len = self.spill.files[&file].len;
        let mut builder = BlockBuilder::new(len == 0);
        let parts = match emptied {
            Some(emptied) => self.gather_moved(emptied, &mut builder),
            None => self.gather(&mut builder),
        };
        if parts.is_empty() {
            return Ok(1);
        }
        let (seq, header) = (self.spill.next_seq, self.spill.header(file));
        self.spill.next_seq += 1;
        let buf = builder.finish(seq, &header);
        let moved = |mut part: SentPart| {
            part.offset += len;
            part
        };
        let parts = parts.into_iter().map(moved).collect();
        let is_moved = emptied.is_some();
        let sent = SentBlock { buf, from: 0, parts, is_moved, file, seq, is_waiting: true };
        self.spill.sent = Some(sent);
        Ok(1 + self.try_again())
    }

    /// Submits the block that waits.
    fn try_again(&mut self) -> usize {
        let sent = self.spill.sent.as_ref().filter(|sent| sent.is_waiting);
        let Some(size) = sent.map(|sent| sent.buf.len() as u64) else { return 0 };
        if self.spill.bytes() + size > self.config.disk_bytes_max {
            self.counters.full += 1;
            self.full_until = Some(Nanos(self.now.0 + self.config.full_pause.0));
            self.evict_for_disk();
            return 0;
        }
        self.submit_block();
        1
    }

    fn submit_block(&mut self) {
        let sent = self.spill.sent.as_mut().expect("a block is to be written");
        sent.is_waiting = false;
        let file = &self.spill.files[&sent.file];
        let op = Op::Write {
            file: file.id,
            offset: file.len + sent.from as u64,
            buf: std::mem::take(&mut sent.buf),
            from: sent.from,
            sync: self.config.durability == Durability::Disk && !plant::is(Plant::SyncSkipped),
        };
        self.disk.submit(BLOCK, op);
    }

    /// True when something must be written now.
    fn is_due(&mut self) -> bool {
        self.pass_taken();
        let Some(front) = self.arrivals.front().copied() else { return false };
        if self.waits_for_table(front.topic) {
            return false;
        }
        self.is_memory_short() || self.is_due_for_level(front.topic, front.at)
    }

    /// True when a topic's messages must wait for the table. The parts of a topic are a
    /// subscription's messages from the first one wanted on, without a hole. An ended subscription
    /// no longer keeps messages in memory, and a crash revives it until its end is saved: nothing
    /// may be written after the messages that it lost.
    fn waits_for_table(&self, topic: Topic) -> bool {
        let is_ending = |state: &crate::topic::TopicState| state.ending_change() > 0;
        self.topics.get(&topic).is_some_and(is_ending) && !plant::is(Plant::HoleBehindEviction)
    }

    fn is_memory_short(&self) -> bool {
        self.memory_bytes > self.config.memory_bytes_max / 2
    }

    fn is_due_for_level(&self, topic: Topic, at: Nanos) -> bool {
        self.is_settling
            || self.config.durability != Durability::Memory
                && (self.topics.get(&topic).is_some_and(|state| state.away > 0)
                    || self.now.since(at) >= self.config.hold)
    }

    /// Takes arrivals for a block, in order.
    fn gather(&mut self, builder: &mut BlockBuilder) -> Vec<SentPart> {
        let is_short = self.is_memory_short();
        let mut ranges: std::collections::BTreeMap<Topic, (u64, u64)> = Default::default();
        let mut bytes = 0;
        while bytes < self.config.block_bytes {
            self.pass_taken();
            let Some(front) = self.arrivals.front().copied() else { break };
            debug_assert_eq!(self.fate(&front), Fate::Wanted);
            let is_due = is_short || self.is_due_for_level(front.topic, front.at);
            if !is_due || self.waits_for_table(front.topic) {
                break;
            }
            let message = self.topics[&front.topic].resident(front.index);
            let body = &message.expect("what is wanted and not written is in memory").body;
            bytes += crate::block::message_bytes(body.len());
            ranges.entry(front.topic).or_insert((front.index, front.index)).1 = front.index + 1;
            self.arrivals.pop_front();
        }
        let ranges = ranges.into_iter();
        ranges.map(|(topic, (first, end))| self.put_part(topic, first, end, builder)).collect()
    }

    /// Builds a part of messages in memory.
    fn put_part(
        &self,
        topic: Topic,
        first_index: u64,
        end: u64,
        builder: &mut BlockBuilder,
    ) -> SentPart {
        let state = &self.topics[&topic];
        let message = |index| state.resident(index).expect("it was there when it was gathered");
        let (first, last) = (message(first_index), message(end - 1));
        let body_end = last.bytes_before + last.body.len() as u64;
        let header = PartHeader {
            topic,
            first: first.no,
            last: last.no,
            first_at: first.times.now,
            last_at: last.times.now,
            count: u32::try_from(end - first_index).expect("a block has fewer"),
            body_bytes: u32::try_from(body_end - first.bytes_before).expect("a block is small"),
            length: 0,
        };
        let at = begin_part(&mut builder.bytes);
        for index in first_index..end {
            put_message(&mut builder.bytes, &message(index).into());
        }
        builder.parts += 1;
        let head = end_part(&mut builder.bytes, at, header);
        SentPart { head, first_index, bytes_before: first.bytes_before, offset: at as u64 }
    }

    fn emptiest(&self) -> Option<u64> {
        self.spill.emptiest(self.config.file_bytes)
    }

    /// Reads wanted parts of a file, to write them again.
    fn gather_moved(&mut self, file: u64, builder: &mut BlockBuilder) -> Vec<SentPart> {
        let mut parts = Vec::new();
        while builder.length() < self.config.block_bytes {
            let listed = &mut self.spill.files.get_mut(&file).expect("it is there").parts;
            let Some((topic, first_index)) = listed.pop() else { break };
            let extent = self.topics.get_mut(&topic).and_then(|t| t.extent_mut(first_index));
            let Some(extent) = extent.filter(|extent| extent.file == file).copied() else {
                continue;
            };
            let read =
                self.spill.read_part(&mut self.disk, file, extent.offset, extent.head.length);
            let is_sound =
                |bytes: &Vec<u8>| open_part(bytes).is_some_and(|(head, _)| head == extent.head);
            let Some(bytes) = read.ok().filter(is_sound) else {
                self.lose_part(topic, &extent);
                continue;
            };
            let offset = builder.add_part(&bytes) as u64;
            let Extent { bytes_before, head, .. } = extent;
            parts.push(SentPart { head, first_index, bytes_before, offset });
        }
        parts
    }

    /// Evicts every subscription that needs a part that cannot be read.
    pub(crate) fn lose_part(&mut self, topic: Topic, extent: &Extent) {
        let end = extent.end_index();
        let needs = |(at, sub): (usize, &Option<crate::subscription::Subscription>)| {
            let queue = sub.as_ref()?.live_queue()?;
            (queue.topic == topic && queue.acked_index < end).then_some(at)
        };
        let losers: Vec<usize> = self.subscriptions.iter().enumerate().filter_map(needs).collect();
        for loser in losers {
            self.evict_at(loser, EvictReason::Unreadable);
        }
    }

    fn block_taken(&mut self, buf: Vec<u8>, bytes: usize) {
        let sent = self.spill.sent.as_mut().expect("a block is on its way");
        sent.from += bytes;
        sent.buf = buf;
        if sent.from < sent.buf.len() {
            self.submit_block();
            return;
        }
        let sent = self.spill.sent.take().expect("it is there a line above");
        let file = self.spill.files.get_mut(&sent.file).expect("a block's file stays");
        file.len += sent.buf.len() as u64;
        if self.config.durability == Durability::Disk {
            self.spill.synced_seq = sent.seq;
            self.spill.synced_end = (sent.file, file.len);
        }
        self.counters.blocks += 1;
        self.counters.block_bytes += sent.buf.len() as u64;
        for part in &sent.parts {
            if sent.is_moved {
                self.part_moved(part, sent.file);
            } else {
                self.part_written(part, sent.file);
            }
        }
    }

    fn part_written(&mut self, part: &SentPart, file: u64) {
        let &SentPart { head, first_index, bytes_before, offset } = part;
        self.counters.written += u64::from(head.count);
        let Some(state) = self.topics.get_mut(&head.topic) else { return };
        let extent = Extent { first_index, bytes_before, head, file, offset };
        if extent.end_index() <= state.saved_floor() {
            return;
        }
        state.extents.push_back(extent);
        let known = self.spill.files.get_mut(&file).expect("a block's file stays");
        known.wanted += u64::from(head.length);
        known.parts.push((head.topic, first_index));
        self.written.push_back((head.topic, extent.end_index(), head.last));
    }

    fn part_moved(&mut self, part: &SentPart, file: u64) {
        let length = u64::from(part.head.length);
        let state = self.topics.get_mut(&part.head.topic);
        let Some(extent) = state.and_then(|state| state.extent_mut(part.first_index)) else {
            return;
        };
        let from = std::mem::replace(&mut extent.file, file);
        if !plant::is(Plant::MoveNotNoted) {
            extent.offset = part.offset;
        }
        self.counters.moved_bytes += length;
        self.spill.unwant(from, length);
        let known = self.spill.files.get_mut(&file).expect("a block's file stays");
        known.wanted += length;
        known.parts.push((part.head.topic, part.first_index));
    }

    // ------------------------------------------------------------------ files

    fn begin_file(&mut self) -> Result<usize, BrokerError> {
        if self.no_file_until.is_some_and(|until| self.now < until) {
            return Ok(0);
        }
        let number = self.spill.next_file;
        match self.disk.create(UNNAMED) {
            Ok(id) => {
                self.no_file_until = None;
                self.spill.roll = Roll::Naming(number, id);
                let to = file_name(number);
                self.disk.submit(NAME, Op::Rename { from: UNNAMED.to_owned(), to });
                Ok(1)
            }
            Err(error) if is_without_descriptor(&error) => {
                self.counters.no_descriptor += 1;
                self.no_file_until = Some(Nanos(self.now.0 + self.config.full_pause.0));
                Ok(0)
            }
            Err(error) => self.wait_for_room(error).map(|()| 0),
        }
    }

    fn wait_for_room(&mut self, error: DiskError) -> Result<(), BrokerError> {
        if error.kind != DiskErrorKind::Full {
            return Err(error.into());
        }
        self.counters.full += 1;
        self.full_until = Some(Nanos(self.now.0 + self.config.full_pause.0));
        self.evict_for_disk();
        Ok(())
    }

    fn named(&mut self) {
        let Roll::Naming(number, id) = self.spill.roll else {
            unreachable!("a name comes only for the file that waits for one")
        };
        self.spill.roll = Roll::No;
        self.spill.next_file = number + 1;
        self.spill.active = Some(number);
        self.spill.files.insert(number, SpillFile { id, len: 0, wanted: 0, parts: Vec::new() });
    }

    fn remove_next(&mut self) -> usize {
        if self.spill.is_removing {
            return 0;
        }
        let Some(name) = self.spill.removals.front() else { return 0 };
        self.disk.submit(REMOVE, Op::Remove { name: name.clone() });
        self.spill.is_removing = true;
        1
    }

    fn removed(&mut self) {
        self.spill.is_removing = false;
        self.spill.removals.pop_front();
        self.counters.files_removed += 1;
    }

    // ------------------------------------------------------------------ the table

    fn save(&mut self) -> usize {
        if !self.saver.is_due(self.now, self.config.save_every) {
            return 0;
        }
        let buf = self.table().encode();
        let file = self.saver.send();
        self.disk.submit(TABLE, Op::Write { file, offset: 0, buf, from: 0, sync: true });
        1
    }

    /// Returns the current table, as the next generation.
    pub(crate) fn table(&self) -> Table {
        let row = |id: &u32| {
            let subscription = self.subscriptions[*id as usize].as_ref();
            subscription.expect("a name is of a subscription").row()
        };
        Table {
            id: self.spill.id,
            generation: self.saver.generation + 1,
            run: self.run,
            level: self.config.durability,
            is_closed: self.is_closed,
            boot_id: self.disk.boot_id(),
            synced_seq: self.spill.synced_seq,
            synced_end: self.spill.synced_end,
            places: self.places.clone(),
            served: if plant::is(Plant::ServedNotSaved) { Nanos(0) } else { self.now },
            rows: self.names.values().map(row).collect(),
        }
    }

    fn table_taken(&mut self, buf: Vec<u8>, bytes: usize) {
        let (from, file) = self.saver.took(bytes);
        if from < buf.len() {
            let op = Op::Write { file, offset: from as u64, buf, from, sync: true };
            self.disk.submit(TABLE, op);
            return;
        }
        let change = self.saver.done(self.now);
        self.counters.tables += 1;
        let ending: Vec<Topic> = self
            .topics
            .iter()
            .filter(|(_, t)| t.ending_change() > 0)
            .map(|(topic, _)| *topic)
            .collect();
        for topic in ending {
            self.topics.get_mut(&topic).expect("it was listed").saved(change);
            self.forget_taken(topic);
        }
        if self.spill.sent.is_none() {
            self.topics.retain(|_, state| state.is_wanted() || !state.extents.is_empty());
        }
    }

    // ------------------------------------------------------------------ the end

    /// Closes the broker: every message that is wanted and not taken is on disk, and a table
    /// records it.
    ///
    /// # Errors
    /// If the disk fails or has no room; no acknowledged message is lost by that.
    pub fn close(&mut self) -> Result<(), BrokerError> {
        if self.is_closed {
            return Ok(());
        }
        // The disk may have been found full long ago, and a descriptor missing.
        (self.full_until, self.no_file_until) = (None, None);
        self.saver.try_again();
        self.is_settling = true;
        let settled = self.settle();
        self.is_settling = false;
        settled?;
        if let Err(error) = self.sync_files() {
            // A second sync would prove nothing.
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.is_closed = true;
        self.saver.changed_now();
        self.settle()
    }

    /// Syncs the writes that lower levels left to the system.
    fn sync_files(&mut self) -> Result<(), BrokerError> {
        if self.config.durability != Durability::Disk {
            for file in self.spill.files.values() {
                self.disk.sync(file.id)?;
            }
            self.spill.synced_seq = self.spill.next_seq - 1;
            let newest = self.spill.files.last_key_value();
            self.spill.synced_end = newest.map_or((0, 0), |(number, file)| (*number, file.len));
        }
        Ok(())
    }

    /// Returns the shortage that is waited for.
    fn shortage(&self) -> Option<DiskErrorKind> {
        if self.full_until.is_some() || self.saver.is_full() {
            return Some(DiskErrorKind::Full);
        }
        self.lacks_descriptor().then_some(DiskErrorKind::NoDescriptors)
    }

    /// Works until nothing is in progress and nothing is due.
    fn settle(&mut self) -> Result<(), BrokerError> {
        loop {
            let now = self.now;
            let worked = self.do_work(now)?;
            if let Some(kind) = self.shortage().filter(|_| self.disk.in_flight() == 0) {
                let (action, name) = (weir_io::DiskAction::Write, String::new());
                let reason = "no room or no descriptor to close".to_owned();
                return Err(DiskError { action, name, kind, reason }.into());
            }
            if worked > 0 {
                continue;
            }
            if self.disk.in_flight() == 0 {
                return Ok(());
            }
            self.disk.wait();
        }
    }
}

/// Returns true for a file that found no descriptor. Nothing of it is on the disk, so it is begun
/// again.
fn is_without_descriptor(error: &DiskError) -> bool {
    error.kind == DiskErrorKind::NoDescriptors && !plant::is(Plant::NoDescriptorStops)
}

impl<'a> From<&'a Message> for StoredMessage<'a> {
    fn from(message: &'a Message) -> StoredMessage<'a> {
        let Message { no, mark, times, .. } = *message;
        StoredMessage { no, mark, at: times.stamp, body: &message.body }
    }
}
