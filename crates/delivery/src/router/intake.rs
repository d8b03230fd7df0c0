//! The input from backends: frames as a node sends them to any client, checked against the
//! protocol.
//!
//! A page is processed when its header and all its rows have come, and is used whole or not at all.
//! A backend that breaks the protocol is set aside.

use weir_types::{Nanos, Reason};
use weir_wire::delivery::{OrderPage, OrderPageBody, PageFlags, SourceStates};
use weir_wire::frame::{Framing, RawMessage, next_frame};
use weir_wire::rows::Rows;
use weir_wire::session::{Heartbeat, Reject};
use weir_wire::{DecodeError, Message, NodeMessage};

use super::Router;
use super::backend::{BackendFault, BackendId, BadPage};
use super::leg::{Leg, LegStatus, PendingRequest};
use super::probe::is_probe;
use super::rows::PageRows;
use crate::token::{SourceCursor, TokenError};

/// The longest frame of a backend: a page's header is short, its rows are bounded by the request,
/// with room for one row of any length.
const FRAME_LEN_MAX: usize = 64 * 1024 * 1024;

/// A header whose rows have not come yet.
#[derive(Debug)]
pub(super) struct AwaitedRows {
    pub(super) backend: BackendId,
    pub(super) header: OrderPage,
    pub(super) token: Vec<u8>,
}

/// The leg that an answer belongs to.
struct Found {
    slot: u32,
    index: usize,
    asking: PendingRequest,
}

impl Router {
    /// Takes in a backend's bytes: whole frames at the start of `bytes`. Returns the number of
    /// bytes used; the caller passes the rest again together with the bytes that follow.
    ///
    /// # Errors
    /// [`BackendFault`] if the backend broke the protocol: it is set aside, and its connection
    /// should be closed.
    pub fn take(&mut self, id: BackendId, bytes: &[u8], now: Nanos) -> Result<usize, BackendFault> {
        let mut used = 0;
        loop {
            let taken = match next_frame(&bytes[used..], FRAME_LEN_MAX) {
                Framing::Incomplete => return Ok(used),
                Framing::Broken(broken) => Err(broken.into()),
                Framing::Frame { len, message } => {
                    used += len;
                    message.map_err(BackendFault::from).and_then(|raw| self.on_message(id, &raw))
                }
            };
            if let Err(fault) = taken {
                self.put_aside(id, fault, now);
                return Err(fault);
            }
        }
    }

    fn on_message(&mut self, id: BackendId, raw: &RawMessage<'_>) -> Result<(), BackendFault> {
        match raw.template_id {
            OrderPage::TEMPLATE_ID => match NodeMessage::decode(raw)? {
                NodeMessage::OrderPage(header, token) => self.on_header(id, &header, token),
                _ => unreachable!("the template says what it is"),
            },
            OrderPageBody::TEMPLATE_ID => match NodeMessage::decode(raw)? {
                NodeMessage::OrderPageBody(body, rows) => self.on_rows(id, &body, rows),
                _ => unreachable!("the template says what it is"),
            },
            Reject::TEMPLATE_ID => self.on_reject(id, &raw.decode_whole()?),
            // A router behind this one also flags its pages when sources are away.
            Heartbeat::TEMPLATE_ID | SourceStates::TEMPLATE_ID => Ok(()),
            _ => Err(DecodeError::Unexpected("a message for a client that trades").into()),
        }
    }

    /// Returns the leg that waits for an answer; `None` if the request was given up.
    fn find(&mut self, id: BackendId, correlation_id: u64) -> Option<Found> {
        let slot = u32::try_from(correlation_id >> 32).expect("32 bits are left");
        let found = self.seats.get(slot).and_then(|reader| {
            let is_its = |leg: &Leg| {
                leg.asking.is_some_and(|asking| {
                    asking.backend == id && asking.correlation_id == correlation_id
                })
            };
            let index = reader.legs.iter().position(is_its)?;
            Some(Found { slot, index, asking: reader.legs[index].asking? })
        });
        if found.is_none() {
            self.figures.late_count += 1;
        }
        found
    }

    fn leg_mut(&mut self, found: &Found) -> &mut Leg {
        &mut self.seats.get_mut(found.slot).expect("found above").legs[found.index]
    }

    fn on_header(
        &mut self,
        id: BackendId,
        header: &OrderPage,
        token: &[u8],
    ) -> Result<(), BackendFault> {
        if self.due_rows.iter().any(|due| due.backend == id) {
            return Err(BadPage::Sequence.into());
        }
        if header.row_count > 0 {
            // Its rows follow, and the header is processed with them.
            let token = token.to_vec();
            self.due_rows.push(AwaitedRows { backend: id, header: *header, token });
            return Ok(());
        }
        if is_probe(header.correlation_id) {
            return self.on_probe(id, header, token);
        }
        let Some(found) = self.find(id, header.correlation_id) else { return Ok(()) };
        match header.reason {
            Reason::None => self.on_page(&found, header, token, Rows::default()),
            reason => self.on_refusal(&found, reason, token),
        }
    }

    fn on_rows(
        &mut self,
        id: BackendId,
        body: &OrderPageBody,
        rows: Rows<'_>,
    ) -> Result<(), BackendFault> {
        let due = self.due_rows.iter().position(|due| due.backend == id);
        let due = due.map(|index| self.due_rows.swap_remove(index));
        let due = due.filter(|due| due.header.correlation_id == body.correlation_id);
        let Some(due) = due else { return Err(BadPage::Sequence.into()) };
        if is_probe(body.correlation_id) {
            return self.on_probe(id, &due.header, &due.token);
        }
        let Some(found) = self.find(id, body.correlation_id) else { return Ok(()) };
        self.on_page(&found, &due.header, &due.token, rows)
    }

    fn on_page(
        &mut self,
        found: &Found,
        header: &OrderPage,
        token: &[u8],
        rows: Rows<'_>,
    ) -> Result<(), BackendFault> {
        let end = self.cursor_of(found, token)?;
        self.heard_log(found.asking.backend, end.log)?;
        self.hear_page(found, header, &end);
        let leg = self.leg_mut(found);
        if end.change_id < leg.at.change_id {
            return Err(BadPage::TokenGoesBack(end.change_id).into());
        }
        leg.rows.fill(&PageRows {
            after: leg.at.change_id,
            until: end.change_id,
            row_count: header.row_count,
            is_partial: header.flags.contains(PageFlags::PARTIAL),
            rows,
        })?;
        let is_where_it_was = end.change_id == leg.at.change_id;
        leg.end = end;
        if leg.rows.is_empty() {
            leg.at = end;
        }
        if found.asking.has_min {
            leg.min = None;
        }
        (leg.asking, leg.lost_since) = (None, None);
        leg.standing = match header.flags.contains(PageFlags::ONLINE) {
            true => LegStatus::Online,
            // A store that has not reached the place neither moves it nor sets ONLINE.
            false if is_where_it_was => LegStatus::Behind,
            false => LegStatus::More,
        };
        self.figures.answer_count += 1;
        self.figures.answer_row_count += u64::from(header.row_count);
        self.answered(found);
        Ok(())
    }

    /// Records the progress that a page shows: its token's place if it is ONLINE, at least that
    /// place if it moved the reader on. The rest of the token may come from another backend.
    fn hear_page(&mut self, found: &Found, header: &OrderPage, end: &SourceCursor) {
        let id = found.asking.backend;
        let is_online = header.flags.contains(PageFlags::ONLINE);
        if !is_online && end.change_id == self.leg_mut(found).at.change_id {
            return;
        }
        let head = self.pool.not_before(id, end.epoch, end.change_id);
        self.heard_of(id, end.epoch, head);
    }

    /// Passes a backend's refusal on if it concerns the reader's place; it is the backend's fault
    /// if it concerns the router's own token or rights.
    fn on_refusal(
        &mut self,
        found: &Found,
        reason: Reason,
        token: &[u8],
    ) -> Result<(), BackendFault> {
        let is_final = match reason {
            Reason::ResyncFloor => true,
            Reason::ResyncEpoch => {
                let start = self.cursor_of(found, token)?;
                self.heard_log(found.asking.backend, start.log)?;
                let (id, head) = (found.asking.backend, self.pool.head_of(found.asking.backend));
                self.pool.heard_of(id, start.epoch, head);
                // A replica that does not know the epoch yet cannot decide.
                found.asking.is_forced || start.epoch >= self.leg_mut(found).at.epoch
            }
            // Another store may have reached it, as long as there is time.
            Reason::MinTokenNotReached => false,
            _ => return Err(BackendFault::Refused(reason)),
        };
        let leg = self.leg_mut(found);
        leg.asking = None;
        leg.standing = LegStatus::Behind;
        if is_final {
            let reader = self.seats.get_mut(found.slot).expect("found above");
            reader.refusal = Some(reason);
        }
        self.answered(found);
        Ok(())
    }

    fn on_reject(&mut self, id: BackendId, reject: &Reject) -> Result<(), BackendFault> {
        if is_probe(reject.request_no.0) {
            return Err(BackendFault::Refused(reject.reason));
        }
        match self.find(id, reject.request_no.0) {
            None => Ok(()),
            // The store has been put aside: its other waiting fetches are rejected too.
            Some(found) if !self.pool.is_serving(&found.asking) => Ok(()),
            Some(found) if self.config.is_in_process => {
                self.turn_away(&found, reject.reason);
                Ok(())
            }
            Some(_) => Err(BackendFault::Refused(reject.reason)),
        }
    }

    /// Refuses a reader whose request a desk of this process refuses for now.
    fn turn_away(&mut self, found: &Found, reason: Reason) {
        self.pool.is_done(&found.asking);
        self.leg_mut(found).asking = None;
        self.seats.get_mut(found.slot).expect("found above").turn_away(reason);
        self.seats.make_ready(found.slot);
    }

    fn answered(&mut self, found: &Found) {
        self.pool.is_done(&found.asking);
        self.pool.answered(found.asking.backend);
        self.leg_mut(found).avoided = None;
        if self.pool.succeeded(found.asking.backend) {
            // One request tested it; the others have waited for that.
            self.wake_readers_without(self.pool.info(found.asking.backend).source);
        }
        self.seats.make_ready(found.slot);
    }

    /// Returns the place in an answer's token, in the source that was asked.
    fn cursor_of(&mut self, found: &Found, token: &[u8]) -> Result<SourceCursor, BadPage> {
        let reader = self.seats.get(found.slot).expect("found above");
        let source = reader.legs[found.index].source();
        let scope = reader.scope.as_ref().expect("only who has a scope is tended");
        let (_, scope) = self.rights_at(found.asking.backend, &reader.terms, scope);
        self.opened.clear();
        self.sealer.open(&scope, token, &mut self.opened)?;
        match self.opened[..] {
            [at] if at.source == source => Ok(at),
            [at, ..] => Err(TokenError::Source(at.source).into()),
            [] => Err(TokenError::Source(source).into()),
        }
    }
}
