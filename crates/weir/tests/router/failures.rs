//! Nodes and routers that die, come back and move: readers continue by their tokens.

use std::time::Duration;

use weir_types::SourceStatus;

use crate::rig::{ROUTER, ROUTER_2, Rig, Router, mirror};
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
    let mut rig = Rig::new(&[&[21, 22], &[31, 32]]);
    let router = Router::start(&rig.config_of_all(ROUTER));
    rig.trade(100);
    router.until_serving(4);
    let mut reader = router.follow(SUPERVISOR, Vec::new());
    // The node dies in the middle of the reader's first copy.
    follow_until(&mut reader, "some rows", |reader| reader.row_count >= 40);
    rig.backends[1].kill();
    let away = [(31, SourceStatus::Away), (32, SourceStatus::Away)];
    follow_until(&mut reader, "word of it", |reader| {
        away.iter().all(|state| statuses(reader).contains(state))
    });
    // The other sources continue.
    for core in &mut rig.cores[..2] {
        (0..50).for_each(|_| core.trade(&mut rig.rng));
        while !core.is_fed() {
            core.pump(Duration::from_millis(2));
        }
    }
    let wanted = rig.wanted(SUPERVISOR);
    follow_until(&mut reader, "the others' orders", |reader| {
        let has = mirror(reader);
        wanted
            .iter()
            .filter(|(id, _)| id.partition().0 < 30)
            .all(|(id, row)| has.get(id) == Some(row))
    });
    rig.backends[1].start();
    rig.trade(50);
    assert!(rig.cores[2].resend_count > 0, "its memory was lost");
    rig.until_same(&mut reader);
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
    let mut rig = Rig::new(&[&[21, 22], &[31, 32]]);
    let mut router = Router::start(&rig.config_of_all(ROUTER));
    let other = Router::start(&rig.config_of_all(ROUTER_2));
    rig.trade(100);
    router.until_serving(4);
    other.until_serving(4);
    let mut reader = router.follow(ALICE, Vec::new());
    follow_until(&mut reader, "some rows", |reader| reader.row_count >= 40);
    router.node.kill();
    rig.trade(20);
    reader.go_on(other.node.address()).unwrap();
    rig.until_same(&mut reader);
    assert_eq!(reader.resyncs, []);
}

#[test]
fn a_node_that_stands_still_is_lost_and_found_again() {
    let mut rig = Rig::new(&[&[21], &[31]]);
    let router = Router::start(&rig.config_of_all(ROUTER));
    rig.trade(20);
    router.until_serving(2);
    let mut reader = router.follow(SUPERVISOR, Vec::new());
    rig.until_same(&mut reader);
    rig.backends[1].node().pause(true);
    until("its loss", || (router.serving() == 1).then_some(()));
    follow_until(&mut reader, "word of it", |reader| {
        statuses(reader).contains(&(31, SourceStatus::Away))
    });
    rig.backends[1].node().pause(false);
    rig.trade(20);
    rig.until_same(&mut reader);
    assert_eq!(reader.resyncs, []);
}

#[test]
fn a_source_appears_and_another_moves_to_a_new_host_while_readers_follow() {
    let mut rig = Rig::new(&[&[21], &[31]]);
    rig.add_backend(&[31, 41]);
    let router = Router::start(&rig.router_config(ROUTER, &[(0, &[21]), (1, &[31])]));
    rig.trade(30);
    router.until_serving(2);
    let mut reader = router.follow(SUPERVISOR, Vec::new());
    rig.until_same(&mut reader);
    // Source 31 moves to the third node, where source 41 is new.
    let ingest = rig.backends[2].ingest;
    rig.cores[1].move_to(ingest);
    rig.cores.push(crate::test_core::TestCore::new(ingest, 41));
    rig.trade(30);
    let config = rig.router_config(ROUTER, &[(0, &[21]), (2, &[31, 41])]);
    std::fs::write(router.home.path("weir.toml"), config).unwrap();
    router.node.hang_up();
    rig.until_same(&mut reader);
    router.until_serving(3);
    assert_eq!(reader.resyncs, []);
    // An invalid configuration is not applied.
    std::fs::write(router.home.path("weir.toml"), "role = \"router\"\n").unwrap();
    router.node.hang_up();
    until("the refusal", || {
        router.home.said().contains("the configuration of before stays").then_some(())
    });
    rig.trade(10);
    rig.until_same(&mut reader);
}
