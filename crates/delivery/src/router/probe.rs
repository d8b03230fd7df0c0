//! Probes of backends that do not report their progress on their own.
//!
//! A probe is a request for one row from the beginning. Its page's token has only that store's
//! newest change, so it shows the store's progress, independent of any reader. A backend that does
//! not answer a probe in time is set aside like one that leaves a reader waiting.

use weir_types::{
    AccountId, ChangeId, FirmId, InstrumentId, Nanos, Reason, Rec, SessionId, Switch,
};
use weir_wire::delivery::{FetchOrders, OrderPage};

use super::Router;
use super::backend::{BackendFault, BackendId, BackendPort, BackendRequest, BadPage, Health};
use crate::desk::FetchOutcome;
use crate::filter::{Entitlement, Filter, Scope};
use crate::token::TokenError;

/// The slot in a probe's number, where other requests have a reader's.
const SLOT: u32 = u32::MAX;

/// True when an answer with this number is for a probe.
pub(super) fn is_probe(correlation_id: u64) -> bool {
    correlation_id >> 32 == u64::from(SLOT)
}

impl Router {
    /// Sends a backend a probe, unless one is out already; its answer is processed as by
    /// [`Router::heard_of`]. A backend that has not answered the last probe within
    /// [`RouterConfig::answer_grace`](super::RouterConfig::answer_grace) counts as silent. Does
    /// nothing for a backend that is down or set aside.
    pub fn probe(&mut self, id: BackendId, now: Nanos, port: &mut impl BackendPort) {
        if !matches!(self.pool.health_of(id), Health::Up | Health::Probing) {
            return;
        }
        match self.pool.probed_at(id) {
            Some(at) if now.since(at) > self.config.answer_grace => {
                return self.put_aside(id, BackendFault::Silent, now);
            }
            Some(_) => return,
            None => {}
        }
        let fetch = FetchOrders {
            correlation_id: u64::from(SLOT) << 32 | u64::from(id.0),
            session_id: SessionId::NONE,
            firm_id: FirmId::NONE,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            rows_max: 1,
            rows_min: 0,
            bytes_max: 0,
            wait_max_us: 1,
            credit: 1,
            live_only: Switch::Off,
            source_id: self.pool.info(id).source,
            min_wait_us: 0,
            credit_rows: 0,
            credit_bytes: 0,
        };
        let entitlement = self.rights_of_probe(id);
        let ask =
            BackendRequest { backend: id, fetch: &fetch, token: &[], min_token: &[], entitlement };
        match port.ask(&ask, now) {
            FetchOutcome::Accepted => self.pool.set_probed_at(id, Some(now)),
            FetchOutcome::Refused(reason) => self.put_aside(id, BackendFault::Refused(reason), now),
        }
    }

    fn rights_of_probe(&self, id: BackendId) -> Entitlement {
        self.pool.info(id).entitlement.unwrap_or(Entitlement::all())
    }

    /// Takes the answer to a probe.
    pub(super) fn on_probe(
        &mut self,
        id: BackendId,
        header: &OrderPage,
        token: &[u8],
    ) -> Result<(), BackendFault> {
        if header.reason != Reason::None {
            return Err(BackendFault::Refused(header.reason));
        }
        let (source, entitlement) = (self.pool.info(id).source, self.rights_of_probe(id));
        let Ok(scope) = Scope::new(Filter::ALL, entitlement) else {
            return Err(BackendFault::Refused(Reason::NotEntitled));
        };
        self.opened.clear();
        self.sealer.open(&scope, token, &mut self.opened).map_err(BadPage::from)?;
        let at = match self.opened[..] {
            [at] if at.source == source => at,
            _ => return Err(BadPage::from(TokenError::Source(source)).into()),
        };
        self.heard_log(id, at.log)?;
        self.pool.set_probed_at(id, None);
        let was_tested = self.pool.succeeded(id);
        // Only the `seq` of the newest change is known: a reader that has reached it has
        // everything.
        let head = self.pool.not_before(id, at.epoch, ChangeId::new(at.seen, Rec(u64::MAX)));
        self.heard_of(id, at.epoch, head);
        if was_tested {
            self.wake_readers_without(source);
        }
        Ok(())
    }
}
