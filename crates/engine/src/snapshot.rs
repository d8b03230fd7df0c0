//! Serialises the engine's state to bytes and restores it.
//!
//! ```text
//! magic "WEIRSNAP", version u32, partition u16, then in fixed order: limits, counters, firms,
//! accounts, sessions with their remembered answers, instruments, positions, live orders, ends of
//! volatility calls, scheduled phases, changes of many instruments, a list of changes to file,
//! sweeps in progress, retained trades, sessions with cancel-on-disconnect; CRC-32C u32
//! ```
//! All integers are little-endian. Tables are in order of definition, positions by account and
//! instrument, orders by instrument, queue (market buys, buys, market sells, sells, buy stops, sell
//! stops, parked), price from the best, and time: the bytes are a function of the log alone, equal
//! on every replica. No foreign bytes make the reader panic, or the engine restored from them: all
//! values are bounded, and accounts' reservations must equal those of their orders.

mod bytes;
mod groups;
mod origin;
mod promised;
mod sweeps;

use weir_types::{
    AccountId, Cash, ClOrdId, EventNo, ExecId, ExecInst, FirmId, InstrumentId, MatchId, Nanos,
    OrdType, PartitionId, Phase, Position, Price, Qty, Rec, RequestNo, Role, SelfTradePrevention,
    Seq, SessionId, Side, Switch, TimeInForce,
};
use weir_wire::{Definition, Event};

use crate::account::Account;
use crate::bust::{Party, Trade};
use crate::config::{EngineConfig, ORDER_QTY_LIMIT, SCHEDULE_MAX};
use crate::engine::{Engine, next_checkpoint};
use crate::index::{NIL, Slot};
use crate::instrument::{Firm, Instrument};
use crate::limits::EngineLimits;
use crate::order::{Order, OrderLocation};
use crate::plant::{self, Plant};
use crate::references::{PriceBase, PriceBases};
use crate::schedule::ScheduleOwner;
use crate::session::Session;
use crate::stops::is_stop;
use crate::transfer::LastTransfer;
use bytes::{Reader, Writer};
use groups::write_membership;
use origin::{read_origin, write_origin};
use promised::SnapshotReservations;

const MAGIC: [u8; 8] = *b"WEIRSNAP";
const VERSION: u32 = 9;
/// The last version without the other ends of transfers: that of the rules before, so that an
/// upgrade begins at the end of its log.
const VERSION_PEERLESS: u32 = 8;
/// The last version without limits. Its engine had the limits of the configuration, which nobody
/// could change.
const VERSION_UNLIMITED: u32 = 7;
/// The last version without times of trades.
const VERSION_UNTIMED: u32 = 6;
/// The last version without groups, changes of many instruments and causes of phases.
const VERSION_UNGROUPED: u32 = 5;
/// The oldest version that is read, that of rules 4. It has no halts: a halted instrument is held,
/// and goes back to continuous trading as a resume did then. It has no sweeps of kill switches. Its
/// trades count for the prices that it has, whether they are busted later or not.
const VERSION_MIN: u32 = 4;
/// The code of no phase.
const NO_PHASE: u8 = u8::MAX;
const CRC_LEN: usize = 4;
/// The number of bytes that [`write_order`] writes.
const ORDER_LEN: usize = 106;
/// The maximum cash of an account: the most that all others may owe together.
const CASH_MAX: u128 = 1 << 121;
/// The maximum of ascending numbers; leaves room for more commands than can ever be sent.
const NUMBER_MAX: u64 = 1 << 63;
/// The maximum of record numbers, of which there are 2^48.
const REC_MAX: u64 = (1 << 48) - (1 << 32);

/// The reason that bytes are not a usable snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The bytes end too early.
    #[error("the snapshot ends early")]
    Truncated,
    /// The bytes do not begin like a snapshot.
    #[error("these bytes are no snapshot")]
    NotASnapshot,
    /// The version is not the supported one.
    #[error("snapshot version {0} is not read here")]
    UnknownVersion(u32),
    /// The checksum is wrong.
    #[error("the snapshot's checksum is {found:#010x}, its bytes give {computed:#010x}")]
    Checksum {
        /// The stored checksum.
        found: u32,
        /// The computed checksum.
        computed: u32,
    },
    /// The snapshot belongs to another partition.
    #[error("the snapshot is of partition {0}")]
    WrongPartition(PartitionId),
    /// The snapshot exceeds its limits; those of the configuration for limits that it does not
    /// carry.
    #[error("the snapshot holds {held} {what}, {allowed} are allowed")]
    LimitReached {
        /// The kind of row.
        what: &'static str,
        /// The number in the snapshot.
        held: u32,
        /// The limit.
        allowed: u32,
    },
    /// A value is invalid.
    #[error("the snapshot's {0} has a value without meaning")]
    Invalid(&'static str),
}

impl Engine {
    /// Appends a snapshot of the state after the last applied position.
    pub fn snapshot(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut w = Writer(out);
        w.bytes(&MAGIC);
        w.u32(VERSION);
        w.u16(self.config.partition_id.0);
        self.write_limits(&mut w);
        self.write_counters(&mut w);
        self.write_owners(&mut w);
        self.write_sessions(&mut w);
        self.write_instruments(&mut w);
        self.write_positions(&mut w);
        self.write_orders(&mut w);
        self.write_timers(&mut w);
        self.write_group_changes(&mut w);
        self.write_list(&mut w);
        self.write_sweeps(&mut w);
        self.write_trades(&mut w);
        self.write_choices(&mut w);
        let crc = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// The snapshot version that this engine writes. It reads that one and the five before.
    pub const SNAPSHOT_VERSION: u32 = VERSION;

    /// Restores the engine from a snapshot. It continues like the original, with equal events and
    /// digests. The limits of its tables are the snapshot's, whatever those of `config` are, which
    /// hold for a snapshot of a version without limits.
    ///
    /// # Errors
    /// Returns a [`SnapshotError`] with the fault of the bytes, or the conflict with `config`.
    ///
    /// # Panics
    /// Panics when a limit of `config` is out of range.
    pub fn restore(config: EngineConfig, bytes: &[u8]) -> Result<Engine, SnapshotError> {
        let Some((body, crc)) = bytes.split_last_chunk::<CRC_LEN>() else {
            return Err(SnapshotError::Truncated);
        };
        let mut r = Reader(body);
        if r.take(MAGIC.len())? != MAGIC {
            return Err(SnapshotError::NotASnapshot);
        }
        let version = r.u32()?;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(SnapshotError::UnknownVersion(version));
        }
        let (found, computed) = (u32::from_le_bytes(*crc), crc32c::crc32c(body));
        if found != computed {
            return Err(SnapshotError::Checksum { found, computed });
        }
        let partition_id = PartitionId(r.u16()?);
        if partition_id != config.partition_id {
            return Err(SnapshotError::WrongPartition(partition_id));
        }
        let config = match version {
            ..=VERSION_UNLIMITED => config,
            _ => config.with_limits(read_limits(&mut r)?),
        };
        let mut engine = Engine::new(config);
        engine.read_counters(&mut r)?;
        let mut promised = SnapshotReservations::default();
        engine.read_owners(&mut r, &mut promised, version)?;
        engine.read_sessions(&mut r)?;
        engine.read_instruments(&mut r, version)?;
        engine.read_positions(&mut r, &mut promised)?;
        engine.read_orders(&mut r)?;
        engine.check_promised(&promised)?;
        engine.find_debts();
        engine.read_timers(&mut r)?;
        engine.read_group_changes(&mut r, version)?;
        engine.read_list(&mut r, version)?;
        engine.read_sweeps(&mut r, version)?;
        engine.read_trades(&mut r, version)?;
        engine.read_choices(&mut r)?;
        if r.0.is_empty() { Ok(engine) } else { Err(SnapshotError::Invalid("length")) }
    }

    fn write_limits(&self, w: &mut Writer<'_>) {
        let forgets = plant::is(Plant::SnapshotForgetsLimits);
        let limits = if forgets { EngineLimits::DEFAULT } else { self.limits() };
        limits.named().iter().for_each(|(_, limit)| w.u32(*limit));
    }

    /// Returns the limits that a snapshot carries; `None` for bytes that are none, or of a version
    /// without. Tables of such sizes are made before the rest of it is read.
    #[must_use]
    pub fn limits_in(snapshot: &[u8]) -> Option<EngineLimits> {
        let mut r = Reader(snapshot);
        let (magic, version) = (r.take(MAGIC.len()).ok()?, r.u32().ok()?);
        r.u16().ok()?;
        (magic == MAGIC && version > VERSION_UNLIMITED).then(|| read_limits(&mut r).ok())?
    }

    fn write_counters(&self, w: &mut Writer<'_>) {
        w.u64(self.position.0);
        w.u64(self.time.0);
        w.u64(self.control_position.0);
        w.u64(self.digest);
        w.u64(self.rec.0);
        w.u64(self.seq.0);
        w.u64(self.exec_id.0);
        w.u64(self.match_id.0);
        w.flag(self.is_killed);
        w.i128(self.cash_moved_in.0);
        w.i128(self.cash_moved_out.0);
        w.u64(self.imports_refused);
    }

    fn read_counters(&mut self, r: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.position = Position(r.number()?);
        self.checkpoint_at = next_checkpoint(self.position, &self.config);
        self.time = Nanos(r.u64()?);
        self.control_position = Position(r.u64()?);
        self.digest = r.u64()?;
        self.rec = Rec(r.u64()?);
        if self.rec.0 > REC_MAX {
            return Err(SnapshotError::Invalid("record number"));
        }
        self.seq = Seq(r.number()?);
        self.exec_id = ExecId(r.number()?);
        self.match_id = MatchId(r.number()?);
        self.is_killed = r.flag()?;
        self.cash_moved_in = Cash(r.i128()?);
        self.cash_moved_out = Cash(r.i128()?);
        self.imports_refused = r.number()?;
        Ok(())
    }

    /// Writes firms and accounts.
    fn write_owners(&self, w: &mut Writer<'_>) {
        w.count(self.firms.rows().len());
        for firm in self.firms.rows() {
            w.u32(firm.firm_id.0);
            w.flag(firm.is_killed);
            w.u32(firm.live.defined_max());
        }
        w.count(self.accounts.rows().len());
        for (account, last) in self.accounts.rows().iter().zip(&self.last_transfers) {
            w.u32(account.account_id.0);
            w.u32(account.firm);
            w.flag(account.is_unlimited);
            w.flag(account.is_killed);
            w.u32(account.live.defined_max());
            w.i128(account.cash.0);
            w.i128(account.reserved.0);
            w.u64(last.transfer_id);
            w.i128(last.cash.0);
            w.u64(last.position_qty.cast_unsigned());
            w.u32(last.instrument_id.0);
            let forgets = plant::is(Plant::SnapshotForgetsPeer);
            w.u16(if forgets { 0 } else { last.peer_partition_id.0 });
        }
    }

    fn read_owners(
        &mut self,
        r: &mut Reader<'_>,
        promised: &mut SnapshotReservations,
        version: u32,
    ) -> Result<(), SnapshotError> {
        for _ in 0..r.count("firms", self.config.firms_max)? {
            let firm_id = FirmId(r.u32()?);
            let is_killed = r.flag()?;
            let live = self.config.live_of_firm(r.u32()?);
            let row = Firm { firm_id, is_killed, live, sessions: Vec::new() };
            new_id(&self.firms, firm_id.0, "firms")?;
            self.firms.insert(firm_id.0, row);
        }
        for _ in 0..r.count("accounts", self.config.accounts_max)? {
            let account_id = AccountId(r.u32()?);
            let firm = self.firm_slot(r.u32()?)?;
            let row = Account {
                account_id,
                firm,
                is_unlimited: r.flag()?,
                is_killed: r.flag()?,
                is_in_debt: false,
                live: self.config.live_of_account(r.u32()?),
                cash: Cash(r.i128()?),
                reserved: Cash::ZERO,
            };
            if row.cash.0.unsigned_abs() > CASH_MAX {
                return Err(SnapshotError::Invalid("cash"));
            }
            promised.reserved.push(Cash(r.i128()?));
            let last = LastTransfer {
                transfer_id: r.u64()?,
                cash: Cash(r.i128()?),
                position_qty: r.u64()?.cast_signed(),
                instrument_id: InstrumentId(r.u32()?),
                peer_partition_id: match version {
                    ..=VERSION_PEERLESS => PartitionId(0),
                    _ => PartitionId(r.u16()?),
                },
            };
            new_id(&self.accounts, account_id.0, "accounts")?;
            self.accounts.insert(account_id.0, row);
            self.last_transfers.push(last);
        }
        Ok(())
    }

    fn firm_slot(&self, slot: Slot) -> Result<Slot, SnapshotError> {
        if (slot as usize) < self.firms.rows().len() {
            return Ok(slot);
        }
        Err(SnapshotError::Invalid("firm"))
    }

    fn write_sessions(&self, w: &mut Writer<'_>) {
        w.count(self.sessions.rows().len());
        for session in self.sessions.rows() {
            w.u32(session.session_id.0);
            w.u32(session.firm);
            w.u8(session.role.code());
            w.flag(session.is_killed);
            w.u64(session.last_request_no.0);
            w.u64(session.next_event_no.0);
            w.u32(session.order_rate_max);
            w.u64(session.arrival_time.0);
            w.u32(session.live.defined_max());
            w.count(session.outcomes.count());
            for event in session.outcomes.in_order(self.asking_of(session)) {
                w.block(|out| Event::Plain(event).encode(out));
            }
        }
    }

    fn read_sessions(&mut self, r: &mut Reader<'_>) -> Result<(), SnapshotError> {
        for _ in 0..r.count("sessions", self.config.sessions_max)? {
            let session_id = SessionId(r.u32()?);
            let firm = r.u32()?;
            let role = Role::from_code(r.u8()?).ok_or(SnapshotError::Invalid("role"))?;
            let firm = if role.has_firm() { self.firm_slot(firm)? } else { NIL };
            let live = self.config.live_of_session(0);
            let mut row = Session::new(session_id, firm, role, live);
            row.is_killed = r.flag()?;
            row.last_request_no = RequestNo(r.u64()?);
            row.next_event_no = EventNo(r.number()?);
            row.order_rate_max = r.u32()?;
            row.arrival_time = Nanos(r.u64()?);
            row.live = self.config.live_of_session(r.u32()?);
            let asking = self.asking_of(&row);
            for _ in 0..r.count("remembered answers", self.config.outcomes_max)? {
                match Event::decode(r.block()?) {
                    Ok(Event::Plain(event))
                        if row.outcomes.restore(&event, self.config.outcomes_max, asking) => {}
                    _ => return Err(SnapshotError::Invalid("remembered answer")),
                }
            }
            let numbers = row.outcomes.request_nos();
            if !numbers.chain([row.last_request_no]).is_sorted() {
                return Err(SnapshotError::Invalid("remembered answer"));
            }
            new_id(&self.sessions, session_id.0, "sessions")?;
            let slot = self.sessions.insert(session_id.0, row);
            if firm != NIL {
                self.firms[firm].sessions.push(slot);
            }
        }
        Ok(())
    }

    fn write_instruments(&self, w: &mut Writer<'_>) {
        w.count(self.instruments.rows().len());
        for row in self.instruments.rows() {
            w.block(|out| Definition::DefineInstrument(row.definition).encode(out));
            w.u8(row.phase.code());
            let forgets = plant::is(Plant::SnapshotForgetsResume);
            let resume_to = if forgets { Some(Phase::Continuous) } else { row.resume_to };
            w.u8(row.resume_to.and(resume_to).map_or(NO_PHASE, Phase::code));
            w.flag(row.is_held);
            w.i128(row.transferred_in);
            w.optional_price(row.last_price);
            w.optional_price(row.uncrossed_price);
            w.optional_price(row.traded.map(|(low, _)| low));
            w.optional_price(row.traded.map(|(_, high)| high));
            w.optional_price(row.session_price);
            w.flag(row.is_session_over);
            write_bases(&row.bases, w);
            write_membership(row, w);
            write_origin(row.origin, w);
        }
    }

    fn read_instruments(&mut self, r: &mut Reader<'_>, version: u32) -> Result<(), SnapshotError> {
        for _ in 0..r.count("instruments", self.config.instruments_max)? {
            let raw = weir_wire::frame::parse_message(r.block()?);
            let Ok(Ok(Definition::DefineInstrument(definition))) =
                raw.map(|raw| Definition::decode(&raw))
            else {
                return Err(SnapshotError::Invalid("instrument"));
            };
            let id = definition.instrument_id.0;
            new_id(&self.instruments, id, "instruments")?;
            if self.define_instrument(&definition).is_err() {
                return Err(SnapshotError::Invalid("instrument"));
            }
            let slot = self.instruments.find(id).expect("defined just now");
            let row = &mut self.instruments[slot];
            row.phase = Phase::from_code(r.u8()?).ok_or(SnapshotError::Invalid("phase"))?;
            (row.resume_to, row.is_held) = read_halt(row.phase, r, version)?;
            row.transferred_in = r.i128()?;
            if row.transferred_in.unsigned_abs() > CASH_MAX {
                return Err(SnapshotError::Invalid("transferred lots"));
            }
            row.last_price = r.optional_price()?;
            row.uncrossed_price = r.optional_price()?;
            row.traded = r.optional_price()?.zip(r.optional_price()?);
            if version == VERSION_MIN {
                continue_prices(row, self.match_id);
                continue;
            }
            row.session_price = r.optional_price()?;
            row.is_session_over = r.flag()?;
            row.bases = read_bases(r)?;
            if version > VERSION_UNGROUPED {
                self.read_membership(slot, r)?;
                self.instruments[slot].origin = read_origin(r, self.time)?;
            }
        }
        Ok(())
    }

    fn write_positions(&self, w: &mut Writer<'_>) {
        let mut rows: Vec<_> = self.positions.unordered().collect();
        rows.sort_unstable_by_key(|(account, instrument, _)| (*account, *instrument));
        w.count(rows.len());
        for (account, instrument, position) in rows {
            w.u32(account);
            w.u32(instrument);
            w.u64(position.total.cast_unsigned());
            w.u64(position.reserved.cast_unsigned());
            w.u64(position.open_buy.cast_unsigned());
        }
    }

    /// Reads the lots held; reservations follow from the orders.
    fn read_positions(
        &mut self,
        r: &mut Reader<'_>,
        promised: &mut SnapshotReservations,
    ) -> Result<(), SnapshotError> {
        for _ in 0..r.count("positions", self.config.positions_max)? {
            let (account, instrument) = (r.u32()?, r.u32()?);
            self.check_slots(account, instrument)?;
            let position = promised.position(account, instrument, [r.u64()?, r.u64()?, r.u64()?]);
            let total = position?.total;
            self.positions.update(account, instrument, |position| position.total = total);
        }
        Ok(())
    }

    fn check_slots(&self, account: Slot, instrument: Slot) -> Result<(), SnapshotError> {
        let is_fine = (account as usize) < self.accounts.rows().len()
            && (instrument as usize) < self.instruments.rows().len();
        if is_fine { Ok(()) } else { Err(SnapshotError::Invalid("account or instrument")) }
    }

    fn write_orders(&self, w: &mut Writer<'_>) {
        w.u32(self.orders.live_count());
        for instrument in self.instruments.rows() {
            for queue in instrument.queues() {
                for level in queue.best_first() {
                    let mut slot = self.levels[level].head;
                    while slot != NIL {
                        write_order(&self.orders[slot], w);
                        slot = self.orders[slot].level_next;
                    }
                }
            }
        }
    }

    fn read_orders(&mut self, r: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let count = r.count("orders", self.config.orders_max)?;
        let mut by_rec = Vec::with_capacity((count as usize).min(r.0.len() / ORDER_LEN));
        for _ in 0..count {
            let order = read_order(r)?;
            self.check_slots(order.account, order.instrument)?;
            let is_trader = (self.sessions.rows().get(order.session as usize))
                .is_some_and(|session| session.role == Role::Trader);
            let is_sized = !order.leaves_qty.is_zero()
                && order.leaves_qty <= order.order_qty
                && order.order_qty.0 <= ORDER_QTY_LIMIT;
            let is_numbered = !order.rec.is_none() && order.rec <= self.rec;
            if !is_trader || !is_sized || !is_numbered || !is_consistent(&order) {
                return Err(SnapshotError::Invalid("order"));
            }
            let rec = order.rec;
            let slot = self.orders.alloc(order);
            self.restore_place(slot);
            by_rec.push((rec, slot));
        }
        // Sorted with the record numbers at hand: rows of orders close in time are far apart.
        by_rec.sort_unstable();
        if by_rec.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(SnapshotError::Invalid("record number"));
        }
        self.list_restored(&by_rec)
    }

    /// Lists orders by record number and reserves their means. Prefetches each row and its index
    /// entries: with millions of orders none of them is in the cache.
    fn list_restored(&mut self, by_rec: &[(Rec, Slot)]) -> Result<(), SnapshotError> {
        const AHEAD: usize = 12;
        for (at, (_, slot)) in by_rec.iter().enumerate() {
            if let Some((_, later)) = by_rec.get(at + 2 * AHEAD) {
                self.orders.prefetch_row(*later);
            }
            if let Some((rec, later)) = by_rec.get(at + AHEAD) {
                let order = &self.orders[*later];
                self.orders.prefetch_rec(*rec);
                self.orders.prefetch_name(order.session, order.cl_ord_id);
                self.accounts.prefetch_row(order.account);
                self.positions.prefetch(order.account, order.instrument);
            }
            self.list(*slot);
            self.reserve_restored(*slot)?;
        }
        Ok(())
    }

    /// Puts an order behind the earlier ones, with its restored shown quantity.
    fn restore_place(&mut self, slot: Slot) {
        let order = &self.orders[slot];
        let (queue, price) = self.instruments[order.instrument].queue_mut(order);
        queue.insert(&mut self.levels, &mut self.orders, slot, price);
    }

    fn write_timers(&self, w: &mut Writer<'_>) {
        let forgets_ends = plant::is(Plant::SnapshotForgetsCallEnd);
        let call_ends = self.timers.call_ends();
        let count = if forgets_ends { 0 } else { call_ends.len() };
        w.count(count);
        for (end, instrument_id, ()) in call_ends.latest_first().take(count) {
            w.u64(end.0);
            w.u32(instrument_id.0);
        }
        w.count(self.timers.schedule().len());
        for (at, instrument_id, phase) in self.timers.schedule().latest_first() {
            w.u64(at.0);
            w.u32(instrument_id.0);
            w.u8(phase.code());
        }
    }

    fn read_timers(&mut self, r: &mut Reader<'_>) -> Result<(), SnapshotError> {
        for _ in 0..r.count("ends of calls", self.config.instruments_max)? {
            let end = Nanos(r.u64()?);
            let instrument_id = self.known_instrument(r.u32()?)?;
            self.timers.set_call_end(instrument_id, Some(end));
        }
        for _ in 0..r.count("scheduled phases", SCHEDULE_MAX as u32)? {
            let at = Nanos(r.u64()?);
            let instrument_id = self.known_instrument(r.u32()?)?;
            let phase = Phase::from_code(r.u8()?).ok_or(SnapshotError::Invalid("phase"))?;
            self.timers.file(ScheduleOwner::Instrument(instrument_id), at, phase);
        }
        Ok(())
    }

    fn known_instrument(&self, id: u32) -> Result<InstrumentId, SnapshotError> {
        let is_known = id != 0 && self.instruments.find(id).is_some();
        if is_known { Ok(InstrumentId(id)) } else { Err(SnapshotError::Invalid("instrument")) }
    }

    /// Writes the trades from the oldest; their numbers end at the last match number.
    fn write_trades(&self, w: &mut Writer<'_>) {
        w.count(self.trades.count());
        for trade in self.trades.in_order() {
            for party in [&trade.buyer, &trade.seller] {
                w.u64(party.rec.0);
                w.u32(party.session);
                w.u32(party.account);
            }
            w.u64(trade.time.0);
            w.u64(trade.price.0.cast_unsigned());
            w.u64(trade.qty.0);
            w.u32(trade.instrument);
            w.flag(trade.is_auction);
            w.flag(trade.is_busted);
        }
    }

    fn read_trades(&mut self, r: &mut Reader<'_>, version: u32) -> Result<(), SnapshotError> {
        let count = r.count("trades", self.config.trades_max)?;
        // The snapshot may hold fewer trades than the limit when the limit was raised.
        if u64::from(count) > self.match_id.0 {
            return Err(SnapshotError::Invalid("trade count"));
        }
        for _ in 0..count {
            let buyer = self.read_party(r)?;
            let seller = self.read_party(r)?;
            let trade = Trade {
                buyer,
                seller,
                // Older versions do not tell it: the span of their trades begins here.
                time: if version > VERSION_UNTIMED { Nanos(r.u64()?) } else { self.time },
                price: Price(r.u64()?.cast_signed()),
                qty: Qty(r.u64()?),
                instrument: r.u32()?,
                is_auction: version > VERSION_MIN && r.flag()?,
                is_busted: r.flag()?,
            };
            self.check_slots(trade.buyer.account, trade.instrument)?;
            let is_timed = (self.trades.newest_time()..=self.time).contains(&trade.time);
            if !is_timed || trade.qty.is_zero() || trade.qty.0 > ORDER_QTY_LIMIT {
                return Err(SnapshotError::Invalid("trade"));
            }
            self.keep_trade(trade);
        }
        Ok(())
    }

    fn write_choices(&self, w: &mut Writer<'_>) {
        let forgets = plant::is(Plant::SnapshotForgetsChoices);
        let session_ids = if forgets { &[] } else { self.cancel_on_disconnect() };
        w.count(session_ids.len());
        session_ids.iter().for_each(|session_id| w.u32(session_id.0));
    }

    /// Reads the sessions with cancel-on-disconnect; some may not be defined here yet.
    fn read_choices(&mut self, r: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let mut last = SessionId::NONE;
        for _ in 0..r.count("choices of sessions", self.config.sessions_max)? {
            let session_id = SessionId(r.u32()?);
            if session_id <= last {
                return Err(SnapshotError::Invalid("choice of a session"));
            }
            self.cancel_on_disconnect.set(session_id, Switch::On);
            last = session_id;
        }
        Ok(())
    }

    fn read_party(&self, r: &mut Reader<'_>) -> Result<Party, SnapshotError> {
        let party = Party { rec: Rec(r.u64()?), session: r.u32()?, account: r.u32()? };
        let is_trader = (self.sessions.rows().get(party.session as usize))
            .is_some_and(|session| session.role == Role::Trader);
        let is_known = (party.account as usize) < self.accounts.rows().len();
        if is_trader && is_known && !party.rec.is_none() && party.rec <= self.rec {
            return Ok(party);
        }
        Err(SnapshotError::Invalid("trade"))
    }
}

fn read_limits(r: &mut Reader<'_>) -> Result<EngineLimits, SnapshotError> {
    let limits = EngineLimits {
        accounts_max: r.u32()?,
        sessions_max: r.u32()?,
        firms_max: r.u32()?,
        instruments_max: r.u32()?,
        orders_max: r.u32()?,
        positions_max: r.u32()?,
        trades_max: r.u32()?,
    };
    limits.check_ranges().map_err(|_| SnapshotError::Invalid("limit"))?;
    Ok(limits)
}

/// Returns true if the order's type, place and slice are consistent.
fn is_consistent(order: &Order) -> bool {
    let is_stop = is_stop(order.ord_type);
    let is_placed = match order.place {
        OrderLocation::None => false,
        OrderLocation::Book => !is_stop,
        OrderLocation::Stop => is_stop,
        OrderLocation::Parked => !is_stop && order.time_in_force == TimeInForce::AtTheClose,
    };
    let is_slice_fine = if order.is_iceberg {
        order.ord_type == OrdType::Limit
            && !order.shown_qty.is_zero()
            && order.shown_qty <= order.leaves_qty
    } else {
        order.shown_qty.is_zero()
    };
    is_placed && is_slice_fine
}

fn write_bases(bases: &PriceBases, w: &mut Writer<'_>) {
    let forgets = plant::is(Plant::SnapshotForgetsBases);
    for base in [&bases.last, &bases.uncrossed, &bases.session] {
        w.optional_price(if forgets { None } else { base.price });
        w.u64(base.since.0);
    }
    w.optional_price(bases.traded.map(|(low, _)| low));
    w.optional_price(bases.traded.map(|(_, high)| high));
    w.u64(bases.traded_from.0);
}

fn read_bases(r: &mut Reader<'_>) -> Result<PriceBases, SnapshotError> {
    let mut base = || {
        Ok(PriceBase::new(r.optional_price()?, MatchId(r.number()?))) as Result<_, SnapshotError>
    };
    let (last, uncrossed, session) = (base()?, base()?, base()?);
    let traded = r.optional_price()?.zip(r.optional_price()?);
    Ok(PriceBases { last, uncrossed, session, traded, traded_from: MatchId(r.number()?) })
}

/// Takes the prices of an instrument of the version before as bases for the trades to come.
fn continue_prices(row: &mut Instrument, last: MatchId) {
    row.is_session_over = row.phase == Phase::Closed;
    row.session_price = row.last_price.filter(|_| !row.is_session_over);
    row.bases = PriceBases {
        last: PriceBase::new(row.last_price, last),
        uncrossed: PriceBase::new(row.uncrossed_price, last),
        session: PriceBase::new(row.session_price, last),
        traded: row.traded,
        traded_from: last.next(),
    };
}

/// Reads the phase to which a resume goes back, and whether an operator's halt holds.
fn read_halt(
    phase: Phase,
    r: &mut Reader<'_>,
    version: u32,
) -> Result<(Option<Phase>, bool), SnapshotError> {
    let is_halted = phase == Phase::Halted;
    if version == VERSION_MIN {
        return Ok((is_halted.then_some(Phase::Continuous), is_halted));
    }
    let invalid = SnapshotError::Invalid("halt");
    let resume_to = match r.u8()? {
        NO_PHASE => None,
        code => Some(Phase::from_code(code).ok_or(invalid.clone())?),
    };
    let is_held = r.flag()?;
    let is_fine = match phase {
        Phase::Halted => resume_to.is_some_and(|before| before != Phase::Halted),
        Phase::Closed => resume_to == is_held.then_some(Phase::Closed),
        _ => resume_to.is_none() && !is_held,
    };
    if is_fine { Ok((resume_to, is_held)) } else { Err(invalid) }
}

fn new_id<T>(
    table: &crate::index::Table<T>,
    id: u32,
    what: &'static str,
) -> Result<(), SnapshotError> {
    if id == 0 || table.find(id).is_some() {
        return Err(SnapshotError::Invalid(what));
    }
    Ok(())
}

fn write_order(order: &Order, w: &mut Writer<'_>) {
    let start = w.0.len();
    w.u64(order.rec.0);
    w.u64(order.price.0.cast_unsigned());
    w.u64(order.leaves_qty.0);
    w.u64(order.order_qty.0);
    w.u32(order.account);
    w.u32(order.session);
    w.u32(order.instrument);
    w.u8(order.side.code());
    w.u8(order.ord_type.code());
    w.u8(order.time_in_force.code());
    w.u8(order.exec_inst.0);
    w.u8(order.self_trade_prevention.code());
    w.bytes(&order.cl_ord_id.0);
    w.u64(order.created_time.0);
    w.u8(order.place as u8);
    let forgets_shown = plant::is(Plant::SnapshotForgetsShown);
    w.u64(if forgets_shown { order.next_slice() } else { order.shown_qty }.0);
    w.u64(order.stop_px.0.cast_unsigned());
    w.u64(order.display_qty.0);
    w.u64(order.expire_time.0);
    debug_assert_eq!(w.0.len() - start, ORDER_LEN);
}

fn read_order(r: &mut Reader<'_>) -> Result<Order, SnapshotError> {
    let invalid = SnapshotError::Invalid;
    let mut order = Order {
        rec: Rec(r.u64()?),
        price: Price(r.u64()?.cast_signed()),
        leaves_qty: Qty(r.u64()?),
        order_qty: Qty(r.u64()?),
        level_next: NIL,
        level_prev: NIL,
        level: NIL,
        account: r.u32()?,
        session: r.u32()?,
        instrument: r.u32()?,
        side: Side::from_code(r.u8()?).ok_or(invalid("side"))?,
        ord_type: OrdType::from_code(r.u8()?).ok_or(invalid("order type"))?,
        time_in_force: TimeInForce::from_code(r.u8()?).ok_or(invalid("time in force"))?,
        exec_inst: ExecInst(r.u8()?),
        self_trade_prevention: SelfTradePrevention::from_code(r.u8()?)
            .ok_or(invalid("self-trade prevention"))?,
        cl_ord_id: ClOrdId(*r.take(16)?.first_chunk().expect("sixteen bytes were taken")),
        created_time: Nanos(r.u64()?),
        place: OrderLocation::from_code(r.u8()?).ok_or(invalid("place"))?,
        is_iceberg: false,
        shown_qty: Qty(r.u64()?),
        session_next: NIL,
        session_prev: NIL,
        stop_px: Price(r.u64()?.cast_signed()),
        display_qty: Qty(r.u64()?),
        expire_time: Nanos(r.u64()?),
    };
    order.is_iceberg = !order.display_qty.is_zero();
    Ok(order)
}
