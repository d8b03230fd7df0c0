//! The node's HTTP side: `/metrics` for Prometheus, `/status` for people and scripts, `/health`.
//!
//! It runs on tokio in the main thread and reads figures that the agents publish; no order waits
//! on it.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::status::NodeStatus;

/// The routes.
pub fn router(status: Arc<NodeStatus>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics))
        .route("/status", get(report))
        .route("/health", get(|| async { "ok\n" }))
        .with_state(status)
}

async fn index() -> impl IntoResponse {
    "Weir\n\n/metrics  for Prometheus\n/status   as JSON\n/health   ok while it runs\n"
}

async fn metrics(State(status): State<Arc<NodeStatus>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], status.prometheus())
}

async fn report(State(status): State<Arc<NodeStatus>>) -> impl IntoResponse {
    match serde_json::to_string(&status.report()) {
        Ok(json) => (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], json),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(header::CONTENT_TYPE, "text/plain")],
            error.to_string(),
        ),
    }
}
