//! The last change of an instrument's phase in a snapshot: its cause, the operator's session, its
//! time.

use weir_types::{Nanos, PhaseCause, PhaseOrigin, SessionId};

use super::SnapshotError;
use super::bytes::{Reader, Writer};
use crate::plant::{self, Plant};

const INVALID: SnapshotError = SnapshotError::Invalid("cause of a phase");

pub(super) fn write_origin(origin: Option<PhaseOrigin>, w: &mut Writer<'_>) {
    let origin = origin.filter(|_| !plant::is(Plant::CauseForgottenAtRestart));
    w.flag(origin.is_some());
    let Some(PhaseOrigin { cause, session_id, at }) = origin else { return };
    w.u8(cause.code());
    w.u32(session_id.0);
    w.u64(at.0);
}

/// Reads a change no later than `now`.
pub(super) fn read_origin(
    r: &mut Reader<'_>,
    now: Nanos,
) -> Result<Option<PhaseOrigin>, SnapshotError> {
    if !r.flag()? {
        return Ok(None);
    }
    let cause = PhaseCause::from_code(r.u8()?).ok_or(INVALID)?;
    let (session_id, at) = (SessionId(r.u32()?), Nanos(r.u64()?));
    let is_somebodys = cause == PhaseCause::Operator;
    let is_fine = cause != PhaseCause::Unknown && session_id.is_none() != is_somebodys && at <= now;
    if is_fine { Ok(Some(PhaseOrigin { cause, session_id, at })) } else { Err(INVALID) }
}
