//! The border between the session core and the bytes of its clients.
//!
//! A protocol reads the next message from a connection's input ([`InputState`], [`Inbound`]), and
//! appends the node's answers to its output ([`Answer`], and reports made of [`EventRecord`]s). The
//! session core decides everything else: sessions, streams, pace, requests in flight, copies,
//! timeouts, the cost of errors. Another protocol is one more file here and one more variant of
//! [`Protocol`].
//!
//! A connection's [`Protocol`] is set when the connection is accepted and never changes. The choice
//! is a closed enum and a direct call, so that an order pays for no indirection. The records of the
//! event log have the layout of SBE messages: SBE copies them as they lie, another protocol
//! translates them.
//!
//! INVARIANT: no other file of the gateway finds frames, decodes messages or writes them. A
//! connection's buffers are private, and `xtask tidy` (`border.rs`) checks that no other file names
//! the functions and types for bytes.

mod answer;
mod inbound;
mod sbe;
#[cfg(test)]
mod text;

use weir_wire::report::StageTimes;

pub(crate) use answer::Answer;
pub(crate) use inbound::{Inbound, InputState, Refusal, ResumePoints, SignedText};
#[cfg(test)]
pub(crate) use text::ACCOUNT as TEXT_ACCOUNT;
pub(crate) use weir_partition::event_record::EventRecord;
pub(crate) use weir_wire::dialogue::Tokens;
pub(crate) use weir_wire::event_head::Address;

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SBE messages in frames, as `schema/weir.xml` describes them.
    Sbe,
    /// Lines of words, to test that the session core knows no protocol.
    #[cfg(test)]
    Text,
}

impl Protocol {
    /// Reads the message at the head of `bytes`.
    #[inline]
    pub(crate) fn next(self, bytes: &[u8]) -> InputState<'_> {
        match self {
            Protocol::Sbe => sbe::next(bytes),
            #[cfg(test)]
            Protocol::Text => text::next(bytes),
        }
    }

    /// Appends an answer.
    #[inline]
    pub(crate) fn put(self, answer: &Answer<'_>, out: &mut Vec<u8>) {
        match self {
            Protocol::Sbe => sbe::put(answer, out),
            #[cfg(test)]
            Protocol::Text => text::put(answer, out),
        }
    }

    /// Appends the report of an event. It is not an [`Answer`], because it is on the order path.
    #[inline]
    pub(crate) fn put_report(
        self,
        event: &EventRecord<'_>,
        stage_times: StageTimes,
        out: &mut Vec<u8>,
    ) {
        match self {
            Protocol::Sbe => sbe::put_report(event, stage_times, out),
            #[cfg(test)]
            Protocol::Text => text::put_report(event, out),
        }
    }

    /// Appends pages of order state, which the delivery store makes as SBE frames.
    #[inline]
    pub(crate) fn put_pages(self, frames: &[u8], out: &mut Vec<u8>) {
        match self {
            Protocol::Sbe => out.extend_from_slice(frames),
            #[cfg(test)]
            Protocol::Text => text::put_pages(frames, out),
        }
    }
}
