//! Tests of both receivers against a sender on the loopback interface.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use super::super::Datagrams;
use super::*;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 19, 4);

fn on(address: Ipv4Addr) -> Listen {
    Listen {
        address: SocketAddrV4::new(address, 0),
        interface: Ipv4Addr::LOCALHOST,
        receive_buffer: 1 << 20,
        wait: Some(Duration::from_millis(200)),
    }
}

/// Returns the received payloads in order, and checks each datagram's time and sender.
fn receive(source: &mut dyn Datagrams, count: usize, from: SocketAddr) -> Vec<Vec<u8>> {
    let (mut got, mut waits) = (Vec::new(), 0);
    while got.len() < count && waits < 10 {
        let received = source
            .receive(&mut |datagram| {
                assert!(datagram.ts_recv.0 > 1_600_000_000_000_000_000, "a time since 1970");
                assert_eq!(datagram.src, from);
                got.push(datagram.payload.to_vec());
            })
            .expect("it receives");
        waits += u32::from(received == 0);
    }
    got
}

fn check(source: &mut dyn Datagrams, to: SocketAddr) {
    let socket = sender(Ipv4Addr::LOCALHOST, 0).expect("a sender");
    let from = socket.local_addr().expect("its address");
    let sent: Vec<Vec<u8>> = (0..150_u8).map(|index| vec![index; usize::from(index)]).collect();
    for payload in &sent {
        assert_eq!(socket.send_to(payload, to).expect("it sends"), payload.len());
    }
    assert!(receive(source, sent.len(), from) == sent, "others than were sent, or not all");
    let counts = source.counts();
    assert_eq!((counts.datagrams, counts.cut), (150, 0));
    assert_eq!(counts.bytes, sent.iter().map(|payload| payload.len() as u64).sum::<u64>());
    assert!(counts.calls > 0 && counts.calls <= 150);
    assert!(counts.kernel_drops.is_none_or(|drops| drops == 0));
    assert_eq!(source.receive(&mut |_| panic!("nothing more was sent")).expect("it waits"), 0);
}

#[test]
fn datagrams_come_in_their_order_with_sender_and_time_by_either_receiver() {
    for address in [Ipv4Addr::LOCALHOST, GROUP] {
        let mut plain = PlainReceiver::open(&on(address)).expect("it listens");
        let to = plain.address();
        check(&mut plain, to);
        let mut batch = BatchReceiver::open(&on(address)).expect("it listens");
        let to = batch.address();
        check(&mut batch, to);
    }
}

#[test]
fn what_the_kernel_had_no_room_for_is_counted() {
    let small = Listen { receive_buffer: 4_096, ..on(Ipv4Addr::LOCALHOST) };
    let mut batch = BatchReceiver::open(&small).expect("it listens");
    let socket = sender(Ipv4Addr::LOCALHOST, 0).expect("a sender");
    let send = || socket.send_to(&[1; 1_000], batch.address()).expect("it sends");
    (0..100).for_each(|_| assert_eq!(send(), 1_000));
    let mut received = 0;
    while batch.receive(&mut |_| received += 1).expect("it receives") > 0 {}
    assert!((1..100).contains(&received));
    // The count is delivered with the next datagram.
    assert_eq!(socket.send_to(b"last", batch.address()).expect("it sends"), 4);
    assert_eq!(batch.receive(&mut |_| received += 1).expect("it receives"), 1);
    assert_eq!(batch.counts().kernel_drops, Some(101 - received));
}

#[test]
fn a_datagram_that_is_longer_than_its_memory_is_cut_and_counted() {
    let mut batch = BatchReceiver::open(&on(Ipv4Addr::LOCALHOST)).expect("it listens");
    let socket = sender(Ipv4Addr::LOCALHOST, 0).expect("a sender");
    assert_eq!(socket.send_to(&[1; 20_000], batch.address()).expect("it sends"), 20_000);
    let mut lens = Vec::new();
    assert_eq!(batch.receive(&mut |datagram| lens.push(datagram.payload.len())).unwrap(), 1);
    assert_eq!((lens, batch.counts().cut), (vec![10_240], 1));
}

#[test]
fn a_group_has_many_listeners_and_an_address_of_the_machine_has_one() {
    let group = Ipv4Addr::new(239, 77, 21, 1);
    for (address, is_shared) in [(group, true), (Ipv4Addr::LOCALHOST, false)] {
        let first = listen(&on(address)).expect("it opens");
        let SocketAddr::V4(taken) = first.local_addr().expect("it is bound") else { panic!() };
        let second = listen(&Listen { address: taken, ..on(address) });
        let refused = second.err().map(|error| error.kind());
        let want = (!is_shared).then_some(io::ErrorKind::AddrInUse);
        assert_eq!(refused, want, "{address}");
    }
}
