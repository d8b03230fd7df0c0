//! An update stage without interest: its cost without output.

use rtrb::RingBuffer;
use weir_market::BooksConfig;
use weir_market::conflate::ConflatorConfig;
use weir_marketgate::gateway::flush_slot::FlushSlot;
use weir_marketgate::gateway::ring::{RingWriter, ring};
use weir_marketgate::gateway::stages::UpdateProbe;
use weir_marketgate::gateway::update::{UpdateParts, UpdateStage, WhenFull};
use weir_marketgate::receiver::{ChannelKey, Origin};
use weir_types::{InstrumentId, Nanos};

/// The stage.
pub type LoneStage = UpdateStage<RingWriter<FlushSlot>>;

/// Creates a stage with room for as many instruments as its books have.
pub fn stage(books: BooksConfig, batch_max: usize) -> LoneStage {
    let instruments = books.instruments;
    UpdateStage::new(UpdateParts {
        books: BooksConfig { instruments_max: instruments + 1, ..books },
        batch_max,
        conflator: ConflatorConfig {
            instrument_id_max: InstrumentId(instruments),
            ..ConflatorConfig::default()
        },
        door: ring(1 << 14, 1).0,
        wakes: Vec::new(),
        wishes: vec![RingBuffer::new(1).1],
        when_full: WhenFull::Merge,
        post: None,
        probe: UpdateProbe::default(),
    })
}

/// The origin of all updates.
pub fn origin() -> Origin {
    let (channel, ts) = (ChannelKey::default(), Nanos(1));
    Origin { channel, ts_recv: ts, ts_poll: ts, is_snapshot: false }
}
