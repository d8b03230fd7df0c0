//! Arbitrary bytes as a snapshot file, and a real one with a mutation.
//!
//! Checks that a written snapshot is read back whole, and that a file with one mutated byte is
//! refused or still reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Recipe;
use weir_io::{Disk, SimDisk};
use weir_log::SnapshotStore;
use weir_log::snapshot::decode_snapshot;
use weir_types::{PartitionId, Position};

fuzz_target!(|bytes: &[u8]| {
    weir_log::fuzzing::fuzz_decode_snapshot(bytes);
    let mut recipe = Recipe::new(bytes);
    let (at, flip) = (recipe.short(), recipe.byte());
    let position = Position(1 + u64::from(recipe.short()));
    let state = recipe.rest();

    let disk = SimDisk::new(1);
    let mut store = SnapshotStore::new(disk.clone(), 7, PartitionId(1));
    store.write(position, state).expect("no fault was asked for");
    let name = disk.clone().list().expect("no fault was asked for").remove(0);
    let mut file = disk.contents(&name).expect("it is listed");
    let (header, read) = decode_snapshot(&file).expect("what was written is sound");
    assert_eq!((header.position, header.partition, read.as_slice()), (position, 1, state));

    let at = usize::from(at) % file.len();
    file[at] ^= flip;
    if let Ok((changed, read)) = decode_snapshot(&file) {
        assert!(flip == 0 || read == state && changed == header, "byte {at} changed unnoticed");
    }
});
