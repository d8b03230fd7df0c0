//! The limits of a session of market data, over each door: slots, connections and requests.

use serde_json::{Value, json};
use weir_wire::market::MarketEnded;

use super::*;
use crate::market_web::{Reader, refusal_of};
use crate::web::bearer;

const INSTRUMENTS: u16 = 40;

fn start_with_web(more: &str) -> (Node, Home, SocketAddr) {
    let feed = free_udp();
    let config = format!(
        "[web]\nlisten = \"127.0.0.1:0\"\n[market_gateway]\nlisten = \"127.0.0.1:0\"\n{more}\n\
         [market_gateway.feed]\nname = \"itch\"\nreceive_buffer_bytes = 4194304\n\
         [[market_gateway.feed.lines]]\na = \"{feed}\"\n"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    (node, home, feed)
}

/// A connection of the binary protocol, and the answers to its requests.
struct Raw {
    client: Client,
    subscribed: Vec<u32>,
    ended: Vec<MarketEnded>,
}

impl Raw {
    fn open(node: &Node) -> Result<Raw, weir_client::ClientError> {
        let mut client = Client::connect(addresses(node)[0], Limits::default())?;
        client.log_on(ALICE.config(), HANG)?;
        Ok(Raw { client, subscribed: Vec::new(), ended: Vec::new() })
    }

    fn subscribe(&mut self, handle: u32, pattern: &str) {
        let request = SubscribeMarket {
            urgent_move: 0,
            interval: Nanos(0),
            session_id: ALICE.session_id,
            handle,
            urgent_move_ppm: 0,
            queue_len_max: 0,
            depth: 0,
            content: MarketContent::Bbo,
            policy: MarketPolicy::Conflate,
        };
        MarketRequest::Subscribe(request, pattern.as_bytes()).put(self.client.outbox());
    }

    /// Reads until there are so many answers.
    fn until_answered(&mut self, count: usize) {
        let begun = Instant::now();
        while self.subscribed.len() + self.ended.len() < count {
            assert!(begun.elapsed() < HANG, "{:?}, {:?}", self.subscribed, self.ended);
            let Raw { client, subscribed, ended } = self;
            let polled = client.poll(STEP, |incoming, _| match incoming {
                Incoming::Market(MarketMessage::Subscribed(one)) => subscribed.push(one.handle),
                Incoming::Market(MarketMessage::Ended(one)) => ended.push(one),
                _ => {}
            });
            polled.unwrap();
        }
    }
}

fn subscribe_json(handle: u32, pattern: &str) -> Value {
    json!({"subscribe": handle, "pattern": pattern, "content": "Bbo"})
}

/// The figures of flush threads, which lag what is said to subscribers.
fn flush(node: &Node) -> Value {
    node.status()["market"]["flush"][0].clone()
}

#[test]
fn a_subscription_beyond_a_sessions_slots_is_refused_with_budget_and_need_over_every_door() {
    let (node, _home, feed) = start_with_web("slots_max = 140\nsession_slots_max = 100");
    let mut venue = Venue::new(feed, "DAY");
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    settle(&mut venue, &node);
    let mut binary = Raw::open(&node).unwrap();
    for handle in 1..=3 {
        binary.subscribe(handle, "*");
    }
    binary.until_answered(3);
    let session_id = ALICE.session_id;
    let reason = Reason::TooManySessionSlots;
    let want = MarketEnded { session_id, handle: 3, slots_needed: 120, slots_max: 100, reason };
    assert_eq!((&binary.subscribed[..], &binary.ended[..]), (&[1, 2][..], &[want][..]));
    // Another session's own would do; all sessions' do not.
    let mut web = Reader::open(&node, &BOB);
    for handle in 1..=2 {
        web.say(&subscribe_json(handle, "*"));
    }
    web.until("the refusal", |reader| !reader.all("MarketEnded").is_empty());
    let ended = &web.all("MarketEnded")[0];
    assert_eq!((&ended["handle"], &ended["reason"]), (&json!(2), &json!("TooManySlots")));
    assert_eq!((&ended["slots_needed"], &ended["slots_max"]), (&json!(160), &json!(140)));
    web.until("all quotes", |reader| reader.all("MarketQuote").len() >= usize::from(INSTRUMENTS));
    until("the slots are told", || (flush(&node)["slots"] == 120).then_some(()));
    assert_eq!(flush(&node)["slots_refused"], 2);
    until("each session's too", || {
        let subscribers = flush(&node)["subscribers"].clone();
        let told = |one: &Value| [&one["slots"], &one["slots_max"]].map(|n| n.as_u64());
        let mut all: Vec<_> = subscribers.as_array()?.iter().map(told).collect();
        all.sort_unstable();
        (all == [[Some(40), Some(100)], [Some(80), Some(100)]]).then_some(())
    });
    // Listed later: a slot for each subscription, until there is none.
    for locate in INSTRUMENTS + 1..=INSTRUMENTS + 7 {
        venue.directory(locate, &symbol_of(locate));
    }
    settle(&mut venue, &node);
    let ends = |web: &Reader| web.all("MarketEnded").len() - 1;
    let begun = Instant::now();
    while binary.ended.len() - 1 + ends(&web) == 0 {
        assert!(begun.elapsed() < HANG);
        let Raw { client, ended, .. } = &mut binary;
        client
            .poll(STEP, |incoming, _| {
                if let Incoming::Market(MarketMessage::Ended(one)) = incoming {
                    ended.push(one);
                }
            })
            .unwrap();
        web.say(&json!({"unsubscribe": 99}));
        let before = web.all("MarketEnded").len();
        web.until("an answer", |reader| reader.all("MarketEnded").len() > before);
        if web.all("MarketEnded").last().is_some_and(|one| one["handle"] == 99) {
            web.forget_last("MarketEnded");
        }
    }
    let of_binary = binary.ended.get(1).map(|one| (one.reason, one.slots_needed, one.slots_max));
    let of_web = web.all("MarketEnded").get(1).map(|one| one["reason"].clone());
    assert!(
        of_binary == Some((Reason::TooManySlots, 141, 140))
            || of_web == Some(json!("TooManySlots")),
        "{of_binary:?} {of_web:?}"
    );
}

#[test]
fn a_session_has_a_bounded_number_of_connections_over_all_doors() {
    let (node, _home, _feed) = start_with_web("session_connections_max = 2");
    let _first = Raw::open(&node).unwrap();
    let second = Reader::open(&node, &ALICE);
    let refused = Raw::open(&node).map(drop).unwrap_err();
    let reason = match &refused {
        weir_client::ClientError::LogonRejected { reason, .. } => *reason,
        other => panic!("{other}"),
    };
    assert_eq!(reason, Reason::TooManySessionConnections);
    assert_eq!(refusal_of(&node, &bearer(&ALICE)), 429);
    let _other = Reader::open(&node, &BOB);
    drop(second);
    until("one has gone", || Raw::open(&node).ok().map(drop));
}

#[test]
fn requests_beyond_a_sessions_rate_wait_and_none_is_refused() {
    let (node, _home, _feed) = start_with_web("session_requests_per_s = 20");
    let mut hasty = Raw::open(&node).unwrap();
    for handle in 1..=50 {
        hasty.subscribe(handle, &format!("S{handle}"));
    }
    hasty.until_answered(1);
    let mut other = Reader::open(&node, &BOB);
    other.say(&subscribe_json(1, "*"));
    other.until("its answer", |reader| !reader.all("MarketSubscribed").is_empty());
    hasty.until_answered(50);
    assert_eq!(hasty.subscribed, (1..=50).collect::<Vec<_>>());
    assert_eq!(hasty.ended, []);
    until("the waiting is told", || flush(&node)["back_pressure"].as_u64().filter(|n| *n > 0));
}
