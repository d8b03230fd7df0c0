//! Logon and roles: the sessions that may log on, the requests that each may send, and the reasons
//! of refusals.

use weir_client::request::cancel;
use weir_client::session::{SessionConfig, SessionEvent};
use weir_client::{Client, ClientError, Limits};
use weir_types::{
    ClOrdId, CopyNo, Epoch, EventNo, FirmId, OrdStatus, PartitionId, Reason, RequestNo, SessionId,
    Switch, Symbol,
};
use weir_wire::Request;
use weir_wire::reference::DefineFirm;
use weir_wire::session::{ApiKey, Logon, ResumePoint};

use crate::support::copying::{Desk, desk_of};
use crate::support::following::{Following, latest_states};
use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{
    ALICE, BOB, HANG, Home, INSTRUMENT, Node, SUPERVISOR, TRADING, Who, definition_of, open_market,
};

fn market() -> (Home, Node) {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    (home, node)
}

fn numbered(request: Request, who: &Who, request_no: u64) -> Request {
    weir_client::request::stamp(request, who.session_id, RequestNo(request_no))
}

#[test]
fn a_session_is_on_one_connection_at_a_time() {
    let (_home, node) = market();
    let mut first = Trader::log_on(&node, ALICE);
    let mut client = Client::connect(node.address(), Limits::default()).unwrap();
    let refused = client.log_on(ALICE.config(), HANG).unwrap_err();
    let is_it = matches!(
        refused,
        ClientError::LogonRejected { reason: Reason::AlreadyLoggedOn, session_id, .. }
            if session_id == ALICE.session_id
    );
    assert!(is_it, "{refused}");
    first.ask_for_report(ALICE.buy(1, 50, 1));
    first.client.log_out(HANG).unwrap();
    let mut second = Trader::log_on(&node, ALICE);
    second.ask_for_report(ALICE.buy(2, 50, 1));
}

#[test]
fn a_stranger_learns_nothing_and_loses_the_connection() {
    let (_home, node) = market();
    let stranger = ApiKey([0x5a; 32]);
    let wrong_key = Logon { api_key: stranger, ..logon_of(&ALICE) };
    let no_such_session = Logon { api_key: stranger, session_id: SessionId(99), ..wrong_key };
    for logon in [wrong_key, no_such_session] {
        refused_for_good(&node, &logon, Reason::UnknownKey);
    }
}

#[test]
fn another_sessions_key_is_as_wrong_as_any_other() {
    let (_home, node) = market();
    let bobs_key = Logon { api_key: BOB.key(), ..logon_of(&ALICE) };
    let no_such_session = Logon { session_id: SessionId(99), ..logon_of(&ALICE) };
    for logon in [bobs_key, no_such_session] {
        refused_for_good(&node, &logon, Reason::UnknownKey);
    }
}

fn refused_for_good(node: &Node, logon: &Logon, reason: Reason) {
    let mut wire = Wire::connect(node);
    let refused = wire.try_log_on(logon, &[]).unwrap_err();
    assert_eq!((refused.reason, refused.session_id), (reason, logon.session_id));
    assert_eq!(wire.logout(), (SessionId::NONE, reason));
    wire.closed();
}

#[test]
fn a_resume_point_that_cannot_be_served_is_refused_with_the_range_that_can() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    alice.client.log_out(HANG).unwrap();
    let mut wire = Wire::connect(&node);
    let epoch = Epoch(1);
    let ahead = ResumePoint { next_event_no: EventNo(3), epoch, partition_id: TRADING };
    let refused = wire.try_log_on(&logon_of(&ALICE), &[ahead]).unwrap_err();
    assert_eq!(refused.reason, Reason::ResumeOutOfRange);
    assert_eq!(refused.partition_id, TRADING);
    assert_eq!((refused.oldest_event_no, refused.next_event_no), (EventNo(1), EventNo(2)));
    assert_eq!(refused.epoch, epoch);
    let nowhere = ResumePoint { partition_id: PartitionId(9), ..ahead };
    let refused = wire.try_log_on(&logon_of(&ALICE), &[nowhere]).unwrap_err();
    assert_eq!(refused.reason, Reason::WrongPartition);
    let stranger = ResumePoint { next_event_no: EventNo(2), epoch: Epoch(7), ..ahead };
    let refused = wire.try_log_on(&logon_of(&ALICE), &[stranger]).unwrap_err();
    assert_eq!(refused.reason, Reason::ResumeOtherHistory, "of an epoch that never was here");
    assert_eq!((refused.oldest_event_no, refused.next_event_no), (EventNo(1), EventNo(1)));
    let good = ResumePoint { next_event_no: EventNo(1), ..stranger };
    assert!(wire.try_log_on(&logon_of(&ALICE), &[good]).is_ok());
}

#[test]
fn a_request_without_a_logon_is_refused_and_names_its_session_and_number() {
    let (_home, node) = market();
    let mut wire = Wire::connect(&node);
    wire.request(&numbered(ALICE.buy(1, 50, 1), &ALICE, 7));
    let reject = wire.reject();
    assert_eq!(reject.reason, Reason::NotLoggedOn);
    assert_eq!((reject.session_id, reject.request_no), (ALICE.session_id, RequestNo(7)));
    // Another session's logon on the same connection does not change this session's state.
    wire.log_on(&logon_of(&BOB));
    wire.request(&numbered(ALICE.buy(1, 50, 1), &ALICE, 7));
    assert_eq!(wire.reject().reason, Reason::NotLoggedOn);
    // The rejected request did not use up its number.
    wire.log_on(&logon_of(&ALICE));
    wire.request(&numbered(ALICE.buy(1, 50, 1), &ALICE, 7));
    let event = wire.expect("a report", |message| match message {
        weir_wire::NodeMessage::ExecutionReport(report) => Some(report.event),
        _ => None,
    });
    assert_eq!((event.request_no, event.ord_status), (RequestNo(7), OrdStatus::New));
}

#[test]
fn what_the_role_does_not_allow_is_refused_before_the_log() {
    let (_home, node) = market();
    let name = Symbol::new("MINE").unwrap();
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    let firm = DefineFirm {
        request_no,
        name,
        session_id,
        firm_id: FirmId(77),
        live_orders_max: 0,
        fields: 0,
    };
    let cases = [(ALICE, Request::DefineFirm(firm)), (SUPERVISOR, SUPERVISOR.buy(1, 50, 1))];
    let before = node.partition_when(PartitionId(0), |_| true);
    for (who, request) in cases {
        let mut trader = Trader::log_on(&node, who);
        match trader.ask(request) {
            SessionEvent::Refused { reject, .. } => {
                assert_eq!(reject.reason, Reason::NotEntitled, "{request:?}");
                assert_eq!(reject.ref_template_id, request.template_id());
            }
            other => panic!("{request:?} was answered by {other:?}"),
        }
    }
    let after = node.partition_when(PartitionId(0), |_| true);
    assert_eq!(before["position"], after["position"], "the control log has not grown");
}

#[test]
fn an_account_of_another_firm_is_refused_by_the_engine() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let report = alice.ask_for_report(BOB.buy(1, 50, 1));
    assert_eq!((report.ord_status, report.reason), (OrdStatus::Rejected, Reason::NotYourAccount));
    assert!(report.order_id.is_none() && report.rec.is_none() && report.seq.is_none());
}

#[test]
fn a_request_for_nothing_known_or_without_a_number_is_refused_at_the_door() {
    let (_home, node) = market();
    let mut wire = Wire::connect(&node);
    wire.log_on(&logon_of(&ALICE));
    wire.request(&numbered(ALICE.buy(1, 50, 1), &ALICE, 0));
    let reject = wire.reject();
    assert_eq!(reject.reason, Reason::FieldOutOfRange);
    assert_eq!(reject.field.to_string(), "request_no");
    let mut elsewhere = ALICE.order(1, weir_types::Side::Buy, 50, 1);
    elsewhere.instrument_id = weir_types::InstrumentId(404);
    wire.request(&numbered(elsewhere.request(), &ALICE, 1));
    assert_eq!(wire.reject().reason, Reason::UnknownInstrument);
}

#[test]
fn two_sessions_on_one_connection_trade_with_each_other_and_log_out_by_themselves() {
    let (_home, node) = market();
    let mut wire = Wire::connect(&node);
    for who in [ALICE, BOB] {
        assert_eq!(wire.log_on(&logon_of(&who)).firm_id, who.firm_id);
    }
    wire.request(&numbered(ALICE.sell(1, 50, 3), &ALICE, 1));
    wire.request(&numbered(BOB.buy(1, 50, 3), &BOB, 1));
    let mut filled = Vec::new();
    while filled.len() < 2 {
        filled.push(wire.expect("a fill", |message| match message {
            weir_wire::NodeMessage::ExecutionReport(report)
                if report.event.ord_status == OrdStatus::Filled =>
            {
                Some(report.event.session_id)
            }
            _ => None,
        }));
    }
    filled.sort_unstable();
    assert_eq!(filled, [ALICE.session_id, BOB.session_id]);
    let mut logout = Vec::new();
    let asked = weir_wire::session::Logout {
        session_id: ALICE.session_id,
        reason: Reason::LogoutRequested,
    };
    weir_wire::frame::put_frame(&asked, &mut logout);
    wire.send(&logout);
    assert_eq!(wire.logout(), (ALICE.session_id, Reason::LogoutRequested));
    wire.request(&numbered(ALICE.sell(2, 50, 3), &ALICE, 2));
    assert_eq!(wire.reject().reason, Reason::NotLoggedOn);
    wire.request(&numbered(BOB.buy(2, 50, 3), &BOB, 2));
    wire.expect("Bob's order", |message| match message {
        weir_wire::NodeMessage::ExecutionReport(report) => {
            (report.event.session_id == BOB.session_id).then_some(())
        }
        _ => None,
    });
}

#[test]
fn a_lost_connection_cancels_the_orders_of_those_who_chose_that_and_no_others() {
    let (_home, node) = market();
    let config = |who: Who, is_on| SessionConfig { cancel_on_disconnect: is_on, ..who.config() };
    let mut alice = Trader::log_on_as(&node, ALICE, config(ALICE, true));
    let mut bob = Trader::log_on_as(&node, BOB, config(BOB, false));
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    alice.ask_for_report(ALICE.buy(2, 49, 1));
    bob.ask_for_report(BOB.buy(1, 48, 1));
    let live = |count: u64| move |row: &serde_json::Value| row["live_orders"] == count;
    node.partition_when(TRADING, live(3));
    let (of_alice, of_bob) = (alice.last_event_no(), bob.last_event_no());
    drop((alice, bob));
    node.partition_when(TRADING, live(1));

    let mut alice = Trader::resume(&node, ALICE, of_alice.next()).unwrap();
    for _ in 0..2 {
        let report = alice.report_where(|report| report.ord_status == OrdStatus::Canceled);
        assert_eq!((report.reason, report.request_no), (Reason::SessionLost, RequestNo::NONE));
    }
    let mut bob = Trader::resume(&node, BOB, of_bob.next()).unwrap();
    bob.settle();
    assert!(bob.reports().is_empty(), "{:?}", bob.reports());
}

#[test]
fn after_a_kill_the_orders_go_of_those_who_chose_that_and_do_not_return_in_time() {
    let home = Home::with_config("disk", "[gateway]\nreturn_within_ms = 3000\n");
    let mut node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let desk = desk_of(31, ALICE.firm_id);
    let mut admin = node.admin();
    admin.define_session(definition_of(&desk)).unwrap();
    admin.close().unwrap();
    let config = |who: Who| SessionConfig { cancel_on_disconnect: true, ..who.patient_config() };
    let mut alice = Trader::log_on_as(&node, ALICE, config(ALICE));
    let mut bob = Trader::log_on_as(&node, BOB, config(BOB));
    let of_alice = alice.ask_for_report(ALICE.buy(1, 50, 1));
    let of_bob = bob.ask_for_report(BOB.buy(1, 49, 1));
    node.kill();

    // Bob returns at once, Alice too late.
    let node = home.start();
    let mut bob = Trader::log_on_as(&node, BOB, config(BOB));
    let mut following = Following::start(&node, SUPERVISOR, Vec::new());
    let mut desk = Desk::log_on(&node, desk);
    desk.send(ALICE.firm_id, CopyNo(1), Switch::On);
    desk.beat_until("the copy of the cancel", |desk| desk.copies.len() == 2);
    let mut alice = Trader::resume(&node, ALICE, of_alice.event_no.next()).unwrap();
    let gone = alice.report_where(|report| report.order_id == of_alice.order_id);
    assert_eq!((gone.ord_status, gone.reason), (OrdStatus::Canceled, Reason::SessionLost));
    following.until(&latest_states([&of_alice, &gone, &of_bob]));

    let cancel = cancel(ClOrdId::from_number(2), of_bob.cl_ord_id, INSTRUMENT);
    let ended = bob.ask_for_report(cancel);
    assert_eq!((ended.order_id, ended.ord_status), (of_bob.order_id, OrdStatus::Canceled));
}

#[test]
fn a_stop_in_order_keeps_the_orders_and_the_time_to_return_counts_after_the_next_start() {
    let home = Home::with_config("os", "[gateway]\nreturn_within_ms = 500\n");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let config = SessionConfig { cancel_on_disconnect: true, ..ALICE.patient_config() };
    let mut alice = Trader::log_on_as(&node, ALICE, config);
    let of_alice = alice.ask_for_report(ALICE.buy(1, 50, 1));
    assert!(node.terminate().success());
    assert_eq!(home.verify(TRADING)["live_orders"], 1, "the stop itself leaves it");

    let node = home.start();
    node.partition_when(TRADING, |row| row["live_orders"] == 0);
    let mut alice = Trader::resume(&node, ALICE, of_alice.event_no.next()).unwrap();
    let gone = alice.report_where(|report| report.order_id == of_alice.order_id);
    assert_eq!((gone.ord_status, gone.reason), (OrdStatus::Canceled, Reason::SessionLost));
}
