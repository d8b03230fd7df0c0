//! A thousand connections that mean no good, on one thread.
//!
//! Each has a kind and takes a step in every round: it connects if it is not connected, reads what
//! came unless its kind does not read, and does what its kind does. Nothing here waits for a
//! connection or for time; a caller gives rounds a least length, so that what the crowd asks of the
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

/// The shortest round.
pub const ROUND: Duration = Duration::from_millis(250);
/// Rejects that a flooding connection asks for in a round.
const FLOOD_BURST: usize = 50;
/// The longest frame of the node's that is looked at.
const FRAME_LEN_MAX: usize = 1 << 20;

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Sends bytes that are no frames.
    Garbage,
    /// Sends the first half of a logon, then nothing.
    HalfFrame,
    /// Sends a logon, a byte a round.
    SlowLoris,
    /// Logs on with a key that nobody has.
    WrongKey,
    /// Repeats the bytes of a good session's logon, which is on already.
    ReplayedLogon,
    /// Announces a frame of two gigabytes.
    Oversized,
    /// Asks, and never reads the answers.
    NeverReads,
    /// Floods with requests that are well-formed and refused: it has not logged on.
    StrangerFlood,
    /// Floods with frames of unknown templates.
    MalformedFlood,
    /// Says nothing.
    Silent,
    /// Hangs up at once.
    HangUp,
    /// Logs on by a right of its own and floods with cancels of orders that are not there.
    InsiderFlood,
    /// The same, and never reads the answers.
    InsiderNeverReads,
}

impl Kind {
    /// All of them.
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
    /// Those that need no session.
    const STRANGERS: usize = 11;

    fn reads(self) -> bool {
        !matches!(self, Kind::NeverReads | Kind::InsiderNeverReads)
    }
}

/// What became of a kind's connections.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Connections begun.
    pub opened: u64,
    /// Ended by the node.
    pub cut: u64,
    /// Closed by the crowd, when it was sent away and by [`Kind::HangUp`].
    pub left: u64,
    /// What the node gave as the reason, where the peer still heard it.
    pub reasons: BTreeMap<Reason, u64>,
}

/// What became of all, by kind.
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

/// Whom the crowd knows of.
#[derive(Clone, Debug)]
pub struct Cast {
    /// How many there are.
    pub count: usize,
    /// Whose logon is tried and repeated.
    pub victim: Credentials,
    /// Who may log on and means no good all the same.
    pub insiders: Vec<Credentials>,
    /// What they ask about.
    pub instrument_id: InstrumentId,
}

/// What opens a session.
#[derive(Clone, Copy, Debug)]
pub struct Credentials {
    /// The session.
    pub session_id: SessionId,
    /// Its key.
    pub key: ApiKey,
}

/// Connections that mean no good.
pub struct Crowd {
    all: Vec<Hostile>,
    tallies: Tallies,
}

impl Crowd {
    /// A crowd that is not there yet.
    #[must_use]
    pub fn gather(cast: &Cast) -> Crowd {
        let all = (0..cast.count).map(|index| Hostile::new(index, cast)).collect();
        Crowd { all, tallies: Tallies::new() }
    }

    /// Lets each take a step against `node`, or go away where there is none.
    pub fn round(&mut self, node: Option<SocketAddr>) {
        for hostile in &mut self.all {
            let tally = self.tallies.entry(hostile.kind).or_default();
            match node {
                Some(node) => hostile.step(node, tally),
                None => hostile.leave(tally),
            }
        }
    }

    /// What became of all of them so far.
    #[must_use]
    pub fn tallies(&self) -> &Tallies {
        &self.tallies
    }
}

impl Hostile {
    fn new(index: usize, cast: &Cast) -> Hostile {
        // One in fifty is an insider, as far as there are sessions for them.
        let insider = index / 50;
        let is_insider = index.is_multiple_of(50) && insider < cast.insiders.len();
        let kind = match (is_insider, insider % 2) {
            (true, 0) => Kind::InsiderFlood,
            (true, _) => Kind::InsiderNeverReads,
            (false, _) => Kind::ALL[index % Kind::STRANGERS],
        };
        Hostile {
            kind,
            // Four addresses that are not the good ones'.
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
            // Out of ports or descriptors: the next round tries again.
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

    /// Reads what came; false when the node has ended the connection.
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

    /// Does what its kind does; false when the node has ended the connection.
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

    /// Cancels of an order that is not there: well-formed, and refused by whoever decides.
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

/// Not an end: nothing there, no room, or not connected yet.
fn is_not_yet(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected | ErrorKind::Interrupted)
}

/// Begins to connect from an address of this machine.
fn connect_from(from: Ipv4Addr, node: SocketAddr) -> std::io::Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    match rustix::net::connect(&socket, &node) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}
