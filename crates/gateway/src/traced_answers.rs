//! The traced orders whose answers are in a connection's output, until the transport takes them.
//!
//! Each is known by the output's end behind its answer, so an order's egress is that of its own
//! answer, also on a connection whose output is never quite empty. INVARIANT: there are no more of
//! them than there are answers in the output.

use std::collections::VecDeque;

use weir_probe::TraceId;

/// The orders of one connection, oldest first.
#[derive(Debug, Default)]
pub(super) struct TracedAnswers {
    /// The bytes of output that the transport has taken since the connection began.
    taken: u64,
    ends: VecDeque<(u64, TraceId)>,
}

impl TracedAnswers {
    /// Notes an answer that ends `waiting` bytes of output.
    pub(super) fn note(&mut self, waiting: usize, trace: TraceId) {
        self.ends.push_back((self.taken + waiting as u64, trace));
    }

    /// Notes that the transport has taken bytes of output.
    pub(super) fn take(&mut self, len: usize) {
        self.taken += len as u64;
    }

    /// Returns the next order whose whole answer the transport has taken, each once.
    pub(super) fn next_taken(&mut self) -> Option<TraceId> {
        let is_taken = self.ends.front().is_some_and(|(end, _)| *end <= self.taken);
        if is_taken { self.ends.pop_front().map(|(_, trace)| trace) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_leaves_with_its_last_byte_though_the_output_is_never_empty() {
        let mut answers = TracedAnswers::default();
        let mut traces = weir_probe::TraceIds::new(1);
        let (mut waiting, mut noted) = (0, VecDeque::new());
        for round in 0..1_000 {
            let trace = traces.next();
            waiting += 100;
            answers.note(waiting, trace);
            noted.push_back(trace);
            // At least half an answer stays in the output.
            let len = if round % 2 == 0 { waiting - 50 } else { 20 };
            answers.take(len);
            waiting -= len;
            while let Some(taken) = answers.next_taken() {
                assert_eq!(Some(taken), noted.pop_front());
            }
            assert_eq!(noted.len(), waiting.div_ceil(100), "in round {round}");
            assert_eq!(answers.ends.len(), noted.len());
        }
    }
}
