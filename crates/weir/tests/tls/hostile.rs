//! Bytes of TLS that were cut or changed on their way: the connection ends, is counted, and nobody
//! else notices.

use std::time::Duration;

use weir_client::load::Rng;
use weir_client::{ClientError, Target};

use crate::common::trader::Trader;
use crate::common::{ALICE, BOB, HANG, Node, until};
use crate::proxy::{Proxy, Way};
use crate::stand::{Stand, counted};

fn through(proxy: &Proxy, stand: &Stand) -> Target {
    Target { address: proxy.address(), tls: Some(stand.tls()) }
}

/// The error that ends a trader's connection.
fn end_of(trader: &mut Trader) -> ClientError {
    until("the end of the connection", || trader.poll(HANG).err())
}

#[test]
fn garbage_in_the_middle_of_a_session_ends_it_and_it_resumes() {
    let stand = Stand::new("memory", "");
    let node = stand.start();
    stand.open_market(&node, &[ALICE, BOB]);
    let mut bob = stand.trader(&node, BOB);
    let proxy = Proxy::start(node.address(), Way::Inject);
    let mut alice = Trader::log_on_at(through(&proxy, &stand), ALICE);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    let after = alice.last_event_no();
    proxy.inject();
    alice.send(ALICE.buy(2, 50, 1));
    let ended = end_of(&mut alice);
    assert!(ended.is_connection_lost(), "{ended:?}");
    counted(&node, "tls_broken", 1);
    counted(&node, "sessions_lost", 1);
    bob.ask_for_report(BOB.buy(1, 50, 1));
    // What was behind the garbage was never heard.
    let next = weir_types::EventNo(after.0 + 1);
    let mut alice = Trader::resume_at(stand.target(&node), ALICE, next).unwrap();
    alice.settle();
    assert_eq!(alice.reports().len(), 0);
}

#[test]
fn an_end_without_a_farewell_is_a_connection_that_was_cut() {
    let stand = Stand::new("memory", "");
    let node = stand.start();
    stand.open_market(&node, &[ALICE]);
    // Far enough for the handshake and the logon, not for all that is sent behind them.
    let proxy = Proxy::start(node.address(), Way::CutAfter(10_000));
    let mut alice = Trader::log_on_at(through(&proxy, &stand), ALICE);
    let ended = until("the cut", || {
        alice.send(ALICE.buy(1, 50, 1));
        alice.poll(HANG).err()
    });
    assert!(matches!(ended, ClientError::Cut | ClientError::Closed), "{ended:?}");
    counted(&node, "tls_truncated", 1);
    // One that says farewell is not counted so.
    drop(stand.trader(&node, ALICE));
    counted(&node, "sessions", 0);
    counted(&node, "sessions_lost", 2);
    assert_eq!(node.status()["gateway"]["tls_truncated"], 1);
}

const ROUNDS: u64 = 120;
/// How long a client waits that may wait for ever: a record whose length was changed never ends.
/// Whether it waited long enough decides nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a client that the network plays with hears; it ends, or it is as if nothing had been.
fn suffer(stand: &Stand, node: &Node, way: Way) -> Option<ClientError> {
    let proxy = Proxy::start(node.address(), way);
    let mut client = match weir_client::Client::connect(
        through(&proxy, stand),
        weir_client::Limits::default(),
    ) {
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
    let stand = Stand::new("memory", "handshake_max_ms = 300");
    let node = stand.start();
    stand.open_market(&node, &[ALICE, BOB]);
    let mut bob = stand.trader(&node, BOB);
    let mut rng = Rng::new(7);
    // A whole dialogue of such a client is some 600 bytes to the node.
    let mut ended = 0;
    for round in 1..=ROUNDS {
        let at = rng.below(700) as usize;
        let bit = rng.below(8) as u8;
        let way = if round % 2 == 0 { Way::CutAfter(at) } else { Way::Flip { byte: at, bit } };
        ended += u64::from(suffer(&stand, &node, way).is_some());
        bob.ask_for_report(BOB.buy(round, 50, 1));
    }
    assert!(ended > ROUNDS / 2, "only {ended} of {ROUNDS} were noticed");
    bob.settle();
    assert_eq!(bob.reports().len() as u64, ROUNDS);
    let status = node.status();
    assert_eq!(status["gateway"]["malformed"], 0, "no changed byte is taken for an order's");
    assert_eq!(status["gateway"]["broken_streams"], 0);
}
