//! The messages that a subscriber gets when epochs end with losses, compared with the events
//! themselves: each surviving trade once, and none that it has taken before.

use weir_broker::{Config, Durability, Name};
use weir_io::{SimDisk, ThreadDisk};
use weir_log::{
    EventAppend, EventLog, EventLogConfig, TailConfig, TailHandle, TailWriter, tail, tail_in,
};
use weir_partition::holds::Holds;
use weir_types::{
    AccountId, ClOrdId, Epochs, EventNo, ExecId, ExecInst, FirmId, InstrumentId, Liquidity,
    MatchId, Nanos, OrdStatus, OrdType, OrderId, Price, Qty, Reason, Rec, RequestNo,
    SelfTradePrevention, Seq, SessionId, TimeInForce,
};
use weir_wire::{Event, PlainEvent};

use super::*;

const TOPIC: Topic = Topic { kind: TopicKind::Executions, key: 0 };

/// Returns the trade that the command at `position` caused.
fn trade(position: u64) -> OrderEvent {
    OrderEvent {
        position: Position(position),
        event_no: EventNo(position),
        request_no: RequestNo(position),
        rec: Rec(position),
        seq: Seq(position),
        order_id: OrderId::new(PartitionId(1), Rec(position)),
        exec_id: ExecId(position),
        match_id: MatchId(position),
        transact_time: Nanos(position),
        created_time: Nanos(position),
        cl_ord_id: ClOrdId::from_number(position),
        orig_cl_ord_id: ClOrdId::NONE,
        price: Price(100),
        stop_px: Price(0),
        last_px: Price(100),
        last_qty: Qty(10),
        order_qty: Qty(10),
        leaves_qty: Qty::ZERO,
        cum_qty: Qty(10),
        display_qty: Qty::ZERO,
        min_qty: Qty::ZERO,
        expire_time: Nanos(0),
        session_id: SessionId(1),
        firm_id: FirmId(1),
        account_id: AccountId(1),
        instrument_id: InstrumentId(1),
        partition_id: PartitionId(1),
        reason: Reason::None,
        side: Side::Sell,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        self_trade_prevention: SelfTradePrevention::None,
        exec_type: ExecType::Trade,
        ord_status: OrdStatus::Filled,
        liquidity: Liquidity::None,
    }
}

/// Writes an event log that has a trade at each position up to `count`.
fn write_trades(dir: &std::path::Path, count: u64) {
    let disk = ThreadDisk::open(dir, None).unwrap();
    let config =
        EventLogConfig { segment_bytes: 64 << 10, ..EventLogConfig::new(PartitionId(1), 7) };
    let (mut log, _) = EventLog::open(config, Position(1), disk).unwrap();
    for position in 1..=count {
        let mut record = Vec::new();
        Event::Plain(PlainEvent::OrderEvent(trade(position))).encode(&mut record);
        assert_eq!(log.append(Position(position), &record), EventAppend::Taken);
    }
    log.close().unwrap();
}

/// Returns the tail behind `count` events, whose epochs ended as given.
fn tail_of(count: u64, epoch: u32, ended: &[(u32, u64)]) -> (TailWriter, TailHandle) {
    let ended = ended.iter().map(|(epoch, last_valid)| (Epoch(*epoch), Position(*last_valid)));
    let epochs = Epochs::with_ended(Epoch(epoch), ended);
    tail_in(TailConfig::new(1 << 20, count + 1), epochs)
}

/// One life of a node whose log has a trade at each position up to `count`; returns the number of
/// messages that the broker took.
fn live(broker: &mut Broker<SimDisk>, count: u64, epoch: u32, ended: &[(u32, u64)]) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    write_trades(dir.path(), count);
    let (_writer, handle) = tail_of(count, epoch, ended);
    let events = EventReader::new(&handle, dir.path().to_owned(), 1);
    let mut producer = producer_of(events);
    let produced = producer.work(broker, usize::MAX, Nanos(1), |_| {});
    assert!(producer.has_caught_up(), "it stopped after {produced:?}");
    assert_eq!(producer.mark().epoch, Epoch(epoch));
    produced.messages
}

fn subscribed() -> Broker<SimDisk> {
    let (mut broker, _) = Broker::open(Config::new(1), SimDisk::new(1), Nanos(1)).unwrap();
    let _ = broker.create(&Name::new("desk").unwrap(), TOPIC, None, Nanos(1)).unwrap();
    broker
}

#[test]
fn events_of_an_epoch_before_the_newest_message_are_passed_over() {
    let mut broker = subscribed();
    assert_eq!(live(&mut broker, 10, 1, &[]), 10);
    assert_eq!(live(&mut broker, 30, 2, &[(1, 10)]), 20);
    assert_eq!(live(&mut broker, 33, 2, &[(1, 10)]), 3, "a start without a loss");
}

#[test]
fn a_trade_that_replaces_one_of_an_epoch_before_the_last_reaches_its_subscribers() {
    let mut broker = subscribed();
    assert_eq!(live(&mut broker, 12, 1, &[]), 12);
    // Epoch 2 had no trades, and lost more than its own.
    assert_eq!(live(&mut broker, 20, 3, &[(1, 10), (2, 8)]), 12, "the trades from 9 on are others");
    assert_eq!(live(&mut broker, 20, 3, &[(1, 10), (2, 8)]), 0, "all are repeated");
}

#[test]
fn trades_that_replace_ones_taken_back_while_the_feed_runs_reach_its_subscribers() {
    let mut broker = subscribed();
    let (mut writer, handle) = tail(TailConfig::new(1 << 20, 1));
    let events = EventReader::new(&handle, "no-files".into(), 1);
    let mut producer = producer_of(events);
    let mut work = || producer.work(&mut broker, usize::MAX, Nanos(1), |_| {}).messages;
    append(&mut writer, 1..=12);
    assert_eq!(work(), 12);
    writer.end_epoch(Position(8), Epoch(2), 9);
    assert_eq!(work(), 0, "an end is no message");
    append(&mut writer, 9..=20);
    assert_eq!(work(), 12);
    assert_eq!(producer.mark().epoch, Epoch(2));
}

fn append(writer: &mut TailWriter, positions: std::ops::RangeInclusive<u64>) {
    let mut record = Vec::new();
    for position in positions {
        record.clear();
        Event::Plain(PlainEvent::OrderEvent(trade(position))).encode(&mut record);
        writer.append(&record);
    }
    writer.publish();
}

fn producer_of(events: EventReader) -> EventProducer {
    let (partition_id, event_count, last) = (PartitionId(1), 30, Position(30));
    EventProducer::new(EventParts { partition_id, events, event_count, last })
}

/// At `memory` nothing is written for a client that is away: all records stay.
fn unwritten_records_are_held() {
    let config = Config { durability: Durability::Memory, ..Config::new(1) };
    let (mut broker, _) = Broker::open(config, SimDisk::new(1), Nanos(1)).unwrap();
    let _ = broker.create(&Name::new("desk").unwrap(), TOPIC, None, Nanos(1)).unwrap();
    let (mut writer, handle) = tail(TailConfig::new(1 << 20, 1));
    let holds = Holds::default();
    let events = EventReader::new(&handle, "no-files".into(), 1).holding(&holds, "reader");
    let mut producer = producer_of(events);
    append(&mut writer, 1..=12);
    for cycle in 1..20 {
        let now = Nanos(cycle * 1_000_000_000);
        producer.work(&mut broker, usize::MAX, now, |_| {});
        let _ = broker.do_work(now).unwrap();
        broker.wait();
        assert_eq!(holds.least().map(|least| least.from), Some(1));
    }
}

/// Records that were read stay until the messages of them are on disk, and until the table says so.
fn unsettled_records_are_held() {
    unwritten_records_are_held();
    let mut broker = subscribed();
    let (mut writer, handle) = tail(TailConfig::new(1 << 20, 1));
    let holds = Holds::default();
    let events = EventReader::new(&handle, "no-files".into(), 1).holding(&holds, "reader");
    let mut producer = producer_of(events);
    append(&mut writer, 1..=12);
    let held = || holds.least().expect("the reader holds its place").from;
    let mut work = |broker: &mut Broker<SimDisk>, now: u64| {
        producer.work(broker, usize::MAX, Nanos(now), |_| {});
    };
    work(&mut broker, 1);
    assert_eq!(held(), 1, "all messages are in memory only");
    work(&mut broker, 2);
    assert_eq!(held(), 1);
    let settled = (1..100).find(|cycle| {
        let now = Nanos(cycle * 1_000_000_000);
        let _ = broker.do_work(now).unwrap();
        broker.wait();
        work(&mut broker, now.0);
        let place = broker.place_of(Source(1)).map_or(0, |place| place.record.0);
        assert!(held() <= place + 1, "record {} may be gone, and {place} is saved", held() - 1);
        held() == 13
    });
    assert!(settled.is_some(), "the messages are on disk: {}", held());
    // Records taken back by a loss are held again.
    append(&mut writer, 13..=20);
    work(&mut broker, 1);
    writer.end_epoch(Position(8), Epoch(2), 9);
    work(&mut broker, 1);
    assert_eq!(held(), 9);
}

#[test]
fn records_are_held_until_a_crash_takes_none_of_their_messages() {
    unsettled_records_are_held();
}

#[test]
fn a_broker_that_has_stopped_holds_no_record() {
    let disk = SimDisk::new(1);
    let (mut broker, _) = Broker::open(Config::new(1), disk.clone(), Nanos(1)).unwrap();
    let _ = broker.create(&Name::new("desk").unwrap(), TOPIC, None, Nanos(1)).unwrap();
    let (mut writer, handle) = tail(TailConfig::new(1 << 20, 1));
    let holds = Holds::default();
    let events = EventReader::new(&handle, "no-files".into(), 1).holding(&holds, "reader");
    let snapshots = holds.hold("snapshots", 9);
    let mut producer = producer_of(events);
    append(&mut writer, 1..=12);
    producer.work(&mut broker, usize::MAX, Nanos(1), |_| {});
    assert_eq!(holds.least().map(|least| least.from), Some(1));
    producer.let_go();
    assert_eq!(holds.least().map(|least| least.holder), Some("snapshots"));
    drop(snapshots);
    assert_eq!(holds.least().map(|least| least.from), Some(u64::MAX));
}

/// A broker whose messages end before the first event that there is tells so; no other does.
fn gaps_are_told() {
    let name = Name::new("desk").unwrap();
    for (first, settled, is_told) in [(1, 0, false), (11, 10, false), (12, 10, true), (2, 0, true)]
    {
        let mut broker = subscribed();
        let (_writer, handle) = tail(TailConfig::new(1 << 20, first));
        let mut producer = producer_of(EventReader::new(&handle, "no-files".into(), first));
        if settled > 0 {
            let _ = broker.note_place(producer.mark_of(settled));
        }
        producer.tell_gap(&mut broker);
        let attached = broker.attach(&name, Nanos(1)).unwrap();
        assert_eq!(attached.may_have_lost, is_told, "{settled}, then {first}");
    }
}

#[test]
fn a_place_of_an_epoch_that_lost_events_does_not_count_for_later_ones() {
    let (name, dir) = (Name::new("desk").unwrap(), tempfile::tempdir().unwrap());
    write_trades(dir.path(), 30);
    // The first retained event, the place, the log's epochs.
    for (first, place, epoch, ended, is_told) in [
        (15, (1, 25), 2, &[(1, 20)][..], false),
        (22, (1, 25), 2, &[(1, 20)], true),
        (21, (1, 25), 2, &[(1, 20)], true),
        (27, (1, 25), 2, &[(1, 20)], true),
        (26, (2, 25), 2, &[(1, 20)], false),
        (27, (2, 25), 2, &[(1, 20)], true),
        (22, (1, 25), 3, &[(1, 28), (2, 20)], true),
        (15, (7, 25), 2, &[(1, 20)], true),
        (1, (1, 25), 2, &[(1, 20)], false),
        // No event is retained.
        (31, (1, 30), 2, &[(1, 30)], false),
        (31, (1, 30), 2, &[(1, 29)], true),
        (31, (1, 29), 2, &[(1, 30)], true),
    ] {
        let mut broker = subscribed();
        let (source, record) = (Source(1), Position(place.1));
        let _ = broker.note_place(OriginMark { source, epoch: Epoch(place.0), record });
        let (_writer, handle) = tail_of(30, epoch, ended);
        let mut producer = producer_of(EventReader::new(&handle, dir.path().to_owned(), first));
        producer.tell_gap(&mut broker);
        let attached = broker.attach(&name, Nanos(1)).unwrap();
        assert_eq!(attached.may_have_lost, is_told, "{first} {place:?} {ended:?}");
    }
}

#[test]
fn subscribers_are_told_when_events_behind_their_messages_are_gone() {
    gaps_are_told();
}

/// The table of a node that has one partition again kept the places of the others for ever, in a
/// version that programs from before several partitions do not read.
#[test]
fn the_place_of_a_partition_that_the_node_has_no_more_is_dropped_and_its_loss_is_told() {
    let name = Name::new("desk").unwrap();
    for (removed, is_told) in [(None, false), (Some(7), true)] {
        let mut broker = subscribed();
        for source in [Some(1), removed].into_iter().flatten() {
            let (epoch, record) = (Epoch(1), Position(4));
            let _ = broker.note_place(OriginMark { source: Source(source), epoch, record });
        }
        let (_writer, handle) = tail(TailConfig::new(1 << 20, 1));
        let producers = [producer_of(EventReader::new(&handle, "no-files".into(), 1))];
        drop_removed(&producers, &mut broker);
        let places = [1, 7].map(|source| broker.place_of(Source(source)).is_some());
        assert_eq!(places, [true, false]);
        let attached = broker.attach(&name, Nanos(1)).unwrap();
        assert_eq!(attached.may_have_lost, is_told, "{removed:?}");
    }
}

#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_is_found() {
    // Those of the bounds are found by their own test.
    let others = [Plant::FirmCountedBySession, Plant::SessionCountedByFirm];
    for planted in Plant::ALL.iter().copied().filter(|plant| !others.contains(plant)) {
        plant::set(Some(planted));
        let scenarios: [fn(); 2] = [unsettled_records_are_held, gaps_are_told];
        let is_found = scenarios.iter().any(|run| std::panic::catch_unwind(run).is_err());
        plant::set(None);
        assert!(is_found, "{planted:?}");
    }
}
