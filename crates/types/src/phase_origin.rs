//! The last change of an instrument's phase: its cause and its time, as the engine keeps it and the
//! views show it.

use crate::{Nanos, PhaseCause, SessionId};

/// The last change of an instrument's phase, or of an operator's halt that holds in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseOrigin {
    /// The cause.
    pub cause: PhaseCause,
    /// The operator's session that asked for it; none for other causes.
    pub session_id: SessionId,
    /// The log time of the change.
    pub at: Nanos,
}
