//! The connections of a listener: their table, and the lists of those with something to do.
//!
//! A list names each connection once; a flag in the connection says so, and the lists keep their
//! memory. So a message costs no allocation here.
//!
//! A connection that has ended stays in the table until its farewell is sent. It carries no session
//! any more, and a protocol cannot reach it: nothing is appended behind the farewell.
//!
//! INVARIANT: `sessions` counts, for each session, the connections that carry it, and has the time
//! of its last logon.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::net::Event;
use weir_types::{Nanos, Reason, SessionId};

use crate::figures::{DoorFigures, add};
use crate::lines::Lines;
use crate::plant::{self, Plant};
use crate::seeded_map::{MapOrder, SeededMap};
use crate::table::Table;
use crate::{ConnectionId, LoggedOn, Socket};

/// A connection of a listener, with the state that its protocol keeps of it.
#[derive(Debug)]
pub struct Link<S> {
    /// Its number.
    pub id: ConnectionId,
    /// Its bytes.
    pub socket: Socket,
    /// Its session, once it has logged on.
    pub session: Option<LoggedOn>,
    /// True if its other end is a part of this node.
    pub is_inside: bool,
    /// The peer's address, if the system knows it.
    pub(crate) peer: Option<SocketAddr>,
    /// The protocol's state.
    pub state: S,
    /// True while its next frame waits for room at the frame's destination.
    pub(crate) must_wait: bool,
    /// True while its input has frames left over from its last turn.
    pub(crate) has_frames: bool,
    /// The time since which its output is full: that of the first flush that left it so.
    full_since: Option<Nanos>,
    /// True once the protocol was told that it has ended.
    pub(crate) is_told_gone: bool,
    in_read_list: bool,
    in_flush_list: bool,
}

impl<S> Link<S> {
    /// The session that it carries, none before its logon.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session.map_or(SessionId::NONE, |session| session.session_id)
    }

    /// Returns true if it has nothing that a turn could take: all of its bytes were read, and its
    /// output leaves room for answers.
    pub(crate) fn is_heard(&self) -> bool {
        !self.in_read_list && self.socket.has_room()
    }

    /// Returns true if flushes have left its output full for `time_max`.
    pub(crate) fn is_full_for(&self, time_max: Nanos, now: Nanos) -> bool {
        self.full_since.is_some_and(|since| now.since(since) >= time_max)
    }

    /// Notes that the socket was flushed; returns true when its output has room for more.
    pub(crate) fn end_flush(&mut self, now: Nanos) -> bool {
        let has_room = self.socket.has_room();
        if has_room {
            self.full_since = None;
        } else {
            self.full_since.get_or_insert(now);
        }
        has_room
    }
}

/// All connections of a listener.
#[derive(Debug)]
pub struct Links<S> {
    table: Table<Link<S>>,
    /// Connections with input.
    reading: VecDeque<ConnectionId>,
    /// Connections whose next frame has to wait.
    waiting: Vec<ConnectionId>,
    /// Connections with output, or that have ended.
    flushing: Vec<ConnectionId>,
    /// Connections that have ended, and of which the protocol was not told yet.
    ended: Vec<ConnectionId>,
    sessions: SeededMap<SessionId, Carriers>,
    endings: Endings,
}

/// The connections that carry a session.
#[derive(Clone, Copy, Debug, Default)]
struct Carriers {
    count: u32,
    /// The time of the last logon.
    logged_on_at: Nanos,
}

/// The records of connections that the node ends.
#[derive(Debug)]
struct Endings {
    figures: Arc<DoorFigures>,
    lines: Lines,
}

/// The other end of a new connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Its address, if the system knows it.
    pub(crate) peer: Option<SocketAddr>,
    /// True if it is a part of this node.
    pub(crate) is_inside: bool,
}

impl<S: Default> Links<S> {
    /// No connections, of the door of this name.
    pub(crate) fn new(door: &'static str, figures: Arc<DoorFigures>, order: &MapOrder) -> Links<S> {
        Links {
            table: Table::default(),
            reading: VecDeque::new(),
            waiting: Vec::new(),
            flushing: Vec::new(),
            ended: Vec::new(),
            sessions: order.map(),
            endings: Endings { figures, lines: Lines::new(door) },
        }
    }

    /// The door's diagnostic lines.
    pub(crate) fn lines(&mut self) -> &mut Lines {
        &mut self.endings.lines
    }

    /// The number of connections, with those that have ended and whose farewell is not sent yet.
    #[must_use]
    pub fn count(&self) -> usize {
        self.table.count()
    }

    /// The number of sessions that are logged on.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns true if an open connection carries the session.
    #[must_use]
    pub fn has_session(&self, session_id: SessionId) -> bool {
        self.sessions.contains_key(&session_id)
    }

    /// The number of open connections that carry the session.
    #[must_use]
    pub fn connections_of(&self, session_id: SessionId) -> u32 {
        self.sessions.get(&session_id).map_or(0, |carriers| carriers.count)
    }

    /// The time of the session's last logon, if an open connection carries it.
    pub(crate) fn logged_on_at(&self, session_id: SessionId) -> Option<Nanos> {
        self.sessions.get(&session_id).map(|carriers| carriers.logged_on_at)
    }

    /// An open connection. Output that is appended to it is sent at the end of the cycle in which
    /// it is [touched](Links::touch).
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Link<S>> {
        self.table.get_mut(id).filter(|link| link.socket.is_open())
    }

    /// The open connections.
    pub fn iter(&self) -> impl Iterator<Item = &Link<S>> {
        self.table.iter().filter(|link| link.socket.is_open())
    }

    /// The open connections, to change their state.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link<S>> {
        self.table.iter_mut().filter(|link| link.socket.is_open())
    }

    /// Sends the farewells of all connections, as far as their sockets take them.
    pub(crate) fn flush_all(&mut self, now: Nanos) {
        self.table.iter_mut().for_each(|link| link.socket.flush(now));
    }

    /// Appends output to all connections that carry a session.
    pub fn tell_sessions(&mut self, mut put: impl FnMut(SessionId, &mut Vec<u8>)) {
        let Links { table, flushing, .. } = self;
        for link in table.iter_mut() {
            if let Some(session) = link.session.filter(|_| link.socket.is_open()) {
                put(session.session_id, &mut link.socket.output);
                list(&mut link.in_flush_list, || flushing.push(link.id));
            }
        }
    }

    /// Has a connection's output sent at the end of the cycle.
    pub fn touch(&mut self, id: ConnectionId) {
        if let Some(link) = self.table.get_mut(id) {
            list(&mut link.in_flush_list, || self.flushing.push(id));
        }
    }

    /// Ends a connection with a `Logout` that gives the reason.
    pub fn end(&mut self, id: ConnectionId, reason: Reason, now: Nanos) {
        if let Some(mut link) = self.table.take(id) {
            self.close(&mut link, reason, now);
            self.table.put_back(id, link);
        }
    }

    /// Ends all connections.
    pub fn end_all(&mut self, reason: Reason, now: Nanos) {
        self.end_where(|_| Some(reason), now);
    }

    /// Ends the connections for which there is a reason.
    pub(crate) fn end_where(
        &mut self,
        mut reason_for: impl FnMut(&mut Link<S>) -> Option<Reason>,
        now: Nanos,
    ) {
        let Links { table, flushing, ended, endings, .. } = self;
        for link in table.iter_mut() {
            if let Some(reason) = reason_for(link)
                && endings.close(link, reason, now)
            {
                ended.push(link.id);
                list(&mut link.in_flush_list, || flushing.push(link.id));
            }
        }
    }

    /// Takes a connection out of the table that has ended, and of which the protocol may not have
    /// been told.
    pub(crate) fn next_ended(&mut self) -> Option<Box<Link<S>>> {
        loop {
            // The protocol was told of one that has left the table meanwhile.
            let id = self.ended.pop()?;
            if let Some(link) = self.table.take(id) {
                return Some(link);
            }
        }
    }

    /// Ends the session of a connection that has ended: it may log on again elsewhere.
    pub(crate) fn free_session(&mut self, link: &mut Link<S>) {
        let Some(session) = link.session.take() else { return };
        let carriers = self.sessions.get_mut(&session.session_id).expect("it was counted");
        carriers.count -= 1;
        if carriers.count == 0 {
            self.sessions.remove(&session.session_id);
        }
    }

    /// Has the output of those connections sent for which `is_due` returns true.
    pub(crate) fn touch_where(&mut self, mut is_due: impl FnMut(&mut Link<S>) -> bool) {
        let Links { table, flushing, .. } = self;
        for link in table.iter_mut() {
            if is_due(link) {
                list(&mut link.in_flush_list, || flushing.push(link.id));
            }
        }
    }

    /// Takes in an event of a connection's socket.
    pub(crate) fn note(&mut self, id: ConnectionId, event: Event) {
        let Links { table, reading, flushing, .. } = self;
        let Some(link) = table.get_mut(id) else { return };
        link.socket.note(event);
        if link.socket.is_readable() {
            list(&mut link.in_read_list, || reading.push_back(id));
        }
        list(&mut link.in_flush_list, || flushing.push(id));
    }

    /// Has the output of a connection sent that is taken out of the table.
    pub(crate) fn touch_taken(&mut self, link: &mut Link<S>) {
        list(&mut link.in_flush_list, || self.flushing.push(link.id));
    }

    /// Ends a connection that is taken out of the table.
    pub(crate) fn close(&mut self, link: &mut Link<S>, reason: Reason, now: Nanos) {
        if self.endings.close(link, reason, now) {
            self.ended.push(link.id);
            self.touch_taken(link);
        }
    }

    /// The id of the next connection.
    pub(crate) fn reserve(&mut self) -> ConnectionId {
        self.table.reserve()
    }

    /// Gives an id back.
    pub(crate) fn release(&mut self, id: ConnectionId) {
        self.table.release(id);
    }

    /// Enters a connection under an id that was reserved.
    pub(crate) fn insert(&mut self, id: ConnectionId, socket: Socket, origin: Origin) {
        let link = Link {
            id,
            socket,
            session: None,
            is_inside: origin.is_inside,
            peer: origin.peer,
            state: S::default(),
            must_wait: false,
            has_frames: false,
            full_since: None,
            is_told_gone: false,
            in_read_list: false,
            in_flush_list: false,
        };
        self.table.put_back(id, Box::new(link));
        // Its first bytes may have come before it was registered with the poll.
        self.want_read(id);
    }

    /// Puts a connection that was taken out back into the table.
    pub(crate) fn put_back(&mut self, link: Box<Link<S>>) {
        self.table.put_back(link.id, link);
    }

    /// Removes a connection that is taken out of the table.
    pub(crate) fn remove(&mut self, link: &Link<S>) {
        assert!(link.is_told_gone && link.session.is_none(), "the protocol was told of its end");
        self.table.release(link.id);
    }

    /// A connection carries a session from its logon at `at` on.
    pub(crate) fn logged_on(&mut self, link: &mut Link<S>, session: LoggedOn, at: Nanos) {
        link.session = Some(session);
        let carriers = self.sessions.entry(session.session_id).or_default();
        carriers.count += 1;
        carriers.logged_on_at = carriers.logged_on_at.max(at);
    }

    /// Has a connection read in its turn.
    fn want_read(&mut self, id: ConnectionId) {
        if let Some(link) = self.table.get_mut(id) {
            list(&mut link.in_read_list, || self.reading.push_back(id));
        }
    }

    /// Lists a connection that is taken out of the table for another turn, if it has input that a
    /// turn can take.
    pub(crate) fn want_more(&mut self, link: &mut Link<S>) {
        // A connection whose output is full is listed when it has room.
        if !link.socket.is_open() || !link.socket.has_room() {
            return;
        }
        if link.must_wait {
            list(&mut link.in_read_list, || self.waiting.push(link.id));
        } else if link.has_frames || link.socket.is_readable() {
            list(&mut link.in_read_list, || self.reading.push_back(link.id));
        }
    }

    /// Schedules another turn for at most `waiting_max` waiting connections, before those with new
    /// input: a frame that waits for the limit of verifications would else lose each one to
    /// later frames. Returns the number of turns to take now.
    pub(crate) fn begin_turns(&mut self, waiting_max: usize) -> usize {
        let count = self.waiting.len().min(waiting_max);
        for id in self.waiting.drain(..count).rev() {
            if plant::is(Plant::LaterFramesFirst) {
                self.reading.push_back(id);
            } else {
                self.reading.push_front(id);
            }
        }
        self.reading.len()
    }

    /// Takes the next connection to read out of the table; `None` if it has gone meanwhile.
    pub(crate) fn next_turn(&mut self) -> Option<Box<Link<S>>> {
        let id = self.reading.pop_front()?;
        let mut link = self.table.take(id)?;
        link.in_read_list = false;
        Some(link)
    }

    /// Returns true if input is left for the next cycle.
    pub(crate) fn has_turns(&self) -> bool {
        !self.reading.is_empty()
    }

    /// Returns true if a connection's next frame waits for room.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the list of connections with output; [`Links::end_flush`] gives its memory back.
    pub(crate) fn begin_flush(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.flushing)
    }

    /// Takes a connection of the list out of the table.
    pub(crate) fn next_flush(&mut self, id: ConnectionId) -> Option<Box<Link<S>>> {
        let mut link = self.table.take(id)?;
        link.in_flush_list = false;
        Some(link)
    }

    /// Keeps the list's memory for the next cycle.
    pub(crate) fn end_flush(&mut self, mut list: Vec<ConnectionId>) {
        list.clear();
        list.append(&mut self.flushing);
        self.flushing = list;
    }

    /// Publishes the numbers of connections and sessions.
    pub(crate) fn show(&self) {
        self.endings.figures.connections.store(self.count() as u64, Ordering::Relaxed);
        self.endings.figures.sessions.store(self.session_count() as u64, Ordering::Relaxed);
    }
}

/// Enters something in a list unless its flag says that it is there.
fn list(flag: &mut bool, enter: impl FnOnce()) {
    if !std::mem::replace(flag, true) {
        enter();
    }
}

impl Endings {
    /// Closes a connection, counts and reports that; false when it was closed before.
    fn close<S>(&mut self, link: &mut Link<S>, reason: Reason, now: Nanos) -> bool {
        if link.socket.is_closing() {
            return false;
        }
        link.socket.close(link.session_id(), reason, now);
        if matches!(reason, Reason::LogoutRequested | Reason::Stopping) {
            return true;
        }
        self.lines.cut(link.peer, link.session_id(), reason, now);
        let figures = &self.figures;
        add(&figures.ended, 1);
        match reason {
            Reason::KeyExpired | Reason::KeyReplaced | Reason::NotEntitled => {
                add(&figures.keys_ended, 1);
            }
            Reason::TakenOver => add(&figures.sessions_taken_over, 1),
            Reason::SlowConsumer => add(&figures.slow_consumers, 1),
            Reason::LogonTimeout => add(&figures.logon_timeouts, 1),
            Reason::TooManyConnections => add(&figures.strangers_evicted, 1),
            _ => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use weir_io::SeededRng;
    use weir_io::net::{Listener, Net, Token};

    use super::*;
    use crate::socket::Limits;
    use crate::transport::Transport;

    const SECOND: Nanos = Nanos(1_000_000_000);
    const LIMITS: Limits = Limits { input_len_max: 1_024, output_len_max: 1_024 };

    /// A connection, and its peer, which reads nothing.
    fn connection(links: &mut Links<()>) -> (ConnectionId, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = Listener::from_std(listener).unwrap().accept().unwrap();
        let poll = Net::System.poll().unwrap();
        let at = (poll.registry(), Token(1));
        let socket = Socket::open(Transport::Plain(stream), LIMITS, at, Nanos(0)).unwrap();
        let id = links.reserve();
        links.insert(id, socket, Origin { peer: None, is_inside: false });
        (id, peer)
    }

    #[test]
    fn output_that_was_never_tried_is_no_slow_consumer() {
        let order = MapOrder::draw(&mut SeededRng::new(1, "links"));
        let mut links = Links::<()>::new("test", Arc::default(), &order);
        let (id, _peer) = connection(&mut links);
        let link = links.get_mut(id).unwrap();
        link.socket.output.resize(2 * LIMITS.output_len_max, 0);
        assert!(!link.is_full_for(Nanos(0), Nanos(0)), "nothing was sent yet");
        link.socket.flush(Nanos(0));
        assert!(link.end_flush(Nanos(0)), "the system's buffers take it");

        link.socket.output.resize(64 << 20, 0);
        link.socket.flush(SECOND);
        assert!(!link.end_flush(SECOND), "more than the system's buffers take");
        assert!(link.is_full_for(Nanos(0), SECOND));
        let later = Nanos(2 * SECOND.0);
        assert!(!link.end_flush(later));
        assert!(link.is_full_for(SECOND, later), "since the first flush that left it full");
        assert!(!link.is_full_for(later, later));
    }
}
