//! The broker's promises, one case each: service from memory, isolation of subscribers, the
//! eviction of those that are too far behind, and the reuse of space.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use support::{body, config, mark, name, settle, topic};
use weir_broker::{
    Attachment, Broker, BrokerError, Config, Durability, EvictReason, MessageNo, Notice, OnFull,
    PublishOutcome, PublishRefusal, Quota, SubscriptionError, Terms,
};
use weir_io::disk::sim::{Shortage, TraceOp};
use weir_io::{DiskErrorKind, SimDisk, SimFaults};
use weir_types::{Epoch, Nanos};

fn open(config: &Config) -> (Broker<SimDisk>, SimDisk) {
    let disk = SimDisk::new(7);
    let (broker, _) = Broker::open(config.clone(), disk.clone(), Nanos(1)).unwrap();
    (broker, disk)
}

/// Creates a subscription to topic 1 and waits until it is saved.
fn make(broker: &mut Broker<SimDisk>, number: u64, quota: Option<Quota>) {
    let change = broker.create(&name(number), topic(1), quota, Nanos(1)).unwrap();
    settle(broker, 1).unwrap();
    assert!(broker.is_saved(change));
}

fn publish(broker: &mut Broker<SimDisk>, record: u64, now: u64) -> MessageNo {
    let at = mark(1, record);
    match broker.publish(topic(1), at, &body(topic(1), at), Nanos(now)).unwrap() {
        PublishOutcome::Taken(no) => no,
        other => panic!("{other:?}"),
    }
}

fn attach(broker: &mut Broker<SimDisk>, number: u64) -> Attachment {
    broker.attach(&name(number), Nanos(1)).unwrap().attachment
}

/// Takes and acknowledges up to `max` messages; returns their records.
fn take(broker: &mut Broker<SimDisk>, hold: Attachment, max: usize) -> Vec<u64> {
    let (mut records, mut last) = (Vec::new(), MessageNo::NONE);
    let count = broker.take_messages(hold, max, |delivery| {
        assert_eq!(delivery.body, body(topic(1), delivery.mark));
        records.push(delivery.mark.record.0);
        last = delivery.no;
    });
    assert_eq!(count, Ok(records.len()));
    broker.ack(hold, last, Nanos(1)).unwrap();
    records
}

/// The places of sources that were gone kept the version that programs from before do not read.
#[test]
fn a_table_with_one_place_again_has_the_version_of_before_in_both_slots() {
    let (mut broker, disk) = open(&config(Durability::Disk));
    make(&mut broker, 1, None);
    for source in [1, 7] {
        let _ = broker.note_place(mark(source, 5));
    }
    broker.close().unwrap();
    drop(broker);
    let slots = ["subscriptions-0.wtable", "subscriptions-1.wtable"];
    let versions = |disk: &SimDisk| slots.map(|slot| disk.contents(slot).unwrap()[8]);
    assert!(versions(&disk).contains(&3), "{:?}", versions(&disk));

    let (config, disk) = (config(Durability::Disk), disk.after_process_crash());
    let (mut broker, _) = Broker::open(config, disk.clone(), Nanos(1)).unwrap();
    let dropped = broker.keep_places(|source| source == mark(1, 0).source);
    assert_eq!(dropped, [mark(7, 5)]);
    assert_eq!(broker.keep_places(|source| source == mark(1, 0).source), []);
    settle(&mut broker, 2).unwrap();
    broker.close().unwrap();
    assert_eq!(versions(&disk), [2, 2]);
}

#[test]
fn nothing_is_written_for_subscribers_that_keep_up() {
    for level in [Durability::Memory, Durability::Os, Durability::Disk] {
        let (mut broker, _disk) = open(&config(level));
        make(&mut broker, 1, None);
        make(&mut broker, 2, None);
        let holds = [attach(&mut broker, 1), attach(&mut broker, 2)];
        for record in 1..=5_000 {
            let no = publish(&mut broker, record, record);
            for hold in holds {
                assert_eq!(take(&mut broker, hold, 10), [record]);
            }
            broker.do_work(Nanos(record)).unwrap();
            assert_eq!(broker.acknowledged(), no, "taken by all is acknowledged");
        }
        let counters = broker.counters();
        assert_eq!((counters.blocks, counters.written), (0, 0), "{level}");
        assert_eq!(broker.holdings().messages, 0);
    }
}

#[test]
fn a_message_for_somebody_away_is_acknowledged_when_it_is_on_the_medium() {
    let (mut broker, disk) = open(&config(Durability::Disk));
    make(&mut broker, 1, None);
    let no = publish(&mut broker, 1, 10);
    assert!(broker.acknowledged() < no);
    settle(&mut broker, 10).unwrap();
    assert_eq!(broker.acknowledged(), no);
    let lost = disk.after_power_loss(weir_io::disk::sim::CrashChoice::LoseAll);
    let (mut broker, report) = Broker::open(config(Durability::Disk), lost, Nanos(20)).unwrap();
    assert_eq!((report.messages, report.may_have_lost), (1, false));
    let hold = attach(&mut broker, 1);
    assert_eq!(take(&mut broker, hold, 10), [1]);
}

#[test]
fn a_slow_subscriber_that_is_there_holds_an_acknowledgement_up_for_no_longer_than_configured() {
    let (mut broker, _disk) = open(&config(Durability::Disk));
    make(&mut broker, 1, None);
    let _hold = attach(&mut broker, 1);
    let no = publish(&mut broker, 1, 1_000);
    settle(&mut broker, 1_299).unwrap();
    assert!(broker.acknowledged() < no);
    settle(&mut broker, 1_300).unwrap();
    assert_eq!(broker.acknowledged(), no);
}

#[test]
fn who_is_behind_reads_blocks_in_order_and_files_go_as_they_are_read() {
    let (mut broker, disk) = open(&config(Durability::Memory));
    make(&mut broker, 1, None);
    for record in 1..=2_000 {
        let _no = publish(&mut broker, record, record);
        broker.do_work(Nanos(record)).unwrap();
    }
    settle(&mut broker, 2_000).unwrap();
    let (counters, before) = (broker.counters(), broker.holdings());
    assert!(before.files > 20, "{before:?}");
    let mean = counters.block_bytes / counters.blocks;
    assert!(mean >= 1024, "a block has at least what is configured: {mean}");
    let hold = attach(&mut broker, 1);
    let (mut records, mut held) = (Vec::new(), before.disk_bytes);
    while records.len() < 2_000 {
        records.extend(take(&mut broker, hold, 16));
        settle(&mut broker, 3_000).unwrap();
        let now = broker.holdings().disk_bytes;
        assert!(now <= held, "reading takes no space");
        held = now;
    }
    assert!(records.is_sorted() && records.len() == 2_000);
    assert!(broker.holdings().files <= 1, "{:?}", broker.holdings());
    use weir_io::Disk;
    let names = disk.clone().list().unwrap();
    assert!(names.iter().filter(|name| name.ends_with(".wspill")).count() <= 1, "{names:?}");
}

#[test]
fn a_soak_with_one_that_takes_little_fills_no_disk() {
    let mut config = config(Durability::Disk);
    config.hold = Nanos(0);
    let (mut broker, _disk) = open(&config);
    make(&mut broker, 1, None);
    // One message in a hundred goes to a topic whose subscriber never comes.
    broker.create(&name(2), topic(2), None, Nanos(1)).unwrap();
    let hold = attach(&mut broker, 1);
    let (mut most, mut rare) = (0, 0);
    for record in 1..=30_000_u64 {
        let _no = publish(&mut broker, record, record);
        if record % 100 == 0 {
            let taken = broker.publish(topic(2), mark(1, record), &[5; 8], Nanos(record));
            assert!(matches!(taken, Ok(PublishOutcome::Taken(_))));
            rare += 1;
        }
        broker.do_work(Nanos(record)).unwrap();
        broker.do_work(Nanos(record)).unwrap();
        if record % 4 == 0 {
            take(&mut broker, hold, 16);
        }
        most = most.max(broker.holdings().disk_bytes);
    }
    let (held, counters) = (broker.holdings(), broker.counters());
    assert!(counters.block_bytes > 10 * most, "{counters:?}");
    assert!(counters.moved_bytes > 0, "files with one wanted part are emptied");
    // The wanted bytes, as much again, and five files.
    assert!(most <= 2 * rare * 200 + 2 * (16 << 10) + 6 * 5_120, "{most} bytes, {held:?}");
}

#[test]
fn an_operator_has_files_emptied_that_hold_little_and_nothing_is_lost() {
    let mut config = config(Durability::Disk);
    config.hold = Nanos(0);
    let (mut broker, disk) = open(&config);
    make(&mut broker, 1, None);
    broker.create(&name(2), topic(2), None, Nanos(1)).unwrap();
    settle(&mut broker, 1).unwrap();
    for record in 1..=600_u64 {
        let _no = publish(&mut broker, record, record);
        // One in twenty is of a topic that no client takes for now.
        if record % 20 == 0 {
            let at = mark(2, record);
            let taken = broker.publish(topic(2), at, &body(topic(2), at), Nanos(record));
            assert!(matches!(taken, Ok(PublishOutcome::Taken(_))));
        }
        broker.do_work(Nanos(record)).unwrap();
    }
    settle(&mut broker, 1_000).unwrap();
    let hold = attach(&mut broker, 1);
    while !take(&mut broker, hold, 64).is_empty() {}
    settle(&mut broker, 2_000).unwrap();
    let before = broker.holdings();
    let moved = broker.counters().moved_bytes;
    broker.compact();
    settle(&mut broker, 3_000).unwrap();
    let after = broker.holdings();
    assert!(after.disk_bytes * 3 < before.disk_bytes * 2, "{before:?} {after:?}");
    assert!(after.files < before.files && broker.counters().moved_bytes > moved);
    // A second compaction finds nothing to do and loses nothing.
    broker.compact();
    settle(&mut broker, 4_000).unwrap();
    assert_eq!(broker.holdings().wanted_bytes, after.wanted_bytes);
    // All wanted messages are there, also after a power loss.
    let lost = disk.after_power_loss(weir_io::disk::sim::CrashChoice::LoseAll);
    drop(broker);
    let (mut broker, _) = Broker::open(config, lost, Nanos(5_000)).unwrap();
    let hold = broker.attach(&name(2), Nanos(5_000)).unwrap().attachment;
    let mut records = Vec::new();
    loop {
        let mut last = MessageNo::NONE;
        let taken = broker.take_messages(hold, 64, |delivery| {
            assert_eq!(delivery.body, body(topic(2), delivery.mark));
            records.push(delivery.mark.record.0);
            last = delivery.no;
        });
        if taken == Ok(0) {
            break;
        }
        broker.ack(hold, last, Nanos(5_000)).unwrap();
    }
    assert_eq!(records, (1..=30).map(|nth| nth * 20).collect::<Vec<u64>>());
}

#[test]
fn past_its_quota_a_subscription_is_evicted_with_the_marks_to_come_back_with() {
    let quota = |bytes, messages, age| Quota {
        bytes_max: bytes,
        messages_max: messages,
        age_max: Nanos(age),
    };
    let cases = [
        (quota(500, 1 << 20, 1 << 40), EvictReason::Bytes),
        (quota(1 << 20, 5, 1 << 40), EvictReason::Messages),
        (quota(1 << 20, 1 << 20, 50), EvictReason::Age),
    ];
    for (quota, reason) in cases {
        let (mut broker, disk) = open(&config(Durability::Disk));
        make(&mut broker, 1, Some(quota));
        make(&mut broker, 2, None);
        let (first, other) = (attach(&mut broker, 1), attach(&mut broker, 2));
        let _no = publish(&mut broker, 1, 10);
        assert_eq!((take(&mut broker, first, 1), take(&mut broker, other, 1)), (vec![1], vec![1]));
        for record in 2..=40 {
            let _no = publish(&mut broker, record, 9 + record);
        }
        broker.do_work(Nanos(70)).unwrap();
        let evicted = Notice::Evicted { name: name(1), reason };
        assert_eq!(broker.take_notices(), [evicted]);
        let refused = broker.take_messages(first, 1, |_| {});
        assert_eq!(refused, Err(SubscriptionError::NotAttached));
        settle(&mut broker, 70).unwrap();
        assert_eq!(take(&mut broker, other, 1), [2], "the others go on");
        let again = disk.after_process_crash();
        let (mut broker, _) = Broker::open(config(Durability::Disk), again, Nanos(80)).unwrap();
        match broker.attach(&name(1), Nanos(80)) {
            Err(SubscriptionError::Evicted { reason: told, taken, .. }) => {
                assert_eq!((told, taken.as_slice()), (reason, &[mark(1, 1)][..]));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_subscription_that_nobody_attaches_to_expires_and_whoever_comes_is_told() {
    let mut config = config(Durability::Disk);
    config.expire_after = Nanos(1_000);
    let (mut broker, _disk) = open(&config);
    make(&mut broker, 1, None);
    make(&mut broker, 2, None);
    let hold = attach(&mut broker, 2);
    let _no = publish(&mut broker, 1, 10);
    settle(&mut broker, 1_000).unwrap();
    assert!(
        broker
            .attach(&name(1), Nanos(1_000))
            .is_ok_and(|attached| { broker.detach(attached.attachment, Nanos(1_000)).is_ok() })
    );
    settle(&mut broker, 1_999).unwrap();
    assert_eq!(broker.take_notices(), []);
    settle(&mut broker, 2_000).unwrap();
    assert_eq!(broker.take_notices(), [Notice::Expired { name: name(1) }]);
    let told = broker.attach(&name(1), Nanos(2_001));
    assert!(matches!(told, Err(SubscriptionError::Expired { .. })), "{told:?}");
    assert_eq!(take(&mut broker, hold, 5), [1], "who is attached does not expire");
    settle(&mut broker, 3_000).unwrap();
    let unknown = broker.attach(&name(1), Nanos(3_000));
    assert_eq!(unknown, Err(SubscriptionError::Unknown(name(1))), "it was told for as long again");
}

#[test]
fn a_full_disk_evicts_or_refuses_as_configured_and_nobody_else_notices() {
    for on_full in [OnFull::Evict, OnFull::Refuse] {
        let mut config = config(Durability::Memory);
        config.on_full = on_full;
        let (mut broker, disk) = open(&config);
        make(&mut broker, 1, None);
        make(&mut broker, 2, None);
        let hold = attach(&mut broker, 2);
        disk.set_faults(SimFaults { full_from: Some(0), ..SimFaults::default() });
        let mut refused = 0;
        for record in 1..=500 {
            let at = mark(1, record);
            match broker.publish(topic(1), at, &body(topic(1), at), Nanos(record)) {
                Ok(PublishOutcome::Taken(_)) => {
                    assert_eq!(take(&mut broker, hold, 5), [record], "who is there goes on");
                }
                Err(PublishRefusal::DiskFull | PublishRefusal::MemoryFull) => refused += 1,
                other => panic!("{other:?}"),
            }
            broker.do_work(Nanos(record)).unwrap();
        }
        let evicted = broker.take_notices().len();
        assert!((refused > 0, evicted) == (on_full == OnFull::Refuse, usize::from(refused == 0)));
        disk.set_faults(SimFaults::default());
        settle(&mut broker, 10_000).unwrap();
        settle(&mut broker, 20_000).unwrap();
        let _no = publish(&mut broker, 1_000, 20_000);
        assert_eq!(take(&mut broker, hold, 5), [1_000]);
    }
}

#[test]
pub(crate) fn a_broker_without_a_descriptor_keeps_messages_and_writes_them_when_there_is_one() {
    let (mut broker, disk) = open(&config(Durability::Disk));
    make(&mut broker, 1, None);
    let before = broker.acknowledged();
    disk.set_shortage(Shortage { lacks_descriptors: true, ..Shortage::default() });
    let nos: Vec<_> = (1..=20).map(|record| publish(&mut broker, record, record)).collect();
    for now in (100..5_000).step_by(100) {
        broker.do_work(Nanos(now)).unwrap();
    }
    assert!(broker.lacks_descriptor());
    let tries = broker.counters().no_descriptor;
    assert!((5..=10).contains(&tries), "{tries} tries, one in a pause of 500 each");
    let refused = broker.close().unwrap_err();
    let BrokerError::Disk(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.kind, DiskErrorKind::NoDescriptors);
    assert_eq!((broker.acknowledged(), broker.take_notices()), (before, Vec::new()));
    disk.set_shortage(Shortage::default());
    settle(&mut broker, 10_000).unwrap();
    assert_eq!((broker.acknowledged(), broker.lacks_descriptor()), (nos[19], false));
    let hold = attach(&mut broker, 1);
    let got: Vec<_> = (0..4).flat_map(|_| take(&mut broker, hold, 5)).collect();
    assert!(got.into_iter().eq(1..=20), "each once and in order");
    broker.close().unwrap();
}

#[test]
fn a_failed_write_or_sync_stops_the_broker_and_nothing_more_is_acknowledged() {
    for sync in [false, true] {
        let (mut broker, disk) = open(&config(Durability::Disk));
        make(&mut broker, 1, None);
        let _no = publish(&mut broker, 1, 10);
        settle(&mut broker, 10).unwrap();
        let before = broker.acknowledged();
        let at = Some(0);
        let (write_fails_at, sync_fails_at) = if sync { (None, at) } else { (at, None) };
        disk.set_faults(SimFaults { write_fails_at, sync_fails_at, ..SimFaults::default() });
        let _no = publish(&mut broker, 2, 20);
        let failed = settle(&mut broker, 20).unwrap_err();
        assert!(matches!(failed, BrokerError::Disk(_)));
        assert_eq!((broker.do_work(Nanos(30)), broker.acknowledged()), (Err(failed), before));
        let at = mark(1, 3);
        assert_eq!(broker.publish(topic(1), at, b"x", Nanos(30)), Err(PublishRefusal::Stopped));
        let again = disk.after_process_crash();
        let (mut broker, _) = Broker::open(config(Durability::Disk), again, Nanos(40)).unwrap();
        let hold = attach(&mut broker, 1);
        let records = take(&mut broker, hold, 10);
        assert!(records == [1] || records == [1, 2], "{records:?}");
    }
}

#[test]
fn a_bit_flipped_in_what_was_synced_is_refused_with_file_and_offset() {
    let (mut broker, disk) = open(&config(Durability::Disk));
    make(&mut broker, 1, None);
    for record in 1..=3 {
        let _no = publish(&mut broker, record, record);
        settle(&mut broker, record).unwrap();
    }
    broker.close().unwrap();
    let file = "00000000000000000001.wspill";
    for bit in (0..disk.contents(file).unwrap().len() as u64 * 8).step_by(97) {
        let flipped = disk.after_process_crash();
        flipped.flip_bit(file, bit);
        match Broker::open(config(Durability::Disk), flipped, Nanos(9)) {
            Err(BrokerError::Damaged { file: told, .. }) => assert_eq!(told, file),
            // The zeros after a block, which are filled again.
            Ok((_, report)) => assert_eq!(report.messages, 3, "bit {bit}"),
            Err(other) => panic!("bit {bit}: {other}"),
        }
    }
}

#[test]
fn repeated_marks_are_taken_once_and_epochs_do_not_go_back() {
    let (mut broker, _disk) = open(&config(Durability::Disk));
    make(&mut broker, 1, None);
    let no = publish(&mut broker, 5, 1);
    let repeated = broker.publish(topic(1), mark(1, 5), b"", Nanos(2));
    assert_eq!(repeated, Ok(PublishOutcome::Repeated(no)));
    let mut next = mark(1, 1);
    next.epoch = Epoch(2);
    assert!(matches!(broker.publish(topic(1), next, b"", Nanos(2)), Ok(PublishOutcome::Taken(_))));
    let back = broker.publish(topic(1), mark(1, 9), b"", Nanos(2));
    assert_eq!(back, Err(PublishRefusal::EpochBack { last: next }));
    let long = broker.publish(topic(1), mark(2, 1), &[0; 70_000], Nanos(2));
    assert_eq!(long, Err(PublishRefusal::TooLong { bytes: 70_000, max: 65_536 }));
    let unwanted = broker.publish(topic(9), mark(1, 1), b"", Nanos(2));
    assert_eq!(unwanted, Ok(PublishOutcome::Unwanted));
    let counters = broker.counters();
    assert_eq!((counters.repeated, counters.refused, counters.unwanted), (1, 2, 1));
}

#[test]
fn a_wrong_name_hold_or_acknowledgement_is_refused_by_type() {
    let (mut broker, _disk) = open(&config(Durability::Disk));
    make(&mut broker, 1, None);
    let exists = broker.create(&name(1), topic(2), None, Nanos(1));
    assert_eq!(exists, Err(SubscriptionError::Exists(name(1))));
    let hold = attach(&mut broker, 1);
    let attached = Err(SubscriptionError::Attached(name(1)));
    assert_eq!(broker.attach(&name(1), Nanos(1)), attached);
    assert_eq!(broker.delete(&name(1)).map(|_| ()), Err(SubscriptionError::Attached(name(1))));
    let no = publish(&mut broker, 1, 1);
    let ahead = broker.ack(hold, no, Nanos(1));
    let delivered = MessageNo(no.0 - 1);
    assert_eq!(ahead, Err(SubscriptionError::AckAhead { acked: no, delivered }));
    broker.detach(hold, Nanos(1)).unwrap();
    let gone = Err(SubscriptionError::NotAttached);
    assert_eq!(broker.detach(hold, Nanos(1)), gone);
    assert_eq!(broker.token(&name(1)), Err(SubscriptionError::OtherKind(name(1))));
    let unknown = SubscriptionError::Unknown(name(9));
    assert_eq!(broker.delete(&name(9)).map(|_| ()), Err(unknown));
}

#[test]
fn a_named_token_outlives_the_power() {
    let (mut broker, disk) = open(&config(Durability::Disk));
    broker.create_token(&name(1), b"first", &Terms::default(), Nanos(1)).unwrap();
    let change = broker.keep_token(&name(1), b"second", Nanos(2)).unwrap();
    assert!(!broker.is_saved(change));
    settle(&mut broker, 2).unwrap();
    assert!(broker.is_saved(change));
    let lost = disk.after_power_loss(weir_io::disk::sim::CrashChoice::LoseAll);
    let (mut broker, _) = Broker::open(config(Durability::Disk), lost, Nanos(3)).unwrap();
    assert_eq!(broker.token(&name(1)), Ok(&b"second"[..]));
    let attached = broker.attach(&name(1), Nanos(3));
    assert_eq!(attached, Err(SubscriptionError::OtherKind(name(1))));
    let (bytes, max) = (5_000, weir_broker::TOKEN_BYTES_MAX);
    let long = broker.keep_token(&name(1), &[0; 5_000], Nanos(3));
    assert_eq!(long, Err(SubscriptionError::TokenTooLong { bytes, max }));
}

#[test]
fn what_was_not_acknowledged_by_a_subscriber_comes_again_and_says_so() {
    let (mut broker, _disk) = open(&config(Durability::Memory));
    make(&mut broker, 1, None);
    for record in 1..=4 {
        let _no = publish(&mut broker, record, 1);
    }
    let hold = attach(&mut broker, 1);
    assert_eq!(take(&mut broker, hold, 2), [1, 2]);
    assert_eq!(broker.take_messages(hold, 1, |delivery| assert!(!delivery.is_again)), Ok(1));
    broker.detach(hold, Nanos(1)).unwrap();
    let hold = attach(&mut broker, 1);
    let mut again = Vec::new();
    let count = broker.take_messages(hold, 9, |delivery| {
        again.push((delivery.mark.record.0, delivery.is_again));
    });
    assert_eq!((count, again), (Ok(2), vec![(3, true), (4, false)]));
}

#[test]
pub(crate) fn what_is_given_up_with_its_subscription_is_acknowledged_once_that_is_saved() {
    let (mut broker, _disk) = open(&config(Durability::Disk));
    make(&mut broker, 1, None);
    let waits = publish(&mut broker, 1, 2);
    let change = broker.evict(&name(1)).unwrap();
    // Given up first, with a higher number: without a subscription it is not queued.
    let nobodys = publish(&mut broker, 2, 2);
    broker.do_work(Nanos(2)).unwrap();
    assert!(!broker.is_saved(change) && broker.acknowledged() < waits);
    settle(&mut broker, 3).unwrap();
    assert!(broker.is_saved(change) && broker.acknowledged() >= nobodys);
}

#[test]
pub(crate) fn nothing_is_written_behind_what_an_eviction_lost_before_that_is_saved() {
    let (mut broker, disk) = open(&config(Durability::Disk));
    make(&mut broker, 1, None);
    publish(&mut broker, 1, 2);
    settle(&mut broker, 2).unwrap();
    disk.record();
    let _saved_below = broker.evict(&name(1)).unwrap();
    publish(&mut broker, 2, 3);
    let _saved_below = broker.create(&name(2), topic(1), None, Nanos(3)).unwrap();
    publish(&mut broker, 3, 3);
    settle(&mut broker, 4).unwrap();
    let starts = disk.take_trace().into_iter().filter_map(|op| match op {
        TraceOp::Write { bytes, .. } => Some(bytes[..4].to_vec()),
        _ => None,
    });
    let starts: Vec<Vec<u8>> = starts.collect();
    assert_eq!(starts[0], b"WEIR", "the table first: {starts:?}");
    assert!(starts.contains(&b"WBLK".to_vec()), "then the message: {starts:?}");
}

#[test]
fn a_broker_whose_messages_are_gone_lacks_no_descriptor() {
    let (mut broker, disk) = open(&config(Durability::Disk));
    make(&mut broker, 1, None);
    disk.set_shortage(Shortage { lacks_descriptors: true, ..Shortage::default() });
    let _no = publish(&mut broker, 1, 1);
    broker.do_work(Nanos(1_000)).unwrap();
    assert!(broker.lacks_descriptor());
    let hold = attach(&mut broker, 1);
    assert_eq!(take(&mut broker, hold, 5), [1]);
    broker.do_work(Nanos(1_001)).unwrap();
    assert!(!broker.lacks_descriptor(), "no message waits for a file");
}
