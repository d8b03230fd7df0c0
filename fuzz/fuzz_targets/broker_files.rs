//! Arbitrary bytes as a spill file and as a slot of the broker's table, and a broker's own files
//! with a mutation.
//!
//! Checks that nothing panics, that a table reads back as written, and that a broker with mutated
//! files opens or refuses, and delivers only published messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_broker::{Broker, Config, Name, OriginMark, Source, Topic, TopicKind};
use weir_fuzz::Recipe;
use weir_io::SimDisk;
use weir_types::{Epoch, Nanos, Position};

const TOPIC: Topic = Topic { kind: TopicKind::Messages, key: 7 };
const FILES: [&str; 3] =
    ["subscriptions-0.wtable", "subscriptions-1.wtable", "00000000000000000001.wspill"];

fn config() -> Config {
    Config::new(7)
}

fuzz_target!(|bytes: &[u8]| {
    weir_broker::fuzzing::decode(bytes);
    let mut recipe = Recipe::new(bytes);
    let (file, at, flip) = (recipe.byte(), recipe.short(), recipe.byte());
    let body = recipe.rest();

    let disk = SimDisk::new(1);
    let (mut broker, _) = Broker::open(config(), disk.clone(), Nanos(1)).expect("an empty disk");
    let name = Name::new("desk").expect("a name");
    let _saved_at_the_end = broker.create(&name, TOPIC, None, Nanos(1)).expect("a first one");
    let (source, epoch) = (Source(1), Epoch(1));
    for record in 1..=2 {
        let mark = OriginMark { source, epoch, record: Position(record) };
        let _taken = broker.publish(TOPIC, mark, body, Nanos(1)).expect("a small message");
    }
    broker.close().expect("no fault was asked for");

    let name_of_file = FILES[usize::from(file) % FILES.len()];
    let mut contents = disk.contents(name_of_file).expect("it was written");
    let at = usize::from(at) % contents.len();
    contents[at] ^= flip;
    weir_broker::fuzzing::decode(&contents);
    let changed = disk.after_process_crash();
    changed.plant(name_of_file, &contents);
    let Ok((mut broker, _)) = Broker::open(config(), changed, Nanos(2)) else { return };
    let Ok(attached) = broker.attach(&name, Nanos(2)) else { return };
    let deliver = |delivery: weir_broker::Delivery<'_>| assert_eq!(delivery.body, body);
    let count = broker.take_messages(attached.attachment, 10, deliver);
    assert!(count.is_ok_and(|count| count <= 2));
});
