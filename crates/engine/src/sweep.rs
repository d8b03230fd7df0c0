//! Sweeps: mass cancels, those of kill switches among them, and cancels of lost sessions, in
//! bounded steps.
//!
//! The command takes the first step; while something remains, each `Tick` takes smaller ones. Half
//! of a tick is for losses, half for mass cancels, so that neither kind waits for the other, and a
//! kind takes the part that the other has left. Among sweeps of a kind each has its turn; if it is
//! over before the part is, the next one has the rest, and keeps its turn. Orders end by session in
//! order of definition, and within a session by `rec`. Orders entered after the command are not
//! touched.
//!
//! | a step ends | when |
//! | --- | --- |
//! | the sweep | no session and no order remains in its scope |
//! | the command's part | `sweep_ends_max` orders changed, or `sweep_visits_max` visits were made |
//! | the same | a timer is due before the next order, and `tick_changes_max` changed by timers |
//! | the parts of a tick | `tick_changes_max` orders changed, or so many visits in proportion |
//!
//! A visit is a session entered or an order looked at, ended or not. The loss of a session with
//! orders takes no first step while another loss is in progress: hundreds of sessions may be lost
//! at once, and their commands come one behind the other.
//!
//! Timers may be due that come before the end of an order: a change of its instrument's phase, and
//! its own expiry. The step fires them when it is at the order, and counts their changes as its
//! own. So no order is cancelled whose time to expire has come, and no sweep waits for the timers
//! of other instruments, or for other orders' expiries. The last of these timers may change more
//! orders than the step has left: in a tick the parts behind it lose so many.
//!
//! INVARIANT: between commands a sweep's next order lives, belongs to the session at which the
//! sweep is, and is not newer than its bound.

use weir_types::{ClOrdId, KillScope, MassCancelScope, Phase, Reason, Rec, RequestNo, Role};
use weir_wire::Message;
use weir_wire::order_entry::MassCancel;
use weir_wire::reference::KillSwitch;

use crate::config::{EngineConfig, EventSink};
use crate::digest::{SweepParts, sweep_word};
use crate::emit::Requester;
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::order::Order;
use crate::plant::{self, Plant};

/// The orders that a sweep covers, before the restriction to an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepScope {
    /// The sweep's own session.
    Session,
    /// An account.
    Account(Slot),
    /// A firm.
    Firm(Slot),
    /// All sessions: with an instrument, or of a kill switch.
    Partition,
    /// Another session than the sweep's own.
    Other(Slot),
}

/// The code of [`SweepScope::Other`], beside those of mass cancels.
pub(crate) const OTHER_SESSION: u8 = 4;

impl SweepScope {
    /// Returns the scope's code in a snapshot and in the digest, and its slot.
    pub(crate) fn code(self) -> (u8, Slot) {
        match self {
            SweepScope::Session => (MassCancelScope::Session.code(), 0),
            SweepScope::Account(slot) => (MassCancelScope::Account.code(), slot),
            SweepScope::Firm(slot) => (MassCancelScope::Firm.code(), slot),
            SweepScope::Partition => (MassCancelScope::Instrument.code(), 0),
            SweepScope::Other(slot) => (OTHER_SESSION, slot),
        }
    }
}

/// The kinds of sweeps. Those of a kind take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SweepKind {
    /// The cancel of a lost session's orders.
    Loss,
    /// A mass cancel.
    MassCancel,
}

/// A mass cancel, or the cancel of a lost session's orders, in progress.
#[derive(Clone, Copy)]
pub(crate) struct Sweep {
    /// The asking session, or the lost one.
    pub(crate) session: Slot,
    /// The mass cancel's number; zero for a lost session.
    pub(crate) request_no: RequestNo,
    /// True if a kill switch asked for it.
    pub(crate) is_of_kill: bool,
    pub(crate) cl_ord_id: ClOrdId,
    pub(crate) scope: SweepScope,
    /// The only instrument; [`NIL`] for all.
    pub(crate) instrument: Slot,
    /// The highest record at the time of the command.
    pub(crate) bound: Rec,
    /// The session at which it is: that of the next order, or the first that may be entered next.
    pub(crate) at: Slot,
    /// The next order; [`NIL`] when a session is entered next.
    pub(crate) next: Slot,
    /// Orders ended so far.
    pub(crate) ended_count: u64,
}

/// The part of sweeps that a command or a tick still takes.
#[derive(Clone, Copy)]
struct SweepPart {
    /// Below zero after a timer that changed more orders than were left.
    changes_left: i64,
    /// The changes of orders by timers. INVARIANT: in a tick's part no fewer than `changes_left`.
    timer_changes_left: i64,
    visits_left: u32,
}

/// The timers before the end of a sweep's next order.
enum BeforeEnd {
    /// None is due.
    Nothing,
    /// One has fired; there may be others.
    Fired,
    /// One is due, and the part has no room for it.
    Waits,
}

impl SweepPart {
    fn of_command(config: &EngineConfig) -> SweepPart {
        SweepPart {
            changes_left: config.sweep_ends_max.into(),
            timer_changes_left: if plant::is(Plant::StepTimersUnbounded) {
                config.sweep_ends_max.into()
            } else {
                config.tick_changes_max.into()
            },
            visits_left: config.sweep_visits_max,
        }
    }

    /// Returns a tick's part for a kind of sweeps.
    fn half_of_tick(config: &EngineConfig, kind: SweepKind) -> SweepPart {
        let half = |whole: u32| match kind {
            SweepKind::Loss => whole.div_ceil(2),
            SweepKind::MassCancel => whole / 2,
        };
        let changes_left = i64::from(half(config.tick_changes_max.max(2)));
        let visits_left = half(tick_visits_max(config));
        SweepPart { changes_left, timer_changes_left: changes_left, visits_left }
    }

    fn is_over(&self) -> bool {
        self.changes_left <= 0 || self.visits_left == 0
    }

    /// Returns true if a turn has room for the look at its sweep and for a visit.
    fn has_turn(&self) -> bool {
        self.changes_left > 0 && self.visits_left > 1
    }

    /// Returns true if it is at least as large as another part.
    fn covers(&self, other: &SweepPart) -> bool {
        self.changes_left >= other.changes_left && self.visits_left >= other.visits_left
    }

    /// Takes the rest of another part, or the changes by which that one was exceeded.
    fn add(&mut self, rest: &SweepPart) {
        let changes_left = rest.changes_left;
        if changes_left > 0 || !plant::is(Plant::TickForgetsExcess) {
            self.changes_left += changes_left;
            self.timer_changes_left += rest.timer_changes_left;
        }
        self.visits_left += rest.visits_left;
    }
}

/// Returns the most visits of a tick, in the proportion of a command's to its ends. The look at a
/// sweep whose turn it is counts as one: with two for each kind, both get on.
pub(crate) fn tick_visits_max(config: &EngineConfig) -> u32 {
    let [of_command, ends, of_tick] =
        [config.sweep_visits_max, config.sweep_ends_max, config.tick_changes_max].map(u64::from);
    u32::try_from(of_command * of_tick / ends).unwrap_or(u32::MAX).max(4)
}

/// Returns the number of orders at which a change of phase looks for one change of its cost, in the
/// proportion of a command's visits to its ends.
pub(crate) fn looks_per_change(config: &EngineConfig) -> u64 {
    u64::from(config.sweep_visits_max / config.sweep_ends_max).max(1)
}

impl Sweep {
    pub(crate) fn kind(&self) -> SweepKind {
        if self.request_no.is_none() { SweepKind::Loss } else { SweepKind::MassCancel }
    }

    pub(crate) fn is_of_lost(&self) -> bool {
        self.kind() == SweepKind::Loss
    }
}

impl Engine {
    /// Returns the sweep of a checked mass cancel, before its first step.
    pub(crate) fn sweep_of(&self, asker: Requester, m: &MassCancel) -> Sweep {
        let scope = match m.scope {
            MassCancelScope::Session => SweepScope::Session,
            MassCancelScope::Account => {
                SweepScope::Account(self.accounts.find(m.account_id.0).expect("checked before"))
            }
            MassCancelScope::Firm => {
                let own = self.sessions[asker.session].firm;
                let named = || self.firms.find(m.firm_id.0).expect("checked before");
                SweepScope::Firm(if own == NIL { named() } else { own })
            }
            MassCancelScope::Instrument => SweepScope::Partition,
        };
        let instrument = self.instruments.find(m.instrument_id.0);
        Sweep {
            session: asker.session,
            request_no: asker.request_no,
            is_of_kill: false,
            cl_ord_id: m.cl_ord_id,
            scope,
            instrument: instrument.unwrap_or(NIL),
            bound: self.rec,
            at: if scope == SweepScope::Session { asker.session } else { 0 },
            next: NIL,
            ended_count: 0,
        }
    }

    /// Returns the sweep of a checked kill switch, before its first step.
    pub(crate) fn sweep_of_kill(&self, asker: Requester, m: &KillSwitch) -> Sweep {
        let known = |slot: Option<Slot>| slot.expect("checked before");
        let scope = match m.scope {
            KillScope::All => SweepScope::Partition,
            KillScope::Firm => SweepScope::Firm(known(self.firms.find(m.id))),
            KillScope::Account => SweepScope::Account(known(self.accounts.find(m.id))),
            KillScope::Session => SweepScope::Other(known(self.sessions.find(m.id))),
        };
        Sweep {
            session: asker.session,
            request_no: asker.request_no,
            is_of_kill: true,
            cl_ord_id: ClOrdId::NONE,
            scope,
            instrument: NIL,
            bound: self.rec,
            at: if let SweepScope::Other(session) = scope { session } else { 0 },
            next: NIL,
            ended_count: 0,
        }
    }

    /// Takes a sweep's first step, and files it when something remains.
    pub(crate) fn begin_sweep<S: EventSink>(&mut self, mut sweep: Sweep, out: &mut S) {
        let mut part = SweepPart::of_command(&self.config);
        let is_over = self.step_sweep(&mut sweep, &mut part, out);
        let (asker, is_asked) = (sweep_asker(&sweep), !sweep.is_of_lost());
        match (is_over, is_asked) {
            (true, true) => self.say_done(asker, sweep.cl_ord_id, sweep.ended_count, out),
            (true, false) => {}
            (false, _) => {
                if is_asked && !S::IS_ONLY_HEARER {
                    self.remember_begun(asker, sweep.cl_ord_id);
                }
                self.sweeps.push_back(sweep);
            }
        }
    }

    /// Begins the cancel of a lost session's orders. One that is in progress begins again instead,
    /// and covers the orders entered since.
    pub(crate) fn sweep_lost<S: EventSink>(&mut self, session: Slot, out: &mut S) {
        let bound = self.rec;
        if let Some(mut sweep) = self.sweeps.of_lost(session) {
            if !plant::is(Plant::SecondLossIgnored) {
                (sweep.bound, sweep.at, sweep.next) = (bound, session, NIL);
                self.sweeps.put(sweep);
            }
            return;
        }
        let sweep = Sweep {
            session,
            request_no: RequestNo::NONE,
            is_of_kill: false,
            cl_ord_id: ClOrdId::NONE,
            scope: SweepScope::Session,
            instrument: NIL,
            bound,
            at: session,
            next: NIL,
            ended_count: 0,
        };
        let few = self.config.tick_changes_max;
        if self.sweeps.has_lost()
            && self.sessions[session].live.count() > few
            && !plant::is(Plant::LossDoesNotWait)
        {
            self.sweeps.push_back(sweep);
        } else {
            self.begin_sweep(sweep, out);
        }
    }

    /// Takes a tick's steps: half of them is for losses, half for mass cancels, and each kind takes
    /// the rest of the other's.
    pub(crate) fn continue_sweeps<S: EventSink>(&mut self, out: &mut S) {
        if self.sweeps.is_empty() {
            return;
        }
        if plant::is(Plant::NewestSweepFirst) {
            self.sweeps.reverse();
        }
        let [mut of_losses, mut of_others] = [SweepKind::Loss, SweepKind::MassCancel]
            .map(|kind| SweepPart::half_of_tick(&self.config, kind));
        if plant::is(Plant::TickForLossesFirst) {
            of_losses.add(&of_others);
            of_others = SweepPart { changes_left: 0, timer_changes_left: 0, visits_left: 0 };
        }
        self.step_in_turn(SweepKind::Loss, &mut of_losses, out);
        if of_losses.changes_left < 0 || !plant::is(Plant::RestOfLossesUnused) {
            of_others.add(&of_losses);
        }
        self.step_in_turn(SweepKind::MassCancel, &mut of_others, out);
        if !plant::is(Plant::RestOfMassCancelsUnused) {
            self.step_in_turn(SweepKind::Loss, &mut of_others, out);
        }
        if plant::is(Plant::NewestSweepFirst) {
            self.sweeps.reverse();
        }
    }

    /// Takes steps of sweeps of a kind, each of the sweep whose turn it is: none waits for another
    /// to end, and those with few orders left share a tick. The turn of a sweep is over when it has
    /// had all of `part`, and this was at least the kind's half: behind others it may get little.
    fn step_in_turn<S: EventSink>(&mut self, kind: SweepKind, part: &mut SweepPart, out: &mut S) {
        let mut is_turn = part.covers(&SweepPart::half_of_tick(&self.config, kind));
        while part.has_turn()
            && let Some(mut sweep) = self.sweeps.pop_front(kind)
        {
            // A sweep that finds nothing is a look at it.
            if !plant::is(Plant::LookUncounted) {
                part.visits_left -= 1;
            }
            let is_over = self.step_sweep(&mut sweep, part, out);
            if is_over && plant::is(Plant::RestNotShared) {
                part.visits_left = 0;
            }
            let had_turn = std::mem::replace(&mut is_turn, false) || plant::is(Plant::RestIsTurn);
            if !is_over && had_turn && !plant::is(Plant::TurnKept) {
                self.sweeps.push_back(sweep);
            } else if !is_over {
                self.sweeps.push_front(sweep);
            } else if !sweep.is_of_lost() {
                let asker = sweep_asker(&sweep);
                let done = self.done(asker, sweep.cl_ord_id, sweep.ended_count);
                self.say_done_late(asker, done, out);
            }
        }
    }

    /// Takes a step; returns true when nothing remains.
    fn step_sweep<S: EventSink>(
        &mut self,
        sweep: &mut Sweep,
        part: &mut SweepPart,
        out: &mut S,
    ) -> bool {
        while !part.is_over() {
            if sweep.next == NIL {
                let Some(session) = self.session_to_enter(sweep) else { break };
                part.visits_left -= 1;
                sweep.at = session;
                self.aim(sweep, self.sessions[session].first_order());
                continue;
            }
            part.visits_left -= 1;
            let slot = sweep.next;
            if self.timers.is_due(self.time) {
                match self.fire_before_end(sweep, part, out) {
                    BeforeEnd::Nothing => {}
                    BeforeEnd::Fired => continue,
                    BeforeEnd::Waits => break,
                }
            }
            self.aim(sweep, self.orders[slot].session_next);
            if !self.is_swept(sweep, &self.orders[slot]) {
                continue;
            }
            let is_own = self.orders[slot].session == sweep.session;
            let reason = match sweep.kind() {
                SweepKind::Loss => Reason::SessionLost,
                SweepKind::MassCancel if sweep.is_of_kill => Reason::Killed,
                SweepKind::MassCancel => Reason::MassCancel,
            };
            let request_no = if is_own { sweep.request_no } else { RequestNo::NONE };
            self.cancel_resting(slot, reason, request_no, out);
            part.changes_left -= 1;
            sweep.ended_count += 1;
        }
        sweep.next == NIL && self.session_to_enter(sweep).is_none()
    }

    /// Fires a due timer that comes before the end of the sweep's next order. It may end that order
    /// and others.
    #[cold]
    fn fire_before_end<S: EventSink>(
        &mut self,
        sweep: &mut Sweep,
        part: &mut SweepPart,
        out: &mut S,
    ) -> BeforeEnd {
        if !self.is_in_scope(sweep, &self.orders[sweep.next]) {
            return BeforeEnd::Nothing;
        }
        let Some(due) = self.due_before_end(sweep.next) else { return BeforeEnd::Nothing };
        if part.timer_changes_left <= 0 {
            return BeforeEnd::Waits;
        }
        // An order that the timer ends may be the sweep's next one.
        self.sweeps.push_front(*sweep);
        let change_count = self.fire(due, out);
        *sweep = self.sweeps.pop_front(sweep.kind()).expect("it was added just now");
        let change_count = i64::try_from(change_count).expect("a few for each order");
        if !plant::is(Plant::SweepFiresUncounted) {
            part.changes_left -= change_count;
            part.timer_changes_left -= change_count;
        }
        BeforeEnd::Fired
    }

    /// Makes `slot` a sweep's next order; where it is none, or too new, the session is over.
    fn aim(&self, sweep: &mut Sweep, slot: Slot) {
        let is_newer = |slot: Slot| self.orders[slot].rec > sweep.bound;
        if slot == NIL || is_newer(slot) && !plant::is(Plant::SweepTakesNewer) {
            sweep.at += 1;
            sweep.next = NIL;
        } else {
            sweep.next = slot;
        }
    }

    /// Returns the first session in the scope that was not entered yet.
    fn session_to_enter(&self, sweep: &Sweep) -> Option<Slot> {
        let of_firm = |firm: Slot| {
            let sessions = &self.firms[firm].sessions;
            sessions.get(sessions.partition_point(|session| *session < sweep.at)).copied()
        };
        match sweep.scope {
            SweepScope::Session => (sweep.at <= sweep.session).then_some(sweep.session),
            SweepScope::Other(session) => (sweep.at <= session).then_some(session),
            SweepScope::Account(account) => of_firm(self.accounts[account].firm),
            SweepScope::Firm(firm) => of_firm(firm),
            SweepScope::Partition => {
                ((sweep.at as usize) < self.sessions.rows().len()).then_some(sweep.at)
            }
        }
    }

    /// Returns true if the sweep ends the order: now, since phases may change in between.
    fn is_swept(&self, sweep: &Sweep, order: &Order) -> bool {
        let reaches_closed =
            sweep.is_of_lost() || self.sessions[sweep.session].role == Role::Operator;
        self.is_in_scope(sweep, order)
            && (reaches_closed || self.instruments[order.instrument].phase != Phase::Closed)
    }

    /// Returns true if the sweep covers the order, which is of a session that the sweep enters.
    fn is_in_scope(&self, sweep: &Sweep, order: &Order) -> bool {
        let is_of_account = match sweep.scope {
            SweepScope::Account(account) => order.account == account,
            SweepScope::Session
            | SweepScope::Firm(_)
            | SweepScope::Partition
            | SweepScope::Other(_) => true,
        };
        is_of_account && (sweep.instrument == NIL || order.instrument == sweep.instrument)
    }

    /// Moves sweeps past an order that ends.
    #[cold]
    pub(crate) fn pass_ended(&mut self, slot: Slot, order: &Order) {
        if plant::is(Plant::SweepStaysAtEnded) {
            return;
        }
        while let Some(mut sweep) = self.sweeps.aimed_at(slot) {
            self.aim(&mut sweep, order.session_next);
            self.sweeps.put(sweep);
        }
    }

    /// Returns true while the session's request with this number is in progress.
    pub(crate) fn is_in_progress(&self, session: Slot, request_no: RequestNo) -> bool {
        !request_no.is_none()
            && (self.sweeps.of_asked(session).is_some_and(|one| one.request_no == request_no)
                || self.timers.groups().request_of(session) == Some(request_no))
    }

    /// Checks that the session may begin a mass cancel.
    pub(crate) fn check_sweep(&self, session: Slot) -> Result<(), Reason> {
        let is_operator = self.sessions[session].role == Role::Operator;
        let sweeps_max = self.config.sweeps_max as usize;
        let firm = self.sessions[session].firm;
        let asked = self.sweeps.asked();
        let of_firm = asked.iter().filter(|asker| self.sessions[**asker].firm == firm);
        let is_full = asked.len() >= sweeps_max || of_firm.count() >= firm_sweeps_max(sweeps_max);
        if asked.contains(&session) || is_full && !is_operator {
            return Err(Reason::TooManyMassCancels);
        }
        Ok(())
    }

    /// Returns all sweeps as one word, for the digest.
    pub(crate) fn sweeps_word(&self) -> u64 {
        let words = self.sweeps.in_turn().map(|(place, sweep)| {
            let next = match sweep.next {
                NIL => self.session_to_enter(sweep).map(|session| (session, Rec::NONE)),
                slot => Some((sweep.at, self.orders[slot].rec)),
            };
            let scope_id = match sweep.scope {
                SweepScope::Session | SweepScope::Partition => 0,
                SweepScope::Account(slot) => self.accounts[slot].account_id.0,
                SweepScope::Firm(slot) => self.firms[slot].firm_id.0,
                SweepScope::Other(slot) => self.sessions[slot].session_id.0,
            };
            sweep_word(&SweepParts {
                place,
                session_id: self.sessions[sweep.session].session_id,
                request_no: sweep.request_no,
                is_of_kill: sweep.is_of_kill,
                cl_ord_id: sweep.cl_ord_id,
                scope: (sweep.scope.code().0, scope_id),
                instrument_id: match sweep.instrument {
                    NIL => 0,
                    slot => self.instruments[slot].definition.instrument_id.0,
                },
                bound: sweep.bound,
                next: next.map(|(session, rec)| (self.sessions[session].session_id, rec)),
                ended_count: sweep.ended_count,
            })
        });
        words.fold(0, u64::wrapping_add)
    }
}

/// Returns the maximum number of a firm's mass cancels in progress: an eighth of all, so that one
/// firm leaves room for the others.
pub(crate) fn firm_sweeps_max(sweeps_max: usize) -> usize {
    (sweeps_max / 8).max(1)
}

fn sweep_asker(sweep: &Sweep) -> Requester {
    let template_id =
        if sweep.is_of_kill { KillSwitch::TEMPLATE_ID } else { MassCancel::TEMPLATE_ID };
    Requester { session: sweep.session, request_no: sweep.request_no, template_id }
}
