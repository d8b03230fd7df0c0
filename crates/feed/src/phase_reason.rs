//! The reasons in the trading actions of Weir's own market: each names a phase, and the cause of
//! the change to it where there is one to tell. The operator's session is not public.
//!
//! Sessions of the [mappings](crate::session_name::MAPPING) 1 and 2 have only the reasons without a
//! cause.

use weir_types::{Phase, PhaseCause};

/// The reasons that tell a cause.
const REASONS: &[(Phase, PhaseCause, [u8; 4])] = &[
    (Phase::Closed, PhaseCause::Operator, *b"SHUO"),
    (Phase::Closed, PhaseCause::Schedule, *b"SHUS"),
    (Phase::OpeningCall, PhaseCause::Operator, *b"OPEO"),
    (Phase::OpeningCall, PhaseCause::Schedule, *b"OPES"),
    (Phase::Continuous, PhaseCause::Operator, *b"CONO"),
    (Phase::Continuous, PhaseCause::Schedule, *b"CONS"),
    (Phase::Continuous, PhaseCause::CallEnd, *b"CONE"),
    (Phase::VolatilityCall, PhaseCause::Operator, *b"VOLO"),
    (Phase::VolatilityCall, PhaseCause::Schedule, *b"VOLS"),
    (Phase::VolatilityCall, PhaseCause::Collar, *b"VOLC"),
    (Phase::ClosingCall, PhaseCause::Operator, *b"CLGO"),
    (Phase::ClosingCall, PhaseCause::Schedule, *b"CLGS"),
    (Phase::Halted, PhaseCause::Operator, *b"HALO"),
    (Phase::Halted, PhaseCause::Schedule, *b"HALS"),
];

/// Returns the reason of a phase with this cause; without a cause for the definition's phase, for a
/// cause that is not known, and for one that has no such change.
#[must_use]
pub fn reason_of(phase: Phase, cause: PhaseCause) -> [u8; 4] {
    let told = REASONS.iter().find(|(of, by, _)| (*of, *by) == (phase, cause));
    told.map_or(without_cause(phase), |(_, _, reason)| *reason)
}

fn without_cause(phase: Phase) -> [u8; 4] {
    match phase {
        Phase::Closed => *b"SHUT",
        Phase::Continuous => *b"    ",
        Phase::Halted => *b"HALT",
        Phase::OpeningCall => *b"OPEN",
        Phase::VolatilityCall => *b"VOLA",
        Phase::ClosingCall => *b"CLOS",
    }
}

/// Returns the cause that a reason tells; unknown for any other.
#[must_use]
pub fn cause_of(reason: [u8; 4]) -> PhaseCause {
    let told = REASONS.iter().find(|(_, _, of)| *of == reason);
    told.map_or(PhaseCause::Unknown, |(_, cause, _)| *cause)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_is_of_one_phase_and_tells_its_cause_or_none() {
        let mut seen = BTreeSet::new();
        for phase in Phase::ALL.iter().copied() {
            let plain = reason_of(phase, PhaseCause::Unknown);
            let mut reasons = BTreeSet::new();
            for cause in PhaseCause::ALL.iter().copied() {
                let reason = reason_of(phase, cause);
                let told = if reason == plain { PhaseCause::Unknown } else { cause };
                assert_eq!(cause_of(reason), told, "{phase:?} {cause:?}");
                reasons.insert(reason);
            }
            let has = |cause| reason_of(phase, cause) != plain;
            assert!(has(PhaseCause::Operator) && has(PhaseCause::Schedule), "{phase:?}");
            reasons.into_iter().for_each(|reason| assert!(seen.insert(reason), "{reason:?}"));
        }
        assert_eq!(reason_of(Phase::VolatilityCall, PhaseCause::Collar), *b"VOLC");
        assert_eq!(reason_of(Phase::Continuous, PhaseCause::CallEnd), *b"CONE");
        for other in [*b"GONE", *b"T1  ", *b"LUDP", *b"    "] {
            assert_eq!(cause_of(other), PhaseCause::Unknown);
        }
    }
}
