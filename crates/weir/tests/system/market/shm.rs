//! The ring in shared memory, for strategies on the gateway's machine.

use std::path::{Path, PathBuf};

use weir_client::{MarketRing, RingEvent};
use weir_shm::{Read, Reader};

use super::*;

/// A reader of the ring and everything it received.
struct Strategy {
    ring: MarketRing,
    told: Received,
    opened: u64,
    losses: u64,
    closed: u64,
    /// Instruments whose orders arrived in full since the last loss.
    known: std::collections::HashSet<InstrumentId>,
}

impl Strategy {
    fn new(path: &Path) -> Strategy {
        let ring = MarketRing::new(path);
        let known = Default::default();
        Strategy { ring, told: Received::default(), opened: 0, losses: 0, closed: 0, known }
    }

    fn poll(&mut self) -> usize {
        let Strategy { ring, told, opened, losses, closed, known } = self;
        ring.poll(10_000, |event| match event {
            RingEvent::Opened => {
                *opened += 1;
                (*told, *known) = (Received::default(), Default::default());
            }
            RingEvent::Lost => {
                *losses += 1;
                (*told, *known) = (Received::default(), Default::default());
            }
            RingEvent::Closed => *closed += 1,
            // Changes of orders are useful only after their instrument's full orders.
            RingEvent::Message(MarketMessage::Order(order))
                if !known.contains(&order.instrument_id) => {}
            RingEvent::Message(message) => {
                if let MarketMessage::Orders(orders, _) = message {
                    known.insert(orders.instrument_id);
                }
                told.take(message);
            }
        })
    }

    fn until(&mut self, what: &str, mut is_there: impl FnMut(&Strategy) -> bool) {
        let begun = Instant::now();
        while !is_there(self) {
            assert!(begun.elapsed() < HANG, "never: {what}; {:?}", self.ring.take_failure());
            if self.poll() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn until_equal(&mut self, books: &Books) {
        self.until("its quotes are the books'", |one| has_quotes(&one.told, books, |_| true));
        self.until("its levels", |one| has_levels(&one.told, books, usize::MAX));
        self.until("its orders", |one| has_orders(&one.told, books));
        self.until("its statistics", |one| has_volumes(&one.told, books));
    }
}

/// Returns a directory for a ring, in memory if there is such a file system.
fn folder() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    match shm.is_dir() {
        true => tempfile::tempdir_in(shm).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

fn section(path: &Path) -> String {
    format!(
        "[market_gateway.shm]\npath = {path:?}\nring_bytes = 1048576\nsnapshot_ms = 1\n\
         content = [\"bbo\", \"levels\", \"orders\", \"trades\", \"statistics\", \"status\"]\n"
    )
}

/// Returns a venue with all instruments, and a day in progress.
fn venue_at(feed: SocketAddr, session: &str) -> (Venue, Day) {
    let mut venue = Venue::new(feed, session);
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    (venue, Day { random: 0x2545_f491_4f6c_dd1d, ..Day::default() })
}

fn steps(venue: &mut Venue, day: &mut Day, node: &Node, count: u64) {
    for step in 0..count {
        day.step(venue, INSTRUMENTS);
        if step % (AHEAD_MAX / 2) == 0 {
            settle(venue, node);
        }
    }
    settle(venue, node);
}

/// A client that requests snapshots continuously.
struct RingRequester {
    is_over: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl RingRequester {
    fn new(path: &Path) -> RingRequester {
        let is_over = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
        let (at, until) = (weir_client::market_ring::asks_at(path), is_over.clone());
        let thread = std::thread::spawn(move || {
            let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
            socket.set_nonblocking(true).unwrap();
            while !until.load(std::sync::atomic::Ordering::Relaxed) {
                for word in [&weir_client::market_ring::ASK[..], b"WEIRSNA", b"", &[7; 100]] {
                    // A request that finds no room is one of many.
                    let _ = socket.send_to(word, &at);
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        RingRequester { is_over, thread: Some(thread) }
    }
}

impl Drop for RingRequester {
    fn drop(&mut self) {
        self.is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn who_reads_from_the_beginning_and_who_comes_late_have_the_venues_books() {
    let dir = folder();
    let path = dir.path().join("ring");
    // Room for everything sent while this test does not read.
    let roomy = section(&path).replace("1048576", "67108864");
    let (node, _home, feed) = start(&roomy.replace("snapshot_ms = 1\n", "snapshot_ms = 20\n"));
    let (mut venue, mut day) = venue_at(feed, "DAY");
    settle(&mut venue, &node);
    let mut first = Strategy::new(&path);
    first.until("the ring is open", |one| one.opened == 1);
    let asking = RingRequester::new(&path);
    let snapshots = || node.status()["market"]["shm"]["snapshots"].as_u64().unwrap();
    let begun = Instant::now();
    while snapshots() < 12 {
        assert!(begun.elapsed() < HANG, "{} snapshots", snapshots());
        steps(&mut venue, &mut day, &node, 300);
        while first.poll() > 0 {}
    }
    drop(asking);
    let mut late = Strategy::new(&path);
    late.until_equal(&venue.books);
    first.until_equal(&venue.books);
    steps(&mut venue, &mut day, &node, 500);
    for strategy in [&mut first, &mut late] {
        strategy.until_equal(&venue.books);
        assert_eq!((strategy.opened, strategy.losses, strategy.closed), (1, 0, 0));
    }
    for id in ids() {
        let symbol = symbol_of(u16::try_from(id.0).unwrap());
        assert_eq!(late.ring.instrument(id).unwrap().symbol, symbol, "who comes late is told");
    }
    let trades = u64::try_from(first.told.trades.len()).unwrap();
    assert_eq!(trades, venue.trades, "no trade is told twice or lost");
    let mut sequences: Vec<_> = first.told.trades.iter().map(|(_, at)| *at).collect();
    sequences.dedup();
    assert!(sequences.is_sorted() && sequences.len() == first.told.trades.len());
    let shm = node.status()["market"]["shm"].clone();
    assert!(shm["asks"].as_u64() > shm["snapshots"].as_u64(), "{shm}");
    assert!(shm["records"].as_u64().unwrap() > trades && shm["too_long"] == 0, "{shm}");
    assert!(node.get("/metrics").1.contains("weir_market_shm_records_total"));
    assert!(node.terminate().success());
    first.until("the end", |one| one.closed == 1);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "the lock alone: {left:?}");
}

#[test]
fn a_strategy_that_sleeps_is_told_that_it_lost_messages_and_catches_up_by_snapshots() {
    let dir = folder();
    let path = dir.path().join("ring");
    let (node, _home, feed) = start(&section(&path));
    let (mut venue, mut day) = venue_at(feed, "DAY");
    settle(&mut venue, &node);
    let mut awake = Strategy::new(&path);
    let mut asleep = Strategy::new(&path);
    for strategy in [&mut awake, &mut asleep] {
        strategy.until("some quote", |one| one.opened == 1);
    }
    let told = |node: &Node| node.status()["market"]["shm"]["records"].as_u64().unwrap();
    steps(&mut venue, &mut day, &node, 200);
    asleep.until_equal(&venue.books);
    // A record has at least fifty bytes, so these exceed the ring.
    let begin = told(&node);
    while told(&node) - begin < 40_000 {
        steps(&mut venue, &mut day, &node, 1_000);
        while awake.poll() > 0 {}
    }
    asleep.until("the loss is told", |one| one.losses > 0);
    asleep.until_equal(&venue.books);
    assert!(asleep.ring.lost() > 0);
    awake.until_equal(&venue.books);
    assert_eq!((awake.losses, asleep.closed), (0, 0));
}

/// Runs `weir market watch --shm` as a separate process, which can be killed like any strategy.
fn watch(path: &Path) -> std::process::Child {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["market", "watch", "*", "--content", "bbo,orders", "--shm"]).arg(path);
    command.stdout(std::process::Stdio::null()).spawn().unwrap()
}

#[test]
fn killed_strategies_are_nothing_to_the_gateway_and_a_killed_gateway_is_followed_by_the_next() {
    let dir = folder();
    let path = dir.path().join("ring");
    let (mut node, home, feed) = start(&section(&path));
    let (mut venue, mut day) = venue_at(feed, "DAY");
    settle(&mut venue, &node);
    let mut strategy = Strategy::new(&path);
    let mut sleeper = Reader::open(&path).unwrap();
    for _ in 0..4 {
        let mut children = [watch(&path), watch(&path)];
        steps(&mut venue, &mut day, &node, 300);
        children.iter_mut().for_each(|child| child.kill().unwrap());
        children.iter_mut().for_each(|child| assert!(!child.wait().unwrap().success()));
        steps(&mut venue, &mut day, &node, 300);
        strategy.until_equal(&venue.books);
    }
    assert_eq!(node.status()["market"]["shm"]["too_long"], 0);
    node.kill();
    let mut record = vec![];
    while sleeper.read(&mut record) != Read::Nothing {}
    assert!(!sleeper.has_writer(), "its lock is gone with it");
    strategy.until("the end is told", |one| one.closed == 1);
    assert!(path.exists(), "what it left is there until the next");
    for _ in 0..300 {
        assert_eq!(strategy.poll(), 0);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(strategy.opened, 1, "what nobody writes is not opened");
    // The next gateway takes over the path, and the venue begins its next session.
    let node = home.start();
    let (mut venue, mut day) = venue_at(feed, "NEXT");
    steps(&mut venue, &mut day, &node, 300);
    strategy.until_equal(&venue.books);
    assert_eq!((strategy.opened, strategy.closed), (2, 1));
    drop(node);
}

#[test]
fn two_gateways_do_not_write_one_ring_and_the_command_line_shows_it() {
    let dir = folder();
    let path = dir.path().join("ring");
    let (node, _home, feed) = start(&section(&path));
    let (mut venue, mut day) = venue_at(feed, "DAY");
    steps(&mut venue, &mut day, &node, 100);
    let other = free_udp();
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n{}[market_gateway.feed]\nname = \"itch\"\n\
         [[market_gateway.feed.lines]]\na = \"{other}\"\n",
        section(&path)
    );
    let failed = Home::with_config("os", &config).fail_to_start();
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(said.contains("another process writes there"), "{said}");
    let shown = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["market", "watch"]).args(words).arg("--shm");
        command
    };
    let watched = shown(&["EVEN2", "--content", "levels", "--messages", "1"]);
    let output = { watched }.arg(&path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("EVEN2") && text.contains("bid"), "{text}");
    assert!(!text.contains("ODD1 "), "{text}");
    let nowhere: PathBuf = dir.path().join("nothing");
    let output = shown(&["*"]).arg(nowhere).output().unwrap();
    assert!(!output.status.success());
}
