//! The soak of a whole node in a short form, so that the campaign never rots: `./x campaign soak`
//! runs it for hours and judges growth, which a few seconds do not show.

use std::time::Duration;

use weir_campaign::soak::{SoakArgs, soak};
use weir_types::Durability;

#[test]
fn a_short_soak_tells_each_client_all_of_its_own_and_its_logs_lose_their_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let samples = dir.path().join("samples.jsonl");
    let args = SoakArgs {
        time: Duration::from_secs(16),
        restart_every: Duration::from_secs(4),
        sample_every: Duration::from_millis(200),
        rate: 3_000,
        durability: Durability::Os,
        samples: Some(samples.clone()),
        dir: Some(dir.path().to_owned()),
        weir: Some(env!("CARGO_BIN_EXE_weir").into()),
    };
    let outcome = soak(&args).unwrap();
    assert_eq!(outcome.errors, [""; 0]);
    assert_eq!(outcome.start_count, 3, "two lives of four seconds and one of eight");
    let lines = std::fs::read_to_string(&samples).unwrap().lines().count();
    assert_eq!(lines, outcome.start_count + outcome.sample_count);
    assert!(outcome.first_retained[1] > 1, "{outcome:?}");
    // Each party did its work.
    let counts = &outcome.counts;
    let did = |party: &str, what: &str| counts[party][what].as_u64() > Some(0);
    for (party, what) in [
        ("load", "answered"),
        ("load", "trades"),
        ("visits", "answered"),
        ("visits", "wrong_keys"),
        ("readers", "rows"),
        ("readers", "pages_over_http"),
        ("readers", "copies"),
        ("readers", "subscribed_trades"),
    ] {
        assert!(did(party, what), "no {what} of {party}: {counts}");
    }
    assert_eq!(outcome.judged.len(), 7);
}
