//! Clients that must not hurt a store: one that does not read, one that reads a kilobyte per
//! second, a malicious one, and the [`parties`](super::parties) at other listeners. Each has its
//! own thread and session, and reconnects when disconnected.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_client::Admin;
use weir_client::key::fresh_key;
use weir_client::load::Rng;
use weir_client::request::session_by_key;
use weir_types::{AccountId, FirmId, InstrumentId, PartitionId, Role, SessionId, Switch};
use weir_wire::delivery::FetchOrders;
use weir_wire::dialogue::{put_fetch_orders, put_logon};
use weir_wire::reference::DefineSession;
use weir_wire::session::{ApiKey, Logon};

use super::parties::{self, Keys, Visit};
use super::rig::Doors;

/// The first of the three sessions.
const FIRST_ID: u32 = 900_000;
/// The interval of each client's steps.
const STEP: Duration = Duration::from_millis(20);
/// The bytes that the slow client reads per second.
const SLOW_BYTES: usize = 1024;
/// The number of frames that the malicious client sends in a step.
const BURST: usize = 50;
/// The longest forged token, in bytes.
const TOKEN_LEN_MAX: u64 = 200;

/// The behaviour of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Queries everything and never reads.
    Stalled,
    /// Queries everything and reads [`SLOW_BYTES`] per second.
    Slow,
    /// Sends forged tokens, queries in other sessions' names, queries of unknown sources, and bytes
    /// that are no frames.
    Malicious,
}

impl Way {
    const ALL: [(Way, &'static str); 3] =
        [(Way::Stalled, "stalled"), (Way::Slow, "slow"), (Way::Malicious, "malicious")];
}

/// A client's counters.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Connections, or subscriptions of one that creates them.
    pub(super) opened: AtomicU64,
    /// Connections, subscriptions and handles that the node refused.
    pub(super) refused: AtomicU64,
    /// Bytes sent.
    pub(super) sent: AtomicU64,
    /// Bytes read.
    pub(super) read: AtomicU64,
}

/// A client's thread, by its name.
pub(super) type Running = (&'static str, Arc<Tally>, JoinHandle<()>);

/// The keys of all clients' sessions at a node.
pub(super) struct Passes {
    plain: [ApiKey; 3],
    parties: Keys,
}

/// The definition of a session without a firm.
pub(super) fn session(id: SessionId, role: Role, key: &ApiKey) -> DefineSession {
    session_by_key(id, FirmId::NONE, role, key)
}

impl Passes {
    /// Defines the sessions; those of readers may see everything.
    ///
    /// # Errors
    /// The node refuses a definition.
    pub(super) fn issue(admin: &mut Admin, doors: &Doors) -> anyhow::Result<Passes> {
        let plain = [fresh_key()?, fresh_key()?, fresh_key()?];
        for (id, key) in (FIRST_ID..).zip(&plain) {
            admin.define_session(session(SessionId(id), Role::Supervisor, key))?;
        }
        Ok(Passes { plain, parties: Keys::issue(admin, doors)? })
    }
}

/// The clients, running until [`Pests::leave`].
pub(super) struct Pests {
    stop: Arc<AtomicBool>,
    threads: Vec<Running>,
}

impl Pests {
    /// Starts the clients against a node.
    pub(super) fn at(doors: Doors, source: PartitionId, passes: &Passes) -> Pests {
        let stop = Arc::new(AtomicBool::new(false));
        let plain = Way::ALL.into_iter().zip((FIRST_ID..).zip(passes.plain));
        let plain = plain.map(|((way, name), (id, key))| {
            let tally = Arc::<Tally>::default();
            let mut pest = Pest {
                way,
                doors,
                source,
                logon: logon(SessionId(id), key),
                rng: Rng::new(u64::from(id)),
                tally: tally.clone(),
            };
            let stop = stop.clone();
            let thread = std::thread::spawn(move || pest.run(&stop));
            (name, tally, thread)
        });
        let mut threads: Vec<Running> = plain.collect();
        threads.extend(parties::start(&Visit { doors, source, keys: passes.parties }, &stop));
        Pests { stop, threads }
    }

    /// The number of clients.
    pub(super) fn count(&self) -> usize {
        self.threads.len()
    }

    /// Stops the clients; returns their counters.
    pub(super) fn leave(self) -> Value {
        self.stop.store(true, Ordering::Relaxed);
        let mut told = serde_json::Map::new();
        for (name, tally, thread) in self.threads {
            thread.join().expect("a pest does not panic");
            let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
            let tally = json!({
                "opened": of(&tally.opened),
                "refused": of(&tally.refused),
                "sent_bytes": of(&tally.sent),
                "read_bytes": of(&tally.read),
            });
            told.insert(name.to_owned(), tally);
        }
        told.into()
    }
}

/// The logon of a client.
pub(super) fn logon(session_id: SessionId, api_key: ApiKey) -> Logon {
    Logon {
        api_key,
        session_id,
        heartbeat_interval_ms: 60_000,
        cancel_on_disconnect: Switch::Off,
        takeover: Switch::Off,
    }
}

struct Pest {
    way: Way,
    doors: Doors,
    source: PartitionId,
    logon: Logon,
    rng: Rng,
    tally: Arc<Tally>,
}

impl Pest {
    fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            // Disconnected, refused or not admitted: it reconnects.
            let _ = self.visit(stop);
            std::thread::sleep(STEP);
        }
    }

    /// Runs one connection until it is disconnected.
    fn visit(&mut self, stop: &AtomicBool) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(self.doors.orders)?;
        self.tally.opened.fetch_add(1, Ordering::Relaxed);
        if self.way == Way::Slow {
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, SLOW_BYTES)?;
        }
        let mut hello = Vec::new();
        put_logon(&self.logon, &[], &mut hello);
        stream.write_all(&hello)?;
        // The logon takes a moment; earlier frames would be refused.
        std::thread::sleep(STEP);
        stream.set_nonblocking(true)?;
        let mut slow_at = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let frames = self.frames();
            self.send(&mut stream, &frames)?;
            match self.way {
                Way::Stalled => {}
                Way::Slow if slow_at.elapsed() < Duration::from_secs(1) => {}
                Way::Slow => {
                    slow_at = Instant::now();
                    self.read(&mut stream, SLOW_BYTES)?;
                }
                Way::Malicious => while self.read(&mut stream, 64 * 1024)? > 0 {},
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    fn send(&self, stream: &mut TcpStream, frames: &[u8]) -> std::io::Result<()> {
        match stream.write(frames) {
            Ok(len) => {
                self.tally.sent.fetch_add(len as u64, Ordering::Relaxed);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn read(&self, stream: &mut TcpStream, len: usize) -> std::io::Result<usize> {
        let mut bytes = vec![0; len];
        match stream.read(&mut bytes) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.tally.read.fetch_add(len as u64, Ordering::Relaxed);
                Ok(len)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Returns the frames of a step.
    fn frames(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.way != Way::Malicious {
            put_fetch_orders(&self.question(u32::MAX), &[], &mut out);
            return out;
        }
        for _ in 0..BURST {
            let mut question = self.question(1);
            let token: Vec<u8> =
                (0..self.rng.below(TOKEN_LEN_MAX)).map(|_| self.rng.below(256) as u8).collect();
            match self.rng.below(100) {
                0 => out.extend_from_slice(&token),
                1..=20 => question.session_id = SessionId(self.rng.below(1_000) as u32),
                21..=40 => question.source_id = PartitionId(self.rng.below(100) as u16),
                _ => {}
            }
            put_fetch_orders(&question, &token, &mut out);
        }
        out
    }

    /// Builds a query of everything, for `credit` pages.
    fn question(&mut self, credit: u32) -> FetchOrders {
        FetchOrders {
            correlation_id: self.rng.bits(),
            session_id: self.logon.session_id,
            firm_id: FirmId::NONE,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            rows_max: 0,
            rows_min: 0,
            bytes_max: 0,
            wait_max_us: 0,
            credit,
            live_only: Switch::Off,
            source_id: self.source,
            min_wait_us: 0,
            credit_rows: 0,
            credit_bytes: 0,
        }
    }
}
