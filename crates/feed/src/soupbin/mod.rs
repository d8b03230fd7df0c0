//! SoupBinTCP: one ordered stream of messages over a TCP connection, with a login. It carries
//! Nasdaq's snapshots (GLIMPSE) and ITCH replays.
//!
//! * this module: the packets of both sides, read and written.
//! * [`inbox`]: splits a stream's bytes into packets.
//! * [`glimpse`]: the client of a snapshot. [`server`]: the server of one.
//!
//! Sequence numbers are counted, not sent: the answer to the login gives the first one. There is no
//! socket and no clock here.
//!
//! Source: Nasdaq, SoupBinTCP, version 3.00 and the 4.x that kept its packets. A packet is a length
//! (u16, big-endian, of the bytes that follow), a type and a payload.

pub mod glimpse;
pub mod inbox;
pub mod server;

pub use self::glimpse::{Glimpse, GlimpseError, Outcome};
pub use self::inbox::Inbox;
pub use self::server::{Access, SessionEnd, SnapshotServer};

/// Length of a session's name in bytes.
pub const SESSION_LEN: usize = 10;

/// Digits of a sequence number.
const NUMBER_LEN: usize = 20;

/// Length of a login request's payload in bytes.
const LOGIN_LEN: usize = 46;

/// The longest silence of a side before it must send a heartbeat, in nanoseconds.
pub const HEARTBEAT_INTERVAL_NS: u64 = 1_000_000_000;

/// The silence of the other side after which it counts as gone, in nanoseconds.
pub const SILENCE_MAX_NS: u64 = 15_000_000_000;

/// The reason bytes are no packet of SoupBinTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SoupError {
    /// A packet without a type.
    #[error("a packet of length zero")]
    Empty,
    /// A type that the protocol does not define.
    #[error("a packet of type {kind:?}")]
    UnknownType {
        /// Its type.
        kind: u8,
    },
    /// A payload of the wrong length for its type.
    #[error("a packet of type {kind:?} with {len} bytes of payload; it has {want}")]
    Length {
        /// Its type.
        kind: u8,
        /// The payload's length.
        len: usize,
        /// The length that the type requires.
        want: usize,
    },
    /// A field that is not a number, or has an undefined value.
    #[error("{field} of a packet of type {kind:?} is not known")]
    Field {
        /// The packet's type.
        kind: u8,
        /// The name of the field.
        field: &'static str,
    },
}

/// The reason a login was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The name or the password is wrong.
    NotAuthorized,
    /// The session does not exist.
    SessionNotAvailable,
}

/// The contents of a login request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user, padded with spaces on the right.
    pub username: [u8; 6],
    /// The password, padded likewise.
    pub password: [u8; 10],
    /// The session, padded on the left; spaces for the current one.
    pub session: [u8; SESSION_LEN],
    /// The first message wanted; zero for only new ones.
    pub sequence: u64,
}

impl Login {
    /// Creates a login to the current session, from its first message on; `None` when a text is too
    /// long or not printable ASCII.
    #[must_use]
    pub fn new(username: &str, password: &str) -> Option<Login> {
        Some(Login {
            username: padded(username)?,
            password: padded(password)?,
            session: [b' '; SESSION_LEN],
            sequence: 1,
        })
    }
}

fn padded<const LEN: usize>(text: &str) -> Option<[u8; LEN]> {
    let text = text.as_bytes();
    if text.len() > LEN || !text.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return None;
    }
    let mut bytes = [b' '; LEN];
    bytes[..text.len()].copy_from_slice(text);
    Some(bytes)
}

/// A packet of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoupPacket<'a> {
    /// `+`: human-readable text; either side.
    Debug(&'a [u8]),
    /// `A`, server: the session, and the sequence number of the first message to follow.
    LoginAccepted {
        /// The session's name, padded on the left.
        session: [u8; SESSION_LEN],
        /// The sequence number.
        sequence: u64,
    },
    /// `J`, server: the login is refused and the connection ends.
    LoginRejected(Reject),
    /// `S`, server: the next sequenced message.
    Sequenced(&'a [u8]),
    /// `U`: an unsequenced message; either side.
    Unsequenced(&'a [u8]),
    /// `H`: the server's heartbeat.
    ServerHeartbeat,
    /// `Z`, server: the session is over.
    EndOfSession,
    /// `L`, client: the first packet.
    LoginRequest(Login),
    /// `R`: the client's heartbeat.
    ClientHeartbeat,
    /// `O`: the client logs out.
    LogoutRequest,
}

impl<'a> SoupPacket<'a> {
    /// Reads a packet without its length: type and payload.
    ///
    /// # Errors
    /// [`SoupError`] gives the reason.
    pub fn read(packet: &'a [u8]) -> Result<SoupPacket<'a>, SoupError> {
        let (kind, payload) = packet.split_first().ok_or(SoupError::Empty)?;
        let want = match kind {
            b'+' => return Ok(SoupPacket::Debug(payload)),
            b'S' => return Ok(SoupPacket::Sequenced(payload)),
            b'U' => return Ok(SoupPacket::Unsequenced(payload)),
            b'A' => SESSION_LEN + NUMBER_LEN,
            b'J' => 1,
            b'L' => LOGIN_LEN,
            b'H' | b'Z' | b'R' | b'O' => 0,
            kind => return Err(SoupError::UnknownType { kind: *kind }),
        };
        if payload.len() != want {
            return Err(SoupError::Length { kind: *kind, len: payload.len(), want });
        }
        match kind {
            b'A' => Ok(SoupPacket::LoginAccepted {
                session: text(payload, 0),
                sequence: sequence(b'A', &payload[SESSION_LEN..])?,
            }),
            b'J' => Ok(SoupPacket::LoginRejected(reject(payload[0])?)),
            b'L' => Ok(SoupPacket::LoginRequest(Login {
                username: text(payload, 0),
                password: text(payload, 6),
                session: text(payload, 16),
                sequence: sequence(b'L', &payload[26..])?,
            })),
            b'H' => Ok(SoupPacket::ServerHeartbeat),
            b'Z' => Ok(SoupPacket::EndOfSession),
            b'R' => Ok(SoupPacket::ClientHeartbeat),
            _ => Ok(SoupPacket::LogoutRequest),
        }
    }

    /// Appends the packet with its length to `out`. Returns false, and writes nothing, when its
    /// payload has more than 65,534 bytes.
    #[must_use]
    pub fn write(&self, out: &mut Vec<u8>) -> bool {
        match self {
            SoupPacket::Debug(text) => put(out, b'+', &[text]),
            SoupPacket::LoginAccepted { session, sequence } => {
                put(out, b'A', &[session, &digits(*sequence)])
            }
            SoupPacket::LoginRejected(Reject::NotAuthorized) => put(out, b'J', &[b"A"]),
            SoupPacket::LoginRejected(Reject::SessionNotAvailable) => put(out, b'J', &[b"S"]),
            SoupPacket::Sequenced(message) => put(out, b'S', &[message]),
            SoupPacket::Unsequenced(message) => put(out, b'U', &[message]),
            SoupPacket::ServerHeartbeat => put(out, b'H', &[]),
            SoupPacket::EndOfSession => put(out, b'Z', &[]),
            SoupPacket::LoginRequest(login) => {
                let Login { username, password, session, sequence } = login;
                put(out, b'L', &[username, password, session, &digits(*sequence)])
            }
            SoupPacket::ClientHeartbeat => put(out, b'R', &[]),
            SoupPacket::LogoutRequest => put(out, b'O', &[]),
        }
    }
}

fn put(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) -> bool {
    let len = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let Ok(len) = u16::try_from(len) else { return false };
    out.extend_from_slice(&len.to_be_bytes());
    out.push(kind);
    for part in parts {
        out.extend_from_slice(part);
    }
    true
}

fn text<const LEN: usize>(payload: &[u8], at: usize) -> [u8; LEN] {
    payload[at..at + LEN].try_into().expect("the payload's length was checked")
}

fn reject(code: u8) -> Result<Reject, SoupError> {
    match code {
        b'A' => Ok(Reject::NotAuthorized),
        b'S' => Ok(Reject::SessionNotAvailable),
        _ => Err(SoupError::Field { kind: b'J', field: "reject reason" }),
    }
}

/// Returns the number in a field of digits padded with spaces on the left.
fn sequence(kind: u8, field: &[u8]) -> Result<u64, SoupError> {
    number(field).ok_or(SoupError::Field { kind, field: "sequence number" })
}

/// Returns a decimal number surrounded by spaces; `None` for anything else, including an empty
/// field and a number above 64 bits.
fn number(field: &[u8]) -> Option<u64> {
    let field = field.trim_ascii();
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Returns a number as twenty characters, padded with spaces on the left. A u64 has at most twenty
/// digits.
fn digits(mut number: u64) -> [u8; NUMBER_LEN] {
    let mut field = [b' '; NUMBER_LEN];
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(SoupPacket<'static>, &'static [u8])> {
        let login = Login::new("firm11", "secret").expect("printable");
        vec![
            (SoupPacket::Debug(b"hi"), b"\0\x03+hi"),
            (
                SoupPacket::LoginAccepted { session: *b"  SESSION1", sequence: 42 },
                b"\0\x1fA  SESSION1                  42",
            ),
            (SoupPacket::LoginRejected(Reject::NotAuthorized), b"\0\x02JA"),
            (SoupPacket::LoginRejected(Reject::SessionNotAvailable), b"\0\x02JS"),
            (SoupPacket::Sequenced(b"abc"), b"\0\x04Sabc"),
            (SoupPacket::Unsequenced(b""), b"\0\x01U"),
            (SoupPacket::ServerHeartbeat, b"\0\x01H"),
            (SoupPacket::EndOfSession, b"\0\x01Z"),
            (
                SoupPacket::LoginRequest(login),
                b"\0\x2fLfirm11secret                                 1",
            ),
            (
                SoupPacket::LoginRequest(Login { sequence: u64::MAX, ..login }),
                b"\0\x2fLfirm11secret              18446744073709551615",
            ),
            (SoupPacket::ClientHeartbeat, b"\0\x01R"),
            (SoupPacket::LogoutRequest, b"\0\x01O"),
        ]
    }

    #[test]
    fn every_packet_is_written_and_read_byte_by_byte() {
        for (packet, want) in all() {
            let mut out = Vec::new();
            assert!(packet.write(&mut out));
            assert_eq!(out, want, "{packet:?}");
            assert_eq!(SoupPacket::read(&want[2..]), Ok(packet));
        }
    }

    #[test]
    fn packets_of_another_length_are_refused() {
        for (packet, bytes) in all() {
            let kind = bytes[2];
            if matches!(kind, b'+' | b'S' | b'U') {
                continue;
            }
            let want = bytes.len() - 3;
            for len in (0..=want + 1).filter(|len| *len != want) {
                let mut other = bytes[2..].to_vec();
                other.resize(len + 1, b'0');
                let error = SoupError::Length { kind, len, want };
                assert_eq!(SoupPacket::read(&other), Err(error), "{packet:?}");
            }
        }
        assert_eq!(SoupPacket::read(b""), Err(SoupError::Empty));
        assert_eq!(SoupPacket::read(b"?"), Err(SoupError::UnknownType { kind: b'?' }));
    }

    #[test]
    fn numbers_are_digits_with_spaces_around_them() {
        for (field, want) in [
            (&b"                  42"[..], Some(42)),
            (b"42                  ", Some(42)),
            (b"00000000000000000042", Some(42)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"99999999999999999999", None),
            (b"                    ", None),
            (b"                 4 2", None),
            (b"                  -1", None),
        ] {
            assert_eq!(number(field), want, "{field:?}");
        }
        assert_eq!(
            SoupPacket::read(b"J?"),
            Err(SoupError::Field { kind: b'J', field: "reject reason" })
        );
    }

    #[test]
    fn a_message_that_no_length_can_tell_is_not_written() {
        let mut out = Vec::new();
        assert!(!SoupPacket::Sequenced(&[0; 65_535]).write(&mut out));
        assert!(out.is_empty());
        assert!(SoupPacket::Sequenced(&[0; 65_534]).write(&mut out));
        assert_eq!(out.len(), 65_537);
    }

    #[test]
    fn names_that_do_not_fit_make_no_login() {
        assert_eq!(Login::new("firm111", "secret"), None);
        assert_eq!(Login::new("firm11", "01234567890"), None);
        assert_eq!(Login::new("firm\n", "secret"), None);
    }
}
