//! ITCH 5.0's messages as views over their bytes: every field at its offset, read when asked for.
//!
//! One table, `itch_messages`, says where each field lies; the views here and the records of
//! [`super::encode`] are both made of it. A view has the right length and the right type and
//! nothing more: values are not judged here.
//!
//! Source: Nasdaq TotalView-ITCH 5.0, with what its revisions up to 2023 added (`h`, `O`). All
//! integers are big-endian; text is padded with spaces on the right.

use crate::feed::FeedError;

/// Bytes that all messages begin with: type, stock locate, tracking number, time.
pub const HEADER_LEN: usize = 11;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// An unsigned number; prices as they are sent.
    Number(u64),
    /// Text of up to eight bytes with its padding; the rest is zero.
    Text([u8; 8], usize),
}

/// A type that a field can have.
pub(super) trait Field: Copy {
    /// Reads it from exactly its bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Writes it to exactly its bytes.
    fn write(self, bytes: &mut [u8]);
    /// What it holds.
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

/// Nanoseconds since midnight, in six bytes.
#[inline(always)]
fn read_u48(bytes: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// The table of messages: type, length, and each field's type and offset. `$apply` gets it.
macro_rules! itch_messages {
    ($apply:ident) => {
        $apply! {
            /// The day goes on. `O` start of messages, `S` start of system hours, `Q` start of
            /// market hours, `M` end of market hours, `E` end of system hours, `C` end of messages.
            SystemEvent = b'S', 12 {
                /// What begins or ends.
                event_code: u8 = 11,
            }
            /// An instrument of the day.
            StockDirectory = b'R', 39 {
                /// Its symbol.
                stock: [u8; 8] = 11,
                /// Where it is listed.
                market_category: u8 = 19,
                /// Whether its issuer meets the listing requirements.
                financial_status: u8 = 20,
                /// Shares of a round lot.
                round_lot_size: u32 = 21,
                /// `Y` when only round lots are accepted.
                round_lots_only: u8 = 25,
                /// What kind of security it is.
                issue_classification: u8 = 26,
                /// Which, more closely.
                issue_sub_type: [u8; 2] = 27,
                /// `P` production, `T` test.
                authenticity: u8 = 29,
                /// Whether Reg SHO's threshold list has it: `Y`, `N`, space.
                short_sale_threshold: u8 = 30,
                /// Whether it is set up for an initial offering: `Y`, `N`, `Z`, space.
                ipo_flag: u8 = 31,
                /// Its tier of limit up, limit down: `1`, `2`, space.
                luld_reference_price_tier: u8 = 32,
                /// Whether it is an exchange-traded product: `Y`, `N`, space.
                etp_flag: u8 = 33,
                /// Its leverage.
                etp_leverage_factor: u32 = 34,
                /// Whether it is inverse: `Y`, `N`.
                inverse_indicator: u8 = 38,
            }
            /// How an instrument trades. `H` halted, `P` paused, `Q` quotation only, `T` trading.
            StockTradingAction = b'H', 25 {
                /// Its symbol.
                stock: [u8; 8] = 11,
                /// The state.
                trading_state: u8 = 19,
                /// Not used.
                reserved: u8 = 20,
                /// Why.
                reason: [u8; 4] = 21,
            }
            /// Reg SHO's restriction of short sales.
            RegShoRestriction = b'Y', 20 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// `0` none, `1` in effect, `2` stays in effect.
                reg_sho_action: u8 = 19,
            }
            /// What a market participant is in an instrument.
            MarketParticipantPosition = b'L', 26 {
                /// The participant.
                mpid: [u8; 4] = 11,
                /// The symbol.
                stock: [u8; 8] = 15,
                /// `Y` when it is a primary market maker.
                primary_market_maker: u8 = 23,
                /// Its mode as market maker.
                market_maker_mode: u8 = 24,
                /// Its state.
                market_participant_state: u8 = 25,
            }
            /// The levels of the market-wide circuit breaker, in 10^-8.
            MwcbDeclineLevel = b'V', 35 {
                /// Of level 1.
                level_1: u64 = 11,
                /// Of level 2.
                level_2: u64 = 19,
                /// Of level 3.
                level_3: u64 = 27,
            }
            /// A level of the market-wide circuit breaker was breached.
            MwcbStatus = b'W', 12 {
                /// `1`, `2`, `3`.
                breached_level: u8 = 11,
            }
            /// When an initial offering will be quoted.
            IpoQuotingPeriod = b'K', 28 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// Seconds since midnight.
                release_time: u32 = 19,
                /// `A` anticipated, `C` cancelled or postponed.
                release_qualifier: u8 = 23,
                /// In 10^-4.
                ipo_price: u32 = 24,
            }
            /// The collar of the auction that ends a pause of limit up, limit down; in 10^-4.
            LuldAuctionCollar = b'J', 35 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// What the collar is set from.
                reference_price: u32 = 19,
                /// Its upper end.
                upper_price: u32 = 23,
                /// Its lower end.
                lower_price: u32 = 27,
                /// How many times it was extended.
                extension: u32 = 31,
            }
            /// One market's interruption of an instrument's service.
            OperationalHalt = b'h', 21 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// `Q` Nasdaq, `B` Nasdaq BX, `X` Nasdaq PSX.
                market_code: u8 = 19,
                /// `H` halted, `T` resumed.
                action: u8 = 20,
            }
            /// An order rests.
            AddOrder = b'A', 36 {
                /// Its number, of one day.
                order_reference: u64 = 11,
                /// `B` or `S`.
                side: u8 = 19,
                /// Shares.
                shares: u32 = 20,
                /// The symbol.
                stock: [u8; 8] = 24,
                /// In 10^-4.
                price: u32 = 32,
            }
            /// An order rests, and whose it is.
            AddOrderWithMpid = b'F', 40 {
                /// Its number, of one day.
                order_reference: u64 = 11,
                /// `B` or `S`.
                side: u8 = 19,
                /// Shares.
                shares: u32 = 20,
                /// The symbol.
                stock: [u8; 8] = 24,
                /// In 10^-4.
                price: u32 = 32,
                /// The participant.
                attribution: [u8; 4] = 36,
            }
            /// A resting order was executed at its price.
            OrderExecuted = b'E', 31 {
                /// The order.
                order_reference: u64 = 11,
                /// Shares.
                executed_shares: u32 = 19,
                /// The trade's number, of one day.
                match_number: u64 = 23,
            }
            /// A resting order was executed at another price.
            OrderExecutedWithPrice = b'C', 36 {
                /// The order.
                order_reference: u64 = 11,
                /// Shares.
                executed_shares: u32 = 19,
                /// The trade's number, of one day.
                match_number: u64 = 23,
                /// `N` when a cross tells of the trade as well.
                printable: u8 = 31,
                /// In 10^-4.
                execution_price: u32 = 32,
            }
            /// A part of a resting order was cancelled.
            OrderCancel = b'X', 23 {
                /// The order.
                order_reference: u64 = 11,
                /// Shares.
                cancelled_shares: u32 = 19,
            }
            /// A resting order is gone.
            OrderDelete = b'D', 19 {
                /// The order.
                order_reference: u64 = 11,
            }
            /// An order took another's place; side, symbol and attribution stay.
            OrderReplace = b'U', 35 {
                /// The order that is gone.
                original_order_reference: u64 = 11,
                /// The order that rests.
                new_order_reference: u64 = 19,
                /// Shares.
                shares: u32 = 27,
                /// In 10^-4.
                price: u32 = 31,
            }
            /// A trade with an order that was not displayed.
            Trade = b'P', 44 {
                /// Zero.
                order_reference: u64 = 11,
                /// `B`, whatever the side was.
                side: u8 = 19,
                /// Shares.
                shares: u32 = 20,
                /// The symbol.
                stock: [u8; 8] = 24,
                /// In 10^-4.
                price: u32 = 32,
                /// The trade's number, of one day.
                match_number: u64 = 36,
            }
            /// All that a cross traded. Zero shares when nothing met.
            CrossTrade = b'Q', 40 {
                /// Shares.
                shares: u64 = 11,
                /// The symbol.
                stock: [u8; 8] = 19,
                /// In 10^-4.
                cross_price: u32 = 27,
                /// The trade's number, of one day.
                match_number: u64 = 31,
                /// `O` opening, `C` closing, `H` after a halt or of an initial offering,
                /// `I` intraday, `A` extended trading close.
                cross_type: u8 = 39,
            }
            /// A trade is undone.
            BrokenTrade = b'B', 19 {
                /// The trade.
                match_number: u64 = 11,
            }
            /// How orders for a cross stand against each other; prices in 10^-4.
            NetOrderImbalance = b'I', 50 {
                /// Shares that would trade at the current reference price.
                paired_shares: u64 = 11,
                /// Shares that would not.
                imbalance_shares: u64 = 19,
                /// `B` buy, `S` sell, `N` none, `O` too few orders, `P` paused.
                imbalance_direction: u8 = 27,
                /// The symbol.
                stock: [u8; 8] = 28,
                /// Where the cross's orders alone would clear.
                far_price: u32 = 36,
                /// Where they and the book's would clear.
                near_price: u32 = 40,
                /// What the shares are counted at.
                current_reference_price: u32 = 44,
                /// As of a cross.
                cross_type: u8 = 48,
                /// How far the near price is from the reference price.
                price_variation: u8 = 49,
            }
            /// Retail orders that improve the price wait: `B`, `S`, `A` on both sides, `N` none.
            RetailPriceImprovement = b'N', 20 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// On which side.
                interest_flag: u8 = 19,
            }
            /// A direct listing with capital raise on its way to its first price; in 10^-4.
            DirectListingPriceDiscovery = b'O', 48 {
                /// The symbol.
                stock: [u8; 8] = 11,
                /// `Y` when it may be released.
                open_eligibility: u8 = 19,
                /// 20 % below the registered range.
                minimum_allowable_price: u32 = 20,
                /// 80 % above the registered range.
                maximum_allowable_price: u32 = 24,
                /// Where it would execute now.
                near_execution_price: u32 = 28,
                /// When that price was set, in nanoseconds since midnight.
                near_execution_time: u64 = 32,
                /// 10 % below the price of execution.
                lower_price_range_collar: u32 = 40,
                /// 10 % above the price of execution.
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
                /// Bytes of a message.
                pub const LEN: usize = $len;

                /// The message of these bytes, whose first one is [`Self::KIND`].
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

                /// The instrument's number; zero when it is about none.
                #[inline(always)]
                #[must_use]
                pub fn stock_locate(self) -> u16 {
                    Field::read(&self.0[1..3])
                }

                /// The venue's own.
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
            /// The message of these bytes.
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

            /// The type's name, as it is in this module.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Message::$name(_) => stringify!($name),)*
                }
            }

            /// The instrument's number and the nanoseconds since midnight.
            #[inline(always)]
            #[must_use]
            pub fn place(self) -> (u16, u64) {
                match self {
                    $(Message::$name(view) => (view.stock_locate(), view.timestamp()),)*
                }
            }

            /// Tells every field with its name, in the order of the bytes.
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

        /// Each type's letter and length.
        pub const TYPES: &[(u8, usize)] = &[$(($kind, $len)),*];
    };
}

itch_messages!(views);

#[cold]
fn wrong_length(kind: u8, len: usize, want: usize) -> FeedError {
    FeedError::Length { kind: [kind, 0], len, want }
}
