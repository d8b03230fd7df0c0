//! The medium against the simulated disk of `weir-io`, an independent implementation of the same
//! fault model for a flat directory; and the rules that the simulated disk lacks.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_io::Disk;
use weir_io::SimDisk;
use weir_io::disk::sim::CrashChoice;
use weir_powercut::medium::{Ino, Medium, MediumError, SECTOR};
use weir_powercut::{Losses, PowerLoss};

/// An operation on files named by a letter.
#[derive(Clone, Debug)]
enum Op {
    Create(u8),
    Write(u8, u64, Vec<u8>),
    Sync(u8),
    Rename(u8, u8),
    Remove(u8),
    SyncNames,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let file = 0..4_u8;
    let op = prop_oneof![
        2 => file.clone().prop_map(Op::Create),
        6 => (file.clone(), 0..3000_u64, prop::collection::vec(any::<u8>(), 1..1500))
            .prop_map(|(file, at, bytes)| Op::Write(file, at, bytes)),
        2 => file.clone().prop_map(Op::Sync),
        1 => (file.clone(), file.clone()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => file.prop_map(Op::Remove),
        1 => Just(Op::SyncNames),
    ];
    prop::collection::vec(op, 1..40)
}

fn name(file: u8) -> String {
    char::from(b'a' + file).to_string()
}

/// Applies an operation to both; both must refuse the same ones.
fn apply(op: &Op, medium: &mut Medium, sim: &mut SimDisk) {
    let find = |medium: &Medium, file: u8| medium.lookup(Ino::ROOT, &name(file)).ok();
    match op {
        // The simulated disk replaces a truncated file by a new one, which the medium does not.
        Op::Create(file) if find(medium, *file).is_some() => {}
        Op::Create(file) => {
            medium.create(Ino::ROOT, &name(*file), 0o644).unwrap();
            let file = sim.create(&name(*file)).unwrap();
            sim.close(file);
        }
        Op::Write(file, at, bytes) => {
            let Some(ino) = find(medium, *file) else { return };
            medium.write(ino, *at, bytes).unwrap();
            let file = sim.open(&name(*file), weir_io::Access::Write).unwrap();
            sim.write_all(file, *at, bytes).unwrap();
            sim.close(file);
        }
        Op::Sync(file) => {
            let Some(ino) = find(medium, *file) else { return };
            medium.sync(ino, medium.moment()).unwrap();
            let file = sim.open(&name(*file), weir_io::Access::Write).unwrap();
            sim.sync(file).unwrap();
            sim.close(file);
        }
        Op::Rename(from, to) if from == to => {}
        Op::Rename(from, to) => {
            let renamed = medium.rename(Ino::ROOT, &name(*from), &name(*to));
            assert_eq!(renamed.is_ok(), sim.rename(&name(*from), &name(*to)).is_ok());
        }
        Op::Remove(file) => {
            let removed = medium.unlink(Ino::ROOT, &name(*file));
            assert_eq!(removed.is_ok(), sim.remove(&name(*file)).is_ok());
        }
        Op::SyncNames => {
            medium.sync(Ino::ROOT, medium.moment()).unwrap();
            sim.sync_dir().unwrap();
        }
    }
}

fn contents(medium: &Medium) -> BTreeMap<String, Vec<u8>> {
    let names = medium.list(Ino::ROOT).unwrap().into_iter();
    names
        .map(|(name, stat)| (name, medium.read(stat.ino, 0, usize::MAX / 2).unwrap().to_vec()))
        .collect()
}

fn contents_of_sim(sim: &mut SimDisk) -> BTreeMap<String, Vec<u8>> {
    let names = sim.list().unwrap().into_iter();
    names.map(|name| (name.clone(), sim.contents(&name).unwrap())).collect()
}

/// Checks that every sector of `found` is from one of the file's histories.
fn check_sectors(found: &[u8], histories: &[Vec<u8>]) {
    for (index, sector) in found.chunks(SECTOR).enumerate() {
        let at = index * SECTOR;
        let was = |history: &Vec<u8>| {
            let end = history.len().min(at + sector.len());
            let known = history.get(at..end).unwrap_or_default();
            sector.starts_with(known) && sector[known.len()..].iter().all(|byte| *byte == 0)
        };
        assert!(histories.iter().any(was), "sector {index} was never so");
    }
}

proptest! {
    #[test]
    fn live_and_surviving_files_are_those_of_the_simulated_disk(ops in ops()) {
        let (mut medium, mut sim) = (Medium::default(), SimDisk::new(1));
        for op in &ops {
            apply(op, &mut medium, &mut sim);
            prop_assert_eq!(contents(&medium), contents_of_sim(&mut sim));
        }
        for (loss, choice) in
            [(PowerLoss::LoseAll, CrashChoice::LoseAll), (PowerLoss::KeepAll, CrashChoice::KeepAll)]
        {
            let (after, _) = medium.after_power_loss(loss);
            prop_assert_eq!(contents(&after), contents_of_sim(&mut sim.after_power_loss(choice)));
        }
    }

    #[test]
    fn each_sector_survives_as_it_once_was(
        writes in prop::collection::vec((0..8_usize, 1..6_usize, any::<u8>()), 1..12),
        synced in 0..12_usize,
        seed in any::<u64>(),
    ) {
        let mut medium = Medium::default();
        let file = medium.create(Ino::ROOT, "a", 0o644).unwrap();
        medium.sync(Ino::ROOT, medium.moment()).unwrap();
        let mut histories = vec![Vec::new()];
        for (index, (sector, count, byte)) in writes.iter().enumerate() {
            medium.write(file, (sector * SECTOR) as u64, &vec![*byte; count * SECTOR]).unwrap();
            if index == synced {
                medium.sync(file, medium.moment()).unwrap();
                histories.clear();
            }
            histories.push(medium.read(file, 0, usize::MAX / 2).unwrap().to_vec());
        }
        let (after, _) = medium.after_power_loss(PowerLoss::Random(seed));
        let file = after.lookup(Ino::ROOT, "a").unwrap();
        // Unwritten bytes within the surviving length read as zeros.
        let zeros = vec![0; if synced < writes.len() { 0 } else { 13 * SECTOR }];
        histories.push(zeros);
        let found = after.read(file, 0, usize::MAX / 2).unwrap();
        let synced_len = if synced < writes.len() { histories[0].len() } else { 0 };
        prop_assert!(found.len() >= synced_len, "a synced length is never lost");
        check_sectors(found, &histories);
    }
}

#[test]
fn a_sync_covers_what_was_there_when_it_began() {
    let mut medium = Medium::default();
    let file = medium.create(Ino::ROOT, "a", 0o644).unwrap();
    medium.sync(Ino::ROOT, medium.moment()).unwrap();
    medium.write(file, 0, b"before").unwrap();
    let began = medium.moment();
    medium.write(file, 0, b"beyond").unwrap();
    medium.sync(file, began).unwrap();
    let (after, losses) = medium.after_power_loss(PowerLoss::LoseAll);
    let file = after.lookup(Ino::ROOT, "a").unwrap();
    assert_eq!(after.read(file, 0, 6), Ok(&b"before"[..]));
    assert_eq!(losses, Losses { writes: 1, writes_lost: 1, ..Losses::default() });
}

#[test]
fn a_synced_file_without_a_synced_name_is_lost() {
    let mut medium = Medium::default();
    let dir = medium.mkdir(Ino::ROOT, "d", 0o755).unwrap();
    let file = medium.create(dir, "a", 0o644).unwrap();
    medium.write(file, 0, b"x").unwrap();
    medium.sync(file, medium.moment()).unwrap();
    medium.sync(dir, medium.moment()).unwrap();
    let (after, _) = medium.after_power_loss(PowerLoss::LoseAll);
    assert_eq!(after.lookup(Ino::ROOT, "d"), Err(MediumError::NotFound), "nor its directory");
    medium.sync(Ino::ROOT, medium.moment()).unwrap();
    let (after, _) = medium.after_power_loss(PowerLoss::LoseAll);
    let dir = after.lookup(Ino::ROOT, "d").unwrap();
    assert!(after.lookup(dir, "a").is_ok());
}

#[test]
fn a_name_lost_over_a_rename_gives_the_old_file_back() {
    let mut medium = Medium::default();
    for (name, bytes) in [("a", b"old"), ("b", b"new")] {
        let file = medium.create(Ino::ROOT, name, 0o644).unwrap();
        medium.write(file, 0, bytes).unwrap();
        medium.sync(file, medium.moment()).unwrap();
    }
    medium.sync(Ino::ROOT, medium.moment()).unwrap();
    medium.rename(Ino::ROOT, "b", "a").unwrap();
    let read = |medium: &Medium, name: &str| {
        let file = medium.lookup(Ino::ROOT, name).ok()?;
        Some(medium.read(file, 0, 3).unwrap().to_vec())
    };
    assert_eq!(read(&medium, "a"), Some(b"new".to_vec()));
    let (after, _) = medium.after_power_loss(PowerLoss::LoseAll);
    assert_eq!(read(&after, "a"), Some(b"old".to_vec()));
    assert_eq!(read(&after, "b"), Some(b"new".to_vec()));
    let (after, _) = medium.after_power_loss(PowerLoss::KeepAll);
    assert_eq!(read(&after, "a"), Some(b"new".to_vec()));
    assert_eq!(read(&after, "b"), None);
}

#[test]
fn an_open_file_lives_without_a_name_and_ends_with_its_close() {
    let mut medium = Medium::default();
    let file = medium.create(Ino::ROOT, "a", 0o644).unwrap();
    medium.sync(Ino::ROOT, medium.moment()).unwrap();
    medium.open(file).unwrap();
    medium.unlink(Ino::ROOT, "a").unwrap();
    medium.sync(Ino::ROOT, medium.moment()).unwrap();
    medium.write(file, 0, b"x").unwrap();
    assert_eq!(medium.read(file, 0, 9), Ok(&b"x"[..]));
    medium.close(file);
    assert_eq!(medium.read(file, 0, 9), Err(MediumError::Stale));
}

#[test]
fn numbers_of_a_life_before_are_stale() {
    let mut medium = Medium::default();
    let file = medium.create(Ino::ROOT, "a", 0o644).unwrap();
    medium.sync(Ino::ROOT, medium.moment()).unwrap();
    let (after, _) = medium.after_power_loss(PowerLoss::LoseAll);
    assert_eq!(after.stat(file), Err(MediumError::Stale));
    assert_ne!(after.lookup(Ino::ROOT, "a"), Ok(file));
}

#[test]
fn what_is_wrong_is_refused() {
    let mut medium = Medium::default();
    let dir = medium.mkdir(Ino::ROOT, "d", 0o755).unwrap();
    let file = medium.create(dir, "a", 0o644).unwrap();
    assert_eq!(medium.create(dir, "a", 0o644), Err(MediumError::Exists));
    assert_eq!(medium.rmdir(Ino::ROOT, "d"), Err(MediumError::NotEmpty));
    assert_eq!(medium.unlink(Ino::ROOT, "d"), Err(MediumError::IsDir));
    assert_eq!(medium.rename(dir, "b", "a"), Err(MediumError::NotFound));
    assert_eq!(medium.lookup(file, "a"), Err(MediumError::NotDir));
    assert_eq!(medium.write(dir, 0, b"x"), Err(MediumError::IsDir));
}
