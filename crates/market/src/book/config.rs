//! Configuration of books: preallocated memory and limits.

pub use weir_feed::OrderIds;

/// Preallocation and limits of books. The limits protect against a faulty feed: beyond them nothing
/// is added, and each refusal is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BooksConfig {
    /// The scope in which order numbers are unique.
    pub order_ids: OrderIds,
    /// Orders and levels, each, to preallocate; 64 bytes for an order and a level together.
    pub orders: u32,
    /// The most orders, and the most levels, that may rest at a time.
    pub orders_max: u32,
    /// Instruments to preallocate.
    pub instruments: u32,
    /// The most instruments.
    pub instruments_max: u32,
    /// Levels of a side to preallocate when its instrument is first seen.
    pub levels_per_side: u32,
    /// The most levels of a side.
    pub levels_per_side_max: u32,
    /// Trades remembered over all instruments, in case they are broken.
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
