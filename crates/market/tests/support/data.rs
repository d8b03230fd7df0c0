//! Where recorded market data lies: the folder that `WEIR_DATA` names. It never copies any of it.

use std::io::Write;
use std::path::PathBuf;

/// The path of recorded data; `None`, told loudly, where there is none.
pub fn data(path: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("WEIR_DATA") else {
        // Past the test harness, which keeps what a passing test prints to itself.
        let mut stderr = std::io::stderr();
        _ = writeln!(stderr, "NOT CHECKED: WEIR_DATA is not set, so {path} was not read");
        return None;
    };
    Some(PathBuf::from(root).join(path))
}
