//! A machine whose wall clock can be set and whose disk can stall, for a node that is the real
//! binary: `machine.c`, preloaded, stands between the node and the C library.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use super::{Home, Node, Starting};

/// A node's machine.
pub struct Machine {
    library: PathBuf,
    words_at: PathBuf,
    words: File,
    stalls_in: Option<PathBuf>,
}

impl Machine {
    /// Builds the machine in a home's directory: on time, and with a disk that works.
    pub fn new(home: &Home) -> Machine {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/machine.c");
        let (library, words_at) = (home.path("machine.so"), home.path("machine"));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
        let built = compiler.status().expect("Rust's linker is a C compiler");
        assert!(built.success(), "machine.c does not compile");
        std::fs::write(&words_at, [0; 16]).unwrap();
        let words = File::options().write(true).open(&words_at).unwrap();
        Machine { library, words_at, words, stalls_in: None }
    }

    /// Makes only the syncs of files below a directory stall: those of a disk of its own.
    pub fn stalling_in(self, dir: PathBuf) -> Machine {
        Machine { stalls_in: Some(dir), ..self }
    }

    /// Starts a node on this machine.
    pub fn start(&self, home: &Home) -> Node {
        home.start_with(|command| self.be_of(command))
    }

    /// Starts a node on this machine without waiting for it.
    pub fn spawn(&self, home: &Home) -> Starting {
        home.spawn_with(|command| self.be_of(command))
    }

    fn be_of(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("WEIR_TEST_MACHINE", &self.words_at);
        command.envs(self.stalls_in.iter().map(|dir| ("WEIR_TEST_STALLS_IN", dir)));
    }

    /// Sets the wall clock this many seconds ahead of the true time.
    pub fn set_wall_clock(&self, ahead_s: i64) {
        self.put(0, ahead_s * 1_000_000_000);
    }

    /// Stalls the disk's syncs, or lets them go on.
    pub fn stall_disk(&self, is_stalled: bool) {
        self.put(8, i64::from(is_stalled));
    }

    /// Stalls the syncs of a process after its first `count`.
    pub fn stall_disk_after(&self, count: u32) {
        self.put(8, i64::from(count) + 1);
    }

    fn put(&self, at: u64, word: i64) {
        self.words.write_all_at(&word.to_le_bytes(), at).unwrap();
    }
}
