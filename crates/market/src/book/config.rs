//! What books have room for, at once and at most.

/// Among what the numbers of orders are unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderIds {
    /// The whole feed, as in ITCH: later messages need not say whose order it is.
    #[default]
    OfFeed,
    /// An instrument.
    OfInstrument,
}

/// What books have room for. All limits hold against a feed that goes wrong: beyond them nothing is
/// added, and that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BooksConfig {
    /// Among what the numbers of orders are unique.
    pub order_ids: OrderIds,
    /// Orders and levels, each, for which memory is taken at once; 64 bytes for each.
    pub orders: u32,
    /// Orders and levels, each, that may rest at the same time.
    pub orders_max: u32,
    /// Instruments for which memory is taken at once.
    pub instruments: u32,
    /// Instruments that there may be.
    pub instruments_max: u32,
    /// Levels of a side for which memory is taken when its instrument is first seen.
    pub levels_per_side: u32,
    /// Levels that a side may have.
    pub levels_per_side_max: u32,
    /// Trades that are remembered, over all instruments, in case they are broken.
    pub trades: u32,
}

impl Default for BooksConfig {
    fn default() -> BooksConfig {
        BooksConfig {
            order_ids: OrderIds::OfFeed,
            orders: 1 << 16,
            orders_max: 1 << 26,
            instruments: 1 << 10,
            instruments_max: 1 << 22,
            levels_per_side: 16,
            levels_per_side_max: 1 << 16,
            trades: 1 << 16,
        }
    }
}
