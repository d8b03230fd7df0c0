//! The gateway's view of reference data: who may log on, and which partition trades what.
//!
//! Built from the control log's events alone.

use std::collections::HashMap;

use weir_types::{ApiKeyHash, FirmId, InstrumentId, PartitionId, Reason, Role, SessionId};
use weir_wire::Definition;
use weir_wire::reference::DefineInstrument;
use weir_wire::session::ApiKey;

/// What the gateway knows of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSession {
    /// The hash of its API key.
    pub api_key_hash: ApiKeyHash,
    /// Its firm; zero for supervisors and operators.
    pub firm_id: FirmId,
    /// What it may do.
    pub role: Role,
}

/// Sessions and instruments by identifier.
#[derive(Debug, Default)]
pub struct Directory {
    sessions: HashMap<SessionId, KnownSession>,
    keys: HashMap<ApiKeyHash, SessionId>,
    instruments: HashMap<InstrumentId, DefineInstrument>,
    version: u64,
}

impl Directory {
    /// Takes in a definition; a later one replaces an earlier one.
    pub fn define(&mut self, definition: &Definition) {
        match definition {
            Definition::DefineInstrument(d) => {
                self.instruments.insert(d.instrument_id, *d);
            }
            Definition::DefineSession(d) => {
                let session =
                    KnownSession { api_key_hash: d.api_key_hash, firm_id: d.firm_id, role: d.role };
                if let Some(before) = self.sessions.insert(d.defined_session_id, session) {
                    self.keys.remove(&before.api_key_hash);
                }
                self.keys.insert(d.api_key_hash, d.defined_session_id);
            }
            Definition::DefineFirm(_) | Definition::DefineAccount(_) => {}
        }
        self.version += 1;
    }

    /// Counts the definitions taken in.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The session, when the key is its own. To a stranger an unknown session and a wrong key are
    /// one answer, so that nobody learns which sessions exist; who has a key of another session is
    /// told that this one is not theirs.
    ///
    /// # Errors
    /// [`Reason::UnknownKey`], [`Reason::NotYourSession`].
    pub fn authenticate(
        &self,
        session_id: SessionId,
        api_key: &ApiKey,
    ) -> Result<KnownSession, Reason> {
        // Hashes of keys may be looked up and compared in any time: nobody chooses a key's hash.
        let hash = ApiKeyHash(*blake3::hash(&api_key.0).as_bytes());
        match (self.sessions.get(&session_id), self.keys.get(&hash)) {
            (Some(session), _) if session.api_key_hash == hash => Ok(*session),
            (_, Some(_)) => Err(Reason::NotYourSession),
            (_, None) => Err(Reason::UnknownKey),
        }
    }

    /// The partition that trades an instrument.
    #[must_use]
    pub fn partition_of(&self, instrument_id: InstrumentId) -> Option<PartitionId> {
        self.instruments.get(&instrument_id).map(|d| d.partition_id)
    }

    /// All instruments, by identifier.
    #[must_use]
    pub fn instruments(&self) -> Vec<DefineInstrument> {
        let mut all: Vec<_> = self.instruments.values().copied().collect();
        all.sort_by_key(|d| d.instrument_id);
        all
    }
}

#[cfg(test)]
mod tests {
    use weir_types::RequestNo;
    use weir_wire::reference::DefineSession;

    use super::*;

    fn directory() -> Directory {
        let mut directory = Directory::default();
        directory.define(&Definition::DefineSession(DefineSession {
            request_no: RequestNo(1),
            api_key_hash: ApiKeyHash(*blake3::hash(&[7; 32]).as_bytes()),
            session_id: SessionId(1),
            defined_session_id: SessionId(5),
            firm_id: FirmId(3),
            order_rate_max: 0,
            role: Role::Trader,
        }));
        directory
    }

    #[test]
    fn a_session_is_known_by_its_own_key_only() {
        let directory = directory();
        let known = directory.authenticate(SessionId(5), &ApiKey([7; 32]));
        assert_eq!(known.map(|s| s.firm_id), Ok(FirmId(3)));
        let cases = [
            (5, 8, Reason::UnknownKey),
            (6, 7, Reason::NotYourSession),
            (0, 0, Reason::UnknownKey),
        ];
        for (session, key, reason) in cases {
            let answer = directory.authenticate(SessionId(session), &ApiKey([key; 32]));
            assert_eq!(answer, Err(reason));
        }
    }
}
