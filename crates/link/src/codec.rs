//! The messages of each direction as one type, their frames, and batches of entries with data.

use weir_types::{EventNo, Nanos, Reason, SessionId};
use weir_wire::frame::{
    BrokenFrame, Framing, RawMessage, next_frame, put_frame, put_frame_with, put_message,
};
use weir_wire::group::{Group, put_data, put_group, put_group_header, take_data, take_group};
use weir_wire::message::{DecodeError, Message};
use weir_wire::session::Logout;

use crate::message::{
    AskRecords, BindSession, BindingsNamed, ClaimEnded, ClaimSession, CommandBatch, CommandRefused,
    EpochEnded, EventBatch, FirmFollowed, FirmRecords, FollowFirm, HeldGrant, KeepClaims,
    LinkOpened, LinkPulse, LinkReady, LinkedCommand, LinkedEvent, OldRecord, OldRecords, OpenLink,
    RecordNo, ReleaseSession, SessionBound, SessionClaimed, SessionFirm, SessionFirms,
    SessionRecords, SessionUnbound, StageBatch, StageSpans, UnbindSession,
};

/// The longest frame of a link, in bytes.
pub const FRAME_LEN_MAX: usize = 96 * 1024;
/// The bytes of entries after which a batch takes no further one.
pub const BATCH_LEN_MAX: usize = 60 * 1024;
/// The most commands of a batch.
pub const COMMANDS_MAX: usize = 256;
/// The most records of a batch.
pub const EVENTS_MAX: usize = 1_024;
/// The most records that a batch skips.
pub const SKIPPED_MAX: u64 = 65_536;
/// The most record numbers in a frame.
pub const RECORD_NUMBERS_MAX: usize = 4_096;

/// The reason why an end gives its connection up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkFault {
    /// The bytes are no frames.
    #[error(transparent)]
    Broken(#[from] BrokenFrame),
    /// A message does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A message has no place in the present state.
    #[error("{0} is out of place")]
    OutOfPlace(&'static str),
    /// A record is not the next one.
    #[error("record {found} came where {wanted} is next")]
    Gap {
        /// The record that is next.
        wanted: u64,
        /// The record that came.
        found: u64,
    },
    /// A session's event is not its next one.
    #[error("event {found} of session {session_id} came where {wanted} is next")]
    EventGap {
        /// The session.
        session_id: SessionId,
        /// The event that is next.
        wanted: EventNo,
        /// The event that came.
        found: EventNo,
    },
    /// A number of the other end cannot be one.
    #[error("{0} out of range")]
    OutOfRange(&'static str),
    /// The other end names another partition.
    #[error("the message is for another partition")]
    WrongPartition,
    /// A gateway sends a command that no gateway may send.
    #[error("no gateway may send this command")]
    NotARequest,
    /// More is under way than the terms permit.
    #[error("more is under way than the terms of the link permit")]
    WindowOverrun,
    /// The other end was silent for too long.
    #[error("the other end is silent")]
    Silent,
    /// The other end has closed the link.
    #[error("the other end has closed the link: {0:?}")]
    Closed(Reason),
}

impl LinkFault {
    /// Returns the reason that the other end is told.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            LinkFault::Broken(_) => Reason::MalformedFrame,
            LinkFault::Decode(_)
            | LinkFault::OutOfPlace(_)
            | LinkFault::OutOfRange(_)
            | LinkFault::Gap { .. }
            | LinkFault::EventGap { .. } => Reason::TooManyErrors,
            LinkFault::WrongPartition => Reason::WrongPartition,
            LinkFault::NotARequest => Reason::NotAClientMessage,
            LinkFault::WindowOverrun => Reason::WindowOverrun,
            LinkFault::Silent => Reason::HeartbeatLost,
            LinkFault::Closed(reason) => *reason,
        }
    }
}

/// The entries of a group, each followed by a data field. Two are equal if their entries are.
#[derive(Clone, Debug)]
pub struct Entries<'a, E> {
    bytes: &'a [u8],
    block_length: usize,
    count: usize,
    entry: std::marker::PhantomData<E>,
}

impl<'a, E: Message> Entries<'a, E> {
    /// Parses the group at the end of a message: entries and data must be whole.
    fn take(bytes: &'a [u8]) -> Result<Entries<'a, E>, DecodeError> {
        let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
            return Err(DecodeError::Truncated("group header"));
        };
        let block_length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let count = usize::from(u16::from_le_bytes([head[2], head[3]]));
        if block_length < E::BLOCK_LENGTH && count > 0 {
            let (message, want) = (E::NAME, E::BLOCK_LENGTH);
            return Err(DecodeError::BlockTooShort { message, got: block_length, want });
        }
        let entry = std::marker::PhantomData;
        let entries = Entries { bytes: rest, block_length, count, entry };
        let mut walked = Entries { bytes: rest, block_length, count, entry };
        while walked.count > 0 {
            walked.next_entry()?;
        }
        match walked.bytes.len() {
            0 => Ok(entries),
            count => Err(DecodeError::TrailingBytes { message: E::NAME, count }),
        }
    }

    fn next_entry(&mut self) -> Result<(E, &'a [u8]), DecodeError> {
        let Some((block, rest)) = self.bytes.split_at_checked(self.block_length) else {
            return Err(DecodeError::Truncated("group"));
        };
        let (data, rest) = take_data(rest)?;
        (self.bytes, self.count) = (rest, self.count - 1);
        Ok((E::decode_block(block)?, data))
    }

    /// Returns the number of entries that are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a, E: Message> Iterator for Entries<'a, E> {
    type Item = (E, &'a [u8]);

    fn next(&mut self) -> Option<(E, &'a [u8])> {
        (self.count > 0).then(|| self.next_entry().expect("all entries were walked before"))
    }
}

impl<E: Message + PartialEq> PartialEq for Entries<'_, E> {
    fn eq(&self, other: &Self) -> bool {
        self.clone().eq(other.clone())
    }
}

impl<E: Message + Eq> Eq for Entries<'_, E> {}

/// Entries of a batch that is being made.
#[derive(Debug, Default)]
pub struct BatchEntries {
    bytes: Vec<u8>,
    count: usize,
}

impl BatchEntries {
    /// Adds an entry and its data.
    pub fn push<E: Message>(&mut self, entry: &E, data: &[u8]) {
        entry.encode_block(&mut self.bytes);
        put_data(data, &mut self.bytes);
        self.count += 1;
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns true if it takes no further entry.
    #[must_use]
    pub fn is_full(&self, count_max: usize) -> bool {
        self.count >= count_max || self.bytes.len() >= BATCH_LEN_MAX
    }

    /// Appends the frame of a batch of these entries `E` behind `head`, and begins anew.
    pub fn put<M: Message, E: Message>(&mut self, head: &M, out: &mut Vec<u8>) {
        put_frame_with(out, |out| {
            put_message(head, out);
            put_group_header::<E>(self.count, out);
            out.extend_from_slice(&self.bytes);
        });
        self.bytes.clear();
        self.count = 0;
    }
}

/// Appends the frame of a message with a group.
pub fn put_with_group<M: Message, E: Message>(head: &M, entries: &[E], out: &mut Vec<u8>) {
    put_frame_with(out, |out| {
        put_message(head, out);
        put_group(entries, out);
    });
}

fn with_entries<'a, M: Message, E: Message>(
    raw: &RawMessage<'a>,
) -> Result<(M, Entries<'a, E>), DecodeError> {
    Ok((raw.decode()?, Entries::take(raw.rest())?))
}

fn with_group<'a, M: Message, E: Message>(
    raw: &RawMessage<'a>,
) -> Result<(M, Group<'a, E>), DecodeError> {
    let message = raw.decode()?;
    let (group, rest) = take_group::<E>(raw.rest())?;
    raw.expect_end::<M>(rest)?;
    // Entries without meaning are errors of the message.
    group.clone().try_for_each(|entry| entry.map(drop))?;
    Ok((message, group))
}

macro_rules! directions {
    ($(#[$doc:meta])* $name:ident {
        plain { $($plain:ident,)* }
        group { $($group:ident($entry:ident),)* }
        batch { $($batch:ident($part:ident),)* }
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name<'a> {
            $(#[doc = concat!("See [`", stringify!($plain), "`].")] $plain($plain),)*
            $(#[doc = concat!("See [`", stringify!($group), "`].")]
            $group($group, Group<'a, $entry>),)*
            $(#[doc = concat!("See [`", stringify!($batch), "`].")]
            $batch($batch, Entries<'a, $part>),)*
        }

        impl<'a> $name<'a> {
            /// Decodes a message of this direction.
            ///
            /// # Errors
            /// Any [`DecodeError`].
            pub fn decode(raw: &RawMessage<'a>) -> Result<$name<'a>, DecodeError> {
                match raw.template_id {
                    $($plain::TEMPLATE_ID => raw.decode_whole().map($name::$plain),)*
                    $($group::TEMPLATE_ID => {
                        with_group(raw).map(|(m, group)| $name::$group(m, group))
                    })*
                    $($batch::TEMPLATE_ID => {
                        with_entries(raw).map(|(m, entries)| $name::$batch(m, entries))
                    })*
                    other => Err(DecodeError::UnknownTemplate(other)),
                }
            }

            /// Appends the message's frame.
            pub fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$plain(m) => put_frame(m, out),)*
                    $($name::$group(m, group) => put_frame_with(out, |out| {
                        put_message(m, out);
                        group.put(out);
                    }),)*
                    $($name::$batch(m, entries) => {
                        let mut batch = BatchEntries::default();
                        entries.clone().for_each(|(entry, data)| batch.push(&entry, data));
                        batch.put::<$batch, $part>(m, out);
                    })*
                }
            }

            /// Returns the message's name.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $($name::$plain(_) => $plain::NAME,)*
                    $($name::$group(..) => $group::NAME,)*
                    $($name::$batch(..) => $batch::NAME,)*
                }
            }
        }
    };
}

directions! {
    /// A message of a gateway.
    ToPartition {
        plain {
            OpenLink, BindSession, BindingsNamed, UnbindSession, LinkPulse, FollowFirm,
            ClaimSession, ReleaseSession, Logout,
        }
        group { AskRecords(RecordNo), KeepClaims(HeldGrant), }
        batch { CommandBatch(LinkedCommand), }
    }
}

directions! {
    /// A message of a partition.
    ToGateway {
        plain {
            LinkOpened, LinkReady, SessionBound, SessionUnbound, CommandRefused, EpochEnded,
            LinkPulse, FirmFollowed, SessionClaimed, ClaimEnded, Logout,
        }
        group {
            SessionFirms(SessionFirm), SessionRecords(RecordNo), StageBatch(StageSpans),
            FirmRecords(RecordNo),
        }
        batch { EventBatch(LinkedEvent), OldRecords(OldRecord), }
    }
}

/// A message that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The message.
    pub raw: RawMessage<'a>,
    /// The length of its frame.
    pub len: usize,
    /// The time of its arrival.
    pub at: Nanos,
}

/// Returns the message at the head of `bytes`, which have arrived `at` this time; `None` if it is
/// not whole.
///
/// # Errors
/// [`LinkFault::Broken`] and [`LinkFault::Decode`].
pub fn next_message(bytes: &[u8], at: Nanos) -> Result<Option<Arrived<'_>>, LinkFault> {
    match next_frame(bytes, FRAME_LEN_MAX) {
        Framing::Incomplete => Ok(None),
        Framing::Broken(broken) => Err(broken.into()),
        Framing::Frame { len, message } => Ok(Some(Arrived { raw: message?, len, at })),
    }
}

/// Reads bytes as a connection's input at either end, for fuzz targets: a message that decodes is
/// written as bytes that decode to it.
///
/// # Panics
/// When that does not hold.
pub fn fuzz_bytes(mut bytes: &[u8]) {
    let read = |frame| next_message(frame, Nanos(0));
    while let Ok(Some(Arrived { raw, len, .. })) = read(bytes) {
        let mut frame = Vec::new();
        if let Ok(message) = ToPartition::decode(&raw) {
            message.put(&mut frame);
            let again = next_message(&frame, Nanos(0)).expect("it is a frame").expect("whole");
            assert_eq!(ToPartition::decode(&again.raw).as_ref(), Ok(&message));
        }
        frame.clear();
        if let Ok(message) = ToGateway::decode(&raw) {
            message.put(&mut frame);
            let again = next_message(&frame, Nanos(0)).expect("it is a frame").expect("whole");
            assert_eq!(ToGateway::decode(&again.raw).as_ref(), Ok(&message));
        }
        bytes = &bytes[len..];
    }
}
