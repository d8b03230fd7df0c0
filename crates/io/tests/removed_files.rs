//! A simulated disk forgets removed files, and only those.

use weir_io::disk::sim::{CrashChoice, SimUsage};
use weir_io::{Disk, FileId, SimDisk};

fn written(disk: &mut SimDisk, name: &str) -> FileId {
    let file = disk.create(name).expect("a sound disk");
    disk.write_all(file, 0, b"some bytes").expect("a sound disk");
    disk.sync(file).expect("a sound disk");
    disk.sync_dir().expect("a sound disk");
    file
}

#[test]
fn removed_files_are_forgotten_unless_they_are_open_or_a_crash_can_bring_them_back() {
    let mut disk = SimDisk::new(1);
    let [kept, gone, open] = ["kept", "gone", "open"].map(|name| written(&mut disk, name));
    disk.close(kept);
    disk.close(gone);
    assert_eq!(disk.usage(), SimUsage { file_count: 3, bytes: 30, open_count: 1 });
    disk.remove("gone").expect("a sound disk");
    disk.forget_removed();
    let before = disk.after_power_loss(CrashChoice::LoseAll);
    assert_eq!(
        before.contents("gone").expect("a sound disk"),
        b"some bytes",
        "its removal was not synced"
    );
    disk.remove("open").expect("a sound disk");
    disk.sync_dir().expect("a sound disk");
    disk.forget_removed();
    assert_eq!(disk.usage(), SimUsage { file_count: 1, bytes: 10, open_count: 1 });
    let mut bytes = [0; 10];
    assert_eq!(disk.read(open, 0, &mut bytes).expect("a sound disk"), 10);
    assert_eq!(disk.contents("kept").expect("a sound disk"), b"some bytes");
    let after = disk.after_power_loss(CrashChoice::LoseAll);
    assert_eq!((after.contents("kept").is_some(), after.contents("open")), (true, None));
}
