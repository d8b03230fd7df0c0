//! Drop copy: copies of the reports to a firm's sessions, sent to entitled sessions.
//!
//! A copy is sent after its owner's own report. A stream whose connection has no room, or that
//! begins at an old record, is behind: it is caught up from the event log, all such streams
//! together at a limited number of records per cycle, and nothing waits for it. A stream that falls
//! behind the retained records is ended with the record from which it can begin again.

use weir_partition::event_reader::PastRead;
use weir_partition::lineage::{ReaderPosition, Verdict};
use weir_types::{CopyNo, Epoch, FirmId, Nanos, Reason, Role, SessionId, Switch};
use weir_wire::drop_copy::{CopyMark, DropCopyRequest, DropCopyState, ReportCopy};

use super::connection::Connection;
use super::copies::{ALL, CopyStream, StreamKey};
use super::old_records::OldRecord;
use super::plant::{self, Plant};
use super::protocol::{Address, Answer, EventRecord, Refusal};
use super::{Gateway, Port};

/// The maximum number of streams of copies per session.
const STREAMS_MAX: usize = 256;
/// The number of records by which all streams that are behind advance in one cycle, including
/// skipped records of other firms.
const STEPS_MAX: u64 = 512;
/// The cost in records of a stream's first record in a cycle: it has to be located.
const SEEK_STEPS: u64 = 64;

/// An event to be copied.
#[derive(Clone, Copy)]
pub(super) struct Copied<'a> {
    pub(super) record_no: u64,
    pub(super) event: &'a EventRecord<'a>,
    pub(super) address: &'a Address,
}

impl Copied<'_> {
    /// Appends the copy's head and its report. Stage times are omitted, so that a copy has the
    /// same bytes whenever it is sent.
    pub(super) fn put(
        &self,
        stream: &CopyStream,
        owner_firm_id: FirmId,
        connection: &mut Connection,
    ) {
        let head = ReportCopy {
            copy_no: CopyNo(self.record_no),
            previous_copy_no: CopyNo(stream.previous),
            session_id: stream.key.session_id,
            firm_id: stream.key.firm_id,
            owner_session_id: self.address.session_id,
            owner_firm_id,
            partition_id: stream.partition_id,
        };
        connection.put(&Answer::Copy(&head, self.event));
    }
}

impl Gateway {
    /// Answers a request for a stream of copies, or for its end.
    pub(super) fn take_copy_request(
        &mut self,
        from: &mut Connection,
        request: &DropCopyRequest,
        now: Nanos,
    ) {
        let Some(session) = self.sessions.logged_on(request.session_id, from.id) else {
            self.put_reject(from, Refusal::of_copies(request), Reason::NotLoggedOn);
            return;
        };
        session.heard_at = now;
        let (role, own_firm) = (session.role, session.firm_id);
        let key = self.stream_asked_for(role, own_firm, request);
        let state = match (key, request.wanted) {
            (Ok(key), Switch::On) => self.begin_stream(from, key, request, now),
            (Ok(key), Switch::Off) => {
                self.end_stream(key);
                self.state_of(key, Reason::None)
            }
            (Err(reason), _) => DropCopyState { reason, ..unknown_stream(request) },
        };
        if state.reason != Reason::None {
            self.counters.copies_refused.add(state.reason);
        }
        from.put(&Answer::CopyState(&state));
        self.flush_list.add(from);
    }

    /// Returns the stream that a request names, if its session is entitled to it.
    ///
    /// | role                 | firm requested | feed                                   |
    /// | -------------------- | -------------- | -------------------------------------- |
    /// | trader               | any            | refused: copies are for other sessions |
    /// | drop copy            | none, its own  | its firm's                             |
    /// | drop copy            | another        | refused                                |
    /// | supervisor, operator | none           | all                                    |
    /// | supervisor, operator | known          | that firm's                            |
    /// | supervisor, operator | unknown        | refused: an empty stream would hide    |
    /// |                      |                | that the firm does not exist           |
    fn stream_asked_for(
        &mut self,
        role: Role,
        own_firm: FirmId,
        request: &DropCopyRequest,
    ) -> Result<StreamKey, Reason> {
        if self.is_linked {
            // Its links have the events of its own sessions alone.
            return Err(Reason::NotServedHere);
        }
        let (asked, own) = (request.firm_id, own_firm);
        let firm_id = match role {
            Role::Trader | Role::Source | Role::Gateway => return Err(Reason::NotEntitled),
            Role::DropCopy if asked.is_none() || asked == own => own,
            Role::DropCopy => return Err(Reason::NotEntitled),
            Role::Supervisor | Role::Operator => asked,
        };
        if !firm_id.is_none() && !self.reception.directory.has_firm(firm_id) {
            return Err(Reason::UnknownFirm);
        }
        let wanted = request.partition_id;
        let port = self.ports.iter().position(|port| port.ring.partition_id == wanted);
        let port = port.ok_or(Reason::WrongPartition)?;
        let is_astray = plant::is(Plant::CopiesOfAllFirms);
        let topic = if is_astray { ALL } else { self.copies.topic_of(firm_id) };
        Ok(StreamKey { topic, port, session_id: request.session_id, firm_id: asked })
    }

    fn begin_stream(
        &mut self,
        from: &Connection,
        key: StreamKey,
        request: &DropCopyRequest,
        now: Nanos,
    ) -> DropCopyState {
        let Port { events, lineage, trail, .. } = &self.ports[key.port];
        let index = &mut self.copies.topic_port(key.topic, key.port).index;
        index.forget_before(events.retained_from());
        let first = request.from_copy_no;
        let next = events.next_record();
        let other_from = match trail.judge(
            ReaderPosition { epoch: request.epoch, next: first.0 },
            next,
            lineage,
        ) {
            Verdict::Same => None,
            Verdict::OtherFrom(number) => Some(number),
            Verdict::Unknown => Some(index.floor()),
        };
        let range = index.floor()..=next;
        if let Some(other_from) = other_from {
            let state = self.state_of(key, Reason::ResumeOtherHistory);
            return DropCopyState { next_copy_no: CopyNo(other_from), ..state };
        }
        if !first.is_none() && !range.contains(&first.0) {
            return self.state_of(key, Reason::ResumeOutOfRange);
        }
        let is_new = first.is_none();
        let place = if is_new { index.next_place() } else { index.place_from(first.0) };
        let stream = CopyStream {
            key,
            partition_id: request.partition_id,
            connection: from.id,
            next_place: place,
            previous: index.before(place),
            told_at: now,
            is_behind: true,
            past: None,
        };
        let session = self.sessions.entry(key.session_id);
        if !session.copy_streams.contains(&key) {
            if session.copy_streams.len() == STREAMS_MAX {
                return self.state_of(key, Reason::TooManyCopyStreams);
            }
            session.copy_streams.push(key);
        }
        self.copies.add(stream);
        self.state_of(key, Reason::None)
    }

    /// Returns a stream's state; for one that does not exist, the records at which it can begin.
    fn state_of(&mut self, key: StreamKey, reason: Reason) -> DropCopyState {
        let Port { ring, events, .. } = &self.ports[key.port];
        let (partition_id, end) = (ring.partition_id, CopyNo(events.next_record()));
        let index = &mut self.copies.topic_port(key.topic, key.port).index;
        index.forget_before(events.retained_from());
        let (oldest, newest) = (CopyNo(index.floor()), CopyNo(index.newest()));
        let open = self.copies.stream(key).filter(|_| reason == Reason::None);
        let (previous, next) = match &open {
            Some((index, stream)) => {
                let next = index.get(stream.next_place).map_or(end, CopyNo);
                (CopyNo(stream.previous), next)
            }
            None => (CopyNo::NONE, end),
        };
        DropCopyState {
            oldest_copy_no: oldest,
            previous_copy_no: previous,
            next_copy_no: next,
            high_water: newest,
            session_id: key.session_id,
            firm_id: key.firm_id,
            epoch: self.ports[key.port].lineage.current(),
            partition_id,
            wanted: if open.is_some() { Switch::On } else { Switch::Off },
            reason,
        }
    }

    fn end_stream(&mut self, key: StreamKey) {
        self.copies.remove(key);
        if let Some(session) = self.sessions.get_mut(key.session_id) {
            session.copy_streams.retain(|open| *open != key);
        }
    }

    /// Ends all streams of a session that has left its connection.
    pub(super) fn end_streams(&mut self, session_id: SessionId) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        for key in std::mem::take(&mut session.copy_streams) {
            self.copies.remove(key);
        }
    }

    /// Sends an event just added to the streams of its topic and of the topic of all.
    pub(super) fn copy_event(&mut self, topic: usize, port: usize, event: Copied<'_>, now: Nanos) {
        let owner_firm_id = self.copies.firm_of(topic);
        let limit = self.config.output_len_max;
        let topics = [ALL, topic];
        for &topic in if topic == ALL { &topics[..1] } else { &topics[..] } {
            self.copies.tell_listeners(topic, port, now, |stream| {
                let connection = self.connections.get_mut(stream.connection);
                let Some(connection) = connection.filter(|to| to.has_room(limit)) else {
                    return plant::is(Plant::CopySkippedWhenFull);
                };
                event.put(stream, owner_firm_id, connection);
                self.counters.copies += 1;
                self.flush_list.add(connection);
                true
            });
        }
    }

    /// Sends missed records to streams that are behind; returns the number of copies.
    pub(super) fn catch_up_copies(&mut self, now: Nanos) -> usize {
        let (mut sent, mut steps_left) = (0, STEPS_MAX);
        for _ in 0..self.copies.behind_count() {
            if steps_left == 0 {
                break;
            }
            let Some(key) = self.copies.next_behind() else { break };
            let taken = self.catch_up_stream(key, &mut steps_left, now);
            sent += taken;
        }
        self.counters.copies += sent as u64;
        sent
    }

    fn catch_up_stream(&mut self, key: StreamKey, steps_left: &mut u64, now: Nanos) -> usize {
        let mut sent = 0;
        loop {
            let Some((index, stream)) = self.copies.stream(key) else { return sent };
            if stream.next_place == index.next_place() {
                stream.is_behind = false;
                stream.past = None;
                return sent;
            }
            let previous = stream.previous;
            let Some(connection) = self.connections.get_mut(stream.connection) else { return sent };
            if *steps_left == 0 || !connection.has_room(self.config.output_len_max) {
                self.copies.still_behind(key);
                return sent;
            }
            let events = &self.ports[key.port].events;
            let past = stream.past.get_or_insert_with(|| Box::new(events.past()));
            let Some(record_no) = index.get(stream.next_place) else {
                self.cut_stream(key, now);
                return sent;
            };
            let mut record = std::mem::take(&mut self.old_record);
            let is_found = past.read_in_memory(record_no, &mut record) == PastRead::Found;
            if is_found {
                self.put_old_copy(key, OldRecord { record_no, bytes: &record }, now);
            }
            self.old_record = record;
            if !is_found {
                if !self.ask_for_copies(key) {
                    self.copies.still_behind(key);
                }
                return sent;
            }
            let steps = if sent == 0 { SEEK_STEPS } else { record_no - previous };
            *steps_left = steps_left.saturating_sub(steps);
            sent += 1;
        }
    }

    /// Ends a stream that was behind for longer than records are retained.
    pub(super) fn cut_stream(&mut self, key: StreamKey, now: Nanos) {
        self.end_stream(key);
        let state = self.state_of(key, Reason::SlowConsumer);
        let Some(session) = self.sessions.get_mut(key.session_id) else { return };
        let Some(connection) = session.connection.and_then(|id| self.connections.get_mut(id))
        else {
            return;
        };
        connection.put(&Answer::CopyState(&state));
        self.flush_list.add(connection);
        self.lines.cut_copies(&mut self.counters, key, now);
    }

    /// Sends the high-water marks of a session's streams that had no message for `interval`.
    pub(super) fn put_copy_marks(
        &mut self,
        connection: &mut Connection,
        session_id: SessionId,
        interval: u64,
        now: Nanos,
    ) {
        let wall = self.reception.directory.wall_at(now);
        let Some(session) = self.sessions.get(session_id) else { return };
        for key in &session.copy_streams {
            let Some((index, stream)) = self.copies.stream(*key) else { continue };
            if now.since(stream.told_at).0 < interval {
                continue;
            }
            stream.told_at = now;
            let mark = CopyMark {
                sending_time: wall,
                high_water: CopyNo(index.newest()),
                session_id,
                firm_id: key.firm_id,
                partition_id: stream.partition_id,
            };
            connection.put(&Answer::CopyMark(&mark));
            self.flush_list.add(connection);
        }
    }
}

/// Returns the state for a request whose stream cannot be determined: it names no records.
fn unknown_stream(request: &DropCopyRequest) -> DropCopyState {
    DropCopyState {
        oldest_copy_no: CopyNo::NONE,
        previous_copy_no: CopyNo::NONE,
        next_copy_no: CopyNo::NONE,
        high_water: CopyNo::NONE,
        session_id: request.session_id,
        firm_id: request.firm_id,
        epoch: Epoch::NONE,
        partition_id: request.partition_id,
        wanted: Switch::Off,
        reason: Reason::None,
    }
}
