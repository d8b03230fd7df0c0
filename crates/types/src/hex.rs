//! Bytes as hexadecimal text: keys, tokens and attributes, for people and JSON.

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a hexadecimal text; `None` for anything else.
#[must_use]
pub fn parse_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let is_digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).ok();
    if is_digits { (0..text.len()).step_by(2).map(pair).collect() } else { None }
}

/// The 32 bytes of an API key in hexadecimal.
#[must_use]
pub fn parse_key(text: &str) -> Option<[u8; 32]> {
    let digits = text.trim().as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again_and_nothing_else_is() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(parse_hex(&hex(&all)), Some(all));
        assert_eq!(parse_hex("0aFf"), Some(vec![10, 255]));
        assert_eq!(parse_hex(""), Some(Vec::new()));
        for wrong in ["0", "0g", "+1", " 1", "é", "0x12"] {
            assert_eq!(parse_hex(wrong), None, "{wrong:?}");
        }
    }
}
