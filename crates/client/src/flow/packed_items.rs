//! The items of a packed stream, encoded one by one as differences from the shared state.
//!
//! Writer and reader keep the same ledger, so that an event that takes quantity off an order names
//! neither side nor price, a full removal no quantity, and a row only its differences from the
//! ledger. INVARIANT: both change their state by `State::apply` alone.

use weir_types::{Nanos, Price, Qty, Side};

use super::ledger::{Ledger, LiveOrder};
use super::model::{FlowEvent, FlowItem, FlowKind, FlowRow, Level, RowLevel};

/// Set in an event's first byte when its order sells.
const SELLS: u8 = 0x80;

/// The first byte of a row.
const ROW: u8 = 0x40;

/// The first byte of a row that contradicts its events.
const ROW_CONTRADICTS: u8 = 0x41;

/// The most levels per side of a row.
const ROW_LEN_MAX: u64 = 255;

/// The most levels over all rows: a row that equals the ledger takes a few bytes, and a small file
/// must not unpack to all memory.
const LEVEL_COUNT_MAX: usize = 4_000_000;

const SIDES: [Side; 2] = [Side::Buy, Side::Sell];

#[derive(Debug, Default)]
struct State {
    ledger: Ledger,
    ts_units: u64,
    id: u64,
    price: [i64; 2],
    aggressor: u64,
}

impl State {
    /// Applies an event to the ledger; an error when it is inconsistent.
    fn apply(&mut self, event: &FlowEvent) -> Result<(), &'static str> {
        let FlowEvent { source_order_id: id, side, price, qty, kind, .. } = *event;
        if kind.enters() {
            self.id = id;
            self.price[usize::from(side == Side::Sell)] = price.0;
            if kind == FlowKind::Add {
                self.aggressor = id;
            }
            let fits = self.ledger.insert(id, LiveOrder { side, price, leaves: qty });
            return if fits { Ok(()) } else { Err("the order stands already or has no size") };
        }
        if kind.leaves() {
            self.ledger.take(id, qty);
            if kind == FlowKind::Fill {
                self.ledger.take(self.aggressor, qty);
            }
        }
        Ok(())
    }

    fn top(&self, side: Side, len: usize) -> Vec<Level> {
        self.ledger.levels(side).take(len).collect()
    }
}

/// Writes items.
#[derive(Debug)]
pub(super) struct ItemWriter {
    state: State,
    unit_ns: u32,
    body: Vec<u8>,
}

impl ItemWriter {
    /// The largest of a second, a millisecond, a microsecond and a nanosecond that divides all
    /// times.
    pub(super) fn time_unit(items: &[FlowItem]) -> u32 {
        let units = [1_000_000_000u32, 1_000_000, 1_000];
        let fits = |unit: &u32| items.iter().all(|item| item.ts().0 % u64::from(*unit) == 0);
        units.into_iter().find(fits).unwrap_or(1)
    }

    pub(super) fn new(unit_ns: u32) -> ItemWriter {
        ItemWriter { state: State::default(), unit_ns, body: Vec::new() }
    }

    pub(super) fn time_unit_ns(&self) -> u32 {
        self.unit_ns
    }

    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }

    pub(super) fn push(&mut self, item: &FlowItem) -> Result<(), &'static str> {
        match item {
            FlowItem::Event(event) => self.event(event),
            FlowItem::Row(row) => self.row(row),
        }
    }

    fn event(&mut self, event: &FlowEvent) -> Result<(), &'static str> {
        let FlowEvent { source_order_id: id, side, price, qty, kind, ts } = *event;
        let sells = if side == Side::Sell { SELLS } else { 0 };
        let standing = self.state.ledger.get(id);
        if kind.leaves() {
            let order = standing.ok_or("the order does not stand")?;
            if (order.side, order.price) != (side, price) || qty > order.leaves || qty.is_zero() {
                return Err("the event does not fit its order");
            }
            self.body.push(kind as u8);
            self.ts(ts)?;
            self.signed(id.wrapping_sub(self.state.id) as i64);
            self.varint((order.leaves - qty).0);
        } else {
            self.body.push(kind as u8 | sells);
            self.ts(ts)?;
            self.signed(id.wrapping_sub(self.state.id) as i64);
            let last = self.state.price[usize::from(side == Side::Sell)];
            self.signed(price.0.wrapping_sub(last));
            self.varint(qty.0);
        }
        self.state.apply(event)
    }

    fn row(&mut self, row: &FlowRow) -> Result<(), &'static str> {
        self.body.push(if row.contradicts_events { ROW_CONTRADICTS } else { ROW });
        self.ts(row.ts)?;
        for (side, levels) in [(Side::Buy, &row.bids), (Side::Sell, &row.asks)] {
            if levels.len() as u64 > ROW_LEN_MAX {
                return Err("too many levels");
            }
            let known = self.state.top(side, levels.len());
            let same = known.iter().zip(levels).take_while(|(a, b)| **a == b.level).count();
            self.varint(levels.len() as u64);
            self.varint(same as u64);
            let mut last = 0;
            for RowLevel { level, .. } in &levels[same..] {
                self.signed(level.price.0.wrapping_sub(last));
                self.varint(level.qty.0);
                last = level.price.0;
            }
            let seeded: Vec<usize> =
                (0..levels.len()).filter(|index| levels[*index].seeded).collect();
            self.varint(seeded.len() as u64);
            for index in seeded {
                self.varint(index as u64);
            }
        }
        Ok(())
    }

    fn ts(&mut self, ts: Nanos) -> Result<(), &'static str> {
        let units = ts.0 / u64::from(self.unit_ns);
        let delta = units.checked_sub(self.state.ts_units).ok_or("time runs back")?;
        self.state.ts_units = units;
        self.varint(delta);
        Ok(())
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.body.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.body.push(value as u8);
    }

    /// Zigzag encoding: small negative numbers are as short as small positive ones.
    fn signed(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63) as u64);
    }
}

/// Reads items.
#[derive(Debug)]
pub(super) struct ItemReader<'a> {
    state: State,
    unit_ns: u32,
    body: &'a [u8],
    offset: usize,
    levels: usize,
}

impl<'a> ItemReader<'a> {
    pub(super) fn new(body: &'a [u8], unit_ns: u32) -> ItemReader<'a> {
        ItemReader { state: State::default(), unit_ns, body, offset: 0, levels: 0 }
    }

    /// The offset of the next item.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn item(&mut self) -> Result<FlowItem, &'static str> {
        let first = self.byte()?;
        let ts = self.ts()?;
        if matches!(first, ROW | ROW_CONTRADICTS) {
            let (bids, asks) = (self.side(SIDES[0])?, self.side(SIDES[1])?);
            let contradicts_events = first == ROW_CONTRADICTS;
            return Ok(FlowItem::Row(FlowRow { ts, bids, asks, contradicts_events }));
        }
        let kind = FlowKind::from_code(first & !SELLS).ok_or("unknown kind")?;
        let id = self.state.id.wrapping_add(self.signed()? as u64);
        let event = if kind.leaves() {
            let order = self.state.ledger.get(id).ok_or("the order does not stand")?;
            let rest = Qty(self.varint()?);
            if rest >= order.leaves || first & SELLS != 0 {
                return Err("the event does not fit its order");
            }
            let (side, price, qty) = (order.side, order.price, order.leaves - rest);
            FlowEvent { ts, source_order_id: id, kind, side, price, qty }
        } else {
            let side = SIDES[usize::from(first & SELLS != 0)];
            let last = self.state.price[usize::from(side == Side::Sell)];
            let price = Price(last.wrapping_add(self.signed()?));
            let qty = Qty(self.varint()?);
            FlowEvent { ts, source_order_id: id, kind, side, price, qty }
        };
        self.state.apply(&event)?;
        Ok(FlowItem::Event(event))
    }

    fn side(&mut self, side: Side) -> Result<Vec<RowLevel>, &'static str> {
        let len = self.varint()?;
        let same = self.varint()?;
        self.levels += len.min(ROW_LEN_MAX) as usize;
        if len > ROW_LEN_MAX || same > len || self.levels > LEVEL_COUNT_MAX {
            return Err("too many levels");
        }
        let known = self.state.top(side, same as usize);
        if known.len() as u64 != same {
            return Err("the book has fewer levels");
        }
        let row_level = |level| RowLevel { level, seeded: false };
        let mut levels: Vec<RowLevel> = known.into_iter().map(row_level).collect();
        let mut price = 0i64;
        for _ in same..len {
            price = price.wrapping_add(self.signed()?);
            let qty = Qty(self.varint()?);
            levels.push(row_level(Level { price: Price(price), qty }));
        }
        for _ in 0..self.varint()?.min(len) {
            let index = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
            levels.get_mut(index).ok_or("no such level")?.seeded = true;
        }
        Ok(levels)
    }

    fn ts(&mut self) -> Result<Nanos, &'static str> {
        let delta = self.varint()?;
        let units = self.state.ts_units.checked_add(delta).ok_or("time out of range")?;
        self.state.ts_units = units;
        let ns = units.checked_mul(u64::from(self.unit_ns)).ok_or("time out of range")?;
        Ok(Nanos(ns))
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        let byte = self.body.get(self.offset).copied().ok_or("the items end early")?;
        self.offset += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err("a number out of range");
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number out of range")
    }

    fn signed(&mut self) -> Result<i64, &'static str> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}
