//! The client of a GLIMPSE snapshot session: logs in, receives the snapshot's messages, and reads
//! from the last one the sequence number at which to join the multicast.
//!
//! | state | input | result |
//! | --- | --- | --- |
//! | asked | login accepted | the snapshot begins |
//! | asked | login rejected | failure |
//! | asked | a message, end of session | failure: nothing may precede the answer |
//! | coming | a message | a message of the snapshot |
//! | coming | the message `G` | the snapshot is complete: log out |
//! | coming | another answer to the login | failure |
//! | coming | end of session | failure: the snapshot is incomplete |
//! | any | heartbeat, debug | the server is alive |
//! | any | a client's packet, or nothing for 15 s | failure |
//! | over | anything | ignored |
//!
//! It sends nothing itself: it returns the packets to send. A snapshot that failed must be
//! discarded.
//!
//! Source: Nasdaq GLIMPSE 5.0: ITCH 5.0's messages, then `G` and twenty digits: the sequence number
//! of the ITCH message at which to continue.

use weir_types::Nanos;

use super::{HEARTBEAT_INTERVAL_NS, Login, Reject, SILENCE_MAX_NS, SoupError, SoupPacket, number};

/// Length of the message that ends a snapshot, in bytes.
const END_LEN: usize = 21;

/// The reason a snapshot failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlimpseError {
    /// The server refused the login.
    #[error("the login was refused: {0:?}")]
    Refused(Reject),
    /// The bytes received are no packet.
    #[error(transparent)]
    Packet(#[from] SoupError),
    /// A packet that is invalid in the current state.
    #[error("a packet of type {kind:?} that may not come now")]
    OutOfPlace {
        /// The type of the packet.
        kind: u8,
    },
    /// The snapshot does not begin at its first message.
    #[error("the snapshot begins with message {sequence}")]
    NotFromItsBeginning {
        /// The sequence number at which it begins.
        sequence: u64,
    },
    /// The last message does not state where to continue.
    #[error("the snapshot's last message does not say with which number to go on")]
    End,
    /// The session ended before the snapshot was complete.
    #[error("the session ended before the snapshot did")]
    CutOff,
    /// The server was silent for too long.
    #[error("the server said nothing for {silence_ns} ns")]
    Silence {
        /// The duration of the silence in nanoseconds.
        silence_ns: u64,
    },
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The packet has no effect.
    Nothing,
    /// The server accepted the login: the snapshot follows.
    Accepted,
    /// A message of the snapshot with its sequence number there, from 1.
    Message(u64, &'a [u8]),
    /// The snapshot is complete: log out and continue with this message of the multicast.
    Complete {
        /// The sequence number of that message.
        next_sequence: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asked,
    Coming { sequence: u64 },
    Over,
}

/// The client of one snapshot session.
#[derive(Clone, Debug)]
pub struct Glimpse {
    login: Login,
    state: State,
    heard: Nanos,
    said: Nanos,
}

impl Glimpse {
    /// Creates a client that requests the snapshot of `login`, on a connection made at `now`. The
    /// caller sends [`Glimpse::login`] at once.
    #[must_use]
    pub fn new(login: Login, now: Nanos) -> Glimpse {
        let login = Login { sequence: 1, ..login };
        Glimpse { login, state: State::Asked, heard: now, said: now }
    }

    /// Returns the first packet to send.
    #[must_use]
    pub fn login(&self) -> SoupPacket<'static> {
        SoupPacket::LoginRequest(self.login)
    }

    /// Returns true when the snapshot is complete or failed; all later input is ignored.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Takes a received packet, without its length.
    ///
    /// # Errors
    /// The snapshot failed; [`GlimpseError`] gives the reason.
    pub fn take<'a>(&mut self, packet: &'a [u8], now: Nanos) -> Result<Outcome<'a>, GlimpseError> {
        if self.is_over() {
            return Ok(Outcome::Nothing);
        }
        self.heard = now;
        let outcome = self.step(packet);
        if matches!(outcome, Err(_) | Ok(Outcome::Complete { .. })) {
            self.state = State::Over;
        }
        outcome
    }

    /// Advances the time to `now`; returns true when a heartbeat must be sent.
    ///
    /// # Errors
    /// [`GlimpseError::Silence`]: the server is gone, and the snapshot failed.
    pub fn on_time(&mut self, now: Nanos) -> Result<bool, GlimpseError> {
        if self.is_over() {
            return Ok(false);
        }
        let silence_ns = now.since(self.heard).0;
        if silence_ns >= SILENCE_MAX_NS {
            self.state = State::Over;
            return Err(GlimpseError::Silence { silence_ns });
        }
        let is_due = self.state != State::Asked && now.since(self.said).0 >= HEARTBEAT_INTERVAL_NS;
        if is_due {
            self.said = now;
        }
        Ok(is_due)
    }

    fn step<'a>(&mut self, packet: &'a [u8]) -> Result<Outcome<'a>, GlimpseError> {
        match (self.state, SoupPacket::read(packet)?) {
            (_, SoupPacket::ServerHeartbeat | SoupPacket::Debug(_)) => Ok(Outcome::Nothing),
            (State::Asked, SoupPacket::LoginAccepted { sequence, .. }) => {
                if sequence != 1 {
                    return Err(GlimpseError::NotFromItsBeginning { sequence });
                }
                self.state = State::Coming { sequence };
                Ok(Outcome::Accepted)
            }
            (State::Asked, SoupPacket::LoginRejected(reject)) => Err(GlimpseError::Refused(reject)),
            (State::Coming { sequence }, SoupPacket::Sequenced(message)) => {
                if message.first() == Some(&b'G') {
                    let next_sequence = next_sequence(message).ok_or(GlimpseError::End)?;
                    return Ok(Outcome::Complete { next_sequence });
                }
                self.state = State::Coming { sequence: sequence.saturating_add(1) };
                Ok(Outcome::Message(sequence, message))
            }
            (State::Coming { .. }, SoupPacket::EndOfSession) => Err(GlimpseError::CutOff),
            _ => Err(GlimpseError::OutOfPlace { kind: packet.first().copied().unwrap_or(0) }),
        }
    }
}

/// Returns the sequence number at which to continue, from the last message.
fn next_sequence(message: &[u8]) -> Option<u64> {
    (message.len() == END_LEN).then(|| number(&message[1..]))?
}

/// Returns the message that ends a snapshot, for a server.
#[must_use]
pub fn end_of_snapshot(next_sequence: u64) -> [u8; END_LEN] {
    let mut message = [b'G'; END_LEN];
    message[1..].copy_from_slice(&super::digits(next_sequence));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos(1_000);

    fn client() -> Glimpse {
        Glimpse::new(Login::new("firm11", "secret").expect("printable"), NOW)
    }

    fn coming() -> Glimpse {
        let mut client = client();
        assert_eq!(client.take(b"A  SESSION1                   1", NOW), Ok(Outcome::Accepted));
        client
    }

    #[test]
    fn a_snapshot_is_its_messages_and_where_to_go_on() {
        let mut client = coming();
        assert_eq!(client.take(b"Sfirst", NOW), Ok(Outcome::Message(1, b"first")));
        assert_eq!(client.take(b"H", NOW), Ok(Outcome::Nothing));
        assert_eq!(client.take(b"+all is well", NOW), Ok(Outcome::Nothing));
        assert_eq!(client.take(b"Ssecond", NOW), Ok(Outcome::Message(2, b"second")));
        let end = [&b"S"[..], &end_of_snapshot(14_757_919)].concat();
        assert_eq!(end, b"SG            14757919");
        let want = Outcome::Complete { next_sequence: 14_757_919 };
        assert_eq!(client.take(&end, NOW), Ok(want));
        assert!(client.is_over());
        assert_eq!(client.take(b"Sthird", NOW), Ok(Outcome::Nothing));
    }

    #[test]
    fn the_login_asks_for_the_first_message_whatever_it_was_made_for() {
        let login = Login { sequence: 7, ..Login::new("firm11", "secret").expect("printable") };
        let SoupPacket::LoginRequest(sent) = Glimpse::new(login, NOW).login() else { panic!() };
        assert_eq!(sent, Login { sequence: 1, ..login });
    }

    #[test]
    fn whatever_else_comes_ends_it_with_its_reason() {
        let out_of_place = |kind| GlimpseError::OutOfPlace { kind };
        for (packet, asked, coming_) in [
            (&b"JA"[..], GlimpseError::Refused(Reject::NotAuthorized), out_of_place(b'J')),
            (b"JS", GlimpseError::Refused(Reject::SessionNotAvailable), out_of_place(b'J')),
            (b"Z", out_of_place(b'Z'), GlimpseError::CutOff),
            (b"R", out_of_place(b'R'), out_of_place(b'R')),
            (b"O", out_of_place(b'O'), out_of_place(b'O')),
            (b"Ux", out_of_place(b'U'), out_of_place(b'U')),
            (b"", SoupError::Empty.into(), SoupError::Empty.into()),
            (b"SG                  x1", out_of_place(b'S'), GlimpseError::End),
            (b"SG1", out_of_place(b'S'), GlimpseError::End),
            (
                b"A  SESSION1                   2",
                GlimpseError::NotFromItsBeginning { sequence: 2 },
                out_of_place(b'A'),
            ),
        ] {
            for (mut client, want) in [(client(), asked), (coming(), coming_)] {
                assert_eq!(client.take(packet, NOW), Err(want), "{packet:?}");
                assert!(client.is_over());
                assert_eq!(client.take(b"Sx", NOW), Ok(Outcome::Nothing));
            }
        }
    }

    #[test]
    fn heartbeats_are_due_each_second_once_logged_in() {
        let at = |seconds: u64| Nanos(NOW.0 + seconds * HEARTBEAT_INTERVAL_NS);
        assert_eq!(client().on_time(at(2)), Ok(false));
        let mut client = coming();
        assert_eq!(client.on_time(Nanos(at(1).0 - 1)), Ok(false));
        assert_eq!(client.on_time(at(1)), Ok(true));
        assert_eq!(client.on_time(at(1)), Ok(false));
        assert_eq!(client.on_time(at(2)), Ok(true));
        assert_eq!(client.on_time(NOW), Ok(false), "a clock that goes back");
    }

    #[test]
    fn a_server_that_says_nothing_is_gone_after_fifteen_seconds() {
        let late = Nanos(NOW.0 + SILENCE_MAX_NS);
        for mut client in [client(), coming()] {
            assert!(client.on_time(Nanos(late.0 - 1)).is_ok());
            assert_eq!(client.take(b"H", Nanos(NOW.0 + 5)), Ok(Outcome::Nothing));
            assert!(client.on_time(Nanos(late.0 + 4)).is_ok());
            let want = GlimpseError::Silence { silence_ns: SILENCE_MAX_NS };
            assert_eq!(client.on_time(Nanos(late.0 + 5)), Err(want));
            assert_eq!(client.on_time(Nanos(u64::MAX)), Ok(false));
        }
    }
}
