//! Weir's published feed of its own market, read by the crates `itch5` and `itchy`: all read the
//! same orders, shares, prices and times.

#[path = "../src/sides.rs"]
mod sides;

use sides::SIDES;

const DAY: &str = "../../crates/market/tests/oracle/itch/own_day.itch";

#[test]
fn itch5_and_itchy_read_what_weir_publishes_as_weir_does() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(DAY);
    let bytes = std::fs::read(path).expect("the day lies beside the other decoders' answers");
    let want = SIDES[0].1(&bytes);
    assert!(want.messages > 50, "{want:?} is no day");
    // Updates report a cross as a trade, which the sums of messages leave out.
    for (name, read) in SIDES.into_iter().filter(|(name, _)| *name != "weir_updates") {
        assert_eq!(read(&bytes), want, "{name}");
    }
}

#[test]
fn itchy_reads_every_message_of_what_weir_publishes() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(DAY);
    let bytes = std::fs::read(path).expect("the day lies beside the other decoders' answers");
    let mut count = 0;
    for message in itchy::MessageStream::from_reader(&bytes[..]) {
        message.expect("itchy knows all codes of it");
        count += 1;
    }
    assert_eq!(count, SIDES[0].1(&bytes).messages);
}
