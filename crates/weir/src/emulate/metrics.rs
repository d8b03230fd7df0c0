//! The figures of an emulator for Prometheus: text that the emulator's thread makes now and then,
//! served on a thread of its own.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::Router;
use axum::http::header;
use axum::routing::get;
use weir_client::load::Quantiles;
use weir_web::http::HttpServer;

/// Connections at a time: monitoring.
const CONNECTIONS_MAX: usize = 16;

/// The text that is served.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    text: Arc<Mutex<String>>,
}

impl Metrics {
    /// Serves the text at `address`, under `/metrics`, until the process ends.
    ///
    /// # Errors
    /// When nobody can listen there.
    pub fn serve(&self, address: SocketAddr) -> anyhow::Result<SocketAddr> {
        let refused = || format!("cannot serve metrics at {address}");
        let listener = std::net::TcpListener::bind(address).with_context(refused)?;
        listener.set_nonblocking(true).with_context(refused)?;
        let bound = listener.local_addr().with_context(refused)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let metrics = self.clone();
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let answer = move || {
                let text = metrics.get();
                async move { ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text) }
            };
            let router = Router::new().route("/metrics", get(answer));
            let server = HttpServer::new(router, CONNECTIONS_MAX, Arc::default());
            server.serve(listener, std::future::pending()).await;
            std::io::Result::Ok(())
        };
        std::thread::Builder::new().name("metrics".into()).spawn(move || {
            if let Err(error) = runtime.block_on(serve) {
                eprintln!("weir: metrics are served no more: {error}");
            }
        })?;
        Ok(bound)
    }

    /// Puts another text in place.
    pub fn set(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn get(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Appends a figure with one value for each of some labels; `labels` is empty or `{name="value"}`.
pub fn put(text: &mut String, name: &str, help: &str, kind: &str, values: &[(String, f64)]) {
    let written = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").and_then(|()| {
        values.iter().try_for_each(|(labels, value)| writeln!(text, "{name}{labels} {value}"))
    });
    written.expect("a string takes all that is written to it");
}

/// The quantiles that there are, each with its label behind `labels` (`name="value",` or nothing);
/// nanoseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "a span of nanoseconds, as seconds")]
pub fn quantiles(labels: &str, of: &Quantiles) -> Vec<(String, f64)> {
    let named = [("0.5", Some(of.p50)), ("0.9", of.p90), ("0.99", of.p99), ("0.999", of.p99_9)];
    let value = |(name, value): (&str, Option<u64>)| {
        Some((format!("{{{labels}quantile=\"{name}\"}}"), value? as f64 / 1e9))
    };
    named.into_iter().filter(|_| of.count > 0).filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn the_newest_text_is_served() {
        let metrics = Metrics::default();
        let address = metrics.serve(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let mut text = String::new();
        let of = Quantiles { count: 9, p50: 1_500_000, ..Quantiles::default() };
        put(&mut text, "weir_x", "A span.", "gauge", &quantiles("class=\"all\",", &of));
        metrics.set(text);
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.contains("weir_x{class=\"all\",quantile=\"0.5\"} 0.0015\n"), "{answer}");
        assert!(!answer.contains("0.99"), "a quantile that is not there is not told: {answer}");
    }
}
