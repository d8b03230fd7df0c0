//! Gateway processes before a node with two partitions: a link that is cut, a gateway that is
//! killed beside another one, sessions at two doors.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use weir_client::request::LimitOrder;
use weir_client::session::{SessionConfig, SessionEvent};
use weir_client::{Client, ClientError, Limits, Target};
use weir_types::{EventNo, InstrumentId, OrdStatus, PartitionId, Reason, SessionId, Side};
use weir_wire::Request;

use super::links::{GATEWAY, exchange_with, gateway_of, gateway_with};
use crate::support::address::free_address;
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, HANG, Home, INSTRUMENT, Node, SUPERVISOR, TRADING, Who, definition_of, until,
};

const OTHER: PartitionId = PartitionId(2);
const TWO: &str = "[[partition]]\nid = 1\n[[partition]]\nid = 2\n";

/// A way to a listener that can be cut.
struct CuttableWay {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl CuttableWay {
    /// Carries bytes to `to` and back, until the test's process ends.
    fn start(to: SocketAddr) -> CuttableWay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, open) =
            (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let (told, ends) = (is_cut.clone(), open.clone());
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let mut ends = ends.lock().unwrap();
                if told.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(to) else { continue };
                for (from, into) in [(&near, &far), (&far, &near)] {
                    from.set_nodelay(true).unwrap();
                    let (mut from, mut into) =
                        (from.try_clone().unwrap(), into.try_clone().unwrap());
                    std::thread::spawn(move || {
                        // The end of either side ends both.
                        let _ = io::copy(&mut from, &mut into);
                        let _ = into.shutdown(Shutdown::Both);
                    });
                }
                ends.extend([near, far]);
            }
        });
        CuttableWay { address, is_cut, open }
    }

    fn cut(&self) {
        let mut open = self.open.lock().unwrap();
        self.is_cut.store(true, Ordering::SeqCst);
        for end in open.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    fn heal(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

fn order(who: Who, number: u64, partition_id: PartitionId, side: Side) -> Request {
    let instrument_id = InstrumentId(INSTRUMENT.0 + u32::from(partition_id == OTHER));
    LimitOrder { instrument_id, ..who.order(number, side, 100, 1) }.request()
}

/// Sends an order to a partition; returns the answer.
fn ask(trader: &mut Trader, number: u64, partition_id: PartitionId) -> SessionEvent {
    let request = order(trader.who, number, partition_id, Side::Sell);
    let request_no = trader.send_to(partition_id, request);
    trader.answer(request_no)
}

fn is_new(event: &SessionEvent) -> bool {
    let SessionEvent::Report { report, .. } = event else { return false };
    report.event.ord_status == OrdStatus::New
}

fn is_away(event: &SessionEvent) -> bool {
    let SessionEvent::Refused { reject, .. } = event else { return false };
    reject.reason == Reason::PartitionAway
}

/// Returns the homes and processes of a node with two partitions and of a gateway, whose link to
/// the second partition can be cut.
fn two_partitions(lease_ms: u32) -> (CuttableWay, (Home, Node), (Home, Node)) {
    let link = free_address();
    let (home, node) = exchange_with(TWO, link, lease_ms);
    let way = CuttableWay::start(link);
    let of_gateway = gateway_with(GATEWAY, &[(0, link), (1, link), (2, way.address)]);
    let gateway = of_gateway.start();
    (way, (home, node), (of_gateway, gateway))
}

#[test]
fn a_partition_whose_link_is_cut_is_away_alone_and_comes_back() {
    let (way, (_home, node), (_of_gateway, gateway)) = two_partitions(60_000);
    let mut alice = Trader::log_on(&gateway, ALICE);
    for partition_id in [TRADING, OTHER] {
        assert!(is_new(&ask(&mut alice, 1, partition_id)));
    }
    way.cut();
    // Orders that were on the way are answered once it is back; later ones are refused at once.
    let mut number = 1;
    let mut unanswered = Vec::new();
    until("a refusal", || {
        number += 1;
        let request = order(ALICE, number, OTHER, Side::Sell);
        let request_no = alice.send_to(OTHER, request);
        assert!(is_new(&ask(&mut alice, 1_000 + number, TRADING)), "the other one goes on");
        let refused = alice.take_if(|event| match event {
            SessionEvent::Refused { reject, .. } if reject.request_no == request_no => {
                Some(reject.reason)
            }
            _ => None,
        });
        unanswered.extend(refused.is_none().then_some(request_no));
        refused.map(|reason| assert_eq!(reason, Reason::PartitionAway))
    });
    // Both ends say so.
    until("the status pages", || {
        let (there, here) = (node.status()["links"].clone(), gateway.status()["uplinks"].clone());
        let open: [Vec<_>; 2] = [&there["gateways"], &here].map(|links| {
            links.as_array().unwrap().iter().map(|link| link["open"].as_bool().unwrap()).collect()
        });
        (open == [[true, true, false], [true, true, false]]).then(|| {
            assert_eq!(here[2]["address"], way.address.to_string());
            assert!(here[2]["last_loss"].is_string(), "{here}");
            assert_eq!(there["gateways"][2]["bindings"], 1, "{there}");
        })
    });
    // One that logs on meanwhile is served by the others, and there too once it is back.
    let mut bob = Trader::log_on(&gateway, BOB);
    assert!(is_new(&ask(&mut bob, 1, TRADING)) && is_away(&ask(&mut bob, 2, OTHER)));
    way.heal();
    for request_no in unanswered {
        assert!(is_new(&alice.answer(request_no)), "kept, and sent again");
    }
    until("the partition", || is_new(&ask(&mut bob, 3, OTHER)).then_some(()));
    assert!(is_new(&ask(&mut alice, 9_999, OTHER)), "the session goes on where it was");
    assert!(node.terminate().success());
}

/// Its kept orders were executed when the link was back, minutes after their session was lost.
#[test]
fn orders_that_were_on_the_way_when_a_link_was_lost_end_with_its_lease() {
    let (way, (_home, node), (_of_gateway, gateway)) = two_partitions(1_500);
    let config = SessionConfig { cancel_on_disconnect: true, ..ALICE.config() };
    let mut alice = Trader::log_on_as(&gateway, ALICE, config);
    let mut bob = Trader::log_on(&gateway, BOB);
    for partition_id in [TRADING, OTHER] {
        assert!(is_new(&ask(&mut alice, 1, partition_id)));
    }
    node.partition_when(OTHER, |row| row["live_orders"] == 1);
    node.pause(true);
    alice.send_to(OTHER, order(ALICE, 2, OTHER, Side::Sell));
    // The gateway answers the second one itself, so it has taken the first.
    let nowhere = LimitOrder { instrument_id: InstrumentId(99), ..ALICE.order(3, Side::Buy, 1, 1) };
    let request_no = alice.send_to(OTHER, nowhere.request());
    let unknown = alice.answer(request_no);
    assert!(matches!(unknown, SessionEvent::Refused { .. }), "{unknown:?}");
    way.cut();
    node.pause(false);
    // The partition takes the session as lost, and so does its gateway, which has an order of it.
    node.partition_when(OTHER, |row| row["live_orders"] == 0);
    let ended = loop {
        if let Err(error) = alice.poll(HANG) {
            break error;
        }
    };
    let ClientError::LoggedOut { reason, .. } = ended else { panic!("{ended}") };
    assert_eq!(reason, Reason::PartitionAway);
    // A session without requests there goes on, and comes back with the partition.
    assert!(is_new(&ask(&mut bob, 1, TRADING)) && is_away(&ask(&mut bob, 2, OTHER)));
    way.heal();
    until("the partition", || is_new(&ask(&mut bob, 3, OTHER)).then_some(()));
    node.partition_when(OTHER, |row| row["live_orders"] == 1);
}

#[test]
fn sessions_of_a_killed_gateway_go_on_at_another() {
    let link = free_address();
    let (_home, node) = exchange_with(TWO, link, 60_000);
    let second = Who { session_id: SessionId(102), ..GATEWAY };
    node.admin().define_session(definition_of(&second)).unwrap();
    let homes = [GATEWAY, second].map(|who| gateway_with(who, &[(0, link), (1, link), (2, link)]));
    let [mut first, other] = homes.each_ref().map(Home::start);
    let target = Target::of(first.address(), None).or(other.address());
    let mut alice = Trader::log_on_at(target, ALICE);
    for number in 1..=20 {
        for partition_id in [TRADING, OTHER] {
            assert!(is_new(&ask(&mut alice, number, partition_id)));
        }
    }
    // The other one does not get a session that is logged on at the first.
    let mut twice = Client::connect(other.address(), Limits::default()).unwrap();
    let refused = twice.log_on(ALICE.config(), HANG).unwrap_err();
    let ClientError::LogonRejected { reason, .. } = refused else { panic!("{refused}") };
    assert_eq!(reason, Reason::AlreadyLoggedOn);
    let marks = [TRADING, OTHER].map(|id| (id, alice.mark_in(id)));
    first.kill();
    let mut alice = until("the other gateway", || match Trader::go_on_in(&other, ALICE, &marks) {
        Err(ClientError::LogonRejected { reason: Reason::AlreadyLoggedOn, .. }) => None,
        logged_on => Some(logged_on.unwrap()),
    });
    for partition_id in [TRADING, OTHER] {
        let SessionEvent::Report { report, .. } = ask(&mut alice, 21, partition_id) else {
            panic!("an order is answered by its report")
        };
        assert_eq!(report.event.event_no.0, 21, "without gap and repetition");
    }
    // Started again, it takes sessions, and none that the other one has.
    let first = homes[0].start();
    let mut bob = Trader::log_on(&first, BOB);
    assert!(is_new(&ask(&mut bob, 1, OTHER)) && is_new(&ask(&mut alice, 22, OTHER)));
}

#[test]
fn sessions_of_other_roles_than_traders_log_on_at_the_node() {
    let link = free_address();
    let (_home, node) = exchange_with("", link, 60_000);
    let of_gateway = gateway_of(link);
    let gateway = of_gateway.start();
    let refused = Trader::resume(&gateway, SUPERVISOR, EventNo(1)).map(drop).unwrap_err();
    let ClientError::LogonRejected { reason, .. } = refused else { panic!("{refused}") };
    assert_eq!(reason, Reason::NotServedHere);
    drop(Trader::log_on(&node, SUPERVISOR));
}
