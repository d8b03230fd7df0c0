//! The sequence numbers of a publication's messages, for those who send none.

use weir_feed::moldudp64::MoldSession;
use weir_market::publish::PublishSink;

/// Counts the sequence number of the session's next message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// The open session.
    pub session: Option<MoldSession>,
    /// The number of its next message, from 1.
    pub next: u64,
}

impl Numbers {
    /// Returns those before the first session.
    pub fn new() -> Numbers {
        Numbers { session: None, next: 1 }
    }
}

impl PublishSink for Numbers {
    fn session(&mut self, session: MoldSession) {
        (self.session, self.next) = (Some(session), 1);
    }

    fn message(&mut self, _message: &[u8]) {
        self.next += 1;
    }

    fn end(&mut self) {}
}
