//! Market data from a gateway, across losses of the connection.
//!
//! [`MarketClient`] is one session on one connection with any number of subscriptions. It blocks no
//! longer than the timeout of [`MarketClient::poll`] and starts no thread. After a loss it
//! reconnects automatically, with growing pauses, and subscribes anew: each subscription then
//! begins with snapshots again.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use weir_types::{InstrumentId, MarketContent, MarketPolicy, Nanos, SessionId};
use weir_wire::market::{
    MarketInstrument, PATTERN_LEN_MAX, SetMarketInterval, SubscribeMarket, UnsubscribeMarket,
};
use weir_wire::market_dialogue::{MarketMessage, MarketRequest};

use crate::client::{Client, Incoming};
use crate::clock::Clock;
use crate::connection::{Connection, Limits, Target};
use crate::error::ClientError;
use crate::session::{Session, SessionConfig};
use crate::source::Backoff;

/// The timeout of a logon.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The parameters of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// `AAPL`, `AAPL*` or `*`: at most 25 bytes.
    pub pattern: String,
    /// The content: quotes, depth, trades, ...
    pub content: MarketContent,
    /// Levels of each side, for [`MarketContent::Depth`] only.
    pub depth: u16,
    /// The policy for a subscriber that does not keep up.
    pub policy: MarketPolicy,
    /// The least time between two messages of an instrument unless one is urgent.
    pub interval: Duration,
    /// The price move from which a quote does not wait, in millionths of the last price sent; zero:
    /// every quote waits.
    pub urgent_move_ppm: u32,
    /// The limit of queued messages; zero for the gateway's own limit.
    pub queue_len_max: u32,
}

impl Wanted {
    /// Creates a subscription with the usual policy: states are conflated under back-pressure only,
    /// and a move of one per cent is sent at once; trades and orders are skipped with a notice.
    #[must_use]
    pub fn new(pattern: &str, content: MarketContent) -> Wanted {
        let is_event = matches!(content, MarketContent::Trades | MarketContent::Orders);
        Wanted {
            pattern: pattern.to_owned(),
            content,
            depth: 0,
            policy: if is_event { MarketPolicy::SkipAndNotify } else { MarketPolicy::Conflate },
            interval: Duration::ZERO,
            urgent_move_ppm: 10_000,
            queue_len_max: 0,
        }
    }

    /// Subscribes to the best `depth` levels of each side.
    #[must_use]
    pub fn depth(pattern: &str, depth: u16) -> Wanted {
        Wanted { depth, ..Wanted::new(pattern, MarketContent::Depth) }
    }

    fn request(&self, session_id: SessionId, handle: u32) -> SubscribeMarket {
        SubscribeMarket {
            urgent_move: 0,
            interval: nanos_of(self.interval),
            session_id,
            handle,
            urgent_move_ppm: self.urgent_move_ppm,
            queue_len_max: self.queue_len_max,
            depth: self.depth,
            content: self.content,
            policy: self.policy,
        }
    }
}

fn nanos_of(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// An instrument as reported by the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instrument {
    /// Its symbol.
    pub symbol: String,
    /// The decimal exponent of its prices.
    pub price_exponent: i8,
    /// The message.
    pub message: MarketInstrument,
}

impl Instrument {
    pub(crate) fn of(message: &MarketInstrument, symbol: &[u8]) -> Instrument {
        Instrument {
            symbol: String::from_utf8_lossy(symbol).into_owned(),
            price_exponent: message.price_exponent,
            message: *message,
        }
    }
}

/// A client of a market data gateway with one session.
#[derive(Debug)]
pub struct MarketClient {
    target: Target,
    session: SessionConfig,
    client: Option<Client>,
    clock: Clock,
    backoff: Backoff,
    failure: Option<ClientError>,
    subscriptions: BTreeMap<u32, Wanted>,
    next_handle: u32,
    instruments: HashMap<InstrumentId, Instrument>,
}

impl MarketClient {
    /// Creates a client without a connection; the first [`MarketClient::poll`] connects.
    #[must_use]
    pub fn new(target: impl Into<Target>, session: SessionConfig) -> MarketClient {
        MarketClient {
            target: target.into(),
            session,
            client: None,
            clock: Clock::default(),
            backoff: Backoff::new(Backoff::seed()),
            failure: None,
            subscriptions: BTreeMap::new(),
            next_handle: 1,
            instruments: HashMap::new(),
        }
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

    /// Returns an instrument that a message has named.
    #[must_use]
    pub fn instrument(&self, id: InstrumentId) -> Option<&Instrument> {
        self.instruments.get(&id)
    }

    /// Subscribes, now and after each loss; returns the subscription's handle.
    ///
    /// # Panics
    /// When the pattern is longer than [`PATTERN_LEN_MAX`].
    pub fn subscribe(&mut self, wanted: Wanted) -> u32 {
        assert!(
            wanted.pattern.len() <= PATTERN_LEN_MAX,
            "a pattern of {} bytes",
            wanted.pattern.len()
        );
        let handle = self.next_handle;
        self.next_handle += 1;
        if let Some(client) = &mut self.client {
            put_subscribe(&wanted, self.session.session_id, handle, client.outbox());
        }
        self.subscriptions.insert(handle, wanted);
        handle
    }

    /// Ends a subscription; messages under way still come, up to the gateway's answer.
    pub fn unsubscribe(&mut self, handle: u32) {
        if self.subscriptions.remove(&handle).is_none() {
            return;
        }
        let session_id = self.session.session_id;
        if let Some(client) = &mut self.client {
            let request = UnsubscribeMarket { session_id, handle };
            MarketRequest::Unsubscribe(request).put(client.outbox());
        }
    }

    /// Changes a subscription's interval, now and after each loss.
    pub fn set_interval(&mut self, handle: u32, interval: Duration) {
        let Some(wanted) = self.subscriptions.get_mut(&handle) else { return };
        wanted.interval = interval;
        let (interval, session_id) = (nanos_of(interval), self.session.session_id);
        if let Some(client) = &mut self.client {
            let request = SetMarketInterval { interval, session_id, handle };
            MarketRequest::SetInterval(request).put(client.outbox());
        }
    }

    /// Connects if it is due, waits up to `timeout` for messages and passes them to `sink`. Returns
    /// the number of messages. A lost connection is no error: the client reconnects, and
    /// [`MarketClient::take_failure`] returns the cause. A subscription that ends (a message
    /// `Ended`) is not made again.
    pub fn poll(&mut self, timeout: Duration, mut sink: impl FnMut(&MarketMessage<'_>)) -> usize {
        if self.client.is_none() {
            if let Some(left) = self.backoff.left(self.clock.now()) {
                std::thread::sleep(left.min(timeout));
                return 0;
            }
            if let Err(error) = self.connect(&mut sink) {
                self.fail(error);
                return 0;
            }
        }
        let Some(client) = &mut self.client else { return 0 };
        let (instruments, subscriptions) = (&mut self.instruments, &mut self.subscriptions);
        let polled = client.poll(timeout, |incoming, _| {
            if let Incoming::Market(message) = incoming {
                note(instruments, subscriptions, &message);
                sink(&message);
            }
        });
        match polled {
            Ok(count) => {
                self.backoff.succeeded();
                count
            }
            Err(error) => {
                self.fail(error);
                0
            }
        }
    }

    /// Connects, logs on and subscribes; the states of the source's channels may come with the
    /// logon.
    fn connect(&mut self, sink: &mut impl FnMut(&MarketMessage<'_>)) -> Result<(), ClientError> {
        let limits = Limits { connect_timeout: ANSWER_TIME, ..Limits::default() };
        let connection = self.target.connect(limits)?;
        let mut client = Client::over(connection, self.target.clone(), limits);
        client.start_logon(Session::new(self.session));
        let opened = client.wait_until_open(ANSWER_TIME, &mut |incoming, _| {
            if let Incoming::Market(message) = incoming {
                sink(&message);
            }
        });
        opened.inspect_err(|error| self.target.pass_over_after(error))?;
        for (handle, wanted) in &self.subscriptions {
            put_subscribe(wanted, self.session.session_id, *handle, client.outbox());
        }
        self.instruments.clear();
        self.client = Some(client);
        Ok(())
    }

    fn fail(&mut self, error: ClientError) {
        self.client = None;
        self.backoff.failed(self.clock.now());
        self.failure = Some(error);
    }
}

fn put_subscribe(wanted: &Wanted, session_id: SessionId, handle: u32, out: &mut Vec<u8>) {
    let request = wanted.request(session_id, handle);
    MarketRequest::Subscribe(request, wanted.pattern.as_bytes()).put(out);
}

fn note(
    instruments: &mut HashMap<InstrumentId, Instrument>,
    subscriptions: &mut BTreeMap<u32, Wanted>,
    message: &MarketMessage<'_>,
) {
    match message {
        MarketMessage::Instrument(message, symbol) => {
            instruments.insert(message.instrument_id, Instrument::of(message, symbol));
        }
        MarketMessage::Ended(ended) => {
            subscriptions.remove(&ended.handle);
        }
        _ => {}
    }
}
