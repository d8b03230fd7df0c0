//! What happens to a change of a state: the decision table of the throttle, and nothing else.

/// Where a state is that was not sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere: what was sent is what is.
    Clean,
    /// In the throttle queue.
    Waiting,
    /// In the priority queue, at this position.
    Queued(u64),
}

/// What to do with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Merge it with what is where it is.
    Merge,
    /// Put the state into the throttle queue.
    Wait,
    /// Put the state into the priority queue, out of the throttle queue if it is there.
    Go,
}

/// | the state is      | it is urgent | the interval is over | step  |
/// |-------------------|--------------|----------------------|-------|
/// | in priority queue | either       | either               | merge |
/// | in throttle queue | yes          | either               | go    |
/// | in throttle queue | no           | yes                  | go    |
/// | in throttle queue | no           | no                   | merge |
/// | nowhere           | yes          | either               | go    |
/// | nowhere           | no           | yes (leading edge)   | go    |
/// | nowhere           | no           | no                   | wait  |
///
/// The interval is over also for a state that never was sent. What waits goes when the timer finds
/// that its interval is over (trailing edge), or before a trade or status of its instrument.
pub(super) const fn step(place: Place, is_urgent: bool, is_over: bool) -> Step {
    match (place, is_urgent, is_over) {
        (Place::Queued(_), _, _) => Step::Merge,
        (Place::Waiting, true, _) => Step::Go,
        (Place::Waiting, false, true) => Step::Go,
        (Place::Waiting, false, false) => Step::Merge,
        (Place::Clean, true, _) => Step::Go,
        (Place::Clean, false, true) => Step::Go,
        (Place::Clean, false, false) => Step::Wait,
    }
}
