//! An HTTP server with bounds: on its connections, and on the time that a request's header takes.
//!
//! A connection costs a descriptor, and the logs of the same process need descriptors too. At the
//! bound, and where descriptors are short, a newcomer takes the place of a connection without a
//! request under way, the oldest of the host that has most; a connection whose request is being
//! answered keeps its own until its peer has read the answer, or has had time to
//! ([`READING_TIME_MAX`]). One host has at most three quarters of the places. So a crowd of
//! connections from one address, silent or not, keeps neither monitoring nor readers out. A
//! WebSocket leaves its place when it is open: those who serve it have bounds of their own. An
//! answer may end before it is written, with the right to read it ([`Unwritten`]).

mod unwritten;

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use weir_door::strangers::{Strangers, host_of};
use weir_io::descriptors::{DescriptorRoom, room_beside};
use weir_io::monotonic_now;
use weir_runtime::LineLimit;
use weir_types::Nanos;

use self::unwritten::Flushing;
pub use self::unwritten::Unwritten;

/// The time that a request's header may take, from the connection or from the answer before.
const HEADER_TIME_MAX: Duration = Duration::from_secs(30);
/// The time for which an answer that its peer does not read keeps its connection's place.
const READING_TIME_MAX: Nanos = Nanos(30_000_000_000);
/// The pause after a failed accept: descriptors are short, and others give some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The time without a failed accept after which a shortage is over, in nanoseconds: 1 s. While
/// connections come and go, single ones are accepted.
const SHORTAGE_PAUSE: u64 = 1_000_000_000;
/// The time without a failed accept after which the next one begins another shortage, though no
/// connection has come in between: a minute.
const SHORTAGE_MAX: u64 = 60_000_000_000;
/// The share of the process's descriptors that one server may use.
const DESCRIPTORS_SHARE: u64 = 4;

weir_runtime::figures! {
    /// The connections of an HTTP server.
    pub struct HttpReport in HttpFigures {
        /// Open HTTP connections, without WebSockets.
        gauge http_connections,
        /// HTTP connections closed to make place for newcomers: without a request, or unread.
        counter http_evicted,
        /// HTTP connections refused because requests have all places.
        counter http_refused,
        /// Connections that could not be accepted, usually for lack of descriptors.
        counter accept_failures,
    }
}

/// An HTTP server.
pub struct HttpServer {
    router: Router,
    slots: Arc<ConnectionSlots>,
    lines: LineLimit,
    shortage: Shortage,
}

/// A time in which connections are not accepted, usually for lack of descriptors. It is told when
/// it begins and when it ends, not at each try.
#[derive(Debug, Default)]
struct Shortage {
    /// The time of the last connection that was not accepted; `None` when there is no shortage.
    failed_at: Option<Nanos>,
    /// The number of those since it began.
    count: u64,
}

impl Shortage {
    /// Notes a connection that was not accepted; returns true when that begins a shortage: also
    /// where the one before was over without a word, as no connection came.
    fn failed(&mut self, now: Nanos) -> bool {
        let before = self.failed_at.replace(now);
        let begins = before.is_none_or(|before| now.since(before).0 >= SHORTAGE_MAX);
        self.count = if begins { 1 } else { self.count + 1 };
        begins
    }

    /// Notes a connection that was accepted; returns the number of those that were not, when that
    /// ends a shortage.
    fn accepted(&mut self, now: Nanos) -> Option<u64> {
        if now.since(self.failed_at?).0 < SHORTAGE_PAUSE {
            return None;
        }
        self.failed_at = None;
        Some(std::mem::take(&mut self.count))
    }
}

/// The places of connections.
struct ConnectionSlots {
    connections_max: usize,
    figures: Arc<HttpFigures>,
    next: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// The connections without a request under way.
    idle: Strangers<u64>,
    /// The connections whose last answer is made and not read.
    unread: Strangers<u64>,
    /// The same by the time of the answer.
    by_answer: BTreeSet<(Nanos, u64)>,
    /// All connections.
    connections: HashMap<u64, Connection>,
    /// The number of connections by host; never zero.
    hosts: HashMap<IpAddr, usize>,
}

struct Connection {
    host: IpAddr,
    /// The word by which it is closed.
    evicted: Arc<Notify>,
    /// The time of the answer that is not read.
    answered_at: Nanos,
}

/// The states of a connection that has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its request is being answered.
    Asked,
    /// Its answer is made, and not all of it is in the socket.
    Unread(Nanos),
    /// No request is under way.
    Idle,
}

/// A connection's place; left when it is dropped.
struct ConnectionSlot {
    number: u64,
    /// An answer is made that the connection has not flushed.
    is_unread: AtomicBool,
    evicted: Arc<Notify>,
    slots: Arc<ConnectionSlots>,
}

/// The routes, for one connection.
struct Answering {
    routes: TowerToHyperService<Router>,
    slot: Arc<ConnectionSlot>,
    unwritten: Unwritten,
}

impl HttpServer {
    /// Creates a server of at most `connections_max` connections, and of at most a quarter of the
    /// descriptors that the process may have.
    #[must_use]
    pub fn new(router: Router, connections_max: usize, figures: Arc<HttpFigures>) -> HttpServer {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = limit.map_or(u64::MAX, |limit| limit / DESCRIPTORS_SHARE);
        let connections_max = connections_max.min(usize::try_from(share).unwrap_or(usize::MAX));
        let (next, held) = (AtomicU64::new(1), Mutex::default());
        let slots = Arc::new(ConnectionSlots { connections_max, figures, next, held });
        HttpServer { router, slots, lines: LineLimit::default(), shortage: Shortage::default() }
    }

    /// Serves until `stop` is over, and then until the last connection has ended.
    pub async fn serve(mut self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let (close, closing) = watch::channel(());
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    self.admit(stream, peer, closing.clone());
                    // A connection that made place has its descriptor until its task has run.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    self.slots.figures.accept_failures.fetch_add(1, Ordering::Relaxed);
                    self.note_failure(&error, monotonic_now());
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop((listener, closing));
        close.send_replace(());
        close.closed().await;
    }

    /// Tells a connection that was not accepted, if it is the first one of a shortage.
    fn note_failure(&mut self, error: &dyn std::fmt::Display, now: Nanos) {
        if self.shortage.failed(now) {
            tracing::warn!(%error, "HTTP connections are not accepted until this ends");
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, closing: watch::Receiver<()>) {
        let room = room_beside(stream.as_fd());
        let now = monotonic_now();
        let slot = self.slots.enter(peer.ip(), room, now);
        if room == DescriptorRoom::None {
            self.slots.figures.http_refused.fetch_add(1, Ordering::Relaxed);
            return self.note_failure(&"no descriptor is left for connections", now);
        }
        if let Some(failures) = self.shortage.accepted(now) {
            tracing::info!(failures, "HTTP connections are accepted again");
        }
        let Some(slot) = slot else {
            self.slots.figures.http_refused.fetch_add(1, Ordering::Relaxed);
            if let Some(suppressed) = self.lines.permit(now) {
                let why = "requests have all places";
                tracing::warn!(%peer, why, suppressed, "HTTP connection turned away");
            }
            return;
        };
        // Disables Nagle's algorithm, so that small messages are sent at once. A connection that
        // refuses the option is served anyway.
        drop(stream.set_nodelay(true));
        let routes = TowerToHyperService::new(self.router.clone());
        let (slot, unwritten) = (Arc::new(slot), Unwritten::default());
        let answering = Answering { routes, slot, unwritten };
        tokio::spawn(serve_connection(stream, answering, closing));
    }
}

async fn serve_connection(
    stream: TcpStream,
    answering: Answering,
    mut closing: watch::Receiver<()>,
) {
    let (slot, unwritten) = (answering.slot.clone(), answering.unwritten.clone());
    let evicted = slot.evicted.clone();
    let flushed = Box::new(move || slot.is_flushed());
    let stream = TokioIo::new(Flushing::new(stream, unwritten.clone(), flushed));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME_MAX);
    let serving = builder.serve_connection(stream, answering).with_upgrades();
    let mut serving = pin!(serving);
    let mut is_closing = false;
    loop {
        tokio::select! {
            // Its failure is its peer's: who is gone is not told.
            () = poll_fn(|context| unwritten.poll(serving.as_mut(), context)) => return,
            () = evicted.notified() => return,
            _ = closing.changed(), if !is_closing => {
                is_closing = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

impl Held {
    /// Removes a connection; returns the word by which it is closed, if it was there.
    fn forget(&mut self, number: u64) -> Option<Arc<Notify>> {
        let Connection { host, evicted, answered_at } = self.connections.remove(&number)?;
        self.idle.leave(number);
        self.unread.leave(number);
        self.by_answer.remove(&(answered_at, number));
        let count = self.hosts.get_mut(&host).expect("each connection's host is counted");
        *count -= 1;
        if *count == 0 {
            self.hosts.remove(&host);
        }
        Some(evicted)
    }

    /// Returns the connection that makes place for a newcomer: of one host, or of the host that
    /// has most. Where the host with most answers that are not read has none that is late, it is
    /// the latest of all: else a host with few keeps its places for as long as others read.
    fn dispensable(&self, host: Option<IpAddr>, now: Nanos) -> Option<u64> {
        let oldest = |among: &Strangers<u64>| match host {
            Some(host) => among.oldest_of(host),
            None => among.oldest_of_the_largest_crowd(),
        };
        let is_late =
            |number: &u64| now.since(self.connections[number].answered_at) >= READING_TIME_MAX;
        let latest = || self.by_answer.first().map(|(_, number)| *number);
        oldest(&self.idle)
            .or_else(|| oldest(&self.unread).filter(is_late))
            .or_else(|| latest().filter(|_| host.is_none()).filter(is_late))
    }

    fn set_state(&mut self, number: u64, state: State) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        self.idle.leave(number);
        self.unread.leave(number);
        self.by_answer.remove(&(connection.answered_at, number));
        match state {
            State::Asked => {}
            State::Unread(now) => {
                connection.answered_at = now;
                self.unread.enter(number, connection.host);
                self.by_answer.insert((now, number));
            }
            State::Idle => self.idle.enter(number, connection.host),
        }
    }
}

impl ConnectionSlots {
    /// Takes a place, if need be of a connection without a request; `None` if there is none.
    fn enter(
        self: &Arc<ConnectionSlots>,
        peer: IpAddr,
        room: DescriptorRoom,
        now: Nanos,
    ) -> Option<ConnectionSlot> {
        let mut held = self.held();
        let host = host_of(peer);
        let of_host = held.hosts.get(&host).copied().unwrap_or(0);
        let is_full = held.connections.len() >= self.connections_max;
        if of_host >= of_one_host(self.connections_max) {
            let one = held.dispensable(Some(host), now)?;
            self.evict(&mut held, one);
        } else if is_full || room != DescriptorRoom::Plenty {
            match held.dispensable(None, now) {
                Some(one) => self.evict(&mut held, one),
                None if is_full => return None,
                None => {}
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let evicted = Arc::new(Notify::new());
        let connection = Connection { host, evicted: evicted.clone(), answered_at: Nanos(0) };
        held.connections.insert(number, connection);
        held.set_state(number, State::Idle);
        *held.hosts.entry(host).or_default() += 1;
        self.show(&held);
        let is_unread = AtomicBool::new(false);
        Some(ConnectionSlot { number, is_unread, evicted, slots: self.clone() })
    }

    /// Closes a connection. Its place is free at once.
    fn evict(&self, held: &mut Held, number: u64) {
        held.forget(number).expect("it is held").notify_one();
        self.figures.http_evicted.fetch_add(1, Ordering::Relaxed);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, held: &Held) {
        let count = held.connections.len() as u64;
        self.figures.http_connections.store(count, Ordering::Relaxed);
    }
}

impl ConnectionSlot {
    fn set_state(&self, state: State) {
        self.slots.held().set_state(self.number, state);
    }

    /// Notes that a request is under way.
    fn is_asked(&self) {
        // SYNC: requests are taken, and answers made and flushed, by the connection's task alone.
        self.is_unread.store(false, Ordering::Relaxed);
        self.set_state(State::Asked);
    }

    /// Notes that an answer is made, which hyper buffers and then flushes.
    fn is_answered(&self, now: Nanos) {
        self.set_state(State::Unread(now));
        self.is_unread.store(true, Ordering::Relaxed);
    }

    /// Notes that the socket has all bytes of the answers that were made.
    fn is_flushed(&self) {
        if self.is_unread.swap(false, Ordering::Relaxed) {
            self.set_state(State::Idle);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut held = self.slots.held();
        // One that was evicted has left its place before.
        let _ = held.forget(self.number);
        self.slots.show(&held);
    }
}

impl hyper::service::Service<Request<Incoming>> for Answering {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.unwritten.clone());
        let answering = self.routes.call(request);
        let slot = self.slot.clone();
        Box::pin(async move {
            slot.is_asked();
            let answer = answering.await;
            slot.is_answered(monotonic_now());
            answer
        })
    }
}

/// Returns the places that one host may have.
fn of_one_host(connections_max: usize) -> usize {
    connections_max - connections_max / 4
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::oneshot;

    use super::*;

    /// More than the system takes for a peer that reads nothing.
    const LONG_LEN: usize = 32 << 20;

    #[test]
    fn a_shortage_is_told_at_both_of_its_ends_with_the_number_of_failures() {
        let at = |tenths: u64| Nanos((100 + tenths) * SHORTAGE_PAUSE / 10);
        let mut shortage = Shortage::default();
        assert_eq!(shortage.accepted(at(0)), None);
        assert!(shortage.failed(at(1)));
        assert!((2..9).all(|tenths| !shortage.failed(at(tenths))));
        // Single connections are accepted meanwhile.
        assert_eq!(shortage.accepted(at(10)), None);
        assert!(!shortage.failed(at(12)));
        assert_eq!(shortage.accepted(at(21)), None);
        assert_eq!(shortage.accepted(at(22)), Some(9));
        assert_eq!(shortage.accepted(at(23)), None);
        assert!(shortage.failed(at(24)), "the next one");
        // A night without a connection ended it, and no line did.
        assert!(!shortage.failed(at(623)));
        assert!(shortage.failed(at(1_223)), "a minute later");
        assert_eq!(shortage.accepted(at(1_233)), Some(1));
    }

    /// A server of five connections, four from one host, whose `/slow` answers when it is told to.
    struct Rig {
        address: SocketAddr,
        figures: Arc<HttpFigures>,
        slow: Arc<Notify>,
        slow_count: Arc<AtomicU64>,
        stop: oneshot::Sender<()>,
        serving: tokio::task::JoinHandle<()>,
    }

    impl Rig {
        async fn start() -> Rig {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let slow = Arc::new(Notify::new());
            let slow_count = Arc::new(AtomicU64::new(0));
            let (wait, count) = (slow.clone(), slow_count.clone());
            let long = get(async || vec![b'x'; LONG_LEN]);
            let router = Router::new().route("/quick", get(async || "quick"));
            let router = router.route("/long", long).route(
                "/slow",
                get(async move || {
                    count.fetch_add(1, Ordering::Relaxed);
                    wait.notified().await;
                    "slow"
                }),
            );
            let figures = Arc::new(HttpFigures::default());
            let server = HttpServer::new(router, 5, figures.clone());
            let (stop, told) = oneshot::channel();
            let serving = tokio::spawn(server.serve(listener, async { drop(told.await) }));
            Rig { address, figures, slow, slow_count, stop, serving }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }

        /// Connects from another host than the usual one.
        async fn connect_from_elsewhere(&self) -> TcpStream {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
            socket.connect(self.address).await.unwrap()
        }

        /// Waits until so many requests for `/slow` are under way.
        async fn until_slow(&self, count: u64) {
            while self.slow_count.load(Ordering::Relaxed) < count {
                tokio::task::yield_now().await;
            }
        }

        async fn until(&self, is_so: impl Fn(&HttpReport) -> bool) {
            while !is_so(&self.figures.report()) {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn ask(stream: &mut TcpStream, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: weir\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
    }

    /// Reads until an answer's body is there; false when the server has closed the connection.
    async fn is_answered(stream: &mut TcpStream, body: &str) -> bool {
        let (mut answer, mut bytes) = (String::new(), [0; 1_024]);
        while !answer.ends_with(body) {
            match stream.read(&mut bytes).await {
                Ok(0) | Err(_) => return false,
                Ok(len) => answer.push_str(std::str::from_utf8(&bytes[..len]).unwrap()),
            }
        }
        true
    }

    #[tokio::test]
    async fn a_crowd_of_silent_connections_keeps_nobody_out() {
        let rig = Rig::start().await;
        let mut first = rig.connect().await;
        let mut crowd = Vec::new();
        for count in 1..=20 {
            crowd.push(rig.connect().await);
            rig.until(|report| report.http_connections + report.http_evicted > count).await;
        }
        let mut good = rig.connect().await;
        ask(&mut good, "/quick").await;
        assert!(is_answered(&mut good, "quick").await);
        assert!(!is_answered(&mut first, "quick").await, "it made place");
        let HttpReport { http_connections, http_evicted, http_refused, .. } = rig.figures.report();
        assert_eq!((http_connections, http_evicted, http_refused), (4, 18, 0));
    }

    #[tokio::test]
    async fn a_connection_whose_request_is_being_answered_keeps_its_place() {
        let rig = Rig::start().await;
        let mut slow = Vec::new();
        for _ in 0..4 {
            let mut stream = rig.connect().await;
            ask(&mut stream, "/slow").await;
            slow.push(stream);
        }
        rig.until_slow(4).await;
        let mut fifth = rig.connect().await;
        assert!(!is_answered(&mut fifth, "quick").await);
        assert_eq!(rig.figures.report().http_refused, 1);
        let mut other = rig.connect_from_elsewhere().await;
        ask(&mut other, "/quick").await;
        assert!(is_answered(&mut other, "quick").await, "one host does not have all places");
        for stream in &mut slow {
            rig.slow.notify_one();
            assert!(is_answered(stream, "slow").await);
        }
        // Each has had its answer and is idle.
        let mut next = rig.connect().await;
        ask(&mut next, "/quick").await;
        assert!(is_answered(&mut next, "quick").await);
    }

    #[tokio::test]
    async fn an_answer_that_is_being_read_is_not_cut_off_for_a_newcomer() {
        let rig = Rig::start().await;
        let mut readers = Vec::new();
        for _ in 0..4 {
            let mut stream = rig.connect().await;
            ask(&mut stream, "/long").await;
            let first = stream.read_u8().await.unwrap();
            assert_eq!(first, b'H', "it has begun");
            readers.push(stream);
        }
        let mut fifth = rig.connect().await;
        assert!(!is_answered(&mut fifth, "quick").await);
        assert_eq!(rig.figures.report().http_refused, 1);
        for stream in &mut readers {
            let (mut bytes, mut left) = (vec![0; 1 << 20], LONG_LEN);
            while left > 0 {
                let count = stream.read(&mut bytes).await.unwrap();
                assert!(count > 0, "it is whole");
                left = left.saturating_sub(bytes[..count].iter().filter(|b| **b == b'x').count());
            }
        }
        // What is read makes place again.
        let mut next = rig.connect().await;
        ask(&mut next, "/quick").await;
        assert!(is_answered(&mut next, "quick").await);
    }

    #[test]
    fn an_answer_that_is_not_read_keeps_its_place_for_a_time() {
        let (figures, next, held) = Default::default();
        let slots = Arc::new(ConnectionSlots { connections_max: 5, figures, next, held });
        let host = IpAddr::from([127, 0, 0, 1]);
        let enter = |now| slots.enter(host, DescriptorRoom::Plenty, Nanos(now));
        let asked: Vec<ConnectionSlot> = (0..4).map(|_| enter(1).unwrap()).collect();
        asked.iter().for_each(ConnectionSlot::is_asked);
        asked[1].is_answered(Nanos(5));
        asked[2].is_answered(Nanos(7));
        let [first, second] = [5, 7].map(|at| at + READING_TIME_MAX.0);
        assert!(enter(first - 1).is_none());
        let newcomer = enter(first).unwrap();
        newcomer.is_asked();
        assert!(!slots.held().connections.contains_key(&asked[1].number), "it made place");
        assert!(enter(second - 1).is_none());
        // It reads at last, and asks again before a newcomer comes.
        asked[2].is_flushed();
        asked[2].is_asked();
        asked[2].is_flushed();
        assert!(enter(u64::MAX).is_none());
        asked[2].is_answered(Nanos(9));
        asked[2].is_flushed();
        assert!(enter(10).is_some(), "an idle one");
    }

    #[test]
    fn a_late_answer_keeps_no_place_beside_a_larger_crowd_that_reads() {
        let (figures, next, held) = Default::default();
        let slots = Arc::new(ConnectionSlots { connections_max: 5, figures, next, held });
        let host = |last| IpAddr::from([127, 0, 0, last]);
        let enter = |last, now| slots.enter(host(last), DescriptorRoom::Plenty, Nanos(now));
        let (late, reading) = (5, 6);
        let asked = [late, late, reading, reading, reading].map(|last| enter(last, 1).unwrap());
        asked.iter().for_each(ConnectionSlot::is_asked);
        asked[1].is_answered(Nanos(5));
        asked[0].is_answered(Nanos(7));
        let due = 5 + READING_TIME_MAX.0;
        asked[2..].iter().for_each(|slot| slot.is_answered(Nanos(due - 2)));
        assert!(enter(7, due - 1).is_none());
        let newcomer = enter(7, due).expect("a place of the host that does not read");
        newcomer.is_asked();
        assert!(!slots.held().connections.contains_key(&asked[1].number));
        assert!(enter(8, due + 1).is_none(), "the next is not late yet");
        drop(asked);
        assert_eq!(slots.held().by_answer.len(), 0);
    }

    #[tokio::test]
    async fn a_server_that_stops_answers_what_is_under_way_and_closes_the_rest() {
        let rig = Rig::start().await;
        let (mut idle, mut slow) = (rig.connect().await, rig.connect().await);
        ask(&mut idle, "/quick").await;
        assert!(is_answered(&mut idle, "quick").await);
        ask(&mut slow, "/slow").await;
        rig.until_slow(1).await;
        rig.stop.send(()).unwrap();
        assert!(!is_answered(&mut idle, "quick").await);
        rig.slow.notify_one();
        assert!(is_answered(&mut slow, "slow").await);
        rig.serving.await.unwrap();
    }
}
