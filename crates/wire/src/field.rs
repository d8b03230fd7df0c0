//! The wire form of each type of `weir-types`: its little-endian bytes and its name in the schema.
//! A field type with invalid values refuses them here and nowhere else.

use core::fmt;

use weir_types::{
    AccountId, AckLevel, AnySide, BatchNo, Cash, ClOrdId, CopyNo, Credential, CredentialKind,
    Epoch, EventNo, ExecId, ExecInst, ExecType, FeedState, FirmId, GroupId, InstrumentId,
    KillScope, Liquidity, MarketContent, MarketPolicy, MassCancelScope, MatchId, Nanos, OrdStatus,
    OrdType, OrderAction, OrderId, PartitionId, Phase, PhaseCause, PhaseHold, PhaseReached,
    Position, Price, Qty, Reason, Rec, RequestNo, Role, ScheduleStep, SelfTradePrevention, Seq,
    SessionId, Side, SourceStatus, SubscriptionAction, SubscriptionKind, SubscriptionStatus,
    Switch, Symbol, TimeInForce, TradingState,
};
use zerocopy::little_endian::{I64, I128, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A type that can be a field of a message.
pub trait Field: Copy {
    /// Its bytes: unaligned, every bit pattern readable.
    type Wire: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + Copy;
    /// The name of its type in `schema/weir.xml`.
    const SCHEMA_TYPE: &'static str;

    /// Decodes the bytes; `None` when they are no valid value.
    fn from_wire(wire: Self::Wire) -> Option<Self>;

    /// Encodes the value.
    fn to_wire(self) -> Self::Wire;

    /// Writes the value for people and scripts: numbers in decimal, enumerations by name, texts as
    /// they are, other bytes in hexadecimal, flags as names joined by commas. Secrets are not
    /// written.
    ///
    /// # Errors
    /// Those of the formatter.
    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// Displays a field's value by [`Field::write_text`].
#[derive(Clone, Copy, Debug)]
pub struct Text<'a, F>(pub &'a F);

impl<F: Field> fmt::Display for Text<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_text(f)
    }
}

/// Writes bytes in hexadecimal.
///
/// # Errors
/// Those of the formatter.
pub(crate) fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Writes the names of the flags that are set, joined by commas.
///
/// # Errors
/// Those of the formatter.
pub(crate) fn write_flags(bits: u8, names: &[&str], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut joint = "";
    for (_, name) in names.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1) {
        write!(f, "{joint}{name}")?;
        joint = ",";
    }
    Ok(())
}

macro_rules! number_fields {
    ($($type:ident $wire:ident $schema:literal;)*) => {$(
        impl Field for $type {
            type Wire = $wire;
            const SCHEMA_TYPE: &'static str = $schema;

            #[inline]
            fn from_wire(wire: $wire) -> Option<Self> {
                Some($type(wire.get()))
            }

            #[inline]
            fn to_wire(self) -> $wire {
                $wire::new(self.0)
            }

            fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

number_fields! {
    Price I64 "price";
    Qty U64 "qty";
    Nanos U64 "nanos";
    InstrumentId U32 "instrumentId";
    FirmId U32 "firmId";
    AccountId U32 "accountId";
    SessionId U32 "sessionId";
    PartitionId U16 "partitionId";
    GroupId U16 "groupId";
    OrderId U64 "orderId";
    Rec U64 "rec";
    Seq U64 "seq";
    Position U64 "position";
    Epoch U32 "epoch";
    RequestNo U64 "requestNo";
    EventNo U64 "eventNo";
    CopyNo U64 "copyNo";
    BatchNo U64 "batchNo";
    ExecId U64 "execId";
    MatchId U64 "matchId";
    Cash I128 "cash";
}

macro_rules! plain_fields {
    ($($type:ident $wire:ident $schema:literal;)*) => {$(
        impl Field for $type {
            type Wire = $wire;
            const SCHEMA_TYPE: &'static str = $schema;

            #[inline]
            fn from_wire(wire: $wire) -> Option<Self> {
                Some(wire.get())
            }

            #[inline]
            fn to_wire(self) -> $wire {
                $wire::new(self)
            }

            fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

plain_fields! {
    u16 U16 "uint16";
    u32 U32 "uint32";
    u64 U64 "uint64";
    i64 I64 "int64";
}

macro_rules! code_fields {
    ($($type:ident $schema:literal;)*) => {$(
        impl Field for $type {
            type Wire = u8;
            const SCHEMA_TYPE: &'static str = $schema;

            #[inline]
            fn from_wire(wire: u8) -> Option<Self> {
                $type::from_code(wire)
            }

            #[inline]
            fn to_wire(self) -> u8 {
                self.code()
            }

            fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
    )*};
}

code_fields! {
    Side "side";
    OrdType "ordType";
    TimeInForce "timeInForce";
    ExecType "execType";
    OrdStatus "ordStatus";
    SelfTradePrevention "selfTradePrevention";
    Liquidity "liquidity";
    Phase "phase";
    PhaseReached "phaseReached";
    PhaseCause "phaseCause";
    PhaseHold "phaseHold";
    MassCancelScope "massCancelScope";
    KillScope "killScope";
    ScheduleStep "scheduleStep";
    // `switch` is a keyword in most languages for which client codecs are generated.
    Switch "onOff";
    Role "role";
    CredentialKind "credentialKind";
    AckLevel "ackLevel";
    SourceStatus "sourceStatus";
    SubscriptionKind "subscriptionKind";
    SubscriptionStatus "subscriptionStatus";
    SubscriptionAction "subscriptionAction";
    MarketContent "marketContent";
    MarketPolicy "marketPolicy";
    TradingState "tradingState";
    FeedState "feedState";
    OrderAction "orderAction";
    AnySide "anySide";
}

impl Field for u8 {
    type Wire = u8;
    const SCHEMA_TYPE: &'static str = "uint8";

    fn from_wire(wire: u8) -> Option<Self> {
        Some(wire)
    }

    fn to_wire(self) -> u8 {
        self
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Field for i8 {
    type Wire = i8;
    const SCHEMA_TYPE: &'static str = "int8";

    fn from_wire(wire: i8) -> Option<Self> {
        Some(wire)
    }

    fn to_wire(self) -> i8 {
        self
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Field for Reason {
    type Wire = U16;
    const SCHEMA_TYPE: &'static str = "reason";

    #[inline]
    fn from_wire(wire: U16) -> Option<Self> {
        Reason::from_code(wire.get())
    }

    #[inline]
    fn to_wire(self) -> U16 {
        U16::new(self.code())
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Field for ExecInst {
    type Wire = u8;
    const SCHEMA_TYPE: &'static str = "execInst";

    #[inline]
    fn from_wire(wire: u8) -> Option<Self> {
        ExecInst::KNOWN.contains(ExecInst(wire)).then_some(ExecInst(wire))
    }

    #[inline]
    fn to_wire(self) -> u8 {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_flags(self.0, &["postOnly"], f)
    }
}

/// Returns true when the bytes are printable ASCII without spaces, padded with zeros to the right
/// only. This is `ClOrdId::is_valid` for all bytes at once: it runs on every order, and the lengths
/// vary too much for branch prediction.
#[inline]
fn is_valid_text(bytes: [u8; 16]) -> bool {
    const EACH: u128 = u128::from_le_bytes([1; 16]);
    const TOP: u128 = EACH << 7;
    let text = u128::from_le_bytes(bytes);
    // Bytes without their top bit do not carry into the next byte; those with it are refused.
    let top_where = |at_least: u128| text.wrapping_add(EACH * (0x80 - at_least)) & TOP;
    let (is_used, is_printable, is_delete) = (top_where(1), top_where(0x21), top_where(0x7f));
    // 0xff in each used byte: the padding is on the right only if this is a power of two less one.
    let used = is_used | (is_used - (is_used >> 7));
    let hole = used & used.wrapping_add(1);
    (text & TOP) | is_delete | (is_used ^ is_printable) | hole == 0
}

macro_rules! text_fields {
    ($($type:ident $schema:literal;)*) => {$(
        impl Field for $type {
            type Wire = [u8; 16];
            const SCHEMA_TYPE: &'static str = $schema;

            #[inline]
            fn from_wire(wire: [u8; 16]) -> Option<Self> {
                is_valid_text(wire).then_some($type(wire))
            }

            #[inline]
            fn to_wire(self) -> [u8; 16] {
                self.0
            }

            fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

text_fields! {
    ClOrdId "clOrdId";
    Symbol "symbol";
}

impl Field for Credential {
    type Wire = [u8; 32];
    const SCHEMA_TYPE: &'static str = "credential";

    fn from_wire(wire: [u8; 32]) -> Option<Self> {
        Some(Credential(wire))
    }

    fn to_wire(self) -> [u8; 32] {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_checked_at_once_as_they_are_byte_by_byte() {
        let same = |bytes: [u8; 16]| {
            assert_eq!(is_valid_text(bytes), ClOrdId(bytes).is_valid(), "{bytes:?}");
        };
        for len in 0..=16 {
            let mut text = [0; 16];
            text[..len].fill(b'x');
            same(text);
            for at in 0..16 {
                for byte in 0..=u8::MAX {
                    let mut other = text;
                    other[at] = byte;
                    same(other);
                    other[15 - at] = byte.rotate_left(3);
                    same(other);
                }
            }
        }
    }
}
