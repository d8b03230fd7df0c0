//! The orders of an emulated core: their number, changes and contents.
//!
//! No I/O and no clock; one seed gives one run. INVARIANT: (`seq`, `rec`) only grows.

use std::str::FromStr;

use weir_types::{
    AccountId, ClOrdId, ExecInst, ExecType, FirmId, InstrumentId, Nanos, OrdStatus, OrdType,
    OrderId, PartitionId, Price, Qty, Reason, Rec, Seq, SessionId, Side, TimeInForce,
};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::rows::ATTRIBUTES_LEN_MAX;

use crate::load::Rng;

/// The default length of attributes: with 159 bytes of fields and the length, 600 bytes an order.
pub const ATTRIBUTES_LEN: usize = 439;
/// The length of the pool from which the attributes of all orders are cut, each at an offset of its
/// own.
const POOL_LEN: usize = 1 << 16;

/// Shares of creations, updates and deletions among the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Share of new orders.
    pub creates: u32,
    /// Share of fills and replacements of live orders.
    pub updates: u32,
    /// Share of removals of live orders.
    pub deletes: u32,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile { creates: 20, updates: 60, deletes: 20 }
    }
}

impl FromStr for Profile {
    type Err = String;

    /// Parses `CREATES/UPDATES/DELETES`, shares of any sum above zero.
    fn from_str(text: &str) -> Result<Profile, String> {
        let wrong = || format!("profile {text:?}: want CREATES/UPDATES/DELETES, such as 20/60/20");
        let parts: Result<Vec<u32>, _> = text.split('/').map(str::parse).collect();
        match parts.map_err(|_| wrong())?[..] {
            [creates, updates, deletes]
                if [creates, updates, deletes].iter().all(|share| *share <= 1_000_000)
                    && creates + updates + deletes > 0 =>
            {
                Ok(Profile { creates, updates, deletes })
            }
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.creates, self.updates, self.deletes)
    }
}

/// The parameters of a core.
#[derive(Clone, Copy, Debug)]
pub struct CorePlan {
    /// The source.
    pub source_id: PartitionId,
    /// Live orders at the start; creations and deletions keep them between half and twice as many.
    pub order_count: u32,
    /// The mix of changes.
    pub profile: Profile,
    /// The number of orders that get all updates; zero spreads updates evenly over all orders.
    pub hot_count: u32,
    /// Bytes of attributes of each order, at most 600.
    pub attributes_len: usize,
    /// Accounts, numbered from 1. Account `a` is of firm `1 + (a - 1) mod firm_count`.
    pub account_count: u32,
    /// Firms, numbered from 1.
    pub firm_count: u32,
    /// Instruments, numbered from 1.
    pub instrument_count: u32,
    /// The seed; one seed gives one run.
    pub seed: u64,
}

impl CorePlan {
    /// 200,000 live orders of 600 bytes, 100 firms, 1,000 accounts, 100 instruments.
    #[must_use]
    pub fn new(source_id: PartitionId) -> CorePlan {
        CorePlan {
            source_id,
            order_count: 200_000,
            profile: Profile::default(),
            hot_count: 0,
            attributes_len: ATTRIBUTES_LEN,
            account_count: 1_000,
            firm_count: 100,
            instrument_count: 100,
            seed: 1,
        }
    }
}

/// A core's orders.
#[derive(Debug)]
pub struct EmulatedCore {
    plan: CorePlan,
    rng: Rng,
    live: Vec<OrderRow>,
    seq: u64,
    next_rec: u64,
    pool: Vec<u8>,
}

impl EmulatedCore {
    /// Creates a core with its first orders, created at `now`.
    ///
    /// # Panics
    /// When the plan has no order, firm, account or instrument, or too long attributes.
    #[must_use]
    pub fn new(plan: CorePlan, now: Nanos) -> EmulatedCore {
        let numbers = [plan.firm_count, plan.account_count, plan.instrument_count];
        assert!(plan.order_count > 0 && numbers.iter().all(|n| *n > 0), "a core has orders");
        assert!(plan.attributes_len <= ATTRIBUTES_LEN_MAX, "attributes are too long");
        let mut rng = Rng::new(plan.seed ^ u64::from(plan.source_id.0) << 48);
        let pool_len = POOL_LEN + ATTRIBUTES_LEN_MAX;
        let pool = (0..pool_len).map(|_| rng.bits().to_le_bytes()[0]).collect();
        let mut core = EmulatedCore { plan, rng, live: Vec::new(), seq: 0, next_rec: 1, pool };
        for _ in 0..plan.order_count {
            core.create(now);
        }
        core
    }

    /// Its source.
    #[must_use]
    pub fn source_id(&self) -> PartitionId {
        self.plan.source_id
    }

    /// The live orders, in no particular order.
    #[must_use]
    pub fn live(&self) -> &[OrderRow] {
        &self.live
    }

    /// Returns the attributes of a record.
    #[inline]
    #[must_use]
    pub fn attributes(&self, rec: Rec) -> &[u8] {
        let at = usize::try_from(rec.0 % POOL_LEN as u64).expect("below the pool's length");
        &self.pool[at..at + self.plan.attributes_len]
    }

    /// Makes the next change at `now` and returns its row.
    #[inline]
    pub fn change(&mut self, now: Nanos) -> OrderRow {
        let Profile { creates, updates, deletes } = self.plan.profile;
        let drawn = self.rng.below(u64::from(creates + updates + deletes));
        let count = self.live.len() as u64;
        let wanted = u64::from(self.plan.order_count);
        let creates = u64::from(creates);
        if drawn < creates {
            if count < 2 * wanted { self.create(now) } else { self.delete(now) }
        } else if drawn < creates + u64::from(updates) {
            self.update(now)
        } else if count > wanted / 2 && count > 1 {
            self.delete(now)
        } else {
            self.create(now)
        }
    }

    /// Gives every live order a place above `head`, as a full resend requires, and leaves one `seq`
    /// for the resend's end.
    pub fn number_again(&mut self, head: Seq) {
        self.seq = self.seq.max(head.0);
        for row in &mut self.live {
            self.seq += 1;
            row.seq = Seq(self.seq);
        }
        self.seq += 1;
    }

    fn next_seq(&mut self) -> Seq {
        self.seq += 1;
        Seq(self.seq)
    }

    fn create(&mut self, now: Nanos) -> OrderRow {
        let rec = Rec(self.next_rec);
        self.next_rec += 1;
        let seq = self.next_seq();
        let account = u32::try_from(self.rng.below(u64::from(self.plan.account_count)));
        let account = account.expect("drawn below a number of 32 bits");
        let instrument = u32::try_from(self.rng.below(u64::from(self.plan.instrument_count)));
        let bits = self.rng.bits();
        let qty = Qty(u64::from(u16::from_le_bytes([bits.to_le_bytes()[0], 3])));
        let row = OrderRow {
            rec,
            seq,
            order_id: OrderId::new(self.plan.source_id, rec),
            transact_time: now,
            created_time: now,
            cl_ord_id: ClOrdId::NONE,
            price: Price(i64::from(10_000 + u32::from(bits.to_le_bytes()[1]))),
            stop_px: Price(0),
            last_px: Price(0),
            last_qty: Qty::ZERO,
            order_qty: qty,
            leaves_qty: qty,
            cum_qty: Qty::ZERO,
            expire_time: Nanos(0),
            merged_count: 0,
            session_id: SessionId(1 + account),
            firm_id: FirmId(1 + account % self.plan.firm_count),
            account_id: AccountId(1 + account),
            instrument_id: InstrumentId(1 + instrument.expect("as above")),
            partition_id: self.plan.source_id,
            reason: Reason::None,
            side: if bits & 1 == 0 { Side::Buy } else { Side::Sell },
            ord_type: OrdType::Limit,
            time_in_force: TimeInForce::Day,
            exec_inst: ExecInst::NONE,
            exec_type: ExecType::New,
            ord_status: OrdStatus::New,
            flags: RowFlags::default(),
            display_qty: Qty::ZERO,
        };
        self.live.push(row);
        row
    }

    /// Updates a live order: half of the updates are trades of one lot, half change the price.
    fn update(&mut self, now: Nanos) -> OrderRow {
        let index = self.pick();
        let seq = self.next_seq();
        let is_trade = self.rng.bits() & 1 == 0;
        let row = &mut self.live[index];
        row.seq = seq;
        row.transact_time = now;
        if is_trade && row.leaves_qty > Qty(1) {
            row.leaves_qty = Qty(row.leaves_qty.0 - 1);
            row.cum_qty = Qty(row.cum_qty.0 + 1);
            (row.last_px, row.last_qty) = (row.price, Qty(1));
            (row.exec_type, row.ord_status) = (ExecType::Trade, OrdStatus::PartiallyFilled);
        } else {
            row.price = Price(row.price.0 ^ 1);
            row.exec_type = ExecType::Replaced;
        }
        *row
    }

    fn delete(&mut self, now: Nanos) -> OrderRow {
        let index = usize::try_from(self.rng.below(self.live.len() as u64));
        let row = self.live.swap_remove(index.expect("an index"));
        let seq = self.next_seq();
        OrderRow { seq, transact_time: now, flags: RowFlags::TOMBSTONE, ..row }
    }

    fn pick(&mut self) -> usize {
        let count = self.live.len() as u64;
        let hot = match u64::from(self.plan.hot_count) {
            0 => count,
            hot => hot.min(count),
        };
        usize::try_from(self.rng.below(hot)).expect("an index")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn plan() -> CorePlan {
        CorePlan {
            order_count: 50,
            account_count: 7,
            firm_count: 3,
            ..CorePlan::new(PartitionId(40))
        }
    }

    #[test]
    fn places_only_grow_and_the_live_orders_are_what_the_changes_say() {
        let mut core = EmulatedCore::new(plan(), Nanos(1));
        let mut known: BTreeMap<Rec, OrderRow> =
            core.live().iter().map(|row| (row.rec, *row)).collect();
        let mut head = core.live().iter().map(|row| (row.seq, row.rec)).max().expect("orders");
        let mut kinds = [0; 3];
        for step in 0..20_000 {
            if step % 5_000 == 4_999 {
                let before = core.live().len();
                core.number_again(Seq(head.0.0 + 10));
                assert_eq!(core.live().len(), before);
                assert!(core.live().iter().all(|row| row.seq > head.0));
                head = core.live().iter().map(|row| (row.seq, row.rec)).max().expect("orders");
                known = core.live().iter().map(|row| (row.rec, *row)).collect();
            }
            let row = core.change(Nanos(2));
            assert!((row.seq, row.rec) > head);
            head = (row.seq, row.rec);
            if row.flags == RowFlags::TOMBSTONE {
                assert!(known.remove(&row.rec).is_some());
                kinds[2] += 1;
            } else {
                kinds[usize::from(known.insert(row.rec, row).is_some())] += 1;
                assert_eq!(row.firm_id.0, 1 + (row.account_id.0 - 1) % 3);
            }
            assert!((25..=100).contains(&known.len()));
        }
        let live: BTreeMap<Rec, OrderRow> = core.live().iter().map(|row| (row.rec, *row)).collect();
        assert_eq!(live, known);
        assert!(kinds.iter().all(|count| *count > 2_000), "{kinds:?}");
    }

    #[test]
    fn hot_orders_get_all_updates() {
        let profile = Profile { creates: 0, updates: 1, deletes: 0 };
        let mut core = EmulatedCore::new(CorePlan { hot_count: 5, profile, ..plan() }, Nanos(1));
        assert!((0..1_000).all(|_| core.change(Nanos(2)).rec <= Rec(5)));
    }

    #[test]
    fn a_profile_is_read_or_named_as_wrong() {
        assert_eq!("1/2/3".parse(), Ok(Profile { creates: 1, updates: 2, deletes: 3 }));
        for wrong in ["", "1/2", "0/0/0", "1/2/x", "1/2/3/4", "4000000000/4000000000/1"] {
            assert!(wrong.parse::<Profile>().unwrap_err().contains("want"), "{wrong}");
        }
    }
}
