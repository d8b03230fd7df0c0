//! Ends a test that hangs, and says where: a check that never comes back tells nobody anything.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The longest time of a test, in seconds; `WEIR_TEST_LIMIT_S` sets another, for long campaigns.
const LIMIT_S: u64 = 600;

/// Watches over a test until it is dropped. A test that takes longer ends the whole program, as
/// nothing else ends a thread that waits for a child or a socket.
pub struct Watchdog {
    _released_by_drop: Sender<()>,
}

impl Watchdog {
    /// Watches the test of this thread, whose node logs to the file `log`.
    pub fn start(log: PathBuf) -> Watchdog {
        let (released_by_drop, is_released) = channel();
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let limit = std::env::var("WEIR_TEST_LIMIT_S").ok().and_then(|text| text.parse().ok());
        let limit = Duration::from_secs(limit.unwrap_or(LIMIT_S));
        std::thread::spawn(move || {
            if is_released.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // Not by a macro: what those print is kept until the test has ended.
                let _ = std::io::stderr().write_all(report(&test, limit, &log).as_bytes());
                for child in family().into_iter().filter_map(Pid::from_raw) {
                    let _ = kill_process(child, Signal::KILL);
                }
            }
        });
        Watchdog { _released_by_drop: released_by_drop }
    }
}

/// Returns the processes that this one started, and at last its own.
fn family() -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let mut all = numbers_in(Path::new("/proc"));
    all.retain(|process| parent_of(*process) == Some(own));
    all.push(own);
    all
}

/// Says what the threads of this process and of its children wait for, and the end of the log.
fn report(test: &str, limit: Duration, log: &Path) -> String {
    let mut text = format!("\ntest {test} hangs: it runs for {limit:?}\n");
    family().into_iter().for_each(|process| describe(process, &mut text));
    let said = std::fs::read_to_string(log).unwrap_or_else(|error| error.to_string());
    let lines: Vec<&str> = said.lines().collect();
    let _ = writeln!(text, "its node said last:");
    for line in &lines[lines.len().saturating_sub(20)..] {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn describe(process: i32, text: &mut String) {
    let dir = PathBuf::from(format!("/proc/{process}"));
    let _ = writeln!(text, "process {process}: {}", read(&dir.join("cmdline")).replace('\0', " "));
    for thread in numbers_in(&dir.join("task")) {
        let dir = dir.join(format!("task/{thread}"));
        let state = read(&dir.join("stat"));
        let state = state.rsplit(") ").next().unwrap_or_default().chars().next().unwrap_or('?');
        let (name, place) = (read(&dir.join("comm")), read(&dir.join("wchan")));
        let _ = writeln!(text, "  {state} {name} in {place}, call {}", read(&dir.join("syscall")));
    }
}

fn parent_of(process: i32) -> Option<i32> {
    let stat = read(Path::new(&format!("/proc/{process}/stat")));
    // After the name in parentheses: the state, then the parent (proc(5)).
    stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
}

fn numbers_in(dir: &Path) -> Vec<i32> {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
}
