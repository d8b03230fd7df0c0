//! `/orders/stream` over WebSocket: snapshot, then live rows, for several subscriptions at a time.
//!
//! A subscription has one query at the store at a time and sends the next when the page before is
//! written, so a socket that is not read stops querying. With credit it queries as long as it has
//! rows and bytes left.
//!
//! | the socket | closed with |
//! | --- | --- |
//! | is without a subscription for `idle_s` | `NothingSubscribed` |
//! | is silent, and takes nothing, for [`SILENCE_MAX`] | `HeartbeatLost` |
//! | takes nothing of a message for [`STALL_MAX`] | `SlowConsumer` |
//! | has a query that the store does not answer | `Overloaded` |
//! | has no subscription, and others need its place | `Overloaded` |
//!
//! INVARIANT: a write waits no longer than the reader's key and rights last, and at most
//! [`STALL_MAX`]: a peer that does not read keeps neither the task nor its page.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::time::Instant;
use weir_types::Reason;

use super::add_one;
use super::answer::{Answer, bad_parameter_json, refusal_json, refused};
use super::ending::{
    CARE_INTERVAL, CLOSING_TIME, End, GOING_AWAY, POLICY_VIOLATION, SILENCE_MAX, STALL_MAX,
};
use super::hub::{Hub, Reader, SUBSCRIPTIONS_MAX};
use super::query::{BadParameter, OrderQuery, credentials};

/// The maximum length of a reader's message, in bytes.
const MESSAGE_LEN_MAX: usize = 16 * 1024;
/// The number of refused messages after which a reader's socket is closed.
const ERRORS_MAX: u32 = 16;

pub async fn open(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let Some((session_id, key)) = credentials(&headers) else {
        add_one(&hub.figures.keys_refused);
        return refused(Reason::UnknownKey, &[]);
    };
    match hub.enter(session_id, key).await {
        Ok(reader) => {
            upgrade.max_message_size(MESSAGE_LEN_MAX).on_upgrade(move |socket| async move {
                let _counted = Counted::new(&hub.figures.sockets);
                Stream::new(reader, socket).run(&hub).await;
            })
        }
        Err(reason) => refused(reason, &[]),
    }
}

/// A socket in a gauge, until it is dropped.
struct Counted<'a>(&'a AtomicU64);

impl Counted<'_> {
    fn new(gauge: &AtomicU64) -> Counted<'_> {
        gauge.fetch_add(1, Ordering::Relaxed);
        Counted(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The remaining credit of a subscription; `None` for no limit.
#[derive(Clone, Copy, Debug, Default)]
struct Credit {
    rows: Option<u64>,
    bytes: Option<u64>,
}

impl Credit {
    fn is_used_up(&self) -> bool {
        self.rows == Some(0) || self.bytes == Some(0)
    }

    fn spend(&mut self, rows: u64, bytes: u64) {
        self.rows = self.rows.map(|left| left.saturating_sub(rows));
        self.bytes = self.bytes.map(|left| left.saturating_sub(bytes));
    }

    /// Adds credit; an unlimited dimension stays unlimited.
    fn add(&mut self, more: Credit) {
        let sum = |left: Option<u64>, more: Option<u64>| {
            left.map(|left| left.saturating_add(more.unwrap_or(0)))
        };
        *self = Credit { rows: sum(self.rows, more.rows), bytes: sum(self.bytes, more.bytes) };
    }
}

struct Subscription {
    ask: OrderQuery,
    credit: Credit,
    /// The number of its query at the store, while there is one.
    asked: Option<u64>,
}

struct Stream {
    reader: Reader,
    socket: WebSocket,
    subscriptions: HashMap<u32, Subscription>,
    /// Queries at the store, including those of subscriptions that have ended, and the times by
    /// which they are answered.
    asked: HashMap<u64, Instant>,
    /// The time since which there is no subscription, if there is none.
    idle_since: Instant,
    /// The time of the last sign of the peer: a message of it, or one that its socket took.
    alive_at: Instant,
    ping_at: Instant,
    question_no: u32,
    error_count: u32,
    /// False while a message is not written completely.
    is_whole: bool,
}

impl Stream {
    fn new(reader: Reader, socket: WebSocket) -> Stream {
        reader.set_idle(true);
        let now = Instant::now();
        Stream {
            reader,
            socket,
            subscriptions: HashMap::new(),
            asked: HashMap::new(),
            idle_since: now,
            alive_at: now,
            ping_at: now + CARE_INTERVAL,
            question_no: 0,
            error_count: 0,
            is_whole: true,
        }
    }

    async fn run(&mut self, hub: &Hub) {
        let end = loop {
            let care_at = self.next_care(hub);
            let outcome = tokio::select! {
                page = self.reader.next_page() => match page {
                    Ok(frames) => self.on_pages(&frames, hub).await,
                    Err(reason) => Err(End::of(reason)),
                },
                message = self.socket.recv() => match message {
                    Some(Ok(message)) => self.on_message(message, hub).await,
                    Some(Err(_)) | None => Err(End::Gone),
                },
                () = tokio::time::sleep_until(care_at) => self.care(hub).await,
            };
            if let Err(end) = outcome {
                break end;
            }
        };
        if let End::Closed(code, reason) = end {
            self.close(code, reason).await;
        }
    }

    /// Returns the time of the next call of [`Stream::care`].
    fn next_care(&self, hub: &Hub) -> Instant {
        let is_idle = self.subscriptions.is_empty();
        let idle = is_idle.then(|| self.idle_since + hub.limits.idle_max);
        let times = [self.ping_at, self.alive_at + SILENCE_MAX];
        let all = self.asked.values().copied().chain(idle).chain(times);
        all.min().expect("there are two")
    }

    /// Ends a socket whose time is over, or sends it a ping.
    async fn care(&mut self, hub: &Hub) -> Result<(), End> {
        let now = Instant::now();
        if now >= self.alive_at + SILENCE_MAX {
            return Err(End::Closed(POLICY_VIOLATION, Reason::HeartbeatLost));
        }
        if self.subscriptions.is_empty() && now >= self.idle_since + hub.limits.idle_max {
            return Err(End::Closed(POLICY_VIOLATION, Reason::NothingSubscribed));
        }
        // An answer may have come while a message was written.
        let is_late = self.asked.values().any(|answered_by| now >= *answered_by);
        if is_late && !self.reader.has_page() {
            return Err(End::Closed(GOING_AWAY, Reason::Overloaded));
        }
        if now >= self.ping_at {
            self.ping_at = now + CARE_INTERVAL;
            self.write(Message::Ping(Vec::new().into())).await?;
        }
        Ok(())
    }

    /// Sends the reason for the end, if the peer takes it in time and nothing comes before it that
    /// the reader may not have any more.
    async fn close(&mut self, code: u16, reason: Reason) {
        let is_whole = self.is_whole;
        let frame = CloseFrame { code, reason: format!("{reason:?}").into() };
        let told = self.socket.send(Message::Close(Some(frame)));
        tokio::select! {
            biased;
            // A failure is irrelevant: the peer has gone.
            _ = tokio::time::timeout(CLOSING_TIME, told) => {}
            () = self.reader.is_cut_off(), if !is_whole => {}
        }
    }

    async fn on_message(&mut self, message: Message, hub: &Hub) -> Result<(), End> {
        self.alive_at = Instant::now();
        let refused = match message {
            Message::Text(text) => self.take(text.as_str(), hub).await?,
            Message::Binary(_) => Some(bad("", "messages are JSON text")),
            Message::Ping(_) | Message::Pong(_) => None,
            Message::Close(_) => return Err(End::Gone),
        };
        let Some(bad) = refused else { return Ok(()) };
        add_one(&hub.figures.asks_refused);
        self.say(&bad_parameter_json(&bad)).await?;
        self.error_count += 1;
        if self.error_count >= ERRORS_MAX {
            return Err(End::Closed(POLICY_VIOLATION, Reason::TooManyErrors));
        }
        Ok(())
    }

    /// Executes a message, or returns its fault.
    async fn take(&mut self, text: &str, hub: &Hub) -> Result<Option<BadParameter>, End> {
        let command = match Command::of(text) {
            Ok(command) => command,
            Err(bad) => return Ok(Some(bad)),
        };
        match command {
            Command::Subscribe(id, ask, credit) => {
                if self.subscriptions.contains_key(&id) {
                    return Ok(Some(bad("subscribe", "there is a subscription of this number")));
                }
                // An ended subscription counts until its last page has come.
                if self.subscriptions.len().max(self.asked.len()) >= SUBSCRIPTIONS_MAX {
                    return Ok(Some(bad("subscribe", "there are as many as there may be")));
                }
                self.subscriptions.insert(id, Subscription { ask, credit, asked: None });
                self.reader.set_idle(false);
                self.go_on(id, hub).await?;
            }
            Command::Credit(id, more) => {
                let Some(subscription) = self.subscriptions.get_mut(&id) else {
                    return Ok(Some(bad("credit", "there is no subscription of this number")));
                };
                subscription.credit.add(more);
                self.go_on(id, hub).await?;
            }
            Command::Unsubscribe(id) => {
                if !self.subscriptions.contains_key(&id) {
                    return Ok(Some(bad("unsubscribe", "there is no such subscription")));
                }
                self.leave(id).await?;
            }
        }
        Ok(None)
    }

    async fn leave(&mut self, id: u32) -> Result<(), End> {
        self.subscriptions.remove(&id);
        if self.subscriptions.is_empty() {
            self.idle_since = Instant::now();
            self.reader.set_idle(true);
        }
        self.say(&json!({ "id": id, "unsubscribed": true })).await
    }

    /// Sends a subscription's next query, unless one is pending or its credit is used up.
    async fn go_on(&mut self, id: u32, hub: &Hub) -> Result<(), End> {
        let session_id = self.reader.session_id;
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return Ok(()) };
        if subscription.asked.is_some() || subscription.credit.is_used_up() {
            return Ok(());
        }
        self.question_no = self.question_no.wrapping_add(1);
        let correlation_id = u64::from(self.question_no) << 32 | u64::from(id);
        let answer_max = subscription.ask.wait_max() + hub.limits.answer_max;
        self.asked.insert(correlation_id, Instant::now() + answer_max);
        subscription.asked = Some(correlation_id);
        let mut question = subscription.ask.question(session_id, correlation_id);
        let at_most = |asked: u32, left: Option<u64>| match (asked, left) {
            (asked, None) => asked,
            (0, Some(left)) => u32::try_from(left).unwrap_or(u32::MAX),
            (asked, Some(left)) => asked.min(u32::try_from(left).unwrap_or(u32::MAX)),
        };
        question.rows_max = at_most(question.rows_max, subscription.credit.rows);
        question.bytes_max = at_most(question.bytes_max, subscription.credit.bytes);
        // Reached once; all later pages are beyond it.
        let min_token = std::mem::take(&mut subscription.ask.min_token);
        let token = subscription.ask.token.clone();
        self.reader.ask(question, token, min_token).await.map_err(End::of)
    }

    async fn on_pages(&mut self, frames: &[u8], hub: &Hub) -> Result<(), End> {
        for answer in Answer::all_of(frames, &hub.scales) {
            self.on_answer(answer, hub).await?;
        }
        Ok(())
    }

    async fn on_answer(&mut self, answer: Answer, hub: &Hub) -> Result<(), End> {
        self.asked.remove(&answer.correlation_id());
        let id = answer.correlation_id() as u32;
        // A newer subscription with the same number has sent a different query.
        let asked = Some(answer.correlation_id());
        let subscription = self.subscriptions.get_mut(&id).filter(|found| found.asked == asked);
        let Some(subscription) = subscription else { return Ok(()) };
        subscription.asked = None;
        match answer {
            Answer::Page { token, row_count, row_bytes, mut body, .. } => {
                subscription.ask.token = token;
                subscription.credit.spend(u64::from(row_count), row_bytes as u64);
                body["id"] = Value::from(id);
                self.say(&body).await?;
                self.go_on(id, hub).await
            }
            Answer::Refused { reason, token, .. } => {
                let is_resync = matches!(
                    reason,
                    Reason::ResyncEpoch
                        | Reason::ResyncFilter
                        | Reason::ResyncFloor
                        | Reason::ResyncToken
                );
                let mut refusal = refusal_json(reason, &token);
                refusal["id"] = Value::from(id);
                refusal["resync"] = Value::from(is_resync);
                self.say(&refusal).await?;
                if is_resync {
                    // All rows sent so far are void; it begins again from the oldest legal token.
                    if let Some(subscription) = self.subscriptions.get_mut(&id) {
                        subscription.ask.token = token;
                    }
                    self.go_on(id, hub).await
                } else {
                    self.leave(id).await
                }
            }
        }
    }

    /// Writes a message. The reader's end comes before each message, and interrupts one that the
    /// peer does not take.
    async fn say(&mut self, value: &Value) -> Result<(), End> {
        self.write(Message::Text(value.to_string().into())).await?;
        self.alive_at = Instant::now();
        Ok(())
    }

    async fn write(&mut self, message: Message) -> Result<(), End> {
        if let Some(reason) = self.reader.end() {
            return Err(End::of(reason));
        }
        self.is_whole = false;
        let written = tokio::select! {
            biased;
            written = tokio::time::timeout(STALL_MAX, self.socket.send(message)) => written,
            () = self.reader.is_cut_off() => return Err(End::Cut),
        };
        let is_sent = written.map_err(|_| End::Closed(POLICY_VIOLATION, Reason::SlowConsumer))?;
        self.is_whole = true;
        is_sent.map_err(|_| End::Gone)
    }
}

/// A reader's command.
enum Command {
    Subscribe(u32, OrderQuery, Credit),
    Credit(u32, Credit),
    Unsubscribe(u32),
}

impl Command {
    fn of(text: &str) -> Result<Command, BadParameter> {
        let Ok(Value::Object(members)) = serde_json::from_str(text) else {
            return Err(bad("", "a message is one JSON object"));
        };
        let ops = ["subscribe", "credit", "unsubscribe"];
        let Some(op) = ops.into_iter().find(|op| members.contains_key(*op)) else {
            return Err(bad("", "a message says subscribe, credit or unsubscribe"));
        };
        let (mut id, mut ask, mut credit) = (0, OrderQuery::default(), Credit::default());
        for (name, value) in &members {
            match (op, name.as_str()) {
                (_, name) if name == op => {
                    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                    id = number.ok_or_else(|| bad(op, "the subscription's number"))?;
                }
                ("subscribe" | "credit", "rows" | "bytes") => {
                    let left = value.as_u64().filter(|left| *left > 0);
                    let left = left.ok_or_else(|| bad(name, "a whole number above zero"))?;
                    let to = if name == "rows" { &mut credit.rows } else { &mut credit.bytes };
                    *to = Some(left);
                }
                ("subscribe", name) => match value {
                    Value::String(text) => ask.set(name, text)?,
                    Value::Number(_) | Value::Bool(_) => ask.set(name, &value.to_string())?,
                    _ => return Err(bad(name, "text, a number or true or false")),
                },
                (_, name) => return Err(bad(name, "there is no such member")),
            }
        }
        Ok(match op {
            "subscribe" => Command::Subscribe(id, ask, credit),
            "credit" => Command::Credit(id, credit),
            _ => Command::Unsubscribe(id),
        })
    }
}

fn bad(parameter: &str, what: &'static str) -> BadParameter {
    BadParameter { parameter: parameter.chars().take(40).collect(), what }
}
