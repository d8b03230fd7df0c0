//! A node's status page over HTTP: one GET, one JSON object.
//!
//! It supports just the HTTP/1.1 that it needs: `Connection: close`, a body with a content length,
//! up to the end of the connection or in chunks. Answers over 16 MiB are refused.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::Deserialize;
use weir_types::{
    InstrumentId, Nanos, PartitionId, Phase, PhaseCause, Price, Qty, SessionId, mantissa,
};

use crate::connection::resolve;
use crate::error::ClientError;

const BODY_LEN_MAX: u64 = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);

/// An instrument on the status page. Its decimals are read as the mantissas and lots that orders
/// have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "InstrumentFields")]
pub struct InstrumentStatus {
    /// Its identifier.
    pub id: u32,
    /// Its name.
    pub symbol: String,
    /// The decimal exponent of its prices.
    pub price_exponent: i8,
    /// The partition that trades it.
    pub partition: u16,
    /// Its group; zero for none, and from a node that does not report it.
    pub group: u16,
    /// The decimal exponent of a lot in units.
    pub qty_exponent: i8,
    /// Prices are multiples of this; zero from a node that does not report it.
    pub tick_size: Price,
    /// Quantities are multiples of this; zero from a node that does not report it.
    pub lot_size: Qty,
    /// The lowest price, to which market sells trade; absent from older nodes.
    pub price_min: Option<Price>,
    /// The highest price, to which market buys trade; absent from older nodes.
    pub price_max: Option<Price>,
    /// The name of its phase; absent when the node has not kept the event that set it.
    pub phase: Option<String>,
    /// Log time of the last change of the phase, or of an operator's halt that holds.
    pub phase_since: Option<Nanos>,
    /// The name of the cause of that change; absent while the phase is the definition's, where the
    /// node does not know it, and from older nodes.
    pub phase_cause: Option<String>,
    /// The operator's session that asked for it; absent for other causes.
    pub phase_by: Option<SessionId>,
    /// True while an operator's halt holds against scheduled changes; absent where the node does
    /// not know it, and from older nodes.
    pub is_held: Option<bool>,
    /// The price of its last trade.
    pub last_price: Option<Price>,
    /// The price of its last uncrossing that traded, else its definition's.
    pub static_reference: Option<Price>,
}

/// An instrument as the page has it: prices are decimals as text.
#[derive(Deserialize)]
struct InstrumentFields {
    id: u32,
    symbol: String,
    price_exponent: i8,
    partition: u16,
    #[serde(default)]
    group: u16,
    #[serde(default)]
    qty_exponent: i8,
    tick_size: Option<String>,
    lot_size: Option<String>,
    price_min: Option<String>,
    price_max: Option<String>,
    phase: Option<String>,
    phase_since_ns: Option<u64>,
    phase_cause: Option<String>,
    phase_by: Option<u32>,
    is_held: Option<bool>,
    last_price: Option<String>,
    static_reference: Option<String>,
}

impl TryFrom<InstrumentFields> for InstrumentStatus {
    type Error = String;

    fn try_from(of: InstrumentFields) -> Result<InstrumentStatus, String> {
        let refused = |text: &str| format!("{text:?} is no number of {}", of.symbol);
        let price = |text: Option<String>| {
            let Some(text) = text else { return Ok(None) };
            let price = mantissa(&text, of.price_exponent).ok().and_then(|m| m.try_into().ok());
            price.map(|price| Some(Price(price))).ok_or_else(|| refused(&text))
        };
        let qty = |text: String| {
            let lots = mantissa(&text, of.qty_exponent).ok().and_then(|m| m.try_into().ok());
            lots.map(Qty).ok_or_else(|| refused(&text))
        };
        Ok(InstrumentStatus {
            tick_size: price(of.tick_size)?.unwrap_or_default(),
            lot_size: of.lot_size.map(qty).transpose()?.unwrap_or_default(),
            price_min: price(of.price_min)?,
            price_max: price(of.price_max)?,
            last_price: price(of.last_price)?,
            static_reference: price(of.static_reference)?,
            id: of.id,
            symbol: of.symbol,
            price_exponent: of.price_exponent,
            partition: of.partition,
            group: of.group,
            qty_exponent: of.qty_exponent,
            phase: of.phase,
            phase_since: of.phase_since_ns.map(Nanos),
            phase_cause: of.phase_cause,
            phase_by: of.phase_by.map(SessionId),
            is_held: of.is_held,
        })
    }
}

impl InstrumentStatus {
    /// Its identifier.
    #[must_use]
    pub fn instrument_id(&self) -> InstrumentId {
        InstrumentId(self.id)
    }

    /// The partition that trades it.
    #[must_use]
    pub fn partition_id(&self) -> PartitionId {
        PartitionId(self.partition)
    }

    /// Its phase; `None` also for one that this program does not know.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        self.phase.as_deref().and_then(phase_named)
    }

    /// The cause of its phase; `None` also for one that this program does not know.
    #[must_use]
    pub fn cause(&self) -> Option<PhaseCause> {
        self.phase_cause.as_deref().and_then(cause_named)
    }

    /// Its phase for people, with the cause as far as it is known: `halted (operator 90, held)`.
    #[must_use]
    pub fn phase_text(&self) -> String {
        let by = self.phase_by.map(|by| format!(" {by}")).unwrap_or_default();
        let cause = self.phase_cause.as_ref().map(|cause| format!("{cause}{by}"));
        let hold = (self.is_held == Some(true)).then(|| "held".to_owned());
        let notes: Vec<String> = cause.into_iter().chain(hold).collect();
        let phase = self.phase.as_deref().unwrap_or("phase unknown");
        if notes.is_empty() { phase.to_owned() } else { format!("{phase} ({})", notes.join(", ")) }
    }

    /// The price near which an uncrossing is expected: the last price, else the static reference.
    #[must_use]
    pub fn reference(&self) -> Option<Price> {
        self.last_price.or(self.static_reference)
    }
}

/// Returns a phase's name on the status page and on the command line.
#[must_use]
pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Closed => "closed",
        Phase::Continuous => "continuous",
        Phase::Halted => "halted",
        Phase::OpeningCall => "opening-call",
        Phase::VolatilityCall => "volatility-call",
        Phase::ClosingCall => "closing-call",
    }
}

/// Returns the phase of a name.
#[must_use]
pub fn phase_named(name: &str) -> Option<Phase> {
    Phase::ALL.iter().copied().find(|phase| phase_name(*phase) == name)
}

/// Returns the name of a cause on the status page; `None` for the unknown one.
#[must_use]
pub fn cause_name(cause: PhaseCause) -> Option<&'static str> {
    Some(match cause {
        PhaseCause::Unknown => return None,
        PhaseCause::Operator => "operator",
        PhaseCause::Schedule => "schedule",
        PhaseCause::CallEnd => "call-end",
        PhaseCause::Collar => "collar",
    })
}

/// Returns the cause of a name.
#[must_use]
pub fn cause_named(name: &str) -> Option<PhaseCause> {
    PhaseCause::ALL.iter().copied().find(|cause| cause_name(*cause) == Some(name))
}

/// The status page: instruments as values, the whole page as JSON.
#[derive(Clone, Debug)]
pub struct StatusPage {
    /// The node's instruments.
    pub instruments: Vec<InstrumentStatus>,
    /// The whole page.
    pub json: serde_json::Value,
}

impl StatusPage {
    /// Gets the page from `HOST:PORT`.
    ///
    /// # Errors
    /// [`ClientError::Address`], [`ClientError::Status`].
    pub fn fetch(address: &str) -> Result<StatusPage, ClientError> {
        let failed = |why: String| ClientError::Status { address: address.to_owned(), why };
        let json = fetch_json(address, "/status")?;
        let instruments = match json.get("instruments") {
            None => Vec::new(),
            Some(list) => {
                Vec::deserialize(list).map_err(|error| failed(format!("instruments: {error}")))?
            }
        };
        Ok(StatusPage { instruments, json })
    }

    /// Returns the instrument of a name.
    #[must_use]
    pub fn instrument(&self, symbol: &str) -> Option<&InstrumentStatus> {
        self.instruments.iter().find(|instrument| instrument.symbol == symbol)
    }
}

/// Gets `path` from a node's HTTP server at `HOST:PORT`, as JSON.
///
/// # Errors
/// [`ClientError::Address`], [`ClientError::Status`].
pub fn fetch_json(address: &str, path: &str) -> Result<serde_json::Value, ClientError> {
    let failed = |why: String| ClientError::Status { address: address.to_owned(), why };
    let answer = get(address, path)?;
    let body = body_of(&answer).map_err(failed)?;
    serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))
}

/// Sends a GET and returns the whole answer.
fn get(address: &str, path: &str) -> Result<Vec<u8>, ClientError> {
    let target = resolve(address)?;
    let exchange = || {
        let mut stream = TcpStream::connect_timeout(&target, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(BODY_LEN_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    };
    exchange().map_err(|error: std::io::Error| ClientError::Status {
        address: address.to_owned(),
        why: error.to_string(),
    })
}

/// Returns the body of an answer with status 200.
fn body_of(answer: &[u8]) -> Result<Vec<u8>, String> {
    let end = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or("the answer has no end of its head")?;
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let body = &answer[end + 4..];
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    if first.split(' ').nth(1) != Some("200") {
        return Err(format!("the answer is {first:?}"));
    }
    let header = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    if header("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
        return unchunk(body);
    }
    match header("content-length").map(str::parse::<usize>) {
        None => Ok(body.to_vec()),
        Some(Ok(len)) if body.len() >= len => Ok(body[..len].to_vec()),
        Some(Ok(len)) => Err(format!("{} bytes of {len} came", body.len())),
        Some(Err(error)) => Err(format!("content-length: {error}")),
    }
}

fn unchunk(mut bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|w| w == b"\r\n").ok_or("a chunk has no size")?;
        let digits = String::from_utf8_lossy(&bytes[..end]);
        let digits = digits.split(';').next().unwrap_or_default().trim();
        let len = usize::from_str_radix(digits, 16).map_err(|e| format!("chunk size: {e}"))?;
        if len == 0 {
            return Ok(body);
        }
        let start = end + 2;
        let stop = start.checked_add(len).ok_or("a chunk is too long")?;
        body.extend_from_slice(bytes.get(start..stop).ok_or("a chunk ends early")?);
        bytes = bytes.get(stop + 2..).ok_or("a chunk has no end")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_an_instrument_are_read_as_mantissas_and_lots() {
        let read = |tick: &str| -> Result<InstrumentStatus, _> {
            serde_json::from_value(serde_json::json!({
                "id": 1, "symbol": "A", "partition": 1, "price_exponent": -2, "qty_exponent": -1,
                "tick_size": tick, "lot_size": "0.5", "price_min": "-1.00", "price_max": null,
                "last_price": "10.05",
            }))
        };
        let of = read("0.05").unwrap();
        assert_eq!((of.tick_size, of.lot_size), (Price(5), Qty(5)));
        assert_eq!((of.price_min, of.price_max), (Some(Price(-100)), None));
        assert_eq!((of.reference(), of.static_reference), (Some(Price(1_005)), None));
        let error = read("0.005").unwrap_err().to_string();
        assert!(error.contains("\"0.005\" is no number of A"), "{error}");
    }

    #[test]
    fn a_phase_is_told_with_its_cause_its_operator_and_its_hold() {
        let of = |phase: &str, cause: Option<&str>, by: Option<u32>, is_held: Option<bool>| {
            let row = serde_json::json!({
                "id": 1, "symbol": "A", "partition": 1, "price_exponent": 0, "phase": phase,
                "phase_cause": cause, "phase_by": by, "is_held": is_held,
            });
            let of: InstrumentStatus = serde_json::from_value(row).unwrap();
            (of.cause(), of.phase_text())
        };
        for (told, cause, text) in [
            (of("halted", None, None, None), None, "halted"),
            (
                of("halted", Some("operator"), Some(90), Some(true)),
                Some(PhaseCause::Operator),
                "halted (operator 90, held)",
            ),
            (
                of("closed", Some("schedule"), None, Some(true)),
                Some(PhaseCause::Schedule),
                "closed (schedule, held)",
            ),
            (
                of("volatility-call", Some("collar"), None, Some(false)),
                Some(PhaseCause::Collar),
                "volatility-call (collar)",
            ),
            (of("x", Some("a later one"), None, None), None, "x (a later one)"),
        ] {
            assert_eq!(told, (cause, text.to_owned()));
        }
        for cause in PhaseCause::ALL.iter().copied().filter(|of| *of != PhaseCause::Unknown) {
            assert_eq!(cause_name(cause).and_then(cause_named), Some(cause));
        }
    }

    #[test]
    fn bodies_are_read_in_every_form_and_broken_ones_refused() {
        let cases: &[(&str, Result<&str, ()>)] = &[
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}xx", Ok("{}")),
            ("HTTP/1.1 200 OK\r\n\r\n{}", Ok("{}")),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                 1\r\n{\r\n1;a=b\r\n}\r\n0\r\n\r\n",
                Ok("{}"),
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", Err(())),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{", Err(())),
            ("HTTP/1.1 404 Not Found\r\n\r\n{}", Err(())),
            ("nonsense", Err(())),
        ];
        for (answer, want) in cases {
            let got = body_of(answer.as_bytes());
            assert_eq!(got.as_deref().map_err(drop), want.map(str::as_bytes), "{answer:?}");
        }
    }
}
