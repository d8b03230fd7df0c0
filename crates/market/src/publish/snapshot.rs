//! Snapshots of a session for late joiners: everything shown, under the same references as on the
//! lines, and the sequence number at which to continue.
//!
//! A snapshot holds the state, not its history: earlier trades and crosses are not included.

use weir_feed::moldudp64::MoldSession;
use weir_feed::soupbin::SoupPacket;
use weir_feed::soupbin::glimpse::end_of_snapshot;

use super::PublishSink;
use super::orders::Order;
use super::publication::Publication;

impl Publication {
    /// Returns the open session.
    #[must_use]
    pub fn session(&self) -> Option<MoldSession> {
        self.open.map(|open| self.session_of(open.midnight))
    }

    /// Writes the state of the open session to `out` as messages: the system events, the
    /// instruments with their states, and the shown orders by priority. Changes nothing; writes
    /// nothing before the first session.
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

/// A sink that appends each message of a snapshot as a SoupBinTCP packet.
#[derive(Debug)]
struct Packing<'a>(&'a mut Vec<u8>);

impl PublishSink for Packing<'_> {
    fn session(&mut self, _session: MoldSession) {}

    fn message(&mut self, message: &[u8]) {
        let is_written = SoupPacket::Sequenced(message).write(self.0);
        debug_assert!(is_written, "messages of ITCH are short");
    }

    fn end(&mut self) {}
}

/// Appends a snapshot of the open session as the SoupBinTCP packets that a GLIMPSE server sends
/// after the answer to a login: the messages, then the message that names `next_sequence` as the
/// number at which the lines continue.
pub fn put_snapshot(publication: &Publication, next_sequence: u64, out: &mut Vec<u8>) {
    publication.snapshot(&mut Packing(out));
    Packing(out).message(&end_of_snapshot(next_sequence));
}
