//! A trader's requests and received events, over all lives of the node: the model that the node is
//! checked against.
//!
//! INVARIANT: events are dense from 1; an event that is sent again equals the first one.

use std::collections::BTreeMap;

use weir_client::session::{SessionEvent, UnansweredRequest};
use weir_types::{ClOrdId, EventNo, RequestNo, SessionId};
use weir_wire::event::OrderEvent;
use weir_wire::report::StageTimes;
use weir_wire::{PlainEvent, Request};

pub struct Ledger {
    pub session_id: SessionId,
    /// Every request, with its number in it.
    pub sent: BTreeMap<RequestNo, Request>,
    /// The event that first answered a request.
    pub answers: BTreeMap<RequestNo, EventNo>,
    /// Every event received.
    pub events: BTreeMap<EventNo, PlainEvent>,
    /// The number of known events that were received again, unchanged.
    pub told_again_count: u64,
    /// The number of answers first received after the connection of their request.
    pub resumed_count: u64,
    /// The number of received events that the node has lost since, as its level allows.
    pub lost_count: u64,
    /// Live orders, by name.
    live: Vec<ClOrdId>,
}

impl Ledger {
    pub fn new(session_id: SessionId) -> Ledger {
        Ledger {
            session_id,
            sent: BTreeMap::new(),
            answers: BTreeMap::new(),
            events: BTreeMap::new(),
            told_again_count: 0,
            resumed_count: 0,
            lost_count: 0,
            live: Vec::new(),
        }
    }

    pub fn last_event_no(&self) -> EventNo {
        self.events.last_key_value().map_or(EventNo::NONE, |(event_no, _)| *event_no)
    }

    pub fn live(&self) -> &[ClOrdId] {
        &self.live
    }

    pub fn order_events(&self) -> impl Iterator<Item = &OrderEvent> {
        self.events.values().filter_map(|event| match event {
            PlainEvent::OrderEvent(event) => Some(event),
            _ => None,
        })
    }

    /// Records an event of the session.
    pub fn hear(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::Report { report, answered } => {
                let was_asked = !report.event.request_no.is_none();
                if was_asked && report.stage_times == StageTimes::default() {
                    self.resumed_count += u64::from(answered.is_some());
                }
                self.take(report.event.event_no, PlainEvent::OrderEvent(report.event), answered);
                self.note_live(&report.event);
            }
            SessionEvent::Rejected { rejected, answered } => {
                self.take(rejected.event_no, PlainEvent::RequestRejected(*rejected), answered);
            }
            SessionEvent::Done { done, answered } => {
                self.take(done.event_no, PlainEvent::RequestDone(*done), answered);
            }
            SessionEvent::Opened { .. } | SessionEvent::Heartbeat(_) => {}
            other => panic!("{:?} heard {other:?}", self.session_id),
        }
    }

    fn take(&mut self, event_no: EventNo, event: PlainEvent, answered: &Option<UnansweredRequest>) {
        if let Some(known) = self.events.get(&event_no) {
            assert_eq!(*known, event, "an event that is told again is the same");
            self.told_again_count += 1;
        } else {
            assert_eq!(event_no, self.last_event_no().next(), "no event is left out");
            self.events.insert(event_no, event);
        }
        if let Some(answered) = answered {
            let before = self.answers.insert(answered.request_no, event_no);
            assert_eq!(before, None, "a request has one first answer: {answered:?}");
        }
    }

    fn note_live(&mut self, event: &OrderEvent) {
        if event.seq.is_none() {
            return;
        }
        let place = self.live.iter().position(|name| *name == event.cl_ord_id);
        match (place, event.ord_status.is_live()) {
            (None, true) => self.live.push(event.cl_ord_id),
            (Some(place), false) => drop(self.live.swap_remove(place)),
            _ => {}
        }
    }

    /// Drops the events from `next` on, which the node has lost, as level `memory` allows. Requests
    /// without an answer are dropped too.
    pub fn forget_from(&mut self, next: EventNo) {
        assert!(next <= self.last_event_no().next(), "only what was heard can be lost");
        self.lost_count += self.events.split_off(&next).len() as u64;
        self.answers.retain(|_, event_no| *event_no < next);
        let answers = &self.answers;
        self.sent.retain(|request_no, _| answers.contains_key(request_no));
        self.live.clear();
        let events: Vec<OrderEvent> = self.order_events().copied().collect();
        events.iter().for_each(|event| self.note_live(event));
    }
}
