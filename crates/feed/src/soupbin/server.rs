//! The server's side of one snapshot session: login checks, the start of the snapshot, heartbeats,
//! and the reason for the session's end.
//!
//! | state | input | result |
//! | --- | --- | --- |
//! | waiting | an authorised login to an existing session | the snapshot is sent |
//! | waiting | any other login | rejected: over |
//! | waiting | nothing for ten seconds | over |
//! | waiting | anything but a login or a debug packet | over |
//! | serving | heartbeat, debug, unsequenced | the client is alive |
//! | serving | logout | over |
//! | serving | another login, a server's packet, or nothing for 15 s | over |
//!
//! It sends nothing itself: its results tell the caller to send. A snapshot is always sent from its
//! first message on, whichever one the login requests, because there is no older snapshot to
//! continue.
//!
//! Source: Nasdaq, SoupBinTCP, version 3.00 and the 4.x that kept its packets; GLIMPSE 5.0.

use weir_types::Nanos;

use super::{HEARTBEAT_INTERVAL_NS, Login, Reject, SILENCE_MAX_NS, SoupError, SoupPacket};
use crate::moldudp64::MoldSession;

/// The longest time from connection to login, in nanoseconds.
pub const LOGIN_MAX_NS: u64 = 10_000_000_000;

/// The clients that may log in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Any client, under any name.
    Everybody,
    /// Clients with this name and password; the rest of the login is ignored.
    Only(Login),
}

impl core::fmt::Debug for Access {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Access::Everybody => "Everybody",
            Access::Only(_) => "Only(..)",
        })
    }
}

impl Access {
    fn may(&self, login: &Login) -> bool {
        let Access::Only(known) = self else { return true };
        // Compares all bytes, so that the time of an answer does not reveal how many are right.
        let pairs = known.username.iter().chain(&known.password);
        let asked = login.username.iter().chain(&login.password);
        pairs.zip(asked).fold(0, |differs, (known, asked)| differs | (known ^ asked)) == 0
    }
}

/// The reason a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionEnd {
    /// The client has logged out.
    #[error("the client has logged out")]
    LoggedOut,
    /// The login was refused; the caller sends the rejection.
    #[error("the login was refused: {0:?}")]
    Refused(Reject),
    /// The client did not log in in time.
    #[error("nobody logged in")]
    NoLogin,
    /// The client was silent for too long.
    #[error("the client said nothing for too long")]
    Silence,
    /// The bytes received are no packet.
    #[error(transparent)]
    Packet(#[from] SoupError),
    /// A packet that is invalid in the current state.
    #[error("a packet of type {kind:?} that may not come now")]
    OutOfPlace {
        /// The type of the packet.
        kind: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Serving,
    Over,
}

/// The server of one client's snapshot session.
#[derive(Clone, Debug)]
pub struct SnapshotServer {
    state: State,
    heard: Nanos,
    said: Nanos,
}

impl SnapshotServer {
    /// Creates the server of a client that connected at `now`.
    #[must_use]
    pub fn new(now: Nanos) -> SnapshotServer {
        SnapshotServer { state: State::Waiting, heard: now, said: now }
    }

    /// Returns true from the accepted login until the end of the session.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.state == State::Serving
    }

    /// Takes a received packet, without its length; `session` is the session of the snapshot.
    /// Returns true when the packet is an accepted login: the caller sends the answer, then the
    /// snapshot.
    ///
    /// # Errors
    /// [`SessionEnd`]: the session is over.
    pub fn take(
        &mut self,
        packet: &[u8],
        access: &Access,
        session: Option<MoldSession>,
        now: Nanos,
    ) -> Result<bool, SessionEnd> {
        self.heard = now;
        let taken = self.step(packet, access, session);
        match taken {
            Ok(true) => (self.state, self.said) = (State::Serving, now),
            Ok(false) => {}
            Err(_) => self.state = State::Over,
        }
        taken
    }

    fn step(
        &self,
        packet: &[u8],
        access: &Access,
        session: Option<MoldSession>,
    ) -> Result<bool, SessionEnd> {
        match (self.state, SoupPacket::read(packet)?) {
            (_, SoupPacket::Debug(_)) => Ok(false),
            (State::Waiting, SoupPacket::LoginRequest(login)) => {
                if !access.may(&login) {
                    return Err(SessionEnd::Refused(Reject::NotAuthorized));
                }
                let asked = MoldSession(login.session);
                let is_any = login.session.iter().all(|byte| *byte == b' ');
                let is_there = session.is_some_and(|ours| is_any || is_same(asked, ours));
                let refused = SessionEnd::Refused(Reject::SessionNotAvailable);
                if is_there { Ok(true) } else { Err(refused) }
            }
            (State::Serving, SoupPacket::ClientHeartbeat | SoupPacket::Unsequenced(_)) => Ok(false),
            (State::Serving, SoupPacket::LogoutRequest) => Err(SessionEnd::LoggedOut),
            _ => Err(SessionEnd::OutOfPlace { kind: packet.first().copied().unwrap_or(0) }),
        }
    }

    /// Records that the caller sent something.
    pub fn has_said(&mut self, now: Nanos) {
        self.said = now;
    }

    /// Advances the time to `now`; returns true when a heartbeat must be sent.
    ///
    /// # Errors
    /// [`SessionEnd::NoLogin`], [`SessionEnd::Silence`]: the session is over.
    pub fn on_time(&mut self, now: Nanos) -> Result<bool, SessionEnd> {
        let silence_ns = now.since(self.heard).0;
        let (limit, ending) = match self.state {
            State::Over => return Ok(false),
            State::Waiting => (LOGIN_MAX_NS, SessionEnd::NoLogin),
            State::Serving => (SILENCE_MAX_NS, SessionEnd::Silence),
        };
        if silence_ns >= limit {
            self.state = State::Over;
            return Err(ending);
        }
        let is_serving = self.state == State::Serving;
        let is_due = is_serving && now.since(self.said).0 >= HEARTBEAT_INTERVAL_NS;
        if is_due {
            self.said = now;
        }
        Ok(is_due)
    }
}

/// Returns true for equal names, regardless of the side of their padding.
fn is_same(one: MoldSession, other: MoldSession) -> bool {
    one.0.trim_ascii() == other.0.trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos(1_000);
    const OURS: MoldSession = MoldSession(*b"10SA000001");

    fn only() -> Access {
        Access::Only(Login::new("firm11", "secret").expect("printable"))
    }

    fn login(username: &str, password: &str, session: &str) -> Vec<u8> {
        let mut login = Login::new(username, password).expect("printable");
        login.session = MoldSession::new(session).expect("a name").0;
        let mut packet = Vec::new();
        assert!(SoupPacket::LoginRequest(login).write(&mut packet));
        packet.split_off(2)
    }

    #[test]
    fn who_logs_in_is_let_in_by_name_password_and_session_or_told_why_not() {
        let refused = |reject| Err(SessionEnd::Refused(reject));
        let (nobody, no_session) = (Reject::NotAuthorized, Reject::SessionNotAvailable);
        for (access, packet, session, want) in [
            (only(), login("firm11", "secret", ""), Some(OURS), Ok(true)),
            (only(), login("firm11", "secret", "10SA000001"), Some(OURS), Ok(true)),
            (only(), login("firm11", "secreT", ""), Some(OURS), refused(nobody)),
            (only(), login("firm12", "secret", ""), Some(OURS), refused(nobody)),
            (only(), login("", "", ""), Some(OURS), refused(nobody)),
            (only(), login("firm11", "wrong", "OTHER"), None, refused(nobody)),
            (only(), login("firm11", "secret", "10SA000002"), Some(OURS), refused(no_session)),
            (only(), login("firm11", "secret", ""), None, refused(no_session)),
            (Access::Everybody, login("", "", ""), Some(OURS), Ok(true)),
            (Access::Everybody, login("who", "ever", ""), Some(OURS), Ok(true)),
            (Access::Everybody, login("", "", "OTHER"), Some(OURS), refused(no_session)),
        ] {
            let mut server = SnapshotServer::new(NOW);
            assert_eq!(server.take(&packet, &access, session, NOW), want, "{packet:?}");
            assert_eq!(server.is_serving(), want.is_ok());
        }
        assert!(!format!("{:?}", only()).contains("115"), "a password is shown to nobody");
    }

    fn serving() -> SnapshotServer {
        let mut server = SnapshotServer::new(NOW);
        let packet = login("firm11", "secret", "");
        assert_eq!(server.take(&packet, &only(), Some(OURS), NOW), Ok(true));
        server
    }

    #[test]
    fn whatever_may_not_come_ends_it_with_its_reason() {
        let out_of_place = |kind| Err(SessionEnd::OutOfPlace { kind });
        let again = login("firm11", "secret", "");
        for (packet, waiting, serving_) in [
            (&b"R"[..], out_of_place(b'R'), Ok(false)),
            (b"Ux", out_of_place(b'U'), Ok(false)),
            (b"+hi", Ok(false), Ok(false)),
            (b"O", out_of_place(b'O'), Err(SessionEnd::LoggedOut)),
            (&again, Ok(true), out_of_place(b'L')),
            (b"Sx", out_of_place(b'S'), out_of_place(b'S')),
            (b"H", out_of_place(b'H'), out_of_place(b'H')),
            (b"Z", out_of_place(b'Z'), out_of_place(b'Z')),
            (b"JA", out_of_place(b'J'), out_of_place(b'J')),
            (b"", Err(SoupError::Empty.into()), Err(SoupError::Empty.into())),
        ] {
            for (mut server, want) in [(SnapshotServer::new(NOW), waiting), (serving(), serving_)] {
                let taken = server.take(packet, &only(), Some(OURS), NOW);
                assert_eq!(taken, want, "{packet:?}");
                if want.is_err() {
                    assert!(!server.is_serving());
                    assert_eq!(server.on_time(Nanos(u64::MAX)), Ok(false), "it is over");
                }
            }
        }
    }

    #[test]
    fn who_says_nothing_is_let_go_and_who_hears_nothing_gets_a_heartbeat() {
        let at = |ns| Nanos(NOW.0 + ns);
        let mut stranger = SnapshotServer::new(NOW);
        assert_eq!(stranger.on_time(at(LOGIN_MAX_NS - 1)), Ok(false));
        assert_eq!(stranger.on_time(at(LOGIN_MAX_NS)), Err(SessionEnd::NoLogin));
        let mut server = serving();
        assert_eq!(server.on_time(at(HEARTBEAT_INTERVAL_NS - 1)), Ok(false));
        assert_eq!(server.on_time(at(HEARTBEAT_INTERVAL_NS)), Ok(true));
        assert_eq!(server.on_time(at(HEARTBEAT_INTERVAL_NS)), Ok(false));
        server.has_said(at(HEARTBEAT_INTERVAL_NS + 5));
        assert_eq!(server.on_time(at(2 * HEARTBEAT_INTERVAL_NS)), Ok(false));
        assert_eq!(server.take(b"R", &only(), None, at(9)), Ok(false));
        assert!(server.on_time(at(SILENCE_MAX_NS)).is_ok());
        assert_eq!(server.on_time(at(SILENCE_MAX_NS + 9)), Err(SessionEnd::Silence));
    }
}
