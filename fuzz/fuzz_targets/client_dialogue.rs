//! Arbitrary bytes as a node's messages to a client: to sessions with either kind of key, the
//! follower and the reader of copies.
//!
//! Checks that the client refuses or handles any message of a node without a panic; and that a
//! session signs once for each challenge that it requested, and nothing else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_client::drop_copy::{Beginning, DropCopy};
use weir_client::source::{BatchStream, SourceConfig, SourceMessage};
use weir_client::{Follower, FollowerConfig, Session, SessionConfig, SessionEvent, SigningKey};
use weir_fuzz::shaped_stream;
use weir_types::{Epoch, FirmId, Nanos, PartitionId, SessionId};
use weir_wire::frame::{Framing, next_frame};
use weir_wire::ingest::BatchFlags;
use weir_wire::session::ApiKey;
use weir_wire::{ClientMessage, NodeMessage};

const FRAME_LEN_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let mut session = Session::new(SessionConfig::new(SessionId(1), ApiKey([1; 32])));
    let mut follower = Follower::new(FollowerConfig::new(SessionId(1)), Vec::new());
    let mut copies = DropCopy::new(SessionId(1), FirmId::NONE, Beginning::Oldest, &[]);
    copies.ask(PartitionId(1), &mut Vec::new());
    let key = SigningKey::from_seed([1; 32]);
    let mut signing = Session::new(SessionConfig::new(SessionId(1), key));
    let config = SourceConfig::full(SessionId(1), PartitionId(1), Epoch(1));
    let mut feed = BatchStream::new(config);
    for _ in 0..3 {
        feed.push(&[], BatchFlags::default(), Nanos(1)).expect("there is room");
    }
    let mut out = Vec::new();
    session.put_logon(Nanos(1), &mut out);
    signing.put_logon(Nanos(1), &mut out);
    let mut is_challenge_due = true;
    follower.ask(&mut out);

    let stream = shaped_stream(bytes);
    let mut rest = stream.as_slice();
    while let Framing::Frame { len, message: Ok(raw) } = next_frame(rest, FRAME_LEN_MAX) {
        rest = &rest[len..];
        let Ok(message) = NodeMessage::decode(&raw) else { continue };
        out.clear();
        match &message {
            NodeMessage::OrderPage(page, token) => {
                let _ = follower.on_page(page, token, &mut out);
            }
            NodeMessage::OrderPageBody(body, rows) => {
                let _ = follower.on_rows(body, rows.clone(), |_| {});
            }
            NodeMessage::SourceStates(states, sources) => {
                let _ = follower.on_sources(states, sources.clone());
            }
            NodeMessage::DropCopyState(state) => {
                let _ = copies.on_state(state);
                copies.ask(state.partition_id, &mut out);
            }
            NodeMessage::ReportCopy(head) => {
                let _ = copies.on_copy(head);
            }
            NodeMessage::CopyMark(mark) => {
                let _ = copies.on_mark(mark);
            }
            NodeMessage::SourceOpened(m) => feed_hears(&mut feed, SourceMessage::Opened(*m)),
            NodeMessage::SourceAck(m) => feed_hears(&mut feed, SourceMessage::Ack(*m)),
            NodeMessage::SourceGap(m) => feed_hears(&mut feed, SourceMessage::Gap(*m)),
            NodeMessage::SourceReject(m) => feed_hears(&mut feed, SourceMessage::Reject(*m)),
            // Messages for a subscriber: a session's client passes them on.
            NodeMessage::SubscriptionDone(_)
            | NodeMessage::SubscriptionState(..)
            | NodeMessage::SubscriptionAttached(..)
            | NodeMessage::SubscribedMessage(..)
            | NodeMessage::SubscriptionEnded(..)
            | NodeMessage::PublishAck(_)
            | NodeMessage::PublishReject(_)
            | NodeMessage::NamedToken(..) => {}
            _ => {
                let _ = session.on_message(&message, &mut out);
                assert_eq!(signatures(&out), 0, "a session with an API key signs nothing");
                out.clear();
                let event = signing.on_message(&message, &mut out);
                let is_challenged = matches!(event, Ok(SessionEvent::Challenged));
                assert_eq!(signatures(&out), usize::from(is_challenged));
                assert!(!is_challenged || is_challenge_due, "signed what was not asked for");
                is_challenge_due &= !is_challenged;
                if matches!(message, NodeMessage::Logout(_) | NodeMessage::LogonReject(_)) {
                    signing.connection_lost();
                    signing.put_logon(Nanos(1), &mut out);
                    is_challenge_due = true;
                }
            }
        }
    }
});

/// Feeds a message of the store to a source's feed, whose batches must survive it.
fn feed_hears(feed: &mut BatchStream, message: SourceMessage) {
    let before = feed.unacknowledged_count();
    let _ = feed.on_message(&message);
    assert!(feed.unacknowledged_count() <= before);
    feed.pump(&mut Vec::new(), FRAME_LEN_MAX);
}

/// The number of signed logons among a client's frames.
fn signatures(mut sent: &[u8]) -> usize {
    let mut count = 0;
    while let Framing::Frame { len, message: Ok(raw) } = next_frame(sent, FRAME_LEN_MAX) {
        let message = ClientMessage::decode(&raw).expect("a client's own message");
        count += usize::from(matches!(message, ClientMessage::SignedLogon(..)));
        sent = &sent[len..];
    }
    count
}
