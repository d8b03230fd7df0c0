//! A session's events of one partition: which there were, and how far they are sent.
//!
//! An event addressed to a session has a dense number there. The stream remembers for each at
//! which record of the partition's event log it lies, so that a session that comes back, or that
//! reads too slowly, is served from the log and not from a buffer of its own.
//!
//! INVARIANT: `oldest() <= next_to_send <= next_event_no()` while somebody listens.

use std::collections::VecDeque;

use weir_types::{EventNo, RequestNo};

/// The most events of one session and partition that can be asked for again.
pub const RETAINED_EVENTS_MAX: usize = 1 << 18;

/// A session's events of one partition.
#[derive(Debug)]
pub struct Stream {
    records: VecDeque<u64>,
    oldest: EventNo,
    next_to_send: EventNo,
    last_request_no: RequestNo,
    /// Whether `oldest` is known: a log whose beginning is gone tells only with its first event.
    started: bool,
}

impl Stream {
    /// A stream of which nothing is known: it begins with the first event that is noted.
    #[must_use]
    pub fn unknown() -> Stream {
        Stream { started: false, ..Stream::starting_at(EventNo(1), RequestNo::NONE) }
    }

    /// A stream whose next event has the number `next_event_no`; older ones cannot be asked for.
    #[must_use]
    pub fn starting_at(next_event_no: EventNo, last_request_no: RequestNo) -> Stream {
        Stream {
            records: VecDeque::new(),
            oldest: next_event_no,
            next_to_send: next_event_no,
            last_request_no,
            started: true,
        }
    }

    /// Agrees with what the engine says of the session after recovery.
    ///
    /// # Panics
    /// When the events read say otherwise: event log and command log contradict each other.
    pub fn agree(&mut self, next_event_no: EventNo, last_request_no: RequestNo) {
        if self.records.is_empty() {
            *self = Stream::starting_at(next_event_no, last_request_no);
        }
        assert_eq!(self.next_event_no(), next_event_no, "the event log and the engine disagree");
        self.last_request_no = self.last_request_no.max(last_request_no);
    }

    /// Notes an event that lies at `record`. Events must come in order, without a gap.
    ///
    /// # Panics
    /// When `event_no` is not the next one: the event log contradicts itself.
    pub fn note(&mut self, event_no: EventNo, request_no: RequestNo, record: u64) {
        if !self.started {
            *self = Stream::starting_at(event_no, self.last_request_no);
        }
        assert_eq!(event_no, self.next_event_no(), "an event's number is not the next one");
        if self.records.len() == RETAINED_EVENTS_MAX {
            self.records.pop_front();
            self.oldest = self.oldest.next();
        }
        self.records.push_back(record);
        self.last_request_no = self.last_request_no.max(request_no);
    }

    /// Counts the event just noted as sent, when it is the next to send.
    pub fn is_next_to_send(&self, event_no: EventNo) -> bool {
        self.next_to_send == event_no
    }

    /// Counts one more event as sent.
    pub fn sent_one(&mut self) {
        self.next_to_send = self.next_to_send.next();
        assert!(self.next_to_send <= self.next_event_no(), "sent an event that never was");
    }

    /// The record of the next event to send; `None` when all are sent, `Some(None)` when it is
    /// not retained any more.
    #[must_use]
    pub fn next_record(&self) -> Option<Option<u64>> {
        if self.next_to_send == self.next_event_no() {
            return None;
        }
        let index = self.next_to_send.0.checked_sub(self.oldest.0);
        Some(index.and_then(|index| self.records.get(usize::try_from(index).ok()?).copied()))
    }

    /// Whether the stream can go on from `event_no`.
    ///
    /// # Errors
    /// The range that can be asked for, when `event_no` is outside of it.
    pub fn check_resume(&self, event_no: EventNo) -> Result<(), (EventNo, EventNo)> {
        let (oldest, next) = (self.oldest, self.next_event_no());
        if event_no.is_none() || (oldest..=next).contains(&event_no) {
            Ok(())
        } else {
            Err((oldest, next))
        }
    }

    /// Goes on from `event_no`, or with what comes next when there is none.
    ///
    /// # Errors
    /// As [`Stream::check_resume`]; nothing changes then.
    pub fn resume(&mut self, event_no: EventNo) -> Result<(), (EventNo, EventNo)> {
        self.check_resume(event_no)?;
        self.next_to_send = if event_no.is_none() { self.next_event_no() } else { event_no };
        Ok(())
    }

    /// The number that the next event will have.
    #[must_use]
    pub fn next_event_no(&self) -> EventNo {
        EventNo(self.oldest.0 + self.records.len() as u64)
    }

    /// The oldest event that can be asked for.
    #[must_use]
    pub fn oldest(&self) -> EventNo {
        self.oldest
    }

    /// The highest request number that has an event.
    #[must_use]
    pub fn last_request_no(&self) -> RequestNo {
        self.last_request_no
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream_of(count: u64) -> Stream {
        let mut stream = Stream::starting_at(EventNo(1), RequestNo(0));
        for n in 1..=count {
            stream.note(EventNo(n), RequestNo(n * 2), 100 + n);
        }
        stream
    }

    #[test]
    fn a_resumed_session_gets_exactly_what_it_missed() {
        let mut stream = stream_of(5);
        stream.resume(EventNo(4)).unwrap();
        let mut sent = Vec::new();
        while let Some(record) = stream.next_record() {
            sent.push(record.unwrap());
            stream.sent_one();
        }
        assert_eq!(sent, [104, 105]);
        assert_eq!(stream.last_request_no(), RequestNo(10));
    }

    #[test]
    fn resuming_outside_the_retained_range_is_refused_with_the_range() {
        let mut stream = Stream::starting_at(EventNo(7), RequestNo(3));
        stream.note(EventNo(7), RequestNo(4), 1);
        assert_eq!(stream.resume(EventNo(6)), Err((EventNo(7), EventNo(8))));
        assert_eq!(stream.resume(EventNo(9)), Err((EventNo(7), EventNo(8))));
        assert_eq!(stream.resume(EventNo(8)), Ok(()));
        assert_eq!(stream.next_record(), None);
        assert_eq!(stream.resume(EventNo::NONE), Ok(()));
    }

    #[test]
    fn events_past_the_retention_are_dropped_oldest_first() {
        let stream = stream_of(RETAINED_EVENTS_MAX as u64 + 3);
        assert_eq!(stream.oldest(), EventNo(4));
        assert_eq!(stream.next_record(), Some(None));
    }

    #[test]
    fn a_log_whose_beginning_is_gone_says_where_it_begins() {
        let mut stream = Stream::unknown();
        stream.note(EventNo(41), RequestNo(9), 7);
        stream.agree(EventNo(42), RequestNo(9));
        assert_eq!((stream.oldest(), stream.next_event_no()), (EventNo(41), EventNo(42)));
    }

    #[test]
    fn a_session_without_retained_events_stands_where_the_engine_says() {
        let mut stream = Stream::unknown();
        stream.agree(EventNo(42), RequestNo(9));
        assert_eq!(stream.resume(EventNo(41)), Err((EventNo(42), EventNo(42))));
    }

    #[test]
    #[should_panic(expected = "not the next one")]
    fn a_gap_in_a_sessions_events_is_never_passed_over() {
        stream_of(2).note(EventNo(4), RequestNo(0), 1);
    }
}
