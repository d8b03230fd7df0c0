//! `weir drop-copy`: the reports to a firm's sessions, one a line, as text or JSON.
//!
//! With `--point-file` it goes on where it was: the place is written after the copies that it
//! covers, so that a crash repeats copies and never skips one. It comes back by itself when the
//! node is restarted, and ends with an error rather than pass over a gap.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use weir_client::SessionConfig;
use weir_client::drop_copy::{Beginning, CopiedReport, CopyPoint, DropCopy, DropCopyReader};
use weir_types::{CopyNo, Epoch, ExecType, FirmId, OrdType, PartitionId, Reason};
use weir_wire::Message;
use weir_wire::drop_copy::ReportCopy;

use super::endpoint::{Login, TIMEOUT};
use super::explain;
use super::instruments::Instruments;
use super::trading::report::debt_text;

/// Options of `weir drop-copy`.
#[derive(Debug, clap::Args)]
pub struct DropCopyArgs {
    #[command(flatten)]
    login: Login,
    /// The firm of the reports; 0 for all that the session may see copies of.
    #[arg(long, default_value_t = 0)]
    firm: u32,
    /// First copy: now, oldest, or behind points as printed and stored, PARTITION:EPOCH:COPY
    /// separated by commas.
    #[arg(long, default_value = "now", value_parser = parse_beginning)]
    from: From,
    /// File of the points, to continue from there; overrides --from once it exists.
    #[arg(long, value_name = "FILE")]
    point_file: Option<PathBuf>,
    /// End when all that is there has been shown, and print the points to standard error.
    #[arg(long)]
    once: bool,
    /// JSON objects, one a line.
    #[arg(long)]
    json: bool,
}

/// The position at which copies begin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct From {
    beginning: Beginning,
    points: Vec<CopyPoint>,
}

/// Runs `weir drop-copy`.
///
/// # Errors
/// When the node cannot be reached at first, refuses, or has not what is asked for.
pub fn run(args: DropCopyArgs) -> anyhow::Result<()> {
    let kept = args.point_file.as_deref().map_or(Ok(None), read_points)?;
    let points = kept.unwrap_or_else(|| args.from.points.clone());
    let session_id = args.login.session_id();
    let copies = DropCopy::new(session_id, FirmId(args.firm), args.from.beginning, &points);
    let config = SessionConfig::new(session_id, args.login.key()?);
    let target = args.login.endpoint.target()?;
    let mut reader = DropCopyReader::connect(target, config, copies, TIMEOUT)
        .map_err(|error| args.login.explain(error))?;
    let mut instruments = Instruments::fetch_if_there(&args.login.endpoint);
    let mut saved = points;
    let mut was_connected = true;
    let mut last_heard = Instant::now();
    loop {
        if take(&args, &mut reader, &mut instruments)? > 0 {
            last_heard = Instant::now();
        }
        let points = reader.points();
        if points != saved {
            args.point_file.as_deref().map_or(Ok(()), |path| write_points(path, &points))?;
            saved = points;
        }
        if was_connected != reader.is_connected() {
            was_connected = reader.is_connected();
            eprintln!("weir: {}", if was_connected { "back" } else { "the connection is lost" });
        }
        if args.once && reader.is_current() {
            eprintln!("weir: up to {}", text_of(&saved));
            reader.log_out(TIMEOUT)?;
            return Ok(());
        }
        if args.once && last_heard.elapsed() > TIMEOUT {
            bail!("no copy came within {TIMEOUT:?}");
        }
    }
}

/// Prints what comes within a moment; how many copies.
fn take(
    args: &DropCopyArgs,
    reader: &mut DropCopyReader,
    instruments: &mut Instruments,
) -> anyhow::Result<usize> {
    let mut failed: Option<std::io::Error> = None;
    let mut out = crate::output::stdout();
    let polled = reader.poll(Duration::from_millis(500), |head, report| {
        let line = match args.json {
            true => json_line(head, report),
            false => text_line(head, report, instruments),
        };
        if let Err(error) = writeln!(out, "{line}") {
            failed = Some(error);
        }
    });
    out.flush().context("writing copies")?;
    if let Some(error) = failed {
        return Err(error).context("writing copies");
    }
    match polled {
        Ok(count) => Ok(count),
        Err(error) => Err(explain::of_copies(error)),
    }
}

fn parse_beginning(text: &str) -> Result<From, String> {
    match text {
        "now" => Ok(From { beginning: Beginning::Now, points: Vec::new() }),
        "oldest" => Ok(From { beginning: Beginning::Oldest, points: Vec::new() }),
        points => {
            let points = parse_points(points);
            let points = points.ok_or("want now, oldest or PARTITION:EPOCH:COPY,...")?;
            Ok(From { beginning: Beginning::Oldest, points })
        }
    }
}

fn parse_points(text: &str) -> Option<Vec<CopyPoint>> {
    let point = |text: &str| {
        let mut parts = text.trim().split(':');
        let point = CopyPoint {
            partition_id: PartitionId(parts.next()?.parse().ok()?),
            epoch: Epoch(parts.next()?.parse().ok()?),
            copy_no: CopyNo(parts.next()?.parse().ok()?),
        };
        parts.next().is_none().then_some(point)
    };
    text.split(',').map(point).collect()
}

fn text_of(points: &[CopyPoint]) -> String {
    let point = |p: &CopyPoint| format!("{}:{}:{}", p.partition_id, p.epoch, p.copy_no);
    points.iter().map(point).collect::<Vec<_>>().join(",")
}

fn read_points(path: &Path) -> anyhow::Result<Option<Vec<CopyPoint>>> {
    match fs::read_to_string(path) {
        Ok(text) => parse_points(text.trim())
            .with_context(|| format!("{} does not hold points", path.display()))
            .map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("point file {}", path.display())),
    }
}

/// Written beside and renamed, so that a crash leaves the old points or the new ones.
fn write_points(path: &Path, points: &[CopyPoint]) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    fs::write(&beside, format!("{}\n", text_of(points)))
        .and_then(|()| fs::rename(&beside, path))
        .with_context(|| format!("point file {}", path.display()))
}

fn text_line(head: &ReportCopy, report: &CopiedReport, instruments: &mut Instruments) -> String {
    let (partition, copy, owner) = (head.partition_id, head.copy_no, head.owner_session_id);
    let firm = head.owner_firm_id;
    format!(
        "{partition:>4} {copy:>12} firm {firm:<6} session {owner:<6} {}",
        said(report, instruments)
    )
}

fn said(report: &CopiedReport, instruments: &mut Instruments) -> String {
    match report {
        CopiedReport::Order(m) => {
            let e = &m.event;
            let id = e.instrument_id;
            instruments.refresh_for(id);
            let traded = match e.exec_type {
                ExecType::Trade => {
                    let price = instruments.price(id, e.last_px);
                    format!(" {} at {price}", instruments.qty(id, e.last_qty))
                }
                _ => String::new(),
            };
            let (what, order, name, side) = (e.exec_type, e.order_id, e.cl_ord_id, e.side);
            let (leaves, cum) = (instruments.qty(id, e.leaves_qty), instruments.qty(id, e.cum_qty));
            let symbol = instruments.symbol(id);
            let price = match e.ord_type {
                OrdType::Market | OrdType::Stop => "market".to_owned(),
                _ => instruments.price(id, e.price),
            };
            let why = reason(e.reason);
            format!(
                "{what:?}{traded} order {order} {name} {side:?} {symbol} at {price}, \
                 leaves {leaves}, cum {cum}{why}"
            )
        }
        CopiedReport::Rejected(m) => {
            let (no, template) = (m.request_no, m.ref_template_id);
            format!("rejected request {no} of template {template}{}", reason(m.reason))
        }
        CopiedReport::Done(m) => {
            let (no, template) = (m.request_no, m.ref_template_id);
            format!("done request {no} of template {template}, {} changed", m.affected_count)
        }
        CopiedReport::TradeBusted(m) => {
            let (order, trade) = (m.order_id, m.match_id);
            let id = m.instrument_id;
            let (qty, price) = (instruments.qty(id, m.last_qty), instruments.price(id, m.last_px));
            let debt = debt_text(m);
            format!("busted trade {trade} of order {order}: {qty} at {price}{debt}")
        }
    }
}

fn reason(reason: Reason) -> String {
    if reason == Reason::None { String::new() } else { format!(" ({reason:?}: {reason})") }
}

fn json_line(head: &ReportCopy, report: &CopiedReport) -> String {
    let mut object = serde_json::Map::new();
    put_fields(head, &mut object);
    match report {
        CopiedReport::Order(m) => put_report("ExecutionReport", &m.event, &mut object),
        CopiedReport::Rejected(m) => put_report("RequestRejected", m, &mut object),
        CopiedReport::Done(m) => put_report("RequestDone", m, &mut object),
        CopiedReport::TradeBusted(m) => put_report("TradeBusted", m, &mut object),
    }
    serde_json::Value::Object(object).to_string()
}

type Object = serde_json::Map<String, serde_json::Value>;

fn put_report<M: Message>(name: &str, report: &M, object: &mut Object) {
    let mut fields = Object::new();
    put_fields(report, &mut fields);
    object.insert("report".to_owned(), name.into());
    object.insert("fields".to_owned(), fields.into());
}

/// Every field by its name: numbers as numbers, names and codes as texts.
fn put_fields<M: Message>(message: &M, object: &mut Object) {
    message.visit_fields(&mut |field, value| {
        let text = value.to_string();
        let number = || {
            let unsigned = text.parse::<u64>().ok().map(serde_json::Value::from);
            unsigned.or_else(|| text.parse::<i64>().ok().map(serde_json::Value::from))
        };
        let is_text = field.schema_type == "clOrdId";
        let value = if is_text { None } else { number() };
        object.insert(field.name.to_owned(), value.unwrap_or_else(|| text.into()));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_read_back_as_they_were_printed() {
        let point = |partition, epoch, copy| CopyPoint {
            partition_id: PartitionId(partition),
            epoch: Epoch(epoch),
            copy_no: CopyNo(copy),
        };
        let points = vec![point(0, 1, 0), point(1, 3, 4_007)];
        assert_eq!(text_of(&points), "0:1:0,1:3:4007");
        assert_eq!(parse_points(&text_of(&points)), Some(points.clone()));
        let from = parse_beginning("0:1:0,1:3:4007");
        assert_eq!(from, Ok(From { beginning: Beginning::Oldest, points }));
        assert_eq!(parse_beginning("now").map(|from| from.beginning), Ok(Beginning::Now));
        for wrong in ["", "then", "1:2", "1:2:3:4", "1:2:x", "1:2:3,", "70000:1:1"] {
            assert!(parse_beginning(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn points_are_kept_in_a_file_and_none_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("points");
        assert_eq!(read_points(&path).unwrap(), None);
        let points = parse_points("1:1:12").unwrap();
        write_points(&path, &points).unwrap();
        assert_eq!(read_points(&path).unwrap(), Some(points));
        fs::write(&path, "nonsense").unwrap();
        assert!(read_points(&path).is_err());
    }
}
