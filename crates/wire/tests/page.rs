//! Keeps the order entry page equal to the schema: its tables and example frames are generated from
//! `schema/weir.xml` and the codec, between marks in the page.
//!
//! After a change of the schema, `UPDATE_PAGE=1 cargo test -p weir-wire --test page` rewrites them;
//! the prose around them is to be checked by hand. Without it, a difference fails the test.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;

use roxmltree::{Document, Node};
use weir_types::{
    AccountId, BatchNo, ClOrdId, Epoch, EventNo, ExecId, ExecInst, ExecType, FirmId, InstrumentId,
    Liquidity, MatchId, Nanos, OrdStatus, OrdType, OrderId, PartitionId, Position, Price, Qty,
    Reason, Rec, RequestNo, SelfTradePrevention, Seq, SessionId, Side, Switch, TimeInForce,
};
use weir_wire::catalogue::{Tail, message_info};
use weir_wire::dialogue::{RESUME_POINT_COUNT_MAX, TOKEN_LEN_MAX, put_request, put_source_batch};
use weir_wire::event::OrderEvent;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, FRAME_HEADER_LEN, put_frame};
use weir_wire::ingest::{
    BATCH_ROW_COUNT_MAX, BatchFlags, OpenSource, SOURCE_FRAME_LEN_MAX, SourceBatch,
};
use weir_wire::order_entry::NewOrder;
use weir_wire::report::{ExecutionReport, StageTimes};
use weir_wire::rows::ATTRIBUTES_LEN_MAX;
use weir_wire::{FieldInfo, MessageInfo, Request, catalogue};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";
/// Characters in a line of a page, which `xtask tidy` checks.
const LINE_CHARS_MAX: usize = 100;

fn page_path() -> String {
    format!("{ROOT}/docs/protocols/order-entry.md")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns the page with every generated part made anew, and the names of the parts.
fn regenerated(page: &str, doc: &Document<'_>) -> (String, Vec<String>) {
    let (mut fresh, mut parts, mut rest) = (String::new(), vec![], page);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (part, after) = after.split_once(" -->").expect("a mark ends");
        let (_, after) = after.split_once(END).unwrap_or_else(|| panic!("{part} has no end"));
        write!(fresh, "{before}{BEGIN}{part} -->\n{}\n{END}", content(part, doc).trim()).unwrap();
        parts.push(part.to_owned());
        rest = after;
    }
    fresh.push_str(rest);
    (fresh, parts)
}

fn content(part: &str, doc: &Document<'_>) -> String {
    match part.split_once(' ').unwrap_or((part, "")) {
        ("message", name) => message_part(find(doc, "message", name), info_of(name)),
        ("types", _) => types_part(doc),
        ("enumerations", _) => enumerations_part(doc),
        ("reasons", _) => reasons_part(doc),
        ("limits", _) => limits_part(),
        ("example", "NewOrder") => annotated(&new_order_frame()),
        ("example", "ExecutionReport") => annotated(&report_frame()),
        _ => panic!("the page asks for an unknown part: {part}"),
    }
}

fn info_of(name: &str) -> &'static MessageInfo {
    catalogue().iter().find(|info| info.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn find<'a>(doc: &'a Document<'a>, tag: &str, name: &str) -> Node<'a, 'a> {
    doc.descendants()
        .find(|node| node.tag_name().name() == tag && node.attribute("name") == Some(name))
        .unwrap_or_else(|| panic!("the schema has no {tag} {name}"))
}

/// The description as a sentence.
fn sentence(node: Node<'_, '_>) -> String {
    format!("{}.", meaning(node).trim_end_matches('.'))
}

/// A paragraph whose lines break at 100 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("one is there from the start");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= LINE_CHARS_MAX {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// The description on one line, for a cell of a table.
fn meaning(node: Node<'_, '_>) -> String {
    let text = node.attribute("description").expect("all is described");
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn message_part(node: Node<'_, '_>, info: &MessageInfo) -> String {
    let (template_id, length) = (info.template_id, info.block_length);
    let opening = format!("{} Template {template_id}, block of {length} bytes.", sentence(node));
    let mut out = wrapped(&opening) + "\n\n";
    fields_table(node, info.fields, &mut out);
    match info.tail {
        Tail::None | Tail::Definition => {}
        Tail::Group(group) => {
            let name = weir_wire::message::camel_case(group.name);
            let node = node.children().find(|n| n.tag_name().name() == "group").expect("a group");
            let length = group.block_length;
            let meaning = sentence(node);
            let opening = format!("Then the group `{name}`, entries of {length} bytes. {meaning}");
            write!(out, "\n{}\n\n", wrapped(&opening)).unwrap();
            fields_table(node, group.fields, &mut out);
            if let Some(name) = group.data {
                let data = node.children().find(|n| n.tag_name().name() == "data").expect("data");
                let meaning = sentence(data);
                let opening = format!("After each entry the data field `{name}`. {meaning}");
                write!(out, "\n{}\n", wrapped(&opening)).unwrap();
            }
        }
        Tail::Data(names) => {
            let data = node.children().filter(|n| n.tag_name().name() == "data");
            for (name, node) in names.iter().zip(data) {
                let name = weir_wire::message::camel_case(name);
                let opening = format!("Then the data field `{name}`. {}", sentence(node));
                writeln!(out, "\n{}", wrapped(&opening)).unwrap();
            }
        }
    }
    out
}

fn fields_table(node: Node<'_, '_>, fields: &[FieldInfo], out: &mut String) {
    out.push_str("| offset | field | type | meaning |\n| ---: | --- | --- | --- |\n");
    let elements = node.children().filter(|child| child.tag_name().name() == "field");
    for (field, element) in fields.iter().zip(elements) {
        let (offset, name) = (field.offset, field.schema_name());
        let (kind, meaning) = (field.schema_type, meaning(element));
        writeln!(out, "| {offset} | `{name}` | {kind} | {meaning} |").unwrap();
    }
}

fn types_part(doc: &Document<'_>) -> String {
    let mut out = "| type | on the wire | meaning |\n| --- | --- | --- |\n".to_owned();
    let types = doc.descendants().find(|node| node.tag_name().name() == "types").expect("types");
    for node in types.children() {
        let name = node.attribute("name").unwrap_or_default();
        let coding = node.attribute("encodingType").unwrap_or_default();
        let wire = match node.tag_name().name() {
            "type" => {
                let primitive = node.attribute("primitiveType").expect("types have one");
                let length = node.attribute("length").map(|n| format!(" × {n}"));
                format!("{primitive}{}", length.unwrap_or_default())
            }
            "composite" => node
                .children()
                .filter_map(|child| child.attribute("name").zip(child.attribute("primitiveType")))
                .map(|(name, primitive)| format!("{name} {primitive}"))
                .collect::<Vec<_>>()
                .join(", "),
            "enum" => format!("{coding}, [by value](#enumerations)"),
            "set" => {
                let choices: Vec<_> = node
                    .children()
                    .filter_map(|child| child.attribute("name").zip(child.text()))
                    .map(|(name, bit)| format!("bit {bit} {name}"))
                    .collect();
                format!("{coding}: {}", choices.join(", "))
            }
            _ => continue,
        };
        writeln!(out, "| {name} | {wire} | {} |", meaning(node)).unwrap();
    }
    out
}

fn enumerations_part(doc: &Document<'_>) -> String {
    let mut out = "| type | code | value | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for node in doc.descendants().filter(|node| node.tag_name().name() == "enum") {
        let name = node.attribute("name").expect("enums have one");
        let quote = if node.attribute("encodingType") == Some("char") { "'" } else { "" };
        if name == "reason" {
            continue;
        }
        for value in node.children().filter(Node::is_element) {
            let value_name = value.attribute("name").expect("values have one");
            let code = value.text().expect("values have a code");
            let meaning = meaning(value);
            writeln!(out, "| {name} | {quote}{code}{quote} | {value_name} | {meaning} |").unwrap();
        }
    }
    out
}

fn reasons_part(doc: &Document<'_>) -> String {
    let mut out = "| code | reason | meaning |\n| ---: | --- | --- |\n".to_owned();
    for value in find(doc, "enum", "reason").children().filter(Node::is_element) {
        let name = value.attribute("name").expect("values have one");
        let code = value.text().expect("values have a code");
        writeln!(out, "| {code} | {name} | {} |", meaning(value)).unwrap();
    }
    out
}

fn limits_part() -> String {
    let rows = [
        ("a frame that a client sends", format!("{CLIENT_FRAME_LEN_MAX} bytes, headers included")),
        ("resume points of a logon", RESUME_POINT_COUNT_MAX.to_string()),
        ("a token", format!("{TOKEN_LEN_MAX} bytes")),
        ("a frame that an outside core sends", format!("{SOURCE_FRAME_LEN_MAX} bytes")),
        ("rows of a batch of an outside core", BATCH_ROW_COUNT_MAX.to_string()),
        ("a row's attributes", format!("{ATTRIBUTES_LEN_MAX} bytes")),
        ("entries of a group, bytes of a data field", u16::MAX.to_string()),
    ];
    let mut out = "| item | most |\n| --- | --- |\n".to_owned();
    for (item, most) in rows {
        writeln!(out, "| {item} | {most} |").unwrap();
    }
    out
}

fn new_order_frame() -> Vec<u8> {
    let order = NewOrder {
        request_no: RequestNo(7),
        cl_ord_id: ClOrdId::new("ord-7").expect("a short name"),
        price: Price(58_653),
        order_qty: Qty(100),
        min_qty: Qty(0),
        display_qty: Qty(0),
        stop_px: Price(0),
        expire_time: Nanos(0),
        sending_time: Nanos(1_760_000_000_000_000_000),
        session_id: SessionId(3),
        instrument_id: InstrumentId(1),
        account_id: AccountId(21),
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::POST_ONLY,
        self_trade_prevention: SelfTradePrevention::CancelNewest,
    };
    let mut frame = vec![];
    put_request(&Request::NewOrder(order), &mut frame);
    frame
}

fn report_frame() -> Vec<u8> {
    let event = OrderEvent {
        position: Position(4_242),
        event_no: EventNo(9),
        request_no: RequestNo(7),
        rec: Rec(501),
        seq: Seq(1_310),
        order_id: OrderId::new(PartitionId(1), Rec(501)),
        exec_id: ExecId(1_310),
        match_id: MatchId(0),
        transact_time: Nanos(1_760_000_000_000_120_000),
        created_time: Nanos(1_760_000_000_000_120_000),
        cl_ord_id: ClOrdId::new("ord-7").expect("a short name"),
        orig_cl_ord_id: ClOrdId::NONE,
        price: Price(58_653),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty(0),
        order_qty: Qty(100),
        leaves_qty: Qty(100),
        cum_qty: Qty(0),
        display_qty: Qty(0),
        min_qty: Qty(0),
        expire_time: Nanos(0),
        session_id: SessionId(3),
        firm_id: FirmId(2),
        account_id: AccountId(21),
        instrument_id: InstrumentId(1),
        partition_id: PartitionId(1),
        reason: Reason::None,
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::POST_ONLY,
        self_trade_prevention: SelfTradePrevention::CancelNewest,
        exec_type: ExecType::New,
        ord_status: OrdStatus::New,
        liquidity: Liquidity::None,
    };
    let stage_times = StageTimes {
        t0: Nanos(1_760_000_000_000_100_000),
        after_t0: [210, 480, 61_300, 61_900, 62_250, 63_100],
    };
    let mut frame = vec![];
    put_frame(&ExecutionReport { event, stage_times }, &mut frame);
    frame
}

/// Formats a frame's bytes, one line per field, with their meaning.
fn annotated(frame: &[u8]) -> String {
    let template_id = u16::from_le_bytes([frame[8], frame[9]]);
    let info = message_info(template_id).expect("ours");
    let mut out = "```text\n".to_owned();
    let header = [
        (4, format!("message length {}, big-endian", frame.len())),
        (2, "encoding type, big-endian".to_owned()),
        (2, format!("block length {}", info.block_length)),
        (2, format!("template {template_id}, {}", info.name)),
        (2, "schema 22341".to_owned()),
        (2, "version 1".to_owned()),
    ];
    let mut rest = frame;
    for (len, text) in header {
        let (bytes, after) = rest.split_at(len);
        hex_line(bytes, &text, &mut out);
        rest = after;
    }
    let block = &frame[FRAME_HEADER_LEN..];
    let shown = info.codec.visit(block, &mut |field, value| {
        let text = format!("{} {value}", field.schema_name());
        hex_line(&block[field.offset..][..field.size], text.trim(), &mut out);
    });
    shown.expect("the example decodes");
    out + "```"
}

fn hex_line(bytes: &[u8], text: &str, out: &mut String) {
    for (i, chunk) in bytes.chunks(16).enumerate() {
        let hex: Vec<_> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("{:<47}  {}", hex.join(" "), if i == 0 { text } else { "" });
        writeln!(out, "{}", line.trim_end()).unwrap();
    }
}

#[test]
fn the_pages_tables_and_examples_are_those_of_the_schema() {
    let schema = read(&format!("{ROOT}/schema/weir.xml"));
    let doc = Document::parse(&schema).unwrap();
    let page = read(&page_path());
    let (fresh, parts) = regenerated(&page, &doc);
    check_parts(&parts);
    if std::env::var_os("UPDATE_PAGE").is_some() {
        std::fs::write(page_path(), &fresh).unwrap();
        return;
    }
    let differs = page.lines().zip(fresh.lines()).enumerate().find(|(_, (a, b))| a != b);
    if let Some((line, (stands, should))) = differs {
        panic!(
            "line {} of the page reads\n  {stands}\nand should read\n  {should}\n\
             (UPDATE_PAGE=1 cargo test -p weir-wire --test page writes it)",
            line + 1
        );
    }
    assert_eq!(page, fresh);
}

/// Checks that the page leaves no part of the schema out.
fn check_parts(parts: &[String]) {
    for info in catalogue() {
        assert!(parts.contains(&format!("message {}", info.name)), "{}", info.name);
    }
    let others = ["types", "enumerations", "reasons", "limits"].map(str::to_owned);
    assert!(others.iter().all(|part| parts.contains(part)), "{parts:?}");
}

/// The bytes on the ingest page are the codec's.
#[test]
fn the_example_frames_of_the_page_on_ingest_are_the_codecs() {
    let page = read(&format!("{ROOT}/docs/protocols/ingest.md"));
    let (_, examples) = page.split_once("## Worked example").expect("the page has examples");
    let shown: Vec<u8> = examples
        .split("```")
        // Text blocks stand between two marks.
        .skip(1)
        .step_by(2)
        .take(2)
        .flat_map(str::lines)
        .flat_map(|line| line.get(..47).unwrap_or(line).split_whitespace())
        .filter_map(|word| (word.len() == 2).then(|| u8::from_str_radix(word, 16).ok())?)
        .collect();
    let (source_id, session_id, epoch) = (PartitionId(40), SessionId(30), Epoch(1));
    let mut frames = vec![];
    let open = OpenSource {
        valid_seq: Seq(0),
        valid_rec: Rec(0),
        session_id,
        epoch,
        valid_epoch: Epoch::NONE,
        source_id,
        full_resend: Switch::On,
    };
    put_frame(&open, &mut frames);
    let batch = SourceBatch {
        batch_no: BatchNo(1),
        sending_time: Nanos(1_760_000_000_000_000_000),
        session_id,
        epoch,
        source_id,
        flags: BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END),
    };
    put_source_batch(&batch, [], &mut frames);
    assert_eq!(shown, frames);
}
