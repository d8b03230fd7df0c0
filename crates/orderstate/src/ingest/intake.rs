//! The messages of cores and replicas: sources opened and followed, and batches. Each is handed to
//! the store or refused; none is carried out here.

use weir_door::figures::add;
use weir_door::{Intake, Link, LoggedOn, SessionMessage};
use weir_types::{PartitionId, Reason, Role, SessionId};
use weir_wire::ClientMessage;
use weir_wire::frame::put_frame;
use weir_wire::ingest::{OpenSource, ResetSource, SourceReject};
use weir_wire::replica::FollowSource;

use super::agent::{CoreState, Ingest};
use super::handoff::{OPENING_COST, StoreRequest};
use crate::stores::WINDOW;

impl Ingest {
    pub(super) fn take_message(
        &mut self,
        link: &mut Link<CoreState>,
        said: &SessionMessage<'_>,
    ) -> Intake {
        match said.message {
            ClientMessage::OpenSource(open) => self.open(link, open),
            ClientMessage::SourceBatch(batch, _) => self.hand_on(link, batch.source_id, said.frame),
            ClientMessage::FollowSource(follow) => self.follow(link, &said.session, follow),
            ClientMessage::ResetSource(reset) => self.reset(link, &said.session, reset),
            _ => Intake::Refused(Reason::NotServedHere, ""),
        }
    }

    /// Hands an opening on, if the session may feed the source.
    fn open(&mut self, link: &mut Link<CoreState>, open: &OpenSource) -> Intake {
        let source = self.sources.iter().find(|(source, _)| *source == open.source_id);
        let reason = match source {
            None => Reason::UnknownSource,
            Some((_, session_id)) if *session_id != open.session_id => Reason::NotEntitled,
            Some(_) => {
                // A connection that has ended may have had it open.
                let may_ask = self.has_told_gone() && has_window(link, OPENING_COST);
                if !may_ask || !self.ask(link.id, StoreRequest::Open(*open)) {
                    return Intake::Wait;
                }
                link.state.under_way += OPENING_COST;
                if !link.state.sources.contains(&open.source_id) {
                    link.state.sources.push(open.source_id);
                }
                return Intake::Done;
            }
        };
        let address = SourceAddress { session_id: open.session_id, source_id: open.source_id };
        self.reject(link, address, reason)
    }

    /// Hands a replica's request on: a session that may see all orders may have a copy of all.
    fn follow(
        &mut self,
        link: &mut Link<CoreState>,
        session: &LoggedOn,
        follow: &FollowSource,
    ) -> Intake {
        let reason = match self.has_source(follow.source_id) {
            _ if session.role != Role::Supervisor => Reason::NotEntitled,
            false => Reason::UnknownSource,
            true if self.has_told_gone() && self.ask(link.id, StoreRequest::Follow(*follow)) => {
                return Intake::Done;
            }
            true => return Intake::Wait,
        };
        let address = SourceAddress { session_id: follow.session_id, source_id: follow.source_id };
        self.reject(link, address, reason)
    }

    /// Hands an operator's order on to forget a source.
    fn reset(
        &mut self,
        link: &mut Link<CoreState>,
        session: &LoggedOn,
        reset: &ResetSource,
    ) -> Intake {
        let reason = match self.sources.iter().any(|(source, _)| *source == reset.source_id) {
            _ if session.role != Role::Operator => Reason::NotEntitled,
            false => Reason::UnknownSource,
            true if self.has_told_gone() && self.ask(link.id, StoreRequest::Reset(*reset)) => {
                return Intake::Done;
            }
            true => return Intake::Wait,
        };
        let address = SourceAddress { session_id: reset.session_id, source_id: reset.source_id };
        self.reject(link, address, reason)
    }

    fn has_source(&self, source: PartitionId) -> bool {
        self.sources.iter().any(|(known, _)| *known == source) || self.followed.contains(&source)
    }

    fn hand_on(
        &mut self,
        link: &mut Link<CoreState>,
        source_id: PartitionId,
        frame: &[u8],
    ) -> Intake {
        if !link.state.sources.contains(&source_id) {
            return Intake::Refused(Reason::SourceNotOpen, "source_id");
        }
        if !has_window(link, frame.len()) || !self.ask(link.id, StoreRequest::Batch(frame.to_vec()))
        {
            return Intake::Wait;
        }
        link.state.under_way += frame.len();
        add(&self.figures.batches.batch_bytes, frame.len() as u64);
        Intake::Done
    }

    fn reject(
        &mut self,
        link: &mut Link<CoreState>,
        address: SourceAddress,
        reason: Reason,
    ) -> Intake {
        let SourceAddress { session_id, source_id } = address;
        add(&self.figures.batches.refused, 1);
        let reject = SourceReject {
            batch_no: weir_types::BatchNo::NONE,
            next_batch_no: weir_types::BatchNo::NONE,
            head_seq: weir_types::Seq(0),
            head_rec: weir_types::Rec(0),
            session_id,
            epoch: weir_types::Epoch::NONE,
            row_no: 0,
            source_id,
            reason,
        };
        put_frame(&reject, &mut link.socket.output);
        Intake::Done
    }
}

/// The session and the source that a request names.
struct SourceAddress {
    session_id: SessionId,
    source_id: PartitionId,
}

/// Returns true if `len` more bytes fit the window in front of the store.
fn has_window(link: &Link<CoreState>, len: usize) -> bool {
    link.state.under_way + len <= WINDOW.bytes as usize
}
