//! Property test: for any events, in any order, with any clocks and gaps, the statistics equal the
//! slow model's.

use core::num::NonZeroU64;

use proptest::prelude::*;
use weir_market::interval::{
    Activity, BookStatement, ChannelReset, IntervalBuilder, IntervalConfig, IntervalStatistics,
    OrderAct, Quote, QuoteChange, StateChange,
};
use weir_types::{InstrumentId, Nanos, Qty, TradingState};

use crate::model::Model;
use crate::quote;

#[derive(Clone, Debug)]
enum Op {
    Act(Activity),
    Quote(QuoteChange),
    Call(StateChange),
    Book(BookStatement),
    Void(u16, ChannelReset),
    Miss(u16),
    Untold,
    EndSession(u16),
}

/// Instrument 4 exceeds the limit.
const INSTRUMENTS_MAX: u32 = 3;

fn a_quote() -> impl Strategy<Value = Quote> {
    let price = prop_oneof![30 => -2_i64..12, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    let size = prop_oneof![6 => 1_u64..5, 2 => Just(0), 1 => Just(u64::MAX)];
    (price.clone(), size.clone(), price, size)
        .prop_map(|(bid, bid_sz, ask, ask_sz)| quote(bid, bid_sz, ask, ask_sz))
}

fn a_state() -> impl Strategy<Value = TradingState> {
    use TradingState::{Auction, Closed, Halted, Paused, Quoting, Trading};
    proptest::sample::select(vec![Trading, Quoting, Auction, Paused, Halted, Closed])
}

/// Instruments 1 and 3 are on channel 1, instruments 2 and 4 on channel 0; 0 is no instrument.
fn whose() -> impl Strategy<Value = (InstrumentId, u16)> {
    prop_oneof![20 => 1_u32..4, 1 => Just(4), 1 => Just(0)]
        .prop_map(|id| (InstrumentId(id), (id % 2) as u16))
}

fn an_act() -> impl Strategy<Value = Op> {
    use OrderAct::{Add, Delete, Execute, Modify, Reduce, Replace};
    let order = proptest::sample::select(vec![Add, Execute, Reduce, Delete, Replace, Modify]);
    let order = proptest::option::weighted(0.9, order);
    let size = || prop_oneof![20 => 0_u64..9, 1 => Just(u64::MAX)].prop_map(Qty);
    (whose(), order, any::<bool>(), any::<bool>(), (size(), size(), size())).prop_map(
        |((instrument_id, channel), order, is_trade, is_break, (added, removed, traded))| {
            let (sequence, ts_event) = (0, Nanos(0));
            Op::Act(Activity {
                instrument_id,
                channel,
                order,
                is_trade,
                is_break,
                sequence,
                ts_event,
                added,
                removed,
                traded,
            })
        },
    )
}

fn a_step() -> impl Strategy<Value = Op> {
    let state = || proptest::option::weighted(0.5, a_state());
    let quoted = (whose(), a_quote(), state(), proptest::bool::weighted(0.2)).prop_map(
        |((instrument_id, channel), quote, state, is_whole)| {
            let (sequence, ts_event) = (0, Nanos(0));
            let whose = (instrument_id, channel);
            let (instrument_id, channel) = whose;
            Op::Quote(QuoteChange {
                instrument_id,
                channel,
                is_whole,
                state,
                sequence,
                ts_event,
                quote,
            })
        },
    );
    let called = (whose(), a_state()).prop_map(|((instrument_id, channel), state)| {
        Op::Call(StateChange { instrument_id, channel, state, sequence: 0, ts_event: Nanos(0) })
    });
    let book =
        (whose(), a_quote(), state()).prop_map(|((instrument_id, channel), quote, state)| {
            Op::Book(BookStatement { instrument_id, channel, state, quote })
        });
    let voided = vec![ChannelReset::Emptied, ChannelReset::GivenUp, ChannelReset::NewSession];
    let void = (0_u16..2, proptest::sample::select(voided)).prop_map(|(c, it)| Op::Void(c, it));
    prop_oneof![
        12 => an_act(),
        24 => quoted,
        4 => called,
        2 => book,
        1 => void,
        1 => (0_u16..2).prop_map(Op::Miss),
        1 => Just(Op::Untold),
        1 => (0_u16..2).prop_map(Op::EndSession),
    ]
}

/// Numbered steps whose times advance, jump and go back.
fn steps() -> impl Strategy<Value = Vec<Op>> {
    let on = prop_oneof![20 => 0_u64..6, 1 => 0_u64..90];
    let back = prop_oneof![6 => Just(0_u64), 1 => 0_u64..12];
    proptest::collection::vec((a_step(), on, back), 1..60).prop_map(|steps| {
        let mut now = 0;
        let timed = steps.into_iter().zip(1..).map(|((mut step, on, back), number)| {
            now += on;
            let (at, sequence) = (Nanos(now.saturating_sub(back)), number);
            match &mut step {
                Op::Act(it) => (it.ts_event, it.sequence) = (at, sequence),
                Op::Quote(it) => (it.ts_event, it.sequence) = (at, sequence),
                Op::Call(it) => (it.ts_event, it.sequence) = (at, sequence),
                _ => {}
            }
            step
        });
        timed.collect()
    })
}

fn apply(
    builder: &mut IntervalBuilder,
    model: &mut Model,
    step: &Op,
    told: &mut Vec<IntervalStatistics>,
) {
    let tell = &mut |row: &IntervalStatistics| told.push(*row);
    match step {
        Op::Act(it) => (builder.act(it, tell), model.act(it)),
        Op::Quote(it) => (builder.quote(it, tell), model.quote(it)),
        Op::Call(it) => (builder.call(it, tell), model.call(it)),
        Op::Book(it) => (builder.state_book(it, tell), model.state_book(it)),
        Op::Void(channel, it) => (builder.void(*channel, *it, tell), model.void(*channel, *it)),
        Op::Miss(channel) => (builder.miss(*channel), model.miss(*channel)),
        Op::Untold => (builder.mark_untold(), model.mark_untold()),
        Op::EndSession(channel) => {
            (builder.end_session(*channel, tell), model.end_session(Some(*channel)))
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn statistics_are_those_of_the_slow_model(
        steps in steps(),
        (interval, origin) in (1_u64..30, 0_u64..40),
        (lateness, silence) in (0_u64..20, 1_u64..60),
    ) {
        let config = IntervalConfig {
            interval: NonZeroU64::new(interval).expect("it is none"),
            origin: Nanos(origin),
            lateness,
            silence,
            instruments: 1,
            instruments_max: INSTRUMENTS_MAX,
        };
        let (mut builder, mut model) = (IntervalBuilder::new(&config), Model::new(&config));
        let mut told = Vec::new();
        for step in &steps {
            apply(&mut builder, &mut model, step, &mut told);
        }
        builder.end_all(&mut |row| told.push(*row));
        model.end_session(None);
        prop_assert_eq!(builder.counts().told, told.len() as u64);
        for row in &told {
            let known = row.two_sided + row.crossed + row.one_sided + row.empty;
            let called = row.trading + row.auction + row.paused + row.halted + row.closed;
            prop_assert!(known <= interval && called <= interval && row.locked <= row.two_sided);
        }
        let key = |row: &IntervalStatistics| (row.start, row.instrument_id, format!("{row:?}"));
        let mut want = model.told;
        told.sort_by_key(key);
        want.sort_by_key(key);
        prop_assert_eq!(told, want);
    }

    #[test]
    fn within_a_session_an_instrument_has_one_of_each_interval_and_they_come_in_order(
        steps in steps(), interval in 1_u64..30, silence in 1_u64..60,
    ) {
        let mut config = crate::config(interval);
        config.silence = silence;
        let (mut builder, mut told) = (IntervalBuilder::new(&config), Vec::new());
        let mut model = Model::new(&config);
        let within = |step: &&Op| !matches!(step, Op::EndSession(_));
        for step in steps.iter().filter(within) {
            apply(&mut builder, &mut model, step, &mut told);
        }
        builder.end_all(&mut |row| told.push(*row));
        let mut last = [None; 8];
        for row in told {
            let before = last[row.instrument_id.0 as usize].replace(row.start);
            prop_assert!(before < Some(row.start), "{before:?} {row:?}");
        }
    }
}

#[test]
fn the_widest_prices_times_and_quantities_add_up() {
    let interval = u64::MAX;
    let mut config = crate::config(interval);
    config.silence = u64::MAX;
    let mut told = crate::CollectedRows::new(&config);
    told.quote(&crate::quoted(1, 0, quote(i64::MIN, u64::MAX, i64::MAX, u64::MAX)));
    told.quote(&crate::quoted(1, 1 << 62, quote(i64::MAX, u64::MAX, i64::MAX, u64::MAX)));
    told.quote(&crate::quoted(1, (1 << 62) + 1, quote(i64::MIN, u64::MAX, i64::MIN, u64::MAX)));
    told.quote(&crate::quoted(1, u64::MAX, quote(i64::MAX, u64::MAX, i64::MAX, u64::MAX)));
    let rows = told.end();
    let first = rows[0];
    assert_eq!(first.two_sided, 1 << 62, "an interval is no longer");
    assert_eq!(first.spread_time, u128::from(u64::MAX) << 62);
    assert_eq!(first.bid_size_time, u128::from(u64::MAX) << 62);
    assert_eq!((first.relative_time, first.sum_time), (None, -(1_i128 << 62)));
    let moved = rows.iter().map(|row| row.sum_moves_squared).collect::<Vec<_>>();
    assert!(moved.contains(&None), "the square of 2^65 does not fit: {moved:?}");
    assert_eq!(rows.len(), 4, "{rows:?}");
}
