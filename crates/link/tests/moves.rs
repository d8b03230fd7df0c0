//! A session that moves to another gateway while its link is away: the partition is told that it
//! has not ended before all others are named.

use weir_link::codec::next_message;
use weir_link::gateway_end::{Defined, SessionPoint, WantedBinding};
use weir_link::message::{
    CommandRefused, EpochEnded, LinkOpened, LinkPulse, LinkReady, LogId, Seal, SessionBound,
    SessionUnbound, StageSpans,
};
use weir_link::{GatewayEnd, GatewayTerms, GatewayView, ToGateway, ToPartition};
use weir_types::{Epoch, EventNo, Nanos, PartitionId, SessionId, Switch};
use weir_wire::Message;
use weir_wire::frame::put_frame;

const GATEWAY: SessionId = SessionId(501);
const HERE: PartitionId = PartitionId(1);
const NOW: Nanos = Nanos(1_000_000_000);

/// A gateway whose sessions want new events alone.
struct Quiet;

impl GatewayView for Quiet {
    fn begin_anew(&mut self, _: u64, _: Epoch) {}

    fn resume_point(&mut self, _: SessionId) -> SessionPoint {
        SessionPoint { next_event_no: EventNo::NONE, epoch: Epoch::NONE }
    }

    fn defined(&mut self, _: &Defined<'_>) {}
    fn record(&mut self, _: u64, _: &[u8], _: bool) {}
    fn skipped(&mut self, _: u64, _: u64) {}
    fn epoch_ended(&mut self, _: &EpochEnded) {}
    fn stages(&mut self, _: &StageSpans) {}
    fn bound(&mut self, _: &SessionBound, _: bool) {}
    fn past_records(&mut self, _: SessionId, _: &mut dyn Iterator<Item = u64>) {}
    fn unbound(&mut self, _: &SessionUnbound) {}
    fn refused(&mut self, _: &CommandRefused) {}
    fn other(&mut self, _: &ToGateway<'_>) {}
}

fn receive<M: Message>(end: &mut GatewayEnd, message: &M) {
    let mut frame = Vec::new();
    put_frame(message, &mut frame);
    let arrived = next_message(&frame, NOW).expect("it is a frame").expect("it is whole");
    end.take(arrived, &mut Quiet).expect("it is in place");
}

/// Returns a pulse of the partition that has heard the gateway's of this stamp.
fn heard(heard_sent_at: Nanos) -> LinkPulse {
    LinkPulse {
        sent_at: NOW,
        heard_sent_at,
        heard_at: NOW,
        bytes_used: 0,
        session_id: GATEWAY,
        queued: 0,
        waiting: 0,
        partition_id: HERE,
        load_permille: 0,
    }
}

/// Returns the messages that the end sends when its link is opened.
fn open(end: &mut GatewayEnd) -> Vec<String> {
    end.connected(NOW);
    let opened = LinkOpened {
        incarnation: 1,
        next_record: 9,
        end_record: 9,
        session_id: GATEWAY,
        epoch: Epoch(1),
        lease_ms: 10_000,
        pulse_ms: 1_000,
        commands_max: 8,
        partition_id: HERE,
        is_continued: Switch::Off,
        log_id: LogId([1; 16]),
    };
    receive(end, &opened);
    receive(end, &LinkReady { session_id: GATEWAY, partition_id: HERE });
    let output = end.take_output();
    let (mut rest, mut names) = (&output[..], Vec::new());
    while let Some(arrived) = next_message(rest, NOW).expect("it is a frame") {
        let message = ToPartition::decode(&arrived.raw).expect("the end sends messages");
        names.push(match message {
            ToPartition::UnbindSession(m) => format!("{} {:?}", m.bound_session_id, m.is_ended),
            ToPartition::BindSession(m) => format!("bind {}", m.bound_session_id),
            other => other.name().to_owned(),
        });
        rest = &rest[arrived.len..];
    }
    names
}

#[test]
fn a_session_that_moved_while_the_link_was_away_is_told_before_all_are_named() {
    let terms = GatewayTerms {
        session_id: GATEWAY,
        partition_id: HERE,
        incarnation: 3,
        window_bytes: 1 << 20,
    };
    let mut end = GatewayEnd::new(terms);
    for id in [7, 8, 9] {
        let wanted = WantedBinding {
            session_id: SessionId(id),
            generation: u64::from(id),
            seal: Seal::NONE,
            cancel_on_disconnect: Switch::On,
        };
        end.bind(wanted, &mut Quiet);
    }
    let named = ["OpenLink", "bind 7", "bind 8", "bind 9", "BindingsNamed"];
    assert_eq!(open(&mut end), named);
    end.disconnected();
    end.unbind(SessionId(7), Switch::Off);
    end.unbind(SessionId(8), Switch::On);
    assert_eq!(open(&mut end), ["OpenLink", "bind 9", "7 Off", "BindingsNamed"]);
    end.disconnected();
    // The bytes may have been lost with the link, until a later pulse was heard.
    let told = ["OpenLink", "bind 9", "7 Off", "BindingsNamed"];
    assert_eq!(open(&mut end), told);
    let pulsed_at = Nanos(NOW.0 + 1_000_000_000);
    end.tick(pulsed_at).expect("it is not silent");
    end.disconnected();
    assert_eq!(open(&mut end), told);
    receive(&mut end, &heard(pulsed_at));
    end.disconnected();
    assert_eq!(open(&mut end), told);
    receive(&mut end, &heard(Nanos(pulsed_at.0 + 1)));
    end.disconnected();
    assert_eq!(open(&mut end), ["OpenLink", "bind 9", "BindingsNamed"], "it has arrived");
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_a_forgotten_move_is_found() {
    use weir_link::plant::{self, Plant};
    plant::set(Some(Plant::MoveForgotten));
    let found = std::panic::catch_unwind(
        a_session_that_moved_while_the_link_was_away_is_told_before_all_are_named,
    );
    plant::set(None);
    assert!(found.is_err());
}
