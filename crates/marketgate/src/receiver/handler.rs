//! Decodes packets to messages and converts channel events: the step between `weir_feed::line`
//! and the [`Output`].

use weir_feed::line::{Event, Handler, Run, StaleReason};
use weir_feed::moldudp64::MoldSession;
use weir_feed::{
    AnyFeed, Context, Definition, Feed, FeedEntry, FeedError, InstrumentIds, Profile, Update,
    UpdateSink,
};
use weir_types::{InstrumentId, Nanos};

use super::channel_numbers::ChannelNumbers;
use super::config::Day;
use super::counts::DecodeCounts;
use super::output::{ChannelEvent, ChannelKey, ClearReason, Origin, Output};

/// The feed's codecs and their errors.
#[derive(Debug)]
pub(super) struct Decoding {
    entry: &'static FeedEntry,
    /// The codec of all pairs; of several channels that number their own instruments, one of each.
    codecs: Vec<AnyFeed>,
    /// The numbers of such channels' instruments.
    numbers: Option<ChannelNumbers>,
    pub profile: &'static Profile,
    day: Day,
    pub counts: DecodeCounts,
    pub last_error: Option<FeedError>,
}

impl Decoding {
    /// Returns the codec of a feed with one pair of lines, or of one whose pairs share it.
    pub fn new(entry: &'static FeedEntry, day: Day) -> Decoding {
        let (profile, counts) = (entry.profile, DecodeCounts::default());
        let codecs = vec![codec(entry, day)];
        Decoding { entry, codecs, numbers: None, profile, day, counts, last_error: None }
    }

    /// Notes that there may be several channels, before their first packet.
    pub fn expect_several_channels(&mut self) {
        if self.profile.instrument_ids == InstrumentIds::OfChannel {
            self.numbers = Some(ChannelNumbers::default());
        }
    }

    /// Returns true if there may be several channels that number their own instruments.
    pub fn has_several_channels(&self) -> bool {
        self.numbers.is_some()
    }

    /// Returns the place of a pair's codec.
    #[inline]
    fn place_of(&mut self, pair: u32) -> usize {
        if self.numbers.is_none() {
            return 0;
        }
        let (place, codecs) = (pair as usize, &mut self.codecs);
        if place >= codecs.len() {
            codecs.resize_with(place + 1, || codec(self.entry, self.day));
        }
        place
    }

    /// Returns a pair's codec.
    #[inline]
    pub fn codec(&mut self, pair: u32) -> &mut AnyFeed {
        let place = self.place_of(pair);
        &mut self.codecs[place]
    }

    pub fn note(&mut self, error: FeedError) {
        self.counts.note(&error);
        self.last_error = Some(error);
    }

    /// Starts the day of a session whose first packet arrived at `ts_recv`.
    fn begin_day(&mut self, pair: u32, name: MoldSession, ts_recv: Nanos) {
        let midnight = self.day.midnight(Some(ts_recv));
        let codec = self.codec(pair);
        codec.begin_day(midnight);
        codec.begin_session(name, ts_recv);
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
        let codec = self.place_of(origin.channel.pair);
        let numbers = self.numbers.as_mut();
        let mut sink = CountingSink { origin, counts: &mut self.counts, numbers, out };
        let Err(error) = self.codecs[codec].decode(&context, message, &mut sink) else {
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

/// Returns a feed's codec before any session.
fn codec(entry: &FeedEntry, day: Day) -> AnyFeed {
    let mut codec = (entry.feed)();
    codec.begin_day(day.midnight(None));
    codec
}

struct CountingSink<'a, O> {
    origin: &'a Origin,
    counts: &'a mut DecodeCounts,
    numbers: Option<&'a mut ChannelNumbers>,
    out: &'a mut O,
}

impl<O> CountingSink<'_, O> {
    #[inline]
    fn number(&mut self, own: InstrumentId) -> InstrumentId {
        let pair = self.origin.channel.pair;
        self.numbers.as_mut().map_or(own, |numbers| numbers.of(pair, own))
    }
}

impl<O: Output> UpdateSink for CountingSink<'_, O> {
    fn define(&mut self, definition: &Definition) {
        self.counts.definitions += 1;
        let instrument_id = self.number(definition.instrument_id);
        self.out.define(self.origin, &Definition { instrument_id, ..*definition });
    }

    #[inline]
    fn update(&mut self, update: Update) {
        self.counts.updates += 1;
        let instrument_id = self.number(update.instrument_id);
        self.out.update(self.origin, Update { instrument_id, ..update });
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
                self.decoding.begin_day(self.pair, self.notes.name, self.ts_recv);
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
        let codec = self.decoding.codec(self.pair);
        codec.of_run(run.run);
        codec.look_ahead(rest);
        let end = u64::from(run.skip) + u64::from(run.count);
        for index in 0..end {
            let message = match self.decoding.codec(self.pair).next_message(rest) {
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
