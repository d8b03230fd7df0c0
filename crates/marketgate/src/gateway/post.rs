//! Post-processing beside the pipeline: where datagrams leave it, and the thread that keeps them.
//!
//! Neither the receiving nor the updating thread waits for it: what finds no room is counted and
//! told in the files as a gap.

use weir_feed::capture::Datagram;
use weir_feed::capture::audit::LineNo;
use weir_feed::line::Line;
use weir_feed::{Action, Definition, FeedError, Update};
use weir_market::Books;
use weir_market::bar::{BarBreak, BarTrade};
use weir_market::book::Change;
use weir_market::interval::{Activity, BookStated, Called, Quoted, Voided};
use weir_runtime::Agent;
use weir_types::{InstrumentId, Nanos};

use crate::post::audit::AuditSender;
use crate::post::{PostEvent, PostProcessor, PostSender};
use crate::receiver::{ChannelEvent, ChannelKey, ClearReason, FeedSection, Origin, Output};
use super::receive::Stage;
use super::saying::{Known, Source};
use super::told::ChannelIndex;

/// What waits is looked at so often, in nanoseconds: the rings hold far more than comes meanwhile.
const LOOK_INTERVAL: u64 = 1_000_000;

/// The names of a feed's lines as an audit has them: of each pair A, B and answers to requests.
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

/// A line's number among those names.
fn line_no(pair: u32, line: Line) -> LineNo {
    let place = match line {
        Line::A => 0,
        Line::B => 1,
        Line::Retransmission => 2,
    };
    // The configuration has fewer pairs than an audit numbers.
    LineNo(u16::try_from(pair * 3 + place).unwrap_or(u16::MAX))
}

/// A stage before which every datagram is handed to the audit, where there is one.
pub struct Kept<S> {
    stage: S,
    audit: Option<AuditSender>,
}

impl<S> Kept<S> {
    /// Hands datagrams to `audit` and the rest to `stage`.
    #[must_use]
    pub fn new(stage: S, audit: Option<AuditSender>) -> Kept<S> {
        Kept { stage, audit }
    }
}

impl<S: Output> Output for Kept<S> {
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

impl<S: Stage> Stage for Kept<S> {
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
}

/// Hands over what an update means for bars and statistics.
#[inline]
pub(super) fn tell_update(
    to: &mut PostSender,
    (source, known): (&Source, &[Known]),
    update: &Update,
    change: &Change,
) {
    let wants = to.wants();
    if wants.bars {
        tell_trades(to, update, change);
    }
    // What a snapshot says did not happen now: the book that it comes to is told.
    if wants.statistics && !source.is_snapshot {
        tell_statistics(to, (source.channel, known), update, change);
    }
}

/// Hands over what bars are made of.
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

/// Hands over what statistics are made of.
fn tell_statistics(
    to: &mut PostSender,
    (channel, known): (ChannelIndex, &[Known]),
    update: &Update,
    change: &Change,
) {
    if let Some(activity) = Activity::of(channel, update, change) {
        hand_over(to, PostEvent::Act(activity));
    }
    if let Some(called) = Called::of(channel, update, change) {
        hand_over(to, PostEvent::Call(called));
    }
    if change.best.is_some() || change.is_cleared {
        let status = known.get(change.instrument_id.0 as usize).and_then(|known| known.status);
        let state = status.map(|status| status.state);
        if let Some(quoted) = Quoted::of((channel, state), update, change) {
            hand_over(to, PostEvent::Quote(quoted));
        }
    }
}

/// Hands over that an instrument's book is known again.
pub(super) fn tell_book(
    to: &mut PostSender,
    (instrument_id, known): (InstrumentId, &Known),
    books: &Books,
) {
    if to.wants().statistics {
        let (channel, state) = (known.channel, known.status.map(|status| status.state));
        let quote = (&books.best(instrument_id)).into();
        hand_over(to, PostEvent::Book(BookStated { instrument_id, channel, state, quote }));
    }
}

/// Hands over what became of a channel's books.
pub(super) fn tell_void(to: &mut PostSender, channel: ChannelIndex, voided: Voided) {
    if to.wants().statistics {
        hand_over(to, PostEvent::Void(channel, voided));
    }
}

/// Hands over what a channel's event means for bars and statistics.
pub(super) fn tell_channel(to: &mut PostSender, channel: ChannelIndex, event: &ChannelEvent) {
    match event {
        ChannelEvent::Stale { .. } | ChannelEvent::Damaged => {
            hand_over(to, PostEvent::Gap(channel));
        }
        ChannelEvent::EndOfSession { .. } => hand_over(to, PostEvent::EndSession(channel)),
        ChannelEvent::Clear { reason: ClearReason::Session { .. } } => {
            tell_void(to, channel, Voided::NewSession);
        }
        ChannelEvent::Clear { .. } => tell_void(to, channel, Voided::GivenUp),
        _ => {}
    }
}

/// What finds no room is counted by the ring, and marks what lacks it.
pub(super) fn hand_over(to: &mut PostSender, event: PostEvent) {
    let _handed = to.send(&event);
}

/// The thread's agent. It writes to disks and waits for them.
pub struct PostAgent {
    processor: Option<PostProcessor>,
}

impl PostAgent {
    /// Runs this.
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
