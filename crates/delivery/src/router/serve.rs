//! Serving a reader its page: the header with the next token first, then the rows.
//!
//! The token has the reader's place in every source after the page, and its places in unknown
//! sources unchanged. While a source is away, and once after, the page has the status of every
//! source.

use weir_types::{Nanos, Reason, SourceStatus};
use weir_wire::delivery::{OrderPage, OrderPageBody, PageFlags, SourceState, SourceStates};
use weir_wire::dialogue::{put_order_page, put_source_states};
use weir_wire::frame::{put_frame, put_frame_with, put_message};

use super::backend::BackendPort;
use super::leg::{Leg, LegStatus, PendingRequest};
use super::reader::Reader;
use super::{Io, Router};
use crate::credit::Credit;
use crate::desk::{PageSink, is_about_min, reject_of};
use crate::page::{PageHead, put_refusal};
use crate::token::SourceCursor;

/// A reader's next step after a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Visit it again at this time.
    At(Nanos),
    /// Visit it again at once.
    Again,
    /// Pause it: its connection can take no data, or its credit is spent.
    Pause,
    /// It has had its last page; its place is kept until this time.
    Linger(Nanos),
    /// It is done.
    Leave,
}

impl Router {
    /// Serves a reader its page, or its refusal.
    pub(super) fn serve<P: BackendPort, S: PageSink>(
        &mut self,
        reader: &mut Reader,
        now: Nanos,
        io: &mut Io<'_, P, S>,
    ) -> NextStep {
        if let Some(reason) = reader.refusal {
            return self.refuse(reader, reason, now, io);
        }
        self.turn = self.turn.wrapping_add(1);
        self.composition.pick(&reader.legs, &reader.page_terms(), self.turn);
        let Some(out) = io.sink.buffer(reader.connection, reader.head.session_id) else {
            return NextStep::Pause;
        };
        reader.head.credit_left -= 1;
        reader.credit.spend(self.composition.row_count, self.composition.byte_count);
        reader.head.served_time = self.wall.wall_at(now);
        let given_up = self.put_page(reader, out);
        for asking in given_up {
            self.give_up(&asking, io.port);
        }
        io.polled.page_count += 1;
        io.polled.row_count += self.composition.row_count;
        reader.go_on(now);
        if reader.head.credit_left > 0 {
            return if reader.credit.is_spent() { NextStep::Pause } else { NextStep::Again };
        }
        if self.config.linger == Nanos(0) {
            return NextStep::Leave;
        }
        let until = Nanos(now.0.saturating_add(self.config.linger.0));
        reader.lingers_until = Some(until);
        // Its next fetch brings its own credit.
        reader.credit = Credit::UNBOUNDED;
        NextStep::Linger(until)
    }
}

impl Router {
    /// Writes the page that was picked, and moves the reader past it; returns the requests that
    /// this gives up.
    fn put_page(&mut self, reader: &mut Reader, out: &mut Vec<u8>) -> Vec<PendingRequest> {
        let scope = reader.scope.expect("only who has a scope gets a page");
        let counts = self.composition.counts();
        self.opened.clear();
        let cursors = reader.legs.iter().zip(counts).map(|(leg, count)| leg.cursor_after(*count));
        self.opened.extend(cursors.chain(reader.carried.iter().copied()));
        self.token.clear();
        self.sealer.seal(&scope, &self.opened, &mut self.token);
        let header = self.header(reader);
        put_order_page(&header, &self.token, out);
        let is_away = header.flags.contains(PageFlags::SOURCE_AWAY);
        if is_away || reader.is_told_away {
            self.put_states(reader, out);
        }
        reader.is_told_away = is_away;
        if self.composition.row_count > 0 {
            let PageHead { correlation_id, session_id, .. } = reader.head;
            put_frame_with(out, |out| {
                put_message(&OrderPageBody { correlation_id, session_id }, out);
                self.composition.put_rows(&reader.legs, out);
            });
        }
        let legs = reader.legs.iter_mut().zip(self.composition.counts());
        legs.filter_map(|(leg, count)| leg.give(*count)).collect()
    }

    /// Appends the status of every source of the fetch.
    fn put_states(&self, reader: &Reader, out: &mut Vec<u8>) {
        let counts = self.composition.counts();
        let legs = reader.legs.iter().zip(counts).map(|(leg, count)| SourceState {
            source_id: leg.source(),
            status: match leg.standing {
                LegStatus::Online if *count == leg.rows.len() => SourceStatus::Online,
                LegStatus::Online | LegStatus::More | LegStatus::Unknown => SourceStatus::Reading,
                LegStatus::Behind => SourceStatus::Behind,
                LegStatus::Away => SourceStatus::Away,
            },
        });
        let is_unknown = |at: &&SourceCursor| self.is_unknown(at);
        let unknown = reader
            .carried
            .iter()
            .filter(is_unknown)
            .map(|at| SourceState { source_id: at.source, status: SourceStatus::Unknown });
        let sources: Vec<SourceState> = legs.chain(unknown).collect();
        let PageHead { correlation_id, session_id, .. } = reader.head;
        put_source_states(&SourceStates { correlation_id, session_id }, &sources, out);
    }

    fn header(&self, reader: &Reader) -> OrderPage {
        let (head, composition) = (&reader.head, &self.composition);
        let flag = |is_set: bool, flag: PageFlags| if is_set { flag } else { PageFlags::default() };
        let has_unknown = reader.carried.iter().any(|at| self.is_unknown(at));
        let is_away = composition.is_source_away || has_unknown;
        OrderPage {
            correlation_id: head.correlation_id,
            oldest_transact_time: composition.oldest_transact_time,
            asked_time: head.asked_time,
            served_time: head.served_time,
            session_id: head.session_id,
            row_count: composition.row_count,
            merged_count: composition.merged_count,
            credit_left: head.credit_left,
            reason: Reason::None,
            flags: flag(composition.is_online, PageFlags::ONLINE)
                .with(flag(composition.is_partial, PageFlags::PARTIAL))
                .with(flag(is_away, PageFlags::SOURCE_AWAY)),
        }
    }

    /// Sends a reader back to the start of every source: the oldest place that is legal in all.
    fn refuse<P: BackendPort, S: PageSink>(
        &mut self,
        reader: &Reader,
        reason: Reason,
        now: Nanos,
        io: &mut Io<'_, P, S>,
    ) -> NextStep {
        let Some(out) = io.sink.buffer(reader.connection, reader.head.session_id) else {
            return NextStep::Pause;
        };
        self.token.clear();
        // A refusal of the minimum leaves the reader's own token valid.
        let is_about_token = !is_about_min(reason);
        if let Some(scope) = reader.scope.as_ref().filter(|_| is_about_token) {
            self.opened.clear();
            let sources = self.pool.sources().iter();
            self.opened.extend(sources.map(|source| Leg::at_start(source.id).at));
            self.sealer.seal(scope, &self.opened, &mut self.token);
        }
        let served_time = self.wall.wall_at(now);
        let head = PageHead { served_time, credit_left: 0, ..reader.head };
        if reader.is_turned_away {
            put_frame(&reject_of(&head, reason), out);
            io.polled.page_count += 1;
            return NextStep::Leave;
        }
        put_refusal(&head, reason, &self.token, out);
        io.polled.page_count += 1;
        self.figures.resync_count += u64::from(is_about_token);
        NextStep::Leave
    }
}
