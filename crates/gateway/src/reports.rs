//! From the event log to the sessions: each event addressed to a session becomes its report.
//!
//! A logged-on session whose connection has room gets the event at once. A session that resumes, or
//! reads too slowly, falls behind; it is caught up from the log, a limited number of events per
//! cycle, and meanwhile does not delay the others.

use weir_partition::checkpoint::Checkpoint;
use weir_partition::event_index::{EventIndex, beginning};
use weir_partition::event_reader::{PastRead, ReadEvent};
use weir_partition::handoff::{Feedback, StageStamps};
use weir_partition::placeholder::is_placeholder;
use weir_partition::stream::Noted;
use weir_probe::Point;
use weir_types::{Nanos, Reason};
use weir_wire::report::StageTimes;

use super::connection::Connection;
use super::drop_copy::Copied;
use super::plant::{self, Plant};
use super::protocol::{Address, EventRecord, Refusal};
use super::sessions::{Behind, RequestAnswer, is_answer};
use super::{Gateway, Port};

/// The number of events taken from one partition in one cycle.
const EVENTS_MAX: usize = 1024;
/// The work on old events of one session in one cycle: an event that follows the one before in
/// memory is 1, one that has to be found is [`SEEK_WORK`]. A session whose million orders are
/// cancelled at once needs so many, or it falls behind the retained events.
const CATCH_UP_MAX: usize = 256;
/// The work on old events after which no other session is caught up in the same cycle.
pub(super) const CATCH_UP_ALL_MAX: usize = 256;
/// The work of finding an event in memory.
const SEEK_WORK: usize = 16;
/// The number of records between two events up to which the second one follows the first.
const NEAR: u64 = 8;

impl Gateway {
    /// Records the first retained event of a partition when the oldest are deleted.
    pub(super) fn note_beginning(&mut self, port: usize) {
        let Port { events, lineage, begins_with_checkpoint, .. } = &mut self.ports[port];
        if !*begins_with_checkpoint && let Some(position) = beginning(events) {
            lineage.begins_at(position);
        }
    }

    /// Begins a partition with the index of its events up to a record, instead of those events.
    /// Must be called before the past events are processed.
    pub fn begin_with(&mut self, port: usize, checkpoint: Checkpoint) {
        let EventIndex { next, lineage, trail, sessions, topics, .. } = checkpoint.index;
        for (firm_id, index) in topics {
            let topic = self.copies.topic_of(firm_id);
            self.copies.begin_with(topic, port, index);
        }
        for (id, session) in sessions {
            self.know_firm(id, session.firm_id);
            self.sessions.entry(id).streams[port] = session.stream;
        }
        let own = &mut self.ports[port];
        own.events.skip_to(next, lineage.current());
        (own.lineage, own.trail, own.begins_with_checkpoint) = (lineage, trail, true);
    }

    /// Returns true if the control log's next event is one that the importer has not followed. The
    /// ends of epochs from before the start are told without one.
    fn awaits_importer(&self) -> bool {
        let events = &self.ports[0].events;
        events.has_told_ends()
            && events.next_record() > self.imports.followed()
            && !plant::is(Plant::ControlReadAhead)
    }

    /// Takes the partitions' events and refusals; returns their number. The control log comes
    /// first: a session that its definitions end gets none of the events taken behind them. Its
    /// events are taken as far as the importer has followed them: an operator that is told of a
    /// definition may name it in an order.
    pub(super) fn pump_events(&mut self, now: Nanos) -> usize {
        let mut done = 0;
        for port in 0..self.ports.len() {
            for _ in 0..EVENTS_MAX {
                if port == 0 && self.newcomers.as_ref().is_some_and(|to| !to.has_room()) {
                    break;
                }
                if port == 0 && self.awaits_importer() {
                    break;
                }
                let mut record = std::mem::take(&mut self.record);
                let read = self.ports[port].events.next(&mut record);
                if self.is_linked && self.take_link_answers(port, now).begins_anew {
                    // The record was of the events before.
                    self.record = record;
                    continue;
                }
                match &read {
                    ReadEvent::Record(record_no) => {
                        self.on_event(port, *record_no, &record, now);
                        if self.is_linked {
                            self.ports[port].has_read(record.len());
                        }
                        done += 1;
                    }
                    ReadEvent::EpochEnded(change) => {
                        self.ports[port].lineage.pass(change);
                        self.tell_epoch(port, now);
                        done += 1;
                    }
                    ReadEvent::UpToDate => {}
                    ReadEvent::Missing => self.ask_for_events(port),
                }
                self.record = record;
                if matches!(read, ReadEvent::UpToDate | ReadEvent::Missing) {
                    break;
                }
            }
            done += self.take_refusals(port);
            if port == 0 {
                self.end_lost_sessions(now);
            }
        }
        done
    }

    fn on_event(&mut self, port: usize, record_no: u64, record: &[u8], now: Nanos) {
        let event = EventRecord::new(record);
        let Port { lineage, trail, .. } = &mut self.ports[port];
        // Also a record that is not copied: a reader's place counts all records.
        trail.note(record_no, lineage);
        let Some(address) = event.address() else {
            self.on_unaddressed(port, &event, now);
            return;
        };
        self.reserved.settle(port, address.session_id, address.request_no);
        if address.reason != 0 {
            self.counters.engine_refusals.add_code(address.reason);
        }
        let stamps = self.stamps_of(port, address.position);
        if address.event_no.is_none() {
            self.on_unnumbered(port, &event, &address);
            return;
        }
        let limit = self.config.output_len_max;
        let session = self.sessions.entry(address.session_id);
        let answers = is_answer(address.request_no, address.reason);
        if answers && session.answered(port, answer_of(&address, &event)) {
            self.counters.throttled += u64::from(address.reason == Reason::Throttled.code());
        }
        let stream = &mut session.streams[port];
        if stream.has_listed(record_no) || stream.is_unbound() {
            return;
        }
        stream.note(Noted::of(&address, record_no), &self.ports[port].lineage);
        let topic = topic_of(session.topic, self.is_linked);
        let connection = session.connection.filter(|_| !stream.is_away);
        let connection = connection.and_then(|id| self.connections.get_mut(id));
        if let Some(connection) = connection {
            if stream.is_next_to_send(address.event_no) && connection.has_room(limit) {
                stream.sent_one();
                session.said_at = now;
                let asker = (address.session_id, address.request_no);
                let times = stamps.filter(|stamps| stamps.asker == asker);
                let stage_times =
                    times.map_or_else(StageTimes::default, |s| self.clock.stage_times(&s));
                connection.put_report(&event, stage_times);
                if let Some(stamps) = times
                    && self.ports[port].answered != address.position
                {
                    self.ports[port].answered = address.position;
                    self.recorder.record(stamps.trace, Point::T7);
                    connection.note_answer(stamps.trace);
                }
                self.counters.reports += 1;
                self.flush_list.add(connection);
            } else if plant::is(Plant::ReportSkippedWhenFull)
                && stream.is_next_to_send(address.event_no)
            {
                stream.sent_one();
            } else {
                self.behind.add(Behind { session_id: address.session_id, port }, stream);
            }
        }
        if let Some(topic) = topic
            && self.copies.note(topic, port, record_no)
        {
            self.copy_event(
                topic,
                port,
                Copied { record_no, event: &event, address: &address },
                now,
            );
        }
    }

    /// Takes a partition's refusal of a session that it does not know yet: it is sent once and not
    /// kept.
    fn on_unnumbered(&mut self, port: usize, event: &EventRecord<'_>, address: &Address) {
        let Some(session) = self.sessions.get_mut(address.session_id) else { return };
        let via = session.settled(port, address.request_no);
        let to = session.refused_on(via).and_then(|id| self.connections.get_mut(id));
        if let Some(connection) = to {
            connection.put_report(event, StageTimes::default());
            self.flush_list.add(connection);
        }
    }

    /// Returns the stage times of the command at `position` if it came through this gateway.
    fn stamps_of(&mut self, port: usize, position: u64) -> Option<StageStamps> {
        loop {
            let newest = &mut self.ports[port].stamps;
            match newest {
                Some(stamps) if stamps.position.0 == position => return Some(*stamps),
                Some(stamps) if stamps.position.0 > position => return None,
                _ => {}
            }
            match self.ports[port].ring.feedback.pop() {
                Ok(Feedback::Stamps(stamps)) => self.ports[port].stamps = Some(stamps),
                Ok(refused) => self.on_refused(port, refused),
                Err(_) => return None,
            }
        }
    }

    /// Answers requests that the log did not take. Refusals lie between stamps, and stamps must
    /// stay for their events, so only refusals at the head are taken.
    fn take_refusals(&mut self, port: usize) -> usize {
        let mut done = 0;
        while let Ok(Feedback::Refused { .. }) = self.ports[port].ring.feedback.peek() {
            let Ok(refused) = self.ports[port].ring.feedback.pop() else { break };
            self.on_refused(port, refused);
            done += 1;
        }
        done
    }

    fn on_refused(&mut self, port: usize, refused: Feedback) {
        let Feedback::Refused { session_id, request_no, template_id, reason } = refused else {
            return;
        };
        self.reserved.refused(port, session_id, request_no);
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        let via = session.settled(port, request_no);
        let to = session.refused_on(via);
        let Some(mut connection) = to.and_then(|id| self.connections.take(id)) else { return };
        let refusal = Refusal { session_id, request_no, template_id, field: "" };
        self.put_reject(&mut connection, refusal, reason);
        self.connections.put_back(connection.id, connection);
    }

    /// Sends missed events to sessions that are behind; returns the work done.
    pub(super) fn catch_up(&mut self, now: Nanos) -> usize {
        let mut work = 0;
        for _ in 0..self.behind.len() {
            if work >= CATCH_UP_ALL_MAX {
                break;
            }
            let Some(behind) = self.behind.pop_front() else { break };
            if let Some(session) = self.sessions.get_mut(behind.session_id) {
                session.streams[behind.port].is_listed = false;
            }
            work += self.catch_up_one(behind, now);
        }
        work
    }

    /// Sends missed events that are in memory to a session, and asks for others; returns the work.
    fn catch_up_one(&mut self, behind: Behind, now: Nanos) -> usize {
        let Some(session) = self.sessions.get_mut(behind.session_id) else { return 0 };
        let Some(id) = session.connection else { return 0 };
        let Some(connection) = self.connections.get_mut(id) else { return 0 };
        let (mut sent, mut work, mut last) = (0, 0, 0);
        let mut lacks_records = false;
        let stream = &mut session.streams[behind.port];
        if stream.is_away {
            return 0;
        }
        while let Some(record_no) = stream.next_record() {
            if !connection.has_room(self.config.output_len_max) {
                // Listed again only when its connection has room.
                connection.catches_up_later = true;
                break;
            }
            if work >= CATCH_UP_MAX {
                self.behind.add(behind, stream);
                break;
            }
            let Some(record_no) = record_no else {
                // Behind for longer than events are retained: the session has to log on again and
                // then learns from where it can resume.
                session.ending = Some(Reason::SlowConsumer);
                self.lost_sessions.push(behind.session_id);
                break;
            };
            let events = &mut self.ports[behind.port].events;
            work += if record_no - last <= NEAR { 1 } else { SEEK_WORK };
            last = record_no;
            let is_found =
                events.read_in_memory(record_no, &mut self.old_record) == PastRead::Found;
            if !is_found || is_placeholder(&self.old_record) {
                lacks_records = true;
                break;
            }
            let record = EventRecord::new(&self.old_record);
            connection.put_report(&record, StageTimes::default());
            stream.sent_one();
            sent += 1;
        }
        if sent > 0 {
            session.said_at = now;
            self.counters.reports += sent;
            self.flush_list.add(connection);
        }
        if lacks_records && !self.ask_for_session(behind) {
            self.try_again(behind);
        }
        work
    }

    /// Lists a stream whose request found no room.
    fn try_again(&mut self, behind: Behind) {
        if let Some(session) = self.sessions.get_mut(behind.session_id) {
            self.behind.add(behind, &mut session.streams[behind.port]);
        }
    }

    /// Continues catching up the sessions of a connection that has room again.
    pub(super) fn resume_catching_up(&mut self, connection: &mut Connection) {
        if !connection.catches_up_later || !connection.has_room(self.config.output_len_max / 2) {
            return;
        }
        connection.catches_up_later = false;
        if plant::is(Plant::CatchUpForgotten) {
            return;
        }
        for id in &connection.sessions {
            let Some(session) = self.sessions.get_mut(*id) else { continue };
            for (port, stream) in session.streams.iter_mut().enumerate() {
                if stream.next_record().is_some() {
                    self.behind.add(Behind { session_id: *id, port }, stream);
                }
            }
        }
    }

    /// Records the egress point of the answers that a connection's transport has taken.
    pub(super) fn stamp_egress(connection: &mut Connection, recorder: &mut weir_probe::Recorder) {
        let Some(first) = connection.answered.next_taken() else { return };
        let egress = recorder.now();
        recorder.record_at(first, Point::Egress, egress);
        while let Some(trace) = connection.answered.next_taken() {
            recorder.record_at(trace, Point::Egress, egress);
        }
    }
}

/// Returns the topic of a session's copies; none where links serve no copies, and where a partition
/// may tell anything.
fn topic_of(topic: Option<usize>, is_linked: bool) -> Option<usize> {
    (!is_linked).then(|| topic.expect("a partition defines a session before it numbers its events"))
}

/// Returns an event as the answer to the request that it names.
fn answer_of(address: &Address, event: &EventRecord<'_>) -> RequestAnswer {
    let Address { position, request_no, .. } = *address;
    RequestAnswer { position, request_no, is_of_order: event.is_order_event() }
}
