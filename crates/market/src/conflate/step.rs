//! The decision table of the throttle: the step for a change of a state; and the outcomes of a
//! change.

/// The location of a state that was not sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// In no queue: the state that was sent is current.
    Clean,
    /// In the throttle queue.
    Waiting,
    /// In the priority queue, at this position.
    Queued(u64),
}

/// The action for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Merge the change with the state where that is.
    Merge,
    /// Put the state into the throttle queue.
    Wait,
    /// Put the state into the priority queue, removing it from the throttle queue if it is there.
    Go,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No subscriber wants it.
    Unwanted,
    /// It entered the priority queue.
    Queued,
    /// It waits in the throttle queue, alone or merged.
    Waiting,
    /// It was merged with an entry of the priority queue.
    Merged,
    /// It became part of a gap.
    Lost,
    /// The queue is full, and nothing changed; only with [`OnFull::Refuse`](super::OnFull::Refuse).
    Refused,
}

/// Returns the step for a change of a state.
///
/// | the state is      | it is urgent | the interval is over | step  |
/// |-------------------|--------------|----------------------|-------|
/// | in priority queue | either       | either               | merge |
/// | in throttle queue | yes          | either               | go    |
/// | in throttle queue | no           | yes                  | go    |
/// | in throttle queue | no           | no                   | merge |
/// | in no queue       | yes          | either               | go    |
/// | in no queue       | no           | yes (leading edge)   | go    |
/// | in no queue       | no           | no                   | wait  |
///
/// The interval is also over for a state that was never sent. A waiting state goes when the timer
/// finds that its interval is over (trailing edge), or ahead of a trade or status of its
/// instrument.
pub(super) const fn step(place: SlotState, is_urgent: bool, is_over: bool) -> Decision {
    match (place, is_urgent, is_over) {
        (SlotState::Queued(_), _, _) => Decision::Merge,
        (SlotState::Waiting, true, _) => Decision::Go,
        (SlotState::Waiting, false, true) => Decision::Go,
        (SlotState::Waiting, false, false) => Decision::Merge,
        (SlotState::Clean, true, _) => Decision::Go,
        (SlotState::Clean, false, true) => Decision::Go,
        (SlotState::Clean, false, false) => Decision::Wait,
    }
}
