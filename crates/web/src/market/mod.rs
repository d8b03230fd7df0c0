//! Market data over WebSocket: `GET /market`, the dialogue of the binary protocol in JSON
//! (`docs/protocols/web.md`).
//!
//! To a flush thread, a reader is a subscriber like any other: its task logs on there through a
//! socket pair inside the node ([`weir_marketgate::gateway::local`]) and translates between JSON
//! and the binary protocol ([`messages`], [`request`]). The tasks have their own thread, so that
//! order state over HTTP does not wait while quotes are written.

mod bridge;
pub mod messages;
mod pair;
pub mod request;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use tokio::runtime::{Builder, Handle, Runtime};
use weir_marketgate::gateway::local::LocalDoors;
use weir_types::Reason;

use self::bridge::Bridge;
use self::pair::Pair;
use super::answer::refused;
use super::query::credentials;
use super::{WebFigures, add_one};

/// The maximum length of a reader's message, in bytes.
const MESSAGE_LEN_MAX: usize = 16 * 1024;
/// The number of bytes gathered before a write.
const WRITE_LEN: usize = 32 * 1024;
/// The maximum number of gathered bytes: a message of a thousand orders exceeds `WRITE_LEN`.
const WRITE_LEN_MAX: usize = 1024 * 1024;

/// The state for readers' requests.
pub(super) struct MarketDoor {
    doors: LocalDoors,
    tasks: Handle,
    figures: Arc<WebFigures>,
}

impl MarketDoor {
    /// Returns a connector to these flush threads; readers are served on the runtime of `tasks`.
    pub fn new(doors: LocalDoors, tasks: Handle, figures: Arc<WebFigures>) -> MarketDoor {
        MarketDoor { doors, tasks, figures }
    }

    /// Logs a session on at a flush thread, within the runtime that will serve it.
    async fn enter(&self, headers: &HeaderMap) -> Result<Pair, Reason> {
        let (session_id, key) = credentials(headers).ok_or(Reason::UnknownKey)?;
        let stream = self.doors.connect().map_err(|_| Reason::Overloaded)?;
        let entering = self.tasks.spawn(Pair::log_on(stream, session_id, key));
        entering.await.unwrap_or(Err(Reason::Stopping))
    }

    fn count_refused(&self, reason: Reason) {
        let figures = &self.figures;
        add_one(match reason {
            Reason::UnknownKey | Reason::KeyExpired => &figures.keys_refused,
            Reason::Overloaded | Reason::Stopping => &figures.turned_away,
            _ => &figures.asks_refused,
        });
    }
}

/// Creates the runtime of readers' tasks, with one thread.
///
/// # Errors
/// When the operating system refuses it.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).thread_name("web-market").enable_all().build()
}

pub(super) fn router(door: Arc<MarketDoor>) -> Router {
    Router::new().route("/market", get(open)).with_state(door)
}

async fn open(
    State(door): State<Arc<MarketDoor>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let pair = match door.enter(&headers).await {
        Ok(pair) => pair,
        Err(reason) => {
            door.count_refused(reason);
            return refused(reason, &[]);
        }
    };
    add_one(&door.figures.entered);
    let upgrade = upgrade
        .max_message_size(MESSAGE_LEN_MAX)
        .write_buffer_size(WRITE_LEN)
        .max_write_buffer_size(WRITE_LEN_MAX);
    let door = door.clone();
    upgrade.on_upgrade(move |socket| async move {
        let figures = door.figures.clone();
        // The task runs independently; it ends when either end closes.
        drop(door.tasks.spawn(async move {
            figures.market_sockets.fetch_add(1, Ordering::Relaxed);
            Bridge::new(pair, socket).run(&figures).await;
            figures.market_sockets.fetch_sub(1, Ordering::Relaxed);
        }));
    })
}
