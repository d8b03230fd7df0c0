//! The embedded log against a plain vector, over random workloads on the simulated disk.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use proptest::prelude::*;
use support::{append, commit, config, read_all};
use weir_io::{SimDisk, SimFaults};
use weir_log::{Durability, EmbeddedLog, SequencedLog};
use weir_types::{Nanos, Position};

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<usize>),
    Work(u64),
    Commit,
    Flush,
    Truncate(u64),
    Close,
    Crash,
}

fn step() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => prop::collection::vec(0usize..600, 1..5).prop_map(Op::Append),
        6 => (0u64..3_000).prop_map(Op::Work),
        2 => Just(Op::Commit),
        1 => Just(Op::Flush),
        1 => (0u64..200).prop_map(Op::Truncate),
        1 => Just(Op::Close),
        1 => Just(Op::Crash),
    ]
}

fn level() -> impl Strategy<Value = Durability> {
    prop_oneof![Just(Durability::Memory), Just(Durability::Os), Just(Durability::Disk)]
}

fn entry(position: u64, size: usize) -> Vec<u8> {
    let mut bytes = position.to_le_bytes().to_vec();
    bytes.resize(size.max(8), position as u8);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_was_committed_reads_back_as_a_vector_would(
        steps in prop::collection::vec(step(), 1..60),
        level in level(),
        seed in any::<u64>(),
        short_writes in prop_oneof![Just(0u64), Just(300)],
    ) {
        let mut disk = SimDisk::new(seed);
        let faults = |short_writes_per_mille| {
            SimFaults { short_writes_per_mille, ..SimFaults::default() }
        };
        disk.set_faults(faults(short_writes));
        let (mut log, _) = EmbeddedLog::open(config(level), disk.clone()).unwrap();
        let mut model: Vec<Vec<u8>> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Op::Append(sizes) => {
                    let next = model.len() as u64 + 1;
                    let entries: Vec<Vec<u8>> =
                        sizes.iter().zip(next..).map(|(size, at)| entry(at, *size)).collect();
                    prop_assert_eq!(append(&mut log, &entries), Position(next));
                    model.extend(entries);
                }
                Op::Work(pause) => {
                    now += pause;
                    log.do_work(Nanos(now)).unwrap();
                }
                Op::Commit => commit(&mut log, false),
                Op::Flush => log.flush_blocking().unwrap(),
                Op::Truncate(before) => {
                    log.truncate(Position(before.min(log.committed().0)));
                }
                Op::Close | Op::Crash => {
                    let closes = matches!(step, Op::Close);
                    if closes {
                        log.close().unwrap();
                    }
                    let committed = log.committed().0;
                    drop(log);
                    disk = disk.after_process_crash();
                    disk.set_faults(faults(short_writes));
                    let report;
                    (log, report) = EmbeddedLog::open(config(level), disk.clone()).unwrap();
                    prop_assert_eq!(report.clean, closes);
                    let kept = report.positions.end - 1;
                    // At level memory a commit does not survive the process.
                    if level != Durability::Memory || closes {
                        prop_assert!(kept >= committed);
                    }
                    prop_assert!(kept <= model.len() as u64);
                    model.truncate(kept as usize);
                }
            }
        }
        log.flush_blocking().unwrap();
        let first = log.first_position().0;
        let got = read_all(&mut log, Position(first)).unwrap();
        let want: Vec<(u64, Vec<u8>)> =
            (1..).zip(model).filter(|(at, _)| *at >= first).collect();
        prop_assert_eq!(got, want);
    }
}
