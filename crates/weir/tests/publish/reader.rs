//! A reader of the published messages: each goes through the codec into books, with its invariants
//! checked.

use std::collections::BTreeMap;

use weir_engine::{Engine, Level};
use weir_feed::itch::{Itch, Message};
use weir_feed::moldudp64::MoldSession;
use weir_feed::session_name::Calendar;
use weir_feed::{Context, Definition, Feed, Update, UpdateSink};
use weir_market::publish::{Publication, PublishSink};
use weir_market::{Books, BooksConfig};
use weir_marketgate::publish::publish_event;
use weir_types::{Epoch, InstrumentId, Nanos, PartitionId, Price, Side};
use weir_wire::Event;

pub const HERE: PartitionId = PartitionId(1);

/// A reader with the books of one session.
pub struct Reader {
    books: Books,
    symbols: BTreeMap<String, InstrumentId>,
    pub session: MoldSession,
    pub messages: Vec<Vec<u8>>,
    /// The number of sessions that ended cleanly.
    pub ended: u32,
    /// Executions that hit an order other than the first in its queue, outside a call.
    pub out_of_turn: u64,
    pub kinds: BTreeMap<char, u64>,
}

struct Into<'a>(&'a mut Books, &'a mut BTreeMap<String, InstrumentId>);

impl UpdateSink for Into<'_> {
    fn define(&mut self, definition: &Definition) {
        assert!(self.0.define(definition.instrument_id));
        let name = definition.symbol.to_string();
        self.1.insert(name, definition.instrument_id);
    }

    fn update(&mut self, update: Update) {
        let change = self.0.apply(&update);
        // A call's trade is published as part of its cross, and its bust names the trade itself.
        let wrong: Vec<_> = change.anomalies.iter().filter(|found| found.is_of_book()).collect();
        assert!(wrong.is_empty(), "{wrong:?} by {update:?}");
    }
}

fn empty() -> Books {
    Books::new(&BooksConfig { orders: 64, instruments: 8, trades: 1 << 10, ..Default::default() })
}

impl Reader {
    pub fn new() -> Reader {
        Reader {
            books: empty(),
            symbols: BTreeMap::new(),
            session: MoldSession([b' '; 10]),
            messages: Vec::new(),
            ended: 0,
            out_of_turn: 0,
            kinds: BTreeMap::new(),
        }
    }

    pub fn books(&self) -> &Books {
        &self.books
    }

    /// Returns a symbol's number in this session.
    pub fn locate(&self, symbol: &str) -> Option<InstrumentId> {
        self.symbols.get(symbol).copied()
    }

    fn note_turn(&mut self, message: &Message<'_>) {
        let Message::OrderExecuted(executed) = message else { return };
        let id = InstrumentId(u32::from(executed.stock_locate()));
        let heads = [Side::Buy, Side::Sell]
            .map(|side| self.books.orders(id, side).next().map(|order| order.order_id));
        self.out_of_turn += u64::from(!heads.contains(&Some(executed.order_reference())));
    }
}

impl PublishSink for Reader {
    fn session(&mut self, session: MoldSession) {
        self.session = session;
        self.books = empty();
        self.symbols.clear();
        self.messages.clear();
    }

    fn message(&mut self, message: &[u8]) {
        self.messages.push(message.to_vec());
        *self.kinds.entry(char::from(message[0])).or_default() += 1;
        let read = Message::new(message).expect("a message of ITCH");
        self.note_turn(&read);
        let context =
            Context { sequence: self.messages.len() as u64, channel: 0, ts_send: Nanos(0) };
        let mut sink = Into(&mut self.books, &mut self.symbols);
        Itch::new(Nanos(0)).decode(&context, message, &mut sink).expect("it is understood");
    }

    fn end(&mut self) {
        let last: Vec<u8> = self.messages.iter().rev().take(2).map(|m| m[11]).collect();
        assert_eq!(last, [b'C', b'E'], "a day ends with its hours' and its messages' end");
        self.ended += 1;
    }
}

/// An engine's publication, its reader, and a reader that joined late by a snapshot.
pub struct Rig {
    pub publication: Publication,
    pub reader: Reader,
    late: Option<Reader>,
}

/// Forwards messages to both readers.
struct Both<'a>(&'a mut Reader, Option<&'a mut Reader>);

impl PublishSink for Both<'_> {
    fn session(&mut self, session: MoldSession) {
        self.0.session(session);
        self.1.iter_mut().for_each(|late| late.session(session));
    }

    fn message(&mut self, message: &[u8]) {
        self.0.message(message);
        self.1.iter_mut().for_each(|late| late.message(message));
    }

    fn end(&mut self) {
        self.0.end();
        self.1.iter_mut().for_each(|late| late.end());
    }
}

impl Rig {
    pub fn new() -> Rig {
        let publication = Publication::new(Calendar::new(PartitionId(1), 0), Epoch(1));
        Rig { publication, reader: Reader::new(), late: None }
    }

    pub fn publish(&mut self, events: &[Event]) {
        for event in events {
            let mut both = Both(&mut self.reader, self.late.as_mut());
            publish_event(&mut self.publication, HERE, event, &mut both);
        }
    }

    /// Joins a reader by a snapshot of this moment, in place of any earlier late reader.
    pub fn join_late(&mut self) {
        let mut late = Reader::new();
        late.session = self.reader.session;
        assert!(self.publication.session().is_none_or(|ours| ours == late.session));
        self.publication.snapshot(&mut late);
        self.late = Some(late);
    }

    /// Returns the first difference between the books of the late reader and of the full one, down
    /// to each order and its place.
    pub fn late_differs(&self, symbol: &str) -> Option<String> {
        let late = self.late.as_ref()?;
        let (here, there) = (self.reader.locate(symbol), late.locate(symbol));
        let Some(id) = there else {
            let sides = [Side::Buy, Side::Sell];
            let has = |id, side| self.reader.books().orders(id, side).next().is_some();
            let is_shown = here.is_some_and(|id| sides.into_iter().any(|side| has(id, side)));
            return is_shown.then(|| format!("{symbol} is not known to who joined late"));
        };
        if here != there || late.session != self.reader.session {
            return Some(format!("{here:?} and {there:?} in {:?}", late.session));
        }
        for side in [Side::Buy, Side::Sell] {
            let orders = |reader: &Reader| -> Vec<_> {
                let orders = reader.books().orders(id, side);
                orders.map(|order| (order.order_id, order.price, order.size)).collect()
            };
            let (want, found) = (orders(&self.reader), orders(late));
            if want != found {
                return Some(format!("{side:?}: {found:?} and not {want:?}"));
            }
        }
        let states = [&self.reader, late].map(|reader| reader.books().state(id));
        (states[0] != states[1]).then(|| format!("{states:?}"))
    }

    /// Returns the first difference between the reader's and the engine's levels of a symbol, down
    /// to this depth. `exponent` is that of the instrument's prices.
    pub fn differs(
        &self,
        engine: &Engine,
        id: InstrumentId,
        symbol: &str,
        exponent: i8,
        depth: usize,
    ) -> Option<String> {
        let factor = 10i64.pow(u32::try_from(exponent + 9).expect("a price of the tests"));
        let mut levels: Vec<Level> = Vec::new();
        for side in [Side::Buy, Side::Sell] {
            engine.book_levels(id, side, depth, &mut levels);
            let want: Vec<_> = (levels.iter())
                .map(|level| (Price(level.price.0 * factor), level.qty, level.order_count))
                .collect();
            let read: Vec<_> = (self.reader.locate(symbol).into_iter())
                .flat_map(|locate| self.reader.books().levels(locate, side, depth))
                .map(|level| (level.price, level.size, level.order_count))
                .collect();
            if read != want {
                return Some(format!("{side:?}: read {read:?}, engine {want:?}"));
            }
        }
        None
    }
}
