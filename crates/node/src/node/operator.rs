//! The first operator of a new node, or a new key of it: the command that defines it, its key on
//! the disk, and the wait until the definition is in effect.

use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::Context;
use rtrb::RingBuffer;
use weir_io::{OsRng, Rng};
use weir_partition::handoff::{SourcePort, Submission};
use weir_partition::recovery::RecoveredPartition;
use weir_types::hex::parse_key;
use weir_types::{Credential, CredentialKind, FirmId, Nanos, Position, RequestNo, Role, SessionId};
use weir_wire::reference::DefineSession;
use weir_wire::{Command, Definition, Request};

use super::assembly::Assembly;
use crate::config::Config;

/// The session of a new node's first operator.
pub const FIRST_OPERATOR: SessionId = SessionId(1);
/// The time within which a new operator key must be in effect.
const START_TIME: Duration = Duration::from_secs(30);

impl Assembly<'_> {
    /// Waits until the first operator's definition is in effect. With a new operator key, `before`
    /// definitions existed already and one more is awaited.
    pub(super) fn wait_for_operator(&self, before: u64) -> anyhow::Result<()> {
        let before = if self.config.new_operator_key { before } else { 0 };
        let deadline = Instant::now() + START_TIME;
        while Instant::now() < deadline {
            let status = self.gateway_status.lock().unwrap_or_else(PoisonError::into_inner);
            if status.definitions > before {
                return Ok(());
            }
            drop(status);
            std::thread::sleep(Duration::from_millis(1));
        }
        anyhow::bail!("the control log took no definition of an operator within {START_TIME:?}")
    }
}

/// Creates the ring with the command that defines the first operator, when the control log is new.
pub(super) fn bootstrap(
    config: &Config,
    control: &RecoveredPartition,
    notes: &mut Vec<String>,
) -> anyhow::Result<SourcePort> {
    let (mut to_control, submissions) = RingBuffer::new(1);
    // New limits may be in it before the operator is.
    let is_first = control.engine.sessions().next().is_none();
    if is_first || config.new_operator_key {
        let key = match config.bootstrap_key.as_deref().and_then(parse_key) {
            Some(key) => key,
            None => make_operator_key(&config.dir, notes)?,
        };
        let mut sessions = control.engine.sessions();
        let last = sessions.find(|(session_id, _)| *session_id == FIRST_OPERATOR);
        let operator = DefineSession {
            request_no: RequestNo(last.map_or(0, |(_, state)| state.last_request_no.0) + 1),
            valid_until: Nanos(0),
            credential: Credential(*blake3::hash(&key).as_bytes()),
            session_id: FIRST_OPERATOR,
            defined_session_id: FIRST_OPERATOR,
            firm_id: FirmId::NONE,
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Operator,
            credential_kind: CredentialKind::ApiKey,
            live_orders_max: 0,
            fields: 0,
        };
        let command = if is_first {
            let operator = DefineSession { request_no: RequestNo::NONE, ..operator };
            Command::Import(Position(1), Definition::DefineSession(operator))
        } else {
            // The same request as the operator itself would send if it could log on.
            Command::Request(Request::DefineSession(operator))
        };
        let pushed = to_control.push(Submission::internal(command));
        assert!(pushed.is_ok(), "the ring was made for this one command");
    }
    Ok(SourcePort { submissions, feedback: None })
}

/// Creates the first operator's key and writes it to a file that only the owner can read.
fn make_operator_key(dir: &Path, notes: &mut Vec<String>) -> anyhow::Result<[u8; 32]> {
    let mut key = [0; 32];
    OsRng.fill(&mut key);
    let path = dir.join("operator.key");
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    // Durable before the operator exists: a lost key could not be recovered.
    weir_io::durable::write_file(&path, format!("{text}\n").as_bytes(), 0o600)
        .with_context(|| format!("cannot keep the operator's key in {}", path.display()))?;
    notes.push(format!("operator session {FIRST_OPERATOR}: its API key is in {}", path.display()));
    Ok(key)
}
