//! A small market without a node: an engine with one instrument, an operator, and a trader with an
//! unlimited account.

use weir_engine::{Engine, EngineConfig};
use weir_types::{
    AccountId, ClOrdId, Credential, CredentialKind, ExecInst, FirmId, GroupId, InstrumentId, Nanos,
    OrdType, Phase, Position, Price, Qty, RequestNo, Role, SelfTradePrevention, SessionId, Side,
    Switch, Symbol, TimeInForce,
};
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::{DefineAccount, DefineFirm, DefineInstrument, DefineSession};
use weir_wire::{Command, Definition, Event, Request};

use super::reader::HERE;

pub const OPERATOR: SessionId = SessionId(1);
pub const TRADER: SessionId = SessionId(2);
pub const INSTRUMENT: InstrumentId = InstrumentId(1);
const ACCOUNT: AccountId = AccountId(1);
const FIRM: FirmId = FirmId(1);

pub struct Market {
    pub engine: Engine,
    pub time: Nanos,
    request_nos: [u64; 2],
    imports: u64,
}

impl Market {
    pub fn new() -> Market {
        let engine = Engine::new(EngineConfig::new(HERE));
        Market { engine, time: Nanos(0), request_nos: [0; 2], imports: 0 }
    }

    /// Defines the participants and the instrument `WEIR`, closed or open.
    pub fn open(&mut self, price_exponent: i8, order_qty_max: Qty) -> Vec<Event> {
        let request_no = RequestNo::NONE;
        let session_id = OPERATOR;
        let name = Symbol::new("FIRM").unwrap();
        let definitions = [
            session(OPERATOR, FirmId::NONE, Role::Operator),
            Definition::DefineFirm(DefineFirm {
                request_no,
                name,
                session_id,
                firm_id: FIRM,
                live_orders_max: 0,
                fields: 0,
            }),
            Definition::DefineAccount(DefineAccount {
                request_no,
                session_id,
                account_id: ACCOUNT,
                firm_id: FIRM,
                unlimited: Switch::On,
                live_orders_max: 0,
                fields: 0,
            }),
            session(TRADER, FIRM, Role::Trader),
            Definition::DefineInstrument(DefineInstrument {
                order_qty_max,
                price_exponent,
                ..instrument()
            }),
        ];
        definitions.into_iter().flat_map(|definition| self.define(definition)).collect()
    }

    pub fn define(&mut self, definition: Definition) -> Vec<Event> {
        self.imports += 1;
        self.apply(&Command::Import(Position(self.imports), definition))
    }

    pub fn apply(&mut self, command: &Command) -> Vec<Event> {
        let mut events = Vec::new();
        self.engine.apply(self.engine.position().next(), self.time, command, &mut events);
        events
    }

    pub fn next_request_no(&mut self, session: SessionId) -> RequestNo {
        let number = &mut self.request_nos[session.0 as usize - 1];
        *number += 1;
        RequestNo(*number)
    }

    /// Returns a limit order, good till cancelled.
    pub fn order(&self, cl_ord_id: ClOrdId, side: Side, price: Price, qty: Qty) -> NewOrder {
        NewOrder {
            request_no: RequestNo::NONE,
            cl_ord_id,
            price,
            order_qty: qty,
            min_qty: Qty::ZERO,
            display_qty: Qty::ZERO,
            stop_px: Price(0),
            expire_time: Nanos(0),
            sending_time: Nanos(0),
            session_id: TRADER,
            instrument_id: INSTRUMENT,
            account_id: ACCOUNT,
            side,
            ord_type: OrdType::Limit,
            time_in_force: TimeInForce::Gtc,
            exec_inst: ExecInst::NONE,
            self_trade_prevention: SelfTradePrevention::None,
        }
    }

    /// Sends a trader's request under its next number.
    pub fn ask(&mut self, with: impl FnOnce(RequestNo) -> Request) -> Vec<Event> {
        let request = with(self.next_request_no(TRADER));
        self.apply(&Command::Request(request))
    }
}

pub fn instrument() -> DefineInstrument {
    DefineInstrument {
        request_no: RequestNo::NONE,
        symbol: Symbol::new("WEIR").unwrap(),
        tick_size: Price(1),
        lot_size: Qty(1),
        order_qty_max: Qty(1_000_000),
        price_min: Price(1),
        price_max: Price(1 << 24),
        reference_price: Price(0),
        volatility_call: Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: OPERATOR,
        instrument_id: INSTRUMENT,
        partition_id: HERE,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
        fields: 0,
        group_id: GroupId::NONE,
    }
}

fn session(id: SessionId, firm_id: FirmId, role: Role) -> Definition {
    Definition::DefineSession(DefineSession {
        request_no: RequestNo::NONE,
        valid_until: Nanos(0),
        credential: Credential::default(),
        session_id: OPERATOR,
        defined_session_id: id,
        firm_id,
        order_rate_max: 0,
        in_flight_max: 0,
        role,
        credential_kind: CredentialKind::ApiKey,
        live_orders_max: 0,
        fields: 0,
    })
}
