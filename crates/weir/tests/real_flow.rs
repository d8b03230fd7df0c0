//! The engine against recorded markets: after every message its top levels equal the file's, and
//! each execution hits the resting order that the file names.
//!
//! The Bitstamp day ships with the project. LOBSTER's samples do not; `WEIR_DATA` names a folder
//! that has them. `docs/real-flow.md` explains the shares and the classes of deviation.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use weir_client::flow::{
    BookUnderTest, FlowReport, Hit, Level, LocalId, OrderIntent, Outcome, load, report,
};
use weir_engine::{Engine, EngineConfig};
use weir_types::{
    AccountId, ClOrdId, Credential, CredentialKind, ExecInst, ExecType, FirmId, GroupId,
    InstrumentId, Liquidity, Nanos, OrdType, OrderId, PartitionId, Phase, Position, Price, Qty,
    RequestNo, Role, SelfTradePrevention, SessionId, Side, Switch, Symbol, TimeInForce,
};
use weir_wire::event::OrderEvent;
use weir_wire::order_entry::{CancelOrder, NewOrder, ReplaceOrder};
use weir_wire::reference::{DefineAccount, DefineFirm, DefineInstrument, DefineSession};
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

const SESSION: SessionId = SessionId(2);
const ACCOUNT: AccountId = AccountId(1);
const INSTRUMENT: InstrumentId = InstrumentId(1);

/// The real engine, with one instrument and one unlimited account.
struct EngineBook {
    engine: Engine,
    request_no: RequestNo,
    events: Vec<Event>,
    prices: HashMap<LocalId, Price>,
}

impl EngineBook {
    fn new() -> EngineBook {
        let mut book = EngineBook {
            engine: Engine::new(EngineConfig::new(PartitionId(1))),
            request_no: RequestNo(0),
            events: Vec::new(),
            prices: HashMap::new(),
        };
        let request_no = RequestNo::NONE;
        let session_id = SessionId(1);
        let firm_id = FirmId(1);
        let name = Symbol::new("FLOW").unwrap();
        let definitions = [
            Definition::DefineFirm(DefineFirm {
                request_no,
                name,
                session_id,
                firm_id,
                live_orders_max: u32::MAX,
                fields: 0,
            }),
            Definition::DefineAccount(DefineAccount {
                request_no,
                session_id,
                account_id: ACCOUNT,
                firm_id,
                unlimited: Switch::On,
                live_orders_max: u32::MAX,
                fields: 0,
            }),
            Definition::DefineSession(DefineSession {
                request_no,
                valid_until: Nanos(0),
                credential: Credential::default(),
                session_id,
                defined_session_id: SESSION,
                firm_id,
                order_rate_max: 0,
                in_flight_max: 0,
                role: Role::Trader,
                credential_kind: CredentialKind::ApiKey,
                live_orders_max: u32::MAX,
                fields: 0,
            }),
            Definition::DefineInstrument(DefineInstrument {
                request_no,
                symbol: name,
                tick_size: Price(1),
                lot_size: Qty(1),
                order_qty_max: Qty(1 << 40),
                price_min: Price(1),
                price_max: Price(1 << 40),
                reference_price: Price(0),
                volatility_call: Nanos(0),
                static_collar: 0,
                dynamic_collar: 0,
                session_id,
                instrument_id: INSTRUMENT,
                partition_id: PartitionId(1),
                price_exponent: -2,
                qty_exponent: 0,
                phase: Phase::Continuous,
                fields: 0,
                group_id: GroupId::NONE,
            }),
        ];
        for (at, definition) in (1..).zip(definitions) {
            book.apply(&Command::Import(Position(at), definition));
        }
        book
    }

    fn apply(&mut self, command: &Command) {
        self.events.clear();
        let position = self.engine.position().next();
        self.engine.apply(position, Nanos(position.0), command, &mut self.events);
    }

    fn next_request_no(&mut self) -> RequestNo {
        self.request_no = self.request_no.next();
        self.request_no
    }

    fn enter(
        &mut self,
        id: LocalId,
        side: Side,
        price: Price,
        order_qty: Qty,
        time_in_force: TimeInForce,
    ) {
        self.prices.insert(id, price);
        let request = Request::NewOrder(NewOrder {
            request_no: self.next_request_no(),
            cl_ord_id: ClOrdId::from_number(id.0),
            price,
            order_qty,
            min_qty: Qty::ZERO,
            display_qty: Qty::ZERO,
            stop_px: Price(0),
            expire_time: Nanos(0),
            sending_time: Nanos(0),
            session_id: SESSION,
            instrument_id: INSTRUMENT,
            account_id: ACCOUNT,
            side,
            ord_type: OrdType::Limit,
            time_in_force,
            exec_inst: ExecInst::NONE,
            self_trade_prevention: SelfTradePrevention::None,
        });
        self.apply(&Command::Request(request));
    }

    fn replace(&mut self, id: LocalId, order_qty: Qty) {
        let cl_ord_id = ClOrdId::from_number(id.0);
        let request = Request::ReplaceOrder(ReplaceOrder {
            request_no: self.next_request_no(),
            cl_ord_id,
            orig_cl_ord_id: cl_ord_id,
            order_id: OrderId::NONE,
            price: self.prices[&id],
            order_qty,
            sending_time: Nanos(0),
            session_id: SESSION,
            instrument_id: INSTRUMENT,
        });
        self.apply(&Command::Request(request));
    }

    fn cancel(&mut self, id: LocalId) {
        let request = Request::CancelOrder(CancelOrder {
            request_no: self.next_request_no(),
            cl_ord_id: ClOrdId::from_number(id.0),
            orig_cl_ord_id: ClOrdId::from_number(id.0),
            order_id: OrderId::NONE,
            sending_time: Nanos(0),
            session_id: SESSION,
            instrument_id: INSTRUMENT,
        });
        self.apply(&Command::Request(request));
    }

    fn outcome(&self) -> Outcome {
        let mut outcome = Outcome { accepted: true, hits: Vec::new() };
        for event in &self.events {
            match event {
                Event::Plain(PlainEvent::OrderEvent(e)) => note(e, &mut outcome),
                Event::Plain(PlainEvent::RequestRejected(_)) => outcome.accepted = false,
                _ => {}
            }
        }
        outcome
    }
}

fn note(event: &OrderEvent, outcome: &mut Outcome) {
    match event.exec_type {
        ExecType::Rejected => outcome.accepted = false,
        ExecType::Trade if event.liquidity == Liquidity::Maker => outcome.hits.push(Hit {
            maker: LocalId(event.cl_ord_id.to_number().expect("our own names are numbers")),
            price: event.last_px,
            qty: event.last_qty,
        }),
        _ => {}
    }
}

impl BookUnderTest for EngineBook {
    fn submit(&mut self, intent: &OrderIntent) -> Outcome {
        match *intent {
            OrderIntent::New { local_id, side, price, qty, tif } => {
                self.enter(local_id, side, price, qty, tif);
            }
            OrderIntent::Ioc { local_id, side, price, qty } => {
                self.enter(local_id, side, price, qty, TimeInForce::Ioc);
            }
            OrderIntent::ReplaceQty { local_id, order_qty, .. } => {
                self.replace(local_id, order_qty);
            }
            OrderIntent::Cancel { local_id } => self.cancel(local_id),
        }
        self.outcome()
    }

    fn top(&self, side: Side, depth: usize, out: &mut Vec<Level>) {
        let mut levels = Vec::new();
        self.engine.book_levels(INSTRUMENT, side, depth, &mut levels);
        out.clear();
        out.extend(levels.iter().map(|level| Level { price: level.price, qty: level.qty }));
    }
}

fn play(path: &Path) -> FlowReport {
    let flow = load(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let (found, book) = report(&name, &flow.items, EngineBook::new());
    assert!(book.engine.totals().is_conserved(), "money and shares are conserved");
    println!("{found}");
    found
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name)
}

#[test]
fn the_engine_goes_the_way_the_bitstamp_day_went() {
    let found = play(&shipped("bitstamp-2015-05-01.wflow"));
    assert_eq!(found.oracle.unexplained(), 0, "every deviation has a reason in the source");
}

#[test]
fn the_engine_goes_the_way_nasdaq_went() {
    for name in ["AAPL_2012-06-21_1", "AMZN_2012-06-21_1", "AMZN_2012-06-21_5"] {
        let path = format!("lobster/LOBSTER_SampleFile_{name}.zip");
        let Some(path) = weir_skip::recorded(&path) else { return };
        let found = play(&path);
        assert_eq!(found.oracle.unexplained(), 0, "{name}: every deviation has a reason");
    }
}
