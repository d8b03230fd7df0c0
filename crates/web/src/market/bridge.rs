//! Between a WebSocket and a flush thread: requests one way, messages the other, each in the
//! other's language.
//!
//! Nothing is queued here. What the reader's socket does not take is not asked for from the flush
//! thread, whose output then fills, and conflation goes on there as for any slow subscriber.

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

use super::pair::Pair;
use super::request::Request;
use super::said::{put_market, put_reject};
use crate::answer::bad_parameter_json;
use crate::ask::BadParameter;
use crate::{WebFigures, add_one};

/// How often the reader is asked whether it is there.
const CARE_INTERVAL: Duration = Duration::from_secs(20);
/// How long a reader may be silent that is told nothing.
const SILENCE_MAX: Duration = Duration::from_secs(50);
/// How often in a row a socket may take nothing of what is there for it when it is looked at.
const STALLS_MAX: u32 = 15;
/// How long a reader has to read why it is to go, and what was sent before.
const CLOSING_TIME: Duration = Duration::from_secs(60);
/// Requests that the flush thread has not taken, in bytes: no more are read then.
const OUTGOING_MAX: usize = 16 * 1024;
/// Messages of a reader's that are refused before its socket is closed.
const ERRORS_MAX: u32 = 16;
/// What a close says that is the reader's fault (RFC 6455, 7.4.1).
const POLICY_VIOLATION: u16 = 1008;
/// What it says when the node goes away.
const GOING_AWAY: u16 = 1001;

/// A reader.
pub(super) struct Bridge {
    pair: Pair,
    socket: WebSocket,
    alive_at: Instant,
    error_count: u32,
}

/// What ends it.
#[derive(Debug)]
enum End {
    /// The peer is gone.
    Gone,
    /// It is told why.
    Closed(u16, Reason),
}

/// What happened.
enum Happened {
    Moved(std::io::Result<Ready>),
    Said(Option<Result<Message, axum::Error>>),
    Time,
}

impl Bridge {
    pub fn new(pair: Pair, socket: WebSocket) -> Bridge {
        Bridge { pair, socket, alive_at: Instant::now(), error_count: 0 }
    }

    /// Serves the reader until one of both is gone.
    pub async fn run(mut self, figures: &WebFigures) {
        let mut care = tokio::time::interval(CARE_INTERVAL);
        care.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What came with the answer to the logon is there already.
        let mut outcome = self.hand_on(figures).await;
        while outcome.is_ok() {
            outcome = self.step(&mut care, figures).await;
        }
        let farewell = match outcome {
            Err(End::Closed(code, reason)) => Some((code, reason)),
            _ => None,
        };
        drop(tokio::time::timeout(CLOSING_TIME, close(&mut self.socket, farewell)).await);
    }

    async fn step(&mut self, care: &mut Interval, figures: &WebFigures) -> Result<(), End> {
        let may_ask = self.pair.outgoing.len() < OUTGOING_MAX;
        let happened = tokio::select! {
            ready = self.pair.ready() => Happened::Moved(ready),
            said = self.socket.recv(), if may_ask => Happened::Said(said),
            _ = care.tick() => Happened::Time,
        };
        match happened {
            Happened::Moved(Ok(ready)) => {
                let moved = self.pair.move_bytes(ready);
                self.hand_on(figures).await?;
                moved.map_err(|_| End::Closed(GOING_AWAY, Reason::Stopping))
            }
            Happened::Moved(Err(_)) => Err(End::Closed(GOING_AWAY, Reason::Stopping)),
            Happened::Said(Some(Ok(message))) => self.on_message(&message, figures).await,
            Happened::Said(_) => Err(End::Gone),
            Happened::Time => self.care().await,
        }
    }

    /// Tells the reader all that was read of the flush thread, and waits until its socket has it.
    async fn hand_on(&mut self, figures: &WebFigures) -> Result<(), End> {
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

    /// Says to both that the other is there, and gives up on a reader that does not answer.
    async fn care(&mut self) -> Result<(), End> {
        if self.alive_at.elapsed() > SILENCE_MAX {
            return Err(End::Closed(POLICY_VIOLATION, Reason::HeartbeatLost));
        }
        self.pair.keep_alive(SystemClock.now());
        in_time(&mut self.pair, self.socket.send(Message::Ping(Vec::new().into()))).await
    }
}

impl End {
    /// What a flush thread ends its connection for.
    fn of(reason: Reason) -> End {
        let is_ours = matches!(reason, Reason::Stopping | Reason::Overloaded);
        End::Closed(if is_ours { GOING_AWAY } else { POLICY_VIOLATION }, reason)
    }
}

/// Waits for a socket as long as one may; meanwhile the flush thread is told that somebody is
/// there.
async fn in_time(
    pair: &mut Pair,
    written: impl Future<Output = Result<(), axum::Error>>,
) -> Result<(), End> {
    let mut written = std::pin::pin!(written);
    for _ in 0..STALLS_MAX {
        match tokio::time::timeout(CARE_INTERVAL, &mut written).await {
            Ok(written) => return written.map_err(|_| End::Gone),
            Err(_) => {
                pair.keep_alive(SystemClock.now());
                // When its end is gone, that is seen once the socket takes something again.
                let _ = pair.move_bytes(Ready::WRITABLE);
            }
        }
    }
    Err(End::Closed(POLICY_VIOLATION, Reason::SlowConsumer))
}

/// Says why, where it is the node that ends it, and reads on until the peer has closed its side
/// too: with what it said and nobody read the system would cut the connection, and lose what is
/// still on its way to it.
async fn close(socket: &mut WebSocket, farewell: Option<(u16, Reason)>) {
    if let Some((code, reason)) = farewell {
        let frame = CloseFrame { code, reason: format!("{reason:?}").into() };
        if socket.send(Message::Close(Some(frame))).await.is_err() {
            return;
        }
    }
    while let Some(Ok(_)) = socket.recv().await {}
}
