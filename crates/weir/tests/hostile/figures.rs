//! Latencies of paired phases, and the confidence interval of their ratio.

use weir_client::load::Rng;

/// The number of bootstrap draws.
const DRAWS: usize = 10_000;

/// The latencies of a phase, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

impl Phase {
    /// Computes a phase's quantiles from sorted latencies.
    pub fn of(sorted: Vec<u64>) -> Phase {
        let at = |per_cent: usize| sorted[(sorted.len() - 1) * per_cent / 100];
        Phase { p50: at(50), p99: at(99), max: at(100) }
    }
}

/// Two successive phases.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Without the crowd.
    pub off: Phase,
    /// With the crowd.
    pub on: Phase,
}

/// Returns the geometric mean of ratios, and the interval that holds 95 of 100 means of as many
/// ratios drawn from them.
fn mean_ratio(ratios: &[f64]) -> (f64, f64, f64) {
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean =
        |logs: &mut dyn Iterator<Item = f64>| (logs.sum::<f64>() / ratios.len() as f64).exp();
    let mut rng = Rng::new(1);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let mut drawn = (0..logs.len()).map(|_| logs[rng.below(logs.len() as u64) as usize]);
            mean(&mut drawn)
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    (mean(&mut logs.iter().copied()), means[DRAWS * 25 / 1000], means[DRAWS * 975 / 1000])
}

/// Prints all pairs and their ratios.
pub fn tell(pairs: &[Pair]) {
    let us = |ns: u64| ns as f64 / 1000.0;
    for (number, Pair { off, on }) in pairs.iter().enumerate() {
        println!(
            "hostile:   pair {number}: off p50 {:.0} p99 {:.0} max {:.0} us; \
             on p50 {:.0} p99 {:.0} max {:.0} us",
            us(off.p50),
            us(off.p99),
            us(off.max),
            us(on.p50),
            us(on.p99),
            us(on.max),
        );
    }
    let of = |what: fn(&Phase) -> u64| -> Vec<f64> {
        pairs.iter().map(|pair| what(&pair.on) as f64 / what(&pair.off) as f64).collect()
    };
    for (name, ratios) in [("p50", of(|phase| phase.p50)), ("p99", of(|phase| phase.p99))] {
        let (mean, low, high) = mean_ratio(&ratios);
        println!(
            "hostile: {name} on/off over {} pairs: {mean:.2} [{low:.2}, {high:.2}]",
            pairs.len()
        );
    }
}
