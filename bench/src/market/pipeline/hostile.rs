//! Hostile subscribers of a flush thread: a session that stays within the gateway's default limits
//! and costs the others steps, snapshots or memory. But for the slow reader it never reads.
//!
//! Parties that want quotes add no snapshots, because others want the same instruments, and their
//! queues hold states alone. Those that churn want other contents: each start of interest has the
//! first stage send a snapshot. The slow reader queues events.
//!
//! Requests beyond a thousand a second wait, and as at the gateway while earlier ones are carried
//! out; the flush thread takes as many steps in a cycle as there.

use std::collections::VecDeque;

use rtrb::Producer;
use weir_market::conflate::{
    AccountId, Content, Fanout, Interest, Pattern, Policy, Poll, PollOutcome, SubscribeError,
    SubscriberId, Subscription, SubscriptionId,
};
use weir_marketgate::gateway::mirror::Mirror;
use weir_types::Nanos;

use super::flow::{INSTRUMENTS, definition};

/// The gateway's defaults.
const SLOTS_MAX: u64 = 1 << 18;
const CONNECTIONS_MAX: usize = 16;
const QUEUE_LEN_MAX: u32 = 1 << 16;
const REQUEST_INTERVAL: u64 = 1_000_000;
const BACKLOG_MAX: u64 = 1_024;
const STEPS_MAX: usize = 256;
const UNANSWERED_MAX: u64 = 1_024;

/// Subscriptions that a party which churns holds.
const HELD_MAX: usize = 64;
/// The time between two messages that a connection of the slow reader reads, in nanoseconds.
const READ_INTERVAL: u64 = 100_000_000;

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
    /// It begins and ends subscriptions to symbols, prefixes and everything, at half of its rate.
    Churn,
    /// The same at ten times its rate.
    ChurnBeyond,
    /// It queues trades and quotes as events, and reads a message of each connection now and then.
    SlowReader,
}

impl Party {
    /// All parties, the others alone first.
    pub const ALL: [Party; 8] = [
        Party::None,
        Party::Everything,
        Party::Storm,
        Party::Connections,
        Party::OneInstrument,
        Party::Churn,
        Party::ChurnBeyond,
        Party::SlowReader,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Party::None => "none",
            Party::Everything => "everything",
            Party::Storm => "storm",
            Party::Connections => "connections",
            Party::OneInstrument => "one instrument",
            Party::Churn => "churn",
            Party::ChurnBeyond => "churn beyond",
            Party::SlowReader => "slow reader",
        }
    }

    /// The time between two requests, in nanoseconds.
    fn interval(self) -> u64 {
        match self {
            Party::Churn => 2 * REQUEST_INTERVAL,
            Party::ChurnBeyond => REQUEST_INTERVAL / 10,
            _ => REQUEST_INTERVAL,
        }
    }
}

/// The figures of a hostile session.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostileFigures {
    /// Requests carried out, and refused.
    pub carried_out: u64,
    pub refused: u64,
    /// Cycles in which a request waited, for the session's rate or for earlier requests.
    pub waited: u64,
    /// Starts and ends of interest.
    pub wishes: u64,
    /// Messages read, and those queued at the end.
    pub read: u64,
    pub unread: u64,
    /// Places of its queues that purges looked at.
    pub looks: u64,
}

/// The hostile session, and the flush thread's steps for all.
pub struct Hostile {
    party: Party,
    account: AccountId,
    connections: VecDeque<SubscriberId>,
    held: VecDeque<(SubscriberId, SubscriptionId)>,
    /// Subscriptions asked for.
    asked: u64,
    next_request: Nanos,
    /// The time at which its rate allows the next request.
    paid_at: Nanos,
    next_read: Nanos,
    wishes: Producer<Interest>,
    unsaid: VecDeque<Interest>,
    figures: HostileFigures,
}

impl Hostile {
    pub fn new(party: Party, fanout: &mut Fanout, wishes: Producer<Interest>) -> Hostile {
        let account = fanout.add_account(Some(SLOTS_MAX));
        Hostile {
            party,
            account,
            connections: VecDeque::new(),
            held: VecDeque::new(),
            asked: 0,
            next_request: Nanos(0),
            paid_at: Nanos(0),
            next_read: Nanos(0),
            wishes,
            unsaid: VecDeque::new(),
            figures: HostileFigures::default(),
        }
    }

    /// True for one of its connections.
    pub fn is(&self, subscriber: SubscriberId) -> bool {
        self.connections.contains(&subscriber)
    }

    /// Returns the figures so far.
    pub fn figures(&self, fanout: &Fanout) -> HostileFigures {
        let mut figures = self.figures;
        for standing in self.connections.iter().filter_map(|one| fanout.standing(*one)) {
            figures.unread += standing.queue_len as u64;
            figures.looks += standing.looks;
        }
        figures
    }

    /// Sends the requests that are due, and takes the cycle's steps.
    pub fn cycle(&mut self, now: Nanos, fanout: &mut Fanout) {
        if self.party != Party::None {
            self.send(now, fanout);
        }
        if fanout.unanswered_count() < UNANSWERED_MAX {
            fanout.advance(now, STEPS_MAX);
            fanout.take_ended().for_each(drop);
        }
        self.unsaid.extend(fanout.take_interest());
        while let Some(interest) = self.unsaid.pop_front() {
            if self.wishes.push(interest).is_err() {
                self.unsaid.push_front(interest);
                break;
            }
            self.figures.wishes += 1;
        }
    }

    fn send(&mut self, now: Nanos, fanout: &mut Fanout) {
        // A second's requests may come at once.
        let earliest = Nanos(now.0.saturating_sub(1_000_000_000));
        self.next_request = self.next_request.max(earliest);
        self.paid_at = self.paid_at.max(earliest);
        while self.next_request <= now {
            let progress = fanout.account(self.account).expect("it is kept");
            let may_ask = self.paid_at <= now && progress.backlog < BACKLOG_MAX;
            if !may_ask || !self.ask(now, fanout) {
                self.figures.waited += 1;
                break;
            }
            self.paid_at.0 += REQUEST_INTERVAL;
            self.next_request.0 += self.party.interval();
        }
    }

    /// Polls the slow reader's connections, which have room for a message now and then.
    pub fn read(&mut self, now: Nanos, fanout: &mut Fanout, mirror: &Mirror) {
        if self.party != Party::SlowReader {
            return;
        }
        let is_due = self.next_read <= now;
        if is_due {
            self.next_read = Nanos(now.0 + READ_INTERVAL);
        }
        for subscriber in self.connections.iter().copied() {
            let poll = Poll { subscriber, now, room: usize::from(is_due) };
            match fanout.poll(poll, mirror, &mut |_, _| {}) {
                PollOutcome::Sent { count, .. } => self.figures.read += count as u64,
                other => panic!("its policies disconnect nobody: {other:?}"),
            }
        }
    }

    /// Sends a request; false when it has to wait.
    fn ask(&mut self, now: Nanos, fanout: &mut Fanout) -> bool {
        let quotes = |pattern| Subscription::new(pattern, Content::Bbo);
        match self.party {
            Party::None => true,
            Party::Everything => self.subscribe(now, fanout, &quotes(Pattern::All)),
            Party::OneInstrument => {
                self.subscribe(now, fanout, &quotes(Pattern::Symbol(definition(1).symbol)))
            }
            Party::Storm if !self.held.is_empty() => self.unsubscribe(fanout),
            Party::Storm => self.subscribe(now, fanout, &quotes(Pattern::All)),
            Party::Connections => {
                if self.connections.len() == CONNECTIONS_MAX {
                    let oldest = self.connections.pop_front().expect("there are sixteen");
                    fanout.remove_subscriber(oldest);
                }
                self.subscribe(now, fanout, &quotes(Pattern::All))
            }
            Party::Churn | Party::ChurnBeyond if self.held.len() >= HELD_MAX => {
                self.unsubscribe(fanout)
            }
            Party::Churn | Party::ChurnBeyond => {
                self.subscribe(now, fanout, &churning_terms(self.asked))
            }
            Party::SlowReader => match slow_terms(self.asked) {
                Some(terms) => self.subscribe(now, fanout, &terms),
                None => true,
            },
        }
    }

    fn subscribe(&mut self, now: Nanos, fanout: &mut Fanout, terms: &Subscription) -> bool {
        if self.connections.len() < CONNECTIONS_MAX {
            self.connections.push_back(fanout.add_subscriber_of(self.account));
        }
        let newest = self.connections.len() - 1;
        let subscriber = match self.party {
            Party::Connections => self.connections[newest],
            _ => self.connections[self.figures.carried_out as usize % self.connections.len()],
        };
        match fanout.subscribe(now, subscriber, terms) {
            Ok(subscription) => {
                self.figures.carried_out += 1;
                self.held.push_back((subscriber, subscription));
            }
            Err(SubscribeError::Pending) => return false,
            Err(_) => self.figures.refused += 1,
        }
        self.asked += 1;
        true
    }

    /// Ends the oldest subscription.
    fn unsubscribe(&mut self, fanout: &mut Fanout) -> bool {
        let (subscriber, subscription) = self.held.pop_front().expect("it holds some");
        let ended = fanout.unsubscribe(subscriber, subscription);
        self.figures.carried_out += u64::from(ended.is_ok());
        true
    }
}

/// The terms of a subscription of the parties that churn: one of sixteen is to everything and four
/// are to prefixes, of contents that nobody else wants.
fn churning_terms(number: u64) -> Subscription {
    const CONTENTS: [Content; 5] =
        [Content::Levels, Content::Orders, Content::Statistics, Content::Status, Content::Trades];
    let pattern = match number % 16 {
        0 => "*".to_owned(),
        1 | 5 | 9 | 13 => format!("I{}*", 1 + number / 16 % 9),
        _ => format!("I{}", 1 + number % u64::from(INSTRUMENTS)),
    };
    let pattern = Pattern::parse(pattern.as_bytes()).expect("a pattern");
    Subscription::new(pattern, CONTENTS[(number % 5) as usize])
}

/// The terms of a subscription of the slow reader, of which each connection has one of each kind;
/// `None` for no more. Trades that are skipped stand beside a long queue, and quotes that are
/// conflated are sent ahead of trades.
fn slow_terms(number: u64) -> Option<Subscription> {
    let all = |content| Subscription::new(Pattern::All, content);
    let kept = |content| Subscription {
        policy: Policy::None,
        queue_len_max: QUEUE_LEN_MAX,
        ..all(content)
    };
    match number / CONNECTIONS_MAX as u64 {
        0 => Some(Subscription { queue_len_max: 1, ..all(Content::Trades) }),
        1 => Some(kept(Content::Trades)),
        2 => Some(all(Content::Bbo)),
        3 => Some(kept(Content::Bbo)),
        _ => None,
    }
}
