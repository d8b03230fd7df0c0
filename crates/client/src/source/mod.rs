//! A writer of a source: feeds an outside core's batches into a delivery store, across losses of
//! the connection.
//!
//! [`SourceWriter::poll`] is its duty cycle and blocks no longer than its timeout; with a timeout
//! of zero, and [`SourceWriter::connection`] to wait on, it blocks only to connect. It starts no
//! thread. After failures it pauses before the next try; the pauses grow and are randomised
//! ([`backoff`]). It does not come back once another connection has taken its session over.

pub mod backoff;
pub mod batches;
mod reset;

use std::time::Duration;

use weir_types::BatchNo;
use weir_wire::delivery::OrderRow;
use weir_wire::ingest::BatchFlags;

pub use self::backoff::Backoff;
pub use self::batches::{BatchStream, PushError, SourceConfig, SourceEvent};
pub use self::reset::reset_source;
pub use crate::error::OtherHistory;
pub use crate::source_message::SourceMessage;

use crate::client::{Client, Incoming};
use crate::clock::{Clock, unix_time};
use crate::connection::{Connection, Limits, Target};
use crate::error::ClientError;
use crate::session::{Session, SessionConfig};

/// The most bytes in the connection's outbox before no more batches are added.
const OUTBOX_LEN: usize = 1 << 20;
/// The timeout of a logon.
const LOGON_TIME: Duration = Duration::from_secs(5);

/// The writer of one source.
#[derive(Debug)]
pub struct SourceWriter {
    target: Target,
    session: SessionConfig,
    batches: BatchStream,
    client: Option<Client>,
    clock: Clock,
    backoff: Backoff,
    /// The error that ended the last connection, until it is taken.
    failure: Option<ClientError>,
    /// True once another connection has taken the session over: no connection is made any more.
    is_taken_over: bool,
}

impl SourceWriter {
    /// Creates a writer without a connection; the first [`SourceWriter::poll`] connects.
    ///
    /// # Panics
    /// When `session` is not the one of `config`.
    #[must_use]
    pub fn new(
        target: impl Into<Target>,
        session: SessionConfig,
        config: SourceConfig,
    ) -> SourceWriter {
        assert_eq!(session.session_id, config.session_id, "one session feeds a source");
        SourceWriter {
            target: target.into(),
            session,
            batches: BatchStream::new(config),
            client: None,
            clock: Clock::default(),
            backoff: Backoff::new(Backoff::seed()),
            failure: None,
            is_taken_over: false,
        }
    }

    /// The stream of its batches.
    #[must_use]
    pub fn batches(&self) -> &BatchStream {
        &self.batches
    }

    /// The connection, for waiting on several at once; `None` while there is none.
    #[must_use]
    pub fn connection(&self) -> Option<&Connection> {
        self.client.as_ref().map(Client::connection)
    }

    /// Returns the error that ended the last connection or prevented one; each is returned once.
    pub fn take_failure(&mut self) -> Option<ClientError> {
        self.failure.take()
    }

    /// Sets the target of the next connection.
    pub fn set_target(&mut self, target: impl Into<Target>) {
        self.target = target.into();
    }

    /// Starts another epoch: unacknowledged batches of the one before are discarded.
    ///
    /// # Panics
    /// When `config` is of another session.
    pub fn begin(&mut self, config: SourceConfig) {
        assert_eq!(self.session.session_id, config.session_id, "one session feeds a source");
        self.batches = BatchStream::new(config);
        if let Some(client) = &mut self.client {
            self.batches.put_open(client.outbox());
        }
    }

    /// Repeats the request to open the source, after a refusal whose cause is gone.
    pub fn open_again(&mut self) {
        if let Some(client) = &mut self.client {
            self.batches.put_open(client.outbox());
        }
    }

    /// Queues a batch; the next [`SourceWriter::poll`] sends it.
    ///
    /// # Errors
    /// As [`BatchStream::push`].
    pub fn push(
        &mut self,
        rows: &[(OrderRow, &[u8])],
        flags: BatchFlags,
    ) -> Result<BatchNo, PushError> {
        self.batches.push(rows, flags, unix_time())
    }

    /// Connects if it is due, sends batches within the window, waits up to `timeout` for messages
    /// and passes them to `sink`. Returns the number of messages. A lost connection is no error:
    /// the writer reconnects, and [`SourceWriter::take_failure`] returns the cause.
    ///
    /// # Errors
    /// [`ClientError::SourceHistory`]: the store is not the one that was fed, and nothing is sent
    /// until [`SourceWriter::begin`]. [`ClientError::LoggedOut`] with
    /// [`Reason::TakenOver`](weir_types::Reason::TakenOver), now and at each later call: another
    /// connection has the session, and this writer makes none any more.
    pub fn poll(
        &mut self,
        timeout: Duration,
        mut sink: impl FnMut(SourceEvent),
    ) -> Result<usize, ClientError> {
        self.check_not_taken_over()?;
        let now = self.clock.now();
        if self.client.is_none() {
            if let Some(left) = self.backoff.left(now) {
                std::thread::sleep(left.min(timeout));
                return Ok(0);
            }
            if let Err(error) = self.connect() {
                return self.fail(error).map(|()| 0);
            }
        }
        let Some(client) = &mut self.client else { return Ok(0) };
        self.batches.pump(client.outbox(), OUTBOX_LEN);
        let batches = &mut self.batches;
        let mut other = None;
        let polled = client.poll(timeout, |incoming, _| {
            hear(batches, &incoming, &mut other, &mut sink);
        });
        if let Some(error) = other.take() {
            return Err(ClientError::SourceHistory(error));
        }
        match polled {
            Ok(count) => {
                if self.batches.is_open() {
                    self.backoff.succeeded();
                }
                self.batches.pump(client.outbox(), OUTBOX_LEN);
                let batches = &mut self.batches;
                let flushed = client.flush_or_hear(|incoming, _| {
                    hear(batches, &incoming, &mut other, &mut sink);
                });
                if let Some(error) = other {
                    return Err(ClientError::SourceHistory(error));
                }
                flushed.or_else(|error| self.fail(error))?;
                Ok(count)
            }
            Err(error) => self.fail(error).map(|()| 0),
        }
    }

    fn check_not_taken_over(&self) -> Result<(), ClientError> {
        match self.is_taken_over {
            true => Err(ClientError::taken_over(self.session.session_id)),
            false => Ok(()),
        }
    }

    fn connect(&mut self) -> Result<(), ClientError> {
        let limits = Limits { connect_timeout: LOGON_TIME, ..Limits::default() };
        let connection = self.target.connect(limits)?;
        let mut client = Client::over(connection, self.target.clone(), limits);
        client.start_logon(Session::new(self.session));
        let opened = client.wait_until_open(LOGON_TIME, &mut |_, _| {});
        opened.inspect_err(|error| self.target.pass_over_after(error))?;
        self.batches.put_open(client.outbox());
        self.client = Some(client);
        Ok(())
    }

    /// Ends the connection after an error; returns the error if it is final.
    fn fail(&mut self, error: ClientError) -> Result<(), ClientError> {
        self.client = None;
        self.is_taken_over = error.is_taken_over();
        self.batches.connection_lost();
        self.backoff.failed(self.clock.now());
        self.failure = Some(error);
        self.check_not_taken_over()
    }
}

/// Passes an ingest message to the batches, and its event to `sink`; `other` is set if the message
/// is of another store than the one that was fed.
fn hear(
    batches: &mut BatchStream,
    incoming: &Incoming<'_>,
    other: &mut Option<OtherHistory>,
    sink: &mut impl FnMut(SourceEvent),
) {
    let Incoming::Source(message) = incoming else { return };
    match batches.on_message(message) {
        Ok(event) => sink(event),
        Err(error) => *other = Some(error),
    }
}
