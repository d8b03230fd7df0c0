//! `weir feed inspect` on an audit: its lines, and the gaps of each.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use weir_feed::capture::Datagram;
use weir_feed::capture::audit::LineNo;
use weir_marketgate::post::audit::{
    AuditReceiver, AuditSender, AuditWriter, SendOutcome, audit_files, audit_queue,
};
use weir_marketgate::post::{AuditSection, FileSystem};
use weir_types::Nanos;

use crate::tools::weir;

const HOUR_NS: u64 = 3_600_000_000_000;
/// 2026-09-14T08:00:00Z.
const START: u64 = 497_048 * HOUR_NS;
const LINES: [&str; 2] = ["A 224.0.0.1:5", "B 224.0.0.2:5"];

/// Writes audits; its queue has room for one 100-byte datagram at a time.
struct Keeper {
    sender: AuditSender,
    receiver: AuditReceiver,
    writer: AuditWriter,
}

impl Keeper {
    fn new(dir: &Path) -> Keeper {
        let section = AuditSection { dir: dir.to_owned(), ..AuditSection::default() };
        let (sender, receiver) = audit_queue(300, 2);
        let lines = LINES.map(str::to_owned);
        let writer = AuditWriter::new(&section, &lines, Box::new(FileSystem)).unwrap();
        Keeper { sender, receiver, writer }
    }

    fn send(&mut self, line: u16, at: u64) -> SendOutcome {
        let [src, dst] = ["10.0.0.1:4", "224.0.0.1:5"].map(|at| at.parse::<SocketAddr>().unwrap());
        let datagram = Datagram { ts_recv: Nanos(START + at), src, dst, payload: &[7; 100] };
        self.sender.send(LineNo(line), Nanos(START + at + 1), &datagram)
    }

    fn write(&mut self, at: u64) {
        let Keeper { receiver, writer, .. } = self;
        receiver.take(usize::MAX, &mut |record| writer.record(record, Nanos(START + at)));
        writer.tick(Nanos(START + at));
    }
}

/// Writes two files. The first lacks three datagrams of line A; the second lacks one of A and two
/// of B.
fn keep_with_gaps(dir: &Path) {
    let mut keeper = Keeper::new(dir);
    assert_eq!(keeper.send(0, 1), SendOutcome::Taken);
    for at in 2..=4 {
        assert_eq!(keeper.send(0, at), SendOutcome::Dropped);
    }
    keeper.write(5);
    assert_eq!(keeper.send(1, 6), SendOutcome::Taken);
    keeper.write(7);
    keeper.write(HOUR_NS);
    assert_eq!(keeper.send(1, HOUR_NS + 1), SendOutcome::Taken);
    let dropped = [(1, 2), (0, 3), (1, 1_000_000_004)];
    for (line, at) in dropped {
        assert_eq!(keeper.send(line, HOUR_NS + at), SendOutcome::Dropped);
    }
    keeper.write(HOUR_NS + 5);
    let Keeper { sender, mut receiver, mut writer } = keeper;
    drop(sender);
    let now = Nanos(START + HOUR_NS + 2_000_000_000);
    receiver.take(usize::MAX, &mut |record| writer.record(record, now));
    writer.finish(now);
}

fn inspect(path: &Path) -> (bool, String) {
    let words = ["feed", "inspect", path.to_str().unwrap()];
    let output = weir(&words, &[]);
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

fn inspect_json(path: &Path) -> (bool, Value) {
    let words = ["feed", "inspect", path.to_str().unwrap(), "--json"];
    let output = weir(&words, &[]);
    (output.status.success(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn an_audit_says_its_lines_and_what_is_missing_of_which_and_when() {
    let dir = tempfile::tempdir().unwrap();
    keep_with_gaps(dir.path());
    let files = audit_files(dir.path()).unwrap();
    assert_eq!(files.len(), 2);
    let (is_good, page) = inspect_json(dir.path());
    let audit = &page["audit"];
    assert!(is_good, "{page}");
    assert_eq!(page["packets"], 3);
    let line = |at: usize, [datagrams, missing, gaps]: [u64; 3], [first, last]: [u64; 2]| {
        json!({
            "line": LINES[at], "datagrams": datagrams, "missing": missing, "gaps": gaps,
            "first_ns": START + first, "last_ns": START + last,
        })
    };
    let want = [line(0, [1, 4, 2], [1, 1]), line(1, [2, 2, 1], [6, HOUR_NS + 1])];
    assert_eq!(audit["lines"], json!(want));
    let gap = |(at, file): (usize, usize), datagrams: u64, [from, to]: [u64; 2]| {
        json!({
            "line": LINES[at], "file": files[file].to_str().unwrap(), "datagrams": datagrams,
            "from_ns": START + from, "to_ns": START + to,
        })
    };
    // Gaps of different lines have no order among them.
    let mut told = audit["gaps"].as_array().unwrap().clone();
    told.sort_by_key(|gap| gap["from_ns"].as_u64());
    let late = [HOUR_NS + 2, HOUR_NS + 1_000_000_004];
    let want = [gap((0, 0), 3, [2, 4]), gap((1, 1), 2, late), gap((0, 1), 1, [HOUR_NS + 3; 2])];
    assert_eq!(told, want);
    assert_eq!((&audit["gap_count"], &audit["missing"]), (&json!(3), &json!(6)));
    let (is_good, text) = inspect(dir.path());
    assert!(is_good && !text.contains("without an end"), "{text}");
    for said in [
        "audit in 2 files",
        "line 0 A 224.0.0.1:5: 1 datagrams, 2 gaps of 4 datagrams",
        "line 1 B 224.0.0.2:5: 2 datagrams, 1 gaps of 2 datagrams",
        "from 2026-09-14T08:00:00.000000002Z to 2026-09-14T08:00:00.000000004Z: 3 of A 224",
        "from 2026-09-14T09:00:00.000000002Z to 2026-09-14T09:00:01.000000004Z: 2 of B 224",
        "3 frames: 3 datagrams",
    ] {
        assert!(text.contains(said), "no `{said}` in:\n{text}");
    }
    // A single file reports its own gaps.
    let (_, page) = inspect_json(&files[0]);
    assert_eq!((&page["audit"]["missing"], &page["packets"]), (&json!(3), &json!(2)));
}

#[test]
fn an_audit_that_was_cut_off_is_said_to_be_and_what_is_none_has_no_lines() {
    let dir = tempfile::tempdir().unwrap();
    keep_with_gaps(dir.path());
    let files = audit_files(dir.path()).unwrap();
    let whole = std::fs::read(&files[1]).unwrap();
    std::fs::write(&files[1], &whole[..whole.len() - 20]).unwrap();
    let (is_good, text) = inspect(dir.path());
    let name = files[1].to_str().unwrap();
    let without_end = format!("without an end (cut off, or still written): {name}");
    assert!(!is_good && text.contains(&without_end), "{text}");
    assert!(text.contains("3 of A 224.0.0.1:5"), "the first file is whole: {text}");
    let (_, page) = inspect_json(dir.path());
    let ends = page["audit"]["files"].as_array().unwrap().iter().map(|file| &file["has_end"]);
    assert!(ends.eq([true, false]), "{page}");
    // A capture written by another program, and a directory without an audit.
    let none = dir.path().join("none.pcap");
    let mut bytes = Vec::new();
    weir_feed::capture::put_file_header(&mut bytes);
    std::fs::write(&none, bytes).unwrap();
    let (is_good, page) = inspect_json(&none);
    assert!(is_good && page.get("audit").is_none(), "{page}");
    let empty = tempfile::tempdir().unwrap();
    let (is_good, text) = inspect(empty.path());
    assert!(!is_good && text.contains("no file of an audit is in it"), "{text}");
}
