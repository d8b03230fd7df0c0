//! Plausible commands from bytes, with which property tests, the fuzzer and campaigns drive both
//! engines.
//!
//! Every byte string is a script. Most of its commands are nearly valid, with few sessions,
//! accounts, instruments, names and prices, so that books cross, names collide and limits are
//! reached. The first commands are always the same reference data and money. [`fuzz_commands`] runs
//! a script through the fast and the naive engine and stops at the first difference.

mod backlog;
mod crowd;
mod cut;
mod duel;
mod full;
mod limits;
mod many;
mod readable;
mod reference;
mod ruin;
mod shrink;
mod steps;
mod tally;

use weir_types::{
    AccountId, Cash, ClOrdId, ExecType, FirmId, InstrumentId, KillScope, MassCancelScope, MatchId,
    Nanos, OrderId, PartitionId, Phase, Position, Price, Rec, RequestNo, Role, SessionId, Switch,
    Symbol,
};
use weir_wire::event::OrderEvent;
use weir_wire::order_entry::{CancelOrder, MassCancel};
use weir_wire::reference::{
    AccountInquiry, DefineInstrument, KillSwitch, NEW, SessionChoice, SessionLost, Transfer,
    is_change,
};
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

pub use duel::{Duel, DuelOp, DuelSetting, fuzz_commands};
pub use readable::{readable_command, readable_event};
pub use shrink::{Difference, attempt, find_difference, shrink};
pub use steps::StepLimits;
pub use tally::Tally;

use backlog::Backlog;
use crowd::Crowd;
use reference::{account, asked, control_opening, firm, instrument, opening, session, with_fields};

/// The maximum number of commands in a script.
pub const COMMANDS_MAX: usize = 1 << 16;

const HERE: PartitionId = PartitionId(1);
const OPERATOR: SessionId = SessionId(90);
/// The roles that definitions draw: one more would make other scripts of the same bytes.
const ROLES: [Role; 5] =
    [Role::Trader, Role::Supervisor, Role::Operator, Role::DropCopy, Role::Source];

/// The number of last reported orders that a script remembers.
const HEARD_MAX: usize = 40;
/// The number of last reported trades that a script remembers: more than the engines of a duel
/// retain, so that busts fall on either side of the limit.
const TRADES_HEARD_MAX: usize = 12;

struct NamedOrder {
    session_id: SessionId,
    instrument_id: InstrumentId,
    order_id: OrderId,
    name: ClOrdId,
}

fn phase_index(instrument_id: InstrumentId) -> Option<usize> {
    [InstrumentId(100), InstrumentId(101)].iter().position(|id| *id == instrument_id)
}

/// Decodes a script command by command, without end: after its last byte it reads zeros.
pub struct Script<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number of each session's next request, unless it repeats an earlier one.
    request_nos: [u64; 8],
    transfer_id: u64,
    last_transfer: Option<Transfer>,
    last_mass_cancel: Option<MassCancel>,
    last_lost: Option<SessionId>,
    /// The kill switch that is on, in most cases: it goes off soon, or nobody would trade.
    killed: Option<(KillScope, u32)>,
    control_position: u64,
    /// Reported orders, the newest last: most cancels and replaces name one of them.
    heard: Vec<OrderEvent>,
    /// Numbers of reported trades, the newest last: most busts name one of them.
    trades: Vec<MatchId>,
    /// The last reported phases of instruments 100 and 101.
    phases: [Phase; 2],
    /// The crowd in progress.
    crowd: Option<Crowd>,
    /// The backlog in progress; it comes before a crowd.
    backlog: Option<Backlog>,
    /// The times of the changes in the partition's list, and the commands that complete it.
    listed: Vec<Nanos>,
    list_left: u8,
    /// The last trade of an account with limits, and the ruin in progress.
    last_trade: Option<OrderEvent>,
    ruin: Option<ruin::Ruin>,
    /// The next step of the call in progress whose market order is cut.
    cut: Option<usize>,
    name_no: u64,
    now: Nanos,
    opening: std::vec::IntoIter<Command>,
    is_control: bool,
}

impl<'a> Script<'a> {
    /// Decodes `bytes` from the start.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        Script {
            bytes,
            at: 0,
            request_nos: [1_000; 8],
            transfer_id: 1_000,
            last_transfer: None,
            last_mass_cancel: None,
            last_lost: None,
            killed: None,
            control_position: 1_000,
            heard: Vec::new(),
            trades: Vec::new(),
            phases: [Phase::Continuous; 2],
            crowd: None,
            backlog: None,
            listed: Vec::new(),
            list_left: 0,
            last_trade: None,
            ruin: None,
            cut: None,
            name_no: 1_000,
            now: Nanos(1_000_000_000),
            opening: opening().into_iter(),
            is_control: false,
        }
    }

    /// Decodes `bytes` as commands for the control partition, mostly requested definitions.
    #[must_use]
    pub fn for_control(bytes: &'a [u8]) -> Script<'a> {
        let opening = control_opening().into_iter();
        Script { opening, is_control: true, ..Script::new(bytes) }
    }

    /// Continues with other bytes, keeping all numbers.
    #[must_use]
    pub fn continued<'b>(self, bytes: &'b [u8]) -> Script<'b> {
        Script {
            bytes,
            at: 0,
            request_nos: self.request_nos,
            transfer_id: self.transfer_id,
            last_transfer: self.last_transfer,
            last_mass_cancel: self.last_mass_cancel,
            last_lost: self.last_lost,
            killed: self.killed,
            control_position: self.control_position,
            heard: self.heard,
            trades: self.trades,
            phases: self.phases,
            crowd: self.crowd,
            backlog: self.backlog,
            listed: self.listed,
            list_left: self.list_left,
            last_trade: self.last_trade,
            ruin: self.ruin,
            cut: self.cut,
            name_no: self.name_no,
            now: self.now,
            opening: self.opening,
            is_control: self.is_control,
        }
    }

    /// Returns true when all bytes are used and the opening is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.at >= self.bytes.len() && self.opening.len() == 0
    }

    /// Takes in the events of its commands.
    pub fn hear(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Plain(PlainEvent::PhaseChanged(e)) = event
                && let Some(at) = phase_index(e.instrument_id)
            {
                self.phases[at] = e.phase;
            }
            let Event::Plain(PlainEvent::OrderEvent(e)) = event else { continue };
            if e.exec_type == ExecType::Trade && !self.trades.contains(&e.match_id) {
                self.trades.push(e.match_id);
            }
            self.note_trade(e);
            self.heard.retain(|other| other.order_id != e.order_id);
            if e.ord_status.is_live() && !e.rec.is_none() {
                self.heard.push(*e);
            }
        }
        // An old order is named less and less, but can still be named by number.
        let excess = self.heard.len().saturating_sub(HEARD_MAX);
        self.heard.drain(..excess);
        let excess = self.trades.len().saturating_sub(TRADES_HEARD_MAX);
        self.trades.drain(..excess);
    }

    /// Returns the next command.
    pub fn command(&mut self) -> Command {
        if let Some(command) = self.opening.next() {
            return command;
        }
        if !self.is_control {
            return self.full_command();
        }
        self.now.0 += 1;
        match self.byte() {
            0..=5 => self.cancel_order(),
            6 => self.mass_cancel(),
            7..=13 => {
                let new = self.transfer();
                self.once_or_again(new)
            }
            14..=22 => Command::Tick,
            23..=25 => self.kill_switch(),
            26 if self.byte() < 64 => self.set_limits(),
            26 => self.session_lost(),
            _ => self.definition(),
        }
    }

    /// Returns the log time of the last command.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    /// Returns one of `values`.
    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::from(self.byte()) % values.len()]
    }

    /// Returns `usual`, except for one byte in 32, which selects one of `values`.
    fn rarely<T: Copy>(&mut self, usual: T, values: &[T]) -> T {
        let byte = usize::from(self.byte());
        if byte % 32 == 31 { values[byte / 32 % values.len()] } else { usual }
    }

    fn session(&mut self) -> SessionId {
        let usual = self.one_of(&[1, 2, 3, 4].map(SessionId));
        let others = [OPERATOR.0, 91, 92, 93, 77, 5].map(SessionId);
        self.rarely(usual, &others)
    }

    fn request_no(&mut self, session_id: SessionId) -> RequestNo {
        let byte = self.byte();
        let next = &mut self.request_nos[session_id.0 as usize % 8];
        *next += if byte % 64 == 63 { 3 } else { 1 };
        match byte {
            // A repeated request, recent or long past.
            0..=9 => RequestNo(*next - 1 - u64::from(byte)),
            10 => RequestNo(next.saturating_sub(1_500)),
            _ => RequestNo(*next),
        }
    }

    fn name(&mut self) -> ClOrdId {
        let byte = self.byte();
        if byte == 255 { ClOrdId::NONE } else { ClOrdId::from_number(u64::from(byte % 40)) }
    }

    fn instrument(&mut self) -> InstrumentId {
        let usual = self.one_of(&[100, 100, 100, 101].map(InstrumentId));
        self.rarely(usual, &[102, 103, 0].map(InstrumentId))
    }

    fn account(&mut self, session_id: SessionId) -> AccountId {
        let usual = match session_id.0 {
            1 | 2 => self.one_of(&[11, 11, 12, 13].map(AccountId)),
            _ => self.one_of(&[21, 21, 22].map(AccountId)),
        };
        self.rarely(usual, &[11, 21, 99].map(AccountId))
    }

    /// Selects an order and its names: a reported one by number, name or both, or nonsense.
    fn named_order(&mut self) -> NamedOrder {
        let byte = self.byte();
        let order = if self.heard.is_empty() || byte < 32 {
            None
        } else {
            Some(self.heard[usize::from(byte) % self.heard.len()])
        };
        let Some(order) = order else {
            return NamedOrder {
                session_id: self.session(),
                instrument_id: self.instrument(),
                order_id: OrderId::new(self.one_of(&[HERE, PartitionId(2)]), Rec(1)),
                name: self.name(),
            };
        };
        let (by_number, by_name) = self.one_of(&[(true, true), (true, false), (false, true)]);
        let (stranger, elsewhere) = (self.session(), self.instrument());
        NamedOrder {
            session_id: self.rarely(order.session_id, &[stranger]),
            instrument_id: self.rarely(order.instrument_id, &[elsewhere]),
            order_id: if by_number { order.order_id } else { OrderId(0) },
            name: if by_name { order.cl_ord_id } else { ClOrdId::NONE },
        }
    }

    fn cancel_order(&mut self) -> Command {
        let named = self.named_order();
        Command::Request(Request::CancelOrder(CancelOrder {
            request_no: self.request_no(named.session_id),
            cl_ord_id: self.name(),
            orig_cl_ord_id: named.name,
            order_id: named.order_id,
            sending_time: Nanos(0),
            session_id: named.session_id,
            instrument_id: named.instrument_id,
        }))
    }

    /// Returns a mass cancel, or the last one again, under its number.
    fn mass_cancel(&mut self) -> Command {
        let again = self.last_mass_cancel.filter(|_| self.byte() < 64);
        let mass_cancel = again.unwrap_or_else(|| self.new_mass_cancel());
        self.last_mass_cancel = Some(mass_cancel);
        Command::Request(Request::MassCancel(mass_cancel))
    }

    fn new_mass_cancel(&mut self) -> MassCancel {
        let session_id = self.session();
        let instrument_id = self.instrument();
        MassCancel {
            request_no: self.request_no(session_id),
            cl_ord_id: self.name(),
            sending_time: Nanos(0),
            session_id,
            instrument_id: self.one_of(&[instrument_id, InstrumentId(0)]),
            account_id: self.account(session_id),
            firm_id: self.one_of(&[0, 1, 2, 9].map(FirmId)),
            partition_id: self.rarely(HERE, &[PartitionId(0), PartitionId(2)]),
            scope: self.one_of(MassCancelScope::ALL),
        }
    }

    fn transfer(&mut self) -> Transfer {
        let session_id = self.rarely(OPERATOR, &[SessionId(1), SessionId(91)]);
        self.transfer_id += 1;
        let big = 1i128 << 95;
        let cash = [1_000, 50_000, -1_000, -50_000, 0, big, -big, big * 4];
        let lots = [0, 0, 10, 1_000, -10, -1_000, i64::MAX, 1 << 61];
        let position_qty = self.one_of(&lots);
        let instrument_id = self.instrument();
        let request_no = self.request_no(session_id);
        let transfer_id = self.rarely(self.transfer_id, &[0, 1]);
        Transfer {
            request_no,
            transfer_id,
            cash: Cash(self.one_of(&cash)),
            position_qty,
            session_id,
            account_id: self.account(SessionId(1)),
            instrument_id: if position_qty == 0 { InstrumentId(0) } else { instrument_id },
            partition_id: self.rarely(HERE, &[PartitionId(2)]),
            peer_partition_id: self.one_of(&[0, 0, 2, 3].map(PartitionId)),
        }
    }

    /// Returns the transfer, or a variant of the last one: the same, with other amounts, with
    /// another partition at its other end, or an earlier one; or an inquiry after its account.
    fn once_or_again(&mut self, new: Transfer) -> Command {
        let byte = self.byte();
        if byte >= 240 {
            return Command::Request(Request::AccountInquiry(AccountInquiry {
                request_no: new.request_no,
                session_id: new.session_id,
                account_id: new.account_id,
                partition_id: new.partition_id,
            }));
        }
        let again = self.last_transfer.unwrap_or(new);
        let transfer = match byte {
            0..=31 => Transfer { request_no: new.request_no, session_id: new.session_id, ..again },
            32..=39 => {
                let (transfer_id, account_id) = (again.transfer_id, again.account_id);
                Transfer { transfer_id, account_id, ..new }
            }
            40..=47 => Transfer { transfer_id: new.transfer_id.saturating_sub(4), ..new },
            48..=55 => Transfer {
                request_no: new.request_no,
                session_id: new.session_id,
                peer_partition_id: self.one_of(&[PartitionId(0), HERE, PartitionId(2)]),
                ..again
            },
            _ => new,
        };
        self.last_transfer = Some(transfer);
        Command::Request(Request::Transfer(transfer))
    }

    /// Returns a kill switch: off if one is on, and else in a half on.
    fn kill_switch(&mut self) -> Command {
        let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
        let scope = self.one_of(KillScope::ALL);
        let scope = if scope == KillScope::All { self.one_of(KillScope::ALL) } else { scope };
        let id = match scope {
            KillScope::All => self.rarely(0, &[1]),
            KillScope::Firm => self.one_of(&[1, 1, 9]),
            KillScope::Account => self.one_of(&[21, 21, 99]),
            KillScope::Session => self.one_of(&[2, 2, 77]),
        };
        let is_on = self.killed.is_none() && self.byte() < 128;
        let (scope, id) = self.killed.unwrap_or((scope, id));
        let partition_id = self.rarely(HERE, &[PartitionId(2)]);
        if session_id == OPERATOR && partition_id == HERE {
            self.killed = is_on.then_some((scope, id));
        }
        let cancels = self.byte();
        Command::Request(Request::KillSwitch(KillSwitch {
            request_no: self.request_no(session_id),
            session_id,
            id,
            partition_id,
            scope,
            switch: if is_on { Switch::On } else { Switch::Off },
            cancel_orders: match cancels {
                0..48 if is_on => Switch::On,
                248.. => Switch::On,
                _ => Switch::Off,
            },
        }))
    }

    /// Returns the choice of a session that has logged on, or the loss of a session, often of the
    /// last one again.
    fn session_lost(&mut self) -> Command {
        if self.byte() % 4 >= 2 {
            return Command::SessionChoice(SessionChoice {
                session_id: self.session(),
                cancel_on_disconnect: self.one_of(&[Switch::On, Switch::On, Switch::Off]),
            });
        }
        let again = self.last_lost.filter(|_| self.byte() < 128);
        let session_id = again.unwrap_or_else(|| self.session());
        self.last_lost = Some(session_id);
        Command::SessionLost(SessionLost {
            session_id,
            cancel_on_disconnect: self.one_of(Switch::ALL),
        })
    }

    /// Returns the definition as a complete one, as that of something new, or as a change of some
    /// of its fields, by chance with another symbol.
    fn as_new_or_change(&mut self, definition: Definition) -> Definition {
        let fields = match self.byte() % 8 {
            0 => NEW,
            1..=3 => {
                let bits = [self.byte(), self.byte(), self.byte(), 0];
                u32::from_le_bytes(bits) & definition.all_fields()
            }
            _ => 0,
        };
        match with_fields(definition, fields) {
            Definition::DefineInstrument(d)
                if is_change(fields) && self.byte().is_multiple_of(4) =>
            {
                let number = u64::from(d.instrument_id.0) + 1_000;
                let symbol = Symbol(ClOrdId::from_number(number).0);
                Definition::DefineInstrument(DefineInstrument { symbol, ..d })
            }
            other => other,
        }
    }

    /// Returns a definition, good or bad, imported or requested where requests are not allowed.
    fn definition(&mut self) -> Command {
        let definition = match self.byte() % 4 {
            0 => {
                let id = self.one_of(&[100, 101, 103, 0]);
                let partition = self.one_of(&[HERE, HERE, PartitionId(2), PartitionId(0)]);
                let definition = instrument(id, partition, self.one_of(&[1, 1, 1, 1, 1, 1, 2, 0]));
                let narrow = self.byte() % 8 == 7;
                if let (true, 100, Definition::DefineInstrument(d)) = (narrow, id, definition) {
                    // Orders outside of the new bounds stay.
                    let (price_min, price_max) = (Price(97), Price(102));
                    Definition::DefineInstrument(DefineInstrument { price_min, price_max, ..d })
                } else {
                    definition
                }
            }
            1 => firm(u32::from(self.byte() % 4)),
            2 => {
                let unlimited = self.one_of(Switch::ALL);
                account(self.one_of(&[12, 13, 22, 23, 0]), self.one_of(&[1, 2, 9]), unlimited)
            }
            _ => {
                let role = self.one_of(&ROLES);
                session(self.one_of(&[4, 5, 6, 0]), self.one_of(&[0, 1, 2, 9]), role)
            }
        };
        let definition = self.as_new_or_change(definition);
        if self.byte() % 4 == 3 || self.is_control {
            let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
            return Command::Request(asked(definition, session_id, self.request_no(session_id)));
        }
        self.control_position += 1;
        let repeated = self.control_position - u64::from(self.byte() % 3);
        Command::Import(Position(repeated), definition)
    }
}
