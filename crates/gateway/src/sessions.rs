//! The gateway's table of sessions: their connections, and the events sent to each.

use std::collections::VecDeque;

use weir_door::ConnectionId;
use weir_door::seeded_map::{MapOrder, SeededMap};
use weir_door::takeover::LastTakeover;
use weir_types::{EventNo, FirmId, Nanos, Reason, RequestNo, Role, SessionId, Switch};

use super::copies::StreamKey;
use super::fairness::Pace;
use super::plant::{self, Plant};
use super::stream::Stream;

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
    /// Requests handed to partitions that have not answered them yet. It outlives connections.
    ///
    /// INVARIANT: it is the sum of the counts in `under_way`.
    in_flight: u32,
    /// The same by port.
    under_way: Vec<UnderWay>,
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
    /// It has a place.
    Now,
    /// It gets a place when others are answered.
    Later,
    /// It has no place.
    Refused,
}

/// A session's requests that were handed to a port and are not answered yet.
#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    count: u32,
    /// The highest number among them and those answered since there were none.
    highest: RequestNo,
}

impl Session {
    /// Returns the admission of one more request to a port. A request that is sent again is not
    /// executed again, and must not be refused: its client would take it for one that no log has,
    /// though the first one is under way.
    ///
    /// | requests under way       | the request     | admission              |
    /// | ------------------------ | --------------- | ---------------------- |
    /// | fewer than the maximum   | any             | [`Admission::Now`]     |
    /// | fewer than twice as many | received before | [`Admission::Now`]     |
    /// | twice as many            | received before | [`Admission::Later`]   |
    /// | the maximum or more      | above those     | [`Admission::Refused`] |
    #[must_use]
    pub fn admission_of(&self, port: usize, request_no: RequestNo) -> Admission {
        if self.in_flight_max == 0 || self.in_flight < self.in_flight_max {
            return Admission::Now;
        }
        let is_sent_again = request_no <= self.last_request_no(port);
        if !is_sent_again || plant::is(Plant::RepeatsRefused) {
            Admission::Refused
        } else if self.in_flight < self.in_flight_max.saturating_mul(2) {
            Admission::Now
        } else {
            Admission::Later
        }
    }

    /// Records that a request was handed to a port.
    pub fn hands_over(&mut self, port: usize, request_no: RequestNo) {
        self.in_flight += 1;
        let UnderWay { count, highest } = &mut self.under_way[port];
        *count += 1;
        *highest = request_no.max(*highest);
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
    /// answer; several of them may be of one command, also to one request and its repeat.
    pub fn answered(&mut self, port: usize, position: u64, is_of_order: bool) -> bool {
        if is_of_order && self.answered_at[port] == position {
            return false;
        }
        if is_of_order {
            self.answered_at[port] = position;
        }
        self.settled(port);
        true
    }

    /// Records that a request to a port is answered. Answers from before a restart belong to
    /// requests that this gateway did not count.
    pub fn settled(&mut self, port: usize) {
        let under_way = &mut self.under_way[port];
        if under_way.count == 0 {
            return;
        }
        under_way.count -= 1;
        self.in_flight -= 1;
        if under_way.count == 0 && !plant::is(Plant::RefusedCountsAsReceived) {
            under_way.highest = RequestNo::NONE;
        }
    }
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
            in_flight: 0,
            under_way: vec![UnderWay::default(); port_count],
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
    /// more.
    pub fn attach(&mut self, id: SessionId, via: ConnectionId) {
        let before = self.entry(id).connection.replace(via);
        self.logged_on_count += usize::from(before.is_none());
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
    use crate::stream::Noted;
    use weir_partition::lineage::Lineage;

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
            session.hands_over(*port, request_no);
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
    fn a_window_is_open_below_its_bound_and_always_without_one() {
        for (bound, in_flight, is_open) in
            [(0, 0, true), (0, 9_999, true), (2, 1, true), (2, 2, false), (2, 3, false)]
        {
            let session = session(bound, &vec![1; in_flight]);
            assert_eq!(has_window(&session), is_open, "{in_flight} of {bound}");
        }
    }

    #[test]
    fn a_request_that_is_sent_again_has_a_place_in_twice_the_window_and_else_waits() {
        let mut session = session(2, &[0, 0]);
        let admission = |session: &Session, number| session.admission_of(0, RequestNo(number));
        assert_eq!(
            (admission(&session, 2), admission(&session, 3)),
            (Admission::Now, Admission::Refused)
        );
        assert_eq!(
            session.admission_of(1, RequestNo(2)),
            Admission::Refused,
            "to another partition"
        );
        session.hands_over(0, RequestNo(1));
        session.hands_over(0, RequestNo(2));
        assert_eq!(
            (admission(&session, 2), admission(&session, 3)),
            (Admission::Later, Admission::Refused)
        );
        session.settled(0);
        assert_eq!(
            (admission(&session, 2), admission(&session, 3)),
            (Admission::Now, Admission::Refused)
        );
        (0..2).for_each(|_| session.settled(0));
        assert_eq!(admission(&session, 3), Admission::Now);
    }

    #[test]
    fn a_number_counts_as_received_while_it_is_under_way_and_once_it_is_answered() {
        let mut session = session(0, &[1, 1]);
        assert_eq!([0, 1].map(|port| session.last_request_no(port)), [0, 2].map(RequestNo));
        let answer = Noted { event_no: EventNo(1), request_no: RequestNo(1), record: 1 };
        session.streams[1].note(answer, &Lineage::new(Epoch(1)));
        assert!(session.answered(1, 70, true));
        assert_eq!(session.last_request_no(1), RequestNo(2), "the other one is under way");
        // The log was full at that one.
        session.settled(1);
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
        assert!(session.answered(1, 70, true));
        assert!(!session.answered(1, 70, true));
        assert_eq!(session.in_flight, 1);
        // The same position in another partition's log is another request.
        assert!(session.answered(0, 70, true));
        assert_eq!(session.in_flight, 0);
    }

    #[test]
    fn a_command_that_ends_an_earlier_request_too_answers_both() {
        let mut session = session(4, &[0; 4]);
        assert!(session.answered(0, 70, false), "a change of many instruments");
        assert!(session.answered(0, 70, false), "its repeat, which is the command");
        assert!(session.answered(0, 71, false), "another one");
        assert!(session.answered(0, 71, true), "an order, which is the command");
        assert!(!session.answered(0, 71, true), "its execution");
        assert_eq!(session.in_flight, 0);
    }

    #[test]
    fn reports_of_a_mass_cancel_open_no_window() {
        let mut session = session(1, &[0]);
        let (number, mass_cancel) = (RequestNo(3), Reason::MassCancel.code());
        // Its steps are commands of their own; its `RequestDone` comes with the last.
        for (position, request_no, reason) in
            [(70, number, mass_cancel), (71, number, mass_cancel), (72, RequestNo::NONE, 0)]
        {
            assert!(
                !(is_answer(request_no, reason) && session.answered(0, position, position < 72))
            );
        }
        assert!(!has_window(&session));
        assert!(is_answer(number, 0) && session.answered(0, 72, false));
        assert!(has_window(&session));
    }

    #[test]
    fn answers_to_requests_of_before_a_restart_open_no_window() {
        let mut session = session(1, &[]);
        assert!(session.answered(1, 3, true));
        assert_eq!(session.in_flight, 0);
    }
}
