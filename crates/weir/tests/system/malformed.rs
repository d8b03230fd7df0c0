//! Malformed bytes: each frame is rejected with a reason and counted, and repeated ones close the
//! connection. Other clients are not affected.

use weir_client::request::stamp;
use weir_types::{ExecType, Reason, RequestNo, SessionId};
use weir_wire::Message;
use weir_wire::dialogue::put_request;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, FRAME_HEADER_LEN, put_frame};
use weir_wire::order_entry::NewOrder;
use weir_wire::session::LogonReject;

use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, Home, Node, open_market};

fn market() -> (Home, Node) {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    (home, node)
}

/// Returns the frame of one of Alice's orders.
fn order_frame(request_no: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    let request = ALICE.buy(request_no, 50, 1);
    put_request(&stamp(request, ALICE.session_id, RequestNo(request_no)), &mut frame);
    frame
}

/// Returns the offset of a field in an order's frame.
fn place_of(name: &str) -> usize {
    let field = NewOrder::FIELDS.iter().find(|field| field.name == name);
    FRAME_HEADER_LEN + field.expect("an order has it").offset
}

fn with_byte(mut frame: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    frame[at] = byte;
    frame
}

/// Sets the frame's length field to its actual length.
fn with_length(mut frame: Vec<u8>) -> Vec<u8> {
    let len = u32::try_from(frame.len()).unwrap();
    frame[..4].copy_from_slice(&len.to_be_bytes());
    frame
}

fn wrong_frames() -> Vec<(Vec<u8>, Reason, &'static str)> {
    let good = order_frame(5);
    let mut too_long = good.clone();
    too_long.extend_from_slice(b"more");
    let mut nodes_own = Vec::new();
    let refusal = LogonReject {
        oldest_event_no: weir_types::EventNo::NONE,
        next_event_no: weir_types::EventNo::NONE,
        session_id: ALICE.session_id,
        epoch: weir_types::Epoch::NONE,
        partition_id: weir_types::PartitionId(0),
        reason: Reason::UnknownKey,
    };
    put_frame(&refusal, &mut nodes_own);
    // A command of logs alone: a client that could send it could shrink the exchange.
    let mut limits = Vec::new();
    put_frame(&weir_engine::EngineLimits::DEFAULT.to_command(), &mut limits);
    let shorter = good[..good.len() - 1].to_vec();
    let short_block = with_byte(with_length(shorter.clone()), 6, good[6] - 1);
    vec![
        (with_byte(good.clone(), place_of("side"), b'x'), Reason::FieldOutOfRange, "side"),
        (
            with_byte(good.clone(), place_of("exec_inst"), 0xff),
            Reason::FieldOutOfRange,
            "exec_inst",
        ),
        (
            with_byte(good.clone(), place_of("cl_ord_id"), b' '),
            Reason::FieldOutOfRange,
            "cl_ord_id",
        ),
        (with_byte(good.clone(), place_of("ord_type"), 0), Reason::FieldOutOfRange, "ord_type"),
        (with_byte(good.clone(), 8, 0xee), Reason::UnknownTemplate, ""),
        (with_byte(good.clone(), 10, 0xee), Reason::UnknownSchema, ""),
        (with_byte(good, 12, 0), Reason::UnknownSchema, ""),
        (with_length(too_long), Reason::MalformedFrame, "trailing bytes"),
        (with_length(shorter), Reason::FrameTruncated, "block"),
        (short_block, Reason::FrameTruncated, "block"),
        (nodes_own, Reason::NotAClientMessage, ""),
        (limits, Reason::NotAClientMessage, ""),
    ]
}

#[test]
fn each_wrong_frame_is_rejected_by_its_reason_and_field_while_others_trade() {
    let (_home, node) = market();
    let mut wire = Wire::connect(&node);
    wire.log_on(&logon_of(&ALICE));
    let mut bob = Trader::log_on(&node, BOB);
    let frames = wrong_frames();
    for (number, (frame, reason, field)) in (1..).zip(&frames) {
        wire.send(frame);
        let reject = wire.reject();
        assert_eq!((reject.reason, reject.field.to_string().as_str()), (*reason, *field));
        if *reason == Reason::FieldOutOfRange {
            assert_eq!((reject.session_id, reject.request_no), (ALICE.session_id, RequestNo(5)));
        }
        bob.ask_for_report(BOB.buy(number, 50, 1));
    }
    // The earlier rejects do not affect a valid frame and used up no request number.
    wire.send(&order_frame(1));
    let exec_type = wire.expect("a report", |message| match message {
        weir_wire::NodeMessage::ExecutionReport(report) => Some(report.event.exec_type),
        _ => None,
    });
    assert_eq!(exec_type, ExecType::New);
    let malformed = crate::support::until("the counter", || {
        let count = node.status()["gateway"]["malformed"].as_u64()?;
        (count > 0).then_some(count)
    });
    assert!(malformed <= frames.len() as u64);
}

#[test]
fn sixteen_wrong_frames_cost_the_connection_and_end_its_sessions() {
    let (_home, node) = market();
    let mut wire = Wire::connect(&node);
    wire.log_on(&logon_of(&ALICE));
    let wrong = with_byte(order_frame(1), place_of("side"), b'x');
    wire.send(&wrong.repeat(16));
    for _ in 0..16 {
        assert_eq!(wire.reject().reason, Reason::FieldOutOfRange);
    }
    assert_eq!(wire.logout(), (SessionId::NONE, Reason::TooManyErrors));
    wire.closed();
    Trader::log_on(&node, ALICE).ask_for_report(ALICE.buy(1, 50, 1));
}

#[test]
fn a_stream_that_cannot_be_followed_is_closed_with_the_reason_while_others_trade() {
    let (_home, node) = market();
    let mut bob = Trader::log_on(&node, BOB);
    let over = u32::try_from(CLIENT_FRAME_LEN_MAX + 1).unwrap().to_be_bytes();
    let cases: [(&[u8], Reason); 5] = [
        (b"GET / HTTP/1.1\r\n\r\n", Reason::MalformedFrame),
        (&[0; 64], Reason::MalformedFrame),
        (&[0xff; 64], Reason::MalformedFrame),
        (&[over[0], over[1], over[2], over[3], 0xeb, 0x50], Reason::FrameTooLong),
        (&[0, 0, 0, 3, 0xeb, 0x50], Reason::MalformedFrame),
    ];
    for (number, (bytes, reason)) in (1..).zip(cases) {
        let mut wire = Wire::connect(&node);
        wire.log_on(&logon_of(&ALICE));
        wire.send(bytes);
        assert_eq!(wire.logout(), (SessionId::NONE, reason), "{bytes:?}");
        wire.closed();
        bob.ask_for_report(BOB.buy(number, 50, 1));
    }
}

#[test]
fn a_frame_that_never_ends_harms_nobody_and_one_in_pieces_is_a_frame() {
    let (_home, node) = market();
    let mut bob = Trader::log_on(&node, BOB);
    let frame = order_frame(1);
    let mut half = Wire::connect(&node);
    half.log_on(&logon_of(&ALICE));
    half.send(&frame[..frame.len() / 2]);
    bob.ask_for_report(BOB.buy(1, 50, 1));
    drop(half);
    // The session is free once the node has noticed the connection's end.
    crate::support::until("the end of the session", || {
        (node.status()["gateway"]["sessions"] == 1).then_some(())
    });
    let mut pieces = Wire::connect(&node);
    pieces.log_on(&logon_of(&ALICE));
    for byte in frame {
        pieces.send(&[byte]);
    }
    let request_no = pieces.expect("a report", |message| match message {
        weir_wire::NodeMessage::ExecutionReport(report) => Some(report.event.request_no),
        _ => None,
    });
    assert_eq!(request_no, RequestNo(1));
}
