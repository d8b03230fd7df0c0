//! Copies the files of durable subscriptions while a running node may write to them.
//!
//! The table of subscriptions is written in place and the newest spill file grows; older spill
//! files are never changed, only removed. So the files are copied, and those that may change are
//! read again until two consecutive passes are equal: the copy is then the state at a moment
//! between these passes. A partly written block in the copy is discarded when it is opened, as
//! after a crash.

use std::collections::BTreeMap;

use weir_broker::{OriginMarks, Source, Table};
use weir_io::{Disk, DiskErrorKind};
use weir_types::PartitionId;

use super::manifest::StoredFile;
use super::take::Store;
use super::{BROKER_DIR, BackupError, read_file};

/// The maximum number of passes over the files.
const TRIES_MAX: u32 = 20;
/// The suffixes of the table's slots and of spill files.
const TABLE: &str = ".wtable";
const SPILL: &str = ".wspill";

/// The copied files of a broker.
#[derive(Default)]
pub(super) struct BrokerCopy {
    /// The files; none if it never wrote any.
    pub(super) files: Vec<StoredFile>,
    /// The event of each trading partition up to which it needs none, if it has subscriptions.
    settled: Option<OriginMarks>,
}

impl BrokerCopy {
    /// Returns the event of a trading partition up to which the broker needs none, if it has
    /// subscriptions.
    pub(super) fn settled_of(&self, partition_id: PartitionId) -> Option<u64> {
        let place = self.settled.as_ref()?.of(Source(u32::from(partition_id.0)));
        Some(place.map_or(0, |place| place.record.0))
    }
}

/// Copies the files of a broker.
pub(super) fn copy_broker<S: Disk, T: Disk>(
    disk: &mut S,
    store: &mut Store<'_, T>,
) -> Result<BrokerCopy, BackupError> {
    let mut copied: BTreeMap<String, StoredFile> = BTreeMap::new();
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    for _ in 0..TRIES_MAX {
        let names = names(disk)?;
        let mut is_same = copied.len() == names.len();
        copied.retain(|name, _| names.contains(name));
        is_same &= copied.len() == names.len();
        for name in &names {
            let may_change = name.ends_with(TABLE) || names.last() == Some(name);
            if copied.contains_key(name) && !may_change {
                continue;
            }
            let bytes = match read_file(disk, name) {
                Ok(bytes) => bytes,
                // All subscriptions have taken it meanwhile.
                Err(error) if error.kind == DiskErrorKind::NotFound => {
                    is_same = false;
                    continue;
                }
                Err(error) => return Err(BackupError::disk(BROKER_DIR)(error)),
            };
            let is_known = copied.get(name).is_some_and(|file| is_of(file, &bytes));
            if !is_known {
                is_same = false;
                tables.extend(Table::decode(&bytes).ok().map(|table| (name.clone(), table)));
                copied.insert(name.clone(), store.put(BROKER_DIR, name, &bytes)?);
            }
        }
        if is_same {
            let table = tables.into_values().max_by_key(|table| table.generation);
            let table = table.filter(|table| !table.rows.is_empty());
            let settled = table.map(|table| table.places);
            return Ok(BrokerCopy { files: copied.into_values().collect(), settled });
        }
    }
    Err(BackupError::BusyBroker { tries: TRIES_MAX })
}

/// Returns the relevant files, the newest spill file last.
fn names<S: Disk>(disk: &mut S) -> Result<Vec<String>, BackupError> {
    let mut names = disk.list().map_err(BackupError::disk(BROKER_DIR))?;
    names.retain(|name| name.ends_with(TABLE) || name.ends_with(SPILL));
    names.sort_by_key(|name| (name.ends_with(SPILL), name.clone()));
    Ok(names)
}

fn is_of(file: &StoredFile, bytes: &[u8]) -> bool {
    file.bytes == bytes.len() as u64 && blake3::hash(bytes).to_hex().as_str() == file.blake3
}

#[cfg(test)]
mod tests {
    use weir_broker::{Broker, Config, Name, OriginMark, Topic, TopicKind};
    use weir_io::SimDisk;
    use weir_types::{Epoch, Nanos, Position};

    use super::*;

    /// The place in one partition's events was taken for that in all.
    #[test]
    fn each_partition_has_the_place_of_its_own_events() {
        let disk = SimDisk::new(1);
        let (mut broker, _) = Broker::open(Config::new(1), disk.clone(), Nanos(1)).unwrap();
        let topic = Topic { kind: TopicKind::Executions, key: 0 };
        let _ = broker.create(&Name::new("desk").unwrap(), topic, None, Nanos(1)).unwrap();
        for (source, record) in [(3, 50), (7, 9)] {
            let (source, record) = (Source(source), Position(record));
            let _ = broker.note_place(OriginMark { source, epoch: Epoch(1), record });
        }
        broker.close().unwrap();
        let mut target = SimDisk::new(2);
        let mut store = Store::new(&mut target, None).unwrap();
        let copy = copy_broker(&mut disk.after_process_crash(), &mut store).unwrap();
        let settled = [3, 7, 9].map(|id| copy.settled_of(PartitionId(id)));
        assert_eq!(settled, [Some(50), Some(9), Some(0)], "of a new one it needs all");
        assert_eq!(BrokerCopy::default().settled_of(PartitionId(3)), None);
    }
}
