//! The engine's state and its only entry point, [`Engine::apply`].
//!
//! INVARIANT: state changes only inside `apply`, and depends on nothing but its arguments.
//! Positions are dense and time never goes back; a caller that violates this has a broken log, and
//! the engine stops.

use weir_types::{
    Cash, ClOrdId, EventNo, FirmId, InstrumentId, Nanos, OrderId, Phase, PhaseCause, PhaseOrigin,
    Position, Price, Qty, Reason, Rec, RequestNo, Seq, SessionId, Side,
};
use weir_types::{ExecId, MatchId};
use weir_wire::event::{OrderEvent, RequestRejected};
use weir_wire::order_entry::{CancelOrder, ReplaceOrder};
use weir_wire::reference::DefineInstrument;
use weir_wire::{Command, Definition, Event, Message, PlainEvent, Request};

use crate::account::Account;
use crate::book::Levels;
use crate::bust::Trades;
use crate::call_markets::CallMarkets;
use crate::config::{EngineConfig, EventSink, Memory, OnlyHearer};
use crate::debt::Debtors;
use crate::digest;
use crate::emit::{NamedIds, Requester};
use crate::fillable::Hidden;
use crate::index::{Slot, Table};
use crate::instrument::{Firm, Instrument};
use crate::order::Orders;
use crate::plant::{self, Plant};
use crate::position::Positions;
use crate::schedule::ChangeList;
use crate::session::{CancelOnDisconnect, Session};
use crate::sweeps::Sweeps;
use crate::symbols::Symbols;
use crate::timers::{Fired, Timers};
use crate::transfer::LastTransfer;
use crate::uncross::CallLevel;

/// The deterministic engine of one partition.
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) position: Position,
    pub(crate) time: Nanos,
    /// The position of the next checkpoint; saves a division per command.
    pub(crate) checkpoint_at: Position,
    pub(crate) control_position: Position,
    pub(crate) digest: u64,
    pub(crate) rec: Rec,
    pub(crate) seq: Seq,
    pub(crate) exec_id: ExecId,
    pub(crate) match_id: MatchId,
    pub(crate) is_killed: bool,
    /// Sums of the amounts that transfers moved, never negative except after wrapping around.
    pub(crate) cash_moved_in: Cash,
    pub(crate) cash_moved_out: Cash,
    /// Imports refused by this partition's limits or rules.
    pub(crate) imports_refused: u64,
    pub(crate) firms: Table<Firm>,
    pub(crate) accounts: Table<Account>,
    /// Indexed by the account's slot.
    pub(crate) last_transfers: Vec<LastTransfer>,
    pub(crate) sessions: Table<Session>,
    pub(crate) cancel_on_disconnect: CancelOnDisconnect,
    pub(crate) instruments: Table<Instrument>,
    pub(crate) symbols: Symbols,
    pub(crate) positions: Positions,
    pub(crate) orders: Orders,
    pub(crate) levels: Levels,
    pub(crate) trades: Trades,
    pub(crate) debtors: Debtors,
    pub(crate) timers: Timers,
    pub(crate) sweeps: Sweeps,
    /// The changes of phase that are to be filed together.
    pub(crate) list: Option<ChangeList>,
    /// Orders about to be cancelled together; a buffer kept for reuse.
    pub(crate) batch: Vec<Slot>,
    /// Stops about to be triggered together; a buffer kept for reuse.
    pub(crate) wave: Vec<Slot>,
    /// The levels of a call; a buffer kept for reuse.
    pub(crate) call_levels: Vec<CallLevel>,
    /// The market orders of a call; a buffer kept for reuse.
    pub(crate) call_markets: CallMarkets,
    /// Hidden quantities found on a walk over the book; a buffer kept for reuse.
    pub(crate) hidden: Vec<Hidden>,
}

/// A session's numbers in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// The highest accepted request number; zero before the first.
    pub last_request_no: RequestNo,
    /// The number of its next event, from 1.
    pub next_event_no: EventNo,
}

/// An instrument with its market's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstrumentState {
    /// Its definition with all changes.
    pub definition: DefineInstrument,
    /// Its phase.
    pub phase: Phase,
    /// True while an operator's halt holds.
    pub is_held: bool,
    /// The last change of these two; `None` while they are the definition's, and behind a snapshot
    /// of a version without it.
    pub origin: Option<PhaseOrigin>,
    /// The price of its last trade that was not busted, or an operator's; `None` before the first.
    pub last_price: Option<Price>,
    /// The price of its last uncrossing with a trade that was not busted, or an operator's.
    pub uncrossed_price: Option<Price>,
}

impl InstrumentState {
    /// Returns the cause of the phase, unknown for the definition's.
    #[must_use]
    pub fn cause(&self) -> PhaseCause {
        self.origin.map_or(PhaseCause::Unknown, |origin| origin.cause)
    }
}

/// The queue of an instrument in which a live order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderQueue {
    /// The book's limit orders.
    Book,
    /// The market orders of a call.
    Market,
    /// The stops that wait for their price.
    Stop,
    /// The orders that wait for the closing call.
    Parked,
}

/// A live order with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedOrder {
    /// Its state, as in [`Engine::live_orders`].
    pub state: OrderEvent,
    /// Its queue.
    pub queue: OrderQueue,
    /// The quantity that the book shows, or would show.
    pub shown_qty: Qty,
}

/// The public state of a live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderState {
    /// The order's number.
    pub order_id: OrderId,
    /// Buy or sell.
    pub side: Side,
    /// The limit price, in the instrument's price unit; zero for an order without one.
    pub price: Price,
    /// The total quantity.
    pub order_qty: Qty,
    /// The open quantity.
    pub leaves_qty: Qty,
}

/// The public state of a price level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The price, in the instrument's price unit.
    pub price: Price,
    /// The shown quantity of its orders, in lots.
    pub qty: Qty,
    /// The number of its orders.
    pub order_count: u32,
}

/// The sums that trades must conserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Cash moved in by transfers, in price units times lots like the three below.
    pub cash_moved_in: Cash,
    /// Cash moved out by transfers, including cash in transit to another partition.
    pub cash_moved_out: Cash,
    /// Cash of all accounts that is not reserved.
    pub cash_free: Cash,
    /// Cash reserved by live orders.
    pub cash_reserved: Cash,
    /// The sums per instrument, in order of identifier.
    pub positions: Vec<PositionTotals>,
}

/// The sums of one instrument's positions, in lots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionTotals {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Lots moved in by transfers minus lots moved out.
    pub transferred_in: i128,
    /// Lots held and not reserved, over all accounts.
    pub free: i128,
    /// Lots reserved by live sell orders.
    pub reserved: i128,
}

impl Totals {
    /// Returns cash moved in by transfers minus cash moved out.
    #[must_use]
    pub fn cash_transferred_in(&self) -> Cash {
        Cash(self.cash_moved_in.0.wrapping_sub(self.cash_moved_out.0))
    }

    /// Returns true when the accounts hold exactly the cash that was moved in.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.cash_free + self.cash_reserved == self.cash_transferred_in()
            && self.positions.iter().all(|p| p.free + p.reserved == p.transferred_in)
    }
}

impl Engine {
    /// Creates an engine before the first command.
    ///
    /// # Panics
    /// Panics when a limit of `config` is out of range.
    #[must_use]
    pub fn new(config: EngineConfig) -> Engine {
        config.assert_valid();
        let seed = config.hash_seed;
        let takes_ahead = config.memory == Memory::Ahead;
        let mut engine = Engine {
            position: Position::NONE,
            time: Nanos(0),
            checkpoint_at: next_checkpoint(Position::NONE, &config),
            control_position: Position::NONE,
            digest: 0,
            rec: Rec::NONE,
            seq: Seq::NONE,
            exec_id: ExecId::NONE,
            match_id: MatchId::NONE,
            is_killed: false,
            cash_moved_in: Cash::ZERO,
            cash_moved_out: Cash::ZERO,
            imports_refused: 0,
            cancel_on_disconnect: CancelOnDisconnect::default(),
            firms: Table::new(config.firms_max, seed),
            accounts: Table::new(config.accounts_max, seed),
            last_transfers: Vec::with_capacity(config.accounts_max as usize),
            sessions: Table::new(config.sessions_max, seed),
            instruments: Table::new(config.instruments_max, seed),
            symbols: Symbols::new(config.instruments_max, seed),
            positions: Positions::new(config.positions_max, seed),
            orders: Orders::new(config.orders_max, seed),
            levels: Levels::default(),
            trades: Trades::new(config.trades_max, config.trades_span),
            debtors: Debtors::default(),
            timers: Timers::default(),
            sweeps: Sweeps::default(),
            list: None,
            batch: Vec::new(),
            wave: Vec::new(),
            call_levels: Vec::new(),
            call_markets: CallMarkets::default(),
            hidden: Vec::new(),
            config,
        };
        if takes_ahead {
            engine.take_memory();
        }
        engine
    }

    /// Applies the command at `position`, stamped `time` by the log, and emits its events to `out`.
    ///
    /// # Panics
    /// Panics when `position` does not follow the last one, or `time` is before the last: a log
    /// that skips, repeats or goes back is broken, and continuing would fork history.
    pub fn apply<S: EventSink>(
        &mut self,
        position: Position,
        time: Nanos,
        command: &Command,
        out: &mut S,
    ) {
        assert!(position == self.position.next(), "{position} does not follow {}", self.position);
        assert!(time >= self.time, "log time {time} is before {}", self.time);
        self.position = position;
        self.time = time;
        if self.config.is_digested {
            self.digest = digest::fold_command(self.digest, position.0, time.0);
        } else if self.config.outcomes_max == 0 {
            return self.carry_out(command, &mut OnlyHearer(out));
        }
        self.carry_out(command, out);
    }

    fn carry_out<S: EventSink>(&mut self, command: &Command, out: &mut S) {
        if let Command::SetLimits(limits) = command
            && !plant::is(Plant::LimitsAfterTimers)
        {
            self.set_limits(limits);
        } else {
            self.carry_out_in_time(command, out);
        }
        if self.position == self.checkpoint_at {
            self.checkpoint_at = next_checkpoint(self.position, &self.config);
            self.say_checkpoint(out);
        }
    }

    /// Carries out a command behind the timers that are due before it.
    #[inline(always)]
    fn carry_out_in_time<S: EventSink>(&mut self, command: &Command, out: &mut S) {
        let is_later = plant::is(Plant::TimersAfterCommand);
        let fired = if is_later { Fired::default() } else { self.fire_timers(command, out) };
        match command {
            Command::Request(request) if fired.leaves_changes => {
                self.refuse_for_changes(request, out)
            }
            Command::Request(request) => self.request(request, out),
            Command::Import(control_position, definition) => {
                self.import(*control_position, definition, out);
            }
            // Due timers have fired above.
            Command::Tick if fired.is_exceeded && !plant::is(Plant::TickStepsBehindExcess) => {}
            Command::Tick => self.continue_sweeps(out),
            Command::SessionLost(lost) => self.session_lost(lost, out),
            Command::SessionChoice(choice) => self.session_choice(choice),
            Command::SetLimits(limits) => self.set_limits(limits),
        }
        if is_later {
            self.fire_timers(command, out);
        }
    }

    /// Carries out a request under its number. The three most frequent kinds are dispatched with a
    /// single match.
    #[inline]
    fn request<S: EventSink>(&mut self, request: &Request, out: &mut S) {
        let (session_id, request_no, template_id) = match request {
            Request::NewOrder(m) => {
                if let Some(session) = self.take_request_no(m.session_id, m.request_no) {
                    return self.new_order(session, m, out);
                }
                return self.answer_again(request, out);
            }
            Request::CancelOrder(m) => (m.session_id, m.request_no, CancelOrder::TEMPLATE_ID),
            Request::ReplaceOrder(m) => (m.session_id, m.request_no, ReplaceOrder::TEMPLATE_ID),
            _ => (request.session_id(), request.request_no(), request.template_id()),
        };
        let Some(session) = self.take_request_no(session_id, request_no) else {
            return self.answer_again(request, out);
        };
        let asker = Requester { session, request_no, template_id };
        match request {
            Request::CancelOrder(m) => self.cancel_order(asker, m, out),
            Request::ReplaceOrder(m) => self.replace_order(asker, m, out),
            _ => self.office_request(asker, request, out),
        }
    }

    /// Carries out all requests except those on single orders.
    #[cold]
    fn office_request<S: EventSink>(&mut self, asker: Requester, request: &Request, out: &mut S) {
        if self.config.is_digested {
            self.digest = digest::fold_request(self.digest, request);
        }
        if let Some(definition) = request.definition() {
            return self.define(asker, &definition, out);
        }
        match request {
            Request::MassCancel(m) => self.mass_cancel(asker, m, out),
            Request::Transfer(m) => self.transfer(asker, m, out),
            Request::AccountInquiry(m) => self.tell_account(asker, m, out),
            Request::SetPhase(m) => self.set_phase(asker, m, out),
            Request::KillSwitch(m) => self.kill_switch(asker, m, out),
            Request::BustTrade(m) => self.bust_trade(asker, m, out),
            Request::SchedulePhase(m) => self.schedule_phase(asker, m, out),
            Request::ResumeTrading(m) => self.resume_trading(asker, m, out),
            Request::SetReference(m) => self.set_reference(asker, m, out),
            Request::ChangePhases(m) => self.change_phases(asker, m, out),
            Request::SchedulePhases(m) => self.schedule_phases(asker, m, out),
            _ => unreachable!("orders and definitions went their way above"),
        }
    }

    /// Returns the slot of a known session whose request is new, and records the request number.
    #[inline(always)]
    fn take_request_no(&mut self, session_id: SessionId, request_no: RequestNo) -> Option<Slot> {
        let session = self.sessions.find(session_id.0)?;
        let row = &mut self.sessions[session];
        (request_no > row.last_request_no).then(|| {
            row.last_request_no = request_no;
            session
        })
    }

    /// Refuses a request that belongs behind changes of its instrument's phase which are due, and
    /// too many to be made now.
    #[cold]
    fn refuse_for_changes<S: EventSink>(&mut self, request: &Request, out: &mut S) {
        let (session_id, request_no) = (request.session_id(), request.request_no());
        let Some(session) = self.take_request_no(session_id, request_no) else {
            return self.answer_again(request, out);
        };
        if self.config.is_digested {
            self.digest = digest::fold_request(self.digest, request);
        }
        if let Request::NewOrder(m) = request {
            return self.reject_order(session, m, Reason::ChangesDue, out);
        }
        let asker = Requester { session, request_no, template_id: request.template_id() };
        self.reject(asker, named(request), Reason::ChangesDue, out);
    }

    /// Answers a request whose number was accepted before, or whose session is unknown.
    #[cold]
    fn answer_again<S: EventSink>(&mut self, request: &Request, out: &mut S) {
        let Some(session) = self.sessions.find(request.session_id().0) else {
            return self.reject_unknown_session(request, out);
        };
        let request_no = request.request_no();
        if self.is_in_progress(session, request_no) {
            let asker = Requester { session, request_no, template_id: request.template_id() };
            let rejected = self.rejected(asker, named(request), Reason::InProgress);
            return self.say_for_now(rejected, out);
        }
        match self.sessions[session].outcomes.find(request_no, self.asking(session)) {
            Some(answer) => self.say_again(session, answer, out),
            None => {
                let asker = Requester { session, request_no, template_id: request.template_id() };
                let rejected = self.rejected(asker, named(request), Reason::TooOld);
                self.say_for_now(rejected, out);
            }
        }
    }

    /// Refuses a request of an unknown session, which has no event numbers: the answer has none.
    fn reject_unknown_session<S: EventSink>(&mut self, request: &Request, out: &mut S) {
        let named = named(request);
        let event = Event::Plain(PlainEvent::RequestRejected(RequestRejected {
            position: self.position,
            event_no: EventNo::NONE,
            request_no: request.request_no(),
            order_id: OrderId::NONE,
            transact_time: self.time,
            cl_ord_id: named.cl_ord_id,
            orig_cl_ord_id: named.orig_cl_ord_id,
            session_id: request.session_id(),
            instrument_id: named.instrument_id,
            partition_id: self.config.partition_id,
            reason: Reason::UnknownSession,
            ref_template_id: request.template_id(),
        }));
        self.say(&event, out);
    }

    /// Returns the last applied position; zero before the first.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns the log time of the last applied position.
    #[must_use]
    pub fn time(&self) -> Nanos {
        self.time
    }

    /// Returns the time at which the next `Tick` is due; `None` without a pending timer. Zero, at
    /// once whatever the time is, while a mass cancel or a lost session's cancel is in progress.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        if self.sweeps.is_empty() { self.timers.next_deadline() } else { Some(Nanos(0)) }
    }

    /// Returns the digest of everything that happened so far; [`state_hash`](Engine::state_hash)
    /// covers the state that it cannot see.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the last imported position of the control log (in the control partition, that of the
    /// last definition).
    #[must_use]
    pub fn control_position(&self) -> Position {
        self.control_position
    }

    /// Returns the number of control log definitions that this partition's limits or rules refused
    /// and that it therefore lacks.
    #[must_use]
    pub fn refused_import_count(&self) -> u64 {
        self.imports_refused
    }

    /// Returns the engine's limits.
    #[must_use]
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Returns a session's numbers; those of a fresh session when it is unknown.
    #[must_use]
    pub fn session_state(&self, session_id: SessionId) -> SessionState {
        match self.sessions.find(session_id.0) {
            Some(slot) => state_of(&self.sessions[slot]),
            None => SessionState { last_request_no: RequestNo::NONE, next_event_no: EventNo(1) },
        }
    }

    /// Returns all sessions in order of identifier.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, SessionState)> + use<> {
        let mut states: Vec<_> =
            self.sessions.rows().iter().map(|row| (row.session_id, state_of(row))).collect();
        states.sort_unstable_by_key(|(session_id, _)| *session_id);
        states.into_iter()
    }

    /// Returns the firm of each session, none for supervisors and operators, in order of session
    /// identifier. A session's firm never changes.
    pub fn session_firms(&self) -> impl Iterator<Item = (SessionId, FirmId)> + use<> {
        let rows = self.sessions.rows().iter();
        let mut firms: Vec<_> =
            rows.map(|row| (row.session_id, self.asking_of(row).firm_id)).collect();
        firms.sort_unstable_by_key(|(session_id, _)| *session_id);
        firms.into_iter()
    }

    /// Returns the sessions whose loss cancels their orders, by the choice of their last logon, in
    /// order of identifier. Their losses have not been sequenced yet.
    #[must_use]
    pub fn cancel_on_disconnect(&self) -> &[SessionId] {
        self.cancel_on_disconnect.session_ids()
    }

    /// Returns all instruments with their market's state, in order of identifier.
    pub fn instruments(&self) -> impl Iterator<Item = InstrumentState> + use<> {
        let state = |row: &Instrument| InstrumentState {
            definition: row.definition,
            phase: row.phase,
            is_held: row.is_held,
            origin: row.origin,
            last_price: row.last_price,
            uncrossed_price: row.uncrossed_price,
        };
        let mut states: Vec<_> = self.instruments.rows().iter().map(state).collect();
        states.sort_unstable_by_key(|state| state.definition.instrument_id);
        states.into_iter()
    }

    /// Returns the number of live orders.
    #[must_use]
    pub fn live_order_count(&self) -> u32 {
        self.orders.live_count()
    }

    /// Returns the number of pairs of account and instrument with lots held, owed or on order.
    #[must_use]
    pub fn open_position_count(&self) -> usize {
        self.positions.count()
    }

    /// Returns the number of changes of phase that are filed and not made; one of a group counts
    /// once.
    #[must_use]
    pub fn filed_change_count(&self) -> usize {
        self.timers.filed_count()
    }

    /// Returns the highest record number assigned to an order; zero before the first.
    #[must_use]
    pub fn last_rec(&self) -> Rec {
        self.rec
    }

    /// Returns the number of the last trade; zero before the first.
    #[must_use]
    pub fn last_match_id(&self) -> MatchId {
        self.match_id
    }

    /// Returns the highest assigned change number; zero before the first.
    #[must_use]
    pub fn last_seq(&self) -> Seq {
        self.seq
    }

    /// Returns the live order that a session calls `cl_ord_id`; `None` when there is none.
    #[inline]
    #[must_use]
    pub fn order_by_name(&self, session_id: SessionId, cl_ord_id: ClOrdId) -> Option<OrderState> {
        let session = self.sessions.find(session_id.0)?;
        let order = &self.orders[self.orders.find_name(session, cl_ord_id)?];
        Some(OrderState {
            order_id: OrderId::new(self.config.partition_id, order.rec),
            side: order.side,
            price: order.told_price(),
            order_qty: order.order_qty,
            leaves_qty: order.leaves_qty,
        })
    }

    /// Fills `out` with the best `depth` levels of a side's limit orders, best first, with their
    /// shown quantities; leaves it empty for an unknown instrument. Market orders of a call, stops
    /// and parked orders are in no level.
    pub fn book_levels(
        &self,
        instrument_id: InstrumentId,
        side: Side,
        depth: usize,
        out: &mut Vec<Level>,
    ) {
        out.clear();
        let Some(slot) = self.instruments.find(instrument_id.0) else { return };
        let levels = self.instruments[slot].side(side).best_first().take(depth);
        out.extend(levels.map(|level| {
            let row = &self.levels[level];
            Level { price: row.price, qty: row.qty, order_count: row.order_count }
        }));
    }

    /// Returns the level of a side's limit orders at a price, with its shown quantity; `None` when
    /// it is empty or the instrument is unknown.
    #[must_use]
    pub fn level_at(&self, instrument_id: InstrumentId, side: Side, price: Price) -> Option<Level> {
        let slot = self.instruments.find(instrument_id.0)?;
        let row = &self.levels[self.instruments[slot].side(side).level_at(price)?];
        Some(Level { price: row.price, qty: row.qty, order_count: row.order_count })
    }

    /// Returns the identifiers of the book's limit orders at a price, in time priority.
    #[must_use]
    pub fn orders_at(&self, instrument_id: InstrumentId, side: Side, price: Price) -> Vec<OrderId> {
        let mut ids = Vec::new();
        let Some(slot) = self.instruments.find(instrument_id.0) else { return ids };
        let Some(level) = self.instruments[slot].side(side).level_at(price) else { return ids };
        let mut at = self.levels[level].head;
        while at != crate::index::NIL {
            ids.push(OrderId::new(self.config.partition_id, self.orders[at].rec));
            at = self.orders[at].level_next;
        }
        ids
    }

    /// Returns the sums for the conservation invariant. Scans every account and position.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let cash_reserved: i128 = self.accounts.rows().iter().map(|a| a.reserved.0).sum();
        let cash: i128 = self.accounts.rows().iter().map(|a| a.cash.0).sum();
        let mut positions: Vec<PositionTotals> = (self.instruments.rows().iter())
            .map(|row| PositionTotals {
                instrument_id: row.definition.instrument_id,
                transferred_in: row.transferred_in,
                free: 0,
                reserved: 0,
            })
            .collect();
        // Sums do not depend on the order of the table.
        for (_, instrument, position) in self.positions.unordered() {
            let row = &mut positions[instrument as usize];
            row.free += i128::from(position.total) - i128::from(position.reserved);
            row.reserved += i128::from(position.reserved);
        }
        positions.sort_unstable_by_key(|row| row.instrument_id);
        Totals {
            cash_moved_in: self.cash_moved_in,
            cash_moved_out: self.cash_moved_out,
            cash_free: Cash(cash - cash_reserved),
            cash_reserved: Cash(cash_reserved),
            positions,
        }
    }
}

/// Returns the first multiple of the configured interval after `position`.
pub(crate) fn next_checkpoint(position: Position, config: &EngineConfig) -> Position {
    let interval = config.checkpoint_interval;
    // After the last possible position there is no checkpoint.
    Position((position.0 / interval + 1).saturating_mul(interval))
}

fn state_of(row: &Session) -> SessionState {
    SessionState { last_request_no: row.last_request_no, next_event_no: row.next_event_no }
}

/// Returns the instrument that a command concerns; `None` for none.
pub(crate) fn instrument_of(command: &Command) -> Option<InstrumentId> {
    let instrument_id = match command {
        Command::Request(request) => named(request).instrument_id,
        Command::Import(_, Definition::DefineInstrument(d)) => d.instrument_id,
        _ => InstrumentId::NONE,
    };
    Some(instrument_id).filter(|id| !id.is_none())
}

/// Returns the identifiers that a request names, for its refusal.
pub(crate) fn named(request: &Request) -> NamedIds {
    match request {
        Request::NewOrder(m) => {
            NamedIds { cl_ord_id: m.cl_ord_id, instrument_id: m.instrument_id, ..NamedIds::NOTHING }
        }
        Request::ReplaceOrder(m) => NamedIds {
            cl_ord_id: m.cl_ord_id,
            orig_cl_ord_id: m.orig_cl_ord_id,
            instrument_id: m.instrument_id,
            ..NamedIds::NOTHING
        },
        Request::CancelOrder(m) => NamedIds {
            cl_ord_id: m.cl_ord_id,
            orig_cl_ord_id: m.orig_cl_ord_id,
            instrument_id: m.instrument_id,
            ..NamedIds::NOTHING
        },
        Request::MassCancel(m) => {
            NamedIds { cl_ord_id: m.cl_ord_id, instrument_id: m.instrument_id, ..NamedIds::NOTHING }
        }
        Request::Transfer(m) => NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING },
        Request::SetPhase(m) => NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING },
        Request::ResumeTrading(m) => {
            NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING }
        }
        Request::SetReference(m) => {
            NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING }
        }
        Request::DefineInstrument(m) => {
            NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING }
        }
        Request::SchedulePhase(m) => {
            NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING }
        }
        Request::SchedulePhases(m) => {
            NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING }
        }
        Request::KillSwitch(_)
        | Request::BustTrade(_)
        | Request::ChangePhases(_)
        | Request::AccountInquiry(_)
        | Request::DefineFirm(_)
        | Request::DefineAccount(_)
        | Request::DefineSession(_) => NamedIds::NOTHING,
    }
}
