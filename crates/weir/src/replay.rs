//! `weir replay [FILE]`: plays recorded order flow into a running node, at the market's pace times
//! N.
//!
//! Takes the formats that `weir_client::flow` reads: LOBSTER, Bitstamp, the packed form. It defines
//! an instrument, an account and a session per copy with an operator's key. Facts that a recording
//! lacks (hidden orders, the priority of orders from before its beginning) are not invented.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use weir_client::ClientError;
use weir_client::clock::{WaitStrategy, nanos};
use weir_client::flow::{self, PackedFlow, Plan, ReplayConfig};
use weir_client::load::setup::hire_all;
use weir_client::load::{
    Generator, LoadPlan, LoadReport, Pace, Playback, PlaybackAccount, SetupPlan,
};
use weir_types::Nanos;

use super::demo::recordings::recorded_day;
use super::endpoint::{Login, TIMEOUT};
use super::listing::{Terms, list_copies};
use super::load::{progress_bar, show, table};
use super::{ids, units};

/// Options of `weir replay`.
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// LOBSTER (.zip), Bitstamp (.log.xz, .csv.xz) or packed (.wflow); by default the day of
    /// Bitstamp that ships with the program.
    file: Option<PathBuf>,
    #[command(flatten)]
    login: Login,
    /// Times faster than the market was.
    #[arg(long, default_value = "60")]
    speed: NonZeroU64,
    /// On how many instruments at once.
    #[arg(long, default_value_t = 1)]
    copies: u32,
    /// Delay of each copy's begin after the one before; a number alone is milliseconds.
    /// `--shift-ms` is the same.
    #[arg(long, alias = "shift-ms", value_name = "TIME", default_value = "50ms",
          value_parser = units::millis)]
    shift: Duration,
    /// As fast as the node answers, with so many requests under way, instead of the pace.
    #[arg(long, value_name = "N")]
    in_flight: Option<u32>,
    /// Stop after this time; a number alone is seconds.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = units::seconds)]
    at_most: Duration,
    /// The symbol; the recording's own when not given. Further copies get a number behind it.
    #[arg(long)]
    symbol: Option<String>,
    /// Identifiers of what it defines count up from here.
    #[arg(long, value_name = "ID", default_value_t = 800_000)]
    first_id: u32,
    /// Leave the orders that still stand in the book.
    #[arg(long)]
    keep: bool,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs `weir replay`.
///
/// # Errors
/// When the file cannot be read, or the node cannot be reached or refuses.
pub fn run(args: ReplayArgs) -> anyhow::Result<()> {
    anyhow::ensure!(args.copies > 0, "--copies must be at least 1");
    anyhow::ensure!(args.in_flight != Some(0), "--in-flight must be at least 1");
    ids::check("--first-id", args.first_id, args.copies)?;
    let shifts = args.shift.checked_mul(args.copies);
    let is_day = shifts.is_some_and(|shifts| shifts <= Duration::from_secs(86_400));
    anyhow::ensure!(is_day, "--shift of all --copies must be at most a day");
    let recording = match &args.file {
        Some(file) => flow::load(file)?,
        None => recorded_day()?,
    };
    let plan = Plan::of(&recording.items);
    anyhow::ensure!(!plan.is_empty(), "the recording holds no orders");
    let mut admin = args.login.admin()?;
    let terms = Terms { symbol: args.symbol.as_deref(), ..Terms::default() };
    let explained =
        |error: ClientError| ids::explain("--first-id and --symbol", args.first_id, error);
    let instruments = list_copies(&mut admin, &recording, args.first_id, args.copies, terms)
        .map_err(|error| match error.downcast() {
            Ok(error) => explained(error),
            Err(error) => error,
        })?;
    let setup = SetupPlan {
        first_id: args.first_id,
        session_count: args.copies,
        instrument_count: 0,
        unanswered_count_max: 1 << 20,
    };
    let traders = hire_all(&mut admin, &setup).map_err(explained)?;
    admin.close()?;
    let stages: Vec<PlaybackAccount> = instruments
        .iter()
        .zip(&traders)
        .enumerate()
        .map(|(trader, (instrument, hired))| PlaybackAccount {
            instrument_id: instrument.instrument_id,
            partition_id: instrument.partition_id,
            account_id: hired.account_id,
            trader,
        })
        .collect();
    let shift = nanos(args.shift);
    let config = ReplayConfig { speed: args.speed, copies: args.copies, shift };
    let mut playback = Playback::new(plan.replay(config), &stages);
    let span = plan.span(args.speed).0 + shift.0 * u64::from(args.copies);
    let target = args.login.endpoint.target()?;
    let mut generator = Generator::connect(target, &traders, 1)?;
    let report = play(&args, &mut generator, &mut playback, Duration::from_nanos(span))?;
    if !args.keep {
        generator.close(TIMEOUT)?;
    }
    print(&args, &recording, &report)
}

fn play(
    args: &ReplayArgs,
    generator: &mut Generator,
    playback: &mut Playback<'_>,
    span: Duration,
) -> anyhow::Result<LoadReport> {
    let at_most = args.at_most;
    let plan = LoadPlan {
        pace: args.in_flight.map_or(Pace::Open, Pace::Window),
        warm_up: Duration::ZERO,
        // The last order is due at the end of the span: a little more lets it go out.
        duration: if args.in_flight.is_some() { at_most } else { at_most.min(span + ONE_SECOND) },
        wait: WaitStrategy::Park,
        late_after: Nanos(1_000_000),
        late_share_max: 0.01,
    };
    let bar = progress_bar(if args.in_flight.is_some() { span } else { plan.duration });
    let report = generator.run(&plan, playback, &mut |progress| show(&bar, &progress))?;
    bar.finish_and_clear();
    Ok(report)
}

const ONE_SECOND: Duration = Duration::from_secs(1);

fn print(args: &ReplayArgs, recording: &PackedFlow, report: &LoadReport) -> anyhow::Result<()> {
    if args.json {
        let object = serde_json::json!({
            "source": recording.header.source,
            "instrument": recording.header.instrument,
            "speed": args.speed.get(),
            "copies": args.copies,
            "in_flight": args.in_flight,
            "report": report,
        });
        println!("{}", serde_json::to_string(&object)?);
    } else {
        println!("{}, at ×{}\n", recording.header.source, args.speed);
        print!("{}", table(report));
    }
    Ok(())
}
