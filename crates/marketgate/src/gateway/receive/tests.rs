//! Tests of the receiving thread's clocks.

use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::Instant;

use super::super::post::AuditedStage;
use super::*;
use crate::post::audit::{AuditRecord, audit_queue};
use crate::receiver::FeedSection;
use crate::receiver::tests::{add, packet};

const SECOND: u64 = 1_000_000_000;
const BEGIN: Nanos = Nanos(1_700_000_000 * SECOND);
/// The wall clock is ahead by this.
const AHEAD: u64 = 26 * 3_600 * SECOND;

/// Tells the origins of updates.
struct OriginSender(mpsc::Sender<Origin>);

impl Output for OriginSender {
    fn define(&mut self, _origin: &Origin, _definition: &Definition) {}
    fn update(&mut self, origin: &Origin, _update: Update) {
        self.0.send(*origin).expect("the test listens");
    }
    fn channel(&mut self, _channel: ChannelKey, _event: &ChannelEvent) {}
    fn end_of_packet(&mut self, _origin: &Origin) {}
}

impl Stage for OriginSender {
    fn turn(&mut self, _now: Nanos) -> usize {
        0
    }
    fn has_room(&mut self) -> bool {
        true
    }
    fn next_due(&self) -> Option<Nanos> {
        None
    }
}

#[test]
fn polls_in_an_audit_and_messages_that_a_timer_releases_have_the_wall_clock() {
    let text = "name='itch'\n[[lines]]\na='127.0.0.1:0'";
    let section = FeedSection::parse(text).expect("a configuration");
    let receiver = Receiver::open(&section).expect("it opens");
    let line = receiver.sockets().next().expect("a line").1.address;
    let (audit, mut audited) = audit_queue(1 << 16, 3);
    let (told, origins) = mpsc::channel();
    let stage = AuditedStage::new(OriginSender(told), Some(audit));
    let mut agent = ReceiveAgent::new(receiver, stage, Arc::default()).expect("a poller");
    agent.wall_clock_moved(WallOffset::between(BEGIN, Nanos(BEGIN.0 + AHEAD)));
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a sender");
    for sequence in [1, 3] {
        let packet = packet(sequence, &add(sequence));
        assert_eq!(sender.send_to(&packet, line).expect("it is sent"), packet.len());
    }
    let (mut polled, begun) = (Vec::new(), Instant::now());
    while polled.len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{polled:?}");
        agent.do_work(BEGIN);
        audited.take(2, &mut |record| match record {
            AuditRecord::Datagram(it) => polled.push(it.polled),
            AuditRecord::Gap(gap) => panic!("{gap:?}"),
        });
    }
    assert_eq!(polled, [Nanos(BEGIN.0 + AHEAD); 2]);
    assert_eq!(origins.try_iter().count(), 1, "the other waits behind a hole");
    let later = Nanos(BEGIN.0 + 10 * SECOND);
    agent.do_work(later);
    let times = origins.try_iter().map(|origin| (origin.ts_recv, origin.ts_poll));
    assert!(times.eq([(Nanos(later.0 + AHEAD), later)]));
}
