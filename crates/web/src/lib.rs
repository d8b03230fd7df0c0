//! Order state over HTTP, and market data where the node has it ([`market`]).
//!
//! Order state: `GET /orders` as a long poll, `/orders/stream` over WebSocket, in JSON,
//! with the same tokens as over the binary protocol (`docs/protocols/web.md`).
//!
//! It has threads of its own. One runs HTTP on tokio; the other, an agent, checks keys, hands
//! questions to the delivery store and gives each reader the pages that are its own ([`hub`]). A
//! reader has at most one question at the store for each of its subscriptions and asks the next
//! when the page before is written: who reads slowly asks seldom, and costs a page of memory.

mod answer;
mod ask;
mod hub;
pub mod market;
pub mod order_json;
mod orders;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use weir_marketgate::gateway::local::LocalDoors;

use self::market::MarketDoor;

pub use hub::{Hub, HubAgent, HubParts};

/// What is counted.
#[derive(Debug, Default)]
pub struct WebFigures {
    /// Questions over HTTP and subscriptions over WebSocket that were let in.
    pub entered: AtomicU64,
    /// Those refused for their key.
    pub keys_refused: AtomicU64,
    /// Those refused for what they ask.
    pub asks_refused: AtomicU64,
    /// Those refused because there were as many as there may be.
    pub turned_away: AtomicU64,
    /// Pages given.
    pub pages: AtomicU64,
    /// Readers now.
    pub readers: AtomicU64,
    /// WebSockets of order state now.
    pub sockets: AtomicU64,
    /// WebSockets of market data now.
    pub market_sockets: AtomicU64,
    /// Messages of market data told.
    pub market_messages: AtomicU64,
}

/// The figures as they are told.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct WebReport {
    /// See [`WebFigures`].
    pub entered: u64,
    /// See [`WebFigures`].
    pub keys_refused: u64,
    /// See [`WebFigures`].
    pub asks_refused: u64,
    /// See [`WebFigures`].
    pub turned_away: u64,
    /// See [`WebFigures`].
    pub pages: u64,
    /// See [`WebFigures`].
    pub readers: u64,
    /// See [`WebFigures`].
    pub sockets: u64,
    /// See [`WebFigures`].
    pub market_sockets: u64,
    /// See [`WebFigures`].
    pub market_messages: u64,
}

impl WebFigures {
    /// The figures now.
    #[must_use]
    pub fn report(&self) -> WebReport {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        WebReport {
            entered: load(&self.entered),
            keys_refused: load(&self.keys_refused),
            asks_refused: load(&self.asks_refused),
            turned_away: load(&self.turned_away),
            pages: load(&self.pages),
            readers: load(&self.readers),
            sockets: load(&self.sockets),
            market_sockets: load(&self.market_sockets),
            market_messages: load(&self.market_messages),
        }
    }
}

fn add_one(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}

/// The thread that serves HTTP.
pub struct WebServer {
    address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// What serves readers of market data, where there is any.
    market: Option<tokio::runtime::Runtime>,
}

impl WebServer {
    /// Serves `hub`'s orders on a socket that listens, and market data from the flush threads
    /// behind `doors`.
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
        let (stop, told_to_stop) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("web".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                // What is told at once would wait for company otherwise; who cannot have it so is
                // told all the same.
                let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
                let serving = axum::serve(listener, router(Arc::new(hub), door));
                tokio::select! {
                    biased;
                    // Dropped without a word from its other end it is as good as told.
                    _ = told_to_stop => {}
                    outcome = serving => {
                        if let Err(error) = outcome {
                            tracing::error!(%error, "order state over HTTP ended");
                        }
                    }
                }
            });
            // Readers that wait are cut: they come again with the token that they have.
            runtime.shutdown_background();
        })?;
        Ok(WebServer { address, stop: Some(stop), thread: Some(thread), market })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it.
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
