//! `GET /orders`: one page as soon as it has rows, or an empty one when the wait is over.
//!
//! A query that the store does not answer in the times that it names, and 30 s more, is refused.
//! A page that is being written ends with its reader: the connection is closed behind the bytes
//! that the system has taken.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use weir_types::Reason;

use super::add_one;
use super::answer::{Answer, bad_parameter_json, json_response, refused, text_of, with_json_body};
use super::ending::STALL_MAX;
use super::http::Unwritten;
use super::hub::{Hub, Reader, in_time};
use super::query::{OrderQuery, credentials};

pub async fn fetch(
    State(hub): State<Arc<Hub>>,
    Extension(unwritten): Extension<Unwritten>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let Some((session_id, key)) = credentials(&headers) else {
        add_one(&hub.figures.keys_refused);
        return refused(Reason::UnknownKey, &[]);
    };
    let mut reader = match hub.enter(session_id, key).await {
        Ok(reader) => reader,
        Err(reason) => return refused(reason, &[]),
    };
    // Only an authenticated reader gets the fault of its query.
    let ask = match OrderQuery::of_query(query.as_deref().unwrap_or_default()) {
        Ok(ask) => ask,
        Err(bad) => {
            add_one(&hub.figures.asks_refused);
            return json_response(StatusCode::BAD_REQUEST, &bad_parameter_json(&bad));
        }
    };
    let question = ask.question(session_id, 0);
    let answer_max = ask.wait_max() + hub.limits.answer_max;
    let answered = async {
        reader.ask(question, ask.token, ask.min_token).await?;
        reader.next_page().await
    };
    let answer = match in_time(answer_max, answered).await {
        Ok(frames) => Answer::all_of(&frames, &hub.scales).pop(),
        Err(reason) => return refused(reason, &[]),
    };
    match answer.expect("a query without credit has one answer") {
        Answer::Page { body, .. } => {
            let body = unwritten.body(text_of(&body), end_of_page(reader));
            with_json_body(StatusCode::OK, body)
        }
        Answer::Refused { reason, token, .. } => {
            add_one(&hub.figures.asks_refused);
            refused(reason, &token)
        }
    }
}

/// Waits until a reader may not have its page any more, or has not taken it in time.
async fn end_of_page(mut reader: Reader) {
    // Either is the end.
    let _ = tokio::time::timeout(STALL_MAX, reader.is_cut_off()).await;
}
