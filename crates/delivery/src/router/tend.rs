//! Requests to backends for a reader: one for each source, from the reader's place, and again at
//! another backend when one fails or lags.
//!
//! ```text
//! a reader's leg in a source              | requests
//! ----------------------------------------+-----------------------------------------------------
//! its backend has not answered yet        | an immediate answer, which shows the source's status
//! no rows, all were served                | rows, waiting until there are some
//! rows, but too few over all sources      | those and more, until the page's wait is over
//! rows, and enough over all sources       | nothing until they were served
//! no backend can be asked                 | nothing: away, until a backend is up again
//! all that can be asked are in an epoch   | nothing for `epoch_wait`, then the master, whose
//!   before that of the place              |   answer is decisive
//! ```

use weir_types::{ChangeId, Nanos, Switch};
use weir_wire::delivery::FetchOrders;

use super::Router;
use super::backend::{BackendFault, BackendId, BackendPort, BackendRequest};
use super::leg::{Leg, LegStatus, PendingRequest};
use super::pool::{BackendCriteria, Choice};
use super::reader::{Reader, Terms};
use crate::desk::FetchOutcome;
use crate::filter::{Entitlement, Scope};

/// The backends tried for one request before its source counts as away.
const TRIES_MAX: usize = 8;
/// The time beyond that of a silent backend that one which answers others may take.
const SLOW_MAX: Nanos = Nanos(30_000_000_000);
/// The shortest wait that a request can name.
const WAIT_MIN: Nanos = Nanos(1_000);

/// An attempt to get a leg's rows from a backend.
struct Attempt {
    /// The leg's index.
    index: usize,
    asking: PendingRequest,
    request: Request,
}

/// A leg's request.
#[derive(Clone, Copy, Debug)]
struct Request {
    rows_min: u32,
    rows_max: u32,
    bytes_max: u32,
    /// The wait that the backend is given.
    wait: Nanos,
    /// The longest that its answer may take with that.
    patience: Nanos,
}

impl Router {
    /// Gives up requests that will not be answered and sends those that are needed.
    pub(super) fn tend(
        &mut self,
        slot: u32,
        reader: &mut Reader,
        now: Nanos,
        port: &mut impl BackendPort,
    ) {
        if reader.refusal.is_some() {
            return;
        }
        let Some(scope) = reader.scope else { return };
        for index in 0..reader.legs.len() {
            let leg = &mut reader.legs[index];
            self.give_up_in_vain(leg, &scope, now, &mut *port);
            if leg.asking.is_none() && Self::is_wanting(reader, &reader.legs[index], now) {
                self.ask_for(slot, reader, index, now, &mut *port);
            }
        }
    }

    /// Gives up a request if its backend is gone or silent, or lags while another does not.
    fn give_up_in_vain(
        &mut self,
        leg: &mut Leg,
        scope: &Scope,
        now: Nanos,
        port: &mut impl BackendPort,
    ) {
        let Some(asking) = leg.asking else { return };
        if !self.pool.is_serving(&asking) {
            port.cancel(asking.backend, asking.correlation_id);
        } else if asking.answer_by <= now {
            let answers = self.pool.answer_count(asking.backend);
            let is_slow = answers != asking.answers_before;
            if is_slow && now < asking.slow_until {
                let answer_by = Nanos(now.0.saturating_add(self.config.answer_grace.0));
                leg.asking = Some(PendingRequest { answer_by, answers_before: answers, ..asking });
                return;
            }
            self.give_up(&asking, port);
            // A backend that answers others is slow with this one: perhaps it reads an archive.
            if is_slow {
                leg.avoided = Some(asking.backend);
            } else {
                self.put_aside(asking.backend, BackendFault::Silent, now);
            }
        } else if asking.recheck_at.is_some_and(|at| at <= now) {
            let choice = self.pool.choose(&wanted(leg, scope), &self.config);
            if choice.is_none_or(|choice| choice.is_behind) {
                let next = Some(Nanos(now.0.saturating_add(self.config.lag_wait.0)));
                leg.asking = Some(PendingRequest { recheck_at: next, ..asking });
                return;
            }
            self.give_up(&asking, port);
        } else {
            return;
        }
        self.figures.switch_count += 1;
        leg.asking = None;
        leg.standing = LegStatus::Unknown;
    }

    pub(super) fn give_up(&mut self, asking: &PendingRequest, port: &mut impl BackendPort) {
        self.pool.is_done(asking);
        port.cancel(asking.backend, asking.correlation_id);
    }

    /// Sets a backend aside for a while; readers that wait for it use another.
    pub(super) fn put_aside(&mut self, id: BackendId, fault: BackendFault, now: Nanos) {
        self.figures.fault_count += 1;
        self.pool.failed(id, fault, &self.config, now);
        self.due_rows.retain(|due| due.backend != id);
        self.wake_readers_at(id);
    }

    /// True when a leg needs a request: it has no rows, or fewer than its page still waits for.
    fn is_wanting(reader: &Reader, leg: &Leg, now: Nanos) -> bool {
        let is_filling = reader.held_count() < u64::from(reader.terms.rows_min)
            && now < reader.fill_deadline()
            && !reader.is_lingering();
        leg.rows.is_empty() || is_filling && leg.standing == LegStatus::Online
    }

    /// Returns a leg's request, by the table above.
    fn request_of(&self, reader: &Reader, index: usize, now: Nanos) -> Request {
        let leg = &reader.legs[index];
        let (rows_max, bytes_max) = reader.share(leg);
        let wait = self.config.park_wait;
        let parked = Request { rows_min: 1, rows_max, bytes_max, wait, patience: wait };
        match leg.standing {
            LegStatus::Unknown | LegStatus::Away => {
                Request { rows_min: 0, wait: WAIT_MIN, patience: Nanos(0), ..parked }
            }
            LegStatus::Online if !leg.rows.is_empty() => {
                let missing = u64::from(reader.terms.rows_min).saturating_sub(reader.held_count());
                // If all sources together have the missing rows, one of them has this share of
                // them.
                let share = missing.div_ceil(reader.legs.len() as u64) + leg.rows.len() as u64;
                let rows_min = u32::try_from(share).unwrap_or(u32::MAX).min(rows_max);
                let left = Nanos(reader.fill_deadline().0.saturating_sub(now.0)).max(WAIT_MIN);
                Request { rows_min, wait: left, patience: wait.max(left), ..parked }
            }
            LegStatus::Online | LegStatus::More | LegStatus::Behind => parked,
        }
    }

    /// Asks the best backend that takes the request.
    fn ask_for(
        &mut self,
        slot: u32,
        reader: &mut Reader,
        index: usize,
        now: Nanos,
        port: &mut impl BackendPort,
    ) {
        let scope = reader.scope.expect("only who has a scope is tended");
        for _ in 0..TRIES_MAX {
            let leg = &mut reader.legs[index];
            let choice = self.pool.choose(&wanted(leg, &scope), &self.config);
            let Some(choice) = choice.or_else(|| self.master_of_lost(leg, now)) else { return };
            if leg.backend != Some(choice.backend) || leg.standing == LegStatus::Away {
                (leg.backend, leg.standing) = (Some(choice.backend), LegStatus::Unknown);
            }
            // The router's knowledge of a store may be older than the reader's: only the store's
            // answer shows that it is behind, and until then nothing is told of its source.
            if choice.is_behind && leg.standing != LegStatus::Unknown {
                leg.standing = LegStatus::Behind;
            }
            if choice.is_forced {
                leg.standing = LegStatus::Unknown;
            }
            let request = self.request_of(reader, index, now);
            // The store may take as long as the reader allows to reach its `min_token`.
            let patience = match reader.legs[index].min {
                Some(_) => request.patience.max(Nanos(reader.min_until.0.saturating_sub(now.0))),
                None => request.patience,
            };
            let request = Request { patience, ..request };
            let asking = self.asking(slot, &reader.legs[index], &choice, &request, now);
            match self.send(reader, &Attempt { index, asking, request }, now, &mut *port) {
                FetchOutcome::Accepted => return,
                FetchOutcome::Refused(reason) if self.config.is_in_process => {
                    return reader.turn_away(reason);
                }
                FetchOutcome::Refused(reason) => {
                    self.put_aside(choice.backend, BackendFault::Refused(reason), now);
                }
            }
        }
        reader.legs[index].standing = LegStatus::Away;
    }

    /// Handles a leg whose place no backend can judge: its source is away, or, after `epoch_wait`,
    /// the master decides.
    fn master_of_lost(&mut self, leg: &mut Leg, now: Nanos) -> Option<Choice> {
        if !self.pool.has_serving(leg.source()) {
            (leg.standing, leg.lost_since) = (LegStatus::Away, None);
            return None;
        }
        leg.standing = LegStatus::Behind;
        let since = *leg.lost_since.get_or_insert(now);
        if now.0.saturating_sub(since.0) < self.config.epoch_wait.0 {
            return None;
        }
        leg.lost_since = Some(now);
        let backend = self.pool.master(leg.source())?;
        Some(Choice { backend, is_behind: false, is_forced: true })
    }

    fn asking(
        &mut self,
        slot: u32,
        leg: &Leg,
        choice: &Choice,
        request: &Request,
        now: Nanos,
    ) -> PendingRequest {
        self.asked_no = self.asked_no.wrapping_add(1);
        let after = |span: Nanos| Nanos(now.0.saturating_add(span.0));
        let patience = request.patience.0.saturating_add(self.config.answer_grace.0);
        PendingRequest {
            correlation_id: u64::from(slot) << 32 | u64::from(self.asked_no),
            backend: choice.backend,
            generation: self.pool.generation(choice.backend),
            answer_by: after(Nanos(patience)),
            slow_until: after(Nanos(patience.saturating_add(SLOW_MAX.0))),
            answers_before: self.pool.answer_count(choice.backend),
            recheck_at: choice.is_behind.then_some(after(self.config.lag_wait)),
            is_forced: choice.is_forced,
            has_min: leg.min.is_some(),
        }
    }

    /// Encodes a request for the backend and sends it.
    fn send(
        &mut self,
        reader: &mut Reader,
        attempt: &Attempt,
        now: Nanos,
        port: &mut impl BackendPort,
    ) -> FetchOutcome {
        let Attempt { index, asking, request } = *attempt;
        let scope = reader.scope.expect("only who has a scope is tended");
        let filter = scope.filter();
        let fetch = FetchOrders {
            correlation_id: asking.correlation_id,
            session_id: reader.head.session_id,
            firm_id: filter.firm_id,
            account_id: filter.account_id,
            instrument_id: filter.instrument_id,
            rows_max: request.rows_max,
            rows_min: request.rows_min,
            bytes_max: request.bytes_max,
            wait_max_us: u32::try_from(request.wait.0 / 1_000).unwrap_or(u32::MAX),
            credit: 1,
            live_only: if filter.live_only { Switch::On } else { Switch::Off },
            source_id: reader.legs[index].source(),
            min_wait_us: min_wait_us(reader, now),
            // The reader's own credit is counted here, by the router that makes its pages.
            credit_rows: 0,
            credit_bytes: 0,
        };
        let (entitlement, scope) = self.rights_at(asking.backend, &reader.terms, &scope);
        let leg = &mut reader.legs[index];
        self.token.clear();
        if leg.at.change_id != ChangeId::START {
            self.sealer.seal(&scope, &[leg.at], &mut self.token);
        }
        self.min_token.clear();
        if let Some(min) = leg.min {
            self.sealer.seal(&scope, &[min], &mut self.min_token);
        }
        let (token, min_token) = (&self.token[..], &self.min_token[..]);
        let ask = BackendRequest {
            backend: asking.backend,
            fetch: &fetch,
            token,
            min_token,
            entitlement,
        };
        let asked = port.ask(&ask, now);
        if asked == FetchOutcome::Accepted {
            self.pool.asked(asking.backend);
            self.figures.asked_count += 1;
            leg.asking = Some(asking);
        }
        asked
    }

    /// Returns the rights under which a backend answers, and the scope of its tokens: the reader's
    /// filter, already restricted to its entitlement, under those rights.
    pub(super) fn rights_at(
        &self,
        id: BackendId,
        terms: &Terms,
        scope: &Scope,
    ) -> (Entitlement, Scope) {
        let entitlement = self.pool.info(id).entitlement.unwrap_or(terms.entitlement);
        // A backend that may see less than the reader refuses the request itself.
        (entitlement, Scope::new(*scope.filter(), entitlement).unwrap_or(*scope))
    }
}

/// Returns the time left for the reader's `min_token`, in microseconds: at least one, because zero
/// stands for the store's default.
fn min_wait_us(reader: &Reader, now: Nanos) -> u32 {
    let left = reader.min_until.0.saturating_sub(now.0) / 1_000;
    u32::try_from(left).unwrap_or(u32::MAX).max(1)
}

fn wanted(leg: &Leg, scope: &Scope) -> BackendCriteria {
    let filter = scope.filter();
    let has_no_key =
        filter.firm_id.is_none() && filter.account_id.is_none() && filter.instrument_id.is_none();
    let (current, avoided) = (leg.backend, leg.avoided);
    BackendCriteria { at: leg.wanted_cursor(), is_keyed: !has_no_key, current, avoided }
}
