//! An echo node: the baseline of a round trip. It uses the same frames, sessions and sockets as a
//! real node, with nothing between reading a request and writing its report.
//!
//! It accepts every logon, answers every order request with one execution report that carries the
//! request's number, and every other request as carried out. It keeps no order and no log.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_types::{
    AccountId, ClOrdId, Epoch, EventNo, ExecId, ExecInst, ExecType, FirmId, InstrumentId,
    Liquidity, MatchId, Nanos, OrdStatus, OrdType, OrderId, PartitionId, Position, Price, Qty,
    Reason, Rec, RequestNo, Role, SelfTradePrevention, Seq, SessionId, Side, TimeInForce,
};
use weir_wire::Request;
use weir_wire::dialogue::{ClientMessage, put_logon_ack};
use weir_wire::event::{OrderEvent, RequestDone};
use weir_wire::frame::put_frame;
use weir_wire::report::{ExecutionReport, StageTimes};
use weir_wire::session::{Logon, LogonAck, Logout, PartitionState};

use crate::clock::{WaitStrategy, unix_time, wait_readable};
use crate::connection::{Connection, Limits};
use crate::error::ClientError;

/// The echo's only partition.
pub const PARTITION: PartitionId = PartitionId(1);

/// The interval at which `stop` is checked.
const CARE_INTERVAL: Duration = Duration::from_millis(100);

/// Serves connections of `listener` until `stop` is set.
///
/// # Errors
/// [`ClientError::Io`] of the listener; a connection's error ends that connection only.
pub fn serve(
    listener: &TcpListener,
    strategy: WaitStrategy,
    stop: &AtomicBool,
) -> Result<(), ClientError> {
    listener.set_nonblocking(true).map_err(|e| ClientError::io("listening", e))?;
    let mut connections: Vec<Connection> = Vec::new();
    let mut events: HashMap<SessionId, u64> = HashMap::new();
    let mut turn = 0u32;
    // SYNC: pairs with the store of `stop` by the thread that ends the echo; only the flag itself
    // is communicated.
    while !stop.load(Ordering::Relaxed) {
        if strategy == WaitStrategy::Park {
            wait_readable(listener, &connections, CARE_INTERVAL)?;
        }
        // Connections are rare: a spinning echo accepts only every 1,024th turn.
        turn = turn.wrapping_add(1);
        if strategy == WaitStrategy::Park || turn.is_multiple_of(1_024) {
            accept(listener, &mut connections)?;
        }
        connections.retain_mut(|connection| answer(connection, &mut events).is_ok());
        match strategy {
            WaitStrategy::Park => {}
            WaitStrategy::Yield => std::thread::yield_now(),
            WaitStrategy::Spin => std::hint::spin_loop(),
        }
    }
    Ok(())
}

fn accept(listener: &TcpListener, connections: &mut Vec<Connection>) -> Result<(), ClientError> {
    match listener.accept() {
        Ok((stream, _)) => {
            // A peer that is already gone is no error.
            connections.extend(Connection::of(stream, Limits::default()));
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(ClientError::io("accepting a connection", error)),
    }
}

/// Answers the messages received on a connection.
///
/// # Errors
/// Those of the connection.
pub(crate) fn answer(
    connection: &mut Connection,
    events: &mut HashMap<SessionId, u64>,
) -> Result<(), ClientError> {
    if connection.receive()? == 0 && connection.backlog_len() == 0 {
        return Ok(());
    }
    while let Some((raw, out)) = connection.next_raw()? {
        match ClientMessage::decode(&raw)? {
            ClientMessage::Request(request) => {
                let event_no = events.entry(request.session_id()).or_insert(0);
                *event_no += 1;
                echo(&request, EventNo(*event_no), out);
            }
            ClientMessage::Logon(logon, _) => {
                let last_event_no = *events.entry(logon.session_id).or_insert(0);
                open(&logon, last_event_no, out);
            }
            ClientMessage::Logout(logout) => {
                let session_id = logout.session_id;
                put_frame(&Logout { session_id, reason: Reason::LogoutRequested }, out);
            }
            ClientMessage::Heartbeat(heartbeat) => put_frame(&heartbeat, out),
            // It keeps no order state and no reports, and has no identity to sign for.
            ClientMessage::FetchOrders(..)
            | ClientMessage::CancelFetch(_)
            | ClientMessage::AddCredit(_)
            | ClientMessage::DropCopyRequest(_)
            | ClientMessage::OpenSource(_)
            | ClientMessage::FollowSource(_)
            | ClientMessage::ResetSource(_)
            | ClientMessage::SourceBatch(..)
            | ClientMessage::CreateSubscription(..)
            | ClientMessage::SubscriptionRequest(..)
            | ClientMessage::AttachSubscription(..)
            | ClientMessage::DetachSubscription(_)
            | ClientMessage::AckMessages(_)
            | ClientMessage::PublishMessage(..)
            | ClientMessage::NamedToken(..)
            | ClientMessage::Market(_)
            | ClientMessage::ChallengeRequest(_)
            | ClientMessage::SignedLogon(..) => {}
        }
    }
    connection.flush()
}

fn open(logon: &Logon, last_event_no: u64, out: &mut Vec<u8>) {
    let ack = LogonAck {
        server_time: unix_time(),
        session_id: logon.session_id,
        firm_id: FirmId(1),
        heartbeat_interval_ms: logon.heartbeat_interval_ms,
        order_rate_max: 0,
        in_flight_max: 0,
        role: Role::Trader,
    };
    let state = PartitionState {
        last_request_no: RequestNo(last_event_no),
        next_event_no: EventNo(last_event_no + 1),
        oldest_event_no: EventNo(1),
        epoch: Epoch(1),
        partition_id: PARTITION,
    };
    put_logon_ack(&ack, &[state], out);
}

fn echo(request: &Request, event_no: EventNo, out: &mut Vec<u8>) {
    let (cl_ord_id, account_id) = match request {
        Request::NewOrder(order) => (order.cl_ord_id, order.account_id),
        Request::ReplaceOrder(replace) => (replace.cl_ord_id, AccountId::NONE),
        Request::CancelOrder(cancel) => (cancel.orig_cl_ord_id, AccountId::NONE),
        other => return put_frame(&done(other, event_no), out),
    };
    let mut event = blank();
    event.event_no = event_no;
    event.request_no = request.request_no();
    event.cl_ord_id = cl_ord_id;
    event.session_id = request.session_id();
    event.account_id = account_id;
    if matches!(request, Request::CancelOrder(_)) {
        (event.exec_type, event.ord_status) = (ExecType::Canceled, OrdStatus::Canceled);
    }
    put_frame(&ExecutionReport { event, stage_times: StageTimes::default() }, out);
}

fn done(request: &Request, event_no: EventNo) -> RequestDone {
    RequestDone {
        position: Position(event_no.0),
        event_no,
        request_no: request.request_no(),
        transact_time: Nanos(0),
        cl_ord_id: ClOrdId::NONE,
        affected_count: 0,
        session_id: request.session_id(),
        partition_id: PARTITION,
        ref_template_id: request.template_id(),
        ..RequestDone::NOTHING_TOLD
    }
}

fn blank() -> OrderEvent {
    OrderEvent {
        position: Position(1),
        event_no: EventNo(0),
        request_no: RequestNo(0),
        rec: Rec(1),
        seq: Seq(1),
        order_id: OrderId(1),
        exec_id: ExecId(1),
        match_id: MatchId(0),
        transact_time: Nanos(0),
        created_time: Nanos(0),
        cl_ord_id: ClOrdId::NONE,
        orig_cl_ord_id: ClOrdId::NONE,
        price: Price(0),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty(0),
        order_qty: Qty(1),
        leaves_qty: Qty(1),
        cum_qty: Qty(0),
        display_qty: Qty(0),
        min_qty: Qty(0),
        expire_time: Nanos(0),
        session_id: SessionId(0),
        firm_id: FirmId(1),
        account_id: AccountId(0),
        instrument_id: InstrumentId(1),
        partition_id: PARTITION,
        reason: Reason::None,
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Gtc,
        exec_inst: ExecInst::NONE,
        self_trade_prevention: SelfTradePrevention::None,
        exec_type: ExecType::New,
        ord_status: OrdStatus::New,
        liquidity: Liquidity::None,
    }
}
