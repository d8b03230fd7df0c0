//! Weir's vocabulary: typed numbers, identifiers and the enumerations of order entry and market
//! data.
//!
//! Every other crate uses these types; no bare integer crosses a crate's border. The crate depends
//! on nothing, does no I/O and holds no floating-point number.
//!
//! * [`num`]: prices, quantities, cash, time.
//! * [`id`]: identifiers and the numberings of logs, records and events.
//! * [`change_id`]: changes of order state.
//! * [`order`]: enumerations of orders and executions, with FIX's codes.
//! * [`phase_origin`]: the last change of an instrument's phase.
//! * [`market`]: enumerations of market data.
//! * [`reason`]: the reasons for a refused request or an ended order.
//! * [`durability`]: durability levels of an acknowledgement.
//! * [`decimal`](mod@decimal): mantissas as decimal text.
//! * [`epochs`]: the epochs of a history, and the part of each that survives its losses.
//! * [`hex`]: bytes as hexadecimal text.
//! * [`state_bytes`]: the bytes of a view's state.

pub mod change_id;
mod codes;
pub mod decimal;
pub mod durability;
pub mod epochs;
pub mod hex;
pub mod id;
pub mod market;
pub mod num;
pub mod order;
pub mod phase_origin;
pub mod reason;
pub mod state_bytes;
pub mod wall_offset;

pub use change_id::ChangeId;
pub use decimal::{DecimalFault, decimal, mantissa};
pub use durability::Durability;
pub use epochs::{Epochs, Survival};
pub use id::{
    AccountId, BatchNo, ClOrdId, CopyNo, Credential, Epoch, EventNo, ExecId, FirmId, GroupId,
    InstrumentId, MatchId, OrderId, PartitionId, Position, Rec, RequestNo, Seq, SessionId,
    SourceLog, Symbol,
};
pub use market::{AnySide, FeedState, MarketContent, MarketPolicy, OrderAction, TradingState};
pub use num::{Cash, Nanos, Price, Qty};
pub use order::{
    AckLevel, CredentialKind, ExecInst, ExecType, KillScope, Liquidity, MassCancelScope, OrdStatus,
    OrdType, Phase, PhaseCause, PhaseHold, PhaseReached, Role, ScheduleStep, SelfTradePrevention,
    Side, SourceStatus, SubscriptionAction, SubscriptionKind, SubscriptionStatus, Switch,
    TimeInForce,
};
pub use phase_origin::PhaseOrigin;
pub use reason::Reason;
pub use wall_offset::WallOffset;
