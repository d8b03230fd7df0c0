//! The command line of the project's own tools: `cargo run -p xtask -- tidy`, and others.
//!
//! This file only handles arguments; the checks are in `xtask::tidy`, which the test of the same
//! name runs too, the tables of results in `xtask::results`. Exits 0 when the tree is tidy, 1 with
//! one line per finding when it is not, 2 when a command could not run.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use xtask::commits::{self, Checked};
use xtask::tidy::{Finding, Ratchet};
use xtask::{results, tidy};

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND

  tidy             check the tree; one line per finding, exit 1 when there are any
  tidy --tighten   also lower every entry of xtask/ratchet.txt to today's size; raises none
  tidy --write-ratchet
                   write xtask/ratchet.txt anew from today's sizes, for merges; may raise entries
  commits          fail where a commit since the one in xtask/commits-since.txt has no body
  passed OUTPUT [SKIPS]
                   fail where a page names a test that did not pass in this output of cargo test,
                   and list the named ones that were skipped, by the file of their reports
  prose            list every place that counts against the limits of prose
  plants           list the planted bugs of all crates
  tuples           list every function that takes a tuple
  params           list every function with more than four parameters
  results          make the tables of results in all pages anew, from bench/results/*.jsonl
  results --check  fail where a page's tables are stale (tidy does it too)
  goals NAME       read a benchmark's JSON line, print its `goals` (bench/record.py asks for them)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let done = match args.as_slice() {
        ["tidy"] => checked(&root, Ratchet::Keep),
        ["tidy", "--tighten"] => checked(&root, Ratchet::Tighten),
        ["tidy", "--write-ratchet"] => checked(&root, Ratchet::Write),
        ["commits"] => commits(&root),
        ["passed", output] => std::fs::read(output)
            .and_then(|output| tidy::not_passed(&root, &String::from_utf8_lossy(&output)))
            .map(|findings| found(&findings)),
        ["passed", output, skips] => passed(&root, output, skips),
        ["prose"] => tidy::prose(&root).map(|places| {
            places.iter().for_each(|place| println!("{place}"));
            ExitCode::SUCCESS
        }),
        ["plants"] => tidy::plants(&root).map(|plants| {
            plants.iter().for_each(|plant| println!("{plant}"));
            ExitCode::SUCCESS
        }),
        ["tuples"] => tidy::tuples(&root).map(listed),
        ["params"] => tidy::params(&root).map(listed),
        ["results"] => results::write(&root).map(|pages| {
            pages.iter().for_each(|page| println!("wrote {page}"));
            ExitCode::SUCCESS
        }),
        ["results", "--check"] => results::check_tree(&root).map(|findings| found(&findings)),
        ["goals", name] => return goals(&root, name),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error: io::Error| {
        eprintln!("xtask: {error}");
        ExitCode::from(2)
    })
}

/// Judges the named tests, and lists those that were skipped: they are not proven here.
fn passed(root: &Path, output: &str, skips: &str) -> io::Result<ExitCode> {
    // No test was skipped if there is no file.
    let reports = match std::fs::read(skips) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        reports => reports?,
    };
    let skipped = tidy::skipped(root, &String::from_utf8_lossy(&reports))?;
    skipped.iter().for_each(|finding| println!("not proven here: {finding}"));
    let output = std::fs::read(output)?;
    Ok(found(&tidy::not_passed(root, &String::from_utf8_lossy(&output))?))
}

fn commits(root: &Path) -> io::Result<ExitCode> {
    let without = match commits::check(root)? {
        Checked::Without(without) => without,
        Checked::NoHistory => {
            println!("commits: not checked, the history is not here");
            return Ok(ExitCode::SUCCESS);
        }
    };
    for commit in &without {
        println!("{commit}: has no body: say why the change is made");
    }
    Ok(if without.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn found(findings: &[Finding]) -> ExitCode {
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn listed(functions: tidy::Functions) -> ExitCode {
    println!("{functions}");
    ExitCode::SUCCESS
}

fn checked(root: &Path, change: Ratchet) -> io::Result<ExitCode> {
    let report = tidy::run(root, change)?;
    println!("{report}");
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn goals(root: &Path, name: &str) -> ExitCode {
    match results::goals_of(root, name, io::stdin()) {
        Ok(goals) => {
            println!("{goals}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
