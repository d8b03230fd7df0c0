//! Messages of random fields to both ends: each is an error at most, and never a panic.
//!
//! The links are open, so that most messages have a place, and most bytes are small, so that
//! numbers, lengths and counts are plausible now and then. A fault closes the link, which is opened
//! again, as by a peer that lies and comes back.

use weir_link::codec::next_message;
use weir_link::gateway_end::{Defined, SessionPoint, WantedBinding};
use weir_link::grants::Grant;
use weir_link::message::{
    AskRecords, BindSession, BindingsNamed, CommandBatch, CommandRefused, EpochEnded, EventBatch,
    FirmFollowed, FollowFirm, LinkOpened, LinkPulse, LinkReady, LinkedCommand, LinkedEvent, LogId,
    OldRecord, OldRecords, OpenLink, RecordNo, Seal, SessionBound, SessionFirm, SessionFirms,
    SessionRecords, SessionUnbound, StageBatch, StageSpans, UnbindSession,
};
use weir_link::partition_end::SessionPosition;
use weir_link::{
    GatewayEnd, GatewayTerms, GatewayView, PartitionEnd, PartitionTerms, PartitionView, ToGateway,
};
use weir_types::{
    ClOrdId, Epoch, EventNo, InstrumentId, Nanos, OrderId, PartitionId, Position, RequestNo,
    SessionId, Switch,
};
use weir_wire::event::RequestDone;
use weir_wire::frame::{put_frame, put_frame_with};
use weir_wire::group::put_data;
use weir_wire::order_entry::CancelOrder;
use weir_wire::reference::DefineInstrument;
use weir_wire::{Command, Event, Message, PlainEvent, Request, SCHEMA_ID, SCHEMA_VERSION};

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

    /// Returns a frame of one of these messages.
    fn frame(&mut self, shapes: &[Shape]) -> Vec<u8> {
        let Shape { template_id, block_length, rest } =
            shapes[self.below(shapes.len() as u64) as usize];
        let mut frame = Vec::new();
        put_frame_with(&mut frame, |out| {
            for word in [block_length as u16, template_id, SCHEMA_ID, SCHEMA_VERSION] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend((0..block_length).map(|_| self.byte()));
            let (Rest::Group(len) | Rest::Batch(len)) = rest else { return };
            let count = self.below(3);
            for word in [len as u16, count as u16] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            for _ in 0..count {
                out.extend((0..len).map(|_| self.byte()));
                if let Rest::Batch(_) = rest {
                    put_data(&self.record(), out);
                }
            }
        });
        // Some are cut, or longer than they say.
        if self.below(20) == 0 {
            frame.truncate(frame.len() - self.below(9) as usize);
        }
        frame
    }

    /// Returns a request of a session, or an event addressed to it, or other bytes.
    fn record(&mut self) -> Vec<u8> {
        let mut record = Vec::new();
        let (session_id, number) = (SessionId(self.below(4) as u32), self.below(4));
        match self.below(5) {
            0 => record.extend((0..self.below(40)).map(|_| self.byte())),
            1 | 2 => Command::Request(Request::CancelOrder(CancelOrder {
                request_no: RequestNo(number),
                cl_ord_id: ClOrdId::NONE,
                orig_cl_ord_id: ClOrdId::NONE,
                order_id: OrderId(9),
                sending_time: Nanos(0),
                session_id,
                instrument_id: InstrumentId(1),
            }))
            .encode(&mut record),
            _ => Event::Plain(PlainEvent::RequestDone(RequestDone {
                position: Position(number),
                event_no: EventNo(number),
                request_no: RequestNo(number),
                transact_time: Nanos(0),
                cl_ord_id: ClOrdId::NONE,
                affected_count: 0,
                session_id,
                partition_id: HERE,
                ref_template_id: 0,
                ..RequestDone::NOTHING_TOLD
            }))
            .encode(&mut record),
        }
        record
    }
}

/// The part of a message behind its block.
#[derive(Clone, Copy)]
enum Rest {
    None,
    /// A group with entries of this length.
    Group(usize),
    /// The same, with a data field behind each entry.
    Batch(usize),
}

/// A kind of message.
#[derive(Clone, Copy)]
struct Shape {
    template_id: u16,
    block_length: usize,
    rest: Rest,
}

fn shape<M: Message>(rest: Rest) -> Shape {
    Shape { template_id: M::TEMPLATE_ID, block_length: M::BLOCK_LENGTH, rest }
}

fn group<M: Message, E: Message>() -> Shape {
    shape::<M>(Rest::Group(E::BLOCK_LENGTH))
}

fn batch<M: Message, E: Message>() -> Shape {
    shape::<M>(Rest::Batch(E::BLOCK_LENGTH))
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

/// Returns the messages by which a gateway opens its link.
fn frames_of_a_gateway() -> [Vec<u8>; 3] {
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
    [framed(&open), framed(&bind), framed(&named)]
}

fn shapes_of_a_gateway() -> Vec<Shape> {
    vec![
        shape::<OpenLink>(Rest::None),
        shape::<BindSession>(Rest::None),
        shape::<BindSession>(Rest::None),
        shape::<BindingsNamed>(Rest::None),
        shape::<UnbindSession>(Rest::None),
        shape::<LinkPulse>(Rest::None),
        shape::<FollowFirm>(Rest::None),
        group::<AskRecords, RecordNo>(),
        batch::<CommandBatch, LinkedCommand>(),
        batch::<CommandBatch, LinkedCommand>(),
    ]
}

/// Returns the messages by which a partition opens a link.
fn frames_of_a_partition() -> [Vec<u8>; 2] {
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
    [framed(&opened), framed(&ready)]
}

fn shapes_of_a_partition() -> Vec<Shape> {
    vec![
        shape::<LinkOpened>(Rest::None),
        shape::<LinkReady>(Rest::None),
        shape::<SessionBound>(Rest::None),
        shape::<SessionBound>(Rest::None),
        shape::<SessionUnbound>(Rest::None),
        shape::<CommandRefused>(Rest::None),
        shape::<EpochEnded>(Rest::None),
        shape::<LinkPulse>(Rest::None),
        shape::<FirmFollowed>(Rest::None),
        shape::<DefineInstrument>(Rest::None),
        group::<SessionFirms, SessionFirm>(),
        group::<SessionRecords, RecordNo>(),
        group::<StageBatch, StageSpans>(),
        batch::<EventBatch, LinkedEvent>(),
        batch::<OldRecords, OldRecord>(),
    ]
}

#[test]
fn a_partitions_end_survives_each_gateway() {
    let (opening, shapes) = (frames_of_a_gateway(), shapes_of_a_gateway());
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
            let frame = random.frame(&shapes);
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
    let (opening, shapes) = (frames_of_a_partition(), shapes_of_a_partition());
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
            let frame = random.frame(&shapes);
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
