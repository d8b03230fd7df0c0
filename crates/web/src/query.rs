//! A reader's query: the parameters of a URL or the equal members of a JSON object, and its
//! credentials.

use std::time::Duration;

use axum::http::{HeaderMap, header};
use weir_types::hex::parse_hex;
use weir_types::{AccountId, FirmId, InstrumentId, PartitionId, SessionId, Switch};
use weir_wire::delivery::FetchOrders;
use weir_wire::session::ApiKey;

/// The maximum length of a token in bytes: far more than one with cursors for a hundred sources.
const TOKEN_LEN_MAX: usize = 4 * 1024;
/// The default time that a page may wait for its first row, in milliseconds.
const WAIT_DEFAULT_MS: u32 = 10_000;
/// The maximum of that time, in milliseconds.
const WAIT_MAX_MS: u32 = 30_000;

/// The store's own wait for a minimum token, in milliseconds.
const MIN_WAIT_DEFAULT_MS: u32 = 1_000;

/// An invalid parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter}: {what}")]
pub struct BadParameter {
    /// The parameter's name, as given.
    pub parameter: String,
    /// The accepted values.
    pub what: &'static str,
}

/// A query for order state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderQuery {
    /// The token to continue with; empty for the beginning.
    pub token: Vec<u8>,
    /// Only this firm's orders.
    pub firm_id: FirmId,
    /// Only this account's orders.
    pub account_id: AccountId,
    /// Only this instrument's orders.
    pub instrument_id: InstrumentId,
    /// Only this source's orders.
    pub source_id: PartitionId,
    /// Only live orders.
    pub live_only: bool,
    /// The maximum number of rows of a page.
    pub rows_max: u32,
    /// The number of rows to wait for.
    pub rows_min: u32,
    /// The maximum size of a page's rows on the wire, in bytes.
    pub bytes_max: u32,
    /// The maximum wait, in milliseconds.
    pub wait_ms: u32,
    /// The token that the store must have reached before it answers; empty for none.
    pub min_token: Vec<u8>,
    /// The maximum wait for that, in milliseconds; zero for the server's default.
    pub min_wait_ms: u32,
}

impl Default for OrderQuery {
    fn default() -> OrderQuery {
        OrderQuery {
            token: Vec::new(),
            firm_id: FirmId::NONE,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            source_id: PartitionId::NONE,
            live_only: false,
            rows_max: 0,
            rows_min: 1,
            bytes_max: 0,
            wait_ms: WAIT_DEFAULT_MS,
            min_token: Vec::new(),
            min_wait_ms: 0,
        }
    }
}

impl OrderQuery {
    /// Parses the query of a URL.
    ///
    /// # Errors
    /// [`BadParameter`], also for an unknown or repeated parameter.
    pub fn of_query(query: &str) -> Result<OrderQuery, BadParameter> {
        let mut ask = OrderQuery::default();
        let mut seen: Vec<String> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if seen.iter().any(|before| **before == *name) {
                return Err(bad(&name, "it comes twice"));
            }
            ask.set(&name, &value)?;
            seen.push(name.into_owned());
        }
        Ok(ask)
    }

    /// Sets a parameter by its name.
    ///
    /// # Errors
    /// [`BadParameter`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadParameter> {
        match name {
            "token" => self.token = token_of(name, value)?,
            "firm" => self.firm_id = FirmId(number(name, value)?),
            "account" => self.account_id = AccountId(number(name, value)?),
            "instrument" => self.instrument_id = InstrumentId(number(name, value)?),
            "source" => self.source_id = PartitionId(number(name, value)?),
            "live" => {
                self.live_only = match value {
                    "true" | "1" => true,
                    "false" | "0" => false,
                    _ => return Err(bad(name, "true or false")),
                }
            }
            "max_rows" => self.rows_max = number(name, value)?,
            "min_rows" => self.rows_min = number(name, value)?,
            "max_bytes" => self.bytes_max = number(name, value)?,
            "min_token" => self.min_token = token_of(name, value)?,
            "wait_ms" => self.wait_ms = wait_of(name, value)?,
            "min_wait_ms" => self.min_wait_ms = wait_of(name, value)?,
            _ => return Err(bad(name, "there is no such parameter")),
        }
        Ok(())
    }

    /// Returns the time after which the store has answered: the waits that the query names.
    #[must_use]
    pub fn wait_max(&self) -> Duration {
        let min_wait_ms =
            if self.min_wait_ms == 0 { MIN_WAIT_DEFAULT_MS } else { self.min_wait_ms };
        Duration::from_millis(u64::from(self.wait_ms.max(1)) + u64::from(min_wait_ms))
    }

    /// Returns the store's query for one page.
    #[must_use]
    pub fn question(&self, session_id: SessionId, correlation_id: u64) -> FetchOrders {
        FetchOrders {
            correlation_id,
            session_id,
            firm_id: self.firm_id,
            account_id: self.account_id,
            instrument_id: self.instrument_id,
            rows_max: self.rows_max,
            rows_min: self.rows_min,
            bytes_max: self.bytes_max,
            wait_max_us: self.wait_ms.max(1) * 1_000,
            credit: 1,
            live_only: if self.live_only { Switch::On } else { Switch::Off },
            source_id: self.source_id,
            min_wait_us: self.min_wait_ms.saturating_mul(1_000),
            credit_rows: 0,
            credit_bytes: 0,
        }
    }
}

fn bad(parameter: &str, what: &'static str) -> BadParameter {
    // An unknown name is repeated only up to 40 characters.
    BadParameter { parameter: parameter.chars().take(40).collect(), what }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, BadParameter> {
    let is_digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if is_digits { value.parse().ok() } else { None };
    parsed.ok_or_else(|| bad(name, "a whole number in its range"))
}

fn wait_of(name: &str, value: &str) -> Result<u32, BadParameter> {
    let wait = number(name, value)?;
    if wait > WAIT_MAX_MS { Err(bad(name, "at most 30000")) } else { Ok(wait) }
}

fn token_of(name: &str, value: &str) -> Result<Vec<u8>, BadParameter> {
    let token = parse_hex(value).ok_or_else(|| bad(name, "hexadecimal digits"))?;
    if token.len() > TOKEN_LEN_MAX { Err(bad(name, "far too long for a token")) } else { Ok(token) }
}

/// Parses the session and the API key of `Authorization: Bearer SESSION:KEY`, the key in
/// hexadecimal.
#[must_use]
pub fn credentials(headers: &HeaderMap) -> Option<(SessionId, ApiKey)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (session, key) = rest.trim().split_once(':')?;
    let key = <[u8; 32]>::try_from(parse_hex(key)?).ok()?;
    Some((SessionId(number("session", session).ok()?), ApiKey(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_parameter_by_parameter() {
        let ask = OrderQuery::of_query(
            "token=0aff&firm=1&account=22&instrument=3&source=9&live=true&max_rows=50&min_rows=5\
             &max_bytes=1000&wait_ms=250&min_token=01&min_wait_ms=40",
        );
        let want = OrderQuery {
            token: vec![10, 255],
            firm_id: FirmId(1),
            account_id: AccountId(22),
            instrument_id: InstrumentId(3),
            source_id: PartitionId(9),
            live_only: true,
            rows_max: 50,
            rows_min: 5,
            bytes_max: 1_000,
            wait_ms: 250,
            min_token: vec![1],
            min_wait_ms: 40,
        };
        assert_eq!(ask, Ok(want));
        assert_eq!(OrderQuery::of_query(""), Ok(OrderQuery::default()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let long = format!("token={}", "00".repeat(TOKEN_LEN_MAX + 1));
        for (query, parameter) in [
            ("firm=x", "firm"),
            ("firm=-1", "firm"),
            ("firm=+1", "firm"),
            ("firm=", "firm"),
            ("source=70000", "source"),
            ("live=yes", "live"),
            ("token=0", "token"),
            ("token=zz", "token"),
            (&long, "token"),
            ("wait_ms=30001", "wait_ms"),
            ("min_wait_ms=30001", "min_wait_ms"),
            ("min_token=0", "min_token"),
            ("firms=1", "firms"),
            ("firm=1&live=1&firm=1", "firm"),
        ] {
            let refused = OrderQuery::of_query(query).unwrap_err();
            assert_eq!(refused.parameter, parameter, "{}", &query[..query.len().min(40)]);
        }
    }

    #[test]
    fn a_bearer_is_a_session_and_its_key() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            credentials(&headers)
        };
        let key = "07".repeat(32);
        assert_eq!(with(&format!("Bearer 11:{key}")), Some((SessionId(11), ApiKey([7; 32]))));
        assert_eq!(with(&format!("bearer 11:{key}")), Some((SessionId(11), ApiKey([7; 32]))));
        assert_eq!(with(&format!("Basic 11:{key}")), None);
        assert_eq!(with(&format!("Bearer {key}")), None);
        assert_eq!(with(&format!("Bearer 11:{key}00")), None);
        assert_eq!(with(&format!("Bearer eleven:{key}")), None);
        assert_eq!(credentials(&HeaderMap::new()), None);
    }
}
