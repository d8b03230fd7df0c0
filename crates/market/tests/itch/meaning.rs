//! The updates of each message, and the codes and numbers that are refused.

use weir_feed::itch::encode::{Header, stock};
use weir_feed::itch::{Itch, Message, encode, mwcb_levels};
use weir_feed::{
    Action, AuctionKind, CollectedUpdates, Context, Feed, FeedError, PriceKind, SystemEvent,
    TradeFlags, TradingState, Update, Venue,
};
use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

const MIDNIGHT: Nanos = Nanos(1_692_676_800_000_000_000);
const HEADER: Header =
    Header { stock_locate: 13, tracking_number: 2, timestamp: 34_200_000_000_001 };
const CONTEXT: Context = Context { sequence: 77, channel: 0, ts_send: Nanos(0) };

fn symbol() -> [u8; 8] {
    stock("AAPL").expect("a symbol")
}

fn decode(message: &[u8]) -> Result<CollectedUpdates, FeedError> {
    let mut sink = CollectedUpdates::default();
    Itch::new(MIDNIGHT).decode(&CONTEXT, message, &mut sink).map(|()| sink)
}

/// Returns the actions of a message, and checks the instrument, number and time of each.
fn actions(message: &[u8]) -> Vec<Action> {
    let sink = decode(message).expect("a good message");
    assert!(sink.definitions.is_empty());
    for update in &sink.updates {
        let want = Update {
            instrument_id: InstrumentId(13),
            sequence: 77,
            ts_event: Nanos(1_692_676_800_000_000_000 + 34_200_000_000_001),
            action: update.action,
        };
        assert_eq!(*update, want);
    }
    sink.updates.iter().map(|update| update.action).collect()
}

/// Changes one byte of `message` and checks the resulting error.
fn refused(message: &[u8], at: usize, code: u8, field: &'static str) {
    let mut message = message.to_vec();
    message[at] = code;
    let want = FeedError::Field { kind: [message[0], 0], field, value: u64::from(code) };
    assert_eq!(decode(&message).map(|_| ()), Err(want));
}

#[test]
fn an_order_is_added_with_its_price_in_billionths() {
    let add = encode::AddOrder {
        order_reference: 9,
        side: b'S',
        shares: 300,
        stock: symbol(),
        price: 242_700,
    };
    let want =
        Action::Add { order_id: 9, side: Side::Sell, price: Price(24_270_000_000), size: Qty(300) };
    assert_eq!(actions(&add.to_bytes(&HEADER)), [want]);
    let bid = encode::AddOrder { side: b'B', ..add };
    let bought =
        Action::Add { order_id: 9, side: Side::Buy, price: Price(24_270_000_000), size: Qty(300) };
    assert_eq!(actions(&bid.to_bytes(&HEADER)), [bought]);
    let encode::AddOrder { order_reference, side, shares, stock, price } = add;
    let attributed = encode::AddOrderWithMpid {
        order_reference,
        side,
        shares,
        stock,
        price,
        attribution: *b"VIRT",
    };
    assert_eq!(actions(&attributed.to_bytes(&HEADER)), [want]);
    for message in [&add.to_bytes(&HEADER)[..], &attributed.to_bytes(&HEADER)] {
        refused(message, 19, b'b', "side");
    }
    let dearest = encode::AddOrder { price: u32::MAX, ..add };
    let Action::Add { price, .. } = actions(&dearest.to_bytes(&HEADER))[0] else { panic!() };
    assert_eq!(price, Price(429_496_729_500_000));
}

#[test]
fn executions_name_their_price_only_when_it_is_another() {
    let executed =
        encode::OrderExecuted { order_reference: 9, executed_shares: 100, match_number: 5 };
    let mut want = Action::Execute {
        order_id: 9,
        size: Qty(100),
        price: None,
        match_id: 5,
        is_printable: true,
    };
    assert_eq!(actions(&executed.to_bytes(&HEADER)), [want]);
    for (code, printable) in [(b'Y', true), (b'N', false)] {
        let with_price = encode::OrderExecutedWithPrice {
            order_reference: 9,
            executed_shares: 100,
            match_number: 5,
            printable: code,
            execution_price: 10_001,
        };
        if let Action::Execute { price, is_printable, .. } = &mut want {
            (*price, *is_printable) = (Some(Price(1_000_100_000)), printable);
        }
        assert_eq!(actions(&with_price.to_bytes(&HEADER)), [want]);
        refused(&with_price.to_bytes(&HEADER), 31, b' ', "printable");
    }
}

#[test]
fn orders_shrink_go_and_are_replaced() {
    let cancel = encode::OrderCancel { order_reference: 9, cancelled_shares: 40 };
    let want = Action::Reduce { order_id: 9, size: Qty(40) };
    assert_eq!(actions(&cancel.to_bytes(&HEADER)), [want]);
    let delete = encode::OrderDelete { order_reference: 9 };
    assert_eq!(actions(&delete.to_bytes(&HEADER)), [Action::Delete { order_id: 9 }]);
    let replace = encode::OrderReplace {
        original_order_reference: 9,
        new_order_reference: 10,
        shares: 60,
        price: 10_000,
    };
    let want = Action::Replace {
        order_id: 9,
        new_order_id: 10,
        price: Price(1_000_000_000),
        size: Qty(60),
    };
    assert_eq!(actions(&replace.to_bytes(&HEADER)), [want]);
}

fn trade_of(price: i64, size: u64, flags: TradeFlags) -> Action {
    Action::Trade {
        venue: Venue(0),
        aggressor: None,
        price: Price(price),
        size: Qty(size),
        match_id: 5,
        flags,
    }
}

#[test]
fn trades_and_crosses_are_trades_and_can_be_broken() {
    let trade = encode::Trade {
        order_reference: 0,
        side: b'B',
        shares: 7,
        stock: symbol(),
        price: 10_000,
        match_number: 5,
    };
    let want = trade_of(1_000_000_000, 7, TradeFlags::default());
    assert_eq!(actions(&trade.to_bytes(&HEADER)), [want]);
    refused(&trade.to_bytes(&HEADER), 19, b'X', "side");
    for (cross_type, day_price) in [
        (b'O', Some(PriceKind::Open)),
        (b'C', Some(PriceKind::Close)),
        (b'H', None),
        (b'I', None),
        (b'A', None),
    ] {
        let cross = encode::CrossTrade {
            shares: 1 << 40,
            stock: symbol(),
            cross_price: 10_000,
            match_number: 5,
            cross_type,
        };
        let mut want = vec![trade_of(1_000_000_000, 1 << 40, TradeFlags::AUCTION)];
        let price = Price(1_000_000_000);
        want.extend(day_price.map(|kind| Action::DayPrice { kind, price }));
        assert_eq!(actions(&cross.to_bytes(&HEADER)), want);
        let nothing = encode::CrossTrade { shares: 0, ..cross };
        assert_eq!(actions(&nothing.to_bytes(&HEADER)), []);
        refused(&cross.to_bytes(&HEADER), 39, b'Z', "cross_type");
        refused(&nothing.to_bytes(&HEADER), 39, b'Z', "cross_type");
    }
    let broken = encode::BrokenTrade { match_number: 5 };
    let want = Action::TradeBreak { match_id: 5, size: Qty(0), price: Price(0) };
    assert_eq!(actions(&broken.to_bytes(&HEADER)), [want]);
}

#[test]
fn an_imbalance_is_told_at_the_price_that_its_shares_are_counted_at() {
    for (direction, side) in [
        (b'B', Some(Side::Buy)),
        (b'S', Some(Side::Sell)),
        (b'N', None),
        (b'O', None),
        (b'P', None),
    ] {
        let noii = encode::NetOrderImbalance {
            paired_shares: 11,
            imbalance_shares: 3,
            imbalance_direction: direction,
            stock: symbol(),
            far_price: 1,
            near_price: 2,
            current_reference_price: 30_000,
            cross_type: b'C',
            price_variation: b' ',
        };
        let want = Action::Auction {
            kind: AuctionKind::Closing,
            price: Price(3_000_000_000),
            paired: Qty(11),
            imbalance: Qty(3),
            side,
        };
        assert_eq!(actions(&noii.to_bytes(&HEADER)), [want]);
        refused(&noii.to_bytes(&HEADER), 27, b'?', "imbalance_direction");
        refused(&noii.to_bytes(&HEADER), 48, b'?', "cross_type");
    }
}

#[test]
fn states_of_trading_keep_their_reason() {
    for (code, state) in [
        (b'H', TradingState::Halted),
        (b'P', TradingState::Paused),
        (b'Q', TradingState::Quoting),
        (b'T', TradingState::Trading),
    ] {
        let action = encode::StockTradingAction {
            stock: symbol(),
            trading_state: code,
            reserved: b' ',
            reason: *b"LUDP",
        };
        let want = Action::Status { state, reason: *b"LUDP", cause: PhaseCause::Unknown };
        assert_eq!(actions(&action.to_bytes(&HEADER)), [want]);
        refused(&action.to_bytes(&HEADER), 19, b'R', "trading_state");
    }
    for (code, state) in [(b'H', TradingState::Halted), (b'T', TradingState::Trading)] {
        let halt = encode::OperationalHalt { stock: symbol(), market_code: b'X', action: code };
        let want = Action::Status { state, reason: *b"hX  ", cause: PhaseCause::Unknown };
        assert_eq!(actions(&halt.to_bytes(&HEADER)), [want]);
        refused(&halt.to_bytes(&HEADER), 19, b'N', "market_code");
        refused(&halt.to_bytes(&HEADER), 20, b'P', "action");
    }
}

#[test]
fn the_day_goes_on_by_its_six_events() {
    for (code, event) in [
        (b'O', SystemEvent::StartOfMessages),
        (b'S', SystemEvent::StartOfSystemHours),
        (b'Q', SystemEvent::StartOfMarketHours),
        (b'M', SystemEvent::EndOfMarketHours),
        (b'E', SystemEvent::EndOfSystemHours),
        (b'C', SystemEvent::EndOfMessages),
    ] {
        let message = encode::SystemEvent { event_code: code }.to_bytes(&HEADER);
        assert_eq!(actions(&message), [Action::System(event)]);
        refused(&message, 11, b'A', "event_code");
    }
}

fn directory() -> encode::StockDirectory {
    encode::StockDirectory {
        stock: symbol(),
        market_category: b'Q',
        financial_status: b'N',
        round_lot_size: 40,
        round_lots_only: b'N',
        issue_classification: b'C',
        issue_sub_type: *b"Z ",
        authenticity: b'P',
        short_sale_threshold: b'N',
        ipo_flag: b'N',
        luld_reference_price_tier: b'1',
        etp_flag: b'N',
        etp_leverage_factor: 0,
        inverse_indicator: b'N',
    }
}

#[test]
fn the_directory_defines_instruments() {
    let sink = decode(&directory().to_bytes(&HEADER)).expect("a good message");
    assert!(sink.updates.is_empty());
    let [definition] = sink.definitions[..] else { panic!("one definition") };
    assert_eq!(definition.instrument_id, InstrumentId(13));
    assert_eq!(definition.symbol.as_str(), "AAPL");
    assert_eq!((definition.round_lot, definition.previous_close), (Qty(40), None));
    let nameless = encode::StockDirectory { stock: *b"        ", ..directory() };
    let value = u64::from_be_bytes(*b"        ");
    let want = FeedError::Field { kind: [b'R', 0], field: "stock", value };
    assert_eq!(decode(&nameless.to_bytes(&HEADER)).map(|_| ()), Err(want));
}

#[test]
fn messages_that_say_nothing_of_a_book_are_judged_nonetheless() {
    let stock = symbol();
    let sho = encode::RegShoRestriction { stock, reg_sho_action: b'1' }.to_bytes(&HEADER);
    let status = encode::MwcbStatus { breached_level: b'3' }.to_bytes(&HEADER);
    let retail = encode::RetailPriceImprovement { stock, interest_flag: b'A' }.to_bytes(&HEADER);
    let ipo = encode::IpoQuotingPeriod {
        stock,
        release_time: 36_000,
        release_qualifier: b'A',
        ipo_price: 100_000,
    };
    let ipo = ipo.to_bytes(&HEADER);
    for (message, at, field) in [
        (&sho[..], 19, "reg_sho_action"),
        (&status, 11, "breached_level"),
        (&retail, 19, "interest_flag"),
        (&ipo, 23, "release_qualifier"),
    ] {
        assert_eq!(actions(message), []);
        refused(message, at, b'?', field);
    }
}

#[test]
fn levels_of_the_circuit_breaker_are_in_billionths_or_refused() {
    let levels = encode::MwcbDeclineLevel {
        level_1: 418_500_000_000,
        level_2: 5,
        level_3: i64::MAX as u64 / 10,
    };
    let bytes = levels.to_bytes(&HEADER);
    assert_eq!(actions(&bytes), []);
    let Ok(Message::MwcbDeclineLevel(view)) = Message::new(&bytes) else { panic!("a V message") };
    let want = [Price(4_185_000_000_000), Price(50), Price(9_223_372_036_854_775_800)];
    assert_eq!(mwcb_levels(view), Ok(want));
    // The second value would be 14 if it were truncated to 64 bits.
    for value in [i64::MAX as u64 / 10 + 1, u64::MAX / 10 + 2, u64::MAX] {
        let too_high = encode::MwcbDeclineLevel { level_2: value, ..levels }.to_bytes(&HEADER);
        let want = FeedError::Field { kind: [b'V', 0], field: "level_2", value };
        assert_eq!(decode(&too_high).map(|_| ()), Err(want));
    }
}

#[test]
fn times_beyond_what_can_be_told_stay_at_the_end() {
    let mut sink = CollectedUpdates::default();
    let header = Header { timestamp: u64::MAX, ..HEADER };
    let message = encode::OrderDelete { order_reference: 1 }.to_bytes(&header);
    let mut itch = Itch::new(Nanos(u64::MAX - 5));
    itch.decode(&CONTEXT, &message, &mut sink).expect("a good message");
    assert_eq!(sink.updates[0].ts_event, Nanos(u64::MAX));
}
