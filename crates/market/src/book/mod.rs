//! The books that follow from updates: what rests, the best bid and offer, what traded.
//!
//! [`Books`] takes [`Update`](crate::Update)s one at a time or in batches and says of each what it
//! changed. It holds every instrument of a feed; what it holds follows from the updates alone, so
//! that two who took the same updates hold the same.
//!
//! Three kinds of book, each instrument of the kind of its first update until it is cleared: by
//! order, by price, and quotes, where the feed states the best bid and offer itself. What cannot be
//! is an [`Anomaly`]: counted by kind, told with the change, and the instrument is SUSPECT until it
//! is cleared. Nothing here allocates once there is room for what rests at the same time.

mod ahead;
mod anomaly;
mod arena;
mod books;
mod change;
mod config;
pub(crate) mod directory;
pub(crate) mod index;
mod instrument;
mod ladder;
mod prices;
mod queue;
mod quotes;
mod snapshot;
mod statistics;
mod store;
mod trades;
mod view;

pub use anomaly::{Anomaly, AnomalyCounts, AnomalySet};
pub use books::Books;
pub use change::{BestBidOffer, BestChange, BookLevel, Change, LevelChange, TradePrint};
pub use config::{BooksConfig, OrderIds};
pub use instrument::BookKind;
pub use statistics::Statistics;
pub use view::{QueuePosition, RestingOrder, VenueQuote};
