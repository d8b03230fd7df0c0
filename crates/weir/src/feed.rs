//! `weir feed`: market data looked into, measured, sent again and recorded.
//!
//! Reads captures (pcap, pcapng), day files (messages behind their lengths), files of DBN and whole
//! audits, compressed or not. The content of a damaged file before the damage, and that of a file
//! of another feed, is shown, then the error ends the command.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use weir_feed::{FeedEntry, feed_by_name, feed_names};
use weir_marketgate::capture::{CaptureFile, CaptureWriter, FileCounts, FileKind, Speed};
use weir_marketgate::post::audit::{AuditOverview, audit_files};
use weir_marketgate::udp::{BatchReceiver, Listen, sender};

use super::{feed_audit, units};
use crate::tools::analysis::{Analysis, kind_text};
use crate::tools::plot;
use crate::tools::record::{RecordPlan, record};
use crate::tools::replay::{ReplayPlan, replay};

/// Options of `weir feed`.
#[derive(Debug, clap::Args)]
pub struct FeedArgs {
    #[command(subcommand)]
    command: FeedCommand,
}

#[derive(Debug, clap::Subcommand)]
enum FeedCommand {
    /// Show the content of a capture, a day file or an audit: groups, channels, gaps, types of
    /// messages; of an audit also its lines and missing ranges.
    Inspect(InspectArgs),
    /// Measure the rates of its messages: mean, peaks and bursts.
    Stats(StatsArgs),
    /// Send a capture's datagrams to a group or an address.
    Replay(ReplayArgs),
    /// Keep what comes to a group or an address.
    Record(RecordArgs),
}

#[derive(Debug, clap::Args)]
struct InspectArgs {
    /// A capture, a day file, a file of DBN, or the directory of an audit.
    file: PathBuf,
    /// The feed of the packets; without it datagrams are counted.
    #[arg(long, value_name = "NAME", value_parser = feed_parser())]
    feed: Option<&'static FeedEntry>,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct StatsArgs {
    #[command(flatten)]
    inspect: InspectArgs,
    /// Draw the rates into this file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct ReplayArgs {
    /// A capture.
    file: PathBuf,
    /// The receiving group or address.
    #[arg(long, value_name = "GROUP:PORT", value_parser = units::address_v4)]
    to: SocketAddrV4,
    /// Only datagrams to this group in the capture.
    #[arg(long, value_name = "GROUP:PORT", value_parser = units::address)]
    group: Option<SocketAddr>,
    /// Times as fast as it was, or `max`.
    #[arg(long, default_value = "1")]
    speed: Speed,
    /// By which of this machine's addresses; loopback keeps it on this machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    interface: Ipv4Addr,
    /// Time to live: the number of routers that it may cross.
    #[arg(long, default_value_t = 1)]
    hops: u32,
    /// Leave out so many of a million datagrams, to try what becomes of gaps.
    #[arg(long, value_name = "MILLIONTHS", default_value_t = 0)]
    lossy: u64,
    /// Seed of the choice of datagrams left out.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object instead of a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct RecordArgs {
    /// A group, which is joined, or an address of this machine.
    #[arg(long, value_name = "GROUP:PORT", value_parser = units::address_v4)]
    from: SocketAddrV4,
    /// A new capture (pcap with nanoseconds), compressed when its name ends in .gz.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// By which of this machine's addresses the group is joined.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    interface: Ipv4Addr,
    /// Size of the kernel's buffer, as far as the system allows; a number alone is bytes.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = units::bytes)]
    receive_buffer: u64,
    /// End after this time, a number alone is seconds; without it, at Ctrl-C. `--seconds` is the
    /// same.
    #[arg(long, alias = "seconds", value_name = "TIME", value_parser = units::seconds)]
    duration: Option<Duration>,
    /// End after so many datagrams.
    #[arg(long)]
    packets: Option<u64>,
    /// One JSON object instead of a line.
    #[arg(long)]
    json: bool,
}

/// Runs `weir feed`.
///
/// # Errors
/// When a file cannot be read to its end or is not of the feed, or the system refuses.
pub fn run(args: FeedArgs) -> anyhow::Result<()> {
    match args.command {
        FeedCommand::Inspect(args) => inspect(&args),
        FeedCommand::Stats(args) => stats(&args),
        FeedCommand::Replay(args) => run_replay(&args),
        FeedCommand::Record(args) => run_record(&args),
    }
}

struct InspectReport {
    kind: FileKind,
    counts: FileCounts,
    analysis: Analysis,
    audit: Option<AuditOverview>,
    /// Why no more of a file is read: the first file of which that is so.
    error: Option<(PathBuf, anyhow::Error)>,
}

fn look(args: &InspectArgs) -> anyhow::Result<InspectReport> {
    let (mut audit, mut error) = (AuditOverview::default(), None);
    let (mut kind, mut counts) = (FileKind::Capture, FileCounts::default());
    let mut analysis = Analysis::default();
    for path in files_of(&args.file)? {
        let mut file = open(&path)?;
        let ended = analysis.read(&mut file, args.feed);
        audit.add(&path);
        kind = file.kind();
        counts += *file.counts();
        error = error.or(ended.map(|error| (path, error.into())));
    }
    // Some damage is of the audit alone: to others it is a block that they pass over.
    let own = audit.files.iter().find_map(|file| {
        let error = file.error.as_ref()?;
        Some((file.path.clone(), anyhow::anyhow!("{error}")))
    });
    let audit = (!audit.files.is_empty()).then_some(audit);
    Ok(InspectReport { kind, counts, analysis, audit, error: error.or(own) })
}

/// The file, or the files of the audit in the directory.
fn files_of(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let files = audit_files(path).with_context(|| path.display().to_string())?;
    anyhow::ensure!(!files.is_empty(), "{}: no file of an audit is in it", path.display());
    Ok(files)
}

/// Takes the name of a feed; help and errors list all names.
pub(super) fn feed_parser() -> impl TypedValueParser<Value = &'static FeedEntry> {
    let known = |name: String| feed_by_name(&name).expect("it is one of the registry's names");
    PossibleValuesParser::new(feed_names()).map(known)
}

fn open(path: &Path) -> anyhow::Result<CaptureFile> {
    CaptureFile::open(path).with_context(|| path.display().to_string())
}

/// The error that ended the reading, once what came before it was shown.
fn ended(error: Option<(PathBuf, anyhow::Error)>) -> anyhow::Result<()> {
    error.map_or(Ok(()), |(path, error)| Err(error.context(path.display().to_string())))
}

fn inspect(args: &InspectArgs) -> anyhow::Result<()> {
    let report = look(args)?;
    if args.json {
        println!("{}", object(&report));
    } else {
        print!("{}", inspect_text(&report));
    }
    ended(report.error)
}

fn stats(args: &StatsArgs) -> anyhow::Result<()> {
    let report = look(&args.inspect)?;
    if let Some(path) = &args.plot {
        let title = args.inspect.file.file_name().unwrap_or_default().to_string_lossy();
        let svg = plot::svg(&report.analysis.rates, &title, report.analysis.unit());
        std::fs::write(path, svg).with_context(|| path.display().to_string())?;
    }
    if args.inspect.json {
        println!("{}", object(&report));
    } else {
        print!("{}{}", rates_text(&report.analysis), kinds_text(&report.analysis));
    }
    ended(report.error)
}

fn object(report: &InspectReport) -> serde_json::Value {
    let mut object = report.analysis.json();
    let kind = match report.kind {
        FileKind::Capture => "capture",
        FileKind::Records => "records",
        FileKind::Dbn => "dbn",
    };
    let counts = &report.counts;
    object["file"] = json!({
        "kind": kind,
        "frames": counts.frames, "datagrams": counts.datagrams, "other_frames": counts.other,
        "fragments": counts.fragments, "cut": counts.cut, "damaged_frames": counts.damaged,
        "messages": counts.messages,
        "error": report.error.as_ref().map(|(_, error)| error.to_string()),
    });
    if let Some(audit) = &report.audit {
        object["audit"] = feed_audit::object(audit);
    }
    object
}

fn inspect_text(report: &InspectReport) -> String {
    let (analysis, counts) = (&report.analysis, &report.counts);
    let mut text = match report.kind {
        FileKind::Capture => format!(
            "{} frames: {} datagrams, {} not UDP, {} fragments, {} cut, {} damaged\n",
            counts.frames,
            counts.datagrams,
            counts.other,
            counts.fragments,
            counts.cut,
            counts.damaged
        ),
        FileKind::Records => format!("{} messages, each behind its length\n", counts.messages),
        FileKind::Dbn => format!("{} records of DBN\n", counts.messages),
    };
    if let Some(audit) = &report.audit {
        text += &feed_audit::text(audit);
    }
    if let Some(first) = analysis.first {
        text += &format!(
            "first {}   last {}   span {:.3} s\n",
            moment(first.0),
            moment(analysis.last.0),
            analysis.rates.span_ns() as f64 / 1e9
        );
    }
    for (address, group) in &analysis.groups {
        text += &format!("\n{address:<24} {} packets, {} bytes", group.packets, group.bytes);
        if group.strangers > 0 {
            text += &format!(", {} not of the feed", group.strangers);
        }
        text.push('\n');
        for (channel, numbers) in &group.channels {
            text += &format!(
                "  channel {channel}: {} messages in {} sessions, {} gaps of {} messages, {} sent \
                 again, {} restarts, {} packets of before, {} contradictions\n",
                numbers.messages,
                numbers.sessions,
                numbers.gaps,
                numbers.missing,
                numbers.repeated,
                numbers.restarts,
                numbers.old_packets,
                numbers.contradictions
            );
        }
    }
    text + &kinds_text(analysis)
}

fn kinds_text(analysis: &Analysis) -> String {
    let mut kinds: Vec<_> = analysis.kinds.iter().collect();
    kinds.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.messages));
    let total: u64 = kinds.iter().map(|(_, counts)| counts.messages).sum();
    let mut text = String::new();
    if !kinds.is_empty() {
        text += &format!("\n{:<8} {:>14} {:>8} {:>16}\n", "type", "messages", "share", "bytes");
    }
    for (kind, counts) in kinds {
        let share = counts.messages as f64 * 100.0 / total.max(1) as f64;
        let (messages, bytes) = (counts.messages, counts.bytes);
        text += &format!("{:<8} {messages:>14} {share:>7.2}% {bytes:>16}\n", kind_text(kind));
    }
    text
}

fn rates_text(analysis: &Analysis) -> String {
    let (rates, unit) = (&analysis.rates, analysis.unit());
    let (gaps, missing) = analysis.gaps();
    let (restarts, contradictions) = analysis.restarts();
    let mut text = format!(
        "{} {unit} in {:.3} s: {:.1} a second; {gaps} gaps of {missing} messages, {restarts} \
         restarts, {contradictions} contradictions\n\n",
        rates.total(),
        rates.span_ns() as f64 / 1e9,
        rates.mean_per_second()
    );
    text += &format!(
        "{:<8} {:>12} {:>16} {:>16} {:>10}\n",
        "window", "peak", "peak, a second", "busy mean, /s", "burst"
    );
    for row in rates.rows() {
        let window = Duration::from_nanos(row.window_ns);
        text += &format!(
            "{:<8} {:>12} {:>16.0} {:>16.1} {:>10.1}\n",
            format!("{window:?}"),
            row.peak,
            row.peak_per_second,
            row.busy_mean_per_second,
            row.burst
        );
    }
    text
}

/// Seconds since the epoch, or since midnight for a day file.
fn moment(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn run_replay(args: &ReplayArgs) -> anyhow::Result<()> {
    anyhow::ensure!(args.lossy <= 1_000_000, "--lossy is at most 1000000");
    let mut file = open(&args.file)?;
    anyhow::ensure!(file.kind() == FileKind::Capture, "only a capture has datagrams to send");
    let socket = sender(args.interface, args.hops).context("no socket to send by")?;
    let plan = ReplayPlan {
        to: args.to.into(),
        group: args.group,
        speed: args.speed,
        loss_millionths: args.lossy,
        seed: args.seed,
    };
    let (report, error) = replay(&mut file, &socket, &plan);
    let seconds = report.elapsed.as_secs_f64();
    let late_us = report.late_max.as_micros();
    if args.json {
        let object = json!({
            "sent": report.sent, "bytes": report.bytes, "left_out": report.left_out,
            "refused": report.refused, "seconds": seconds, "late_max_us": late_us as u64,
        });
        println!("{object}");
    } else {
        println!(
            "{} datagrams, {} bytes in {seconds:.3} s; {} left out, {} refused by the system; \
             at most {late_us} us late",
            report.sent, report.bytes, report.left_out, report.refused
        );
    }
    ended(error.map(|error| (args.file.clone(), error.into())))
}

fn run_record(args: &RecordArgs) -> anyhow::Result<()> {
    let listen = Listen {
        address: args.from,
        interface: args.interface,
        receive_buffer: usize::try_from(args.receive_buffer).unwrap_or(usize::MAX),
        wait: Some(Duration::from_millis(100)),
    };
    let mut receiver =
        BatchReceiver::open(&listen).with_context(|| format!("cannot listen to {}", args.from))?;
    let writer =
        CaptureWriter::create(&args.out).with_context(|| args.out.display().to_string())?;
    let plan = RecordPlan { at_most: args.duration, packets_max: args.packets };
    let stopped = stop_by_signal()?;
    eprintln!("recording {} into {}", receiver.address(), args.out.display());
    // Relaxed: the flag is all that is handed over.
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let (counts, written) = record(&mut receiver, writer, &plan, &is_stopped)?;
    let drops = counts.kernel_drops.unwrap_or(0);
    if args.json {
        let object = json!({
            "written": written, "bytes": counts.bytes, "kernel_drops": drops, "cut": counts.cut,
        });
        println!("{object}");
    } else {
        println!(
            "{written} datagrams written; {drops} lost for want of room in the kernel, {} cut",
            counts.cut
        );
    }
    Ok(())
}

/// Becomes true when the process is told to end.
fn stop_by_signal() -> anyhow::Result<Arc<AtomicBool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let stopped = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stopped);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        told.store(true, Ordering::Relaxed);
    })?;
    Ok(stopped)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use weir_feed::capture::Datagram;
    use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome};
    use weir_marketgate::receiver::FeedSection;
    use weir_types::Nanos;

    use super::*;
    use crate::Cli;

    fn run(words: &[&str]) -> Result<(), String> {
        let line = Cli::try_parse_from([&["weir"], words].concat());
        line.map_err(|error| error.to_string())?.run().map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn each_registered_feed_is_known_to_the_configuration_and_to_the_commands_that_read_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("empty.pcap");
        CaptureWriter::create(&path).unwrap().finish().unwrap();
        let file = path.to_str().unwrap();
        for name in feed_names() {
            let section = format!("name = \"{name}\"\n[capture]\nfile = {file:?}\n");
            FeedSection::parse(&section).unwrap();
            let error = run(&["book", "A", "--capture", file, "--feed", name]).unwrap_err();
            let inspected = run(&["feed", "inspect", file, "--feed", name]);
            if name == "dbn" {
                let wants = "this is a capture; the feed dbn has files of DBN";
                assert!(error.contains(wants) && inspected.unwrap_err().contains(wants));
            } else {
                assert!(error.contains("no message of the feed"), "{name}: {error}");
                inspected.unwrap();
            }
            let serve = ["market", "serve", "--feed", name, "--capture", file];
            Cli::try_parse_from([&["weir"], &serve[..]].concat()).unwrap();
        }
        let error = run(&["feed", "inspect", file, "--feed", "itch4"]).unwrap_err();
        assert!(feed_names().all(|name| error.contains(name)), "{error}");
    }

    /// A capture of three datagrams of MoldUDP64 with a message each.
    fn capture_of_itch(path: &Path) {
        let session = MoldSession::new("0000000001").unwrap();
        let mut packets = PacketWriter::new(session, 1, 1_400);
        let mut capture = CaptureWriter::create(path).unwrap();
        let (src, dst) = ("10.0.0.1:9".parse().unwrap(), "239.1.2.3:1000".parse().unwrap());
        for number in 0..3 {
            assert_eq!(packets.push(b"Sxxxxxxxxxxx"), PushOutcome::Added);
            packets.take(|payload| {
                capture.write(&Datagram { ts_recv: Nanos(number), src, dst, payload }).unwrap();
            });
        }
        capture.finish().unwrap();
    }

    #[test]
    fn every_command_that_reads_a_file_fails_for_one_of_another_feed_and_names_the_feed_it_saw() {
        let dir = tempfile::tempdir().unwrap();
        let (path, plot) = (dir.path().join("a.pcap"), dir.path().join("a.svg"));
        capture_of_itch(&path);
        let (file, plot) = (path.to_str().unwrap(), plot.to_str().unwrap());
        run(&["feed", "inspect", file, "--feed", "itch"]).unwrap();
        run(&["feed", "inspect", file]).unwrap();
        for words in [
            &["feed", "inspect", file, "--feed", "iex-deep"][..],
            &["feed", "inspect", file, "--feed", "iex-deep", "--json"],
            &["feed", "stats", file, "--feed", "weir", "--plot", plot],
            &["book", "A", "--capture", file, "--feed", "opra"],
        ] {
            let error = run(words).unwrap_err();
            assert!(error.contains("of 3 datagrams 0 are of the feed"), "{words:?}: {error}");
            assert!(error.contains("they are of the feed itch"), "{words:?}: {error}");
            assert!(error.contains(file), "{words:?}: {error}");
        }
    }

    #[test]
    fn a_file_that_was_cut_off_or_is_none_is_told_whatever_else_went_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let (path, text) = (dir.path().join("a.pcap"), dir.path().join("a.txt"));
        capture_of_itch(&path);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        std::fs::write(&text, "some text, which is no capture").unwrap();
        let (cut, text) = (path.to_str().unwrap(), text.to_str().unwrap());
        for (words, wants) in [
            (&["feed", "inspect", cut, "--feed", "itch"][..], "the file ends inside"),
            (&["feed", "stats", cut], "the file ends inside"),
            (&["book", "NONE", "--capture", cut, "--feed", "itch"], "the file ends inside"),
            (&["book", "NONE", "--capture", cut, "--feed", "itch"], "names no instrument"),
            (&["feed", "inspect", text], "neither a capture nor a day file"),
            (&["book", "A", "--capture", text, "--feed", "itch"], "begins with \"some tex\""),
            (&["feed", "replay", text, "--to", "127.0.0.1:9"], "neither a capture"),
        ] {
            let error = run(words).unwrap_err();
            assert!(error.contains(wants), "{words:?}: {error}");
        }
    }
}
