//! The node's own market as listeners receive it: real packets on a loopback group, some of them
//! lost and requested again, across restarts of the node.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_feed::itch::Itch;
use weir_feed::line::{
    Channel, Event, Handler, LateJoin, Line, LineConfig, RequestConfig, Run, State,
};
use weir_feed::moldudp64::{Header, Messages, MoldSession, Request, read_packet};
use weir_feed::{Context, Definition, Feed, SymbolText, Update, UpdateSink};
use weir_market::{Books, BooksConfig};
use weir_marketgate::Datagrams;
use weir_marketgate::udp::{Listen, PlainReceiver};
use weir_types::{InstrumentId, Nanos, Price, Qty, Side};

use crate::retention::{SMALL, files};
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, HANG, Home, Node, TRADING, Who, open_market, until};

/// The instrument's prices are in hundredths, the books' in 10^-9.
pub const SCALE: i64 = 10_000_000;

fn now() -> Nanos {
    Nanos(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap())
}

/// Returns a free UDP port.
pub fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

struct Rig {
    home: Home,
    group: SocketAddrV4,
}

impl Rig {
    fn new(durability: &'static str) -> Rig {
        Rig::with(durability, "")
    }

    /// As [`Rig::new`], with more sections of the configuration.
    fn with(durability: &'static str, more: &str) -> Rig {
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 41, 7), free_port());
        let config = format!(
            "[market_publisher]\ngroup = \"{group}\"\nrequests = \"127.0.0.1:{}\"\n\
             requests_per_second = 100000\n{more}",
            free_port()
        );
        Rig { home: Home::with_config(durability, &config), group }
    }

    fn start(&self) -> Node {
        let node = self.home.start();
        until("that the publisher sends", || publish(&node)["is_live"].as_bool()?.then_some(()));
        node
    }
}

pub fn publish(node: &Node) -> serde_json::Value {
    node.status()["publish"][0].clone()
}

pub fn figure(node: &Node, name: &str) -> u64 {
    publish(node)[name].as_u64().unwrap_or_else(|| panic!("no {name}"))
}

/// The books and counts built from received messages.
struct Heard {
    books: Books,
    symbols: BTreeMap<SymbolText, InstrumentId>,
    session: MoldSession,
    wanted: Vec<Request>,
    sessions: u64,
    lost: u64,
    delivered: u64,
}

impl UpdateSink for Heard {
    fn define(&mut self, definition: &Definition) {
        assert!(self.books.define(definition.instrument_id));
        self.symbols.insert(definition.symbol, definition.instrument_id);
    }

    fn update(&mut self, update: Update) {
        let change = self.books.apply(&update);
        assert!(change.anomalies.is_empty(), "{:?} by {update:?}", change.anomalies);
    }
}

impl Handler for Heard {
    fn deliver(&mut self, run: &Run<'_>) {
        let mut itch = Itch::new(Nanos(0));
        let mut rest = run.messages;
        for index in 0..u64::from(run.skip) + u64::from(run.count) {
            let (message, after) = itch.next_message(rest).expect("whole messages");
            rest = after;
            let Some(nth) = index.checked_sub(u64::from(run.skip)) else { continue };
            let context = Context { sequence: run.sequence + nth, channel: 0, ts_send: Nanos(0) };
            itch.decode(&context, message, self).expect("it is understood");
            self.delivered += 1;
        }
    }

    fn event(&mut self, _channel: u32, event: &Event) {
        match event {
            Event::Request { sequence, count, .. } => {
                let (session, sequence, count) = (self.session, *sequence, *count);
                self.wanted.push(Request { session, sequence, count });
            }
            Event::Session { .. } => {
                self.books = Books::new(&BooksConfig::default());
                self.symbols.clear();
                self.sessions += 1;
            }
            Event::Stale { from, to, .. } => self.lost += to - from,
            _ => {}
        }
    }
}

/// A listener on the group that drops packets and requests them again.
struct Listener {
    group: PlainReceiver,
    channel: Channel,
    heard: Heard,
    asking: UdpSocket,
    /// The percentage of packets to drop.
    missed_percent: u64,
    chance: u64,
    missed: u64,
    /// Every message ever received, by session and number, dropped ones included.
    said: BTreeMap<([u8; 10], u64), Vec<u8>>,
}

impl Listener {
    fn new(rig: &Rig, missed_percent: u64) -> Listener {
        let group = PlainReceiver::open(&Listen {
            address: rig.group,
            interface: Ipv4Addr::LOCALHOST,
            receive_buffer: 4 << 20,
            wait: Some(Duration::from_millis(5)),
        })
        .unwrap();
        let asking = UdpSocket::bind("127.0.0.1:0").unwrap();
        asking.set_nonblocking(true).unwrap();
        let config = LineConfig {
            give_up: Nanos(u64::MAX),
            late_join: LateJoin::FromStart,
            request: Some(RequestConfig {
                timeout: Nanos(20_000_000),
                attempts_max: u32::MAX,
                ..RequestConfig::default()
            }),
            ..LineConfig::default()
        };
        let heard = Heard {
            books: Books::new(&BooksConfig::default()),
            symbols: BTreeMap::new(),
            session: MoldSession([b' '; 10]),
            wanted: Vec::new(),
            sessions: 0,
            lost: 0,
            delivered: 0,
        };
        let channel = Channel::new(0, config);
        let said = BTreeMap::new();
        Listener { group, channel, heard, asking, missed_percent, chance: 9, missed: 0, said }
    }

    /// Asserts that each message of a packet equals any earlier one with the same number.
    fn note(said: &mut BTreeMap<([u8; 10], u64), Vec<u8>>, packet: &[u8]) {
        let session = Header::read(packet).expect("a header").session.0;
        for message in Messages::new(&read_packet(packet, 0).expect("a packet")) {
            let (number, message) = message.expect("whole messages");
            let before = said.entry((session, number)).or_insert_with(|| message.to_vec());
            assert_eq!(before, message, "message {number} is another than before");
        }
    }

    /// Handles pending packets, and requests the missing ones from the node's server.
    fn listen(&mut self, node: &Node) {
        let Listener { group, channel, heard, chance, said, .. } = self;
        let (mut missed, percent) = (0, self.missed_percent);
        group
            .receive(&mut |datagram| {
                Listener::note(said, datagram.payload);
                *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if (*chance >> 33) % 100 < percent {
                    missed += 1;
                    return;
                }
                take(channel, heard, Line::A, datagram.payload);
            })
            .unwrap();
        self.missed += missed;
        self.ask(node);
    }

    fn ask(&mut self, node: &Node) {
        let server: SocketAddr =
            publish(node)["requests_address"].as_str().unwrap().parse().unwrap();
        let Listener { channel, heard, asking, said, .. } = self;
        channel.tick(now(), heard);
        let mut answer = [0; 2_000];
        while !heard.wanted.is_empty() {
            for request in std::mem::take(&mut heard.wanted) {
                asking.send_to(&request.to_bytes(), server).unwrap();
            }
            // An answer may cause the next request; answers that do not arrive in time are
            // requested again.
            asking.set_nonblocking(false).unwrap();
            asking.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            while let Ok(len) = asking.recv(&mut answer) {
                Listener::note(said, &answer[..len]);
                take(channel, heard, Line::Retransmission, &answer[..len]);
                channel.tick(now(), heard);
                if !heard.wanted.is_empty() {
                    break;
                }
            }
        }
    }

    /// Listens until everything that the node has published has arrived.
    fn catch_up(&mut self, node: &Node) {
        self.catch_up_beside(node, || {});
    }

    /// Likewise, with other work in between.
    fn catch_up_beside(&mut self, node: &Node, mut other_work: impl FnMut()) {
        let begun = Instant::now();
        loop {
            other_work();
            self.listen(node);
            let report = publish(node);
            let is_here = report["session"].as_str().map(str::as_bytes);
            let next = report["next_sequence"].as_u64().unwrap();
            let is_same = is_here == Some(&self.heard.session.0[..]);
            if is_same && self.channel.next() == next && self.channel.state() == State::Live {
                return;
            }
            assert!(
                begun.elapsed() < HANG,
                "{:?} at {} of {report}",
                self.channel.state(),
                self.channel.next()
            );
        }
    }

    fn levels(&self, side: Side) -> Vec<(i64, u64)> {
        let symbol = SymbolText::new(b"WEIR1").unwrap();
        let Some(id) = self.heard.symbols.get(&symbol) else { return Vec::new() };
        let levels = self.heard.books.levels(*id, side, usize::MAX);
        levels.map(|level| (level.price.0 / SCALE, level.size.0)).collect()
    }
}

fn take(channel: &mut Channel, heard: &mut Heard, line: Line, packet: &[u8]) {
    if line == Line::A {
        heard.session = Header::read(packet).expect("a header").session;
    }
    channel.packet(line, &read_packet(packet, 0).expect("a packet"), now(), heard);
}

/// Traders who send random orders, and the book that their own reports imply.
pub struct Crowd {
    traders: Vec<(Who, Trader)>,
    chance: u64,
    number: u64,
    /// Live orders by their trader and name: side, price, remaining quantity.
    live: BTreeMap<(u32, u64), (Side, Price, Qty)>,
}

impl Crowd {
    pub fn new(node: &Node, number: u64) -> Crowd {
        let traders = [ALICE, BOB].map(|who| (who, Trader::log_on(node, who))).into();
        Crowd { traders, chance: 5, number, live: BTreeMap::new() }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
        (self.chance >> 33) % below
    }

    pub fn trade(&mut self, count: u64) {
        for _ in 0..count {
            self.number += 1;
            let (at, price) = (self.draw(2) as usize, 95 + self.draw(11) as i64);
            let (qty, is_buy) = (1 + self.draw(50), self.draw(2) == 0);
            let (number, trader) = (self.number, &mut self.traders[at]);
            let request = match is_buy {
                true => trader.0.buy(number, price, qty),
                false => trader.0.sell(number, price, qty),
            };
            trader.1.send(request);
        }
        for (_, trader) in &mut self.traders {
            trader.settle();
        }
        // A trade with the other trader may have been reported since.
        for (who, trader) in &mut self.traders {
            trader.settle();
            for report in trader.reports() {
                let event = &report.event;
                let Some(number) = event.cl_ord_id.to_number() else { continue };
                let key = (who.session_id.0, number);
                self.live.remove(&key);
                if event.ord_status.is_live() {
                    self.live.insert(key, (event.side, event.price, event.leaves_qty));
                }
            }
            trader.forget();
        }
    }

    pub fn levels(&self, wanted: Side) -> Vec<(i64, u64)> {
        let mut levels: BTreeMap<i64, u64> = BTreeMap::new();
        for (side, price, leaves) in self.live.values() {
            if *side == wanted {
                *levels.entry(price.0).or_default() += leaves.0;
            }
        }
        let ascending = levels.into_iter();
        if wanted == Side::Buy { ascending.rev().collect() } else { ascending.collect() }
    }

    /// Listens until the book equals the one that the traders' reports imply. The publisher reads
    /// events at its own pace, so the published book may be older than the reports.
    fn assert_heard_by(&mut self, listener: &mut Listener, node: &Node) {
        let begun = Instant::now();
        loop {
            // It may take longer than a session may be silent.
            listener.catch_up_beside(node, || {
                for (_, trader) in &mut self.traders {
                    let _ = trader.poll(Duration::ZERO).unwrap();
                }
            });
            let sides = [Side::Buy, Side::Sell];
            let (heard, known) = (sides.map(|s| listener.levels(s)), sides.map(|s| self.levels(s)));
            if heard == known {
                return;
            }
            assert!(begun.elapsed() < HANG, "heard {heard:?}, the traders know {known:?}");
        }
    }
}

#[test]
fn who_misses_packets_and_asks_has_the_engines_book() {
    let rig = Rig::new("memory");
    let mut listener = Listener::new(&rig, 25);
    let node = rig.start();
    open_market(&node, &[ALICE, BOB]);
    let mut crowd = Crowd::new(&node, 0);
    for _ in 0..30 {
        crowd.trade(20);
        listener.listen(&node);
    }
    crowd.assert_heard_by(&mut listener, &node);
    assert!(listener.missed > 0, "nothing was missed");
    assert_eq!((listener.heard.lost, listener.heard.sessions), (0, 1), "nothing was given up");
    assert!(figure(&node, "answered") > 0 && figure(&node, "resent") > 0);
    assert!(figure(&node, "unsent") == 0);
    let metrics = node.get("/metrics").1;
    assert!(metrics.contains("weir_publish_live{partition=\"1\"} 1"), "{metrics}");
}

#[test]
fn after_a_restart_numbers_go_on_and_whoever_comes_late_gets_the_same_messages() {
    let rig = Rig::new("os");
    let mut listener = Listener::new(&rig, 0);
    let mut node = rig.start();
    open_market(&node, &[ALICE, BOB]);
    let mut crowd = Crowd::new(&node, 0);
    crowd.trade(100);
    listener.catch_up(&node);
    let (session, said) = (listener.heard.session, listener.channel.next());
    node.kill();
    let node = rig.start();
    let (live, number) = (crowd.live, crowd.number);
    let mut crowd = Crowd { live, ..Crowd::new(&node, number) };
    crowd.trade(100);
    crowd.assert_heard_by(&mut listener, &node);
    assert_eq!(listener.heard.session, session, "nothing was lost, so it goes on");
    assert!(listener.channel.next() > said);
    let mut late = Listener::new(&rig, 0);
    late.said = listener.said.clone();
    crowd.assert_heard_by(&mut late, &node);
    assert_eq!(late.heard.delivered, listener.heard.delivered, "from the session's first message");
}

/// Starts the node again for the same traders.
fn again(rig: &Rig, crowd: Crowd) -> (Node, Crowd) {
    let node = rig.start();
    let (live, number) = (crowd.live, crowd.number);
    let crowd = Crowd { live, ..Crowd::new(&node, number) };
    (node, crowd)
}

/// Trades until both logs have lost their beginning.
fn trade_past_the_retention(crowd: &mut Crowd, listener: &mut Listener, node: &Node) {
    for _ in 0..200 {
        crowd.trade(500);
        listener.listen(node);
        let row = node.partition_when(TRADING, |_| true);
        let is_past = |key: &str| row[key].as_u64().is_some_and(|first| first > 1);
        if is_past("commands_from") && is_past("events_from") {
            return;
        }
    }
    panic!("nothing is past the retention");
}

#[test]
fn a_market_with_limits_goes_on_from_its_checkpoint_and_without_one_with_the_engines_book() {
    let rig = Rig::with("os", &format!("checkpoint_every_events = 1000\n{SMALL}"));
    let mut listener = Listener::new(&rig, 5);
    let mut node = rig.start();
    open_market(&node, &[ALICE, BOB]);
    let mut crowd = Crowd::new(&node, 0);
    trade_past_the_retention(&mut crowd, &mut listener, &node);
    crowd.assert_heard_by(&mut listener, &node);
    let session = listener.heard.session;
    node.kill();
    let (mut node, mut crowd) = again(&rig, crowd);
    let said = rig.home.said_at_start();
    assert!(said.contains("market publisher: it begins with the checkpoint of event"), "{said}");
    (0..4).for_each(|_| crowd.trade(500));
    crowd.assert_heard_by(&mut listener, &node);
    assert_eq!(listener.heard.session, session, "the session goes on");
    assert!(figure(&node, "oldest") > 1, "what is older cannot be requested");
    until("a checkpoint", || Some(()).filter(|()| figure(&node, "checkpoint_event") > 1_000));
    node.kill();
    for path in files(&rig.home, "partition-1/publisher", ".wsnap") {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[100] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let (mut node, mut crowd) = again(&rig, crowd);
    let said = rig.home.said_at_start();
    assert!(said.contains("is passed over: damaged at offset 64"), "{said}");
    assert!(said.contains("it begins anew with the engine's book"), "{said}");
    // The end of the epoch before, which an archive of orders needs when the events are gone.
    assert!(rig.home.data().join("partition-1/past-ends").is_file());
    crowd.assert_heard_by(&mut listener, &node);
    assert_ne!(listener.heard.session, session, "a number stands for one message");
    (0..4).for_each(|_| crowd.trade(500));
    crowd.assert_heard_by(&mut listener, &node);
    let mut late = Listener::new(&rig, 0);
    late.said = listener.said.clone();
    crowd.assert_heard_by(&mut late, &node);
    let anew = listener.heard.session;
    until("a checkpoint of the new session", || {
        Some(()).filter(|()| figure(&node, "checkpoint_event") > 0)
    });
    node.kill();
    let (node, mut crowd) = again(&rig, crowd);
    crowd.trade(100);
    crowd.assert_heard_by(&mut listener, &node);
    assert_eq!(listener.heard.session, anew, "it goes on from its first checkpoint");
}

#[test]
fn an_exchange_of_another_number_publishes_its_market_and_goes_on_after_a_kill() {
    let rig = Rig::with("os", "[[partition]]\nid = 7\n");
    let mut listener = Listener::new(&rig, 0);
    let mut node = rig.start();
    open_market(&node, &[ALICE, BOB]);
    let mut crowd = Crowd::new(&node, 0);
    crowd.trade(50);
    crowd.assert_heard_by(&mut listener, &node);
    node.kill();
    let node = rig.start();
    let (live, number) = (crowd.live, crowd.number);
    let mut crowd = Crowd { live, ..Crowd::new(&node, number) };
    crowd.trade(50);
    crowd.assert_heard_by(&mut listener, &node);
    assert_eq!(listener.heard.sessions, 1, "nothing was lost, so it goes on");
}

#[test]
fn what_may_be_lost_begins_another_session() {
    let rig = Rig::new("memory");
    let mut listener = Listener::new(&rig, 0);
    let mut node = rig.start();
    open_market(&node, &[ALICE, BOB]);
    let mut crowd = Crowd::new(&node, 0);
    crowd.trade(50);
    listener.catch_up(&node);
    let session = listener.heard.session;
    node.kill();
    let node = rig.start();
    listener.catch_up(&node);
    assert_ne!(listener.heard.session, session, "some of what was said may be lost");
    assert_eq!(listener.heard.sessions, 2);
}
