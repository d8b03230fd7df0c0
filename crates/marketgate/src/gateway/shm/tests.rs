//! Tests of the ring's configuration and of its messages.

use weir_client::{MarketRing, RingEvent};
use weir_feed::SymbolText;
use weir_market::conflate::{Bbo, Body, Entry, Stamp};
use weir_types::Qty;
use weir_wire::market::MarketFlags;
use weir_wire::market_dialogue::MarketMessage;

use super::*;

const PAGE: &str = include_str!("../../../../../docs/market.md");

fn on_page() -> ShmSection {
    let begin = PAGE.find("[market_gateway.shm]").expect("the page has it");
    let rest = &PAGE[begin + "[market_gateway.shm]".len()..];
    toml::from_str(&rest[..rest.find("```").expect("it ends")]).expect("it can be read")
}

#[test]
fn the_section_on_the_page_is_good_and_says_the_defaults() {
    let page = on_page();
    page.check().expect("it is good");
    let least: ShmSection = toml::from_str("path = \"/dev/shm/weir-market\"").expect("all else");
    assert_eq!(format!("{page:?}"), format!("{least:?}"));
    let handles: Vec<_> = page.terms(5).iter().map(|one| one.content).collect();
    assert_eq!(handles, [Content::Bbo, Content::Trades, Content::Status]);
}

#[test]
fn what_makes_no_sense_is_refused_by_its_name() {
    type Change = fn(&mut ShmSection);
    let cases: [(&str, Change); 8] = [
        ("market_gateway.shm.ring_bytes", |one| one.ring_bytes = 3 << 20),
        ("market_gateway.shm.ring_bytes", |one| one.ring_bytes = 1 << 19),
        ("market_gateway.shm.mode", |one| one.mode = "755".to_owned()),
        ("market_gateway.shm.mode", |one| one.mode = "rw".to_owned()),
        ("market_gateway.shm.patterns", |one| one.patterns.clear()),
        ("market_gateway.shm.content", |one| one.content.clear()),
        ("market_gateway.shm.depth", |one| one.depth = 0),
        ("market_gateway.shm.snapshot_ms", |one| one.snapshot_ms = 0),
    ];
    for (key, change) in cases {
        let mut section = on_page();
        change(&mut section);
        let error = section.check().expect_err(key).to_string();
        assert!(error.contains(key), "{key}: {error}");
    }
}

const INSTRUMENTS: u32 = 100;

/// A ring with its flush thread's state.
struct Rig {
    _dir: tempfile::TempDir,
    _sockets: weir_io::net::Poll,
    door: ShmDoor,
    fanout: Fanout,
    mirror: Mirror,
    drafts: Drafts,
    probe: FlushProbe,
    ring: MarketRing,
}

impl Rig {
    fn new() -> Rig {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ring");
        let text = format!("path = {path:?}\ncontent = [\"bbo\"]\nsnapshot_ms = 1");
        let section: ShmSection = toml::from_str(&text).expect("a section");
        let mut door = ShmDoor::open(&section, 1_000).expect("it opens");
        let sockets = weir_io::net::Net::System.poll().expect("a poll");
        let mut fanout = Fanout::new(InstrumentId(INSTRUMENTS), 8);
        door.begin(sockets.registry(), Token(1), &mut fanout).expect("it begins");
        for id in 1..=INSTRUMENTS {
            let definition = Definition {
                instrument_id: InstrumentId(id),
                symbol: SymbolText::new(format!("I{id}").as_bytes()).expect("a symbol"),
                round_lot: Qty(100),
                previous_close: None,
            };
            fanout.define(&definition);
        }
        fanout.settle(Nanos(0));
        Rig {
            _dir: dir,
            _sockets: sockets,
            door,
            fanout,
            mirror: Mirror::new(INSTRUMENTS + 1),
            drafts: Drafts::default(),
            probe: FlushProbe::default(),
            ring: MarketRing::new(&path),
        }
    }

    /// Changes the quote of each instrument.
    fn change(&mut self, sequence: u64) {
        for id in 1..=INSTRUMENTS {
            let best = Bbo { bid_sz: Qty(sequence), ..Bbo::default() };
            let stamp = Stamp { sequence, ..Stamp::default() };
            let entry = Entry::change(InstrumentId(id), stamp, Body::Bbo(best));
            self.fanout.apply(Nanos(sequence), &entry);
        }
        let door = &mut self.door;
        self.fanout.take_ready(|subscriber| door.note_ready(subscriber));
    }

    /// Runs one duty cycle of the flush thread.
    fn cycle(&mut self, now: u64) {
        let Rig { door, fanout, mirror, drafts, probe, .. } = self;
        fanout.advance(Nanos(now), 256);
        let (definitions, channels) = (&[][..], &[State::Live][..]);
        let (now, wall) = (Nanos(now), Nanos(now));
        let mut parts =
            RingParts { now, wall, fanout, mirror, definitions, channels, drafts, probe };
        door.tell(&mut parts);
    }

    /// Returns the numbers of new snapshot quotes and changes in the ring.
    fn read(&mut self) -> (usize, usize) {
        let (mut snapshots, mut changes) = (0, 0);
        self.ring.poll(10_000, |event| {
            if let RingEvent::Message(MarketMessage::Quote(quote)) = event {
                let is_snapshot = quote.flags.contains(MarketFlags::SNAPSHOT);
                *(if is_snapshot { &mut snapshots } else { &mut changes }) += 1;
            }
        });
        (snapshots, changes)
    }
}

#[test]
fn a_snapshot_goes_out_in_parts_and_no_change_is_told_twice_meanwhile() {
    let mut rig = Rig::new();
    rig.change(1);
    rig.cycle(1);
    // The ring's reader starts and requests snapshots.
    assert_eq!(rig.read(), (0, 0));
    rig.door.is_readable();
    rig.cycle(2_000_000);
    assert_eq!(rig.read(), (SNAPSHOTS_MAX, 0), "the first part");
    rig.change(2);
    rig.cycle(2_000_001);
    // The changes of the first part are in front of the others' states.
    rig.cycle(2_000_001);
    let rest = INSTRUMENTS as usize - SNAPSHOTS_MAX;
    assert_eq!(rig.read(), (rest, INSTRUMENTS as usize), "the rest, and each change once");
    rig.change(3);
    rig.cycle(2_000_002);
    rig.cycle(2_000_003);
    assert_eq!(rig.read(), (0, INSTRUMENTS as usize));
    let report = rig.door.figures().report().counts;
    assert_eq!((report.asks, report.snapshots, report.too_long), (1, 1, 0));
}

#[test]
fn snapshots_are_told_no_more_often_than_the_section_says() {
    let mut rig = Rig::new();
    rig.change(1);
    rig.cycle(1);
    assert_eq!(rig.read(), (0, 0));
    for at in 0..10 {
        let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        socket.send_to(&ASK, &rig.door.asks_at).expect("it is sent");
        rig.door.is_readable();
        (0..5).for_each(|_| rig.cycle(2_000_000 + at));
    }
    assert_eq!(rig.door.figures().report().counts.snapshots, 1);
    rig.cycle(3_000_000);
    assert_eq!(rig.door.figures().report().counts.snapshots, 2, "what was asked for meanwhile");
    rig.cycle(9_000_000);
    assert_eq!(rig.door.figures().report().counts.snapshots, 2);
}

#[test]
fn a_flood_of_requests_for_snapshots_is_read_in_parts() {
    let mut rig = Rig::new();
    let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
    socket.set_nonblocking(true).expect("it never waits");
    let mut sent = 0;
    // As many as the socket holds, and what is no request counts like one.
    while let Ok(_len) = socket.send_to([&ASK[..], b"x"][sent % 2], &rig.door.asks_at) {
        sent += 1;
        if sent == 2 * ASKS_MAX {
            break;
        }
    }
    rig.door.is_readable();
    rig.cycle(1);
    let asks = rig.door.figures().report().counts.asks;
    assert!(asks as usize <= ASKS_MAX.div_ceil(2), "{asks} of {sent} in one cycle");
    let due = rig.door.next_due(&rig.fanout, Nanos(1));
    assert_eq!(due, Some(Nanos(1)), "the rest is read in the next one");
}
