//! Endless streams of ITCH messages, generated in stretches, each message with a length prefix:
//! synthetic flow, or a recorded day on thousands of instruments at once.

use std::path::Path;

use weir_client::flow::{FlowItem, load};
use weir_feed::itch::encode::Header;
use weir_feed::itch::encode;
use weir_feed::{Action, Update};

use crate::flow::{Flow, Shape};
use crate::frame;
use crate::lobster_itch::Transcoder;

/// A source of messages.
pub trait Stream {
    /// Appends the opening messages.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Appends the next message.
    fn next(&mut self, out: &mut Vec<u8>);

    /// The number of instruments.
    fn instruments(&self) -> u32;
}

/// The flow of `weir-bench market-books`, as ITCH.
pub struct Made {
    flow: Flow,
    shape: Shape,
}

impl Made {
    /// Creates a flow of this many instruments and orders; seven of ten changed orders are among
    /// the newest.
    pub fn new(instruments: u32, live_orders: usize) -> Made {
        let shape = Shape { instruments, live_orders, recent_of_ten: 7 };
        Made { flow: Flow::new(shape), shape }
    }
}

impl Stream for Made {
    fn begin(&mut self, out: &mut Vec<u8>) {
        let mut updates = Vec::new();
        self.flow.fill(&mut updates, self.shape.live_orders);
        updates.iter().for_each(|update| put(update, out));
    }

    fn next(&mut self, out: &mut Vec<u8>) {
        put(&self.flow.next(), out);
    }

    fn instruments(&self) -> u32 {
        self.shape.instruments
    }
}

fn put(update: &Update, out: &mut Vec<u8>) {
    let header = Header {
        stock_locate: u16::try_from(update.instrument_id.0).expect("ITCH numbers 65,535"),
        tracking_number: 0,
        timestamp: update.ts_event.0 % 86_400_000_000_000,
    };
    let shares = |size: weir_types::Qty| u32::try_from(size.0).expect("a small order");
    let price = |price: weir_types::Price| u32::try_from(price.0 / 100_000).expect("a small price");
    match update.action {
        Action::Add { order_id, side, price: at, size } => {
            let side = if side == weir_types::Side::Buy { b'B' } else { b'S' };
            let (order_reference, stock) = (order_id, *b"WEIR    ");
            let (shares, price) = (shares(size), price(at));
            let add = encode::AddOrder { order_reference, side, shares, stock, price };
            frame(out, &add.to_bytes(&header));
        }
        Action::Delete { order_id } => {
            frame(out, &encode::OrderDelete { order_reference: order_id }.to_bytes(&header));
        }
        Action::Execute { order_id, size, match_id, .. } => {
            let executed = encode::OrderExecuted {
                order_reference: order_id,
                executed_shares: shares(size),
                match_number: match_id,
            };
            frame(out, &executed.to_bytes(&header));
        }
        Action::Reduce { order_id, size } => {
            let (order_reference, cancelled_shares) = (order_id, shares(size));
            frame(
                out,
                &encode::OrderCancel { order_reference, cancelled_shares }.to_bytes(&header),
            );
        }
        Action::Replace { order_id, new_order_id, price: at, size } => {
            let replace = encode::OrderReplace {
                original_order_reference: order_id,
                new_order_reference: new_order_id,
                shares: shares(size),
                price: price(at),
            };
            frame(out, &replace.to_bytes(&header));
        }
        other => unreachable!("the flow makes no {other:?}"),
    }
}

/// A recorded day's messages, back to back.
struct Template {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// LOBSTER days as ITCH, copied over many instruments, each of which plays its day at a pace of its
/// own and, at its end, again with other order numbers.
pub struct Copies {
    days: Vec<Template>,
    at: Vec<Cursor>,
    random: u64,
}

#[derive(Clone, Copy, Default)]
struct Cursor {
    next: usize,
    /// The number of complete plays of its day.
    turn: u64,
}

/// The byte range of an order's number in a message that has one.
const REFERENCE: std::ops::Range<usize> = 11..19;

impl Copies {
    /// Copies the days of these LOBSTER archives over this many instruments.
    ///
    /// # Panics
    /// When an archive cannot be read.
    pub fn of(archives: &[&Path], instruments: u16) -> Copies {
        let days = archives.iter().map(|path| template(path)).collect();
        Copies { days, at: vec![Cursor::default(); usize::from(instruments)], random: 88_172_645 }
    }

    fn random(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * u128::from(bound)) >> 64) as u64
    }

    fn put_next(&mut self, copy: usize, out: &mut Vec<u8>) {
        let day = &self.days[copy % self.days.len()];
        let cursor = &mut self.at[copy];
        let begin = cursor.next.checked_sub(1).map_or(0, |before| day.ends[before]);
        let from = out.len();
        frame(out, &day.bytes[begin..day.ends[cursor.next]]);
        let message = &mut out[from + 2..];
        let locate = u16::try_from(copy + 1).expect("as many as ITCH numbers");
        message[1..3].copy_from_slice(&locate.to_be_bytes());
        if matches!(message[0], b'A' | b'E' | b'X' | b'D') {
            let mut number = [0; 8];
            number.copy_from_slice(&message[REFERENCE]);
            let apart = (u64::from(locate) << 40) + (cursor.turn << 56);
            let number = u64::from_be_bytes(number) + apart;
            message[REFERENCE].copy_from_slice(&number.to_be_bytes());
        }
        cursor.next += 1;
        if cursor.next == day.ends.len() {
            *cursor = Cursor { next: 0, turn: cursor.turn + 1 };
        }
    }
}

fn template(path: &Path) -> Template {
    let flow = load(path).expect("a vendor's file reads");
    let mut transcoder = Transcoder::new("WEIR", 1);
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    let mut keep = |message: &[u8]| {
        bytes.extend_from_slice(message);
        ends.push(bytes.len());
    };
    for item in &flow.items {
        if let FlowItem::Event(event) = item {
            transcoder.event(event, &mut keep);
        }
    }
    Template { bytes, ends }
}

impl Stream for Copies {
    /// Appends a million messages, so that most instruments have begun.
    fn begin(&mut self, out: &mut Vec<u8>) {
        for _ in 0..1 << 20 {
            self.next(out);
        }
    }

    fn next(&mut self, out: &mut Vec<u8>) {
        let count = self.at.len() as u64;
        // Activity is uneven over instruments, as in a real market.
        let (a, b) = (self.random(count), self.random(count));
        let copy = self.random(a.min(b) + 1) as usize;
        self.put_next(copy, out);
    }

    fn instruments(&self) -> u32 {
        u32::try_from(self.at.len()).expect("as many as ITCH numbers")
    }
}
