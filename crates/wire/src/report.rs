//! The execution report: an order event as its sender gets it, with its stage times.
//!
//! The stage times are measured, not decided: they are not part of the event log or the digest, and
//! are zero in a report that is sent again. They lie behind the event's block, so that a gateway
//! makes a report by appending 32 bytes to a record of the event log.

use core::fmt;

use weir_types::Nanos;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::event::OrderEvent;
use crate::field::{Field, Text};
use crate::message::{DecodeError, FieldInfo, Message, VisitField};

/// The times at which an order passed the points t0 to t6 (see `weir-probe`), in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// t0 since the Unix epoch; zero when the times are unknown.
    pub t0: Nanos,
    /// t1 to t6 as nanoseconds after t0; `u32::MAX` (4.29 s) means "that or more".
    pub after_t0: [u32; 6],
}

/// The bytes of [`StageTimes`].
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct StageTimesWire {
    t0: U64,
    after_t0: [U32; 6],
}

impl Field for StageTimes {
    type Wire = StageTimesWire;
    const SCHEMA_TYPE: &'static str = "stageTimes";

    fn from_wire(wire: StageTimesWire) -> Option<Self> {
        Some(StageTimes { t0: Nanos(wire.t0.get()), after_t0: wire.after_t0.map(U32::get) })
    }

    fn to_wire(self) -> StageTimesWire {
        StageTimesWire { t0: U64::new(self.t0.0), after_t0: self.after_t0.map(U32::new) }
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.t0)?;
        self.after_t0.iter().try_for_each(|span| write!(f, ",{span}"))
    }
}

/// The report of one change of a session's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutionReport {
    /// The change and the order's state after it.
    pub event: OrderEvent,
    /// The stage times of the command.
    pub stage_times: StageTimes,
}

const EVENT_FIELD_COUNT: usize = OrderEvent::FIELDS.len();

static REPORT_FIELDS: [FieldInfo; EVENT_FIELD_COUNT + 1] = {
    let stage_times = FieldInfo {
        name: "stage_times",
        offset: OrderEvent::BLOCK_LENGTH,
        size: size_of::<StageTimesWire>(),
        schema_type: StageTimes::SCHEMA_TYPE,
    };
    let mut fields = [stage_times; EVENT_FIELD_COUNT + 1];
    let mut i = 0;
    while i < EVENT_FIELD_COUNT {
        fields[i] = OrderEvent::FIELDS[i];
        i += 1;
    }
    fields
};

impl Message for ExecutionReport {
    const TEMPLATE_ID: u16 = OrderEvent::TEMPLATE_ID;
    const NAME: &'static str = "ExecutionReport";
    const BLOCK_LENGTH: usize = OrderEvent::BLOCK_LENGTH + size_of::<StageTimesWire>();
    const FIELDS: &'static [FieldInfo] = &REPORT_FIELDS;

    fn decode_block(block: &[u8]) -> Result<Self, DecodeError> {
        let event = OrderEvent::decode_block(block)?;
        let Ok((wire, _)) = StageTimesWire::read_from_prefix(&block[OrderEvent::BLOCK_LENGTH..])
        else {
            return Err(DecodeError::BlockTooShort {
                message: Self::NAME,
                got: block.len(),
                want: Self::BLOCK_LENGTH,
            });
        };
        let Some(stage_times) = StageTimes::from_wire(wire) else {
            unreachable!("every bit pattern is a stage time");
        };
        Ok(ExecutionReport { event, stage_times })
    }

    fn encode_block(&self, out: &mut Vec<u8>) {
        self.event.encode_block(out);
        out.extend_from_slice(self.stage_times.to_wire().as_bytes());
    }
    fn visit_fields(&self, visit: &mut VisitField<'_>) {
        self.event.visit_fields(visit);
        visit(&REPORT_FIELDS[EVENT_FIELD_COUNT], &Text(&self.stage_times));
    }
}
