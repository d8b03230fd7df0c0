//! Arbitrary packets on two lines and as retransmissions, at any times, with any snapshots.
//!
//! Checks that nothing panics, that messages are delivered by increasing number without an
//! unreported gap, and that buffers stay within their limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_feed::line::{Channel, Event, Handler, LateJoin, Line, LineConfig, RequestConfig, Run};
use weir_feed::{Packet, PacketKind};
use weir_fuzz::Recipe;
use weir_types::Nanos;

const HELD_PACKETS_MAX: u32 = 8;

/// The next message to be delivered, and its session.
#[derive(Default)]
struct Model {
    session: Option<u64>,
    next: u64,
}

impl Handler for Model {
    fn deliver(&mut self, run: &Run<'_>) {
        assert_eq!((Some(run.session), run.sequence), (self.session, self.next));
        assert!(run.count > 0);
        self.next += u64::from(run.count);
    }

    fn event(&mut self, _channel: u32, event: &Event) {
        match *event {
            Event::Stale { session, from, to, .. } => {
                assert!(from < to);
                // A report on an ended session does not affect this one.
                if Some(session) == self.session {
                    assert_eq!(from, self.next);
                    self.next = to;
                }
            }
            Event::Session { session } => (self.session, self.next) = (Some(session), 1),
            Event::Joined { next } => self.next = next,
            Event::Gap { from, to } => assert!(from < to && from == self.next),
            Event::Request { sequence, count, .. } => assert!(count > 0 && sequence >= self.next),
            Event::State { from, to } => assert_ne!(from, to),
            Event::EndOfSession { next, .. } => assert_eq!(next, self.next),
        }
    }
}

/// Mostly small numbers, sometimes any.
fn number(recipe: &mut Recipe<'_>) -> u64 {
    let byte = u64::from(recipe.byte());
    if byte < 250 { byte % 50 } else { u64::MAX >> (8 * (byte - 250)) }
}

fuzz_target!(|bytes: &[u8]| {
    let mut recipe = Recipe::new(bytes);
    let options = recipe.byte();
    let request = RequestConfig {
        count_max: u16::from(recipe.byte()),
        interval: Nanos(5),
        timeout: Nanos(20),
        attempts_max: 2,
    };
    let config = LineConfig {
        held_packets_max: HELD_PACKETS_MAX,
        held_bytes_max: 100,
        reorder: Nanos(10),
        give_up: Nanos(100),
        request: (options & 1 == 1).then_some(request),
        gap_messages_max: 1_000,
        late_join: if options & 2 == 2 { LateJoin::FromHere } else { LateJoin::FromStart },
    };
    let (mut channel, mut model) = (Channel::new(0, config), Model { session: None, next: 1 });
    let mut now = 0;
    while !recipe.is_empty() {
        now += u64::from(recipe.byte() % 40);
        let choice = recipe.byte();
        let kind = match choice % 8 {
            0 => PacketKind::Heartbeat,
            1 => PacketKind::EndOfSession,
            2 => PacketKind::Retransmission,
            _ => PacketKind::Data,
        };
        let session = u64::from(choice >> 3) % 3;
        match choice >> 5 {
            0 => channel.tick(Nanos(now), &mut model),
            1 => channel.begin_recovery(&mut model),
            2 if channel.session().is_some() => {
                let next = number(&mut recipe);
                let _is_ours = channel.join(session, next, Nanos(now), &mut model);
            }
            3 => channel.abandon_recovery(Nanos(now), &mut model),
            _ => {
                let is_empty = matches!(kind, PacketKind::Heartbeat | PacketKind::EndOfSession);
                let count = if is_empty { 0 } else { u32::from(recipe.byte() % 20) };
                let sequence = number(&mut recipe);
                let line = Line::ALL[usize::from(recipe.byte()) % 3];
                let messages = &[0; 64][..usize::from(recipe.byte() % 64)];
                let (channel_number, ts_send) = (0, Nanos(now));
                let packet = Packet {
                    channel: channel_number,
                    session,
                    sequence,
                    count,
                    kind,
                    ts_send,
                    stream_offset: (options & 4 == 4).then(|| 2 * sequence.wrapping_sub(1)),
                    messages,
                };
                channel.packet(line, &packet, Nanos(now), &mut model);
            }
        }
        assert_eq!(channel.next(), model.next);
        assert!(channel.held_len() <= HELD_PACKETS_MAX as usize);
        let _when = channel.deadline();
    }
});
