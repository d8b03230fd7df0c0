//! Accounts: what they are held to, at the edges of prices and when they are bound anew.

mod common;

use common::steps::*;
use common::*;
use weir_types::*;
use weir_wire::Request;
use weir_wire::order_entry::NewOrder;

#[test]
fn the_lowest_price_of_all_is_paid_in_full() {
    let lowest = 1_i128 << 63;
    for (cash, is_enough) in [(5 * lowest - 1, false), (5 * lowest, true)] {
        let mut desk = Desk::open();
        define(&mut desk, |d| d.price_min = Price(i64::MIN));
        desk.ask(Request::Transfer(transfer(POOR, 1, cash, 5)));
        let order = NewOrder { account_id: POOR, ..sell(i64::MIN, 5, "a") };
        let told = told(&desk.order(order));
        let want = if is_enough { "a New 5" } else { "a Rejected InsufficientCash" };
        assert_eq!(told, [want], "{cash}");
        if is_enough {
            assert_eq!(desk.engine.totals().cash_reserved, Cash(5 * lowest));
            desk.order(bob(buy(i64::MIN, 5, "x")));
            assert_eq!(desk.engine.totals().cash_reserved, Cash(0));
        }
    }
}
