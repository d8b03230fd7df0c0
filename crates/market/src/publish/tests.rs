//! What is tested here needs what only this module sees; the rest is in `tests/publish`.

use weir_types::{Epoch, Nanos};

use super::*;

#[test]
fn a_day_begins_at_its_hour_and_a_session_is_named_for_both() {
    const HOUR: u64 = 3_600_000_000_000;
    for (hour, time, midnight) in [
        (0, 25 * HOUR, 24 * HOUR),
        (0, 24 * HOUR, 24 * HOUR),
        (22, 46 * HOUR - 1, 22 * HOUR),
        (22, 46 * HOUR, 46 * HOUR),
        (22, 5, 0),
    ] {
        let found = Calendar::new(hour).midnight(Nanos(time));
        assert_eq!(found, Nanos(midnight), "{hour} {time}");
    }
    let name = |hour, midnight, epoch| {
        String::from_utf8(session_name(Calendar::new(hour), midnight, Epoch(epoch)).0.to_vec())
    };
    let day = Nanos(37 * 24 * HOUR);
    assert_eq!(name(0, day, 36).as_deref(), Ok("1011000010"));
    assert_eq!(name(23, day, u32::MAX).as_deref(), Ok("1N11Z141Z3"));
}

#[test]
fn a_store_keeps_the_last_messages_by_number() {
    let mut store = Store::new(3);
    assert_eq!((store.oldest(), store.next_sequence(), store.get(1)), (1, 1, None));
    for letter in b'a'..=b'e' {
        store.push(&[letter, letter]);
    }
    assert_eq!((store.oldest(), store.next_sequence()), (3, 6));
    let kept: Vec<_> = (0..8).map(|number| store.get(number)).collect();
    let text = |text: &'static str| Some(text.as_bytes());
    assert_eq!(kept, [None, None, None, text("cc"), text("dd"), text("ee"), None, None]);
    store.clear();
    assert_eq!((store.oldest(), store.next_sequence(), store.get(3)), (1, 1, None));
}
