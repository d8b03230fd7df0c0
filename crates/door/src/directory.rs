//! The gateway's view of reference data: the sessions that may log on, the firms and accounts, and
//! the instruments with the partition that trades each.
//!
//! It is built from the control log's events, and for the instruments from those of their
//! partitions, which alone know later changes.

use std::collections::BTreeSet;

use weir_io::Rng;
use weir_types::{
    AccountId, FirmId, InstrumentId, Nanos, PartitionId, Reason, Role, SessionId, Symbol,
    WallOffset,
};
use weir_wire::Definition;
use weir_wire::reference::{DefineInstrument, DefineSession, field_bit, is_change};
use weir_wire::session::{ApiKey, Signature};

use super::keys::{Checks, Lock, Locksmith};
use super::seeded_map::{MapOrder, SeededMap};

/// The definition of an authenticated session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSession {
    /// Its firm; zero for supervisors and operators.
    pub firm_id: FirmId,
    /// Its role.
    pub role: Role,
    /// The time at which its key expires; zero for never.
    pub valid_until: Nanos,
    /// Limit of unanswered requests; zero for no limit.
    pub in_flight_max: u32,
    /// Limit of new orders and replaces per second in each partition; zero for no limit.
    pub order_rate_max: u32,
}

impl KnownSession {
    /// Returns true if a key that is valid until `valid_until` has expired when the wall clock
    /// shows `wall`.
    #[must_use]
    pub fn is_over(valid_until: Nanos, wall: Nanos) -> bool {
        valid_until != Nanos(0) && wall >= valid_until
    }
}

/// A client's proof that it is a given session.
#[derive(Clone, Copy, Debug)]
pub enum Proof<'a> {
    /// Its API key.
    ApiKey(&'a ApiKey),
    /// A signature.
    Signature {
        /// The signed text.
        text: &'a [u8],
        /// The signature.
        signature: &'a Signature,
        /// True if the text answers an open challenge of this connection.
        is_challenged: bool,
    },
}

/// A change to a session that was already defined, and so may be logged on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionChange {
    /// The session.
    pub session_id: SessionId,
    /// Its definition before.
    pub before: KnownSession,
    /// Its new definition.
    pub known: KnownSession,
    /// True if the definition replaced its key.
    pub is_key_replaced: bool,
}

impl SessionChange {
    /// Returns the reason to end a logon of the session that was let in with this firm and role:
    /// a session was let in by its definition of that time.
    ///
    /// | firm or role | key | the session's logons |
    /// | --- | --- | --- |
    /// | other | any | end with `NotEntitled` |
    /// | same | other | end with `KeyReplaced` |
    /// | same | same | go on, until the key's new expiry |
    #[must_use]
    pub fn reason_to_end(&self, firm_id: FirmId, role: Role) -> Option<Reason> {
        if (firm_id, role) != (self.known.firm_id, self.known.role) {
            return Some(Reason::NotEntitled);
        }
        self.is_key_replaced.then_some(Reason::KeyReplaced)
    }
}

/// Sessions and instruments by identifier, and the wall clock by which keys expire.
#[derive(Debug)]
pub struct Directory {
    sessions: SeededMap<SessionId, (Lock, KnownSession)>,
    firms: BTreeSet<FirmId>,
    accounts: BTreeSet<AccountId>,
    locksmith: Locksmith,
    instruments: SeededMap<InstrumentId, DefineInstrument>,
    /// Each instrument with its symbol. Two can have the same one: the control log does not know
    /// the symbols that partitions have changed.
    symbols: BTreeSet<(Symbol, InstrumentId)>,
    /// The instruments whose partition has told their definition.
    traded: BTreeSet<InstrumentId>,
    version: u64,
    wall: WallOffset,
    instruments_version: u64,
}

impl Directory {
    /// Creates an empty directory.
    pub fn new(rng: &mut dyn Rng) -> Directory {
        let order = MapOrder::draw(rng);
        Directory {
            sessions: order.map(),
            firms: BTreeSet::new(),
            accounts: BTreeSet::new(),
            locksmith: Locksmith::new(rng),
            instruments: order.map(),
            symbols: BTreeSet::new(),
            traded: BTreeSet::new(),
            version: 0,
            wall: WallOffset::default(),
            instruments_version: 0,
        }
    }

    /// Notes the distance of the wall clock; returns the nanoseconds by which it was set forward,
    /// negative for a step back.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) -> i64 {
        wall.step_from(std::mem::replace(&mut self.wall, wall))
    }

    /// Returns the wall clock at `now`, for stamps and expiries.
    #[must_use]
    pub fn wall_at(&self, now: Nanos) -> Nanos {
        self.wall.wall_at(now)
    }

    /// Returns the time of duty cycles at which a key that is valid until `valid_until` expires.
    #[must_use]
    pub fn expires_at(&self, valid_until: Nanos) -> Option<Nanos> {
        (valid_until != Nanos(0)).then(|| self.wall.time_of(valid_until))
    }

    /// Returns a copy with the same sessions and nothing else, for a door that only decides logons.
    pub fn of_same_sessions(&self, rng: &mut dyn Rng) -> Directory {
        let (sessions, wall) = (self.sessions.clone(), self.wall);
        Directory { sessions, wall, ..Directory::new(rng) }
    }

    /// Applies a definition of the control log: a later one replaces an earlier one, or changes the
    /// fields that it sets. Returns the change if the definition is of a session that was defined
    /// before.
    pub fn define(&mut self, definition: &Definition) -> Option<SessionChange> {
        self.version += 1;
        match definition {
            Definition::DefineInstrument(d) => {
                if !self.traded.contains(&d.instrument_id) {
                    self.put_instrument(d);
                }
                None
            }
            Definition::DefineSession(d) => self.define_session(d),
            Definition::DefineFirm(d) => {
                self.firms.insert(d.firm_id);
                None
            }
            Definition::DefineAccount(d) => {
                self.accounts.insert(d.account_id);
                None
            }
        }
    }

    /// Applies an instrument's definition as told by the partition that trades it. From then on the
    /// control log's is not used.
    pub fn define_traded(&mut self, d: &DefineInstrument) {
        self.traded.insert(d.instrument_id);
        self.put_instrument(d);
    }

    fn put_instrument(&mut self, d: &DefineInstrument) {
        self.instruments_version += 1;
        if let Some(before) = self.instruments.insert(d.instrument_id, *d) {
            self.symbols.remove(&(before.symbol, d.instrument_id));
        }
        self.symbols.insert((d.symbol, d.instrument_id));
    }

    fn define_session(&mut self, d: &DefineSession) -> Option<SessionChange> {
        let session_id = d.defined_session_id;
        let mut lock = Lock::new(d.credential_kind, &d.credential);
        // The engine completes a change, except for the fields that it does not keep.
        let mut known = KnownSession {
            firm_id: d.firm_id,
            role: d.role,
            valid_until: d.valid_until,
            in_flight_max: d.in_flight_max,
            order_rate_max: d.order_rate_max,
        };
        if let Some((standing, before)) = self.sessions.get(&session_id)
            && is_change(d.fields)
        {
            let is_set = |name| d.fields & field_bit::<DefineSession>(name) != 0;
            if !is_set("credential") {
                lock = *standing;
            }
            if !is_set("valid_until") {
                known.valid_until = before.valid_until;
            }
            if !is_set("in_flight_max") {
                known.in_flight_max = before.in_flight_max;
            }
        }
        let (before_lock, before) = self.sessions.insert(session_id, (lock, known))?;
        Some(SessionChange { session_id, before, known, is_key_replaced: before_lock != lock })
    }

    /// Returns true if the firm is defined.
    #[must_use]
    pub fn has_firm(&self, firm_id: FirmId) -> bool {
        self.firms.contains(&firm_id)
    }

    /// Returns true if the account is defined.
    #[must_use]
    pub fn has_account(&self, account_id: AccountId) -> bool {
        self.accounts.contains(&account_id)
    }

    /// Returns true if the session is defined.
    #[must_use]
    pub fn has_session(&self, session_id: SessionId) -> bool {
        self.sessions.contains_key(&session_id)
    }

    /// Returns true if another instrument than this has the symbol.
    #[must_use]
    pub fn is_symbol_taken(&self, symbol: Symbol, by_other_than: InstrumentId) -> bool {
        let all = (symbol, InstrumentId(0))..=(symbol, InstrumentId(u32::MAX));
        // The second is another one if the first is not.
        self.symbols.range(all).take(2).any(|(_, id)| *id != by_other_than)
    }

    /// Returns the number of the control log's definitions applied.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of definitions of instruments applied.
    #[must_use]
    pub fn instruments_version(&self) -> u64 {
        self.instruments_version
    }

    /// Returns the session if the proof is valid for it. An unknown session, another session's key,
    /// a wrong key, a key of the wrong kind and a bad signature all get the same answer after the
    /// same work, so a client learns neither which sessions exist nor their kinds of credential.
    /// Only the holder of an expired key is told that it has expired.
    ///
    /// | challenge | proof          | key     | answer             |
    /// | --------- | -------------- | ------- | ------------------ |
    /// | not good  | any            | any     | `UnknownChallenge` |
    /// | good      | not the key's  | any     | `UnknownKey`       |
    /// | good      | the key's      | expired | `KeyExpired`       |
    /// | good      | the key's      | valid   | the session        |
    ///
    /// An API key needs no challenge: the last three rows apply to it.
    ///
    /// # Errors
    /// The reasons in the table.
    pub fn authenticate(
        &mut self,
        session_id: SessionId,
        proof: Proof<'_>,
        now: Nanos,
    ) -> Result<KnownSession, Reason> {
        let wall = self.wall.wall_at(now);
        let entry = self.sessions.get(&session_id);
        let lock = entry.map(|(lock, _)| lock);
        let is_proved = match proof {
            Proof::ApiKey(key) => self.locksmith.try_api_key(lock, key),
            Proof::Signature { text, signature, .. } => {
                self.locksmith.try_signature(lock, text, signature)
            }
        };
        if matches!(proof, Proof::Signature { is_challenged: false, .. }) {
            return Err(Reason::UnknownChallenge);
        }
        match entry {
            Some((_, known)) if is_proved => {
                if KnownSession::is_over(known.valid_until, wall) {
                    return Err(Reason::KeyExpired);
                }
                Ok(*known)
            }
            _ => Err(Reason::UnknownKey),
        }
    }

    /// Returns the lock that a session's proof must open.
    #[must_use]
    pub fn lock_of(&self, session_id: SessionId) -> Option<&Lock> {
        self.sessions.get(&session_id).map(|(lock, _)| lock)
    }

    /// Returns the session of a logon that opened `lock` on another thread, if `lock` is still the
    /// session's lock.
    #[must_use]
    pub fn known_by(&self, session_id: SessionId, lock: &Lock) -> Option<KnownSession> {
        let (own, known) = self.sessions.get(&session_id)?;
        (own == lock).then_some(*known)
    }

    /// Returns the numbers of keys and signatures checked.
    #[must_use]
    pub fn checks(&self) -> Checks {
        self.locksmith.checks()
    }

    /// Returns the partition that trades an instrument.
    #[must_use]
    pub fn partition_of(&self, instrument_id: InstrumentId) -> Option<PartitionId> {
        self.instruments.get(&instrument_id).map(|d| d.partition_id)
    }

    /// Returns all instruments, ordered by identifier.
    #[must_use]
    pub fn instruments(&self) -> Vec<DefineInstrument> {
        let mut all: Vec<_> = self.instruments.values().copied().collect();
        all.sort_by_key(|d| d.instrument_id);
        all
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer, SigningKey};
    use proptest::prelude::*;
    use weir_io::SeededRng;
    use weir_types::{Credential, CredentialKind, GroupId, Phase, Price, Qty, RequestNo};

    use super::*;

    const KEYED: SessionId = SessionId(5);
    const OLD_KEYED: SessionId = SessionId(6);
    const SIGNING: SessionId = SessionId(7);
    const OLD_SIGNING: SessionId = SessionId(8);
    const SEALED: SessionId = SessionId(9);
    const NOBODY: SessionId = SessionId(404);
    const EXPIRY: Nanos = Nanos(1_000);
    const NOW: Nanos = Nanos(1_000);

    fn signing_key(of: SessionId) -> SigningKey {
        SigningKey::from_bytes(&[of.0 as u8; 32])
    }

    fn api_key(of: SessionId) -> ApiKey {
        ApiKey([of.0 as u8; 32])
    }

    fn definition(id: SessionId, kind: CredentialKind, valid_until: Nanos) -> DefineSession {
        let credential = match kind {
            CredentialKind::ApiKey => *blake3::hash(&api_key(id).0).as_bytes(),
            CredentialKind::Ed25519 => signing_key(id).verifying_key().to_bytes(),
        };
        DefineSession {
            request_no: RequestNo(1),
            valid_until,
            credential: Credential(credential),
            session_id: SessionId(1),
            defined_session_id: id,
            firm_id: FirmId(3),
            order_rate_max: 0,
            in_flight_max: 4,
            role: Role::Trader,
            credential_kind: kind,
            live_orders_max: 0,
            fields: 0,
        }
    }

    fn directory() -> Directory {
        use CredentialKind::{ApiKey, Ed25519};
        let mut directory = Directory::new(&mut SeededRng::new(1, "keys"));
        let sealed = DefineSession {
            credential: Credential([0; 32]),
            ..definition(SEALED, Ed25519, Nanos(0))
        };
        let all = [
            definition(KEYED, ApiKey, Nanos(0)),
            definition(OLD_KEYED, ApiKey, EXPIRY),
            definition(SIGNING, Ed25519, Nanos(0)),
            definition(OLD_SIGNING, Ed25519, EXPIRY),
            sealed,
        ];
        for definition in all {
            assert_eq!(directory.define(&Definition::DefineSession(definition)), None);
        }
        directory
    }

    /// Returns the outcome of a logon with the API key of `whose`, and the checks it cost.
    fn by_key(session_id: SessionId, whose: SessionId) -> (Result<Role, Reason>, Checks) {
        let mut directory = directory();
        let key = api_key(whose);
        let answer = directory.authenticate(session_id, Proof::ApiKey(&key), NOW);
        (answer.map(|known| known.role), directory.checks())
    }

    /// Like [`by_key`], with a signature of `whose`.
    fn by_signature(
        session_id: SessionId,
        whose: SessionId,
        is_challenged: bool,
    ) -> (Result<Role, Reason>, Checks) {
        let mut directory = directory();
        let text = b"a text of this connection and this session";
        let signature = Signature(signing_key(whose).sign(text).to_bytes());
        let proof = Proof::Signature { text, signature: &signature, is_challenged };
        let answer = directory.authenticate(session_id, proof, NOW);
        (answer.map(|known| known.role), directory.checks())
    }

    fn named(instrument_id: u32, symbol: u8) -> DefineInstrument {
        DefineInstrument {
            request_no: RequestNo(1),
            symbol: Symbol::new(&format!("S{symbol}")).unwrap(),
            tick_size: Price(1),
            lot_size: Qty(1),
            order_qty_max: Qty(1),
            price_min: Price(1),
            price_max: Price(1),
            reference_price: Price(0),
            volatility_call: Nanos(0),
            static_collar: 0,
            dynamic_collar: 0,
            session_id: SessionId(1),
            instrument_id: InstrumentId(instrument_id),
            partition_id: PartitionId(1),
            price_exponent: 0,
            qty_exponent: 0,
            phase: Phase::Continuous,
            fields: 0,
            group_id: GroupId::NONE,
        }
    }

    proptest! {
        /// The control log and the partitions tell definitions that contradict one another.
        #[test]
        fn a_symbol_is_taken_where_a_scan_of_all_instruments_finds_it(
            steps in proptest::collection::vec((1_u32..6, 0_u8..4, any::<bool>()), 1..40),
        ) {
            let mut directory = Directory::new(&mut SeededRng::new(1, "symbols"));
            for (id, symbol, is_traded) in steps {
                match is_traded {
                    true => directory.define_traded(&named(id, symbol)),
                    false => {
                        directory.define(&Definition::DefineInstrument(named(id, symbol)));
                    }
                }
                for (id, symbol) in (0..7).flat_map(|id| (0..5).map(move |of| (id, of))) {
                    let (but, symbol) = (InstrumentId(id), named(id, symbol).symbol);
                    let all = directory.instruments();
                    let is_taken =
                        all.iter().any(|of| of.symbol == symbol && of.instrument_id != but);
                    prop_assert_eq!(directory.is_symbol_taken(symbol, but), is_taken);
                }
            }
        }
    }

    #[test]
    fn every_attempt_with_an_api_key_is_one_hash_and_one_comparison() {
        let cases = [
            (KEYED, KEYED, Ok(Role::Trader)),
            (KEYED, NOBODY, Err(Reason::UnknownKey)),
            (KEYED, OLD_KEYED, Err(Reason::UnknownKey)),
            (NOBODY, NOBODY, Err(Reason::UnknownKey)),
            (NOBODY, KEYED, Err(Reason::UnknownKey)),
            (SIGNING, SIGNING, Err(Reason::UnknownKey)),
            (SEALED, SEALED, Err(Reason::UnknownKey)),
            (OLD_KEYED, OLD_KEYED, Err(Reason::KeyExpired)),
            (OLD_KEYED, KEYED, Err(Reason::UnknownKey)),
        ];
        for (session, whose, want) in cases {
            let (answer, checks) = by_key(session, whose);
            assert_eq!(answer, want, "session {session} by the key of {whose}");
            assert_eq!(checks, Checks { api_keys: 1, signatures: 0 }, "{session} {whose}");
        }
    }

    #[test]
    fn every_attempt_with_a_signature_is_one_verification() {
        let cases = [
            (SIGNING, SIGNING, true, Ok(Role::Trader)),
            (SIGNING, NOBODY, true, Err(Reason::UnknownKey)),
            (SIGNING, OLD_SIGNING, true, Err(Reason::UnknownKey)),
            (NOBODY, NOBODY, true, Err(Reason::UnknownKey)),
            (NOBODY, SIGNING, true, Err(Reason::UnknownKey)),
            (KEYED, KEYED, true, Err(Reason::UnknownKey)),
            (SEALED, SEALED, true, Err(Reason::UnknownKey)),
            (OLD_SIGNING, OLD_SIGNING, true, Err(Reason::KeyExpired)),
            (OLD_SIGNING, SIGNING, true, Err(Reason::UnknownKey)),
            (SIGNING, SIGNING, false, Err(Reason::UnknownChallenge)),
            (SIGNING, NOBODY, false, Err(Reason::UnknownChallenge)),
            (NOBODY, NOBODY, false, Err(Reason::UnknownChallenge)),
            (OLD_SIGNING, OLD_SIGNING, false, Err(Reason::UnknownChallenge)),
        ];
        for (session, whose, is_challenged, want) in cases {
            let (answer, checks) = by_signature(session, whose, is_challenged);
            assert_eq!(answer, want, "session {session} by a signature of {whose}");
            assert_eq!(checks, Checks { api_keys: 0, signatures: 1 }, "{session} {whose}");
        }
    }

    #[test]
    fn a_key_is_good_until_the_moment_that_its_definition_names() {
        for (now, is_over) in [(999, false), (1_000, true), (u64::MAX, true)] {
            assert_eq!(KnownSession::is_over(EXPIRY, Nanos(now)), is_over);
            assert!(!KnownSession::is_over(Nanos(0), Nanos(now)));
        }
        let mut directory = directory();
        let key = api_key(OLD_KEYED);
        let answer = directory.authenticate(OLD_KEYED, Proof::ApiKey(&key), Nanos(999));
        assert!(answer.is_ok());
    }

    #[test]
    fn a_proof_is_good_elsewhere_as_long_as_the_key_is_the_same() {
        let mut here = directory();
        let there = here.of_same_sessions(&mut SeededRng::new(2, "keys"));
        let lock = *there.lock_of(KEYED).unwrap();
        assert_eq!(there.lock_of(NOBODY), None);
        assert!(here.known_by(KEYED, &lock).is_some());
        assert_eq!(here.known_by(OLD_KEYED, &lock), None, "another session");
        let same = DefineSession {
            in_flight_max: 9,
            ..definition(KEYED, CredentialKind::ApiKey, Nanos(0))
        };
        here.define(&Definition::DefineSession(same));
        assert_eq!(here.known_by(KEYED, &lock).map(|known| known.in_flight_max), Some(9));
        let other = DefineSession { credential: Credential([8; 32]), ..same };
        here.define(&Definition::DefineSession(other));
        assert_eq!(here.known_by(KEYED, &lock), None);
    }

    #[test]
    fn a_definition_tells_whether_the_key_is_another_one() {
        let mut directory = directory();
        let same = definition(KEYED, CredentialKind::ApiKey, EXPIRY);
        let redefined = directory.define(&Definition::DefineSession(same)).unwrap();
        assert_eq!((redefined.session_id, redefined.is_key_replaced), (KEYED, false));
        assert_eq!(redefined.known.valid_until, EXPIRY);
        let other = definition(KEYED, CredentialKind::Ed25519, Nanos(0));
        let redefined = directory.define(&Definition::DefineSession(other)).unwrap();
        assert!(redefined.is_key_replaced);
        let key = api_key(KEYED);
        let answer = directory.authenticate(KEYED, Proof::ApiKey(&key), NOW);
        assert_eq!(answer, Err(Reason::UnknownKey), "the old key opens nothing");
    }
}
