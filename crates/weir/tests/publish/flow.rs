//! A recorded market through the engine: after every command, a reader of the published messages
//! has the engine's book. The recording ships with the project. LOBSTER's samples do not; they are
//! played if `WEIR_DATA` names a folder that has them.

use std::collections::HashMap;
use std::path::Path;

use weir_client::flow::{BookUnderTest, Level, LocalId, OrderIntent, Outcome, load, report};
use weir_types::{ClOrdId, Nanos, OrderId, Price, Qty, RequestNo, Side, TimeInForce};
use weir_wire::order_entry::{CancelOrder, NewOrder, ReplaceOrder};
use weir_wire::{Event, Request};

use super::market::{INSTRUMENT, Market, TRADER};
use super::reader::Rig;

/// Prices of recordings are published in ITCH's own unit, whatever unit they had.
const EXPONENT: i8 = -4;
/// The number of commands between comparisons of the whole book; the best levels are compared after
/// every command.
const WHOLE_EVERY: u64 = 1_000;
const DEPTH: usize = 5;

/// The engine, with a reader of its published messages.
struct PublishedBook {
    market: Market,
    rig: Rig,
    prices: HashMap<LocalId, Price>,
    commands: u64,
}

impl PublishedBook {
    fn new() -> PublishedBook {
        let (mut market, mut rig) = (Market::new(), Rig::new());
        rig.publish(&market.open(EXPONENT, Qty(u64::from(u32::MAX))));
        PublishedBook { market, rig, prices: HashMap::new(), commands: 0 }
    }

    fn ask(&mut self, with: impl FnOnce(RequestNo) -> Request) -> Outcome {
        let events: Vec<Event> = self.market.ask(with);
        self.rig.publish(&events);
        self.commands += 1;
        let depth = if self.commands.is_multiple_of(WHOLE_EVERY) { usize::MAX } else { DEPTH };
        let engine = &self.market.engine;
        let differs = self.rig.differs(engine, INSTRUMENT, "WEIR", EXPONENT, depth);
        assert_eq!(differs, None, "after {} commands", self.commands);
        Outcome { accepted: true, hits: Vec::new() }
    }

    fn enter(
        &mut self,
        id: LocalId,
        side: Side,
        price: Price,
        qty: Qty,
        time_in_force: TimeInForce,
    ) -> Outcome {
        self.prices.insert(id, price);
        let order = self.market.order(ClOrdId::from_number(id.0), side, price, qty);
        self.ask(|request_no| Request::NewOrder(NewOrder { request_no, time_in_force, ..order }))
    }
}

impl BookUnderTest for PublishedBook {
    fn submit(&mut self, intent: &OrderIntent) -> Outcome {
        let (sending_time, order_id) = (Nanos(0), OrderId::NONE);
        let (session_id, instrument_id) = (TRADER, INSTRUMENT);
        match *intent {
            OrderIntent::New { local_id, side, price, qty, tif } => {
                self.enter(local_id, side, price, qty, tif)
            }
            OrderIntent::Ioc { local_id, side, price, qty } => {
                self.enter(local_id, side, price, qty, TimeInForce::Ioc)
            }
            OrderIntent::ReplaceQty { local_id, order_qty, .. } => {
                let cl_ord_id = ClOrdId::from_number(local_id.0);
                let price = self.prices[&local_id];
                self.ask(|request_no| {
                    Request::ReplaceOrder(ReplaceOrder {
                        request_no,
                        cl_ord_id,
                        orig_cl_ord_id: cl_ord_id,
                        order_id,
                        price,
                        order_qty,
                        sending_time,
                        session_id,
                        instrument_id,
                    })
                })
            }
            OrderIntent::Cancel { local_id } => {
                let cl_ord_id = ClOrdId::from_number(local_id.0);
                self.ask(|request_no| {
                    Request::CancelOrder(CancelOrder {
                        request_no,
                        cl_ord_id,
                        orig_cl_ord_id: cl_ord_id,
                        order_id,
                        sending_time,
                        session_id,
                        instrument_id,
                    })
                })
            }
        }
    }

    fn top(&self, side: Side, depth: usize, out: &mut Vec<Level>) {
        let mut levels = Vec::new();
        self.market.engine.book_levels(INSTRUMENT, side, depth, &mut levels);
        out.clear();
        out.extend(levels.iter().map(|level| Level { price: level.price, qty: level.qty }));
    }
}

fn play(path: &Path) {
    let flow = load(path).unwrap();
    let (_, book) = report("published", &flow.items, PublishedBook::new());
    let kinds = &book.rig.reader.kinds;
    println!("{}: {} commands, {kinds:?}", path.display(), book.commands);
    for kind in ['A', 'E', 'D'] {
        assert!(kinds.get(&kind).is_some_and(|count| *count > 500), "{kind}: {kinds:?}");
    }
    assert_eq!(book.rig.reader.out_of_turn, 0, "every execution hits who stands first");
}

#[test]
fn the_published_book_of_the_bitstamp_day_is_the_engines() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    play(&data.join("bitstamp-2015-05-01.wflow"));
}

#[test]
fn the_published_book_of_a_nasdaq_day_is_the_engines() {
    let path = "lobster/LOBSTER_SampleFile_AAPL_2012-06-21_1.zip";
    let Some(path) = weir_skip::recorded(path) else { return };
    play(&path);
}
