//! Captures and day files: a receiver's books equal the books of the file, whether it reads the
//! file or receives its datagrams again.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_cli::tools::replay::{ReplayPlan, replay};
use weir_feed::capture::Datagram;
use weir_feed::feed_by_name;
use weir_feed::line::Line;
use weir_marketgate::capture::{CaptureFile, CaptureWriter, Speed};
use weir_marketgate::gateway::file_books::FileBooks;
use weir_marketgate::receiver::{FeedSection, Receiver};
use weir_marketgate::udp::sender;
use weir_types::Nanos;

use crate::data::data;
use crate::day::Day;
use crate::lobster_itch::Datagrams;
use crate::market::Market;
use crate::rig::{MILLISECOND, SECOND, address_of, own_group};

const A: &str = "239.77.20.5:26477";
const B: &str = "239.77.20.6:26477";

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Writes a day on two lines: a datagram each millisecond, every tenth on one line only.
fn capture(day: &Day, path: &Path) {
    let mut packed = Datagrams::new("DAY1", 1_400);
    day.messages.iter().for_each(|message| packed.push(message));
    let mut writer = CaptureWriter::create(path).expect("a new file");
    for (number, payload) in (0_u64..).zip(&packed.end()) {
        for (line, dst) in [A, B].into_iter().enumerate() {
            if number % 10 != line as u64 {
                let (src, dst) = (socket("10.0.0.1:9"), socket(dst));
                let ts_recv = Nanos(SECOND + number * MILLISECOND + line as u64);
                writer.write(&Datagram { ts_recv, src, dst, payload }).expect("it is written");
            }
        }
    }
    writer.finish().expect("it ends");
}

/// Builds a file's books as `weir book --capture` does.
fn built(path: &Path, feed: &str, pairs: &[(SocketAddr, SocketAddr)]) -> FileBooks {
    let file = CaptureFile::open(path).expect("it is there");
    let entry = feed_by_name(feed).expect("it is known");
    let mut books = FileBooks::open(entry, file, pairs).expect("it is a file of the feed");
    assert!(books.read().is_none());
    books
}

fn section(text: &str) -> FeedSection {
    FeedSection::parse(text).expect("a configuration")
}

/// Polls until the file ends.
fn read(receiver: &mut Receiver, market: &mut Market) {
    while !receiver.is_over() {
        receiver.poll(Nanos(SECOND), market);
    }
    assert!(receiver.file_problem().is_none());
}

fn nothing() -> Rc<Day> {
    Rc::new(Day::default())
}

fn assert_same(market: &Market, receiver: &Receiver, books: &FileBooks) {
    assert_eq!(market.books.digest_all(), books.books().digest_all());
    let counts = receiver.decode_counts();
    let want = books.counts();
    assert_eq!((counts.messages, counts.updates), (want.messages, want.updates));
    assert_eq!(market.books.anomalies(), books.books().anomalies());
    assert!(want.messages > 1_000, "{want:?}");
}

fn made_up(dir: &Path) -> (PathBuf, Rc<Day>) {
    let (path, day) = (dir.join("a.pcap"), Day::made_up(11, 2_000, 2));
    capture(&day, &path);
    (path, Rc::new(day))
}

#[test]
fn a_capture_on_two_lines_gives_the_book_of_every_row() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, day) = made_up(dir.path());
    let text = format!(
        "name = \"itch\"\n[[lines]]\na = \"{A}@127.0.0.1\"\nb = \"{B}@127.0.0.1\"\n\
         [capture]\nfile = {path:?}\n"
    );
    let mut receiver = Receiver::open(&section(&text)).expect("it opens");
    let mut market = Market::new(Rc::clone(&day));
    read(&mut receiver, &mut market);
    let rows: usize = day.rows.values().map(Vec::len).sum();
    assert_eq!((market.right, market.wrong, market.is_marked), (rows, 0, false));
    assert_same(&market, &receiver, &built(&path, "itch", &[(socket(A), socket(B))]));
    assert_eq!(receiver.capture_counts().expect("it is a file").elsewhere, 0);
}

#[test]
fn a_capture_without_lines_gives_what_its_groups_give_each_for_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, _) = made_up(dir.path());
    let text = format!("name = \"itch\"\n[capture]\nfile = {path:?}\n");
    let mut receiver = Receiver::open(&section(&text)).expect("it opens");
    let mut market = Counting::default();
    while !receiver.is_over() {
        receiver.poll(Nanos(SECOND), &mut market);
    }
    let books = built(&path, "itch", &[]);
    assert_eq!(market.updates, books.counts().updates);
    assert_eq!(receiver.channels().count(), 2);
    let lost: u64 = receiver.channels().map(|channel| channel.counts.lost).sum();
    assert_eq!(lost, books.counts().lost);
}

/// Counts updates of any channel.
#[derive(Default)]
struct Counting {
    updates: u64,
}

impl weir_marketgate::receiver::Output for Counting {
    fn define(&mut self, _: &weir_marketgate::receiver::Origin, _: &weir_feed::Definition) {}
    fn update(&mut self, _: &weir_marketgate::receiver::Origin, _: weir_feed::Update) {
        self.updates += 1;
    }
    fn channel(
        &mut self,
        _: weir_marketgate::receiver::ChannelKey,
        _: &weir_marketgate::receiver::ChannelEvent,
    ) {
    }
    fn end_of_packet(&mut self, _: &weir_marketgate::receiver::Origin) {}
}

#[test]
fn a_capture_is_taken_at_its_pace_or_a_multiple_of_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, day) = made_up(dir.path());
    for (speed, times) in [("1", 1), ("4", 4)] {
        let text = format!(
            "name = \"itch\"\n[[lines]]\na = \"{A}@127.0.0.1\"\nb = \"{B}@127.0.0.1\"\n\
             [capture]\nfile = {path:?}\nspeed = \"{speed}\"\n"
        );
        let mut receiver = Receiver::open(&section(&text)).expect("it opens");
        let mut market = Market::new(Rc::clone(&day));
        let start = 77 * SECOND;
        let mut clock = start;
        let mut taken = 0;
        while !receiver.is_over() {
            receiver.poll(Nanos(clock), &mut market);
            let counts = receiver.capture_counts().expect("it is a file");
            // The number due: one per millisecond and line, at this multiple of the speed.
            let due = ((clock - start) * times / MILLISECOND + 1) * 2;
            assert!(counts.datagrams <= due, "{} came and {due} are due", counts.datagrams);
            taken = counts.datagrams;
            let next = receiver.deadline().map_or(clock, |at| at.0);
            assert!(receiver.is_over() || next >= clock);
            clock = next.max(clock + MILLISECOND / 10);
        }
        assert!(taken > 10 && market.wrong == 0 && !market.is_marked);
        assert!(clock - start >= (taken / 2 - 2) * MILLISECOND / times);
    }
}

#[test]
fn a_day_file_gives_the_book_of_every_row() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, day) = (dir.path().join("day.bin"), Rc::new(Day::made_up(12, 1_500, 2)));
    let mut bytes = Vec::new();
    for message in &day.messages {
        bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
        bytes.extend_from_slice(message);
    }
    std::fs::write(&path, bytes).expect("it is written");
    let text = format!("name = \"itch\"\n[capture]\nfile = {path:?}\n");
    let mut receiver = Receiver::open(&section(&text)).expect("it opens");
    let mut market = Market::new(Rc::clone(&day));
    read(&mut receiver, &mut market);
    let rows: usize = day.rows.values().map(Vec::len).sum();
    assert_eq!((market.right, market.wrong), (rows, 0));
    assert_same(&market, &receiver, &built(&path, "itch", &[]));
}

#[test]
fn a_day_file_of_a_feed_that_has_none_and_a_file_that_is_not_there_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("day.bin");
    let text = format!("name = \"iex-deep\"\n[capture]\nfile = {path:?}\n");
    let refused = |text: &str| Receiver::open(&section(text)).expect_err("no feed").to_string();
    assert!(refused(&text).contains("feed.capture.file"), "{}", refused(&text));
    std::fs::write(&path, b"\0\x02ab").expect("it is written");
    assert!(refused(&text).contains("day file"), "{}", refused(&text));
}

#[test]
fn a_damaged_capture_is_taken_up_to_the_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, day) = made_up(dir.path());
    let mut bytes = std::fs::read(&path).expect("it is there");
    bytes.truncate(bytes.len() - 7);
    std::fs::write(&path, bytes).expect("it is written");
    let text = format!(
        "name = \"itch\"\n[[lines]]\na = \"{A}@127.0.0.1\"\nb = \"{B}@127.0.0.1\"\n\
         [capture]\nfile = {path:?}\n"
    );
    let mut receiver = Receiver::open(&section(&text)).expect("it opens");
    let mut market = Market::new(Rc::clone(&day));
    while !receiver.is_over() {
        receiver.poll(Nanos(SECOND), &mut market);
    }
    assert!(receiver.file_problem().is_some());
    assert!(market.right > 1_000 && market.wrong == 0);
}

/// Sends a capture's datagrams of one group again, and receives them from a socket.
fn sent_again(path: &Path, feed: &str, group: Option<SocketAddr>, want: &FileBooks) {
    let text = format!(
        "name = \"{feed}\"\nsilence_ms = 0\n[[lines]]\na = \"{}\"\n\
         [timing]\ngive_up_ms = 60000\n",
        own_group()
    );
    let mut receiver = Receiver::open(&section(&text)).expect("it opens");
    let to = address_of(&receiver, Line::A);
    let mut market = Market::new(nothing());
    let mut file = CaptureFile::open(path).expect("it is there");
    let socket = sender(Ipv4Addr::LOCALHOST, 0).expect("a sender");
    // Faster than recorded, and slow enough for any socket's buffer.
    let speed = Speed::Times(20.0);
    let plan = ReplayPlan { to, group, speed, loss_millionths: 0, seed: 0 };
    let limit = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| replay(&mut file, &socket, &plan));
        let received = |receiver: &Receiver| {
            receiver.sockets().map(|(_, socket)| socket.counts.received.datagrams).sum::<u64>()
        };
        let mut sent = None;
        let mut sending = Some(sending);
        while sent.is_none_or(|sent| received(&receiver) < sent) {
            let now = weir_io::Clock::now(&weir_io::SystemClock);
            if receiver.poll(now, &mut market) == 0 {
                std::thread::yield_now();
            }
            if sending.as_ref().is_some_and(std::thread::ScopedJoinHandle::is_finished) {
                let (report, error) =
                    sending.take().expect("it is there").join().expect("it sends");
                assert!(error.is_none() && report.refused == 0);
                sent = Some(report.sent);
            }
            assert!(Instant::now() < limit, "what was sent did not come");
        }
    });
    assert_same(&market, &receiver, want);
}

#[test]
fn a_capture_that_is_sent_again_gives_the_books_of_the_capture() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.pcap");
    let day = Day::made_up(13, 3_000, 2);
    let mut packed = Datagrams::new("DAY1", 1_400);
    day.messages.iter().for_each(|message| packed.push(message));
    let mut writer = CaptureWriter::create(&path).expect("a new file");
    for (number, payload) in (0_u64..).zip(&packed.end()) {
        let ts_recv = Nanos(SECOND + number * 4 * MILLISECOND);
        let (src, dst) = (socket("10.0.0.1:9"), socket(A));
        writer.write(&Datagram { ts_recv, src, dst, payload }).expect("it is written");
    }
    writer.finish().expect("it ends");
    sent_again(&path, "itch", None, &built(&path, "itch", &[]));
}

#[test]
fn a_real_capture_read_by_a_receiver_gives_the_books_of_the_capture() {
    let Some(path) = data("iex/TOPS16.pcapng.gz") else { return };
    let text = format!("name = \"iex-tops\"\n[capture]\nfile = {path:?}\n");
    let mut receiver = Receiver::open(&section(&text)).expect("it opens");
    let mut market = Market::new(nothing());
    read(&mut receiver, &mut market);
    assert_same(&market, &receiver, &built(&path, "iex-tops", &[]));
}
