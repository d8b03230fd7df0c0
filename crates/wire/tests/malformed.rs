//! Malformed messages are refused with a reason that names the field, and nothing panics.

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use support::{
    FRAME_LEN_MAX, any_body, any_frame, any_info, frame_of, frame_with, message, raw_of,
};
use weir_types::{Reason, RequestNo, SessionId};
use weir_wire::catalogue::{Tail, codes, message_info};
use weir_wire::delivery::{FetchOrders, OrderPage, OrderRow};
use weir_wire::dialogue::{
    RESUME_POINT_COUNT_MAX, TOKEN_LEN_MAX, peek_session_and_request, put_request,
};
use weir_wire::frame::{
    BrokenFrame, CLIENT_FRAME_LEN_MAX, FRAME_HEADER_LEN, Framing, RawMessage, SOFH_LEN, next_frame,
    parse_message,
};
use weir_wire::group::{put_data, put_group, take_data, take_group};
use weir_wire::ingest::SourceBatch;
use weir_wire::order_entry::{CancelOrder, NewOrder};
use weir_wire::rows::{ATTRIBUTES_LEN_MAX, take_rows};
use weir_wire::session::{Logon, Logout, ResumePoint};
use weir_wire::{
    ClientMessage, Command, DecodeError, Event, Message, MessageInfo, NodeMessage, Request,
    SCHEMA_ID, SCHEMA_VERSION, catalogue,
};

/// Runs every decoder of outside bytes on these bytes.
fn read_by_all(bytes: &[u8]) {
    if let Framing::Frame { len, message } = next_frame(bytes, CLIENT_FRAME_LEN_MAX) {
        assert!(len <= bytes.len());
        if let Ok(raw) = message {
            read_message_by_all(&raw);
        }
    }
    if let Ok(raw) = parse_message(bytes) {
        read_message_by_all(&raw);
    }
    let _ = Command::decode(bytes);
    let _ = Event::decode(bytes);
    let _ = take_data(bytes);
    if let Ok((points, _)) = take_group::<ResumePoint>(bytes) {
        points.for_each(|point| drop(point.map_err(|e| e.to_string())));
    }
    if let Ok((rows, _)) = take_rows(bytes) {
        rows.for_each(|row| drop(row.map_err(|e| e.to_string())));
    }
}

fn read_message_by_all(raw: &RawMessage<'_>) {
    let _ = peek_session_and_request(raw);
    match ClientMessage::decode(raw) {
        Ok(ClientMessage::Logon(_, points) | ClientMessage::SignedLogon(_, points)) => {
            assert!(points.len() <= RESUME_POINT_COUNT_MAX);
        }
        Ok(ClientMessage::SourceBatch(_, rows)) => assert!(rows.count() < 1 << 16),
        Ok(ClientMessage::FetchOrders(_, tokens)) => {
            assert!(tokens.token.len() <= TOKEN_LEN_MAX);
            assert!(tokens.min_token.len() <= TOKEN_LEN_MAX);
        }
        Ok(_) => {}
        Err(e) => assert_ne!(e.reason(), Reason::None, "{e} {}", e.field()),
    }
    match NodeMessage::decode(raw) {
        Ok(NodeMessage::LogonAck(_, partitions)) => assert!(partitions.count() < 1 << 16),
        Ok(NodeMessage::OrderPageBody(_, rows)) => assert!(rows.count() < 1 << 16),
        Ok(NodeMessage::SourceStates(_, sources)) => assert!(sources.count() < 1 << 16),
        Ok(_) => {}
        Err(e) => assert_ne!(e.reason(), Reason::None),
    }
    if let Some(info) = message_info(raw.template_id) {
        let _ = info.codec.visit(raw.block(), &mut |_, value| drop(value.to_string()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        read_by_all(&bytes);
    }

    #[test]
    fn random_bytes_behind_a_good_header_never_panic(
        info in any_info(),
        block_length in prop_oneof![any::<u16>(), 0u16..400],
        body in vec(any::<u8>(), 0..400),
    ) {
        let header = [block_length, info.template_id, SCHEMA_ID, SCHEMA_VERSION];
        read_by_all(&frame_with(header, &body));
        read_by_all(&frame_of(info, &body));
    }

    #[test]
    fn good_frames_with_bytes_changed_never_panic(
        (_, mut frame) in any_frame(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        read_by_all(&frame);
        read_by_all(&frame[SOFH_LEN..]);
    }
}

proptest! {
    #[test]
    fn a_truncated_frame_is_refused_wherever_it_was_cut((info, frame) in any_frame()) {
        for cut in 0..frame.len() {
            prop_assert_eq!(next_frame(&frame[..cut], FRAME_LEN_MAX), Framing::Incomplete);
            let mut short = frame[..cut].to_vec();
            if cut >= SOFH_LEN {
                short[..4].copy_from_slice(&(cut as u32).to_be_bytes());
            }
            match next_frame(&short, FRAME_LEN_MAX) {
                Framing::Incomplete => prop_assert!(cut < SOFH_LEN),
                Framing::Broken(broken) => {
                    prop_assert!(cut < FRAME_HEADER_LEN);
                    prop_assert_eq!(broken, BrokenFrame::Length(cut as u32));
                }
                Framing::Frame { message: Err(e), .. } => {
                    prop_assert_eq!(e.reason(), Reason::FrameTruncated);
                }
                Framing::Frame { message: Ok(raw), .. } => {
                    prop_assert!(!matches!(info.tail, Tail::None | Tail::Definition));
                    let client = ClientMessage::decode(&raw).err();
                    let node = NodeMessage::decode(&raw).err();
                    let reasons = [client, node].map(|e| e.map(|e| e.reason()));
                    prop_assert!(reasons.contains(&Some(Reason::FrameTruncated)), "{}", cut);
                    prop_assert!(!reasons.contains(&None), "{}", cut);
                }
            }
        }
    }

    #[test]
    fn bytes_behind_a_message_of_our_version_are_refused(
        (info, frame) in any_frame(),
        more in vec(any::<u8>(), 1..20),
    ) {
        let frame = frame_of(info, &[&frame[FRAME_HEADER_LEN..], &more].concat());
        let raw = raw_of(&frame);
        let trailing = DecodeError::TrailingBytes { message: info.name, count: more.len() };
        let errors = [ClientMessage::decode(&raw).err(), NodeMessage::decode(&raw).err()];
        let unsent = [Some(DecodeError::Unexpected(info.name)); 2];
        prop_assert!(errors == unsent || errors.contains(&Some(trailing)), "{:?}", errors);
        prop_assert_eq!(trailing.reason(), Reason::MalformedFrame);
    }

    #[test]
    fn a_block_that_is_shorter_than_its_fields_is_refused((info, frame) in any_frame()) {
        let raw = raw_of(&frame);
        let is_short = |got: &usize| !info.block_lengths_before.contains(got);
        for got in (0..info.block_length).filter(is_short) {
            let mut out = vec![];
            let want = info.block_length;
            let error = DecodeError::BlockTooShort { message: info.name, got, want };
            match info.codec.recode(&raw.block()[..got], &mut out) {
                // A report's head is a message of its own and reports errors under its own name.
                Err(DecodeError::BlockTooShort { message: "OrderEvent", got: g, .. }) => {
                    prop_assert_eq!((info.name, g), ("ExecutionReport", got));
                }
                result => prop_assert_eq!(result, Err(error)),
            }
        }
    }
}

/// A valid block of zeroes and first codes.
fn plain_block(info: &MessageInfo) -> Vec<u8> {
    let mut block = vec![0; info.block_length];
    for field in info.fields {
        if let Some(codes) = codes(field.schema_type) {
            let code = codes[0].to_le_bytes();
            block[field.offset..][..field.size].copy_from_slice(&code[..field.size]);
        }
    }
    block
}

/// Returns the field that refuses a block, with its index. `ExecutionReport` shares `OrderEvent`'s
/// fields.
fn refusal(info: &MessageInfo, block: &[u8]) -> Option<(&'static str, u16)> {
    match info.codec.recode(block, &mut vec![]) {
        Ok(()) => None,
        Err(DecodeError::FieldOutOfRange { message, field, index }) => {
            let name = if message == "OrderEvent" { "ExecutionReport" } else { message };
            assert_eq!(name, info.name);
            Some((field, index))
        }
        Err(e) => panic!("{}: {e}", info.name),
    }
}

#[test]
fn every_code_without_meaning_is_refused_by_its_fields_name() {
    let mut refused_count = 0;
    for info in catalogue() {
        let block = plain_block(info);
        assert_eq!(refusal(info, &block), None, "{}", info.name);
        for (i, field) in info.fields.iter().enumerate() {
            let Some(codes) = codes(field.schema_type) else { continue };
            let last = if field.size == 1 { u16::from(u8::MAX) } else { u16::MAX };
            for code in 0..=last {
                let mut block = block.clone();
                let bytes = code.to_le_bytes();
                block[field.offset..][..field.size].copy_from_slice(&bytes[..field.size]);
                let known = codes.contains(&code);
                let want = (!known).then_some((field.name, i as u16 + 1));
                assert_eq!(refusal(info, &block), want, "{}.{} {code}", info.name, field.name);
                refused_count += u32::from(!known);
            }
        }
    }
    assert!(refused_count > 100_000, "{refused_count}");
}

#[test]
fn a_name_with_spaces_controls_or_holes_is_refused_by_its_fields_name() {
    let texts: [&[u8]; 6] = [b"a b", b"a\0b", b"\x1f", b"\x7f", b"\xc3\xa4", b"0123456789abcde\n"];
    for info in catalogue() {
        for (i, field) in info.fields.iter().enumerate() {
            if !["clOrdId", "symbol"].contains(&field.schema_type) {
                continue;
            }
            for text in texts {
                let mut block = plain_block(info);
                block[field.offset..][..text.len()].copy_from_slice(text);
                let want = Some((field.name, i as u16 + 1));
                assert_eq!(refusal(info, &block), want, "{} {text:?}", info.name);
            }
        }
    }
}

#[test]
fn unknown_templates_schemas_and_versions_are_refused() {
    for template_id in 0..=u16::MAX {
        let frame = frame_with([4, template_id, SCHEMA_ID, SCHEMA_VERSION], &[0; 4]);
        let raw = raw_of(&frame);
        let unknown = Err(DecodeError::UnknownTemplate(template_id));
        if message_info(template_id).is_none() {
            assert_eq!(ClientMessage::decode(&raw), unknown);
            assert_eq!(NodeMessage::decode(&raw).err(), unknown.err());
            assert!(Command::decode(&frame[SOFH_LEN..]).is_err());
            assert!(Event::decode(&frame[SOFH_LEN..]).is_err());
        }
    }
    for (schema, version) in [(SCHEMA_ID, 0), (SCHEMA_ID + 1, 1), (0, 0), (u16::MAX, u16::MAX)] {
        let frame = frame_with([6, Logout::TEMPLATE_ID, schema, version], &[0; 6]);
        let error = DecodeError::UnknownSchema { schema, version };
        let len = frame.len();
        assert_eq!(
            next_frame(&frame, FRAME_LEN_MAX),
            Framing::Frame { len, message: Err(error) },
            "a frame that is not ours can be stepped over"
        );
        assert_eq!(error.reason(), Reason::UnknownSchema);
    }
}

#[test]
fn a_frame_length_out_of_range_breaks_the_stream() {
    let beyond = CLIENT_FRAME_LEN_MAX as u32 + 1;
    for len in [0, 1, FRAME_HEADER_LEN as u32 - 1, beyond, u32::MAX] {
        let mut frame = vec![0; 64];
        frame[..4].copy_from_slice(&len.to_be_bytes());
        frame[4..6].copy_from_slice(&[0xEB, 0x50]);
        assert_eq!(
            next_frame(&frame, CLIENT_FRAME_LEN_MAX),
            Framing::Broken(BrokenFrame::Length(len))
        );
    }
    let mut longest = [0, 0, 0, 0, 0xEB, 0x50];
    longest[..4].copy_from_slice(&(beyond - 1).to_be_bytes());
    assert_eq!(next_frame(&longest, CLIENT_FRAME_LEN_MAX), Framing::Incomplete);
}

#[test]
fn an_encoding_that_is_not_ours_breaks_the_stream() {
    for encoding in [0u16, 0x50EB, 0x5BE0, 0xEB51] {
        let mut frame = vec![0, 0, 0, 20];
        frame.extend_from_slice(&encoding.to_be_bytes());
        assert_eq!(
            next_frame(&frame, FRAME_LEN_MAX),
            Framing::Broken(BrokenFrame::Encoding(encoding))
        );
    }
}

fn out_of_range<M: Message>(field: &'static str) -> DecodeError {
    DecodeError::FieldOutOfRange { message: M::NAME, field, index: M::FIELDS.len() as u16 + 1 }
}

#[test]
fn a_logon_with_too_many_resume_points_is_refused_by_name() {
    let info = message_info(Logon::TEMPLATE_ID).unwrap();
    let point = ResumePoint::decode_block(&[0; 14]).unwrap();
    let mut body = plain_block(info);
    put_group(&vec![point; RESUME_POINT_COUNT_MAX + 1], &mut body);
    let frame = frame_of(info, &body);
    let error = out_of_range::<Logon>("resume_points");
    assert_eq!(ClientMessage::decode(&raw_of(&frame)), Err(error));
    assert_eq!((error.reason(), error.field()), (Reason::FieldOutOfRange, "resume_points"));
}

#[test]
fn a_token_that_is_too_long_is_refused_by_name() {
    let long = &[7; TOKEN_LEN_MAX + 1][..];
    for (template_id, field, data) in [
        (FetchOrders::TEMPLATE_ID, "token", &[long, &[]][..]),
        (FetchOrders::TEMPLATE_ID, "min_token", &[&[], long]),
        (OrderPage::TEMPLATE_ID, "token", &[long]),
    ] {
        let info = message_info(template_id).unwrap();
        let mut body = plain_block(info);
        data.iter().for_each(|data| put_data(data, &mut body));
        let frame = frame_of(info, &body);
        let raw = raw_of(&frame);
        let errors = [ClientMessage::decode(&raw).err(), NodeMessage::decode(&raw).err()];
        let fields = errors.map(|e| e.map_or("", |e| e.field()));
        assert!(fields.contains(&field), "{errors:?}");
    }
}

#[test]
fn a_group_of_entries_that_are_too_short_is_refused() {
    let short = |want: usize| {
        let mut bytes = vec![];
        for word in [want as u16 - 1, 1] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(400, 0);
        bytes
    };
    let error = |message, want| DecodeError::BlockTooShort { message, got: want - 1, want };
    let len = ResumePoint::BLOCK_LENGTH;
    let refused = take_group::<ResumePoint>(&short(len)).err();
    assert_eq!(refused, Some(error("ResumePoint", len)));
    let len = OrderRow::BLOCK_LENGTH;
    assert_eq!(take_rows(&short(len)).err(), Some(error("OrderRow", len)));
}

/// Makes a batch of zeroed rows with attributes of these lengths.
fn batch_of(attribute_lens: &[usize]) -> Vec<u8> {
    let row = MessageInfo {
        block_length: OrderRow::BLOCK_LENGTH,
        fields: OrderRow::FIELDS,
        ..*message_info(SourceBatch::TEMPLATE_ID).expect("ours")
    };
    let mut body = plain_block(message_info(SourceBatch::TEMPLATE_ID).expect("ours"));
    for word in [OrderRow::BLOCK_LENGTH, attribute_lens.len()] {
        body.extend_from_slice(&(word as u16).to_le_bytes());
    }
    for len in attribute_lens {
        body.extend(plain_block(&row));
        put_data(&vec![7; *len], &mut body);
    }
    body
}

#[test]
fn attributes_that_are_too_long_are_refused_by_name_in_their_row() {
    let info = message_info(SourceBatch::TEMPLATE_ID).unwrap();
    let frame = frame_of(info, &batch_of(&[ATTRIBUTES_LEN_MAX, ATTRIBUTES_LEN_MAX + 1, 0]));
    let Ok(ClientMessage::SourceBatch(_, rows)) = ClientMessage::decode(&raw_of(&frame)) else {
        panic!("the lengths are whole");
    };
    let refused: Vec<_> = rows.map(|row| row.err()).collect();
    let index = OrderRow::FIELDS.len() as u16 + 1;
    let (message, field) = ("OrderRow", "attributes");
    let error = DecodeError::FieldOutOfRange { message, field, index };
    assert_eq!(refused, [None, Some(error), None]);
}

#[test]
fn a_row_whose_attributes_run_over_the_frame_is_truncated() {
    let info = message_info(SourceBatch::TEMPLATE_ID).unwrap();
    let whole = batch_of(&[3, 5]);
    let cut = |len: usize| {
        ClientMessage::decode(&raw_of(&frame_of(info, &whole[..whole.len() - len]))).err()
    };
    assert_eq!(cut(0), None);
    assert_eq!(cut(1), Some(DecodeError::Truncated("data")));
    assert_eq!(cut(6), Some(DecodeError::Truncated("data length")));
    assert_eq!(cut(8), Some(DecodeError::Truncated("group")));
    assert_eq!(take_rows(&[0; 3]).err(), Some(DecodeError::Truncated("group header")));
}

proptest! {
    #[test]
    fn a_request_that_does_not_decode_still_says_whose_it_was(
        order in message::<NewOrder>(),
        cancel in message::<CancelOrder>(),
    ) {
        for request in [Request::NewOrder(order), Request::CancelOrder(cancel)] {
            let mut frame = vec![];
            put_request(&request, &mut frame);
            let whole = (request.session_id(), request.request_no());
            // The first byte of the name becomes a space: the message no longer decodes.
            frame[FRAME_HEADER_LEN + 8] = b' ';
            let raw = raw_of(&frame);
            let refused = ClientMessage::decode(&raw).map_err(|e| e.field());
            prop_assert_eq!(refused, Err("cl_ord_id"));
            prop_assert_eq!(peek_session_and_request(&raw), whole);
            let cut = RawMessage { block_length: 20, ..raw };
            prop_assert_eq!(peek_session_and_request(&cut), (SessionId::NONE, whole.1));
            let nothing = RawMessage { block_length: 0, body: &[], ..raw };
            let none = (SessionId::NONE, RequestNo::NONE);
            prop_assert_eq!(peek_session_and_request(&nothing), none);
        }
    }
}

#[test]
fn messages_without_a_request_number_say_their_session_only() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for name in ["Heartbeat", "FetchOrders", "Logout"] {
        let info = catalogue().iter().find(|info| info.name == name).unwrap();
        let body = any_body(info).new_tree(&mut runner).unwrap().current();
        let frame = frame_of(info, &body);
        let (session_id, request_no) = peek_session_and_request(&raw_of(&frame));
        let field = info.fields.iter().find(|field| field.name == "session_id").unwrap();
        let want = body[field.offset..][..4].try_into().unwrap();
        assert_eq!((session_id.0, request_no.0), (u32::from_le_bytes(want), 0), "{name}");
    }
}
