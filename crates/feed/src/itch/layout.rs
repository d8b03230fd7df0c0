//! ITCH 5.0's messages as views over their bytes: every field is read at its offset on access.
//!
//! One table, `itch_messages`, defines the offset of each field; the views here and the records of
//! [`super::encode`] are both generated from it. A view guarantees the right length and type, and
//! nothing else: it does not validate values.
//!
//! Source: Nasdaq TotalView-ITCH 5.0, with the additions of its revisions up to 2023 (`h`, `O`).
//! All integers are big-endian; text is padded with spaces on the right.

use crate::FeedError;

/// Bytes of the header of every message: type, stock locate, tracking number, time.
pub const HEADER_LEN: usize = 11;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// An unsigned number; prices as sent.
    Number(u64),
    /// Text of up to eight bytes with its padding; the rest is zero.
    Text([u8; 8], usize),
}

/// A type of a field.
pub(super) trait Field: Copy {
    /// Reads the field from exactly its bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Writes the field to exactly its bytes.
    fn write(self, bytes: &mut [u8]);
    /// Returns the field's value.
    fn value(self) -> Value;
}

macro_rules! number_field {
    ($($number:ty),*) => {$(
        impl Field for $number {
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                <$number>::from_be_bytes(bytes.try_into().expect("the table gives its length"))
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_be_bytes());
            }

            fn value(self) -> Value {
                Value::Number(u64::from(self))
            }
        }
    )*};
}

number_field!(u16, u32, u64);

impl<const LEN: usize> Field for [u8; LEN] {
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        bytes.try_into().expect("the table gives its length")
    }

    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self);
    }

    fn value(self) -> Value {
        let mut text = [0; 8];
        text[..LEN].copy_from_slice(&self);
        Value::Text(text, LEN)
    }
}

/// A code of one letter or digit.
impl Field for u8 {
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        bytes[0]
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[0] = self;
    }

    fn value(self) -> Value {
        Value::Text([self, 0, 0, 0, 0, 0, 0, 0], 1)
    }
}

/// Reads nanoseconds since midnight from six bytes.
#[inline(always)]
fn read_u48(bytes: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Passes the table of messages to `$apply`: type, length, and each field's type and offset.
macro_rules! itch_messages {
    ($apply:ident) => {
        $apply! {
            /// A point in the day. `O` start of messages, `S` start of system hours, `Q` start of
            /// market hours, `M` end of market hours, `E` end of system hours, `C` end of messages.
            SystemEvent = b'S', 12 {
                /// The code of the event.
                event_code: u8 = 11,
            }
            /// An instrument of the day.
            StockDirectory = b'R', 39 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// The market on which it is listed.
                market_category: u8 = 19,
                /// The issuer's compliance with the listing requirements.
                financial_status: u8 = 20,
                /// Shares of a round lot.
                round_lot_size: u32 = 21,
                /// `Y` when only round lots are accepted.
                round_lots_only: u8 = 25,
                /// The kind of security.
                issue_classification: u8 = 26,
                /// The subtype of security.
                issue_sub_type: [u8; 2] = 27,
                /// `P` production, `T` test.
                authenticity: u8 = 29,
                /// Membership of Reg SHO's threshold list: `Y`, `N`, space.
                short_sale_threshold: u8 = 30,
                /// Preparation for an initial offering: `Y`, `N`, `Z`, space.
                ipo_flag: u8 = 31,
                /// The tier of limit up, limit down: `1`, `2`, space.
                luld_reference_price_tier: u8 = 32,
                /// Exchange-traded product: `Y`, `N`, space.
                etp_flag: u8 = 33,
                /// The leverage of the product.
                etp_leverage_factor: u32 = 34,
                /// Inverse product: `Y`, `N`.
                inverse_indicator: u8 = 38,
            }
            /// The trading state of an instrument. `H` halted, `P` paused, `Q` quotation only, `T`
            /// trading.
            StockTradingAction = b'H', 25 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// The state.
                trading_state: u8 = 19,
                /// Not used.
                reserved: u8 = 20,
                /// The reason.
                reason: [u8; 4] = 21,
            }
            /// Reg SHO's restriction of short sales.
            RegShoRestriction = b'Y', 20 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// `0` none, `1` in effect, `2` stays in effect.
                reg_sho_action: u8 = 19,
            }
            /// A market participant's role in an instrument.
            MarketParticipantPosition = b'L', 26 {
                /// The participant.
                mpid: [u8; 4] = 11,
                /// The symbol.
                stock: [u8; 8] = 15,
                /// `Y` for a primary market maker.
                primary_market_maker: u8 = 23,
                /// The market maker's mode.
                market_maker_mode: u8 = 24,
                /// The participant's state.
                market_participant_state: u8 = 25,
            }
            /// The levels of the market-wide circuit breaker, in 10^-8.
            MwcbDeclineLevel = b'V', 35 {
                /// Level 1.
                level_1: u64 = 11,
                /// Level 2.
                level_2: u64 = 19,
                /// Level 3.
                level_3: u64 = 27,
            }
            /// The breach of a level of the market-wide circuit breaker.
            MwcbStatus = b'W', 12 {
                /// The level: `1`, `2`, `3`.
                breached_level: u8 = 11,
            }
            /// The quotation time of an initial offering.
            IpoQuotingPeriod = b'K', 28 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// The release time, in seconds since midnight.
                release_time: u32 = 19,
                /// `A` anticipated, `C` cancelled or postponed.
                release_qualifier: u8 = 23,
                /// The price of the offering, in 10^-4.
                ipo_price: u32 = 24,
            }
            /// The collar of the auction that ends a pause of limit up, limit down; in 10^-4.
            LuldAuctionCollar = b'J', 35 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// The price on which the collar is based.
                reference_price: u32 = 19,
                /// The upper end of the collar.
                upper_price: u32 = 23,
                /// The lower end of the collar.
                lower_price: u32 = 27,
                /// The number of extensions.
                extension: u32 = 31,
            }
            /// A halt of an instrument on one market.
            OperationalHalt = b'h', 21 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// `Q` Nasdaq, `B` Nasdaq BX, `X` Nasdaq PSX.
                market_code: u8 = 19,
                /// `H` halted, `T` resumed.
                action: u8 = 20,
            }
            /// A new resting order.
            AddOrder = b'A', 36 {
                /// The order's number, unique within the day.
                order_reference: u64 = 11,
                /// `B` or `S`.
                side: u8 = 19,
                /// The number of shares.
                shares: u32 = 20,
                /// The symbol.
                stock: [u8; 8] = 24,
                /// The price, in 10^-4.
                price: u32 = 32,
            }
            /// A new resting order, with its participant.
            AddOrderWithMpid = b'F', 40 {
                /// The order's number, unique within the day.
                order_reference: u64 = 11,
                /// `B` or `S`.
                side: u8 = 19,
                /// The number of shares.
                shares: u32 = 20,
                /// The symbol.
                stock: [u8; 8] = 24,
                /// The price, in 10^-4.
                price: u32 = 32,
                /// The participant.
                attribution: [u8; 4] = 36,
            }
            /// An execution of a resting order at its price.
            OrderExecuted = b'E', 31 {
                /// The number of the order.
                order_reference: u64 = 11,
                /// The number of shares.
                executed_shares: u32 = 19,
                /// The trade's number, unique within the day.
                match_number: u64 = 23,
            }
            /// An execution of a resting order at another price.
            OrderExecutedWithPrice = b'C', 36 {
                /// The number of the order.
                order_reference: u64 = 11,
                /// The number of shares.
                executed_shares: u32 = 19,
                /// The trade's number, unique within the day.
                match_number: u64 = 23,
                /// `N` when a cross also reports the trade.
                printable: u8 = 31,
                /// The price, in 10^-4.
                execution_price: u32 = 32,
            }
            /// A partial cancel of a resting order.
            OrderCancel = b'X', 23 {
                /// The number of the order.
                order_reference: u64 = 11,
                /// The number of shares.
                cancelled_shares: u32 = 19,
            }
            /// The deletion of a resting order.
            OrderDelete = b'D', 19 {
                /// The number of the order.
                order_reference: u64 = 11,
            }
            /// The replacement of an order by a new one; side, symbol and attribution stay.
            OrderReplace = b'U', 35 {
                /// The number of the replaced order.
                original_order_reference: u64 = 11,
                /// The number of the new order.
                new_order_reference: u64 = 19,
                /// The number of shares.
                shares: u32 = 27,
                /// The price, in 10^-4.
                price: u32 = 31,
            }
            /// A trade against an order that was not displayed.
            Trade = b'P', 44 {
                /// Zero.
                order_reference: u64 = 11,
                /// `B`, regardless of the side.
                side: u8 = 19,
                /// The number of shares.
                shares: u32 = 20,
                /// The symbol.
                stock: [u8; 8] = 24,
                /// The price, in 10^-4.
                price: u32 = 32,
                /// The trade's number, unique within the day.
                match_number: u64 = 36,
            }
            /// The trade of a cross. Zero shares when no orders matched.
            CrossTrade = b'Q', 40 {
                /// The number of shares.
                shares: u64 = 11,
                /// The symbol.
                stock: [u8; 8] = 19,
                /// The price of the cross, in 10^-4.
                cross_price: u32 = 27,
                /// The trade's number, unique within the day.
                match_number: u64 = 31,
                /// `O` opening, `C` closing, `H` after a halt or of an initial offering,
                /// `I` intraday, `A` extended trading close.
                cross_type: u8 = 39,
            }
            /// The break of a trade.
            BrokenTrade = b'B', 19 {
                /// The number of the trade.
                match_number: u64 = 11,
            }
            /// The imbalance of orders for a cross; prices in 10^-4.
            NetOrderImbalance = b'I', 50 {
                /// Shares that would trade at the current reference price.
                paired_shares: u64 = 11,
                /// Unpaired shares at that price.
                imbalance_shares: u64 = 19,
                /// `B` buy, `S` sell, `N` none, `O` too few orders, `P` paused.
                imbalance_direction: u8 = 27,
                /// The symbol.
                stock: [u8; 8] = 28,
                /// The clearing price of the cross orders alone.
                far_price: u32 = 36,
                /// The clearing price of the cross and book orders together.
                near_price: u32 = 40,
                /// The price at which the shares are counted.
                current_reference_price: u32 = 44,
                /// The type of cross, as in `CrossTrade`.
                cross_type: u8 = 48,
                /// The deviation of the near price from the reference price.
                price_variation: u8 = 49,
            }
            /// Waiting retail price-improvement orders: `B`, `S`, `A` on both sides, `N` none.
            RetailPriceImprovement = b'N', 20 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// The side.
                interest_flag: u8 = 19,
            }
            /// Price discovery of a direct listing with capital raise; prices in 10^-4.
            DirectListingPriceDiscovery = b'O', 48 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// `Y` when it may be released for trading.
                open_eligibility: u8 = 19,
                /// 20 % below the registered range.
                minimum_allowable_price: u32 = 20,
                /// 80 % above the registered range.
                maximum_allowable_price: u32 = 24,
                /// The current indicative execution price.
                near_execution_price: u32 = 28,
                /// The time at which that price was set, in nanoseconds since midnight.
                near_execution_time: u64 = 32,
                /// 10 % below the execution price.
                lower_price_range_collar: u32 = 40,
                /// 10 % above the execution price.
                upper_price_range_collar: u32 = 44,
            }
        }
    };
}
pub(super) use itch_messages;

macro_rules! views {
    ($(
        $(#[$doc:meta])* $name:ident = $kind:literal, $len:literal {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty = $at:literal,)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name<'a>(&'a [u8; $len]);

            impl<'a> $name<'a> {
                /// The type's letter.
                pub const KIND: u8 = $kind;
                /// The length of a message in bytes.
                pub const LEN: usize = $len;

                /// Creates a view of these bytes, the first of which is [`Self::KIND`].
                ///
                /// # Errors
                /// [`FeedError::Length`].
                #[inline(always)]
                pub fn new(message: &'a [u8]) -> Result<$name<'a>, FeedError> {
                    match message.try_into() {
                        Ok(bytes) => Ok($name(bytes)),
                        Err(_) => Err(wrong_length($kind, message.len(), $len)),
                    }
                }

                $(
                    $(#[$field_doc])*
                    #[inline(always)]
                    #[must_use]
                    pub fn $field(self) -> $ty {
                        Field::read(&self.0[$at..$at + size_of::<$ty>()])
                    }
                )*

                /// The number of the instrument; zero for none.
                #[inline(always)]
                #[must_use]
                pub fn stock_locate(self) -> u16 {
                    Field::read(&self.0[1..3])
                }

                /// The venue's internal tracking number.
                #[inline(always)]
                #[must_use]
                pub fn tracking_number(self) -> u16 {
                    Field::read(&self.0[3..5])
                }

                /// Nanoseconds since midnight.
                #[inline(always)]
                #[must_use]
                pub fn timestamp(self) -> u64 {
                    read_u48(Field::read(&self.0[5..HEADER_LEN]))
                }
            }
        )*

        /// A message of any type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Message<'a> {
            $($(#[$doc])* $name($name<'a>),)*
        }

        impl<'a> Message<'a> {
            /// Creates a view of a message.
            ///
            /// # Errors
            /// [`FeedError::UnknownType`], [`FeedError::Length`].
            #[inline]
            pub fn new(message: &'a [u8]) -> Result<Message<'a>, FeedError> {
                match message.first() {
                    $(Some(&$name::KIND) => $name::new(message).map(Message::$name),)*
                    Some(kind) => Err(FeedError::UnknownType { kind: [*kind, 0] }),
                    None => Err(wrong_length(0, 0, 1)),
                }
            }

            /// Returns the name of the message's type in this module.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Message::$name(_) => stringify!($name),)*
                }
            }

            /// Returns the number of the instrument and the nanoseconds since midnight.
            #[inline(always)]
            #[must_use]
            pub fn place(self) -> (u16, u64) {
                match self {
                    $(Message::$name(view) => (view.stock_locate(), view.timestamp()),)*
                }
            }

            /// Passes `tell` the name and value of every field, in byte order.
            pub fn visit(self, mut tell: impl FnMut(&'static str, Value)) {
                match self {
                    $(Message::$name(view) => {
                        tell("stock_locate", view.stock_locate().value());
                        tell("tracking_number", view.tracking_number().value());
                        tell("timestamp", Value::Number(view.timestamp()));
                        $(tell(stringify!($field), view.$field().value());)*
                    })*
                }
            }
        }

        /// The letter and length of each type.
        pub const TYPES: &[(u8, usize)] = &[$(($kind, $len)),*];
    };
}

itch_messages!(views);

#[cold]
fn wrong_length(kind: u8, len: usize, want: usize) -> FeedError {
    FeedError::Length { kind: [kind, 0], len, want }
}
