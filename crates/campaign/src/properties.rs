//! `properties`: the workspace's property tests, again and again with seeds of their own.
//!
//! In `./x test` a property meets some hundred cases: one of ten thousand fails there now and then,
//! and is hard to repeat. Here it is found, with its seed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Options of `weir-campaign properties`.
#[derive(Debug, clap::Args)]
pub(crate) struct PropertiesArgs {
    /// Runs of each test.
    #[arg(default_value_t = 50)]
    rounds: u64,
    /// Seed of the first round; each round has the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only tests with this in their names.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Seconds after which a run has failed: it waits for ever.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    limit: u64,
}

/// A test program, and the directory of its package.
struct Program {
    path: PathBuf,
    package: PathBuf,
}

/// A property test.
struct Property {
    program: Program,
    name: String,
}

/// The result of a run.
enum Ran {
    Passed,
    Failed(String),
}

/// Runs the campaign.
pub(crate) fn run(args: &PropertiesArgs) -> ExitCode {
    match try_run(args) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("properties: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the number of failed runs.
fn try_run(args: &PropertiesArgs) -> anyhow::Result<usize> {
    let names = names_below(Path::new("crates"))?;
    let mut properties = Vec::new();
    for program in programs()? {
        properties.extend(properties_of(&program, &names)?);
    }
    properties.retain(|property| property.name.contains(&args.only));
    ensure!(!properties.is_empty(), "no property test has {:?} in its name", args.only);
    println!("{} property tests, {} rounds from seed {}", properties.len(), args.rounds, args.seed);
    let failures = run_all(&properties, args);
    for failure in &failures {
        println!("{failure}");
    }
    println!(
        "{{\"campaign\": \"properties\", \"tests\": {}, \"rounds\": {}, \"seed\": {}, \
         \"failures\": {}}}",
        properties.len(),
        args.rounds,
        args.seed,
        failures.len(),
    );
    Ok(failures.len())
}

/// Runs each test with each seed, on all cores; returns a line for each failure.
fn run_all(properties: &[Property], args: &PropertiesArgs) -> Vec<String> {
    let (next, failures) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let runs = args.rounds * properties.len() as u64;
    let work = || {
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= runs {
                return;
            }
            // All tests of a round come before the next round.
            let property = &properties[usize::try_from(run).expect("small") % properties.len()];
            let seed = args.seed + run / properties.len() as u64;
            let ran = run_one(property, seed, Duration::from_secs(args.limit));
            if let Ran::Failed(why) = ran {
                let line = format!("{} with PROPTEST_RNG_SEED={seed}: {why}", property.name);
                eprintln!("failed: {line}");
                failures.lock().expect("no holder panics").push(line);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    failures.into_inner().expect("no holder panics")
}

fn run_one(property: &Property, seed: u64, limit: Duration) -> Ran {
    let Property { program, name } = property;
    // A failure is not kept beside the sources: each later run would begin with it.
    let spawned = Command::new(&program.path)
        .args([name, "--exact", "--nocapture"])
        .current_dir(&program.package)
        .env("PROPTEST_RNG_SEED", seed.to_string())
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Ran::Failed(error.to_string()),
    };
    // A pipe that nobody reads would stop a test that has much to say.
    let mut said = child.stderr.take().expect("it is a pipe");
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = std::io::Read::read_to_end(&mut said, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let until = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            _ => break None,
        }
    };
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let text = reader.join().unwrap_or_default();
    match status {
        Some(status) if status.success() => Ran::Passed,
        Some(_) => Ran::Failed(reason_in(&text)),
        None => Ran::Failed(format!("not at its end after {limit:?}")),
    }
}

/// Returns the message of the last panic.
fn reason_in(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().rposition(|line| line.contains("panicked at"));
    let reason = at.and_then(|at| lines.get(at + 1)).or(lines.last());
    reason.map_or_else(|| "it said nothing".to_owned(), |line| (*line).to_owned())
}

/// Builds the workspace's test programs.
fn programs() -> anyhow::Result<Vec<Program>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["test", "--release", "--workspace", "--no-run", "--message-format=json"];
    let built = Command::new(cargo)
        .args(build)
        .stderr(Stdio::inherit())
        .output()
        .context("the build of the tests")?;
    ensure!(built.status.success(), "the tests cannot be built");
    let mut programs = Vec::new();
    for line in built.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{")) {
        let message: Value = serde_json::from_slice(line).context("a message of the build")?;
        let manifest = message["manifest_path"].as_str().and_then(|path| Path::new(path).parent());
        if let (Some(true), Some(path), Some(package)) =
            (message["profile"]["test"].as_bool(), message["executable"].as_str(), manifest)
        {
            programs.push(Program { path: path.into(), package: package.into() });
        }
    }
    Ok(programs)
}

/// Returns the tests of a program that are properties.
fn properties_of(program: &Program, names: &BTreeSet<String>) -> anyhow::Result<Vec<Property>> {
    let Program { path, package } = program;
    let listed = Command::new(path).args(["--list", "--format=terse"]).output();
    let listed = listed.with_context(|| format!("the tests of {}", path.display()))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let of_names =
        tests.filter(|test| test.rsplit("::").next().is_some_and(|name| names.contains(name)));
    let property = |test: &str| Property {
        program: Program { path: path.clone(), package: package.clone() },
        name: test.to_owned(),
    };
    Ok(of_names.map(property).collect())
}

/// Returns the names of all tests below a directory whose arguments come from strategies.
fn names_below(dir: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            names.append(&mut names_below(&path)?);
        } else if path.extension() == Some(OsStr::new("rs")) {
            names.extend(names_in(&fs::read_to_string(&path)?));
        }
    }
    Ok(names)
}

fn names_in(source: &str) -> impl Iterator<Item = String> {
    source.split("#[test]").skip(1).filter_map(|test| {
        let (name, rest) = test.trim_start().strip_prefix("fn ")?.split_once('(')?;
        let (arguments, _) = rest.split_once('{')?;
        arguments.contains(" in ").then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_a_test_with_strategies() {
        let source = "
            #[test]
            fn plain() { for x in 0..2 {} }
            proptest! {
                #[test]
                fn one_line(a in 0..3u32) { run(a) }
                #[test]
                fn many_lines(
                    (a, b) in pairs(),
                    c in any::<u64>(),
                ) {
                    run(a, b, c)
                }
            }";
        assert_eq!(names_in(source).collect::<Vec<_>>(), ["one_line", "many_lines"]);
    }

    #[test]
    fn the_message_of_the_last_panic_is_the_reason() {
        let text = "thread 'a' panicked at a.rs:1:1:\nfirst\n\
                    thread 'a' panicked at b.rs:2:2:\nsecond\nnote: more\n";
        assert_eq!(reason_in(text), "second");
        assert_eq!(reason_in(""), "it said nothing");
    }
}
