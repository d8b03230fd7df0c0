//! LOBSTER's days as oracle: after each message the book equals the row of the orderbook file.
//!
//! Orders that are older than the file, and those that come into view at its depth, are not in its
//! messages; only the reader of `weir-client` seeds them. Orders seeded by a row are marked, so
//! that the test knows how many levels the messages alone account for.

use weir_client::flow::{FlowEvent, FlowItem, FlowKind, FlowRow, load};
use weir_feed::{Action, TradeFlags, TradingState, Update, Venue};
use weir_market::book::{BestBidOffer, BookLevel};
use weir_market::{Books, BooksConfig};
use weir_types::{InstrumentId, PhaseCause, Price, Qty, Side};

use crate::support::data;

const STOCK: InstrumentId = InstrumentId(1);

/// Converts a price from ten-thousandths.
fn price_of(price: Price) -> Price {
    Price(price.0 * 100_000)
}

fn action_of(event: &FlowEvent, match_id: u64) -> Action {
    let FlowEvent { source_order_id: order_id, kind, side, price, qty: size, .. } = *event;
    let price = price_of(price);
    let status = |state| Action::Status { state, reason: [b' '; 4], cause: PhaseCause::Unknown };
    match kind {
        FlowKind::Seed | FlowKind::Add => Action::Add { order_id, side, price, size },
        FlowKind::ExecuteVisible | FlowKind::Fill => {
            Action::Execute { order_id, size, price: None, match_id, is_printable: true }
        }
        FlowKind::PartialCancel | FlowKind::Vanish => Action::Reduce { order_id, size },
        FlowKind::Delete => Action::Delete { order_id },
        FlowKind::HiddenExecution => Action::Trade {
            venue: Venue(0),
            aggressor: Some(side.opposite()),
            price,
            size,
            match_id,
            flags: TradeFlags::default(),
        },
        FlowKind::Halt => status(TradingState::Halted),
        FlowKind::QuoteResume => status(TradingState::Quoting),
        FlowKind::TradeResume => status(TradingState::Trading),
    }
}

#[derive(Debug, Default, PartialEq)]
struct Compared {
    rows: u64,
    levels: u64,
    seeded_levels: u64,
    messages: u64,
    volume: u64,
}

fn compare_row(books: &Books, best: BestBidOffer, row: &FlowRow, compared: &mut Compared) {
    compared.rows += 1;
    assert!(!row.contradicts_events, "row {}", compared.rows);
    for (side, wanted) in [(Side::Buy, &row.bids), (Side::Sell, &row.asks)] {
        let levels: Vec<(Price, Qty)> = (books.levels(STOCK, side, wanted.len()))
            .map(|BookLevel { price, size, .. }| (price, size))
            .collect();
        let wanted_levels: Vec<(Price, Qty)> =
            wanted.iter().map(|at| (price_of(at.level.price), at.level.qty)).collect();
        assert_eq!(levels, wanted_levels, "row {}, {side:?}", compared.rows);
        let top = best.of(side).map(|level| (level.price, level.size));
        assert_eq!(top, wanted_levels.first().copied(), "row {}, {side:?}", compared.rows);
        compared.levels += wanted.len() as u64;
        compared.seeded_levels += wanted.iter().filter(|at| at.seeded).count() as u64;
    }
}

/// Plays a day; tracks the best bid and offer from reported changes alone.
fn play(items: &[FlowItem]) -> (Compared, Books) {
    let mut books = Books::new(&BooksConfig::default());
    let mut best = BestBidOffer::default();
    let mut compared = Compared::default();
    for item in items {
        match item {
            FlowItem::Row(row) => compare_row(&books, best, row, &mut compared),
            FlowItem::Event(event) => {
                compared.messages += 1;
                let action = action_of(event, compared.messages);
                if !matches!(event.kind, FlowKind::Seed | FlowKind::Add | FlowKind::PartialCancel)
                    && !matches!(event.kind, FlowKind::Vanish | FlowKind::Delete)
                {
                    compared.volume += event.qty.0;
                }
                let sequence = compared.messages;
                let update = Update { instrument_id: STOCK, sequence, ts_event: event.ts, action };
                let change = books.apply(&update);
                assert!(change.anomalies.is_empty(), "{update:?}: {:?}", change.anomalies);
                if let Some(changed) = change.best {
                    assert_eq!(changed.old, best);
                    best = changed.new;
                }
            }
        }
    }
    (compared, books)
}

#[test]
fn every_row_of_lobster_s_days_is_the_book_after_its_message() {
    for (name, rows) in [
        ("AAPL_2012-06-21_1", 118_497),
        ("AMZN_2012-06-21_1", 57_515),
        ("AMZN_2012-06-21_5", 155_935),
    ] {
        let Some(path) = data(&format!("lobster/LOBSTER_SampleFile_{name}.zip")) else { return };
        let flow = load(&path).expect("a vendor's file reads");
        let (compared, books) = play(&flow.items);
        println!("{name}: {compared:?}");
        assert_eq!(compared.rows, rows, "{name}");
        assert!(compared.seeded_levels * 10 < compared.levels, "{name}: {compared:?}");
        let statistics = books.statistics(STOCK);
        assert_eq!(statistics.volume.0, compared.volume, "{name}");
        let vwap = statistics.vwap().expect("it traded");
        assert!(statistics.low <= Some(vwap) && Some(vwap) <= statistics.high, "{name}");
        let mut copy = Books::new(&BooksConfig::default());
        books.export(STOCK, 1, weir_types::Nanos(1), |update| {
            assert!(copy.apply(&update).anomalies.is_empty());
        });
        assert_eq!(copy.digest_all(), books.digest_all(), "{name}");
    }
}
