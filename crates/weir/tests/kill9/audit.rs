//! Compares ledgers with the command log: the events of a new engine that applies the log must be
//! exactly the events that the sessions received.

use std::collections::{BTreeMap, BTreeSet};

use weir_engine::{Engine, EngineConfig};
use weir_io::ThreadDisk;
use weir_log::{LogReader, SegmentKind};
use weir_partition::dirs::PartitionDirs;
use weir_types::{EventNo, ExecType, Liquidity, MatchId, Position, SessionId, Side};
use weir_wire::event::OrderEvent;
use weir_wire::{Command, Event, PlainEvent, Request};

use crate::ledger::Ledger;
use crate::support::{Home, TRADING};

/// Each session's events by the log, by event number.
pub type History = BTreeMap<SessionId, BTreeMap<EventNo, PlainEvent>>;

pub fn history_of(home: &Home) -> History {
    let commands = PartitionDirs::new(&home.data(), TRADING).commands();
    let disk = ThreadDisk::open(&commands, None).unwrap();
    let mut reader = LogReader::open(disk, SegmentKind::Command, Position(0)).unwrap();
    let mut engine = Engine::new(EngineConfig::new(TRADING));
    let mut history = History::new();
    let mut said: Vec<Event> = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        let command = Command::decode(entry.bytes).unwrap();
        engine.apply(entry.position, entry.log_time, &command, &mut said);
        for event in said.drain(..) {
            let (Some((session_id, event_no)), Event::Plain(event)) = (event.address(), event)
            else {
                continue;
            };
            history.entry(session_id).or_default().insert(event_no, event);
        }
    }
    assert!(engine.totals().is_conserved(), "no money and no share was made or lost");
    history
}

/// Returns the first event that a session received and that the log's events lack or contradict.
pub fn lost_from(history: &History, ledger: &Ledger) -> Option<EventNo> {
    let said = history.get(&ledger.session_id);
    let is_said = |no: &EventNo, heard| said.and_then(|said| said.get(no)) == Some(heard);
    ledger.events.iter().find(|(event_no, heard)| !is_said(event_no, heard)).map(|(no, _)| *no)
}

/// Asserts that the received events equal those of the log's history, that every request has an
/// answer, and that none was executed twice.
pub fn check_against_log(home: &Home, ledgers: &[&Ledger]) {
    let mut history = history_of(home);
    for ledger in ledgers {
        let said = history.remove(&ledger.session_id).unwrap_or_default();
        for (event_no, heard) in &ledger.events {
            assert_eq!(said.get(event_no), Some(heard), "{:?}: lost", ledger.session_id);
        }
        assert_eq!(said.len(), ledger.events.len(), "{:?} missed events", ledger.session_id);
        for (request_no, request) in &ledger.sent {
            assert!(ledger.answers.contains_key(request_no), "no answer to {request:?}");
        }
        check_executed_once(ledger);
    }
}

/// Asserts that no request changed anything twice: an order began once, and one request replaced or
/// cancelled it once. A repeated answer has neither record nor change.
fn check_executed_once(ledger: &Ledger) {
    let mut began = BTreeSet::new();
    let mut done = BTreeSet::new();
    for event in ledger.order_events().filter(|event| !event.seq.is_none()) {
        let request = (event.request_no, event.exec_type as u8);
        match event.exec_type {
            ExecType::New => {
                assert!(began.insert(event.cl_ord_id), "{event:?} began twice");
                assert!(done.insert(request), "{event:?} was carried out twice");
            }
            ExecType::Replaced => {
                assert!(done.insert(request), "{event:?} was carried out twice");
            }
            ExecType::Canceled => {
                assert!(event.request_no.is_none() || done.insert(request), "{event:?} again");
            }
            _ => {}
        }
    }
    for (request_no, event_no) in &ledger.answers {
        let answer = &ledger.events[event_no];
        if let PlainEvent::OrderEvent(event) = answer {
            let is_refusal = event.exec_type == ExecType::Rejected;
            assert!(is_refusal || !event.seq.is_none(), "the first answer to {request_no} is late");
            let named = match &ledger.sent[request_no] {
                Request::NewOrder(order) => order.cl_ord_id,
                Request::ReplaceOrder(replace) => replace.cl_ord_id,
                Request::CancelOrder(cancel) => cancel.orig_cl_ord_id,
                other => panic!("nobody sends {other:?}"),
            };
            assert_eq!(event.cl_ord_id, named, "the answer is that of its request");
        }
    }
}

/// Asserts that each trade has a maker and a taker with the same report of it, and that each
/// order's trades add up to its reports.
pub fn check_fills(ledgers: &[&Ledger]) {
    let mut sides: BTreeMap<MatchId, Vec<&OrderEvent>> = BTreeMap::new();
    let mut filled = BTreeMap::new();
    for event in ledgers.iter().flat_map(|ledger| ledger.order_events()) {
        if event.seq.is_none() {
            continue;
        }
        let cum_qty = filled.entry(event.order_id).or_insert(0);
        if event.exec_type == ExecType::Trade {
            *cum_qty += event.last_qty.0;
            sides.entry(event.match_id).or_default().push(event);
        }
        assert_eq!(*cum_qty, event.cum_qty.0, "fills sum up: {event:?}");
        if event.ord_status.is_live() {
            assert_eq!(event.cum_qty.0 + event.leaves_qty.0, event.order_qty.0, "{event:?}");
        }
    }
    for (match_id, sides) in &sides {
        let [one, other] = sides[..] else { panic!("match {match_id} has {sides:?}") };
        assert_eq!((one.last_px, one.last_qty), (other.last_px, other.last_qty));
        assert_eq!(one.side, Side::opposite(other.side));
        let mut roles = [one.liquidity, other.liquidity];
        roles.sort_unstable();
        assert_eq!(roles, [Liquidity::Maker, Liquidity::Taker], "of match {match_id}");
    }
}
