//! The remains of killed iceoryx2 processes, and whether others can still open the service.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use iceoryx2::prelude::*;
use serde_json::{Value, json};

use super::ends::try_service;

/// Starts and kills processes, `count` times.
pub fn kills(count: u32) -> Value {
    let before = files();
    let name = format!("weir-kills-{}", std::process::id());
    let (mut refused, mut most, mut longest) = (Vec::new(), 0, Duration::ZERO);
    for round in 0..count {
        let mut children = ["publisher", "subscriber"].map(|role| start(role, &name));
        // Some are killed while they start, some while they exchange messages.
        std::thread::sleep(Duration::from_millis(u64::from(round % 10) * 10));
        for child in &mut children {
            child.kill().expect("it is killed");
            child.wait().expect("it is gone");
        }
        most = most.max(files().saturating_sub(before));
        let begun = Instant::now();
        let opened = NodeBuilder::new()
            .create::<ipc::Service>()
            .map_err(|error| format!("{error:?}"))
            .and_then(|node| try_service(&node, &name).map(drop));
        longest = longest.max(begun.elapsed());
        refused.extend(opened.err());
    }
    let left = files().saturating_sub(before);
    json!({
        "bench": "iceoryx2-kills", "kills": count, "refused": refused.len(),
        "reasons": refused, "files_at_most": most, "files_left": left,
        "longest_open_ms": longest.as_millis() as u64,
    })
}

fn start(role: &str, name: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["victim", role, name]).stdin(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

/// The process to be killed.
pub fn victim(role: &str, name: &str) {
    let node = NodeBuilder::new().create::<ipc::Service>().expect("a node");
    let service = try_service(&node, name).expect("a service");
    if role == "publisher" {
        let publisher = service.publisher_builder().create().expect("a publisher");
        loop {
            publisher.send_copy([7; super::LEN]).expect("it sends");
        }
    }
    let subscriber = service.subscriber_builder().create().expect("a subscriber");
    loop {
        let _ = subscriber.receive().expect("it receives");
    }
}

/// The number of iceoryx2's files on this machine.
fn files() -> usize {
    count(Path::new("/dev/shm")) + count(Path::new("/tmp/iceoryx2"))
}

fn count(dir: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let of = |entry: std::fs::DirEntry| {
        let path = entry.path();
        if path.is_dir() {
            return count(&path);
        }
        let is_all = !dir.starts_with("/dev/shm");
        usize::from(is_all || entry.file_name().to_string_lossy().starts_with("iox2_"))
    };
    entries.flatten().map(of).sum()
}
