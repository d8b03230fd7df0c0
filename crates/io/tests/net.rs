//! The network contract: the same scripts on the operating system's sockets and on the simulated
//! network; and the simulated network's own promises.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use weir_io::net::sim::{NetFaults, SimNet};
use weir_io::net::{Event, Events, Listener, Net, Poll, Stream, Token, Waker};
use weir_io::{Rng, SeededRng};

const LISTENER: Token = Token(7);
const OURS: Token = Token(1);
const WAKER: Token = Token(99);
/// The address of the connecting side in the simulation.
const CLIENT: &str = "10.0.0.9:40000";

/// Generates one test per network from a check that is generic over networks.
macro_rules! on_every_network {
    ($($name:ident => $check:ident;)*) => {$(
        mod $name {
            #[test]
            fn of_the_system() {
                super::$check(&mut super::Rig::new(weir_io::net::Net::System));
            }
            #[test]
            fn simulated() {
                let net = weir_io::net::sim::SimNet::new(1);
                super::$check(&mut super::Rig::new(weir_io::net::Net::Simulated(net)));
            }
        }
    )*};
}

on_every_network! {
    a_waiting_connection_is_reported_and_accepted_once => check_accept;
    a_registration_reports_what_is_ready_and_only_once => check_registration;
    every_arrival_is_an_event_read_or_not => check_arrivals;
    a_full_stream_is_writable_again_when_its_peer_has_read => check_full;
    a_half_closed_stream_still_goes_the_other_way => check_half_close;
    bytes_before_a_close_are_read_before_the_end => check_close;
    a_close_with_unread_bytes_resets_the_peer => check_reset;
    a_write_to_a_closed_peer_fails_in_the_end => check_write_to_closed;
    a_wake_is_not_lost_and_wakes_add_up => check_waker;
    a_stream_that_left_the_poll_raises_no_event => check_deregister;
    a_connection_to_nobody_is_refused => check_refused;
    events_beyond_the_lists_room_come_by_the_next_polls => check_small_list;
    an_end_of_stream_is_an_event_behind_unread_bytes => check_end_behind_bytes;
    a_peer_that_left_before_the_registration_is_reported_by_it => check_left_before;
    a_reset_leaves_the_bytes_before_it_to_be_read => check_bytes_before_reset;
    an_end_that_is_shut_takes_no_more_bytes => check_shut;
    an_empty_write_sends_nothing_and_an_empty_read_takes_nothing => check_empty;
    a_token_is_free_once_its_stream_is_dropped => check_token_again;
    several_connections_wait_behind_one_event => check_crowd;
    a_listener_that_is_dropped_resets_the_connections_that_wait => check_dropped_listener;
    a_stream_outlives_the_poll_that_it_was_registered_with => check_second_poll;
}

/// A network with a listening socket and a poll.
struct Rig {
    net: Net,
    poll: Poll,
    events: Events,
    listener: Listener,
    address: SocketAddr,
}

impl Rig {
    fn new(net: Net) -> Rig {
        let poll = net.poll().unwrap();
        let (listener, address) = match &net {
            Net::System => {
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap();
                (Listener::from_std(listener).unwrap(), address)
            }
            Net::Simulated(sim) => {
                let address = "10.0.0.1:7001".parse().unwrap();
                (Listener::Simulated(sim.listen(address)), address)
            }
        };
        Rig { net, poll, events: Events::with_capacity(64), listener, address }
    }

    fn connect_to(&self, address: SocketAddr) -> std::io::Result<Stream> {
        match &self.net {
            Net::System => {
                let stream = std::net::TcpStream::connect(address)?;
                stream.set_nonblocking(true)?;
                Ok(mio::net::TcpStream::from_std(stream).into())
            }
            Net::Simulated(sim) => {
                sim.connect(CLIENT.parse().unwrap(), address).map(Stream::Simulated)
            }
        }
    }

    /// Returns both ends of a stream: the one that connected, and the one that was accepted.
    fn pair(&mut self) -> (Stream, Stream) {
        let theirs = self.connect_to(self.address).unwrap();
        loop {
            match self.listener.accept() {
                Ok((ours, _)) => return (ours, theirs),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    /// Returns both ends; the accepted one is registered, and its first event is taken.
    fn registered_pair(&mut self) -> (Stream, Stream) {
        let (mut ours, theirs) = self.pair();
        self.poll.registry().register(&mut ours, OURS).unwrap();
        self.wait_for(|event| event.is_writable);
        (ours, theirs)
    }

    fn poll_once(&mut self, timeout: Duration) -> Vec<Event> {
        if let Net::Simulated(sim) = &self.net {
            sim.advance();
        }
        self.poll.poll(&mut self.events, Some(timeout)).unwrap();
        self.events.iter().collect()
    }

    /// Polls until an event that satisfies `is_wanted`, and returns it.
    fn wait_for(&mut self, is_wanted: impl Fn(&Event) -> bool) -> Event {
        for _ in 0..500 {
            let events = self.poll_once(Duration::from_millis(10));
            if let Some(event) = events.into_iter().find(&is_wanted) {
                return event;
            }
        }
        panic!("the event never came");
    }

    fn expect_silence(&mut self) {
        for _ in 0..3 {
            assert_eq!(self.poll_once(Duration::from_millis(10)), []);
        }
    }
}

/// Reads until the stream would block or has ended; true if it has ended.
fn drain(stream: &mut Stream, into: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut room = [0; 1_000];
    loop {
        match stream.read(&mut room) {
            Ok(0) => return Ok(true),
            Ok(len) => into.extend_from_slice(&room[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

fn check_accept(rig: &mut Rig) {
    rig.poll.registry().register_listener(&mut rig.listener, LISTENER).unwrap();
    rig.expect_silence();
    for _ in 0..2 {
        let stream = rig.connect_to(rig.address).unwrap();
        assert_eq!(stream.peer_addr(), Some(rig.address));
        let event = rig.wait_for(|event| event.token == LISTENER);
        assert!(event.is_readable && !event.is_read_closed);
        rig.expect_silence();
        let (ours, peer) = rig.listener.accept().unwrap();
        let from = match &stream {
            Stream::Tcp(stream) => stream.local_addr().unwrap(),
            _ => CLIENT.parse().unwrap(),
        };
        assert_eq!((peer, ours.peer_addr()), (from, Some(from)));
        assert_eq!(rig.listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

fn check_registration(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.pair();
    theirs.write_all(b"before").unwrap();
    rig.poll.registry().register(&mut ours, OURS).unwrap();
    let event = rig.wait_for(|event| event.is_readable);
    assert!(event.is_writable && event.token == OURS);
    rig.expect_silence();
}

fn check_arrivals(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    let mut read = Vec::new();
    assert!(!drain(&mut ours, &mut read).unwrap());
    for part in [b"one, ", b"two, "] {
        theirs.write_all(part).unwrap();
        rig.wait_for(|event| event.is_readable);
        rig.expect_silence();
    }
    assert!(!drain(&mut ours, &mut read).unwrap());
    assert_eq!(read, b"one, two, ");
    rig.expect_silence();
    theirs.write_all(b"three").unwrap();
    rig.wait_for(|event| event.is_readable);
}

fn check_full(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    let mut written = 0_usize;
    let full = loop {
        match ours.write(&[(written % 251) as u8]) {
            Ok(len) => written += len,
            Err(error) => break error.kind(),
        }
        if written.is_multiple_of(4_096) {
            // One byte at a time would take long to fill a system's buffers.
            let chunk: Vec<u8> = (written..written + 4_096).map(|at| (at % 251) as u8).collect();
            written += ours.write(&chunk).unwrap_or(0);
        }
    };
    assert_eq!(full, ErrorKind::WouldBlock);
    rig.expect_silence();
    let mut read = Vec::new();
    for _ in 0..500 {
        assert!(!drain(&mut theirs, &mut read).unwrap());
        if rig.poll_once(Duration::from_millis(10)).iter().any(|event| event.is_writable) {
            assert_eq!(ours.write(b"x").unwrap(), 1);
            let is_right = read.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8);
            assert!(is_right && read.len() <= written);
            return;
        }
    }
    panic!("the stream never became writable again");
}

fn check_half_close(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    theirs.write_all(b"last").unwrap();
    theirs.shutdown_write().unwrap();
    let event = rig.wait_for(|event| event.is_read_closed);
    assert!(event.is_readable);
    let mut read = Vec::new();
    while !drain(&mut ours, &mut read).unwrap() {}
    assert_eq!(read, b"last");
    ours.write_all(b"an answer").unwrap();
    let mut answer = Vec::new();
    while answer.len() < 9 {
        assert!(!drain(&mut theirs, &mut answer).unwrap());
    }
    assert_eq!(answer, b"an answer");
}

fn check_close(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    theirs.write_all(b"goodbye").unwrap();
    drop(theirs);
    rig.wait_for(|event| event.is_read_closed);
    let mut read = Vec::new();
    assert!(drain(&mut ours, &mut read).unwrap());
    assert_eq!(read, b"goodbye");
    assert_eq!(ours.read(&mut [0]).unwrap(), 0, "the end stays the end");
}

fn check_reset(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    ours.write_all(b"never read").unwrap();
    // The bytes are there before the close.
    while theirs.read(&mut [0; 1]).is_err() {}
    drop(theirs);
    let event = rig.wait_for(|event| event.is_read_closed);
    assert!(event.is_readable && event.is_writable);
    assert_eq!(ours.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(ours.read(&mut [0]).unwrap(), 0, "the error is reported once");
    assert_eq!(ours.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}

fn check_write_to_closed(rig: &mut Rig) {
    let (mut ours, theirs) = rig.registered_pair();
    drop(theirs);
    rig.wait_for(|event| event.is_read_closed);
    assert_eq!(ours.write(b"first").unwrap(), 5, "the close of one side is no error of the other");
    rig.wait_for(|event| event.is_read_closed && event.is_writable);
    let error = ours.write(b"second").unwrap_err();
    let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
    assert!(kinds.contains(&error.kind()), "{error}");
}

fn check_waker(rig: &mut Rig) {
    let waker = rig.poll.waker(WAKER).unwrap();
    rig.expect_silence();
    waker.wake().unwrap();
    waker.wake().unwrap();
    let events = rig.poll_once(Duration::from_millis(10));
    assert_eq!(events.iter().map(|event| event.token).collect::<Vec<_>>(), [WAKER]);
    rig.expect_silence();
    std::thread::scope(|scope| {
        scope.spawn(|| waker.wake().unwrap());
        // A simulated poll does not wait for the thread; one of the system without a time does.
        while matches!(rig.net, Net::Simulated(_)) && !is_due(&waker) {}
        rig.poll.poll(&mut rig.events, None).unwrap();
    });
    let tokens: Vec<_> = rig.events.iter().map(|event| event.token).collect();
    assert_eq!(tokens, [WAKER]);
}

/// True if a wait in a simulated poll would end at once.
fn is_due(waker: &Waker) -> bool {
    matches!(waker, Waker::Simulated(waker) if waker.ends_wait())
}

fn check_deregister(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    theirs.write_all(b"unseen").unwrap();
    rig.poll.registry().deregister(&mut ours).unwrap();
    theirs.write_all(b"unseen").unwrap();
    rig.expect_silence();
    rig.poll.registry().register(&mut ours, Token(5)).unwrap();
    let event = rig.wait_for(|event| event.is_readable);
    assert_eq!(event.token, Token(5));
}

fn check_refused(rig: &mut Rig) {
    let nobody = match &rig.net {
        // Bound and not listened on: no other test gets the port.
        Net::System => {
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            "127.0.0.1:1".parse().unwrap()
        }
        Net::Simulated(_) => "10.0.0.2:7001".parse().unwrap(),
    };
    assert_eq!(rig.connect_to(nobody).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

fn check_small_list(rig: &mut Rig) {
    let pairs: Vec<_> = (0..5).map(|_| rig.pair()).collect();
    let mut ours = Vec::new();
    for (at, (mut stream, mut theirs)) in pairs.into_iter().enumerate() {
        theirs.write_all(b"ready").unwrap();
        rig.poll.registry().register(&mut stream, Token(at)).unwrap();
        ours.push((stream, theirs));
    }
    rig.events = Events::with_capacity(2);
    let mut seen = Vec::new();
    for _ in 0..500 {
        let events = rig.poll_once(Duration::from_millis(10));
        assert!(events.len() <= 2, "more than the list has room for");
        seen.extend(events.iter().filter(|event| event.is_readable).map(|event| event.token.0));
        let all: std::collections::BTreeSet<_> = seen.iter().copied().collect();
        if all.len() == ours.len() {
            return;
        }
    }
    panic!("an event was lost: {seen:?}");
}

fn check_end_behind_bytes(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    theirs.write_all(b"unread").unwrap();
    let event = rig.wait_for(|event| event.is_readable);
    assert!(!event.is_read_closed);
    rig.expect_silence();
    theirs.shutdown_write().unwrap();
    rig.wait_for(|event| event.is_read_closed);
    rig.expect_silence();
    let mut room = [0; 4];
    for part in [&b"unre"[..], b"ad", b""] {
        let len = ours.read(&mut room).unwrap();
        assert_eq!(&room[..len], part);
    }
}

fn check_left_before(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.pair();
    theirs.write_all(b"gone").unwrap();
    drop(theirs);
    rig.expect_silence();
    rig.poll.registry().register(&mut ours, OURS).unwrap();
    let event = rig.wait_for(|event| event.token == OURS);
    assert!(event.is_readable && event.is_writable && event.is_read_closed);
}

fn check_bytes_before_reset(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    ours.write_all(b"never read").unwrap();
    while theirs.read(&mut [0; 1]).is_err() {}
    theirs.write_all(b"last words").unwrap();
    rig.wait_for(|event| event.is_readable);
    drop(theirs);
    rig.wait_for(|event| event.is_read_closed);
    let mut room = [0; 100];
    assert_eq!(ours.read(&mut room).unwrap(), 10);
    assert_eq!(&room[..10], b"last words");
    assert_eq!(ours.read(&mut room).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(ours.shutdown_write().unwrap_err().kind(), ErrorKind::NotConnected);
}

fn check_shut(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    ours.shutdown_write().unwrap();
    ours.shutdown_write().unwrap();
    assert_eq!(ours.write(b"late").unwrap_err().kind(), ErrorKind::BrokenPipe);
    theirs.write_all(b"still heard").unwrap();
    rig.wait_for(|event| event.is_readable);
    let mut read = Vec::new();
    assert!(!drain(&mut ours, &mut read).unwrap());
    assert_eq!(read, b"still heard");
    // Both sides have ended: the stream is over for the poll too.
    theirs.shutdown_write().unwrap();
    let event = rig.wait_for(|event| event.is_read_closed);
    assert!(event.is_readable);
    assert!(drain(&mut ours, &mut read).unwrap());
}

fn check_empty(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    assert_eq!(ours.read(&mut []).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(ours.write(&[]).unwrap(), 0);
    rig.expect_silence();
    assert_eq!(theirs.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    theirs.write_all(b"x").unwrap();
    rig.wait_for(|event| event.is_readable);
    assert_eq!(ours.read(&mut []).unwrap(), 0);
    assert_eq!(ours.read(&mut [0; 2]).unwrap(), 1);
}

fn check_token_again(rig: &mut Rig) {
    let (ours, mut theirs) = rig.registered_pair();
    theirs.write_all(b"to the first").unwrap();
    // The first's event is due and not taken.
    drop(ours);
    let (mut second, _second_theirs) = rig.pair();
    rig.poll.registry().register(&mut second, OURS).unwrap();
    let events = rig.poll_once(Duration::from_secs(10));
    let [event] = events[..] else { panic!("one socket, one event: {events:?}") };
    assert!(
        event.token == OURS && event.is_writable && !event.is_readable && !event.is_read_closed
    );
    let _ = theirs.write(b"to the first");
    rig.expect_silence();
}

fn check_crowd(rig: &mut Rig) {
    let mut theirs = vec![rig.connect_to(rig.address).unwrap()];
    rig.poll.registry().register_listener(&mut rig.listener, LISTENER).unwrap();
    rig.wait_for(|event| event.token == LISTENER && event.is_readable);
    theirs.extend([0; 2].map(|_| rig.connect_to(rig.address).unwrap()));
    rig.wait_for(|event| event.token == LISTENER && event.is_readable);
    rig.expect_silence();
    for (at, stream) in (0..).zip(&mut theirs) {
        stream.write_all(&[at]).unwrap();
    }
    for at in 0..3 {
        let (mut ours, _) = rig.listener.accept().unwrap();
        let mut read = Vec::new();
        while read.is_empty() {
            assert!(!drain(&mut ours, &mut read).unwrap());
        }
        assert_eq!(read, [at], "the first that came is the first accepted");
    }
    assert_eq!(rig.listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

fn check_dropped_listener(rig: &mut Rig) {
    let mut theirs = rig.connect_to(rig.address).unwrap();
    rig.listener = match &rig.net {
        Net::System => {
            let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            Listener::from_std(other).unwrap()
        }
        Net::Simulated(sim) => Listener::Simulated(sim.listen("10.0.0.1:7002".parse().unwrap())),
    };
    rig.poll.registry().register(&mut theirs, OURS).unwrap();
    rig.wait_for(|event| event.is_read_closed);
    assert_eq!(theirs.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(rig.connect_to(rig.address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

fn check_second_poll(rig: &mut Rig) {
    let (mut ours, mut theirs) = rig.registered_pair();
    rig.poll.registry().deregister(&mut ours).unwrap();
    rig.poll = rig.net.poll().unwrap();
    rig.poll.registry().register(&mut ours, Token(3)).unwrap();
    rig.wait_for(|event| event.token == Token(3) && event.is_writable);
    theirs.write_all(b"here").unwrap();
    rig.wait_for(|event| event.token == Token(3) && event.is_readable);
}

const FAULTS: NetFaults = NetFaults {
    buffer_len_max: 700,
    delay_ticks_max: 5,
    short_reads_per_mille: 300,
    short_writes_per_mille: 300,
    resets_per_myriad: 20,
    refusals_per_mille: 50,
    spurious_per_mille: 200,
};

/// Sends bytes over faulty streams, one after another; returns a summary of everything seen.
fn exchange(seed: u64) -> (Vec<String>, SimNet) {
    let net = SimNet::new(seed);
    net.set_faults(FAULTS);
    let mut rig = Rig::new(Net::Simulated(net.clone()));
    let mut rng = SeededRng::new(seed, "test");
    let mut trace = Vec::new();
    for _ in 0..20 {
        let Ok(mut theirs) = rig.connect_to(rig.address) else {
            trace.push("refused".to_owned());
            continue;
        };
        let mut ours = rig.listener.accept().unwrap().0;
        rig.poll.registry().register(&mut ours, OURS).unwrap();
        let (mut sent, mut read) = (0_usize, Vec::new());
        let is_whole = loop {
            let wanted = rng.below(400) as usize;
            let bytes: Vec<u8> = (sent..sent + wanted).map(|at| (at % 251) as u8).collect();
            if sent < 20_000 {
                sent += theirs.write(&bytes).unwrap_or(0);
            } else {
                let _ = theirs.shutdown_write();
            }
            let events = rig.poll_once(Duration::ZERO);
            trace.push(format!("{events:?}"));
            if events.iter().any(|event| event.is_readable) {
                match drain(&mut ours, &mut read) {
                    Ok(false) => {}
                    Ok(true) => break true,
                    Err(_) => break false,
                }
            }
        };
        assert!(read.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
        assert!(if is_whole { read.len() == sent } else { read.len() <= sent });
        trace.push(format!("{is_whole} {sent} {}", read.len()));
    }
    (trace, net)
}

#[test]
fn a_seed_decides_every_fault_and_bytes_come_in_order_up_to_a_reset() {
    let mut counts = Vec::new();
    for seed in 1..6 {
        let (trace, net) = exchange(seed);
        assert_eq!(trace, exchange(seed).0, "seed {seed}");
        counts.push(net.counts());
    }
    for (what, count) in [
        ("resets", counts.iter().map(|c| c.resets).sum::<u64>()),
        ("refusals", counts.iter().map(|c| c.refusals).sum()),
        ("blocked writes", counts.iter().map(|c| c.blocked_writes).sum()),
        ("spurious events", counts.iter().map(|c| c.spurious).sum()),
    ] {
        assert!(count > 0, "no {what}");
    }
    assert_ne!(exchange(1).0, exchange(2).0);
}

#[test]
fn a_machine_that_is_off_says_nothing_and_resets_old_streams_when_it_is_back() {
    let net = SimNet::new(3);
    let mut rig = Rig::new(Net::Simulated(net.clone()));
    let (ours, mut theirs) = rig.pair();
    net.lose_machine(rig.address);
    drop(ours);
    let address = rig.address;
    drop(rig);
    assert_eq!(theirs.write(b"nobody hears").unwrap(), 12);
    for _ in 0..10 {
        net.advance();
        assert_eq!(theirs.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    let _listener = net.listen(address);
    net.advance();
    assert_eq!(theirs.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn an_end_that_vanished_says_nothing_and_another_machine_does_not_bring_it_back() {
    let net = SimNet::new(3);
    let mut rig = Rig::new(Net::Simulated(net.clone()));
    let (mut ours, mut theirs) = rig.pair();
    let Stream::Simulated(end) = &ours else { panic!("of the system") };
    end.vanish();
    assert_eq!(ours.write(b"unheard").unwrap(), 7);
    drop(ours);
    let _elsewhere = net.listen("10.0.0.3:7001".parse().unwrap());
    assert_eq!(theirs.write(b"nobody hears").unwrap(), 12);
    for _ in 0..10 {
        net.advance();
        assert_eq!(theirs.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn the_bytes_that_a_short_read_leaves_are_reported_again() {
    let net = SimNet::new(5);
    net.set_faults(NetFaults { short_reads_per_mille: 1_000, ..NetFaults::default() });
    let mut rig = Rig::new(Net::Simulated(net));
    let (mut ours, mut theirs) = rig.registered_pair();
    let sent: Vec<u8> = (0..200).collect();
    theirs.write_all(&sent).unwrap();
    let mut read = Vec::new();
    // A read that returns less than it has room for has emptied the stream, as in the system.
    while read.len() < sent.len() {
        rig.wait_for(|event| event.is_readable);
        let mut room = [0; 1_000];
        let len = ours.read(&mut room).unwrap();
        read.extend_from_slice(&room[..len]);
    }
    assert_eq!(read, sent);
}
