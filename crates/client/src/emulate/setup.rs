//! The sessions of emulated cores and clients, defined by an operator.

use weir_types::{FirmId, Role, SessionId};

use crate::admin::Admin;
use crate::error::ClientError;
use crate::key::fresh_key;
use crate::request::session_by_key;
use crate::session::SessionConfig;

/// Heartbeats are rare, since there are thousands of emulated sessions.
const HEARTBEAT_MS: u32 = 30_000;

/// Defines `count` sessions of a role with fresh keys, numbered from `first_id` on. The node
/// accepts their logons a moment later.
///
/// # Errors
/// As [`Admin::define_session`].
pub fn define_sessions(
    admin: &mut Admin,
    role: Role,
    first_id: u32,
    count: u32,
) -> Result<Vec<SessionConfig>, ClientError> {
    (first_id..first_id.saturating_add(count))
        .map(|id| {
            let key = fresh_key()?;
            admin.define_session(session_by_key(SessionId(id), FirmId::NONE, role, &key))?;
            let config = SessionConfig::new(SessionId(id), key);
            Ok(SessionConfig { heartbeat_interval_ms: HEARTBEAT_MS, ..config })
        })
        .collect()
}
