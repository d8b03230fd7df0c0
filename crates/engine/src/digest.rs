//! The digest: 64 bits that depend on everything that happened so far, in order.
//!
//! | folded in | when |
//! | --- | --- |
//! | position and log time | with each command |
//! | content of an office request, mass cancel, session loss or choice, import | when carried out |
//! | every event except checkpoints | when emitted |
//! | counts and sums of the state, sweeps ([`CheckpointParts`]) | before each checkpoint |
//!
//! Orders, cancels and replaces are not folded in themselves: an accepted one shows in its events,
//! and a refused one leaves nothing but the refusal. State without an event or count (an account's
//! cash, an iceberg's slice) is covered by [`Engine::state_hash`](crate::Engine::state_hash).
//!
//! An event's words are multiplied in pairs with fixed constants added, the products summed (so
//! that they overlap in the processor), and the sum folded into the running value by one more
//! product. The digest distinguishes replicas that diverged; it is no defence against forgery.

use weir_types::{
    Cash, ClOrdId, GroupId, InstrumentId, Nanos, Phase, Position, Rec, RequestNo, SessionId,
};
use weir_wire::event::{
    Defined, OrderEvent, PhaseChanged, ReferencesChanged, RequestDone, RequestRejected,
    TradeBusted, Uncrossed,
};
use weir_wire::reference::{DefineInstrument, SessionChoice, SessionLost, SetLimits};
use weir_wire::{Definition, Event, PlainEvent, Request};

use crate::index::fold;
use crate::order::halves;

const WORDS_MAX: usize = 28;

const KEYS: [u64; WORDS_MAX] = {
    let mut keys = [0; WORDS_MAX];
    let mut state: u64 = 0x5745_4952;
    let mut i = 0;
    while i < WORDS_MAX {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        keys[i] = z ^ z >> 31;
        i += 1;
    }
    keys
};

/// Folds a command's position and time into the digest.
#[inline]
pub(crate) fn fold_command(digest: u64, position: u64, time: u64) -> u64 {
    fold(digest.wrapping_add(position) ^ KEYS[0], time.wrapping_add(KEYS[1]) | 1)
}

/// Folds in the content of a request that no event will show when it is carried out: orders show in
/// their own events, definitions in `Defined`.
pub(crate) fn fold_request(digest: u64, request: &Request) -> u64 {
    let mut kind = u64::from(request.template_id());
    let words: [u64; 5] = match request {
        Request::Transfer(m) => {
            kind |= u64::from(m.peer_partition_id.0) << 16;
            let (high, low) = cash_words(m.cash);
            let place = pair(m.account_id.0, m.instrument_id.0);
            [m.transfer_id, high, low, m.position_qty.cast_unsigned(), place]
        }
        Request::KillSwitch(m) => {
            let switches = u64::from(m.cancel_orders.code()) << 16 | u64::from(m.switch.code());
            let codes = u64::from(m.scope.code()) << 8 | switches;
            [u64::from(m.id), codes, 0, 0, 0]
        }
        Request::SetPhase(m) => {
            let codes = u64::from(m.override_collars.code()) << 8 | u64::from(m.phase.code());
            [u64::from(m.instrument_id.0), codes, 0, 0, 0]
        }
        Request::ResumeTrading(m) => {
            [u64::from(m.instrument_id.0), u64::from(m.through_call.code()), 0, 0, 0]
        }
        Request::SetReference(m) => {
            let switches = u64::from(m.sets_last.code()) << 1 | u64::from(m.sets_static.code());
            let id = u64::from(m.instrument_id.0);
            [m.last_px.0 as u64, m.static_px.0 as u64, id, switches, 0]
        }
        Request::SchedulePhase(m) => {
            [u64::from(m.instrument_id.0), u64::from(m.phase.code()), m.at.0, 0, 0]
        }
        Request::MassCancel(m) => {
            let whose = pair(m.account_id.0, m.firm_id.0);
            [u64::from(m.instrument_id.0), whose, u64::from(m.scope.code()), 0, 0]
        }
        Request::BustTrade(m) => [m.match_id.0, m.force.code().into(), 0, 0, 0],
        Request::ChangePhases(m) => {
            let codes = [
                m.phase.code(),
                m.resumes.code(),
                m.override_collars.code(),
                m.through_call.code(),
            ];
            [u64::from(m.group_id.0), u32::from_le_bytes(codes).into(), 0, 0, 0]
        }
        Request::SchedulePhases(m) => {
            let codes = u64::from(m.step.code()) << 8 | u64::from(m.phase.code());
            let whose = pair(m.instrument_id.0, m.group_id.0.into());
            [m.at.0, whose, codes, u64::from(m.count), 0]
        }
        Request::AccountInquiry(m) => [u64::from(m.account_id.0), 0, 0, 0, 0],
        Request::NewOrder(_)
        | Request::ReplaceOrder(_)
        | Request::CancelOrder(_)
        | Request::DefineInstrument(_)
        | Request::DefineFirm(_)
        | Request::DefineAccount(_)
        | Request::DefineSession(_) => return digest,
    };
    let [a, b, c, d, e] = words;
    fold(digest ^ sum([a, b, c, d, e, kind]), KEYS[4] | 1)
}

/// Folds in the loss of a session, which causes no event if the session has no orders.
pub(crate) fn fold_lost(digest: u64, lost: &SessionLost) -> u64 {
    let switch = u64::from(lost.cancel_on_disconnect.code());
    fold(digest ^ sum([u64::from(lost.session_id.0), switch]), KEYS[5] | 1)
}

/// Folds in a session's choice, which causes no event.
pub(crate) fn fold_choice(digest: u64, choice: &SessionChoice) -> u64 {
    let switch = u64::from(choice.cancel_on_disconnect.code());
    fold(digest ^ sum([u64::from(choice.session_id.0), switch]), KEYS[10] | 1)
}

/// Folds in limits, which cause no event.
pub(crate) fn fold_limits(digest: u64, m: &SetLimits) -> u64 {
    let words = [
        pair(m.accounts_max, m.sessions_max),
        pair(m.firms_max, m.instruments_max),
        pair(m.orders_max, m.positions_max),
        u64::from(m.trades_max),
    ];
    fold(digest ^ sum(words), KEYS[11] | 1)
}

/// Folds in an import, which causes no event if it is skipped.
pub(crate) fn fold_import(digest: u64, at: Position, definition: &Definition) -> u64 {
    fold(digest ^ sum([at.0, u64::from(definition.template_id())]), KEYS[6] | 1)
}

/// The parts of the state at a checkpoint that are cheap to collect.
pub(crate) struct CheckpointParts {
    pub(crate) numbers: Numbers,
    pub(crate) control_position: Position,
    pub(crate) is_killed: bool,
    pub(crate) cash_moved_in: Cash,
    pub(crate) cash_moved_out: Cash,
    pub(crate) counts: Counts,
    /// The sum of the [`timer_word`]s of all timers, the [`group_change_word`]s of all changes of
    /// many instruments and the [`choice_word`]s of all sessions with cancel-on-disconnect.
    pub(crate) timers_and_choices: u64,
    /// The sum of the [`sweep_word`]s of all sweeps.
    pub(crate) sweeps: u64,
}

/// A sweep in progress.
pub(crate) struct SweepParts {
    /// Its place among the sweeps of its kind, the one whose turn is next first.
    pub(crate) place: u64,
    /// The asking session, or the lost one.
    pub(crate) session_id: SessionId,
    /// The request; zero for a lost session.
    pub(crate) request_no: RequestNo,
    /// True if the request is a kill switch, else a mass cancel.
    pub(crate) is_of_kill: bool,
    pub(crate) cl_ord_id: ClOrdId,
    /// The scope's code and identifier.
    pub(crate) scope: (u8, u32),
    /// The only instrument; zero for all.
    pub(crate) instrument_id: u32,
    pub(crate) bound: Rec,
    /// The session and the order of its next visit; no order when it enters the session.
    pub(crate) next: Option<(SessionId, Rec)>,
    pub(crate) ended_count: u64,
}

/// The last assigned numbers.
pub(crate) struct Numbers {
    pub(crate) rec: u64,
    pub(crate) seq: u64,
    pub(crate) exec_id: u64,
    pub(crate) match_id: u64,
}

/// Table sizes.
pub(crate) struct Counts {
    pub(crate) orders: usize,
    pub(crate) positions: usize,
    pub(crate) firms: usize,
    pub(crate) accounts: usize,
    pub(crate) sessions: usize,
    pub(crate) instruments: usize,
    /// The trades that can be busted at this time.
    pub(crate) trades: u64,
    pub(crate) imports_refused: u64,
}

/// Folds in the standing state before a checkpoint.
pub(crate) fn fold_standing(digest: u64, standing: &CheckpointParts) -> u64 {
    let (in_high, in_low) = cash_words(standing.cash_moved_in);
    let (out_high, out_low) = cash_words(standing.cash_moved_out);
    let (numbers, counts) = (&standing.numbers, &standing.counts);
    let sum = sum([
        numbers.rec,
        numbers.seq,
        numbers.exec_id,
        numbers.match_id,
        standing.control_position.0,
        u64::from(standing.is_killed),
        in_high,
        in_low,
        out_high,
        out_low,
        counts.orders as u64,
        counts.positions as u64,
        counts.firms as u64,
        counts.accounts as u64,
        counts.sessions as u64,
        counts.instruments as u64,
        counts.imports_refused,
        standing.timers_and_choices,
        standing.sweeps,
        counts.trades,
    ]);
    fold(digest ^ sum, KEYS[7] | 1)
}

/// Returns a scheduled phase, or the end of a volatility call, as a word; words add up in any
/// order.
pub(crate) fn timer_word(at: Nanos, instrument_id: InstrumentId, to: Option<Phase>) -> u64 {
    let code = to.map_or(0, |phase| u64::from(phase.code()) + 1);
    sum([at.0, pair(instrument_id.0, 0), code, 8])
}

/// A change of many instruments in progress.
pub(crate) struct GroupChangeParts {
    pub(crate) at: Nanos,
    /// Its number at that time.
    pub(crate) number: u64,
    pub(crate) group_id: GroupId,
    pub(crate) session_id: SessionId,
    pub(crate) request_no: RequestNo,
    /// The code of the phase, and the switch.
    pub(crate) action: (u8, bool),
    pub(crate) ended_count: u64,
    /// The instruments changed and skipped so far.
    pub(crate) counts: [u32; 2],
}

/// Returns a change of many instruments as a word; words add up in any order.
pub(crate) fn group_change_word(change: &GroupChangeParts) -> u64 {
    let (phase, switch) = change.action;
    let codes = u64::from(phase) << 16 | u64::from(switch) << 8 | 12;
    sum([
        change.at.0,
        change.number,
        u64::from(change.group_id.0),
        change.request_no.0,
        u64::from(change.session_id.0),
        change.ended_count,
        pair(change.counts[0], change.counts[1]),
        codes,
    ])
}

/// Returns a change of a list, or that a session has begun it, as a word; words add up in any
/// order.
pub(crate) fn list_word(session_id: SessionId, at: Nanos, to: Option<Phase>) -> u64 {
    let code = to.map_or(0, |phase| u64::from(phase.code()) + 1);
    sum([at.0, pair(session_id.0, 0), code, 13])
}

/// Returns a sweep in progress as a word; words add up in any order.
pub(crate) fn sweep_word(sweep: &SweepParts) -> u64 {
    let (head, tail) = halves(sweep.cl_ord_id);
    let (scope, id) = sweep.scope;
    let (next_session, next_rec) = sweep.next.unwrap_or((SessionId::NONE, Rec::NONE));
    sum([
        sweep.place,
        sweep.request_no.0,
        head,
        tail,
        pair(id, sweep.instrument_id),
        pair(sweep.session_id.0, next_session.0),
        sweep.bound.0,
        next_rec.0,
        sweep.ended_count,
        u64::from(sweep.is_of_kill) << 16 | u64::from(scope) << 8 | 9,
    ])
}

/// Returns a session with cancel-on-disconnect as a word; words add up in any order.
pub(crate) fn choice_word(session_id: SessionId) -> u64 {
    sum([u64::from(session_id.0), 10])
}

/// Returns a hash of bytes of any length.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain(core::iter::once(&last)).map(|word| u64::from_le_bytes(*word));
    words
        .fold(bytes.len() as u64, |hash, word| fold(hash ^ word.wrapping_add(KEYS[8]), KEYS[9] | 1))
}

fn cash_words(cash: Cash) -> (u64, u64) {
    ((cash.0 >> 64) as u64, cash.0 as u64)
}

/// Folds an event into the digest. Checkpoints carry the digest and are not part of it.
#[inline]
pub(crate) fn fold_event(digest: u64, event: &Event) -> u64 {
    let sum = match event {
        Event::Plain(PlainEvent::OrderEvent(e)) => order_sum(e),
        Event::Plain(PlainEvent::RequestRejected(e)) => rejected_sum(e),
        Event::Plain(PlainEvent::RequestDone(e)) => done_sum(e),
        Event::Plain(PlainEvent::PhaseChanged(e)) => phase_sum(e),
        Event::Plain(PlainEvent::Checkpoint(_)) => return digest,
        Event::Plain(PlainEvent::TradeBusted(e)) => busted_sum(e),
        Event::Plain(PlainEvent::Uncrossed(e)) => uncrossed_sum(e),
        Event::Plain(PlainEvent::ReferencesChanged(e)) => references_sum(e),
        Event::Defined(e, definition) => defined_sum(e, definition),
    };
    fold(digest ^ sum, KEYS[2] | 1)
}

/// Returns the mixed sum of pairs of words; `N` is even.
#[inline]
fn sum<const N: usize>(words: [u64; N]) -> u64 {
    sum_from::<N, 0>(words)
}

/// Returns the mixed sum with the constants from `FIRST`.
#[inline]
fn sum_from<const N: usize, const FIRST: usize>(words: [u64; N]) -> u64 {
    let mut total: u128 = 0;
    let mut i = 0;
    while i < N {
        let a = words[i].wrapping_add(KEYS[FIRST + i]);
        let b = words[i + 1].wrapping_add(KEYS[FIRST + i + 1]);
        total = total.wrapping_add(u128::from(a) * u128::from(b));
        i += 2;
    }
    (total as u64) ^ (total >> 64) as u64
}

#[inline]
fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn order_sum(e: &OrderEvent) -> u64 {
    let (name_head, name_tail) = halves(e.cl_ord_id);
    let (orig_head, orig_tail) = halves(e.orig_cl_ord_id);
    let codes = [
        e.side.code(),
        e.ord_type.code(),
        e.time_in_force.code(),
        e.exec_inst.0,
        e.self_trade_prevention.code(),
        e.exec_type.code(),
        e.ord_status.code(),
        e.liquidity.code(),
    ];
    let usual = sum([
        e.event_no.0,
        e.request_no.0,
        e.rec.0,
        e.seq.0,
        e.order_id.0,
        e.exec_id.0,
        e.transact_time.0,
        e.created_time.0,
        name_head,
        name_tail,
        e.price.0 as u64,
        e.order_qty.0,
        e.leaves_qty.0,
        e.cum_qty.0,
        pair(e.session_id.0, e.firm_id.0),
        pair(e.account_id.0, e.instrument_id.0),
        u64::from_le_bytes(codes),
        pair(u32::from(e.partition_id.0), u32::from(e.reason.code())) << 8 | 1,
    ]);
    // Zero in most events, which then skip their multiplication.
    let seldom = [
        e.match_id.0,
        e.last_px.0 as u64,
        e.last_qty.0,
        orig_head,
        orig_tail,
        e.stop_px.0 as u64,
        e.display_qty.0,
        e.min_qty.0,
        e.expire_time.0,
        0,
    ];
    if seldom.iter().all(|word| *word == 0) {
        return usual;
    }
    usual.wrapping_add(sum_from::<10, 18>(seldom))
}

fn rejected_sum(e: &RequestRejected) -> u64 {
    let (name_head, name_tail) = halves(e.cl_ord_id);
    let (orig_head, orig_tail) = halves(e.orig_cl_ord_id);
    sum([
        e.event_no.0,
        e.request_no.0,
        e.order_id.0,
        e.transact_time.0,
        name_head,
        name_tail,
        orig_head,
        orig_tail,
        pair(e.session_id.0, e.instrument_id.0),
        pair(u32::from(e.reason.code()), u32::from(e.ref_template_id)),
        u64::from(e.partition_id.0),
        2,
    ])
}

fn done_sum(e: &RequestDone) -> u64 {
    let (name_head, name_tail) = halves(e.cl_ord_id);
    let (cash_high, cash_low) = cash_words(e.cash);
    let (reserved_high, reserved_low) = cash_words(e.reserved);
    let (moved_high, moved_low) = cash_words(e.last_transfer_cash);
    sum([
        e.event_no.0,
        e.request_no.0,
        e.transact_time.0,
        e.affected_count,
        name_head,
        name_tail,
        pair(e.session_id.0, u32::from(e.ref_template_id)),
        pair(e.phase_reached.code().into(), u32::from(e.partition_id.0) << 8 | 3),
        pair(e.changed_count, e.skipped_count),
        u64::from(e.last_transfer_peer.0),
        cash_high,
        cash_low,
        reserved_high,
        reserved_low,
        moved_high,
        moved_low,
        e.last_transfer_id,
        0,
    ])
}

fn phase_sum(e: &PhaseChanged) -> u64 {
    sum([
        e.transact_time.0,
        pair(e.session_id.0, e.instrument_id.0),
        u64::from(e.hold.code()) << 16 | u64::from(e.cause.code()) << 8 | u64::from(e.phase.code()),
        u64::from(e.partition_id.0) << 8 | 4,
    ])
}

fn busted_sum(e: &TradeBusted) -> u64 {
    let (debt_high, debt_low) = cash_words(e.debt_cash);
    sum([
        e.event_no.0,
        e.order_id.0,
        e.match_id.0,
        e.transact_time.0,
        e.last_px.0 as u64,
        e.last_qty.0,
        pair(e.session_id.0, e.firm_id.0),
        pair(e.account_id.0, e.instrument_id.0),
        u64::from(e.side.code()),
        u64::from(e.partition_id.0) << 8 | 6,
        debt_high,
        debt_low,
        e.debt_qty.0,
        0,
    ])
}

fn uncrossed_sum(e: &Uncrossed) -> u64 {
    sum([
        e.transact_time.0,
        e.price.0 as u64,
        e.qty.0,
        e.surplus as u64,
        u64::from(e.instrument_id.0),
        u64::from(e.partition_id.0) << 8 | 7,
    ])
}

fn references_sum(e: &ReferencesChanged) -> u64 {
    sum([
        e.transact_time.0,
        e.last_px.0 as u64,
        e.static_px.0 as u64,
        u64::from(e.has_last.code()) << 1 | u64::from(e.has_static.code()),
        u64::from(e.instrument_id.0),
        u64::from(e.partition_id.0) << 8 | 11,
    ])
}

fn instrument_words(d: &DefineInstrument) -> [u64; 14] {
    let (head, tail) = halves(ClOrdId(d.symbol.0));
    let codes = [d.price_exponent as u8, d.qty_exponent as u8, d.phase.code(), 0];
    [
        head,
        tail,
        d.tick_size.0 as u64,
        d.lot_size.0,
        d.order_qty_max.0,
        d.price_min.0 as u64,
        d.price_max.0 as u64,
        pair(d.session_id.0, d.instrument_id.0),
        pair(
            u32::from(d.group_id.0) << 16 | u32::from(d.partition_id.0),
            u32::from_le_bytes(codes),
        ),
        d.request_no.0,
        d.reference_price.0 as u64,
        d.volatility_call.0,
        pair(d.static_collar, d.dynamic_collar),
        u64::from(d.fields),
    ]
}

fn defined_sum(e: &Defined, definition: &Definition) -> u64 {
    let own = sum([
        e.transact_time.0,
        e.control_position.0,
        u64::from(definition.template_id()),
        u64::from(e.partition_id.0) << 8 | 5,
    ]);
    let words: [u64; 14] = match definition {
        Definition::DefineInstrument(d) => instrument_words(d),
        Definition::DefineFirm(d) => {
            let (head, tail) = halves(ClOrdId(d.name.0));
            [
                d.request_no.0,
                head,
                tail,
                pair(d.session_id.0, d.firm_id.0),
                u64::from(d.live_orders_max),
                u64::from(d.fields),
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
            ]
        }
        Definition::DefineAccount(d) => {
            let owner = pair(d.account_id.0, d.firm_id.0);
            let rules = pair(d.live_orders_max, u32::from(d.unlimited.code()));
            let (sender, fields) = (u64::from(d.session_id.0), u64::from(d.fields));
            [d.request_no.0, owner, sender, rules, fields, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        Definition::DefineSession(d) => {
            let mut words = [0; 14];
            for (word, bytes) in words.iter_mut().zip(d.credential.0.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().expect("chunks of eight bytes"));
            }
            words[4] = d.request_no.0;
            words[5] = pair(d.session_id.0, d.defined_session_id.0);
            words[6] = pair(d.firm_id.0, u32::from(d.role.code()));
            words[7] = pair(d.order_rate_max, d.in_flight_max);
            words[8] = d.valid_until.0;
            words[9] = pair(d.live_orders_max, u32::from(d.credential_kind.code()));
            words[10] = u64::from(d.fields);
            words
        }
    };
    fold(own, KEYS[3] | 1) ^ sum(words)
}
