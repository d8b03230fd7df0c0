//! The receiving side of a market-data gateway: turns sockets and captures into updates.
//!
//! A [`Receiver`] owns one feed: the sockets of its lines, retransmission requests, snapshots and
//! the codec. It has no thread and no book: its caller polls it and receives, through [`Output`],
//! definitions, updates with their receive times, and each channel's events. It never blocks, and
//! no input of a venue makes it fail: messages that cannot be decoded are counted.
//!
//! - [`config`]: the feed and its source. [`counts`]: counters. [`Output`]: the interface to the
//!   consumer.
//! - `pair`: a pair of lines with its sockets; `inlet`: a pair's packets from any source;
//!   `handler`: decodes packets to messages and messages to updates.
//! - `requests`, `recovery`: lost messages, by retransmission or by snapshot.
//! - `stream`, `capture`: a connection or a file instead of lines; `soup`: the framing of
//!   SoupBinTCP.

mod capture;
mod channel_numbers;
pub mod config;
pub mod counts;
mod handler;
mod inlet;
mod output;
mod pair;
mod recovery;
mod requests;
mod soup;
mod stream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use weir_feed::line::{Line, LineConfig};
use weir_feed::moldudp64::MoldSession;
use weir_feed::{FeedEntry, FeedError, PacketKind, feed_by_name};
use weir_types::{Nanos, WallOffset};

pub use self::config::{FeedSection, PasswordError};
pub use self::counts::{
    CaptureCounts, ChannelStatus, DecodeCounts, RequestCounts, SnapshotCounts, SocketStatus,
    StreamCounts,
};
pub use self::output::{ChannelEvent, ChannelKey, ClearReason, Origin, Output};
pub use self::recovery::RecoveryError;
pub use self::stream::StreamError;

use self::capture::{Capture, CaptureStep};
use self::config::{Day, TimingSection};
use self::handler::Decoding;
use self::inlet::{Inlet, Times};
use self::pair::{Pair, Socket};
use self::recovery::Recovery;
use self::requests::Requester;
use self::stream::{Framed, Stream, packet_of};
use super::capture::{CaptureFile, FileCheck, FileKind, FileProblem, Speed, open_for};
use weir_runtime::ConfigError;

/// An error that prevents a receiver from opening.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A password could not be read, or name and password do not fit a login.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// A socket did not open.
    #[error("{key} = {address}: {error}")]
    Socket {
        /// The configuration key.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// The cause.
        error: std::io::Error,
    },
    /// A file is no source of the feed.
    #[error("feed.capture.file = {path}: {error}")]
    File {
        /// The file's path.
        path: std::path::PathBuf,
        /// The cause.
        error: FileProblem,
    },
}

/// The receiver of one feed.
#[derive(Debug)]
pub struct Receiver {
    decoding: Decoding,
    pairs: Vec<Pair>,
    source: Option<FileSource>,
    /// The time of the last poll.
    polled: Nanos,
}

/// A file, and the assignment of its items to pairs.
#[derive(Debug)]
struct FileSource {
    capture: Capture,
    places: LineAddresses,
    /// True once the channels were told of a problem with the file.
    is_told: bool,
}

/// Maps addresses to the pairs and lines of a capture.
#[derive(Debug)]
struct LineAddresses {
    by_address: BTreeMap<SocketAddr, (usize, Line)>,
    /// True if each group without a configured line becomes a pair of its own.
    takes_all: bool,
    config: LineConfig,
    framed: Framed,
}

/// The maximum number of pairs of a capture without configured lines; no feed has more.
const PAIRS_MAX: usize = 1_024;

impl Receiver {
    /// Opens a feed's sockets, or its file. Connections are established by polling.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(section: &FeedSection) -> Result<Receiver, OpenError> {
        section.check()?;
        let want = "the name of a feed that there is";
        let unknown = || ConfigError::OutOfRange { key: "feed.name", value: String::new(), want };
        let entry = feed_by_name(&section.name).ok_or_else(unknown)?;
        let mut receiver = Receiver::new(Decoding::new(entry, section.day()));
        if section.lines.len() > 1 {
            receiver.decoding.expect_several_channels();
        }
        match (&section.capture, &section.tcp) {
            (Some(_), _) => receiver.open_file(entry, section)?,
            (None, Some(tcp)) => {
                let config = section.timing.lines();
                let mut pair = Pair::new(Inlet::new(0, config, None));
                pair.stream = Some(Stream::new(tcp.settings()?));
                receiver.pairs.push(pair);
            }
            (None, None) => receiver.open_lines(section)?,
        }
        Ok(receiver)
    }

    fn new(decoding: Decoding) -> Receiver {
        Receiver { decoding, pairs: Vec::new(), source: None, polled: Nanos(0) }
    }

    /// Reads a file as fast as it is polled: all of its groups, each of `pairs` as one with its
    /// line B.
    ///
    /// # Errors
    /// [`FileProblem::Kind`]: the feed has no such files.
    pub fn of_file(
        entry: &'static FeedEntry,
        file: CaptureFile,
        pairs: &[(SocketAddr, SocketAddr)],
    ) -> Result<Receiver, FileProblem> {
        let mut receiver = Receiver::new(Decoding::new(entry, Day::default()));
        let check = FileCheck::new(entry, file.kind())?;
        receiver.expect_channels_of(file.kind());
        let mut places = LineAddresses::new(true, TimingSection::default().lines());
        for (a, b) in pairs {
            let place = places.add(&mut receiver.pairs, Some(*a));
            places.by_address.insert(*b, (place, Line::B));
        }
        let capture = Capture::new(file, check, Speed::Max);
        receiver.source = Some(FileSource { capture, places, is_told: false });
        Ok(receiver)
    }

    /// Notes that all groups of a capture are read.
    fn expect_channels_of(&mut self, kind: FileKind) {
        if kind == FileKind::Capture {
            self.decoding.expect_several_channels();
        }
    }

    /// Returns true if there may be several channels that number instruments and orders by
    /// themselves: an order is found by its instrument then.
    #[must_use]
    pub fn has_several_channels(&self) -> bool {
        self.decoding.has_several_channels()
    }

    fn open_lines(&mut self, section: &FeedSection) -> Result<(), OpenError> {
        for (index, lines) in (0..).zip(&section.lines) {
            let config = lines.line_config(&section.timing);
            let mut pair = Pair::new(Inlet::new(index, config, section.silence()));
            let sources = [
                ("feed.lines.a", Line::A, Some(lines.a), lines.a_source),
                ("feed.lines.b", Line::B, lines.b, lines.b_source),
            ];
            for (key, line, address, source) in sources {
                let Some(address) = address else { continue };
                let socket = Socket::open(line, address, source, section.receive_buffer_bytes);
                let address = SocketAddr::V4(address.address);
                let failed = |error| OpenError::Socket { key, address, error };
                pair.sockets.push(socket.map_err(failed)?);
            }
            if let Some(server) = lines.request {
                let (key, address) = ("feed.lines.request", SocketAddr::V4(server));
                let failed = |error| OpenError::Socket { key, address, error };
                pair.requester = Some(Requester::open(server).map_err(failed)?);
            }
            if let Some(glimpse) = &lines.glimpse {
                pair.recovery = Some(Recovery::new(glimpse.settings()?));
            }
            self.pairs.push(pair);
        }
        Ok(())
    }

    fn open_file(&mut self, entry: &FeedEntry, section: &FeedSection) -> Result<(), OpenError> {
        let Some(capture) = &section.capture else { return Ok(()) };
        let path = &capture.file;
        let failed = |error| OpenError::File { path: path.clone(), error };
        let file = open_for(entry, path).map_err(failed)?;
        let check = FileCheck::new(entry, file.kind()).map_err(failed)?;
        if section.lines.is_empty() {
            self.expect_channels_of(file.kind());
        }
        let mut places = LineAddresses::new(section.lines.is_empty(), section.timing.lines());
        for lines in &section.lines {
            let place = places.add(&mut self.pairs, Some(SocketAddr::V4(lines.a.address)));
            if let Some(b) = lines.b {
                places.by_address.insert(SocketAddr::V4(b.address), (place, Line::B));
            }
        }
        let capture = Capture::new(file, check, capture.speed);
        self.source = Some(FileSource { capture, places, is_told: false });
        Ok(())
    }

    /// Processes pending input, up to a limit, and expired timers; returns the amount of work done.
    /// Never blocks. `now` is of a clock that never steps ([`weir_io::monotonic_now`]) and drives
    /// the timers of live lines; a capture's lines use the capture's time.
    pub fn poll(&mut self, now: Nanos, out: &mut impl Output) -> usize {
        self.polled = now;
        let Receiver { decoding, pairs, source, .. } = self;
        match source {
            Some(source) => source.poll(now, pairs, decoding, out),
            None => pairs.iter_mut().map(|pair| pair.poll(now, decoding, out)).sum(),
        }
    }

    /// Notes the distance of the wall clock from the time of the polls that follow. Messages over
    /// TCP, and those that a timer releases, are stamped with it; before the first call, with the
    /// time of the poll.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.pairs.iter_mut().for_each(|pair| pair.inlet.wall = wall);
    }

    /// The time of the next poll that is due even if no socket becomes readable; `None` if only
    /// sockets cause work. Never earlier than the last poll.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        match &self.source {
            Some(source) => source.capture.deadline(),
            None => self.pairs.iter().filter_map(Pair::deadline).min(),
        }
        .map(|at| at.max(self.polled))
    }

    /// The UDP sockets, for the caller's poller. TCP connections are polled by
    /// [`Receiver::deadline`] instead.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.pairs.iter().flat_map(Pair::descriptors)
    }

    /// Returns true when a file is at its end: nothing more will come.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.capture.is_done())
    }

    /// The reason a file was not read to its end, or is not of the feed; known once it is over.
    #[must_use]
    pub fn file_problem(&self) -> Option<&FileProblem> {
        self.source.as_ref()?.capture.problem.as_ref()
    }

    /// Counters of decoded messages.
    #[must_use]
    pub fn decode_counts(&self) -> &DecodeCounts {
        &self.decoding.counts
    }

    /// The last decoding error.
    #[must_use]
    pub fn last_error(&self) -> Option<FeedError> {
        self.decoding.last_error
    }

    /// All channels received so far.
    pub fn channels(&self) -> impl Iterator<Item = ChannelStatus> {
        self.pairs.iter().flat_map(|pair| pair.inlet.channels())
    }

    /// All sockets, each with the number of its pair.
    pub fn sockets(&self) -> impl Iterator<Item = (u32, SocketStatus)> {
        self.pairs.iter().flat_map(|pair| pair.sockets().map(|status| (pair.inlet.pair, status)))
    }

    /// Datagrams dropped because the consumer had no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.inlet.dropped).sum()
    }

    /// Counters of retransmission requests, summed over all pairs.
    #[must_use]
    pub fn request_counts(&self) -> RequestCounts {
        let mut sum = RequestCounts::default();
        for requester in self.pairs.iter().filter_map(|pair| pair.requester.as_ref()) {
            sum.sent += requester.counts.sent;
            sum.unsent += requester.counts.unsent;
        }
        sum
    }

    /// Counters of snapshots, by pair; pairs without a snapshot server are omitted.
    pub fn snapshots(&self) -> impl Iterator<Item = (u32, SnapshotCounts)> {
        let of = |pair: &Pair| pair.recovery.as_ref().map(|one| (pair.inlet.pair, one.counts));
        self.pairs.iter().filter_map(of)
    }

    /// Counters of the connection that carries the feed; `None` without one.
    #[must_use]
    pub fn stream_counts(&self) -> Option<StreamCounts> {
        self.pairs.iter().find_map(|pair| pair.stream.as_ref().map(|stream| stream.counts))
    }

    /// Counters of the file; `None` if the source is not a file.
    #[must_use]
    pub fn capture_counts(&self) -> Option<CaptureCounts> {
        self.source.as_ref().map(|source| source.capture.counts)
    }
}

impl FileSource {
    /// Passes on the items that are due.
    fn poll<O: Output>(
        &mut self,
        now: Nanos,
        pairs: &mut Vec<Pair>,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> usize {
        let FileSource { capture, places, is_told } = self;
        let mut elsewhere = 0;
        let done = capture.poll(now, &mut |taken| {
            if !places.take(taken, now, pairs, decoding, out) {
                elsewhere += 1;
            }
        });
        capture.counts.elsewhere += elsewhere;
        if capture.problem.is_some() && !std::mem::replace(is_told, true) {
            // The rest of the file is lost, and so are its messages.
            for pair in pairs {
                pair.inlet.mark_all_stale(pair.inlet.times_at(now), decoding, out);
            }
        }
        done
    }
}

impl LineAddresses {
    fn new(takes_all: bool, config: LineConfig) -> LineAddresses {
        let framed = Framed::default();
        LineAddresses { by_address: BTreeMap::new(), takes_all, config, framed }
    }

    /// Adds a pair for an address; the pair of a day file has none.
    fn add(&mut self, pairs: &mut Vec<Pair>, address: Option<SocketAddr>) -> usize {
        let place = pairs.len();
        let number = u32::try_from(place).unwrap_or(u32::MAX);
        pairs.push(Pair::new(Inlet::new(number, self.config, None)));
        if let Some(address) = address {
            self.by_address.insert(address, (place, Line::A));
        }
        place
    }

    fn find(
        &mut self,
        address: Option<SocketAddr>,
        pairs: &mut Vec<Pair>,
    ) -> Option<(usize, Line)> {
        let known = match address {
            Some(address) => self.by_address.get(&address).copied(),
            None => (!pairs.is_empty()).then_some((0, Line::A)),
        };
        let is_new = known.is_none() && self.takes_all && pairs.len() < PAIRS_MAX;
        known.or_else(|| is_new.then(|| (self.add(pairs, address), Line::A)))
    }

    /// Takes an item of a file at the item's own time; returns false if it belongs to no line.
    fn take<O: Output>(
        &mut self,
        taken: &CaptureStep<'_>,
        now: Nanos,
        pairs: &mut Vec<Pair>,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> bool {
        let (ts, address) = match taken {
            CaptureStep::Datagram(datagram) => (datagram.ts_recv, Some(datagram.dst)),
            CaptureStep::Message { ts_event, .. } => (*ts_event, None),
        };
        let Some((place, line)) = self.find(address, pairs) else { return false };
        let times = Times { ts_recv: ts, ts_poll: now, line: ts };
        let inlet = &mut pairs[place].inlet;
        match taken {
            CaptureStep::Datagram(datagram) => {
                let _is_taken = inlet.datagram(line, datagram, times, decoding, out);
            }
            CaptureStep::Message { message, sequence, .. } => {
                let (name, framed) = (MoldSession([b' '; 10]), self.framed.of(message));
                let packet = packet_of(name, *sequence, PacketKind::Data, framed);
                let _is_taken = inlet.packet(line, &packet, times, decoding, out);
                inlet.end_of_packet(0, times, out);
            }
        }
        inlet.tick(times, decoding, out);
        true
    }
}

#[cfg(test)]
pub(crate) mod tests;
