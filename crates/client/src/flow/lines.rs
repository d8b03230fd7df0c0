//! Bounded reading of text files, line by line, and parsing of their numbers.
//!
//! Never holds more than one line, never reads past its limits, never panics on any bytes. Numbers
//! are parsed as integers with a fixed number of decimals: no floating point.

use std::io::{BufRead, Read};

use super::error::FlowError;

/// The most bytes of a line; a Bitstamp book of 20 levels a side has about 1,300.
pub const LINE_LEN_MAX: usize = 64 * 1024;

/// The most lines of a file; a busy stock's day has a few million.
pub const LINE_COUNT_MAX: u64 = 100_000_000;

/// A reader of lines that counts them.
pub(super) struct Lines<R> {
    input: R,
    file: String,
    line: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R, file: &str) -> Lines<R> {
        Lines { input, file: file.to_owned(), line: 0, buffer: Vec::with_capacity(256) }
    }

    /// Moves to the next line; `false` at the end of the file.
    pub(super) fn advance(&mut self) -> Result<bool, FlowError> {
        self.buffer.clear();
        if self.line >= LINE_COUNT_MAX {
            return Err(FlowError::TooManyLines { file: self.file.clone(), max: LINE_COUNT_MAX });
        }
        let mut bounded = (&mut self.input).take(LINE_LEN_MAX as u64 + 1);
        let read = bounded
            .read_until(b'\n', &mut self.buffer)
            .map_err(|source| FlowError::Io { file: self.file.clone(), source })?;
        if read == 0 {
            return Ok(false);
        }
        self.line += 1;
        while matches!(self.buffer.last(), Some(b'\n' | b'\r')) {
            self.buffer.pop();
        }
        if self.buffer.len() > LINE_LEN_MAX {
            return Err(FlowError::LineTooLong {
                file: self.file.clone(),
                line: self.line,
                max: LINE_LEN_MAX,
            });
        }
        Ok(true)
    }

    /// The line read last, without its end.
    pub(super) fn current(&self) -> &[u8] {
        &self.buffer
    }

    /// The number of lines read.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The file's name.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// Makes an error at a field of the current line.
    pub(super) fn bad(&self, field: &'static str, why: &'static str) -> FlowError {
        FlowError::Field { file: self.file.clone(), line: self.line, field, why }
    }
}

/// Parses a signed whole number within `i64`.
pub(super) fn integer(text: &[u8]) -> Result<i64, &'static str> {
    decimal(text, 0)
}

/// Parses a whole number that is not negative.
pub(super) fn unsigned(text: &[u8]) -> Result<u64, &'static str> {
    u64::try_from(integer(text)?).map_err(|_| "negative")
}

/// The most digits and the largest exponent of a number; no field comes near.
const DIGITS_MAX: usize = 64;

/// Parses a decimal number as a mantissa with `scale` decimals: `decimal(b"1.5", 2)` is 150. Digits
/// beyond `scale` round to the nearest; an exponent (`1e-05`) shifts the point.
pub(super) fn decimal(text: &[u8], scale: u32) -> Result<i64, &'static str> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut parts = text.splitn(2, |byte| matches!(byte, b'e' | b'E'));
    let digits = parts.next().unwrap_or_default();
    let shift = parts.next().map_or(Ok(0), exponent)?;
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let whole = parts.next().unwrap_or_default();
    let fraction = parts.next().unwrap_or_default();
    if whole.is_empty() || whole.len() + fraction.len() > DIGITS_MAX {
        return Err("not a number");
    }
    if whole.iter().chain(fraction).any(|byte| !byte.is_ascii_digit()) {
        return Err("not a number");
    }
    let digit_at = |index: i64| match usize::try_from(index) {
        Ok(index) => whole.iter().chain(fraction).nth(index).copied().unwrap_or(b'0'),
        Err(_) => b'0',
    };
    // The number of digits before the point once it has been shifted.
    let kept = whole.len() as i64 + i64::from(scale) + shift;
    let mut mantissa: i64 = 0;
    for index in 0..kept {
        mantissa = push_digit(mantissa, digit_at(index))?;
    }
    if digit_at(kept) >= b'5' {
        mantissa = mantissa.checked_add(1).ok_or("out of range")?;
    }
    Ok(if negative { -mantissa } else { mantissa })
}

fn exponent(text: &[u8]) -> Result<i64, &'static str> {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => (1, text),
    };
    let known = (1..=2).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    if !known {
        return Err("not a number");
    }
    Ok(sign * digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

fn push_digit(mantissa: i64, byte: u8) -> Result<i64, &'static str> {
    mantissa
        .checked_mul(10)
        .and_then(|value| value.checked_add(i64::from(byte - b'0')))
        .ok_or("out of range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_without_floating_point() {
        for (text, scale, want) in [
            ("1.5", 2, Ok(150)),
            ("-1.5", 2, Ok(-150)),
            ("236.47", 2, Ok(23_647)),
            ("1.7885566900000001", 8, Ok(178_855_669)),
            ("8.8351857299999992", 8, Ok(883_518_573)),
            ("34200.18960767", 9, Ok(34_200_189_607_670)),
            ("7", 3, Ok(7_000)),
            ("", 0, Err("not a number")),
            ("-", 0, Err("not a number")),
            ("1e5", 2, Ok(10_000_000)),
            ("1.0000000000000001e-05", 8, Ok(1_000)),
            ("9e-99", 8, Ok(0)),
            ("1e99", 8, Err("out of range")),
            ("1e", 2, Err("not a number")),
            ("1e-", 2, Err("not a number")),
            ("1e100", 2, Err("not a number")),
            ("1.0x", 1, Err("not a number")),
            (".5", 1, Err("not a number")),
            ("9223372036854775808", 0, Err("out of range")),
            ("92233720368547758.08", 4, Err("out of range")),
        ] {
            assert_eq!(decimal(text.as_bytes(), scale), want, "{text}");
        }
    }

    #[test]
    fn an_endless_line_is_refused_without_reading_it() {
        let mut lines = Lines::new(std::io::BufReader::new(std::io::repeat(b'7')), "endless");
        assert!(matches!(lines.advance(), Err(FlowError::LineTooLong { line: 1, .. })));
    }
}
