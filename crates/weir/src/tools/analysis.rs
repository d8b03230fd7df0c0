//! The content of a capture or a day file: groups, channels, gaps, the mix of messages, rates.
//!
//! Never judges the meaning of a message: it knows a feed's framing alone, and without one it
//! counts datagrams.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use weir_feed::capture::Datagram;
use weir_feed::line::numbering::{Arrival, Numbering, Verdict};
use weir_feed::{AnyFeed, Feed as _, FeedEntry, Packet, PacketKind, dbn};
use weir_marketgate::capture::{CaptureFile, FileCheck, FileError, FileKind, FileProblem, Item};
use weir_types::Nanos;

use super::rates::Rates;

/// The numbers of one channel in one group.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Messages.
    pub messages: u64,
    /// Sessions, one after the other.
    pub sessions: u64,
    /// Places where numbers jump.
    pub gaps: u64,
    /// Numbers that were jumped over.
    pub missing: u64,
    /// Messages with numbers that had been passed: sent again, or late.
    pub repeated: u64,
    /// Times that numbers began anew within a session.
    pub restarts: u64,
    /// Packets of a session that was over, or sent before a restart.
    pub old_packets: u64,
    /// Packets that contradict those before them.
    pub contradictions: u64,
    numbering: Numbering,
    next: Option<u64>,
}

impl Numbers {
    fn note(&mut self, packet: &Packet<'_>, ts_recv: Nanos) {
        let count = u64::from(packet.count);
        self.messages += count;
        let end = packet.sequence.saturating_add(count);
        let followed = self.numbering.session();
        let is_again = packet.kind == PacketKind::Retransmission;
        match self.numbering.judge(packet, Arrival { end, is_again, now: ts_recv }) {
            Verdict::Follows => {}
            Verdict::Begins(_) => {
                let is_same = followed == Some(packet.session);
                self.restarts += u64::from(is_same);
                self.sessions += u64::from(!is_same);
                self.next = None;
            }
            Verdict::Old { .. } | Verdict::Foreign => {
                self.old_packets += 1;
                return;
            }
            Verdict::Contradicts => {
                self.contradictions += 1;
                return;
            }
        }
        let next = *self.next.get_or_insert(packet.sequence);
        if packet.sequence > next {
            self.gaps += 1;
            self.missing = self.missing.saturating_add(packet.sequence - next);
        } else {
            self.repeated += end.min(next).saturating_sub(packet.sequence);
        }
        self.next = Some(end.max(next));
    }
}

/// The datagrams of a group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Datagrams.
    pub packets: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// The first one's time.
    pub first: Nanos,
    /// The last one's time.
    pub last: Nanos,
    /// Datagrams that are not of the feed.
    pub strangers: u64,
    /// The sequence numbers of each channel, by the feed's framing.
    pub channels: BTreeMap<u32, Numbers>,
}

/// Messages of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// Their number.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The result.
#[derive(Debug, Default)]
pub struct Analysis {
    /// By where they went.
    pub groups: BTreeMap<SocketAddr, Group>,
    /// By type.
    pub kinds: BTreeMap<Vec<u8>, Kind>,
    /// Events by time: messages where they are known, else datagrams.
    pub rates: Rates,
    /// The first event's time.
    pub first: Option<Nanos>,
    /// The last event's time.
    pub last: Nanos,
    /// Packets whose messages could not be told apart to their end.
    pub damaged_packets: u64,
    /// True when messages are known.
    pub has_messages: bool,
}

impl Analysis {
    /// Reads a file to its end, or to where it cannot be read: what was found until then, and why
    /// there is no more, or none of the feed.
    pub fn of(file: &mut CaptureFile, feed: Option<&FeedEntry>) -> (Analysis, Option<FileProblem>) {
        let mut analysis = Analysis::default();
        let error = analysis.read(file, feed);
        (analysis, error)
    }

    /// Reads one more file, as what comes behind all that was read: as [`Analysis::of`].
    pub fn read(
        &mut self,
        file: &mut CaptureFile,
        entry: Option<&FeedEntry>,
    ) -> Option<FileProblem> {
        let mut check = match entry.map(|entry| FileCheck::new(entry, file.kind())).transpose() {
            Ok(check) => check,
            Err(problem) => return Some(problem),
        };
        let feed = entry.map(|entry| (entry.feed)());
        let ended = self.read_items(file, feed.as_ref(), check.as_mut());
        let verdict = || check.and_then(|check| check.verdict().err());
        ended.map(FileProblem::from).or_else(verdict)
    }

    fn read_items(
        &mut self,
        file: &mut CaptureFile,
        feed: Option<&AnyFeed>,
        mut check: Option<&mut FileCheck>,
    ) -> Option<FileError> {
        self.has_messages |= feed.is_some();
        let is_dbn = file.kind() == FileKind::Dbn;
        let kind_at = if is_dbn { dbn::PROFILE.kind_at } else { (0, 1) };
        loop {
            let more = file.next(&mut |item| match item {
                Item::Datagram(datagram) => {
                    check.iter_mut().for_each(|check| check.datagram(datagram.payload));
                    self.datagram(datagram, feed);
                }
                Item::Message { ts_event, message } => {
                    self.has_messages = true;
                    self.note_kind(message, kind_at);
                    self.note_time(*ts_event, 1);
                }
                Item::Name { .. } | Item::Other(_) => {}
            });
            match more {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(error),
            }
        }
    }

    fn datagram(&mut self, datagram: &Datagram<'_>, feed: Option<&AnyFeed>) {
        let group = self.groups.entry(datagram.dst).or_default();
        if group.packets == 0 {
            group.first = datagram.ts_recv;
        }
        group.last = datagram.ts_recv;
        group.packets += 1;
        group.bytes += datagram.payload.len() as u64;
        let Some(feed) = feed else {
            self.note_time(datagram.ts_recv, 1);
            return;
        };
        let Ok(packet) = feed.packet(datagram.payload) else {
            group.strangers += 1;
            return;
        };
        group.channels.entry(packet.channel).or_default().note(&packet, datagram.ts_recv);
        let mut rest = packet.messages;
        let mut count = 0;
        while count < u64::from(packet.count) {
            match feed.next_message(rest) {
                Ok((message, after)) => {
                    self.note_kind(message, feed.profile().kind_at);
                    rest = after;
                    count += 1;
                }
                Err(_) => {
                    self.damaged_packets += 1;
                    break;
                }
            }
        }
        self.note_time(datagram.ts_recv, count);
    }

    fn note_kind(&mut self, message: &[u8], (from, to): (usize, usize)) {
        let len = message.len();
        let kind = &message[from.min(len)..to.min(len)];
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.to_vec(), Kind::default());
        }
        if let Some(counts) = self.kinds.get_mut(kind) {
            counts.messages += 1;
            counts.bytes += message.len() as u64;
        }
    }

    fn note_time(&mut self, at: Nanos, count: u64) {
        self.first.get_or_insert(at);
        self.last = at;
        self.rates.add(at, count);
    }

    /// The unit of the counts.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        if self.has_messages { "messages" } else { "datagrams" }
    }

    /// Datagrams, and the bytes in them.
    #[must_use]
    pub fn packets(&self) -> (u64, u64) {
        let sum = |sum: (u64, u64), group: &Group| (sum.0 + group.packets, sum.1 + group.bytes);
        self.groups.values().fold((0, 0), sum)
    }

    /// Gaps and missing messages of all channels.
    #[must_use]
    pub fn gaps(&self) -> (u64, u64) {
        let channels = self.groups.values().flat_map(|group| group.channels.values());
        let sum = |sum: (u64, u64), numbers: &Numbers| {
            (sum.0 + numbers.gaps, sum.1.saturating_add(numbers.missing))
        };
        channels.fold((0, 0), sum)
    }

    /// Restarts, and packets that contradict others, of all channels.
    #[must_use]
    pub fn restarts(&self) -> (u64, u64) {
        let channels = self.groups.values().flat_map(|group| group.channels.values());
        channels
            .fold((0, 0), |sum, numbers| (sum.0 + numbers.restarts, sum.1 + numbers.contradictions))
    }

    /// All of it as one object.
    #[must_use]
    pub fn json(&self) -> Value {
        let groups: Vec<Value> =
            self.groups.iter().map(|(address, group)| group_json(address, group)).collect();
        let kinds: Vec<Value> = self
            .kinds
            .iter()
            .map(|(kind, counts)| {
                let (messages, bytes) = (counts.messages, counts.bytes);
                json!({ "type": kind_text(kind), "messages": messages, "bytes": bytes })
            })
            .collect();
        let ((packets, bytes), (gaps, missing)) = (self.packets(), self.gaps());
        let (restarts, contradictions) = self.restarts();
        json!({
            "unit": self.unit(),
            "events": self.rates.total(),
            "packets": packets,
            "bytes": bytes,
            "first_ns": self.first.map(|first| first.0),
            "last_ns": self.first.map(|_| self.last.0),
            "span_ns": self.rates.span_ns(),
            "mean_per_second": self.rates.mean_per_second(),
            "windows": self.rates.rows(),
            "gaps": gaps,
            "missing": missing,
            "restarts": restarts,
            "contradictions": contradictions,
            "damaged_packets": self.damaged_packets,
            "groups": groups,
            "types": kinds,
        })
    }
}

fn group_json(address: &SocketAddr, group: &Group) -> Value {
    let channels: Vec<Value> = group
        .channels
        .iter()
        .map(|(channel, numbers)| {
            json!({
                "channel": channel, "sessions": numbers.sessions, "messages": numbers.messages,
                "gaps": numbers.gaps, "missing": numbers.missing, "repeated": numbers.repeated,
                "restarts": numbers.restarts, "old_packets": numbers.old_packets,
                "contradictions": numbers.contradictions,
            })
        })
        .collect();
    json!({
        "group": address.to_string(), "packets": group.packets, "bytes": group.bytes,
        "first_ns": group.first.0, "last_ns": group.last.0, "strangers": group.strangers,
        "channels": channels,
    })
}

/// A message's type as text: letters as they are, else hexadecimal.
#[must_use]
pub fn kind_text(kind: &[u8]) -> String {
    if !kind.is_empty() && kind.iter().all(u8::is_ascii_graphic) {
        return String::from_utf8_lossy(kind).into_owned();
    }
    kind.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod tests;
