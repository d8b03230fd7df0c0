//! Old records from the history's thread, for readers whose next record is no longer in memory: the
//! gateway's own reader of a partition's events, sessions that catch up, and streams of copies.
//!
//! No cycle of the gateway waits for a disk. A reader asks for a page of records and is passed over
//! until the page comes, so that no order waits for another session's past.
//!
//! INVARIANT: a reader has at most one request under way, and takes the page of that one alone.

use std::collections::BTreeMap;

use weir_partition::history::{
    HistoryEnd, HistoryPage, HistoryRequest, Lacking, PAGE_RECORDS_MAX, history_ends, link,
};
use weir_partition::past_records::PastRecords;
use weir_runtime::{Agent, Wake};
use weir_types::{FirmId, Nanos, Reason, SessionId};
use weir_wire::report::StageTimes;

use super::Gateway;
use super::copies::StreamKey;
use super::drop_copy::Copied;
use super::plant::{self, Plant};
use super::protocol::EventRecord;
use super::sessions::Behind;

/// A reader of old records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldReader {
    /// The gateway's reader of the partition's events.
    Events,
    /// A session that is behind in the partition.
    Session(SessionId),
    /// A stream of copies that is behind.
    Copies(StreamKey),
}

/// A request for old records, to a history of other processes.
#[derive(Clone, Debug)]
pub struct OldRecordsAsk {
    /// The index of the port.
    pub port: usize,
    /// The number of the request.
    pub number: u64,
    /// The records.
    pub lacking: Lacking,
}

/// The end of the links' agent towards the gateway's readers of old records.
pub struct OldRecordsEnd {
    end: HistoryEnd<OldReader>,
    /// The requests without an answer, by number.
    open: BTreeMap<u64, (usize, OldReader)>,
}

impl OldRecordsEnd {
    /// Returns the next request, if there is room for its answer.
    pub fn next_ask(&mut self) -> Option<OldRecordsAsk> {
        let HistoryRequest { reader, port, number, lacking, .. } = self.end.next_request()?;
        self.open.insert(number, (port, reader));
        Some(OldRecordsAsk { port, number, lacking })
    }

    /// Answers a request, with the number of epochs that had ended when its records were read. An
    /// answer that finds no room is lost, and asked for again by the next logon.
    pub fn answer(&mut self, number: u64, records: PastRecords, epoch_changes: u64) {
        let Some((port, reader)) = self.open.remove(&number) else { return };
        let page = HistoryPage { reader, port, number, records, epoch_changes };
        if self.end.answer(page).is_err() {
            tracing::warn!(number, "the ring of old records is full");
        }
    }

    /// Forgets the requests of a port whose events begin anew.
    pub fn forget(&mut self, port: usize) {
        self.open.retain(|_, (of, _)| *of != port);
    }
}

/// A record of a partition's event log.
#[derive(Clone, Copy)]
pub(super) struct OldRecord<'a> {
    /// Its number.
    pub record_no: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl Gateway {
    /// Leaves the files to a thread of their own: stores the gateway's ends of the rings to it, and
    /// returns its agent. Must be called after the past events are processed.
    pub fn leave_files(&mut self, history: Wake, gateway: Wake) -> impl Agent + use<> {
        let (port, agent) = link(self.ports.iter().map(|port| &port.events), history, gateway);
        self.ports.iter_mut().for_each(|port| port.events.leave_files());
        self.history = Some(port);
        agent
    }

    /// Leaves old records to the agent of the links, and returns its end of the rings.
    pub fn leave_files_to_links(&mut self, links: Wake, gateway: Wake) -> OldRecordsEnd {
        let (port, end) = history_ends(links, gateway);
        self.history = Some(port);
        OldRecordsEnd { end, open: BTreeMap::new() }
    }

    /// Sends a request and returns its number; `None` when there is no room for it now, or nobody
    /// to answer it.
    fn ask(&mut self, reader: OldReader, port: usize, lacking: Lacking) -> Option<u64> {
        let number = self.counters.history_requests + 1;
        let is_urgent = matches!(reader, OldReader::Events);
        let request = HistoryRequest { reader, port, number, is_urgent, lacking };
        let is_sent = self.history.as_mut().is_some_and(|history| history.ask(request));
        self.counters.history_requests += u64::from(is_sent);
        is_sent.then_some(number)
    }

    /// Asks for the events that a partition's reader lacks.
    pub(super) fn ask_for_events(&mut self, port: usize) {
        if !self.ports[port].asks_history {
            let lacking = Lacking::From(self.ports[port].events.next_record());
            self.ports[port].asks_history = self.ask(OldReader::Events, port, lacking).is_some();
        }
    }

    /// Asks for the events that a session lacks in a partition; false when it has to try again.
    pub(super) fn ask_for_session(&mut self, behind: Behind) -> bool {
        let Behind { session_id, port } = behind;
        let Some(session) = self.sessions.get_mut(session_id) else { return true };
        let stream = &mut session.streams[port];
        if stream.history_request.is_some() {
            return true;
        }
        let lacking = Lacking::These(stream.next_records(PAGE_RECORDS_MAX));
        let number = self.ask(OldReader::Session(session_id), port, lacking);
        if let Some(session) = self.sessions.get_mut(session_id) {
            session.streams[port].history_request = number;
        }
        number.is_some()
    }

    /// Asks for the records that a stream of copies lacks; false when it has to try again.
    pub(super) fn ask_for_copies(&mut self, key: StreamKey) -> bool {
        if self.copies.request_of(key).is_some() {
            return true;
        }
        let Some((index, stream)) = self.copies.stream(key) else { return true };
        let places = stream.next_place..stream.next_place + PAGE_RECORDS_MAX as u64;
        let records = places.map_while(|place| index.get(place)).collect();
        let number = self.ask(OldReader::Copies(key), key.port, Lacking::These(records));
        self.copies.set_request(key, number);
        number.is_some()
    }

    /// Takes pages of old records; returns the number of records. The page that reaches
    /// the length of a full one is the last.
    pub(super) fn take_history(&mut self, now: Nanos) -> usize {
        let mut count = 0;
        while count < PAGE_RECORDS_MAX {
            let page = self.history.as_mut().and_then(|history| history.next_page());
            let Some(page) = page else { break };
            count += self.take_page(page, now).max(1);
        }
        count
    }

    fn take_page(&mut self, page: HistoryPage<OldReader>, now: Nanos) -> usize {
        let port = page.port;
        let is_void = page.epoch_changes != self.ports[port].events.epoch_changes();
        match page.reader {
            OldReader::Events => {
                self.ports[port].asks_history = false;
                assert!(
                    is_void || !page.records.is_empty(),
                    "events were deleted before the gateway had read them: restart the node"
                );
                if !is_void {
                    self.ports[port].events.supply(page.records);
                }
                0
            }
            OldReader::Session(session_id) => {
                let behind = Behind { session_id, port };
                let Some(session) = self.sessions.get_mut(session_id) else { return 0 };
                let request = &mut session.streams[port].history_request;
                if *request != Some(page.number) {
                    // Another logon since the request resumed elsewhere.
                    return 0;
                }
                if !plant::is(Plant::HistoryAnswerForgotten) {
                    *request = None;
                }
                let sent = if is_void { 0 } else { self.take_session_page(behind, &page, now) };
                self.list_if_behind(behind);
                sent
            }
            OldReader::Copies(key) => {
                if self.copies.request_of(key) != Some(page.number) {
                    // The stream began anew since.
                    return 0;
                }
                self.copies.set_request(key, None);
                let sent = if is_void { 0 } else { self.take_copies_page(key, &page, now) };
                if self.copies.stream(key).is_some_and(|(_, stream)| stream.is_behind) {
                    self.copies.still_behind(key);
                }
                sent
            }
        }
    }

    /// Sends a page of events to a session, if it still lacks them; returns their number.
    fn take_session_page(
        &mut self,
        behind: Behind,
        page: &HistoryPage<OldReader>,
        now: Nanos,
    ) -> usize {
        let Some(session) = self.sessions.get_mut(behind.session_id) else { return 0 };
        let Some(id) = session.connection else { return 0 };
        let Some(connection) = self.connections.get_mut(id) else { return 0 };
        let stream = &mut session.streams[behind.port];
        if page.records.is_empty() && stream.next_record().is_some() {
            // Deleted: the session has to log on again and then learns from where it can resume.
            session.ending = Some(Reason::SlowConsumer);
            self.lost_sessions.push(behind.session_id);
            return 0;
        }
        let mut sent = 0;
        for (record_no, record) in page.records.iter() {
            let is_next = stream.next_record() == Some(Some(record_no));
            if !is_next || !connection.has_room(self.config.output_len_max) {
                break;
            }
            connection.put_report(&EventRecord::new(record), StageTimes::default());
            stream.sent_one();
            sent += 1;
        }
        if sent > 0 {
            session.said_at = now;
            self.counters.reports += sent as u64;
            self.flush_list.add(connection);
        }
        sent
    }

    fn list_if_behind(&mut self, behind: Behind) {
        let Some(session) = self.sessions.get_mut(behind.session_id) else { return };
        let stream = &mut session.streams[behind.port];
        if session.connection.is_some() && stream.next_record().is_some() {
            self.behind.add(behind, stream);
        }
    }

    /// Sends a page of copies to a stream, if it still lacks them; returns their number.
    fn take_copies_page(
        &mut self,
        key: StreamKey,
        page: &HistoryPage<OldReader>,
        now: Nanos,
    ) -> usize {
        if page.records.is_empty() {
            if self.copies.stream(key).is_some() {
                self.cut_stream(key, now);
            }
            return 0;
        }
        let mut sent = 0;
        for (record_no, record) in page.records.iter() {
            let Some((index, stream)) = self.copies.stream(key) else { break };
            let is_next = stream.is_behind && index.get(stream.next_place) == Some(record_no);
            let Some(connection) = self.connections.get_mut(stream.connection) else { break };
            if !is_next || !connection.has_room(self.config.output_len_max) {
                break;
            }
            self.put_old_copy(key, OldRecord { record_no, bytes: record }, now);
            sent += 1;
        }
        self.counters.copies += sent as u64;
        sent
    }

    /// Sends an old record as the next copy of a stream.
    pub(super) fn put_old_copy(&mut self, key: StreamKey, record: OldRecord<'_>, now: Nanos) {
        let OldRecord { record_no, bytes } = record;
        let event = EventRecord::new(bytes);
        let address = event.address().expect("only addressed events are copied");
        let owner = self.sessions.get(address.session_id).and_then(|owner| owner.topic);
        let owner_firm_id = owner.map_or(FirmId::NONE, |topic| self.copies.firm_of(topic));
        let Some((_, stream)) = self.copies.stream(key) else { return };
        let Some(connection) = self.connections.get_mut(stream.connection) else { return };
        Copied { record_no, event: &event, address: &address }.put(
            stream,
            owner_firm_id,
            connection,
        );
        stream.sent(record_no, now);
        self.flush_list.add(connection);
    }
}
