//! Property test: for any trades, breaks, gaps and clocks, in any order, bars equal the slow
//! model's.

use core::num::NonZeroU64;

use proptest::prelude::*;
use weir_feed::TradeFlags;
use weir_market::bar::{BarBuilder, BarBuilderConfig, BarEvent, BarKind, BarTrade};
use weir_types::{Nanos, Price, Qty};

use crate::model::Model;
use crate::{trade, undone};

#[derive(Clone, Debug)]
enum Op {
    Trade(BarTrade),
    Break(u32, u64),
    Advance(u64),
    Gap,
    EndSession,
}

fn a_trade() -> impl Strategy<Value = Op> {
    let size = prop_oneof![8 => 0_u64..6, 1 => Just(u64::MAX), 1 => Just(u64::MAX / 2)];
    let price = prop_oneof![8 => -3_i64..9, 1 => Just(i64::MAX), 1 => Just(i64::MIN)];
    (0_u32..4, 0_u64..90, price, size, 0_u64..12, 0_u8..16, 0_u64..4).prop_map(
        |(instrument, ts, price, size, match_id, flags, sequence)| {
            let mut trade = trade(instrument, ts, price, size, match_id);
            // Most trades count for everything; some messages carry two trades.
            trade.print.flags = TradeFlags(if flags < 8 { flags } else { 0 });
            trade.sequence = match_id / 2 + sequence;
            Op::Trade(trade)
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Op>> {
    let step = prop_oneof![
        12 => a_trade(),
        4 => (0_u32..4, 0_u64..12).prop_map(|(instrument, number)| Op::Break(instrument, number)),
        2 => (0_u64..90).prop_map(Op::Advance),
        1 => Just(Op::Gap),
        1 => Just(Op::EndSession),
    ];
    proptest::collection::vec(step, 1..120)
}

fn kinds() -> impl Strategy<Value = BarKind> {
    let some = |number| NonZeroU64::new(number).expect("it is none");
    prop_oneof![
        (1_u64..40, 0_u64..50).prop_map(move |(interval, origin)| BarKind::Time {
            interval: some(interval),
            origin: Nanos(origin)
        }),
        (1_u64..5).prop_map(move |count| BarKind::Ticks(some(count))),
        (1_u64..15).prop_map(move |volume| BarKind::Volume(some(volume))),
    ]
}

fn apply(builder: &mut BarBuilder, model: &mut Model, step: &Op) -> Vec<BarEvent> {
    let mut told = Vec::new();
    let mut tell = |event: &BarEvent| told.push(*event);
    match step {
        Op::Trade(trade) => {
            builder.trade(trade, &mut tell);
            model.trade(trade);
        }
        Op::Break(instrument, match_id) => {
            let mut undone = undone(*instrument, *match_id);
            (undone.price, undone.size) = (Price(7), Qty(7));
            builder.trade_break(&undone, &mut tell);
            model.trade_break(&undone);
        }
        Op::Advance(now) => {
            builder.advance(Nanos(*now), &mut tell);
            model.advance(Nanos(*now));
        }
        Op::Gap => {
            builder.mark_gap();
            model.mark_gap();
        }
        Op::EndSession => {
            builder.end_session(&mut tell);
            model.end_session();
        }
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn bars_are_those_of_the_slow_model_and_sums_of_bars_are_sums_of_trades(
        kind in kinds(), remembered in prop_oneof![Just(0_u32), Just(4), Just(1_024)],
        steps in steps(),
    ) {
        let config = BarBuilderConfig { trades: remembered, ..BarBuilderConfig::new(kind) };
        let mut builder = BarBuilder::new(&config);
        let mut model = Model::new(kind, remembered as usize);
        let mut told = Vec::new();
        for step in steps.iter().chain([&Op::EndSession]) {
            told.extend(apply(&mut builder, &mut model, step));
            prop_assert_eq!(&told, &model.told, "after {:?}", step);
        }
        let counts = *builder.counts();
        let closed: Vec<_> = (told.iter())
            .filter_map(|event| if let BarEvent::Closed(bar) = event { Some(bar) } else { None })
            .collect();
        prop_assert_eq!(counts.bars, closed.len() as u64);
        prop_assert_eq!(counts.bars + counts.corrections, told.len() as u64);
    }

    #[test]
    fn an_instruments_bars_by_time_never_share_a_beginning_nor_go_back(
        interval in 1_u64..40, steps in steps(),
    ) {
        let interval = NonZeroU64::new(interval).expect("it is none");
        let kind = BarKind::Time { interval, origin: Nanos(0) };
        let mut builder = BarBuilder::new(&BarBuilderConfig::new(kind));
        let mut model = Model::new(kind, 65_536);
        let mut last = [None; 4];
        let steps = steps.iter().filter(|step| !matches!(step, Op::EndSession));
        for step in steps {
            for event in apply(&mut builder, &mut model, step) {
                let BarEvent::Closed(bar) = event else { continue };
                let before = last[bar.instrument_id.0 as usize].replace(bar.start);
                prop_assert!(before < Some(bar.start), "{before:?} {bar:?}");
            }
        }
    }
}
