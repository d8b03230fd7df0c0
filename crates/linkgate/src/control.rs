//! Control's grants of sessions to gateways, and the number of control's starts.
//!
//! After a start control knows no holder. Gateways name theirs within a second, in which no claim
//! is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use weir_link::PartitionEnd;
use weir_link::grants::{Claim, Claimant, Grant, Grants, STARTS_MAX};
use weir_link::message::{ClaimEnded, ClaimSession, HeldGrant, Seal, SessionClaimed};
use weir_types::{Nanos, Reason, SessionId};

use crate::seal::SealKey;

/// The file with the number of starts.
pub const STARTS_FILE: &str = "link.starts";
/// The time after a start within which no claim is answered.
const NAMING_TIME: u64 = 1_000_000_000;
/// The claims of a gateway that may wait for the end of that time.
const WAITING_MAX: usize = 16_384;

/// A start of control: its number, and the key of its grants.
pub struct ControlStart {
    /// The number, which no start with this key had before.
    pub number: u64,
    /// The key.
    pub key: SealKey,
}

/// Counts a start of control in its directory. Where the number of the last one is lost, another
/// key is drawn: generations begin anew, and grants of before would be above all later ones.
///
/// # Errors
/// When the number or the key can be neither read nor kept.
pub fn begin_start(dir: &Path) -> anyhow::Result<ControlStart> {
    let path = dir.join(STARTS_FILE);
    let last = last_start(&path)?;
    // The key is kept before the number that it is for: behind a crash between the two the next
    // start draws another key, and would count on with the one of before.
    let key = if last.is_none() { SealKey::drawn(dir)? } else { SealKey::of_node(dir)? };
    let number = last.unwrap_or(0) + 1;
    let text = format!("{number}\n");
    weir_io::durable::write_file(&path, text.as_bytes(), 0o644)
        .with_context(|| format!("cannot keep the number of starts in {}", path.display()))?;
    Ok(ControlStart { number, key })
}

/// Returns the number of the last start; `None` if there was none, or its number is lost.
fn last_start(path: &Path) -> anyhow::Result<Option<u64>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let number = text.trim().parse().ok().filter(|number| (1..STARTS_MAX).contains(number));
    let number = number.with_context(|| format!("{} holds no number of starts", path.display()))?;
    Ok(Some(number))
}

/// The control partition's part of its links.
pub struct Control {
    grants: Grants,
    key: SealKey,
    /// The time from which on claims are answered; `None` before the first cycle.
    answers_from: Option<Nanos>,
    /// By gateway and session: a later claim of a gateway takes the place of its earlier one.
    waiting: BTreeMap<(SessionId, SessionId), ClaimSession>,
    /// The sessions that gateways have named since the opening of their links, until the last.
    named: BTreeMap<SessionId, BTreeSet<SessionId>>,
    /// The records of control behind the last definitions that took sessions' rights away.
    redefined: BTreeMap<SessionId, u64>,
}

/// Refuses a gateway's claim.
pub fn refuse_claim(
    end: &mut PartitionEnd,
    gateway: SessionId,
    bound_session_id: SessionId,
    reason: Reason,
) {
    let (generation, seal, session_id) = (0, Seal::NONE, gateway);
    let refused = SessionClaimed { generation, seal, session_id, bound_session_id, reason };
    end.put(gateway, &refused);
}

impl Control {
    /// Returns the grants of a start of this number.
    #[must_use]
    pub fn new(start: u64, key: SealKey) -> Control {
        let grants = Grants::of_start(start);
        let (waiting, named, redefined) = Default::default();
        Control { grants, key, answers_from: None, waiting, named, redefined }
    }

    /// Takes a session's rights away by a definition, behind which `next_record` is the next one of
    /// control; none if its key has expired. Returns the generation of the first good grant.
    pub fn revoke(&mut self, session_id: SessionId, next_record: Option<u64>) -> u64 {
        if let Some(next_record) = next_record {
            self.redefined.insert(session_id, next_record);
        }
        self.grants.next_generation()
    }

    /// Takes a gateway's claim; false when there is no room for it.
    #[must_use]
    pub fn claim(&mut self, gateway: SessionId, claim: ClaimSession) -> bool {
        let own = (gateway, SessionId(0))..=(gateway, SessionId(u32::MAX));
        let has_room = self.waiting.range(own).count() < WAITING_MAX;
        if has_room {
            self.waiting.insert((gateway, claim.bound_session_id), claim);
        }
        has_room
    }

    /// Answers the claims, once gateways have had the time to name their sessions; returns their
    /// number.
    pub fn answer(&mut self, end: &mut PartitionEnd, now: Nanos) -> usize {
        let from = *self.answers_from.get_or_insert(Nanos(now.0 + NAMING_TIME));
        if now < from {
            return 0;
        }
        let mut count = 0;
        for ((gateway, id), message) in std::mem::take(&mut self.waiting) {
            // One that has gone meanwhile claims nothing.
            let Some(incarnation) = end.connected_as(gateway) else { continue };
            // It may have proved its client's identity by the key of before: it has the definition
            // before the grant, and gives the logon up.
            let next_record = self.redefined.get(&id).copied().unwrap_or(0);
            if end.next_record_of(gateway).is_none_or(|next| next < next_record) {
                self.waiting.insert((gateway, id), message);
                continue;
            }
            count += 1;
            let from = Claimant { gateway, incarnation };
            self.answer_one(&Claim { from, message, at: now }, end);
        }
        count
    }

    fn answer_one(&mut self, claim: &Claim, end: &mut PartitionEnd) {
        let Claimant { gateway, incarnation } = claim.from;
        let is_up = |one: Claimant| end.connected_as(one.gateway) == Some(one.incarnation);
        let granted = self.grants.claim(claim, is_up);
        let id = claim.message.bound_session_id;
        let (generation, reason) = match granted {
            Ok(granted) => (granted.generation, Reason::None),
            Err(reason) => (0, reason),
        };
        let grant = Grant { session_id: id, gateway, incarnation, generation, seal: Seal::NONE };
        let seal = if granted.is_ok() { self.key.seal(&grant) } else { Seal::NONE };
        let session_id = gateway;
        let claimed = SessionClaimed { generation, seal, session_id, bound_session_id: id, reason };
        end.put(gateway, &claimed);
        if let Some(before) = granted.ok().and_then(|granted| granted.taken_from) {
            let (session_id, reason) = (before.gateway, Reason::TakenOver);
            let ended = ClaimEnded { generation, session_id, bound_session_id: id, reason };
            end.put(before.gateway, &ended);
        }
    }

    /// Restores a grant that a gateway holds, maybe since before this start, if its seal is good;
    /// returns true if it is.
    pub fn restore(&mut self, by: Claimant, held: &HeldGrant, now: Nanos) -> bool {
        let grant = Grant {
            session_id: held.bound_session_id,
            gateway: by.gateway,
            incarnation: by.incarnation,
            generation: held.generation,
            seal: held.seal,
        };
        let is_good = self.key.is_good(&grant);
        if is_good {
            self.grants.restore(&grant, now);
            self.named.entry(by.gateway).or_default().insert(held.bound_session_id);
        }
        is_good
    }

    /// A gateway's link is opened: it names its grants from now on.
    pub fn begins_to_name(&mut self, gateway: SessionId) {
        self.named.remove(&gateway);
    }

    /// A gateway has named all grants that it holds. The others are free: the answer to a claim, or
    /// a release, was lost with its link.
    pub fn all_named(&mut self, by: Claimant) {
        let named = self.named.remove(&by.gateway).unwrap_or_default();
        self.grants.keep_named(by, &named);
    }

    /// The session has ended at its gateway.
    pub fn release(&mut self, by: Claimant, session_id: SessionId, generation: u64) {
        self.grants.release(by, session_id, generation);
    }

    /// Returns the time of the next cycle that claims need. Those that wait for a gateway are
    /// looked at when it gets records.
    #[must_use]
    pub fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        self.answers_from.filter(|from| *from > now && !self.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use weir_link::codec::next_message;
    use weir_link::message::{LogId, OpenLink};
    use weir_link::partition_end::SessionPosition;
    use weir_link::{PartitionTerms, PartitionView};
    use weir_types::{Epoch, EventNo, PartitionId, Position, Switch};
    use weir_wire::frame::put_frame;

    use super::*;

    const GRANT: Grant = Grant {
        session_id: SessionId(1),
        gateway: SessionId(501),
        incarnation: 3,
        generation: 4,
        seal: Seal::NONE,
    };

    /// Returns an empty directory for a test of this name.
    fn directory(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        dir
    }

    #[test]
    fn each_start_has_a_number_of_its_own() {
        let dir = directory("starts");
        let starts = [0, 1, 2].map(|_| begin_start(&dir).expect("it is kept").number);
        assert_eq!(starts, [1, 2, 3]);
        // None is guessed, and none would make a generation that was there before.
        for text in ["many", "0", "16777216", "18446744073709551615", ""] {
            std::fs::write(dir.join(STARTS_FILE), text).expect("it is written");
            assert!(begin_start(&dir).is_err(), "{text}");
        }
        std::fs::remove_dir_all(&dir).expect("it is there");
    }

    /// A crash behind the first number left the key of before: the next start's grants were below
    /// those which gateways still had.
    #[test]
    fn a_crash_between_the_number_of_a_start_and_its_key_leaves_no_grant_of_before() {
        let dir = directory("crash-at-start");
        let first = begin_start(&dir).expect("it is kept");
        let sealed = Grant { seal: first.key.seal(&GRANT), ..GRANT };
        // The number is lost, and cannot be kept: as if the crash came there.
        std::fs::remove_file(dir.join(STARTS_FILE)).expect("it is there");
        let in_the_way = dir.join(format!("{STARTS_FILE}.part"));
        std::fs::create_dir(&in_the_way).expect("a directory");
        assert!(begin_start(&dir).is_err(), "the number is not kept");
        std::fs::remove_dir(&in_the_way).expect("it is there");
        assert!(!SealKey::of_node(&dir).expect("it is kept").is_good(&sealed));
        let next = begin_start(&dir).expect("it is kept");
        assert!(next.number == 1 && !next.key.is_good(&sealed));
        std::fs::remove_dir_all(&dir).expect("it is there");
    }

    /// Sessions could be bound by nobody until their gateways had started again.
    #[test]
    fn a_lost_number_of_starts_ends_all_grants() {
        let dir = directory("lost-starts");
        let first = begin_start(&dir).expect("it is kept");
        let sealed = Grant { seal: first.key.seal(&GRANT), ..GRANT };
        let second = begin_start(&dir).expect("it is kept");
        assert!(second.number > first.number && second.key.is_good(&sealed));
        std::fs::remove_file(dir.join(STARTS_FILE)).expect("it is there");
        let third = begin_start(&dir).expect("it is kept");
        std::fs::remove_dir_all(&dir).expect("it is there");
        assert!(third.number == 1 && !third.key.is_good(&sealed));
    }

    /// The control partition, which has nine records.
    struct Records;

    impl PartitionView for Records {
        fn end_record(&self) -> u64 {
            10
        }

        fn epoch(&self) -> Epoch {
            Epoch(1)
        }

        fn epoch_end(&self, _: Epoch, _: u64) -> Option<(Position, Epoch)> {
            None
        }

        fn continues(&self, _: u64, _: Epoch) -> bool {
            true
        }

        fn record(&mut self, _: u64, _: &mut Vec<u8>) -> bool {
            false
        }

        fn session(&self, _: SessionId, _: EventNo, _: Epoch) -> Option<SessionPosition> {
            None
        }

        fn record_of(&self, _: SessionId, _: EventNo) -> u64 {
            10
        }

        fn past_records(&self, _: SessionId, _: EventNo, _: u64) -> Vec<u64> {
            Vec::new()
        }

        fn is_granted(&self, _: &Grant) -> bool {
            true
        }

        fn is_trader(&self, _: SessionId) -> bool {
            false
        }
    }

    /// Opens a gateway's link to control, which lacks the records from this one on.
    fn open(end: &mut PartitionEnd, gateway: SessionId, next_record: u64) {
        let open = OpenLink {
            incarnation: 3,
            next_record,
            window_bytes: 1 << 20,
            session_id: gateway,
            epoch: Epoch(1),
            partition_id: PartitionId(0),
            log_id: LogId([1; 16]),
        };
        let mut frame = Vec::new();
        put_frame(&open, &mut frame);
        let arrived = next_message(&frame, Nanos(1)).expect("it is a frame").expect("it is whole");
        end.take(gateway, arrived, &mut Records).expect("it is in place");
    }

    /// The gateway had let its client in by the key of before, and read the definition later.
    #[test]
    fn a_claim_is_answered_behind_the_definition_that_its_gateway_lacks() {
        let terms = PartitionTerms {
            partition_id: PartitionId(0),
            log_id: LogId([1; 16]),
            incarnation: 1,
            lease: Nanos(10_000_000_000),
            pulse: Nanos(1_000_000_000),
            commands_max: 4,
        };
        let mut end = PartitionEnd::new(terms, []);
        let mut control = Control::new(1, SealKey::new([7; 32]));
        let (gateway, id, other) = (SessionId(501), SessionId(3), SessionId(4));
        let claim = |bound_session_id| ClaimSession {
            heard: Nanos(0),
            session_id: gateway,
            bound_session_id,
            takeover: Switch::Off,
        };
        open(&mut end, gateway, 8);
        control.answer(&mut end, Nanos(1));
        let now = Nanos(1 + NAMING_TIME);
        assert_eq!(control.revoke(id, Some(9)), Grants::of_start(1).next_generation());
        for id in [id, other] {
            assert!(control.claim(gateway, claim(id)));
        }
        assert_eq!(control.answer(&mut end, now), 1, "that of the other session");
        assert_eq!(control.answer(&mut end, now), 0);
        assert_eq!(control.next_deadline(now), None, "no cycle is spent on it");
        assert_eq!(control.grants.holder(id), None);
        open(&mut end, gateway, 9);
        assert_eq!(control.answer(&mut end, now), 1);
        assert!(control.grants.holder(id).is_some() && control.grants.holder(other).is_some());
    }

    fn held(control: &Control, by: Claimant, session_id: SessionId, generation: u64) -> HeldGrant {
        let Claimant { gateway, incarnation } = by;
        let grant = Grant { session_id, gateway, incarnation, generation, seal: Seal::NONE };
        HeldGrant { generation, seal: control.key.seal(&grant), bound_session_id: session_id }
    }

    /// One bad seal closed the link, and each one after it.
    #[test]
    fn grants_that_a_gateway_does_not_name_are_free_and_bad_seals_are_passed_over() {
        let mut control = Control::new(1, SealKey::new([7; 32]));
        let by = Claimant { gateway: SessionId(501), incarnation: 3 };
        let other = Claimant { gateway: SessionId(502), incarnation: 4 };
        let now = Nanos(1);
        let all = [(by, 1), (by, 2), (other, 3)];
        for (by, id) in all {
            let grant = held(&control, by, SessionId(id), 9);
            assert!(control.restore(by, &grant, now));
        }
        control.all_named(by);
        control.all_named(other);
        assert_eq!(
            all.map(|(_, id)| control.grants.holder(SessionId(id))),
            [by, by, other].map(Some)
        );
        // The link is made again, and a session has ended meanwhile.
        let bad = HeldGrant { seal: Seal([1; 16]), ..held(&control, by, SessionId(4), 9) };
        assert!(!control.restore(by, &bad, now));
        let grant = held(&control, by, SessionId(2), 9);
        assert!(control.restore(by, &grant, now));
        control.all_named(by);
        let holders = [1, 2, 3, 4].map(|id| control.grants.holder(SessionId(id)));
        assert_eq!(holders, [None, Some(by), Some(other), None]);
    }
}
