//! A market-data gateway on the channels of two partitions, whose instruments and orders have the
//! same numbers in both.

use std::collections::BTreeMap;

use weir_client::market::Wanted;
use weir_client::request::LimitOrder;
use weir_types::{InstrumentId, MarketContent, PartitionId, Price, Qty, Side};

use crate::market::{Subscriber, addresses};
use crate::publish::{SCALE, free_port};
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, Node, open_market};

const PARTITIONS: [PartitionId; 2] = [PartitionId(3), PartitionId(7)];
const SYMBOLS: [&str; 2] = ["WEIR1", "WEIR2"];

/// Returns an exchange that publishes two channels, and a gateway that follows both.
fn start() -> ([Home; 2], [Node; 2]) {
    let (mut exchange, mut gateway) = (String::new(), String::new());
    for (id, group) in PARTITIONS.iter().zip([23, 27]) {
        let group = format!("239.255.41.{group}:{}", free_port());
        let requests = format!("127.0.0.1:{}", free_port());
        exchange += &format!(
            "[[partition]]\nid = {id}\n[partition.market_publisher]\ngroup = \"{group}\"\n\
             requests = \"{requests}\"\nrequests_per_second = 100000\n"
        );
        gateway += &format!(
            "[[market_gateway.feed.lines]]\na = \"{group}@127.0.0.1\"\nrequest = \"{requests}\"\n"
        );
    }
    let gateway = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n[market_gateway.feed]\nname = \"weir\"\n\
         [market_gateway.feed.timing]\ngive_up_ms = 60000\nrequest_attempts_max = 1000\n{gateway}"
    );
    let homes = [Home::with_config("os", &exchange), Home::with_config("os", &gateway)];
    let nodes = homes.each_ref().map(Home::start);
    open_market(&nodes[0], &[ALICE, BOB]);
    open_market(&nodes[1], &[ALICE]);
    (homes, nodes)
}

/// Enters an order at the instrument of a partition, and waits for its report.
fn enter(trader: &mut Trader, index: usize, order: LimitOrder) {
    let instrument_id = InstrumentId(1 + u32::try_from(index).unwrap());
    let order = LimitOrder { instrument_id, ..order };
    let request_no = trader.send_to(PARTITIONS[index], order.request());
    trader.answer(request_no);
}

/// Returns the gateway's numbers of the instruments, once it has both.
fn numbers(subscriber: &mut Subscriber) -> [InstrumentId; 2] {
    subscriber.until("both quotes", |told| told.quotes.len() == 2);
    let ids: BTreeMap<_, _> = (subscriber.told.quotes.keys())
        .map(|id| (subscriber.client.instrument(*id).expect("it is told").symbol.as_str(), *id))
        .collect();
    SYMBOLS.map(|symbol| ids[symbol])
}

#[test]
fn a_gateway_on_the_channels_of_two_partitions_has_the_books_of_both() {
    let (_homes, nodes) = start();
    let [mut alice, mut bob] = [ALICE, BOB].map(|who| Trader::log_on(&nodes[0], who));
    let wanted = [MarketContent::Bbo, MarketContent::Trades].map(|of| Wanted::new("*", of));
    let mut subscriber = Subscriber::new(addresses(&nodes[1])[0], &wanted);
    for (index, price) in [(0, 101), (1, 202)] {
        enter(&mut alice, index, ALICE.order(1 + index as u64, Side::Sell, price, 1));
    }
    let ids = numbers(&mut subscriber);
    for (id, price) in ids.into_iter().zip([101, 202]) {
        let quote = (Price(price * SCALE), Qty(1));
        subscriber.until("the offer of its own partition", |told| {
            let (.., ask, size) = told.quotes[&id];
            (ask, size) == quote
        });
    }
    // The two orders have one number in their channels: a trade takes that of its own.
    enter(&mut bob, 1, BOB.order(1, Side::Buy, 202, 1));
    subscriber.until("the trade", |told| told.trades.len() == 1);
    assert_eq!(subscriber.told.trades[0].0, ids[1]);
    subscriber.until("no offer in its book", |told| told.quotes[&ids[1]].3 == Qty(0));
    assert_eq!(subscriber.told.quotes[&ids[0]].3, Qty(1), "the other book is as it was");
}
