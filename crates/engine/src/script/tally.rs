//! Counts of a script's commands and events: a generator that never reaches a rule proves nothing.

use std::collections::BTreeMap;

use weir_types::ExecType;
use weir_wire::event::OrderEvent;
use weir_wire::reference::ResumeTrading;
use weir_wire::{Command, Event, Message, PlainEvent, Request};

use super::readable::{command_name, event_name};
use crate::naive::{StepRule, TradingRule};

/// Counts of commands and events by kind.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: BTreeMap<(&'static str, String), u64>,
}

impl Tally {
    /// Counts a command and its events.
    pub fn command(&mut self, command: &Command, events: &[Event]) {
        self.add("command", command_name(command).to_owned());
        let mut is_refused = false;
        for event in events {
            self.event(event);
            is_refused |= is_refusal(event);
        }
        if let Command::Request(request) = command {
            self.add(if is_refused { "refused" } else { "accepted" }, "request".to_owned());
            if is_refused {
                self.add("refused", command_name(command).to_owned());
            } else if let Request::NewOrder(m) = request {
                self.add("entered type", format!("{:?}", m.ord_type));
                self.add("entered time in force", format!("{:?}", m.time_in_force));
                for (is_so, condition) in [
                    (m.display_qty.0 > 0, "Iceberg"),
                    (m.min_qty.0 > 0, "MinQty"),
                    (m.exec_inst.0 != 0, "PostOnly"),
                ] {
                    if is_so {
                        self.add("entered condition", condition.to_owned());
                    }
                }
            }
        }
    }

    /// Counts the rules of steps that a command reached.
    pub fn reached(&mut self, rules: &[StepRule]) {
        for rule in rules {
            self.add("step", format!("{rule:?}"));
        }
    }

    /// Counts the rules of trading that a command reached.
    pub fn rules(&mut self, rules: &[TradingRule]) {
        for rule in rules {
            self.add("rule", format!("{rule:?}"));
        }
    }

    fn event(&mut self, event: &Event) {
        self.add("event", event_name(event).to_owned());
        match event {
            Event::Plain(PlainEvent::OrderEvent(e)) => self.order_event(e),
            Event::Plain(PlainEvent::RequestRejected(e)) => {
                self.add("reason", format!("{:?}", e.reason));
            }
            Event::Plain(PlainEvent::PhaseChanged(e)) => {
                self.add("phase", format!("{:?}", e.phase));
                self.add("cause of phase", format!("{:?}", e.cause));
            }
            Event::Plain(PlainEvent::RequestDone(e))
                if e.ref_template_id == ResumeTrading::TEMPLATE_ID =>
            {
                self.add("resumed to", format!("{:?}", e.phase_reached));
            }
            Event::Plain(PlainEvent::Uncrossed(e)) if e.qty.0 > 0 => {
                self.add("event", "Uncrossed with trades".to_owned());
            }
            _ => {}
        }
    }

    fn order_event(&mut self, e: &OrderEvent) {
        self.add("order event", format!("{:?}", e.exec_type));
        if e.exec_type == ExecType::Trade {
            self.add("trade", format!("{:?} {:?}", e.liquidity, e.ord_type));
        }
        if e.reason.code() != 0 {
            self.add("reason", format!("{:?}", e.reason));
        }
    }

    fn add(&mut self, group: &'static str, kind: String) {
        *self.counts.entry((group, kind)).or_default() += 1;
    }

    /// Returns the count of `kind` in `group`.
    #[must_use]
    pub fn of(&self, group: &'static str, kind: &str) -> u64 {
        self.counts.get(&(group, kind.to_owned())).copied().unwrap_or(0)
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Tally) {
        for ((group, kind), count) in &other.counts {
            *self.counts.entry((group, kind.clone())).or_default() += count;
        }
    }

    /// Returns all counts as group, kind and number.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str, u64)> + '_ {
        self.counts.iter().map(|((group, kind), count)| (*group, kind.as_str(), *count))
    }
}

/// Returns true if the event refuses a request.
fn is_refusal(event: &Event) -> bool {
    match event {
        Event::Plain(PlainEvent::OrderEvent(e)) => e.exec_type == ExecType::Rejected,
        Event::Plain(PlainEvent::RequestRejected(_)) => true,
        _ => false,
    }
}
