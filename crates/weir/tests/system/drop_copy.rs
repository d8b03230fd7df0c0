//! Drop copy: a firm's desk receives exactly the reports of the firm's sessions, in order and
//! across restarts, and no other client receives them.

use std::process::{Command, Output};

use weir_client::drop_copy::{Beginning, CopiedReport, DropCopy, DropCopyReader};
use weir_client::request::cancel;
use weir_client::session::SessionEvent;
use weir_types::{
    AccountId, ClOrdId, CopyNo, Epoch, ExecType, FirmId, InstrumentId, KillScope, MassCancelScope,
    Nanos, OrdStatus, PartitionId, Reason, RequestNo, SessionId, Switch, Symbol,
};
use weir_wire::drop_copy::{DropCopyRequest, DropCopyState, ReportCopy};
use weir_wire::event::{OrderEvent, TradeBusted};
use weir_wire::frame::put_frame;
use weir_wire::order_entry::MassCancel;
use weir_wire::reference::{DefineFirm, KillSwitch};
use weir_wire::session::Logon;
use weir_wire::{Message, NodeMessage, Request};

use crate::access::ends_of_a_supervisor;
use crate::support::copying::{Copy, Desk, desk_of, told};
use crate::support::following::{Following, latest_states};
use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{
    ALICE, BOB, HANG, Home, INSTRUMENT, Node, OPERATOR, SUPERVISOR, TRADING, Who, definition_of,
    open_market, trader_of, until,
};

/// A second session of Alice's firm.
const ANNA: Who = Who { session_id: SessionId(13), ..ALICE };
const DESK: Who = desk_of(31, ALICE.firm_id);
const BOBS_DESK: Who = desk_of(32, BOB.firm_id);

fn market() -> (Home, Node) {
    market_with("")
}

fn market_with(config: &str) -> (Home, Node) {
    let home = Home::with_config("os", config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    define(&node, &[ANNA, DESK, BOBS_DESK]);
    (home, node)
}

fn define(node: &Node, all: &[Who]) {
    let mut admin = node.admin();
    for who in all {
        admin.define_session(definition_of(who)).unwrap();
    }
    admin.close().unwrap();
}

/// Enters a session's first order: its partition learns of a new session with a delay.
fn enter(trader: &mut Trader, request: Request) -> OrderEvent {
    until("the session's first order", || match trader.ask(request) {
        SessionEvent::Report { report, .. } => Some(report.event),
        SessionEvent::Rejected { rejected, .. } => {
            assert_eq!(rejected.reason, Reason::UnknownSession);
            None
        }
        other => panic!("an order was answered by {other:?}"),
    })
}

fn name(number: u64) -> ClOrdId {
    ClOrdId::from_number(number)
}

/// Enters orders of both firms that trade, are rejected and are cancelled by their own sessions.
fn trade(alice: &mut Trader, anna: &mut Trader, bob: &mut Trader) {
    for number in 1..=8 {
        alice.ask_for_report(ALICE.sell(number, 100, 5));
        enter(anna, ANNA.buy(number, 40, 2));
    }
    for number in 1..=4 {
        bob.ask_for_report(BOB.buy(number, 120, 7));
    }
    // Rejected: a price out of range, and an order that does not exist.
    assert_eq!(alice.ask_for_report(ALICE.sell(90, 0, 5)).ord_status, OrdStatus::Rejected);
    anna.ask(cancel(name(91), name(92), INSTRUMENT));
    alice.ask_for_report(cancel(name(93), name(8), INSTRUMENT));
    bob.settle();
    alice.settle();
    anna.settle();
}

fn mass_cancel(firm_id: FirmId) -> Request {
    Request::MassCancel(MassCancel {
        request_no: RequestNo::NONE,
        cl_ord_id: ClOrdId::NONE,
        sending_time: Nanos(0),
        session_id: SessionId::NONE,
        instrument_id: InstrumentId::NONE,
        account_id: AccountId::NONE,
        firm_id,
        partition_id: TRADING,
        scope: MassCancelScope::Firm,
    })
}

fn order_event(copy: &Copy) -> Option<OrderEvent> {
    let is_order = copy.report.template_id == OrderEvent::TEMPLATE_ID;
    is_order.then(|| OrderEvent::decode_block(&copy.report.body).unwrap())
}

/// Asserts that a desk's copies equal the reports of its firm's sessions byte for byte, no more and
/// no fewer.
fn check_against_owners(node: &Node, desk: &Desk, owners: &[Who]) {
    let mut count = 0;
    for who in owners {
        let told = told(node, who);
        assert_eq!(desk.of_owner(who), told, "of {who:?}");
        count += told.len();
    }
    assert_eq!(desk.copies.len(), count, "nothing of anybody else");
}

fn count_of(node: &Node, owners: &[Who]) -> usize {
    owners.iter().map(|who| told(node, who).len()).sum()
}

#[test]
fn a_desk_gets_what_each_session_of_its_firm_gets_byte_by_byte_and_nothing_else() {
    let (_home, node) = market();
    let mut desk = Desk::log_on(&node, DESK);
    let state = desk.ask(FirmId::NONE, CopyNo::NONE);
    assert_eq!((state.wanted, state.reason), (Switch::On, Reason::None));
    let mut bobs = Desk::log_on(&node, BOBS_DESK);
    let bobs_state = bobs.ask(BOB.firm_id, CopyNo::NONE);

    let mut alice = Trader::log_on(&node, ALICE);
    let mut anna = Trader::log_on(&node, ANNA);
    let mut bob = Trader::log_on(&node, BOB);
    trade(&mut alice, &mut anna, &mut bob);
    for trader in [alice, anna, bob] {
        trader.client.log_out(HANG).unwrap();
    }
    desk.until_copies(count_of(&node, &[ALICE, ANNA]));
    bobs.until_copies(count_of(&node, &[BOB]));
    check_against_owners(&node, &desk, &[ALICE, ANNA]);
    check_against_owners(&node, &bobs, &[BOB]);
    desk.check_chain(&state, &desk.copies);
    bobs.check_chain(&bobs_state, &bobs.copies);
    assert!(desk.copies.iter().all(|copy| copy.head.owner_firm_id == ALICE.firm_id));
    let kinds = [40, 41].map(|id| desk.copies.iter().any(|copy| copy.report.template_id == id));
    assert_eq!(kinds, [true, true], "reports and refusals are copied");
}

#[test]
fn what_operators_and_switches_do_to_sessions_that_are_away_is_copied() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut anna = Trader::log_on(&node, ANNA);
    let mut bob = Trader::log_on(&node, BOB);
    trade(&mut alice, &mut anna, &mut bob);
    let trade = alice.report_where(|event| event.exec_type == ExecType::Trade);
    for trader in [alice, anna] {
        trader.client.log_out(HANG).unwrap();
    }
    let mut desk = Desk::log_on(&node, DESK);
    let state = desk.ask(ALICE.firm_id, CopyNo::NONE);

    let mut admin = node.admin();
    let cancelled = admin.request(TRADING, mass_cancel(ALICE.firm_id)).unwrap();
    assert!(cancelled > 8, "Alice's and Anna's orders");
    admin.bust_trade(TRADING, trade.match_id, Switch::Off).unwrap();
    let kill = KillSwitch {
        request_no: RequestNo::NONE,
        session_id: SessionId::NONE,
        id: ALICE.firm_id.0,
        partition_id: TRADING,
        scope: KillScope::Firm,
        switch: Switch::On,
        cancel_orders: Switch::Off,
    };
    admin.kill_switch(kill).unwrap();
    let mut anna = Trader::log_on(&node, ANNA);
    let refused = anna.ask_for_report(ANNA.buy(77, 40, 2));
    assert_eq!(refused.reason, Reason::Killed);

    // The cancels, one side of the bust, and the reject.
    desk.until_copies(cancelled as usize + 2);
    desk.check_chain(&state, &desk.copies);
    let orders: Vec<OrderEvent> = desk.copies.iter().filter_map(order_event).collect();
    let by_operator = orders.iter().filter(|event| event.reason == Reason::MassCancel);
    assert_eq!(by_operator.count() as u64, cancelled);
    assert_eq!(orders.last().map(|event| event.reason), Some(Reason::Killed));
    let busts = desk.copies.iter().filter(|c| c.report.template_id == TradeBusted::TEMPLATE_ID);
    let busts: Vec<_> = busts.map(|c| TradeBusted::decode_block(&c.report.body).unwrap()).collect();
    assert_eq!(busts.len(), 1);
    assert_eq!((busts[0].match_id, busts[0].session_id), (trade.match_id, ALICE.session_id));
}

#[test]
fn a_desk_goes_on_where_it_was_after_a_reconnect_and_after_the_node_was_killed() {
    let (home, mut node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut anna = Trader::log_on(&node, ANNA);
    let mut bob = Trader::log_on(&node, BOB);
    let mut desk = Desk::log_on(&node, DESK);
    let state = desk.ask(FirmId::NONE, CopyNo(1));
    assert_eq!(state.previous_copy_no, CopyNo::NONE);
    trade(&mut alice, &mut anna, &mut bob);
    desk.until("some copies", |desk| desk.copies.len() > 5);
    let mut had = desk.copies[..5].to_vec();
    drop(desk);

    let go_on = |node: &Node, had: &mut Vec<Copy>, take: usize| {
        let last = had.last().expect("some are had").head.copy_no;
        // The node may not have noticed yet that the desk's connection is gone.
        let mut desk = until("the desk's logon", || try_log_on(node, DESK));
        let state = desk.ask(FirmId::NONE, CopyNo(last.0 + 1));
        assert_eq!((state.wanted, state.previous_copy_no), (Switch::On, last), "no gap");
        desk.until("copies", |desk| desk.copies.len() >= take);
        let new = &desk.copies[..take];
        desk.check_chain(&state, new);
        assert_eq!(state.next_copy_no, new[0].head.copy_no, "it is there already");
        had.extend_from_slice(new);
    };
    go_on(&node, &mut had, 7);
    for number in 200..230 {
        alice.ask_for_report(ALICE.sell(number, 300, 1));
    }
    node.kill();
    let node = home.start();
    go_on(&node, &mut had, 20);
    let rest = {
        let mut whole = until("the desk's logon", || try_log_on(&node, DESK));
        whole.ask(FirmId::NONE, CopyNo(1));
        whole.until_copies(count_of(&node, &[ALICE, ANNA]));
        check_against_owners(&node, &whole, &[ALICE, ANNA]);
        whole.copies
    };
    assert_eq!(had, rest[..had.len()], "numbers and bytes outlive the node");
}

/// Logs a desk on, unless its session is still on another connection.
fn try_log_on(node: &Node, who: Who) -> Option<Desk> {
    use crate::support::wire::Wire;
    let mut wire = Wire::connect(node);
    match wire.try_log_on(&logon_of(&who), &[]) {
        Ok(_) => {
            // The session is free: log out cleanly and log on as a desk.
            let logout = weir_wire::session::Logout {
                session_id: who.session_id,
                reason: Reason::LogoutRequested,
            };
            let mut bytes = Vec::new();
            weir_wire::frame::put_frame(&logout, &mut bytes);
            wire.send(&bytes);
            assert_eq!(wire.logout().1, Reason::LogoutRequested);
            Some(Desk::log_on(node, who))
        }
        Err(reject) => {
            assert_eq!(reject.reason, Reason::AlreadyLoggedOn);
            None
        }
    }
}

#[test]
fn sessions_of_the_firm_that_are_defined_later_are_copied_too() {
    let (_home, node) = market();
    let mut desk = Desk::log_on(&node, DESK);
    let state = desk.ask(FirmId::NONE, CopyNo(1));
    let later = Who { session_id: SessionId(14), ..ALICE };
    define(&node, &[later]);
    let mut trader = Trader::log_on(&node, later);
    enter(&mut trader, later.buy(1, 40, 2));
    trader.settle();
    trader.client.log_out(HANG).unwrap();
    desk.until_copies(told(&node, &later).len());
    desk.check_chain(&state, &desk.copies);
    check_against_owners(&node, &desk, &[later]);
}

#[test]
fn a_supervisor_gets_one_firms_copies_or_all_and_operators_answers_with_them() {
    let (_home, node) = market();
    let mut all = Desk::log_on(&node, SUPERVISOR);
    let of_all = all.ask(FirmId::NONE, CopyNo(1));
    let mut one = Desk::log_on(&node, defined(&node, desk_of(33, ALICE.firm_id)));
    one.ask(FirmId::NONE, CopyNo(1));
    let mut alice = Trader::log_on(&node, ALICE);
    let mut anna = Trader::log_on(&node, ANNA);
    let mut bob = Trader::log_on(&node, BOB);
    trade(&mut alice, &mut anna, &mut bob);
    for trader in [alice, anna, bob] {
        trader.client.log_out(HANG).unwrap();
    }
    let everybody = [ALICE, ANNA, BOB, OPERATOR];
    all.until_copies(count_of(&node, &everybody));
    all.check_chain(&of_all, &all.copies);
    check_against_owners(&node, &all, &everybody);
    one.until_copies(count_of(&node, &[ALICE, ANNA]));
    let firms = all.copies.iter().filter(|copy| copy.head.owner_firm_id == ALICE.firm_id);
    let firms: Vec<_> = firms.map(|c| (c.head.copy_no, c.report.clone())).collect();
    let ones: Vec<_> = one.copies.iter().map(|c| (c.head.copy_no, c.report.clone())).collect();
    assert_eq!(firms, ones, "a report has one number, whoever gets the copy");
}

fn defined(node: &Node, who: Who) -> Who {
    define(node, &[who]);
    who
}

fn refusal(desk: &mut Desk, firm_id: FirmId, from: CopyNo) -> DropCopyState {
    let state = desk.ask(firm_id, from);
    assert_eq!(state.wanted, Switch::Off);
    assert_eq!(state.previous_copy_no, CopyNo::NONE);
    state
}

#[test]
fn copies_are_refused_to_who_may_not_have_them() {
    let (_home, node) = market();
    let mut trader = Desk::log_on(&node, ALICE);
    for firm_id in [FirmId::NONE, ALICE.firm_id, BOB.firm_id] {
        assert_eq!(refusal(&mut trader, firm_id, CopyNo(1)).reason, Reason::NotEntitled);
    }
    let mut desk = Desk::log_on(&node, DESK);
    assert_eq!(refusal(&mut desk, BOB.firm_id, CopyNo(1)).reason, Reason::NotEntitled);
    desk.send_in(PartitionId(9), FirmId::NONE, CopyNo::NONE, Switch::On);
    desk.until("the refusal", |desk| desk.states.len() == 2);
    assert_eq!(desk.states[1].reason, Reason::WrongPartition);
    let mut supervisor = Desk::log_on(&node, SUPERVISOR);
    assert_eq!(refusal(&mut supervisor, FirmId(404), CopyNo(1)).reason, Reason::UnknownFirm);
    // For a session that is not on this connection, the answer states only that.
    desk.send(BOB.firm_id, CopyNo::NONE, Switch::On);
    let mut stranger = Desk::log_on(&node, BOBS_DESK);
    stranger.send_as(DESK.session_id, CopyNo(1));
    stranger.until("the reject", |desk| !desk.rejects.is_empty());
    assert_eq!(stranger.rejects[0].reason, Reason::NotLoggedOn);
    let refused = until("the counters", || {
        let refused = node.status()["gateway"]["copies_refused"].clone();
        (refused["NotEntitled"] == 5).then_some(refused)
    });
    assert_eq!((&refused["UnknownFirm"], &refused["WrongPartition"]), (&1.into(), &1.into()));
}

#[test]
fn a_drop_copy_session_enters_and_cancels_nothing() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    let mut desk = Trader::log_on(&node, DESK);
    let requests =
        [ALICE.buy(2, 50, 1), cancel(name(3), name(1), INSTRUMENT), mass_cancel(ALICE.firm_id)];
    for request in requests {
        match desk.ask(request) {
            SessionEvent::Refused { reject, .. } => assert_eq!(reject.reason, Reason::NotEntitled),
            other => panic!("{request:?} was answered by {other:?}"),
        }
    }
    node.partition_when(TRADING, |row| row["live_orders"] == 1);
}

#[test]
fn a_desk_reads_its_own_firms_order_state() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    let entered = alice.ask_for_report(ALICE.buy(1, 50, 1));
    bob.ask_for_report(BOB.sell(1, 60, 1));
    let mut following = Following::start(&node, DESK, Vec::new());
    following.until(&latest_states([&entered]));
}

#[test]
fn a_number_that_is_not_there_is_refused_with_the_range() {
    // So few copies are retained that some thousand orders push out the oldest.
    let (_home, node) = market_with("[gateway]\ncopies_retained_max = 1\n");
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=2_500 {
        alice.send(ALICE.buy(number, 50, 1));
        if number % 500 == 0 {
            alice.report_where(|event| event.cl_ord_id == name(number));
            alice.forget();
        }
    }
    let mut desk = Desk::log_on(&node, DESK);
    let state = refusal(&mut desk, FirmId::NONE, CopyNo(1));
    assert_eq!(state.reason, Reason::ResumeOutOfRange);
    let (oldest, next) = (state.oldest_copy_no, state.next_copy_no);
    assert!(oldest > CopyNo(1) && next > oldest && state.high_water < next, "{state:?}");
    for outside in [CopyNo(oldest.0 - 1), CopyNo(next.0 + 1), CopyNo(u64::MAX)] {
        let state = refusal(&mut desk, FirmId::NONE, outside);
        assert_eq!(state.reason, Reason::ResumeOutOfRange);
        assert_eq!((state.oldest_copy_no, state.next_copy_no), (oldest, next));
    }
    let from_oldest = desk.ask(FirmId::NONE, oldest);
    assert_eq!(from_oldest.wanted, Switch::On);
    assert_eq!(from_oldest.previous_copy_no, CopyNo(oldest.0 - 1), "the last that is gone");
    desk.until("all that is retained", |desk| {
        desk.copies.last().is_some_and(|copy| copy.head.copy_no == state.high_water)
    });
    desk.check_chain(&from_oldest, &desk.copies);
    let count = desk.copies.len();
    assert_eq!(desk.ask(FirmId::NONE, next).wanted, Switch::On);
    alice.ask_for_report(ALICE.buy(9_000, 50, 1));
    desk.until_copies(count + 1);
    assert_eq!(desk.copies[count].head.previous_copy_no, state.high_water);
}

#[test]
fn a_desk_that_does_not_read_misses_nothing_and_keeps_nobody_waiting() {
    let (_home, node) = market_with("[gateway]\noutput_bytes_max = 65536\n");
    let patient = Logon { heartbeat_interval_ms: 60_000, ..logon_of(&DESK) };
    let mut desk = Desk::log_on_as(&node, DESK, &patient);
    rustix::net::sockopt::set_socket_recv_buffer_size(&desk.connection, 64 << 10).unwrap();
    let state = desk.ask(FirmId::NONE, CopyNo::NONE);
    // More copies than all buffers between node and desk hold, while the desk reads nothing.
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=20_000 {
        alice.send(ALICE.buy(number, 50, 1));
        if number % 500 == 0 {
            alice.report_where(|event| event.cl_ord_id == name(number));
            alice.forget();
        }
    }
    until("the stream to be behind", || {
        (node.status()["gateway"]["copy_streams_behind"] == 1).then_some(())
    });
    desk.until_copies(20_000);
    desk.check_chain(&state, &desk.copies);
    alice.client.log_out(HANG).unwrap();
    check_against_owners(&node, &desk, &[ALICE]);
    until("the stream to have caught up", || {
        (node.status()["gateway"]["copy_streams_behind"] == 0).then_some(())
    });
}

#[test]
fn a_quiet_stream_is_told_how_far_it_goes() {
    let (_home, node) = market();
    let quick = Logon { heartbeat_interval_ms: 100, ..logon_of(&DESK) };
    let mut desk = Desk::log_on_as(&node, DESK, &quick);
    let state = desk.ask(FirmId::NONE, CopyNo::NONE);
    desk.beat_until("a mark", |desk| !desk.marks.is_empty());
    assert_eq!(desk.marks[0].high_water, state.high_water);
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    desk.beat_until("the copy and a mark of it", |desk| {
        let copy = desk.copies.first().map(|copy| copy.head.copy_no);
        copy.is_some() && desk.marks.last().map(|mark| mark.high_water) == copy
    });
}

#[test]
fn a_session_has_so_many_streams_and_ends_them_one_by_one() {
    const STREAMS: usize = 256;
    let (_home, node) = market();
    let mut admin = node.admin();
    for id in 1_000..1_000 + STREAMS as u32 {
        let definition = DefineFirm {
            request_no: RequestNo::NONE,
            name: Symbol::new(&format!("F{id}")).unwrap(),
            session_id: SessionId::NONE,
            firm_id: FirmId(id),
            live_orders_max: 0,
            fields: 0,
        };
        admin.define_firm(definition).unwrap();
    }
    let mut supervisor = Desk::log_on(&node, SUPERVISOR);
    for id in 1_000..1_000 + STREAMS as u32 {
        assert_eq!(supervisor.ask(FirmId(id), CopyNo::NONE).wanted, Switch::On);
    }
    let one_more = refusal(&mut supervisor, ALICE.firm_id, CopyNo::NONE);
    assert_eq!(one_more.reason, Reason::TooManyCopyStreams);
    // A request for a running stream restarts it; a stream that ends frees its slot.
    assert_eq!(supervisor.ask(FirmId(1_000), CopyNo::NONE).wanted, Switch::On);
    supervisor.send(FirmId(1_000), CopyNo::NONE, Switch::Off);
    assert_eq!(supervisor.ask(ALICE.firm_id, CopyNo::NONE).wanted, Switch::Off, "the end");
    supervisor.until("the stream", |desk| {
        desk.states.last().is_some_and(|state| state.wanted == Switch::On)
    });
    until("the gauge", || (node.status()["gateway"]["copy_streams"] == STREAMS).then_some(()));
}

fn name_of(report: &CopiedReport) -> Option<ClOrdId> {
    match report {
        CopiedReport::Order(report) => Some(report.event.cl_ord_id),
        _ => None,
    }
}

#[test]
fn a_reader_comes_back_by_itself_and_has_each_copy_once() {
    let (home, mut node) = market();
    let copies = DropCopy::new(DESK.session_id, FirmId::NONE, Beginning::Oldest, &[]);
    let connected = DropCopyReader::connect(node.address(), DESK.config(), copies, HANG);
    let mut reader = connected.unwrap();
    let mut heard: Vec<(ReportCopy, ClOrdId)> = Vec::new();
    for life in 0..3_u64 {
        let mut alice = Trader::log_on(&node, ALICE);
        for number in 1..=50 {
            alice.ask_for_report(ALICE.buy(100 * life + number, 50, 1));
        }
        let last = name(100 * life + 50);
        let end = std::time::Instant::now() + HANG;
        while heard.last().map(|(_, name)| *name) != Some(last) {
            assert!(std::time::Instant::now() < end, "the reader does not come back");
            reader
                .poll(std::time::Duration::from_millis(20), |head, report| {
                    heard.extend(name_of(report).map(|name| (*head, name)));
                })
                .unwrap();
        }
        node.kill();
        node = home.start();
        reader.set_address(node.address());
    }
    let names: Vec<_> = heard.iter().map(|(_, name)| *name).collect();
    let wanted: Vec<_> =
        (0..3).flat_map(|life| (1..=50).map(move |number| name(100 * life + number))).collect();
    assert_eq!(names, wanted);
}

fn weir(node: &Node, who: &Who, args: &[&str]) -> Output {
    let key: String = who.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("drop-copy")
        .args(["--node", &node.address().to_string(), "--session", &who.session_id.to_string()])
        .args(args)
        .env("WEIR_API_KEY", key)
        .output()
        .unwrap()
}

#[test]
fn the_command_prints_copies_and_goes_on_from_the_points_that_it_kept() {
    let (home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    let points = home.path("points");
    let points = points.to_str().unwrap();
    let args = ["--from", "oldest", "--once", "--json", "--point-file", points];
    let lines = |output: &Output| {
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<serde_json::Value>>()
    };
    let first = lines(&weir(&node, &DESK, &args));
    assert_eq!(first.len(), 1);
    assert_eq!(first[0]["report"], "ExecutionReport");
    assert_eq!(first[0]["fields"]["exec_type"], "New");
    assert_eq!(first[0]["owner_session_id"], ALICE.session_id.0);
    assert!(lines(&weir(&node, &DESK, &args)).is_empty(), "nothing is new");
    alice.ask_for_report(ALICE.buy(2, 50, 1));
    let second = lines(&weir(&node, &DESK, &args));
    assert_eq!(second.len(), 1);
    assert_eq!(second[0]["previous_copy_no"], first[0]["copy_no"]);
    let refused = weir(&node, &DESK, &["--firm", &BOB.firm_id.to_string(), "--once"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("its own drop copy sessions"), "{said}");
    let text = weir(&node, &DESK, &["--from", "oldest", "--once"]);
    assert!(String::from_utf8(text.stdout).unwrap().contains("New order"));
}

#[test]
fn a_traders_session_is_never_made_a_desk_nor_a_desk_a_trader() {
    let (_home, node) = market();
    let mut admin = node.admin();
    let traders_as_desk = Who { role: DESK.role, ..trader_of(11) };
    for who in [traders_as_desk, Who { role: ALICE.role, ..DESK }] {
        assert!(admin.define_session(definition_of(&who)).is_err(), "{who:?}");
    }
}

/// Asks for copies of all that a session of a shared connection may have.
fn ask_for_copies(wire: &mut Wire, session_id: SessionId) {
    let request = DropCopyRequest {
        from_copy_no: CopyNo::NONE,
        session_id,
        firm_id: FirmId::NONE,
        epoch: Epoch::NONE,
        partition_id: TRADING,
        wanted: Switch::On,
    };
    let mut bytes = Vec::new();
    put_frame(&request, &mut bytes);
    wire.send(&bytes);
    let state = wire.expect("a state", |message| match message {
        NodeMessage::DropCopyState(state) => Some(*state),
        _ => None,
    });
    assert_eq!((state.session_id, state.wanted), (session_id, Switch::On), "{state:?}");
}

/// Returns the session whose copy is next.
fn next_copy(wire: &mut Wire) -> SessionId {
    wire.expect("a copy", |message| match message {
        NodeMessage::ReportCopy(head) => Some(head.session_id),
        _ => None,
    })
}

#[test]
fn copies_end_with_their_session_and_those_of_its_neighbours_on_the_connection_go_on() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    for (round, (reason, end)) in (0..).zip(ends_of_a_supervisor()) {
        let mut wire = Wire::connect(&node);
        for who in [SUPERVISOR, DESK] {
            wire.log_on(&logon_of(&who));
            ask_for_copies(&mut wire, who.session_id);
        }
        alice.ask_for_report(ALICE.sell(10 * round + 1, 101, 1));
        let mut both = [next_copy(&mut wire), next_copy(&mut wire)];
        both.sort();
        assert_eq!(both, [SUPERVISOR.session_id, DESK.session_id], "{reason}: one each");
        end(&node, &mut wire);
        assert_eq!(wire.logout(), (SUPERVISOR.session_id, reason));
        for number in 2..=5 {
            alice.ask_for_report(ALICE.sell(10 * round + number, 101, 1));
            assert_eq!(next_copy(&mut wire), DESK.session_id, "{reason}: it has ended");
        }
        drop(wire);
        until("the end of the connection", || {
            (node.status()["gateway"]["sessions"] == 1).then_some(())
        });
        define(&node, &[SUPERVISOR]);
    }
}
