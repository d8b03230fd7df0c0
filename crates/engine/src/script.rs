//! Bytes to plausible commands: how property tests, the fuzzer and campaigns drive both engines.
//!
//! Every byte string is a script. Most of what it says is nearly valid: few sessions, accounts,
//! instruments, names and prices, so that books cross, names collide and limits are met. The
//! first commands are always the same reference data and money. [`fuzz_commands`] runs a script
//! through the fast and the naive engine and stops at the first difference.

mod duel;

use weir_types::{
    AccountId, ApiKeyHash, Cash, ClOrdId, ExecInst, FirmId, InstrumentId, KillScope,
    MassCancelScope, Nanos, OrdType, OrderId, PartitionId, Phase, Position, Price, Qty, Rec,
    RequestNo, Role, SelfTradePrevention, SessionId, Side, Switch, Symbol, TimeInForce,
};
use weir_wire::event::OrderEvent;
use weir_wire::order_entry::{CancelOrder, MassCancel, NewOrder, ReplaceOrder};
use weir_wire::reference::{
    DefineAccount, DefineFirm, DefineInstrument, DefineSession, KillSwitch, SessionLost, SetPhase,
    Transfer,
};
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

pub use duel::{Duel, fuzz_commands};

/// The most commands that one script may hold.
pub const COMMANDS_MAX: usize = 1 << 16;

const HERE: PartitionId = PartitionId(1);
const OPERATOR: SessionId = SessionId(90);

/// How many of the last orders heard of are remembered.
const HEARD_MAX: usize = 40;

struct NamedOrder {
    session_id: SessionId,
    instrument_id: InstrumentId,
    order_id: OrderId,
    name: ClOrdId,
}

/// Decodes a script, command by command, without end: behind its last byte it reads zeroes.
pub struct Script<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number that each session's next request gets, unless it repeats one.
    request_nos: [u64; 8],
    transfer_id: u64,
    control_position: u64,
    /// Orders heard of, the last at the end: most cancels and replaces name one of them.
    heard: Vec<OrderEvent>,
    opening: std::vec::IntoIter<Command>,
    is_control: bool,
}

impl<'a> Script<'a> {
    /// Reads `bytes` from their beginning.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        Script {
            bytes,
            at: 0,
            request_nos: [1_000; 8],
            transfer_id: 1_000,
            control_position: 1_000,
            heard: Vec::new(),
            opening: opening().into_iter(),
            is_control: false,
        }
    }

    /// Reads `bytes` as commands for the control partition: mostly definitions asked for.
    #[must_use]
    pub fn for_control(bytes: &'a [u8]) -> Script<'a> {
        let opening = control_opening().into_iter();
        Script { opening, is_control: true, ..Script::new(bytes) }
    }

    /// Goes on with other bytes, keeping count of numbers.
    #[must_use]
    pub fn continued<'b>(self, bytes: &'b [u8]) -> Script<'b> {
        Script {
            bytes,
            at: 0,
            request_nos: self.request_nos,
            transfer_id: self.transfer_id,
            control_position: self.control_position,
            heard: self.heard,
            opening: self.opening,
            is_control: self.is_control,
        }
    }

    /// True when all bytes are used and the opening is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.at >= self.bytes.len() && self.opening.len() == 0
    }

    /// Hears what became of its commands.
    pub fn hear(&mut self, events: &[Event]) {
        for event in events {
            let Event::Plain(PlainEvent::OrderEvent(e)) = event else { continue };
            self.heard.retain(|other| other.order_id != e.order_id);
            if e.ord_status.is_live() && !e.rec.is_none() {
                self.heard.push(*e);
            }
        }
        // An order that lives long is named less and less; that is what names by number are for.
        let excess = self.heard.len().saturating_sub(HEARD_MAX);
        self.heard.drain(..excess);
    }

    /// The next command.
    pub fn command(&mut self) -> Command {
        if let Some(command) = self.opening.next() {
            return command;
        }
        let byte = self.byte();
        match if self.is_control { byte.saturating_add(224) } else { byte } {
            0..=169 => self.new_order(),
            170..=204 => self.replace_order(),
            205..=229 => self.cancel_order(),
            230 => self.mass_cancel(),
            231..=237 => self.transfer(),
            238..=242 => self.set_phase(),
            243..=245 => self.kill_switch(),
            246 => self.session_lost(),
            247..=250 => Command::Tick,
            _ => self.definition(),
        }
    }

    fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    /// One of `values`.
    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::from(self.byte()) % values.len()]
    }

    /// `usual`, but for one byte in 32 one of `values`.
    fn rarely<T: Copy>(&mut self, usual: T, values: &[T]) -> T {
        let byte = usize::from(self.byte());
        if byte % 32 == 31 { values[byte / 32 % values.len()] } else { usual }
    }

    fn session(&mut self) -> SessionId {
        let usual = self.one_of(&[1, 2, 3, 4].map(SessionId));
        self.rarely(usual, &[OPERATOR, SessionId(91), SessionId(77), SessionId(5)])
    }

    fn request_no(&mut self, session_id: SessionId) -> RequestNo {
        let byte = self.byte();
        let next = &mut self.request_nos[session_id.0 as usize % 8];
        *next += if byte % 64 == 63 { 3 } else { 1 };
        match byte {
            // Asked again, just now or long ago.
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

    /// Instrument 101 trades around zero, with negative prices.
    fn price(&mut self, instrument_id: InstrumentId) -> Price {
        let byte = i64::from(self.byte());
        let middle = if instrument_id == InstrumentId(101) { 0 } else { 100 };
        if byte == 255 { Price(1_000_000) } else { Price(middle + byte % 12 - 6) }
    }

    fn qty(&mut self) -> Qty {
        let byte = u64::from(self.byte());
        if byte >= 250 { Qty((byte - 250) * 100_000) } else { Qty(byte % 20 * 10 + 10) }
    }

    fn new_order(&mut self) -> Command {
        let session_id = self.session();
        let instrument_id = self.instrument();
        let ord_type = self.one_of(&[OrdType::Limit; 7]);
        let ord_type = self.rarely(ord_type, &[OrdType::Stop, OrdType::StopLimit]);
        let is_market = self.byte() % 8 == 7;
        let price = self.price(instrument_id);
        let usual = [
            TimeInForce::Gtc,
            TimeInForce::Day,
            TimeInForce::Gtc,
            TimeInForce::Day,
            TimeInForce::Ioc,
        ];
        let usual = self.one_of(&usual);
        let rare = [TimeInForce::Fok, TimeInForce::Fok, TimeInForce::Fok, TimeInForce::Gtd];
        let time_in_force = if self.byte() % 10 == 9 { self.one_of(&rare) } else { usual };
        let order_qty = self.qty();
        let min_qty = if self.byte() % 20 == 19 { self.qty() } else { Qty(0) };
        let zero_or = [Qty(0), Qty(0), Qty(0), Qty(5)];
        Command::Request(Request::NewOrder(NewOrder {
            request_no: self.request_no(session_id),
            cl_ord_id: self.name(),
            price: if is_market { self.rarely(Price(0), &[price]) } else { price },
            order_qty,
            min_qty,
            display_qty: self.rarely(Qty(0), &zero_or),
            stop_px: self.rarely(Price(0), &[Price(0), Price(3)]),
            expire_time: self.rarely(Nanos(0), &[Nanos(0), Nanos(5)]),
            sending_time: Nanos(0),
            session_id,
            instrument_id,
            account_id: self.account(session_id),
            side: self.one_of(&[Side::Buy, Side::Sell]),
            ord_type: if is_market { OrdType::Market } else { ord_type },
            time_in_force,
            exec_inst: if self.byte() % 8 == 7 { ExecInst::POST_ONLY } else { ExecInst::NONE },
            self_trade_prevention: self.one_of(SelfTradePrevention::ALL),
        }))
    }

    /// Who names which order how: a heard one by number, name or both, or nonsense.
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

    fn replace_order(&mut self) -> Command {
        let named = self.named_order();
        let name = self.name();
        Command::Request(Request::ReplaceOrder(ReplaceOrder {
            request_no: self.request_no(named.session_id),
            cl_ord_id: self.one_of(&[name, named.name]),
            orig_cl_ord_id: named.name,
            order_id: named.order_id,
            price: self.price(named.instrument_id),
            order_qty: self.qty(),
            sending_time: Nanos(0),
            session_id: named.session_id,
            instrument_id: named.instrument_id,
        }))
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

    fn mass_cancel(&mut self) -> Command {
        let session_id = self.session();
        let instrument_id = self.instrument();
        Command::Request(Request::MassCancel(MassCancel {
            request_no: self.request_no(session_id),
            cl_ord_id: self.name(),
            sending_time: Nanos(0),
            session_id,
            instrument_id: self.one_of(&[instrument_id, InstrumentId(0)]),
            account_id: self.account(session_id),
            firm_id: self.one_of(&[0, 1, 2, 9].map(FirmId)),
            partition_id: self.rarely(HERE, &[PartitionId(0), PartitionId(2)]),
            scope: self.one_of(MassCancelScope::ALL),
        }))
    }

    fn transfer(&mut self) -> Command {
        let session_id = self.rarely(OPERATOR, &[SessionId(1), SessionId(91)]);
        self.transfer_id += 1;
        let repeated = self.transfer_id.saturating_sub(u64::from(self.byte() % 4));
        let big = 1i128 << 95;
        let cash = [1_000, 50_000, -1_000, -50_000, 0, big, -big, big * 4];
        let lots = [0, 0, 10, 1_000, -10, -1_000, i64::MAX, 1 << 61];
        let position_qty = self.one_of(&lots);
        let instrument_id = self.instrument();
        Command::Request(Request::Transfer(Transfer {
            request_no: self.request_no(session_id),
            transfer_id: self.rarely(repeated, &[0, 1]),
            cash: Cash(self.one_of(&cash)),
            position_qty,
            session_id,
            account_id: self.account(SessionId(1)),
            instrument_id: if position_qty == 0 { InstrumentId(0) } else { instrument_id },
            partition_id: self.rarely(HERE, &[PartitionId(2)]),
        }))
    }

    fn set_phase(&mut self) -> Command {
        let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
        // Mostly trading: a closed book teaches little.
        let phase = match self.byte() {
            0..=15 => Phase::Closed,
            16..=39 => Phase::Halted,
            _ => Phase::Continuous,
        };
        Command::Request(Request::SetPhase(SetPhase {
            request_no: self.request_no(session_id),
            session_id,
            instrument_id: self.instrument(),
            phase,
        }))
    }

    fn kill_switch(&mut self) -> Command {
        let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
        let scope = self.one_of(KillScope::ALL);
        let id = match scope {
            KillScope::All => self.rarely(0, &[1]),
            KillScope::Firm => self.one_of(&[1, 1, 9]),
            KillScope::Account => self.one_of(&[21, 21, 99]),
            KillScope::Session => self.one_of(&[2, 2, 77]),
        };
        Command::Request(Request::KillSwitch(KillSwitch {
            request_no: self.request_no(session_id),
            session_id,
            id,
            partition_id: self.rarely(HERE, &[PartitionId(2)]),
            scope,
            switch: if self.byte() % 16 == 15 { Switch::On } else { Switch::Off },
        }))
    }

    fn session_lost(&mut self) -> Command {
        Command::SessionLost(SessionLost {
            session_id: self.session(),
            cancel_on_disconnect: self.one_of(Switch::ALL),
        })
    }

    /// Definitions, good and bad, imported or asked for where none may ask.
    fn definition(&mut self) -> Command {
        let definition = match self.byte() % 4 {
            0 => {
                let id = self.one_of(&[100, 101, 103, 0]);
                let partition = self.one_of(&[HERE, HERE, PartitionId(2), PartitionId(0)]);
                let definition = instrument(id, partition, self.one_of(&[1, 1, 1, 1, 1, 1, 2, 0]));
                let narrow = self.byte() % 8 == 7;
                if let (true, 100, Definition::DefineInstrument(d)) = (narrow, id, definition) {
                    // Orders that stand outside of the new bounds stay.
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
                let role = self.one_of(Role::ALL);
                session(self.one_of(&[4, 5, 6, 0]), self.one_of(&[0, 1, 2, 9]), role)
            }
        };
        if self.byte() % 4 == 3 || self.is_control {
            let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
            return Command::Request(asked(definition, session_id, self.request_no(session_id)));
        }
        self.control_position += 1;
        let repeated = self.control_position - u64::from(self.byte() % 3);
        Command::Import(Position(repeated), definition)
    }
}

/// The definition as its operator asked for it.
fn asked(definition: Definition, session_id: SessionId, request_no: RequestNo) -> Request {
    match definition {
        Definition::DefineInstrument(d) => {
            Request::DefineInstrument(DefineInstrument { session_id, request_no, ..d })
        }
        Definition::DefineFirm(d) => {
            Request::DefineFirm(DefineFirm { session_id, request_no, ..d })
        }
        Definition::DefineAccount(d) => {
            Request::DefineAccount(DefineAccount { session_id, request_no, ..d })
        }
        Definition::DefineSession(d) => {
            Request::DefineSession(DefineSession { session_id, request_no, ..d })
        }
    }
}

fn instrument(id: u32, partition_id: PartitionId, tick_size: i64) -> Definition {
    let (price_min, price_max) = if id == 101 { (-1_000, 1_000) } else { (1, 10_000) };
    Definition::DefineInstrument(DefineInstrument {
        request_no: RequestNo(0),
        symbol: Symbol(ClOrdId::from_number(u64::from(id)).0),
        tick_size: Price(tick_size),
        lot_size: Qty(10),
        order_qty_max: Qty(100_000),
        price_min: Price(price_min),
        price_max: Price(price_max),
        reference_price: Price(0),
        volatility_call: Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: OPERATOR,
        instrument_id: InstrumentId(id),
        partition_id,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
    })
}

fn firm(id: u32) -> Definition {
    Definition::DefineFirm(DefineFirm {
        request_no: RequestNo(0),
        name: Symbol(ClOrdId::from_number(u64::from(id)).0),
        session_id: OPERATOR,
        firm_id: FirmId(id),
    })
}

fn account(id: u32, firm: u32, unlimited: Switch) -> Definition {
    Definition::DefineAccount(DefineAccount {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        account_id: AccountId(id),
        firm_id: FirmId(firm),
        unlimited,
    })
}

fn session(id: u32, firm: u32, role: Role) -> Definition {
    Definition::DefineSession(DefineSession {
        request_no: RequestNo(0),
        api_key_hash: ApiKeyHash([id as u8; 32]),
        session_id: OPERATOR,
        defined_session_id: SessionId(id),
        firm_id: FirmId(firm),
        order_rate_max: 0,
        role,
    })
}

/// The first operator, and the same reference data asked for by it.
fn control_opening() -> Vec<Command> {
    let first = Command::Import(Position(1), session(OPERATOR.0, 0, Role::Operator));
    let asked = (1..)
        .zip(reference_data())
        .map(|(number, definition)| asked(definition, OPERATOR, RequestNo(number)));
    std::iter::once(first).chain(asked.map(Command::Request)).collect()
}

/// Two firms with two sessions each, some accounts, three instruments.
fn reference_data() -> [Definition; 16] {
    [
        firm(1),
        firm(2),
        account(11, 1, Switch::Off),
        account(12, 1, Switch::Off),
        account(13, 1, Switch::On),
        account(21, 2, Switch::Off),
        account(22, 2, Switch::On),
        session(OPERATOR.0, 0, Role::Operator),
        session(91, 0, Role::Supervisor),
        session(1, 1, Role::Trader),
        session(2, 1, Role::Trader),
        session(3, 2, Role::Trader),
        session(4, 2, Role::Trader),
        instrument(100, HERE, 1),
        instrument(101, HERE, 1),
        instrument(102, PartitionId(2), 1),
    ]
}

/// The reference data, and a little money.
fn opening() -> Vec<Command> {
    let mut commands = Vec::new();
    for (at, definition) in (1..).zip(reference_data()) {
        commands.push(Command::Import(Position(at), definition));
    }
    let mut number = 0;
    for account in [11, 12, 21] {
        for instrument in [100, 101] {
            number += 1;
            commands.push(Command::Request(Request::Transfer(Transfer {
                request_no: RequestNo(number),
                transfer_id: number,
                cash: Cash(200_000),
                position_qty: 2_000,
                session_id: OPERATOR,
                account_id: AccountId(account),
                instrument_id: InstrumentId(instrument),
                partition_id: HERE,
            })));
        }
    }
    commands
}
