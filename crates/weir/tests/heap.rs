//! Freed large buffers return to the system. The test is its own process, since the setting applies
//! to the whole process.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

/// The bytes of a page with many rows.
const LONG: usize = 200 * 1024;
const COUNT: usize = 500;

/// Returns this process's resident memory in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib * 1024
}

#[test]
fn what_was_freed_of_large_buffers_goes_back_though_small_ones_between_them_stay() {
    weir_node::heap::give_large_buffers_back();
    // By default, freeing a large buffer raises the allocator's threshold for such buffers.
    drop(vec![1u8; 2 * LONG]);
    let before = resident();
    let (mut long, mut short) = (Vec::new(), Vec::new());
    for _ in 0..COUNT {
        long.push(vec![1u8; LONG]);
        short.push(vec![1u8; 1_000]);
    }
    assert!(resident() - before > COUNT * LONG / 2, "they are there");
    drop(long);
    let kept = resident().saturating_sub(before);
    assert!(kept < COUNT * LONG / 10, "{kept} bytes are kept, {} were freed", COUNT * LONG);
    assert_eq!(short.len(), COUNT);
}
