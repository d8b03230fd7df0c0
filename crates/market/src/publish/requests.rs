//! Retransmission requests and their answers: one packet each, with as many messages as fit.
//!
//! A request that cannot be served gets no answer, because MoldUDP64 has no refusal. The owner of
//! the socket counts each by its reason. A requester that exceeds its rate is ignored for a while,
//! at no cost to others.

use core::net::Ipv4Addr;
use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_feed::moldudp64::{PushOutcome, Request};
use weir_types::Nanos;

use super::Channel;
use super::channel::KeptSession;

/// The most requesters remembered at a time.
const REQUESTERS_MAX: usize = 1_024;
/// The part of its allowance, as time in nanoseconds, that a requester may use at once.
const BURST: u64 = 1_000_000_000;

/// The reason a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The datagram is no request for messages.
    Malformed,
    /// The session is neither the open one nor the previous one.
    Session,
    /// The messages were not published yet.
    NotYet,
    /// The messages are no longer stored.
    Gone,
    /// The sender exceeded its rate.
    TooOften,
}

impl Refusal {
    /// All reasons, in the order of their counters.
    pub const ALL: [Refusal; 5] =
        [Refusal::Malformed, Refusal::Session, Refusal::NotYet, Refusal::Gone, Refusal::TooOften];

    /// Returns its index in [`Refusal::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A server that answers requests from a channel's messages.
#[derive(Clone, Debug)]
pub struct RequestServer {
    interval: u64,
    /// The time at which each requester's allowance is full again.
    requesters: HashMap<Ipv4Addr, Nanos, FxBuildHasher>,
}

impl RequestServer {
    /// Creates a server that answers each address at most this many requests a second, at least
    /// one. A requester may use a second's allowance at once.
    #[must_use]
    pub fn new(per_second: u32) -> RequestServer {
        let interval = 1_000_000_000 / u64::from(per_second.max(1));
        let requesters = HashMap::with_capacity_and_hasher(REQUESTERS_MAX, FxBuildHasher);
        RequestServer { interval: interval.max(1), requesters }
    }

    /// Answers one datagram: passes the packet to `send`, and returns its number of messages.
    ///
    /// # Errors
    /// [`Refusal`]: nothing is sent.
    pub fn answer(
        &mut self,
        channel: &mut Channel,
        from: Ipv4Addr,
        datagram: &[u8],
        now: Nanos,
        send: impl FnOnce(&[u8]),
    ) -> Result<u16, Refusal> {
        let request = Request::read(datagram).map_err(|_| Refusal::Malformed)?;
        if !self.may_ask(from, now) {
            return Err(Refusal::TooOften);
        }
        let Channel { open, before, .. } = channel;
        let number = request.session.number();
        let kept = [open, before].into_iter().flatten().find(|k| k.session.number() == number);
        serve(kept.ok_or(Refusal::Session)?, &request, send)
    }

    /// Returns true when a requester has allowance left, and takes one request's share of it.
    fn may_ask(&mut self, from: Ipv4Addr, now: Nanos) -> bool {
        if self.requesters.len() >= REQUESTERS_MAX && !self.requesters.contains_key(&from) {
            // A requester that was quiet for a second has its full allowance and need not be
            // remembered.
            self.requesters.retain(|_, whole_at| *whole_at > now);
            if self.requesters.len() >= REQUESTERS_MAX {
                return false;
            }
        }
        let whole_at = self.requesters.entry(from).or_insert(now);
        let next = (*whole_at).max(now).0.saturating_add(self.interval);
        if next > now.0.saturating_add(BURST) {
            return false;
        }
        *whole_at = Nanos(next);
        true
    }
}

fn serve(
    kept: &mut KeptSession,
    request: &Request,
    send: impl FnOnce(&[u8]),
) -> Result<u16, Refusal> {
    let KeptSession { store, answers, .. } = kept;
    if request.sequence >= store.next_sequence() {
        return Err(Refusal::NotYet);
    }
    if request.sequence < store.oldest() {
        return Err(Refusal::Gone);
    }
    answers.restart_at(request.sequence);
    for sequence in (request.sequence..).take(usize::from(request.count)) {
        let Some(message) = store.get(sequence) else { break };
        if answers.push(message) != PushOutcome::Added {
            break;
        }
    }
    let count = answers.count();
    answers.take(send);
    Ok(count)
}
