//! Arbitrary bytes as a TCP stream: framing, then every message that a client or a node may send.
//!
//! Checks that reading makes progress, that a decoded message encodes to a frame which decodes to
//! the same message, and that an error has a text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::shaped_stream;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, FRAME_HEADER_LEN, Framing, RawMessage, next_frame};
use weir_wire::{ClientMessage, NodeMessage};

fuzz_target!(|bytes: &[u8]| {
    follow(bytes);
    follow(&shaped_stream(bytes));
});

fn follow(stream: &[u8]) {
    let mut rest = stream;
    while let Framing::Frame { len, message } = next_frame(rest, CLIENT_FRAME_LEN_MAX) {
        assert!((FRAME_HEADER_LEN..=CLIENT_FRAME_LEN_MAX).contains(&len));
        match message {
            Ok(raw) => {
                client_message(&raw);
                node_message(&raw);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        rest = &rest[len..];
    }
}

fn reread(frame: &[u8]) -> RawMessage<'_> {
    match next_frame(frame, usize::MAX) {
        Framing::Frame { len, message: Ok(raw) } if len == frame.len() => raw,
        other => panic!("our own frame does not read back: {other:?}"),
    }
}

fn client_message(raw: &RawMessage<'_>) {
    match ClientMessage::decode(raw) {
        Ok(message) => {
            let mut frame = Vec::new();
            message.put(&mut frame);
            assert_eq!(ClientMessage::decode(&reread(&frame)).as_ref(), Ok(&message));
            if let ClientMessage::SourceBatch(_, rows) = message {
                assert_eq!(rows.len(), rows.count(), "a batch lost rows");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn node_message(raw: &RawMessage<'_>) {
    match NodeMessage::decode(raw) {
        Ok(message) => {
            let mut frame = Vec::new();
            message.put(&mut frame);
            assert_eq!(NodeMessage::decode(&reread(&frame)).as_ref(), Ok(&message));
            // Entries are decoded as they are taken, and each may fail by itself.
            let (expected, taken) = match message {
                NodeMessage::LogonAck(_, partitions) => (partitions.len(), partitions.count()),
                NodeMessage::OrderPageBody(_, rows) => (rows.len(), rows.count()),
                NodeMessage::SourceStates(_, sources) => (sources.len(), sources.count()),
                NodeMessage::SubscriptionAttached(_, taken) => (taken.len(), taken.count()),
                NodeMessage::SubscriptionEnded(_, taken) => (taken.len(), taken.count()),
                _ => return,
            };
            assert_eq!(taken, expected, "a group lost entries");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
