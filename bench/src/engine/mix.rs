//! The synthetic mix: adds, cancels, replaces and crosses at 45/40/5/10 over 100 instruments with
//! drifting prices, entered by 64 sessions of 16 firms for a million accounts, each of which may
//! hold two of the instruments. All accounts are checked for cash and position.

use std::collections::HashMap;

use weir_types::{
    AccountId, Cash, ClOrdId, Credential, CredentialKind, ExecInst, FirmId, GroupId, InstrumentId,
    Nanos, OrdType, OrderId, PartitionId, Phase, Position, Price, Qty, RequestNo, Role,
    SelfTradePrevention, SessionId, Side, Switch, Symbol, TimeInForce,
};
use weir_wire::event::OrderEvent;
use weir_wire::frame::{MESSAGE_HEADER_LEN, parse_message};
use weir_wire::message::Message;
use weir_wire::order_entry::{CancelOrder, NewOrder, ReplaceOrder};
use weir_wire::reference::{DefineAccount, DefineFirm, DefineInstrument, DefineSession, Transfer};
use weir_wire::{Command, Definition, Request};

const FIRMS: u32 = 16;
const SESSIONS: u32 = 64;
const ACCOUNTS: u32 = 1_000_000;
const INSTRUMENTS: u32 = 100;
const OPERATOR: SessionId = SessionId(1_000);
const HERE: PartitionId = PartitionId(1);

#[derive(Clone, Copy)]
struct Standing {
    name: u64,
    session: u32,
    instrument: u32,
    price: i64,
    side: Side,
    qty: u64,
}

/// Generates the commands and tracks the standing orders.
pub(crate) struct Mix {
    state: u64,
    request_nos: Vec<u64>,
    operator_request_no: u64,
    names: u64,
    middles: Vec<i64>,
    standing: Vec<Standing>,
    places: HashMap<u64, usize>,
}

impl Mix {
    pub(crate) fn new(seed: u64) -> Mix {
        Mix {
            state: seed,
            request_nos: vec![0; SESSIONS as usize],
            operator_request_no: 0,
            names: 0,
            middles: vec![100_000; INSTRUMENTS as usize],
            standing: Vec::new(),
            places: HashMap::new(),
        }
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.random()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns firms, accounts, sessions and instruments.
    pub(crate) fn reference_data(&self) -> Vec<Command> {
        let request_no = RequestNo(0);
        let mut all = Vec::new();
        for firm in 1..=FIRMS {
            let name = Symbol(ClOrdId::from_number(u64::from(firm)).0);
            let firm_id = FirmId(firm);
            all.push(Definition::DefineFirm(DefineFirm {
                request_no,
                name,
                session_id: OPERATOR,
                firm_id,
                live_orders_max: u32::MAX,
                fields: 0,
            }));
        }
        for account in 1..=ACCOUNTS {
            all.push(Definition::DefineAccount(DefineAccount {
                request_no,
                session_id: OPERATOR,
                account_id: AccountId(account),
                firm_id: FirmId(account % FIRMS + 1),
                unlimited: Switch::Off,
                live_orders_max: u32::MAX,
                fields: 0,
            }));
        }
        let traders = (1..=SESSIONS).map(|id| (id, id % FIRMS + 1, Role::Trader));
        for (id, firm, role) in traders.chain([(OPERATOR.0, 0, Role::Operator)]) {
            all.push(Definition::DefineSession(DefineSession {
                request_no,
                valid_until: Nanos(0),
                credential: Credential([0; 32]),
                session_id: OPERATOR,
                defined_session_id: SessionId(id),
                firm_id: FirmId(firm),
                order_rate_max: 0,
                in_flight_max: 0,
                role,
                credential_kind: CredentialKind::ApiKey,
                live_orders_max: u32::MAX,
                fields: 0,
            }));
        }
        all.extend((1..=INSTRUMENTS).map(instrument));
        (1..).zip(all).map(|(at, definition)| Command::Import(Position(at), definition)).collect()
    }

    /// Returns the reference data, and for each account money and lots of its two instruments.
    pub(crate) fn opening(&mut self) -> Vec<Command> {
        let mut commands = self.reference_data();
        for account in 1..=ACCOUNTS {
            for which in [0, 1] {
                commands.push(self.transfer(account, instrument_of(account, which), which + 1));
            }
        }
        commands
    }

    fn transfer(&mut self, account: u32, instrument: u32, transfer_id: u64) -> Command {
        self.operator_request_no += 1;
        Command::Request(Request::Transfer(Transfer {
            request_no: RequestNo(self.operator_request_no),
            transfer_id,
            cash: Cash(1 << 50),
            position_qty: 1 << 30,
            session_id: OPERATOR,
            account_id: AccountId(account),
            instrument_id: InstrumentId(instrument),
            partition_id: HERE,
            peer_partition_id: PartitionId::NONE,
        }))
    }

    /// Gives the account at index `at` its first position.
    pub(crate) fn open_position(&mut self, at: u32) -> Command {
        self.transfer(at + 1, instrument_of(at + 1, 0), 1)
    }

    /// Gives an account a position in an instrument. Call it in ascending order of an account's
    /// instruments.
    #[allow(dead_code, reason = "for the benchmark of recovery")]
    pub(crate) fn load_position(&mut self, account: u32, instrument: u32) -> Command {
        self.transfer(account, instrument, u64::from(instrument))
    }

    /// Returns a resting sell order of the account at index `at`.
    pub(crate) fn resting_sell(&mut self, at: u32) -> Command {
        let account = at + 1;
        let session = (account % FIRMS) + FIRMS * (at / FIRMS % (SESSIONS / FIRMS));
        let session = if session == 0 { SESSIONS } else { session };
        let price = 100_000 + i64::from(at % 1_000);
        let order = self.order(session, account, Side::Sell, price, 10);
        Command::Request(Request::NewOrder(order))
    }

    /// Returns orders from every session that will be refused, so that its ring of answers gets its
    /// full size.
    pub(crate) fn fill_answers(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        for session in 1..=SESSIONS {
            for _ in 0..1_100 {
                let order = self.order(session, session, Side::Buy, 1, 10);
                let order = NewOrder { instrument_id: InstrumentId(999), ..order };
                commands.push(Command::Request(Request::NewOrder(order)));
            }
        }
        commands
    }

    fn order(&mut self, session: u32, account: u32, side: Side, price: i64, qty: u64) -> NewOrder {
        self.names += 1;
        NewOrder {
            request_no: self.request_no(session),
            cl_ord_id: ClOrdId::from_number(self.names),
            price: Price(price),
            order_qty: Qty(qty),
            min_qty: Qty(0),
            display_qty: Qty(0),
            stop_px: Price(0),
            expire_time: Nanos(0),
            sending_time: Nanos(0),
            session_id: SessionId(session),
            instrument_id: InstrumentId(instrument_of(account, 0)),
            account_id: AccountId(account),
            side,
            ord_type: OrdType::Limit,
            time_in_force: TimeInForce::Gtc,
            exec_inst: ExecInst::NONE,
            self_trade_prevention: SelfTradePrevention::CancelOldest,
        }
    }

    fn request_no(&mut self, session: u32) -> RequestNo {
        let last = &mut self.request_nos[session as usize - 1];
        *last += 1;
        RequestNo(*last)
    }

    /// Returns session, account and instrument of the next order.
    fn who(&mut self) -> (u32, u32, u32) {
        let account = 1 + self.below(u64::from(ACCOUNTS)) as u32;
        let firm = account % FIRMS;
        let session = firm + FIRMS * self.below(u64::from(SESSIONS / FIRMS)) as u32;
        let session = if session == 0 { SESSIONS } else { session };
        let which = self.below(2);
        (session, account, instrument_of(account, which))
    }

    /// Returns a distance from the middle, mostly short, sometimes long.
    fn distance(&mut self) -> i64 {
        let reach = [5, 20, 100, 400][self.below(4) as usize];
        1 + self.below(reach) as i64
    }

    /// Returns an order that rests, unless the middle has just moved past its price.
    pub(crate) fn add(&mut self) -> Command {
        let (session, account, instrument) = self.who();
        let middle = self.middles[instrument as usize - 1];
        let side = if self.below(2) == 0 { Side::Buy } else { Side::Sell };
        let distance = self.distance();
        let price = if side == Side::Buy { middle - distance } else { middle + distance };
        let qty = 1 + self.below(10);
        let order = self.order(session, account, side, price, qty);
        let name = self.names;
        self.places.insert(name, self.standing.len());
        self.standing.push(Standing { name, session, instrument, price, side, qty });
        let instrument_id = InstrumentId(instrument);
        Command::Request(Request::NewOrder(NewOrder { instrument_id, ..order }))
    }

    fn cross(&mut self) -> Command {
        let (session, account, instrument) = self.who();
        // The middle moves rarely, as in a book of thousands of orders.
        let step = if self.below(64) == 0 { self.below(3) as i64 - 1 } else { 0 };
        self.middles[instrument as usize - 1] += step;
        let middle = self.middles[instrument as usize - 1];
        let side = if self.below(2) == 0 { Side::Buy } else { Side::Sell };
        let price = if side == Side::Buy { middle + 10 } else { middle - 10 };
        // Less than an add's: with these shares the number of live orders stays about constant.
        let qty = 1 + self.below(4);
        let order = self.order(session, account, side, price, qty);
        Command::Request(Request::NewOrder(NewOrder {
            instrument_id: InstrumentId(instrument),
            time_in_force: TimeInForce::Ioc,
            ..order
        }))
    }

    fn any_standing(&mut self) -> Option<usize> {
        let count = self.standing.len() as u64;
        (count > 0).then(|| self.below(count) as usize)
    }

    fn forget(&mut self, place: usize) -> Standing {
        let gone = self.standing.swap_remove(place);
        self.places.remove(&gone.name);
        if let Some(moved) = self.standing.get(place) {
            self.places.insert(moved.name, place);
        }
        gone
    }

    fn cancel(&mut self) -> Command {
        let Some(place) = self.any_standing() else { return self.add() };
        let order = self.forget(place);
        Command::Request(Request::CancelOrder(CancelOrder {
            request_no: self.request_no(order.session),
            cl_ord_id: ClOrdId::NONE,
            orig_cl_ord_id: ClOrdId::from_number(order.name),
            order_id: OrderId(0),
            sending_time: Nanos(0),
            session_id: SessionId(order.session),
            instrument_id: InstrumentId(order.instrument),
        }))
    }

    /// Returns a replace to a new price, one tick away from the touch.
    fn replace(&mut self) -> Command {
        let Some(place) = self.any_standing() else { return self.add() };
        let before = self.forget(place);
        self.names += 1;
        let price = if before.side == Side::Buy { before.price - 1 } else { before.price + 1 };
        let after = Standing { name: self.names, price, ..before };
        self.places.insert(after.name, self.standing.len());
        self.standing.push(after);
        Command::Request(Request::ReplaceOrder(ReplaceOrder {
            request_no: self.request_no(before.session),
            cl_ord_id: ClOrdId::from_number(after.name),
            orig_cl_ord_id: ClOrdId::from_number(before.name),
            order_id: OrderId(0),
            price: Price(price),
            order_qty: Qty(before.qty),
            sending_time: Nanos(0),
            session_id: SessionId(before.session),
            instrument_id: InstrumentId(before.instrument),
        }))
    }

    /// Appends `count` commands of the mix.
    pub(crate) fn block(&mut self, out: &mut Vec<Command>, count: usize) {
        for _ in 0..count {
            let command = match self.below(100) {
                0..45 => self.add(),
                45..85 => self.cancel(),
                85..90 => self.replace(),
                _ => self.cross(),
            };
            out.push(command);
        }
    }

    /// Removes an order that ended, by its name's number.
    #[allow(dead_code, reason = "for the comparison with a peer")]
    pub(crate) fn hear_of_end(&mut self, name: u64) {
        if let Some(place) = self.places.get(&name).copied() {
            self.forget(place);
        }
    }

    /// Removes the orders that ended, by the records of the event log.
    pub(crate) fn hear(&mut self, records: &[u8]) {
        let mut rest = records;
        while !rest.is_empty() {
            let raw = parse_message(rest).expect("the engine encodes whole records");
            if raw.template_id == OrderEvent::TEMPLATE_ID {
                let event: OrderEvent = raw.decode().expect("an order event");
                let name = event.cl_ord_id.to_number().expect("names count");
                if !event.ord_status.is_live()
                    && let Some(place) = self.places.get(&name).copied()
                {
                    self.forget(place);
                }
            }
            rest = &rest[MESSAGE_HEADER_LEN + raw.block_length..];
        }
    }
}

/// Returns one of the two instruments that an account trades.
fn instrument_of(account: u32, which: u64) -> u32 {
    (account.wrapping_mul(2_654_435_761) >> 8).wrapping_add(which as u32 * 37) % INSTRUMENTS + 1
}

fn instrument(id: u32) -> Definition {
    Definition::DefineInstrument(DefineInstrument {
        request_no: RequestNo(0),
        symbol: Symbol(ClOrdId::from_number(u64::from(id)).0),
        tick_size: Price(1),
        lot_size: Qty(1),
        order_qty_max: Qty(1_000_000),
        price_min: Price(1),
        price_max: Price(1_000_000_000),
        reference_price: Price(0),
        volatility_call: Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: OPERATOR,
        instrument_id: InstrumentId(id),
        partition_id: HERE,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
        fields: 0,
        group_id: GroupId::NONE,
    })
}
