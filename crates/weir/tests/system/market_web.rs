//! Market data over WebSocket at real nodes: the same content as over the binary protocol, in JSON;
//! access; and slow readers, which harm only themselves.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};
use weir_client::market::Wanted;
use weir_feed::itch::encode::OrderCancel;
use weir_types::{
    FirmId, InstrumentId, MarketContent, MarketPolicy, Price, Qty, Role, Side, TradingState,
};
use weir_wire::reference::DefineSession;

use crate::market::{
    Day, INSTRUMENTS, Subscriber, Venue, addresses, free_udp, header, ids, settle, symbol_of,
};
use crate::support::{
    ALICE, BOB, HANG, Home, Node, Who, definition_of, open_market, trader_of, until,
};
use crate::tools::weir_at;
use crate::web::{bearer, get_as};

fn start(more: &str) -> (Node, Home, SocketAddr) {
    let feed = free_udp();
    let config = format!(
        "[web]\nlisten = \"127.0.0.1:0\"\n[market_gateway]\nlisten = \"127.0.0.1:0\"\n{more}\n\
         [market_gateway.feed]\nname = \"itch\"\nreceive_buffer_bytes = 4194304\n\
         [market_gateway.feed.timing]\nreorder_us = 0\ngive_up_ms = 50\n\
         [[market_gateway.feed.lines]]\na = \"{feed}\"\n"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    (node, home, feed)
}

/// A subscriber over a WebSocket, with the messages it received by type.
pub struct Reader {
    socket: WebSocket<TcpStream>,
    told: HashMap<String, Vec<Value>>,
}

impl Reader {
    pub fn open(node: &Node, who: &Who) -> Reader {
        Reader::open_with(node, who, |_| ())
    }

    /// Opens a socket; `prepare` sets options of the TCP stream before the handshake.
    fn open_with(node: &Node, who: &Who, prepare: impl Fn(&TcpStream)) -> Reader {
        let stream = TcpStream::connect(node.web()).unwrap();
        prepare(&stream);
        stream.set_read_timeout(Some(HANG)).unwrap();
        let mut request = format!("ws://{}/market", node.web()).into_client_request().unwrap();
        let value = HeaderValue::from_str(&bearer(who)).unwrap();
        request.headers_mut().insert("Authorization", value);
        let (socket, _) = tungstenite::client(request, stream).unwrap();
        Reader { socket, told: HashMap::new() }
    }

    pub fn say(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).unwrap();
    }

    /// Returns the next message, or the close reason.
    fn hear(&mut self) -> Result<Value, String> {
        loop {
            match self.socket.read().unwrap() {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    let kind = message["type"].as_str().unwrap_or("refusal").to_owned();
                    self.told.entry(kind).or_default().push(message.clone());
                    return Ok(message);
                }
                Message::Close(frame) => {
                    // The next read sends the answering close frame; then the node closes the
                    // connection.
                    while self.socket.read().is_ok() {}
                    return Err(frame.map_or(String::new(), |frame| frame.reason.to_string()));
                }
                _ => {}
            }
        }
    }

    pub fn until(&mut self, what: &str, is_there: impl Fn(&Reader) -> bool) {
        while !is_there(self) {
            self.hear().unwrap_or_else(|reason| panic!("{what}: closed for {reason}"));
        }
    }

    /// Sends a request and returns the answer of this type.
    fn ask(&mut self, request: &Value, answer: &str) -> Value {
        let before = self.all(answer).len();
        self.say(request);
        self.until(answer, |reader| reader.all(answer).len() > before);
        self.all(answer)[before].clone()
    }

    pub fn all(&self, kind: &str) -> &[Value] {
        self.told.get(kind).map_or(&[], Vec::as_slice)
    }

    pub fn forget_last(&mut self, kind: &str) {
        self.told.get_mut(kind).and_then(Vec::pop);
    }

    fn last_of(&self, kind: &str, id: InstrumentId) -> Option<&Value> {
        self.all(kind).iter().rev().find(|one| one["instrument_id"] == id.0)
    }

    /// Returns an instrument's last quote, in the units of the books.
    fn quote(&self, id: InstrumentId) -> Option<(Price, Qty, Price, Qty)> {
        let q = self.last_of("MarketQuote", id)?;
        // A missing side is null.
        let side = |px: &str, size: &str| match (&q[px], &q[size]) {
            (Value::Null, Value::Null) => (Price(0), Qty(0)),
            (px, size) => (price(px), Qty(whole(size))),
        };
        let ((bid, bid_size), (ask, ask_size)) =
            (side("bid_px", "bid_size"), side("ask_px", "ask_size"));
        Some((bid, bid_size, ask, ask_size))
    }

    fn has_quotes(&self, venue: &Venue) -> bool {
        ids().all(|id| self.has_quote(venue, id))
    }

    fn has_quote(&self, venue: &Venue, id: InstrumentId) -> bool {
        let best = venue.books.best(id);
        self.quote(id) == Some((best.bid_px, best.bid_sz, best.ask_px, best.ask_sz))
    }
}

/// Returns the status code of the answer to a handshake with this `Authorization`.
pub fn refusal_of(node: &Node, authorization: &str) -> u16 {
    let mut request = format!("ws://{}/market", node.web()).into_client_request().unwrap();
    let value = HeaderValue::from_str(authorization).unwrap();
    request.headers_mut().insert("Authorization", value);
    let stream = TcpStream::connect(node.web()).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    match tungstenite::client(request, stream) {
        Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
            answer.status().as_u16()
        }
        Err(error) => panic!("{error}"),
        Ok(_) => 101,
    }
}

/// Parses a decimal into a mantissa of 10^-9.
fn price(value: &Value) -> Price {
    let text = value.as_str().expect("a price is text");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    assert!(!fraction.ends_with('0') && fraction.len() <= 9, "{text}");
    let units = whole.parse::<i64>().unwrap() * 1_000_000_000;
    Price(units + format!("{fraction:0<9}").parse::<i64>().unwrap())
}

fn whole(value: &Value) -> u64 {
    value.as_str().expect("64 bits are text").parse().unwrap()
}

fn subscribe(handle: u32, pattern: &str, content: &str) -> Value {
    json!({"subscribe": handle, "pattern": pattern, "content": content})
}

fn day() -> Day {
    Day { random: 0x2545_f491_4f6c_dd1d, next_order: 0, live: vec![] }
}

fn subscriber_reports(node: &Node) -> Vec<Value> {
    let flush = node.status()["market"]["flush"].as_array().unwrap().clone();
    flush.iter().flat_map(|one| one["subscribers"].as_array().unwrap().clone()).collect()
}

#[test]
fn a_websocket_is_told_what_a_binary_subscriber_is_told() {
    let (node, _home, feed) = start("flush_threads = 2");
    let mut venue = Venue::new(feed, "DAY");
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    settle(&mut venue, &node);
    let mut binary = Subscriber::new(
        addresses(&node)[0],
        &[
            Wanted::new("*", MarketContent::Bbo),
            Wanted { policy: MarketPolicy::Keep, ..Wanted::new("*", MarketContent::Trades) },
            Wanted::new("*", MarketContent::Statistics),
            Wanted::new("*", MarketContent::Status),
        ],
    );
    // The sockets are assigned to the flush threads alternately: one on each.
    let mut readers = [Reader::open(&node, &BOB), Reader::open(&node, &BOB)];
    for reader in &mut readers {
        for (handle, content) in [(1, "Bbo"), (3, "statistics"), (4, "Status"), (5, "Levels")] {
            reader.ask(&subscribe(handle, "*", content), "MarketSubscribed");
        }
        let trades = json!({"subscribe": 2, "pattern": "*", "content": "Trades", "policy": "Keep"});
        assert_eq!(reader.ask(&trades, "MarketSubscribed")["handle"], 2);
    }
    let mut day = day();
    for _ in 0..3_000 {
        day.step(&mut venue, INSTRUMENTS);
        if venue.sent.is_multiple_of(500) {
            settle(&mut venue, &node);
        }
    }
    settle(&mut venue, &node);
    let trades = usize::try_from(venue.trades).unwrap();
    binary.until("all trades", |told| told.trades.len() == trades);
    for reader in &mut readers {
        reader.until("all trades", |reader| reader.all("MarketTrade").len() == trades);
        reader.until("its quotes are the books'", |reader| reader.has_quotes(&venue));
        let told = reader.all("MarketTrade").iter().map(|trade| {
            let id = InstrumentId(u32::try_from(trade["instrument_id"].as_u64().unwrap()).unwrap());
            (id, whole(&trade["last_sequence"]))
        });
        assert_eq!(told.collect::<Vec<_>>(), binary.told.trades);
        reader.until("the day's volumes", |reader| {
            ids().all(|id| {
                let day = venue.books.statistics(id);
                reader.last_of("MarketStatistics", id).is_some_and(|told| {
                    whole(&told["volume"]) == day.volume.0
                        && whole(&told["trade_count"]) == day.trade_count
                })
            })
        });
        reader.until("the levels", |reader| ids().all(|id| has_levels(reader, &venue, id)));
        for id in ids() {
            let state = &reader.last_of("MarketStatus", id).expect("a state")["state"];
            assert_eq!(state, "Trading", "{:?}", binary.told.statuses.get(&id));
            let instrument = reader.last_of("MarketInstrument", id).expect("it was named");
            assert_eq!(instrument["symbol"], symbol_of(u16::try_from(id.0).unwrap()));
        }
        let changes: u64 =
            reader.all("MarketQuote").iter().map(|q| q["change_count"].as_u64().unwrap()).sum();
        assert!(changes > 0 && reader.all("MarketGap").is_empty());
        assert_eq!(reader.all("MarketChannel").last().unwrap()["state"], "Live");
    }
    assert!(binary.told.statuses.values().all(|state| *state == TradingState::Trading));
    let connections =
        node.status()["market"]["flush"].as_array().unwrap().clone().into_iter().map(|flush| {
            let all = flush["subscribers"].as_array().unwrap().clone();
            all.iter().filter(|one| one["is_web"] == true).count()
        });
    assert_eq!(connections.collect::<Vec<_>>(), [1, 1]);
}

fn has_levels(reader: &Reader, venue: &Venue, id: InstrumentId) -> bool {
    let Some(told) = reader.last_of("MarketLevels", id) else { return false };
    let told = told["levels"].as_array().unwrap().iter().map(|level| {
        let side = if level["side"] == "Buy" { Side::Buy } else { Side::Sell };
        (side, price(&level["price"]), Qty(whole(&level["size"])), level["order_count"].as_u64())
    });
    let books = [Side::Buy, Side::Sell].into_iter().flat_map(|side| {
        venue
            .books
            .levels(id, side, usize::MAX)
            .map(move |l| (side, l.price, l.size, Some(u64::from(l.order_count))))
    });
    told.eq(books)
}

#[test]
fn an_interval_over_a_websocket_merges_and_can_be_changed_and_a_subscription_ended() {
    let (node, _home, feed) = start("bbo_interval_us = 0");
    let mut venue = Venue::new(feed, "A");
    venue.directory(1, "ODD1");
    venue.directory(2, "EVEN2");
    venue.add(1, 1, Side::Buy, 100, 900_000);
    settle(&mut venue, &node);
    let hour = 3_600_000_000_000_u64;
    let mut reader = Reader::open(&node, &ALICE);
    let slow = json!({
        "subscribe": 7, "pattern": "ODD*", "content": "Bbo", "interval": hour.to_string(),
    });
    assert_eq!(reader.ask(&slow, "MarketSubscribed")["interval"], hour.to_string());
    let id = InstrumentId(1);
    reader.until("the snapshot", |reader| reader.quote(id).is_some());
    assert_eq!(reader.last_of("MarketQuote", id).unwrap()["flags"], json!(["snapshot"]));
    for _ in 0..10 {
        let cancel = OrderCancel { order_reference: 1, cancelled_shares: 1 };
        venue.say(&cancel.to_bytes(&header(1)));
    }
    // The pattern does not match this instrument.
    venue.add(2, 2, Side::Buy, 100, 900_000);
    settle(&mut venue, &node);
    until("what waits", || {
        subscriber_reports(&node).iter().any(|one| one["waiting"] == 1).then_some(())
    });
    let set = json!({"set_interval": 7, "interval": 1_000_000});
    assert_eq!(reader.ask(&set, "MarketSubscribed")["interval"], "1000000");
    reader.until("what waited", |reader| reader.quote(id).is_some_and(|quote| quote.1 == Qty(90)));
    let [_, merged] = reader.all("MarketQuote") else { panic!("{:?}", reader.told) };
    let numbers = [&merged["first_sequence"], &merged["last_sequence"]].map(whole);
    assert_eq!((&merged["change_count"], numbers[1] - numbers[0]), (&json!(10), 9));
    let ended = reader.ask(&json!({"unsubscribe": 7}), "MarketEnded");
    assert_eq!((&ended["handle"], &ended["reason"]), (&json!(7), &json!("None")));
    // The handle is free again, and the ended subscription sent nothing more.
    reader.ask(&subscribe(7, "EVEN2", "Bbo"), "MarketSubscribed");
    reader.until("the other", |reader| reader.quote(InstrumentId(2)).is_some());
    assert_eq!(reader.all("MarketQuote").len(), 3);
}

#[test]
fn what_is_wrong_over_a_websocket_is_told_and_the_connection_stays() {
    let (node, _home, _feed) = start("");
    let mut reader = Reader::open(&node, &ALICE);
    for (wrong, parameter) in [
        (json!([1]), ""),
        (json!({"hello": 1}), ""),
        (json!({"subscribe": 1, "pattern": "*"}), "content"),
        (json!({"subscribe": 1, "pattern": "*", "content": "Bbo", "colour": 1}), "colour"),
        (json!({"subscribe": 1, "pattern": "*", "content": "Bbo", "depth": -1}), "depth"),
    ] {
        let refusal = reader.ask(&wrong, "refusal");
        assert_eq!(refusal["error"], "BadParameter", "{wrong}");
        assert_eq!(refusal["parameter"], parameter, "{wrong}");
    }
    reader.socket.send(Message::text("{no JSON")).unwrap();
    reader.socket.send(Message::binary(vec![1, 2, 3])).unwrap();
    reader.until("both are refused", |reader| reader.all("refusal").len() == 7);
    // The gateway refuses with the same reasons as over the binary protocol.
    for (request, reason) in [
        (subscribe(1, "", "Bbo"), "PatternMalformed"),
        (subscribe(1, "*", "Depth"), "FieldOutOfRange"),
        (
            json!({"subscribe": 1, "pattern": "*", "content": "Trades", "policy": "Conflate"}),
            "NeverConflated",
        ),
        (
            json!({"subscribe": 1, "pattern": "*", "content": "Status", "interval": 5}),
            "IntervalWithoutConflation",
        ),
        (json!({"unsubscribe": 1}), "NotAttached"),
        (json!({"set_interval": 1, "interval": 5}), "NotAttached"),
    ] {
        let ended = reader.ask(&request, "MarketEnded");
        assert_eq!(ended["reason"], reason, "{request}");
        assert!(ended["message"].as_str().is_some_and(|text| !text.is_empty()));
    }
    reader.ask(&subscribe(1, "*", "Trades"), "MarketSubscribed");
    let ended = reader.ask(&subscribe(1, "*", "Bbo"), "MarketEnded");
    assert_eq!(ended["reason"], "HandleTaken");
    let reject = reader.ask(&json!({"set_interval": 1, "interval": 5}), "Reject");
    assert_eq!(
        (&reject["reason"], &reject["field"]),
        (&json!("IntervalWithoutConflation"), &json!("interval"))
    );
    // Too many errors close the socket.
    for _ in 7..16 {
        reader.ask(&json!(null), "refusal");
    }
    assert_eq!(reader.hear(), Err("TooManyErrors".to_owned()));
    until("it is gone", || (node.status()["web"]["market_sockets"] == 0).then_some(()));
    until("its flush thread knows", || subscriber_reports(&node).is_empty().then_some(()));
}

#[test]
fn nobody_has_market_data_over_a_websocket_without_a_good_key_and_a_role_that_may() {
    let (node, _home, _feed) = start("");
    let nobody = trader_of(99);
    let refusal = |authorization: &str| refusal_of(&node, authorization);
    let bobs_key = bearer(&BOB).replace(&BOB.session_id.0.to_string(), "11");
    let wrongs = ["Bearer", "Basic 11:00", "Bearer 11:00", &bearer(&nobody), &bobs_key];
    for wrong in wrongs {
        assert_eq!(refusal(wrong), 401, "{wrong}");
    }
    let source =
        DefineSession { role: Role::Source, firm_id: FirmId::NONE, ..definition_of(&nobody) };
    node.admin().define_session(source).unwrap();
    assert_eq!(refusal(&bearer(&nobody)), 403);
    assert_eq!(node.status()["web"]["keys_refused"], wrongs.len());
    assert_eq!(refusal(&bearer(&ALICE)), 101);
    // A socket is closed when the key that opened it is replaced.
    let mut reader = Reader::open(&node, &ALICE);
    reader.ask(&subscribe(1, "*", "Bbo"), "MarketSubscribed");
    let other =
        DefineSession { credential: definition_of(&BOB).credential, ..definition_of(&ALICE) };
    node.admin().define_session(other).unwrap();
    let reason = loop {
        if let Err(reason) = reader.hear() {
            break reason;
        }
    };
    assert_eq!(reason, "KeyReplaced");
    assert_eq!(refusal(&bearer(&ALICE)), 401);
}

#[test]
fn a_gateway_of_options_alone_serves_a_websocket_too() {
    let feed = free_udp();
    // The command line's address overrides the configuration file's.
    let home = Home::with_config("memory", "[web]\nlisten = \"127.0.0.1:1\"\nreaders_max = 8\n");
    let options = ["--feed", "itch", "--lines", &feed.to_string(), "--web", "127.0.0.1:0"];
    let node = home.start_gateway(&options);
    assert_ne!(node.web(), "127.0.0.1:1");
    open_market(&node, &[ALICE]);
    let mut venue = Venue::new(feed, "A");
    venue.directory(1, "ODD1");
    venue.add(1, 1, Side::Buy, 100, 900_000);
    settle(&mut venue, &node);
    let mut reader = Reader::open(&node, &ALICE);
    reader.ask(&subscribe(1, "ODD1", "Bbo"), "MarketSubscribed");
    reader.until("the quote", |reader| reader.has_quote(&venue, InstrumentId(1)));
}

#[test]
fn a_websocket_of_a_node_that_stops_is_told_so() {
    let (node, _home, _feed) = start("");
    let mut reader = Reader::open(&node, &ALICE);
    reader.ask(&subscribe(1, "*", "Bbo"), "MarketSubscribed");
    assert!(node.terminate().success());
    assert_eq!(reader.hear(), Err("Stopping".to_owned()));
}

#[test]
fn a_node_without_market_data_has_no_such_page() {
    let home = Home::with_config("memory", "[web]\nlisten = \"127.0.0.1:0\"\n");
    let node = home.start();
    open_market(&node, &[ALICE]);
    assert_eq!(get_as(&node, &bearer(&ALICE), "/market").0, 404);
}

#[test]
fn a_websocket_that_is_not_read_delays_nobody_and_is_dealt_with_by_its_policies() {
    let (node, _home, feed) = start("bbo_interval_us = 0\nbook_interval_us = 0");
    let mut venue = Venue::new(feed, "DAY");
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    settle(&mut venue, &node);
    let small = |stream: &TcpStream| {
        rustix::net::sockopt::set_socket_recv_buffer_size(stream, 64 << 10).unwrap();
    };
    let mut slow = Reader::open_with(&node, &ALICE, small);
    // Whole books at each change soon fill the sockets.
    slow.ask(&subscribe(1, "*", "Bbo"), "MarketSubscribed");
    slow.ask(&subscribe(3, "*", "Levels"), "MarketSubscribed");
    let skipped = json!({"subscribe": 2, "pattern": "*", "content": "Trades", "queue_len_max": 10});
    slow.ask(&skipped, "MarketSubscribed");
    let mut cut = Reader::open_with(&node, &BOB, small);
    let all_or_nothing = json!({
        "subscribe": 1, "pattern": "*", "content": "Levels", "policy": "Disconnect",
        "queue_len_max": 100,
    });
    cut.ask(&all_or_nothing, "MarketSubscribed");
    // A socket that is read receives everything while the other two are not read.
    let mut quick = Subscriber::new(
        addresses(&node)[0],
        &[Wanted { policy: MarketPolicy::Keep, ..Wanted::new("*", MarketContent::Trades) }],
    );
    let mut reader = Reader::open(&node, &BOB);
    let trades = json!({"subscribe": 1, "pattern": "*", "content": "Trades", "policy": "Keep"});
    reader.ask(&trades, "MarketSubscribed");
    let mut day = day();
    let (mut seen, mut told_before) = ((false, false), 0);
    for _ in 0..400 {
        for _ in 0..200 {
            day.step(&mut venue, INSTRUMENTS);
        }
        settle(&mut venue, &node);
        let told = usize::try_from(venue.trades).unwrap();
        quick.until("all trades", |quick| quick.trades.len() == told);
        reader.until("all trades", |reader| reader.all("MarketTrade").len() == told);
        let reports = subscriber_reports(&node);
        // The reader with three subscriptions: its sent count stands still while its queue grows.
        let Some(behind) = reports.iter().find(|one| one["subscriptions"] == 3) else { continue };
        let messages = behind["messages"].as_u64().unwrap();
        seen.0 |= messages == told_before && behind["queue_len"].as_u64().unwrap() > 20;
        told_before = messages;
        seen.1 |= node.status()["market"]["flush"][0]["disconnected"] == 1;
        if seen == (true, true) {
            break;
        }
    }
    assert!(seen == (true, true), "both are full: {seen:?}");
    let reason = loop {
        if let Err(reason) = cut.hear() {
            break reason;
        }
    };
    assert_eq!(reason, "SlowConsumer");
    // A slow reader whose policies allow skipping receives the newest state when it reads again,
    // and a gap message.
    slow.until("its quotes are the books'", |slow| slow.has_quotes(&venue));
    slow.until("what it was not told", |slow| !slow.all("MarketGap").is_empty());
    let gap = &slow.all("MarketGap")[0];
    assert!(gap["handle"] == 2 && whole(&gap["lost_count"]) > 0, "{gap}");
    let merged = slow.all("MarketQuote").iter().any(|q| q["change_count"].as_u64().unwrap() > 1);
    assert!(merged, "states are conflated while nobody takes them");
}

#[test]
fn lost_messages_are_told_over_a_websocket_and_who_is_served_is_shown() {
    let (node, _home, feed) = start("");
    let mut venue = Venue::new(feed, "A");
    venue.directory(1, "ODD1");
    venue.add(1, 1, Side::Buy, 100, 900_000);
    settle(&mut venue, &node);
    let mut reader = Reader::open(&node, &ALICE);
    reader.ask(&subscribe(1, "*", "Bbo"), "MarketSubscribed");
    let id = InstrumentId(1);
    reader.until("the quote", |reader| reader.quote(id).is_some());
    // A message that is lost, and one after it.
    venue.add(1, 2, Side::Buy, 1, 910_000);
    venue.writer.take(|_| ());
    venue.add(1, 3, Side::Buy, 1, 920_000);
    venue.send();
    reader.until("what is known", |reader| {
        reader.quote(id).is_some_and(|quote| quote.0 == Price(92_000_000_000))
    });
    assert_eq!(reader.last_of("MarketQuote", id).unwrap()["flags"], json!(["stale"]));
    assert!(reader.all("MarketChannel").iter().any(|channel| channel["state"] == "Stale"));
    until("who is served is shown", || {
        let top = weir_at(&node, &["market", "top", "--once"]).output().unwrap();
        let text = String::from_utf8(top.stdout).unwrap();
        text.contains("websocket").then_some(())
    });
    assert_eq!(node.status()["web"]["market_sockets"], 1);
    // The reader closes the socket itself.
    reader.socket.close(None).unwrap();
    while reader.hear().is_ok() {}
    until("it is gone", || (node.status()["web"]["market_sockets"] == 0).then_some(()));
}

#[test]
fn a_websocket_that_is_not_read_ends_with_its_key() {
    let (node, _home, feed) = start("bbo_interval_us = 0\nbook_interval_us = 0");
    let mut venue = Venue::new(feed, "DAY");
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    settle(&mut venue, &node);
    let mut slow = Reader::open_with(&node, &ALICE, |stream| {
        rustix::net::sockopt::set_socket_recv_buffer_size(stream, 64 << 10).unwrap();
    });
    slow.ask(&subscribe(1, "*", "Levels"), "MarketSubscribed");
    let (mut day, mut told_before) = (day(), 0);
    until("the socket to be full", || {
        (0..200).for_each(|_| day.step(&mut venue, INSTRUMENTS));
        settle(&mut venue, &node);
        let reports = subscriber_reports(&node);
        let messages = reports[0]["messages"].as_u64().unwrap();
        let is_full = messages == told_before && reports[0]["queue_len"].as_u64() >= Some(20);
        told_before = messages;
        is_full.then_some(())
    });
    let other =
        DefineSession { credential: definition_of(&BOB).credential, ..definition_of(&ALICE) };
    node.admin().define_session(other).unwrap();
    until("the end of its task", || (node.status()["web"]["market_sockets"] == 0).then_some(()));
    let mut told = 0;
    while slow.socket.read().is_ok() {
        told += 1;
    }
    assert!(told < told_before, "{told} of {told_before}: no more than the system had");
}
