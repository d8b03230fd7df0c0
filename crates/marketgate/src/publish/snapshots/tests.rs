//! Tests of one client over a real connection, with time under the tests' control; whole nodes are
//! tested elsewhere.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use weir_feed::session_name::Calendar;
use weir_feed::soupbin::{Glimpse, Inbox, Login, Outcome, Reject, SessionEnd, SoupPacket};
use weir_partition::event_reader::EventReader;
use weir_types::PartitionId;

use super::*;

const OURS: MoldSession = MoldSession(*b"10SA000001");
const START: Nanos = Nanos(1_000_000_000);
const HOUR: Nanos = Nanos(3_600_000_000_000);
/// Longer than the system's buffers of a connection.
const LONG: usize = 64 << 20;
const HANG: Duration = Duration::from_secs(60);

fn pair() -> (TcpStream, Client) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    (peer, Client::new(stream, START).unwrap())
}

fn say(peer: &mut TcpStream, packet: &SoupPacket<'_>) {
    let mut bytes = Vec::new();
    assert!(packet.write(&mut bytes));
    peer.write_all(&bytes).unwrap();
}

fn log_in(peer: &mut TcpStream) {
    say(peer, &SoupPacket::LoginRequest(Login::new("firm11", "secret").unwrap()));
}

/// Works until `is_it` accepts a result.
fn until<T>(
    client: &mut Client,
    now: Nanos,
    mut is_it: impl FnMut(Result<CycleOutcome, RemovalReason>) -> Option<T>,
) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = is_it(client.work(&Access::Everybody, Some(OURS), now, HOUR)) {
            return found;
        }
        assert!(begun.elapsed() < HANG, "nothing comes of it");
        std::thread::yield_now();
    }
}

fn logged_in() -> (TcpStream, Client) {
    let (mut peer, mut client) = pair();
    log_in(&mut peer);
    until(&mut client, START, |step| (step == Ok(CycleOutcome::LoggedIn)).then_some(()));
    (peer, client)
}

/// A snapshot of at least `len` bytes, in packets of a hundred bytes, with the closing message.
fn snapshot(len: usize) -> Arc<Vec<u8>> {
    let mut packets = Vec::new();
    while packets.len() < len {
        assert!(SoupPacket::Sequenced(&[b'A'; 97]).write(&mut packets));
    }
    assert!(SoupPacket::Sequenced(b"G                  42").write(&mut packets));
    Arc::new(packets)
}

/// Reads on another thread until the connection ends; returns the type of each packet.
fn reading(mut peer: TcpStream) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (mut kinds, mut inbox, mut bytes) = (Vec::new(), Inbox::new(), vec![0; 1 << 16]);
        while let Ok(len @ 1..) = peer.read(&mut bytes) {
            inbox.push(&bytes[..len]);
            while let Some(packet) = inbox.take() {
                kinds.push(packet[0]);
            }
        }
        assert_eq!(inbox.waiting_len(), 0, "it ends with a whole packet");
        kinds
    })
}

#[test]
fn a_snapshot_is_sent_whole_and_the_client_goes_as_it_likes() {
    let (mut peer, mut client) = logged_in();
    client.give(OURS, snapshot(1 << 20), START);
    let reader = std::thread::spawn(move || {
        let login = Login::new("firm11", "secret").unwrap();
        let (mut glimpse, mut inbox) = (Glimpse::new(login, START), Inbox::new());
        let (mut bytes, mut messages) = ([0; 4_096], 0);
        loop {
            let len = peer.read(&mut bytes).unwrap();
            inbox.push(&bytes[..len]);
            while let Some(packet) = inbox.take() {
                match glimpse.take(packet, START).unwrap() {
                    Outcome::Message(..) => messages += 1,
                    Outcome::Complete { next_sequence } => {
                        say(&mut peer, &SoupPacket::LogoutRequest);
                        return (messages, next_sequence);
                    }
                    Outcome::Nothing | Outcome::Accepted => {}
                }
            }
        }
    });
    assert_eq!(until(&mut client, START, Result::err), RemovalReason::Served);
    assert_eq!(reader.join().unwrap(), ((1 << 20) / 100 + 1, 42));
}

#[test]
fn who_does_not_read_is_let_go_and_waits_until_then_cost_nothing() {
    let (_peer, mut client) = logged_in();
    client.give(OURS, snapshot(LONG), START);
    // Sends as much as the system accepts.
    until(&mut client, START, |step| (step == Ok(CycleOutcome::Did(0))).then_some(()));
    let just = Nanos(START.0 + 9_999_999_999);
    say_alive(&mut client, just);
    let late = Nanos(START.0 + 10_000_000_000);
    assert_eq!(until(&mut client, late, Result::err), RemovalReason::Slow);
}

fn say_alive(client: &mut Client, now: Nanos) {
    let step = client.work(&Access::Everybody, Some(OURS), now, HOUR);
    assert_eq!(step, Ok(CycleOutcome::Did(0)), "it may still read");
}

#[test]
fn who_takes_too_long_for_all_is_let_go_however_little_it_reads_at_a_time() {
    let (_peer, mut client) = logged_in();
    client.give(OURS, snapshot(LONG), START);
    until(&mut client, START, |step| (step == Ok(CycleOutcome::Did(0))).then_some(()));
    let work = |client: &mut Client, timeout| {
        client.work(&Access::Everybody, Some(OURS), Nanos(START.0 + 5_000_000_000), timeout)
    };
    assert_eq!(work(&mut client, Nanos(5_000_000_001)), Ok(CycleOutcome::Did(0)));
    assert_eq!(work(&mut client, Nanos(5_000_000_000)), Err(RemovalReason::Slow));
}

#[test]
fn a_session_that_ends_cuts_a_snapshot_off_behind_a_whole_packet() {
    let (mut peer, mut client) = logged_in();
    client.give(OURS, snapshot(LONG), START);
    until(&mut client, START, |step| (step == Ok(CycleOutcome::Did(0))).then_some(()));
    client.cut_off(START);
    say(&mut peer, &SoupPacket::ClientHeartbeat);
    let reader = reading(peer);
    assert_eq!(until(&mut client, START, Result::err), RemovalReason::CutOff);
    drop(client);
    let kinds = reader.join().unwrap();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), (b'A', b'Z'));
    let messages = kinds.iter().filter(|kind| **kind == b'S').count();
    assert_eq!(messages + 2, kinds.len());
    assert!(messages < LONG / 100, "it was cut off");
}

#[test]
fn who_is_refused_hears_why_whatever_it_has_said_besides() {
    let (mut peer, mut client) = pair();
    let access = Access::Only(Login::new("other", "secret").unwrap());
    log_in(&mut peer);
    for _ in 0..10 {
        say(&mut peer, &SoupPacket::ClientHeartbeat);
    }
    let reader = reading(peer);
    let begun = Instant::now();
    let left = loop {
        match client.work(&access, Some(OURS), START, HOUR) {
            Err(left) => break left,
            Ok(_) => assert!(begun.elapsed() < HANG),
        }
    };
    assert_eq!(left, RemovalReason::Ended(SessionEnd::Refused(Reject::NotAuthorized)));
    drop(client);
    assert_eq!(reader.join().unwrap(), b"J");
}

#[test]
fn a_flood_that_is_no_packet_ends_it() {
    let (mut peer, mut client) = pair();
    peer.write_all(&[0x7f; 2_000]).unwrap();
    let left = until(&mut client, START, Result::err);
    assert_eq!(left, RemovalReason::Ended(SessionEnd::OutOfPlace { kind: 0 }));
}

/// A server on every address of this machine, and what its clients share.
struct Server {
    agent: SnapshotAgent,
    figures: Arc<SnapshotFigures>,
    _dir: tempfile::TempDir,
    _tail: weir_log::TailWriter,
}

fn server(clients_max: usize, per_address_max: usize) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let config = weir_log::TailConfig { segment_words: 64, segments: 2, first_record: 1 };
    let (tail, handle) = weir_log::tail(config);
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let figures = Arc::new(SnapshotFigures::new(listener.local_addr().unwrap()));
    let agent = SnapshotAgent::new(SnapshotParts {
        events: EventPublisherParts {
            partition_id: PartitionId(1),
            events: EventReader::new(&handle, dir.path().to_owned(), 1),
            begins_with: None,
            event_count: 0,
            calendar: Calendar::new(PartitionId(1), 0),
        },
        listener,
        access: Access::Everybody,
        limits: SnapshotLimits { clients_max, per_address_max },
        timeout: HOUR,
        look_interval: LOOK_INTERVAL,
        figures: figures.clone(),
    });
    Server { agent, figures, _dir: dir, _tail: tail }
}

impl Server {
    /// Connects from 127.0.0.`host`, and lets the server accept it.
    fn connect(&mut self, host: u8) -> TcpStream {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let port = self.figures.address().port();
        let address = |last, port| SocketAddr::from(([127, 0, 0, last], port));
        let peer = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&peer, &address(host, 0)).unwrap();
        connect(&peer, &address(1, port)).unwrap();
        self.agent.do_work(START);
        TcpStream::from(peer)
    }

    fn counts(&self) -> figures::SnapshotCounts {
        self.figures.report().counts
    }
}

/// Returns true if the server has closed the connection.
fn is_closed(peer: &mut TcpStream) -> bool {
    peer.set_nonblocking(true).unwrap();
    match peer.read(&mut [0; 64]) {
        Ok(len) => len == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Logs in: without a session its client is refused, and has proved that it is served.
fn is_answered(server: &mut Server, peer: &mut TcpStream) -> bool {
    log_in(peer);
    let begun = Instant::now();
    peer.set_nonblocking(true).unwrap();
    loop {
        server.agent.do_work(START);
        match peer.read(&mut [0; 64]) {
            Ok(len) => return len > 0,
            Err(error) if error.kind() != ErrorKind::WouldBlock => return false,
            Err(_) => assert!(begun.elapsed() < HANG, "no answer comes"),
        }
    }
}

#[test]
fn idle_connections_of_one_address_shut_out_nobody() {
    let mut server = server(4, 3);
    let mut idle: Vec<_> = (0..10).map(|_| server.connect(2)).collect();
    assert_eq!((server.agent.clients.len(), server.counts().displaced), (3, 7));
    assert!(idle[..7].iter_mut().all(is_closed) && !idle[7..].iter_mut().any(is_closed));
    let mut other = server.connect(3);
    assert!(is_answered(&mut server, &mut other), "another address has a place");
    let mut own = server.connect(2);
    assert!(is_answered(&mut server, &mut own), "the newest of its own address too");
    assert_eq!(server.counts().refused_no_room, 0);
}

#[test]
fn a_full_server_loses_the_oldest_stranger_of_the_largest_crowd_and_no_client_with_a_login() {
    let mut server = server(4, 4);
    let mut crowd: Vec<_> = (0..3).map(|_| server.connect(2)).collect();
    let mut single = server.connect(3);
    let mut newcomer = server.connect(4);
    assert!(is_closed(&mut crowd[0]) && !is_closed(&mut single) && !is_closed(&mut newcomer));
    for number in server.agent.clients.iter().map(|seat| seat.number).collect::<Vec<_>>() {
        // As after a login.
        server.agent.strangers.leave(number);
    }
    let mut refused = server.connect(5);
    assert!(is_closed(&mut refused) && !is_closed(&mut crowd[1]) && !is_closed(&mut single));
    assert_eq!((server.counts().displaced, server.counts().refused_no_room), (1, 1));
}

#[test]
fn clients_that_do_not_log_in_are_let_go_in_time() {
    let mut server = server(4, 4);
    let mut idle = server.connect(2);
    server.agent.do_work(Nanos(START.0 + 9_999_999_999));
    assert!(!is_closed(&mut idle));
    server.agent.do_work(Nanos(START.0 + 10_000_000_001));
    assert!(is_closed(&mut idle));
    assert_eq!((server.agent.clients.len(), server.counts().silent), (0, 1));
}
