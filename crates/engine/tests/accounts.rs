//! Accounts: their limits at the ends of the price range, and a change from unlimited to limited.

mod support;

use support::steps::*;
use support::*;
use weir_types::*;
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::DefineAccount;
use weir_wire::{Definition, Event, Request};

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

/// Makes the unlimited account limited; returns false when the import was refused.
fn bind(desk: &mut Desk) -> bool {
    !desk.import(account(MAKER, 1, Switch::Off)).is_empty()
}

#[test]
fn an_account_that_lacks_lots_stays_unlimited() {
    let mut desk = Desk::open();
    step(&mut desk, "sell a 100 5 maker");
    assert!(!bind(&mut desk), "lots that it does not have are on sale");
    step(&mut desk, "bob buy x 100 5");
    assert!(!bind(&mut desk), "sold short");
    assert_eq!(step(&mut desk, "sell b 100 5 maker"), ["b New 5"], "nothing has changed");
    step(&mut desk, "cancel b");
    step(&mut desk, "bob sell y 100 5");
    step(&mut desk, "buy c 100 5 maker");
    assert!(bind(&mut desk));
    assert_eq!(step(&mut desk, "sell d 100 1 maker"), ["d Rejected InsufficientPosition"]);
}

#[test]
fn an_account_that_lacks_cash_stays_unlimited() {
    let mut desk = Desk::open();
    step(&mut desk, "buy a 100 5 maker");
    assert!(!bind(&mut desk), "cash that it does not have is reserved");
    step(&mut desk, "bob sell x 100 5");
    assert!(!bind(&mut desk), "in debt");
    desk.ask(Request::Transfer(transfer(MAKER, 1, 500, 0)));
    assert!(bind(&mut desk));
    assert_eq!(step(&mut desk, "buy b 1 1 maker"), ["b Rejected InsufficientCash"]);
    assert!(bind(&mut desk), "who is bound already may be defined so again");
    assert_eq!(desk.import(account(MAKER, 1, Switch::On)).len(), 1);
    assert_eq!(step(&mut desk, "buy b 1 1 maker"), ["b New 1"]);
}

#[test]
fn of_a_definition_that_an_accounts_debt_contradicts_the_rest_is_carried_out() {
    let mut desk = Desk::open();
    step(&mut desk, "sell a 100 5 maker");
    let limited = |live_orders_max| {
        let Definition::DefineAccount(d) = account(MAKER, 1, Switch::Off) else { unreachable!() };
        Definition::DefineAccount(DefineAccount { live_orders_max, ..d })
    };
    let told = desk.import(limited(1));
    let [Event::Defined(_, Definition::DefineAccount(d))] = told[..] else { panic!("{told:?}") };
    assert_eq!((d.unlimited, d.live_orders_max), (Switch::On, 1), "the standing value is told");
    assert_eq!(desk.engine.refused_import_count(), 1);
    assert_eq!(step(&mut desk, "sell b 100 1 maker"), ["b Rejected TooManyAccountOrders"]);
    assert!(desk.import(limited(1)).is_empty(), "nothing is left to carry out");
    assert_eq!(desk.engine.refused_import_count(), 2);
    step(&mut desk, "cancel a");
    let told = desk.import(limited(1));
    let [Event::Defined(_, Definition::DefineAccount(d))] = told[..] else { panic!("{told:?}") };
    assert_eq!(d.unlimited, Switch::Off);
    assert_eq!(desk.engine.refused_import_count(), 2);
}
