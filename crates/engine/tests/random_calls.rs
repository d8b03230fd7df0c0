//! Random calls with many market orders of accounts that cannot pay them at every price, over
//! prices of both signs: references and bounds move between their entries, so that their
//! reservations differ, and limits stay crossed behind lots that are cut. Both engines play them.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use support::steps::step as take_step;
use support::*;
use weir_engine::{Engine, EngineConfig, InstrumentState};
use weir_types::*;
use weir_wire::order_entry::NewOrder;
use weir_wire::{Definition, Event, PlainEvent, Request};

/// Limited accounts of Alice's firm, and one without limits.
const ACCOUNTS: [AccountId; 5] = [POOR, AccountId(31), AccountId(32), AccountId(33), MAKER];
/// An account whose cash is the reservation of a market order that is cut.
const CUT: AccountId = AccountId(34);
/// The rounds of a search behind which only reservations count.
const PAYABLE_ROUNDS: usize = 8;

/// An event of a random call. Prices are in ticks, quantities in lots of the definition.
#[derive(Clone, Copy, Debug)]
enum CallEvent {
    Market { account: usize, is_buy: bool, lots: u64 },
    Limit { is_buy: bool, price: i64, lots: u64 },
    Reference { price: i64 },
    Bounds { distance: i64 },
    Deposit { account: usize, cash: i128 },
    CrossBehindCutLots,
    Open { overrides: bool },
    Restart,
}

/// The form of the instrument.
#[derive(Clone, Copy, Debug)]
struct Form {
    tick_size: i64,
    lot_size: u64,
    static_collar: u32,
}

fn forms() -> impl Strategy<Value = Form> {
    (1..4_i64, 1..4_u64, prop_oneof![Just(500_u32), Just(10_000), Just(30_000)]).prop_map(
        |(tick_size, lot_size, static_collar)| Form { tick_size, lot_size, static_collar },
    )
}

fn call_event() -> impl Strategy<Value = CallEvent> {
    let (account, lots) = (0..ACCOUNTS.len(), 1..30_u64);
    prop_oneof![
        12 => (account.clone(), any::<bool>(), lots.clone())
            .prop_map(|(account, is_buy, lots)| CallEvent::Market { account, is_buy, lots }),
        8 => (any::<bool>(), -120..120_i64, lots)
            .prop_map(|(is_buy, price, lots)| CallEvent::Limit { is_buy, price, lots }),
        4 => (-40..40_i64).prop_map(|price| CallEvent::Reference { price }),
        1 => (20..150_i64).prop_map(|distance| CallEvent::Bounds { distance }),
        2 => (account, 0..400_i128)
            .prop_map(|(account, cash)| CallEvent::Deposit { account, cash }),
        2 => Just(CallEvent::CrossBehindCutLots),
        2 => any::<bool>().prop_map(|overrides| CallEvent::Open { overrides }),
        1 => Just(CallEvent::Restart),
    ]
}

/// The cost of a lot of a side at a price, where it has one.
fn cost(side: Side, price: Price) -> i128 {
    let price = i128::from(price.0);
    if side == Side::Buy { price.max(0) } else { (-price).max(0) }
}

/// A call in progress on a desk.
struct Call {
    desk: Desk,
    form: Form,
    /// The reservation for each lot of a market order, by its name.
    reserved: BTreeMap<ClOrdId, i128>,
    order_no: u64,
    transfer_no: u64,
}

impl Call {
    fn new(form: Form, cash: &[i128]) -> Call {
        let config = EngineConfig {
            orders_max: 1 << 10,
            accounts_max: 1 << 6,
            positions_max: 1 << 6,
            ..EngineConfig::new(HERE)
        };
        let mut desk = Desk::with_twin(config);
        desk.furnish();
        for account_id in ACCOUNTS[1..4].iter().chain(&[CUT]) {
            desk.import(account(*account_id, 1, Switch::Off));
        }
        let reserved = BTreeMap::new();
        let mut call = Call { desk, form, reserved, order_no: 0, transfer_no: 10 };
        call.define(1_000);
        for (account, cash) in cash.iter().enumerate() {
            call.transfer(account, *cash, 300);
        }
        call.begin();
        call
    }

    /// Defines bounds so many ticks from zero.
    fn define(&mut self, distance: i64) {
        let Form { tick_size, lot_size, static_collar } = self.form;
        let mut d = instrument(TULIP, HERE);
        (d.tick_size, d.lot_size) = (Price(tick_size), Qty(lot_size));
        (d.price_min, d.price_max) = (Price(-distance * tick_size), Price(distance * tick_size));
        d.static_collar = static_collar;
        self.desk.import(Definition::DefineInstrument(d));
    }

    fn transfer(&mut self, account: usize, cash: i128, lots: i64) {
        self.transfer_no += 1;
        let transfer = transfer(ACCOUNTS[account], self.transfer_no, cash, lots);
        self.desk.ask(Request::Transfer(transfer));
    }

    fn begin(&mut self) {
        take_step(&mut self.desk, "phase closed");
        take_step(&mut self.desk, "phase opening");
    }

    fn enter(&mut self, order: NewOrder) {
        self.order_no += 1;
        let cl_ord_id = ClOrdId::from_number(self.order_no);
        let before = self.desk.engine.totals().cash_reserved;
        let told = self.desk.order(NewOrder { cl_ord_id, ..order });
        let is_market = order.ord_type == OrdType::Market;
        if is_market && told[0].exec_type == ExecType::New {
            let cash = self.desk.engine.totals().cash_reserved.0 - before.0;
            self.reserved.insert(cl_ord_id, cash / i128::from(order.order_qty.0));
        }
    }

    fn play(&mut self, event: CallEvent) {
        let Form { tick_size, lot_size, .. } = self.form;
        let side = |is_buy: bool| if is_buy { Side::Buy } else { Side::Sell };
        match event {
            CallEvent::Market { account, is_buy, lots } => {
                let order = limit(side(is_buy), 0, lots * lot_size, "");
                let account_id = ACCOUNTS[account];
                self.enter(NewOrder { ord_type: OrdType::Market, account_id, ..order });
            }
            CallEvent::Limit { is_buy, price, lots } => {
                self.enter(bob(limit(side(is_buy), price * tick_size, lots * lot_size, "")));
            }
            CallEvent::Reference { price } => {
                let price = price * tick_size;
                take_step(&mut self.desk, &format!("reference static={price}"));
            }
            CallEvent::Bounds { distance } => self.define(distance),
            CallEvent::Deposit { account, cash } => self.transfer(account, cash, 0),
            CallEvent::CrossBehindCutLots => self.cross_behind_cut_lots(),
            CallEvent::Open { overrides } => self.open(overrides),
            CallEvent::Restart => {
                let mut bytes = Vec::new();
                self.desk.engine.snapshot(&mut bytes);
                let config = self.desk.engine.config().clone();
                self.desk.engine = Engine::restore(config, &bytes).expect("it reads back");
            }
        }
    }

    /// Enters lots that are cut to the edge of the collar about 30 ticks, where they take all that
    /// is offered, and limits that stay crossed beyond it.
    fn cross_behind_cut_lots(&mut self) {
        const LOTS: u64 = 28;
        let Form { tick_size, lot_size, static_collar } = self.form;
        let reference = 30 * tick_size;
        take_step(&mut self.desk, &format!("reference static={reference}"));
        let edge = reference + reference * i64::from(static_collar) / 10_000;
        let cash = i128::from(edge) * i128::from(LOTS * lot_size);
        self.transfer_no += 1;
        self.desk.ask(Request::Transfer(transfer(CUT, self.transfer_no, cash, 0)));
        let market = limit(Side::Buy, 0, LOTS * lot_size, "");
        self.enter(NewOrder { ord_type: OrdType::Market, account_id: CUT, ..market });
        for (is_buy, price, lots) in [(true, 140, 1), (false, 30, LOTS), (false, 140, 1)] {
            self.play(CallEvent::Limit { is_buy, price, lots });
        }
    }

    fn state(&self) -> InstrumentState {
        let mut states = self.desk.engine.instruments();
        states.find(|state| state.definition.instrument_id == TULIP).expect("it is defined")
    }

    /// Uncrosses the call and begins the next, or goes on with a volatility call.
    fn open(&mut self, overrides: bool) {
        let text = if overrides { "phase continuous override" } else { "phase continuous" };
        let orders = self.desk.engine.live_orders();
        let live: BTreeMap<ClOrdId, Side> =
            orders.iter().map(|order| (order.cl_ord_id, order.side)).collect();
        let of_market = self.reserved.iter().filter_map(|(id, cash)| Some((live.get(id)?, cash)));
        let limits: BTreeSet<(u8, i128)> =
            of_market.map(|(side, cash)| (side.code(), *cash)).collect();
        let from = self.desk.events.len();
        let before = self.state();
        take_step(&mut self.desk, text);
        let (rounds, limit_count) = (self.desk.engine.call_rounds() as usize, limits.len());
        assert!(rounds <= PAYABLE_ROUNDS + limit_count + 1, "{rounds} for {limit_count} limits");
        self.check_uncrossings(from);
        if !overrides {
            self.check_collar(from, &before);
        }
        let naive = self.desk.naive.as_ref().expect("a twin");
        assert!(naive.debts().is_empty(), "no account is below zero: {:?}", naive.debts());
        if self.state().phase == Phase::Continuous {
            self.begin();
        }
    }

    /// Checks that every price of a change is within the collar about the reference of before.
    fn check_collar(&self, from: usize, before: &InstrumentState) {
        let reference = before.uncrossed_price.unwrap_or(before.definition.reference_price);
        let reference = i128::from(reference.0);
        let most = i128::from(before.definition.static_collar) * reference.abs();
        for event in &self.desk.events[from..] {
            let Event::Plain(PlainEvent::Uncrossed(e)) = event else { continue };
            let distance = (i128::from(e.price.0) - reference).abs();
            let is_within = e.qty.is_zero() || reference == 0 || distance * 10_000 <= most;
            assert!(is_within, "{} is too far from {reference}", e.price);
        }
    }

    /// Checks that no order was cancelled at a price that its reservation pays.
    fn check_uncrossings(&self, from: usize) {
        let mut unpaid = Vec::new();
        for event in &self.desk.events[from..] {
            match event {
                Event::Plain(PlainEvent::OrderEvent(e))
                    if matches!(e.reason, Reason::InsufficientCash | Reason::LimitReached) =>
                {
                    unpaid.push((e.side, self.reserved[&e.cl_ord_id]));
                }
                Event::Plain(PlainEvent::Uncrossed(e)) => {
                    for (side, reserved) in unpaid.drain(..) {
                        assert!(!e.qty.is_zero(), "without a price none is cut");
                        assert!(cost(side, e.price) > reserved, "{side:?} {reserved} {}", e.price);
                    }
                }
                _ => {}
            }
        }
        assert!(unpaid.is_empty(), "each is cut by an uncrossing: {unpaid:?}");
    }
}

/// Plays a random call and its end.
fn play(form: Form, cash: &[i128], events: &[CallEvent]) {
    let mut call = Call::new(form, cash);
    call.play(CallEvent::Reference { price: 30 });
    for event in events {
        call.play(*event);
    }
    call.play(CallEvent::Open { overrides: true });
}

fn events() -> impl Strategy<Value = Vec<CallEvent>> {
    prop::collection::vec(call_event(), 10..90)
}

fn purses() -> impl Strategy<Value = Vec<i128>> {
    prop::collection::vec(0..3_000_i128, ACCOUNTS.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn no_order_is_cancelled_at_a_price_that_its_reservation_pays(
        form in forms(),
        cash in purses(),
        events in events(),
    ) {
        play(form, &cash, &events);
    }
}

/// Random calls test collars behind the first price only if limits are crossed there.
#[test]
fn limits_stay_crossed_beyond_the_collar_behind_cut_lots_of_every_form() {
    for (tick_size, lot_size) in [(1, 1), (2, 3), (3, 2)] {
        for static_collar in [500, 10_000, 30_000] {
            let form = Form { tick_size, lot_size, static_collar };
            let mut call = Call::new(form, &[0; ACCOUNTS.len()]);
            call.play(CallEvent::CrossBehindCutLots);
            call.play(CallEvent::Open { overrides: false });
            let state = call.state();
            assert_eq!(state.phase, Phase::VolatilityCall, "{form:?}");
            assert!(state.uncrossed_price > Some(Price(30 * tick_size)), "{form:?}: {state:?}");
            assert_eq!(call.desk.levels(Side::Buy), [(140 * tick_size, lot_size, 1)]);
        }
    }
}

#[cfg(feature = "planted")]
#[test]
fn random_calls_find_the_planted_bug_of_further_prices() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use weir_engine::plant::{Plant, set};
    let mut runner = TestRunner::deterministic();
    let calls = (forms(), purses(), events());
    set(Some(Plant::FurtherPricesUnchecked));
    let found = (0..400).find(|_| {
        let (form, cash, events) = calls.new_tree(&mut runner).expect("a call").current();
        std::panic::catch_unwind(|| play(form, &cash, &events)).is_err()
    });
    set(None);
    println!("found in call {found:?}");
    assert!(found.is_some());
}
