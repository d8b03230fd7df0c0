//! A connection that sends exactly the bytes a test gives it, well-formed or not. It adds nothing:
//! no heartbeat, no resume, no retry.

use std::time::{Duration, Instant};

use weir_client::{ClientError, Connection, Limits};
use weir_types::{AccountId, FirmId, InstrumentId, PartitionId, Reason, SessionId, Switch};
use weir_wire::Request;
use weir_wire::challenge::put_answer;
use weir_wire::delivery::{AddCredit, FetchOrders, OrderPage};
use weir_wire::dialogue::{NodeMessage, put_fetch_orders, put_logon, put_request};
use weir_wire::frame::put_frame;
use weir_wire::session::{
    Challenge, ChallengeRequest, Logon, LogonAck, LogonReject, Reject, ResumePoint, Signature,
    SignedLogon,
};

use super::{HANG, Node, Who};

pub struct Wire {
    connection: Connection,
}

impl Wire {
    pub fn connect(node: &Node) -> Wire {
        Wire { connection: Connection::open(node.address(), Limits::default()).unwrap() }
    }

    /// Wraps a connection that is already open.
    pub fn over(connection: Connection) -> Wire {
        Wire { connection }
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends raw bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.connection.outbox().extend_from_slice(bytes);
        self.connection.flush().unwrap();
        assert_eq!(self.connection.backlog_len(), 0, "the system takes what a test sends");
    }

    pub fn request(&mut self, request: &Request) {
        let mut bytes = Vec::new();
        put_request(request, &mut bytes);
        self.send(&bytes);
    }

    /// Sends a logon and returns the answer.
    pub fn try_log_on(
        &mut self,
        logon: &Logon,
        points: &[ResumePoint],
    ) -> Result<LogonAck, LogonReject> {
        let mut bytes = Vec::new();
        put_logon(logon, points, &mut bytes);
        self.send(&bytes);
        self.logon_answer()
    }

    /// Returns the next answer to a logon.
    pub fn logon_answer(&mut self) -> Result<LogonAck, LogonReject> {
        self.expect("an answer to a logon", |message| match message {
            NodeMessage::LogonAck(ack, _) => Some(Ok(*ack)),
            NodeMessage::LogonReject(reject) => Some(Err(*reject)),
            _ => None,
        })
    }

    /// Requests a session's challenge and returns the answer.
    pub fn try_challenge(&mut self, session_id: SessionId) -> Result<Challenge, LogonReject> {
        let mut bytes = Vec::new();
        put_frame(&ChallengeRequest { session_id }, &mut bytes);
        self.send(&bytes);
        self.expect("a challenge", |message| match message {
            NodeMessage::Challenge(challenge) => Some(Ok(*challenge)),
            NodeMessage::LogonReject(reject) => Some(Err(*reject)),
            _ => None,
        })
    }

    pub fn challenge(&mut self, who: &Who) -> Challenge {
        self.try_challenge(who.session_id).unwrap()
    }

    /// Sends a signed logon and returns the answer.
    pub fn try_signed(&mut self, frame: &[u8]) -> Result<LogonAck, LogonReject> {
        self.send(frame);
        self.logon_answer()
    }

    /// Logs a session on whose earlier connection has ended, which the node may not know yet.
    pub fn log_on_again(&mut self, logon: &Logon) -> LogonAck {
        let begun = Instant::now();
        loop {
            match self.try_log_on(logon, &[]) {
                Ok(ack) => return ack,
                Err(refused) => assert_eq!(refused.reason, Reason::AlreadyLoggedOn),
            }
            assert!(begun.elapsed() < HANG, "the session stays logged on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn log_on(&mut self, logon: &Logon) -> LogonAck {
        self.try_log_on(logon, &[]).unwrap()
    }

    /// Waits for the first message that `pick` selects; earlier messages are dropped.
    pub fn expect<T>(
        &mut self,
        what: &str,
        mut pick: impl FnMut(&NodeMessage<'_>) -> Option<T>,
    ) -> T {
        let begun = Instant::now();
        let mut dropped = Vec::new();
        loop {
            while let Some((message, _)) = self.connection.next_message().unwrap() {
                if let Some(picked) = pick(&message) {
                    return picked;
                }
                dropped.push(format!("{message:?}"));
            }
            assert!(begun.elapsed() < HANG, "{what} did not come, but {dropped:?}");
            weir_client::clock::wait([&self.connection], Duration::from_millis(100)).unwrap();
            if let Err(error) = self.connection.receive() {
                panic!("{what} did not come, but {dropped:?}, then {error}");
            }
        }
    }

    /// Sends a session's fetch of all orders that it may see, from the beginning: a page as soon as
    /// there is a row, and further ones within `credit` pages.
    pub fn fetch(&mut self, session_id: SessionId, correlation_id: u64, credit: u32) {
        let fetch = FetchOrders {
            correlation_id,
            session_id,
            firm_id: FirmId::NONE,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            rows_max: 0,
            rows_min: 1,
            bytes_max: 0,
            wait_max_us: 100_000,
            credit,
            live_only: Switch::Off,
            source_id: PartitionId::NONE,
            min_wait_us: 0,
            credit_rows: 0,
            credit_bytes: 0,
        };
        let mut bytes = Vec::new();
        put_fetch_orders(&fetch, &[], &mut bytes);
        self.send(&bytes);
    }

    /// Sends credit for a fetch in a session's name.
    pub fn add_credit(&mut self, session_id: SessionId, correlation_id: u64, pages: u32) {
        let mut bytes = Vec::new();
        put_frame(&AddCredit { correlation_id, session_id, pages, rows: 0, bytes: 0 }, &mut bytes);
        self.send(&bytes);
    }

    /// Waits for a session's next page with rows. A page for `never` fails the test.
    pub fn page_of(&mut self, session_id: SessionId, never: SessionId) -> OrderPage {
        self.expect("a page", |message| {
            let NodeMessage::OrderPage(page, _) = message else { return None };
            assert_ne!(page.session_id, never, "a page for a session that has ended: {page:?}");
            (page.session_id == session_id && page.row_count > 0).then_some(*page)
        })
    }

    pub fn reject(&mut self) -> Reject {
        self.expect("a reject", |message| match message {
            NodeMessage::Reject(reject) => Some(*reject),
            _ => None,
        })
    }

    /// Returns the session and the reason of the next logout.
    pub fn logout(&mut self) -> (SessionId, Reason) {
        self.expect("a logout", |message| match message {
            NodeMessage::Logout(logout) => Some((logout.session_id, logout.reason)),
            _ => None,
        })
    }

    /// Waits until the node has closed the connection.
    pub fn closed(&mut self) {
        let begun = Instant::now();
        loop {
            weir_client::clock::wait([&self.connection], Duration::from_millis(100)).unwrap();
            match self.connection.receive() {
                Ok(_) => while self.connection.next_message().unwrap().is_some() {},
                Err(ClientError::Closed) => return,
                Err(error) => panic!("neither open nor closed: {error}"),
            }
            assert!(begun.elapsed() < HANG, "the node did not close the connection");
        }
    }
}

/// Returns a logon of `who` with a heartbeat interval of five seconds.
pub fn logon_of(who: &Who) -> Logon {
    Logon {
        api_key: who.key(),
        session_id: who.session_id,
        heartbeat_interval_ms: 5_000,
        cancel_on_disconnect: Switch::Off,
        takeover: Switch::Off,
    }
}

/// Returns a signed logon frame of `who` that answers `challenge`.
pub fn signed_logon_of(who: &Who, challenge: &Challenge) -> Vec<u8> {
    let logon = SignedLogon {
        signature: Signature([0; 64]),
        session_id: who.session_id,
        heartbeat_interval_ms: 5_000,
        cancel_on_disconnect: Switch::Off,
        takeover: Switch::Off,
    };
    let mut frame = Vec::new();
    put_answer(challenge, logon, &[], |text| who.signing_key().sign(text), &mut frame);
    frame
}
