//! An updating thread that does not keep up, and a ring of four slots in front of it.

use weir_feed::moldudp64::{Header as Packet, Request};

use super::*;

/// A retransmission server that answers each request with one packet.
struct Requests {
    socket: UdpSocket,
    answered: u64,
}

impl Requests {
    fn new() -> Requests {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Requests { socket, answered: 0 }
    }

    fn serve(&mut self, packets: &[Vec<u8>]) {
        let mut buffer = [0; 64];
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            let first = Request::read(&buffer[..len]).unwrap().sequence;
            let holds = |packet: &&Vec<u8>| {
                let head = Packet::read(packet).unwrap();
                (head.sequence..head.sequence + u64::from(head.count)).contains(&first)
            };
            if let Some(packet) = packets.iter().find(holds) {
                self.socket.send_to(packet, from).unwrap();
                self.answered += 1;
            }
        }
    }
}

fn ring_dropped(node: &Node) -> u64 {
    node.status()["market"]["receive"]["ring_dropped"].as_u64().unwrap()
}

#[test]
fn what_a_full_ring_dropped_comes_by_request_and_subscribers_end_with_the_venues_books() {
    let (feed, mut requests) = (free_udp(), Requests::new());
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\nstages = \"staged\"\nreceive_ring = 4\n\
         receive_when_full = \"drop\"\n[market_gateway.feed]\nname = \"itch\"\n\
         receive_buffer_bytes = 4194304\n[[market_gateway.feed.lines]]\na = \"{feed}\"\n\
         request = \"{}\"\n[market_gateway.feed.timing]\nreorder_us = 0\ngive_up_ms = 600000\n\
         request_count_max = 50\nrequest_timeout_ms = 20\nrequest_attempts_max = 1000\n",
        requests.socket.local_addr().unwrap()
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut venue = Venue::new(feed, "BURST");
    venue.packets = Some(vec![]);
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    let all = [
        Wanted::new("*", MarketContent::Bbo),
        Wanted::new("*", MarketContent::Levels),
        Wanted { policy: MarketPolicy::Keep, ..Wanted::new("*", MarketContent::Orders) },
    ];
    let mut subscriber = Subscriber::new(addresses(&node)[0], &all);
    let mut day = Day { random: 0x2545_f491_4f6c_dd1d, ..Day::default() };
    // A burst exceeds the ring and the thread behind it; one burst may still get through.
    let begun = Instant::now();
    loop {
        (0..1_500).for_each(|_| day.step(&mut venue, INSTRUMENTS));
        venue.send();
        while received(&node) < venue.sent {
            assert!(begun.elapsed() < HANG, "never all: {}", node.status()["market"]["receive"]);
            // A drop at the end is noticed once the next number is known.
            let heartbeat = venue.writer.heartbeat().to_vec();
            venue.socket.send_to(&heartbeat, feed).unwrap();
            requests.serve(venue.packets.as_deref().unwrap());
            subscriber.poll();
        }
        if ring_dropped(&node) > 0 {
            break;
        }
    }
    let books = &venue.books;
    subscriber.until("its quotes are the books'", |told| has_quotes(told, books, |_| true));
    subscriber.until("its levels", |told| has_levels(told, books, usize::MAX));
    subscriber.until("its orders", |told| has_orders(told, books));
    let market = node.status()["market"].clone();
    assert_eq!(market["receive"]["channels"][0]["lost"], 0, "{market}");
    assert!(requests.answered > 0);
    let metrics = node.get("/metrics").1;
    let line = metrics.lines().find_map(|l| l.strip_prefix("weir_market_ring_dropped_total "));
    assert!(line.unwrap().parse::<u64>().unwrap() > 0);
    let top = weir_at(&node, &["market", "top", "--once"]).output().unwrap();
    assert!(String::from_utf8(top.stdout).unwrap().contains(" at the ring"));
}

#[test]
fn a_full_ring_that_waits_drops_nothing() {
    let (node, _home, feed) = start("stages = \"staged\"\nreceive_ring = 4\n");
    let mut venue = Venue::new(feed, "BURST");
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    settle(&mut venue, &node);
    let mut subscriber =
        Subscriber::new(addresses(&node)[0], &[Wanted::new("*", MarketContent::Levels)]);
    let mut day = Day { random: 0x2545_f491_4f6c_dd1d, ..Day::default() };
    for _ in 0..5 {
        (0..AHEAD_MAX / 2).for_each(|_| day.step(&mut venue, INSTRUMENTS));
        settle(&mut venue, &node);
    }
    let books = &venue.books;
    subscriber.until("its levels", |told| has_levels(told, books, usize::MAX));
    assert_eq!(ring_dropped(&node), 0);
    assert_eq!(node.status()["market"]["receive"]["channels"][0]["lost"], 0);
}
