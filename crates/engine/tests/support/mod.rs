//! A trading desk for tests: an engine with two firms, a few sessions and accounts and two
//! instruments, and short constructors for requests.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod play;
pub mod steps;

use weir_engine::naive::NaiveEngine;
use weir_engine::{Engine, EngineConfig};
use weir_types::*;
use weir_wire::event::{OrderEvent, RequestDone, RequestRejected};
use weir_wire::order_entry::*;
use weir_wire::reference::*;
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

pub const OPERATOR: SessionId = SessionId(9);
pub const ALICE: SessionId = SessionId(1);
pub const BOB: SessionId = SessionId(2);
/// A session of Alice's firm.
pub const ANNA: SessionId = SessionId(3);
pub const SUPERVISOR: SessionId = SessionId(8);
/// A session of the same firm as Alice and Anna.
pub const DESK: SessionId = SessionId(10);
pub const RICH: AccountId = AccountId(11);
pub const OTHER: AccountId = AccountId(21);
/// An empty account of Alice's firm.
pub const POOR: AccountId = AccountId(12);
/// An unlimited account of Alice's firm.
pub const MAKER: AccountId = AccountId(13);
pub const TULIP: InstrumentId = InstrumentId(100);
pub const ROSE: InstrumentId = InstrumentId(101);
/// An instrument traded in another partition.
pub const FAR: InstrumentId = InstrumentId(102);
pub const HERE: PartitionId = PartitionId(1);

pub struct Desk {
    pub engine: Engine,
    /// Carries out the same commands.
    pub naive: Option<NaiveEngine>,
    pub position: u64,
    pub request_no: u64,
    pub control_position: u64,
    /// The lower bound of log time, which advances by one per command.
    pub clock: u64,
    pub events: Vec<Event>,
}

pub fn name(text: &str) -> ClOrdId {
    ClOrdId::new(text).unwrap()
}

pub fn limit(side: Side, price: i64, qty: u64, text: &str) -> NewOrder {
    NewOrder {
        request_no: RequestNo(0),
        cl_ord_id: name(text),
        price: Price(price),
        order_qty: Qty(qty),
        min_qty: Qty(0),
        display_qty: Qty(0),
        stop_px: Price(0),
        expire_time: Nanos(0),
        sending_time: Nanos(0),
        session_id: ALICE,
        instrument_id: TULIP,
        account_id: RICH,
        side,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Gtc,
        exec_inst: ExecInst::NONE,
        self_trade_prevention: SelfTradePrevention::None,
    }
}

pub fn buy(price: i64, qty: u64, text: &str) -> NewOrder {
    limit(Side::Buy, price, qty, text)
}

pub fn sell(price: i64, qty: u64, text: &str) -> NewOrder {
    limit(Side::Sell, price, qty, text)
}

/// Returns the same order from Bob's desk.
pub fn bob(order: NewOrder) -> NewOrder {
    NewOrder { session_id: BOB, account_id: OTHER, ..order }
}

pub fn cancel(orig: &str) -> CancelOrder {
    CancelOrder {
        request_no: RequestNo(0),
        cl_ord_id: name("cancel"),
        orig_cl_ord_id: name(orig),
        order_id: OrderId(0),
        sending_time: Nanos(0),
        session_id: ALICE,
        instrument_id: TULIP,
    }
}

pub fn replace(orig: &str, text: &str, price: i64, qty: u64) -> ReplaceOrder {
    ReplaceOrder {
        request_no: RequestNo(0),
        cl_ord_id: name(text),
        orig_cl_ord_id: name(orig),
        order_id: OrderId(0),
        price: Price(price),
        order_qty: Qty(qty),
        sending_time: Nanos(0),
        session_id: ALICE,
        instrument_id: TULIP,
    }
}

pub fn transfer(account_id: AccountId, id: u64, cash: i128, lots: i64) -> Transfer {
    Transfer {
        request_no: RequestNo(0),
        transfer_id: id,
        cash: Cash(cash),
        position_qty: lots,
        session_id: OPERATOR,
        account_id,
        instrument_id: if lots == 0 { InstrumentId(0) } else { TULIP },
        partition_id: HERE,
        peer_partition_id: PartitionId(0),
    }
}

pub fn instrument(instrument_id: InstrumentId, partition_id: PartitionId) -> DefineInstrument {
    DefineInstrument {
        request_no: RequestNo(0),
        symbol: Symbol::new(&format!("I{instrument_id}")).unwrap(),
        tick_size: Price(1),
        lot_size: Qty(1),
        order_qty_max: Qty(1_000_000),
        price_min: Price(1),
        price_max: Price(1_000_000),
        reference_price: Price(0),
        volatility_call: weir_types::Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: OPERATOR,
        instrument_id,
        partition_id,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
        fields: 0,
        group_id: GroupId::NONE,
    }
}

pub fn session(id: SessionId, firm: u32, role: Role) -> Definition {
    Definition::DefineSession(DefineSession {
        request_no: RequestNo(0),
        valid_until: Nanos(0),
        credential: Credential([id.0 as u8; 32]),
        session_id: OPERATOR,
        defined_session_id: id,
        firm_id: FirmId(firm),
        order_rate_max: 0,
        in_flight_max: 0,
        role,
        credential_kind: CredentialKind::ApiKey,
        live_orders_max: 0,
        fields: 0,
    })
}

pub fn firm(id: u32) -> Definition {
    Definition::DefineFirm(DefineFirm {
        request_no: RequestNo(0),
        name: Symbol::new(&format!("F{id}")).unwrap(),
        session_id: OPERATOR,
        firm_id: FirmId(id),
        live_orders_max: 0,
        fields: 0,
    })
}

pub fn account(account_id: AccountId, firm: u32, unlimited: Switch) -> Definition {
    Definition::DefineAccount(DefineAccount {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        account_id,
        firm_id: FirmId(firm),
        unlimited,
        live_orders_max: 0,
        fields: 0,
    })
}

pub fn definitions() -> Vec<Definition> {
    vec![
        firm(1),
        firm(2),
        account(RICH, 1, Switch::Off),
        account(POOR, 1, Switch::Off),
        account(MAKER, 1, Switch::On),
        account(OTHER, 2, Switch::Off),
        session(OPERATOR, 0, Role::Operator),
        session(SUPERVISOR, 0, Role::Supervisor),
        session(DESK, 1, Role::DropCopy),
        session(ALICE, 1, Role::Trader),
        session(ANNA, 1, Role::Trader),
        session(BOB, 2, Role::Trader),
        Definition::DefineInstrument(instrument(TULIP, HERE)),
        Definition::DefineInstrument(instrument(ROSE, HERE)),
        Definition::DefineInstrument(instrument(FAR, PartitionId(2))),
    ]
}

impl Desk {
    /// Replaces the fast engine by one restored from its snapshot.
    pub fn restart(&mut self) {
        let mut bytes = Vec::new();
        self.engine.snapshot(&mut bytes);
        let before = self.engine.state_hash();
        let config = self.engine.config().clone();
        self.engine = Engine::restore(config, &bytes).expect("a snapshot reads back");
        assert_eq!(self.engine.state_hash(), before);
    }

    /// Creates a partition without reference data.
    pub fn empty(partition: u16) -> Desk {
        Desk::with_config(EngineConfig {
            orders_max: 1 << 13,
            accounts_max: 1 << 6,
            positions_max: 1 << 6,
            ..EngineConfig::new(PartitionId(partition))
        })
    }

    pub fn with_config(config: EngineConfig) -> Desk {
        let engine = Engine::new(config);
        Desk {
            engine,
            naive: None,
            position: 0,
            request_no: 0,
            control_position: 0,
            clock: 0,
            events: Vec::new(),
        }
    }

    /// Creates a partition whose events are compared with those of the naive engine.
    pub fn with_twin(config: EngineConfig) -> Desk {
        let naive = Some(NaiveEngine::new(config.clone()));
        Desk { naive, ..Desk::with_config(config) }
    }

    /// Creates a partition with all reference data, and a million in cash and lots each for Alice
    /// and Bob.
    pub fn open() -> Desk {
        let mut desk = Desk::empty(1);
        desk.furnish();
        desk
    }

    pub fn furnish(&mut self) {
        for definition in definitions() {
            self.import(definition);
        }
        for account in [RICH, OTHER] {
            let done = self.ask(Request::Transfer(transfer(account, 1, 1_000_000_000, 1_000_000)));
            assert_eq!(done_of(&done[0]).affected_count, 1);
        }
        self.events.clear();
    }

    pub fn apply(&mut self, command: &Command) -> Vec<Event> {
        self.position += 1;
        let mut events = Vec::new();
        let time = Nanos(self.clock.max(1_000 + self.position));
        let position = Position(self.position);
        self.engine.apply(position, time, command, &mut events);
        if let Some(naive) = &mut self.naive {
            let mut same = Vec::new();
            naive.apply(position, time, command, &mut same);
            assert_eq!(events, same, "both engines' events of {command:?}");
            let is_bust = matches!(command, Command::Request(Request::BustTrade(_)));
            if is_bust || self.engine.debtor_count() > 0 {
                let mut debts: Vec<_> = self.engine.debts().collect();
                debts.sort_unstable();
                assert_eq!(debts, naive.debts(), "both engines' debts behind {command:?}");
            }
        }
        assert!(self.engine.totals().is_conserved(), "{command:?}");
        self.events.extend_from_slice(&events);
        events
    }

    pub fn import(&mut self, definition: Definition) -> Vec<Event> {
        self.control_position += 1;
        self.apply(&Command::Import(Position(self.control_position), definition))
    }

    /// Sends a request under the next number.
    pub fn ask(&mut self, request: Request) -> Vec<Event> {
        self.request_no += 1;
        let request = numbered(request, self.request_no);
        self.apply(&Command::Request(request))
    }

    pub fn order(&mut self, order: NewOrder) -> Vec<OrderEvent> {
        orders(&self.ask(Request::NewOrder(order)))
    }

    pub fn cancel(&mut self, orig: &str) -> Vec<Event> {
        self.ask(Request::CancelOrder(cancel(orig)))
    }

    pub fn phase(&mut self, phase: Phase) -> Vec<Event> {
        self.ask(Request::SetPhase(SetPhase {
            request_no: RequestNo(0),
            session_id: OPERATOR,
            instrument_id: TULIP,
            phase,
            override_collars: Switch::Off,
        }))
    }

    pub fn kill(&mut self, scope: KillScope, id: u32, switch: Switch) -> Vec<Event> {
        self.ask(Request::KillSwitch(KillSwitch {
            request_no: RequestNo(0),
            session_id: OPERATOR,
            id,
            partition_id: HERE,
            scope,
            switch,
            cancel_orders: Switch::Off,
        }))
    }

    /// Returns (price, lots, orders) of each level, best first.
    pub fn levels(&self, side: Side) -> Vec<(i64, u64, u32)> {
        let mut levels = Vec::new();
        self.engine.book_levels(TULIP, side, usize::MAX, &mut levels);
        levels.iter().map(|level| (level.price.0, level.qty.0, level.order_count)).collect()
    }
}

pub fn numbered(request: Request, number: u64) -> Request {
    let mut request = request;
    let request_no = match &mut request {
        Request::NewOrder(m) => &mut m.request_no,
        Request::ReplaceOrder(m) => &mut m.request_no,
        Request::CancelOrder(m) => &mut m.request_no,
        Request::MassCancel(m) => &mut m.request_no,
        Request::Transfer(m) => &mut m.request_no,
        Request::AccountInquiry(m) => &mut m.request_no,
        Request::SetPhase(m) => &mut m.request_no,
        Request::KillSwitch(m) => &mut m.request_no,
        Request::BustTrade(m) => &mut m.request_no,
        Request::SchedulePhase(m) => &mut m.request_no,
        Request::ResumeTrading(m) => &mut m.request_no,
        Request::SetReference(m) => &mut m.request_no,
        Request::ChangePhases(m) => &mut m.request_no,
        Request::SchedulePhases(m) => &mut m.request_no,
        Request::DefineInstrument(m) => &mut m.request_no,
        Request::DefineFirm(m) => &mut m.request_no,
        Request::DefineAccount(m) => &mut m.request_no,
        Request::DefineSession(m) => &mut m.request_no,
    };
    *request_no = RequestNo(number);
    request
}

pub fn orders(events: &[Event]) -> Vec<OrderEvent> {
    let order = |event: &Event| match event {
        Event::Plain(PlainEvent::OrderEvent(e)) => Some(*e),
        _ => None,
    };
    events.iter().filter_map(order).collect()
}

pub fn done_of(event: &Event) -> RequestDone {
    match event {
        Event::Plain(PlainEvent::RequestDone(e)) => *e,
        other => panic!("no RequestDone: {other:?}"),
    }
}

pub fn rejected_of(event: &Event) -> RequestRejected {
    match event {
        Event::Plain(PlainEvent::RequestRejected(e)) => *e,
        other => panic!("no RequestRejected: {other:?}"),
    }
}

/// Formats each order event in short form: name, change, last lots at price, open lots.
pub fn told(events: &[OrderEvent]) -> Vec<String> {
    let tell = |e: &OrderEvent| match e.exec_type {
        ExecType::Trade => {
            format!("{} Trade {}@{} {}", e.cl_ord_id, e.last_qty, e.last_px, e.leaves_qty)
        }
        ExecType::New | ExecType::Replaced | ExecType::Restated => {
            format!("{} {:?} {}", e.cl_ord_id, e.exec_type, e.leaves_qty)
        }
        _ => format!("{} {:?} {:?}", e.cl_ord_id, e.exec_type, e.reason),
    };
    events.iter().map(tell).collect()
}

/// Returns the number of commands of scripts until both engines differ.
#[cfg(feature = "planted")]
pub fn commands_until_a_difference(plant: weir_engine::plant::Plant) -> Option<u64> {
    use weir_engine::script::{Duel, DuelSetting, Script, StepLimits};
    let (mut state, mut count) = (1_u64, 0);
    weir_engine::plant::set(Some(plant));
    let mut play = |number: u64| {
        let bytes: Vec<u8> = (0..60_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let mut script = Script::new(&bytes);
        let steps = StepLimits::drawn(number);
        let mut duel = Duel::new(DuelSetting { partition_id: HERE, steps });
        while !script.is_over() {
            let command = script.command();
            count += 1;
            if duel.apply(script.now(), &command).is_err() {
                return Some(count);
            }
            script.hear(duel.events());
        }
        None
    };
    let found = (0..100).find_map(&mut play);
    weir_engine::plant::set(None);
    found
}

/// Asserts that each planted bug is found by its check.
#[cfg(feature = "planted")]
pub fn assert_each_is_found(checks: &[(weir_engine::plant::Plant, fn())]) {
    for (plant, check) in checks {
        weir_engine::plant::set(Some(*plant));
        let is_found = std::panic::catch_unwind(check).is_err();
        weir_engine::plant::set(None);
        assert!(is_found, "{plant:?}");
    }
}
