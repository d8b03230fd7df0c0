//! Standard output of commands.
//!
//! The reader of a pipe may leave before its end, as in `weir orders | head`. A command then ends
//! quietly and with success, because nobody is left to write for; std's `println!` panics. All
//! output of a command goes through this module: the two macros take the place of std's in this
//! crate.

use std::fmt::Arguments;
use std::io::{ErrorKind, Result, StdoutLock, Write};

/// std's `println!`, except that the process ends when the reader has left.
macro_rules! println {
    ($($part:tt)*) => { $crate::output::put(format_args!("{}\n", format_args!($($part)*))) };
}

/// std's `print!`, except that the process ends when the reader has left.
macro_rules! print {
    ($($part:tt)*) => { $crate::output::put(format_args!($($part)*)) };
}

/// Standard output, locked. A write ends the process when the reader has left.
#[derive(Debug)]
pub(crate) struct Output(StdoutLock<'static>);

/// Locks standard output.
pub(crate) fn stdout() -> Output {
    Output(std::io::stdout().lock())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        end_without_reader(self.0.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        end_without_reader(self.0.flush())
    }
}

fn end_without_reader<T>(written: Result<T>) -> Result<T> {
    if matches!(&written, Err(error) if error.kind() == ErrorKind::BrokenPipe) {
        std::process::exit(0);
    }
    written
}

/// Prints text. A write that fails for another reason than a reader that has left, such as a full
/// disk, ends the process with an error.
pub(crate) fn put(text: Arguments<'_>) {
    if let Err(error) = stdout().write_fmt(text) {
        eprintln!("weir: standard output: {error}");
        std::process::exit(1);
    }
}

/// Prints a page that is refreshed: at the top of a cleared screen, or below the one before if
/// `is_appended`.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn refresh(page: &str, is_appended: bool) -> Result<()> {
    let clear = if is_appended { "" } else { "\x1b[2J\x1b[H" };
    let mut out = stdout();
    write!(out, "{clear}{page}")?;
    out.flush()
}

/// Prints a line of a process that does more than print, such as a node: it goes on when nobody
/// reads the line.
pub(crate) fn announce(text: Arguments<'_>) {
    // The line is for people and scripts; the work does not depend on it.
    let _ = writeln!(std::io::stdout(), "{text}");
}
