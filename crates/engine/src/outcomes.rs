//! The first answers to a session's last requests, in two cache lines each, because every request
//! writes one and hardly any is ever read.
//!
//! Fields that a repeated answer lacks or that are known otherwise are left out: its position and
//! numbers are new, its `rec` and `seq` are zero, no answer reports a trade, its session and firm
//! are the asking ones. The additional fields of a few orders are in a separate ring.

use weir_types::{
    AccountId, Cash, ClOrdId, EventNo, ExecInst, ExecType, FirmId, InstrumentId, Liquidity,
    MatchId, Nanos, OrdStatus, OrdType, OrderId, PartitionId, PhaseReached, Position, Price, Qty,
    Reason, Rec, RequestNo, SelfTradePrevention, Seq, SessionId, Side, TimeInForce,
};
use weir_wire::PlainEvent;
use weir_wire::event::{OrderEvent, RequestDone, RequestRejected};

use weir_memory::prefetch_all;

use crate::config::OUTCOMES_MAX;

/// The repeating requester: the fields that all answers to a session share.
#[derive(Clone, Copy)]
pub(crate) struct RepeatRequester {
    pub(crate) session_id: SessionId,
    pub(crate) firm_id: FirmId,
    pub(crate) partition_id: PartitionId,
}

/// A ring of answers in order of request number.
#[derive(Default)]
pub(crate) struct Outcomes {
    answers: Vec<Answer>,
    /// The next answer's index: past the end until the ring is full, then that of the oldest.
    next: usize,
    /// Additional fields of the answers, at the same indexes; empty until the first answer with
    /// any.
    more: Vec<More>,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Answer(Kind);

const _: () = assert!(size_of::<Answer>() == 128, "two cache lines");

#[derive(Clone, Copy)]
enum Kind {
    Order(OrderAnswer),
    Rejected(RejectedAnswer),
    Done(DoneAnswer),
}

/// The short form of an [`OrderEvent`].
#[derive(Clone, Copy)]
struct OrderAnswer {
    request_no: RequestNo,
    order_id: OrderId,
    exec_id: weir_types::ExecId,
    transact_time: Nanos,
    created_time: Nanos,
    cl_ord_id: ClOrdId,
    orig_cl_ord_id: ClOrdId,
    price: Price,
    order_qty: Qty,
    cum_qty: Qty,
    account_id: AccountId,
    instrument_id: InstrumentId,
    reason: Reason,
    side: Side,
    ord_type: OrdType,
    time_in_force: TimeInForce,
    exec_inst: ExecInst,
    self_trade_prevention: SelfTradePrevention,
    exec_type: ExecType,
    ord_status: OrdStatus,
    has_more: bool,
}

/// The short form of a [`RequestRejected`].
#[derive(Clone, Copy)]
struct RejectedAnswer {
    request_no: RequestNo,
    order_id: OrderId,
    transact_time: Nanos,
    cl_ord_id: ClOrdId,
    orig_cl_ord_id: ClOrdId,
    instrument_id: InstrumentId,
    reason: Reason,
    ref_template_id: u16,
}

/// The short form of a [`RequestDone`].
#[derive(Clone, Copy)]
struct DoneAnswer {
    request_no: RequestNo,
    transact_time: Nanos,
    cl_ord_id: ClOrdId,
    affected_count: u64,
    ref_template_id: u16,
    phase_reached: PhaseReached,
    changed_count: u32,
    skipped_count: u32,
    cash: Words,
    reserved: Words,
    last_transfer_id: u64,
    last_transfer_cash: Words,
    last_transfer_peer: PartitionId,
}

/// An amount of cash without the alignment of 128 bits, for which an answer would take a cache line
/// more.
#[derive(Clone, Copy)]
struct Words([u64; 2]);

impl Words {
    fn of(cash: Cash) -> Words {
        Words([cash.0 as u64, (cash.0 >> 64) as u64])
    }

    fn cash(self) -> Cash {
        let [low, high] = self.0.map(u128::from);
        Cash((high << 64 | low).cast_signed())
    }
}

/// The additional fields of an [`OrderAnswer`] for a stop, an iceberg, a minimum or an expiry.
#[derive(Clone, Copy)]
struct More {
    stop_px: Price,
    display_qty: Qty,
    min_qty: Qty,
    expire_time: Nanos,
}

impl Outcomes {
    /// The bytes of a session's full ring.
    pub(crate) const BYTES_MAX: u64 =
        (OUTCOMES_MAX * (size_of::<Answer>() + size_of::<More>())) as u64;
}

const NO_MORE: More =
    More { stop_px: Price(0), display_qty: Qty::ZERO, min_qty: Qty::ZERO, expire_time: Nanos(0) };

impl OrderAnswer {
    #[inline(always)]
    fn of(e: &OrderEvent) -> OrderAnswer {
        OrderAnswer {
            request_no: e.request_no,
            order_id: e.order_id,
            exec_id: e.exec_id,
            transact_time: e.transact_time,
            created_time: e.created_time,
            cl_ord_id: e.cl_ord_id,
            orig_cl_ord_id: e.orig_cl_ord_id,
            price: e.price,
            order_qty: e.order_qty,
            cum_qty: e.cum_qty,
            account_id: e.account_id,
            instrument_id: e.instrument_id,
            reason: e.reason,
            side: e.side,
            ord_type: e.ord_type,
            time_in_force: e.time_in_force,
            exec_inst: e.exec_inst,
            self_trade_prevention: e.self_trade_prevention,
            exec_type: e.exec_type,
            ord_status: e.ord_status,
            has_more: has_more(e),
        }
    }

    fn event(&self, more: &More, asking: RepeatRequester) -> OrderEvent {
        // Saturates for a malformed snapshot, in which more may be filled than ordered.
        let open_qty = Qty(self.order_qty.0.saturating_sub(self.cum_qty.0));
        OrderEvent {
            position: Position::NONE,
            event_no: EventNo::NONE,
            request_no: self.request_no,
            rec: Rec::NONE,
            seq: Seq::NONE,
            order_id: self.order_id,
            exec_id: self.exec_id,
            match_id: MatchId::NONE,
            transact_time: self.transact_time,
            created_time: self.created_time,
            cl_ord_id: self.cl_ord_id,
            orig_cl_ord_id: self.orig_cl_ord_id,
            price: self.price,
            stop_px: more.stop_px,
            last_px: Price(0),
            last_qty: Qty::ZERO,
            order_qty: self.order_qty,
            leaves_qty: if self.ord_status.is_live() { open_qty } else { Qty::ZERO },
            cum_qty: self.cum_qty,
            display_qty: more.display_qty,
            min_qty: more.min_qty,
            expire_time: more.expire_time,
            session_id: asking.session_id,
            firm_id: asking.firm_id,
            account_id: self.account_id,
            instrument_id: self.instrument_id,
            partition_id: asking.partition_id,
            reason: self.reason,
            side: self.side,
            ord_type: self.ord_type,
            time_in_force: self.time_in_force,
            exec_inst: self.exec_inst,
            self_trade_prevention: self.self_trade_prevention,
            exec_type: self.exec_type,
            ord_status: self.ord_status,
            liquidity: Liquidity::None,
        }
    }
}

#[inline(always)]
fn has_more(e: &OrderEvent) -> bool {
    e.stop_px.0 as u64 | e.display_qty.0 | e.min_qty.0 | e.expire_time.0 != 0
}

impl Kind {
    /// Returns the short form of an answer; `None` for events that are no answer.
    fn of(event: &PlainEvent) -> Option<Kind> {
        Some(match event {
            PlainEvent::OrderEvent(e) => Kind::Order(OrderAnswer::of(e)),
            PlainEvent::RequestRejected(e) => {
                let answer = RejectedAnswer {
                    request_no: e.request_no,
                    order_id: e.order_id,
                    transact_time: e.transact_time,
                    cl_ord_id: e.cl_ord_id,
                    orig_cl_ord_id: e.orig_cl_ord_id,
                    instrument_id: e.instrument_id,
                    reason: e.reason,
                    ref_template_id: e.ref_template_id,
                };
                Kind::Rejected(answer)
            }
            PlainEvent::RequestDone(e) => {
                let answer = DoneAnswer {
                    request_no: e.request_no,
                    transact_time: e.transact_time,
                    cl_ord_id: e.cl_ord_id,
                    affected_count: e.affected_count,
                    ref_template_id: e.ref_template_id,
                    phase_reached: e.phase_reached,
                    changed_count: e.changed_count,
                    skipped_count: e.skipped_count,
                    cash: Words::of(e.cash),
                    reserved: Words::of(e.reserved),
                    last_transfer_id: e.last_transfer_id,
                    last_transfer_cash: Words::of(e.last_transfer_cash),
                    last_transfer_peer: e.last_transfer_peer,
                };
                Kind::Done(answer)
            }
            PlainEvent::PhaseChanged(_)
            | PlainEvent::Checkpoint(_)
            | PlainEvent::TradeBusted(_)
            | PlainEvent::Uncrossed(_)
            | PlainEvent::ReferencesChanged(_) => return None,
        })
    }

    fn request_no(&self) -> RequestNo {
        match self {
            Kind::Order(a) => a.request_no,
            Kind::Rejected(a) => a.request_no,
            Kind::Done(a) => a.request_no,
        }
    }
}

impl Outcomes {
    /// Remembers the answer to a request later than all before it, one of at most `count_max`.
    /// Returns false for events that are no answer, which are not remembered.
    pub(crate) fn push(&mut self, event: &PlainEvent, count_max: u32) -> bool {
        if let PlainEvent::OrderEvent(e) = event {
            self.push_order(e, count_max);
            return true;
        }
        let Some(kind) = Kind::of(event) else { return false };
        match self.answers.get_mut(self.next) {
            Some(place) => *place = Answer(kind),
            None => self.add(kind, count_max),
        }
        self.step(count_max);
        true
    }

    /// Remembers an order's answer, the outcome of most requests.
    #[inline(always)]
    pub(crate) fn push_order(&mut self, e: &OrderEvent, count_max: u32) {
        match self.answers.get_mut(self.next) {
            Some(place) => place.0 = Kind::Order(OrderAnswer::of(e)),
            None => self.add(Kind::Order(OrderAnswer::of(e)), count_max),
        }
        if has_more(e) {
            self.put_more(e, count_max);
        }
        self.step(count_max);
    }

    #[inline(always)]
    fn step(&mut self, count_max: u32) {
        self.next += 1;
        if self.next >= count_max as usize {
            self.next = 0;
        }
    }

    /// Restores an answer from a snapshot; returns false if the session cannot have such an answer.
    pub(crate) fn restore(
        &mut self,
        event: &PlainEvent,
        count_max: u32,
        asking: RepeatRequester,
    ) -> bool {
        let place = self.next;
        self.push(event, count_max) && self.event(place, asking) == *event
    }

    /// Adds an answer while the ring is not full.
    #[cold]
    fn add(&mut self, kind: Kind, count_max: u32) {
        let count_max = count_max as usize;
        if self.answers.len() < count_max {
            // Reserved in full at the first answer: the ring never moves again, and the system
            // commits the memory only as it fills.
            self.answers.reserve_exact(count_max - self.answers.len());
            self.answers.push(Answer(kind));
        }
    }

    #[cold]
    fn put_more(&mut self, e: &OrderEvent, count_max: u32) {
        if self.more.is_empty() {
            self.more = vec![NO_MORE; count_max as usize];
        }
        if let Some(place) = self.more.get_mut(self.next) {
            *place = More {
                stop_px: e.stop_px,
                display_qty: e.display_qty,
                min_qty: e.min_qty,
                expire_time: e.expire_time,
            };
        }
    }

    /// Prefetches the memory of the next answer.
    #[inline]
    pub(crate) fn prefetch_next(&self) {
        if let Some(answer) = self.answers.get(self.next) {
            prefetch_all(answer);
        }
    }

    /// Replaces the answer to a request by its final one, if it is still remembered.
    pub(crate) fn complete(&mut self, request_no: RequestNo, event: &PlainEvent) {
        if let (Some(place), Some(kind)) = (self.place(request_no), Kind::of(event)) {
            self.answers[place] = Answer(kind);
        }
    }

    /// Returns the answer to a request while it is remembered, without position and numbers.
    pub(crate) fn find(
        &self,
        request_no: RequestNo,
        asking: RepeatRequester,
    ) -> Option<PlainEvent> {
        self.place(request_no).map(|place| self.event(place, asking))
    }

    fn place(&self, request_no: RequestNo) -> Option<usize> {
        self.runs().find_map(|run| {
            let at = self.answers[run.clone()]
                .binary_search_by_key(&request_no, |answer| answer.0.request_no());
            Some(run.start + at.ok()?)
        })
    }

    /// Returns the answers from the oldest to the newest, in the form of [`find`](Outcomes::find).
    pub(crate) fn in_order(&self, asking: RepeatRequester) -> impl Iterator<Item = PlainEvent> {
        self.runs().flatten().map(move |place| self.event(place, asking))
    }

    pub(crate) fn count(&self) -> usize {
        self.answers.len()
    }

    /// Returns the request numbers from the oldest to the newest.
    pub(crate) fn request_nos(&self) -> impl Iterator<Item = RequestNo> {
        self.runs().flatten().map(|place| self.answers[place].0.request_no())
    }

    /// Returns the indexes from the oldest to the newest.
    fn runs(&self) -> impl Iterator<Item = core::ops::Range<usize>> {
        let newest = self.next.min(self.answers.len());
        [newest..self.answers.len(), 0..newest].into_iter()
    }

    fn event(&self, place: usize, asking: RepeatRequester) -> PlainEvent {
        let RepeatRequester { session_id, partition_id, .. } = asking;
        let (position, event_no) = (Position::NONE, EventNo::NONE);
        match self.answers[place].0 {
            Kind::Order(a) => {
                let more = if a.has_more { self.more[place] } else { NO_MORE };
                PlainEvent::OrderEvent(a.event(&more, asking))
            }
            Kind::Rejected(a) => PlainEvent::RequestRejected(RequestRejected {
                position,
                event_no,
                request_no: a.request_no,
                order_id: a.order_id,
                transact_time: a.transact_time,
                cl_ord_id: a.cl_ord_id,
                orig_cl_ord_id: a.orig_cl_ord_id,
                session_id,
                instrument_id: a.instrument_id,
                partition_id,
                reason: a.reason,
                ref_template_id: a.ref_template_id,
            }),
            Kind::Done(a) => PlainEvent::RequestDone(RequestDone {
                position,
                event_no,
                request_no: a.request_no,
                transact_time: a.transact_time,
                cl_ord_id: a.cl_ord_id,
                affected_count: a.affected_count,
                session_id,
                partition_id,
                ref_template_id: a.ref_template_id,
                phase_reached: a.phase_reached,
                changed_count: a.changed_count,
                skipped_count: a.skipped_count,
                cash: a.cash.cash(),
                reserved: a.reserved.cash(),
                last_transfer_id: a.last_transfer_id,
                last_transfer_cash: a.last_transfer_cash.cash(),
                last_transfer_peer: a.last_transfer_peer,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKING: RepeatRequester = RepeatRequester {
        session_id: SessionId(3),
        firm_id: FirmId(4),
        partition_id: PartitionId(1),
    };

    fn done(number: u64) -> PlainEvent {
        PlainEvent::RequestDone(RequestDone {
            position: Position::NONE,
            event_no: EventNo::NONE,
            request_no: RequestNo(number),
            transact_time: Nanos(number * 10),
            cl_ord_id: ClOrdId::from_number(number),
            affected_count: number,
            session_id: ASKING.session_id,
            partition_id: ASKING.partition_id,
            ref_template_id: 9,
            ..RequestDone::NOTHING_TOLD
        })
    }

    #[test]
    fn a_ring_has_the_last_answers_in_order_before_and_after_it_is_full() {
        let mut outcomes = Outcomes::default();
        for number in 1..=40 {
            assert!(outcomes.push(&done(number), 8));
            let kept: Vec<u64> = (number.saturating_sub(7).max(1)..=number).collect();
            assert!(outcomes.in_order(ASKING).eq(kept.iter().map(|no| done(*no))));
            for asked in 0..=number + 1 {
                let found = outcomes.find(RequestNo(asked), ASKING);
                assert_eq!(found, kept.contains(&asked).then(|| done(asked)), "{asked}");
            }
        }
    }

    #[test]
    fn a_ring_of_no_length_keeps_nothing() {
        let mut outcomes = Outcomes::default();
        assert!(outcomes.push(&done(1), 0));
        assert_eq!((outcomes.count(), outcomes.find(RequestNo(1), ASKING)), (0, None));
    }
}
