//! A follower of order state by token: it fetches, gets a page, and fetches again before it decodes
//! the rows.
//!
//! A follower receives the latest state of each order within its entitlement and filter. Its token
//! is its position; stored on disk, it resumes there, on any replica. [`Follower::token`] is the
//! token of the last page whose rows were processed, never that of a page whose header alone has
//! come: a crash between the two loses nothing.
//!
//! It does no I/O and reads no clock; the owner of the connection passes it the messages that
//! [`Client::poll`](crate::client::Client::poll) delivers. INVARIANT: at most one page's rows are
//! due at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_types::{
    AccountId, FirmId, InstrumentId, Nanos, OrderId, PartitionId, Reason, Rec, Seq, SessionId,
    Switch,
};
use weir_wire::Message;
use weir_wire::delivery::{
    AddCredit, CancelFetch, FetchOrders, OrderPage, OrderPageBody, OrderRow, PageFlags, RowFlags,
    SourceState, SourceStates,
};
use weir_wire::dialogue::{Tokens, put_question};
use weir_wire::frame::put_frame;
use weir_wire::group::Group;
use weir_wire::rows::Rows;
use weir_wire::session::Reject;

use crate::error::ClientError;
use crate::source::Backoff;

/// The parameters of a follower's fetches.
#[derive(Clone, Copy, Debug)]
pub struct FollowerConfig {
    /// The follower's session.
    pub session_id: SessionId,
    /// Distinguishes the followers of one session; below 2^32.
    pub follower_no: u32,
    /// Only this firm's orders; none for all.
    pub firm_id: FirmId,
    /// Only this account's; none for all.
    pub account_id: AccountId,
    /// Only this instrument's; none for all.
    pub instrument_id: InstrumentId,
    /// Only live orders, and the final change of orders seen live.
    pub live_only: bool,
    /// The source of the orders: an outside core's number; none for the node's own.
    pub source_id: PartitionId,
    /// The most rows of a page; zero for the node's own limit.
    pub rows_max: u32,
    /// A page waits for this many rows until `wait_max_us` has passed.
    pub rows_min: u32,
    /// The longest time that a page may wait, in microseconds.
    pub wait_max_us: u32,
    /// The number of pages that may come in answer to one fetch; at least one.
    pub credit: u32,
    /// The number of rows that may come, until [`Follower::add_credit`] grants more; zero for no
    /// limit.
    pub credit_rows: u32,
    /// The number of row bytes that may come; zero for no limit.
    pub credit_bytes: u32,
    /// Keep the latest state of every order: [`Follower::orders`].
    pub keep_orders: bool,
}

impl FollowerConfig {
    /// Everything that the session may see; pages wait up to half a second when nothing is new.
    #[must_use]
    pub fn new(session_id: SessionId) -> FollowerConfig {
        FollowerConfig {
            session_id,
            follower_no: 0,
            firm_id: FirmId::NONE,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            live_only: false,
            source_id: PartitionId::NONE,
            rows_max: 0,
            rows_min: 1,
            wait_max_us: 500_000,
            credit: 1,
            credit_rows: 0,
            credit_bytes: 0,
            keep_orders: false,
        }
    }
}

/// The result of a page's header.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEvent {
    /// The page belongs to another follower, or to an earlier fetch of this one.
    NotOurs,
    /// The page was accepted; the next fetch is sent if this one's credit is used up.
    Page {
        /// The page reaches the newest state.
        is_online: bool,
        /// The page ends among the changes of one `seq`.
        is_partial: bool,
        /// A source did not answer.
        is_source_away: bool,
        /// The number of rows to come.
        row_count: u32,
        /// The number of changes merged into others.
        merged_count: u32,
    },
    /// The token was refused: the state is cleared, and fetched again from the oldest legal token.
    Resync(Reason),
}

/// The content of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowEvent<'a> {
    /// The order's current state, with its attributes, which only its source understands.
    State(OrderRow, &'a [u8]),
    /// The order is gone, or no longer matches the filter: remove it, if it is known.
    Gone(OrderId),
}

/// Returns true for refusals after which a follower starts again; other refusals would recur.
fn is_resync(reason: Reason) -> bool {
    use Reason::{ResyncEpoch, ResyncFilter, ResyncFloor, ResyncToken};
    matches!(reason, ResyncEpoch | ResyncFilter | ResyncFloor | ResyncToken)
}

/// Returns true for temporary refusals: the same fetch may succeed a moment later.
fn is_passing(reason: Reason) -> bool {
    use Reason::{LimitReached, Overloaded, PartitionAway, Throttled, TooManyInFlight};
    matches!(reason, LimitReached | Overloaded | PartitionAway | Throttled | TooManyInFlight)
}

/// Pages, rows and bytes of rows.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    pages: u32,
    rows: u32,
    bytes: u32,
}

/// Follows order state.
#[derive(Debug)]
pub struct Follower {
    config: FollowerConfig,
    /// The token of the last page whose rows were processed.
    token: Vec<u8>,
    /// The fetch and token of the page whose rows are due.
    pending: Option<(u64, Vec<u8>)>,
    question_no: u32,
    orders: BTreeMap<OrderId, OrderRow>,
    /// Attributes of the orders that have any.
    attributes: BTreeMap<OrderId, Vec<u8>>,
    marks: Vec<(PartitionId, Seq, Rec)>,
    /// The sources' last reported status; empty when all sources answer.
    sources: Vec<SourceState>,
    is_online: bool,
    /// The pause before a refused fetch is repeated.
    backoff: Backoff,
    /// True when the fetch was refused and is repeated after the pause.
    is_resting: bool,
    /// The token that the store must reach before the next answer, and the time allowed in
    /// microseconds.
    min_token: Vec<u8>,
    min_wait_us: u32,
    /// The pages, rows and bytes processed since the fetch's credit was last added to.
    taken: Taken,
}

impl Follower {
    /// Creates a follower that starts at `token`; with an empty one, at the beginning.
    ///
    /// # Panics
    /// When the configuration has no credit.
    #[must_use]
    pub fn new(config: FollowerConfig, token: Vec<u8>) -> Follower {
        assert!(config.credit > 0, "a question without credit has no answer");
        Follower {
            config,
            token,
            pending: None,
            question_no: 0,
            orders: BTreeMap::new(),
            attributes: BTreeMap::new(),
            marks: Vec::new(),
            sources: Vec::new(),
            is_online: false,
            backoff: Backoff::new(Backoff::seed()),
            is_resting: false,
            min_token: Vec::new(),
            min_wait_us: 0,
            taken: Taken::default(),
        }
    }

    /// Sets the minimum token of the next fetch: the store answers only if it reaches `min_token`
    /// within `wait_us` microseconds (zero for the server's own limit). With it a client reads at
    /// one replica at least the state that it has seen at another. The token must be of the same
    /// filter and rights. If the store does not reach it, the result is [`ClientError::Refused`]
    /// with [`Reason::MinTokenNotReached`]; ask again.
    pub fn require(&mut self, min_token: Vec<u8>, wait_us: u32) {
        (self.min_token, self.min_wait_us) = (min_token, wait_us);
    }

    /// The token after all rows processed so far: store it to resume from there.
    #[must_use]
    pub fn token(&self) -> &[u8] {
        &self.token
    }

    /// The latest state of every order, if the configuration keeps orders.
    #[must_use]
    pub fn orders(&self) -> &BTreeMap<OrderId, OrderRow> {
        &self.orders
    }

    /// An order's attributes, if the configuration keeps orders; empty for an order without
    /// attributes and for an unknown one.
    #[must_use]
    pub fn attributes(&self, order_id: OrderId) -> &[u8] {
        self.attributes.get(&order_id).map_or(&[], Vec::as_slice)
    }

    /// The status of the sources, as last reported by a router with sources away; empty once a page
    /// reports none away.
    #[must_use]
    pub fn sources(&self) -> &[SourceState] {
        &self.sources
    }

    /// True once all rows up to the newest state are processed: further rows are live.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.is_online && self.pending.is_none()
    }

    /// Sends the first fetch, or the first on a new connection.
    pub fn ask(&mut self, out: &mut Vec<u8>) {
        self.pending = None;
        self.is_resting = false;
        let token = std::mem::take(&mut self.token);
        self.put_question(&token, out);
        self.token = token;
    }

    /// Cancels the current fetch; a page that is already made still comes.
    pub fn put_cancel(&self, out: &mut Vec<u8>) {
        let (correlation_id, session_id) = (self.correlation_id(), self.config.session_id);
        put_frame(&CancelFetch { correlation_id, session_id }, out);
    }

    /// Handles the refusal of a fetch. A temporary one (a source away, an overloaded node) is no
    /// error: the fetch is repeated by [`Follower::ask_when_due`] after a pause that grows with
    /// each refusal and is randomised ([`Backoff`]), so that followers do not all return at once to
    /// a node in trouble. Returns false when the refusal is not of this follower's fetch.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the fetch would be refused again.
    pub fn on_reject(&mut self, reject: &Reject, now: Nanos) -> Result<bool, ClientError> {
        let is_ours = reject.ref_template_id == FetchOrders::TEMPLATE_ID
            && reject.session_id == self.config.session_id
            && reject.request_no.0 == self.correlation_id();
        if !is_ours {
            return Ok(false);
        }
        if !is_passing(reject.reason) {
            let (request, subject) = ("FetchOrders", reject.field.to_string());
            return Err(ClientError::Refused { request, reason: reject.reason, subject });
        }
        self.is_resting = true;
        self.backoff.failed(now);
        Ok(true)
    }

    /// Repeats a refused fetch when its pause is over at `now`, by the clock used for
    /// [`Follower::on_reject`]. Returns true if it was sent.
    pub fn ask_when_due(&mut self, now: Nanos, out: &mut Vec<u8>) -> bool {
        let is_due = self.is_resting && self.backoff.left(now).is_none();
        if is_due {
            self.ask(out);
        }
        is_due
    }

    /// The rest of a refused fetch's pause; `None` when no fetch was refused.
    #[must_use]
    pub fn rest(&self, now: Nanos) -> Option<Duration> {
        self.is_resting.then(|| self.backoff.left(now).unwrap_or(Duration::ZERO))
    }

    fn correlation_id(&self) -> u64 {
        u64::from(self.config.follower_no) << 32 | u64::from(self.question_no)
    }

    fn put_question(&mut self, token: &[u8], out: &mut Vec<u8>) {
        self.question_no = self.question_no.wrapping_add(1);
        self.taken = Taken::default();
        let config = &self.config;
        let fetch = FetchOrders {
            correlation_id: self.correlation_id(),
            session_id: config.session_id,
            firm_id: config.firm_id,
            account_id: config.account_id,
            instrument_id: config.instrument_id,
            rows_max: config.rows_max,
            rows_min: config.rows_min,
            bytes_max: 0,
            wait_max_us: config.wait_max_us,
            credit: config.credit,
            live_only: if config.live_only { Switch::On } else { Switch::Off },
            source_id: config.source_id,
            min_wait_us: self.min_wait_us,
            credit_rows: config.credit_rows,
            credit_bytes: config.credit_bytes,
        };
        put_question(&fetch, Tokens { token, min_token: &self.min_token }, out);
    }

    /// Handles a page's header and sends the next fetch if this one's credit is used up, before the
    /// rows are decoded.
    ///
    /// # Errors
    /// [`ClientError::UnexpectedRows`] when the rows of the page before are missing;
    /// [`ClientError::Refused`] when the node refuses the fetch for good.
    pub fn on_page(
        &mut self,
        page: &OrderPage,
        token: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<PageEvent, ClientError> {
        if page.correlation_id != self.correlation_id() || page.session_id != self.config.session_id
        {
            return Ok(PageEvent::NotOurs);
        }
        if let Some((expected, _)) = self.pending {
            return Err(ClientError::UnexpectedRows { expected, got: page.correlation_id });
        }
        if page.reason != Reason::None {
            if !is_resync(page.reason) {
                let (request, subject) = ("FetchOrders", String::new());
                return Err(ClientError::Refused { request, reason: page.reason, subject });
            }
            self.orders.clear();
            self.attributes.clear();
            self.marks.clear();
            self.is_online = false;
            self.token = token.to_vec();
            self.put_question(token, out);
            return Ok(PageEvent::Resync(page.reason));
        }
        self.backoff.succeeded();
        self.min_token.clear();
        self.taken.pages += 1;
        if page.credit_left == 0 {
            self.put_question(token, out);
        }
        if page.row_count > 0 {
            self.pending = Some((page.correlation_id, token.to_vec()));
        } else {
            self.token.clear();
            self.token.extend_from_slice(token);
        }
        self.is_online = page.flags.contains(PageFlags::ONLINE);
        if !page.flags.contains(PageFlags::SOURCE_AWAY) {
            // A router that has forgotten this reader meanwhile cannot report that all sources are
            // back.
            self.sources.clear();
        }
        Ok(PageEvent::Page {
            is_online: self.is_online,
            is_partial: page.flags.contains(PageFlags::PARTIAL),
            is_source_away: page.flags.contains(PageFlags::SOURCE_AWAY),
            row_count: page.row_count,
            merged_count: page.merged_count,
        })
    }

    /// The number of fetches sent.
    #[must_use]
    pub fn question_count(&self) -> u32 {
        self.question_no
    }

    /// Returns the credit of processed rows once it is half of the total: call it after processing
    /// rows. A fetch thus continues for as long as its rows are processed, and a slow reader is
    /// sent no more than its credit. Returns true if credit was sent; without a limit on rows or
    /// bytes there is none to send.
    pub fn add_credit(&mut self, out: &mut Vec<u8>) -> bool {
        let (config, taken) = (&self.config, self.taken);
        let is_half = |taken: u32, credit: u32| credit > 0 && taken >= credit.div_ceil(2);
        let is_due =
            is_half(taken.rows, config.credit_rows) || is_half(taken.bytes, config.credit_bytes);
        if is_due {
            let Taken { pages, rows, bytes } = std::mem::take(&mut self.taken);
            let (correlation_id, session_id) = (self.correlation_id(), self.config.session_id);
            put_frame(&AddCredit { correlation_id, session_id, pages, rows, bytes }, out);
        }
        is_due
    }

    /// Handles the status of a page's sources. Returns false when it is not for this follower.
    ///
    /// # Errors
    /// [`ClientError::Decode`].
    pub fn on_sources(
        &mut self,
        states: &SourceStates,
        sources: Group<'_, SourceState>,
    ) -> Result<bool, ClientError> {
        // The page's fetch may be complete: the next one may already be sent.
        let is_ours = states.session_id == self.config.session_id
            && states.correlation_id >> 32 == u64::from(self.config.follower_no);
        if is_ours {
            self.sources = sources.collect::<Result<_, _>>()?;
        }
        Ok(is_ours)
    }

    /// Processes a page's rows and passes each to `sink`. Returns false when they are not for this
    /// follower.
    ///
    /// # Errors
    /// [`ClientError::StateOutOfOrder`]; [`ClientError::Decode`].
    pub fn on_rows(
        &mut self,
        body: &OrderPageBody,
        rows: Rows<'_>,
        mut sink: impl FnMut(&RowEvent<'_>),
    ) -> Result<bool, ClientError> {
        if body.session_id != self.config.session_id {
            return Ok(false);
        }
        let Some((_, token)) = self.pending.take_if(|due| due.0 == body.correlation_id) else {
            return Ok(false);
        };
        for row in rows {
            let (row, attributes) = row?;
            self.check_order(&row)?;
            if body.correlation_id == self.correlation_id() {
                let len = OrderRow::BLOCK_LENGTH + size_of::<u16>() + attributes.len();
                let len = u32::try_from(len).expect("attributes are short");
                self.taken.rows = self.taken.rows.saturating_add(1);
                self.taken.bytes = self.taken.bytes.saturating_add(len);
            }
            let event = if row.flags == RowFlags::default() {
                RowEvent::State(row, attributes)
            } else {
                RowEvent::Gone(row.order_id)
            };
            if self.config.keep_orders {
                self.keep(&event);
            }
            sink(&event);
        }
        self.token = token;
        Ok(true)
    }

    /// Checks that (`seq`, `rec`) grows within a partition; a LEAVE names its partition only by its
    /// `order_id`.
    fn check_order(&mut self, row: &OrderRow) -> Result<(), ClientError> {
        let partition_id = row.order_id.partition();
        match self.marks.iter_mut().find(|mark| mark.0 == partition_id) {
            Some(mark) if (row.seq, row.rec) <= (mark.1, mark.2) => {
                Err(ClientError::StateOutOfOrder { order_id: row.order_id, partition_id })
            }
            Some(mark) => {
                (mark.1, mark.2) = (row.seq, row.rec);
                Ok(())
            }
            None => {
                self.marks.push((partition_id, row.seq, row.rec));
                Ok(())
            }
        }
    }

    fn keep(&mut self, event: &RowEvent<'_>) {
        let order_id = match event {
            RowEvent::State(row, _) => row.order_id,
            RowEvent::Gone(order_id) => *order_id,
        };
        self.attributes.remove(&order_id);
        match event {
            RowEvent::State(row, attributes)
                if !self.config.live_only || row.ord_status.is_live() =>
            {
                self.orders.insert(order_id, *row);
                if !attributes.is_empty() {
                    self.attributes.insert(order_id, attributes.to_vec());
                }
            }
            // A LEAVE of an unknown order is legal: see the protocol.
            RowEvent::State(..) | RowEvent::Gone(_) => {
                self.orders.remove(&order_id);
            }
        }
    }
}
