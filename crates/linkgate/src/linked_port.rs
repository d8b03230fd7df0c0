//! A partition's events and answers at a gateway process: the tail that the gateway's reader reads,
//! and the rings to it.
//!
//! Records that do not concern the gateway are placeholders in the tail, so that its numbers are
//! those of the partition. The tail is longer than the records that may be unread: the link's agent
//! takes no batch while the gateway has too much to read.
//!
//! INVARIANT: an answer is in its ring before the records behind it are published.

use std::collections::{BTreeMap, VecDeque};

use weir_gateway::linked::{BindAsk, LinkAgentPort, LinkAnswer, LinkAsk, ListedBinding};
use weir_link::gateway_end::{Defined, SessionPoint};
use weir_link::message::{
    CommandRefused, EpochEnded, OldRecords, SessionBound, SessionUnbound, StageSpans,
};
use weir_link::partition_end::RequestName;
use weir_link::{GatewayView, ToGateway};
use weir_log::TailWriter;
use weir_log::tail::{TailConfig, TailHandle, tail_in};
use weir_partition::event_reader::EventReader;
use weir_partition::event_record::EventRecord;
use weir_partition::handoff::{Feedback, SourcePort};
use weir_partition::holds::Holds;
use weir_partition::past_records::PastRecords;
use weir_partition::placeholder::placeholder;
use weir_types::{Epoch, Epochs, PartitionId, Position, Reason, SessionId, Switch};
use weir_wire::frame::parse_message;

/// The bytes of a tail that are retained at all times.
const TAIL_BYTES: usize = 16 << 20;
/// The bytes of a tail that may be unread before a batch is taken. A batch skips at most 65,536
/// records, and a placeholder has 24 bytes with its header.
const UNREAD_MAX: usize = 8 << 20;

/// A batch of events that the gateway has not read to its end.
#[derive(Clone, Copy, Debug)]
struct UnreadBatch {
    /// The record behind it.
    end: u64,
    frame_len: u64,
    tail_len: usize,
}

/// The answer to a request for old records.
pub struct OldPage {
    /// Its head.
    pub head: OldRecords,
    /// The records.
    pub records: PastRecords,
}

/// The resume point by which a session is bound.
#[derive(Clone, Copy, Debug)]
struct NotedPoint {
    point: SessionPoint,
    /// The number of the gateway's question.
    number: u64,
    /// True once the partition has bound it by this point.
    is_bound: bool,
}

/// A port of the gateway, as the agent of its link has it.
pub struct LinkedPort {
    partition_id: PartitionId,
    /// The partition's end of the ring of requests.
    pub source: SourcePort,
    link: LinkAgentPort,
    /// Answers that found no room.
    waiting: VecDeque<LinkAnswer>,
    /// Refusals that found no room.
    refusals: VecDeque<Feedback>,
    writer: TailWriter,
    handle: TailHandle,
    holds: Holds,
    has_begun: bool,
    /// True once the link has begun anew, until its agent has seen that.
    begins_anew: bool,
    newest: Position,
    is_published: bool,
    has_news: bool,
    unread: VecDeque<UnreadBatch>,
    unread_len: usize,
    tail_len: usize,
    /// The resume points by which sessions are bound.
    points: BTreeMap<SessionId, NotedPoint>,
    /// An answer whose list of records is not complete.
    listed: Option<(SessionBound, Vec<u64>)>,
    /// Answers to requests for old records.
    pub pages: VecDeque<OldPage>,
}

impl LinkedPort {
    /// Returns the port of a partition of which nothing is known.
    #[must_use]
    pub fn new(partition_id: PartitionId, source: SourcePort, link: LinkAgentPort) -> LinkedPort {
        let (writer, handle) = tail_in(TailConfig::new(TAIL_BYTES, 1), Epochs::new(Epoch(1)));
        LinkedPort {
            partition_id,
            source,
            link,
            waiting: VecDeque::new(),
            refusals: VecDeque::new(),
            writer,
            handle,
            holds: Holds::default(),
            has_begun: false,
            begins_anew: false,
            newest: Position::NONE,
            is_published: true,
            has_news: false,
            unread: VecDeque::new(),
            unread_len: 0,
            tail_len: 0,
            points: BTreeMap::new(),
            listed: None,
            pages: VecDeque::new(),
        }
    }

    /// Returns a reader of its events from the first one on, for the gateway to begin with.
    #[must_use]
    pub fn reader(&self) -> EventReader {
        let first = self.writer.next_record();
        EventReader::in_memory(&self.handle, first).holding(&self.holds, "gateway")
    }

    /// Returns the number of epochs that ended while the tail was written.
    #[must_use]
    pub fn epoch_changes(&self) -> u64 {
        self.handle.epoch_changes()
    }

    /// Returns the next question, and leaves it in its ring.
    #[must_use]
    pub fn next_ask(&self) -> Option<LinkAsk> {
        self.link.asks.peek().ok().copied()
    }

    /// Takes the next question out of its ring.
    pub fn ask_taken(&mut self) {
        let _ = self.link.asks.pop();
    }

    /// Notes the gateway's question by which a session is bound.
    pub fn note_ask(&mut self, ask: &BindAsk) {
        let BindAsk { wanted, point, number } = *ask;
        self.points.insert(wanted.session_id, NotedPoint { point, number, is_bound: false });
    }

    /// Hands an answer to the gateway, behind those that wait.
    pub fn tell(&mut self, answer: LinkAnswer) {
        self.waiting.push_back(answer);
        self.hand_over();
    }

    /// Tells the gateway the whole answer to a check or a binding.
    fn tell_bound(&mut self, bound: SessionBound, records: Vec<u64>, goes_on: bool) {
        let mut number = 0;
        if bound.is_check == Switch::Off {
            number = self.points.get(&bound.bound_session_id).map_or(0, |noted| noted.number);
        }
        if bound.is_check == Switch::Off && bound.reason == Reason::None {
            let noted = self.points.get_mut(&bound.bound_session_id);
            let was_bound = noted.is_some_and(|noted| std::mem::replace(&mut noted.is_bound, true));
            if was_bound && !goes_on {
                // Its point is that of its logon, and its client has had later events since, maybe
                // of a history that is lost: it is to log on again.
                let ended = LinkAnswer::Ended(bound.bound_session_id, Reason::PartitionAway);
                return self.tell(ended);
            }
        }
        self.tell(LinkAnswer::Bound(ListedBinding::new(bound, records, number)));
    }

    fn hand_over(&mut self) {
        while !self.link.answers.is_full()
            && let Some(answer) = self.waiting.pop_front()
        {
            assert!(self.link.answers.push(answer).is_ok(), "a ring with room takes one more");
            self.has_news = true;
        }
        let feedback = self.source.feedback.as_mut().expect("a gateway's port has one");
        while !feedback.is_full()
            && let Some(refused) = self.refusals.pop_front()
        {
            assert!(feedback.push(refused).is_ok(), "a ring with room takes one more");
            self.has_news = true;
        }
    }

    /// Tells the gateway that a request was not taken.
    pub fn refuse(&mut self, name: RequestName, reason: Reason) {
        let RequestName { session_id, request_no, template_id } = name;
        let refused = Feedback::Refused { session_id, request_no, template_id, reason };
        self.refusals.push_back(refused);
        self.hand_over();
    }

    /// Returns true if the link has begun anew since the last call.
    pub fn has_begun_anew(&mut self) -> bool {
        std::mem::take(&mut self.begins_anew)
    }

    /// Returns true while the gateway has read enough for another batch.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.unread_len < UNREAD_MAX && !self.has_waiting()
    }

    /// Notes a batch that was taken: `end` is the record behind it.
    pub fn batch_taken(&mut self, end: u64, frame_len: u64) {
        let tail_len = std::mem::take(&mut self.tail_len);
        self.unread_len += tail_len;
        self.unread.push_back(UnreadBatch { end, frame_len, tail_len });
    }

    /// Returns the bytes of batches that the gateway has read since the last call.
    pub fn take_read(&mut self) -> u64 {
        let place = self.holds.least().map_or(u64::MAX, |hold| hold.from);
        let mut bytes = 0;
        while let Some(batch) = self.unread.front().copied()
            && batch.end <= place
        {
            self.unread.pop_front();
            self.unread_len -= batch.tail_len;
            bytes += batch.frame_len;
        }
        bytes
    }

    /// Publishes the records, once all answers before them are handed over, and wakes the gateway.
    pub fn publish(&mut self) {
        self.hand_over();
        if !self.has_waiting() && !self.is_published {
            self.writer.publish();
            self.is_published = true;
            self.has_news = true;
        }
        if std::mem::take(&mut self.has_news) {
            self.link.gateway.wake();
        }
    }

    /// Returns true if answers or refusals wait for room in their rings.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.refusals.is_empty()
    }

    fn append(&mut self, record: &[u8]) {
        self.writer.append(record);
        self.tail_len += 8 + record.len().next_multiple_of(8);
        self.is_published = false;
    }

    fn is_control(&self) -> bool {
        self.partition_id.is_none()
    }
}

impl GatewayView for LinkedPort {
    fn begin_anew(&mut self, next_record: u64, epoch: Epoch) {
        // The directory of sessions and instruments has no way back.
        assert!(
            !(self.has_begun && self.is_control()),
            "the control log has another history than the one that this gateway has read: start \
             the gateway again"
        );
        let config = TailConfig::new(TAIL_BYTES, next_record);
        (self.writer, self.handle) = tail_in(config, Epochs::new(epoch));
        self.holds = Holds::default();
        (self.has_begun, self.begins_anew, self.is_published) = (true, true, true);
        self.unread.clear();
        (self.unread_len, self.tail_len, self.listed) = (0, 0, None);
        self.pages.clear();
        let reader = Box::new(self.reader());
        self.tell(LinkAnswer::BeginsAnew(reader));
    }

    fn resume_point(&mut self, session_id: SessionId) -> SessionPoint {
        self.points.get(&session_id).map_or(SessionPoint::NONE, |noted| noted.point)
    }

    fn defined(&mut self, defined: &Defined<'_>) {
        match defined {
            Defined::Instrument(definition) => {
                self.tell(LinkAnswer::Instrument(Box::new(**definition)));
            }
            Defined::Firms(firms) => {
                for one in firms.clone().flatten() {
                    self.tell(LinkAnswer::Firm(one.bound_session_id, one.firm_id));
                }
            }
        }
    }

    fn record(&mut self, _number: u64, record: &[u8], is_bound: bool) {
        let event = EventRecord::new(record);
        self.newest = Position(event.position());
        // The events of a session that is bound no more belong to another gateway.
        let is_own = is_bound || self.is_control() || event.address().is_none();
        if is_own {
            self.append(record);
        } else {
            self.append(&placeholder(self.newest));
        }
    }

    fn skipped(&mut self, _first: u64, count: u64) {
        let record = placeholder(self.newest);
        (0..count).for_each(|_| self.append(&record));
    }

    fn epoch_ended(&mut self, ended: &EpochEnded) {
        let first_again = self.writer.next_record();
        self.writer.end_epoch(ended.last_valid, ended.next, first_again);
        self.is_published = true;
        self.has_news = true;
    }

    fn stages(&mut self, _stages: &StageSpans) {}

    fn bound(&mut self, bound: &SessionBound, goes_on: bool) {
        if bound.record_count == 0 {
            self.tell_bound(*bound, Vec::new(), goes_on);
        } else {
            self.listed = Some((*bound, Vec::new()));
        }
    }

    fn past_records(&mut self, session_id: SessionId, records: &mut dyn Iterator<Item = u64>) {
        let Some((bound, listed)) = &mut self.listed else { return };
        if bound.bound_session_id != session_id {
            return;
        }
        listed.extend(records);
        if listed.len() >= bound.record_count as usize
            && let Some((bound, listed)) = self.listed.take()
        {
            self.tell_bound(bound, listed, false);
        }
    }

    fn unbound(&mut self, unbound: &SessionUnbound) {
        self.points.remove(&unbound.bound_session_id);
        self.tell(LinkAnswer::Ended(unbound.bound_session_id, unbound.reason));
    }

    fn refused(&mut self, refused: &CommandRefused) {
        let name = RequestName {
            session_id: refused.bound_session_id,
            request_no: refused.request_no,
            template_id: refused.ref_template_id,
        };
        self.refuse(name, refused.reason);
    }

    fn other(&mut self, message: &ToGateway<'_>) {
        match message {
            ToGateway::SessionClaimed(claimed) => self.tell(LinkAnswer::Claimed(*claimed)),
            ToGateway::ClaimEnded(ended) => {
                self.tell(LinkAnswer::Ended(ended.bound_session_id, ended.reason));
            }
            ToGateway::OldRecords(head, entries) => {
                let (mut records, mut last) = (PastRecords::default(), 0);
                for (entry, record) in entries.clone() {
                    // A page that does not ascend would break its readers.
                    if parse_message(record).is_ok() && entry.number > last {
                        records.push(entry.number, record);
                        last = entry.number;
                    }
                }
                self.pages.push_back(OldPage { head: *head, records });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_gateway::linked::{LinkPort, gateway_to_link};
    use weir_link::gateway_end::WantedBinding;
    use weir_partition::event_reader::ReadEvent;
    use weir_partition::handoff::{PartitionPort, gateway_to_partition};
    use weir_partition::placeholder::is_placeholder;
    use weir_runtime::Wake;
    use weir_types::{ClOrdId, EventNo, Nanos, RequestNo};
    use weir_wire::event::RequestDone;
    use weir_wire::{Event, PlainEvent};

    use super::*;

    const HERE: PartitionId = PartitionId(1);

    /// The gateway's ends of a port's rings.
    struct Ends {
        _ring: PartitionPort,
        link: LinkPort,
    }

    fn linked_port() -> (LinkedPort, Ends) {
        let (ring, source) = gateway_to_partition(HERE, Wake::new());
        let (link, port) = gateway_to_link(Wake::new());
        (LinkedPort::new(HERE, source, port), Ends { _ring: ring, link })
    }

    /// Returns the reader with which the gateway begins anew.
    fn begun_anew(link: &mut LinkPort) -> EventReader {
        let Some(LinkAnswer::BeginsAnew(reader)) = link.next_answer() else {
            panic!("it was told")
        };
        *reader
    }

    /// Takes all answers, and returns their number.
    fn answer_count(link: &mut LinkPort) -> usize {
        std::iter::from_fn(|| link.next_answer()).count()
    }

    fn event(number: u64) -> Vec<u8> {
        let done = RequestDone {
            position: Position(number),
            event_no: EventNo(number),
            request_no: RequestNo(number),
            transact_time: Nanos(0),
            cl_ord_id: ClOrdId::NONE,
            affected_count: 0,
            session_id: SessionId(3),
            partition_id: HERE,
            ref_template_id: 0,
            ..RequestDone::NOTHING_TOLD
        };
        let mut record = Vec::new();
        Event::Plain(PlainEvent::RequestDone(done)).encode(&mut record);
        record
    }

    #[test]
    fn a_gateway_that_does_not_read_is_given_less_than_its_tail_holds() {
        let (mut port, mut ends) = linked_port();
        port.begin_anew(1, Epoch(1));
        let mut reader = begun_anew(&mut ends.link);
        let mut next = 1;
        while port.has_room() {
            port.skipped(next, 65_536);
            next += 65_536;
            port.batch_taken(next, 40);
            port.publish();
        }
        assert!(port.unread_len < TAIL_BYTES, "{} bytes", port.unread_len);
        assert_eq!(port.take_read(), 0);
        let mut record = Vec::new();
        for number in 1..next {
            assert_eq!(reader.next(&mut record), ReadEvent::Record(number), "none is overwritten");
        }
        assert_eq!(port.take_read(), (next - 1) / 65_536 * 40);
        assert!(port.has_room());
    }

    #[test]
    fn an_event_of_a_session_that_is_bound_no_more_is_a_placeholder() {
        let (mut port, mut ends) = linked_port();
        port.begin_anew(7, Epoch(1));
        let mut reader = begun_anew(&mut ends.link);
        port.record(7, &event(1), true);
        port.record(8, &event(2), false);
        port.publish();
        let mut record = Vec::new();
        for (number, want) in [(7, false), (8, true)] {
            assert_eq!(reader.next(&mut record), ReadEvent::Record(number));
            assert_eq!(is_placeholder(&record), want, "record {number}");
        }
    }

    #[test]
    fn no_record_is_published_before_the_answers_before_it() {
        let (mut port, mut ends) = linked_port();
        port.begin_anew(1, Epoch(1));
        let mut reader = begun_anew(&mut ends.link);
        let mut count = 0;
        while !port.has_waiting() {
            port.tell(LinkAnswer::Away);
            count += 1;
        }
        port.record(1, &event(1), true);
        port.publish();
        let mut record = Vec::new();
        assert_eq!(reader.next(&mut record), ReadEvent::UpToDate);
        assert!(!port.has_room(), "no further batch is taken");
        assert_eq!(answer_count(&mut ends.link), count - 1);
        port.publish();
        assert_eq!(reader.next(&mut record), ReadEvent::Record(1));
        assert_eq!(answer_count(&mut ends.link), 1);
    }

    fn bound(next_event_no: u64, is_check: Switch, reason: Reason) -> SessionBound {
        SessionBound {
            generation: 5,
            next_record: 1,
            last_request_no: RequestNo::NONE,
            next_event_no: EventNo(next_event_no),
            oldest_event_no: EventNo(1),
            session_id: SessionId(501),
            bound_session_id: SessionId(3),
            epoch: Epoch(2),
            record_count: 0,
            partition_id: HERE,
            reason,
            is_check,
        }
    }

    fn ask(number: u64) -> BindAsk {
        let wanted = WantedBinding {
            session_id: SessionId(3),
            generation: 5,
            seal: weir_link::message::Seal::NONE,
            cancel_on_disconnect: Switch::Off,
        };
        BindAsk { wanted, point: SessionPoint::NONE, number }
    }

    /// The gateway dropped its first events as listed ones, and stopped at the gap behind them.
    #[test]
    fn a_session_whose_events_cannot_go_on_after_a_break_ends() {
        let (mut port, mut ends) = linked_port();
        let id = SessionId(3);
        port.note_ask(&ask(1));
        for (is_check, reason) in [(Switch::On, Reason::None), (Switch::Off, Reason::TakenOver)] {
            port.bound(&bound(8, is_check, reason), false);
        }
        port.bound(&bound(9, Switch::Off, Reason::None), false);
        port.bound(&bound(9, Switch::Off, Reason::None), true);
        assert_eq!(answer_count(&mut ends.link), 4, "the link goes on");
        port.bound(&bound(9, Switch::Off, Reason::None), false);
        let told = ends.link.next_answer();
        assert!(matches!(told, Some(LinkAnswer::Ended(of, Reason::PartitionAway)) if of == id));
        // A later logon has its own point.
        port.note_ask(&ask(2));
        port.bound(&bound(9, Switch::Off, Reason::None), false);
        let Some(LinkAnswer::Bound(listed)) = ends.link.next_answer() else {
            panic!("it is bound")
        };
        assert_eq!(listed.number, 2);
    }
}
