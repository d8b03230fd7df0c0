//! TLS bytes cut or changed in transit: the connection ends and is counted, and other clients are
//! not affected.

use std::time::Duration;

use weir_client::load::Rng;
use weir_client::{ClientError, Target};

use crate::proxy::{Proxy, Way};
use crate::rig::{Rig, counted};
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, HANG, Node, until};

fn through(proxy: &Proxy, rig: &Rig) -> Target {
    Target::of(proxy.address(), Some(rig.tls()))
}

/// Returns the error that ends a trader's connection.
fn end_of(trader: &mut Trader) -> ClientError {
    until("the end of the connection", || trader.poll(HANG).err())
}

#[test]
fn garbage_in_the_middle_of_a_session_ends_it_and_it_resumes() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    rig.open_market(&node, &[ALICE, BOB]);
    let mut bob = rig.trader(&node, BOB);
    let proxy = Proxy::start(node.address(), Way::Inject);
    let mut alice = Trader::log_on_at(through(&proxy, &rig), ALICE);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    let after = alice.last_event_no();
    proxy.inject();
    alice.send(ALICE.buy(2, 50, 1));
    let ended = end_of(&mut alice);
    assert!(ended.is_connection_lost(), "{ended:?}");
    counted(&node, "tls_broken", 1);
    counted(&node, "sessions_lost", 1);
    bob.ask_for_report(BOB.buy(1, 50, 1));
    // The node processed nothing that was sent after the garbage.
    let next = weir_types::EventNo(after.0 + 1);
    let mut alice = Trader::resume_at(rig.target(&node), ALICE, next).unwrap();
    alice.settle();
    assert_eq!(alice.reports().len(), 0);
}

#[test]
fn an_end_without_a_farewell_is_a_connection_that_was_cut() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    rig.open_market(&node, &[ALICE]);
    // Enough for the handshake and the logon, but not for everything sent after them.
    let proxy = Proxy::start(node.address(), Way::CutAfter(10_000));
    let mut alice = Trader::log_on_at(through(&proxy, &rig), ALICE);
    let ended = until("the cut", || {
        alice.send(ALICE.buy(1, 50, 1));
        alice.poll(HANG).err()
    });
    assert!(matches!(ended, ClientError::Cut | ClientError::Closed), "{ended:?}");
    counted(&node, "tls_truncated", 1);
    // A connection closed with a `close_notify` alert is not counted as truncated.
    drop(rig.trader(&node, ALICE));
    counted(&node, "sessions", 0);
    counted(&node, "sessions_lost", 2);
    assert_eq!(node.status()["gateway"]["tls_truncated"], 1);
}

const ROUNDS: u64 = 120;
/// The time that a client waits; it could wait for ever, since a record whose length was changed
/// never ends. The result does not depend on the wait.
const PATIENCE: Duration = Duration::from_millis(500);

/// Runs a client through a network that does this; returns the error that ended it, or `None` if it
/// was not affected.
fn suffer(rig: &Rig, node: &Node, way: Way) -> Option<ClientError> {
    let proxy = Proxy::start(node.address(), way);
    let mut client =
        match weir_client::Client::connect(through(&proxy, rig), weir_client::Limits::default()) {
            Ok(client) => client,
            Err(error) => return Some(error),
        };
    if let Err(error) = client.log_on(ALICE.config(), PATIENCE) {
        return Some(error);
    }
    client.log_out(PATIENCE).err()
}

#[test]
fn random_cuts_and_flips_neither_stop_the_node_nor_disturb_another_connection() {
    let rig = Rig::new("memory", "handshake_max_ms = 300");
    let node = rig.start();
    rig.open_market(&node, &[ALICE, BOB]);
    let mut bob = rig.trader(&node, BOB);
    let mut rng = Rng::new(7);
    // Such a client sends about 600 bytes to the node in all.
    let mut ended = 0;
    for round in 1..=ROUNDS {
        let at = rng.below(700) as usize;
        let bit = rng.below(8) as u8;
        let way = if round % 2 == 0 { Way::CutAfter(at) } else { Way::Flip { byte: at, bit } };
        ended += u64::from(suffer(&rig, &node, way).is_some());
        bob.ask_for_report(BOB.buy(round, 50, 1));
    }
    assert!(ended > ROUNDS / 2, "only {ended} of {ROUNDS} were noticed");
    bob.settle();
    assert_eq!(bob.reports().len() as u64, ROUNDS);
    let status = node.status();
    assert_eq!(status["gateway"]["malformed"], 0, "no changed byte is taken for an order's");
    assert_eq!(status["gateway"]["broken_streams"], 0);
}
