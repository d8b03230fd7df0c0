//! Decodes packets to messages and converts channel events: the step between `weir_feed::line`
//! and the [`Output`].

use weir_feed::line::{Event, Handler, Run, StaleReason};
use weir_feed::moldudp64::MoldSession;
use weir_feed::{AnyFeed, Context, Definition, Feed, FeedError, Profile, Update, UpdateSink};
use weir_types::Nanos;

use super::config::Day;
use super::counts::DecodeCounts;
use super::output::{ChannelEvent, ChannelKey, ClearReason, Origin, Output};

/// The feed's codec and its errors.
#[derive(Debug)]
pub(super) struct Decoding {
    pub feed: AnyFeed,
    pub profile: &'static Profile,
    day: Day,
    pub counts: DecodeCounts,
    pub last_error: Option<FeedError>,
}

impl Decoding {
    pub fn new(feed: AnyFeed, day: Day) -> Decoding {
        let (profile, counts) = (feed.profile(), DecodeCounts::default());
        let mut decoding = Decoding { feed, profile, day, counts, last_error: None };
        decoding.feed.begin_day(day.midnight(None));
        decoding
    }

    pub fn note(&mut self, error: FeedError) {
        self.counts.note(&error);
        self.last_error = Some(error);
    }

    /// Starts the day of a session whose first packet arrived at `ts_recv`.
    fn begin_day(&mut self, name: MoldSession, ts_recv: Nanos) {
        self.feed.begin_day(self.day.midnight(Some(ts_recv)));
        self.feed.begin_session(name, ts_recv);
    }

    /// Decodes one message; returns false if the books are wrong without it.
    pub fn message<O: Output>(
        &mut self,
        origin: &Origin,
        sequence: u64,
        ts_send: Nanos,
        message: &[u8],
        out: &mut O,
    ) -> bool {
        let context = Context { sequence, channel: origin.channel.number, ts_send };
        self.counts.messages += 1;
        let told_before = self.counts.told();
        let mut sink = CountingSink { origin, counts: &mut self.counts, out };
        let Err(error) = self.feed.decode(&context, message, &mut sink) else {
            self.counts.without_update += u64::from(self.counts.told() == told_before);
            return true;
        };
        self.refuse(origin, error, out);
        match error {
            FeedError::Length { kind, .. } | FeedError::Field { kind, .. } => {
                !self.profile.book_kinds.contains(&kind[0])
            }
            _ => true,
        }
    }

    #[cold]
    fn refuse<O: Output>(&mut self, origin: &Origin, error: FeedError, out: &mut O) {
        self.note(error);
        out.refused(origin, error);
    }
}

struct CountingSink<'a, O> {
    origin: &'a Origin,
    counts: &'a mut DecodeCounts,
    out: &'a mut O,
}

impl<O: Output> UpdateSink for CountingSink<'_, O> {
    fn define(&mut self, definition: &Definition) {
        self.counts.definitions += 1;
        self.out.define(self.origin, definition);
    }

    #[inline]
    fn update(&mut self, update: Update) {
        self.counts.updates += 1;
        self.out.update(self.origin, update);
    }
}

/// Work that events leave for after the packet.
#[derive(Debug)]
pub(super) struct Notes {
    /// The session, once one was received.
    pub session: Option<u64>,
    /// The session's name, if the feed has names.
    pub name: MoldSession,
    /// The session name of the packet being taken.
    pub coming: Option<MoldSession>,
    /// True if messages are lost that a snapshot can restore.
    pub wants_snapshot: bool,
    /// True if a session began since the last check.
    pub has_new_session: bool,
    /// A channel with a damaged packet.
    pub damaged: Option<u32>,
    /// The messages to request: first sequence number and count.
    pub requests: Vec<(u64, u16)>,
}

impl Notes {
    pub fn new() -> Notes {
        Notes {
            session: None,
            name: MoldSession([b' '; 10]),
            coming: None,
            wants_snapshot: false,
            has_new_session: false,
            damaged: None,
            requests: Vec::with_capacity(64),
        }
    }
}

/// Passes a channel's messages and events to the [`Output`].
pub(super) struct LineHandler<'a, O> {
    pub decoding: &'a mut Decoding,
    pub notes: &'a mut Notes,
    pub pair: u32,
    pub ts_recv: Nanos,
    pub ts_poll: Nanos,
    pub out: &'a mut O,
}

impl<O: Output> LineHandler<'_, O> {
    fn origin(&self, number: u32) -> Origin {
        let channel = ChannelKey { pair: self.pair, number };
        let LineHandler { ts_recv, ts_poll, .. } = *self;
        Origin { channel, ts_recv, ts_poll, is_snapshot: false }
    }

    #[cold]
    fn damage(&mut self, channel: u32) {
        self.notes.damaged = Some(channel);
        self.notes.wants_snapshot = true;
        let key = ChannelKey { pair: self.pair, number: channel };
        self.out.channel(key, &ChannelEvent::Damaged);
    }

    fn event_of(&mut self, event: &Event) -> Option<ChannelEvent> {
        Some(match *event {
            Event::State { from, to } => ChannelEvent::State { from, to },
            Event::Gap { from, to } => ChannelEvent::Gap { from, to },
            Event::Request { sequence, count, .. } => {
                self.notes.requests.push((sequence, count));
                return None;
            }
            Event::Stale { session, from, to, reason } => {
                let is_now = self.notes.session == Some(session);
                self.notes.wants_snapshot |= is_now && reason != StaleReason::SessionOver;
                ChannelEvent::Stale { session, from, to, reason }
            }
            Event::Joined { next } => ChannelEvent::Joined { next },
            Event::Session { session } => {
                self.notes.session = Some(session);
                self.notes.name = self.notes.coming.unwrap_or(self.notes.name);
                self.notes.wants_snapshot = false;
                self.notes.has_new_session = true;
                self.decoding.begin_day(self.notes.name, self.ts_recv);
                ChannelEvent::Clear { reason: ClearReason::Session { session } }
            }
            Event::EndOfSession { session, .. } => ChannelEvent::EndOfSession { session },
        })
    }
}

impl<O: Output> Handler for LineHandler<'_, O> {
    fn deliver(&mut self, run: &Run<'_>) {
        let origin = self.origin(run.channel);
        let mut rest = run.messages;
        self.decoding.feed.of_run(run.run);
        self.decoding.feed.look_ahead(rest);
        let end = u64::from(run.skip) + u64::from(run.count);
        for index in 0..end {
            let message = match self.decoding.feed.next_message(rest) {
                Ok((message, after)) => {
                    rest = after;
                    message
                }
                Err(error) => {
                    self.decoding.refuse(&origin, error, self.out);
                    return self.damage(run.channel);
                }
            };
            let Some(nth) = index.checked_sub(u64::from(run.skip)) else { continue };
            let (sequence, ts_send) = (run.sequence + nth, run.ts_send);
            if !self.decoding.message(&origin, sequence, ts_send, message, self.out) {
                self.damage(run.channel);
            }
        }
        if !rest.is_empty() && self.decoding.profile.is_mold() {
            self.decoding.refuse(&origin, FeedError::Trailing { len: rest.len() }, self.out);
        }
    }

    fn event(&mut self, channel: u32, event: &Event) {
        if let Some(event) = self.event_of(event) {
            let key = ChannelKey { pair: self.pair, number: channel };
            self.out.channel(key, &event);
        }
    }
}
