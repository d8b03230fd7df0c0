//! A consumer of a receiver's output: books that are marked as a real consumer marks them, and
//! checks at every message.

use std::rc::Rc;

use weir_feed::line::State;
use weir_feed::{Action, Definition, FeedError, Update};
use weir_market::{Books, BooksConfig};
use weir_marketgate::receiver::{ChannelEvent, ChannelKey, ClearReason, Origin, Output};
use weir_types::{InstrumentId, Nanos, Side};

use crate::day::{Chance, Day, Row};

/// Books of a feed with one channel.
pub struct Market {
    pub books: Books,
    day: Rc<Day>,
    pub state: State,
    pub session: Option<u64>,
    /// True after an unrecovered loss: the books may be wrong.
    pub is_marked: bool,
    pub events: Vec<(ChannelKey, ChannelEvent)>,
    pub definitions: usize,
    pub updates: u64,
    pub refused: Vec<FeedError>,
    /// The numbers of rows that unmarked books equalled, and that they did not.
    pub right: usize,
    pub wrong: usize,
    pub packets: u64,
    /// The chance that a datagram finds no room, in millionths, drawn for each datagram.
    pub full: Option<(Chance, u64)>,
    unended: bool,
}

impl Market {
    pub fn new(day: Rc<Day>) -> Market {
        Market {
            books: Books::new(&BooksConfig::default()),
            day,
            state: State::Waiting,
            session: None,
            is_marked: false,
            events: Vec::new(),
            definitions: 0,
            updates: 0,
            refused: Vec::new(),
            right: 0,
            wrong: 0,
            packets: 0,
            full: None,
            unended: false,
        }
    }

    /// Returns the number of events of this kind.
    pub fn count(&self, is_it: impl Fn(&ChannelEvent) -> bool) -> usize {
        self.events.iter().filter(|(_, event)| is_it(event)).count()
    }

    fn clear(&mut self) {
        let (instrument_id, action) = (InstrumentId(0), Action::Clear);
        let ts_event = Nanos(0);
        self.books.apply(&Update { instrument_id, sequence: 0, ts_event, action });
    }

    fn mark(&mut self) {
        self.is_marked = true;
        self.books.mark_stale();
    }

    fn unmark(&mut self) {
        self.is_marked = false;
        self.books.repair();
    }

    fn holds(&self, id: InstrumentId, row: &Row) -> bool {
        [Side::Buy, Side::Sell].into_iter().zip(&row.sides).all(|(side, want)| {
            let levels = self.books.levels(id, side, want.len());
            levels.map(|level| (level.price, level.size)).eq(want.iter().copied())
        })
    }

    fn check_rows(&mut self, sequence: u64) {
        let day = Rc::clone(&self.day);
        for (id, row) in day.rows.get(&sequence).into_iter().flatten() {
            if self.holds(*id, row) { self.right += 1 } else { self.wrong += 1 }
        }
    }
}

impl Output for Market {
    fn drops_datagrams(&mut self) -> bool {
        self.full.as_mut().is_some_and(|(chance, millionths)| chance.happens(*millionths))
    }

    fn define(&mut self, _origin: &Origin, definition: &Definition) {
        self.definitions += 1;
        assert!(self.books.define(definition.instrument_id));
    }

    fn update(&mut self, origin: &Origin, update: Update) {
        assert_eq!(origin.is_snapshot, update.sequence == 0);
        self.updates += 1;
        self.unended = true;
        self.books.apply(&update);
        if !origin.is_snapshot && !self.is_marked {
            self.check_rows(update.sequence);
        }
    }

    fn channel(&mut self, channel: ChannelKey, event: &ChannelEvent) {
        self.events.push((channel, *event));
        match *event {
            ChannelEvent::State { from, to } => {
                assert_eq!(from, self.state);
                self.state = to;
            }
            ChannelEvent::Clear { reason } => {
                self.clear();
                if let ClearReason::Session { session } = reason {
                    self.session = Some(session);
                    self.unmark();
                } else {
                    self.mark();
                }
            }
            ChannelEvent::Stale { session, .. } if self.session == Some(session) => self.mark(),
            ChannelEvent::Damaged => self.mark(),
            ChannelEvent::Joined { .. } => self.unmark(),
            _ => {}
        }
    }

    fn refused(&mut self, _origin: &Origin, error: FeedError) {
        self.refused.push(error);
    }

    fn end_of_packet(&mut self, _origin: &Origin) {
        self.unended = false;
        self.packets += 1;
    }
}

impl Market {
    /// Returns whether the last packet has ended: no update came after its end.
    pub fn is_whole(&self) -> bool {
        !self.unended
    }
}
