//! Commands and events in one line each, for people who analyse a difference.

use weir_wire::{Command, Event, PlainEvent, Request};

pub(super) fn command_name(command: &Command) -> &'static str {
    match command {
        Command::Request(request) => match request {
            Request::NewOrder(_) => "NewOrder",
            Request::ReplaceOrder(_) => "ReplaceOrder",
            Request::CancelOrder(_) => "CancelOrder",
            Request::MassCancel(_) => "MassCancel",
            Request::DefineInstrument(_)
            | Request::DefineFirm(_)
            | Request::DefineAccount(_)
            | Request::DefineSession(_) => "Define",
            Request::Transfer(_) => "Transfer",
            Request::AccountInquiry(_) => "AccountInquiry",
            Request::SetPhase(_) => "SetPhase",
            Request::KillSwitch(_) => "KillSwitch",
            Request::BustTrade(_) => "BustTrade",
            Request::SchedulePhase(_) => "SchedulePhase",
            Request::ResumeTrading(_) => "ResumeTrading",
            Request::SetReference(_) => "SetReference",
            Request::ChangePhases(_) => "ChangePhases",
            Request::SchedulePhases(_) => "SchedulePhases",
        },
        Command::Import(..) => "Import",
        Command::Tick => "Tick",
        Command::SessionLost(_) => "SessionLost",
        Command::SessionChoice(_) => "SessionChoice",
        Command::SetLimits(_) => "SetLimits",
    }
}

pub(super) fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Plain(PlainEvent::OrderEvent(_)) => "OrderEvent",
        Event::Plain(PlainEvent::RequestRejected(_)) => "RequestRejected",
        Event::Plain(PlainEvent::RequestDone(_)) => "RequestDone",
        Event::Plain(PlainEvent::PhaseChanged(_)) => "PhaseChanged",
        Event::Plain(PlainEvent::Checkpoint(_)) => "Checkpoint",
        Event::Plain(PlainEvent::TradeBusted(_)) => "TradeBusted",
        Event::Plain(PlainEvent::Uncrossed(_)) => "Uncrossed",
        Event::Plain(PlainEvent::ReferencesChanged(_)) => "ReferencesChanged",
        Event::Defined(..) => "Defined",
    }
}

/// Formats a command in one line; of an order only the unusual fields.
#[must_use]
pub fn readable_command(command: &Command) -> String {
    let Command::Request(request) = command else { return format!("{command:?}") };
    match request {
        Request::NewOrder(m) => {
            let mut text = format!(
                "NewOrder {}/{} {:?} {:?} {:?} {} @ {} on {} account {} name {:?} stp {:?}",
                m.session_id,
                m.request_no,
                m.side,
                m.ord_type,
                m.time_in_force,
                m.order_qty,
                m.price,
                m.instrument_id,
                m.account_id,
                m.cl_ord_id,
                m.self_trade_prevention
            );
            let extras = [
                ("stop", m.stop_px.0),
                ("shows", m.display_qty.0.cast_signed()),
                ("minimum", m.min_qty.0.cast_signed()),
                ("expires", m.expire_time.0.cast_signed()),
                ("flags", i64::from(m.exec_inst.0)),
            ];
            for (what, value) in extras {
                if value != 0 {
                    text.push_str(&format!(" {what} {value}"));
                }
            }
            text
        }
        other => format!("{other:?}"),
    }
}

/// Formats an event in one line; of an order the fields that distinguish two engines.
#[must_use]
pub fn readable_event(event: &Event) -> String {
    let Event::Plain(PlainEvent::OrderEvent(e)) = event else { return format!("{event:?}") };
    format!(
        "{:?} {:?} rec {} seq {} no {} for {}/{}: {:?} {:?} {:?} {} @ {} stop {} leaves {} cum {} \
         shows {} min {} expires {} last {} @ {} match {} {:?} {:?} on {}",
        e.exec_type,
        e.ord_status,
        e.rec,
        e.seq,
        e.event_no,
        e.session_id,
        e.request_no,
        e.side,
        e.ord_type,
        e.time_in_force,
        e.order_qty,
        e.price,
        e.stop_px,
        e.leaves_qty,
        e.cum_qty,
        e.display_qty,
        e.min_qty,
        e.expire_time,
        e.last_qty,
        e.last_px,
        e.match_id,
        e.liquidity,
        e.reason,
        e.instrument_id
    )
}
