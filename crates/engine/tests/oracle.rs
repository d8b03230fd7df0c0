//! Random scripts through the fast and the naive engine: equal events, equal digests, invariants
//! after every command, snapshots restored on the way.

use proptest::prelude::*;
use weir_engine::fuzz_commands;
use weir_engine::script::{Duel, Script};
use weir_types::PartitionId;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn both_engines_say_the_same_of_any_script(
        data in proptest::collection::vec(any::<u8>(), 0..6_000),
    ) {
        fuzz_commands(&data);
    }
}

/// The same stream as the campaign's (`engine_oracle`), short.
#[test]
fn both_engines_agree_on_a_long_script_that_trades() {
    let mut bytes = vec![0; 200_000];
    let mut state: u64 = 7;
    for byte in &mut bytes {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
    let (mut script, mut duel) = (Script::new(&bytes), Duel::new(PartitionId(1)));
    let mut count = 0;
    while !script.is_over() {
        duel.apply(&script.command());
        script.hear(duel.events());
        count += 1;
        if count % 997 == 0 {
            duel.restore();
        }
    }
    let (_, trades, refusals) = duel.counts();
    assert!(trades > count / 20, "{trades} trades in {count} commands test little");
    assert!(refusals < count * 3 / 4, "{refusals} refusals in {count} commands test little");
}
