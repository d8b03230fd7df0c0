//! `weir emulate clients`: many followers of order state, and the delay from creation to each.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use weir_client::emulate::crowd::ClassFigures;
use weir_client::emulate::setup::define_sessions;
use weir_client::emulate::{Crowd, CrowdPlan, CrowdReport, Interest, Member};
use weir_types::{AccountId, FirmId, InstrumentId, PartitionId, Role};

use super::metrics::{Metrics, put, quantiles};
use super::{counts, is_time, times, times_heading};
use crate::endpoint::Login;
use crate::load::progress_bar;
use crate::output::announce;
use crate::{ids, units};

/// Options of `weir emulate clients`.
#[derive(Debug, clap::Args)]
pub struct ClientsArgs {
    #[command(flatten)]
    login: Login,
    /// Numbers of clients by kind: all:N, firm:N, account:N, instrument:N, separated by commas. The
    /// clients of a kind want the first firm, the second, and so on.
    #[arg(long, value_name = "KINDS", default_value = "all:1,firm:9,account:90")]
    mix: ClientMix,
    /// The source of the orders; without it the node's own.
    #[arg(long, value_name = "ID")]
    source: Option<u16>,
    /// Firms, accounts or instruments before they come round again.
    #[arg(long, value_name = "N", default_value_t = 100)]
    firms: u32,
    /// As --firms.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    accounts: u32,
    /// As --firms.
    #[arg(long, value_name = "N", default_value_t = 100)]
    instruments: u32,
    /// The most rows of a page; zero for the node's own limit.
    #[arg(long, default_value_t = 0)]
    rows_max: u32,
    /// A page waits for so many rows.
    #[arg(long, default_value_t = 1)]
    rows_min: u32,
    /// The longest wait of a page for its rows; a number alone is microseconds. `--wait-max-us` is
    /// the same.
    #[arg(long, alias = "wait-max-us", value_name = "TIME", default_value = "500ms",
          value_parser = units::micros)]
    wait_max: Duration,
    /// Only live orders.
    #[arg(long)]
    live_only: bool,
    /// Their sessions, defined with fresh keys, count up from here.
    #[arg(long, value_name = "ID", default_value_t = 800_000)]
    first_id: u32,
    /// Time to measure; a number alone is seconds.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::seconds)]
    duration: Duration,
    /// Time before measuring begins, once all clients have the whole state; a number alone is
    /// seconds.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::seconds)]
    warm_up: Duration,
    /// Listener of the figures for Prometheus: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address)]
    metrics: Option<SocketAddr>,
    /// Say on standard output when all clients know all that there is, and wait for a line on
    /// standard input before the time begins.
    #[arg(long)]
    wait_for_start: bool,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// The kinds of clients, in the order of a mix.
const KINDS: [&str; 4] = ["all", "firm", "account", "instrument"];

/// The number of clients of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClientMix([u32; 4]);

impl FromStr for ClientMix {
    type Err = String;

    fn from_str(text: &str) -> Result<ClientMix, String> {
        let wrong = || format!("mix {text:?}: want KIND:N,... of {}", KINDS.join(", "));
        let mut mix = [0; 4];
        for part in text.split(',') {
            let (kind, count) = part.split_once(':').ok_or_else(wrong)?;
            let place = KINDS.iter().position(|known| *known == kind).ok_or_else(wrong)?;
            mix[place] = count.parse::<u16>().map_err(|_| wrong())?.into();
        }
        if mix.iter().sum::<u32>() == 0 { Err(wrong()) } else { Ok(ClientMix(mix)) }
    }
}

impl std::fmt::Display for ClientMix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = KINDS.iter().zip(self.0).filter(|(_, count)| *count > 0);
        let parts: Vec<_> = parts.map(|(kind, count)| format!("{kind}:{count}")).collect();
        f.write_str(&parts.join(","))
    }
}

/// Runs `weir emulate clients`.
///
/// # Errors
/// When the node cannot be reached or refuses a client.
pub fn run(args: &ClientsArgs) -> anyhow::Result<()> {
    anyhow::ensure!(is_time(args.duration), "--duration must be at most a day");
    anyhow::ensure!(is_time(args.warm_up), "--warm-up must be at most a day");
    let numbers = [args.firms, args.accounts, args.instruments];
    anyhow::ensure!(numbers.iter().all(|n| *n > 0), "there must be a firm, account, instrument");
    let count = args.mix.0.iter().sum();
    ids::check("--first-id", args.first_id, count)?;
    let metrics = Metrics::default();
    args.metrics.map(|address| metrics.serve(address)).transpose()?;
    let mut admin = args.login.admin()?;
    let mut sessions = define_sessions(&mut admin, Role::Supervisor, args.first_id, count)
        .map_err(|error| ids::explain("--first-id", args.first_id, error))?
        .into_iter();
    admin.close()?;
    let mut members = Vec::new();
    for (class, count) in args.mix.0.into_iter().enumerate() {
        for number in 0..count {
            let session = sessions.next().context("a session for each client")?;
            members.push(Member { session, interest: interest(args, class, number), class });
        }
    }
    let plan = plan_of(args);
    let (warm_up, duration) = (plan.warm_up, plan.duration);
    let mut crowd = Crowd::connect(&args.login.endpoint.target()?, plan, &members)?;
    crowd.until_online()?;
    if args.wait_for_start {
        announce(format_args!("weir ready clients={}", members.len()));
        std::io::stdin().read_line(&mut String::new()).context("waiting for the start")?;
    }
    let bar = progress_bar(warm_up + duration);
    let report = crowd.run(&mut |figures, elapsed| {
        bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        let rows: u64 = figures.iter().map(|class| class.rows).sum();
        bar.set_message(format!("{rows} rows"));
        if args.metrics.is_some() {
            metrics.set(prometheus(figures));
        }
    })?;
    bar.finish_and_clear();
    if args.json {
        println!("{}", json(args, &report)?);
    } else {
        print!("{}", table(args, &report));
    }
    Ok(())
}

fn interest(args: &ClientsArgs, class: usize, number: u32) -> Interest {
    match class {
        0 => Interest::All,
        1 => Interest::Firm(FirmId(1 + number % args.firms)),
        2 => Interest::Account(AccountId(1 + number % args.accounts)),
        _ => Interest::Instrument(InstrumentId(1 + number % args.instruments)),
    }
}

fn wait_max_us(args: &ClientsArgs) -> u32 {
    u32::try_from(args.wait_max.as_micros()).unwrap_or(u32::MAX)
}

fn plan_of(args: &ClientsArgs) -> CrowdPlan {
    CrowdPlan {
        classes: KINDS.map(str::to_owned).to_vec(),
        source_id: args.source.map_or(PartitionId::NONE, PartitionId),
        rows_max: args.rows_max,
        rows_min: args.rows_min,
        wait_max_us: wait_max_us(args),
        live_only: args.live_only,
        warm_up: args.warm_up,
        duration: args.duration,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts, for a counter")]
fn prometheus(figures: &[ClassFigures]) -> String {
    let mut text = String::new();
    let present: Vec<_> =
        figures.iter().filter(|class| class.members > 0).map(ClassFigures::report).collect();
    let delays = present
        .iter()
        .flat_map(|class| quantiles(&format!("class=\"{}\",", class.class), &class.delay));
    let (name, help) = ("weir_followers_delay_seconds", "From creation to client, a row.");
    put(&mut text, name, help, "gauge", &delays.collect::<Vec<_>>());
    type Figure = fn(&weir_client::emulate::crowd::ClassReport) -> u64;
    let counters: [(&str, &str, Figure); 5] = [
        ("weir_followers_rows_total", "Rows.", |class| class.rows),
        ("weir_followers_pages_total", "Pages with rows.", |class| class.pages),
        ("weir_followers_empty_pages_total", "Pages without rows.", |class| class.empty_pages),
        ("weir_followers_merged_total", "Changes merged into others.", |class| class.merged),
        ("weir_followers_resyncs_total", "Times to begin again.", |class| class.resyncs),
    ];
    for (name, help, figure) in counters {
        let values: Vec<_> = present
            .iter()
            .map(|class| (format!("{{class=\"{}\"}}", class.class), figure(class) as f64))
            .collect();
        put(&mut text, name, help, "counter", &values);
    }
    text
}

fn json(args: &ClientsArgs, report: &CrowdReport) -> anyhow::Result<String> {
    let object = serde_json::json!({
        "mix": args.mix.to_string(),
        "rows_min": args.rows_min,
        "rows_max": args.rows_max,
        "wait_max_us": wait_max_us(args),
        "duration_s": args.duration.as_secs_f64(),
        "warm_up_s": args.warm_up.as_secs_f64(),
        "report": report,
    });
    Ok(serde_json::to_string(&object)?)
}

fn table(args: &ClientsArgs, report: &CrowdReport) -> String {
    let mut lines =
        vec![format!("all clients knew all after {:.2} s", report.online_after), String::new()];
    let present = || report.classes.iter().filter(|class| class.members > 0);
    lines.push(times_heading());
    for class in present() {
        let name = format!("{} × {}", class.members, class.class);
        lines.push(times(&format!("{name}, a row"), &class.delay));
        lines.push(times(&format!("{name}, a page's oldest"), &class.oldest));
    }
    lines.push(String::new());
    for class in present() {
        lines.push(format!(
            "{:<14} {:.0} rows/s   {} pages, {} empty   {} merged   {} resyncs",
            class.class,
            rate(class.rows, args.duration.as_secs_f64()),
            class.pages,
            class.empty_pages,
            class.merged,
            class.resyncs
        ));
        lines.push(format!("{:<14} rows of a page   {}", "", counts(&class.page_rows)));
    }
    if report.lost > 0 {
        let why = report.lost_why.as_deref().unwrap_or("");
        lines.push(format!("{} clients were lost; the first: {why}", report.lost));
    }
    lines.join("\n") + "\n"
}

#[expect(clippy::cast_precision_loss, reason = "a count, for a rate")]
fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_read_and_written_or_named_as_wrong() {
        let mix = "all:1,account:90".parse::<ClientMix>().unwrap();
        assert_eq!((mix, mix.to_string().as_str()), (ClientMix([1, 0, 90, 0]), "all:1,account:90"));
        for wrong in ["", "all", "all:0", "all:x", "nobody:3", "all:1,", "all:70000"] {
            assert!(wrong.parse::<ClientMix>().unwrap_err().contains("want KIND:N"), "{wrong}");
        }
    }
}
