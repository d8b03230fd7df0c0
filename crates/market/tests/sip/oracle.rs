//! Compares our reading of real frames with that of an independent decoder
//! (`tests/oracle/expected.py`), field by field in byte order.

use weir_feed::layout::Value;

use crate::capture;

/// A field's name, without parts that only state its context, and its value.
type Line = (String, String);

/// The fields of a frame in byte order.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) lines: Vec<Line>,
    /// The number of decimals of prices.
    pub(crate) decimals: usize,
    /// A prefix of the names.
    pub(crate) prefix: &'static str,
}

impl Listing {
    pub(crate) fn message(&mut self) {
        self.lines.push(("message".into(), String::new()));
    }

    /// Adds a field, as passed by the `fields` method of a structure.
    pub(crate) fn add(&mut self, name: &str, value: Value<'_>) {
        let name = format!("{}{}", self.prefix, name.replace('_', ""));
        if name.contains("reserved") {
            return;
        }
        if name.ends_with("salecondition") {
            let Value::Text(text) = value else { panic!("conditions are characters") };
            for (index, byte) in text.iter().enumerate() {
                let condition = String::from_utf8_lossy(&[*byte]).trim().to_owned();
                self.lines.push((format!("category{}", index + 1), condition));
            }
            return;
        }
        let reading = match value {
            Value::Text(text) => String::from_utf8_lossy(text).trim_matches([' ', '\0']).to_owned(),
            Value::Signed(number) if self.is_price(&normal(&name)) => {
                decimal(number, self.decimals)
            }
            Value::Unsigned(number) if self.is_price(&normal(&name)) => {
                decimal(i64::try_from(number).expect("a price"), self.decimals)
            }
            number => number.to_string(),
        };
        self.lines.push((normal(&name), reading));
    }

    fn is_price(&self, name: &str) -> bool {
        let is_other = ["date", "denominator", "test", "increment", "type"];
        let is_price = name.contains("price") && !is_other.iter().any(|it| name.contains(it));
        self.decimals > 0 && (is_price || name.ends_with("auctioncollar"))
    }
}

/// Formats a number with this many decimals, without trailing zeros.
fn decimal(number: i64, decimals: usize) -> String {
    let unit = 10_i64.pow(u32::try_from(decimals).expect("a few"));
    let text = format!("{}.{:0decimals$}", number / unit, (number % unit).abs());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Strips parts of a name that only state the part of the message or one of two times.
fn normal(name: &str) -> String {
    let mut name = name;
    for prefix in ["corrected", "original", "consolidated", "participant"] {
        match name.strip_prefix(prefix) {
            Some("id" | "referencenumber" | "participantreferencenumber") | None => {}
            Some(rest) => name = rest,
        }
    }
    for prefix in ["timestamp1", "timestamp2", "priordaytrade"] {
        name = name.strip_prefix(prefix).unwrap_or(name);
    }
    let name = name.strip_suffix("long").or(name.strip_suffix("short")).unwrap_or(name);
    if name == "dateandtime" { "seconds".to_owned() } else { name.to_owned() }
}

/// Returns the frames of an oracle's file, each with the oracle's reading.
fn expected(text: &str) -> Vec<(&str, Vec<Line>)> {
    let mut frames: Vec<(&str, Vec<Line>)> = Vec::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("frame ") {
            frames.push((path, Vec::new()));
            continue;
        }
        let (name, reading) = line.split_once('\t').unwrap_or((line, ""));
        let frame = frames.last_mut().expect("a frame comes first");
        frame.1.push((normal(name), reading.to_owned()));
    }
    frames
}

/// Compares all frames of an oracle's file; returns the number of frames and messages.
pub(crate) fn compare(text: &str, list: impl Fn(&str, &[u8]) -> Listing) -> (usize, usize) {
    let (mut frames, mut messages) = (0, 0);
    for (path, want) in expected(text) {
        let Some(capture) = capture::data(&format!("omi/{path}")) else { return (0, 0) };
        let mut got = Vec::new();
        for datagram in crate::udp_capture::payloads(&capture) {
            got.append(&mut list(path, datagram).lines);
        }
        for (index, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got, want, "{path}: line {index}");
        }
        assert_eq!(got.len(), want.len(), "{path}");
        frames += 1;
        messages += want.iter().filter(|(name, _)| name == "message").count();
    }
    (frames, messages)
}
