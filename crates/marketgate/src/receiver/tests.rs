//! Tests of the times that input without a kernel's stamp gets while the wall clock is elsewhere.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use weir_feed::itch::encode::{AddOrder, Header, stock};
use weir_feed::soupbin::SoupPacket;
use weir_feed::soupbin::glimpse::end_of_snapshot;
use weir_feed::{Definition, Update};
use weir_types::WallOffset;

use super::*;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// The poller's time at the start.
const BEGIN: u64 = 20_700 * DAY;
/// The wall clock is ahead by this.
const AHEAD: u64 = DAY + 2 * 3_600 * SECOND;
const SESSION: &[u8; 10] = b"       123";
const HANG: Duration = Duration::from_secs(60);

/// Keeps the updates with their origins.
#[derive(Default)]
struct UpdateLog(Vec<(Origin, Update)>);

impl Output for UpdateLog {
    fn define(&mut self, _origin: &Origin, _definition: &Definition) {}
    fn update(&mut self, origin: &Origin, update: Update) {
        self.0.push((*origin, update));
    }
    fn channel(&mut self, _channel: ChannelKey, _event: &ChannelEvent) {}
    fn end_of_packet(&mut self, _origin: &Origin) {}
}

/// An order of instrument 1, added at a nanosecond after midnight.
pub(crate) fn add(order_reference: u64) -> Vec<u8> {
    let header = Header { stock_locate: 1, tracking_number: 0, timestamp: 1 };
    let stock = stock("ACME").expect("a symbol");
    let add = AddOrder { order_reference, side: b'B', shares: 5, stock, price: 10_000 };
    add.to_bytes(&header).to_vec()
}

/// A packet of MoldUDP64 with one message.
pub(crate) fn packet(sequence: u64, message: &[u8]) -> Vec<u8> {
    let len = u16::try_from(message.len()).expect("a message is short");
    let count = 1_u16.to_be_bytes();
    [SESSION, &sequence.to_be_bytes()[..], &count, &len.to_be_bytes(), message].concat()
}

/// Serves one client: accepts its login, sends the messages, and waits until it leaves.
fn serve(messages: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it listens");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut bytes = [0; 512];
        assert!(stream.read(&mut bytes).expect("a login") > 0);
        let mut reply = Vec::new();
        let accepted = SoupPacket::LoginAccepted { session: *SESSION, sequence: 1 };
        assert!(accepted.write(&mut reply));
        for message in &messages {
            assert!(SoupPacket::Sequenced(message).write(&mut reply));
        }
        stream.write_all(&reply).expect("it is sent");
        while stream.read(&mut bytes).is_ok_and(|len| len > 0) {}
    });
    address
}

/// A receiver, with a password for its server, and the wall clock ahead of its time.
struct Rig {
    receiver: Receiver,
    told: UpdateLog,
    now: Nanos,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn new(text: &str) -> Rig {
        let dir = tempfile::tempdir().expect("a directory");
        let password = dir.path().join("password");
        weir_io::durable::write_file(&password, b"secret", 0o600).expect("it is written");
        let text = text.replace("LOGIN", &format!("username='weir'\npassword_file={password:?}"));
        let section = FeedSection::parse(&text).expect("a configuration");
        let mut receiver = Receiver::open(&section).expect("it opens");
        receiver.wall_clock_moved(WallOffset::between(Nanos(BEGIN), Nanos(BEGIN + AHEAD)));
        Rig { receiver, told: UpdateLog::default(), now: Nanos(BEGIN), _dir: dir }
    }

    /// Polls, a microsecond later each time, until `is_so` holds.
    fn until(&mut self, is_so: impl Fn(&Rig) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < HANG, "{:?}", self.receiver);
            self.now.0 += 1_000;
            self.receiver.poll(self.now, &mut self.told);
            std::thread::yield_now();
        }
    }
}

/// Asserts that an origin has the wall clock as its receive time and the poller's time beside it.
fn assert_stamped(origin: &Origin, rig: &Rig) {
    assert!((BEGIN..=rig.now.0).contains(&origin.ts_poll.0), "{origin:?}");
    assert_eq!(origin.ts_recv.0, origin.ts_poll.0 + AHEAD, "{origin:?}");
}

#[test]
fn a_message_of_a_connection_is_received_by_the_wall_clock_and_on_its_day() {
    let address = serve(vec![add(1)]);
    let text = format!("name='itch'\nutc_offset='Z'\n[tcp]\naddress='{address}'\nLOGIN");
    let mut rig = Rig::new(&text);
    rig.until(|rig| !rig.told.0.is_empty());
    let (origin, update) = rig.told.0[0];
    assert_stamped(&origin, &rig);
    assert_eq!(update.ts_event, Nanos(BEGIN + DAY + 1), "the session began on the next day");
}

#[test]
fn a_snapshot_of_the_market_is_received_by_the_wall_clock() {
    let address = serve(vec![add(1), end_of_snapshot(6).to_vec()]);
    let glimpse = format!("address='{address}'\nlead_ms=0\nLOGIN");
    let text = format!("name='itch'\n[[lines]]\na='127.0.0.1:0'\n[lines.glimpse]\n{glimpse}");
    let mut rig = Rig::new(&text);
    let line = rig.receiver.sockets().next().expect("a line").1.address;
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a sender");
    for sequence in [1, 5] {
        let packet = packet(sequence, &add(sequence));
        assert_eq!(sender.send_to(&packet, line).expect("it is sent"), packet.len());
    }
    rig.until(|rig| {
        rig.receiver.sockets().all(|(_, socket)| socket.counts.received.datagrams == 2)
    });
    // The hole is given up: a snapshot is requested.
    rig.now.0 += 10 * SECOND;
    rig.until(|rig| rig.receiver.snapshots().any(|(_, counts)| counts.joined == 1));
    let of_snapshot = rig.told.0.iter().filter(|(origin, _)| origin.is_snapshot);
    let origins: Vec<_> = of_snapshot.map(|(origin, _)| origin).collect();
    assert_eq!(origins.len(), 1);
    assert_stamped(origins[0], &rig);
}
