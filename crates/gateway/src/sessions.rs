//! The gateway's table of sessions: their connections, and the events sent to each.

use std::collections::VecDeque;

use weir_door::ConnectionId;
use weir_door::seeded_map::{MapOrder, SeededMap};
use weir_door::takeover::LastTakeover;
use weir_partition::stream::Stream;
use weir_types::{EventNo, FirmId, Nanos, Reason, RequestNo, Role, SessionId, Switch};

use super::copies::StreamKey;
use super::fairness::Pace;
use super::linked_return::ReturnTerms;
use super::plant::{self, Plant};

/// The most requests of a session under way that had been received before.
const REPEATS_MAX: u32 = 64;

/// A session that has events or is logged on.
#[derive(Debug)]
pub struct Session {
    /// The session's firm.
    pub firm_id: FirmId,
    /// The requests that it may send.
    pub role: Role,
    /// The connection through which it is logged on; set by [`Sessions::attach`] and
    /// [`Sessions::detach`].
    pub connection: Option<ConnectionId>,
    /// On when the loss of the connection cancels its orders: the choice of its last logon.
    pub cancel_on_disconnect: Switch,
    /// The choice in each port's log, as submitted; off after its loss.
    pub(super) choices: Vec<Switch>,
    /// The expiry of the key with which it logged on; zero for never.
    pub valid_until: Nanos,
    /// The maximum number of unanswered requests; zero for no limit.
    pub in_flight_max: u32,
    /// The maximum rate of new orders and replaces per second in each partition, which engines
    /// enforce; zero for no limit.
    pub order_rate_max: u32,
    /// The recent rate of its orders. It outlives connections.
    pub pace: Pace,
    /// The requests handed to each port's partition that are not answered yet. They outlive
    /// connections.
    under_way: Vec<UnderWay>,
    /// The number of those that no partition had received before: they have places in the window.
    ///
    /// INVARIANT: `in_flight` and `repeat_count` add up to the requests in `under_way`.
    in_flight: u32,
    /// The number of those that had been received before.
    repeat_count: u32,
    /// The generation of its bindings at linked ports; `None` while it is not bound.
    pub(super) generation: Option<u64>,
    /// The newest generation that control has granted to a logon that came to nothing, while the
    /// session was logged on: control knows its gateway by that one.
    pub(super) claimed: u64,
    /// The number of the question by which it is bound at each linked port.
    pub(super) bind_nos: Vec<u64>,
    /// True if its pending end is no loss.
    pub(super) leaves: bool,
    /// The terms of its logon, for linked ports that were away then or are since.
    pub(super) return_terms: Option<ReturnTerms>,
    /// The time of its last logon, as [`weir_door::takeover`] compares it.
    pub logged_on_at: Nanos,
    /// The time of its last takeover. It outlives connections.
    pub last_takeover: LastTakeover,
    /// The reason for its pending end.
    pub ending: Option<Reason>,
    /// The maximum interval between messages in each direction.
    pub heartbeat_interval: Nanos,
    /// The time of the last message sent to it.
    pub said_at: Nanos,
    /// The time of the last message received from it.
    pub heard_at: Nanos,
    /// Its events, by the partition's index in the gateway's list of ports.
    pub streams: Vec<Stream>,
    /// The topic of copies that its events belong to; `None` until an event log has defined it.
    pub topic: Option<usize>,
    /// The streams of copies that it gets.
    pub(super) copy_streams: Vec<StreamKey>,
    /// The position of the last request on an order that was answered, in each port's log.
    answered_at: Vec<u64>,
}

/// The admission of a request to a session's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has a place, or needs none.
    Now,
    /// It can be handed over later.
    Later,
    /// It has no place.
    Refused,
    /// It is under way already: the answer to its first copy is that to all.
    UnderWay,
}

/// A request that was handed to a port and is not answered yet.
#[derive(Clone, Copy, Debug)]
struct HandedOver {
    request_no: RequestNo,
    /// True if its number had been received before: it is not executed again.
    is_repeat: bool,
    /// The connection by which it, or a later copy of it, came last; `None` if none has come since
    /// the session's last logon.
    via: Option<ConnectionId>,
}

/// A session's requests that were handed to a port and are not answered yet.
#[derive(Clone, Debug, Default)]
struct UnderWay {
    /// INVARIANT: in the order of their numbers.
    requests: VecDeque<HandedOver>,
    /// The highest number among them and those answered since there were none.
    highest: RequestNo,
}

impl UnderWay {
    fn index_of(&self, request_no: RequestNo) -> Option<usize> {
        match self.requests.front() {
            Some(first) if first.request_no == request_no => Some(0),
            _ => self.requests.binary_search_by_key(&request_no, |one| one.request_no).ok(),
        }
    }
}

impl Session {
    /// Returns the admission of one more request to a port.
    ///
    /// A request that was received before is not executed again, and a refusal would say that no
    /// log has it. So one under way is not handed over again: were its log full at the second copy,
    /// that one's refusal would come before the answer to the first. One that was answered needs no
    /// place in the window, since its client may have the answer, and waits behind the events still
    /// to be sent, among which the answer may be.
    ///
    /// | the request     | the session                               | admission               |
    /// | --------------- | ----------------------------------------- | ----------------------- |
    /// | under way       | any                                       | [`Admission::UnderWay`] |
    /// | received before | has events still to be sent               | [`Admission::Later`]    |
    /// | received before | has its maximum of such ones, or 64       | [`Admission::Later`]    |
    /// | received before | has fewer                                 | [`Admission::Now`]      |
    /// | above those     | has the maximum of such ones under way    | [`Admission::Refused`]  |
    /// | above those     | has fewer                                 | [`Admission::Now`]      |
    #[must_use]
    pub fn admission_of(&self, port: usize, request_no: RequestNo) -> Admission {
        let is_under_way = self.under_way[port].index_of(request_no).is_some();
        if is_under_way && !plant::is(Plant::RepeatsHandedOver) {
            return Admission::UnderWay;
        }
        if !self.is_repeat(port, request_no) || plant::is(Plant::RepeatsRefused) {
            let is_full = self.in_flight_max != 0 && self.in_flight >= self.in_flight_max;
            return if is_full { Admission::Refused } else { Admission::Now };
        }
        let is_bounded = self.in_flight_max != 0;
        let repeats_max =
            if is_bounded { self.in_flight_max.min(REPEATS_MAX) } else { REPEATS_MAX };
        let waits = self.streams[port].next_record().is_some() || self.repeat_count >= repeats_max;
        if waits { Admission::Later } else { Admission::Now }
    }

    /// Returns true if a port's partition has received a request of this number or a higher one.
    fn is_repeat(&self, port: usize, request_no: RequestNo) -> bool {
        request_no <= self.last_request_no(port)
    }

    /// Returns true if a port's partition has answered a request of this number or a higher one, or
    /// had received it before the gateway started: it is not executed any more.
    #[must_use]
    pub fn was_received(&self, port: usize, request_no: RequestNo) -> bool {
        request_no <= self.streams[port].last_request_no()
    }

    /// Records that a request that came by a connection was handed to a port.
    pub fn hands_over(&mut self, port: usize, request_no: RequestNo, via: ConnectionId) {
        let is_repeat = self.is_repeat(port, request_no);
        *(if is_repeat { &mut self.repeat_count } else { &mut self.in_flight }) += 1;
        let UnderWay { requests, highest } = &mut self.under_way[port];
        // Nearly always at the end.
        let index = requests.partition_point(|one| one.request_no <= request_no);
        requests.insert(index, HandedOver { request_no, is_repeat, via: Some(via) });
        *highest = request_no.max(*highest);
    }

    /// Records that another copy of a request under way came by a connection, which gets the
    /// refusal if there is one.
    pub fn comes_again(&mut self, port: usize, request_no: RequestNo, via: ConnectionId) {
        let UnderWay { requests, .. } = &mut self.under_way[port];
        let index = requests.binary_search_by_key(&request_no, |one| one.request_no);
        if let Ok(index) = index {
            requests[index].via = Some(via);
        }
    }

    /// Returns the highest request number that a port's partition has received, answered or not. A
    /// client that knows nothing of the session's requests goes on above it: under the number of a
    /// request under way, its own would get that one's outcome. A request that the partition's log
    /// refused does not count once no other is under way: its client sends it again at its logon,
    /// before any later one.
    #[must_use]
    pub fn last_request_no(&self, port: usize) -> RequestNo {
        self.streams[port].last_request_no().max(self.under_way[port].highest)
    }

    /// Records an answer at `position` to a request; true for the first one to it. A request on an
    /// order may have several reports, which are contiguous and of one command. Any other has one
    /// answer; several of them may be of one command.
    pub fn answered(&mut self, port: usize, answer: RequestAnswer) -> bool {
        let RequestAnswer { position, request_no, is_of_order } = answer;
        if is_of_order && self.answered_at[port] == position {
            return false;
        }
        if is_of_order {
            self.answered_at[port] = position;
        }
        self.settled(port, request_no);
        true
    }

    /// Records that a request to a port is answered, or refused by its log. Returns the connection
    /// by which it came last; `None` if it has not come since the session's last logon, or is not
    /// under way: answers from before a restart belong to requests that this gateway did not hand
    /// over.
    pub fn settled(&mut self, port: usize, request_no: RequestNo) -> Option<ConnectionId> {
        let under_way = &mut self.under_way[port];
        let index = under_way.index_of(request_no)?;
        let settled = under_way.requests.remove(index)?;
        *(if settled.is_repeat { &mut self.repeat_count } else { &mut self.in_flight }) -= 1;
        if under_way.requests.is_empty() && !plant::is(Plant::RefusedCountsAsReceived) {
            under_way.highest = RequestNo::NONE;
        }
        settled.via
    }

    /// Returns the reason for which its requests do not go to a linked port that has not bound it.
    pub(super) fn refused_by_link(&self, port: usize) -> Option<Reason> {
        self.streams[port].is_away.then_some(Reason::PartitionAway)
    }

    /// Takes the generation of its bindings, which end, and that of its newest grant.
    pub(super) fn take_generations(&mut self) -> Option<(u64, u64)> {
        self.return_terms = None;
        let generation = self.generation.take()?;
        Some((generation, generation.max(std::mem::take(&mut self.claimed))))
    }

    /// Returns true if requests of a port have no answer yet.
    pub(super) fn has_under_way(&self, port: usize) -> bool {
        !self.under_way[port].requests.is_empty()
    }

    /// Begins anew at a linked port, with the events that its partition has listed. None is sent
    /// until the logon is done. The partition knows its requests under way.
    pub(super) fn begins_with(&mut self, port: usize, stream: Stream) {
        for settled in std::mem::take(&mut self.under_way[port]).requests {
            *(if settled.is_repeat { &mut self.repeat_count } else { &mut self.in_flight }) -= 1;
        }
        let own = &mut self.streams[port];
        let is_listed = own.is_listed;
        *own = stream;
        (own.is_listed, own.is_away) = (is_listed, true);
    }

    /// Returns the connection that is told of a request's refusal without an event number; `via` is
    /// that of [`Session::settled`]. Behind a later logon its client may have sent it again, and a
    /// log may take that copy: a refusal then would say that none has it.
    #[must_use]
    pub fn refused_on(&self, via: Option<ConnectionId>) -> Option<ConnectionId> {
        let is_anywhere = plant::is(Plant::RefusedOnAnotherConnection);
        self.connection.filter(|id| via == Some(*id) || is_anywhere)
    }
}

/// An event that answers a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestAnswer {
    /// The position of its command in the port's log.
    pub position: u64,
    /// The request's number.
    pub request_no: RequestNo,
    /// True for a report of an order.
    pub is_of_order: bool,
}

/// Returns true if an event with this request number and reason can be the first answer to the
/// request. The reports of a mass cancel's orders are not, and may come many commands before it.
#[must_use]
pub fn is_answer(request_no: RequestNo, reason: u16) -> bool {
    !request_no.is_none() && reason != Reason::MassCancel.code()
}

/// All sessions.
///
/// INVARIANT: `logged_on_count` is the number of those that have a connection.
#[derive(Debug)]
pub struct Sessions {
    by_id: SeededMap<SessionId, Session>,
    port_count: usize,
    logged_on_count: usize,
}

impl Sessions {
    /// Returns an empty table for a gateway with `port_count` ports.
    #[must_use]
    pub fn new(port_count: usize, order: &MapOrder) -> Sessions {
        Sessions { by_id: order.map(), port_count, logged_on_count: 0 }
    }

    /// Aligns a session's stream with a recovered engine.
    pub fn agree(&mut self, id: SessionId, port: usize, next: EventNo, last: RequestNo) {
        self.entry(id).streams[port].agree(next, last);
    }

    /// Returns the session, creating it if needed.
    pub fn entry(&mut self, id: SessionId) -> &mut Session {
        let port_count = self.port_count;
        self.by_id.entry(id).or_insert_with(|| Session {
            firm_id: FirmId::NONE,
            role: Role::Trader,
            connection: None,
            cancel_on_disconnect: Switch::Off,
            choices: vec![Switch::Off; port_count],
            valid_until: Nanos(0),
            in_flight_max: 0,
            order_rate_max: 0,
            pace: Pace::default(),
            under_way: vec![UnderWay::default(); port_count],
            in_flight: 0,
            repeat_count: 0,
            generation: None,
            claimed: 0,
            bind_nos: Vec::new(),
            leaves: false,
            return_terms: None,
            logged_on_at: Nanos(0),
            last_takeover: LastTakeover::default(),
            ending: None,
            heartbeat_interval: Nanos(0),
            said_at: Nanos(0),
            heard_at: Nanos(0),
            streams: (0..port_count).map(|_| Stream::unknown()).collect(),
            topic: None,
            copy_streams: Vec::new(),
            answered_at: vec![0; port_count],
        })
    }

    /// Returns the session, if it exists.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id)
    }

    /// Returns the session, if it exists.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// Returns the session, if it is logged on through this connection.
    pub fn logged_on(&mut self, id: SessionId, via: ConnectionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id).filter(|session| session.connection == Some(via))
    }

    /// Returns the number of sessions that are logged on.
    #[must_use]
    pub fn logged_on_count(&self) -> usize {
        self.logged_on_count
    }

    /// Records that a session is logged on through this connection, and through no other one any
    /// more. Its client sends the requests under way again, also on a connection by which they came
    /// before.
    pub fn attach(&mut self, id: SessionId, via: ConnectionId) {
        let session = self.entry(id);
        for one in session.under_way.iter_mut().flat_map(|port| &mut port.requests) {
            one.via = None;
        }
        let before = session.connection.replace(via);
        self.logged_on_count += usize::from(before.is_none());
    }

    /// Returns the sessions that are logged on.
    #[must_use]
    pub fn logged_on_ids(&self) -> Vec<SessionId> {
        let sessions = self.by_id.iter().filter(|(_, session)| session.connection.is_some());
        sessions.map(|(id, _)| *id).collect()
    }

    /// Records that a session is no longer logged on.
    pub fn detach(&mut self, id: SessionId) {
        let before = self.by_id.get_mut(&id).and_then(|session| session.connection.take());
        self.logged_on_count -= usize::from(before.is_some());
    }
}

/// A stream that is behind: its session and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The session.
    pub session_id: SessionId,
    /// The port.
    pub port: usize,
}

/// The streams that are behind, each once.
///
/// INVARIANT: a stream is in the list exactly while its mark says so ([`Stream::is_listed`]).
#[derive(Debug, Default)]
pub struct BehindList {
    streams: VecDeque<Behind>,
}

impl BehindList {
    /// Adds a stream unless it is in the list; `stream` is the one that `behind` names.
    pub fn add(&mut self, behind: Behind, stream: &mut Stream) {
        if !std::mem::replace(&mut stream.is_listed, true) {
            self.streams.push_back(behind);
        }
    }

    /// Takes the stream that has waited longest. The caller clears its mark, and adds it again if
    /// it stays behind.
    pub fn pop_front(&mut self) -> Option<Behind> {
        self.streams.pop_front()
    }

    /// Returns the number of streams in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns true when no stream is behind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use weir_io::SeededRng;
    use weir_types::Epoch;

    use super::*;
    use weir_partition::lineage::Lineage;
    use weir_partition::stream::Noted;

    const HERE: ConnectionId = ConnectionId(1);
    const ELSEWHERE: ConnectionId = ConnectionId(2);

    fn none(port_count: usize) -> Sessions {
        let order = MapOrder::draw(&mut SeededRng::new(1, "sessions"));
        Sessions::new(port_count, &order)
    }

    /// A session with requests under way, each in the port of this index.
    fn session(in_flight_max: u32, ports: &[usize]) -> Session {
        let mut sessions = none(2);
        sessions.entry(SessionId(5)).in_flight_max = in_flight_max;
        let mut session = sessions.by_id.remove(&SessionId(5)).unwrap();
        for (request_no, port) in (1..).map(RequestNo).zip(ports) {
            session.hands_over(*port, request_no, HERE);
        }
        session
    }

    /// True if the session may send another request, which it did not send before.
    fn has_window(session: &Session) -> bool {
        session.admission_of(0, RequestNo(1_000_000)) == Admission::Now
    }

    #[test]
    fn sessions_that_are_logged_on_are_counted_each_once() {
        let (mut sessions, via) = (none(1), ConnectionId(1));
        sessions.detach(SessionId(1));
        for id in [1, 2, 2] {
            sessions.attach(SessionId(id), via);
        }
        assert_eq!(sessions.logged_on_count(), 2);
        sessions.detach(SessionId(1));
        sessions.detach(SessionId(1));
        assert_eq!(sessions.logged_on_count(), 1);
        assert!(sessions.logged_on(SessionId(2), via).is_some());
        assert!(sessions.logged_on(SessionId(1), via).is_none());
    }

    #[test]
    fn a_request_under_way_has_come_by_no_connection_since_the_next_logon() {
        let mut sessions = none(2);
        sessions.attach(SessionId(5), HERE);
        let session = sessions.entry(SessionId(5));
        for (port, number) in [(0, 1), (0, 2), (1, 1)] {
            session.hands_over(port, RequestNo(number), HERE);
        }
        sessions.detach(SessionId(5));
        sessions.attach(SessionId(5), HERE);
        let session = sessions.entry(SessionId(5));
        session.comes_again(0, RequestNo(2), HERE);
        assert_eq!(session.settled(0, RequestNo(1)), None);
        assert_eq!(session.settled(0, RequestNo(2)), Some(HERE), "its copy came");
        assert_eq!(session.settled(1, RequestNo(1)), None);
        assert_eq!((session.in_flight, session.repeat_count), (0, 0));
    }

    #[test]
    fn a_window_is_open_below_its_bound_and_always_without_one() {
        for (bound, in_flight, is_open) in
            [(0, 0, true), (0, 9_999, true), (2, 1, true), (2, 2, false), (2, 3, false)]
        {
            let session = session(bound, &vec![1; in_flight]);
            assert_eq!(has_window(&session), is_open, "{in_flight} of {bound}");
        }
    }

    #[test]
    fn a_request_under_way_is_not_handed_over_again_until_it_is_answered() {
        use Admission::{Later, Now, Refused, UnderWay};
        let mut session = session(2, &[0, 0]);
        let admission = |session: &Session, number| session.admission_of(0, RequestNo(number));
        let of_all = |session: &Session| [1, 2, 3].map(|number| admission(session, number));
        assert_eq!(of_all(&session), [UnderWay, UnderWay, Refused]);
        assert_eq!(session.admission_of(1, RequestNo(2)), Refused, "to another partition");
        note_answer(&mut session, 0, 1);
        assert_eq!(of_all(&session), [Later, UnderWay, Now], "the answer is not sent yet");
        session.streams[0].sent_one();
        assert_eq!(of_all(&session), [Now, UnderWay, Now]);
    }

    #[test]
    fn requests_that_were_answered_take_no_place_in_the_window_and_have_as_many_of_their_own() {
        use Admission::{Later, Now, Refused, UnderWay};
        let mut session = session(2, &[]);
        for number in 1..=3 {
            session.hands_over(0, RequestNo(number), HERE);
            note_answer(&mut session, 0, number);
            session.streams[0].sent_one();
        }
        let of_all = |session: &Session| {
            [1, 2, 3, 4, 5].map(|number| session.admission_of(0, RequestNo(number)))
        };
        // In any order.
        for number in [3, 1] {
            session.hands_over(0, RequestNo(number), HERE);
        }
        assert_eq!(of_all(&session), [UnderWay, Later, UnderWay, Now, Now]);
        session.hands_over(0, RequestNo(4), HERE);
        session.hands_over(0, RequestNo(5), HERE);
        assert_eq!(session.admission_of(0, RequestNo(6)), Refused);
        assert_eq!(session.settled(0, RequestNo(1)), Some(HERE));
        assert_eq!(of_all(&session), [Now, Now, UnderWay, UnderWay, UnderWay]);
        assert_eq!(session.admission_of(0, RequestNo(6)), Refused);
        session.comes_again(0, RequestNo(4), ELSEWHERE);
        assert_eq!(session.settled(0, RequestNo(4)), Some(ELSEWHERE));
        assert_eq!(session.admission_of(0, RequestNo(6)), Now);
        assert_eq!(session.settled(0, RequestNo(4)), None, "it is not under way any more");
        assert_eq!((session.in_flight, session.repeat_count), (1, 1));
    }

    #[test]
    fn however_large_its_window_a_session_has_a_bounded_number_of_requests_under_way_again() {
        for in_flight_max in [0, 1_000] {
            let mut session = session(in_flight_max, &[]);
            for number in 1..=u64::from(REPEATS_MAX) + 1 {
                session.hands_over(0, RequestNo(number), HERE);
                note_answer(&mut session, 0, number);
                session.streams[0].sent_one();
            }
            for number in 1..=u64::from(REPEATS_MAX) {
                assert_eq!(session.admission_of(0, RequestNo(number)), Admission::Now);
                session.hands_over(0, RequestNo(number), HERE);
            }
            let one_more = RequestNo(u64::from(REPEATS_MAX) + 1);
            assert_eq!(session.admission_of(0, one_more), Admission::Later);
            assert!(has_window(&session));
        }
    }

    /// The answer to a request, in the order of the answers, as the gateway takes it.
    fn note_answer(session: &mut Session, port: usize, number: u64) {
        let (event_no, request_no) = (session.streams[port].next_event_no(), RequestNo(number));
        let noted = Noted { event_no, request_no, record: number };
        session.streams[port].note(noted, &Lineage::new(Epoch(1)));
        assert!(session.answered(port, answer(70 + number, number, true)));
    }

    fn answer(position: u64, number: u64, is_of_order: bool) -> RequestAnswer {
        RequestAnswer { position, request_no: RequestNo(number), is_of_order }
    }

    #[test]
    fn a_number_counts_as_received_while_it_is_under_way_and_once_it_is_answered() {
        let mut session = session(0, &[1, 1]);
        assert_eq!([0, 1].map(|port| session.last_request_no(port)), [0, 2].map(RequestNo));
        note_answer(&mut session, 1, 1);
        assert_eq!(session.last_request_no(1), RequestNo(2), "the other one is under way");
        // The log was full at that one.
        assert_eq!(session.settled(1, RequestNo(2)), Some(HERE));
        assert_eq!(session.last_request_no(1), RequestNo(1));
    }

    #[test]
    fn a_stream_is_in_the_list_once_however_often_it_falls_behind() {
        let mut sessions = none(2);
        let mut list = BehindList::default();
        let behind = |session_id, port| Behind { session_id: SessionId(session_id), port };
        for (id, port) in [(5, 1), (5, 0), (5, 1), (6, 1), (5, 1), (6, 1)] {
            let stream = &mut sessions.entry(SessionId(id)).streams[port];
            list.add(behind(id, port), stream);
        }
        // The first event in a session's log does not change the mark.
        let first = Noted { event_no: EventNo(9), request_no: RequestNo(1), record: 1 };
        let stream = &mut sessions.entry(SessionId(6)).streams[1];
        stream.note(first, &Lineage::new(Epoch(1)));
        list.add(behind(6, 1), stream);
        let take =
            |list: &mut BehindList| std::iter::from_fn(|| list.pop_front()).collect::<Vec<_>>();
        assert_eq!(take(&mut list), [behind(5, 1), behind(5, 0), behind(6, 1)]);
        let stream = &mut sessions.entry(SessionId(6)).streams[1];
        stream.is_listed = false;
        list.add(behind(6, 1), stream);
        assert_eq!(take(&mut list), [behind(6, 1)]);
    }

    #[test]
    fn a_request_with_many_events_is_answered_once() {
        let mut session = session(2, &[0, 1]);
        assert!(session.answered(1, answer(70, 2, true)));
        assert!(!session.answered(1, answer(70, 2, true)));
        assert_eq!(session.in_flight, 1);
        // The same position in another partition's log is another request.
        assert!(session.answered(0, answer(70, 1, true)));
        assert_eq!(session.in_flight, 0);
    }

    #[test]
    fn a_command_that_ends_an_earlier_request_too_answers_both() {
        let mut session = session(4, &[0; 4]);
        assert!(session.answered(0, answer(70, 1, false)), "a change of many instruments");
        assert!(session.answered(0, answer(70, 2, false)), "the request that is the command");
        assert!(session.answered(0, answer(71, 3, false)), "another one");
        assert!(session.answered(0, answer(71, 4, true)), "an order, which is the command");
        assert!(!session.answered(0, answer(71, 4, true)), "its execution");
        assert_eq!(session.in_flight, 0);
    }

    #[test]
    fn reports_of_a_mass_cancel_open_no_window() {
        let mut session = session(1, &[0]);
        let (number, mass_cancel) = (1, Reason::MassCancel.code());
        // Its steps are commands of their own; its `RequestDone` comes with the last.
        for (position, number, reason) in
            [(70, number, mass_cancel), (71, number, mass_cancel), (72, 0, 0)]
        {
            let answer = answer(position, number, position < 72);
            assert!(!(is_answer(answer.request_no, reason) && session.answered(0, answer)));
        }
        assert!(!has_window(&session));
        let done = answer(72, number, false);
        assert!(is_answer(done.request_no, 0) && session.answered(0, done));
        assert!(has_window(&session));
    }

    #[test]
    fn answers_to_requests_of_before_a_restart_open_no_window() {
        let mut session = session(1, &[1]);
        assert!(session.answered(1, answer(3, 9, true)));
        assert!(!has_window(&session), "they are of other requests");
        assert!(session.answered(1, answer(4, 1, true)));
        assert!(has_window(&session));
        assert!(session.answered(1, answer(5, 1, true)));
        assert_eq!(session.in_flight, 0);
    }
}
