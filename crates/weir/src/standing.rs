//! The standing definitions of accounts and sessions, for the errors of definitions that contradict
//! them.
//!
//! A node tells only that a definition contradicts. The values that stand are in its control log,
//! which a command on the node's machine can apply. They are used only if the result has the digest
//! of the node's status page: a directory of another node, or one that has changed meanwhile, says
//! nothing.

use std::path::Path;

use serde_json::Value;
use weir_engine::{Engine, EngineConfig};
use weir_io::ThreadDisk;
use weir_log::{LogReader, SegmentKind};
use weir_partition::dirs::PartitionDirs;
use weir_types::{AccountId, FirmId, PartitionId, Position, Role, SessionId};
use weir_wire::{Command, Definition, Event};

const CONTROL: PartitionId = PartitionId(0);

/// The accepted definitions of a control log.
#[derive(Default)]
pub(super) struct AcceptedDefinitions(Vec<Definition>);

impl AcceptedDefinitions {
    /// Reads the control log in a node's directory; none if it is not that of the node with this
    /// status page.
    pub(super) fn read(dir: &Path, page: &Value) -> Option<AcceptedDefinitions> {
        let (digest, standing) = applied(dir)?;
        is_of(page, &digest).then_some(standing)
    }

    /// The firm of an account.
    pub(super) fn account(&self, id: AccountId) -> Option<FirmId> {
        self.0.iter().find_map(|definition| match definition {
            Definition::DefineAccount(d) if d.account_id == id => Some(d.firm_id),
            _ => None,
        })
    }

    /// The role and the firm of a session.
    pub(super) fn session(&self, id: SessionId) -> Option<(Role, FirmId)> {
        self.0.iter().find_map(|definition| match definition {
            Definition::DefineSession(d) if d.defined_session_id == id => Some((d.role, d.firm_id)),
            _ => None,
        })
    }
}

/// True if the page's control partition has this digest, in hexadecimal.
fn is_of(page: &Value, digest: &str) -> bool {
    let partitions = page["partitions"].as_array().into_iter().flatten();
    partitions.into_iter().any(|one| one["id"] == CONTROL.0 && one["digest"] == digest)
}

/// The digest after the control log's last entry, and the accepted definitions; none if the log is
/// not there or cannot be read.
fn applied(dir: &Path) -> Option<(String, AcceptedDefinitions)> {
    let path = PartitionDirs::new(dir, CONTROL).commands();
    if !path.is_dir() {
        return None;
    }
    let disk = ThreadDisk::open(&path, None).ok()?;
    let mut reader = LogReader::open(disk, SegmentKind::Command, Position(0)).ok()?;
    let mut engine = Engine::new(EngineConfig::new(CONTROL));
    let mut accepted = Vec::new();
    while let Some(entry) = reader.next_entry().ok()? {
        let command = Command::decode(entry.bytes).ok()?;
        engine.apply(entry.position, entry.log_time, &command, &mut |event: &Event| {
            if let Event::Defined(_, definition) = event {
                accepted.push(*definition);
            }
        });
    }
    Some((format!("{:016x}", engine.digest()), AcceptedDefinitions(accepted)))
}
