//! `weir emulate core`: cores that feed a node's ingest listener at a rate.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use weir_client::clock::{nanos, unix_time};
use weir_client::emulate::core::ATTRIBUTES_LEN;
use weir_client::emulate::driver::DriveProgress;
use weir_client::emulate::setup::define_sessions;
use weir_client::emulate::{CoreDriver, CorePlan, DrivePlan, DriveReport, EmulatedCore, Profile};
use weir_client::load::{Arrivals, Verdict};
use weir_client::{Target, resolve};
use weir_types::{PartitionId, Role};
use weir_wire::ingest::BATCH_ROW_COUNT_MAX;
use weir_wire::rows::ATTRIBUTES_LEN_MAX;

use super::metrics::{Metrics, put};
use super::{counts, is_time, times, times_heading};
use crate::endpoint::{Login, span};
use crate::load::progress_bar;
use crate::output::announce;
use crate::{ids, units};

/// Rows of a batch that fit a frame with the longest attributes.
const BATCH_ROWS_MAX: usize = 344;

/// Options of `weir emulate core`.
#[derive(Debug, clap::Args)]
pub struct CoreArgs {
    #[command(flatten)]
    login: Login,
    /// The node's ingest listener; without it the status page says where it is.
    #[arg(long, value_name = "ADDRESS")]
    ingest: Option<String>,
    /// The first core's source; the configuration has to name session and source together.
    #[arg(long, value_name = "ID", default_value_t = 40)]
    source: u16,
    /// The first core's session, defined with a fresh key.
    #[arg(long, value_name = "ID", default_value_t = 30)]
    source_session: u32,
    /// Cores: sources and sessions count up from the first.
    #[arg(long, default_value_t = 1)]
    cores: u16,
    /// Changes per second, all cores together.
    #[arg(long, default_value_t = 10_000.0)]
    rate: f64,
    /// poisson, uniform, bursts:SIZE or staircase:RATE*TIME,RATE*TIME,...: rates for a time each,
    /// such as 500*4s,2000*250ms; a number alone is seconds.
    #[arg(long, default_value = "uniform", value_parser = units::arrivals)]
    arrivals: Arrivals,
    /// Shares of creations/updates/deletions.
    #[arg(long, default_value = "20/60/20")]
    profile: Profile,
    /// Live orders of a core to begin with.
    #[arg(long, default_value_t = 200_000)]
    orders: u32,
    /// Updates go to so many orders only; zero for all alike.
    #[arg(long, value_name = "N", default_value_t = 0)]
    hot: u32,
    /// Bytes of attributes of an order, beside 161 of fields.
    #[arg(long, value_name = "BYTES", default_value_t = ATTRIBUTES_LEN)]
    attributes: usize,
    /// Firms.
    #[arg(long, default_value_t = 100)]
    firms: u32,
    /// Accounts.
    #[arg(long, default_value_t = 1_000)]
    accounts: u32,
    /// Instruments.
    #[arg(long, default_value_t = 100)]
    instruments: u32,
    /// The most rows of a batch.
    #[arg(long, value_name = "ROWS", default_value_t = 50)]
    batch_max: usize,
    /// The longest wait of a change for its batch to fill; a number alone is microseconds.
    /// `--batch-wait-us` is the same.
    #[arg(long, alias = "batch-wait-us", value_name = "TIME", default_value = "200us",
          value_parser = units::micros)]
    batch_wait: Duration,
    /// Time to measure; a number alone is seconds.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::seconds)]
    duration: Duration,
    /// Time before measuring begins; a number alone is seconds.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::seconds)]
    warm_up: Duration,
    /// A change sent this much after its longest wait is late; a number alone is microseconds.
    /// `--late-us` is the same.
    #[arg(long, alias = "late-us", value_name = "TIME", default_value = "1ms",
          value_parser = units::micros)]
    late: Duration,
    /// No verdict when more than this percentage of changes was late.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    late_percent: f64,
    /// One seed, one sequence of changes and due times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Listener of the figures for Prometheus: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address)]
    metrics: Option<SocketAddr>,
    /// Say on standard output when the store has all that there is at first, and wait for a line on
    /// standard input before the changes begin.
    #[arg(long)]
    wait_for_start: bool,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs `weir emulate core`.
///
/// # Errors
/// When the node cannot be reached or refuses a source.
pub fn run(args: &CoreArgs) -> anyhow::Result<()> {
    check(args)?;
    let metrics = Metrics::default();
    args.metrics.map(|address| metrics.serve(address)).transpose()?;
    let target = Target::from(ingest_address(args)?);
    let mut admin = args.login.admin()?;
    let (first_id, count) = (args.source_session, u32::from(args.cores));
    let sessions = define_sessions(&mut admin, Role::Source, first_id, count)
        .map_err(|error| ids::explain("--source-session", first_id, error))?;
    admin.close()?;
    let cores = (args.source..).zip(sessions).map(|(source, session)| {
        (EmulatedCore::new(core_plan(args, source), unix_time()), session)
    });
    let mut driver = CoreDriver::new(&target, cores.collect());
    driver.fill()?;
    if args.wait_for_start {
        announce(format_args!("weir ready cores={}", args.cores));
        std::io::stdin().read_line(&mut String::new()).context("waiting for the start")?;
    }
    let plan = drive_plan(args);
    let bar = progress_bar(plan.warm_up + plan.duration);
    let report = driver.run(&plan, &mut |progress| {
        bar.set_position(u64::try_from(progress.elapsed.as_millis()).unwrap_or(u64::MAX));
        bar.set_message(format!("{} changes, {} live", progress.changes, progress.live));
        metrics.set(prometheus(&progress));
    })?;
    bar.finish_and_clear();
    if args.json {
        println!("{}", json(args, &report)?);
    } else {
        print!("{}", table(args, &report));
    }
    Ok(())
}

fn check(args: &CoreArgs) -> anyhow::Result<()> {
    let is_rate = args.rate > 0.0 && args.rate.is_finite();
    anyhow::ensure!(is_rate, "--rate must be a number above zero");
    anyhow::ensure!(args.cores > 0, "--cores must be at least 1");
    let sources = u32::from(args.source) + u32::from(args.cores) - 1;
    anyhow::ensure!(
        args.source > 0 && sources <= u32::from(u16::MAX),
        "--source must be from 1 to 65535, with all cores"
    );
    for (name, value) in [
        ("--orders", args.orders),
        ("--firms", args.firms),
        ("--accounts", args.accounts),
        ("--instruments", args.instruments),
    ] {
        anyhow::ensure!(value > 0, "{name} must be at least 1");
    }
    let attributes_max = ATTRIBUTES_LEN_MAX;
    anyhow::ensure!(args.attributes <= attributes_max, "--attributes is {attributes_max} at most");
    let rows_max = BATCH_ROWS_MAX.min(BATCH_ROW_COUNT_MAX);
    anyhow::ensure!(
        (1..=rows_max).contains(&args.batch_max),
        "--batch-max must be from 1 to {rows_max}"
    );
    ids::check("--source-session", args.source_session, args.cores.into())?;
    anyhow::ensure!(is_time(args.batch_wait), "--batch-wait must be at most a day");
    anyhow::ensure!(is_time(args.duration), "--duration must be at most a day");
    anyhow::ensure!(is_time(args.warm_up), "--warm-up must be at most a day");
    Ok(())
}

fn ingest_address(args: &CoreArgs) -> anyhow::Result<SocketAddr> {
    if let Some(address) = &args.ingest {
        return Ok(resolve(address)?);
    }
    let page = args.login.endpoint.status()?;
    let address = page.json["ingest"]["address"].as_str();
    let address =
        address.context("the node has no ingest listener: see [ingest] in its configuration")?;
    address.parse().with_context(|| format!("the node's ingest listener at {address:?}"))
}

fn core_plan(args: &CoreArgs, source: u16) -> CorePlan {
    CorePlan {
        source_id: PartitionId(source),
        order_count: args.orders,
        profile: args.profile,
        hot_count: args.hot,
        attributes_len: args.attributes,
        account_count: args.accounts,
        firm_count: args.firms,
        instrument_count: args.instruments,
        seed: args.seed,
    }
}

fn drive_plan(args: &CoreArgs) -> DrivePlan {
    DrivePlan {
        arrivals: args.arrivals.clone(),
        rate: args.rate,
        seed: args.seed,
        warm_up: args.warm_up,
        duration: args.duration,
        batch_rows_max: args.batch_max,
        batch_wait: args.batch_wait,
        late_after: nanos(args.late),
        late_share_max: args.late_percent / 100.0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts, for a gauge")]
fn prometheus(progress: &DriveProgress) -> String {
    let mut text = String::new();
    for (name, help, kind, value) in [
        ("weir_emulated_changes_total", "Changes made.", "counter", progress.changes as f64),
        (
            "weir_emulated_batches_total",
            "Batches acknowledged.",
            "counter",
            progress.batches as f64,
        ),
        ("weir_emulated_live_orders", "Live orders.", "gauge", progress.live as f64),
        ("weir_emulated_late_share", "Changes sent late.", "gauge", progress.late_share),
        ("weir_emulated_losses_total", "Connections lost.", "counter", progress.losses as f64),
    ] {
        put(&mut text, name, help, kind, &[(String::new(), value)]);
    }
    text
}

fn json(args: &CoreArgs, report: &DriveReport) -> anyhow::Result<String> {
    let object = serde_json::json!({
        "rate": args.rate,
        "arrivals": args.arrivals.to_string(),
        "profile": args.profile.to_string(),
        "cores": args.cores,
        "orders": args.orders,
        "hot": args.hot,
        "row_bytes": 161 + args.attributes,
        "batch_max": args.batch_max,
        "batch_wait_us": nanos(args.batch_wait).0 / 1_000,
        "duration_s": args.duration.as_secs_f64(),
        "warm_up_s": args.warm_up.as_secs_f64(),
        "seed": args.seed,
        "report": report,
    });
    Ok(serde_json::to_string(&object)?)
}

fn table(args: &CoreArgs, report: &DriveReport) -> String {
    let late = format!(
        "{:.3} % of changes sent more than {} after they might wait no longer",
        report.late_share * 100.0,
        span(nanos(args.late).0)
    );
    let verdict = match report.verdict {
        Verdict::Valid => format!("valid: {late}"),
        Verdict::GeneratorLate => format!("NO VERDICT: {late}"),
        Verdict::Unanswered => {
            format!("NO VERDICT: {} batches without acknowledgement; {late}", report.unacknowledged)
        }
    };
    let lines = [
        format!(
            "{} changes   {:.0}/s   {} batches   {} full resends   {} connections lost",
            report.changes, report.rate_measured, report.batches, report.resends, report.losses
        ),
        format!("rows of a batch   {}", counts(&report.batch_rows)),
        String::new(),
        times_heading(),
        times("from due to sent", &report.lag),
        times("from sent to acknowledged", &report.acknowledged),
        String::new(),
        verdict,
    ];
    lines.join("\n") + "\n"
}
