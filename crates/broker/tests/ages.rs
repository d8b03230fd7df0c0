//! Ages, by which messages and subscriptions end: they count served time alone, neither that of
//! the wall clock nor that for which the broker was closed, and no subscription expires without its
//! time of grace.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use support::{body, config, mark, name, settle, topic};
use weir_broker::{
    Broker, Config, Durability, EvictReason, Notice, PublishOutcome, PublishTimes, Quota,
    SubscriptionError, Terms,
};
use weir_io::SimDisk;
use weir_types::Nanos;

/// A moment of a wall clock that was set forward by years.
const FAR: Nanos = Nanos(1 << 61);

fn open(config: &Config, disk: &SimDisk, now: Nanos) -> Broker<SimDisk> {
    Broker::open(config.clone(), disk.clone(), now).unwrap().0
}

/// Makes a subscription and publishes a message for it, both at 1 ns.
fn subscribed(config: &Config, disk: &SimDisk) -> Broker<SimDisk> {
    let mut broker = open(config, disk, Nanos(1));
    let _saved_below = broker.create(&name(1), topic(1), None, Nanos(1)).unwrap();
    publish(&mut broker, Nanos(1).into());
    settle(&mut broker, 1).unwrap();
    broker
}

fn publish(broker: &mut Broker<SimDisk>, times: PublishTimes) {
    let at = mark(1, 1);
    let published = broker.publish(topic(1), at, &body(topic(1), at), times);
    assert!(matches!(published, Ok(PublishOutcome::Taken(_))), "{published:?}");
}

/// Closes a broker and opens it again where the wall clock shows `wall`.
fn reopen(broker: &mut Broker<SimDisk>, config: &Config, disk: &mut SimDisk, wall: Nanos) {
    broker.close().unwrap();
    *disk = disk.after_process_crash();
    *broker = open(config, disk, wall);
}

fn takes_its_message(broker: &mut Broker<SimDisk>) -> bool {
    let now = broker.now();
    let Ok(attached) = broker.attach(&name(1), now) else { return false };
    let taken = broker.take_messages(attached.attachment, 9, |_| {});
    broker.detach(attached.attachment, now).unwrap();
    taken == Ok(1)
}

#[test]
pub(crate) fn a_subscription_grows_old_in_service_alone_and_goes_on_from_there_after_a_start() {
    let mut config = config(Durability::Disk);
    config.expire_after = Nanos(1_000_000);
    let mut disk = SimDisk::new(7);
    let mut broker = subscribed(&config, &disk);
    settle(&mut broker, 600_001).unwrap();
    // The clock at the next starts is wrong, once by years.
    for (wall, served) in [(FAR, 600_001), (Nanos(2), 800_001)] {
        reopen(&mut broker, &config, &mut disk, wall);
        assert_eq!(broker.now(), Nanos(served), "served time goes on");
        let disk_state = disk.after_process_crash();
        assert!(takes_its_message(&mut open(&config, &disk_state, wall)));
        settle(&mut broker, served + 200_000).unwrap();
        let ended = broker.take_notices();
        let is_due = served + 200_000 >= 1_000_001;
        assert_eq!(ended == [Notice::Expired { name: name(1) }], is_due, "{ended:?}");
    }
}

#[test]
pub(crate) fn a_message_grows_old_in_service_whatever_its_stamp() {
    let config = config(Durability::Disk);
    let mut disk = SimDisk::new(7);
    let mut broker = open(&config, &disk, Nanos(1_000));
    let quota = Quota { age_max: Nanos(50), ..Quota::default() };
    let _saved_below = broker.create(&name(1), topic(1), Some(quota), Nanos(1_000)).unwrap();
    publish(&mut broker, PublishTimes { now: Nanos(1_000), stamp: Nanos(3) });
    settle(&mut broker, 1_040).unwrap();
    assert_eq!(broker.take_notices(), [], "its stamp is of a clock that was set back");
    let attached = broker.attach(&name(1), Nanos(1_040)).unwrap();
    let mut stamps = Vec::new();
    broker.take_messages(attached.attachment, 9, |delivery| stamps.push(delivery.at)).unwrap();
    assert_eq!(stamps, [Nanos(3)]);
    reopen(&mut broker, &config, &mut disk, FAR);
    let now = broker.now().0;
    assert_eq!(now, 1_040);
    settle(&mut broker, now + 10).unwrap();
    assert_eq!(broker.take_notices(), [], "it is 50 ns old");
    settle(&mut broker, now + 11).unwrap();
    assert_eq!(broker.take_notices().len(), 1);
}

#[test]
pub(crate) fn a_subscription_that_is_due_to_expire_has_its_time_of_grace() {
    let mut config = config(Durability::Disk);
    (config.expire_after, config.expire_grace) = (Nanos(1_000_000), Nanos(500_000));
    let mut disk = SimDisk::new(7);
    let mut broker = subscribed(&config, &disk);
    settle(&mut broker, 1_000_000).unwrap();
    assert_eq!(broker.holdings().lapsing, 0);
    settle(&mut broker, 1_500_000).unwrap();
    assert_eq!((broker.holdings().lapsing, broker.take_notices().len()), (1, 0));
    // A client that comes back in it begins a whole time.
    assert!(takes_its_message(&mut broker));
    settle(&mut broker, 2_999_999).unwrap();
    assert_eq!((broker.holdings().lapsing, broker.take_notices().len()), (1, 0));
    // So does an opening, but for the grace alone.
    reopen(&mut broker, &config, &mut disk, FAR);
    settle(&mut broker, 3_499_998).unwrap();
    assert_eq!((broker.holdings().lapsing, broker.take_notices().len()), (1, 0));
    settle(&mut broker, 3_499_999).unwrap();
    assert_eq!(broker.take_notices(), [Notice::Expired { name: name(1) }]);
    assert_eq!(broker.holdings().lapsing, 0);
    let told = broker.attach(&name(1), Nanos(3_500_000));
    assert!(matches!(told, Err(SubscriptionError::Expired { .. })), "{told:?}");
}

#[test]
fn a_subscription_in_its_time_of_grace_keeps_to_its_quota() {
    let mut config = config(Durability::Disk);
    config.expire_grace = Nanos(500_000);
    let disk = SimDisk::new(7);
    let mut broker = open(&config, &disk, Nanos(1));
    let quota = Quota { messages_max: 2, ..Quota::default() };
    let terms = Terms { quota: Some(quota), expire_after: Some(Nanos(1)), ..Terms::default() };
    let _saved_below = broker.create_on(&name(1), topic(1), terms, Nanos(1)).unwrap();
    settle(&mut broker, 100).unwrap();
    for record in 1..=10 {
        let at = mark(1, record);
        let published = broker.publish(topic(1), at, &body(topic(1), at), Nanos(100));
        assert!(matches!(published, Ok(PublishOutcome::Taken(_))), "{published:?}");
        assert_eq!(broker.holdings().lapsing, 1);
    }
    settle(&mut broker, 101).unwrap();
    let reason = EvictReason::Messages;
    assert_eq!(broker.take_notices(), [Notice::Evicted { name: name(1), reason }]);
    assert_eq!(broker.holdings().lapsing, 0);
}

#[test]
fn a_start_with_lower_limits_reduces_the_terms_of_subscriptions() {
    let mut config = config(Durability::Disk);
    let mut disk = SimDisk::new(7);
    let mut broker = subscribed(&config, &disk);
    let _saved_below = broker.create_token(&name(2), b"", &Terms::default(), Nanos(1)).unwrap();
    config.quota = Quota { bytes_max: u64::MAX, messages_max: 1, age_max: Nanos(300) };
    config.expire_after = Nanos(1_000);
    reopen(&mut broker, &config, &mut disk, FAR);
    let bytes_max = Quota::default().bytes_max;
    let lower = Quota { bytes_max, ..config.quota };
    for number in [1, 2] {
        let row = broker.look(&name(number)).unwrap().row;
        assert_eq!((row.quota, row.expire_after), (lower, config.expire_after));
    }
    // A later start with higher limits finds the reduced ones.
    (config.quota, config.expire_after) = (Quota::default(), Nanos(1 << 60));
    reopen(&mut broker, &config, &mut disk, FAR);
    let row = broker.look(&name(1)).unwrap().row;
    assert_eq!((row.quota, row.expire_after), (lower, Nanos(1_000)));
}

#[test]
fn served_time_is_saved_each_hour_so_that_a_crash_takes_no_more_of_it() {
    const HOUR: u64 = 3_600_000_000_000;
    let config = config(Durability::Disk);
    let disk = SimDisk::new(7);
    let mut broker = subscribed(&config, &disk);
    settle(&mut broker, 3 * HOUR + 1).unwrap();
    settle(&mut broker, 3 * HOUR + HOUR / 2).unwrap();
    let found = open(&config, &disk.after_process_crash(), Nanos(1)).now();
    assert_eq!(found, Nanos(3 * HOUR + 1));
}

#[test]
pub(crate) fn terms_are_at_most_the_configurations() {
    let disk = SimDisk::new(7);
    let mut config = config(Durability::Disk);
    config.quota = Quota { bytes_max: 100, messages_max: 200, age_max: Nanos(300) };
    config.expire_after = Nanos(400);
    let mut broker = open(&config, &disk, Nanos(1));
    let most = Quota { bytes_max: u64::MAX, messages_max: u64::MAX, age_max: Nanos(u64::MAX) };
    let least = Quota { bytes_max: 1, messages_max: 2, age_max: Nanos(3) };
    let cases = [
        (Some(most), Some(Nanos(u64::MAX)), config.quota, Nanos(400)),
        (Some(least), Some(Nanos(4)), least, Nanos(4)),
        (None, None, config.quota, Nanos(400)),
    ];
    for (number, (quota, expire_after, wanted, time)) in (1..).zip(cases) {
        let terms = Terms { quota, expire_after, ..Terms::default() };
        let _change = broker.create_on(&name(number), topic(1), terms.clone(), Nanos(1)).unwrap();
        let row = broker.look(&name(number)).unwrap().row;
        assert_eq!((row.quota, row.expire_after), (wanted, time));
        let token = name(10 + number);
        let _change = broker.create_token(&token, b"", &terms, Nanos(1)).unwrap();
        assert_eq!(broker.look(&token).unwrap().row.expire_after, time);
    }
}
