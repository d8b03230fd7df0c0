//! Any bytes as what a node says to a client: the session and the follower take it.
//!
//! Holds that a node that says anything at all makes the client refuse or go on, and never panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_client::{Follower, FollowerConfig, Session, SessionConfig};
use weir_fuzz::shaped_stream;
use weir_types::{Nanos, SessionId};
use weir_wire::NodeMessage;
use weir_wire::frame::{Framing, next_frame};
use weir_wire::session::ApiKey;

const FRAME_LEN_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let mut session = Session::new(SessionConfig::new(SessionId(1), ApiKey([1; 32])));
    let mut follower = Follower::new(FollowerConfig::new(SessionId(1)), Vec::new());
    let mut out = Vec::new();
    session.put_logon(Nanos(1), &mut out);
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
            _ => {
                let _ = session.on_message(&message, &mut out);
            }
        }
    }
});
