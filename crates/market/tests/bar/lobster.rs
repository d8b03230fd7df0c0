//! Recorded days of LOBSTER, sent as ITCH through codec and books: their one-minute bars equal the
//! sums over the day's own list of executions.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use weir_client::flow::{FlowItem, FlowKind, load};
use weir_feed::itch::Itch;
use weir_feed::{CollectedUpdates, Context, Feed};
use weir_market::bar::{Bar, BarBuilder, BarBuilderConfig, BarEvent, BarKind, BarTrade};
use weir_market::{Books, BooksConfig};
use weir_types::Nanos;

use crate::support::data;

#[path = "../support/lobster_itch.rs"]
mod lobster_itch;

const MINUTE: u64 = 60_000_000_000;

/// Time, price and shares of each execution in the file.
type Executions = Vec<(u64, i64, u64)>;

fn executions(items: &[FlowItem]) -> Executions {
    let traded = |kind| {
        matches!(kind, FlowKind::ExecuteVisible | FlowKind::Fill | FlowKind::HiddenExecution)
    };
    (items.iter())
        .filter_map(|item| if let FlowItem::Event(event) = item { Some(event) } else { None })
        .filter(|event| traded(event.kind))
        // LOBSTER's prices are in 10^-4.
        .map(|event| (event.ts.0, event.price.0 * 100_000, event.qty.0))
        .collect()
}

fn bars_by_the_feed(items: &[FlowItem]) -> Vec<Bar> {
    let mut transcoder = lobster_itch::Transcoder::new("AMZN", 7);
    let mut datagrams = lobster_itch::Datagrams::new("LOBSTER", 1_472);
    transcoder.begin(|message| datagrams.push(message));
    for item in items {
        if let FlowItem::Event(event) = item {
            transcoder.event(event, |message| datagrams.push(message));
        }
    }
    let mut itch = Itch::new(Nanos(0));
    let mut books = Books::new(&BooksConfig::default());
    let interval = NonZeroU64::new(MINUTE).expect("it is none");
    let kind = BarKind::Time { interval, origin: Nanos(0) };
    let mut builder = BarBuilder::new(&BarBuilderConfig::new(kind));
    let mut bars = Vec::new();
    let mut tell = |event: &BarEvent| {
        let BarEvent::Closed(bar) = event else { panic!("{event:?}") };
        bars.push(*bar);
    };
    let mut sequence = 0;
    for datagram in &datagrams.end() {
        let packet = itch.packet(datagram).expect("a packet");
        let mut messages = packet.messages;
        while let Ok((message, rest)) = itch.next_message(messages) {
            (messages, sequence) = (rest, sequence + 1);
            let mut sink = CollectedUpdates::default();
            let context = Context { sequence, channel: 0, ts_send: Nanos(0) };
            itch.decode(&context, message, &mut sink).expect("a good message");
            for update in sink.updates {
                let change = books.apply(&update);
                if let Some(trade) = BarTrade::of(&update, &change) {
                    builder.trade(&trade, &mut tell);
                }
            }
        }
    }
    builder.end_session(&mut tell);
    bars
}

#[test]
fn bars_of_recorded_days_are_what_their_executions_add_up_to() {
    for name in ["AAPL_2012-06-21_1", "AMZN_2012-06-21_1"] {
        let Some(path) = data(&format!("lobster/LOBSTER_SampleFile_{name}.zip")) else { return };
        let items = load(&path).expect("a vendor's file reads").items;
        let executions = executions(&items);
        let mut minutes: BTreeMap<u64, Executions> = BTreeMap::new();
        for execution in &executions {
            minutes.entry(execution.0 / MINUTE).or_default().push(*execution);
        }
        let bars = bars_by_the_feed(&items);
        assert!(minutes.len() > 300 && bars.len() == minutes.len(), "{name}: {}", bars.len());
        for (bar, (minute, of_it)) in bars.iter().zip(minutes) {
            let prices = || of_it.iter().map(|execution| execution.1);
            assert_eq!(bar.start.0, minute * MINUTE, "{name}");
            assert_eq!(bar.open.map(|it| it.0), prices().next(), "{name} {minute}");
            assert_eq!(bar.close.map(|it| it.0), prices().next_back(), "{name} {minute}");
            assert_eq!(bar.high.map(|it| it.0), prices().max(), "{name} {minute}");
            assert_eq!(bar.low.map(|it| it.0), prices().min(), "{name} {minute}");
            assert_eq!(bar.volume.0, of_it.iter().map(|it| it.2).sum::<u64>(), "{name} {minute}");
            let turnover: i128 = of_it.iter().map(|it| i128::from(it.1) * i128::from(it.2)).sum();
            assert_eq!(bar.turnover.0, turnover, "{name} {minute}");
            assert_eq!(bar.trade_count, of_it.len() as u64, "{name} {minute}");
            assert_eq!((bar.ts_first.0, bar.ts_last.0), (of_it[0].0, of_it[of_it.len() - 1].0));
            assert!(bar.is_complete || minute == executions[executions.len() - 1].0 / MINUTE);
        }
    }
}
