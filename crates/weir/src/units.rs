//! Values of options with units: durations (`250us`, `10s`), sizes (`64MiB`) and addresses
//! (`localhost:7001`).
//!
//! Each function is a value parser of clap: its error names the accepted forms. A number alone is
//! accepted only by the parsers whose option took one before units existed, in that option's unit.

use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::time::Duration;

use weir_client::load::Arrivals;
use weir_types::DecimalFault;

/// Units of time and their nanoseconds.
const TIMES: [(&str, u128); 10] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Units of sizes and their bytes; upper and lower case are the same.
const SIZES: [(&str, u128); 9] = [
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

const WANT_TIME: &str = "want a number and a unit (ns, us, ms, s, m, h, d), such as 250us or 10s";
const WANT_SIZE: &str = "want a number of bytes, or a number and a unit (kB, MB, GB, KiB, MiB, \
                         GiB), such as 64MiB or 1GB";
const WANT_ADDRESS: &str = "want HOST:PORT, such as 127.0.0.1:7001 or localhost:7001";

/// A duration with its unit.
///
/// # Errors
/// The accepted forms.
pub fn duration(text: &str) -> Result<Duration, String> {
    time(text, None)
}

/// A duration; a number alone is seconds.
///
/// # Errors
/// The accepted forms.
pub fn seconds(text: &str) -> Result<Duration, String> {
    time(text, Some("s"))
}

/// A duration; a number alone is milliseconds.
///
/// # Errors
/// The accepted forms.
pub fn millis(text: &str) -> Result<Duration, String> {
    time(text, Some("ms"))
}

/// A duration; a number alone is microseconds.
///
/// # Errors
/// The accepted forms.
pub fn micros(text: &str) -> Result<Duration, String> {
    time(text, Some("us"))
}

/// The interval of a table that is refreshed: 50 ms to a minute; a number alone is milliseconds.
///
/// # Errors
/// The accepted forms.
pub fn refresh(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(50)..=Duration::from_secs(60);
    let found = millis(text)?;
    if range.contains(&found) { Ok(found) } else { Err("want 50ms to 1m".to_owned()) }
}

/// A size in bytes; a number alone is bytes.
///
/// # Errors
/// The accepted forms.
pub fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let amount = amount(&lower, &SIZES, Some("b"));
    amount.and_then(|amount| u64::try_from(amount).ok()).ok_or_else(|| WANT_SIZE.to_owned())
}

/// Arrivals of orders in time; a number alone in a staircase is seconds.
///
/// # Errors
/// The accepted forms.
pub fn arrivals(text: &str) -> Result<Arrivals, String> {
    Arrivals::parse_with(text, |time| seconds(time).ok().map(|time| time.as_secs_f64()))
}

/// A decimal number as a multiple of ten to `exponent`, exactly.
///
/// # Errors
/// The accepted form, or the finest step.
pub fn decimal(text: &str, exponent: i8) -> Result<i64, String> {
    let fault = |fault| match fault {
        DecimalFault::Malformed => "want a decimal number, such as 100 or 10.05".to_owned(),
        DecimalFault::Step => {
            format!("it is no multiple of {}", weir_types::decimal(1, exponent))
        }
        DecimalFault::TooLarge => "it is too large".to_owned(),
    };
    let mantissa = weir_types::mantissa(text, exponent).map_err(fault)?;
    i64::try_from(mantissa).map_err(|_| fault(DecimalFault::TooLarge))
}

/// An address; a host name is looked up, and IPv4 is preferred.
///
/// # Errors
/// The accepted form, or that the host is unknown.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let is_whole = text
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if !is_whole {
        return Err(WANT_ADDRESS.to_owned());
    }
    let found: Vec<SocketAddr> = text.to_socket_addrs().into_iter().flatten().collect();
    let preferred = weir_client::connection::preferred(&found);
    preferred.ok_or_else(|| format!("no host of that name is known; {WANT_ADDRESS}"))
}

/// An address of IPv4; a host name is looked up.
///
/// # Errors
/// As [`address`].
pub fn address_v4(text: &str) -> Result<SocketAddrV4, String> {
    match address(text)? {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(_) => Err(format!("it is not an address of IPv4; {WANT_ADDRESS}")),
    }
}

fn time(text: &str, bare: Option<&str>) -> Result<Duration, String> {
    let nanos = amount(text.trim(), &TIMES, bare).and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| match bare {
        None => WANT_TIME.to_owned(),
        Some(unit) => format!("{WANT_TIME}; a number alone is {}", name_of(unit)),
    })
}

fn name_of(unit: &str) -> &'static str {
    match unit {
        "us" => "microseconds",
        "ms" => "milliseconds",
        _ => "seconds",
    }
}

/// The amount in the smallest unit, exactly: a fraction finer than that is refused.
fn amount(text: &str, units: &[(&str, u128)], bare: Option<&str>) -> Option<u128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let unit = if unit.is_empty() { bare? } else { unit };
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    let whole = whole.parse::<u64>().ok().map(u128::from)?;
    let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()?.into() };
    let part: u128 = u128::checked_mul(part, *factor)?;
    part.is_multiple_of(scale)
        .then(|| whole.checked_mul(*factor)?.checked_add(part / scale))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_a_number_alone_only_where_it_had_a_meaning() {
        let cases: [(&str, Option<u64>, Option<u64>); 14] = [
            ("250us", Some(250_000), Some(250_000)),
            ("250 \u{b5}s", Some(250_000), Some(250_000)),
            ("10s", Some(10_000_000_000), Some(10_000_000_000)),
            ("1.5m", Some(90_000_000_000), Some(90_000_000_000)),
            ("2h", Some(7_200_000_000_000), Some(7_200_000_000_000)),
            ("1d", Some(86_400_000_000_000), Some(86_400_000_000_000)),
            ("0ns", Some(0), Some(0)),
            ("7", None, Some(7_000_000)),
            ("0.25", None, Some(250_000)),
            ("0.5ns", None, None),
            ("", None, None),
            ("-1s", None, None),
            ("10 seconds", None, None),
            ("99999999999999999999s", None, None),
        ];
        for (text, with_unit, in_millis) in cases {
            let nanos = |of: Result<Duration, String>| of.ok().map(|of| of.as_nanos() as u64);
            assert_eq!(nanos(duration(text)), with_unit, "{text:?}");
            assert_eq!(nanos(millis(text)), in_millis, "{text:?}");
        }
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(micros("2"), Ok(Duration::from_micros(2)));
        let error = seconds("soon").unwrap_err();
        assert!(error.contains("such as 250us") && error.ends_with("alone is seconds"), "{error}");
        assert!(!duration("soon").unwrap_err().contains("alone"), "a unit is required");
    }

    #[test]
    fn steps_of_a_staircase_have_units() {
        let steps = |text: &str| match arrivals(text) {
            Ok(Arrivals::Staircase(steps)) => Ok(steps),
            Ok(other) => panic!("{text}: {other:?}"),
            Err(error) => Err(error),
        };
        let want = vec![(500.0, 4.0), (2_000.0, 0.25), (1.0, 120.0), (7.0, 3.0)];
        assert_eq!(steps("staircase:500*4s,2000*250ms,1*2m,7*3"), Ok(want));
        for text in ["staircase:500*4 parsecs", "staircase:500", "staircase:500*0s"] {
            let error = steps(text).unwrap_err();
            assert!(error.contains("such as staircase:500*4s,2000*250ms"), "{error}");
        }
    }

    #[test]
    fn sizes_are_decimal_or_binary() {
        let cases: [(&str, Option<u64>); 9] = [
            ("8388608", Some(8 << 20)),
            ("64MiB", Some(64 << 20)),
            ("1GB", Some(1_000_000_000)),
            ("1.5 kib", Some(1_536)),
            ("0", Some(0)),
            ("64M", None),
            ("1.0001KB", None),
            ("-1", None),
            ("99999999TiB", None),
        ];
        for (text, want) in cases {
            assert_eq!(bytes(text).ok(), want, "{text:?}");
        }
        assert!(bytes("64M").unwrap_err().contains("64MiB"));
    }

    #[test]
    fn decimals_are_exact_multiples() {
        let cases: [(&str, i8, Result<i64, &str>); 13] = [
            ("10.05", -2, Ok(1_005)),
            ("10.0500", -2, Ok(1_005)),
            ("10", -2, Ok(1_000)),
            ("-0.5", -1, Ok(-5)),
            ("7", 0, Ok(7)),
            ("700", 2, Ok(7)),
            ("10.055", -2, Err("multiple of 0.01")),
            ("750", 2, Err("multiple of 100")),
            ("", -2, Err("such as")),
            ("1.", -2, Err("such as")),
            (".5", -2, Err("such as")),
            ("1e3", -2, Err("such as")),
            ("99999999999999999999", -2, Err("too large")),
        ];
        for (text, exponent, want) in cases {
            match (decimal(text, exponent), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{text:?}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{text:?}: {got}"),
                (got, want) => panic!("{text:?}: {got:?}, want {want:?}"),
            }
        }
    }

    #[test]
    fn addresses_take_host_names() {
        assert_eq!(address("localhost:7001").unwrap().port(), 7001);
        assert!(address("localhost:7001").unwrap().is_ipv4(), "a node listens on 127.0.0.1");
        assert!(address("[::1]:7001").unwrap().is_ipv6());
        assert!(address_v4("[::1]:7001").is_err());
        assert_eq!(address_v4("127.0.0.1:0").map(|address| address.port()), Ok(0));
        for text in ["", "localhost", ":7001", "127.0.0.1:70000", "127.0.0.1"] {
            let error = address(text).unwrap_err();
            assert!(error.contains("localhost:7001"), "{text:?}: {error}");
        }
    }
}
