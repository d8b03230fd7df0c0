//! Commands and events as one type each, and their encoding in the logs: SBE's message header, the
//! block, and for an import or a definition's event the definition's own header and block.

use weir_types::{EventNo, InstrumentId, PartitionId, Position, RequestNo, SessionId};

use crate::event::{
    Checkpoint, Defined, OrderEvent, PhaseChanged, ReferencesChanged, RequestDone, RequestRejected,
    TradeBusted, Uncrossed,
};
use crate::frame::{RawMessage, parse_message, put_message};
use crate::message::{DecodeError, Message};
use crate::order_entry::{CancelOrder, MassCancel, NewOrder, ReplaceOrder};
use crate::reference::{
    AccountInquiry, BustTrade, ChangePhases, DefineAccount, DefineFirm, DefineInstrument,
    DefineSession, Import, KillSwitch, ResumeTrading, SchedulePhase, SchedulePhases, SessionChoice,
    SessionLost, SetLimits, SetPhase, SetReference, Tick, Transfer, all_fields, changed, is_change,
};

macro_rules! records {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant($variant),)* }

        impl $name {
            /// The template id of its message.
            #[must_use]
            pub fn template_id(&self) -> u16 {
                match self { $($name::$variant(_) => $variant::TEMPLATE_ID,)* }
            }

            /// The name of its message.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $($name::$variant(_) => $variant::NAME,)* }
            }

            fn put_own_message(&self, out: &mut Vec<u8>) {
                match self { $($name::$variant(message) => put_message(message, out),)* }
            }

            #[inline]
            fn decode_own_message(raw: &RawMessage<'_>) -> Result<Self, DecodeError> {
                match raw.template_id {
                    $($variant::TEMPLATE_ID => raw.decode_whole().map($name::$variant),)*
                    other => Err(DecodeError::UnknownTemplate(other)),
                }
            }
        }
    )*};
}

records! {
    /// A definition of reference data.
    Definition {
        /// An instrument.
        DefineInstrument,
        /// A firm.
        DefineFirm,
        /// An account.
        DefineAccount,
        /// A session and its key.
        DefineSession,
    }

    /// A request that a client sends and the log orders.
    Request {
        /// A new order.
        NewOrder,
        /// A replace.
        ReplaceOrder,
        /// A cancel.
        CancelOrder,
        /// A mass cancel.
        MassCancel,
        /// A transfer of cash or a position.
        Transfer,
        /// A question for an account's cash.
        AccountInquiry,
        /// A change of phase.
        SetPhase,
        /// A kill switch.
        KillSwitch,
        /// A trade bust.
        BustTrade,
        /// A scheduled change of phase.
        SchedulePhase,
        /// The end of a halt.
        ResumeTrading,
        /// A last price or a static reference.
        SetReference,
        /// A change of the phase of many instruments.
        ChangePhases,
        /// Scheduled changes of the phase of many instruments.
        SchedulePhases,
        /// An instrument.
        DefineInstrument,
        /// A firm.
        DefineFirm,
        /// An account.
        DefineAccount,
        /// A session and its key.
        DefineSession,
    }

    /// An event without a definition in it.
    PlainEvent {
        /// A change of an order.
        OrderEvent,
        /// A refused request.
        RequestRejected,
        /// A request carried out.
        RequestDone,
        /// A change of phase.
        PhaseChanged,
        /// A digest.
        Checkpoint,
        /// A busted trade.
        TradeBusted,
        /// An uncrossing.
        Uncrossed,
        /// Other references than those of trades.
        ReferencesChanged,
    }
}

/// An entry of a command log: the engine's only input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A client's request.
    Request(Request),
    /// A definition of the control log, imported by a partition.
    Import(Position, Definition),
    /// Timers are due.
    Tick,
    /// A session's connection is gone.
    SessionLost(SessionLost),
    /// A session has logged on, with its choice of cancel on disconnect.
    SessionChoice(SessionChoice),
    /// The engine's limits are these from here on.
    SetLimits(SetLimits),
}

/// A record of an event log: the engine's only output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Orders, requests, phases, digests.
    Plain(PlainEvent),
    /// A definition was accepted or imported.
    Defined(Defined, Definition),
}

impl Request {
    /// The session that sent it.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        match self {
            Request::NewOrder(m) => m.session_id,
            Request::ReplaceOrder(m) => m.session_id,
            Request::CancelOrder(m) => m.session_id,
            Request::MassCancel(m) => m.session_id,
            Request::Transfer(m) => m.session_id,
            Request::AccountInquiry(m) => m.session_id,
            Request::SetPhase(m) => m.session_id,
            Request::KillSwitch(m) => m.session_id,
            Request::BustTrade(m) => m.session_id,
            Request::SchedulePhase(m) => m.session_id,
            Request::ResumeTrading(m) => m.session_id,
            Request::SetReference(m) => m.session_id,
            Request::ChangePhases(m) => m.session_id,
            Request::SchedulePhases(m) => m.session_id,
            Request::DefineInstrument(m) => m.session_id,
            Request::DefineFirm(m) => m.session_id,
            Request::DefineAccount(m) => m.session_id,
            Request::DefineSession(m) => m.session_id,
        }
    }

    /// Its request number.
    #[must_use]
    pub fn request_no(&self) -> RequestNo {
        match self {
            Request::NewOrder(m) => m.request_no,
            Request::ReplaceOrder(m) => m.request_no,
            Request::CancelOrder(m) => m.request_no,
            Request::MassCancel(m) => m.request_no,
            Request::Transfer(m) => m.request_no,
            Request::AccountInquiry(m) => m.request_no,
            Request::SetPhase(m) => m.request_no,
            Request::KillSwitch(m) => m.request_no,
            Request::BustTrade(m) => m.request_no,
            Request::SchedulePhase(m) => m.request_no,
            Request::ResumeTrading(m) => m.request_no,
            Request::SetReference(m) => m.request_no,
            Request::ChangePhases(m) => m.request_no,
            Request::SchedulePhases(m) => m.request_no,
            Request::DefineInstrument(m) => m.request_no,
            Request::DefineFirm(m) => m.request_no,
            Request::DefineAccount(m) => m.request_no,
            Request::DefineSession(m) => m.request_no,
        }
    }

    /// Returns the log that the request belongs in.
    #[must_use]
    pub fn destination(&self) -> Destination {
        match self {
            Request::NewOrder(m) => Destination::Instrument(m.instrument_id),
            Request::ReplaceOrder(m) => Destination::Instrument(m.instrument_id),
            Request::CancelOrder(m) => Destination::Instrument(m.instrument_id),
            Request::SetPhase(m) => Destination::Instrument(m.instrument_id),
            Request::SchedulePhase(m) => Destination::Instrument(m.instrument_id),
            Request::ResumeTrading(m) => Destination::Instrument(m.instrument_id),
            Request::SetReference(m) => Destination::Instrument(m.instrument_id),
            Request::MassCancel(m) => Destination::Partition(m.partition_id),
            Request::Transfer(m) => Destination::Partition(m.partition_id),
            Request::AccountInquiry(m) => Destination::Partition(m.partition_id),
            Request::KillSwitch(m) => Destination::Partition(m.partition_id),
            Request::ChangePhases(m) => Destination::Partition(m.partition_id),
            Request::SchedulePhases(m) => Destination::Partition(m.partition_id),
            Request::BustTrade(m) => Destination::Partition(m.partition_id),
            Request::DefineInstrument(m) if is_change(m.fields) => {
                Destination::Partition(m.partition_id)
            }
            Request::DefineInstrument(_)
            | Request::DefineFirm(_)
            | Request::DefineAccount(_)
            | Request::DefineSession(_) => Destination::Control,
        }
    }

    /// Returns the definition in it, if it is one.
    #[must_use]
    pub fn definition(&self) -> Option<Definition> {
        match self {
            Request::DefineInstrument(m) => Some(Definition::DefineInstrument(*m)),
            Request::DefineFirm(m) => Some(Definition::DefineFirm(*m)),
            Request::DefineAccount(m) => Some(Definition::DefineAccount(*m)),
            Request::DefineSession(m) => Some(Definition::DefineSession(*m)),
            _ => None,
        }
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// Any [`DecodeError`]; [`DecodeError::UnknownTemplate`] for messages that are no requests.
    #[inline]
    pub fn decode(raw: &RawMessage<'_>) -> Result<Request, DecodeError> {
        Request::decode_own_message(raw)
    }

    /// Appends header and block.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put_own_message(out);
    }
}

/// The log that a request belongs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The partition of the instrument.
    Instrument(InstrumentId),
    /// The partition named.
    Partition(PartitionId),
    /// The control log.
    Control,
}

impl Definition {
    /// The fields that it sets; see [`crate::reference`].
    #[must_use]
    pub fn fields(&self) -> u32 {
        match self {
            Definition::DefineInstrument(d) => d.fields,
            Definition::DefineFirm(d) => d.fields,
            Definition::DefineAccount(d) => d.fields,
            Definition::DefineSession(d) => d.fields,
        }
    }

    /// The bits that `fields` may have in a change.
    #[must_use]
    pub fn all_fields(&self) -> u32 {
        match self {
            Definition::DefineInstrument(_) => all_fields::<DefineInstrument>(),
            Definition::DefineFirm(_) => all_fields::<DefineFirm>(),
            Definition::DefineAccount(_) => all_fields::<DefineAccount>(),
            Definition::DefineSession(_) => all_fields::<DefineSession>(),
        }
    }

    /// Returns this definition with the fields that `change` sets.
    ///
    /// # Panics
    /// When the two are of different kinds.
    #[must_use]
    pub fn changed_by(&self, change: &Definition) -> Definition {
        use Definition::{DefineAccount, DefineFirm, DefineInstrument, DefineSession};
        let fields = change.fields();
        match (self, change) {
            (DefineInstrument(a), DefineInstrument(b)) => DefineInstrument(changed(a, b, fields)),
            (DefineFirm(a), DefineFirm(b)) => DefineFirm(changed(a, b, fields)),
            (DefineAccount(a), DefineAccount(b)) => DefineAccount(changed(a, b, fields)),
            (DefineSession(a), DefineSession(b)) => DefineSession(changed(a, b, fields)),
            _ => panic!("{} is changed by {}", self.name(), change.name()),
        }
    }

    /// Decodes a definition.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn decode(raw: &RawMessage<'_>) -> Result<Definition, DecodeError> {
        Definition::decode_own_message(raw)
    }

    /// Appends header and block.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put_own_message(out);
    }
}

impl Command {
    /// Appends the log entry's encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Command::Request(request) => request.encode(out),
            Command::Import(control_position, definition) => {
                put_message(&Import { control_position: *control_position }, out);
                definition.encode(out);
            }
            Command::Tick => put_message(&Tick { reserved: 0 }, out),
            Command::SessionLost(lost) => put_message(lost, out),
            Command::SessionChoice(choice) => put_message(choice, out),
            Command::SetLimits(limits) => put_message(limits, out),
        }
    }

    /// Decodes a log entry.
    ///
    /// # Errors
    /// Any [`DecodeError`]: the entry is not one that this version wrote.
    #[inline]
    pub fn decode(entry: &[u8]) -> Result<Command, DecodeError> {
        let raw = parse_message(entry)?;
        match raw.template_id {
            Import::TEMPLATE_ID => {
                let import: Import = raw.decode()?;
                let definition = Definition::decode(&parse_message(raw.rest())?)?;
                Ok(Command::Import(import.control_position, definition))
            }
            Tick::TEMPLATE_ID => raw.decode_whole::<Tick>().map(|_| Command::Tick),
            SessionLost::TEMPLATE_ID => raw.decode_whole().map(Command::SessionLost),
            SessionChoice::TEMPLATE_ID => raw.decode_whole().map(Command::SessionChoice),
            SetLimits::TEMPLATE_ID => raw.decode_whole().map(Command::SetLimits),
            _ => Request::decode(&raw).map(Command::Request),
        }
    }
}

impl Event {
    /// Appends the record's encoding.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Event::Plain(event) => event.put_own_message(out),
            Event::Defined(defined, definition) => {
                put_message(defined, out);
                definition.encode(out);
            }
        }
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// Any [`DecodeError`]: the record is not one that this version wrote.
    #[inline]
    pub fn decode(record: &[u8]) -> Result<Event, DecodeError> {
        let raw = parse_message(record)?;
        if raw.template_id == Defined::TEMPLATE_ID {
            let definition = Definition::decode(&parse_message(raw.rest())?)?;
            return Ok(Event::Defined(raw.decode()?, definition));
        }
        PlainEvent::decode_own_message(&raw).map(Event::Plain)
    }

    /// The position of the command that caused it.
    #[must_use]
    pub fn position(&self) -> Position {
        match self {
            Event::Plain(PlainEvent::OrderEvent(e)) => e.position,
            Event::Plain(PlainEvent::RequestRejected(e)) => e.position,
            Event::Plain(PlainEvent::RequestDone(e)) => e.position,
            Event::Plain(PlainEvent::PhaseChanged(e)) => e.position,
            Event::Plain(PlainEvent::Checkpoint(e)) => e.position,
            Event::Plain(PlainEvent::TradeBusted(e)) => e.position,
            Event::Plain(PlainEvent::Uncrossed(e)) => e.position,
            Event::Plain(PlainEvent::ReferencesChanged(e)) => e.position,
            Event::Defined(e, _) => e.position,
        }
    }

    /// The session that the event is addressed to and its event number; `None` for an event without
    /// addressee.
    #[must_use]
    pub fn address(&self) -> Option<(SessionId, EventNo)> {
        match self {
            Event::Plain(PlainEvent::OrderEvent(e)) => Some((e.session_id, e.event_no)),
            Event::Plain(PlainEvent::RequestRejected(e)) => Some((e.session_id, e.event_no)),
            Event::Plain(PlainEvent::RequestDone(e)) => Some((e.session_id, e.event_no)),
            Event::Plain(PlainEvent::TradeBusted(e)) => Some((e.session_id, e.event_no)),
            _ => None,
        }
    }
}
