//! OPRA messages through the codec and the update stage: venues' short quotes of as many series as
//! a core's share of the lines carries.

use std::time::Instant;

use weir_feed::opra::Opra;
use weir_feed::{Context, Definition, Feed as _, Update, UpdateSink};
use weir_market::BooksConfig;
use weir_marketgate::gateway::update::BATCH_MAX;
use weir_marketgate::receiver::Output as _;
use weir_types::Nanos;

use super::lone::{LoneStage, origin, stage};

/// The number of series of one core: of 1.5 million on 96 lines, those of six or seven lines.
pub const SERIES: u32 = 100_000;
/// The venues.
const VENUES: &[u8; 16] = b"ABCDEHIJMNPQTUWX";
/// The effect of ten quotes on the best bid and offer: none, both sides, a bid, an offer.
const INDICATORS: &[u8; 10] = b"AAAAAAFEBA";
/// The length of a short quote in bytes.
pub const MESSAGE_LEN: usize = 29;
/// The number of messages generated, then processed.
const MADE: usize = 1 << 18;
/// The number of times that they are processed in a round.
const TIMES: usize = 8;
/// The number of messages in a datagram.
pub const PACKET: usize = 15;

/// Passes the codec's output to the stage.
struct ToStage<'a>(&'a mut LoneStage);

impl UpdateSink for ToStage<'_> {
    fn define(&mut self, definition: &Definition) {
        self.0.define(&origin(), definition);
    }

    #[inline]
    fn update(&mut self, update: Update) {
        self.0.update(&origin(), update);
    }
}

/// Builds a short quote as it appears in a block.
fn short_quote(number: u64) -> [u8; MESSAGE_LEN] {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 29;
    let series = (mixed % u64::from(SERIES)) as u32;
    let venue = VENUES[(mixed >> 20) as usize % VENUES.len()];
    let indicator = INDICATORS[(mixed >> 28) as usize % INDICATORS.len()];
    let price = 100 + ((mixed >> 36) % 400) as u16;
    let mut bytes = [0; MESSAGE_LEN];
    let mut at = 0;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    put(&[venue, b'q', b' ', indicator]);
    put(&(number as u32).to_be_bytes());
    put(&(number as u32).to_be_bytes());
    // A root of four letters, a month of calls, a day of 28, a year, a strike.
    let letters = [series % 26, series / 26 % 26, series / 676 % 26];
    put(&[b'W'; 1]);
    put(&letters.map(|letter| b'A' + letter as u8));
    put(&[b'A' + (series % 12) as u8, 1 + (series % 28) as u8, 27]);
    put(&(100 + (series / 17_576) as u16).to_be_bytes());
    for number in [price, 10, price + 5, 12] {
        put(&number.to_be_bytes());
    }
    assert_eq!(at, MESSAGE_LEN, "the fields of a short quote");
    bytes
}

/// A core's codec and stage, which know their series.
pub struct Core {
    feed: Opra,
    stage: LoneStage,
    messages: Vec<[u8; MESSAGE_LEN]>,
}

impl Core {
    /// Creates a core without subscribers: their cost is measured separately.
    pub fn new() -> Core {
        let books = BooksConfig { instruments: SERIES, ..BooksConfig::default() };
        let stage = stage(books, BATCH_MAX);
        let messages = (0..MADE as u64).map(short_quote).collect();
        let mut core = Core { feed: Opra::new(), stage, messages };
        core.take();
        core
    }

    fn take(&mut self) {
        let Core { feed, stage, messages } = self;
        for packet in messages.chunks(PACKET) {
            feed.look_ahead(packet.as_flattened());
            for message in packet {
                let context = Context { sequence: 1, channel: 0, ts_send: Nanos(1) };
                let mut sink = ToStage(stage);
                feed.decode(&context, message, &mut sink).expect("a good message");
            }
            stage.turn(Nanos(1));
        }
    }

    /// Measures nanoseconds per message, and updates per message.
    ///
    /// # Panics
    /// If messages were not decoded.
    pub fn round(&mut self) -> (f64, f64) {
        let before = self.stage.counts().updates;
        let begun = Instant::now();
        for _ in 0..TIMES {
            self.take();
        }
        let spent = begun.elapsed().as_nanos() as f64;
        let count = (TIMES * MADE) as f64;
        let updates = self.stage.counts().updates - before;
        assert!(updates >= (TIMES * MADE) as u64, "each message is an update at least");
        assert_eq!(self.stage.books().anomalies().total(), 0, "quotes fit together");
        (spent / count, updates as f64 / count)
    }
}
