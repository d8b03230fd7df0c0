//! Errors of the client as text that names the cause and the next step.
//!
//! The node's status page decides between causes that look the same from a socket: a node that
//! recovers, one with TLS, none at all. It is read after the error, never before.

use weir_client::ClientError;
use weir_client::status::fetch_json;
use weir_types::Reason;
use weir_wire::frame::BrokenFrame;
use weir_wire::reference::DefineInstrument;

/// The command's side of a failed connection or logon.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The address that was connected to.
    pub address: &'a str,
    /// The option that names it.
    pub option: &'a str,
    /// The node's status page.
    pub http: &'a str,
    /// The command used TLS.
    pub has_tls: bool,
    /// The session.
    pub session: u32,
    /// The source of its key: an option, a variable or a file.
    pub key_from: &'a str,
}

/// The state of a node, from its status page.
enum Page {
    /// There is none at the address.
    None,
    /// The node starts or recovers.
    Recovers,
    /// The node runs.
    Runs { has_tls: bool },
}

fn look(http: &str) -> Page {
    match fetch_json(http, "/status") {
        Ok(page) => Page::Runs { has_tls: page["tls"].is_object() },
        Err(error) if is_recovering(&error) => Page::Recovers,
        Err(_) => Page::None,
    }
}

/// True for the status page of a node that starts or recovers.
fn is_recovering(error: &ClientError) -> bool {
    matches!(error, ClientError::Status { why, .. } if why.contains(" 503"))
}

impl Attempt<'_> {
    fn is_market(&self) -> bool {
        self.option == "--market"
    }

    /// The command that starts what was looked for.
    fn start(&self) -> &'static str {
        if self.is_market() {
            "a gateway with `weir market serve`"
        } else {
            "a node with `weir serve`"
        }
    }

    /// The command that waits for it.
    fn wait(&self) -> &'static str {
        if self.is_market() {
            "`weir market top --once --wait 5m` returns when it is ready"
        } else {
            WAIT
        }
    }
}

const WAIT: &str = "`weir status --wait 5m` returns when it is ready";

/// The two bytes of an HTTP answer at the place where a frame names its encoding: `HTTP/1.1 ...`.
const HTTP: u16 = u16::from_be_bytes(*b"/1");

/// The error of a connection or logon.
#[must_use]
pub fn of_connection(error: ClientError, attempt: &Attempt<'_>) -> anyhow::Error {
    let Attempt { address, option, session, key_from, .. } = attempt;
    let (start, wait) = (attempt.start(), attempt.wait());
    let text = match &error {
        ClientError::Connect { source, .. } => match look(attempt.http) {
            Page::Recovers => {
                format!("the node at {address} recovers and takes no connections yet: {wait}")
            }
            Page::Runs { .. } | Page::None => format!(
                "cannot connect to {address} ({source}): start {start}, or name its address with \
                 {option}"
            ),
        },
        ClientError::Handshake { .. } | ClientError::Tls(_) if attempt.has_tls => {
            match look(attempt.http) {
                Page::Runs { has_tls: false } => format!(
                    "{address} does not use TLS: leave out --tls-ca, --tls-pin and WEIR_TLS_CA"
                ),
                _ => return error.into(),
            }
        }
        ClientError::Broken(BrokenFrame::Encoding(HTTP)) => format!(
            "{address} speaks HTTP, as a node's status page does: name the port of order entry \
             with {option}"
        ),
        ClientError::Closed
        | ClientError::Cut
        | ClientError::Broken(_)
        | ClientError::Decode(_)
        | ClientError::Io { .. }
        | ClientError::Timeout { .. }
            if !attempt.has_tls =>
        {
            match look(attempt.http) {
                Page::Runs { has_tls: true } => format!(
                    "{address} uses TLS: give --tls-ca with its authority's certificate, or \
                     --tls-pin with its own"
                ),
                Page::Recovers => format!("the node at {address} recovers: {wait}"),
                _ => return error.into(),
            }
        }
        ClientError::LogonRejected { reason: reason @ Reason::UnknownKey, .. } => format!(
            "the node at {address} refuses session {session} with the key of {key_from}: \
             UnknownKey: {reason}; name the key with --key-file and the session with --session, or \
             define the session with `weir admin session --id {session}`"
        ),
        ClientError::LogonRejected { reason, partition_id, .. } if partition_id.is_none() => {
            format!("the node at {address} refuses session {session}: {reason:?}: {reason}")
        }
        _ => return error.into(),
    };
    anyhow::Error::msg(text)
}

/// The error of a stream of copies of reports.
#[must_use]
pub fn of_copies(error: ClientError) -> anyhow::Error {
    let ClientError::CopiesRefused { reason, .. } = &error else { return error.into() };
    let text = match reason {
        Reason::NotEntitled => {
            "NotEntitled: a firm's reports are for its own drop copy sessions, for supervisors and \
             for operators: name one of them with --session"
        }
        Reason::UnknownFirm => "UnknownFirm: no such firm: name another with --firm",
        Reason::ResumeOutOfRange => {
            let hint = "what lies between is gone; begin anew by --from oldest or now";
            return anyhow::Error::from(error).context(hint);
        }
        _ => return error.into(),
    };
    anyhow::Error::msg(text)
}

/// The error of a status page.
#[must_use]
pub fn of_status(error: ClientError, http: &str) -> anyhow::Error {
    let text = match &error {
        error if is_recovering(error) => format!("the node at {http} recovers: {WAIT}"),
        ClientError::Status { why, .. } if why.contains("refused") => format!(
            "no status page at {http} ({why}): start a node with `weir serve`, or name its address \
             with --http"
        ),
        _ => return error.into(),
    };
    anyhow::Error::msg(text)
}

/// The fields of an instrument's definition that contradict each other or the standing definition.
#[must_use]
pub fn contradictions(
    d: &DefineInstrument,
    known: &[weir_client::status::InstrumentStatus],
) -> Vec<String> {
    let mut found = Vec::new();
    let mut says = |is_wrong: bool, text: String| {
        if is_wrong {
            found.push(text);
        }
    };
    let symbol = d.symbol.to_string();
    says(d.instrument_id.is_none(), "--id 0: want 1 or more".to_owned());
    says(d.tick_size.0 <= 0, format!("--tick {}: want 1 or more", d.tick_size));
    says(d.lot_size.is_zero(), "--lot 0: want 1 or more".to_owned());
    says(
        d.order_qty_max < d.lot_size,
        format!("--qty-max {} is below --lot {}", d.order_qty_max, d.lot_size),
    );
    says(
        d.price_min > d.price_max,
        format!("--price-min {} is above --price-max {}", d.price_min, d.price_max),
    );
    let reference = d.reference_price.0;
    let is_off = reference != 0
        && (reference < d.price_min.0
            || reference > d.price_max.0
            || reference % d.tick_size.0.max(1) != 0);
    says(
        is_off,
        format!("--reference-price {reference} is out of the price range or off the tick"),
    );
    for one in known {
        if one.id != d.instrument_id.0 {
            says(one.symbol == symbol, format!("--symbol {symbol} is instrument {}'s", one.id));
            continue;
        }
        for (name, stands, wanted) in [
            ("--partition", i64::from(one.partition), i64::from(d.partition_id.0)),
            ("--price-exponent", one.price_exponent.into(), d.price_exponent.into()),
            ("--qty-exponent", one.qty_exponent.into(), d.qty_exponent.into()),
        ] {
            says(
                stands != wanted,
                format!("{name} {wanted}: {stands} stands and cannot be changed"),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use weir_client::status::InstrumentStatus;
    use weir_types::{
        GroupId, InstrumentId, Nanos, PartitionId, Phase, Price, Qty, RequestNo, SessionId, Symbol,
    };

    use super::*;

    fn definition() -> DefineInstrument {
        DefineInstrument {
            request_no: RequestNo::NONE,
            symbol: Symbol::new("ACME").unwrap(),
            tick_size: Price(1),
            lot_size: Qty(1),
            order_qty_max: Qty(100),
            price_min: Price(1),
            price_max: Price(1_000),
            reference_price: Price(0),
            volatility_call: Nanos(0),
            static_collar: 0,
            dynamic_collar: 0,
            session_id: SessionId::NONE,
            instrument_id: InstrumentId(1),
            partition_id: PartitionId(1),
            price_exponent: -2,
            qty_exponent: 0,
            phase: Phase::Continuous,
            fields: 0,
            group_id: GroupId::NONE,
        }
    }

    #[test]
    fn a_contradiction_names_the_field_and_the_value_that_stands() {
        let known = |id: u32, symbol: &str| -> InstrumentStatus {
            let row = serde_json::json!({
                "id": id, "symbol": symbol, "price_exponent": -2, "partition": 1,
            });
            serde_json::from_value(row).unwrap()
        };
        let all = [known(1, "ACME"), known(2, "OTHER")];
        let cases: [(DefineInstrument, &[&str]); 5] = [
            (definition(), &[]),
            (
                DefineInstrument { price_exponent: -4, ..definition() },
                &["--price-exponent -4: -2 stands"],
            ),
            (
                DefineInstrument { symbol: Symbol::new("OTHER").unwrap(), ..definition() },
                &["--symbol OTHER is instrument 2's"],
            ),
            (
                DefineInstrument { price_min: Price(2_000), tick_size: Price(0), ..definition() },
                &["--tick 0", "--price-min 2000 is above --price-max 1000"],
            ),
            (
                DefineInstrument { reference_price: Price(1_001), ..definition() },
                &["--reference-price 1001"],
            ),
        ];
        for (definition, want) in cases {
            let found = contradictions(&definition, &all);
            assert_eq!(found.len(), want.len(), "{found:?}");
            for (found, want) in found.iter().zip(want) {
                assert!(found.contains(want), "{found:?}, want {want:?}");
            }
        }
    }
}
