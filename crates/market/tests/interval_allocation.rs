//! Statistics do not allocate once all instruments have appeared.

#[path = "support/memory.rs"]
mod memory;

use core::num::NonZeroU64;

use memory::{Counting, allocation_count};
use weir_market::interval::{
    Activity, IntervalBuilder, IntervalConfig, IntervalStatistics, OrderAct, Quote, QuoteChange,
};
use weir_types::{InstrumentId, Nanos, Price, Qty};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const INSTRUMENTS: u64 = 500;

fn play(builder: &mut IntervalBuilder, numbers: std::ops::Range<u64>, told: &mut u64) {
    let tell = &mut |_: &IntervalStatistics| *told += 1;
    for number in numbers {
        let instrument_id = InstrumentId((number % INSTRUMENTS) as u32 + 1);
        let (channel, ts_event) = ((number % INSTRUMENTS % 3) as u16, Nanos(number * 1_000));
        let (bid_px, ask_px) = (Price((number % 7) as i64), Price(8 + (number % 5) as i64));
        let (bid_sz, ask_sz) = (Qty(1 + number % 3), Qty(number % 4));
        let (sequence, state, is_whole) = (number, None, false);
        let quote = Quote { bid_px, bid_sz, ask_px, ask_sz };
        builder.quote(
            &QuoteChange { instrument_id, channel, is_whole, state, sequence, ts_event, quote },
            tell,
        );
        let activity = Activity {
            instrument_id,
            channel,
            order: Some(OrderAct::Add),
            is_trade: false,
            is_break: false,
            sequence,
            ts_event,
            added: Qty(1),
            removed: Qty(0),
            traded: Qty(0),
        };
        builder.act(&activity, tell);
        if number % 1_000 == 0 {
            builder.miss((number % 3) as u16);
            builder.mark_untold();
        }
    }
}

#[test]
fn statistics_in_steady_state_allocate_nothing() {
    let interval = NonZeroU64::new(100_000).expect("it is not zero");
    let config = IntervalConfig { lateness: 10_000, ..IntervalConfig::new(interval) };
    let (mut builder, mut told) = (IntervalBuilder::new(&config), 0);
    play(&mut builder, 0..3_000, &mut told);
    let before = allocation_count();
    let warm = told;
    play(&mut builder, 3_000..60_000, &mut told);
    assert_eq!(allocation_count() - before, 0);
    assert!(told - warm > 100_000, "{told} rows");
}
