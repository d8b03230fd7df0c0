//! Messages of random fields to both ends: each is an error at most, and never a panic.
//!
//! The links are open, so that most messages have a place, and most bytes are small, so that
//! numbers, lengths and counts are plausible now and then. A fault closes the link, which is opened
//! again, as by a peer that lies and comes back.

#![expect(clippy::unwrap_used, reason = "a test")]

use weir_link::codec::next_message;
use weir_link::gateway_end::{Defined, SessionPoint, WantedBinding};
use weir_link::grants::Grant;
use weir_link::message::{
    BindSession, BindingsNamed, CommandRefused, EpochEnded, LinkOpened, LinkReady, LogId, OpenLink,
    Seal, SessionBound, SessionUnbound, StageSpans,
};
use weir_link::partition_end::SessionPosition;
use weir_link::{
    GatewayEnd, GatewayTerms, GatewayView, PartitionEnd, PartitionTerms, PartitionView, ToGateway,
};
use weir_types::{Epoch, EventNo, Nanos, PartitionId, Position, RequestNo, SessionId, Switch};
use weir_wire::Message;
use weir_wire::frame::{put_frame, put_frame_with};
use weir_wire::{SCHEMA_ID, SCHEMA_VERSION};

const HERE: PartitionId = PartitionId(1);
const GATEWAY: SessionId = SessionId(5);
const SEEDS: u64 = 2_000;
const MESSAGES: u32 = 60;
const MS: u64 = 1_000_000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Returns a byte: zero, small, full or any.
    fn byte(&mut self) -> u8 {
        match self.below(8) {
            0..4 => 0,
            4..6 => self.below(8) as u8,
            6 => 0xff,
            _ => self.below(256) as u8,
        }
    }

    /// Returns a frame of a message of a link, or of an instrument's definition.
    fn frame(&mut self) -> Vec<u8> {
        let template_id = if self.below(20) == 0 { 20 } else { 130 + self.below(26) as u16 };
        let (block_length, rest) = (10 + self.below(70) as u16, self.below(60));
        let mut frame = Vec::new();
        put_frame_with(&mut frame, |out| {
            for word in [block_length, template_id, SCHEMA_ID, SCHEMA_VERSION] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend((0..u64::from(block_length) + rest).map(|_| self.byte()));
        });
        frame
    }
}

/// A partition with five records, none of which is at hand.
struct Five;

impl PartitionView for Five {
    fn end_record(&self) -> u64 {
        6
    }

    fn epoch(&self) -> Epoch {
        Epoch(2)
    }

    fn epoch_end(&self, epoch: Epoch, record: u64) -> Option<(Position, Epoch)> {
        (epoch == Epoch(1) && record > 3).then_some((Position(3), Epoch(2)))
    }

    fn continues(&self, next_record: u64, epoch: Epoch) -> bool {
        (1..=6).contains(&next_record) && epoch == Epoch(2)
    }

    fn record(&mut self, _: u64, _: &mut Vec<u8>) -> bool {
        false
    }

    fn session(&self, id: SessionId, _: EventNo, _: Epoch) -> Option<SessionPosition> {
        let position = SessionPosition {
            last_request_no: RequestNo(2),
            next_event_no: EventNo(3),
            oldest_event_no: EventNo(1),
            refusal: None,
        };
        (id.0 < 300).then_some(position)
    }

    fn record_of(&self, _: SessionId, _: EventNo) -> u64 {
        6
    }

    fn past_records(&self, _: SessionId, _: EventNo, _: u64) -> Vec<u64> {
        vec![1, 2]
    }

    fn is_granted(&self, _: &Grant) -> bool {
        true
    }

    fn is_trader(&self, _: SessionId) -> bool {
        true
    }
}

struct Quiet;

impl GatewayView for Quiet {
    fn begin_anew(&mut self, _: u64, _: Epoch) {}

    fn resume_point(&mut self, _: SessionId) -> SessionPoint {
        SessionPoint { next_event_no: EventNo(1), epoch: Epoch(1) }
    }

    fn defined(&mut self, _: &Defined<'_>) {}
    fn record(&mut self, _: u64, _: &[u8], _: bool) {}
    fn skipped(&mut self, _: u64, _: u64) {}
    fn epoch_ended(&mut self, _: &EpochEnded) {}
    fn stages(&mut self, _: &StageSpans) {}
    fn bound(&mut self, _: &SessionBound, _: bool) {}
    fn past_records(&mut self, _: SessionId, records: &mut dyn Iterator<Item = u64>) {
        records.for_each(drop);
    }
    fn unbound(&mut self, _: &SessionUnbound) {}
    fn refused(&mut self, _: &CommandRefused) {}
    fn other(&mut self, _: &ToGateway<'_>) {}
}

fn framed<M: Message>(message: &M) -> Vec<u8> {
    let mut frame = Vec::new();
    put_frame(message, &mut frame);
    frame
}

#[test]
fn a_partitions_end_survives_each_gateway() {
    let open = OpenLink {
        incarnation: 7,
        next_record: 0,
        window_bytes: 1 << 20,
        session_id: GATEWAY,
        epoch: Epoch::NONE,
        partition_id: HERE,
        log_id: LogId([1; 16]),
    };
    let named = BindingsNamed { session_id: GATEWAY, count: 1, partition_id: HERE };
    let bind = BindSession {
        generation: 3,
        next_event_no: EventNo(1),
        seal: Seal::NONE,
        session_id: GATEWAY,
        bound_session_id: SessionId(0),
        epoch: Epoch(2),
        partition_id: HERE,
        cancel_on_disconnect: Switch::On,
        is_check: Switch::Off,
        is_again: Switch::Off,
    };
    let opening = [framed(&open), framed(&bind), framed(&named)];
    let mut taken = 0;
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let terms = PartitionTerms {
            partition_id: HERE,
            log_id: LogId([1; 16]),
            incarnation: 1,
            lease: Nanos(100 * MS),
            pulse: Nanos(20 * MS),
            commands_max: 4,
        };
        let mut end = PartitionEnd::new(terms, [SessionId(1)]);
        let mut now = Nanos(MS);
        for _ in 0..MESSAGES {
            now = Nanos(now.0 + random.below(9 * MS));
            if end.connected_as(GATEWAY).is_none() {
                for frame in &opening {
                    let arrived = next_message(frame, now).unwrap().expect("it is whole");
                    end.take(GATEWAY, arrived, &mut Five).unwrap();
                }
            }
            let frame = random.frame();
            let Ok(Some(arrived)) = next_message(&frame, now) else { continue };
            match end.take(GATEWAY, arrived, &mut Five) {
                Ok(()) => taken += 1,
                Err(_) => end.disconnected(GATEWAY),
            }
            end.tick(now);
            end.pump(GATEWAY, &mut Five, now);
            end.take_output(GATEWAY);
            if random.below(3) == 0 {
                end.command_taken();
            }
        }
    }
    assert!(taken > SEEDS, "{taken} messages had a place");
}

#[test]
fn a_gateways_end_survives_each_partition() {
    let opened = LinkOpened {
        incarnation: 1,
        next_record: 1,
        end_record: 1,
        session_id: GATEWAY,
        epoch: Epoch(1),
        lease_ms: 100,
        pulse_ms: 20,
        commands_max: 8,
        partition_id: HERE,
        is_continued: Switch::Off,
        log_id: LogId([1; 16]),
    };
    let ready = LinkReady { session_id: GATEWAY, partition_id: HERE };
    let opening = [framed(&opened), framed(&ready)];
    let mut taken = 0;
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let terms = GatewayTerms {
            session_id: GATEWAY,
            partition_id: HERE,
            incarnation: 7,
            window_bytes: 1 << 20,
        };
        let mut end = GatewayEnd::new(terms);
        let (mut now, mut is_connected) = (Nanos(MS), false);
        for _ in 0..MESSAGES {
            now = Nanos(now.0 + random.below(9 * MS));
            if !is_connected {
                end.connected(now);
                for frame in &opening[..random.below(3) as usize] {
                    let arrived = next_message(frame, now).unwrap().expect("it is whole");
                    end.take(arrived, &mut Quiet).unwrap();
                }
                is_connected = true;
            }
            if random.below(4) == 0 {
                let wanted = WantedBinding {
                    session_id: SessionId(random.below(4) as u32),
                    generation: random.below(4),
                    seal: Seal::NONE,
                    cancel_on_disconnect: Switch::On,
                };
                end.bind(wanted, &mut Quiet);
            }
            let frame = random.frame();
            let Ok(Some(arrived)) = next_message(&frame, now) else { continue };
            let result = end.take(arrived, &mut Quiet);
            taken += u64::from(result.is_ok());
            end.use_bytes(random.below(1 << 10), now);
            end.flush(now);
            let is_silent = end.tick(now).is_err();
            end.take_output();
            if result.is_err() || is_silent {
                end.disconnected();
                is_connected = false;
            }
            end.has_lapsed(now);
        }
    }
    assert!(taken > SEEDS, "{taken} messages had a place");
}
