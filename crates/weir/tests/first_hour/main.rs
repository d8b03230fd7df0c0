//! The command line on a node: trading by hand, a load over a restart, errors with the next step.
//!
//! Each test runs the program as a process and reads its output; no test measures time.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

mod cutter;
mod errors;
mod hand;
mod hostile;
mod json;
mod load;
#[path = "../tls/rig.rs"]
#[allow(dead_code, reason = "the programs of TLS take the rest")]
mod rig;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod support;

use std::process::{Command, Output};

use support::Node;

/// `weir` without any of its environment variables.
pub fn weir(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WEIR_")) {
        command.env_remove(name);
    }
    command.args(words);
    command
}

/// `weir` for a node's addresses.
pub fn weir_at(node: &Node, words: &[&str]) -> Command {
    let mut command = weir(words);
    command.args(["--node", &node.address().to_string(), "--http", node.http()]);
    command
}

/// Hexadecimal digits.
pub fn hex(key: [u8; 32]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The output of a command that succeeds.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The error of a command that fails.
pub fn fail(command: &mut Command) -> String {
    let output: Output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}
