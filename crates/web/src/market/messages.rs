//! Market data for a subscriber over a WebSocket: each message of the binary protocol as one JSON
//! object, with the schema's types and its names in snake case.
//!
//! Prices are exact decimal numbers as text. Integers that may need 64 bits are text too, since
//! JavaScript's numbers have 53. Flags are lists of names. A missing side of a quote and a missing
//! price of a day's statistics are null. Nothing is added, and only the session is omitted, which
//! the reader knows.

use std::fmt::{Display, Write as _};

use weir_feed::PRICE_EXPONENT;
use weir_types::Reason;
use weir_wire::group::Group;
use weir_wire::market::{MarketQuote, MarketStatistics, StatisticsFlags};
use weir_wire::market_dialogue::MarketMessage;
use weir_wire::message::{FieldInfo, Message};
use weir_wire::session::Reject;

/// Decimal places of a price. The gateway sends all instruments' prices with the same.
const PLACES: u32 = PRICE_EXPONENT.unsigned_abs() as u32;
/// One, as a mantissa.
const ONE: u128 = 10_u128.pow(PLACES);

/// Appends a message of market data.
pub fn put_market(message: &MarketMessage<'_>, out: &mut String) {
    match message {
        MarketMessage::Subscribed(m) => put_whole(m, out),
        MarketMessage::Ended(m) => {
            begin(m, out);
            put_reason(m.reason, out);
            out.push('}');
        }
        MarketMessage::Instrument(m, symbol) => {
            begin(m, out);
            out.push_str(",\"symbol\":");
            put_text(&String::from_utf8_lossy(symbol), out);
            out.push('}');
        }
        MarketMessage::Channel(m) => put_whole(m, out),
        MarketMessage::Quote(m) => put_quote(m, out),
        MarketMessage::Levels(m, levels) => put_with_group(m, "levels", levels, out),
        MarketMessage::Statistics(m) => put_statistics(m, out),
        MarketMessage::Status(m) => put_whole(m, out),
        MarketMessage::Trade(m) => put_whole(m, out),
        MarketMessage::Order(m) => put_whole(m, out),
        MarketMessage::Orders(m, orders) => put_with_group(m, "orders", orders, out),
        MarketMessage::Gap(m) => put_whole(m, out),
    }
}

/// Appends the refusal of a whole request.
pub fn put_reject(reject: &Reject, out: &mut String) {
    begin(reject, out);
    put_reason(reject.reason, out);
    out.push('}');
}

/// Appends the message's name and fields; the object stays open.
fn begin<M: Message>(message: &M, out: &mut String) {
    begin_without(message, &[], out);
}

/// Like [`begin`]; the fields of the names `missing` are null.
fn begin_without<M: Message>(message: &M, missing: &[&str], out: &mut String) {
    out.push_str("{\"type\":\"");
    out.push_str(M::NAME);
    out.push('"');
    put_fields(message, true, missing, out);
}

fn put_quote(quote: &MarketQuote, out: &mut String) {
    let sides = [
        (["bid_px", "bid_size"], quote.bid_size.is_zero()),
        (["ask_px", "ask_size"], quote.ask_size.is_zero()),
    ];
    let missing = sides.iter().filter(|(_, is_missing)| *is_missing).flat_map(|(names, _)| names);
    begin_without(quote, &missing.copied().collect::<Vec<_>>(), out);
    out.push('}');
}

fn put_statistics(statistics: &MarketStatistics, out: &mut String) {
    let prices = [
        ("open_px", StatisticsFlags::OPEN),
        ("high_px", StatisticsFlags::HIGH),
        ("low_px", StatisticsFlags::LOW),
        ("last_px", StatisticsFlags::LAST),
    ];
    let missing = prices.iter().filter(|(_, flag)| !statistics.flags.contains(*flag));
    begin_without(statistics, &missing.map(|(name, _)| *name).collect::<Vec<_>>(), out);
    out.push('}');
}

fn put_whole<M: Message>(message: &M, out: &mut String) {
    begin(message, out);
    out.push('}');
}

fn put_with_group<M: Message, E: Message>(
    message: &M,
    name: &str,
    entries: &Group<'_, E>,
    out: &mut String,
) {
    begin(message, out);
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":[");
    let mut joint = "";
    // The flush thread's own entries have only known values.
    for entry in entries.clone().flatten() {
        out.push_str(joint);
        out.push('{');
        put_fields(&entry, false, &[], out);
        out.push('}');
        joint = ",";
    }
    out.push_str("]}");
}

fn put_fields<M: Message>(message: &M, mut has_before: bool, missing: &[&str], out: &mut String) {
    message.visit_fields(&mut |info, value| {
        if info.schema_type == "sessionId" {
            return;
        }
        if has_before {
            out.push(',');
        }
        has_before = true;
        put_name(info, out);
        match missing.contains(&info.name) {
            true => out.push_str("null"),
            false => put_value(info.schema_type, value, out),
        }
    });
}

/// The name in snake case, as in order state over HTTP and on the command line.
fn put_name(info: &FieldInfo, out: &mut String) {
    out.push('"');
    out.push_str(info.name);
    out.push_str("\":");
}

fn put_value(schema_type: &str, value: &dyn Display, out: &mut String) {
    let written = match schema_type {
        "price" | "cash" => return put_decimal(value, out),
        "marketFlags" | "tradeConditions" | "statisticsFlags" => return put_flags(value, out),
        "uint8" | "uint16" | "uint32" | "int8" | "instrumentId" => write!(out, "{value}"),
        "qty" | "nanos" | "uint64" | "int64" => write!(out, "\"{value}\""),
        _ => return put_displayed(value, out),
    };
    written.expect("a string takes all that is written to it");
}

/// Appends a mantissa as a decimal number without trailing zeros.
fn put_decimal(value: &dyn Display, out: &mut String) {
    let begin = out.len();
    write!(out, "{value}").expect("a string takes all that is written to it");
    // Any other text is quoted as it is: the schema's prices are numbers.
    let Ok(mantissa) = out[begin..].parse::<i128>() else {
        out.insert(begin, '"');
        return out.push('"');
    };
    out.truncate(begin);
    let (whole, fraction) = (mantissa.unsigned_abs() / ONE, mantissa.unsigned_abs() % ONE);
    let sign = if mantissa < 0 { "-" } else { "" };
    let places = PLACES as usize;
    let written = write!(out, "\"{sign}{whole}.{fraction:0places$}");
    written.expect("a string takes all that is written to it");
    let kept = out.trim_end_matches('0').trim_end_matches('.').len();
    out.truncate(kept);
    out.push('"');
}

/// Appends comma-separated names as a list.
fn put_flags(value: &dyn Display, out: &mut String) {
    out.push('[');
    let begin = out.len();
    write!(out, "\"{value}\"").expect("a string takes all that is written to it");
    if out.len() == begin + 2 {
        out.truncate(begin);
    } else if let Some(comma) = out[begin..].find(',') {
        let joined = out.split_off(begin + comma);
        out.push_str(&joined.replace(',', "\",\""));
    }
    out.push(']');
}

fn put_displayed(value: &dyn Display, out: &mut String) {
    let begin = out.len();
    write!(out, "{value}").expect("a string takes all that is written to it");
    if out[begin..].bytes().all(is_plain) {
        out.insert(begin, '"');
        return out.push('"');
    }
    let text = out.split_off(begin);
    put_text(&text, out);
}

/// Returns true for a byte that needs no escape in a JSON string (RFC 8259, 7).
fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

fn put_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\0'..='\x1f' => write!(out, "\\u{:04x}", u32::from(letter))
                .expect("a string takes all that is written to it"),
            _ => out.push(letter),
        }
    }
    out.push('"');
}

/// Appends the reason's text, if there is a reason.
fn put_reason(reason: Reason, out: &mut String) {
    if reason != Reason::None {
        out.push_str(",\"message\":");
        put_text(reason.text(), out);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_types::{
        AnySide, Cash, InstrumentId, MarketContent, Nanos, PhaseCause, Price, Qty, RequestNo,
        SessionId, Side, TradingState,
    };
    use weir_wire::frame::{Framing, next_frame};
    use weir_wire::market::{
        MarketEnded, MarketFlags, MarketInstrument, MarketLevel, MarketLevels, MarketStatus,
        MarketTrade, StatusReason, TradeConditions,
    };
    use weir_wire::market_dialogue::put_market_group;
    use weir_wire::session::Label;

    use super::*;

    fn json_of(message: &MarketMessage<'_>) -> Value {
        let mut out = String::new();
        put_market(message, &mut out);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    fn quote() -> MarketQuote {
        MarketQuote {
            first_sequence: u64::MAX - 1,
            last_sequence: u64::MAX,
            event_time: Nanos(1),
            receive_time: Nanos(2),
            sending_time: Nanos(3),
            bid_px: Price(10_050_000_000),
            bid_size: Qty(100),
            ask_px: Price(-1),
            ask_size: Qty(0),
            session_id: SessionId(11),
            handle: 7,
            instrument_id: InstrumentId(5),
            change_count: 3,
            flags: MarketFlags::SNAPSHOT.with(MarketFlags::STALE),
        }
    }

    #[test]
    fn a_quote_is_its_fields_by_the_schemas_names() {
        let want = json!({
            "type": "MarketQuote", "first_sequence": "18446744073709551614",
            "last_sequence": "18446744073709551615", "event_time": "1", "receive_time": "2",
            "sending_time": "3", "bid_px": "10.05", "bid_size": "100", "ask_px": null,
            "ask_size": null, "handle": 7, "instrument_id": 5, "change_count": 3,
            "flags": ["snapshot", "stale"],
        });
        assert_eq!(json_of(&MarketMessage::Quote(quote())), want);
        let live = MarketQuote { flags: MarketFlags::default(), ..quote() };
        assert_eq!(json_of(&MarketMessage::Quote(live))["flags"], json!([]));
    }

    #[test]
    fn names_are_the_fields_in_snake_case_in_every_message() {
        fn check<M: Message>() {
            for info in M::FIELDS {
                let mut name = String::new();
                put_name(info, &mut name);
                assert_eq!(name, format!("\"{}\":", info.name), "{}", M::NAME);
                assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase()), "{name}");
            }
        }
        check::<MarketQuote>();
        check::<MarketStatistics>();
        check::<MarketTrade>();
        check::<MarketLevel>();
        check::<Reject>();
    }

    #[test]
    fn mantissas_are_exact_decimals() {
        for (mantissa, want) in [
            (0, "0"),
            (1, "0.000000001"),
            (-1, "-0.000000001"),
            (1_000_000_000, "1"),
            (100_000_000_000, "100"),
            (1_234_500_000, "1.2345"),
            (i64::MIN, "-9223372036.854775808"),
            (i64::MAX, "9223372036.854775807"),
        ] {
            let mut out = String::new();
            put_decimal(&Price(mantissa), &mut out);
            assert_eq!(out, format!("\"{want}\""));
        }
        let mut out = String::new();
        put_decimal(&Cash(i128::MIN), &mut out);
        assert_eq!(out, "\"-170141183460469231731687303715.884105728\"");
    }

    #[test]
    fn levels_symbols_and_reasons_follow_the_fields() {
        let head = MarketLevels {
            first_sequence: 1,
            last_sequence: 2,
            event_time: Nanos(3),
            receive_time: Nanos(4),
            sending_time: Nanos(5),
            session_id: SessionId(11),
            handle: 1,
            instrument_id: InstrumentId(5),
            change_count: 1,
            flags: MarketFlags::MORE,
        };
        let level =
            |side, price| MarketLevel { price: Price(price), size: Qty(9), order_count: 2, side };
        let mut frame = Vec::new();
        let levels = [level(Side::Buy, 1_500_000_000), level(Side::Sell, 2_000_000_000)];
        put_market_group(&head, levels.into_iter(), &mut frame);
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&frame, 1 << 20) else {
            panic!("a frame")
        };
        let told = json_of(&MarketMessage::decode(&raw).unwrap().unwrap());
        let want = json!([
            {"price": "1.5", "size": "9", "order_count": 2, "side": "Buy"},
            {"price": "2", "size": "9", "order_count": 2, "side": "Sell"},
        ]);
        assert_eq!((&told["levels"], &told["flags"]), (&want, &json!(["more"])));
        let instrument = MarketInstrument {
            round_lot: Qty(100),
            previous_close: Price(0),
            session_id: SessionId(11),
            instrument_id: InstrumentId(5),
            price_exponent: -9,
        };
        let told = json_of(&MarketMessage::Instrument(instrument, b"A\"\\\x01B"));
        assert_eq!(told["symbol"], "A\"\\\u{1}B");
        assert_eq!((&told["price_exponent"], &told["previous_close"]), (&json!(-9), &json!("0")));
        let (session_id, handle) = (SessionId(11), 1);
        let (slots_needed, slots_max, reason) = (0, 0, Reason::HandleTaken);
        let ended = MarketEnded { session_id, handle, slots_needed, slots_max, reason };
        let told = json_of(&MarketMessage::Ended(ended));
        assert_eq!(told["reason"], "HandleTaken");
        assert_eq!(told["message"], Reason::HandleTaken.text());
        let ended = MarketEnded { reason: Reason::None, ..ended };
        assert_eq!(json_of(&MarketMessage::Ended(ended)).get("message"), None);
        let (slots_needed, slots_max) = (7_802, 5_000);
        let ended = MarketEnded { slots_needed, slots_max, ..ended };
        let told = json_of(&MarketMessage::Ended(ended));
        assert_eq!((&told["slots_needed"], &told["slots_max"]), (&json!(7_802), &json!(5_000)));
    }

    #[test]
    fn every_kind_of_field_is_json_whatever_it_holds() {
        let status = MarketStatus {
            first_sequence: 1,
            last_sequence: 1,
            event_time: Nanos(1),
            receive_time: Nanos(1),
            sending_time: Nanos(1),
            session_id: SessionId(1),
            handle: 1,
            instrument_id: InstrumentId(1),
            change_count: 1,
            status_reason: StatusReason(*b"\"\\\x01 "),
            state: TradingState::Halted,
            flags: MarketFlags::default(),
            cause: PhaseCause::CallEnd,
        };
        let told = json_of(&MarketMessage::Status(status));
        assert_eq!(told["cause"], "CallEnd");
        assert_eq!((&told["status_reason"], &told["state"]), (&json!("\"\\?"), &json!("Halted")));
    }

    #[test]
    fn statistics_trades_and_rejects_have_their_flags_and_names() {
        let day = MarketStatistics {
            first_sequence: 1,
            last_sequence: 1,
            event_time: Nanos(1),
            receive_time: Nanos(1),
            sending_time: Nanos(1),
            open_px: Price(1),
            high_px: Price(2),
            low_px: Price(3),
            last_px: Price(4),
            volume: Qty(u64::MAX),
            turnover: Cash(i128::MAX),
            trade_count: 1,
            session_id: SessionId(1),
            handle: 1,
            instrument_id: InstrumentId(1),
            change_count: 0,
            flags: StatisticsFlags(63),
        };
        let told = json_of(&MarketMessage::Statistics(day));
        assert_eq!(told["flags"], json!(["snapshot", "stale", "open", "high", "low", "last"]),);
        assert_eq!(told["volume"], "18446744073709551615");
        let trade = MarketTrade {
            first_sequence: 1,
            last_sequence: 1,
            event_time: Nanos(1),
            receive_time: Nanos(1),
            sending_time: Nanos(1),
            last_px: Price(1),
            last_qty: Qty(2),
            match_id: 3,
            session_id: SessionId(1),
            handle: 1,
            instrument_id: InstrumentId(1),
            venue: 78,
            aggressor: AnySide::Unknown,
            conditions: TradeConditions::ODD_LOT,
            flags: MarketFlags::default(),
        };
        let told = json_of(&MarketMessage::Trade(trade));
        assert_eq!((&told["venue"], &told["aggressor"]), (&json!(78), &json!("Unknown")));
        assert_eq!(told["conditions"], json!(["oddLot"]));
        let reject = Reject {
            request_no: RequestNo(1),
            field: Label::new("interval"),
            session_id: SessionId(1),
            ref_template_id: 112,
            reason: Reason::IntervalWithoutConflation,
        };
        let mut out = String::new();
        put_reject(&reject, &mut out);
        let told: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&told["field"], &told["ref_template_id"]), (&json!("interval"), &json!(112)));
        assert_eq!(format!("{:?}", MarketContent::Bbo), "Bbo", "names of values are the schema's");
    }
}
