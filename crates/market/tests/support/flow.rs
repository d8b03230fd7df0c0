//! A synthetic flow of orders over many instruments: 45 % additions, 42 % deletions, 5 %
//! executions, 3 % reductions, 5 % replacements, once the wanted number of orders rests.
//!
//! All instruments have the same flow, except for the price around which it lies. The activity of
//! real instruments is uneven, so an instrument's activity falls with its number: an addition draws
//! it uniformly up to the smaller of two uniform draws. Prices are drawn around a fixed one, near
//! ones more often: the best price changes often, and the book never crosses.

use weir_feed::{Action, Update};
use weir_types::{InstrumentId, Nanos, Price, Qty, Side};

/// One cent.
const TICK: i64 = 10_000_000;

#[derive(Clone, Copy)]
struct Live {
    order_id: u64,
    instrument: u32,
    size: u32,
    side: Side,
}

/// The parameters of a flow.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) instruments: u32,
    pub(crate) live_orders: usize,
    /// Of ten changes to orders, the number that hit the newest twentieth; the others hit any
    /// order, which is the worst case for caches.
    pub(crate) recent_of_ten: u64,
}

/// The generator of a flow.
pub(crate) struct Flow {
    shape: Shape,
    live: Vec<Live>,
    order_id: u64,
    sequence: u64,
    random: u64,
}

impl Flow {
    pub(crate) fn new(shape: Shape) -> Flow {
        let live = Vec::with_capacity(shape.live_orders * 2);
        Flow { shape, live, order_id: 0, sequence: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Returns a random number below `bound`.
    fn random(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * u128::from(bound)) >> 64) as u64
    }

    /// Adds orders until the wanted number rests.
    pub(crate) fn fill(&mut self, out: &mut Vec<Update>, count_max: usize) {
        while self.live.len() < self.shape.live_orders && out.len() < count_max {
            let update = self.add();
            out.push(update);
        }
    }

    /// Returns the next update of the mix.
    pub(crate) fn next(&mut self) -> Update {
        // Adds more while too few orders rest, deletes more while too many do.
        let is_short = self.live.len() < self.shape.live_orders;
        match self.random(100) {
            0..43 => self.add(),
            43..47 if is_short => self.add(),
            43..87 => self.remove(|live| (Action::Delete { order_id: live.order_id }, true)),
            87..92 => self.execute(),
            92..95 => self.reduce(),
            _ => self.replace(),
        }
    }

    fn update(&mut self, instrument: u32, action: Action) -> Update {
        self.sequence += 1;
        Update {
            instrument_id: InstrumentId(instrument),
            sequence: self.sequence,
            ts_event: Nanos(self.sequence * 1_000),
            action,
        }
    }

    fn price(&mut self, instrument: u32, side: Side) -> Price {
        let mut distance = 1;
        while distance < 60 && self.random(4) != 0 {
            distance += 1;
        }
        let middle = 10_000 + i64::from(instrument % 1_000) * 7;
        match side {
            Side::Buy => Price((middle - distance) * TICK),
            Side::Sell => Price((middle + distance) * TICK),
        }
    }

    fn add(&mut self) -> Update {
        let count = u64::from(self.shape.instruments);
        let (a, b) = (self.random(count), self.random(count));
        let instrument = self.random(a.min(b) + 1) as u32 + 1;
        let side = if self.random(2) == 0 { Side::Buy } else { Side::Sell };
        let (price, size) = (self.price(instrument, side), 100 + self.random(900) as u32);
        self.order_id += 1;
        let order_id = self.order_id;
        self.live.push(Live { order_id, instrument, size, side });
        self.update(instrument, Action::Add { order_id, side, price, size: Qty(size.into()) })
    }

    fn pick(&mut self) -> Option<usize> {
        let count = self.live.len() as u64;
        let newest = count.div_ceil(20);
        match self.random(10) < self.shape.recent_of_ten {
            _ if count == 0 => None,
            true => Some((count - 1 - self.random(newest)) as usize),
            false => Some(self.random(count) as usize),
        }
    }

    fn remove(&mut self, say: impl FnOnce(&mut Live) -> (Action, bool)) -> Update {
        let Some(at) = self.pick() else { return self.add() };
        let live = &mut self.live[at];
        let instrument = live.instrument;
        let (action, is_gone) = say(live);
        if is_gone {
            self.live.swap_remove(at);
        }
        self.update(instrument, action)
    }

    fn execute(&mut self) -> Update {
        let (is_whole, match_id) = (self.random(10) < 6, self.sequence + 1);
        self.remove(|live| {
            let size = if is_whole { live.size } else { live.size.div_ceil(2) };
            live.size -= size;
            let (order_id, size) = (live.order_id, Qty(size.into()));
            let action =
                Action::Execute { order_id, size, price: None, match_id, is_printable: true };
            (action, live.size == 0)
        })
    }

    fn reduce(&mut self) -> Update {
        self.remove(|live| {
            let size = live.size.div_ceil(2);
            live.size -= size;
            let (order_id, size) = (live.order_id, Qty(size.into()));
            (Action::Reduce { order_id, size }, live.size == 0)
        })
    }

    fn replace(&mut self) -> Update {
        let Some(at) = self.pick() else { return self.add() };
        let Live { order_id, instrument, side, .. } = self.live.swap_remove(at);
        let (price, size) = (self.price(instrument, side), 100 + self.random(900) as u32);
        self.order_id += 1;
        let new_order_id = self.order_id;
        self.live.push(Live { order_id: new_order_id, instrument, size, side });
        let size = Qty(size.into());
        self.update(instrument, Action::Replace { order_id, new_order_id, price, size })
    }
}
