//! MoldUDP64: numbered messages packed into datagrams, and requests for lost ones.
//!
//! It implements both directions: reading a venue's packets and writing Weir's own. It does not
//! interpret or store messages, and never sends a request by itself.
//!
//! Source: Nasdaq, MoldUDP64 Protocol Specification, version 1.00. All integers are big-endian.
//!
//! ```text
//! downstream packet: session 10 │ sequence u64 │ count u16 │ count × (length u16, message)
//! request packet:    session 10 │ sequence u64 │ count u16
//! ```

use weir_types::Nanos;

use super::{FeedError, Packet, PacketKind};

/// Length of a packet's header, and of a request, in bytes.
pub const HEADER_LEN: usize = 20;

/// Length of a session's name in bytes.
pub const SESSION_LEN: usize = 10;

/// The count of a heartbeat.
const HEARTBEAT: u16 = 0;

/// The count of the last packet of a session.
const END_OF_SESSION: u16 = 0xFFFF;

/// The largest UDP payload that is not fragmented on an Ethernet with an MTU of 1,500 bytes.
pub const PAYLOAD_LEN_ETHERNET: usize = 1472;

/// A session's name: ten bytes, letters and digits, padded with spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MoldSession(pub [u8; SESSION_LEN]);

impl MoldSession {
    /// Returns the session of this name, padded on the right; `None` when it is longer than ten
    /// bytes or not printable ASCII.
    #[must_use]
    pub fn new(name: &str) -> Option<MoldSession> {
        let name = name.as_bytes();
        if name.len() > SESSION_LEN || !name.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            return None;
        }
        let mut bytes = [b' '; SESSION_LEN];
        bytes[..name.len()].copy_from_slice(name);
        Some(MoldSession(bytes))
    }

    /// Returns the name as one number, regardless of the side of its padding: the 64-bit FNV-1a
    /// hash of the name without surrounding spaces. Two names of a channel collide with the
    /// probability of two equal draws out of 2^64.
    #[must_use]
    pub fn number(&self) -> u64 {
        let name = self.0.trim_ascii();
        name.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
    }
}

/// The header of downstream packets and of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The session.
    pub session: MoldSession,
    /// The sequence number of the first message, from 1.
    pub sequence: u64,
    /// The number of messages; zero in a heartbeat, 65,535 at the end of a session.
    pub count: u16,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`FeedError::ShortPacket`].
    pub fn read(datagram: &[u8]) -> Result<Header, FeedError> {
        let Some(header) = datagram.first_chunk::<HEADER_LEN>() else {
            return Err(FeedError::ShortPacket { len: datagram.len(), header_len: HEADER_LEN });
        };
        let (session, numbers) = header.split_first_chunk().expect("the header is longer");
        let (sequence, count) = numbers.split_first_chunk().expect("eight bytes and two");
        Ok(Header {
            session: MoldSession(*session),
            sequence: u64::from_be_bytes(*sequence),
            count: u16::from_be_bytes(count.try_into().expect("two bytes are left")),
        })
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..10].copy_from_slice(&self.session.0);
        bytes[10..18].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[18..].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }
}

/// Reads a downstream packet's header. The session's number is [`MoldSession::number`].
///
/// # Errors
/// [`FeedError::ShortPacket`].
#[inline]
pub fn read_packet(datagram: &[u8], channel: u32) -> Result<Packet<'_>, FeedError> {
    let header = Header::read(datagram)?;
    let (kind, count) = match header.count {
        HEARTBEAT => (PacketKind::Heartbeat, 0),
        END_OF_SESSION => (PacketKind::EndOfSession, 0),
        count => (PacketKind::Data, u32::from(count)),
    };
    Ok(Packet {
        channel,
        session: header.session.number(),
        sequence: header.sequence,
        count,
        kind,
        ts_send: Nanos(0),
        stream_offset: None,
        messages: &datagram[HEADER_LEN..],
    })
}

/// Splits the first message off a packet's messages; returns it and the rest.
///
/// # Errors
/// [`FeedError::Truncated`] with index and offset zero.
#[inline]
pub fn next_message(messages: &[u8]) -> Result<(&[u8], &[u8]), FeedError> {
    let truncated = FeedError::Truncated { index: 0, offset: 0 };
    let (len, rest) = messages.split_first_chunk().ok_or(truncated)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len))).ok_or(truncated)
}

/// An iterator over the messages of a packet, each with its sequence number. It ends after an
/// error.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    all: &'a [u8],
    rest: &'a [u8],
    sequence: u64,
    index: u32,
    count: u32,
}

impl<'a> Messages<'a> {
    /// Creates an iterator over the messages of this packet.
    #[must_use]
    pub fn new(packet: &Packet<'a>) -> Messages<'a> {
        Messages {
            all: packet.messages,
            rest: packet.messages,
            sequence: packet.sequence,
            index: 0,
            count: packet.count,
        }
    }

    fn fail(&mut self, error: FeedError) -> Option<Result<(u64, &'a [u8]), FeedError>> {
        (self.index, self.rest) = (self.count, &[]);
        Some(Err(error))
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<(u64, &'a [u8]), FeedError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.count {
            return match self.rest.len() {
                0 => None,
                len => self.fail(FeedError::Trailing { len }),
            };
        }
        let Ok((message, rest)) = next_message(self.rest) else {
            let offset = self.all.len() - self.rest.len();
            return self.fail(FeedError::Truncated { index: self.index, offset });
        };
        let sequence = self.sequence.saturating_add(u64::from(self.index));
        self.rest = rest;
        self.index += 1;
        Some(Ok((sequence, message)))
    }
}

/// A request to a re-request server for lost messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The session of the messages.
    pub session: MoldSession,
    /// The sequence number of the first message.
    pub sequence: u64,
    /// The number of messages, at least one. The server answers with as many as fit one packet.
    pub count: u16,
}

impl Request {
    /// Reads a request; ignores bytes after it.
    ///
    /// # Errors
    /// [`FeedError::ShortPacket`]; [`FeedError::Header`] for a request of no message.
    pub fn read(datagram: &[u8]) -> Result<Request, FeedError> {
        let Header { session, sequence, count } = Header::read(datagram)?;
        if count == 0 {
            return Err(FeedError::Header { field: "requested count", value: 0 });
        }
        Ok(Request { session, sequence, count })
    }

    /// Returns the bytes of the request.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let Request { session, sequence, count } = *self;
        Header { session, sequence, count }.to_bytes()
    }
}

/// The outcome of adding a message to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PushOutcome {
    /// The message is in the packet.
    Added,
    /// The packet has no room for the message: take the packet first.
    Full,
    /// The message fits no packet.
    TooLong,
}

/// A writer that packs messages into datagrams and numbers them. One buffer serves all packets.
///
/// INVARIANT: `datagram` has room for a header, then `count` messages with their lengths, and is
/// never longer than `len_max`.
#[derive(Clone, Debug)]
pub struct PacketWriter {
    session: MoldSession,
    sequence: u64,
    count: u16,
    len_max: usize,
    datagram: Vec<u8>,
}

impl PacketWriter {
    /// Creates a writer of packets of `session` of at most `len_max` bytes; the next message gets
    /// the number `sequence`. `len_max` is raised to fit at least a message of one byte.
    #[must_use]
    pub fn new(session: MoldSession, sequence: u64, len_max: usize) -> PacketWriter {
        let len_max = len_max.max(HEADER_LEN + 3);
        let mut datagram = Vec::with_capacity(len_max);
        datagram.resize(HEADER_LEN, 0);
        PacketWriter { session, sequence, count: 0, len_max, datagram }
    }

    /// Returns the sequence number of the next message to be pushed.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.sequence.saturating_add(u64::from(self.count))
    }

    /// Returns the number of messages in the current packet.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Adds a message to the packet.
    pub fn push(&mut self, message: &[u8]) -> PushOutcome {
        let Ok(len) = u16::try_from(message.len()) else { return PushOutcome::TooLong };
        let room = self.len_max - HEADER_LEN;
        if message.len() + 2 > room {
            return PushOutcome::TooLong;
        }
        let is_full = self.datagram.len() + message.len() + 2 > self.len_max;
        if is_full || self.count == END_OF_SESSION - 1 {
            return PushOutcome::Full;
        }
        self.datagram.extend_from_slice(&len.to_be_bytes());
        self.datagram.extend_from_slice(message);
        self.count += 1;
        PushOutcome::Added
    }

    /// Passes the packet to `send` if it has a message, and begins the next one.
    pub fn take<T>(&mut self, send: impl FnOnce(&[u8]) -> T) -> Option<T> {
        if self.count == 0 {
            return None;
        }
        self.put_header(self.count);
        let sent = send(&self.datagram);
        self.restart_at(self.next_sequence());
        Some(sent)
    }

    /// Returns a heartbeat, which gives the next sequence number.
    ///
    /// # Panics
    /// Panics when the packet has messages: they must be taken first.
    pub fn heartbeat(&mut self) -> &[u8] {
        self.empty_packet(HEARTBEAT)
    }

    /// Returns the packet that ends the session. The caller repeats it for a while, like a
    /// heartbeat.
    ///
    /// # Panics
    /// Panics when the packet has messages: they must be taken first.
    pub fn end_of_session(&mut self) -> &[u8] {
        self.empty_packet(END_OF_SESSION)
    }

    /// Begins a packet at another sequence number, to answer a request. Drops messages that were
    /// pushed but not taken.
    pub fn restart_at(&mut self, sequence: u64) {
        self.datagram.truncate(HEADER_LEN);
        (self.sequence, self.count) = (sequence, 0);
    }

    fn empty_packet(&mut self, count: u16) -> &[u8] {
        assert_eq!(self.count, 0, "the packet's messages were not taken");
        self.put_header(count);
        &self.datagram
    }

    fn put_header(&mut self, count: u16) {
        let header = Header { session: self.session, sequence: self.sequence, count };
        self.datagram[..HEADER_LEN].copy_from_slice(&header.to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn session() -> MoldSession {
        MoldSession::new("WEIR00001A").expect("ten letters and digits")
    }

    fn messages(datagram: &[u8]) -> Vec<Result<(u64, &[u8]), FeedError>> {
        Messages::new(&read_packet(datagram, 0).expect("a header")).collect()
    }

    #[test]
    fn a_packet_is_read_byte_by_byte() {
        let datagram = b"WEIR00001A\0\0\0\0\0\xE1\x49\xD0\0\x02\0\x03abc\0\0";
        let packet = read_packet(datagram, 7).expect("a packet");
        assert_eq!((packet.channel, packet.sequence, packet.count), (7, 0xE149D0, 2));
        assert_eq!((packet.kind, packet.session), (PacketKind::Data, session().number()));
        assert_eq!(messages(datagram), [Ok((0xE149D0, &b"abc"[..])), Ok((0xE149D1, &b""[..]))]);
    }

    #[test]
    fn heartbeats_and_the_end_of_a_session_hold_no_message() {
        let mut writer = PacketWriter::new(session(), 5, 100);
        assert_eq!(writer.heartbeat(), b"WEIR00001A\0\0\0\0\0\0\0\x05\0\0");
        let packet = read_packet(writer.heartbeat(), 0).expect("a packet");
        assert_eq!((packet.kind, packet.sequence, packet.count), (PacketKind::Heartbeat, 5, 0));
        assert_eq!(&writer.end_of_session()[18..], [0xFF, 0xFF]);
        let packet = read_packet(writer.end_of_session(), 0).expect("a packet");
        assert_eq!((packet.kind, packet.sequence, packet.count), (PacketKind::EndOfSession, 5, 0));
    }

    #[test]
    fn what_does_not_add_up_is_told_with_its_place() {
        let truncated = |index, offset| Err(FeedError::Truncated { index, offset });
        for (tail, want) in [
            (&b"\0\x02\0\x01a"[..], vec![Ok((1, &b"a"[..])), truncated(1, 3)]),
            (b"\0\x02\0\x01a\0", vec![Ok((1, &b"a"[..])), truncated(1, 3)]),
            (b"\0\x02\0\x01a\0\x02b", vec![Ok((1, &b"a"[..])), truncated(1, 3)]),
            (b"\0\x01\0\x01abc", vec![Ok((1, &b"a"[..])), Err(FeedError::Trailing { len: 2 })]),
            (b"\0\0z", vec![Err(FeedError::Trailing { len: 1 })]),
        ] {
            let mut datagram = Header { session: session(), sequence: 1, count: 0 }.to_bytes();
            datagram[18..].copy_from_slice(&tail[..2]);
            let datagram = [&datagram[..], &tail[2..]].concat();
            assert_eq!(messages(&datagram), want, "{tail:?}");
        }
    }

    #[test]
    fn every_truncation_of_a_header_is_told() {
        let datagram = PacketWriter::new(session(), 5, 100).heartbeat().to_vec();
        for len in 0..HEADER_LEN {
            let want = FeedError::ShortPacket { len, header_len: HEADER_LEN };
            assert_eq!(read_packet(&datagram[..len], 0), Err(want));
            assert_eq!(Request::read(&datagram[..len]), Err(want));
        }
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        let request = Request { session: session(), sequence: 0x0102_0304, count: 300 };
        assert_eq!(&request.to_bytes(), b"WEIR00001A\0\0\0\0\x01\x02\x03\x04\x01\x2C");
        assert_eq!(Request::read(&request.to_bytes()), Ok(request));
        let nothing = Request { count: 0, ..request }.to_bytes();
        let want = FeedError::Header { field: "requested count", value: 0 };
        assert_eq!(Request::read(&nothing), Err(want));
    }

    #[test]
    fn a_session_has_one_number_whatever_its_padding() {
        let number = |name: &str| MoldSession::new(name).expect("a name").number();
        assert_eq!(number("ABC"), number("       ABC"));
        assert_ne!(number("ABC"), number("ABD"));
        assert_eq!(MoldSession::new("ABCDEFGHIJK"), None);
        assert_eq!(MoldSession::new("A\n"), None);
    }

    #[test]
    fn numbers_at_their_end_stay_there() {
        let mut writer = PacketWriter::new(session(), u64::MAX, 100);
        assert_eq!(
            (writer.push(b"a"), writer.push(b"b")),
            (PushOutcome::Added, PushOutcome::Added)
        );
        assert_eq!(writer.next_sequence(), u64::MAX);
        writer.take(|datagram| {
            assert_eq!(messages(datagram).pop(), Some(Ok((u64::MAX, &b"b"[..]))));
        });
    }

    #[test]
    fn a_packet_holds_no_more_messages_than_its_count_can_say() {
        let mut writer = PacketWriter::new(session(), 1, usize::from(u16::MAX) * 3);
        for _ in 0..END_OF_SESSION - 1 {
            assert_eq!(writer.push(b""), PushOutcome::Added);
        }
        assert_eq!(writer.push(b""), PushOutcome::Full);
        writer.take(|datagram| assert_eq!(messages(datagram).len(), 65_534));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_in_order_and_every_packet_is_as_full_as_it_can_be(
            all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..60),
            len_max in 23usize..200,
            first in 1u64..1000,
        ) {
            let mut writer = PacketWriter::new(session(), first, len_max);
            let mut sent: Vec<Vec<u8>> = Vec::new();
            let mut want = Vec::new();
            for message in &all {
                if writer.push(message) == PushOutcome::Full {
                    let taken = writer.take(|datagram| sent.push(datagram.to_vec()));
                    prop_assert!(taken.is_some());
                    let filled = sent.last().map_or(0, Vec::len);
                    prop_assert!(filled + 2 + message.len() > len_max);
                    prop_assert_eq!(writer.push(message), PushOutcome::Added);
                }
                if HEADER_LEN + 2 + message.len() <= len_max {
                    want.push((first + want.len() as u64, message.as_slice()));
                }
            }
            prop_assert_eq!(writer.next_sequence(), first + want.len() as u64);
            writer.take(|datagram| sent.push(datagram.to_vec()));
            prop_assert_eq!(writer.take(|_| ()), None);
            prop_assert!(sent.iter().all(|datagram| datagram.len() <= len_max));
            let got: Result<Vec<_>, _> = sent.iter().flat_map(|packet| messages(packet)).collect();
            prop_assert_eq!(got, Ok(want));
        }
    }
}
