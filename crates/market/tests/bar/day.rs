//! The synthetic day of `tests/oracle/bars`, whose bars an independent script computed.

use std::collections::BTreeMap;

use weir_feed::TradeFlags;
use weir_market::bar::{Bar, BarBuilder, BarBuilderConfig, BarEvent, BarTrade};

use crate::trade;

const TRADES: &str = include_str!("../oracle/bars/trades.txt");
const BARS: &str = include_str!("../oracle/bars/bars.txt");

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

fn trades() -> Vec<BarTrade> {
    rows(TRADES)
        .map(|row| {
            let number = |at: usize| row[at].parse::<i64>().expect("a number");
            let [sequence, instrument, ts, price, size, flags] = [0, 1, 2, 3, 4, 5].map(number);
            let unsigned = |number: i64| u64::try_from(number).expect("not below zero");
            let mut trade = trade(
                u32::try_from(instrument).expect("a small number"),
                unsigned(ts),
                price,
                unsigned(size),
                unsigned(sequence),
            );
            trade.print.flags = TradeFlags(u8::try_from(flags).expect("eight bits"));
            trade
        })
        .collect()
}

fn row(kind: &str, bar: &Bar) -> Vec<String> {
    let price =
        |price: Option<weir_types::Price>| price.map_or("-".to_owned(), |it| it.to_string());
    let mut row = vec![kind.to_owned()];
    row.extend(
        [u64::from(bar.instrument_id.0), bar.start.0, bar.ts_first.0, bar.ts_last.0]
            .map(|number| number.to_string()),
    );
    row.extend([bar.first_sequence, bar.last_sequence].map(|number| number.to_string()));
    row.extend([bar.open, bar.high, bar.low, bar.close].map(price));
    row.extend([bar.volume.to_string(), bar.turnover.to_string(), price(bar.vwap())]);
    row.push(bar.trade_count.to_string());
    row
}

#[test]
fn the_bars_of_a_made_up_day_are_those_that_a_script_computed() {
    let trades = trades();
    let mut wanted: BTreeMap<(&str, &str), Vec<Vec<&str>>> = BTreeMap::new();
    for row in rows(BARS) {
        wanted.entry((row[0], row[1])).or_default().push(row);
    }
    assert_eq!(wanted.len(), 12, "four kinds of three instruments");
    let kinds: std::collections::BTreeSet<&str> = wanted.keys().map(|key| key.0).collect();
    for kind in kinds {
        let config = BarBuilderConfig::new(kind.parse().expect("a kind"));
        let mut builder = BarBuilder::new(&config);
        let mut told: BTreeMap<u32, Vec<Vec<String>>> = BTreeMap::new();
        let mut tell = |event: &BarEvent| {
            let BarEvent::Closed(bar) = event else { panic!("{event:?}") };
            told.entry(bar.instrument_id.0).or_default().push(row(kind, bar));
        };
        for trade in &trades {
            builder.trade(trade, &mut tell);
            builder.advance(trade.ts_event, &mut tell);
        }
        builder.end_session(&mut tell);
        for (instrument, bars) in told {
            assert_eq!(bars, wanted[&(kind, instrument.to_string().as_str())], "{kind}");
        }
    }
}
