//! A thousand hostile connections, on one thread.
//!
//! Each has a kind and takes a step in every round: it connects if necessary, reads the bytes that
//! have arrived unless its kind never reads, and acts by its kind. Nothing here blocks on a
//! connection or on time; the caller gives rounds a least duration, so that the crowd's load on the
//! machine is known.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use weir_client::load::Rng;
use weir_client::request::{cancel, stamp};
use weir_types::{ClOrdId, InstrumentId, Reason, RequestNo, SessionId, Switch};
use weir_wire::dialogue::{NodeMessage, put_logon, put_request};
use weir_wire::frame::{Framing, next_frame};
use weir_wire::session::{ApiKey, Logon};

/// The least duration of a round.
pub const ROUND: Duration = Duration::from_millis(250);
/// The number of rejects that a flooding connection causes in a round.
const FLOOD_BURST: usize = 50;
/// The longest frame of the node that is parsed, in bytes.
const FRAME_LEN_MAX: usize = 1 << 20;

/// The behaviour of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Sends bytes that are no frames.
    Garbage,
    /// Sends the first half of a logon, then nothing.
    HalfFrame,
    /// Sends a logon at one byte per round.
    SlowLoris,
    /// Logs on with a key of no session.
    WrongKey,
    /// Replays the bytes of a good session's logon, while that session is logged on.
    ReplayedLogon,
    /// Announces a frame of two gigabytes.
    Oversized,
    /// Sends requests and never reads the answers.
    NeverReads,
    /// Floods with well-formed requests that are refused, because it has not logged on.
    StrangerFlood,
    /// Floods with frames of unknown templates.
    MalformedFlood,
    /// Sends nothing.
    Silent,
    /// Disconnects at once.
    HangUp,
    /// Logs on with its own key and floods with cancels of unknown orders.
    InsiderFlood,
    /// As [`Kind::InsiderFlood`], and never reads the answers.
    InsiderNeverReads,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 13] = [
        Kind::Garbage,
        Kind::HalfFrame,
        Kind::SlowLoris,
        Kind::WrongKey,
        Kind::ReplayedLogon,
        Kind::Oversized,
        Kind::NeverReads,
        Kind::StrangerFlood,
        Kind::MalformedFlood,
        Kind::Silent,
        Kind::HangUp,
        Kind::InsiderFlood,
        Kind::InsiderNeverReads,
    ];
    /// The number of kinds that need no session; they come first.
    const STRANGERS: usize = 11;

    fn reads(self) -> bool {
        !matches!(self, Kind::NeverReads | Kind::InsiderNeverReads)
    }
}

/// The counters of a kind's connections.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Connections attempted.
    pub opened: u64,
    /// Connections ended by the node.
    pub cut: u64,
    /// Connections closed by the crowd: when it leaves a node, and by [`Kind::HangUp`].
    pub left: u64,
    /// The node's reasons, if the peer still received them.
    pub reasons: BTreeMap<Reason, u64>,
}

/// The counters of all kinds.
pub type Tallies = BTreeMap<Kind, Tally>;

struct Hostile {
    kind: Kind,
    from: Ipv4Addr,
    who: Credentials,
    instrument_id: InstrumentId,
    stream: Option<TcpStream>,
    input: Vec<u8>,
    sent: usize,
    request_no: u64,
    is_logged_on: bool,
}

/// The participants of a crowd.
#[derive(Clone, Debug)]
pub struct Cast {
    /// The number of connections.
    pub count: usize,
    /// The session whose logon is attempted and replayed.
    pub victim: Credentials,
    /// The hostile sessions that may log on.
    pub insiders: Vec<Credentials>,
    /// The instrument of all requests.
    pub instrument_id: InstrumentId,
}

/// The credentials of a session.
#[derive(Clone, Copy, Debug)]
pub struct Credentials {
    /// The session.
    pub session_id: SessionId,
    /// The session's key.
    pub key: ApiKey,
}

/// A crowd of hostile connections.
pub struct Crowd {
    all: Vec<Hostile>,
    tallies: Tallies,
}

impl Crowd {
    /// Creates a crowd without connections.
    #[must_use]
    pub fn gather(cast: &Cast) -> Crowd {
        let all = (0..cast.count).map(|index| Hostile::new(index, cast)).collect();
        Crowd { all, tallies: Tallies::new() }
    }

    /// Lets each take a step against `node`, or disconnect if there is none.
    pub fn round(&mut self, node: Option<SocketAddr>) {
        for hostile in &mut self.all {
            let tally = self.tallies.entry(hostile.kind).or_default();
            match node {
                Some(node) => hostile.step(node, tally),
                None => hostile.leave(tally),
            }
        }
    }

    /// The counters so far.
    #[must_use]
    pub fn tallies(&self) -> &Tallies {
        &self.tallies
    }
}

impl Hostile {
    fn new(index: usize, cast: &Cast) -> Hostile {
        // One in fifty is an insider, as long as there are sessions for them.
        let insider = index / 50;
        let is_insider = index.is_multiple_of(50) && insider < cast.insiders.len();
        let kind = match (is_insider, insider % 2) {
            (true, 0) => Kind::InsiderFlood,
            (true, _) => Kind::InsiderNeverReads,
            (false, _) => Kind::ALL[index % Kind::STRANGERS],
        };
        Hostile {
            kind,
            // Four addresses that the good sessions do not use.
            from: Ipv4Addr::new(127, 0, 0, 2 + (index % 4) as u8),
            who: if is_insider { cast.insiders[insider] } else { cast.victim },
            instrument_id: cast.instrument_id,
            stream: None,
            input: Vec::new(),
            sent: 0,
            request_no: 0,
            is_logged_on: false,
        }
    }

    fn leave(&mut self, tally: &mut Tally) {
        if self.stream.take().is_some() {
            tally.left += 1;
        }
    }

    fn step(&mut self, node: SocketAddr, tally: &mut Tally) {
        if self.stream.is_none() {
            // Out of ports or descriptors: retried in the next round.
            let Ok(stream) = connect_from(self.from, node) else { return };
            tally.opened += 1;
            self.stream = Some(stream);
            self.input.clear();
            (self.sent, self.is_logged_on) = (0, false);
            if self.kind == Kind::HangUp {
                return self.leave(tally);
            }
        }
        if self.kind.reads() && !self.read(tally) {
            tally.cut += 1;
            self.stream = None;
            return;
        }
        if !self.act() {
            tally.cut += 1;
            self.stream = None;
        }
    }

    /// Reads what has arrived; returns false when the node has ended the connection.
    fn read(&mut self, tally: &mut Tally) -> bool {
        let stream = self.stream.as_mut().expect("it is connected");
        let mut chunk = [0; 4096];
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(len) => self.input.extend_from_slice(&chunk[..len]),
                Err(error) if is_not_yet(&error) => break,
                Err(_) => return false,
            }
            let mut used = 0;
            while let Framing::Frame { len, message } =
                next_frame(&self.input[used..], FRAME_LEN_MAX)
            {
                if let Ok(Ok(message)) = message.map(|raw| NodeMessage::decode(&raw)) {
                    let reason = match message {
                        NodeMessage::LogonReject(reject) => Some(reject.reason),
                        NodeMessage::Logout(logout) => Some(logout.reason),
                        NodeMessage::Reject(reject) => Some(reject.reason),
                        NodeMessage::LogonAck(..) => {
                            self.is_logged_on = true;
                            None
                        }
                        _ => None,
                    };
                    if let Some(reason) = reason {
                        *tally.reasons.entry(reason).or_default() += 1;
                    }
                }
                used += len;
            }
            self.input.drain(..used);
        }
        true
    }

    /// Takes the kind's action; returns false when the node has ended the connection.
    fn act(&mut self) -> bool {
        match self.kind {
            Kind::Garbage => {
                let mut rng = Rng::new(self.sent as u64 + 1);
                let noise: Vec<u8> = (0..512).map(|_| rng.below(256) as u8).collect();
                self.send(&noise)
            }
            Kind::HalfFrame => {
                let logon = self.logon();
                if self.sent == 0 { self.send(&logon[..logon.len() / 2]) } else { true }
            }
            Kind::SlowLoris => {
                let logon = self.logon();
                let at = self.sent.min(logon.len() - 2);
                self.send(&logon[at..=at])
            }
            Kind::WrongKey => {
                let mut logon = self.wanted();
                logon.api_key = ApiKey([0xee; 32]);
                let mut frame = Vec::new();
                put_logon(&logon, &[], &mut frame);
                if self.sent == 0 { self.send(&frame) } else { true }
            }
            Kind::ReplayedLogon => {
                let logon = self.logon();
                self.send(&logon)
            }
            Kind::Oversized => self.send(&[0x7f, 0xff, 0xff, 0xff, 0xeb, 0x50, 1, 2, 3, 4]),
            Kind::NeverReads | Kind::StrangerFlood => self.flood(),
            Kind::MalformedFlood => {
                let mut frame = self.cancels(1);
                // The template's id.
                frame[8] = 0xee;
                self.send(&frame)
            }
            Kind::Silent | Kind::HangUp => true,
            Kind::InsiderFlood | Kind::InsiderNeverReads => {
                if self.sent == 0 {
                    let logon = self.logon();
                    return self.send(&logon);
                }
                self.flood()
            }
        }
    }

    fn wanted(&self) -> Logon {
        Logon {
            api_key: self.who.key,
            session_id: self.who.session_id,
            heartbeat_interval_ms: 5_000,
            cancel_on_disconnect: Switch::Off,
            takeover: Switch::Off,
        }
    }

    fn logon(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        put_logon(&self.wanted(), &[], &mut frame);
        frame
    }

    fn flood(&mut self) -> bool {
        let burst = self.cancels(FLOOD_BURST);
        self.send(&burst)
    }

    /// Cancels of an unknown order: well-formed, and refused.
    fn cancels(&mut self, count: usize) -> Vec<u8> {
        let nothing = ClOrdId::new("no-such-order").expect("a short name");
        let mut frames = Vec::new();
        for _ in 0..count {
            self.request_no += 1;
            let request = cancel(nothing, nothing, self.instrument_id);
            let request = stamp(request, self.who.session_id, RequestNo(self.request_no));
            put_request(&request, &mut frames);
        }
        frames
    }

    fn send(&mut self, bytes: &[u8]) -> bool {
        match self.stream.as_mut().expect("it is connected").write(bytes) {
            Ok(len) => {
                self.sent += len;
                true
            }
            Err(error) => is_not_yet(&error),
        }
    }
}

/// Returns true for an error that does not end the connection: no data, no room, or not connected
/// yet.
fn is_not_yet(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected | ErrorKind::Interrupted)
}

/// Starts to connect from an address of this machine.
fn connect_from(from: Ipv4Addr, node: SocketAddr) -> std::io::Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    match rustix::net::connect(&socket, &node) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}
