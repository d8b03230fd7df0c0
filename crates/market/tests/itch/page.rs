//! Checks the protocol pages against the code: every offset of `docs/protocols/itch.md`, and the
//! example of `docs/protocols/moldudp64.md`.

use std::collections::BTreeMap;

use weir_feed::itch::Message;
use weir_feed::itch::encode::{Header, OrderDelete};
use weir_feed::itch::layout::{TYPES, Value};
use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome};

const ITCH: &str = include_str!("../../../../docs/protocols/itch.md");
const MOLDUDP64: &str = include_str!("../../../../docs/protocols/moldudp64.md");

/// A row of a message's table: offset, size, field.
type Row = (usize, usize, String);

fn rows(section: &str) -> Vec<Row> {
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")).filter_map(|line| {
        let mut cells = line.split(" | ");
        let offset = cells.next()?.parse().ok()?;
        let size = cells.next()?.parse().ok()?;
        Some((offset, size, cells.next()?.trim_matches('`').to_owned()))
    });
    cells.collect()
}

/// Returns the value of a field of `bytes` according to the table.
fn held(bytes: &[u8], (offset, size, _): &Row, is_text: bool) -> Value {
    let field = &bytes[*offset..offset + size];
    if is_text {
        let mut text = [0; 8];
        text[..*size].copy_from_slice(field);
        return Value::Text(text, *size);
    }
    Value::Number(field.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[test]
fn the_page_of_itch_has_every_field_of_every_message_at_its_offset() {
    let (head, messages) = ITCH.split_once("## Messages\n").expect("the page's messages");
    let common = head.split("begins with\n").nth(1).expect("what every message begins with");
    let common: Vec<Row> = rows(common).into_iter().skip(1).collect();
    let mut lengths = BTreeMap::new();
    for section in messages.split("### `").skip(1) {
        let kind = section.as_bytes()[0];
        let len: usize = section
            .split(" bytes. ")
            .next()
            .and_then(|before| before.lines().last()?.parse().ok())
            .expect("a length");
        lengths.insert(kind, len);
        // Every byte is different, so that no two fields have the same value.
        let mut bytes: Vec<u8> = (0..len).map(|at| 0x20 + at as u8).collect();
        bytes[0] = kind;
        let table: Vec<Row> = common.iter().cloned().chain(rows(section)).collect();
        let mut at = 0;
        Message::new(&bytes).expect("a message of the page's length").visit(|name, value| {
            let row = table.get(at).unwrap_or_else(|| panic!("{name} is not on the page"));
            let is_text = matches!(value, Value::Text(..));
            assert_eq!((row.2.as_str(), held(&bytes, row, is_text)), (name, value));
            at += 1;
        });
        assert_eq!(at, table.len(), "fields of {}", char::from(kind));
    }
    assert_eq!(lengths, TYPES.iter().copied().collect());
}

#[test]
fn the_example_of_the_page_of_moldudp64_is_what_is_written() {
    let example = MOLDUDP64.split("```text\n").nth(1).expect("the example");
    let want: Vec<u8> = example
        .lines()
        .take_while(|line| *line != "```")
        .filter_map(|line| line.trim_start().split_once("  "))
        .filter(|(offset, _)| offset.parse::<usize>().is_ok())
        .flat_map(|(_, bytes)| bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16)))
        .collect::<Result<_, _>>()
        .expect("bytes in hex");
    let session = MoldSession::new("WEIR00001A").expect("a session's name");
    let mut writer = PacketWriter::new(session, 1_000, 1_472);
    let header = Header { stock_locate: 13, tracking_number: 0, timestamp: 34_200_000_000_001 };
    let delete = OrderDelete { order_reference: 42 }.to_bytes(&header);
    assert_eq!(writer.push(&delete), PushOutcome::Added);
    assert_eq!(writer.take(<[u8]>::to_vec), Some(want));
}
