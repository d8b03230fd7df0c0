//! The location of recorded market data: the folder in `WEIR_DATA`. The data is never copied.

use std::io::Write;
use std::path::PathBuf;

/// Returns the path of recorded data; prints a warning and returns `None` without it.
pub fn data(path: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("WEIR_DATA") else {
        // Writes past the test harness, which captures the output of passing tests.
        let mut stderr = std::io::stderr();
        _ = writeln!(stderr, "NOT CHECKED: WEIR_DATA is not set, so {path} was not read");
        return None;
    };
    Some(PathBuf::from(root).join(path))
}
