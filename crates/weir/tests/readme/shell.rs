//! Commands of a page in one shell: in a directory of their own, in order, with the default ports
//! moved to free ones by `WEIR_PORT_BASE`.
//!
//! Each command has to exit with zero and to print something; one in the background has to print
//! until the end.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Longer than the commands of a page take on any machine.
const HANG: Duration = Duration::from_secs(300);
/// The offsets of the default ports.
const OFFSETS: [u16; 9] = [1, 3, 11, 12, 13, 80, 81, 82, 83];

/// Returns a page's blocks of this language.
pub fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let end = |block: &'a str| block.split_once("\n```").expect("a block ends").0;
    page.split(&*fence).skip(1).map(end).collect()
}

/// Returns the commands of a block of `sh`.
pub fn commands_of(block: &str) -> Vec<String> {
    // A line that ends with a backslash continues on the next.
    let block = block.replace("\\\n", " ");
    let lines = block.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

pub fn is_in_background(command: &str) -> bool {
    command.split('#').next().is_some_and(|words| words.trim_end().ends_with('&'))
}

/// A shell script that runs the commands; each one's output and status go to files of their own.
fn script(commands: &[String]) -> String {
    let mut text = String::from("out=$1\npids=\n");
    for (number, command) in commands.iter().enumerate() {
        let _ = writeln!(text, "exec >\"$out/{number}\" 2>&1\n{command}");
        let _ = writeln!(text, "echo $? >\"$out/{number}.status\"");
        if is_in_background(command) {
            text.push_str("pids=\"$pids $!\"\n");
        }
    }
    text.push_str("kill $pids\nwait\n");
    text
}

/// Returns a base from which all default ports are free. Pages are run side by side: each has a
/// `lane` of its own.
pub fn port_base(lane: u16) -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 20_000 + u16::try_from(std::process::id() % 10).unwrap() * 1_000 + lane * 100;
    let mut bases =
        (first..30_000).step_by(1_000).chain((20_000 + lane * 100..first).step_by(1_000));
    bases.find(|base| OFFSETS.iter().all(|offset| is_free(base + offset))).expect("free ports")
}

/// The shell and all that it started end with the test.
struct Shell(Child);

impl Shell {
    fn wait(&mut self) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < HANG {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).expect("a child has an id");
        // A group that has ended already is the usual case.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Runs the commands in `dir`.
///
/// # Panics
/// If one fails, prints nothing, or does not end.
pub fn run(commands: &[String], dir: &Path, port_base: u16) {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(home.path().join("script"), script(commands)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.arg(home.path().join("script")).arg(&out).current_dir(dir).process_group(0);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WEIR_")) {
        shell.env_remove(name);
    }
    shell.env("PATH", path).env("WEIR_PORT_BASE", port_base.to_string());
    let mut shell = Shell(shell.stdin(Stdio::null()).spawn().unwrap());
    let ended = shell.wait();
    let (mut failed, mut all) = (Vec::new(), String::new());
    for (number, command) in commands.iter().enumerate() {
        let read = |name: String| std::fs::read_to_string(out.join(name)).unwrap_or_default();
        let (said, status) = (read(number.to_string()), read(format!("{number}.status")));
        let _ = writeln!(all, "$ {command}\nstatus {}, output:\n{said}", status.trim());
        if status.trim() != "0" || said.trim().is_empty() {
            failed.push(command);
        }
    }
    // A command may fail because of one before it: a node that ended, for instance.
    assert!(failed.is_empty(), "failed or silent: {failed:#?}\n\n{all}");
    assert!(ended.is_some(), "the commands did not end within {HANG:?}");
}
