//! Requests for messages, and their answers: one packet each, as many messages as fit.
//!
//! What cannot be served is not answered: MoldUDP64 has no refusal. Each is counted by its reason
//! by whoever has the socket. Who asks too often is not heard for a while, and costs nobody else
//! anything.

use core::net::Ipv4Addr;
use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_types::Nanos;

use super::Channel;
use super::channel::Kept;
use crate::feed::moldudp64::{Pushed, Request};

/// Requesters that are remembered at the same time.
const REQUESTERS_MAX: usize = 1_024;
/// So much of its allowance a requester may use up at once.
const BURST: u64 = 1_000_000_000;

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It is no request of messages.
    Malformed,
    /// It asks for a session that is neither the open one nor the one before it.
    Session,
    /// It asks for what was not said yet.
    NotYet,
    /// It asks for what is not kept any more.
    Gone,
    /// Its sender has asked too often.
    TooOften,
}

impl Refusal {
    /// All, in the order of their counts.
    pub const ALL: [Refusal; 5] =
        [Refusal::Malformed, Refusal::Session, Refusal::NotYet, Refusal::Gone, Refusal::TooOften];

    /// Its place in [`Refusal::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Answers requests out of a channel's messages.
#[derive(Clone, Debug)]
pub struct RequestServer {
    interval: u64,
    /// When each requester's allowance will be whole again.
    requesters: HashMap<Ipv4Addr, Nanos, FxBuildHasher>,
}

impl RequestServer {
    /// A server that answers each address at most so many requests a second, at least one; all of
    /// a second's at once, if it likes.
    #[must_use]
    pub fn new(per_second: u32) -> RequestServer {
        let interval = 1_000_000_000 / u64::from(per_second.max(1));
        let requesters = HashMap::with_capacity_and_hasher(REQUESTERS_MAX, FxBuildHasher);
        RequestServer { interval: interval.max(1), requesters }
    }

    /// Answers one datagram: gives `send` the packet, and says how many messages it has.
    ///
    /// # Errors
    /// [`Refusal`]: nothing is sent.
    pub fn answer(
        &mut self,
        channel: &mut Channel,
        (from, datagram): (Ipv4Addr, &[u8]),
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

    /// Whether a requester has allowance left; takes one request's of it if so.
    fn may_ask(&mut self, from: Ipv4Addr, now: Nanos) -> bool {
        if self.requesters.len() >= REQUESTERS_MAX && !self.requesters.contains_key(&from) {
            // Who has not asked for a second is whole again and need not be remembered.
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

fn serve(kept: &mut Kept, request: &Request, send: impl FnOnce(&[u8])) -> Result<u16, Refusal> {
    let Kept { store, answers, .. } = kept;
    if request.sequence >= store.next_sequence() {
        return Err(Refusal::NotYet);
    }
    if request.sequence < store.oldest() {
        return Err(Refusal::Gone);
    }
    answers.restart_at(request.sequence);
    for sequence in (request.sequence..).take(usize::from(request.count)) {
        let Some(message) = store.get(sequence) else { break };
        if answers.push(message) != Pushed::Added {
            break;
        }
    }
    let count = answers.count();
    answers.take(send);
    Ok(count)
}
