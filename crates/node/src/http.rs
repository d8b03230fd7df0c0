//! The node's HTTP service: `/metrics` for Prometheus, `/status` for people and scripts, `/live`
//! and `/ready` for supervisors and load balancers, `/readers` for the list of order-state readers.
//!
//! It runs on tokio in the main thread and reads figures that the agents publish; no order waits
//! for it. It answers from before the recovery until after the last order.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use weir_io::monotonic_now;
use weir_web::http::{HttpFigures, HttpServer};

use crate::health::Health;
use crate::status::{NodeStatus, StatusReport};

/// Connections at a time: monitoring and people, not many.
pub const CONNECTIONS_MAX: usize = 256;
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// The time limit of a list of readers, and the interval between polls for it.
const LIST_TIME: Duration = Duration::from_secs(2);
const LIST_LOOK: Duration = Duration::from_millis(2);

/// The data that the routes answer from.
#[derive(Default)]
pub struct Side {
    /// The node's liveness and readiness.
    pub health: Arc<Health>,
    /// The figures, once they exist.
    pub status: OnceLock<Arc<NodeStatus>>,
    /// The connections to this page.
    pub http: Arc<HttpFigures>,
}

impl Side {
    /// Returns the node's figures with those of this page.
    fn report(&self, status: &NodeStatus) -> StatusReport {
        StatusReport { http: self.http.report(), ..status.report() }
    }
}

/// Serves the routes until `stop` is over.
pub async fn serve(listener: TcpListener, side: Arc<Side>, stop: impl Future<Output = ()>) {
    let http = side.http.clone();
    HttpServer::new(router(side), CONNECTIONS_MAX, http).serve(listener, stop).await;
}

/// Returns the routes.
fn router(side: Arc<Side>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics))
        .route("/status", get(report))
        .route("/readers", get(readers))
        .route("/live", get(live))
        .route("/ready", get(ready))
        .with_state(side)
}

async fn index() -> impl IntoResponse {
    "Weir\n\n\
     /metrics  for Prometheus\n\
     /status   as JSON\n\
     /readers  who waits for order state and how far behind each is, as JSON\n\
     /live     200 while its threads go round, else 503 and why not\n\
     /ready    200 while it takes orders, else 503 and why not\n"
}

async fn metrics(State(side): State<Arc<Side>>) -> Response {
    let Some(status) = side.status.get() else { return not_yet() };
    let metrics = status.prometheus(&side.report(status));
    answer(StatusCode::OK, "text/plain; version=0.0.4", metrics)
}

async fn report(State(side): State<Arc<Side>>) -> Response {
    let Some(status) = side.status.get() else { return not_yet() };
    match serde_json::to_string(&side.report(status)) {
        Ok(json) => answer(StatusCode::OK, JSON, json),
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
    }
}

/// Requests the list from the delivery agent and polls until it is ready.
async fn readers(State(side): State<Arc<Side>>) -> Response {
    let Some(status) = side.status.get() else { return not_yet() };
    let list = &status.delivery.readers;
    let number = list.ask();
    let begun = Instant::now();
    while begun.elapsed() < LIST_TIME {
        if let Some(report) = list.made(number) {
            return match serde_json::to_string(&report) {
                Ok(json) => answer(StatusCode::OK, JSON, json),
                Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
            };
        }
        tokio::time::sleep(LIST_LOOK).await;
    }
    let why = "no order store answered: this node has none, or its thread stands still\n";
    answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, why.to_owned())
}

async fn live(State(side): State<Arc<Side>>) -> Response {
    told("live", &side.health.why_not_live(monotonic_now()), &[])
}

async fn ready(State(side): State<Arc<Side>>) -> Response {
    told("ready", &side.health.why_not_ready(monotonic_now()), &side.health.warnings())
}

fn told(what: &str, why_not: &[String], warnings: &[String]) -> Response {
    let lines = |texts: &[String]| texts.iter().map(|text| format!("{text}\n")).collect::<String>();
    let warnings = lines(warnings);
    if why_not.is_empty() {
        return answer(StatusCode::OK, TEXT, format!("{what}\n{warnings}"));
    }
    answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, lines(why_not) + &warnings)
}

fn not_yet() -> Response {
    answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, "it recovers\n".to_owned())
}

fn answer(code: StatusCode, kind: &'static str, text: String) -> Response {
    (code, [(header::CONTENT_TYPE, kind)], text).into_response()
}
