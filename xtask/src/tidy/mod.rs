//! `tidy`: reads the whole tree once and names each place that breaks a rule of the house.
//!
//! One module per subject; each check is a function from sources to findings, with a planted
//! violation in its tests, so that a check that has stopped finding anything is itself found. A
//! finding always names file, line and remedy. Checks never run a command and never look at version
//! control, so that they hold in an unpacked archive too.

mod arrows;
mod banned;
mod border;
mod circles;
mod docs;
mod floor;
mod named_tests;
mod params;
mod plants;
mod prose;
mod ratchet;
mod sizes;
mod source;
mod text;
mod tokens;
mod tuples;
mod type_names;
mod unsafety;

use std::fmt;
use std::io;
use std::path::Path;

pub use crate::finding::Finding;
pub(crate) use crate::tree::Tree;
pub use plants::Plant;
use source::Source;

/// All findings of one run, with what was looked at.
#[derive(Debug)]
pub struct Report {
    /// Broken rules by path and line.
    pub findings: Vec<Finding>,
    /// Rust sources read.
    pub source_count: usize,
    /// Text files read, Rust sources included.
    pub text_count: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        let Report { source_count, text_count, .. } = self;
        let found = self.findings.len();
        write!(f, "tidy: {source_count} sources, {text_count} text files, {found} findings")
    }
}

/// Functions of one kind that the ratchet counts.
#[derive(Debug)]
pub struct Functions {
    /// The kind, as the ratchet names it.
    pub kind: &'static str,
    /// The functions by path and line.
    pub places: Vec<Finding>,
    /// All functions of the tree.
    pub function_count: usize,
}

impl fmt::Display for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in &self.places {
            writeln!(f, "{place}")?;
        }
        let (kind, count, all) = (self.kind, self.places.len(), self.function_count);
        write!(f, "{kind}: {count} of {all} functions")
    }
}

/// A change of the ratchet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ratchet {
    /// None.
    Keep,
    /// Entries come down to today's sizes.
    Tighten,
    /// Entries are made anew from today's sizes, also where they grew.
    Write,
}

/// Checks the project under `root`, after a change of the ratchet.
///
/// # Errors
///
/// When a file of the tree cannot be read, or the ratchet cannot be written.
pub fn run(root: &Path, change: Ratchet) -> io::Result<Report> {
    let tree = Tree::read(root)?;
    let (sources, mut findings) = parse(&tree);
    let mut excesses = sizes::excesses(&tree, &sources);
    excesses.extend(prose::excesses(&tree, &sources));
    excesses.extend(tuples::excesses(&tree, &sources));
    excesses.extend(params::excesses(&tree, &sources));
    let rewritten = match change {
        Ratchet::Keep => None,
        Ratchet::Tighten => Some(ratchet::tightened(&tree, &excesses)),
        Ratchet::Write => Some(ratchet::written(&excesses)),
    };
    if let Some(text) = rewritten {
        std::fs::write(root.join(ratchet::RATCHET_PATH), text)?;
        return run(root, Ratchet::Keep);
    }
    findings.extend(ratchet::check(&tree, &excesses));
    findings.extend(floor::check(&tree));
    findings.extend(sizes::check(&tree));
    findings.extend(arrows::check(&tree));
    findings.extend(banned::check(&sources));
    findings.extend(border::check(&sources));
    findings.extend(circles::check(&sources));
    findings.extend(type_names::check(&sources));
    let tests = named_tests::test_names(&sources);
    findings.extend(plants::check(&tree));
    findings.extend(unsafety::check(&tree, &sources, &tests));
    findings.extend(text::check(&tree, &sources));
    findings.extend(docs::check(&tree));
    findings.extend(named_tests::check(&tree, &tests));
    findings.extend(crate::results::check(&tree));
    findings.sort();
    Ok(Report { findings, source_count: sources.len(), text_count: tree.files.len() })
}

/// The tests named on pages that did not pass, by the output of `cargo test`.
///
/// # Errors
///
/// When a file of the tree cannot be read.
pub fn not_passed(root: &Path, output: &str) -> io::Result<Vec<Finding>> {
    Ok(named_tests::not_passed(&Tree::read(root)?, output))
}

/// The tests named on pages that were skipped, by their reports (`crates/skip`).
///
/// # Errors
///
/// When a file of the tree cannot be read.
pub fn skipped(root: &Path, reports: &str) -> io::Result<Vec<Finding>> {
    Ok(named_tests::skipped(&Tree::read(root)?, reports))
}

/// Every place that counts against the limits of prose, in the ratchet or not.
///
/// # Errors
///
/// When a file of the tree cannot be read.
pub fn prose(root: &Path) -> io::Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let (sources, _) = parse(&tree);
    Ok(prose::offenders(&tree, &sources).into_iter().map(|offender| offender.finding).collect())
}

/// The planted bugs of all crates.
///
/// # Errors
///
/// When a file of the tree cannot be read.
pub fn plants(root: &Path) -> io::Result<Vec<Plant>> {
    Ok(plants::list(&Tree::read(root)?))
}

/// Every function that takes a tuple, in the ratchet or not.
///
/// # Errors
///
/// When a file of the tree cannot be read.
pub fn tuples(root: &Path) -> io::Result<Functions> {
    functions(root, "tuples", tuples::places)
}

/// Every function with more parameters than the aim, in the ratchet or not.
///
/// # Errors
///
/// When a file of the tree cannot be read.
pub fn params(root: &Path) -> io::Result<Functions> {
    functions(root, "params", params::places)
}

fn functions(
    root: &Path,
    kind: &'static str,
    places: fn(&[Source]) -> Vec<Finding>,
) -> io::Result<Functions> {
    let tree = Tree::read(root)?;
    let (sources, _) = parse(&tree);
    let function_count = sources.iter().map(|source| source.functions.len()).sum();
    Ok(Functions { kind, places: places(&sources), function_count })
}

fn parse(tree: &Tree) -> (Vec<Source>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut sources = Vec::new();
    for file in tree.with_extension("rs") {
        match Source::parse(&file.path, &file.text) {
            Ok(source) => sources.push(source),
            Err(finding) => findings.push(finding),
        }
    }
    Source::mark_test_files(&mut sources);
    (sources, findings)
}
