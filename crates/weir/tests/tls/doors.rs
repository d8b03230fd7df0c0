//! The listeners for outside cores and for subscribers use TLS when the node does.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use weir_client::follower::{Follower, FollowerConfig};
use weir_client::source::{SourceConfig, SourceWriter};
use weir_client::subscription::{
    BrokerClient, NewSubscription, Publisher, Seen, Subscription, WaitOutcome,
};
use weir_client::{Connection, Limits, Target};
use weir_types::{
    ChangeId, Epoch, PartitionId, Reason, Rec, Role, Seq, SessionId, SubscriptionKind,
};
use weir_wire::ingest::BatchFlags;

use crate::handshakes::drained;
use crate::proxy::{Proxy, Way};
use crate::rig::{NAME, Rig, failed};
use crate::support::following::Following;
use crate::support::wire::Wire;
use crate::support::{ALICE, HANG, Home, Node, OPERATOR, SUPERVISOR, Who, definition_of, until};

#[path = "../../../delivery/tests/stream/core.rs"]
#[allow(dead_code, reason = "the stream's own test takes the rest")]
mod core;

use self::core::{Record, SOURCE};

const CORE: Who = Who { session_id: SessionId(30), role: Role::Source, ..OPERATOR };
const STEP: Duration = Duration::from_millis(20);
/// The number of the core's batches, and of orders in each.
const BATCHES: u64 = 50;
const BATCH: u64 = 10;
const LAST: u64 = BATCHES - 1;

/// Starts a node with all listeners open, each with TLS, and defines their sessions.
fn start() -> (Rig, Node) {
    let more = "\n[subscriptions]\nlisten = \"127.0.0.1:0\"\n\n\
                [ingest]\nlisten = \"127.0.0.1:0\"\n\n\
                [[ingest.source]]\nid = 40\nsession = 30";
    let rig = Rig::new("memory", more);
    let node = rig.start();
    rig.open_market(&node, &[ALICE]);
    let mut admin = rig.admin(&node);
    for who in [SUPERVISOR, CORE] {
        admin.define_session(definition_of(&who)).unwrap();
    }
    admin.close().unwrap();
    (rig, node)
}

fn address(node: &Node, door: &str) -> SocketAddr {
    node.status()[door]["address"].as_str().expect("it listens").parse().unwrap()
}

fn at(rig: &Rig, address: SocketAddr) -> Target {
    Target::of(address, Some(rig.tls()))
}

/// Returns the order of this number, with attributes of its own.
fn record(number: u64) -> Record {
    let attributes = (0..200).map(|place| (number + place) as u8).collect();
    Record::new(ChangeId::new(Seq(number), Rec(number)), 1, attributes)
}

#[test]
fn a_core_feeds_its_orders_over_tls_through_a_network_that_cuts() {
    let (rig, node) = start();
    // Each connection carries a handshake and some of the batches.
    let proxy = Proxy::start(address(&node, "ingest"), Way::CutAfter(40_000));
    let cuts = feed(at(&rig, proxy.address()), &node);
    assert!(cuts > 0, "the network cut nothing");
    let config = FollowerConfig {
        source_id: SOURCE,
        keep_orders: true,
        ..FollowerConfig::new(SUPERVISOR.session_id)
    };
    let follower = Follower::new(config, Vec::new());
    let mut reader = Following::start_at(rig.target(&node), SUPERVISOR, follower);
    reader.ask();
    reader.until_online();
    assert_eq!(reader.follower.orders().len() as u64, BATCHES * BATCH);
    for number in 1..=BATCHES * BATCH {
        let Record { row, attributes } = record(number);
        assert_eq!(reader.follower.attributes(row.order_id), attributes, "{number}");
    }
}

/// Feeds all batches of the core; returns the number of lost connections.
fn feed(target: Target, node: &Node) -> usize {
    let config = SourceConfig::full(CORE.session_id, SOURCE, Epoch(1));
    let mut writer = SourceWriter::new(target, CORE.config(), config);
    for batch in 0..BATCHES {
        let records: Vec<Record> = (1..=BATCH).map(|n| record(batch * BATCH + n)).collect();
        let rows: Vec<_> = records.iter().map(|r| (r.row, &r.attributes[..])).collect();
        let flags = match batch {
            0 => BatchFlags::RESEND_BEGIN,
            LAST => BatchFlags::RESEND_END,
            _ => BatchFlags::default(),
        };
        writer.push(&rows, flags).unwrap();
    }
    let mut cuts = 0;
    until("all batches at the store", || {
        writer.poll(STEP, |_| {}).unwrap();
        cuts += usize::from(writer.take_failure().is_some());
        let source = &node.status()["ingest"]["sources"][0];
        (source["rows"] == BATCHES * BATCH).then_some(())
    });
    cuts
}

#[test]
fn a_replica_follows_its_master_over_tls_and_not_without() {
    let (rig, node) = start();
    feed(at(&rig, address(&node, "ingest")), &node);
    rig.write("replica.key", &hex(&SUPERVISOR.key().0));
    for tls in
        [format!("tls_ca = {:?}\ntls_name = {NAME:?}\n", rig.home.path("ca.pem")), String::new()]
    {
        let config = format!(
            "[replica]\nmaster = \"{}\"\nsession = {}\nkey_file = {:?}\nsources = [{SOURCE}]\n\
             {tls}",
            address(&node, "ingest"),
            SUPERVISOR.session_id,
            rig.home.path("replica.key"),
        );
        let home = Home::with_config("memory", &config);
        let replica = home.start();
        if tls.is_empty() {
            until("a failure", || (replica.status()["replica"]["failures"] != 0).then_some(()));
            assert_eq!(replica.status()["replica"]["is_connected"], false);
            continue;
        }
        until("the replica to have what the master has", || {
            let there = node.status()["ingest"]["sources"][0]["digest"].clone();
            let here = replica.status()["replica"]["sources"][0].clone();
            (here["is_whole"] == true && here["digest"] == there).then_some(())
        });
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn messages_reach_a_subscriber_over_tls_byte_by_byte_and_after_a_restart_of_his() {
    let (rig, node) = start();
    let broker = address(&node, "subscriptions");
    let letters = NewSubscription::new("letters", SubscriptionKind::Messages);
    BrokerClient::new(at(&rig, broker), ALICE.config()).create(&letters).unwrap();
    let mut publisher = Publisher::new(at(&rig, broker), SUPERVISOR.config(), Epoch(1), 0);
    let body = |number: u64| vec![number as u8; 700];
    (1..=200).for_each(|number| {
        publisher.publish(ALICE.session_id, &body(number));
    });
    until("all acknowledged", || (publisher.poll(STEP) == 200).then_some(()));
    let proxy = Proxy::start(broker, Way::Dribble);
    // The last acknowledgements may be lost; their messages are then sent again.
    let mut got: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for upto in [100, 200] {
        let target = at(&rig, proxy.address());
        let mut alice = Subscription::new(target, ALICE.config(), "letters", Seen::new());
        let begun = Instant::now();
        while got.len() < upto {
            assert!(begun.elapsed() < HANG, "{} of {upto} came", got.len());
            if let WaitOutcome::Message(message) = alice.next(STEP) {
                alice.ack(&message);
                got.insert(message.head.message_no, message.body);
            }
        }
        alice.flush();
    }
    let wanted = (1..=200).map(body);
    assert!(got.into_values().eq(wanted), "each of them, in order");
}

#[test]
fn plain_bytes_at_a_door_with_tls_are_cut_and_counted() {
    let (rig, node) = start();
    let mut logon = Vec::new();
    let of_core = crate::support::wire::logon_of(&CORE);
    weir_wire::dialogue::put_logon(&of_core, &[], &mut logon);
    let mut count = 0;
    for door in ["ingest", "subscriptions"] {
        for bytes in [&logon[..], b"GET / HTTP/1.1\r\n\r\n"] {
            let mut stream = TcpStream::connect(address(&node, door)).unwrap();
            stream.write_all(bytes).unwrap();
            let said = drained(stream);
            // At most an alert: no answer of the listener itself.
            assert!(said.len() <= 7, "{said:?}");
            count += 1;
            failed(&node, "not_tls", count);
        }
        assert_eq!(node.status()[door]["sessions"], 0);
    }
    drop(rig);
}

#[test]
fn garbage_over_tls_ends_the_connection_with_a_reason_and_a_farewell() {
    let (rig, node) = start();
    for door in ["ingest", "subscriptions"] {
        let target = at(&rig, address(&node, door));
        let mut wire = Wire::over(Connection::open(target, Limits::default()).unwrap());
        wire.send(&[0xff; 64]);
        assert_eq!(wire.logout(), (SessionId::NONE, Reason::MalformedFrame), "{door}");
        wire.closed();
    }
}

#[test]
fn a_core_that_does_not_believe_the_node_tells_it_nothing() {
    let (rig, node) = start();
    let stranger = weir_tls::authority::Authority::new("A stranger").unwrap();
    rig.write("stranger.pem", &stranger.certificate());
    let tls = Some(rig.believing("stranger.pem"));
    let target = Target::of(address(&node, "ingest"), tls);
    let config = SourceConfig::full(CORE.session_id, PartitionId(40), Epoch(1));
    let mut writer = SourceWriter::new(target, CORE.config(), config);
    let why = until("a failure", || {
        writer.poll(STEP, |_| {}).unwrap();
        writer.take_failure()
    });
    assert!(why.to_string().contains("UnknownIssuer"), "{why}");
    failed(&node, "refused_by_peer", 1);
    assert_eq!(node.status()["ingest"]["accepted"], 0);
}
