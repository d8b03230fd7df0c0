//! The open-order query: all live orders that a session may see, in their current state, once.
//!
//! It is a fetch of order state (`FetchOrders`) with `liveOnly` and no token, continued until a
//! page is ONLINE. The node answers with at least everything that it had reported when the query
//! reached it: an order whose acceptance was seen is in the answer unless it has ended meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_types::{
    AccountId, FirmId, InstrumentId, OrderId, PartitionId, Reason, SessionId, Switch,
};
use weir_wire::delivery::{FetchOrders, OrderPage, OrderRow, PageFlags, RowFlags};
use weir_wire::dialogue::put_fetch_orders;
use weir_wire::rows::Rows;

use crate::client::{Client, Incoming};
use crate::error::ClientError;
use crate::session::SessionEvent;

/// The correlation id of open-order queries: the last one of a follower number that is never used.
const CORRELATION: u64 = u64::MAX;

/// The filter of an open-order query; "none" in a field means any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOrders {
    /// Only orders entered by this session.
    pub entered_by: SessionId,
    /// Only this firm's orders; a trader sees its own firm's in any case.
    pub firm_id: FirmId,
    /// Only this account's orders.
    pub account_id: AccountId,
    /// Only this instrument's orders.
    pub instrument_id: InstrumentId,
}

/// The state of a query: one fetch at a time, the next once the rows of the last are processed.
struct Query {
    session_id: SessionId,
    wanted: OpenOrders,
    token: Vec<u8>,
    is_online: bool,
    rows_are_due: bool,
    orders: BTreeMap<OrderId, OrderRow>,
}

impl Query {
    fn ask(&self, out: &mut Vec<u8>) {
        let fetch = FetchOrders {
            correlation_id: CORRELATION,
            session_id: self.session_id,
            firm_id: self.wanted.firm_id,
            account_id: self.wanted.account_id,
            instrument_id: self.wanted.instrument_id,
            rows_max: 0,
            rows_min: 0,
            bytes_max: 0,
            wait_max_us: 0,
            credit: 1,
            live_only: Switch::On,
            source_id: PartitionId::NONE,
            min_wait_us: 0,
            credit_rows: 0,
            credit_bytes: 0,
        };
        put_fetch_orders(&fetch, &self.token, out);
    }

    fn is_done(&self) -> bool {
        self.is_online && !self.rows_are_due
    }

    fn is_own(&self, session_id: SessionId, correlation_id: u64) -> bool {
        session_id == self.session_id && correlation_id == CORRELATION
    }

    fn on_page(
        &mut self,
        page: &OrderPage,
        token: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        if page.reason != Reason::None {
            let (request, subject) = ("FetchOrders", "open orders".to_owned());
            return Err(ClientError::Refused { request, reason: page.reason, subject });
        }
        self.token.clear();
        self.token.extend_from_slice(token);
        self.rows_are_due = page.row_count > 0;
        self.is_online = page.flags.contains(PageFlags::ONLINE);
        if !self.is_online && !self.rows_are_due {
            self.ask(out);
        }
        Ok(())
    }

    fn on_rows(&mut self, rows: Rows<'_>, out: &mut Vec<u8>) -> Result<(), ClientError> {
        self.rows_are_due = false;
        for row in rows {
            let (row, _) = row?;
            self.take(&row);
        }
        if !self.is_online {
            self.ask(out);
        }
        Ok(())
    }

    fn take(&mut self, row: &OrderRow) {
        let entered_by = self.wanted.entered_by;
        let is_wanted = entered_by.is_none() || row.session_id == entered_by;
        if row.flags == RowFlags::default() && row.ord_status.is_live() && is_wanted {
            self.orders.insert(row.order_id, *row);
        } else {
            self.orders.remove(&row.order_id);
        }
    }
}

impl Client {
    /// Returns the live orders that match, by identifier. Other messages go to `sink`, as from
    /// [`Client::poll`].
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the session may not see them; [`ClientError::Timeout`]; those
    /// of the connection.
    pub fn open_orders(
        &mut self,
        session_id: SessionId,
        wanted: OpenOrders,
        timeout: Duration,
        sink: &mut dyn FnMut(Incoming<'_>, &mut Vec<u8>),
    ) -> Result<Vec<OrderRow>, ClientError> {
        let mut query = Query {
            session_id,
            wanted,
            token: Vec::new(),
            is_online: false,
            rows_are_due: false,
            orders: BTreeMap::new(),
        };
        query.ask(self.outbox());
        let deadline = Instant::now() + timeout;
        while !query.is_done() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ClientError::Timeout { waiting_for: "open orders", timeout });
            }
            let mut outcome = Ok(());
            self.poll(left, |incoming, out| match incoming {
                Incoming::Page(page, token)
                    if query.is_own(page.session_id, page.correlation_id) =>
                {
                    outcome = query.on_page(&page, token, out);
                }
                Incoming::Rows(body, rows)
                    if query.is_own(body.session_id, body.correlation_id) =>
                {
                    outcome = query.on_rows(rows, out);
                }
                Incoming::Session(id, SessionEvent::Refused { reject, .. })
                    if query.is_own(id, reject.request_no.0) =>
                {
                    let (request, subject) = ("FetchOrders", "open orders".to_owned());
                    let reason = reject.reason;
                    outcome = Err(ClientError::Refused { request, reason, subject });
                }
                other => sink(other, out),
            })?;
            outcome?;
        }
        Ok(query.orders.into_values().collect())
    }
}
