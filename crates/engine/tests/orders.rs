//! New orders, replaces and cancels through the engine's public interface.

mod support;

use support::*;
use weir_types::*;
use weir_wire::Request;

#[test]
fn a_crossing_order_trades_at_the_resting_price_and_rests_its_remainder() {
    let mut desk = Desk::open();
    desk.order(sell(100, 5, "a"));
    desk.order(sell(101, 5, "b"));
    let events = desk.order(bob(buy(101, 12, "x")));
    let want =
        ["x New 12", "a Trade 5@100 0", "x Trade 5@100 7", "b Trade 5@101 0", "x Trade 5@101 2"];
    assert_eq!(told(&events), want);
    assert_eq!(desk.levels(Side::Buy), [(101, 2, 1)]);
    assert_eq!(desk.levels(Side::Sell), []);
    assert_eq!(events[1].match_id, events[2].match_id);
    assert_eq!(events[1].request_no, RequestNo::NONE);
    assert_eq!(events[2].request_no, events[0].request_no);
}

#[test]
fn the_remainder_of_an_ioc_is_cancelled_and_never_rests() {
    let mut desk = Desk::open();
    desk.order(sell(100, 5, "a"));
    let ioc = weir_wire::order_entry::NewOrder {
        time_in_force: TimeInForce::Ioc,
        ..bob(buy(100, 8, "x"))
    };
    let events = desk.order(ioc);
    let want = ["x New 8", "a Trade 5@100 0", "x Trade 5@100 3", "x Canceled NoLiquidity"];
    assert_eq!(told(&events), want);
    assert_eq!(events[3].cum_qty, Qty(5));
    assert_eq!(desk.levels(Side::Buy), []);
}

#[test]
fn cancels_find_an_order_by_name_and_by_number() {
    let mut desk = Desk::open();
    let first = desk.order(buy(99, 5, "a"))[0];
    desk.order(buy(99, 6, "b"));
    let events = desk.cancel("b");
    assert_eq!(told(&orders(&events)), ["b Canceled None"]);
    let by_number = weir_wire::order_entry::CancelOrder {
        order_id: first.order_id,
        orig_cl_ord_id: ClOrdId::NONE,
        session_id: ANNA,
        ..cancel("a")
    };
    let events = desk.ask(Request::CancelOrder(by_number));
    assert_eq!(told(&orders(&events)), ["a Canceled None"]);
    assert_eq!(orders(&events)[0].session_id, ALICE);
    assert_eq!(done_of(&events[1]).session_id, ANNA);
    assert_eq!(desk.engine.live_order_count(), 0);
    assert_eq!(rejected_of(&desk.cancel("a")[0]).reason, Reason::UnknownOrder);
}
