//! Asking a backend how far it is, for those that do not say it by themselves.
//!
//! A probe is a question for one row from the beginning. Its page's token knows of nothing but that
//! store's newest change, so it says how far the store is, whatever any reader has seen elsewhere.
//! A backend that does not answer one in time is put aside as one that leaves a reader waiting.

use weir_types::{AccountId, FirmId, InstrumentId, Nanos, Reason, Rec, SessionId, Switch};
use weir_wire::delivery::{FetchOrders, OrderPage};

use super::Router;
use super::backend::{Ask, BackendFault, BackendId, BackendPort, BadPage, Health};
use crate::desk::Asked;
use crate::filter::{Entitlement, Filter, Scope};
use crate::ring::Place;
use crate::token::TokenError;

/// The number of a probe in place of a reader's slot.
const SLOT: u32 = u32::MAX;

/// True when an answer with this number is to a probe.
pub(super) fn is_probe(correlation_id: u64) -> bool {
    correlation_id >> 32 == u64::from(SLOT)
}

impl Router {
    /// Asks a backend how far it is, unless it is asked already; its answer is heard as
    /// [`Router::heard_of`]. One that left the last probe without an answer for as long as answers
    /// may take counts as silent. Nothing happens to one that is down or put aside.
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
        let ask = Ask { backend: id, fetch: &fetch, token: &[], min_token: &[], entitlement };
        match port.ask(&ask, now) {
            Asked::Accepted => self.pool.set_probed_at(id, Some(now)),
            Asked::Refused(reason) => self.put_aside(id, BackendFault::Refused(reason), now),
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
        self.pool.set_probed_at(id, None);
        let was_probing = self.pool.health_of(id) == Health::Probing;
        self.pool.succeeded(id);
        // The newest change, of which only the number is told: who has reached that has all.
        self.heard_of(id, at.epoch, Place::new(at.seen, Rec(u64::MAX)));
        if was_probing {
            self.wake_readers_without(source);
        }
        Ok(())
    }
}
