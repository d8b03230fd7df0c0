//! Commands that work on a node's directory, and a node whose files change often.

use std::path::Path;
use std::process::{Command, Output};

/// Small segments and frequent snapshots.
pub const SMALL: &str = "[log]\nsegment_bytes = 1048576\n[events]\nsegment_bytes = 1048576\n\
                         [snapshots]\nevery_commands = 1000\n";

/// Runs `weir` with these words and options that are paths.
pub fn weir(words: &[&str], paths: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words);
    for (option, path) in paths {
        command.arg(option).arg(path);
    }
    command.output().unwrap()
}
