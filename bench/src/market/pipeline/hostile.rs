//! Hostile subscribers of a flush thread: a session that stays within the gateway's default limits
//! and costs the others steps. It never reads. Others want the same instruments, so that it adds
//! no snapshots, and its queues hold states alone.
//!
//! It sends a thousand requests a second, which wait as at the gateway while earlier ones are
//! carried out; the flush thread takes as many steps in a cycle as there.

use std::collections::VecDeque;

use rtrb::Producer;
use weir_market::conflate::{
    AccountId, Content, Fanout, Interest, Pattern, SubscribeError, SubscriberId, Subscription,
    SubscriptionId,
};
use weir_types::Nanos;

use super::flow::definition;

/// The gateway's defaults.
const SLOTS_MAX: u64 = 1 << 18;
const CONNECTIONS_MAX: usize = 16;
const REQUEST_INTERVAL: u64 = 1_000_000;
const BACKLOG_MAX: u64 = 1_024;
const STEPS_MAX: usize = 256;
const UNSAID_MAX: usize = 1_024;

/// A way in which the session is hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// Nothing: the others alone.
    None,
    /// It subscribes to everything again and again, over all its connections.
    Everything,
    /// It subscribes to everything, ends the subscription, and begins again.
    Storm,
    /// It connects, subscribes to everything, and goes.
    Connections,
    /// It subscribes to one instrument again and again.
    OneInstrument,
}

impl Party {
    /// All parties, the others alone first.
    pub const ALL: [Party; 5] =
        [Party::None, Party::Everything, Party::Storm, Party::Connections, Party::OneInstrument];

    pub fn name(self) -> &'static str {
        match self {
            Party::None => "none",
            Party::Everything => "everything",
            Party::Storm => "storm",
            Party::Connections => "connections",
            Party::OneInstrument => "one instrument",
        }
    }
}

/// The hostile session, and the flush thread's steps for all.
pub struct Hostile {
    party: Party,
    account: AccountId,
    connections: VecDeque<SubscriberId>,
    subscription: Option<(SubscriberId, SubscriptionId)>,
    next_request: Nanos,
    wishes: Producer<Interest>,
    unsaid: VecDeque<Interest>,
    /// Requests carried out, and refused.
    pub carried_out: u64,
    pub refused: u64,
}

impl Hostile {
    pub fn new(party: Party, fanout: &mut Fanout, wishes: Producer<Interest>) -> Hostile {
        let account = fanout.add_account(Some(SLOTS_MAX));
        Hostile {
            party,
            account,
            connections: VecDeque::new(),
            subscription: None,
            next_request: Nanos(0),
            wishes,
            unsaid: VecDeque::new(),
            carried_out: 0,
            refused: 0,
        }
    }

    /// True for one of its connections.
    pub fn is(&self, subscriber: SubscriberId) -> bool {
        self.connections.contains(&subscriber)
    }

    /// Sends the requests that are due, and takes the cycle's steps.
    pub fn cycle(&mut self, now: Nanos, fanout: &mut Fanout) {
        self.next_request = self.next_request.max(Nanos(now.0.saturating_sub(1_000_000_000)));
        while self.party != Party::None && self.next_request <= now {
            let progress = fanout.account(self.account).expect("it is kept");
            if progress.backlog >= BACKLOG_MAX || !self.ask(now, fanout) {
                break;
            }
            self.next_request.0 += REQUEST_INTERVAL;
        }
        if self.unsaid.len() < UNSAID_MAX {
            fanout.advance(now, STEPS_MAX);
            fanout.take_ended().for_each(drop);
            self.unsaid.extend(fanout.take_interest());
        }
        while let Some(interest) = self.unsaid.pop_front() {
            if self.wishes.push(interest).is_err() {
                self.unsaid.push_front(interest);
                break;
            }
        }
    }

    /// Sends a request; false when it has to wait.
    fn ask(&mut self, now: Nanos, fanout: &mut Fanout) -> bool {
        match self.party {
            Party::None => true,
            Party::Everything => self.subscribe(now, fanout, Pattern::All),
            Party::OneInstrument => {
                self.subscribe(now, fanout, Pattern::Symbol(definition(1).symbol))
            }
            Party::Storm => match self.subscription.take() {
                Some((subscriber, subscription)) => {
                    let ended = fanout.unsubscribe(subscriber, subscription);
                    self.carried_out += u64::from(ended.is_ok());
                    true
                }
                None => self.subscribe(now, fanout, Pattern::All),
            },
            Party::Connections => {
                if self.connections.len() == CONNECTIONS_MAX {
                    let oldest = self.connections.pop_front().expect("there are sixteen");
                    fanout.remove_subscriber(oldest);
                }
                self.subscribe(now, fanout, Pattern::All)
            }
        }
    }

    fn subscribe(&mut self, now: Nanos, fanout: &mut Fanout, pattern: Pattern) -> bool {
        if self.connections.len() < CONNECTIONS_MAX {
            self.connections.push_back(fanout.add_subscriber_of(self.account));
        }
        let newest = self.connections.len() - 1;
        let subscriber = match self.party {
            Party::Connections => self.connections[newest],
            _ => self.connections[self.carried_out as usize % self.connections.len()],
        };
        match fanout.subscribe(now, subscriber, &Subscription::new(pattern, Content::Bbo)) {
            Ok(subscription) => {
                self.carried_out += 1;
                self.subscription = Some((subscriber, subscription));
            }
            Err(SubscribeError::Pending) => return false,
            Err(_) => self.refused += 1,
        }
        true
    }
}
