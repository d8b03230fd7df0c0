//! A desk's day in short notation: `SIDE NAME PRICE QTY [FLAGS]`, `cancel NAME`, `replace OLD NEW
//! PRICE QTY`, `phase PHASE`, `schedule TIME PHASE`, `bust MATCH [force]`, `at TIME` (the log time
//! of later steps), `tick`. A step that begins with `bob` comes from the other firm. A price of 0
//! means a market order.

use weir_wire::Message;

use super::*;

pub fn step(desk: &mut Desk, text: &str) -> Vec<String> {
    if let Some(time) = text.strip_prefix("at ") {
        desk.clock = time.parse().expect("a time");
        return Vec::new();
    }
    let events = match asked_in(text) {
        Some(request) => desk.ask(request),
        None => desk.apply(&Command::Tick),
    };
    events.iter().map(tell).collect()
}

/// Returns the request of a step; `None` for a tick or a time.
pub fn asked_in(text: &str) -> Option<Request> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let is_bob = words[0] == "bob";
    if is_bob {
        words.remove(0);
    }
    let is_request = !matches!(words[0], "tick" | "at");
    is_request.then(|| request(&words, if is_bob { BOB } else { ALICE }))
}

pub fn request(words: &[&str], session_id: SessionId) -> Request {
    let number = |at: usize| -> i64 { words[at].parse().expect("a step's number") };
    match words[0] {
        "cancel" => Request::CancelOrder(CancelOrder { session_id, ..cancel(words[1]) }),
        "replace" => Request::ReplaceOrder(ReplaceOrder {
            session_id,
            ..replace(words[1], words[2], number(3), number(4) as u64)
        }),
        "phase" => Request::SetPhase(SetPhase {
            request_no: RequestNo(0),
            session_id: OPERATOR,
            instrument_id: TULIP,
            phase: phase(words[1]),
            override_collars: switch(words.get(2) == Some(&"override")),
        }),
        "resume" => Request::ResumeTrading(ResumeTrading {
            request_no: RequestNo(0),
            session_id: OPERATOR,
            instrument_id: TULIP,
            through_call: switch(words.get(1) == Some(&"call")),
        }),
        "schedule" => Request::SchedulePhase(SchedulePhase {
            request_no: RequestNo(0),
            at: Nanos(number(1) as u64),
            session_id: OPERATOR,
            instrument_id: TULIP,
            phase: phase(words[2]),
        }),
        "reference" => {
            let of = |what: &str| {
                let given =
                    words.iter().find_map(|word| word.strip_prefix(what)?.strip_prefix('='));
                given.map(|price| Price(price.parse().expect("a price")))
            };
            Request::SetReference(SetReference {
                request_no: RequestNo(0),
                last_px: of("last").unwrap_or(Price(0)),
                static_px: of("static").unwrap_or(Price(0)),
                session_id: OPERATOR,
                instrument_id: TULIP,
                sets_last: switch(of("last").is_some()),
                sets_static: switch(of("static").is_some()),
            })
        }
        "bust" => Request::BustTrade(BustTrade {
            request_no: RequestNo(0),
            match_id: MatchId(number(1) as u64),
            session_id: OPERATOR,
            partition_id: HERE,
            force: switch(words.get(2) == Some(&"force")),
        }),
        side => {
            let side = if side == "buy" { Side::Buy } else { Side::Sell };
            let mut order = limit(side, number(2), number(3) as u64, words[1]);
            if order.price.0 == 0 {
                order.ord_type = OrdType::Market;
            }
            order.session_id = session_id;
            order.account_id = if session_id == BOB { OTHER } else { RICH };
            for flag in &words[4..] {
                set_flag(&mut order, flag);
            }
            Request::NewOrder(order)
        }
    }
}

pub fn switch(is_on: bool) -> Switch {
    if is_on { Switch::On } else { Switch::Off }
}

fn phase(word: &str) -> Phase {
    match word {
        "closed" => Phase::Closed,
        "opening" => Phase::OpeningCall,
        "continuous" => Phase::Continuous,
        "volatility" => Phase::VolatilityCall,
        "closing" => Phase::ClosingCall,
        "halted" => Phase::Halted,
        other => panic!("no phase: {other}"),
    }
}

fn set_flag(order: &mut NewOrder, flag: &str) {
    let (word, value) = flag.split_once('=').unwrap_or((flag, "0"));
    let value: u64 = value.parse().expect("a flag's number");
    match word {
        "ioc" => order.time_in_force = TimeInForce::Ioc,
        "fok" => order.time_in_force = TimeInForce::Fok,
        "day" => order.time_in_force = TimeInForce::Day,
        "open" => order.time_in_force = TimeInForce::AtTheOpen,
        "close" => order.time_in_force = TimeInForce::AtTheClose,
        "gtd" => {
            order.time_in_force = TimeInForce::Gtd;
            order.expire_time = Nanos(value);
        }
        "until" => order.expire_time = Nanos(value),
        "post" => order.exec_inst = ExecInst::POST_ONLY,
        "stop" => {
            let is_market = order.ord_type == OrdType::Market;
            order.ord_type = if is_market { OrdType::Stop } else { OrdType::StopLimit };
            order.stop_px = Price(value as i64);
        }
        "show" => order.display_qty = Qty(value),
        "min" => order.min_qty = Qty(value),
        "newest" => order.self_trade_prevention = SelfTradePrevention::CancelNewest,
        "oldest" => order.self_trade_prevention = SelfTradePrevention::CancelOldest,
        "both" => order.self_trade_prevention = SelfTradePrevention::CancelBoth,
        "decrement" => order.self_trade_prevention = SelfTradePrevention::Decrement,
        "poor" => order.account_id = POOR,
        "maker" => order.account_id = MAKER,
        other => panic!("no flag: {other}"),
    }
}

pub fn tell(event: &Event) -> String {
    let Event::Plain(event) = event else { return format!("{event:?}") };
    match event {
        PlainEvent::OrderEvent(e) => told(&[*e]).remove(0),
        PlainEvent::RequestRejected(e) => format!("refused {:?}", e.reason),
        // A change of phase has an event of its own; the end of a halt may need none.
        PlainEvent::RequestDone(e) if e.ref_template_id == ResumeTrading::TEMPLATE_ID => {
            let reached = e.phase_reached.phase().expect("it is about a phase");
            format!("done {} {reached:?}", e.affected_count)
        }
        PlainEvent::RequestDone(e) => format!("done {}", e.affected_count),
        PlainEvent::PhaseChanged(e) => format!("phase {:?}", e.phase),
        PlainEvent::TradeBusted(e) => {
            let mut text = format!("busted {:?} {}@{}", e.side, e.last_qty, e.last_px);
            if e.debt_cash.0 > 0 {
                text.push_str(&format!(" owes {}", e.debt_cash.0));
            }
            if !e.debt_qty.is_zero() {
                text.push_str(&format!(" owes {} lots", e.debt_qty));
            }
            text
        }
        PlainEvent::Uncrossed(e) => format!("uncrossed {}@{} {:+}", e.qty, e.price, e.surplus),
        PlainEvent::ReferencesChanged(e) => {
            let of = |has: Switch, price: Price| match has {
                Switch::On => price.to_string(),
                Switch::Off => "none".to_owned(),
            };
            format!("references {} {}", of(e.has_last, e.last_px), of(e.has_static, e.static_px))
        }
        PlainEvent::Checkpoint(_) => "checkpoint".to_owned(),
    }
}

/// A step and its expected events.
pub type ScriptLine<'a> = (&'a str, &'a [&'a str]);

/// Checks each step's events on a new desk.
pub fn check(steps: &[ScriptLine<'_>]) -> Desk {
    let mut desk = Desk::open();
    check_on(&mut desk, steps);
    desk
}

pub fn check_on(desk: &mut Desk, steps: &[ScriptLine<'_>]) {
    for (at, (text, want)) in steps.iter().enumerate() {
        assert_eq!(step(desk, text), *want, "step {at}: {text}");
    }
}

/// Redefines the desk's instrument.
pub fn define(desk: &mut Desk, change: impl FnOnce(&mut DefineInstrument)) {
    let mut definition = instrument(TULIP, HERE);
    change(&mut definition);
    let events = desk.import(Definition::DefineInstrument(definition));
    assert_eq!(events.len(), 1);
}
