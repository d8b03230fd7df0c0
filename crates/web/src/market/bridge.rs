//! A bridge between a WebSocket and a flush thread: translates requests in one direction and
//! messages in the other.
//!
//! It queues nothing. While the reader's socket takes nothing, the bridge does not read from the
//! flush thread, whose output then fills, and conflation continues there as for any slow
//! subscriber.
//!
//! A session that the flush thread ends for its key or its rights gets none of the messages that
//! came before the end and that the bridge still holds.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::SinkExt as _;
use tokio::io::Ready;
use tokio::time::{Interval, MissedTickBehavior};
use weir_io::{Clock, SystemClock};
use weir_types::Reason;
use weir_wire::dialogue::NodeMessage;

use super::messages::{put_market, put_reject};
use super::pair::Pair;
use super::request::Request;
use crate::answer::bad_parameter_json;
use crate::ending::{
    CARE_INTERVAL, CLOSING_TIME, End, GOING_AWAY, POLICY_VIOLATION, SILENCE_MAX, STALL_MAX,
    takes_rights,
};
use crate::query::BadParameter;
use crate::{WebFigures, add_one};

/// The interval at which a waiting write looks for the end of the flush thread's connection.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The number of request bytes not yet taken by the flush thread at which no more are read.
const OUTGOING_MAX: usize = 16 * 1024;
/// The number of refused messages after which a reader's socket is closed.
const ERRORS_MAX: u32 = 16;

/// A reader's WebSocket and its connection to a flush thread.
pub(super) struct Bridge {
    pair: Pair,
    socket: WebSocket,
    alive_at: Instant,
    error_count: u32,
}

/// An event at the bridge.
enum Happened {
    Moved(std::io::Result<Ready>),
    SessionMessage(Option<Result<Message, axum::Error>>),
    Time,
}

impl Bridge {
    pub fn new(pair: Pair, socket: WebSocket) -> Bridge {
        Bridge { pair, socket, alive_at: Instant::now(), error_count: 0 }
    }

    /// Serves the reader until either end has gone.
    pub async fn run(mut self, figures: &WebFigures) {
        let mut care = tokio::time::interval(CARE_INTERVAL);
        care.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Messages that came with the answer to the logon are already there.
        let mut outcome = self.hand_on(figures).await;
        while outcome.is_ok() {
            outcome = self.step(&mut care, figures).await;
        }
        let farewell = match outcome {
            Err(End::Cut) => return,
            Err(End::Closed(code, reason)) => Some((code, reason)),
            _ => None,
        };
        drop(tokio::time::timeout(CLOSING_TIME, close(&mut self.socket, farewell)).await);
    }

    async fn step(&mut self, care: &mut Interval, figures: &WebFigures) -> Result<(), End> {
        let may_ask = self.pair.outgoing.len() < OUTGOING_MAX;
        let happened = tokio::select! {
            ready = self.pair.ready() => Happened::Moved(ready),
            said = self.socket.recv(), if may_ask => Happened::SessionMessage(said),
            _ = care.tick() => Happened::Time,
        };
        match happened {
            Happened::Moved(Ok(ready)) => {
                let moved = self.pair.move_bytes(ready);
                // A flush thread that could not send the reason has waited for the reader in vain.
                if ready.is_read_closed() && self.pair.logout_reason().is_none() {
                    return Err(End::Closed(GOING_AWAY, Reason::Stopping));
                }
                self.hand_on(figures).await?;
                moved.map_err(|_| End::Closed(GOING_AWAY, Reason::Stopping))
            }
            Happened::Moved(Err(_)) => Err(End::Closed(GOING_AWAY, Reason::Stopping)),
            Happened::SessionMessage(Some(Ok(message))) => self.on_message(&message, figures).await,
            Happened::SessionMessage(_) => Err(End::Gone),
            Happened::Time => self.care().await,
        }
    }

    /// Sends the reader all messages read from the flush thread, and waits until its socket has
    /// them.
    async fn hand_on(&mut self, figures: &WebFigures) -> Result<(), End> {
        if let Some(reason) = self.pair.logout_reason().filter(|reason| takes_rights(*reason)) {
            return Err(End::of(reason));
        }
        let mut count = 0;
        let mut end = Ok(());
        while let Some(message) = self.pair.next() {
            let mut text = String::with_capacity(512);
            match message {
                NodeMessage::Market(message) => put_market(&message, &mut text),
                NodeMessage::Reject(reject) => put_reject(&reject, &mut text),
                NodeMessage::Logout(logout) => {
                    end = Err(End::of(logout.reason));
                    break;
                }
                _ => continue,
            }
            count += 1;
            in_time(&mut self.pair, self.socket.feed(Message::Text(text.into()))).await?;
        }
        if count > 0 {
            in_time(&mut self.pair, self.socket.flush()).await?;
            self.alive_at = Instant::now();
            figures.market_messages.fetch_add(count, Ordering::Relaxed);
        }
        end
    }

    async fn on_message(&mut self, message: &Message, figures: &WebFigures) -> Result<(), End> {
        self.alive_at = Instant::now();
        let bad = match message {
            Message::Text(text) => match Request::parse(text.as_str(), self.pair.session_id()) {
                Ok(request) => {
                    request.put(&mut self.pair.outgoing);
                    return Ok(());
                }
                Err(bad) => bad,
            },
            Message::Binary(_) => {
                BadParameter { parameter: String::new(), what: "messages are JSON text" }
            }
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
            Message::Close(_) => return Err(End::Gone),
        };
        add_one(&figures.asks_refused);
        let refusal = bad_parameter_json(&bad).to_string();
        in_time(&mut self.pair, self.socket.send(Message::Text(refusal.into()))).await?;
        self.error_count += 1;
        if self.error_count >= ERRORS_MAX {
            return Err(End::Closed(POLICY_VIOLATION, Reason::TooManyErrors));
        }
        Ok(())
    }

    /// Sends heartbeats to both ends, and closes a reader that does not answer.
    async fn care(&mut self) -> Result<(), End> {
        if self.alive_at.elapsed() > SILENCE_MAX {
            return Err(End::Closed(POLICY_VIOLATION, Reason::HeartbeatLost));
        }
        self.pair.keep_alive(SystemClock.now());
        in_time(&mut self.pair, self.socket.send(Message::Ping(Vec::new().into()))).await
    }
}

/// Waits for a write to the reader's socket within the time limit; meanwhile sends heartbeats to
/// the flush thread, and looks whether that has ended the session.
async fn in_time(
    pair: &mut Pair,
    written: impl Future<Output = Result<(), axum::Error>>,
) -> Result<(), End> {
    let mut written = std::pin::pin!(written);
    let begun = Instant::now();
    let mut alive_at = begun;
    let mut is_open = true;
    while begun.elapsed() < STALL_MAX {
        if let Ok(written) = tokio::time::timeout(LOOK_INTERVAL, &mut written).await {
            return written.map_err(|_| End::Gone);
        }
        if is_open && pair.is_closed().await {
            is_open = false;
            pair.read_rest();
            // A flush thread that could not send the reason has waited for the reader in vain.
            if pair.logout_reason().is_none_or(takes_rights) {
                return Err(End::Cut);
            }
        }
        if is_open && alive_at.elapsed() >= CARE_INTERVAL {
            alive_at = Instant::now();
            pair.keep_alive(SystemClock.now());
            // A failure is the other end's, which is noticed above.
            let _ = pair.move_bytes(Ready::WRITABLE);
        }
    }
    Err(End::Closed(POLICY_VIOLATION, Reason::SlowConsumer))
}

/// Sends the reason, if the node closes, and reads until the peer has closed its side too: unread
/// input would make the system reset the connection and lose the output in flight.
async fn close(socket: &mut WebSocket, farewell: Option<(u16, Reason)>) {
    if let Some((code, reason)) = farewell {
        let frame = CloseFrame { code, reason: format!("{reason:?}").into() };
        if socket.send(Message::Close(Some(frame))).await.is_err() {
            return;
        }
    }
    while let Some(Ok(_)) = socket.recv().await {}
}
