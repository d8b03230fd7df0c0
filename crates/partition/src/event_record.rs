//! Records of the event log: their heads are read in place, and nothing else is decoded.

use weir_wire::event::OrderEvent;
use weir_wire::event_head::{Address, address};
use weir_wire::frame::{RawMessage, parse_message};
use weir_wire::{Event, Message};

/// A record of the event log.
#[derive(Clone, Copy, Debug)]
pub struct EventRecord<'a> {
    bytes: &'a [u8],
    raw: RawMessage<'a>,
}

impl<'a> EventRecord<'a> {
    /// Reads a record's header.
    ///
    /// # Panics
    /// If the record has none: it is not of an event log.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> EventRecord<'a> {
        let raw = parse_message(bytes).expect("the event log holds messages of our own");
        EventRecord { bytes, raw }
    }

    /// Returns the record as a message.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> &RawMessage<'a> {
        &self.raw
    }

    /// Returns the event; `None` for one of a later version.
    #[inline]
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        Event::decode(self.bytes).ok()
    }

    /// Returns true for a report of one order.
    #[inline]
    #[must_use]
    pub fn is_order_event(&self) -> bool {
        self.raw.template_id == OrderEvent::TEMPLATE_ID
    }

    /// Returns the position of the command that caused the event: every event begins with it.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u64 {
        let (position, _) = self.raw.block().split_first_chunk().expect("no event is shorter");
        u64::from_le_bytes(*position)
    }

    /// Reads the head of an event that is addressed to a session.
    #[inline]
    #[must_use]
    pub fn address(&self) -> Option<Address> {
        address(&self.raw)
    }
}
