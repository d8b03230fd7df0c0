//! The naive engine's mass cancels and lost sessions: every visit is the first of a list of all
//! that remain.

use weir_types::{
    AccountId, ClOrdId, ExecType, FirmId, InstrumentId, KillScope, MassCancelScope, Nanos, Phase,
    Reason, Rec, RequestNo, Role, SessionId,
};
use weir_wire::order_entry::MassCancel;
use weir_wire::reference::KillSwitch;
use weir_wire::{PlainEvent, Request};

use super::say::News;
use super::timers::Timer;
use super::{NaiveEngine, Order, Session};
use crate::config::EventSink;
use crate::digest::{SweepParts, sweep_word};
use crate::sweep::{firm_sweeps_max, tick_visits_max};

/// A mass cancel, or the cancel of a lost session, in progress.
#[derive(Clone, Copy)]
pub(super) struct Sweep {
    session_id: SessionId,
    /// The request; `None` for a lost session.
    request: Option<SweepRequest>,
    /// The highest record at the time of the command.
    last_rec: u64,
    /// The last visit.
    visited: Option<Visit>,
    ended_count: u64,
}

/// A request that ends orders in steps.
#[derive(Clone, Copy)]
pub(super) enum SweepRequest {
    /// A mass cancel.
    Cancel(MassCancel),
    /// A kill switch that cancels.
    Kill(KillSwitch),
}

impl SweepRequest {
    fn request(self) -> Request {
        match self {
            SweepRequest::Cancel(m) => Request::MassCancel(m),
            SweepRequest::Kill(m) => Request::KillSwitch(m),
        }
    }

    fn request_no(self) -> RequestNo {
        self.request().request_no()
    }

    fn cl_ord_id(self) -> ClOrdId {
        match self {
            SweepRequest::Cancel(m) => m.cl_ord_id,
            SweepRequest::Kill(_) => ClOrdId::NONE,
        }
    }

    /// The only instrument; zero for all.
    fn instrument_id(self) -> InstrumentId {
        match self {
            SweepRequest::Cancel(m) => m.instrument_id,
            SweepRequest::Kill(_) => InstrumentId(0),
        }
    }

    fn reason(self) -> Reason {
        match self {
            SweepRequest::Cancel(_) => Reason::MassCancel,
            SweepRequest::Kill(_) => Reason::Killed,
        }
    }
}

/// The ends and visits that a command or a tick still makes, the ends by timers among them.
#[derive(Clone, Copy)]
struct Left {
    ends: i64,
    by_timers: i64,
    visits: u32,
}

/// A rule of steps that a command reached. Scripts that reach none of them test little of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepRule {
    /// A sweep has had its part of a tick: the turn is another's of its kind.
    TurnOver,
    /// A sweep had the rest of a tick, and keeps its turn before another of its kind.
    RestKeepsTurn,
    /// A sweep that is over leaves the rest of its part to the next of its kind.
    RestToNext,
    /// Losses leave a part of their half to mass cancels in progress.
    RestToMassCancels,
    /// Mass cancels leave a part of theirs to losses in progress.
    RestToLosses,
    /// Timers in the half of losses changed more than that: the mass cancels' half is smaller.
    ExcessOffMassCancels,
    /// Timers of a tick changed more than it may: sweeps in progress take no step.
    ExcessStopsSteps,
    /// The orders of a lost session wait for the turn of its loss.
    LossWaits,
    /// A step fired a timer before the end of an order.
    TimerInStep,
    /// The last timer of a step changed more orders than were left.
    TimerExceedsStep,
    /// A step ended because it may fire no other timer.
    TimerWaits,
    /// A step ended for the number of its visits.
    VisitsUsedUp,
    /// A change of phase by a timer counted orders at which it looked.
    LooksCount,
}

impl StepRule {
    /// All rules of steps.
    pub const ALL: &'static [StepRule] = &[
        StepRule::TurnOver,
        StepRule::RestKeepsTurn,
        StepRule::RestToNext,
        StepRule::RestToMassCancels,
        StepRule::RestToLosses,
        StepRule::ExcessOffMassCancels,
        StepRule::ExcessStopsSteps,
        StepRule::LossWaits,
        StepRule::TimerInStep,
        StepRule::TimerExceedsStep,
        StepRule::TimerWaits,
        StepRule::VisitsUsedUp,
        StepRule::LooksCount,
    ];
}

/// The number of a session in order of definition, and one of its orders; zero for the session
/// itself.
type Visit = (usize, Rec);

impl NaiveEngine {
    pub(super) fn begin_sweep_request<S: EventSink>(&mut self, asked: SweepRequest, out: &mut S) {
        let sweep = Sweep {
            session_id: asked.request().session_id(),
            request: Some(asked),
            last_rec: self.rec,
            visited: None,
            ended_count: 0,
        };
        self.begin(sweep, out);
    }

    pub(super) fn begin_loss<S: EventSink>(&mut self, session_id: SessionId, out: &mut S) {
        if !self.sessions.contains_key(&session_id) {
            return;
        }
        let last_rec = self.rec;
        for sweep in &mut self.sweeps {
            if sweep.session_id == session_id && sweep.request.is_none() {
                (sweep.last_rec, sweep.visited) = (last_rec, None);
                return;
            }
        }
        let sweep = Sweep { session_id, request: None, last_rec, visited: None, ended_count: 0 };
        let is_another_on = self.sweeps.iter().any(|one| one.request.is_none());
        let its = self.orders.values().filter(|one| one.now.session_id == session_id);
        if is_another_on && its.count() > self.config.tick_changes_max as usize {
            self.reached.push(StepRule::LossWaits);
            self.sweeps.push(sweep);
        } else {
            self.begin(sweep, out);
        }
    }

    fn begin<S: EventSink>(&mut self, mut sweep: Sweep, out: &mut S) {
        let mut left = Left {
            ends: self.config.sweep_ends_max.into(),
            by_timers: self.config.tick_changes_max.into(),
            visits: self.config.sweep_visits_max,
        };
        let is_over = self.step(&mut sweep, &mut left, out);
        if !is_over {
            self.sweeps.push(sweep);
        }
        let Some(asked) = sweep.request else { return };
        let request = asked.request();
        if is_over {
            self.say_done(&request, sweep.ended_count, out);
        } else {
            // Holds the answer's place.
            let event = PlainEvent::RequestDone(self.done_without_number(&request, 0));
            self.remember(sweep.session_id, asked.request_no(), event);
        }
    }

    /// Takes a tick's steps: losses have half of its ends and visits, the greater one of odd
    /// numbers. Mass cancels have the rest, less the ends that losses made beyond their half, and
    /// losses again what is left then.
    pub(super) fn continue_all<S: EventSink>(&mut self, out: &mut S) {
        let mut left = self.continue_some(true, self.half_of_tick(true), out);
        if left.ends < 0 && self.has(false) {
            self.reached.push(StepRule::ExcessOffMassCancels);
        } else if left.ends > 0 && left.visits > 0 && self.has(false) {
            self.reached.push(StepRule::RestToMassCancels);
        }
        let for_others = self.half_of_tick(false);
        left.ends += for_others.ends;
        left.visits += for_others.visits;
        let left = self.continue_some(false, left, out);
        if left.ends > 0 && left.visits > 1 && self.has(true) {
            self.reached.push(StepRule::RestToLosses);
        }
        self.continue_some(true, left, out);
    }

    /// Returns true while a loss, or a mass cancel, is in progress.
    fn has(&self, is_loss: bool) -> bool {
        self.sweeps.iter().any(|one| one.request.is_none() == is_loss)
    }

    /// Takes no step in a tick.
    pub(super) fn pass_steps(&mut self) {
        if !self.sweeps.is_empty() {
            self.reached.push(StepRule::ExcessStopsSteps);
        }
    }

    fn half_of_tick(&self, is_loss: bool) -> Left {
        let half = |whole: u32| if is_loss { whole - whole / 2 } else { whole / 2 };
        let ends = half(self.config.tick_changes_max.max(2)).into();
        Left { ends, by_timers: 0, visits: half(tick_visits_max(&self.config)) }
    }

    /// Takes steps of losses, or of mass cancels: of the next in turn, and of the next while there
    /// is room. The first one's turn is over, unless it had less than the kind's half; one of the
    /// others that has not ended stays where it is. Returns the room that is left.
    fn continue_some<S: EventSink>(&mut self, is_loss: bool, mut left: Left, out: &mut S) -> Left {
        let turn = self.half_of_tick(is_loss);
        let mut is_first = true;
        while left.ends > 0
            && left.visits > 1
            && let Some(at) = self.sweeps.iter().position(|one| one.request.is_none() == is_loss)
        {
            let has_turn = is_first && left.ends >= turn.ends && left.visits >= turn.visits;
            is_first = false;
            left.visits -= 1;
            // A tick's timers take what its ends may take.
            left.by_timers = left.ends;
            let mut sweep = self.sweeps.remove(at);
            let is_over = self.step(&mut sweep, &mut left, out);
            if self.has(is_loss) {
                self.reached.push(match (is_over, has_turn) {
                    (true, _) => StepRule::RestToNext,
                    (false, true) => StepRule::TurnOver,
                    (false, false) => StepRule::RestKeepsTurn,
                });
            }
            if is_over {
                self.end_sweep(&sweep, out);
            } else if has_turn {
                self.sweeps.push(sweep);
            } else {
                self.sweeps.insert(at, sweep);
            }
        }
        left
    }

    fn end_sweep<S: EventSink>(&mut self, sweep: &Sweep, out: &mut S) {
        let Some(asked) = sweep.request else { return };
        let done = self.done_without_number(&asked.request(), sweep.ended_count);
        self.say_done_late(sweep.session_id, asked.request_no(), done, out);
    }

    fn step<S: EventSink>(&mut self, sweep: &mut Sweep, left: &mut Left, out: &mut S) -> bool {
        while left.visits > 0 && left.ends > 0 {
            let Some(visit) = self.remaining(sweep).first().copied() else { return true };
            left.visits -= 1;
            let (_, rec) = visit;
            if let Some((at, timer)) = self.due_before_end(sweep, rec) {
                if left.by_timers <= 0 {
                    self.reached.push(StepRule::TimerWaits);
                    return false;
                }
                self.reached.push(StepRule::TimerInStep);
                let changes = self.run(at, timer, out) as i64;
                left.ends -= changes;
                left.by_timers -= changes;
                if left.ends < 0 {
                    self.reached.push(StepRule::TimerExceedsStep);
                }
                continue;
            }
            sweep.visited = Some(visit);
            if rec == Rec(0) || !self.is_meant(sweep, &self.orders[&rec]) {
                continue;
            }
            left.ends -= 1;
            sweep.ended_count += 1;
            let is_own = self.orders[&rec].now.session_id == sweep.session_id;
            let news = match &sweep.request {
                Some(asked) if is_own => {
                    News::of(ExecType::Canceled, asked.reason(), asked.request_no())
                }
                Some(asked) => News::of(ExecType::Canceled, asked.reason(), RequestNo(0)),
                None => News::of(ExecType::Canceled, Reason::SessionLost, RequestNo(0)),
            };
            self.end(rec, &news, out);
        }
        let is_over = self.remaining(sweep).is_empty();
        if !is_over && left.visits == 0 && left.ends > 0 {
            self.reached.push(StepRule::VisitsUsedUp);
        }
        is_over
    }

    /// Returns the due timer that comes first before the end of an order that the sweep covers:
    /// until the last due change of its instrument's phase each of the instrument, then its own
    /// expiry. Record zero is none.
    fn due_before_end(&self, sweep: &Sweep, rec: Rec) -> Option<(Nanos, Timer)> {
        let order = self.orders.get(&rec)?;
        if !self.is_covered(sweep, order) {
            return None;
        }
        let due = self.due_of(order.now.instrument_id);
        if due.iter().any(|(_, timer)| !matches!(timer, Timer::Expiry(_))) {
            return due.first().copied();
        }
        due.into_iter().find(|(_, timer)| *timer == Timer::Expiry(rec))
    }

    /// Returns the visits that a sweep has still to make, in order.
    fn remaining(&self, sweep: &Sweep) -> Vec<Visit> {
        let mut visits = Vec::new();
        for (session_id, session) in &self.sessions {
            if self.is_entered(sweep, *session_id, session) {
                visits.push((session.number, Rec(0)));
            }
        }
        for order in self.orders.values().filter(|order| order.rec.0 <= sweep.last_rec) {
            let session_id = order.now.session_id;
            let session = &self.sessions[&session_id];
            if self.is_entered(sweep, session_id, session) {
                visits.push((session.number, order.rec));
            }
        }
        visits.retain(|visit| sweep.visited.is_none_or(|visited| *visit > visited));
        visits.sort_unstable();
        visits
    }

    /// Returns true if the sweep looks at a session's orders.
    fn is_entered(&self, sweep: &Sweep, session_id: SessionId, session: &Session) -> bool {
        let m = match &sweep.request {
            None => return session_id == sweep.session_id,
            Some(SweepRequest::Kill(m)) => {
                return match m.scope {
                    KillScope::All => true,
                    KillScope::Firm => session.firm_id == FirmId(m.id),
                    KillScope::Account => {
                        session.firm_id == self.accounts[&AccountId(m.id)].firm_id
                    }
                    KillScope::Session => session_id == SessionId(m.id),
                };
            }
            Some(SweepRequest::Cancel(m)) => m,
        };
        match m.scope {
            MassCancelScope::Session => session_id == sweep.session_id,
            MassCancelScope::Account => session.firm_id == self.accounts[&m.account_id].firm_id,
            MassCancelScope::Firm => session.firm_id == self.swept_firm(m),
            MassCancelScope::Instrument => true,
        }
    }

    fn swept_firm(&self, m: &MassCancel) -> FirmId {
        let asker = &self.sessions[&m.session_id];
        if asker.role == Role::Operator { m.firm_id } else { asker.firm_id }
    }

    fn is_covered(&self, sweep: &Sweep, order: &Order) -> bool {
        sweep.request.is_none_or(|asked| match asked {
            SweepRequest::Kill(m) => {
                m.scope != KillScope::Account || order.now.account_id == AccountId(m.id)
            }
            SweepRequest::Cancel(m) => {
                (m.scope != MassCancelScope::Account || order.now.account_id == m.account_id)
                    && (m.instrument_id.0 == 0 || m.instrument_id == order.now.instrument_id)
            }
        })
    }

    /// Returns true if the sweep cancels an order that it covers: in a closed instrument only those
    /// of lost sessions, and for operators.
    fn is_meant(&self, sweep: &Sweep, order: &Order) -> bool {
        let is_closed = self.instruments[&order.now.instrument_id].phase == Phase::Closed;
        let is_of_firm = self.sessions[&sweep.session_id].role != Role::Operator;
        self.is_covered(sweep, order) && !(is_closed && sweep.request.is_some() && is_of_firm)
    }

    pub(super) fn is_in_progress(&self, session_id: SessionId, request_no: RequestNo) -> bool {
        let is_swept = self.sweeps.iter().any(|sweep| {
            sweep.session_id == session_id
                && sweep.request.is_some_and(|asked| asked.request_no() == request_no)
        });
        is_swept || self.group_request_of(session_id) == Some(request_no)
    }

    pub(super) fn check_sweep(&self, session_id: SessionId) -> Result<(), Reason> {
        let asked: Vec<SessionId> = (self.sweeps.iter())
            .filter(|sweep| sweep.request.is_some())
            .map(|sweep| sweep.session_id)
            .collect();
        let is_operator = self.sessions[&session_id].role == Role::Operator;
        let firm_of = |id: SessionId| self.sessions[&id].firm_id;
        let of_firm = asked.iter().filter(|id| firm_of(**id) == firm_of(session_id)).count();
        let sweeps_max = self.config.sweeps_max as usize;
        let has_room =
            is_operator || asked.len() < sweeps_max && of_firm < firm_sweeps_max(sweeps_max);
        if has_room && !asked.contains(&session_id) {
            Ok(())
        } else {
            Err(Reason::TooManyMassCancels)
        }
    }

    pub(super) fn sweeps_word(&self) -> u64 {
        let (losses, others): (Vec<&Sweep>, Vec<&Sweep>) =
            self.sweeps.iter().partition(|sweep| sweep.request.is_none());
        let places = (0..).zip(losses).chain((0..).zip(others));
        let words = places.map(|(place, sweep)| {
            let next = self.remaining(sweep).first().map(|(number, rec)| {
                let session = self.sessions.iter().find(|(_, one)| one.number == *number);
                (*session.expect("it was listed").0, *rec)
            });
            let lost = (MassCancelScope::Session.code(), 0);
            let scope = sweep.request.map_or(lost, |asked| {
                let m = match asked {
                    SweepRequest::Cancel(m) => m,
                    SweepRequest::Kill(m) => {
                        return match m.scope {
                            KillScope::All => (MassCancelScope::Instrument.code(), 0),
                            KillScope::Firm => (MassCancelScope::Firm.code(), m.id),
                            KillScope::Account => (MassCancelScope::Account.code(), m.id),
                            // Beside the codes of mass cancels.
                            KillScope::Session => (4, m.id),
                        };
                    }
                };
                let id = match m.scope {
                    MassCancelScope::Session | MassCancelScope::Instrument => 0,
                    MassCancelScope::Account => m.account_id.0,
                    MassCancelScope::Firm => self.swept_firm(&m).0,
                };
                (m.scope.code(), id)
            });
            sweep_word(&SweepParts {
                place,
                session_id: sweep.session_id,
                request_no: sweep.request.map_or(RequestNo(0), SweepRequest::request_no),
                is_of_kill: matches!(sweep.request, Some(SweepRequest::Kill(_))),
                cl_ord_id: sweep.request.map(SweepRequest::cl_ord_id).unwrap_or_default(),
                scope,
                instrument_id: sweep.request.map_or(InstrumentId(0), SweepRequest::instrument_id).0,
                bound: Rec(sweep.last_rec),
                next,
                ended_count: sweep.ended_count,
            })
        });
        words.fold(0, u64::wrapping_add)
    }
}
