//! A day of messages, and the rows that books must equal after each: recorded by LOBSTER where the
//! data is, and made up by a slow model where it is not.

use std::collections::{BTreeMap, HashMap};

use weir_client::flow::{FlowItem, load};
use weir_feed::itch::encode::{AddOrder, Header, OrderCancel, OrderDelete, OrderExecuted, OrderReplace, StockDirectory, SystemEvent, stock};
use weir_types::{InstrumentId, Price, Qty};

use crate::data::data;
use crate::lobster_itch::Transcoder;

/// The top of an instrument's book: price and quantity of bids and asks, best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub sides: [Vec<(Price, Qty)>; 2],
}

/// What a venue sends on a day.
#[derive(Clone, Debug, Default)]
pub struct Day {
    pub messages: Vec<Vec<u8>>,
    /// By the number of the message after which they hold.
    pub rows: HashMap<u64, Vec<(InstrumentId, Row)>>,
}

/// Where one copy's numbers of orders begin after another's.
const COPY: u64 = 1 << 40;
/// LOBSTER's prices are in 10^-4, a feed's in 10^-9.
const PRICE_4: i64 = 100_000;

impl Day {
    /// The first `items` of a recorded day, each on so many instruments; made up without the data.
    pub fn recorded(items: usize, copies: u16) -> Day {
        match data("lobster/LOBSTER_SampleFile_AMZN_2012-06-21_1.zip") {
            Some(path) => {
                let flow = load(&path).expect("a vendor's file reads");
                Day::of_flow(&flow.items[..items.min(flow.items.len())], copies)
            }
            None => Day::made_up(7, items.min(16_000), copies),
        }
    }

    fn of_flow(items: &[FlowItem], copies: u16) -> Day {
        let mut day = Day::default();
        let symbol = |locate: u16| format!("W{locate:05}");
        let mut transcoders: Vec<_> =
            (1..=copies).map(|locate| Transcoder::new(&symbol(locate), locate)).collect();
        let mut last = vec![0; transcoders.len()];
        for (place, transcoder) in transcoders.iter().enumerate() {
            transcoder.begin(|message| day.messages.push(message.to_vec()));
            last[place] = day.messages.len() as u64;
        }
        for item in items {
            for (copy, transcoder) in transcoders.iter_mut().enumerate() {
                match item {
                    FlowItem::Event(event) => {
                        let mut event = *event;
                        event.source_order_id += copy as u64 * COPY;
                        transcoder.event(&event, |message| day.messages.push(message.to_vec()));
                        last[copy] = day.messages.len() as u64;
                    }
                    FlowItem::Row(row) => {
                        let sides = [&row.bids, &row.asks].map(|levels| {
                            let level = |price: Price| Price(price.0 * PRICE_4);
                            levels
                                .iter()
                                .map(|one| (level(one.level.price), one.level.qty))
                                .collect()
                        });
                        let id = InstrumentId(copy as u32 + 1);
                        day.rows.entry(last[copy]).or_default().push((id, Row { sides }));
                    }
                }
            }
        }
        day
    }

    /// Orders that come, shrink, trade, are replaced and go, by a seed, on so many instruments.
    pub fn made_up(seed: u64, count: usize, copies: u16) -> Day {
        let mut day = Day::default();
        let mut models: Vec<_> = (1..=copies).map(|locate| Model::new(seed, locate)).collect();
        day.messages.push(SystemEvent { event_code: b'O' }.to_bytes(&Header::default()).to_vec());
        models.iter().for_each(|model| day.messages.push(model.directory()));
        for _ in 0..count {
            for model in &mut models {
                day.messages.push(model.next());
                let row = (InstrumentId(model.locate.into()), model.row());
                day.rows.entry(day.messages.len() as u64).or_default().push(row);
            }
        }
        day
    }
}

/// The splitmix64 generator.
#[derive(Clone, Debug)]
pub struct Chance(pub u64);

impl Chance {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    pub fn happens(&mut self, millionths: u64) -> bool {
        self.below(1_000_000) < millionths
    }
}

/// One instrument, as slowly and obviously as can be.
struct Model {
    chance: Chance,
    locate: u16,
    /// By number: side (0 bid, 1 ask), price in 10^-4, shares.
    orders: BTreeMap<u64, (usize, u32, u32)>,
    numbered: u64,
    time: u64,
}

impl Model {
    fn new(seed: u64, locate: u16) -> Model {
        let chance = Chance(seed ^ u64::from(locate) << 32);
        Model { chance, locate, orders: BTreeMap::new(), numbered: 0, time: 34_200_000_000_000 }
    }

    fn stock(&self) -> [u8; 8] {
        stock(&format!("M{:05}", self.locate)).expect("a symbol")
    }

    fn header(&self) -> Header {
        Header { stock_locate: self.locate, tracking_number: 0, timestamp: self.time }
    }

    fn directory(&self) -> Vec<u8> {
        let directory = StockDirectory {
            stock: self.stock(),
            market_category: b'Q',
            financial_status: b'N',
            round_lot_size: 100,
            round_lots_only: b'N',
            issue_classification: b'C',
            issue_sub_type: *b"Z ",
            authenticity: b'P',
            short_sale_threshold: b'N',
            ipo_flag: b'N',
            luld_reference_price_tier: b'1',
            etp_flag: b'N',
            etp_leverage_factor: 0,
            inverse_indicator: b'N',
        };
        directory.to_bytes(&self.header()).to_vec()
    }

    fn new_number(&mut self) -> u64 {
        self.numbered += 1;
        u64::from(self.locate) << 32 | self.numbered
    }

    fn price(&mut self, side: usize) -> u32 {
        // Bids from 99.00, asks from 100.01 on: they never meet.
        let ticks = self.chance.below(100) as u32 * 100;
        if side == 0 { 990_000 + ticks } else { 1_000_100 + ticks }
    }

    fn next(&mut self) -> Vec<u8> {
        self.time += 1_000;
        let header = self.header();
        let choice = self.chance.below(10);
        if self.orders.len() < 3 || choice < 4 {
            let (order_reference, side) = (self.new_number(), self.chance.below(2) as usize);
            let (price, shares) = (self.price(side), 100 + self.chance.below(900) as u32);
            self.orders.insert(order_reference, (side, price, shares));
            let (side, stock) = ([b'B', b'S'][side], self.stock());
            let add = AddOrder { order_reference, side, shares, stock, price };
            return add.to_bytes(&header).to_vec();
        }
        let nth = self.chance.below(self.orders.len() as u64) as usize;
        let (order_reference, (side, _, shares)) =
            self.orders.iter().nth(nth).map(|(number, order)| (*number, *order)).expect("one");
        match choice {
            4 | 5 => {
                self.orders.remove(&order_reference);
                OrderDelete { order_reference }.to_bytes(&header).to_vec()
            }
            6 | 7 => {
                let executed_shares = 1 + self.chance.below(u64::from(shares)) as u32;
                self.shrink(order_reference, executed_shares);
                let executed = OrderExecuted { order_reference, executed_shares, match_number: 1 };
                executed.to_bytes(&header).to_vec()
            }
            8 if shares > 1 => {
                let cancelled_shares = 1 + self.chance.below(u64::from(shares) - 1) as u32;
                self.shrink(order_reference, cancelled_shares);
                OrderCancel { order_reference, cancelled_shares }.to_bytes(&header).to_vec()
            }
            _ => {
                self.orders.remove(&order_reference);
                let (new_order_reference, price) = (self.new_number(), self.price(side));
                let shares = 100 + self.chance.below(900) as u32;
                self.orders.insert(new_order_reference, (side, price, shares));
                let original_order_reference = order_reference;
                let replace =
                    OrderReplace { original_order_reference, new_order_reference, shares, price };
                replace.to_bytes(&header).to_vec()
            }
        }
    }

    fn shrink(&mut self, number: u64, by: u32) {
        let order = self.orders.get_mut(&number).expect("it rests");
        order.2 -= by;
        if order.2 == 0 {
            self.orders.remove(&number);
        }
    }

    fn row(&self) -> Row {
        let mut levels: [BTreeMap<u32, u64>; 2] = Default::default();
        for (side, price, shares) in self.orders.values() {
            *levels[*side].entry(*price).or_default() += u64::from(*shares);
        }
        let level =
            |(price, shares): (&u32, &u64)| (Price(i64::from(*price) * PRICE_4), Qty(*shares));
        let bids = levels[0].iter().rev().map(level).collect();
        Row { sides: [bids, levels[1].iter().map(level).collect()] }
    }
}
