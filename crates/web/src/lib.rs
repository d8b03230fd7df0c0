//! Order state over HTTP, and market data where the node has it ([`market`]).
//!
//! Order state: `GET /orders` as a long poll, `/orders/stream` over WebSocket, in JSON, with the
//! same tokens as over the binary protocol (`docs/protocols/web.md`).
//!
//! It has its own threads. One runs HTTP on tokio; the other, an agent, checks keys, passes queries
//! to the delivery store and routes each page to its reader ([`hub`]). A reader has at most one
//! query at the store for each of its subscriptions and sends the next when the page before is
//! written: a slow reader queries less often, and costs one page of memory.

mod answer;
mod ending;
pub mod http;
mod hub;
pub mod market;
pub mod order_json;
mod orders;
pub mod plant;
mod query;
mod scales;
mod seats;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::sync::oneshot::{Receiver, channel};
use weir_marketgate::gateway::local::LocalDoors;

use self::http::{HttpFigures, HttpReport, HttpServer};
use self::market::MarketDoor;

pub use hub::{Hub, HubAgent, HubParts};
pub use seats::ReaderLimits;

weir_runtime::figures! {
    /// The counters of order state and market data over HTTP.
    pub struct WebCounts in WebFigures {
        /// Queries over HTTP and subscriptions over WebSocket that were accepted.
        counter entered,
        /// Queries and subscriptions refused because of their key.
        counter keys_refused as "refused_total{for=\"key\"}",
        /// Queries and subscriptions refused because of the query.
        counter asks_refused as "refused_total{for=\"question\"}",
        /// Queries and subscriptions refused because the maximum was reached, or because the node
        /// did not answer in time.
        counter turned_away as "refused_total{for=\"room\"}",
        /// Queries and WebSockets refused because the session has as many as it may.
        counter session_bounded as "refused_total{for=\"session\"}",
        /// WebSockets without a subscription closed to make place for others.
        counter sockets_evicted,
        /// Readers of order state ended because their key expired or was replaced, or because
        /// their session has another firm or role.
        counter keys_ended,
        /// Pages sent.
        counter pages,
        /// Current queries and WebSockets, until their connections have ended.
        gauge readers,
        /// Current WebSockets of order state.
        gauge sockets,
        /// Current WebSockets of market data.
        gauge market_sockets,
        /// Market-data messages sent.
        counter market_messages,
    }
}

/// Order state and market data over HTTP, on the status page.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct WebReport {
    /// The counters.
    #[serde(flatten)]
    pub counts: WebCounts,
    /// The connections.
    #[serde(flatten)]
    pub http: HttpReport,
}

impl WebReport {
    /// Returns the current figures.
    #[must_use]
    pub fn of(figures: &WebFigures, http: &HttpFigures) -> WebReport {
        WebReport { counts: figures.report(), http: http.report() }
    }
}

/// The number of connections that readers may keep between their queries.
const BETWEEN_QUERIES_MAX: usize = 1_024;
/// The time that connections have to end when the node stops.
const CLOSING_TIME: Duration = Duration::from_secs(1);
/// The interval at which the end of the last WebSocket is looked for.
const CLOSING_LOOK: Duration = Duration::from_millis(5);

/// Returns the number of connections that a server of this many readers may have.
#[must_use]
pub fn connections_max(readers_max: usize) -> usize {
    readers_max + BETWEEN_QUERIES_MAX
}

fn add_one(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}

/// The thread that serves HTTP.
pub struct WebServer {
    address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// The runtime for readers of market data, where there is any.
    market: Option<tokio::runtime::Runtime>,
}

impl WebServer {
    /// Serves `hub`'s orders on a listening socket, and market data from the flush threads behind
    /// `doors`.
    ///
    /// # Errors
    /// When the operating system refuses a thread or the socket.
    pub fn start(
        listener: std::net::TcpListener,
        hub: Hub,
        doors: Option<LocalDoors>,
    ) -> std::io::Result<WebServer> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let market = doors.is_some().then(market::runtime).transpose()?;
        let door = doors.zip(market.as_ref()).map(|(doors, market)| {
            let figures = hub.figures.clone();
            Arc::new(MarketDoor::new(doors, market.handle().clone(), figures))
        });
        let (stop, told_to_stop) = channel();
        let thread = std::thread::Builder::new().name("web".to_owned()).spawn(move || {
            runtime.block_on(serve(listener, hub, door, told_to_stop));
            runtime.shutdown_background();
        })?;
        Ok(WebServer { address, stop: Some(stop), thread: Some(thread), market })
    }

    /// Returns the listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server, and waits at most a second for its connections to end. To be called when
    /// the threads that answer readers have stopped: readers have their reason then.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok(), "the thread of HTTP panicked");
        }
        if let Some(market) = self.market.take() {
            market.shutdown_background();
        }
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Serves until told to stop; a dropped sender also means stop.
async fn serve(
    listener: std::net::TcpListener,
    hub: Hub,
    door: Option<Arc<MarketDoor>>,
    told_to_stop: Receiver<()>,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let (figures, http) = (hub.figures.clone(), hub.http.clone());
    let connections_max = connections_max(hub.limits.readers_max);
    let server = HttpServer::new(router(Arc::new(hub), door), connections_max, http);
    let (close, closing) = channel::<()>();
    let mut serving = std::pin::pin!(server.serve(listener, async { drop(closing.await) }));
    tokio::select! {
        biased;
        _ = told_to_stop => {}
        () = &mut serving => unreachable!("it was not told to stop"),
    }
    drop(close);
    let ended = async {
        serving.await;
        // The server does not count WebSockets among its connections.
        while is_any_socket_open(&figures) {
            tokio::time::sleep(CLOSING_LOOK).await;
        }
    };
    // Whoever does not read is disconnected then.
    drop(tokio::time::timeout(CLOSING_TIME, ended).await);
}

fn is_any_socket_open(figures: &WebFigures) -> bool {
    let counts = [&figures.sockets, &figures.market_sockets];
    counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
}

fn router(hub: Arc<Hub>, market: Option<Arc<MarketDoor>>) -> Router {
    let orders = Router::new()
        .route("/orders", get(orders::fetch))
        .route("/orders/stream", get(stream::open))
        .with_state(hub);
    match market {
        None => orders,
        Some(door) => orders.merge(market::router(door)),
    }
}
