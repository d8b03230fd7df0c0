//! Helpers that run `weir` on a node's directory, and a configuration whose files change often.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Node, OPERATOR};

/// Small segments and frequent snapshots.
pub const SMALL: &str = "[log]\nsegment_bytes = 1048576\n[events]\nsegment_bytes = 1048576\n\
                         [snapshots]\nevery_commands = 1000\n";

/// Returns a `weir` command that connects to a node as its operator.
pub fn weir_at(node: &Node, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words);
    command.args(["--node", &node.address().to_string(), "--http", node.http()]);
    let key: String = OPERATOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    command.env("WEIR_API_KEY", key);
    command
}

/// Runs `weir` with these arguments and path options.
pub fn weir(words: &[&str], paths: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words);
    for (option, path) in paths {
        command.arg(option).arg(path);
    }
    command.output().unwrap()
}
