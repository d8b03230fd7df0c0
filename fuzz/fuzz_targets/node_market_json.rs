//! Arbitrary text as a WebSocket request of a market data subscriber, and arbitrary bytes as a
//! market data message converted to JSON.
//!
//! Checks that a refusal's name is short, that an accepted request decodes to the same at the
//! gateway, and that every message converts to one JSON object of its type.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{Recipe, shaped_message};
use weir_types::SessionId;
use weir_web::market::request::Request;
use weir_web::market::said::put_market;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame, put_frame_with};
use weir_wire::market_dialogue::MarketRequest;
use weir_wire::{ClientMessage, NodeMessage};

const SESSION: SessionId = SessionId(11);
/// Pieces of requests, so that texts pass the first checks.
const PIECES: [&str; 24] = [
    "{\"subscribe\":",
    "{\"set_interval\":",
    "{\"unsubscribe\":",
    ",\"pattern\":",
    ",\"content\":",
    ",\"interval\":",
    ",\"depth\":",
    ",\"policy\":",
    ",\"urgent_move\":",
    ",\"urgent_move_ppm\":",
    ",\"queue_len_max\":",
    "\"*\"",
    "\"AAPL*\"",
    "\"Bbo\"",
    "\"depth\"",
    "\"Keep\"",
    "\"0.05\"",
    "7",
    "\"18446744073709551615\"",
    "-1",
    "1e3",
    "null",
    "[",
    "}",
];

fuzz_target!(|bytes: &[u8]| {
    let mut recipe = Recipe::new(bytes);
    match recipe.byte() % 3 {
        0 => check_request(&String::from_utf8_lossy(recipe.rest())),
        1 => {
            let mut text = String::new();
            while !recipe.is_empty() {
                match usize::from(recipe.byte()) {
                    piece if piece < 224 => text.push_str(PIECES[piece % PIECES.len()]),
                    _ => text.push(char::from(recipe.byte())),
                }
            }
            check_request(&text);
        }
        _ => check_message(recipe.rest()),
    }
});

fn check_request(text: &str) {
    let request = match Request::parse(text, SESSION) {
        Ok(request) => request,
        Err(bad) => return assert!(bad.parameter.chars().count() <= 40 && !bad.what.is_empty()),
    };
    let mut frame = Vec::new();
    request.put(&mut frame);
    let Framing::Frame { len, message: Ok(raw) } = next_frame(&frame, CLIENT_FRAME_LEN_MAX) else {
        panic!("{request:?} is no frame")
    };
    assert_eq!(len, frame.len());
    let read = match ClientMessage::decode(&raw) {
        Ok(ClientMessage::Market(MarketRequest::Subscribe(message, pattern))) => {
            let pattern = String::from_utf8(pattern.to_vec()).expect("it was text");
            Request::Subscribe(message, pattern)
        }
        Ok(ClientMessage::Market(MarketRequest::SetInterval(message))) => {
            Request::SetInterval(message)
        }
        Ok(ClientMessage::Market(MarketRequest::Unsubscribe(message))) => {
            Request::Unsubscribe(message)
        }
        other => panic!("{request:?} is read as {other:?}"),
    };
    assert_eq!(read, request);
}

fn check_message(bytes: &[u8]) {
    let mut frame = Vec::new();
    put_frame_with(&mut frame, |out| out.extend_from_slice(&shaped_message(bytes)));
    let Framing::Frame { message: Ok(raw), .. } = next_frame(&frame, 1 << 20) else { return };
    let Ok(NodeMessage::Market(message)) = NodeMessage::decode(&raw) else { return };
    let mut text = String::new();
    put_market(&message, &mut text);
    let told: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let kind = told["type"].as_str().expect("it says what it is");
    assert!(kind.starts_with("Market") && !text.contains("session_id"), "{text}");
}
