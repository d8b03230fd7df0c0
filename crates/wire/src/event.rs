//! The engine's events: the records of the event log, from which reports are made.
//!
//! An [`OrderEvent`] holds one change of one order and the order's whole state after it, so that a
//! view needs no other record. Events addressed to a session carry its dense `event_no`; (`seq`,
//! `rec`) orders the changes within a partition.

use weir_types::{
    AccountId, Cash, ClOrdId, EventNo, ExecId, ExecInst, ExecType, FirmId, InstrumentId, Liquidity,
    MatchId, Nanos, OrdStatus, OrdType, OrderId, PartitionId, Phase, PhaseCause, PhaseHold,
    PhaseReached, Position, Price, Qty, Reason, Rec, RequestNo, SelfTradePrevention, Seq,
    SessionId, Side, Switch, TimeInForce,
};

use crate::message::messages;

messages! {
    /// One change of one order, with its state after the change. The client gets the same block
    /// followed by the stage times: an [`ExecutionReport`](crate::report::ExecutionReport).
    OrderEvent = 40 {
        /// The position of the command that caused it.
        position: Position,
        /// Its number among the session's events of this partition.
        event_no: EventNo,
        /// The request that caused it; zero when no request of the session did.
        request_no: RequestNo,
        /// The order's record number; zero for an order that was rejected on entry.
        rec: Rec,
        /// The change's number in the partition; zero as `rec`.
        seq: Seq,
        /// The order.
        order_id: OrderId,
        /// The report's own number.
        exec_id: ExecId,
        /// The trade; zero unless `exec_type` is trade.
        match_id: MatchId,
        /// The log's time of the change.
        transact_time: Nanos,
        /// The log's time of the order's creation.
        created_time: Nanos,
        /// The client's name for the order.
        cl_ord_id: ClOrdId,
        /// The name before a replace; else empty.
        orig_cl_ord_id: ClOrdId,
        /// The limit price.
        price: Price,
        /// The stop price.
        stop_px: Price,
        /// The price of this trade.
        last_px: Price,
        /// The quantity of this trade.
        last_qty: Qty,
        /// The order's total quantity.
        order_qty: Qty,
        /// The quantity that can still trade; zero once the order has ended.
        leaves_qty: Qty,
        /// The quantity traded so far.
        cum_qty: Qty,
        /// The shown quantity asked for.
        display_qty: Qty,
        /// The minimum quantity asked for; zero once the order is accepted, since it is met then.
        min_qty: Qty,
        /// The expiry time.
        expire_time: Nanos,
        /// The session that entered it.
        session_id: SessionId,
        /// The firm.
        firm_id: FirmId,
        /// The account.
        account_id: AccountId,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// The reason why it ended or was refused.
        reason: Reason,
        /// Buy or sell.
        side: Side,
        /// Limit, market, ...
        ord_type: OrdType,
        /// The order's lifetime: day, GTC, IOC, FOK, ...
        time_in_force: TimeInForce,
        /// Flags.
        exec_inst: ExecInst,
        /// Self-trade prevention.
        self_trade_prevention: SelfTradePrevention,
        /// The kind of change.
        exec_type: ExecType,
        /// The order's state after the change.
        ord_status: OrdStatus,
        /// Maker or taker.
        liquidity: Liquidity,
    }

    /// The refusal of a replace, cancel, mass cancel or operator's request. Also the answer to any
    /// request whose number was used before; it repeats the first outcome.
    RequestRejected = 41 {
        /// The position of the command that caused it.
        position: Position,
        /// Its number among the session's events of this partition.
        event_no: EventNo,
        /// The refused request.
        request_no: RequestNo,
        /// The order that it refers to, if the engine knows it.
        order_id: OrderId,
        /// The log's time.
        transact_time: Nanos,
        /// The request's name.
        cl_ord_id: ClOrdId,
        /// The name of the order that it refers to.
        orig_cl_ord_id: ClOrdId,
        /// The session.
        session_id: SessionId,
        /// The instrument it named.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// The reason.
        reason: Reason,
        /// The template id of the request.
        ref_template_id: u16,
    }

    /// A mass cancel or an operator's request was carried out.
    RequestDone = 42 from 64, 65, 73 {
        /// The position of the command that caused it.
        position: Position,
        /// Its number among the session's events of this partition.
        event_no: EventNo,
        /// The request.
        request_no: RequestNo,
        /// The log's time.
        transact_time: Nanos,
        /// The request's name; empty for an operator's request.
        cl_ord_id: ClOrdId,
        /// The number of orders that it changed.
        affected_count: u64,
        /// The session.
        session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
        /// The template id of the request.
        ref_template_id: u16,
        /// The instrument's phase after a request to change it.
        phase_reached: PhaseReached,
        /// The number of instruments whose phase a request about many has changed.
        changed_count: u32,
        /// The number of instruments that it left as they were, since the change would have been
        /// refused for one of them.
        skipped_count: u32,
        /// Behind a transfer or an inquiry: the account's cash in the partition; below zero for a
        /// debt.
        cash: Cash,
        /// The part of it that its orders reserve.
        reserved: Cash,
        /// The number of its last transfer in the partition; zero before the first.
        last_transfer_id: u64,
        /// The cash that the last transfer moved.
        last_transfer_cash: Cash,
        /// The partition at the other end of the last transfer; none for outside.
        last_transfer_peer: PartitionId,
    }

    /// An instrument's phase changed, or an operator's halt began or ceased to hold in it.
    PhaseChanged = 43 from 23, 28 {
        /// The position of the command that caused it.
        position: Position,
        /// The log's time.
        transact_time: Nanos,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// The phase after the change.
        phase: Phase,
        /// The cause.
        cause: PhaseCause,
        /// The operator's session that asked for it; zero for other causes.
        session_id: SessionId,
        /// The hold of an operator's halt after the change.
        hold: PhaseHold,
    }

    /// The digest of the engine's state after a position: equal on every replica.
    Checkpoint = 44 {
        /// The last command applied.
        position: Position,
        /// The log's time.
        transact_time: Nanos,
        /// The incremental digest.
        digest: u64,
        /// The highest `seq`.
        seq: Seq,
        /// The highest `rec`.
        rec: Rec,
        /// The partition.
        partition_id: PartitionId,
    }
    /// A trade was busted; addressed to one side of it.
    TradeBusted = 46 from 75 {
        /// The position of the command that caused it.
        position: Position,
        /// Its number among the session's events of this partition.
        event_no: EventNo,
        /// The order that had traded.
        order_id: OrderId,
        /// The trade.
        match_id: MatchId,
        /// The log's time.
        transact_time: Nanos,
        /// The trade's price.
        last_px: Price,
        /// The trade's quantity.
        last_qty: Qty,
        /// The session that entered the order.
        session_id: SessionId,
        /// The firm.
        firm_id: FirmId,
        /// The account.
        account_id: AccountId,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// The side that the order was on.
        side: Side,
        /// The amount by which the account's cash, less reservations, is below zero behind the
        /// bust; zero for none, and for an unlimited account.
        debt_cash: Cash,
        /// The lots by which its position in the instrument is, likewise.
        debt_qty: Qty,
    }

    /// A call auction's book was uncrossed; its trades come before this event.
    Uncrossed = 47 {
        /// The position of the command that caused it.
        position: Position,
        /// The log's time.
        transact_time: Nanos,
        /// The price of all its trades; zero when there was none.
        price: Price,
        /// The volume traded.
        qty: Qty,
        /// Demand less supply at the price.
        surplus: i64,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
    }

    /// An instrument's last price or static reference changed without a trade: by an operator, or
    /// since a trade was busted.
    ReferencesChanged = 48 {
        /// The position of the command that caused it.
        position: Position,
        /// The log's time.
        transact_time: Nanos,
        /// The last price; zero without one.
        last_px: Price,
        /// The static reference; zero where the definition's holds.
        static_px: Price,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// On if there is a last price.
        has_last: Switch,
        /// On if there is a static reference beside the definition's.
        has_static: Switch,
    }

    /// A definition was accepted (in the control log) or imported (in a partition). The
    /// definition's own message follows in the same record.
    Defined = 45 {
        /// The position of the command that caused it.
        position: Position,
        /// The log's time.
        transact_time: Nanos,
        /// The definition's place in the control log.
        control_position: Position,
        /// The partition.
        partition_id: PartitionId,
    }
}

impl RequestDone {
    /// The outcome of a request of which nothing is to be told but that it was carried out: for the
    /// fields that most requests have no use for.
    pub const NOTHING_TOLD: RequestDone = RequestDone {
        position: Position::NONE,
        event_no: EventNo::NONE,
        request_no: RequestNo::NONE,
        transact_time: Nanos(0),
        cl_ord_id: ClOrdId::NONE,
        affected_count: 0,
        session_id: SessionId::NONE,
        partition_id: PartitionId::NONE,
        ref_template_id: 0,
        phase_reached: PhaseReached::None,
        changed_count: 0,
        skipped_count: 0,
        cash: Cash::ZERO,
        reserved: Cash::ZERO,
        last_transfer_id: 0,
        last_transfer_cash: Cash::ZERO,
        last_transfer_peer: PartitionId::NONE,
    };
}
