//! A protocol of lines, in tests only: it shows that the session core needs nothing of SBE.
//!
//! ```text
//! logon SESSION KEYBYTE [PARTITION:EVENT:EPOCH]...     welcome | refused
//! bind SESSION KEYBYTE [PARTITION:EVENT:EPOCH]...      the same, with cancel-on-disconnect
//! take SESSION KEYBYTE [PARTITION:EVENT:EPOCH]...      the same as logon, with takeover
//! seize SESSION KEYBYTE [PARTITION:EVENT:EPOCH]...     the same as bind, with takeover
//! new SESSION REQUEST INSTRUMENT SIDE QTY PRICE        report | refusal | reject
//! cancel SESSION REQUEST INSTRUMENT ORDER              report | refusal | reject
//! rename SESSION REQUEST INSTRUMENT SYMBOL             report | refusal | reject
//! fetch SESSION NUMBER                                 pages
//! credit SESSION NUMBER PAGES                          (nothing)
//! uncall SESSION NUMBER                                (nothing)
//! alive SESSION                                        (nothing)
//! logout SESSION                                       bye
//! ```

use std::io::Write as _;
use std::str::{FromStr, SplitAsciiWhitespace};

use weir_types::{
    AccountId, ClOrdId, Epoch, EventNo, ExecInst, FirmId, InstrumentId, Nanos, OrdType, OrderId,
    PartitionId, Price, Qty, Reason, RequestNo, SelfTradePrevention, SessionId, Side, Switch,
    Symbol, TimeInForce,
};
use weir_wire::delivery::{AddCredit, CancelFetch, FetchOrders};
use weir_wire::order_entry::{CancelOrder, NewOrder};
use weir_wire::reference::{DefineInstrument, field_bit};
use weir_wire::session::{ApiKey, Logon, ResumePoint};
use weir_wire::{Event, PlainEvent, Request};

use super::{Answer, EventRecord, Inbound, InputState, Refusal, ResumePoints, Tokens};
use crate::second_protocol::instrument_of;

/// The longest line in bytes, with its end.
const LINE_LEN_MAX: usize = 256;
/// The account of all orders.
pub(crate) const ACCOUNT: AccountId = AccountId(11);
/// The heartbeat interval of all sessions, in milliseconds.
const HEARTBEAT_MS: u32 = 1_000;

pub(super) fn next(bytes: &[u8]) -> InputState<'_> {
    let end = bytes.iter().take(LINE_LEN_MAX).position(|byte| *byte == b'\n');
    let Some(end) = end else {
        let is_too_long = bytes.len() >= LINE_LEN_MAX;
        return if is_too_long {
            InputState::Broken(Reason::FrameTooLong)
        } else {
            InputState::Incomplete
        };
    };
    let line = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    let nothing = Refusal {
        session_id: SessionId::NONE,
        request_no: RequestNo::NONE,
        template_id: 0,
        field: "line",
    };
    let message = read(line).unwrap_or(Inbound::Malformed(nothing, Reason::MalformedFrame));
    InputState::Message { len: end + 1, message }
}

fn read(line: &str) -> Option<Inbound<'_>> {
    let mut words = line.split_ascii_whitespace();
    let verb = words.next()?;
    let session_id = SessionId(number(&mut words)?);
    match verb {
        "logon" | "bind" | "take" | "seize" => {
            let switch = |is_on| if is_on { Switch::On } else { Switch::Off };
            let logon = Logon {
                api_key: ApiKey([number(&mut words)?; 32]),
                session_id,
                heartbeat_interval_ms: HEARTBEAT_MS,
                cancel_on_disconnect: switch(matches!(verb, "bind" | "seize")),
                takeover: switch(matches!(verb, "take" | "seize")),
            };
            Some(Inbound::Logon(logon, ResumePoints::Text(words)))
        }
        "logout" => Some(Inbound::Logout(session_id)),
        "alive" => Some(Inbound::Heartbeat(session_id)),
        "new" => new_order(session_id, &mut words).map(Request::NewOrder).map(Inbound::Request),
        "cancel" => cancel(session_id, &mut words).map(Request::CancelOrder).map(Inbound::Request),
        "rename" => {
            let renamed = rename(session_id, &mut words);
            renamed.map(Request::DefineInstrument).map(Inbound::Request)
        }
        "fetch" => {
            let fetch = fetch(session_id, number(&mut words)?);
            Some(Inbound::Fetch(fetch, Tokens::default()))
        }
        "credit" => Some(Inbound::AddCredit(AddCredit {
            correlation_id: number(&mut words)?,
            session_id,
            pages: number(&mut words)?,
            rows: 0,
            bytes: 0,
        })),
        "uncall" => {
            let correlation_id = number(&mut words)?;
            Some(Inbound::CancelFetch(CancelFetch { correlation_id, session_id }))
        }
        _ => None,
    }
}

fn number<N: FromStr>(words: &mut SplitAsciiWhitespace<'_>) -> Option<N> {
    words.next()?.parse().ok()
}

/// Returns a fetch of all of the session's orders.
fn fetch(session_id: SessionId, correlation_id: u64) -> FetchOrders {
    FetchOrders {
        correlation_id,
        session_id,
        firm_id: FirmId::NONE,
        account_id: AccountId::NONE,
        instrument_id: InstrumentId::NONE,
        rows_max: 0,
        rows_min: 0,
        bytes_max: 0,
        wait_max_us: 0,
        credit: 1,
        live_only: Switch::Off,
        source_id: PartitionId::NONE,
        min_wait_us: 0,
        credit_rows: 0,
        credit_bytes: 0,
    }
}

fn new_order(session_id: SessionId, words: &mut SplitAsciiWhitespace<'_>) -> Option<NewOrder> {
    let request_no: u64 = number(words)?;
    Some(NewOrder {
        request_no: RequestNo(request_no),
        cl_ord_id: ClOrdId::from_number(request_no),
        instrument_id: InstrumentId(number(words)?),
        side: if words.next()? == "buy" { Side::Buy } else { Side::Sell },
        order_qty: Qty(number(words)?),
        price: Price(number(words)?),
        min_qty: Qty(0),
        display_qty: Qty(0),
        stop_px: Price(0),
        expire_time: Nanos(0),
        sending_time: Nanos(0),
        session_id,
        account_id: ACCOUNT,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        self_trade_prevention: SelfTradePrevention::ALL[0],
    })
}

fn cancel(session_id: SessionId, words: &mut SplitAsciiWhitespace<'_>) -> Option<CancelOrder> {
    let request_no: u64 = number(words)?;
    Some(CancelOrder {
        request_no: RequestNo(request_no),
        cl_ord_id: ClOrdId::from_number(request_no),
        instrument_id: InstrumentId(number(words)?),
        order_id: OrderId(number(words)?),
        orig_cl_ord_id: ClOrdId::NONE,
        sending_time: Nanos(0),
        session_id,
    })
}

/// Returns a change of an instrument's symbol.
fn rename(session_id: SessionId, words: &mut SplitAsciiWhitespace<'_>) -> Option<DefineInstrument> {
    let request_no = RequestNo(number(words)?);
    let id = InstrumentId(number(words)?);
    let symbol = Symbol::new(words.next()?)?;
    let fields = field_bit::<DefineInstrument>("symbol");
    Some(DefineInstrument { request_no, fields, session_id, ..instrument_of(id, symbol) })
}

/// Reads a resume point: partition, event and epoch between colons.
pub(super) fn resume_point(word: &str) -> Option<ResumePoint> {
    let mut parts = word.split(':');
    Some(ResumePoint {
        partition_id: PartitionId(parts.next()?.parse().ok()?),
        next_event_no: EventNo(parts.next()?.parse().ok()?),
        epoch: Epoch(parts.next()?.parse().ok()?),
    })
}

pub(super) fn put(answer: &Answer<'_>, out: &mut Vec<u8>) {
    let written = match answer {
        Answer::LogonAck(ack, states) => {
            let states: String = states
                .iter()
                .map(|state| format!(" {}:{}", state.partition_id.0, state.next_event_no.0))
                .collect();
            writeln!(out, "welcome {} firm {}{states}", ack.session_id.0, ack.firm_id.0)
        }
        Answer::LogonReject(reject) => {
            writeln!(out, "refused {} {:?}", reject.session_id.0, reject.reason)
        }
        Answer::Logout { session_id, reason } => writeln!(out, "bye {} {reason:?}", session_id.0),
        Answer::Heartbeat(alive) => writeln!(
            out,
            "alive {} {}:{}",
            alive.session_id.0, alive.partition_id.0, alive.high_water.0
        ),
        Answer::Reject(refusal, reason) => writeln!(
            out,
            "reject {} {} {reason:?} {}",
            refusal.session_id.0, refusal.request_no.0, refusal.field
        ),
        other => writeln!(out, "{other:?}"),
    };
    written.expect("a vector takes all");
}

pub(super) fn put_report(event: &EventRecord<'_>, out: &mut Vec<u8>) {
    let written = match event.event() {
        Some(Event::Plain(PlainEvent::OrderEvent(e))) => writeln!(
            out,
            "report {} {} {} {:?} {} {}",
            e.session_id.0, e.event_no.0, e.request_no.0, e.exec_type, e.order_id.0, e.leaves_qty.0
        ),
        Some(Event::Plain(PlainEvent::RequestRejected(e))) => writeln!(
            out,
            "refusal {} {} {} {:?}",
            e.session_id.0, e.event_no.0, e.request_no.0, e.reason
        ),
        other => writeln!(out, "{other:?}"),
    };
    written.expect("a vector takes all");
}

pub(super) fn put_pages(frames: &[u8], out: &mut Vec<u8>) {
    writeln!(out, "pages {}", frames.len()).expect("a vector takes all");
}
