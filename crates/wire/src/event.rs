//! What the engine says: the records of the event log, and the reports made of them.
//!
//! An [`OrderEvent`] tells one change of one order and its whole state after it, so that a view
//! needs no other record to know the order. Events addressed to a session carry its dense
//! `event_no`; (`seq`, `rec`) order the changes within a partition.

use weir_types::{
    AccountId, ClOrdId, EventNo, ExecId, ExecInst, ExecType, FirmId, InstrumentId, Liquidity,
    MatchId, Nanos, OrdStatus, OrdType, OrderId, PartitionId, Phase, Position, Price, Qty, Reason,
    Rec, RequestNo, SelfTradePrevention, Seq, SessionId, Side, TimeInForce,
};

use crate::message::messages;

messages! {
    /// One change of one order, with its state after the change. The same block followed by the
    /// stage times is what the client gets: an [`ExecutionReport`](crate::report::ExecutionReport).
    OrderEvent = 40 {
        /// The command that caused it.
        position: Position,
        /// Its number among the session's events of this partition.
        event_no: EventNo,
        /// The request that caused it; zero when the session did not ask for it.
        request_no: RequestNo,
        /// The order's record number; zero when it was rejected and never became one.
        rec: Rec,
        /// The change's number in the partition; zero as above.
        seq: Seq,
        /// The order.
        order_id: OrderId,
        /// This report's own number.
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
        /// What can still trade; zero when ended.
        leaves_qty: Qty,
        /// What has traded.
        cum_qty: Qty,
        /// The shown quantity asked for.
        display_qty: Qty,
        /// The minimum quantity asked for; zero once the order is accepted, since it is met then.
        min_qty: Qty,
        /// When it expires.
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
        /// Why it ended or was refused.
        reason: Reason,
        /// Buy or sell.
        side: Side,
        /// Limit, market, ...
        ord_type: OrdType,
        /// How long it stands.
        time_in_force: TimeInForce,
        /// Flags.
        exec_inst: ExecInst,
        /// Self-trade prevention.
        self_trade_prevention: SelfTradePrevention,
        /// What happened.
        exec_type: ExecType,
        /// The state it is in now.
        ord_status: OrdStatus,
        /// Maker or taker.
        liquidity: Liquidity,
    }

    /// A replace, cancel, mass cancel or operator's request was refused, or any request whose
    /// number was used before is answered by its first outcome.
    RequestRejected = 41 {
        /// The command that caused it.
        position: Position,
        /// Its number among the session's events of this partition.
        event_no: EventNo,
        /// The refused request.
        request_no: RequestNo,
        /// The order it named, when the engine knows it.
        order_id: OrderId,
        /// The log's time.
        transact_time: Nanos,
        /// The request's name.
        cl_ord_id: ClOrdId,
        /// The order's name that it gave.
        orig_cl_ord_id: ClOrdId,
        /// The session.
        session_id: SessionId,
        /// The instrument it named.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// Why.
        reason: Reason,
        /// The template id of the request.
        ref_template_id: u16,
    }

    /// A mass cancel or an operator's request was carried out.
    RequestDone = 42 {
        /// The command that caused it.
        position: Position,
        /// Its number among the session's events of this partition.
        event_no: EventNo,
        /// The request.
        request_no: RequestNo,
        /// The log's time.
        transact_time: Nanos,
        /// The request's name; empty for an operator's request.
        cl_ord_id: ClOrdId,
        /// How many orders it changed.
        affected_count: u64,
        /// The session.
        session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
        /// The template id of the request.
        ref_template_id: u16,
    }

    /// An instrument's phase changed.
    PhaseChanged = 43 {
        /// The command that caused it.
        position: Position,
        /// The log's time.
        transact_time: Nanos,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// The phase it is in now.
        phase: Phase,
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
    /// A trade was taken back, told to one side of it.
    TradeBusted = 46 {
        /// The command that caused it.
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
    }

    /// A call's book was uncrossed; its trades come before.
    Uncrossed = 47 {
        /// The command that caused it.
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

    /// A definition was accepted (in the control log) or imported (in a partition). The
    /// definition's own message follows in the same record.
    Defined = 45 {
        /// The command that caused it.
        position: Position,
        /// The log's time.
        transact_time: Nanos,
        /// The definition's place in the control log.
        control_position: Position,
        /// The partition.
        partition_id: PartitionId,
    }
}
