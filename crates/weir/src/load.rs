//! `weir load`: trading sessions that send at predetermined times, and the outcome of each request.
//!
//! It defines instruments, accounts and sessions with an operator's key, sends, measures, prints a
//! table, and cancels its orders. It tells if the published market leaves its instruments out.
//! Latency counts from an order's due time; if the load itself was late too often, it says so
//! instead of a verdict. It continues after a lost connection, and counts the requests answered
//! once, twice and never.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_client::clock::{WaitStrategy, nanos};
use weir_client::load::setup::instrument;
use weir_client::load::{
    Arrivals, Generator, Kinds, LoadPlan, LoadReport, Mix, MixSource, Pace, Progress, Quantiles,
    Schedule, SetupPlan, Verdict, set_up,
};
use weir_types::PartitionId;

use super::endpoint::{Login, TIMEOUT, span};
use super::published::told_as_unfit;
use super::{ids, units};

/// Options of `weir load`.
#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    #[command(flatten)]
    login: Login,
    /// Orders per second, all sessions together.
    #[arg(long, default_value_t = 1_000.0)]
    rate: f64,
    /// Time to measure; a number alone is seconds.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::seconds)]
    duration: Duration,
    /// Time before measuring begins; a number alone is seconds.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::seconds)]
    warm_up: Duration,
    /// poisson, uniform, bursts:SIZE or staircase:RATE*TIME,RATE*TIME,...: rates for a time each,
    /// such as 500*4s,2000*250ms; a number alone is seconds.
    #[arg(long, default_value = "poisson", value_parser = units::arrivals)]
    arrivals: Arrivals,
    /// Shares of adds/cancels/replaces/crosses.
    #[arg(long, default_value = "45/40/5/10")]
    mix: Mix,
    /// Kinds among a hundred adds: stops=N, icebergs=N, gtd=N, ioc=N, with commas between them.
    #[arg(long, value_name = "SHARES")]
    kinds: Option<Kinds>,
    /// Reconnect for this long after a lost connection, and continue; 0s: a loss ends the load.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration)]
    reconnect: Duration,
    /// Trading sessions.
    #[arg(long, default_value_t = 8)]
    sessions: u32,
    /// Connections that they share.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Instruments to define and trade.
    #[arg(long, default_value_t = 4)]
    instruments: u32,
    /// The most live orders of a session.
    #[arg(long, default_value_t = 1_000)]
    live_max: usize,
    /// A closed loop with so many requests under way, instead of a rate.
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    in_flight: Option<u32>,
    /// Spin instead of sleeping: for a core of the load's own.
    #[arg(long)]
    spin: bool,
    /// An order sent this much after its due time is late; a number alone is microseconds.
    /// `--late-us` is the same.
    #[arg(long, alias = "late-us", value_name = "TIME", default_value = "200us",
          value_parser = units::micros)]
    late: Duration,
    /// No verdict when more than this percentage of orders was late.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    late_percent: f64,
    /// Identifiers of what it defines count up from here.
    #[arg(long, value_name = "ID", default_value_t = 900_000)]
    first_id: u32,
    /// One seed, one sequence of orders and due times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Requests of a session that may wait for an answer: an open loop does not wait for answers.
const UNANSWERED_COUNT_MAX: usize = 1 << 20;

/// Runs `weir load`.
///
/// # Errors
/// When the node cannot be reached, refuses the set-up, or ends the connection.
pub fn run(args: LoadArgs) -> anyhow::Result<()> {
    check(&args)?;
    let mut admin = args.login.admin()?;
    let setup = SetupPlan {
        first_id: args.first_id,
        session_count: args.sessions,
        instrument_count: args.instruments,
        unanswered_count_max: UNANSWERED_COUNT_MAX,
    };
    let (traders, listings) = set_up(&mut admin, &setup)
        .map_err(|error| ids::explain("--first-id", args.first_id, error))?;
    admin.close()?;
    if let Some(note) = unfit_note(args.first_id, args.instruments) {
        eprintln!("weir: {note}");
    }
    let accounts: Vec<_> = traders.iter().map(|trader| trader.account_id).collect();
    let mut source = MixSource::new(args.mix, listings, &accounts, args.live_max)
        .with_kinds(args.kinds.unwrap_or_default());
    source.begin(Schedule::new(args.arrivals.clone(), args.rate, args.seed), args.seed);
    let plan = plan_of(&args);
    let target = args.login.endpoint.target()?;
    let mut generator = Generator::connect(target, &traders, args.connections)?;
    generator = generator.ride_over(args.reconnect);
    let bar = progress_bar(plan.warm_up + plan.duration);
    let report = generator.run(&plan, &mut source, &mut |progress| show(&bar, &progress))?;
    bar.finish_and_clear();
    generator.close(TIMEOUT)?;
    if args.json {
        println!("{}", json(&args, &report)?);
    } else {
        print!("{}", table(&report));
    }
    Ok(())
}

fn check(args: &LoadArgs) -> anyhow::Result<()> {
    let is_rate = args.rate > 0.0 && args.rate.is_finite();
    anyhow::ensure!(is_rate, "--rate must be a number above zero");
    anyhow::ensure!(args.sessions > 0, "--sessions must be at least 1");
    anyhow::ensure!(args.instruments > 0, "--instruments must be at least 1");
    ids::check("--first-id", args.first_id, args.sessions.max(args.instruments))?;
    anyhow::ensure!(args.connections > 0, "--connections must be at least 1");
    anyhow::ensure!(args.live_max > 0, "--live-max must be at least 1");
    anyhow::ensure!(args.in_flight != Some(0), "--in-flight must be at least 1");
    let day = Duration::from_secs(86_400);
    anyhow::ensure!(args.duration <= day, "--duration must be at most a day");
    anyhow::ensure!(args.warm_up <= day, "--warm-up must be at most a day");
    Ok(())
}

/// The note on the first of the load's instruments that the published market leaves out.
fn unfit_note(first_id: u32, instruments: u32) -> Option<String> {
    let note = |index| told_as_unfit(&instrument(first_id + index, PartitionId(1)));
    (0..instruments).find_map(note)
}

fn plan_of(args: &LoadArgs) -> LoadPlan {
    LoadPlan {
        pace: args.in_flight.map_or(Pace::Open, Pace::Window),
        warm_up: args.warm_up,
        duration: args.duration,
        wait: if args.spin { WaitStrategy::Spin } else { WaitStrategy::Park },
        late_after: nanos(args.late),
        late_share_max: args.late_percent / 100.0,
    }
}

/// A bar on standard error, as long as the run; none when that is no terminal.
pub(super) fn progress_bar(total: Duration) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(total.as_millis()).unwrap_or(u64::MAX));
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}")
        .expect("the template has only fields that there are");
    bar.with_style(style)
}

/// Moves the bar on.
pub(super) fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_position(u64::try_from(progress.elapsed.as_millis()).unwrap_or(u64::MAX));
    bar.set_message(format!(
        "{} sent, {} answered, median {}",
        progress.sent,
        progress.answered,
        span(progress.median)
    ));
}

fn json(args: &LoadArgs, report: &LoadReport) -> anyhow::Result<String> {
    let pace = match args.in_flight {
        Some(window) => serde_json::json!({ "in_flight": window }),
        None => serde_json::json!({ "rate": args.rate, "arrivals": args.arrivals.to_string() }),
    };
    let object = serde_json::json!({
        "pace": pace,
        "mix": args.mix.to_string(),
        "kinds": args.kinds.unwrap_or_default().to_string(),
        "sessions": args.sessions,
        "connections": args.connections,
        "instruments": args.instruments,
        "duration_s": args.duration.as_secs_f64(),
        "warm_up_s": args.warm_up.as_secs_f64(),
        "wait": if args.spin { "spin" } else { "park" },
        "seed": args.seed,
        "report": report,
    });
    Ok(serde_json::to_string(&object)?)
}

/// The report for people.
pub(super) fn table(report: &LoadReport) -> String {
    let counts = &report.counts;
    let mut lines = vec![
        format!(
            "sent {}   answered {}   rejected {}   refused {}   trades {}   {:.0} orders/s",
            counts.sent,
            counts.answered,
            counts.rejected,
            counts.refused,
            counts.trades,
            report.rate_measured
        ),
        format!(
            "requests answered once {}   twice {}   never {}   reconnects {}",
            counts.answered.saturating_sub(counts.answered_again),
            counts.answered_again,
            counts.unanswered,
            counts.reconnects
        ),
        String::new(),
        format!(
            "{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"
        ),
        line("latency from due", &report.latency),
        line("latency from sent", &report.latency_from_sent),
        line("generator's own lag", &report.generator_lag),
    ];
    if report.t0_to_t6.count > 0 {
        lines.push(String::new());
        lines.extend(report.stages.iter().map(|stage| line(stage.name, &stage.span)));
        lines.push(line("t0-t6 all stages", &report.t0_to_t6));
        lines.push(line("outside (sockets, client)", &report.outside));
    }
    lines.push(String::new());
    lines.push(verdict(report));
    lines.join("\n") + "\n"
}

fn verdict(report: &LoadReport) -> String {
    let late = format!(
        "{:.3} % of orders sent more than {} late",
        report.late_share * 100.0,
        span(report.late_after_ns)
    );
    match report.verdict {
        Verdict::Valid => format!("valid: {late}"),
        Verdict::GeneratorLate => {
            format!("NO VERDICT: {late}: the machine could not carry the load's own side")
        }
        Verdict::Unanswered => format!(
            "NO VERDICT: {} requests without an answer, {} held back; {late}",
            report.counts.unanswered, report.counts.held_back
        ),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of spans")]
fn line(name: &str, of: &Quantiles) -> String {
    let tail = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), span);
    format!(
        "{name:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        span(of.mean as u64),
        span(of.p50),
        tail(of.p90),
        tail(of.p99),
        tail(of.p99_9),
        tail(of.p99_99),
        span(of.max)
    )
}

#[cfg(test)]
mod tests {
    use weir_types::Nanos;

    use super::*;

    #[test]
    fn a_load_tells_of_instruments_that_are_not_published() {
        for (first_id, instruments, is_told) in [
            (900_000, 4_000, false),
            (1, 1, false),
            (99_999_999, 1, false),
            (99_999_999, 2, true),
            (100_000_000, 1, true),
            (u32::MAX, 1, true),
        ] {
            let note = unfit_note(first_id, instruments);
            assert_eq!(note.is_some(), is_told, "{first_id} {instruments}: {note:?}");
        }
        let note = unfit_note(99_999_998, 4).expect("the third has nine digits");
        assert!(note.contains("leaves 100000000 out: its symbol is longer than eight"), "{note}");
    }

    #[test]
    fn a_late_generator_gets_no_verdict_in_words() {
        let mut recorder = weir_client::load::measure::Recorder::new(Nanos(10));
        for i in 0..200 {
            let times = weir_client::Times { due: Nanos(i), sent: Nanos(i + 5_000) };
            recorder.record(times, Nanos(i + 6_000));
        }
        let text = table(&recorder.report(Nanos(1_000_000), 0.01));
        assert!(text.contains("NO VERDICT: 100.000 % of orders"), "{text}");
        assert!(!text.contains("t0-t1"), "no stages came, none are shown: {text}");
    }
}
