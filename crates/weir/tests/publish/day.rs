//! A scripted day, byte for byte: the messages of each kind of event, and a check that they stay
//! the same.
//!
//! Independent decoders read the file too (`crates/market/tests/oracle/itch`, `bench/itch`). When
//! an event's messages change on purpose, raise `MAPPING` and write the file again: run this test
//! with `WEIR_WRITE_DAY` set.

use weir_feed::moldudp64::MoldSession;
use weir_feed::session_name::MAPPING;
use weir_market::publish::PublishSink;
use weir_types::{
    ClOrdId, MatchId, Nanos, OrdType, OrderId, Phase, Price, Qty, SelfTradePrevention, Side,
    Switch, Symbol, TimeInForce,
};
use weir_wire::order_entry::{CancelOrder, NewOrder, ReplaceOrder};
use weir_wire::reference::{BustTrade, DefineInstrument, SetPhase};
use weir_wire::{Command, Definition, Event, Request};

use super::market::{INSTRUMENT, Market, OPERATOR, TRADER, instrument};
use super::reader::{HERE, Rig};

const PATH: &str = "../market/tests/oracle/itch/own_day.itch";
/// 2026-01-05, 08:00 UTC.
const MORNING: u64 = 1_767_600_000_000_000_000;
const DAY: u64 = 86_400_000_000_000;

struct Day {
    market: Market,
    rig: Rig,
    said: Vec<u8>,
    sessions: Vec<MoldSession>,
    is_left_out: bool,
}

fn named(name: &str) -> ClOrdId {
    ClOrdId::new(name).unwrap()
}

impl Day {
    fn new() -> Day {
        let mut market = Market::new();
        market.time = Nanos(MORNING);
        Day { market, rig: Rig::new(), said: Vec::new(), sessions: Vec::new(), is_left_out: false }
    }

    /// Publishes the events of a command and compares the book with the engine's.
    fn tell(&mut self, events: &[Event]) {
        struct Copying<'a>(&'a mut Rig, &'a mut Vec<u8>, &'a mut Vec<MoldSession>);
        impl PublishSink for Copying<'_> {
            fn session(&mut self, session: MoldSession) {
                self.2.push(session);
                self.0.reader.session(session);
            }
            fn message(&mut self, message: &[u8]) {
                self.1.extend_from_slice(&(message.len() as u16).to_be_bytes());
                self.1.extend_from_slice(message);
                self.0.reader.message(message);
            }
            fn end(&mut self) {
                self.0.reader.end();
            }
        }
        let mut other = Rig::new();
        std::mem::swap(&mut other.publication, &mut self.rig.publication);
        for event in events {
            let mut sink = Copying(&mut self.rig, &mut self.said, &mut self.sessions);
            let publication = &mut other.publication;
            weir_marketgate::publish::publish_event(publication, HERE, event, &mut sink);
        }
        std::mem::swap(&mut other.publication, &mut self.rig.publication);
        self.market.time.0 += 1_000_000_001;
        if self.is_left_out {
            assert_eq!(self.rig.reader.books().order_count(), 0, "nothing of it is shown");
            return;
        }
        let engine = &self.market.engine;
        let differs = self.rig.differs(engine, INSTRUMENT, "WEIR", -2, usize::MAX);
        assert_eq!(differs, None, "{events:#?}");
    }

    fn enter(
        &mut self,
        name: &str,
        side: Side,
        price: i64,
        qty: u64,
        with: impl FnOnce(&mut NewOrder),
    ) {
        let mut order = self.market.order(named(name), side, Price(price), Qty(qty));
        with(&mut order);
        let events =
            self.market.ask(|request_no| Request::NewOrder(NewOrder { request_no, ..order }));
        self.tell(&events);
    }

    fn buy(&mut self, name: &str, price: i64, qty: u64) {
        self.enter(name, Side::Buy, price, qty, |_| {});
    }

    fn sell(&mut self, name: &str, price: i64, qty: u64) {
        self.enter(name, Side::Sell, price, qty, |_| {});
    }

    fn replace(&mut self, name: &str, price: i64, qty: u64) {
        let events = self.market.ask(|request_no| {
            Request::ReplaceOrder(ReplaceOrder {
                request_no,
                cl_ord_id: named(name),
                orig_cl_ord_id: named(name),
                order_id: OrderId::NONE,
                price: Price(price),
                order_qty: Qty(qty),
                sending_time: Nanos(0),
                session_id: TRADER,
                instrument_id: INSTRUMENT,
            })
        });
        self.tell(&events);
    }

    fn cancel(&mut self, name: &str) {
        let events = self.market.ask(|request_no| {
            Request::CancelOrder(CancelOrder {
                request_no,
                cl_ord_id: named(name),
                orig_cl_ord_id: named(name),
                order_id: OrderId::NONE,
                sending_time: Nanos(0),
                session_id: TRADER,
                instrument_id: INSTRUMENT,
            })
        });
        self.tell(&events);
    }

    fn operate(&mut self, request: Request) {
        let events = self.market.apply(&Command::Request(request));
        self.tell(&events);
    }

    fn phase(&mut self, phase: Phase) {
        let request_no = self.market.next_request_no(OPERATOR);
        let (session_id, instrument_id) = (OPERATOR, INSTRUMENT);
        let override_collars = Switch::Off;
        self.operate(Request::SetPhase(SetPhase {
            request_no,
            session_id,
            instrument_id,
            phase,
            override_collars,
        }));
    }

    fn bust(&mut self, match_id: u64) {
        let request_no = self.market.next_request_no(OPERATOR);
        let (session_id, partition_id) = (OPERATOR, HERE);
        let match_id = MatchId(match_id);
        self.operate(Request::BustTrade(BustTrade {
            request_no,
            session_id,
            match_id,
            partition_id,
            force: Switch::Off,
        }));
    }

    fn define(&mut self, definition: DefineInstrument) {
        let events = self.market.define(Definition::DefineInstrument(definition));
        self.tell(&events);
    }

    fn opening(&mut self) {
        let events = self.market.open(-2, Qty(1_000_000));
        self.tell(&events);
        self.phase(Phase::Closed);
        self.phase(Phase::OpeningCall);
        self.buy("b1", 10_010, 300);
        self.sell("s1", 10_000, 100);
        self.enter("ice", Side::Sell, 10_005, 500, |o| o.display_qty = Qty(50));
        self.enter("mo", Side::Buy, 0, 50, |o| o.ord_type = OrdType::Market);
        self.enter("loo", Side::Buy, 9_000, 10, |o| o.time_in_force = TimeInForce::AtTheOpen);
        self.phase(Phase::Continuous);
    }

    fn trading(&mut self) {
        self.buy("b2", 9_990, 100);
        self.buy("b3", 10_005, 60);
        self.sell("s2", 10_020, 200);
        self.replace("s2", 10_020, 150);
        self.replace("s2", 10_015, 150);
        self.replace("b2", 10_015, 120);
        self.enter("stop", Side::Sell, 0, 40, |o| {
            (o.ord_type, o.stop_px) = (OrdType::Stop, Price(9_980));
        });
        self.buy("b4", 9_980, 30);
        self.buy("b5", 9_970, 70);
        self.enter("ioc", Side::Sell, 9_980, 50, |o| o.time_in_force = TimeInForce::Ioc);
        self.enter("stp", Side::Sell, 9_970, 5, |o| {
            o.self_trade_prevention = SelfTradePrevention::CancelOldest;
        });
        self.cancel("stp");
        self.bust(1);
        self.define(DefineInstrument { lot_size: Qty(5), ..instrument() });
        // An order size too large for ITCH: nothing of the instrument is shown until it fits again.
        self.is_left_out = true;
        self.define(DefineInstrument { order_qty_max: Qty(1 << 33), ..instrument() });
        self.sell("unseen", 10_070, 5);
        self.is_left_out = false;
        self.define(DefineInstrument { symbol: Symbol::new("WEIR").unwrap(), ..instrument() });
    }

    fn interruption(&mut self) {
        self.define(DefineInstrument { static_collar: 100, ..instrument() });
        self.sell("far", 12_000, 10);
        self.sell("near", 10_060, 10);
        self.buy("sweep", 12_000, 30);
        self.phase(Phase::Halted);
        self.phase(Phase::VolatilityCall);
        self.phase(Phase::Continuous);
    }

    fn closing(&mut self) {
        self.enter("loc", Side::Buy, 12_100, 20, |o| o.time_in_force = TimeInForce::AtTheClose);
        self.enter("day", Side::Buy, 9_000, 5, |o| o.time_in_force = TimeInForce::Day);
        self.phase(Phase::ClosingCall);
        self.sell("late", 12_050, 15);
        self.phase(Phase::Closed);
        self.market.time.0 += DAY;
        self.phase(Phase::OpeningCall);
    }
}

#[test]
fn a_scripted_day_is_said_byte_for_byte_as_it_was() {
    let mut day = Day::new();
    day.opening();
    day.trading();
    day.interruption();
    day.closing();
    let kinds: String = day.rig.reader.kinds.keys().collect();
    assert_eq!(kinds, "ABCDEHIQRSUX", "the day has what a day has");
    let sessions: Vec<_> =
        day.sessions.iter().map(|s| String::from_utf8_lossy(&s.0).into_owned()).collect();
    assert_eq!(sessions, ["40SA001EKH", "40SB001EKH"]);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(PATH);
    if std::env::var_os("WEIR_WRITE_DAY").is_some() {
        std::fs::write(&path, &day.said).unwrap();
    }
    let want = std::fs::read(&path).unwrap();
    let first = want.iter().zip(&day.said).position(|(want, said)| want != said);
    assert!(want == day.said, "byte {first:?} is another: raise MAPPING, which is {MAPPING}");
}
