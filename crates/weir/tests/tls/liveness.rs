//! A stalled thread makes the node not live, whichever of the threads that orders depend on it is.

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use weir_skip::{Need, skip};

use crate::rig::Rig;
use crate::support::{ALICE, Node, until};

/// The watched threads; the machine decides which of the first three exist.
const WATCHED: [&str; 5] = ["core", "gateway", "partition", "delivery", "handshakes"];

/// Stopped threads of a process whose other threads run on.
struct Stopped(Vec<Pid>);

impl Stopped {
    fn add(&mut self, thread: Pid) -> Result<(), Errno> {
        ptrace::seize(thread, ptrace::Options::empty())?;
        self.0.push(thread);
        ptrace::interrupt(thread)?;
        waitpid(thread, Some(WaitPidFlag::__WALL)).map(|_| ())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // A thread that is gone need not be detached.
            let _ = ptrace::detach(thread, None);
        }
    }
}

fn watched_threads(node: &Node) -> Vec<(String, Pid)> {
    let tasks = format!("/proc/{}/task", node.pid().as_raw_nonzero());
    let tasks = std::fs::read_dir(tasks).unwrap().map(|task| task.unwrap().path());
    let threads = tasks.map(|task| {
        let name = std::fs::read_to_string(task.join("comm")).unwrap().trim().to_owned();
        let id = task.file_name().unwrap().to_str().unwrap().parse().unwrap();
        (name, Pid::from_raw(id))
    });
    threads.filter(|(name, _)| WATCHED.contains(&name.as_str())).collect()
}

#[test]
fn a_thread_that_stands_still_is_named_and_the_node_is_not_live_until_it_goes_on() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    rig.open_market(&node, &[ALICE]);
    assert_eq!(node.get("/live"), (200, "live\n".to_owned()));
    let threads = watched_threads(&node);
    assert!(threads.iter().any(|(name, _)| name == "handshakes"), "{threads:?}");
    assert!(threads.len() >= 3, "{threads:?}");
    let mut stopped = Stopped(Vec::new());
    for (_, thread) in &threads {
        if stopped.add(*thread) == Err(Errno::EPERM) {
            return skip(Need::Ptrace, "this user may not stop a thread of its own child");
        }
    }
    assert_eq!(stopped.0.len(), threads.len());
    let why = until("the node to be not live", || {
        let (code, why) = node.get("/live");
        let named = |(name, _): &(String, Pid)| why.contains(&format!("thread {name} has stood"));
        (code == 503 && threads.iter().all(named)).then_some(why)
    });
    assert_eq!(why.lines().count(), threads.len(), "{why}");
    assert_eq!(node.get("/ready").0, 503);
    drop(stopped);
    until("the node to be live again", || (node.get("/live").0 == 200).then_some(()));
    rig.trader(&node, ALICE).ask_for_report(ALICE.buy(1, 50, 1));
}
