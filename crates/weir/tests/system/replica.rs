//! A replica of another node's source: the same store and the same tokens, through kills of either
//! node, and a whole new store when it is too far behind.

use weir_client::{Connection, Limits};
use weir_types::{Nanos, PartitionId, Reason, Rec, Seq, SessionId, Switch};
use weir_wire::NodeMessage;
use weir_wire::frame::put_frame;
use weir_wire::reference::DefineSession;
use weir_wire::replica::{FollowSource, FollowState};

use crate::ingest::core::{Core, Random};
use crate::ingest::{Fed, ingest_address, node_with, reader};
use crate::support::wire::{Wire, logon_of};
use crate::support::{Home, Node, SUPERVISOR, Who, definition_of, until};

/// Starts a replica of the master's source, with these additional settings of its stores.
fn replica_of(master: &Node, master_home: &Home, settings: &str) -> (Home, Node) {
    let home = Home::with_config("os", "");
    let key: String = SUPERVISOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    weir_io::durable::write_file(&home.path("supervisor.key"), key.as_bytes(), 0o600).unwrap();
    point_at(&home, master, settings);
    // Both nodes accept the same tokens because they seal with the same key.
    std::fs::create_dir_all(home.data()).unwrap();
    std::fs::copy(master_home.data().join("token.key"), home.data().join("token.key")).unwrap();
    let node = home.start();
    let mut admin = node.admin();
    admin.define_session(definition_of(&SUPERVISOR)).unwrap();
    admin.close().unwrap();
    (home, node)
}

fn point_at(home: &Home, master: &Node, settings: &str) {
    let config = format!(
        "[replica]\nmaster = \"{}\"\nsession = 2\nkey_file = {:?}\nsources = [40]\n{settings}",
        ingest_address(master),
        home.path("supervisor.key"),
    );
    std::fs::write(home.path("weir.toml"), config).unwrap();
}

fn followed(node: &Node) -> serde_json::Value {
    node.status()["replica"]["sources"][0].clone()
}

fn figure(node: &Node, name: &str) -> u64 {
    followed(node)[name].as_u64().unwrap_or_default()
}

/// Waits until the replica has everything the master has, with the same digest.
fn until_even(master: &Node, replica: &Node) {
    let source = until("the replica to have what the master has", || {
        let (source, here) = (master.status()["ingest"]["sources"][0].clone(), followed(replica));
        (here["is_whole"] == true && here["digest"] == source["digest"]).then_some(here)
    });
    until("a lag of nothing", || {
        let here = followed(replica);
        (here["lag_entries"] == 0 && here["lag_seq"] == 0 && here["lag_ms"] == 0).then_some(())
    });
    assert!(source["live_orders"].as_u64() > Some(0), "{source}");
}

fn fed_core(node: &Node) -> (Fed, Random) {
    let mut core = Core::new();
    core.attributes_len = Some(200);
    let (mut fed, mut random) = (Fed::new(node, core), Random(21));
    fed.until_fed();
    (0..200).for_each(|_| fed.core.trade(&mut random));
    fed.until_fed();
    (fed, random)
}

fn trade(fed: &mut Fed, random: &mut Random, count: usize) {
    (0..count).for_each(|_| fed.core.trade(random));
    fed.until_fed();
}

#[test]
fn a_replica_equals_its_master_and_takes_its_tokens_through_kills_of_either() {
    let (master_home, mut master) = node_with("durability = \"disk\"\n");
    let (mut fed, mut random) = fed_core(&master);
    let (home, mut replica) = replica_of(&master, &master_home, "");
    until_even(&master, &replica);
    let mut following = reader(&master);
    fed.check(&mut following);

    // Later changes arrive as entries, and the master's tokens are valid here.
    trade(&mut fed, &mut random, 100);
    until_even(&master, &replica);
    assert_eq!(figure(&replica, "snapshots"), 1);
    assert!(figure(&replica, "entries") > 0);
    following.go_on(replica.address()).unwrap();
    fed.check(&mut following);

    // The master is killed: its readers continue here, and the replica follows it once it is back.
    master.kill();
    until("the loss of the master to be seen", || {
        (replica.status()["replica"]["is_connected"] == false).then_some(())
    });
    fed.check(&mut following);
    master = master_home.start();
    fed.writer.set_target(ingest_address(&master));
    point_at(&home, &master, "");
    replica.kill();
    replica = home.start();
    trade(&mut fed, &mut random, 100);
    until_even(&master, &replica);
    following.go_on(master.address()).unwrap();
    fed.check(&mut following);
    following.go_on(replica.address()).unwrap();
    trade(&mut fed, &mut random, 20);
    fed.check(&mut following);
    assert!(following.resyncs.is_empty(), "tokens were good at both: {:?}", following.resyncs);
    assert!(replica.get("/metrics").1.contains("weir_replica_lag_entries{source=\"40\"} "));
}

#[test]
fn a_core_that_lost_its_history_takes_the_replica_along() {
    let (master_home, master) = node_with("");
    let (mut fed, mut random) = fed_core(&master);
    let (_home, replica) = replica_of(&master, &master_home, "[delivery]\nindexes = \"none\"\n");
    until_even(&master, &replica);
    let mut following = reader(&replica);
    fed.check(&mut following);
    fed.core.remember();
    trade(&mut fed, &mut random, 50);
    until_even(&master, &replica);
    fed.check(&mut following);
    let epoch = fed.core.epoch;
    while fed.core.epoch == epoch {
        fed.core.crash(&mut random);
    }
    fed.begin();
    trade(&mut fed, &mut random, 30);
    until_even(&master, &replica);
    fed.check(&mut following);
    assert_eq!(fed.refusals, [Reason::ResendNeeded]);
    assert_eq!(following.resyncs, [Reason::ResyncEpoch], "as at the master");
    assert_eq!(figure(&replica, "snapshots"), 1, "the resend came as entries");
}

#[test]
fn a_replica_that_is_too_far_behind_takes_the_store_anew_and_serves_no_wrong_page() {
    let (master_home, master) = node_with("");
    let (mut fed, mut random) = fed_core(&master);
    let (_home, replica) = replica_of(&master, &master_home, "");
    until_even(&master, &replica);
    let mut following = reader(&replica);
    fed.check(&mut following);
    replica.pause(true);
    // More than the 16 MiB of entries that a master keeps for replicas that keep up.
    fed.core.attributes_len = Some(600);
    for _ in 0..130 {
        (0..250).for_each(|_| fed.core.trade(&mut random));
        fed.until_fed();
    }
    replica.pause(false);
    until_even(&master, &replica);
    assert!(figure(&replica, "snapshots") > 1, "{}", followed(&replica));
    fed.check(&mut following);
}

#[test]
fn nobody_but_a_supervisor_gets_a_copy_of_a_store() {
    let (_home, master) = node_with("");
    let ask = |who: Who, source_id: u16| {
        let mut client = crate::ingest::log_on(&master, who);
        let follow = FollowSource {
            history_high: 0,
            history_low: 0,
            position: 0,
            session_id: who.session_id,
            chunk_no: 0,
            source_id: PartitionId(source_id),
        };
        match crate::ingest::say(&mut client, |out| put_frame(&follow, out)) {
            weir_client::source::SourceMessage::Reject(reject) => reject.reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(crate::ingest::CORE, 40), Reason::NotEntitled);
    assert_eq!(ask(SUPERVISOR, 41), Reason::UnknownSource);
}

/// Asks for the piece of this number of a snapshot at `position`, and returns the piece.
fn snapshot_piece(wire: &mut Wire, who: Who, state: &FollowState, chunk_no: u32) -> FollowState {
    let follow = FollowSource {
        history_high: state.history_high,
        history_low: state.history_low,
        position: state.position,
        session_id: who.session_id,
        chunk_no,
        source_id: PartitionId(40),
    };
    let mut bytes = Vec::new();
    put_frame(&follow, &mut bytes);
    wire.send(&bytes);
    let state = wire.expect("a state", |message| match message {
        NodeMessage::FollowState(state) => Some(*state),
        _ => None,
    });
    assert_eq!(state.is_snapshot, Switch::On, "{state:?}");
    let chunk = wire.expect("a piece", |message| match message {
        NodeMessage::SnapshotChunk(chunk, _) => Some(*chunk),
        _ => None,
    });
    assert_eq!((chunk.chunk_no, chunk.is_last), (chunk_no, Switch::Off));
    state
}

#[test]
fn a_replica_in_the_middle_of_a_snapshot_ends_with_its_key_and_the_next_gets_one() {
    let (_home, master) = node_with("");
    let _fed = fed_core(&master);
    let second = Who { session_id: SessionId(3), ..SUPERVISOR };
    master.admin().define_session(definition_of(&second)).unwrap();
    let log_on = |who: &Who| {
        let address = ingest_address(&master);
        until("a logon", || {
            let mut wire = Wire::over(Connection::open(address, Limits::default()).unwrap());
            wire.try_log_on(&logon_of(who), &[]).is_ok().then_some(wire)
        })
    };
    let nothing = FollowState {
        history_high: 0,
        history_low: 0,
        position: 0,
        head_position: 0,
        head_seq: Seq(0),
        head_rec: Rec(0),
        sending_time: Nanos(0),
        session_id: SessionId::NONE,
        entry_count: 0,
        source_id: PartitionId::NONE,
        is_snapshot: Switch::Off,
    };
    let first = definition_of(&SUPERVISOR);
    let ends = [
        (
            Reason::KeyReplaced,
            DefineSession { credential: definition_of(&second).credential, ..first },
        ),
        (Reason::KeyExpired, DefineSession { valid_until: Nanos(1), ..first }),
    ];
    for (reason, definition) in ends {
        let mut replica = log_on(&SUPERVISOR);
        let state = snapshot_piece(&mut replica, SUPERVISOR, &nothing, 0);
        snapshot_piece(&mut replica, SUPERVISOR, &state, 1);
        master.admin().define_session(definition).unwrap();
        assert_eq!(replica.logout(), (SUPERVISOR.session_id, reason));
        replica.closed();
        // The store makes one snapshot at a time: the one that was under way is given up.
        let mut other = log_on(&second);
        snapshot_piece(&mut other, second, &nothing, 0);
        master.admin().define_session(first).unwrap();
    }
}
