//! The connection to post-processing: the audit's tap of datagrams, events for bars and statistics,
//! and the agent of the post-processing thread.
//!
//! Neither the receiving nor the updating thread ever waits for it: datagrams and events without
//! room are counted and recorded in the files as gaps.

use weir_feed::capture::Datagram;
use weir_feed::capture::audit::LineNo;
use weir_feed::line::Line;
use weir_feed::{Action, Definition, FeedError, Update};
use weir_market::Books;
use weir_market::bar::{BarBreak, BarTrade};
use weir_market::book::Change;
use weir_market::interval::{Activity, BookStatement, ChannelReset, QuoteChange, StateChange};
use weir_runtime::Agent;
use weir_types::{InstrumentId, Nanos, WallOffset};

use super::batch::UpdateOrigin;
use super::flush_slot::ChannelIndex;
use super::instrument_state::InstrumentState;
use super::next_stage::Stage;
use crate::post::audit::AuditSender;
use crate::post::{PostEvent, PostProcessor, PostSender};
use crate::receiver::{ChannelEvent, ChannelKey, ClearReason, FeedSection, Origin, Output};

/// The poll interval of an idle thread, in nanoseconds: the rings hold far more than arrives
/// meanwhile.
const LOOK_INTERVAL: u64 = 1_000_000;

/// The names of a feed's lines in an audit: A, B and retransmission for each pair.
#[must_use]
pub fn line_names(feed: &FeedSection) -> Vec<String> {
    let pairs = (0..).zip(&feed.lines);
    pairs
        .flat_map(|(pair, lines)| {
            let b = lines.b.map_or_else(|| "none".to_owned(), |b| b.address.to_string());
            let request = lines.request.map_or_else(|| "none".to_owned(), |at| at.to_string());
            [
                format!("{pair} A {}", lines.a.address),
                format!("{pair} B {b}"),
                format!("{pair} R {request}"),
            ]
        })
        .collect()
}

/// The index of a line among those names.
fn line_no(pair: u32, line: Line) -> LineNo {
    let place = match line {
        Line::A => 0,
        Line::B => 1,
        Line::Retransmission => 2,
    };
    // The configuration allows fewer pairs than an audit can number.
    LineNo(u16::try_from(pair * 3 + place).unwrap_or(u16::MAX))
}

/// A stage that first passes every datagram to the audit, if there is one.
pub struct AuditedStage<S> {
    stage: S,
    audit: Option<AuditSender>,
}

impl<S> AuditedStage<S> {
    /// Passes datagrams to `audit`, and everything to `stage`.
    #[must_use]
    pub fn new(stage: S, audit: Option<AuditSender>) -> AuditedStage<S> {
        AuditedStage { stage, audit }
    }
}

impl<S: Output> Output for AuditedStage<S> {
    fn datagram(&mut self, pair: u32, line: Line, datagram: &Datagram<'_>, ts_poll: Nanos) {
        if let Some(audit) = &mut self.audit {
            let _handed = audit.send(line_no(pair, line), ts_poll, datagram);
        }
        self.stage.datagram(pair, line, datagram, ts_poll);
    }

    fn drops_datagrams(&mut self) -> bool {
        self.stage.drops_datagrams()
    }

    fn define(&mut self, origin: &Origin, definition: &Definition) {
        self.stage.define(origin, definition);
    }

    fn update(&mut self, origin: &Origin, update: Update) {
        self.stage.update(origin, update);
    }

    fn channel(&mut self, channel: ChannelKey, event: &ChannelEvent) {
        self.stage.channel(channel, event);
    }

    fn refused(&mut self, origin: &Origin, error: FeedError) {
        self.stage.refused(origin, error);
    }

    fn end_of_packet(&mut self, origin: &Origin) {
        self.stage.end_of_packet(origin);
    }
}

impl<S: Stage> Stage for AuditedStage<S> {
    fn turn(&mut self, now: Nanos) -> usize {
        if let Some(audit) = &mut self.audit {
            audit.tell_gaps();
        }
        self.stage.turn(now)
    }

    fn has_room(&mut self) -> bool {
        self.stage.has_room()
    }

    fn next_due(&self) -> Option<Nanos> {
        self.stage.next_due()
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.audit.iter_mut().for_each(|audit| audit.wall_clock_moved(wall));
        self.stage.wall_clock_moved(wall);
    }
}

/// Sends the events of an update for bars and statistics.
#[inline]
pub(super) fn tell_update(
    to: &mut PostSender,
    source: &UpdateOrigin,
    known: &[InstrumentState],
    update: &Update,
    change: &Change,
) {
    let wants = to.wants();
    if wants.bars {
        tell_trades(to, update, change);
    }
    // A snapshot's updates did not happen now: the resulting book is sent instead.
    if wants.statistics && !source.is_snapshot {
        tell_statistics(to, source.channel, known, update, change);
    }
}

/// Sends the events for bars.
fn tell_trades(to: &mut PostSender, update: &Update, change: &Change) {
    if let Some(trade) = BarTrade::of(update, change) {
        hand_over(to, PostEvent::Trade(trade));
    }
    if let Action::TradeBreak { match_id, size, price } = update.action {
        let (instrument_id, sequence) = (change.instrument_id, update.sequence);
        let ts_event = update.ts_event;
        let undone = BarBreak { instrument_id, sequence, ts_event, match_id, price, size };
        hand_over(to, PostEvent::Break(undone));
    }
}

/// Sends the events for statistics.
fn tell_statistics(
    to: &mut PostSender,
    channel: ChannelIndex,
    known: &[InstrumentState],
    update: &Update,
    change: &Change,
) {
    if let Some(activity) = Activity::of(channel, update, change) {
        hand_over(to, PostEvent::Act(activity));
    }
    if let Some(called) = StateChange::of(channel, update, change) {
        hand_over(to, PostEvent::Call(called));
    }
    if change.best.is_some() || change.is_cleared {
        let status = known.get(change.instrument_id.0 as usize).and_then(|known| known.status);
        let state = status.map(|status| status.state);
        if let Some(quoted) = QuoteChange::of(channel, state, update, change) {
            hand_over(to, PostEvent::Quote(quoted));
        }
    }
}

/// Reports that an instrument's book is valid again.
pub(super) fn tell_book(
    to: &mut PostSender,
    instrument_id: InstrumentId,
    known: &InstrumentState,
    books: &Books,
) {
    if to.wants().statistics {
        let (channel, state) = (known.channel, known.status.map(|status| status.state));
        let quote = (&books.best(instrument_id)).into();
        hand_over(to, PostEvent::Book(BookStatement { instrument_id, channel, state, quote }));
    }
}

/// Reports that a channel's books are void.
pub(super) fn tell_void(to: &mut PostSender, channel: ChannelIndex, voided: ChannelReset) {
    if to.wants().statistics {
        hand_over(to, PostEvent::Void(channel, voided));
    }
}

/// Sends the events of a channel event for bars and statistics.
pub(super) fn tell_channel(to: &mut PostSender, channel: ChannelIndex, event: &ChannelEvent) {
    match event {
        ChannelEvent::Stale { .. } | ChannelEvent::Damaged => {
            hand_over(to, PostEvent::Gap(channel));
        }
        ChannelEvent::EndOfSession { .. } => hand_over(to, PostEvent::EndSession(channel)),
        ChannelEvent::Clear { reason: ClearReason::Session { .. } } => {
            tell_void(to, channel, ChannelReset::NewSession);
        }
        ChannelEvent::Clear { .. } => tell_void(to, channel, ChannelReset::GivenUp),
        _ => {}
    }
}

/// Sends an event; the ring counts an event without room and marks the gap.
pub(super) fn hand_over(to: &mut PostSender, event: PostEvent) {
    let _handed = to.send(&event);
}

/// The agent of the post-processing thread. It writes to disks and blocks on them.
pub struct PostAgent {
    processor: Option<PostProcessor>,
}

impl PostAgent {
    /// Creates the agent of this processor.
    #[must_use]
    pub fn new(processor: PostProcessor) -> PostAgent {
        PostAgent { processor: Some(processor) }
    }
}

impl Agent for PostAgent {
    fn name(&self) -> &'static str {
        "market-post"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        self.processor.as_mut().map_or(0, |processor| processor.poll(now))
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.processor.iter_mut().for_each(|processor| processor.wall_clock_moved(wall));
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        Some(Nanos(now.0 + LOOK_INTERVAL))
    }

    fn stop(&mut self, now: Nanos) -> bool {
        if let Some(processor) = self.processor.take() {
            let _figures = processor.finish(now);
        }
        true
    }
}

#[cfg(test)]
mod tests;
