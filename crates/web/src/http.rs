//! An HTTP server with bounds: on its connections, and on the time that a request's header takes.
//!
//! A connection costs a descriptor, and the logs of the same process need descriptors too. At the
//! bound, and where descriptors are short, a newcomer takes the place of a connection without a
//! request under way, the oldest of the host that has most; a connection whose request is being
//! answered keeps its own. One host has at most three quarters of the places. So a crowd of
//! connections from one address, silent or not, keeps neither monitoring nor readers out. A
//! WebSocket leaves its place when it is open: those who serve it have bounds of their own. An
//! answer may end before it is written, with the right to read it ([`Unwritten`]).

mod unwritten;

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
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

use self::unwritten::Flushing;
pub use self::unwritten::Unwritten;

/// The time that a request's header may take, from the connection or from the answer before.
const HEADER_TIME_MAX: Duration = Duration::from_secs(30);
/// The pause after a failed accept: descriptors are short, and others give some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The share of the process's descriptors that one server may use.
const DESCRIPTORS_SHARE: u64 = 4;

weir_runtime::figures! {
    /// The connections of an HTTP server.
    pub struct HttpReport in HttpFigures {
        /// Open HTTP connections, without WebSockets.
        gauge http_connections,
        /// HTTP connections without a request closed to make place for newcomers.
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
    connections_max: usize,
    slots: Arc<ConnectionSlots>,
    lines: LineLimit,
}

/// The places of connections.
struct ConnectionSlots {
    figures: Arc<HttpFigures>,
    next: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// The connections without a request under way.
    idle: Strangers<u64>,
    /// All connections: the host of each, and the word by which it is closed.
    connections: HashMap<u64, (IpAddr, Arc<Notify>)>,
    /// The number of connections by host; never zero.
    hosts: HashMap<IpAddr, usize>,
}

/// A connection's place; left when it is dropped.
struct ConnectionSlot {
    number: u64,
    host: IpAddr,
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
        let slots = Arc::new(ConnectionSlots { figures, next, held });
        HttpServer { router, connections_max, slots, lines: LineLimit::default() }
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
                Ok((stream, peer)) => self.admit(stream, peer, closing.clone()),
                Err(error) => {
                    self.slots.figures.accept_failures.fetch_add(1, Ordering::Relaxed);
                    if let Some(suppressed) = self.lines.permit(monotonic_now()) {
                        tracing::warn!(%error, suppressed, "no HTTP connection was accepted");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop((listener, closing));
        close.send_replace(());
        close.closed().await;
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, closing: watch::Receiver<()>) {
        let room = room_beside(stream.as_fd());
        let slot = self.slots.enter(peer.ip(), self.connections_max, room);
        let Some(slot) = slot.filter(|_| room != DescriptorRoom::None) else {
            self.slots.figures.http_refused.fetch_add(1, Ordering::Relaxed);
            if let Some(suppressed) = self.lines.permit(monotonic_now()) {
                let why = "requests have all places, or no descriptor is left";
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
    let (evicted, unwritten) = (answering.slot.evicted.clone(), answering.unwritten.clone());
    let stream = TokioIo::new(Flushing::new(stream, unwritten.clone()));
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
        let (host, evicted) = self.connections.remove(&number)?;
        self.idle.leave(number);
        let count = self.hosts.get_mut(&host).expect("each connection's host is counted");
        *count -= 1;
        if *count == 0 {
            self.hosts.remove(&host);
        }
        Some(evicted)
    }
}

impl ConnectionSlots {
    /// Takes a place, if need be of a connection without a request; `None` if there is none.
    fn enter(
        self: &Arc<ConnectionSlots>,
        peer: IpAddr,
        connections_max: usize,
        room: DescriptorRoom,
    ) -> Option<ConnectionSlot> {
        let mut held = self.held();
        let host = host_of(peer);
        let of_host = held.hosts.get(&host).copied().unwrap_or(0);
        let is_full = held.connections.len() >= connections_max;
        if of_host >= of_one_host(connections_max) {
            let idle = held.idle.oldest_of(host)?;
            self.evict(&mut held, idle);
        } else if is_full || room != DescriptorRoom::Plenty {
            match held.idle.oldest_of_the_largest_crowd() {
                Some(idle) => self.evict(&mut held, idle),
                None if is_full => return None,
                None => {}
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let evicted = Arc::new(Notify::new());
        held.idle.enter(number, host);
        held.connections.insert(number, (host, evicted.clone()));
        *held.hosts.entry(host).or_default() += 1;
        self.show(&held);
        Some(ConnectionSlot { number, host, evicted, slots: self.clone() })
    }

    /// Closes a connection without a request. Its place is free at once.
    fn evict(&self, held: &mut Held, idle: u64) {
        held.forget(idle).expect("an idle one is held").notify_one();
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
    /// Notes that a request is under way, or none.
    fn set_busy(&self, is_busy: bool) {
        let mut held = self.slots.held();
        if is_busy {
            held.idle.leave(self.number);
        } else if held.connections.contains_key(&self.number) {
            held.idle.enter(self.number, self.host);
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
            slot.set_busy(true);
            let answer = answering.await;
            slot.set_busy(false);
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
            let router = Router::new().route("/quick", get(async || "quick")).route(
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
