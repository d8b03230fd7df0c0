//! Encoding and decoding are inverse: every message, frames in pieces, groups, data, records.

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use support::{
    FRAME_LEN_MAX, any_body, any_frame, any_info, block, frame_of, frame_with, message, raw_of,
};
use weir_types::{
    Epoch, EventNo, Nanos, PartitionId, Position, Price, Reason, SessionId, Side, Switch,
};
use weir_wire::catalogue::Tail;
use weir_wire::delivery::*;
use weir_wire::dialogue::{
    RESUME_POINT_COUNT_MAX, TOKEN_LEN_MAX, Tokens, put_logon, put_logon_ack, put_order_page,
    put_order_page_body, put_question, put_request, put_source_batch, put_source_states,
};
use weir_wire::drop_copy::*;
use weir_wire::event::*;
use weir_wire::frame::{Framing, next_frame, put_extended_frame, put_frame};
use weir_wire::group::{put_group, take_group};
use weir_wire::ingest::*;
use weir_wire::market::*;
use weir_wire::order_entry::*;
use weir_wire::reference::*;
use weir_wire::replica::*;
use weir_wire::report::{ExecutionReport, StageTimes};
use weir_wire::rows::{ATTRIBUTES_LEN_MAX, put_row, put_row_count, take_rows};
use weir_wire::session::*;
use weir_wire::subscription::*;
use weir_wire::{
    ClientMessage, Command, Definition, Event, Message, NodeMessage, PlainEvent, Request,
    SCHEMA_ID, SCHEMA_VERSION, catalogue,
};

/// Tests value to frame to value for each message type, and lists the types tested.
macro_rules! round_trips {
    ($($test:ident $type:ident,)*) => {
        const TESTED: &[&str] = &[$($type::NAME),*];

        proptest! {$(
            #[test]
            fn $test(value in message::<$type>()) {
                let mut frame = vec![];
                put_frame(&value, &mut frame);
                let raw = raw_of(&frame);
                prop_assert_eq!(raw.template_id, $type::TEMPLATE_ID);
                prop_assert_eq!(raw.rest().len(), 0);
                prop_assert_eq!(raw.decode_whole::<$type>(), Ok(value));
            }
        )*}
    };
}

round_trips! {
    a_logon_reads_back Logon,
    a_resume_point_reads_back ResumePoint,
    a_logon_ack_reads_back LogonAck,
    a_partition_state_reads_back PartitionState,
    a_logon_reject_reads_back LogonReject,
    a_logout_reads_back Logout,
    a_heartbeat_reads_back Heartbeat,
    a_reject_reads_back Reject,
    a_challenge_request_reads_back ChallengeRequest,
    a_challenge_reads_back Challenge,
    a_signed_logon_reads_back SignedLogon,
    a_new_order_reads_back NewOrder,
    a_replace_order_reads_back ReplaceOrder,
    a_cancel_order_reads_back CancelOrder,
    a_mass_cancel_reads_back MassCancel,
    an_instrument_reads_back DefineInstrument,
    a_firm_reads_back DefineFirm,
    an_account_reads_back DefineAccount,
    a_session_reads_back DefineSession,
    a_transfer_reads_back Transfer,
    an_account_inquiry_reads_back AccountInquiry,
    a_set_phase_reads_back SetPhase,
    a_kill_switch_reads_back KillSwitch,
    a_bust_trade_reads_back BustTrade,
    a_schedule_phase_reads_back SchedulePhase,
    a_resume_trading_reads_back ResumeTrading,
    a_set_reference_reads_back SetReference,
    a_change_phases_reads_back ChangePhases,
    a_schedule_phases_reads_back SchedulePhases,
    an_order_event_reads_back OrderEvent,
    an_execution_report_reads_back ExecutionReport,
    a_request_rejected_reads_back RequestRejected,
    a_request_done_reads_back RequestDone,
    a_phase_changed_reads_back PhaseChanged,
    a_checkpoint_reads_back Checkpoint,
    a_trade_busted_reads_back TradeBusted,
    an_uncrossed_reads_back Uncrossed,
    a_references_changed_reads_back ReferencesChanged,
    a_defined_reads_back Defined,
    a_fetch_orders_reads_back FetchOrders,
    an_order_page_reads_back OrderPage,
    an_order_page_body_reads_back OrderPageBody,
    an_order_row_reads_back OrderRow,
    source_states_read_back SourceStates,
    cancel_fetches_read_back CancelFetch,
    credit_reads_back AddCredit,
    a_source_state_reads_back SourceState,
    a_drop_copy_request_reads_back DropCopyRequest,
    a_drop_copy_state_reads_back DropCopyState,
    a_report_copy_reads_back ReportCopy,
    a_copy_mark_reads_back CopyMark,
    an_open_source_reads_back OpenSource,
    a_source_opened_reads_back SourceOpened,
    a_source_batch_reads_back SourceBatch,
    a_source_ack_reads_back SourceAck,
    a_source_gap_reads_back SourceGap,
    a_source_reject_reads_back SourceReject,
    a_reset_of_a_source_reads_back ResetSource,
    the_answer_to_a_reset_reads_back SourceReset,
    a_follow_source_reads_back FollowSource,
    a_follow_state_reads_back FollowState,
    a_snapshot_chunk_reads_back SnapshotChunk,
    a_create_subscription_reads_back CreateSubscription,
    a_subscription_request_reads_back SubscriptionRequest,
    a_subscription_done_reads_back SubscriptionDone,
    a_subscription_state_reads_back SubscriptionState,
    an_attach_subscription_reads_back AttachSubscription,
    a_subscription_attached_reads_back SubscriptionAttached,
    a_detach_subscription_reads_back DetachSubscription,
    an_ack_messages_reads_back AckMessages,
    a_subscribed_message_reads_back SubscribedMessage,
    a_subscription_ended_reads_back SubscriptionEnded,
    a_taken_place_reads_back TakenPlace,
    a_publish_message_reads_back PublishMessage,
    a_publish_ack_reads_back PublishAck,
    a_publish_reject_reads_back PublishReject,
    a_named_token_reads_back NamedToken,
    a_public_trade_reads_back PublicTrade,
    a_subscribe_market_reads_back SubscribeMarket,
    an_unsubscribe_market_reads_back UnsubscribeMarket,
    a_set_market_interval_reads_back SetMarketInterval,
    a_market_subscribed_reads_back MarketSubscribed,
    a_market_ended_reads_back MarketEnded,
    a_market_instrument_reads_back MarketInstrument,
    a_market_channel_reads_back MarketChannel,
    a_market_quote_reads_back MarketQuote,
    a_market_levels_reads_back MarketLevels,
    a_market_level_reads_back MarketLevel,
    a_market_statistics_reads_back MarketStatistics,
    a_market_status_reads_back MarketStatus,
    a_market_trade_reads_back MarketTrade,
    a_market_order_reads_back MarketOrder,
    a_market_orders_reads_back MarketOrders,
    a_market_resting_order_reads_back MarketRestingOrder,
    a_market_gap_reads_back MarketGap,
    an_import_reads_back Import,
    a_tick_reads_back Tick,
    a_session_lost_reads_back SessionLost,
    a_session_choice_reads_back SessionChoice,
    new_limits_read_back SetLimits,
}

#[test]
fn no_message_of_the_catalogue_is_left_untested() {
    for info in catalogue() {
        assert!(TESTED.contains(&info.name), "{}", info.name);
        if let Tail::Group(group) = info.tail {
            assert!(TESTED.contains(&group.entry), "{}", group.entry);
        }
    }
}

proptest! {
    #[test]
    fn every_valid_block_is_written_back_byte_by_byte((info, frame) in any_frame()) {
        let raw = raw_of(&frame);
        prop_assert_eq!(support::recode(&info.codec, raw.block()), raw.block());
    }

    #[test]
    fn a_stream_cut_anywhere_yields_the_same_frames(frames in vec(any_frame(), 1..4)) {
        let stream: Vec<u8> = frames.iter().flat_map(|(_, frame)| frame.clone()).collect();
        for cut in 0..=stream.len() {
            let (mut at, mut read) = (0, vec![]);
            for have in [cut, stream.len()] {
                while let Framing::Frame { len, message } =
                    next_frame(&stream[at..have], FRAME_LEN_MAX)
                {
                    prop_assert!(message.is_ok());
                    read.push(stream[at..at + len].to_vec());
                    at += len;
                }
                prop_assert_eq!(
                    next_frame(&stream[at..have], FRAME_LEN_MAX),
                    Framing::Incomplete
                );
            }
            prop_assert_eq!(read.len(), frames.len());
            prop_assert!(read.iter().zip(&frames).all(|(read, (_, sent))| read == sent));
        }
    }

    #[test]
    fn a_longer_block_of_a_later_version_reads_as_ours(
        (info, body, more) in any_info()
            .prop_flat_map(|info| (Just(info), block(info.fields), vec(any::<u8>(), 1..40)))
    ) {
        let longer = [&body[..], &more].concat();
        let header = [longer.len() as u16, info.template_id, SCHEMA_ID, SCHEMA_VERSION + 1];
        let frame = frame_with(header, &longer);
        let raw = raw_of(&frame);
        prop_assert_eq!(support::recode(&info.codec, raw.block()), body);
    }

    #[test]
    fn a_block_from_before_fields_were_appended_reads_with_zeros_in_their_places(
        (info, mut body) in any_info()
            .prop_flat_map(|info| (Just(info), block(info.fields)))
    ) {
        for length in info.block_lengths_before.iter().rev() {
            let before = support::recode(&info.codec, &body[..*length]);
            body[*length..].fill(0);
            prop_assert_eq!(&before, &body);
        }
    }

    #[test]
    fn longer_group_entries_of_a_later_version_read_as_ours(
        points in vec(message::<ResumePoint>(), 0..6),
        more in vec(any::<u8>(), 1..20),
    ) {
        let mut bytes = vec![];
        for word in [ResumePoint::BLOCK_LENGTH + more.len(), points.len()] {
            bytes.extend_from_slice(&(word as u16).to_le_bytes());
        }
        for point in &points {
            point.encode_block(&mut bytes);
            bytes.extend_from_slice(&more);
        }
        bytes.push(7);
        let (group, rest) = take_group::<ResumePoint>(&bytes).unwrap();
        prop_assert_eq!(rest, &[7]);
        prop_assert_eq!(group.collect::<Result<Vec<_>, _>>(), Ok(points));
    }

    #[test]
    fn longer_rows_of_a_later_version_read_as_ours_and_are_put_again_as_they_came(
        rows in rows(6),
        more in vec(any::<u8>(), 1..20),
    ) {
        let mut bytes = vec![];
        for word in [OrderRow::BLOCK_LENGTH + more.len(), rows.len()] {
            bytes.extend_from_slice(&(word as u16).to_le_bytes());
        }
        for (row, attributes) in &rows {
            row.encode_block(&mut bytes);
            bytes.extend_from_slice(&more);
            bytes.extend_from_slice(&(attributes.len() as u16).to_le_bytes());
            bytes.extend_from_slice(attributes);
        }
        let mut again = vec![];
        take_rows(&bytes).unwrap().0.put(&mut again);
        prop_assert_eq!(&again, &bytes);
        bytes.push(7);
        let (read, rest) = take_rows(&bytes).unwrap();
        prop_assert_eq!(rest, &[7]);
        prop_assert_eq!(read.collect::<Result<Vec<_>, _>>(), Ok(lent(&rows).collect()));
    }

    #[test]
    fn what_follows_the_message_of_a_later_version_is_left_alone(more in vec(any::<u8>(), 1..20)) {
        let logout = Logout { session_id: SessionId(3), reason: Reason::Stopping };
        let mut body = vec![];
        logout.encode_block(&mut body);
        body.extend_from_slice(&more);
        let block_length = Logout::BLOCK_LENGTH as u16;
        let header = [block_length, Logout::TEMPLATE_ID, SCHEMA_ID, SCHEMA_VERSION + 1];
        let frame = frame_with(header, &body);
        prop_assert_eq!(ClientMessage::decode(&raw_of(&frame)), Ok(ClientMessage::Logout(logout)));
    }

    #[test]
    fn an_event_record_with_stage_times_is_a_report(
        report in message::<ExecutionReport>()
    ) {
        let mut record = vec![];
        report.event.encode_block(&mut record);
        let mut tail = vec![];
        report.encode_block(&mut tail);
        let tail = &tail[record.len()..];
        let (mut extended, mut whole) = (vec![], vec![]);
        put_extended_frame(ExecutionReport::TEMPLATE_ID, &record, tail, &mut extended);
        put_frame(&report, &mut whole);
        prop_assert_eq!(&extended, &whole);
        prop_assert_eq!(
            NodeMessage::decode(&raw_of(&whole)),
            Ok(NodeMessage::ExecutionReport(report))
        );
    }
}

/// Up to `count_max` rows with attributes of any legal length.
fn rows(count_max: usize) -> BoxedStrategy<Vec<(OrderRow, Vec<u8>)>> {
    let len = prop_oneof![Just(0), 1..40usize, Just(ATTRIBUTES_LEN_MAX)];
    let attributes = len.prop_flat_map(|len| vec(any::<u8>(), len));
    vec((message::<OrderRow>(), attributes), 0..=count_max).boxed()
}

fn lent(rows: &[(OrderRow, Vec<u8>)]) -> impl ExactSizeIterator<Item = (OrderRow, &[u8])> {
    rows.iter().map(|(row, attributes)| (*row, &attributes[..]))
}

fn request() -> BoxedStrategy<Request> {
    prop_oneof![
        message::<NewOrder>().prop_map(Request::NewOrder),
        message::<ReplaceOrder>().prop_map(Request::ReplaceOrder),
        message::<CancelOrder>().prop_map(Request::CancelOrder),
        message::<MassCancel>().prop_map(Request::MassCancel),
        message::<Transfer>().prop_map(Request::Transfer),
        message::<AccountInquiry>().prop_map(Request::AccountInquiry),
        message::<SetPhase>().prop_map(Request::SetPhase),
        message::<KillSwitch>().prop_map(Request::KillSwitch),
        message::<BustTrade>().prop_map(Request::BustTrade),
        message::<SchedulePhase>().prop_map(Request::SchedulePhase),
        message::<ResumeTrading>().prop_map(Request::ResumeTrading),
        message::<SetReference>().prop_map(Request::SetReference),
        message::<ChangePhases>().prop_map(Request::ChangePhases),
        message::<SchedulePhases>().prop_map(Request::SchedulePhases),
        definition().prop_map(|definition| match definition {
            Definition::DefineInstrument(m) => Request::DefineInstrument(m),
            Definition::DefineFirm(m) => Request::DefineFirm(m),
            Definition::DefineAccount(m) => Request::DefineAccount(m),
            Definition::DefineSession(m) => Request::DefineSession(m),
        }),
    ]
    .boxed()
}

fn definition() -> BoxedStrategy<Definition> {
    prop_oneof![
        message::<DefineInstrument>().prop_map(Definition::DefineInstrument),
        message::<DefineFirm>().prop_map(Definition::DefineFirm),
        message::<DefineAccount>().prop_map(Definition::DefineAccount),
        message::<DefineSession>().prop_map(Definition::DefineSession),
    ]
    .boxed()
}

fn command() -> BoxedStrategy<Command> {
    prop_oneof![
        request().prop_map(Command::Request),
        (any::<u64>(), definition()).prop_map(|(at, what)| Command::Import(Position(at), what)),
        Just(Command::Tick),
        message::<SessionLost>().prop_map(Command::SessionLost),
        message::<SessionChoice>().prop_map(Command::SessionChoice),
        message::<SetLimits>().prop_map(Command::SetLimits),
    ]
    .boxed()
}

fn event() -> BoxedStrategy<Event> {
    prop_oneof![
        message::<OrderEvent>().prop_map(|m| Event::Plain(PlainEvent::OrderEvent(m))),
        message::<RequestRejected>().prop_map(|m| Event::Plain(PlainEvent::RequestRejected(m))),
        message::<RequestDone>().prop_map(|m| Event::Plain(PlainEvent::RequestDone(m))),
        message::<PhaseChanged>().prop_map(|m| Event::Plain(PlainEvent::PhaseChanged(m))),
        message::<Checkpoint>().prop_map(|m| Event::Plain(PlainEvent::Checkpoint(m))),
        message::<TradeBusted>().prop_map(|m| Event::Plain(PlainEvent::TradeBusted(m))),
        message::<Uncrossed>().prop_map(|m| Event::Plain(PlainEvent::Uncrossed(m))),
        message::<ReferencesChanged>().prop_map(|m| Event::Plain(PlainEvent::ReferencesChanged(m))),
        (message::<Defined>(), definition()).prop_map(|(m, what)| Event::Defined(m, what)),
    ]
    .boxed()
}

proptest! {
    #[test]
    fn a_command_reads_back_from_its_log_entry(command in command()) {
        let mut entry = vec![];
        command.encode(&mut entry);
        prop_assert_eq!(Command::decode(&entry), Ok(command));
        for cut in 0..entry.len() {
            prop_assert!(Command::decode(&entry[..cut]).is_err(), "cut at {}", cut);
        }
        entry.push(0);
        prop_assert!(Command::decode(&entry).is_err(), "a byte too many");
    }

    #[test]
    fn an_event_reads_back_from_its_record(event in event()) {
        let mut record = vec![];
        event.encode(&mut record);
        prop_assert_eq!(Event::decode(&record), Ok(event));
        for cut in 0..record.len() {
            prop_assert!(Event::decode(&record[..cut]).is_err(), "cut at {}", cut);
        }
        record.push(0);
        prop_assert!(Event::decode(&record).is_err(), "a byte too many");
    }

    #[test]
    fn a_request_reads_back_as_a_clients_message(request in request()) {
        let mut frame = vec![];
        put_request(&request, &mut frame);
        prop_assert_eq!(
            ClientMessage::decode(&raw_of(&frame)),
            Ok(ClientMessage::Request(request))
        );
    }

    #[test]
    fn a_logon_reads_back_with_its_resume_points(
        logon in message::<Logon>(),
        points in vec(message::<ResumePoint>(), 0..=RESUME_POINT_COUNT_MAX),
    ) {
        let mut frame = vec![];
        put_logon(&logon, &points, &mut frame);
        let Ok(ClientMessage::Logon(read, group)) = ClientMessage::decode(&raw_of(&frame)) else {
            panic!("not a logon");
        };
        prop_assert_eq!(read, logon);
        prop_assert_eq!(group.len(), points.len());
        prop_assert_eq!(group.collect::<Result<Vec<_>, _>>(), Ok(points));
    }

    #[test]
    fn a_logon_ack_reads_back_with_its_partitions(
        ack in message::<LogonAck>(),
        partitions in vec(message::<PartitionState>(), 0..70),
    ) {
        let mut frame = vec![];
        put_logon_ack(&ack, &partitions, &mut frame);
        let Ok(NodeMessage::LogonAck(read, group)) = NodeMessage::decode(&raw_of(&frame)) else {
            panic!("not an acknowledgement");
        };
        prop_assert_eq!(read, ack);
        prop_assert_eq!(group.collect::<Result<Vec<_>, _>>(), Ok(partitions));
    }

    #[test]
    fn a_question_and_a_page_read_back_with_their_tokens(
        fetch in message::<FetchOrders>(),
        page in message::<OrderPage>(),
        token in vec(any::<u8>(), 0..=TOKEN_LEN_MAX),
        min_token in vec(any::<u8>(), 0..=TOKEN_LEN_MAX),
    ) {
        let (mut question, mut answer) = (vec![], vec![]);
        let tokens = Tokens { token: &token, min_token: &min_token };
        put_question(&fetch, tokens, &mut question);
        put_order_page(&page, &token, &mut answer);
        prop_assert_eq!(
            ClientMessage::decode(&raw_of(&question)),
            Ok(ClientMessage::FetchOrders(fetch, tokens))
        );
        prop_assert_eq!(
            NodeMessage::decode(&raw_of(&answer)),
            Ok(NodeMessage::OrderPage(page, &token))
        );
    }

    #[test]
    fn source_states_read_back_with_their_sources(
        states in message::<SourceStates>(),
        sources in vec(message::<SourceState>(), 0..70),
    ) {
        let mut frame = vec![];
        put_source_states(&states, &sources, &mut frame);
        let Ok(NodeMessage::SourceStates(read, group)) = NodeMessage::decode(&raw_of(&frame))
        else {
            panic!("not the states of sources");
        };
        prop_assert_eq!(read, states);
        prop_assert_eq!(group.collect::<Result<Vec<_>, _>>(), Ok(sources));
    }

    #[test]
    fn a_page_reads_back_with_its_rows(body in message::<OrderPageBody>(), rows in rows(12)) {
        let mut frame = vec![];
        put_order_page_body(&body, lent(&rows), &mut frame);
        let Ok(NodeMessage::OrderPageBody(read, group)) = NodeMessage::decode(&raw_of(&frame))
        else {
            panic!("not a page");
        };
        prop_assert_eq!(read, body);
        prop_assert_eq!(group.len(), rows.len());
        prop_assert_eq!(group.collect::<Result<Vec<_>, _>>(), Ok(lent(&rows).collect()));
    }

    #[test]
    fn a_batch_reads_back_with_its_rows_decoded_and_raw(
        batch in message::<SourceBatch>(),
        rows in rows(12),
    ) {
        let mut frame = vec![];
        put_source_batch(&batch, lent(&rows), &mut frame);
        let Ok(ClientMessage::SourceBatch(read, mut group)) =
            ClientMessage::decode(&raw_of(&frame))
        else {
            panic!("not a batch");
        };
        prop_assert_eq!(read, batch);
        prop_assert_eq!(group.clone().collect::<Result<Vec<_>, _>>(), Ok(lent(&rows).collect()));
        for (row, attributes) in &rows {
            let (block, raw_attributes) = group.next_raw().unwrap();
            prop_assert_eq!(OrderRow::decode_block(block), Ok(*row));
            prop_assert_eq!(raw_attributes, &attributes[..]);
        }
        prop_assert_eq!(group.next_raw(), None);
    }

    #[test]
    fn a_decoded_message_is_put_again_as_it_came((info, frame) in any_frame()) {
        let raw = raw_of(&frame);
        let mut again = vec![];
        match (ClientMessage::decode(&raw), NodeMessage::decode(&raw)) {
            (Ok(message), _) => message.put(&mut again),
            (_, Ok(message)) => message.put(&mut again),
            _ => return Ok(()), // No peer sends a record of the logs.
        }
        prop_assert_eq!(again, frame, "{}", info.name);
    }

    #[test]
    fn a_group_reads_back_and_leaves_the_rest(
        points in vec(message::<ResumePoint>(), 0..20),
        rest in vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = vec![];
        put_group(&points, &mut bytes);
        bytes.extend_from_slice(&rest);
        let (group, left) = take_group::<ResumePoint>(&bytes).unwrap();
        prop_assert_eq!(left, &rest[..]);
        prop_assert_eq!(group.collect::<Result<Vec<_>, _>>(), Ok(points));
    }
}

/// The longest rows that fit an outside core's frame are as many as the limits promise.
#[test]
fn a_frame_of_an_outside_core_holds_three_hundred_of_the_longest_rows() {
    use weir_wire::frame::FRAME_HEADER_LEN;
    let row = OrderRow { flags: RowFlags::default(), ..sample_row() };
    let attributes = [7; ATTRIBUTES_LEN_MAX];
    let mut group = vec![];
    put_row_count(300, &mut group);
    (0..300).for_each(|_| put_row(&row, &attributes, &mut group));
    let frame_len = FRAME_HEADER_LEN + SourceBatch::BLOCK_LENGTH + group.len();
    assert!(frame_len <= SOURCE_FRAME_LEN_MAX, "{frame_len}");
    assert_eq!(take_rows(&group).unwrap().0.len(), 300);
}

fn sample_row() -> OrderRow {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    message::<OrderRow>().new_tree(&mut runner).expect("any row will do").current()
}

#[test]
fn a_logon_of_before_takeovers_asks_for_none_and_keeps_its_resume_points() {
    let (next_event_no, epoch) = (EventNo(7), Epoch(2));
    let point = ResumePoint { next_event_no, epoch, partition_id: PartitionId(1) };
    let before = [(Logon::TEMPLATE_ID, 41_u16), (SignedLogon::TEMPLATE_ID, 73)];
    for (template_id, block_length) in before {
        let mut body = vec![0; usize::from(block_length)];
        put_group(&[point], &mut body);
        let header = [block_length, template_id, SCHEMA_ID, SCHEMA_VERSION];
        let frame = frame_with(header, &body);
        let (takeover, points) = match ClientMessage::decode(&raw_of(&frame)) {
            Ok(ClientMessage::Logon(logon, points)) => (logon.takeover, points),
            Ok(ClientMessage::SignedLogon(logon, points)) => (logon.takeover, points),
            other => panic!("{other:?}"),
        };
        assert_eq!(takeover, Switch::Off);
        assert_eq!(points.collect::<Result<Vec<_>, _>>(), Ok(vec![point]));
    }
}

#[test]
fn each_side_reads_its_own_messages_and_no_others() {
    let clients = [
        1, 4, 5, 7, 9, 10, 11, 12, 13, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 50,
        54, 55, 60, 70, 72, 76, 79, 90, 91, 94, 96, 97, 100, 103, 110, 111, 112,
    ];
    let nodes = [
        2, 3, 4, 5, 6, 8, 40, 41, 42, 46, 51, 52, 53, 61, 62, 63, 71, 73, 74, 75, 77, 78, 80, 92,
        93, 95, 98, 99, 101, 102, 103, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124,
    ];
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for info in catalogue() {
        let body = any_body(info).new_tree(&mut runner).unwrap().current();
        let frame = frame_of(info, &body);
        let unexpected = weir_wire::DecodeError::Unexpected(info.name);
        match ClientMessage::decode(&raw_of(&frame)) {
            Ok(_) => assert!(clients.contains(&info.template_id), "{}", info.name),
            Err(e) => {
                assert!(!clients.contains(&info.template_id), "{}: {e}", info.name);
                assert_eq!(e, unexpected);
            }
        }
        match NodeMessage::decode(&raw_of(&frame)) {
            Ok(_) => assert!(nodes.contains(&info.template_id), "{}", info.name),
            Err(e) => {
                assert!(!nodes.contains(&info.template_id), "{}: {e}", info.name);
                assert_eq!(e, unexpected);
            }
        }
    }
}

#[test]
fn a_field_is_shown_by_its_meaning() {
    let mut shown = vec![];
    let report = StageTimes { t0: Nanos(9), after_t0: [1, 2, 3, 4, 5, 6] };
    let flags = PageFlags::ONLINE.with(PageFlags::SOURCE_AWAY);
    let marks = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
    shown.push(weir_wire::field::Text(&report).to_string());
    shown.push(weir_wire::field::Text(&flags).to_string());
    shown.push(weir_wire::field::Text(&marks).to_string());
    shown.push(weir_wire::field::Text(&Side::Buy).to_string());
    shown.push(weir_wire::field::Text(&Price(-5)).to_string());
    shown.push(weir_wire::field::Text(&ApiKey([7; 32])).to_string());
    let whole_resend = "resendBegin,resendEnd";
    assert_eq!(shown, ["9,1,2,3,4,5,6", "online,sourceAway", whole_resend, "Buy", "-5", ".."]);
}
