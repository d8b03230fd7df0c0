//! The exported functions, called as the benchmark's harness calls them.

use std::ffi::c_void;

use weir_abi::message::{CancelMessage, ModifyMessage, NewMessage, Report, ReportKind, Transport};

// SAFETY: called by the library only, with the handle from `create`.
unsafe extern "C" fn create(_: u32) -> *mut c_void {
    Box::into_raw(Box::<Vec<Report>>::default()).cast()
}

// SAFETY: called by the library only, with the handle from `create`.
unsafe extern "C" fn push(handle: *mut c_void, report: *const Report) -> i32 {
    // SAFETY: the handle is `create`'s, the report the library's.
    unsafe { (*handle.cast::<Vec<Report>>()).push(*report) };
    1
}

// SAFETY: called by the library only, with the handle from `create`.
unsafe extern "C" fn drain(_: *mut c_void, _: *mut Report, _: u32) -> u32 {
    0
}

// SAFETY: called by the library only, with the handle from `create`.
unsafe extern "C" fn flush(_: *mut c_void) {}

// SAFETY: called by the library only, with the handle from `create`.
unsafe extern "C" fn destroy(handle: *mut c_void) {
    // SAFETY: the handle is `create`'s and is freed once.
    drop(unsafe { Box::from_raw(handle.cast::<Vec<Report>>()) });
}

static LIST: Transport = Transport { create, push, drain, flush, destroy };

fn new(order_id: u64, side: u8, quantity: u32, price: i64) -> NewMessage {
    let sequence_number = 100 + order_id;
    NewMessage { order_id, sequence_number, price, quantity, side, is_ioc: 0, reserved: [0; 2] }
}

fn modify(order_id: u64, side: u8, quantity: u32, price: i64) -> ModifyMessage {
    let sequence_number = 200 + order_id;
    ModifyMessage { order_id, sequence_number, price, quantity, side, reserved: [0; 3] }
}

/// The interface has one venue per process, so one test covers all of it.
#[test]
fn messages_become_reports_and_the_queries_show_the_book() {
    // SAFETY: one thread, `engine_init` first, the list freed after `engine_shutdown`.
    let reports = unsafe {
        let list = create(0);
        weir_abi::engine_init(7, &raw const LIST, list);
        assert_eq!(weir_abi::engine_query_best_bid(), i64::MIN);
        assert_eq!(weir_abi::engine_query_best_ask(), i64::MAX);
        weir_abi::engine_on_new_order(&new(1, 1, 10, 105));
        weir_abi::engine_on_new_order(&new(2, 1, 5, 105));
        // It shrinks at its price: by the interface's rule it loses priority to order 2.
        weir_abi::engine_on_modify(&modify(1, 1, 8, 105));
        assert_eq!(weir_abi::engine_query_best_ask(), 105);
        assert_eq!(weir_abi::engine_query_depth_at(105, 1), 13);
        let taker = NewMessage { is_ioc: 1, ..new(3, 0, 6, 106) };
        weir_abi::engine_on_new_order(&raw const taker);
        // Half filled: the modify has the open quantity, not the total.
        weir_abi::engine_on_modify(&modify(1, 1, 20, 104));
        assert_eq!(weir_abi::engine_query_depth_at(104, 1), 20);
        let cancel = CancelMessage { order_id: 1, sequence_number: 301 };
        weir_abi::engine_on_cancel(&raw const cancel);
        weir_abi::engine_on_cancel(&raw const cancel);
        weir_abi::engine_on_modify(&modify(9, 0, 1, 1));
        weir_abi::engine_flush();
        assert_eq!(weir_abi::engine_query_best_ask(), i64::MAX);
        weir_abi::engine_shutdown();
        let reports = (*list.cast::<Vec<Report>>()).clone();
        destroy(list);
        reports
    };
    let told: Vec<_> =
        reports.iter().map(|r| (r.kind, r.sequence_number, r.order_id, r.price)).collect();
    let want = [
        (ReportKind::OrderAck, 101, 1, 105),
        (ReportKind::OrderAck, 102, 2, 105),
        (ReportKind::ModifyAck, 201, 1, 105),
        (ReportKind::OrderAck, 103, 3, 106),
        (ReportKind::Trade, 103, 0, 105),
        (ReportKind::Trade, 103, 0, 105),
        (ReportKind::ModifyAck, 201, 1, 104),
        (ReportKind::CancelAck, 301, 1, 104),
        (ReportKind::CancelReject, 301, 1, 0),
        (ReportKind::ModifyReject, 209, 9, 0),
    ];
    assert_eq!(told, want);
    let trades: Vec<_> = (reports.iter().filter(|r| r.kind == ReportKind::Trade))
        .map(|r| (r.quantity, r.maker_order_id, r.taker_order_id))
        .collect();
    assert_eq!(trades, [(5, 2, 3), (1, 1, 3)]);
}
