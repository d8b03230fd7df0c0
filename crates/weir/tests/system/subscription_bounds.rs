//! The bounds of one participant in durable subscriptions: no firm and no session takes all of
//! them, none has longer terms than the node's, and no connection as many handles as it likes.

use std::time::Duration;

use weir_client::subscription::{BrokerClient, NewSubscription};
use weir_client::{ClientError, Connection, Limits};
use weir_types::{FirmId, Reason, SubscriptionKind};
use weir_wire::NodeMessage;
use weir_wire::dialogue::put_with_data;
use weir_wire::subscription::AttachSubscription;

use crate::subscriptions::{BACK_OFFICE, address, make};
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, Home, Node, Who, definition_of, open_market};

const CONFIG: &str = "[subscriptions]\nlisten = \"127.0.0.1:0\"\nfirm_subscriptions_max = 4\n\
                      session_subscriptions_max = 3\nquota_messages = 100\nexpire_after_s = 60\n";

fn start() -> (Home, Node) {
    let home = Home::with_config("os", CONFIG);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    node.admin().define_session(definition_of(&BACK_OFFICE)).unwrap();
    (home, node)
}

/// Creates subscriptions with the longest terms that there are until one is refused; returns their
/// number and the reason.
fn fill(node: &Node, who: Who) -> (usize, Reason) {
    let mut broker = BrokerClient::new(address(node), who.config());
    for count in 0.. {
        let name = format!("{}-{count}", who.session_id.0);
        let created = broker.create(&NewSubscription {
            quota_bytes: u64::MAX,
            quota_messages: u64::MAX,
            quota_age: Duration::from_secs(1 << 33),
            expire_after: Duration::from_secs(1 << 33),
            ..NewSubscription::new(&name, SubscriptionKind::Executions)
        });
        match created {
            Ok(()) => {}
            Err(ClientError::Refused { reason, .. }) => return (count, reason),
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("one is refused")
}

fn refused(node: &Node, figure: &str) -> u64 {
    node.status()["subscriptions"][figure].as_u64().expect("a figure")
}

#[test]
fn one_participant_takes_no_more_subscriptions_than_it_may_and_no_longer_terms() {
    let (home, mut node) = start();
    assert_eq!(fill(&node, ALICE), (3, Reason::TooManySessionSubscriptions));
    assert_eq!(fill(&node, BACK_OFFICE), (1, Reason::TooManyFirmSubscriptions));
    assert_eq!(fill(&node, BOB), (3, Reason::TooManySessionSubscriptions));
    assert_eq!((refused(&node, "session_bounded"), refused(&node, "firm_bounded")), (2, 1));
    let listed = BrokerClient::new(address(&node), ALICE.config()).list(FirmId::NONE).unwrap();
    assert_eq!(listed.len(), 4);
    for one in listed {
        let state = one.state;
        let quota = (state.quota_messages, state.quota_bytes, state.quota_age.0);
        assert_eq!(quota, (100, 1 << 30, 7 * 86_400_000_000_000), "{}", one.name);
        assert_eq!(state.expire_after.0, 60_000_000_000);
    }
    // The sessions that created them are known after a start, and a repeat is told that it is one.
    assert!(node.terminate().success());
    node = home.start();
    let mut broker = BrokerClient::new(address(&node), ALICE.config());
    for (name, wanted) in
        [("11-0", Reason::SubscriptionExists), ("more", Reason::TooManySessionSubscriptions)]
    {
        let created = broker.create(&NewSubscription::new(name, SubscriptionKind::Executions));
        let Err(ClientError::Refused { reason, .. }) = created else { panic!("{created:?}") };
        assert_eq!(reason, wanted, "{name}");
    }
}

#[test]
fn a_connection_has_no_more_handles_than_its_firm_may_have_subscriptions() {
    let (_home, node) = start();
    make(&node, ALICE, &NewSubscription::new("place", SubscriptionKind::State));
    let mut wire = Wire::over(Connection::open(address(&node), Limits::default()).unwrap());
    wire.log_on_again(&logon_of(&ALICE));
    // A token may be attached to by any number of handles.
    for handle in 1..=5 {
        let attach = AttachSubscription {
            correlation_id: u64::from(handle),
            session_id: ALICE.session_id,
            handle,
            credit_messages: 1,
            credit_bytes: 1,
        };
        let mut bytes = Vec::new();
        put_with_data(&attach, b"place", &mut bytes);
        wire.send(&bytes);
    }
    let mut attached = 0;
    let reason = wire.expect("a refusal", |message| match message {
        NodeMessage::SubscriptionAttached(..) => {
            attached += 1;
            None
        }
        NodeMessage::SubscriptionDone(done) => Some(done.reason),
        _ => None,
    });
    assert_eq!((attached, reason), (4, Reason::TooManySessionSubscriptions));
}
