//! The commands that read a capture, each as a process with a limit of memory and of time.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::feeds::{FEEDS, MutatedFeed};
use crate::mutate::Mutant;
use crate::support::{HANG, Home, Node, try_get, until};

/// The address space of a command, in KiB: far more than a recording of 30 packets needs.
const MEMORY_KIB: u64 = 1 << 20;
/// One mutant of a feed in so many is served by a gateway.
const SERVED: u64 = 10;

/// Runs commands on mutants.
#[derive(Debug)]
pub struct Commands {
    dir: TempDir,
}

impl Commands {
    pub fn new() -> Commands {
        Commands { dir: tempfile::tempdir().unwrap() }
    }

    /// Runs each command on a mutant.
    pub fn check(&self, feed: &MutatedFeed, mutant: &Mutant, seed: u64) {
        let path = self.dir.path().join("mutant");
        std::fs::write(&path, &mutant.file).unwrap();
        let file = path.to_str().unwrap();
        // Seeds go round the feeds.
        let round = seed / FEEDS.len() as u64;
        let json: &[&str] = if round.is_multiple_of(2) { &["--json"] } else { &[] };
        let commands: [&[&str]; 3] = [
            &["feed", "inspect", file, "--feed", feed.name],
            &["feed", "stats", file, "--feed", feed.name],
            &["book", "AAPL", "--capture", file, "--feed", feed.name],
        ];
        for words in commands {
            let words = [words, json].concat();
            expect_an_end(&words, &run(&words), seed);
        }
        if round.is_multiple_of(SERVED) {
            serve(feed, path, seed);
        }
    }
}

/// Runs a command with a limit of memory; panics if it hangs.
fn run(words: &[&str]) -> Output {
    let limited = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_weir")]).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    wait(&mut child, words);
    child.wait_with_output().unwrap()
}

fn wait(child: &mut Child, words: &[&str]) {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > HANG {
            child.kill().unwrap();
            panic!("{words:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Expects success, or an error that is told.
fn expect_an_end(words: &[&str], output: &Output, seed: u64) {
    let said = String::from_utf8_lossy(&output.stderr);
    let is_right = match output.status.code() {
        Some(0) => true,
        Some(1) => !said.trim().is_empty() && !said.contains("panicked"),
        _ => false,
    };
    assert!(is_right, "seed {seed}: {words:?} ended with {:?}: {said}", output.status);
}

/// Serves a mutant's file by a gateway, to its end.
fn serve(feed: &MutatedFeed, path: PathBuf, seed: u64) {
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n[market_gateway.feed]\nname = \"{}\"\n\
         [market_gateway.feed.capture]\nfile = {path:?}\nspeed = \"max\"\n",
        feed.name
    );
    let home = Home::with_config("memory", &config);
    match home.spawn().wait() {
        Ok(node) => {
            until("the end of the file", || {
                let receive = page(&node, "/status", seed);
                receive.contains("\"is_over\":true").then_some(())
            });
            page(&node, "/metrics", seed);
            assert!(node.terminate().success(), "seed {seed}: {}", home.said());
        }
        // A file that is none of the feed is refused by its name.
        Err(_) => assert!(home.said().contains("feed.capture.file"), "{seed}: {}", home.said()),
    }
    assert!(!home.said().contains("panicked"), "seed {seed}: {}", home.said());
}

/// Returns a page of a node, which must answer.
pub fn page(node: &Node, path: &str, seed: u64) -> String {
    let (code, body) = try_get(node.http(), path).expect("it answers");
    assert_eq!(code, 200, "seed {seed}: {path}: {body}");
    body
}
