//! The Rust declarations match `schema/weir.xml`: messages, fields, offsets, codes.
//!
//! Offsets are computed from the schema's types and compared with the layouts; an offset or block
//! length stated in the schema is compared too. A change of one side only fails the test with the
//! field's name.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};
use weir_types::{
    AckLevel, AnySide, CredentialKind, ExecInst, ExecType, FeedState, KillScope, Liquidity,
    MarketContent, MarketPolicy, MassCancelScope, OrdStatus, OrdType, OrderAction, Phase,
    PhaseCause, PhaseHold, PhaseReached, Reason, Role, ScheduleStep, SelfTradePrevention, Side,
    SourceStatus, SubscriptionAction, SubscriptionKind, SubscriptionStatus, Switch, TimeInForce,
    TradingState,
};
use weir_wire::catalogue::Tail;
use weir_wire::delivery::{PageFlags, RowFlags};
use weir_wire::event::OrderEvent;
use weir_wire::ingest::BatchFlags;
use weir_wire::market::{MarketFlags, StatisticsFlags, TradeConditions};
use weir_wire::message::camel_case;
use weir_wire::report::ExecutionReport;
use weir_wire::subscription::MessageFlags;
use weir_wire::{FieldInfo, Message, MessageInfo, SCHEMA_ID, SCHEMA_VERSION, catalogue};

fn schema_text() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/weir.xml");
    std::fs::read_to_string(path).expect("the schema is in the repository")
}

fn children<'a>(node: Node<'a, 'a>, tag: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    node.children().filter(move |child| child.tag_name().name() == tag)
}

fn types<'a>(doc: &'a Document<'a>, tag: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    children(doc.root_element(), "types").flat_map(move |types| children(types, tag))
}

fn attr<'a>(node: Node<'a, 'a>, name: &str) -> &'a str {
    node.attribute(name).unwrap_or_else(|| panic!("{node:?} lacks {name}"))
}

fn number(node: Node<'_, '_>, name: &str) -> usize {
    node.attribute(name)
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{node:?} lacks the number {name}"))
}

fn primitive_size(name: &str) -> Option<usize> {
    match name {
        "char" | "int8" | "uint8" => Some(1),
        "int16" | "uint16" => Some(2),
        "int32" | "uint32" => Some(4),
        "int64" | "uint64" => Some(8),
        _ => None,
    }
}

fn type_size(node: Node<'_, '_>) -> usize {
    let primitive = attr(node, "primitiveType");
    let length = node.attribute("length").map_or(1, |text| text.parse().expect("a number"));
    primitive_size(primitive).unwrap_or_else(|| panic!("{primitive} is no primitive")) * length
}

/// Returns the size of every type that a field can have, by name.
fn type_sizes(doc: &Document<'_>) -> BTreeMap<String, usize> {
    let mut sizes = BTreeMap::new();
    for name in ["int8", "uint8", "uint16", "uint32", "uint64", "int64"] {
        sizes.insert(name.to_owned(), primitive_size(name).expect("they are primitives"));
    }
    let named = |node: Node<'_, '_>, size| (attr(node, "name").to_owned(), size);
    sizes.extend(types(doc, "type").map(|node| named(node, type_size(node))));
    for tag in ["enum", "set"] {
        sizes.extend(types(doc, tag).map(|node| {
            let size = primitive_size(attr(node, "encodingType")).expect("codes are primitives");
            named(node, size)
        }));
    }
    sizes.extend(
        types(doc, "composite")
            .map(|node| named(node, children(node, "type").map(type_size).sum::<usize>())),
    );
    sizes
}

/// Compares the `field` elements of a message or group with a layout.
fn check_fields(
    sizes: &BTreeMap<String, usize>,
    node: Node<'_, '_>,
    name: &str,
    block_length: usize,
    fields: &[FieldInfo],
) {
    let elements: Vec<_> = children(node, "field").collect();
    let names: Vec<_> = elements.iter().map(|element| attr(*element, "name")).collect();
    let ours: Vec<_> = fields.iter().map(FieldInfo::schema_name).collect();
    assert_eq!(names, ours, "{name}: fields");
    let mut offset = 0;
    for (i, (element, field)) in elements.iter().zip(fields).enumerate() {
        let what = format!("{name}.{}", field.name);
        let schema_type = attr(*element, "type");
        assert_eq!(schema_type, field.schema_type, "{what}: type");
        let size = *sizes.get(schema_type).unwrap_or_else(|| panic!("{what}: {schema_type}?"));
        assert_eq!(size, field.size, "{what}: size");
        assert_eq!(offset, field.offset, "{what}: offset");
        assert_eq!(number(*element, "offset"), offset, "{what}: stated offset");
        assert_eq!(number(*element, "id"), i + 1, "{what}: id");
        offset += size;
    }
    assert_eq!(offset, block_length, "{name}: block length");
    assert_eq!(number(node, "blockLength"), block_length, "{name}: stated block length");
}

fn check_tail(sizes: &BTreeMap<String, usize>, node: Node<'_, '_>, info: &MessageInfo) {
    let groups: Vec<_> = children(node, "group").collect();
    let data: Vec<_> = children(node, "data").map(|data| attr(data, "name")).collect();
    match info.tail {
        Tail::Group(group) => {
            assert_eq!(data, [""; 0], "{}", info.name);
            assert_eq!(groups.len(), 1, "{}", info.name);
            assert_eq!(attr(groups[0], "name"), camel_case(group.name));
            assert_eq!(attr(groups[0], "dimensionType"), "groupSizeEncoding");
            check_fields(sizes, groups[0], group.entry, group.block_length, group.fields);
            let data: Vec<_> = children(groups[0], "data").collect();
            let names: Vec<_> = data.iter().map(|data| attr(*data, "name")).collect();
            assert_eq!(names, group.data.map_or(vec![], |name| vec![name]), "{}", info.name);
            for data in data {
                assert_eq!(attr(data, "type"), "varDataEncoding");
                assert_eq!(number(data, "id"), group.fields.len() + 1, "{}", info.name);
            }
        }
        Tail::Data(names) => {
            let names: Vec<_> = names.iter().map(|name| camel_case(name)).collect();
            assert_eq!(data, names, "{}", info.name);
            assert_eq!(groups.len(), 0, "{}", info.name);
        }
        Tail::None | Tail::Definition => {
            assert_eq!((groups.len(), data.len()), (0, 0), "{}", info.name);
        }
    }
}

#[test]
fn the_schema_has_our_id_and_version_and_the_standard_composites() {
    let text = schema_text();
    let doc = Document::parse(&text).unwrap();
    let root = doc.root_element();
    assert_eq!(number(root, "id"), usize::from(SCHEMA_ID));
    assert_eq!(number(root, "version"), usize::from(SCHEMA_VERSION));
    assert_eq!(attr(root, "byteOrder"), "littleEndian");
    let members = |name: &str| -> Vec<(String, String)> {
        let composite = types(&doc, "composite").find(|node| attr(*node, "name") == name).unwrap();
        children(composite, "type")
            .map(|node| (attr(node, "name").into(), attr(node, "primitiveType").into()))
            .collect()
    };
    let want = |members: &[(&str, &str)]| -> Vec<(String, String)> {
        members.iter().map(|(name, primitive)| ((*name).into(), (*primitive).into())).collect()
    };
    let header = ["blockLength", "templateId", "schemaId", "version"].map(|n| (n, "uint16"));
    assert_eq!(members("messageHeader"), want(&header));
    let dimensions = ["blockLength", "numInGroup"].map(|n| (n, "uint16"));
    assert_eq!(members("groupSizeEncoding"), want(&dimensions));
    assert_eq!(members("varDataEncoding"), want(&[("length", "uint16"), ("varData", "uint8")]));
    assert_eq!(members("cash"), want(&[("low", "uint64"), ("high", "int64")]));
    let mut times = vec![("t0", "uint64")];
    times.extend(["t1", "t2", "t3", "t4", "t5", "t6"].map(|n| (n, "uint32")));
    assert_eq!(members("stageTimes"), want(&times));
}

#[test]
fn every_message_has_the_fields_and_offsets_of_the_schema() {
    let text = schema_text();
    let doc = Document::parse(&text).unwrap();
    let sizes = type_sizes(&doc);
    let elements: Vec<_> = children(doc.root_element(), "message").collect();
    let theirs: Vec<_> = elements.iter().map(|m| (attr(*m, "name"), number(*m, "id"))).collect();
    let ours: Vec<_> =
        catalogue().iter().map(|info| (info.name, usize::from(info.template_id))).collect();
    assert_eq!(theirs, ours, "messages");
    for (element, info) in elements.into_iter().zip(catalogue()) {
        check_fields(&sizes, element, info.name, info.block_length, info.fields);
        check_tail(&sizes, element, info);
        for length in info.block_lengths_before {
            let ends_there = info.fields.iter().any(|field| field.offset == *length);
            assert!(ends_there, "{}: a block of {length} ends within a field", info.name);
        }
    }
}

#[test]
fn an_order_event_is_the_head_of_an_execution_report() {
    let (event, report) = (OrderEvent::FIELDS, ExecutionReport::FIELDS);
    assert_eq!(OrderEvent::TEMPLATE_ID, ExecutionReport::TEMPLATE_ID);
    assert_eq!(event, &report[..event.len()]);
    assert_eq!(report[event.len()].offset, OrderEvent::BLOCK_LENGTH);
    assert_eq!(report.len(), event.len() + 1);
}

/// Returns the names and codes of an enumeration in the schema.
fn schema_codes(doc: &Document<'_>, name: &str) -> Vec<(String, u16)> {
    let node = types(doc, "enum")
        .find(|node| attr(*node, "name") == name)
        .unwrap_or_else(|| panic!("the schema lacks the enum {name}"));
    let as_char = attr(node, "encodingType") == "char";
    children(node, "validValue")
        .map(|value| {
            let text = value.text().expect("a code");
            let code = if as_char {
                assert_eq!(text.len(), 1, "{name}: {text}");
                u16::from(text.as_bytes()[0])
            } else {
                text.parse().expect("a numeric code")
            };
            (attr(value, "name").to_owned(), code)
        })
        .collect()
}

#[test]
fn every_enumeration_has_the_names_and_codes_of_the_schema() {
    let text = schema_text();
    let doc = Document::parse(&text).unwrap();
    let mut count = 0;
    macro_rules! same {
        ($($name:literal $type:ident,)*) => {$(
            let ours: Vec<_> =
                $type::ALL.iter().map(|v| (format!("{v:?}"), u16::from(v.code()))).collect();
            assert_eq!(schema_codes(&doc, $name), ours, $name);
            count += 1;
        )*};
    }
    same! {
        "side" Side, "ordType" OrdType, "timeInForce" TimeInForce, "execType" ExecType,
        "ordStatus" OrdStatus, "selfTradePrevention" SelfTradePrevention, "liquidity" Liquidity,
        "phase" Phase, "phaseReached" PhaseReached, "phaseCause" PhaseCause,
        "phaseHold" PhaseHold,
        "massCancelScope" MassCancelScope, "killScope" KillScope, "scheduleStep" ScheduleStep,
        "onOff" Switch,
        "role" Role, "credentialKind" CredentialKind, "ackLevel" AckLevel,
        "subscriptionKind" SubscriptionKind, "subscriptionStatus" SubscriptionStatus,
        "subscriptionAction" SubscriptionAction, "marketContent" MarketContent,
        "marketPolicy" MarketPolicy, "tradingState" TradingState, "feedState" FeedState,
        "orderAction" OrderAction, "anySide" AnySide, "sourceStatus" SourceStatus, "reason" Reason,
    }
    assert_eq!(types(&doc, "enum").count(), count, "the schema has an enum that Rust has not");
}

#[test]
fn every_set_has_the_names_and_bits_of_the_schema() {
    let text = schema_text();
    let doc = Document::parse(&text).unwrap();
    let sets: [(&str, &[(&str, u8)]); 8] = [
        ("execInst", &[("postOnly", ExecInst::POST_ONLY.0)]),
        (
            "pageFlags",
            &[
                ("online", PageFlags::ONLINE.0),
                ("partial", PageFlags::PARTIAL.0),
                ("sourceAway", PageFlags::SOURCE_AWAY.0),
            ],
        ),
        ("rowFlags", &[("tombstone", RowFlags::TOMBSTONE.0), ("leave", RowFlags::LEAVE.0)]),
        ("messageFlags", &[("again", MessageFlags::AGAIN.0)]),
        (
            "marketFlags",
            &[
                ("snapshot", MarketFlags::SNAPSHOT.0),
                ("stale", MarketFlags::STALE.0),
                ("more", MarketFlags::MORE.0),
            ],
        ),
        (
            "tradeConditions",
            &[
                ("notLast", TradeConditions::NOT_LAST.0),
                ("notHighLow", TradeConditions::NOT_HIGH_LOW.0),
                ("notVolume", TradeConditions::NOT_VOLUME.0),
                ("auction", TradeConditions::AUCTION.0),
                ("extendedHours", TradeConditions::EXTENDED_HOURS.0),
                ("oddLot", TradeConditions::ODD_LOT.0),
                ("broken", TradeConditions::BROKEN.0),
            ],
        ),
        (
            "statisticsFlags",
            &[
                ("snapshot", StatisticsFlags::SNAPSHOT.0),
                ("stale", StatisticsFlags::STALE.0),
                ("open", StatisticsFlags::OPEN.0),
                ("high", StatisticsFlags::HIGH.0),
                ("low", StatisticsFlags::LOW.0),
                ("last", StatisticsFlags::LAST.0),
            ],
        ),
        (
            "batchFlags",
            &[("resendBegin", BatchFlags::RESEND_BEGIN.0), ("resendEnd", BatchFlags::RESEND_END.0)],
        ),
    ];
    assert_eq!(types(&doc, "set").count(), sets.len());
    for (node, (name, flags)) in types(&doc, "set").zip(sets) {
        assert_eq!(attr(node, "name"), name);
        let choices: Vec<_> = children(node, "choice")
            .map(|choice| {
                let bit: u8 = choice.text().and_then(|text| text.parse().ok()).expect("a bit");
                (attr(choice, "name"), 1 << bit)
            })
            .collect();
        assert_eq!(choices, flags, "{name}");
    }
}

#[test]
fn reasons_are_described_by_their_own_texts() {
    let text = schema_text();
    let doc = Document::parse(&text).unwrap();
    let node = types(&doc, "enum").find(|node| attr(*node, "name") == "reason").unwrap();
    let unwrapped = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let described: Vec<_> =
        children(node, "validValue").map(|value| unwrapped(attr(value, "description"))).collect();
    let ours: Vec<_> = Reason::ALL.iter().map(|reason| reason.text()).collect();
    assert_eq!(described, ours);
}
