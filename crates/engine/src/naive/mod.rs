//! The oracle of [`Engine`](crate::Engine): the same rules, slow and simple.
//!
//! All state is in ordered maps under its own identifiers. An account's reservations are summed
//! over its live orders on every use; a fill-or-kill check tries the order on a copy. The naive
//! engine shares the wire's types, the limits and the digest's formula with the fast engine, but no
//! data structure and no rule.

mod bust;
mod debts;
mod entry;
mod groups;
mod matching;
mod office;
mod phases;
mod rules;
mod say;
mod schedule;
mod stops;
mod sweep;
#[cfg(test)]
mod tests;
mod timers;
mod uncross;

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{
    AccountId, Cash, ClOrdId, EventNo, FirmId, InstrumentId, Nanos, OrdType, OrderId, PartitionId,
    Phase, PhaseOrigin, Position, Price, Qty, Reason, Rec, RequestNo, Role, SessionId, Side,
};
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::DefineInstrument;
use weir_wire::{Command, PlainEvent, Request};

pub use rules::TradingRule;
pub use sweep::StepRule;

use crate::config::{EngineConfig, EventSink, OUTCOMES_MAX};
use crate::digest;
use crate::engine::{Level, PositionTotals, SessionState, Totals};

#[derive(Clone)]
struct Account {
    firm_id: FirmId,
    is_unlimited: bool,
    /// Live orders by definition; zero for the default. So for sessions and firms.
    live_orders_max: u32,
    cash: i128,
    /// The last transfer's number, cash, lots, instrument and other end; no number before the
    /// first.
    last_transfer: (u64, i128, i64, InstrumentId, PartitionId),
}

#[derive(Clone)]
struct Session {
    /// Its place in the order of definition.
    number: usize,
    firm_id: FirmId,
    role: Role,
    last_request_no: RequestNo,
    next_event_no: EventNo,
    /// New orders and replaces per second; zero for no limit.
    order_rate_max: u32,
    live_orders_max: u32,
    /// The throttle's theoretical arrival time.
    tat: u128,
}

#[derive(Clone)]
struct Instrument {
    definition: DefineInstrument,
    phase: Phase,
    /// The halt that was not lifted yet.
    halt: Option<Halt>,
    /// True if the last event about its phase, or its definition, said that an operator's halt
    /// holds.
    is_told_held: bool,
    /// The last change of the phase, or of an operator's halt.
    origin: Option<PhaseOrigin>,
    transferred_in: i128,
    /// The last change of many that was made in it, or that was due before it came to its group.
    changed_by: groups::ChangeKey,
    /// The key behind which the changes of its group are its own.
    joined_at: groups::ChangeKey,
    /// All its trades, in order.
    prints: Vec<Print>,
    /// The last price and the static reference that an operator set, each with the trade before.
    set_last: (Option<Price>, u64),
    set_static: (Option<Price>, u64),
    /// The last trade before the session.
    session_after: u64,
    /// True if the next phase with entry begins a session.
    is_day_over: bool,
    /// The time at which its volatility call ends by itself.
    call_end: Option<Nanos>,
    /// Numbers and prices of the trades since stops were last checked; zero for none's number.
    traded: Vec<(u64, Price)>,
}

/// A trade, for the prices that follow from trades.
#[derive(Clone, Copy)]
struct Print {
    match_id: u64,
    price: Price,
    is_auction: bool,
    is_busted: bool,
}

/// A halt that was not lifted.
#[derive(Clone, Copy)]
struct Halt {
    /// The phase that its end brings back.
    before: Phase,
    /// True if an operator asked for it.
    is_operators: bool,
}

impl Instrument {
    /// Returns the static reference; `None` when it is zero.
    fn static_reference(&self) -> Option<Price> {
        let price = self.uncrossing_price().unwrap_or(self.definition.reference_price);
        (price.0 != 0).then_some(price)
    }

    /// Returns the price of the last trade behind another that was not taken back.
    fn newest(&self, after: u64, is_meant: impl Fn(&Print) -> bool) -> Option<Price> {
        let mut prints = self.prints.iter().rev().filter(|print| print.match_id > after);
        prints.find(|print| !print.is_busted && is_meant(print)).map(|print| print.price)
    }

    /// Returns the last price.
    fn last_price(&self) -> Option<Price> {
        let (price, after) = self.set_last;
        self.newest(after, |_| true).or(price)
    }

    /// Returns the price of the last uncrossing, or an operator's since.
    fn uncrossing_price(&self) -> Option<Price> {
        let (price, after) = self.set_static;
        self.newest(after, |print| print.is_auction).or(price)
    }

    /// Returns the last price of the session's trades.
    fn session_price(&self) -> Option<Price> {
        self.newest(self.session_after, |_| true)
    }

    /// Returns true while an operator's halt holds.
    fn is_held(&self) -> bool {
        self.halt.is_some_and(|halt| halt.is_operators)
    }

    fn is_in_call(&self) -> bool {
        matches!(self.phase, Phase::OpeningCall | Phase::VolatilityCall | Phase::ClosingCall)
    }

    /// Returns the worst price at which an order of `side` may trade.
    fn bound(&self, side: Side) -> Price {
        match side {
            Side::Buy => self.definition.price_max,
            Side::Sell => self.definition.price_min,
        }
    }

    /// Returns the price at which a market order reserves that waits for a call: the last one
    /// towards the bound that the static collar allows, if it has a reference.
    fn waiting_price(&self, side: Side) -> Price {
        let d = &self.definition;
        let Some(reference) = self.static_reference().filter(|_| d.static_collar != 0) else {
            return self.bound(side);
        };
        let reference = i128::from(reference.0);
        let away = reference.abs() * i128::from(d.static_collar) / 10_000;
        let edge = if side == Side::Buy { reference + away } else { reference - away };
        let (low, high) = (i128::from(d.price_min.0), i128::from(d.price_max.0));
        Price(i64::try_from(edge.max(low).min(high)).expect("between two prices"))
    }
}

/// The place of a live order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderLocation {
    /// Matching, before one of the other places.
    Incoming,
    Book,
    Stop,
    Parked,
}

/// One side of a trade that can be busted.
#[derive(Clone, Copy)]
struct TradeSide {
    rec: Rec,
    session_id: SessionId,
    account_id: AccountId,
    side: Side,
}

#[derive(Clone)]
struct Trade {
    instrument_id: InstrumentId,
    price: Price,
    lots: u64,
    /// The buyer's side, then the seller's.
    sides: [TradeSide; 2],
}

/// A live order: the original request with its current values.
#[derive(Clone)]
struct Order {
    now: NewOrder,
    rec: Rec,
    created_time: Nanos,
    cum_qty: u64,
    /// The time priority; a later order has a higher number.
    arrival: u64,
    place: OrderLocation,
    /// The quantity that the book shows, while the order is there.
    shown_qty: u64,
    /// The price for a market order's cash reservation; `None` when it pays trade by trade.
    reserved_px: Option<Price>,
}

impl Order {
    fn leaves_qty(&self) -> u64 {
        self.now.order_qty.0 - self.cum_qty
    }

    /// Returns the amount that the order may still cost its account.
    fn reserved_cash(&self) -> i128 {
        cost_of(&self.now, self.reserved_px) * i128::from(self.leaves_qty())
    }

    /// Returns true if it may trade at `price` in an uncrossing: a market order within the bounds
    /// of its instrument.
    fn is_willing_in_call(&self, price: Price, instrument: &Instrument) -> bool {
        let limit = match self.now.ord_type {
            OrdType::Market => instrument.bound(self.now.side),
            _ => self.now.price,
        };
        match self.now.side {
            Side::Buy => limit >= price,
            Side::Sell => limit <= price,
        }
    }

    /// Returns true for a market order of a call whose reservation does not pay a price.
    fn is_beyond_reservation(&self, price: Price) -> bool {
        let cost = worst_cost(self.now.side, price);
        self.now.ord_type == OrdType::Market && cost > cost_of(&self.now, self.reserved_px)
    }

    /// Returns the last price on the tick that a market order's reservation pays.
    fn reserved_limit(&self, tick_size: Price) -> Price {
        let cost = cost_of(&self.now, self.reserved_px);
        let cost = cost - cost % i128::from(tick_size.0);
        let limit = if self.now.side == Side::Buy { cost } else { -cost };
        Price(i64::try_from(limit).expect("no further from zero than a price"))
    }

    /// Returns the size of a fresh slice of the open quantity.
    fn slice(&self) -> u64 {
        match self.now.display_qty.0 {
            0 => self.leaves_qty(),
            most => most.min(self.leaves_qty()),
        }
    }

    fn book_key(&self) -> BookKey {
        let rank = match self.now.side {
            _ if self.now.ord_type == OrdType::Market => MARKET_RANK,
            Side::Buy => -i128::from(self.now.price.0),
            Side::Sell => i128::from(self.now.price.0),
        };
        (self.now.instrument_id, self.now.side, rank, self.arrival)
    }
}

/// The rank of market orders: ahead of every limit price.
const MARKET_RANK: i128 = i128::MIN;

/// Returns the reservation per lot of an order; a market order in a call or parked has one at
/// `reserved_px`.
fn cost_of(m: &NewOrder, reserved_px: Option<Price>) -> i128 {
    match m.ord_type {
        OrdType::Limit | OrdType::StopLimit => worst_cost(m.side, m.price),
        OrdType::Market => reserved_px.map_or(0, |price| worst_cost(m.side, price)),
        OrdType::Stop => 0,
    }
}

/// Returns the highest cost of a lot for a limit order: buyers may pay, and sellers may pay to get
/// rid of it.
fn worst_cost(side: Side, price: Price) -> i128 {
    let price = i128::from(price.0);
    match side {
        Side::Buy if price > 0 => price,
        Side::Sell if price < 0 => -price,
        _ => 0,
    }
}

/// A key of the book; ascending keys are in descending priority.
type BookKey = (InstrumentId, Side, i128, u64);

/// The naive engine, an implementation of the same rules for comparison.
#[derive(Clone)]
pub struct NaiveEngine {
    config: EngineConfig,
    position: Position,
    time: Nanos,
    control_position: Position,
    digest: u64,
    rec: u64,
    seq: u64,
    exec_id: u64,
    match_id: u64,
    arrival: u64,
    cash_moved_in: i128,
    cash_moved_out: i128,
    imports_refused: u64,
    /// Scope codes and identifiers of the kill switches that are on.
    kills: BTreeSet<(u8, u32)>,
    /// The limits of live orders of all firms.
    firms: BTreeMap<FirmId, u32>,
    accounts: BTreeMap<AccountId, Account>,
    sessions: BTreeMap<SessionId, Session>,
    /// The sessions whose loss cancels their orders, defined here or not.
    cancel_on_disconnect: BTreeSet<SessionId>,
    instruments: BTreeMap<InstrumentId, Instrument>,
    /// Lots held; zero holdings have no entry.
    holdings: BTreeMap<(AccountId, InstrumentId), i64>,
    orders: BTreeMap<Rec, Order>,
    book: BTreeMap<BookKey, Rec>,
    names: BTreeMap<(SessionId, ClOrdId), Rec>,
    /// The live orders of each account and instrument.
    interests: BTreeSet<(AccountId, InstrumentId, Rec)>,
    outcomes: BTreeMap<SessionId, BTreeMap<RequestNo, PlainEvent>>,
    /// The trades that can be busted, by `match_id`.
    trades: BTreeMap<u64, Trade>,
    /// The times of these and of those that were busted.
    trade_times: BTreeMap<u64, Nanos>,
    schedule: BTreeMap<(InstrumentId, Nanos), Phase>,
    /// The changes of many instruments that are filed or in progress.
    group_changes: BTreeMap<groups::ChangeKey, groups::GroupChange>,
    /// The orders that timers of all instruments have changed in this command.
    timer_changes: u64,
    /// The changes that are to be filed together, and the session that began their list.
    list: Option<(SessionId, BTreeMap<Nanos, Phase>)>,
    /// The oldest first.
    sweeps: Vec<sweep::Sweep>,
    /// The rules of steps that the last command reached.
    reached: Vec<StepRule>,
    /// The rules of trading that the last command reached.
    rules: Vec<TradingRule>,
}

impl NaiveEngine {
    /// Creates an engine before the first command.
    #[must_use]
    pub fn new(config: EngineConfig) -> NaiveEngine {
        NaiveEngine {
            config,
            position: Position(0),
            time: Nanos(0),
            control_position: Position(0),
            digest: 0,
            rec: 0,
            seq: 0,
            exec_id: 0,
            match_id: 0,
            arrival: 0,
            cash_moved_in: 0,
            cash_moved_out: 0,
            imports_refused: 0,
            kills: BTreeSet::new(),
            firms: BTreeMap::new(),
            accounts: BTreeMap::new(),
            sessions: BTreeMap::new(),
            cancel_on_disconnect: BTreeSet::new(),
            instruments: BTreeMap::new(),
            holdings: BTreeMap::new(),
            orders: BTreeMap::new(),
            book: BTreeMap::new(),
            names: BTreeMap::new(),
            interests: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            trades: BTreeMap::new(),
            trade_times: BTreeMap::new(),
            schedule: BTreeMap::new(),
            group_changes: BTreeMap::new(),
            timer_changes: 0,
            list: None,
            sweeps: Vec::new(),
            reached: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// Returns the rules of steps that the last command reached, each as often as it did.
    #[must_use]
    pub fn reached(&self) -> &[StepRule] {
        &self.reached
    }

    /// Returns the rules of trading that the last command reached, each as often as it did.
    #[must_use]
    pub fn rules(&self) -> &[TradingRule] {
        &self.rules
    }

    /// Applies a command like [`Engine::apply`](crate::Engine::apply).
    pub fn apply<S: EventSink>(
        &mut self,
        position: Position,
        time: Nanos,
        command: &Command,
        out: &mut S,
    ) {
        assert_eq!(position.0, self.position.0 + 1, "positions are dense");
        assert!(time >= self.time, "time never goes back");
        self.position = position;
        self.time = time;
        self.digest = digest::fold_command(self.digest, position.0, time.0);
        self.reached.clear();
        self.rules.clear();
        self.forget_old_trades();
        match command {
            // Before what is due: a start has checked it against the last command's state.
            Command::SetLimits(limits) => self.set_limits(limits),
            _ => self.carry_out_in_time(command, out),
        }
        let instrument_ids: Vec<InstrumentId> = self.instruments.keys().copied().collect();
        for instrument_id in instrument_ids {
            self.trigger_stops(instrument_id, out);
        }
        if position.0.is_multiple_of(self.config.checkpoint_interval) {
            self.say_checkpoint(out);
        }
    }

    fn carry_out_in_time<S: EventSink>(&mut self, command: &Command, out: &mut S) {
        let ran = self.run_timers(command, out);
        match command {
            Command::Request(request) => self.request(request, ran.must_ask_again, out),
            Command::Import(at, definition) => self.import(*at, definition, out),
            Command::Tick if ran.is_exceeded => self.pass_steps(),
            Command::Tick => self.continue_all(out),
            Command::SessionLost(lost) => self.session_lost(lost, out),
            Command::SessionChoice(choice) => self.session_choice(choice),
            Command::SetLimits(_) => {}
        }
    }

    fn request<S: EventSink>(&mut self, request: &Request, must_ask_again: bool, out: &mut S) {
        let (session_id, request_no) = (request.session_id(), request.request_no());
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return self.say_unknown_session(request, out);
        };
        if request_no <= session.last_request_no {
            if self.is_in_progress(session_id, request_no) {
                return self.say_refused_for_now(request, Reason::InProgress, out);
            }
            let outcomes = self.outcomes.get(&session_id);
            return match outcomes.and_then(|answers| answers.get(&request_no)).copied() {
                Some(answer) => self.say_again(answer, out),
                None => self.say_refused_for_now(request, Reason::TooOld, out),
            };
        }
        session.last_request_no = request_no;
        self.digest = digest::fold_request(self.digest, request);
        let refused = match request {
            Request::NewOrder(m) if must_ask_again => {
                return self.say_order_rejected(m, Reason::ChangesDue, out);
            }
            _ if must_ask_again => Err(Reason::ChangesDue),
            Request::NewOrder(m) => return self.new_order(m, out),
            Request::ReplaceOrder(m) => return self.replace_order(request, m, out),
            Request::CancelOrder(m) => return self.cancel_order(request, m, out),
            Request::MassCancel(m) => self.mass_cancel(m, out),
            Request::Transfer(m) => self.transfer(request, m, out),
            Request::AccountInquiry(m) => self.tell_account(request, m, out),
            Request::SetPhase(m) => self.set_phase(request, m, out),
            Request::KillSwitch(m) => self.kill_switch(request, m, out),
            Request::BustTrade(m) => self.bust_trade(request, m, out),
            Request::SchedulePhase(m) => self.schedule_phase(request, m, out),
            Request::ResumeTrading(m) => self.resume_trading(request, m, out),
            Request::SetReference(m) => self.set_reference(request, m, out),
            Request::ChangePhases(m) => self.change_phases(request, m, out),
            Request::SchedulePhases(m) => self.schedule_phases(request, m, out),
            Request::DefineInstrument(_)
            | Request::DefineFirm(_)
            | Request::DefineAccount(_)
            | Request::DefineSession(_) => self.define(request, out),
        };
        if let Err(reason) = refused {
            self.say_rejected(request, OrderId(0), reason, out);
        }
    }

    /// Remembers an answer, and drops the oldest beyond the limit.
    fn remember(&mut self, session_id: SessionId, request_no: RequestNo, event: PlainEvent) {
        let answers = self.outcomes.entry(session_id).or_default();
        answers.insert(request_no, event);
        if answers.len() > OUTCOMES_MAX {
            answers.pop_first();
        }
    }

    /// Returns the last applied position.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns the same as [`Engine::digest`](crate::Engine::digest).
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the same as [`Engine::control_position`](crate::Engine::control_position).
    #[must_use]
    pub fn control_position(&self) -> Position {
        self.control_position
    }

    /// Returns the same as [`Engine::refused_import_count`](crate::Engine::refused_import_count).
    #[must_use]
    pub fn refused_import_count(&self) -> u64 {
        self.imports_refused
    }

    /// Returns the same as [`Engine::cancel_on_disconnect`](crate::Engine::cancel_on_disconnect).
    #[must_use]
    pub fn cancel_on_disconnect(&self) -> Vec<SessionId> {
        self.cancel_on_disconnect.iter().copied().collect()
    }

    /// Returns the same as [`Engine::session_state`](crate::Engine::session_state).
    #[must_use]
    pub fn session_state(&self, session_id: SessionId) -> SessionState {
        match self.sessions.get(&session_id) {
            Some(row) => SessionState {
                last_request_no: row.last_request_no,
                next_event_no: row.next_event_no,
            },
            None => SessionState { last_request_no: RequestNo(0), next_event_no: EventNo(1) },
        }
    }

    /// Returns the phase of a defined instrument.
    #[must_use]
    pub fn phase(&self, instrument_id: InstrumentId) -> Option<Phase> {
        self.instruments.get(&instrument_id).map(|instrument| instrument.phase)
    }

    /// Returns the phases of all instruments, whether an operator's halt holds, and the last change
    /// of these, in order of identifier.
    #[must_use]
    pub fn phases(&self) -> Vec<(InstrumentId, Phase, bool, Option<PhaseOrigin>)> {
        let all = self.instruments.iter();
        all.map(|(id, of)| (*id, of.phase, of.is_held(), of.origin)).collect()
    }

    /// Returns the number of live orders.
    #[must_use]
    pub fn live_order_count(&self) -> u32 {
        u32::try_from(self.orders.len()).expect("limits are below 2^32")
    }

    /// Returns the number of pairs of account and instrument with lots or a live order.
    #[must_use]
    pub fn open_position_count(&self) -> usize {
        let mut pairs: BTreeSet<(AccountId, InstrumentId)> =
            self.holdings.keys().copied().collect();
        pairs.extend(self.interests.iter().map(|(account, instrument, _)| (*account, *instrument)));
        pairs.len()
    }

    /// Fills `out` like [`Engine::book_levels`](crate::Engine::book_levels): limit orders by price
    /// with their shown quantities; market orders of a call have no price and are on no level.
    pub fn book_levels(
        &self,
        instrument_id: InstrumentId,
        side: Side,
        depth: usize,
        out: &mut Vec<Level>,
    ) {
        out.clear();
        for rec in self.side_of_book(instrument_id, side) {
            let order = &self.orders[&rec];
            if order.now.ord_type == OrdType::Market {
                continue;
            }
            let (price, qty) = (order.now.price, Qty(order.shown_qty));
            let count = out.len();
            match out.last_mut().filter(|level| level.price == price) {
                Some(level) => {
                    level.qty += qty;
                    level.order_count += 1;
                }
                None if count == depth => return,
                None => out.push(Level { price, qty, order_count: 1 }),
            }
        }
    }

    /// Returns the same as [`Engine::totals`](crate::Engine::totals).
    #[must_use]
    pub fn totals(&self) -> Totals {
        let cash: i128 = self.accounts.values().map(|account| account.cash).sum();
        let reserved: i128 = self.orders.values().map(Order::reserved_cash).sum();
        let positions = self.instruments.iter().map(|(id, instrument)| {
            let held: i128 = (self.holdings.iter())
                .filter(|((_, of), _)| of == id)
                .map(|(_, lots)| i128::from(*lots))
                .sum();
            let on_sale: i128 = (self.orders.values())
                .filter(|order| order.now.instrument_id == *id && order.now.side == Side::Sell)
                .map(|order| i128::from(order.leaves_qty()))
                .sum();
            PositionTotals {
                instrument_id: *id,
                transferred_in: instrument.transferred_in,
                free: held - on_sale,
                reserved: on_sale,
            }
        });
        Totals {
            cash_moved_in: Cash(self.cash_moved_in),
            cash_moved_out: Cash(self.cash_moved_out),
            cash_free: Cash(cash - reserved),
            cash_reserved: Cash(reserved),
            positions: positions.collect(),
        }
    }

    /// Returns the live orders of one side of a book, in the order in which they would trade.
    fn side_of_book(
        &self,
        instrument_id: InstrumentId,
        side: Side,
    ) -> impl Iterator<Item = Rec> + '_ {
        let first = (instrument_id, side, i128::MIN, 0);
        let last = (instrument_id, side, i128::MAX, u64::MAX);
        self.book.range(first..=last).map(|(_, rec)| *rec)
    }

    fn is_here(&self, instrument: &Instrument) -> bool {
        instrument.definition.partition_id == self.config.partition_id
    }

    fn is_control(&self) -> bool {
        self.config.partition_id == PartitionId(0)
    }

    /// Returns an account's live orders.
    fn orders_of_account(&self, account_id: AccountId) -> impl Iterator<Item = &Order> + '_ {
        let first = (account_id, InstrumentId(0), Rec(0));
        let last = (account_id, InstrumentId(u32::MAX), Rec(u64::MAX));
        self.interests.range(first..=last).map(|(_, _, rec)| &self.orders[rec])
    }

    /// Checks that an account can spare this much cash.
    fn check_cash(&self, account_id: AccountId, need: i128) -> Result<(), Reason> {
        if need <= 0 {
            return Ok(());
        }
        let account = &self.accounts[&account_id];
        let reserved: i128 = self.orders_of_account(account_id).map(Order::reserved_cash).sum();
        let left = account.cash - reserved - need;
        match account.is_unlimited {
            true if left < -crate::config::CASH_LIMIT => Err(Reason::LimitReached),
            false if left < 0 => Err(Reason::InsufficientCash),
            _ => Ok(()),
        }
    }

    fn held(&self, account_id: AccountId, instrument_id: InstrumentId) -> i128 {
        i128::from(self.holdings.get(&(account_id, instrument_id)).copied().unwrap_or(0))
    }

    /// Returns the open lots of an account's orders on one side.
    fn open_lots(&self, account_id: AccountId, instrument_id: InstrumentId, side: Side) -> i128 {
        let first = (account_id, instrument_id, Rec(0));
        let last = (account_id, instrument_id, Rec(u64::MAX));
        (self.interests.range(first..=last))
            .map(|(_, _, rec)| &self.orders[rec])
            .filter(|order| order.now.side == side)
            .map(|order| i128::from(order.leaves_qty()))
            .sum()
    }

    /// Returns true if a new pair of account and instrument would exceed the limit.
    fn is_pair_refused(&self, account_id: AccountId, instrument_id: InstrumentId) -> bool {
        self.is_new_pair(account_id, instrument_id) && self.are_pairs_refused(1)
    }

    /// Returns true if a pair of account and instrument has neither lots nor a live order.
    fn is_new_pair(&self, account_id: AccountId, instrument_id: InstrumentId) -> bool {
        let first = (account_id, instrument_id, Rec(0));
        let last = (account_id, instrument_id, Rec(u64::MAX));
        !self.holdings.contains_key(&(account_id, instrument_id))
            && self.interests.range(first..=last).next().is_none()
    }

    /// Returns true if so many new pairs would exceed the limit.
    fn are_pairs_refused(&self, new_count: usize) -> bool {
        let most = self.config.positions_max as usize;
        new_count > 0
            && self.holdings.len() + self.interests.len() + new_count > most
            && self.open_position_count() + new_count > most
    }

    /// Moves lots into an account, or out of it if negative.
    fn move_lots(&mut self, account_id: AccountId, instrument_id: InstrumentId, lots: i128) {
        let total = self.held(account_id, instrument_id) + lots;
        let total = i64::try_from(total).expect("positions are kept within 2^62");
        if total == 0 {
            self.holdings.remove(&(account_id, instrument_id));
        } else {
            self.holdings.insert((account_id, instrument_id), total);
        }
    }
}
