//! What a core's frames say: its logon, its sources, its batches; and the answer to what has no
//! place.

use weir_door::reception::Via;
use weir_door::{ConnectionId, Welcome, reason_of, reject, take_logon};
use weir_types::{Nanos, PartitionId, Reason, Role, SessionId};
use weir_wire::frame::{Framing, RawMessage, next_frame, put_frame};
use weir_wire::ingest::{OpenSource, SOURCE_FRAME_LEN_MAX, SourceReject};
use weir_wire::replica::FollowSource;
use weir_wire::{ClientMessage, DecodeError};

use super::agent::{IngestAgent, add};
use super::handoff::Asked;
use super::link::Link;
use crate::stores::WINDOW;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    Done,
    /// It has no room where it goes: it waits, and what is behind it.
    NoRoom,
}

impl IngestAgent {
    /// Takes whole frames until one has to wait; how many.
    pub(super) fn take_frames(&mut self, id: u64, link: &mut Link, now: Nanos) -> usize {
        let input = link.socket.take_input();
        let (mut consumed, mut frames) = (0, 0);
        link.must_wait = false;
        while !link.socket.is_closing() {
            match next_frame(&input[consumed..], SOURCE_FRAME_LEN_MAX) {
                Framing::Incomplete => break,
                Framing::Broken(broken) => {
                    add(&self.figures.malformed, 1);
                    add(&self.figures.ended, 1);
                    link.close(reason_of(broken, SOURCE_FRAME_LEN_MAX), now);
                }
                Framing::Frame { len, message } => {
                    let frame = &input[consumed..consumed + len];
                    if self.take_frame(id, link, (frame, message), now) == Intake::NoRoom {
                        add(&self.figures.back_pressure, 1);
                        link.must_wait = true;
                        break;
                    }
                    consumed += len;
                    frames += 1;
                }
            }
        }
        link.socket.return_input(input, consumed);
        frames
    }

    fn take_frame(
        &mut self,
        id: u64,
        link: &mut Link,
        (frame, message): (&[u8], Result<RawMessage<'_>, DecodeError>),
        now: Nanos,
    ) -> Intake {
        let raw = match message {
            Ok(raw) => raw,
            Err(error) => return self.refuse(link, None, (error.reason(), error.field()), now),
        };
        match ClientMessage::decode(&raw) {
            Ok(
                message @ (ClientMessage::Logon(..)
                | ClientMessage::ChallengeRequest(_)
                | ClientMessage::SignedLogon(..)),
            ) => self.take_logon(id, link, (&raw, &message), now),
            Ok(ClientMessage::Heartbeat(_)) => Intake::Done,
            Ok(ClientMessage::Logout(_)) => {
                link.close(Reason::LogoutRequested, now);
                Intake::Done
            }
            Ok(ClientMessage::OpenSource(open)) => self.open(id, link, &open, &raw, now),
            Ok(ClientMessage::SourceBatch(batch, _)) => {
                let whose = (batch.session_id, batch.source_id);
                self.hand_on(id, link, whose, (frame, &raw), now)
            }
            Ok(ClientMessage::FollowSource(follow)) => self.follow(id, link, (&follow, &raw), now),
            Ok(_) => self.refuse(link, Some(&raw), (Reason::NotServedHere, ""), now),
            Err(error) => self.refuse(link, Some(&raw), (error.reason(), error.field()), now),
        }
    }

    fn take_logon(
        &mut self,
        id: u64,
        link: &mut Link,
        message: (&RawMessage<'_>, &ClientMessage<'_>),
        now: Nanos,
    ) -> Intake {
        let via = Via { connection: ConnectionId(id), now };
        let is_taken = link.session.is_some();
        let by_session = &self.by_session;
        let may = |session_id, role| {
            if is_taken || by_session.contains_key(&session_id) {
                return Err(Reason::AlreadyLoggedOn);
            }
            let is_core = matches!(role, Role::Source | Role::Supervisor);
            if is_core { Ok(()) } else { Err(Reason::NotEntitled) }
        };
        match take_logon(&mut self.reception, message, via, may, &mut link.socket.output) {
            Welcome::Open(session) => {
                link.session = Some(session);
                self.by_session.insert(session.session_id, id);
            }
            Welcome::Refused => add(&self.figures.logons_refused, 1),
            Welcome::Challenged | Welcome::Other => {}
            Welcome::Wait => return Intake::NoRoom,
        }
        Intake::Done
    }

    /// Hands an opening on, when the session may feed the source.
    fn open(
        &mut self,
        id: u64,
        link: &mut Link,
        open: &OpenSource,
        raw: &RawMessage<'_>,
        now: Nanos,
    ) -> Intake {
        if !is_logged_on(link, open.session_id) {
            return self.refuse(link, Some(raw), (Reason::NotLoggedOn, "session_id"), now);
        }
        let source = self.sources.iter().find(|(source, _)| *source == open.source_id);
        let reason = match source {
            None => Reason::UnknownSource,
            Some((_, session_id)) if *session_id != open.session_id => Reason::NotEntitled,
            Some(_) => {
                // A connection that is gone may have had it open.
                let asked = self.has_told_gone() && self.ask(id, Asked::Open(*open));
                if asked && !link.sources.contains(&open.source_id) {
                    link.sources.push(open.source_id);
                }
                return if asked { Intake::Done } else { Intake::NoRoom };
            }
        };
        add(&self.figures.refused, 1);
        let reject = source_reject((open.session_id, open.source_id), reason);
        put_frame(&reject, &mut link.socket.output);
        Intake::Done
    }

    /// Hands a replica's question on: whoever may see all may have a copy of all.
    fn follow(
        &mut self,
        id: u64,
        link: &mut Link,
        (follow, raw): (&FollowSource, &RawMessage<'_>),
        now: Nanos,
    ) -> Intake {
        if !is_logged_on(link, follow.session_id) {
            return self.refuse(link, Some(raw), (Reason::NotLoggedOn, "session_id"), now);
        }
        let is_supervisor = link.session.is_some_and(|session| session.role == Role::Supervisor);
        let reason = match self.has_source(follow.source_id) {
            _ if !is_supervisor => Reason::NotEntitled,
            false => Reason::UnknownSource,
            true if self.has_told_gone() && self.ask(id, Asked::Follow(*follow)) => {
                return Intake::Done;
            }
            true => return Intake::NoRoom,
        };
        add(&self.figures.refused, 1);
        let reject = source_reject((follow.session_id, follow.source_id), reason);
        put_frame(&reject, &mut link.socket.output);
        Intake::Done
    }

    fn has_source(&self, source: PartitionId) -> bool {
        self.sources.iter().any(|(known, _)| *known == source) || self.followed.contains(&source)
    }

    fn hand_on(
        &mut self,
        id: u64,
        link: &mut Link,
        (session_id, source_id): (SessionId, PartitionId),
        (frame, raw): (&[u8], &RawMessage<'_>),
        now: Nanos,
    ) -> Intake {
        if !is_logged_on(link, session_id) {
            return self.refuse(link, Some(raw), (Reason::NotLoggedOn, "session_id"), now);
        }
        if !link.sources.contains(&source_id) {
            return self.refuse(link, Some(raw), (Reason::SourceNotOpen, "source_id"), now);
        }
        let is_over = link.under_way + frame.len() > WINDOW.bytes as usize;
        if is_over || !self.ask(id, Asked::Batch(frame.to_vec())) {
            return Intake::NoRoom;
        }
        link.under_way += frame.len();
        add(&self.figures.batch_bytes, frame.len() as u64);
        Intake::Done
    }

    /// Answers what cannot be read or has no place, and ends who says too much of it.
    fn refuse(
        &mut self,
        link: &mut Link,
        raw: Option<&RawMessage<'_>>,
        (reason, field): (Reason, &str),
        now: Nanos,
    ) -> Intake {
        put_frame(&reject(raw, reason, field), &mut link.socket.output);
        add(&self.figures.malformed, 1);
        if link.socket.count_error() {
            add(&self.figures.ended, 1);
            link.close(Reason::TooManyErrors, now);
        }
        Intake::Done
    }
}

fn is_logged_on(link: &Link, session_id: SessionId) -> bool {
    link.session.is_some_and(|session| session.session_id == session_id)
}

fn source_reject(
    (session_id, source_id): (SessionId, PartitionId),
    reason: Reason,
) -> SourceReject {
    SourceReject {
        batch_no: weir_types::BatchNo::NONE,
        next_batch_no: weir_types::BatchNo::NONE,
        head_seq: weir_types::Seq(0),
        head_rec: weir_types::Rec(0),
        session_id,
        epoch: weir_types::Epoch::NONE,
        row_no: 0,
        source_id,
        reason,
    }
}
