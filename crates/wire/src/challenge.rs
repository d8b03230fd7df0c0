//! The text that a session with an Ed25519 key signs to log on.
//!
//! ```text
//!  0   context      32   CONTEXT: no signature of anything else begins like this
//! 32   node id      16   of the challenge: another node refuses the signature
//! 48   nonce        32   of the challenge: it is good once, on one connection
//! 80   SBE header    8   of the SignedLogon
//! 88   the rest          of the SignedLogon behind its signature: session, choices, resume points
//! ```
//!
//! The rest is taken byte for byte from the wire, so that fields of later schema versions are
//! signed too. This crate builds the text; it never holds keys or makes signatures.

use crate::dialogue::put_signed_logon;
use crate::frame::{
    CLIENT_FRAME_LEN_MAX, Framing, MESSAGE_HEADER_LEN, RawMessage, SOFH_LEN, next_frame,
};
use crate::session::{Challenge, NodeId, Nonce, ResumePoint, Signature, SignedLogon};
use crate::{Message, SCHEMA_ID};

/// The prefix of every signed text.
pub const CONTEXT: [u8; 32] = *b"Weir SignedLogon Ed25519, form 1";
/// The lifetime of a challenge: 10 seconds.
pub const CHALLENGE_LIFETIME: weir_types::Nanos = weir_types::Nanos(10_000_000_000);
/// The most open challenges of a connection, each for another session.
pub const CHALLENGE_COUNT_MAX: usize = 16;

const SIGNATURE_LEN: usize = 64;

/// Returns the text that this logon's signature covers; `None` for any other message and for a
/// block shorter than a signature.
#[must_use]
pub fn signed_text(node_id: NodeId, nonce: Nonce, raw: &RawMessage<'_>) -> Option<Vec<u8>> {
    let signed = raw.body.get(SIGNATURE_LEN..)?;
    if raw.template_id != SignedLogon::TEMPLATE_ID || raw.block_length < SIGNATURE_LEN {
        return None;
    }
    let mut text = Vec::with_capacity(CONTEXT.len() + 16 + 32 + MESSAGE_HEADER_LEN + signed.len());
    text.extend_from_slice(&CONTEXT);
    text.extend_from_slice(&node_id.0);
    text.extend_from_slice(&nonce.0);
    let block_length = u16::try_from(raw.block_length).expect("it was read from sixteen bits");
    for word in [block_length, raw.template_id, SCHEMA_ID, raw.version] {
        text.extend_from_slice(&word.to_le_bytes());
    }
    text.extend_from_slice(signed);
    Some(text)
}

/// Appends the frame of a logon that answers `challenge`; `sign` signs the text.
///
/// # Panics
/// As [`put_signed_logon`].
pub fn put_answer(
    challenge: &Challenge,
    logon: SignedLogon,
    points: &[ResumePoint],
    sign: impl FnOnce(&[u8]) -> Signature,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    put_signed_logon(&logon, points, out);
    let Framing::Frame { message: Ok(raw), .. } = next_frame(&out[start..], CLIENT_FRAME_LEN_MAX)
    else {
        unreachable!("a frame of our own reads back")
    };
    let text = signed_text(challenge.node_id, challenge.nonce, &raw);
    let signature = sign(&text.expect("it is a signed logon"));
    let at = start + SOFH_LEN + MESSAGE_HEADER_LEN;
    out[at..at + SIGNATURE_LEN].copy_from_slice(&signature.0);
}

#[cfg(test)]
mod tests {
    use weir_types::{Epoch, EventNo, PartitionId, SessionId, Switch};

    use super::*;
    use crate::frame::put_frame;

    fn logon() -> SignedLogon {
        SignedLogon {
            signature: Signature([0; 64]),
            session_id: SessionId(5),
            heartbeat_interval_ms: 1_000,
            cancel_on_disconnect: Switch::On,
            takeover: Switch::Off,
        }
    }

    fn text_of(logon: SignedLogon, points: &[ResumePoint]) -> Vec<u8> {
        let mut frame = Vec::new();
        put_signed_logon(&logon, points, &mut frame);
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&frame, 4096) else {
            panic!("a frame of our own reads back")
        };
        signed_text(NodeId([1; 16]), Nonce([2; 32]), &raw).expect("a signed logon")
    }

    #[test]
    fn everything_but_the_signature_is_signed() {
        let (next_event_no, epoch) = (EventNo(7), Epoch(2));
        let point = ResumePoint { next_event_no, epoch, partition_id: PartitionId(1) };
        let text = text_of(logon(), &[point]);
        assert_eq!(text.len(), 32 + 16 + 32 + 8 + (74 - 64) + 4 + 14);
        assert_eq!(
            text_of(SignedLogon { signature: Signature([9; 64]), ..logon() }, &[point]),
            text
        );
        let other_point = ResumePoint { next_event_no: EventNo(8), ..point };
        let other_epoch = ResumePoint { epoch: Epoch(3), ..point };
        let others = [
            text_of(SignedLogon { session_id: SessionId(6), ..logon() }, &[point]),
            text_of(SignedLogon { heartbeat_interval_ms: 999, ..logon() }, &[point]),
            text_of(SignedLogon { cancel_on_disconnect: Switch::Off, ..logon() }, &[point]),
            text_of(SignedLogon { takeover: Switch::On, ..logon() }, &[point]),
            text_of(logon(), &[]),
            text_of(logon(), &[other_point]),
            text_of(logon(), &[other_epoch]),
        ];
        for other in others {
            assert_ne!(other, text);
        }
    }

    #[test]
    fn the_text_begins_with_context_node_and_nonce() {
        let text = text_of(logon(), &[]);
        assert_eq!(text[..32], CONTEXT);
        assert_eq!(text[32..48], [1; 16]);
        assert_eq!(text[48..80], [2; 32]);
    }

    #[test]
    fn an_answer_carries_the_signature_of_its_own_text() {
        let challenge =
            Challenge { nonce: Nonce([2; 32]), node_id: NodeId([1; 16]), session_id: SessionId(5) };
        let mut frame = vec![0xee];
        let mut signed = Vec::new();
        put_answer(
            &challenge,
            logon(),
            &[],
            |text| {
                signed = text.to_vec();
                Signature([3; 64])
            },
            &mut frame,
        );
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&frame[1..], 4096) else {
            panic!("a frame of our own reads back")
        };
        assert_eq!(raw.decode::<SignedLogon>().map(|l| l.signature), Ok(Signature([3; 64])));
        assert_eq!(signed_text(challenge.node_id, challenge.nonce, &raw), Some(signed));
    }

    #[test]
    fn no_other_message_has_a_signed_text() {
        let mut frame = Vec::new();
        put_frame(
            &crate::session::Reject {
                request_no: weir_types::RequestNo(1),
                field: crate::session::Label::new("x"),
                session_id: SessionId(5),
                ref_template_id: 9,
                reason: weir_types::Reason::None,
            },
            &mut frame,
        );
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&frame, 4096) else {
            panic!("a frame of our own reads back")
        };
        assert_eq!(signed_text(NodeId([0; 16]), Nonce([0; 32]), &raw), None);
    }
}
