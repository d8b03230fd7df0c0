//! What a session has come to, for who joins late: all that is shown, under the numbers that it
//! has on the lines, and with which message to go on.
//!
//! Says nothing of how it came so: trades and crosses of before are not in it.

use super::PublishSink;
use super::orders::Order;
use super::publication::Publication;
use crate::feed::moldudp64::Session;
use crate::feed::soupbin::SoupPacket;
use crate::feed::soupbin::glimpse::end_of_snapshot;

impl Publication {
    /// The session that is open.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.open.map(|open| self.session_of(open.midnight))
    }

    /// Says all of the open session as it is now, to `out` as messages: the system's events, the
    /// instruments with their states, the orders that are shown, first those that stand first. It
    /// changes nothing, and says nothing before the first session.
    pub fn snapshot(&self, out: &mut impl PublishSink) {
        let Some(open) = self.open else { return };
        self.say_system(b'O', out);
        let mut known: Vec<_> = self.instruments.iter().filter(|of| of.locate != 0).collect();
        known.sort_unstable_by_key(|of| of.locate);
        for of in known {
            if let Some(fit) = of.published() {
                self.say_directory(of, fit, out);
                self.say_state(of, fit, out);
            }
        }
        self.say_system(b'S', out);
        if open.hours.0 {
            self.say_system(b'Q', out);
        }
        if open.hours.1 {
            self.say_system(b'M', out);
        }
        for rec in self.in_order(|order: &Order| order.reference != 0) {
            if let Some(order) = self.orders.get(&rec) {
                let is_said = self.say_add(order, out);
                debug_assert!(is_said, "what is shown could be said");
            }
        }
    }
}

/// Puts each message of a snapshot into a packet of SoupBinTCP.
#[derive(Debug)]
struct Packing<'a>(&'a mut Vec<u8>);

impl PublishSink for Packing<'_> {
    fn session(&mut self, _session: Session) {}

    fn message(&mut self, message: &[u8]) {
        let is_written = SoupPacket::Sequenced(message).write(self.0);
        debug_assert!(is_written, "messages of ITCH are short");
    }

    fn end(&mut self) {}
}

/// Appends a snapshot of the open session as the packets of SoupBinTCP that a GLIMPSE server
/// sends behind the answer to a login: the messages, then that which says that the lines go on
/// with `next_sequence`.
pub fn put_snapshot(publication: &Publication, next_sequence: u64, out: &mut Vec<u8>) {
    publication.snapshot(&mut Packing(out));
    Packing(out).message(&end_of_snapshot(next_sequence));
}
