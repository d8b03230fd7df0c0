//! One node's market as another node's feed: A matches orders and publishes, B is a gateway of the
//! feed `weir`. However many packets are lost and however late B starts, its subscribers end with
//! A's book.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_client::market::Wanted;
use weir_marketgate::Datagrams;
use weir_marketgate::udp::{Listen, PlainReceiver};
use weir_types::{InstrumentId, MarketContent, Price, Qty, Side, TradingState};

use crate::market::{Received, Subscriber, addresses, free_udp};
use crate::publish::{Crowd, SCALE, free_port, publish};
use crate::support::address::free_address;
use crate::support::{ALICE, BOB, HANG, Home, Node, open_market, until};
use crate::tools::weir_at;

const SYMBOL: &str = "WEIR1";

/// A's home, and the addresses of its lines and its request server.
pub struct Venue {
    pub home: Home,
    pub lines: [SocketAddrV4; 2],
    pub requests: SocketAddrV4,
}

impl Venue {
    /// Returns a home whose node publishes on two groups; `more` is appended to that section.
    pub fn new(durability: &'static str, more: &str) -> Venue {
        let group = |last| SocketAddrV4::new(Ipv4Addr::new(239, 255, 41, last), free_port());
        let lines = [group(8), group(9)];
        let requests = SocketAddrV4::new(Ipv4Addr::LOCALHOST, free_address().port());
        let [a, b] = lines;
        let config = format!(
            "[market_publisher]\ngroup = \"{a}\"\nline_b = \"{b}\"\n\
             requests = \"{requests}\"\nrequests_per_second = 100000\n{more}"
        );
        Venue { home: Home::with_config(durability, &config), lines, requests }
    }

    pub fn start(&self) -> Node {
        let node = self.home.start();
        until("that it publishes", || publish(&node)["is_live"].as_bool()?.then_some(()));
        node
    }
}

/// Forwards A's lines to B and drops some packets.
pub struct Wire {
    pub ends: [SocketAddr; 2],
    is_over: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Starts forwarding; drops this percentage of each line's packets, independently.
    pub fn new(venue: &Venue, percents: [u64; 2]) -> Wire {
        let ends = [free_udp(), free_udp()];
        let mut lines = venue.lines.map(|address| {
            PlainReceiver::open(&Listen {
                address,
                interface: Ipv4Addr::LOCALHOST,
                receive_buffer: 4 << 20,
                wait: Some(Duration::from_millis(1)),
            })
            .unwrap()
        });
        let (is_over, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ending, losing) = (is_over.clone(), lost.clone());
        let thread = std::thread::spawn(move || {
            let (socket, mut chance) = (UdpSocket::bind("127.0.0.1:0").unwrap(), 11_u64);
            while !ending.load(Ordering::Relaxed) {
                for (at, line) in lines.iter_mut().enumerate() {
                    let carry = &mut |datagram: &weir_feed::capture::Datagram<'_>| {
                        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(3);
                        if (chance >> 33) % 100 < percents[at] {
                            losing.fetch_add(1, Ordering::Relaxed);
                        } else {
                            // B may not be listening yet.
                            let _is_sent = socket.send_to(datagram.payload, ends[at]);
                        }
                    };
                    line.receive(carry).unwrap();
                }
            }
        });
        Wire { ends, is_over, lost, thread: Some(thread) }
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || !matches!(ended, Some(Err(_))), "the wire broke");
    }
}

/// Starts B; `timing` is appended to its feed's timing section, `more` to its lines.
pub fn gateway(wire: &Wire, timing: &str, more: &str) -> (Node, Home) {
    let [a, b] = wire.ends;
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n[market_gateway.feed]\nname = \"weir\"\n\
         [market_gateway.feed.timing]\ngive_up_ms = 60000\nrequest_attempts_max = 1000\n{timing}\n\
         [[market_gateway.feed.lines]]\na = \"{a}\"\nb = \"{b}\"\n{more}"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE]);
    (node, home)
}

pub type Rows = Vec<(Side, i64, u64, u64)>;

/// Returns A's book by `weir book`: side, price, quantity, number of orders.
pub fn book_of(node: &Node) -> Rows {
    let words = ["book", SYMBOL, "--once", "--json", "--depth", "1000"];
    let output = weir_at(node, &words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let book: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut rows = Rows::new();
    for (key, side) in [("bids", Side::Buy), ("asks", Side::Sell)] {
        for level in book[key].as_array().unwrap() {
            let text = |key: &str| level[key].as_str().unwrap_or_else(|| panic!("{level}"));
            // Two places behind the point are an instrument's of these tests.
            let price = text("price").replace('.', "").parse().unwrap();
            let (qty, orders) = (text("qty").parse().unwrap(), level["orders"].as_u64().unwrap());
            rows.push((side, price, qty, orders));
        }
    }
    rows
}

/// Returns B's number for the instrument.
pub fn instrument(subscriber: &Subscriber) -> Option<InstrumentId> {
    let ids = subscriber.told.levels.keys().copied();
    ids.into_iter().find(|id| {
        subscriber.client.instrument(*id).is_some_and(|known| known.symbol.as_str() == SYMBOL)
    })
}

fn rows_of(told: &Received, id: InstrumentId) -> Rows {
    let row = |level: &(Side, Price, Qty, u32)| {
        let (side, price, qty, count) = level;
        (*side, price.0 / SCALE, qty.0, u64::from(*count))
    };
    told.levels.get(&id).map_or_else(Rows::new, |levels| levels.iter().map(row).collect())
}

/// Waits until a subscriber of B has A's book, and that is the one that A's reports imply.
pub fn assert_follows(subscriber: &mut Subscriber, a: &Node, crowd: &Crowd) {
    let [bids, asks] = [Side::Buy, Side::Sell]
        .map(|side| crowd.levels(side).into_iter().map(move |(price, qty)| (side, price, qty)));
    let reported: Vec<_> = bids.chain(asks).collect();
    assert_has_book_of(subscriber, a, |book| {
        book.iter().map(|(side, price, qty, _)| (*side, *price, *qty)).eq(reported.iter().copied())
    });
}

/// Waits until a subscriber of B has A's book, and that is the one wanted. A's own market may be
/// older than its reports, so its book is asked for again until it is.
pub fn assert_has_book_of(
    subscriber: &mut Subscriber,
    a: &Node,
    is_wanted: impl Fn(&Rows) -> bool,
) {
    let begun = Instant::now();
    loop {
        // A silent client is logged out, so the subscriber is polled meanwhile.
        let book = std::thread::scope(|scope| {
            let asking = scope.spawn(|| book_of(a));
            while !asking.is_finished() {
                subscriber.poll();
            }
            asking.join().unwrap()
        });
        let asked = Instant::now();
        while is_wanted(&book) && asked.elapsed() < Duration::from_secs(1) {
            subscriber.poll();
            let id = instrument(subscriber);
            let found = id.map(|id| rows_of(&subscriber.told, id)).unwrap_or_default();
            let state = id.and_then(|id| subscriber.told.statuses.get(&id));
            if found == book && state == Some(&TradingState::Trading) {
                return;
            }
            assert!(begun.elapsed() < HANG, "B has {found:?} in {state:?}, A has {book:?}");
        }
        assert!(begun.elapsed() < HANG, "A has {book:?}, which is not the one wanted");
    }
}

pub fn subscriber(b: &Node) -> Subscriber {
    let wanted = [Wanted::new("*", MarketContent::Levels), Wanted::new("*", MarketContent::Status)];
    Subscriber::new(addresses(b)[0], &wanted)
}

/// Returns the feed's state on B's status page.
pub fn channel(b: &Node) -> String {
    b.status()["market"]["receive"]["channels"][0]["state"].as_str().unwrap_or("").to_owned()
}

#[test]
fn a_gateway_that_comes_late_and_loses_packets_has_the_other_nodes_book() {
    let venue = Venue::new("os", "");
    let wire = Wire::new(&venue, [40, 15]);
    let a = venue.start();
    open_market(&a, &[ALICE, BOB]);
    let mut crowd = Crowd::new(&a, 0);
    crowd.trade(200);
    let request = format!("request = \"{}\"\n", venue.requests);
    let (b, _home) = gateway(&wire, "from_start = true", &request);
    let mut early = subscriber(&b);
    for _ in 0..20 {
        crowd.trade(20);
        early.poll();
    }
    assert_follows(&mut early, &a, &crowd);
    assert_follows(&mut subscriber(&b), &a, &crowd);
    assert!(wire.lost() > 0, "nothing was lost");
    until("that all of it was had again", || (channel(&b) == "Live").then_some(()));
    let answered = publish(&a)["answered"].as_u64();
    assert!(answered > Some(0), "what was missed was asked for");
}
