//! The clocks of the benchmarks: they advance, and an empty operation takes no time.

#[allow(dead_code, reason = "the benchmarks use all of it")]
#[path = "support/timing.rs"]
mod timing;

#[test]
fn work_takes_time_by_both_clocks_and_nothing_takes_none() {
    let mut sum = 0_u64;
    let spent = timing::time_spent(|| {
        for number in 0..2_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
    });
    assert!(spent.wall > 0.0 && spent.processor > 0.0);
    let mut ticks = timing::Ticks::new(100);
    for _ in 0..100 {
        ticks.time(|| sum = std::hint::black_box(sum + 1));
    }
    let latency = ticks.latency();
    assert!(latency.p50 <= latency.p99 && latency.p999 <= latency.max);
}
