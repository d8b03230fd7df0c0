//! The decoder of ITCH 5.0: turns messages into updates.
//!
//! | message | update |
//! | --- | --- |
//! | `S` | `System` |
//! | `R` | a definition |
//! | `H`, `h` | `Status`; for `h` the reason is `h` and the market's code |
//! | `A`, `F` | `Add` |
//! | `E`, `C` | `Execute`, with a price for `C` |
//! | `X`, `D`, `U` | `Reduce`, `Delete`, `Replace` |
//! | `P` | `Trade` |
//! | `Q` | `Trade` of an auction, and the day's open or close; nothing when no share traded |
//! | `B` | `TradeBreak` |
//! | `I` | `Auction` at the current reference price, the basis of its share counts |
//! | `Y` `L` `V` `W` `K` `J` `N` `O` | validated, no update: each halt of `W` also comes as `H` |

use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

use super::layout::{
    AddOrder, AddOrderWithMpid, CrossTrade, Message, MwcbDeclineLevel, NetOrderImbalance,
    OperationalHalt, OrderExecuted, OrderExecutedWithPrice, StockDirectory, StockTradingAction,
    Trade,
};
use crate::instrument::{Definition, SymbolText};
use crate::update::{
    Action, AuctionKind, PriceKind, SystemEvent, TradeFlags, TradingState, Update, Venue,
};
use crate::{Context, FeedError, UpdateSink};

/// 10^-4 in 10^-9.
const PRICE_4: i64 = 100_000;

/// 10^-8 in 10^-9.
const PRICE_8: u64 = 10;

/// Decodes `message` into `sink`.
///
/// # Errors
/// [`FeedError::Field`]; nothing reached `sink`.
#[inline]
pub(super) fn decode(
    midnight: Nanos,
    context: &Context,
    message: Message<'_>,
    sink: &mut impl UpdateSink,
) -> Result<(), FeedError> {
    let action = match message {
        Message::AddOrder(view) => add(view)?,
        Message::AddOrderWithMpid(view) => add_with_mpid(view)?,
        Message::OrderExecuted(view) => executed(view),
        Message::OrderExecutedWithPrice(view) => executed_with_price(view)?,
        Message::OrderCancel(view) => {
            Action::Reduce { order_id: view.order_reference(), size: qty(view.cancelled_shares()) }
        }
        Message::OrderDelete(view) => Action::Delete { order_id: view.order_reference() },
        Message::OrderReplace(view) => Action::Replace {
            order_id: view.original_order_reference(),
            new_order_id: view.new_order_reference(),
            price: price_4(view.price()),
            size: qty(view.shares()),
        },
        Message::Trade(view) => trade(view)?,
        Message::BrokenTrade(view) => {
            let match_id = view.match_number();
            Action::TradeBreak { match_id, size: Qty(0), price: Price(0) }
        }
        Message::NetOrderImbalance(view) => imbalance(view)?,
        Message::StockTradingAction(view) => trading_action(view)?,
        Message::OperationalHalt(view) => operational_halt(view)?,
        Message::SystemEvent(view) => Action::System(system_event(view.event_code())?),
        Message::CrossTrade(view) => {
            return cross(view, |action| sink.update(update(midnight, context, message, action)));
        }
        Message::StockDirectory(view) => {
            sink.define(&definition(view)?);
            return Ok(());
        }
        says_nothing_of_a_book => return judge(says_nothing_of_a_book),
    };
    sink.update(update(midnight, context, message, action));
    Ok(())
}

#[inline(always)]
fn update(midnight: Nanos, context: &Context, message: Message<'_>, action: Action) -> Update {
    let (locate, timestamp) = message.place();
    Update {
        instrument_id: InstrumentId(u32::from(locate)),
        sequence: context.sequence,
        ts_event: Nanos(midnight.0.saturating_add(timestamp)),
        action,
    }
}

/// Validates the codes of the messages without an update.
fn judge(message: Message<'_>) -> Result<(), FeedError> {
    match message {
        Message::RegShoRestriction(view) => {
            one_of(b'Y', "reg_sho_action", view.reg_sho_action(), b"012")
        }
        Message::MarketParticipantPosition(view) => {
            one_of(b'L', "primary_market_maker", view.primary_market_maker(), b"YN")
        }
        Message::MwcbDeclineLevel(view) => mwcb_levels(view).map(|_| ()),
        Message::MwcbStatus(view) => one_of(b'W', "breached_level", view.breached_level(), b"123"),
        Message::IpoQuotingPeriod(view) => {
            one_of(b'K', "release_qualifier", view.release_qualifier(), b"AC")
        }
        Message::RetailPriceImprovement(view) => {
            one_of(b'N', "interest_flag", view.interest_flag(), b"BSAN")
        }
        Message::DirectListingPriceDiscovery(view) => {
            one_of(b'O', "open_eligibility", view.open_eligibility(), b"YN")
        }
        _ => Ok(()),
    }
}

/// Returns the levels of the market-wide circuit breaker, in 10^-9.
///
/// # Errors
/// [`FeedError::Field`] for a level that a [`Price`] cannot hold.
pub fn mwcb_levels(view: MwcbDeclineLevel<'_>) -> Result<[Price; 3], FeedError> {
    let level = |field, value: u64| {
        let price = value.checked_mul(PRICE_8).and_then(|value| i64::try_from(value).ok());
        price.map(Price).ok_or(FeedError::Field { kind: [b'V', 0], field, value })
    };
    Ok([
        level("level_1", view.level_1())?,
        level("level_2", view.level_2())?,
        level("level_3", view.level_3())?,
    ])
}

#[inline(always)]
fn add(view: AddOrder<'_>) -> Result<Action, FeedError> {
    Ok(Action::Add {
        order_id: view.order_reference(),
        side: side(b'A', view.side())?,
        price: price_4(view.price()),
        size: qty(view.shares()),
    })
}

#[inline(always)]
fn add_with_mpid(view: AddOrderWithMpid<'_>) -> Result<Action, FeedError> {
    Ok(Action::Add {
        order_id: view.order_reference(),
        side: side(b'F', view.side())?,
        price: price_4(view.price()),
        size: qty(view.shares()),
    })
}

#[inline(always)]
fn executed(view: OrderExecuted<'_>) -> Action {
    Action::Execute {
        order_id: view.order_reference(),
        size: qty(view.executed_shares()),
        price: None,
        match_id: view.match_number(),
        is_printable: true,
    }
}

fn executed_with_price(view: OrderExecutedWithPrice<'_>) -> Result<Action, FeedError> {
    let printable = view.printable();
    one_of(b'C', "printable", printable, b"YN")?;
    Ok(Action::Execute {
        order_id: view.order_reference(),
        size: qty(view.executed_shares()),
        price: Some(price_4(view.execution_price())),
        match_id: view.match_number(),
        is_printable: printable == b'Y',
    })
}

/// Leaves the side unset: since 2014 the field is `B` for buys and sells alike.
fn trade(view: Trade<'_>) -> Result<Action, FeedError> {
    side(b'P', view.side())?;
    Ok(Action::Trade {
        venue: Venue(0),
        aggressor: None,
        price: price_4(view.price()),
        size: qty(view.shares()),
        match_id: view.match_number(),
        flags: TradeFlags::default(),
    })
}

fn cross(view: CrossTrade<'_>, mut tell: impl FnMut(Action)) -> Result<(), FeedError> {
    auction_kind(b'Q', view.cross_type())?;
    if view.shares() == 0 {
        return Ok(());
    }
    let price = price_4(view.cross_price());
    tell(Action::Trade {
        venue: Venue(0),
        aggressor: None,
        price,
        size: Qty(view.shares()),
        match_id: view.match_number(),
        flags: TradeFlags::AUCTION,
    });
    match view.cross_type() {
        b'O' => tell(Action::DayPrice { kind: PriceKind::Open, price }),
        b'C' => tell(Action::DayPrice { kind: PriceKind::Close, price }),
        _ => {}
    }
    Ok(())
}

fn imbalance(view: NetOrderImbalance<'_>) -> Result<Action, FeedError> {
    let direction = view.imbalance_direction();
    one_of(b'I', "imbalance_direction", direction, b"BSNOP")?;
    Ok(Action::Auction {
        kind: auction_kind(b'I', view.cross_type())?,
        price: price_4(view.current_reference_price()),
        paired: Qty(view.paired_shares()),
        imbalance: Qty(view.imbalance_shares()),
        side: side(b'I', direction).ok(),
    })
}

fn trading_action(view: StockTradingAction<'_>) -> Result<Action, FeedError> {
    let state = match view.trading_state() {
        b'H' => TradingState::Halted,
        b'P' => TradingState::Paused,
        b'Q' => TradingState::Quoting,
        b'T' => TradingState::Trading,
        other => return Err(field(b'H', "trading_state", other)),
    };
    Ok(Action::Status { state, reason: view.reason(), cause: PhaseCause::Unknown })
}

fn operational_halt(view: OperationalHalt<'_>) -> Result<Action, FeedError> {
    let market = view.market_code();
    one_of(b'h', "market_code", market, b"QBX")?;
    let state = match view.action() {
        b'H' => TradingState::Halted,
        b'T' => TradingState::Trading,
        other => return Err(field(b'h', "action", other)),
    };
    let (reason, cause) = ([b'h', market, b' ', b' '], PhaseCause::Unknown);
    Ok(Action::Status { state, reason, cause })
}

fn system_event(code: u8) -> Result<SystemEvent, FeedError> {
    Ok(match code {
        b'O' => SystemEvent::StartOfMessages,
        b'S' => SystemEvent::StartOfSystemHours,
        b'Q' => SystemEvent::StartOfMarketHours,
        b'M' => SystemEvent::EndOfMarketHours,
        b'E' => SystemEvent::EndOfSystemHours,
        b'C' => SystemEvent::EndOfMessages,
        other => return Err(field(b'S', "event_code", other)),
    })
}

fn definition(view: StockDirectory<'_>) -> Result<Definition, FeedError> {
    let stock = view.stock();
    let symbol = SymbolText::new(&stock).ok_or(FeedError::Field {
        kind: [b'R', 0],
        field: "stock",
        value: u64::from_be_bytes(stock),
    })?;
    Ok(Definition {
        instrument_id: InstrumentId(u32::from(view.stock_locate())),
        symbol,
        round_lot: qty(view.round_lot_size()),
        previous_close: None,
    })
}

fn auction_kind(kind: u8, cross_type: u8) -> Result<AuctionKind, FeedError> {
    match cross_type {
        b'O' => Ok(AuctionKind::Opening),
        b'C' | b'A' => Ok(AuctionKind::Closing),
        b'H' | b'I' => Ok(AuctionKind::Halt),
        other => Err(field(kind, "cross_type", other)),
    }
}

#[inline(always)]
fn side(kind: u8, code: u8) -> Result<Side, FeedError> {
    match code {
        b'B' => Ok(Side::Buy),
        b'S' => Ok(Side::Sell),
        other => Err(field(kind, "side", other)),
    }
}

fn one_of(kind: u8, name: &'static str, code: u8, known: &[u8]) -> Result<(), FeedError> {
    if known.contains(&code) { Ok(()) } else { Err(field(kind, name, code)) }
}

#[cold]
fn field(kind: u8, field: &'static str, code: u8) -> FeedError {
    FeedError::Field { kind: [kind, 0], field, value: u64::from(code) }
}

#[inline(always)]
fn price_4(price: u32) -> Price {
    Price(i64::from(price) * PRICE_4)
}

#[inline(always)]
fn qty(shares: u32) -> Qty {
    Qty(u64::from(shares))
}
