//! A second process with the operator's key. It takes the session over while the operator's client
//! works, requests nothing, and leaves or vanishes after a while. The client is told, makes another
//! connection and takes the session back, or gets it once it is free.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use weir_client::ClientError;
use weir_client::session::{Session, SessionConfig, SessionEvent};
use weir_door::takeover::TAKEOVER_INTERVAL;
use weir_io::net::Stream;
use weir_io::{Rng, SeededRng};
use weir_types::{Nanos, Reason};
use weir_wire::dialogue::{NodeMessage, peek_session_and_request};
use weir_wire::frame::{Framing, next_frame};

use super::GateTally;
use super::client::Client;
use super::node::address;
use super::wire::{Context, FRAME_MAX, READ_MAX};
use crate::oracle::{Violation, ensure};
use crate::workload::{OPERATOR, key_of};

/// It comes in one of this many steps in which the operator's client is logged on.
const COMES_IN: u64 = 150;
/// The steps for which it stays.
const STAY_MIN: u64 = 5;
const STAY_MAX: u64 = 300;
/// The heartbeat interval that it asks for, in milliseconds: its session is lost soon after it has
/// vanished.
const HEARTBEAT_MS: u32 = 500;
/// The ports of its address.
const PORTS: u16 = 60_000;

/// The second process.
pub struct Rival {
    rng: SeededRng,
    visit: Option<Visit>,
    connection_count: u16,
    /// Logons without an answer to this process of the node: they may be accepted later.
    open_logons: u64,
    /// The time of the last answer of this process of the node.
    answered_at: Nanos,
    /// The last time at which it had a connection.
    here_at: Nanos,
}

/// A connection of it.
struct Visit {
    stream: Stream,
    session: Session,
    input: Vec<u8>,
    output: Vec<u8>,
    sent_at: Nanos,
    leaves_at: u64,
    /// True if the client is told of no other takeover than its own: the client has logged on since
    /// the one before was decided.
    is_judged: bool,
    /// The takeovers that the client had been told of when it came.
    told_before: u64,
    is_answered: bool,
    is_taken_over: bool,
}

impl Rival {
    /// Creates it, without a connection.
    #[must_use]
    pub fn new(rng: SeededRng) -> Rival {
        Rival {
            rng,
            visit: None,
            connection_count: 0,
            open_logons: 0,
            answered_at: Nanos(0),
            here_at: Nanos(0),
        }
    }

    /// A new process of the node begins.
    pub fn begin_life(&mut self) {
        (self.visit, self.open_logons, self.answered_at) = (None, 0, Nanos(0));
    }

    /// The last time at which it had a connection.
    #[must_use]
    pub fn here_at(&self) -> Nanos {
        self.here_at
    }

    /// Lets it act once, beside the operator's client.
    ///
    /// # Errors
    /// A violation of a rule.
    pub fn step(
        &mut self,
        operator: &Client,
        context: &Context<'_>,
        tally: &mut GateTally,
    ) -> Result<(), Violation> {
        let Some(visit) = &mut self.visit else {
            let comes =
                operator.session.is_open() && self.rng.chance(1, COMES_IN * context.plan.rarity());
            if comes {
                self.come(operator, context);
            }
            return Ok(());
        };
        self.here_at = context.now;
        let was_answered = visit.is_answered;
        // It hears the node at each step.
        let told = visit.session.on_time(context.now, context.now, &mut visit.output);
        told.map_err(|error| Violation::new("a second client is told wrong things", error))?;
        let is_gone = visit.exchange();
        let is_taken_back = visit.hear()?;
        if visit.is_answered && !was_answered {
            self.answered_at = context.now;
        }
        if is_taken_back {
            tally.taken_back += 1;
            let has_taken = visit.is_judged && operator.takeover_count() > visit.told_before;
            let since = context.now.since(visit.sent_at);
            ensure(
                !has_taken || since >= TAKEOVER_INTERVAL,
                "a session changes too often",
                || format!("taken over and back within {} ns", since.0),
            )?;
        }
        if is_gone || context.tick >= visit.leaves_at {
            self.leave();
        }
        Ok(())
    }

    fn come(&mut self, operator: &Client, context: &Context<'_>) {
        self.connection_count = (self.connection_count + 1) % PORTS;
        let from = SocketAddr::from(([10, 0, 7, 7], 1_000 + self.connection_count));
        let Ok(stream) = context.net.connect(from, address()) else { return };
        let config = SessionConfig {
            heartbeat_interval_ms: HEARTBEAT_MS,
            takeover: true,
            ..SessionConfig::new(OPERATOR, key_of(OPERATOR, 0))
        };
        let (mut session, mut output) = (Session::new(config), Vec::new());
        session.put_logon(context.now, &mut output);
        self.visit = Some(Visit {
            stream: Stream::Simulated(stream),
            session,
            input: Vec::new(),
            output,
            sent_at: context.now,
            leaves_at: context.tick + STAY_MIN + self.rng.below(STAY_MAX - STAY_MIN),
            is_judged: self.open_logons == 0 && operator.logon_sent_at() > self.answered_at,
            told_before: operator.takeover_count(),
            is_answered: false,
            is_taken_over: false,
        });
    }

    fn leave(&mut self) {
        let Some(visit) = self.visit.take() else { return };
        self.open_logons += u64::from(!visit.is_answered);
        if let Stream::Simulated(stream) = &visit.stream
            && self.rng.chance(1, 2)
        {
            stream.vanish();
        }
    }
}

impl Visit {
    /// Sends and receives; true if the connection has ended.
    fn exchange(&mut self) -> bool {
        let mut is_gone = false;
        if !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(len) => drop(self.output.drain(..len)),
                Err(error) => is_gone = error.kind() != ErrorKind::WouldBlock,
            }
        }
        let mut room = [0; READ_MAX];
        match self.stream.read(&mut room) {
            Ok(0) => true,
            Ok(len) => {
                self.input.extend_from_slice(&room[..len]);
                is_gone
            }
            Err(error) => is_gone || error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// Handles all whole frames; returns true if the session was taken back.
    fn hear(&mut self) -> Result<bool, Violation> {
        let input = std::mem::take(&mut self.input);
        let broken = |error| Violation::new("a node's frame does not decode", error);
        let (mut at, mut is_taken_back) = (0, false);
        while let Framing::Frame { len, message } = next_frame(&input[at..], FRAME_MAX) {
            let raw = message.map_err(broken)?;
            let message = NodeMessage::decode(&raw).map_err(broken)?;
            let is_behind = self.is_taken_over && peek_session_and_request(&raw).0 == OPERATOR;
            ensure(!is_behind, "something follows the end of a session", || {
                format!("{message:?}")
            })?;
            is_taken_back |= self.take(&message)?;
            at += len;
        }
        self.input = input[at..].to_vec();
        Ok(is_taken_back)
    }

    /// Handles a message; returns true if it says that the session was taken back.
    fn take(&mut self, message: &NodeMessage<'_>) -> Result<bool, Violation> {
        match self.session.on_message(message, &mut self.output) {
            Ok(SessionEvent::Opened { .. }) | Err(ClientError::LogonRejected { .. }) => {
                self.is_answered = true;
                Ok(false)
            }
            Ok(SessionEvent::LoggedOut(logout)) => {
                let is_taken_back = logout.reason == Reason::TakenOver;
                self.is_taken_over |= is_taken_back;
                Ok(is_taken_back)
            }
            Ok(_) => Ok(false),
            Err(error) => Err(Violation::new("a second client is told wrong things", error)),
        }
    }
}
