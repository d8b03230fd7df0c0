//! The market-data gateway in real nodes: a venue's datagrams in, subscribers served.

mod audit;
mod descriptors;
mod files;
mod full_ring;
mod probes;
mod restarts;
mod sessions;
mod shm;
mod statistics;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use weir_client::market::{MarketClient, Wanted};
use weir_client::{Client, Connection, Incoming, Limits};
use weir_feed::itch::Itch;
use weir_feed::itch::encode::{
    AddOrder, Header, OrderCancel, OrderDelete, OrderExecuted, OrderReplace, StockDirectory,
    StockTradingAction, Trade, stock,
};
use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome};
use weir_feed::{Action, CollectedUpdates, Context, Feed as _, Update};
use weir_market::Books;
use weir_market::book::{BooksConfig, OrderIds};
use weir_types::{
    FeedState, InstrumentId, MarketContent, MarketPolicy, Nanos, OrderAction, PhaseCause, Price,
    Qty, Reason, Side,
};
use weir_wire::NodeMessage;
use weir_wire::market::{
    MarketFlags, MarketLevels, MarketOrder, MarketOrders, StatusReason, SubscribeMarket,
    TradeConditions,
};
use weir_wire::market_dialogue::{MarketMessage, MarketRequest};
use weir_wire::reference::DefineSession;

use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, HANG, Home, Node, definition_of, open_market, until};
use crate::tools::weir_at;

pub const STEP: Duration = Duration::from_millis(20);
/// The most messages in flight to the gateway: fewer than its receive buffer holds.
const AHEAD_MAX: u64 = 2_000;

/// A venue: sends ITCH messages over MoldUDP64 to one address and keeps the resulting books.
pub struct Venue {
    socket: UdpSocket,
    to: SocketAddr,
    pub writer: PacketWriter,
    codec: Itch,
    pub books: Books,
    pub trades: u64,
    pub sent: u64,
    /// The messages, if they are kept for a file.
    kept: Option<Vec<Vec<u8>>>,
    /// The packets, if they are kept for comparison.
    packets: Option<Vec<Vec<u8>>>,
}

impl Venue {
    pub fn new(to: SocketAddr, session: &str) -> Venue {
        Venue {
            socket: UdpSocket::bind("127.0.0.1:0").unwrap(),
            to,
            writer: PacketWriter::new(MoldSession::new(session).unwrap(), 1, 1_200),
            codec: Itch::new(Nanos(0)),
            books: Books::new(&BooksConfig::default()),
            trades: 0,
            sent: 0,
            kept: None,
            packets: None,
        }
    }

    pub fn say(&mut self, message: &[u8]) {
        let context =
            Context { sequence: self.writer.next_sequence(), channel: 0, ts_send: Nanos(0) };
        let mut said = CollectedUpdates::default();
        self.codec.decode(&context, message, &mut said).unwrap();
        for update in &said.updates {
            self.trades += u64::from(self.books.apply(update).trade.is_some());
        }
        self.sent += 1;
        if let Some(kept) = &mut self.kept {
            return kept.push(message.to_vec());
        }
        while self.writer.push(message) == PushOutcome::Full {
            self.send();
        }
    }

    pub fn send(&mut self) {
        let Venue { socket, to, writer, packets, .. } = self;
        writer.take(|packet| {
            packets.iter_mut().for_each(|kept| kept.push(packet.to_vec()));
            socket.send_to(packet, *to).unwrap()
        });
    }

    pub fn directory(&mut self, locate: u16, symbol: &str) {
        let directory = StockDirectory {
            stock: stock(symbol).unwrap(),
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
        self.say(&directory.to_bytes(&header(locate)));
        let open = StockTradingAction {
            stock: stock(symbol).unwrap(),
            trading_state: b'T',
            reserved: b' ',
            reason: *b"    ",
        };
        self.say(&open.to_bytes(&header(locate)));
    }

    pub fn add(&mut self, locate: u16, order_reference: u64, side: Side, shares: u32, price: u32) {
        let side = if side == Side::Buy { b'B' } else { b'S' };
        let add = AddOrder { order_reference, side, shares, stock: *b"        ", price };
        self.say(&add.to_bytes(&header(locate)));
    }
}

pub fn header(stock_locate: u16) -> Header {
    Header { stock_locate, tracking_number: 0, timestamp: 1_000 }
}

pub fn symbol_of(locate: u16) -> String {
    format!("{}{locate}", if locate.is_multiple_of(2) { "EVEN" } else { "ODD" })
}

/// Returns a free UDP address for a node's feed.
pub fn free_udp() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn start(more: &str) -> (Node, Home, SocketAddr) {
    let feed = free_udp();
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n{more}\n\
         [market_gateway.feed]\nname = \"itch\"\nreceive_buffer_bytes = 4194304\n\
         [[market_gateway.feed.lines]]\na = \"{feed}\"\n"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    (node, home, feed)
}

pub fn addresses(node: &Node) -> Vec<SocketAddr> {
    let status = node.status();
    let all = status["market"]["addresses"].as_array().expect("it serves").clone();
    all.iter().map(|one| one.as_str().unwrap().parse().unwrap()).collect()
}

fn received(node: &Node) -> u64 {
    node.status()["market"]["receive"]["messages"].as_u64().unwrap()
}

/// Sends the rest, and waits until the gateway has received everything.
pub fn settle(venue: &mut Venue, node: &Node) {
    venue.send();
    until("the gateway has all", || (received(node) == venue.sent).then_some(()));
}

/// Everything that one subscriber received.
#[derive(Default)]
pub struct Received {
    pub quotes: HashMap<InstrumentId, (Price, Qty, Price, Qty)>,
    quote_changes: u64,
    pub levels: HashMap<InstrumentId, Vec<(Side, Price, Qty, u32)>>,
    pieces: Vec<(Side, Price, Qty, u32)>,
    orders: Option<Books>,
    order_messages: u64,
    pub trades: Vec<(InstrumentId, u64)>,
    pub volumes: HashMap<InstrumentId, (u64, u64)>,
    pub statuses: HashMap<InstrumentId, weir_types::TradingState>,
    /// The causes of these states, and the source's reasons.
    pub causes: HashMap<InstrumentId, (PhaseCause, StatusReason)>,
    pub channels: Vec<FeedState>,
    pub ended: Vec<(u32, Reason)>,
    pub subscribed: Vec<(u32, Nanos)>,
    gaps: u64,
    stale: u64,
}

impl Received {
    fn take(&mut self, message: &MarketMessage<'_>) {
        match message {
            MarketMessage::Quote(q) => {
                let quote = (q.bid_px, q.bid_size, q.ask_px, q.ask_size);
                self.quotes.insert(q.instrument_id, quote);
                self.quote_changes += u64::from(q.change_count);
                self.stale += u64::from(q.flags.contains(MarketFlags::STALE));
                assert!(q.first_sequence <= q.last_sequence && q.sending_time >= q.receive_time);
            }
            MarketMessage::Levels(head, levels) => {
                for level in levels.clone() {
                    let level = level.unwrap();
                    self.pieces.push((level.side, level.price, level.size, level.order_count));
                }
                self.end_of_levels(head);
            }
            MarketMessage::Orders(head, orders) => {
                let orders = orders.clone().map(|order| order.unwrap());
                let books = self.orders.get_or_insert_with(orders_books);
                if head.flags.contains(MarketFlags::SNAPSHOT) || head.last_sequence > 0 {
                    apply(books, head, Action::Clear);
                }
                for order in orders {
                    let (order_id, price, size) = (order.order_id, order.price, order.size);
                    apply(books, head, Action::Add { order_id, side: order.side, price, size });
                }
            }
            MarketMessage::Order(order) => {
                self.order_messages += 1;
                let books = self.orders.as_mut().expect("orders come first");
                let action = action_of(order);
                let change = books.apply(&Update {
                    instrument_id: order.instrument_id,
                    sequence: order.last_sequence,
                    ts_event: order.event_time,
                    action,
                });
                assert!(change.anomalies.is_empty(), "{order:?}: {:?}", change.anomalies);
            }
            MarketMessage::Trade(trade) => {
                assert!(!trade.conditions.contains(TradeConditions::BROKEN));
                self.trades.push((trade.instrument_id, trade.last_sequence));
            }
            MarketMessage::Statistics(day) => {
                self.volumes.insert(day.instrument_id, (day.volume.0, day.trade_count));
            }
            MarketMessage::Status(status) => {
                self.statuses.insert(status.instrument_id, status.state);
                let cause = (status.cause, status.status_reason);
                self.causes.insert(status.instrument_id, cause);
            }
            MarketMessage::Channel(channel) => self.channels.push(channel.state),
            MarketMessage::Ended(ended) => self.ended.push((ended.handle, ended.reason)),
            MarketMessage::Subscribed(done) => self.subscribed.push((done.handle, done.interval)),
            MarketMessage::Gap(gap) => self.gaps += gap.lost_count,
            MarketMessage::Instrument(..) => {}
        }
    }

    fn end_of_levels(&mut self, head: &MarketLevels) {
        if !head.flags.contains(MarketFlags::MORE) {
            self.levels.insert(head.instrument_id, std::mem::take(&mut self.pieces));
        }
    }
}

fn orders_books() -> Books {
    Books::new(&BooksConfig { order_ids: OrderIds::OfInstrument, ..BooksConfig::default() })
}

fn apply(books: &mut Books, head: &MarketOrders, action: Action) {
    let _ = books.apply(&Update {
        instrument_id: head.instrument_id,
        sequence: head.last_sequence,
        ts_event: head.event_time,
        action,
    });
}

fn action_of(order: &MarketOrder) -> Action {
    let (order_id, price, size) = (order.order_id, order.price, order.size);
    match order.action {
        OrderAction::Add => {
            let side = Side::from_code(order.side.code()).expect("an added order has a side");
            Action::Add { order_id, side, price, size }
        }
        OrderAction::Execute => Action::Execute {
            order_id,
            size,
            price: (price != Price(0)).then_some(price),
            match_id: order.match_id,
            is_printable: true,
        },
        OrderAction::Reduce => Action::Reduce { order_id, size },
        OrderAction::Delete => Action::Delete { order_id },
        OrderAction::Replace => {
            Action::Replace { order_id, new_order_id: order.new_order_id, price, size }
        }
        other => panic!("ITCH says no {other:?}"),
    }
}

/// A subscriber and everything it received.
pub struct Subscriber {
    pub client: MarketClient,
    pub told: Received,
}

impl Subscriber {
    pub fn new(at: SocketAddr, wanted: &[Wanted]) -> Subscriber {
        let mut client = MarketClient::new(at, ALICE.config());
        wanted.iter().for_each(|one| {
            client.subscribe(one.clone());
        });
        let mut subscriber = Subscriber { client, told: Received::default() };
        subscriber.until("all are subscribed", |told| told.subscribed.len() == wanted.len());
        subscriber
    }

    pub fn poll(&mut self) {
        let told = &mut self.told;
        self.client.poll(STEP, |message| told.take(message));
        if let Some(failure) = self.client.take_failure() {
            panic!("the connection failed: {failure}");
        }
    }

    pub fn until(&mut self, what: &str, mut is_there: impl FnMut(&Received) -> bool) {
        let begun = Instant::now();
        while !is_there(&self.told) {
            assert!(begun.elapsed() < HANG, "never: {what}");
            self.poll();
        }
    }
}

/// A random day: the numbers of resting orders, by instrument.
#[derive(Default)]
pub struct Day {
    pub random: u64,
    pub next_order: u64,
    pub live: Vec<(u16, u64, u32)>,
}

impl Day {
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    pub fn step(&mut self, venue: &mut Venue, instruments: u16) {
        let locate = 1 + u16::try_from(self.draw(u64::from(instruments))).unwrap();
        let price = 100_000 + 100 * u32::try_from(self.draw(40)).unwrap();
        if self.live.len() < 50 || self.draw(100) < 45 {
            self.next_order += 1;
            let (side, price) = match self.draw(2) {
                0 => (Side::Buy, price - 4_000),
                _ => (Side::Sell, price + 100),
            };
            let shares = 100 + u32::try_from(self.draw(9)).unwrap();
            self.live.push((locate, self.next_order, shares));
            return venue.add(locate, self.next_order, side, shares, price);
        }
        let at = usize::try_from(self.draw(self.live.len() as u64)).unwrap();
        let (locate, order_reference, shares) = self.live[at];
        let head = header(locate);
        match self.draw(5) {
            0 => {
                self.live.swap_remove(at);
                venue.say(&OrderDelete { order_reference }.to_bytes(&head));
            }
            1 if shares > 1 => {
                self.live[at].2 -= 1;
                let cancel = OrderCancel { order_reference, cancelled_shares: 1 };
                venue.say(&cancel.to_bytes(&head));
            }
            2 => {
                self.next_order += 1;
                let new_order_reference = self.next_order;
                self.live[at] = (locate, new_order_reference, 50);
                let replace = OrderReplace {
                    original_order_reference: order_reference,
                    new_order_reference,
                    shares: 50,
                    price: price - 2_000,
                };
                venue.say(&replace.to_bytes(&head));
            }
            3 => {
                let trade = Trade {
                    order_reference: 0,
                    side: b'B',
                    shares: 7,
                    stock: *b"        ",
                    price,
                    match_number: venue.sent,
                };
                venue.say(&trade.to_bytes(&head));
            }
            _ => {
                self.live.swap_remove(at);
                let executed = OrderExecuted {
                    order_reference,
                    executed_shares: shares,
                    match_number: venue.sent,
                };
                venue.say(&executed.to_bytes(&head));
            }
        }
    }
}

pub const INSTRUMENTS: u16 = 20;

pub fn ids() -> impl Iterator<Item = InstrumentId> {
    (1..=INSTRUMENTS).map(|locate| InstrumentId(u32::from(locate)))
}

fn levels_of(books: &Books, id: InstrumentId, depth: usize) -> Vec<(Side, Price, Qty, u32)> {
    let of =
        |side| books.levels(id, side, depth).map(move |l| (side, l.price, l.size, l.order_count));
    [Side::Buy, Side::Sell].into_iter().flat_map(of).collect()
}

fn has_quotes(told: &Received, books: &Books, of: impl Fn(InstrumentId) -> bool) -> bool {
    ids().filter(|id| of(*id)).all(|id| {
        let best = books.best(id);
        told.quotes
            .get(&id)
            .is_some_and(|told| *told == (best.bid_px, best.bid_sz, best.ask_px, best.ask_sz))
    })
}

fn has_levels(told: &Received, books: &Books, depth: usize) -> bool {
    ids().all(|id| told.levels.get(&id).is_some_and(|told| *told == levels_of(books, id, depth)))
}

fn has_orders(told: &Received, books: &Books) -> bool {
    told.orders.as_ref().is_some_and(|told| ids().all(|id| told.digest(id) == books.digest(id)))
}

fn has_volumes(told: &Received, books: &Books) -> bool {
    ids().all(|id| {
        let day = books.statistics(id);
        told.volumes.get(&id).is_some_and(|told| *told == (day.volume.0, day.trade_count))
    })
}

/// Sends a random day. Subscribers to everything, on each flush thread, follow it from the
/// beginning, from the middle and from its end.
fn follow_a_day(more: &str) {
    let (node, _home, feed) = start(more);
    let mut venue = Venue::new(feed, "DAY");
    let mut day = Day { random: 0x2545_f491_4f6c_dd1d, next_order: 0, live: vec![] };
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    settle(&mut venue, &node);
    let all = [
        Wanted::new("*", MarketContent::Bbo),
        Wanted::new("*", MarketContent::Levels),
        Wanted { policy: MarketPolicy::Keep, ..Wanted::new("*", MarketContent::Orders) },
        Wanted { policy: MarketPolicy::Keep, ..Wanted::new("*", MarketContent::Trades) },
        Wanted::new("*", MarketContent::Statistics),
        Wanted::new("*", MarketContent::Status),
    ];
    let addresses = addresses(&node);
    let mut first: Vec<_> = addresses.iter().map(|at| Subscriber::new(*at, &all)).collect();
    let steps = |venue: &mut Venue, day: &mut Day, first: &mut [Subscriber]| {
        for step in 0..6_000 {
            day.step(venue, INSTRUMENTS);
            if u32::is_multiple_of(step, 50) {
                first.iter_mut().for_each(Subscriber::poll);
            }
            if venue.sent.is_multiple_of(AHEAD_MAX / 2) {
                settle(venue, &node);
            }
        }
        settle(venue, &node);
    };
    steps(&mut venue, &mut day, &mut first);
    let mut late: Vec<_> = addresses.iter().map(|at| Subscriber::new(*at, &all)).collect();
    steps(&mut venue, &mut day, &mut first);
    for (subscriber, is_first) in
        first.iter_mut().map(|s| (s, true)).chain(late.iter_mut().map(|s| (s, false)))
    {
        let books = &venue.books;
        subscriber.until("its quotes are the books'", |told| has_quotes(told, books, |_| true));
        subscriber.until("its levels", |told| has_levels(told, books, usize::MAX));
        subscriber.until("its orders", |told| has_orders(told, books));
        subscriber.until("its statistics", |told| has_volumes(told, books));
        let states = ids().count();
        subscriber.until("its states", |told| told.statuses.len() == states);
        assert_eq!((subscriber.told.gaps, subscriber.told.stale), (0, 0));
        assert_eq!(subscriber.told.channels.last(), Some(&FeedState::Live));
        if is_first {
            let trades = venue.trades;
            subscriber.until("all trades", |told| told.trades.len() as u64 == trades);
            assert!(subscriber.told.order_messages > 0);
        }
        let mut last: BTreeMap<InstrumentId, u64> = BTreeMap::new();
        for (id, sequence) in &subscriber.told.trades {
            assert!(last.insert(*id, *sequence).is_none_or(|before| before < *sequence));
        }
    }
    let update = &node.status()["market"]["update"];
    assert_eq!(update["orders"], venue.books.order_count());
    assert_eq!(update["anomalies"], venue.books.anomalies().total());
}

#[test]
fn every_subscriber_ends_with_the_venues_books_however_late_it_comes() {
    follow_a_day("");
}

#[test]
fn the_same_holds_with_a_thread_for_each_stage_and_three_flush_threads() {
    follow_a_day("stages = \"staged\"\nflush_threads = 3\nreceive_ring = 64\nflush_ring = 64");
}

#[test]
fn a_subscription_gets_what_its_pattern_and_content_name_and_nothing_else() {
    let (node, _home, feed) = start("");
    let mut venue = Venue::new(feed, "A");
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    settle(&mut venue, &node);
    let wanted = [Wanted::new("EVEN*", MarketContent::Bbo), Wanted::depth("ODD3", 2)];
    let mut subscriber = Subscriber::new(addresses(&node)[0], &wanted);
    for locate in 1..=INSTRUMENTS {
        for (index, price) in [(0, 900_000), (1, 890_000), (2, 880_000)] {
            let order = u64::from(locate) * 10 + index;
            venue.add(locate, order, Side::Buy, 100, price);
        }
    }
    settle(&mut venue, &node);
    let books = &venue.books;
    let is_even = |id: InstrumentId| id.0.is_multiple_of(2);
    subscriber.until("even quotes", |told| has_quotes(told, books, is_even));
    let odd = InstrumentId(3);
    let want = levels_of(books, odd, 2);
    assert_eq!(want.len(), 2);
    subscriber.until("odd levels", |told| told.levels.get(&odd) == Some(&want));
    assert!(subscriber.told.quotes.keys().all(|id| is_even(*id)));
    assert_eq!(subscriber.told.levels.len(), 1);
    let known = subscriber.client.instrument(odd).expect("it was named");
    assert_eq!((known.symbol.as_str(), known.price_exponent), ("ODD3", -9));
    // An instrument defined later matches too.
    venue.directory(22, "EVEN22");
    venue.add(22, 9_999, Side::Sell, 5, 910_000);
    settle(&mut venue, &node);
    subscriber.until("the late one", |told| {
        told.quotes.get(&InstrumentId(22)).is_some_and(|quote| quote.3 == Qty(5))
    });
}

#[test]
fn an_interval_merges_and_can_be_changed_and_a_subscription_ended() {
    // The first stage sends without delay: only the subscription's own interval merges.
    let (node, _home, feed) = start("bbo_interval_us = 0");
    let mut venue = Venue::new(feed, "A");
    venue.directory(1, "ODD1");
    venue.add(1, 1, Side::Buy, 100, 900_000);
    settle(&mut venue, &node);
    let hour = Duration::from_secs(3_600);
    let slow = Wanted { interval: hour, ..Wanted::new("ODD1", MarketContent::Bbo) };
    let mut subscriber = Subscriber::new(addresses(&node)[0], &[slow]);
    let id = InstrumentId(1);
    subscriber.until("the snapshot", |told| told.quotes.contains_key(&id));
    let first = subscriber.told.quotes[&id];
    for _ in 0..10 {
        let cancel = OrderCancel { order_reference: 1, cancelled_shares: 1 };
        venue.say(&cancel.to_bytes(&header(1)));
    }
    settle(&mut venue, &node);
    (0..5).for_each(|_| subscriber.poll());
    assert_eq!(subscriber.told.quotes[&id], first, "the interval is not over");
    subscriber.client.set_interval(1, Duration::from_millis(1));
    subscriber.until("what waited", |told| told.quotes[&id].1 == Qty(90));
    assert_eq!(subscriber.told.quote_changes, 10, "all of them, merged");
    assert_eq!(subscriber.told.subscribed, [(1, Nanos(3_600_000_000_000)), (1, Nanos(1_000_000))]);
    // An urgent quote is sent at once: the price moves by more than one per cent.
    subscriber.client.set_interval(1, hour);
    subscriber.until("the answer", |told| told.subscribed.len() == 3);
    venue.add(1, 2, Side::Buy, 1, 920_000);
    settle(&mut venue, &node);
    subscriber.until("the urgent quote", |told| told.quotes[&id].1 == Qty(1));
    subscriber.client.unsubscribe(1);
    subscriber.until("its end", |told| told.ended == [(1, Reason::None)]);
    venue.add(1, 3, Side::Buy, 1, 990_000);
    settle(&mut venue, &node);
    (0..5).for_each(|_| subscriber.poll());
    assert_eq!(subscriber.told.quotes[&id].1, Qty(1));
    assert_eq!(subscriber.told.quotes[&id].0, Price(92_000_000_000));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_reason_and_the_session_goes_on() {
    let (node, _home, _feed) = start("");
    let at = addresses(&node)[0];
    let bbo = Wanted::new("*", MarketContent::Bbo);
    let conflate = MarketPolicy::Conflate;
    let interval = Duration::from_millis(1);
    let cases = [
        (Wanted::new("", MarketContent::Bbo), Reason::PatternMalformed),
        (Wanted::new("\u{1}", MarketContent::Bbo), Reason::PatternMalformed),
        (Wanted::depth("*", 0), Reason::FieldOutOfRange),
        (
            Wanted { policy: conflate, ..Wanted::new("*", MarketContent::Trades) },
            Reason::NeverConflated,
        ),
        (
            Wanted { interval, ..Wanted::new("*", MarketContent::Status) },
            Reason::IntervalWithoutConflation,
        ),
    ];
    let mut client = MarketClient::new(at, ALICE.config());
    let mut told = Received::default();
    for (wanted, reason) in cases {
        let handle = client.subscribe(wanted.clone());
        let begun = Instant::now();
        while told.ended.last() != Some(&(handle, reason)) {
            assert!(begun.elapsed() < HANG, "{wanted:?}: {:?}", told.ended);
            client.poll(STEP, |message| told.take(message));
        }
    }
    client.subscribe(bbo.clone());
    let begun = Instant::now();
    while told.subscribed.is_empty() {
        assert!(begun.elapsed() < HANG);
        client.poll(STEP, |message| told.take(message));
    }
    // A handle that is in use; the test sends the raw messages itself.
    let mut raw = Client::connect(at, Limits::default()).unwrap();
    raw.log_on(BOB.config(), HANG).unwrap();
    let mut ended = vec![];
    for _ in 0..2 {
        let request = weir_wire::market::SubscribeMarket {
            urgent_move: 0,
            interval: Nanos(0),
            session_id: BOB.session_id,
            handle: 7,
            urgent_move_ppm: 0,
            queue_len_max: 0,
            depth: 0,
            content: MarketContent::Bbo,
            policy: conflate,
        };
        MarketRequest::Subscribe(request, b"*").put(raw.outbox());
    }
    let begun = Instant::now();
    while ended.is_empty() {
        assert!(begun.elapsed() < HANG);
        raw.poll(STEP, |incoming, _| {
            if let Incoming::Market(MarketMessage::Ended(end)) = incoming {
                ended.push((end.handle, end.reason));
            }
        })
        .unwrap();
    }
    assert_eq!(ended, [(7, Reason::HandleTaken)]);
}

#[test]
fn a_venue_that_begins_anew_clears_the_books_of_its_followers() {
    let (node, _home, feed) = start("");
    let mut venue = Venue::new(feed, "MONDAY");
    venue.directory(1, "ODD1");
    venue.add(1, 1, Side::Buy, 100, 900_000);
    settle(&mut venue, &node);
    let all = [
        Wanted::new("*", MarketContent::Bbo),
        Wanted::new("*", MarketContent::Levels),
        Wanted { policy: MarketPolicy::Keep, ..Wanted::new("*", MarketContent::Orders) },
    ];
    let mut subscriber = Subscriber::new(addresses(&node)[0], &all);
    let id = InstrumentId(1);
    subscriber
        .until("the quote", |told| told.quotes.get(&id).is_some_and(|quote| quote.1 == Qty(100)));
    let sent = venue.sent;
    let mut next = Venue::new(feed, "TUESDAY");
    next.directory(1, "ODD1");
    next.add(1, 1, Side::Sell, 7, 910_000);
    next.send();
    until("the second day", || (received(&node) == sent + next.sent).then_some(()));
    let books = &next.books;
    let best = books.best(id);
    subscriber.until("the new day's quote", |told| {
        told.quotes[&id] == (best.bid_px, best.bid_sz, best.ask_px, best.ask_sz)
    });
    subscriber.until("its levels", |told| {
        told.levels.get(&id).is_some_and(|told| *told == levels_of(books, id, usize::MAX))
    });
    subscriber.until("its orders", |told| {
        told.orders.as_ref().is_some_and(|told| told.digest(id) == books.digest(id))
    });
}

#[test]
fn a_day_file_is_served_and_the_command_line_shows_who_is_told_what() {
    let mut venue = Venue::new("127.0.0.1:9".parse().unwrap(), "FILE");
    let (mut file, mut day) = (vec![], Day { random: 88_172_645_463_325_252, ..Day::default() });
    venue.kept = Some(vec![]);
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    (0..500).for_each(|_| day.step(&mut venue, INSTRUMENTS));
    for message in venue.kept.take().expect("it keeps") {
        file.extend_from_slice(&u16::try_from(message.len()).unwrap().to_be_bytes());
        file.extend_from_slice(&message);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("day.itch");
    std::fs::write(&path, file).unwrap();
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n[market_gateway.feed]\nname = \"itch\"\n\
         [market_gateway.feed.capture]\nfile = {path:?}\nspeed = \"max\"\n"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE]);
    until("the file is read", || {
        (node.status()["market"]["receive"]["is_over"] == true).then_some(())
    });
    let mut subscriber =
        Subscriber::new(addresses(&node)[0], &[Wanted::new("*", MarketContent::Levels)]);
    subscriber.until("its levels", |told| has_levels(told, &venue.books, usize::MAX));

    let at = addresses(&node)[0].to_string();
    let words =
        ["market", "watch", "EVEN2", "--content", "depth", "--depth", "1", "--messages", "1"];
    let watched = weir_at(&node, &[&words[..], &["--market", &at]].concat()).output().unwrap();
    let text = String::from_utf8(watched.stdout).unwrap();
    assert!(watched.status.success() && text.contains("EVEN2") && text.contains("bid"), "{text}");
    watch_counts_lines_and_notes_a_capture_at_its_end(&node, &at);

    until("who is served is shown", || {
        let top = weir_at(&node, &["market", "top", "--once", "--json"]).output().unwrap();
        let page: serde_json::Value = serde_json::from_slice(&top.stdout).unwrap();
        let subscribers = page["flush"][0]["subscribers"].as_array().unwrap();
        subscribers.iter().any(|one| one["session_id"] == ALICE.session_id.0).then_some(())
    });
    let top = weir_at(&node, &["market", "top", "--once"]).output().unwrap();
    let text = String::from_utf8(top.stdout).unwrap();
    for word in ["capture at its end", "channel 0.0 Live", "orders, ", "subscriptions"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

fn watch_counts_lines_and_notes_a_capture_at_its_end(node: &Node, market: &str) {
    let words = ["market", "watch", "*", "--messages", "3", "--json", "--market", market];
    let watched = weir_at(node, &words).output().unwrap();
    assert!(watched.status.success(), "{watched:?}");
    let text = String::from_utf8(watched.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "as many as were asked for: {text}");
    assert!(lines.iter().all(|line| line["symbol"].is_string() && line["type"].is_string()));
    let mut none = weir_at(node, &["market", "watch", "NONE*", "--market", market]);
    let mut none = none.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let notes = BufReader::new(none.stderr.take().expect("stderr is piped")).lines();
    let mut wanted = vec!["no instrument of the feed matches", "the capture has ended"];
    for note in notes.map_while(Result::ok) {
        wanted.retain(|wanted| !note.contains(wanted));
        if wanted.is_empty() {
            break;
        }
    }
    none.kill().unwrap();
    none.wait().unwrap();
    assert!(wanted.is_empty(), "not noted: {wanted:?}");
}

#[test]
fn what_came_is_kept_datagram_by_datagram_and_trades_become_bars() {
    let kept = tempfile::tempdir().unwrap();
    let (audit, bars) = (kept.path().join("audit"), kept.path().join("bars"));
    let (node, _home, feed) = start(&format!(
        "[market_gateway.post.audit]\ndir = {audit:?}\nflush_ms = 10\n\
         [market_gateway.post.bars]\ndir = {bars:?}\nkinds = [\"ticks-10\"]\n"
    ));
    let mut venue = Venue::new(feed, "KEPT");
    venue.packets = Some(vec![]);
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    let mut day = Day { random: 88_172_645_463_325_252, ..Day::default() };
    (0..1_500).for_each(|_| day.step(&mut venue, INSTRUMENTS));
    settle(&mut venue, &node);
    let packets = venue.packets.take().expect("it keeps them");
    until("all is kept", || {
        let post = &node.status()["market"]["post"];
        let is_kept = post["audited"] == packets.len() && post["trades_waiting"] == 0;
        (is_kept && post["trades"].as_u64() >= Some(venue.trades)).then_some(())
    });
    assert!(venue.trades > 100);
    assert!(node.terminate().success());
    let files = |dir: &std::path::Path| -> Vec<_> {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let mut found = vec![];
    for path in files(&audit) {
        let mut capture = weir_marketgate::capture::CaptureFile::open(&path).unwrap();
        while capture
            .next(&mut |item| {
                if let weir_marketgate::capture::Item::Datagram(datagram) = item {
                    assert_eq!(datagram.dst, feed);
                    found.push(datagram.payload.to_vec());
                }
            })
            .unwrap()
        {}
    }
    assert_eq!(found, packets);
    let tables = files(&bars);
    assert!(tables.iter().any(|path| path.extension().is_some_and(|end| end == "parquet")));
}

#[test]
fn a_gateway_of_options_alone_says_where_it_serves_and_one_without_a_feed_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let weir = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["market", "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        command.args(["--market-listen", "127.0.0.1:0", "--dir"]).arg(dir.path()).args(words);
        command
    };
    let refused = weir(&[]).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("--feed"), "{text}");
    let line = format!("{},{}", free_udp(), free_udp());
    let mut child = weir(&["--feed", "itch", "--lines", &line])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut ready).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready.contains(" market=127.0.0.1:"), "{ready}");
}

#[test]
fn lost_messages_are_told_and_what_may_be_wrong_is_marked() {
    let more = "[market_gateway.feed.timing]\nreorder_us = 0\ngive_up_ms = 50\n";
    let feed = free_udp();
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n[market_gateway.feed]\nname = \"itch\"\n{more}\
         [[market_gateway.feed.lines]]\na = \"{feed}\"\n"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut venue = Venue::new(feed, "A");
    venue.directory(1, "ODD1");
    venue.add(1, 1, Side::Buy, 100, 900_000);
    settle(&mut venue, &node);
    let mut subscriber =
        Subscriber::new(addresses(&node)[0], &[Wanted::new("*", MarketContent::Bbo)]);
    let id = InstrumentId(1);
    subscriber.until("the quote", |told| told.quotes.contains_key(&id));
    assert_eq!(subscriber.told.stale, 0);
    // A message that is lost, and one after it.
    venue.add(1, 2, Side::Buy, 1, 910_000);
    venue.writer.take(|_| ());
    venue.add(1, 3, Side::Buy, 1, 920_000);
    venue.send();
    subscriber.until("it is told", |told| told.channels.contains(&FeedState::Stale));
    subscriber.until("what is known", |told| told.quotes[&id].0 == Price(92_000_000_000));
    assert!(subscriber.told.stale > 0);
}

#[test]
fn a_subscriber_to_market_data_ends_with_its_sessions_key_and_others_go_on() {
    let (node, _home, feed) = start("");
    let mut venue = Venue::new(feed, "DAY");
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    settle(&mut venue, &node);
    let wanted = [Wanted::new("*", MarketContent::Bbo)];
    let mut other = Subscriber::new(addresses(&node)[0], &wanted);
    let first = definition_of(&BOB);
    let ends = [
        (
            Reason::KeyReplaced,
            DefineSession { credential: definition_of(&ALICE).credential, ..first },
        ),
        (Reason::KeyExpired, DefineSession { valid_until: Nanos(1), ..first }),
    ];
    let mut day = Day { random: 0x2545_f491_4f6c_dd1d, next_order: 0, live: vec![] };
    for (reason, definition) in ends {
        let connection = Connection::open(addresses(&node)[0], Limits::default()).unwrap();
        let mut wire = Wire::over(connection);
        wire.log_on(&logon_of(&BOB));
        let mut bytes = Vec::new();
        let request = SubscribeMarket {
            urgent_move: 0,
            interval: Nanos(0),
            session_id: BOB.session_id,
            handle: 1,
            urgent_move_ppm: 0,
            queue_len_max: 0,
            depth: 0,
            content: MarketContent::Bbo,
            policy: MarketPolicy::Conflate,
        };
        MarketRequest::Subscribe(request, b"*").put(&mut bytes);
        wire.send(&bytes);
        wire.expect("its subscription", |message| {
            matches!(message, NodeMessage::Market(MarketMessage::Subscribed(_))).then_some(())
        });
        node.admin().define_session(definition).unwrap();
        assert_eq!(wire.logout(), (BOB.session_id, reason));
        (0..200).for_each(|_| day.step(&mut venue, INSTRUMENTS));
        settle(&mut venue, &node);
        wire.closed();
        let flush = node.status()["market"]["flush"][0].clone();
        assert_eq!(flush["subscribers"].as_array().map(Vec::len), Some(1), "{flush}");
        other.until("the venue's quotes", |told| has_quotes(told, &venue.books, |_| true));
        node.admin().define_session(first).unwrap();
    }
}
