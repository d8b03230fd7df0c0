//! A venue's reference books, and SoupBinTCP servers that serve GLIMPSE snapshots of them, or the
//! feed itself.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use weir_feed::itch::Itch;
use weir_feed::itch::encode::{AddOrder, Header, stock};
use weir_feed::moldudp64::MoldSession;
use weir_feed::soupbin::glimpse::end_of_snapshot;
use weir_feed::soupbin::{Inbox, Login, Reject, SoupPacket};
use weir_feed::{CollectedUpdates, Context, Feed};
use weir_market::{Books, BooksConfig};
use weir_types::{InstrumentId, Nanos, Side};

/// The books that the published messages imply, message by message.
pub struct Reference {
    itch: Itch,
    pub books: Books,
    /// The last directory and trading action of each instrument.
    states: BTreeMap<(u16, u8), Vec<u8>>,
    pub count: u64,
}

impl Reference {
    pub fn new() -> Reference {
        let books = Books::new(&BooksConfig::default());
        Reference { itch: Itch::new(Nanos(0)), books, states: BTreeMap::new(), count: 0 }
    }

    pub fn take(&mut self, message: &[u8]) {
        self.count += 1;
        let context = Context { sequence: self.count, channel: 0, ts_send: Nanos(0) };
        let mut sink = CollectedUpdates::default();
        self.itch.decode(&context, message, &mut sink).expect("a good message");
        for update in &sink.updates {
            self.books.apply(update);
        }
        if matches!(message[0], b'R' | b'H') {
            let locate = u16::from_be_bytes([message[1], message[2]]);
            self.states.insert((locate, message[0].wrapping_sub(b'R')), message.to_vec());
        }
    }

    /// Returns the messages of a snapshot: instruments, their trading states, and resting orders.
    fn snapshot(&self) -> Vec<Vec<u8>> {
        let mut messages: Vec<_> = self.states.values().cloned().collect();
        for id in self.books.instruments().filter(|id| *id != InstrumentId(0)) {
            let locate = u16::try_from(id.0).expect("ITCH's numbers have 16 bits");
            let header = Header { stock_locate: locate, tracking_number: 0, timestamp: 1 };
            for (side, code) in [(Side::Buy, b'B'), (Side::Sell, b'S')] {
                for order in self.books.orders(id, side) {
                    let add = AddOrder {
                        order_reference: order.order_id,
                        side: code,
                        shares: u32::try_from(order.size.0).expect("shares fit"),
                        stock: stock("SNAP").expect("a symbol"),
                        price: u32::try_from(order.price.0 / 100_000).expect("a price fits"),
                    };
                    messages.push(add.to_bytes(&header).to_vec());
                }
            }
        }
        messages
    }
}

/// A server's behaviour after a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Snapshot,
    Refuse,
    /// Ends the connection in the middle of the snapshot.
    CutOff,
    /// Accepts the login and sends nothing more.
    Hang,
    OtherSession,
    /// A snapshot whose final number the lines will not reach.
    FarAhead,
    /// The snapshot frozen [`SoupServer::behind`] calls of [`SoupServer::freeze`] ago.
    Behind,
    /// A message of the snapshot has a length other than its type's.
    Damaged,
    /// Bytes that are not SoupBinTCP.
    Nonsense,
    /// The feed itself.
    Feed,
}

pub const NAME: &str = "weir";
pub const PASSWORD: &str = "secret";

struct Peer {
    stream: TcpStream,
    inbox: Inbox,
    unsent: Vec<u8>,
    /// The feed's next message, for a client that logged in to the feed.
    next: Option<usize>,
    closes: bool,
}

/// A listener and its clients.
pub struct SoupServer {
    listener: TcpListener,
    peers: Vec<Peer>,
    pub manner: Manner,
    pub logins: Vec<Login>,
    /// The most bytes per write.
    pub piece_len: usize,
    /// The lag of [`Manner::Behind`], in calls of [`SoupServer::freeze`].
    pub behind: usize,
    frozen: VecDeque<(Vec<Vec<u8>>, u64)>,
}

impl SoupServer {
    pub fn new() -> SoupServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        listener.set_nonblocking(true).expect("it is set");
        let (peers, logins) = (Vec::new(), Vec::new());
        let (manner, frozen) = (Manner::Snapshot, VecDeque::new());
        SoupServer { listener, peers, manner, logins, piece_len: 1 << 16, behind: 0, frozen }
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it is bound")
    }

    /// Stores the current snapshot for clients served with a lag.
    pub fn freeze(&mut self, reference: &Reference) {
        self.frozen.push_back((reference.snapshot(), reference.count + 1));
        while self.frozen.len() > self.behind + 1 {
            self.frozen.pop_front();
        }
    }

    /// Ends all connections.
    pub fn hang_up(&mut self) {
        self.peers.clear();
    }

    /// Ends the session of all clients of the feed.
    pub fn end_session(&mut self) {
        for peer in &mut self.peers {
            assert!(SoupPacket::EndOfSession.write(&mut peer.unsent));
            (peer.next, peer.closes) = (None, true);
        }
    }

    pub fn serve(&mut self, reference: &Reference, session: MoldSession, log: &[Vec<u8>]) -> usize {
        let mut done = 0;
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).expect("it is set");
            let (inbox, unsent) = (Inbox::new(), Vec::new());
            self.peers.push(Peer { stream, inbox, unsent, next: None, closes: false });
            done += 1;
        }
        let SoupServer { peers, manner, logins, piece_len, frozen, .. } = self;
        peers.retain_mut(|peer| {
            let mut buffer = [0; 4_096];
            match peer.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(len) => peer.inbox.push(&buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
            while let Some(packet) = peer.inbox.take() {
                let SoupPacket::LoginRequest(login) = SoupPacket::read(packet).expect("a packet")
                else {
                    continue;
                };
                logins.push(login);
                done += 1;
                let snapshot = match manner {
                    Manner::Behind => frozen.front().expect("what was is frozen").clone(),
                    _ => (reference.snapshot(), log.len() as u64 + 1),
                };
                let asked = ServedLogin { manner: *manner, session, login, snapshot };
                asked.answer(&mut peer.unsent, &mut peer.next, &mut peer.closes);
            }
            if let Some(next) = &mut peer.next {
                for message in &log[(*next).min(log.len())..] {
                    assert!(SoupPacket::Sequenced(message).write(&mut peer.unsent));
                }
                *next = (*next).max(log.len());
            }
            let piece = &peer.unsent[..peer.unsent.len().min(*piece_len)];
            if let Ok(written) = peer.stream.write(piece) {
                peer.unsent.drain(..written);
                done += written;
            }
            !(peer.closes && peer.unsent.is_empty())
        });
        done
    }
}

struct ServedLogin {
    manner: Manner,
    session: MoldSession,
    login: Login,
    /// Its messages, and the sequence number that follows it.
    snapshot: (Vec<Vec<u8>>, u64),
}

impl ServedLogin {
    fn answer(self, unsent: &mut Vec<u8>, next: &mut Option<usize>, closes: &mut bool) {
        let mut put = |packet: SoupPacket<'_>| assert!(packet.write(unsent));
        let want = Login::new(NAME, PASSWORD).expect("a login");
        let is_known = (self.login.username, self.login.password) == (want.username, want.password);
        if self.manner == Manner::Refuse || !is_known {
            *closes = true;
            return put(SoupPacket::LoginRejected(Reject::NotAuthorized));
        }
        let mut session = self.session.0;
        if self.manner == Manner::OtherSession {
            session = *b"OTHER     ";
        }
        let asked_session = MoldSession(self.login.session);
        if self.manner == Manner::Feed {
            let is_any = self.login.session == [b' '; 10];
            if !is_any && asked_session.number() != self.session.number() {
                *closes = true;
                return put(SoupPacket::LoginRejected(Reject::SessionNotAvailable));
            }
            let sequence = self.login.sequence.max(1);
            *next = Some(usize::try_from(sequence - 1).expect("a number"));
            return put(SoupPacket::LoginAccepted { session, sequence });
        }
        put(SoupPacket::LoginAccepted { session, sequence: 1 });
        let (mut messages, next_sequence) = self.snapshot;
        match self.manner {
            Manner::Hang => return,
            Manner::CutOff => messages.truncate(messages.len() / 2),
            Manner::Damaged => {
                let last = messages.last_mut().expect("something rests");
                last.push(0);
            }
            Manner::Nonsense => return unsent.extend_from_slice(b"\0\x05?what"),
            _ => {}
        }
        messages.iter().for_each(|message| put(SoupPacket::Sequenced(message)));
        *closes = true;
        if self.manner != Manner::CutOff {
            let ahead = if self.manner == Manner::FarAhead { 1_000_000 } else { 0 };
            put(SoupPacket::Sequenced(&end_of_snapshot(next_sequence + ahead)));
        }
    }
}
