//! Parties that must not hurt a store's readers, at the listeners of WebSockets and of durable
//! subscriptions.
//!
//! | party | behaviour |
//! | --- | --- |
//! | `idle_sockets` | opens WebSockets without a subscription, up to the bounds |
//! | `stalled_socket` | subscribes to everything and reads nothing while its key is replaced |
//! | `creator` | creates subscriptions with the greatest quotas, as many as it may |
//! | `handles` | attaches by any number of handles to one named token |
//!
//! Each has its own thread and sessions, and connects again when it is disconnected.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use weir_cli::endpoint::hex;
use weir_client::clock::unix_time;
use weir_client::key::fresh_key;
use weir_client::subscription::{BrokerClient, NewSubscription};
use weir_client::{Admin, ClientError, SessionConfig};
use weir_types::{FirmId, PartitionId, Role, SessionId, SubscriptionAction, SubscriptionKind};
use weir_wire::dialogue::{put_logon, put_with_data};
use weir_wire::session::ApiKey;
use weir_wire::subscription::AttachSubscription;

use super::pests::{Running, Tally, logon, session};
use super::rig::Doors;

/// The session of the sockets without a subscription.
const IDLE: SessionId = SessionId(900_010);
/// The session whose key is replaced.
const STALLED: SessionId = SessionId(900_011);
/// The operator that replaces it.
const OPERATOR: SessionId = SessionId(900_012);
/// The session that creates subscriptions.
const CREATOR: SessionId = SessionId(900_013);
/// The session that attaches to the token.
const ATTACHER: SessionId = SessionId(900_014);
/// The name of the token.
const TOKEN: &str = "pest";
/// The interval of each party's steps.
const STEP: Duration = Duration::from_millis(20);
/// The life of a key that is replaced.
const KEY_TIME: Duration = Duration::from_millis(300);
/// The longest wait for an answer of the node.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The most sockets that a party holds, if the node lets in more.
const SOCKETS_MAX: usize = 512;
/// Requests of a step.
const BURST: u32 = 50;
/// The bytes that a stalled socket's system takes for it.
const STALLED_BYTES: usize = 1024;

/// The keys of the parties' sessions at a node; the one that is replaced is not among them.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    idle: ApiKey,
    operator: ApiKey,
    creator: ApiKey,
    attacher: ApiKey,
}

impl Keys {
    /// Defines the sessions and creates the token.
    ///
    /// # Errors
    /// The node refuses a definition, or does not know a session after [`ANSWER_TIME`].
    pub(super) fn issue(admin: &mut Admin, doors: &Doors) -> anyhow::Result<Keys> {
        let [idle, operator, creator, attacher] =
            [fresh_key()?, fresh_key()?, fresh_key()?, fresh_key()?];
        admin.define_session(session(IDLE, Role::Supervisor, &idle))?;
        admin.define_session(session(OPERATOR, Role::Operator, &operator))?;
        admin.define_session(session(CREATOR, Role::Supervisor, &creator))?;
        admin.define_session(session(ATTACHER, Role::Supervisor, &attacher))?;
        let attaching = SessionConfig::new(ATTACHER, attacher);
        let mut broker = BrokerClient::new(doors.subscriptions, attaching);
        let begun = Instant::now();
        // The broker learns of the session shortly after its definition is acknowledged.
        while let Err(error) = broker.create(&NewSubscription::new(TOKEN, SubscriptionKind::State))
        {
            ensure!(begun.elapsed() < ANSWER_TIME, "{error}");
        }
        Ok(Keys { idle, operator, creator, attacher })
    }
}

/// A node that the parties visit.
#[derive(Clone, Copy)]
pub(super) struct Visit {
    pub(super) doors: Doors,
    pub(super) source: PartitionId,
    pub(super) keys: Keys,
}

/// The behaviour of a party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    IdleSockets,
    StalledSocket,
    Creator,
    Handles,
}

impl Way {
    const ALL: [(Way, &'static str); 4] = [
        (Way::IdleSockets, "idle_sockets"),
        (Way::StalledSocket, "stalled_socket"),
        (Way::Creator, "creator"),
        (Way::Handles, "handles"),
    ];
}

/// Starts the parties, which run until `stop`.
pub(super) fn start(visit: &Visit, stop: &Arc<AtomicBool>) -> Vec<Running> {
    let party = |(way, name): (Way, &'static str)| {
        let tally = Arc::<Tally>::default();
        let mut party = Party { way, visit: *visit, tally: tally.clone(), names: Vec::new() };
        let stop = stop.clone();
        (name, tally, std::thread::spawn(move || party.run(&stop)))
    };
    Way::ALL.into_iter().map(party).collect()
}

struct Party {
    way: Way,
    visit: Visit,
    tally: Arc<Tally>,
    /// The subscriptions that it has created.
    names: Vec<String>,
}

fn count(figure: &AtomicU64, more: usize) {
    figure.fetch_add(more as u64, Ordering::Relaxed);
}

fn goes_on(stop: &AtomicBool) -> bool {
    !stop.load(Ordering::Relaxed)
}

impl Party {
    fn run(&mut self, stop: &AtomicBool) {
        while goes_on(stop) {
            // Disconnected, refused or not admitted: it connects again.
            let _ = match self.way {
                Way::IdleSockets => self.open_sockets(stop),
                Way::StalledSocket => self.stall(stop),
                Way::Creator => self.create(stop),
                Way::Handles => self.attach(stop),
            };
            std::thread::sleep(STEP);
        }
    }

    fn open(&self, session_id: SessionId, key: &ApiKey) -> anyhow::Result<Socket> {
        let opened = Socket::open(self.visit.doors.web, session_id, key);
        count(if opened.is_ok() { &self.tally.opened } else { &self.tally.refused }, 1);
        opened.map_err(Into::into)
    }

    /// Opens sockets and keeps them, up to the bounds of the session and of the node.
    fn open_sockets(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut sockets = VecDeque::new();
        while goes_on(stop) {
            match self.open(IDLE, &self.visit.keys.idle) {
                Ok(socket) => sockets.push_back(socket),
                Err(_) => std::thread::sleep(STEP),
            }
            if sockets.len() > SOCKETS_MAX {
                sockets.pop_front();
            }
        }
        Ok(())
    }

    /// Subscribes to everything and reads nothing, with a new key each time. The socket of a key
    /// that was replaced stays open on this side.
    fn stall(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let Visit { doors, source, keys } = self.visit;
        let mut admin = Admin::connect(doors.orders, OPERATOR, keys.operator, ANSWER_TIME)?;
        let mut stalled = VecDeque::new();
        while goes_on(stop) {
            let key = fresh_key()?;
            admin.define_session(session(STALLED, Role::Supervisor, &key))?;
            let begun = Instant::now();
            let mut subscribed = false;
            while goes_on(stop) && begun.elapsed() < KEY_TIME {
                // The listener learns of the key shortly after it is acknowledged.
                if !subscribed && let Ok(mut socket) = self.open(STALLED, &key) {
                    let ask = format!("{{\"subscribe\":1,\"source\":{}}}", source.0);
                    count(&self.tally.sent, socket.stall_behind(&ask)?);
                    stalled.push_back(socket);
                    subscribed = true;
                }
                std::thread::sleep(STEP);
            }
            if stalled.len() > SOCKETS_MAX {
                stalled.pop_front();
            }
        }
        admin.close()?;
        Ok(())
    }

    /// Creates subscriptions until they are refused, and goes on trying; removes them at the end,
    /// so that the next visit finds the node as this one did.
    fn create(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let creating = SessionConfig::new(CREATOR, self.visit.keys.creator);
        let mut broker = BrokerClient::new(self.visit.doors.subscriptions, creating);
        // No two visits have a name in common: an interrupted one leaves its own behind.
        let begun = unix_time().0;
        while goes_on(stop) {
            for _ in 0..BURST {
                let name = format!("pest-{begun}-{}", self.names.len());
                let created = broker.create(&NewSubscription {
                    quota_bytes: u64::MAX,
                    quota_messages: u64::MAX,
                    quota_age: Duration::from_secs(1 << 33),
                    expire_after: Duration::from_secs(1 << 33),
                    ..NewSubscription::new(&name, SubscriptionKind::Messages)
                });
                match created {
                    Ok(()) => {
                        count(&self.tally.opened, 1);
                        self.names.push(name);
                    }
                    Err(ClientError::Refused { .. }) => count(&self.tally.refused, 1),
                    Err(error) => return Err(error.into()),
                }
            }
            std::thread::sleep(STEP);
        }
        while let Some(name) = self.names.last() {
            broker.act(SubscriptionAction::Delete, FirmId::NONE, name)?;
            self.names.pop();
        }
        Ok(())
    }

    /// Attaches to the token by one handle after the other.
    fn attach(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut stream = TcpStream::connect(self.visit.doors.subscriptions)?;
        count(&self.tally.opened, 1);
        let mut frames = Vec::new();
        put_logon(&logon(ATTACHER, self.visit.keys.attacher), &[], &mut frames);
        stream.write_all(&frames)?;
        // The logon takes a moment; earlier frames would be refused.
        std::thread::sleep(STEP);
        stream.set_nonblocking(true)?;
        frames.clear();
        let mut handle = 0;
        while goes_on(stop) {
            if frames.is_empty() {
                for _ in 0..BURST {
                    handle += 1;
                    let attach = AttachSubscription {
                        correlation_id: u64::from(handle),
                        session_id: ATTACHER,
                        handle,
                        credit_messages: 1,
                        credit_bytes: 1,
                    };
                    put_with_data(&attach, TOKEN.as_bytes(), &mut frames);
                }
            }
            let sent = unless_full(stream.write(&frames))?;
            frames.drain(..sent);
            count(&self.tally.sent, sent);
            let mut bytes = [0; 16 * 1024];
            loop {
                match stream.read(&mut bytes) {
                    Ok(0) => return Ok(()),
                    read => match unless_full(read)? {
                        0 => break,
                        len => count(&self.tally.read, len),
                    },
                }
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }
}

/// Returns the bytes that a socket without blocking took or gave, zero when it would have blocked.
fn unless_full(moved: std::io::Result<usize>) -> std::io::Result<usize> {
    match moved {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        moved => moved,
    }
}

/// A WebSocket of order state.
struct Socket(TcpStream);

impl Socket {
    fn open(at: SocketAddr, session_id: SessionId, key: &ApiKey) -> std::io::Result<Socket> {
        let mut stream = TcpStream::connect(at)?;
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        let ask = format!(
            "GET /orders/stream HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer {}:{}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
            session_id.0,
            hex(&key.0)
        );
        stream.write_all(ask.as_bytes())?;
        let mut begin = [0; b"HTTP/1.1 101".len()];
        stream.read_exact(&mut begin)?;
        if &begin != b"HTTP/1.1 101" {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        Ok(Socket(stream))
    }

    /// Sends a short text, after which nothing is read; returns the bytes sent.
    fn stall_behind(&mut self, text: &str) -> std::io::Result<usize> {
        rustix::net::sockopt::set_socket_recv_buffer_size(&self.0, STALLED_BYTES)?;
        let len = u8::try_from(text.len()).ok().filter(|len| *len < 126);
        let len = len.ok_or(ErrorKind::InvalidInput)?;
        // A mask of zeros leaves the text as it is.
        let mut frame = vec![0x81, 0x80 | len, 0, 0, 0, 0];
        frame.extend(text.as_bytes());
        self.0.write_all(&frame)?;
        Ok(frame.len())
    }
}
