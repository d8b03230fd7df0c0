//! Nodes and routers that die, come back and move: readers continue by their tokens.

use std::time::Duration;

use weir_types::SourceStatus;

use crate::stand::{ROUTER, ROUTER_2, Router, Stand, mirror};
use crate::support::following::Following;
use crate::support::{ALICE, HANG, SUPERVISOR, until};

fn statuses(reader: &Following) -> Vec<(u16, SourceStatus)> {
    reader.follower.sources().iter().map(|state| (state.source_id.0, state.status)).collect()
}

fn follow_until(reader: &mut Following, what: &str, is_there: impl Fn(&Following) -> bool) {
    let begun = std::time::Instant::now();
    while !is_there(reader) {
        assert!(begun.elapsed() < HANG, "{what} did not come: {:?}", statuses(reader));
        reader.poll(Duration::from_millis(5)).unwrap();
    }
}

#[test]
fn a_node_that_is_killed_is_said_to_be_away_and_its_readers_go_on_when_it_is_back() {
    let mut stand = Stand::new(&[&[21, 22], &[31, 32]]);
    let router = Router::start(&stand.config_of_all(ROUTER));
    stand.trade(100);
    router.until_serving(4);
    let mut reader = router.follow(SUPERVISOR, Vec::new());
    // The node dies in the middle of the reader's first copy.
    follow_until(&mut reader, "some rows", |reader| reader.row_count >= 40);
    stand.backends[1].kill();
    let away = [(31, SourceStatus::Away), (32, SourceStatus::Away)];
    follow_until(&mut reader, "word of it", |reader| {
        away.iter().all(|state| statuses(reader).contains(state))
    });
    // The other sources continue.
    for feeder in &mut stand.feeders[..2] {
        (0..50).for_each(|_| feeder.trade(&mut stand.rng));
        while !feeder.is_fed() {
            feeder.pump(Duration::from_millis(2));
        }
    }
    let wanted = stand.wanted(SUPERVISOR);
    follow_until(&mut reader, "the others' orders", |reader| {
        let has = mirror(reader);
        wanted
            .iter()
            .filter(|(id, _)| id.partition().0 < 30)
            .all(|(id, row)| has.get(id) == Some(row))
    });
    stand.backends[1].start();
    stand.trade(50);
    assert!(stand.feeders[2].resend_count > 0, "its memory was lost");
    stand.until_same(&mut reader);
    follow_until(&mut reader, "word that all are back", |reader| {
        statuses(reader).iter().all(|(_, status)| *status != SourceStatus::Away)
    });
    assert_eq!(reader.resyncs, []);
    let status = router.node.status();
    let losses = |row: &serde_json::Value| row["losses"].as_u64().expect("a number");
    let backends = status["router"]["backends"].as_array().expect("a list");
    assert!(losses(&backends[0]) == 0 && losses(&backends[2]) > 0, "{backends:?}");
}

#[test]
fn a_router_that_is_killed_is_gone_on_from_at_another_by_token() {
    let mut stand = Stand::new(&[&[21, 22], &[31, 32]]);
    let mut router = Router::start(&stand.config_of_all(ROUTER));
    let other = Router::start(&stand.config_of_all(ROUTER_2));
    stand.trade(100);
    router.until_serving(4);
    other.until_serving(4);
    let mut reader = router.follow(ALICE, Vec::new());
    follow_until(&mut reader, "some rows", |reader| reader.row_count >= 40);
    router.node.kill();
    stand.trade(20);
    reader.go_on(other.node.address()).unwrap();
    stand.until_same(&mut reader);
    assert_eq!(reader.resyncs, []);
}

#[test]
fn a_node_that_stands_still_is_lost_and_found_again() {
    let mut stand = Stand::new(&[&[21], &[31]]);
    let router = Router::start(&stand.config_of_all(ROUTER));
    stand.trade(20);
    router.until_serving(2);
    let mut reader = router.follow(SUPERVISOR, Vec::new());
    stand.until_same(&mut reader);
    stand.backends[1].node().pause(true);
    until("its loss", || (router.serving() == 1).then_some(()));
    follow_until(&mut reader, "word of it", |reader| {
        statuses(reader).contains(&(31, SourceStatus::Away))
    });
    stand.backends[1].node().pause(false);
    stand.trade(20);
    stand.until_same(&mut reader);
    assert_eq!(reader.resyncs, []);
}

#[test]
fn a_source_appears_and_another_moves_to_a_new_host_while_readers_follow() {
    let mut stand = Stand::new(&[&[21], &[31]]);
    stand.add_backend(&[31, 41]);
    let router = Router::start(&stand.router_config(ROUTER, &[(0, &[21]), (1, &[31])]));
    stand.trade(30);
    router.until_serving(2);
    let mut reader = router.follow(SUPERVISOR, Vec::new());
    stand.until_same(&mut reader);
    // Source 31 moves to the third node, where source 41 is new.
    let ingest = stand.backends[2].ingest;
    stand.feeders[1].move_to(ingest);
    stand.feeders.push(crate::feeder::Feeder::new(ingest, 41));
    stand.trade(30);
    let config = stand.router_config(ROUTER, &[(0, &[21]), (2, &[31, 41])]);
    std::fs::write(router.home.path("weir.toml"), config).unwrap();
    router.node.hang_up();
    stand.until_same(&mut reader);
    router.until_serving(3);
    assert_eq!(reader.resyncs, []);
    // An invalid configuration is not applied.
    std::fs::write(router.home.path("weir.toml"), "role = \"router\"\n").unwrap();
    router.node.hang_up();
    until("the refusal", || {
        router.home.said().contains("the configuration of before stays").then_some(())
    });
    stand.trade(10);
    stand.until_same(&mut reader);
}
