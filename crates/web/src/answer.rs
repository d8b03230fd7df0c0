//! Pages and refusals as JSON.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use weir_types::Reason;
use weir_types::hex::hex;
use weir_wire::delivery::{OrderPage, PageFlags, RowFlags};
use weir_wire::dialogue::NodeMessage;
use weir_wire::frame::{Framing, next_frame};
use weir_wire::rows::Rows;

use super::query::BadParameter;
use super::scales::Scales;
use crate::order_json::{gone_json, row_json};

/// The longest frame from the store: a page's rows.
const FRAME_LEN_MAX: usize = 16 << 20;

/// The store's answer to a query.
#[derive(Debug)]
pub enum Answer {
    /// A page.
    Page {
        /// The query's number.
        correlation_id: u64,
        /// The token to continue with.
        token: Vec<u8>,
        /// The number of its rows.
        row_count: u32,
        /// The size of the rows on the wire, in bytes.
        row_bytes: usize,
        /// The whole answer as JSON.
        body: Value,
    },
    /// The query is refused.
    Refused {
        /// The query's number.
        correlation_id: u64,
        /// The reason.
        reason: Reason,
        /// The oldest legal token, if the reason is a resync and there is one.
        token: Vec<u8>,
    },
}

impl Answer {
    /// Decodes all answers in a reader's buffer: the store puts what it says to one reader at a
    /// time together, of however many queries.
    ///
    /// # Panics
    /// When they are not well-formed store output.
    #[must_use]
    pub fn all_of(mut frames: &[u8], scales: &Scales) -> Vec<Answer> {
        let mut answers = Vec::new();
        while !frames.is_empty() {
            answers.push(Answer::next(&mut frames, scales));
        }
        answers
    }

    fn next(frames: &mut &[u8], scales: &Scales) -> Answer {
        match next_message(frames) {
            NodeMessage::Reject(reject) => Answer::Refused {
                correlation_id: reject.request_no.0,
                reason: reject.reason,
                token: Vec::new(),
            },
            NodeMessage::OrderPage(page, token) if page.reason != Reason::None => {
                let (correlation_id, reason) = (page.correlation_id, page.reason);
                Answer::Refused { correlation_id, reason, token: token.to_vec() }
            }
            NodeMessage::OrderPage(page, token) => Answer::page(&page, token, frames, scales),
            other => panic!("the store does not say {other:?}"),
        }
    }

    /// Returns the number of its query.
    #[must_use]
    pub fn correlation_id(&self) -> u64 {
        match self {
            Answer::Page { correlation_id, .. } | Answer::Refused { correlation_id, .. } => {
                *correlation_id
            }
        }
    }

    fn page(page: &OrderPage, token: &[u8], behind: &mut &[u8], scales: &Scales) -> Answer {
        let sources = sources_of(behind);
        let before_rows = behind.len();
        let rows = if page.row_count == 0 { Vec::new() } else { rows_of(behind, scales) };
        let row_bytes = before_rows - behind.len();
        let mut body = json!({
            "token": hex(token),
            "online": page.flags.contains(PageFlags::ONLINE),
            "partial": page.flags.contains(PageFlags::PARTIAL),
            "source_away": page.flags.contains(PageFlags::SOURCE_AWAY),
            "oldest_transact_time": page.oldest_transact_time.0,
            "asked_time": page.asked_time.0,
            "served_time": page.served_time.0,
            "row_count": page.row_count,
            "merged_count": page.merged_count,
            "rows": rows,
        });
        if let Some(sources) = sources {
            body["sources"] = sources;
        }
        Answer::Page {
            correlation_id: page.correlation_id,
            token: token.to_vec(),
            row_count: page.row_count,
            row_bytes,
            body,
        }
    }
}

/// Takes the next message.
fn next_message<'a>(frames: &mut &'a [u8]) -> NodeMessage<'a> {
    let Framing::Frame { len, message: Ok(raw) } = next_frame(frames, FRAME_LEN_MAX) else {
        panic!("the store makes whole frames");
    };
    *frames = &frames[len..];
    NodeMessage::decode(&raw).expect("the store's own message")
}

/// Takes the status of the sources, if a router sends it after the header.
fn sources_of(frames: &mut &[u8]) -> Option<Value> {
    let mut behind = *frames;
    if behind.is_empty() {
        return None;
    }
    let NodeMessage::SourceStates(_, states) = next_message(&mut behind) else { return None };
    *frames = behind;
    let states = states.map(|state| {
        let state = state.expect("the router's own states");
        json!({ "source": state.source_id.0, "status": format!("{:?}", state.status) })
    });
    Some(Value::Array(states.collect()))
}

fn rows_of(frames: &mut &[u8], scales: &Scales) -> Vec<Value> {
    match next_message(frames) {
        NodeMessage::OrderPageBody(_, rows) => all_rows(rows, scales),
        other => panic!("the rows of a page are not {other:?}"),
    }
}

fn all_rows(rows: Rows<'_>, scales: &Scales) -> Vec<Value> {
    let scales = scales.read();
    let rows = rows.map(|row| {
        let (row, attributes) = row.expect("the store's own row");
        if row.flags == RowFlags::default() {
            row_json(&row, attributes, scales.get(&row.instrument_id))
        } else {
            gone_json(row.order_id)
        }
    });
    rows.collect()
}

/// Returns a refusal as JSON: `error` for programs, `message` for people.
#[must_use]
pub fn refusal_json(reason: Reason, token: &[u8]) -> Value {
    let mut refusal = json!({ "error": format!("{reason:?}"), "message": reason.text() });
    if !token.is_empty() {
        refusal["token"] = Value::from(hex(token));
    }
    refusal
}

/// Returns the refusal of a parameter as JSON.
#[must_use]
pub fn bad_parameter_json(bad: &BadParameter) -> Value {
    json!({ "error": "BadParameter", "parameter": bad.parameter, "message": bad.to_string() })
}

/// Returns a refusal as an HTTP response.
#[must_use]
pub fn refused(reason: Reason, token: &[u8]) -> Response {
    let code = match reason {
        Reason::UnknownKey | Reason::KeyExpired | Reason::KeyReplaced => StatusCode::UNAUTHORIZED,
        Reason::NotEntitled => StatusCode::FORBIDDEN,
        Reason::ResyncEpoch | Reason::ResyncFilter | Reason::ResyncFloor | Reason::ResyncToken => {
            StatusCode::GONE
        }
        Reason::LimitReached | Reason::TooManySessionConnections => StatusCode::TOO_MANY_REQUESTS,
        Reason::Overloaded
        | Reason::Stopping
        | Reason::MinTokenNotReached
        | Reason::PartitionAway
        | Reason::Throttled
        | Reason::TooManyInFlight => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut response = json_response(code, &refusal_json(reason, token));
    let headers = response.headers_mut();
    if code == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        // One connection gets one guess of a key or session.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if code == StatusCode::SERVICE_UNAVAILABLE || code == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Returns a JSON object as an HTTP response.
#[must_use]
pub fn json_response(code: StatusCode, value: &Value) -> Response {
    with_json_body(code, Body::from(text_of(value)))
}

/// Returns a JSON object as the text of a body.
#[must_use]
pub fn text_of(value: &Value) -> String {
    format!("{value}\n")
}

/// Returns a body of JSON as an HTTP response.
#[must_use]
pub fn with_json_body(code: StatusCode, body: Body) -> Response {
    let kind = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        // One reader's answer must not be cached for another.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (code, kind, body).into_response()
}
