//! Readers of a router against the model, under random events: changes, pages, filters, followers
//! that lag, stop, fail silently and start again, sources that lose their tail, appear and move,
//! routers that restart, connections that take no data.
//!
//! After every page, for every source and every order: the reader has the model's latest state, or
//! the order has changed since the place in the reader's token. In the end, with everything at
//! rest, the reader has the latest state of all orders.
//!
//! `WEIR_ROUTER_STEPS` sets the total number of steps (50,000), `WEIR_ROUTER_SEED` the first
//! world's seed (1). A failure names the seed of its world: `WEIR_ROUTER_SEED=N
//! WEIR_ROUTER_STEPS=1` runs that world alone.

use std::collections::BTreeMap;

use weir_delivery::filter::Keys;
use weir_delivery::model::{Model, change_id_of, is_live};
use weir_delivery::{FetchOutcome, Filter, Kinds, Router, RouterConfig, SourceCursor};
use weir_types::{ChangeId, Nanos, OrdStatus, PartitionId, Reason, Rec};
use weir_wire::delivery::{AddCredit, FetchOrders, OrderRow, PageFlags, RowFlags};

use crate::support::keys;
use crate::venue::{
    Answer, Change, History, MS, Venue, assert_in_order, change_id_in, cursors, fetch_of, sealer,
};

const WORLD_STEPS: u64 = 400;
const READERS: usize = 4;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("a length")
    }

    fn keys(&mut self) -> Keys {
        keys(1 + self.below(2) as u32, 1 + self.below(3) as u32, 1 + self.below(2) as u32)
    }

    fn filter(&mut self) -> Filter {
        let any = keys(self.below(3) as u32, self.below(4) as u32, self.below(3) as u32);
        let Keys { firm_id, account_id, instrument_id } = any;
        let filter = Filter { firm_id, account_id, instrument_id, live_only: self.one_in(3) };
        if self.one_in(3) { Filter { live_only: filter.live_only, ..Filter::ALL } } else { filter }
    }
}

struct Reader {
    filter: Filter,
    question: FetchOrders,
    token: Vec<u8>,
    mirror: BTreeMap<(PartitionId, Rec), OrderRow>,
    is_asking: bool,
    page_count: u64,
    /// Rows that its fetch may still get, if it is limited in rows.
    rows_left: Option<u64>,
}

struct World {
    random: Random,
    venue: Venue,
    readers: Vec<Reader>,
    router_count: u32,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let mut venue = Venue::new(config(&mut random));
        venue.retained_max = [0, 3, 12, 1_000_000][random.index(4)];
        for source in 1..=1 + random.below(3) as u16 {
            venue.add_master(source);
        }
        let reader = |random: &mut Random| Reader {
            filter: random.filter(),
            question: fetch_of(&Filter::ALL),
            token: Vec::new(),
            mirror: BTreeMap::new(),
            is_asking: false,
            page_count: 0,
            rows_left: None,
        };
        let readers = (0..READERS).map(|_| reader(&mut random)).collect();
        World { random, venue, readers, router_count: 1 }
    }

    fn source(&mut self) -> u16 {
        1 + self.random.below(self.venue.histories.len() as u64) as u16
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=24 => self.change(),
            25..=39 => self.feed(),
            40..=54 => self.ask(),
            55..=74 => self.move_a_little(),
            75..=80 => self.venue.settle(),
            81..=88 => {
                let span = [MS / 10, MS, 30 * MS, 700 * MS, 12_000 * MS][self.random.index(5)];
                self.venue.advance_by(Nanos(self.random.below(span)));
            }
            89..=92 => self.stop_or_start(),
            93 => self.lose_questions(),
            94 => self.fail(),
            95 => self.grow(),
            96 => self.move_source(),
            97 => self.restart_router(),
            _ => self.block(),
        }
        for reader in 0..READERS {
            self.take_pages(reader);
        }
    }

    /// Moves one side and not the other.
    fn move_a_little(&mut self) {
        let venue = &mut self.venue;
        if self.random.one_in(2) {
            venue.local.pump(&mut venue.router, venue.now);
        } else {
            let _ = venue.router.poll(venue.now, &mut venue.local, &mut venue.sink);
        }
    }

    fn change(&mut self) {
        let source = self.source();
        self.venue.now = Nanos(self.venue.now.0 + self.random.below(3));
        let live = live_of(self.venue.history(source));
        let at_same_seq = self.random.one_in(4);
        let keys = self.random.keys();
        if live.is_empty() || self.random.below(10) < 4 {
            let history = self.venue.history(source);
            if at_same_seq && history.seq > 0 {
                history.seq -= 1;
            }
            let rec = history.rec + 1;
            self.venue.say(source, rec, keys, OrdStatus::New);
            return;
        }
        let (rec, old) = live[self.random.index(live.len())];
        match self.random.below(10) {
            0 => {
                let history = self.venue.history(source);
                history.seq += 1;
                let change_id = ChangeId::new(weir_types::Seq(history.seq), rec);
                history.changes.push(Change::Delete(change_id));
            }
            1..=3 => drop(self.venue.say(source, rec.0, old, OrdStatus::Filled)),
            4..=5 => drop(self.venue.say(source, rec.0, keys, OrdStatus::PartiallyFilled)),
            _ => drop(self.venue.say(source, rec.0, old, OrdStatus::PartiallyFilled)),
        }
    }

    fn follower(&mut self) -> usize {
        self.random.index(self.venue.followers.len())
    }

    fn feed(&mut self) {
        let (index, count) = (self.follower(), 1 + self.random.index(12));
        if self.venue.followers[index].is_up {
            self.venue.feed(index, count);
        }
    }

    fn ask(&mut self) {
        let index = self.random.index(READERS);
        if self.readers[index].is_asking {
            return self.add_credit(index);
        }
        let random = &mut self.random;
        if self.readers[index].page_count == 0 || random.one_in(8) {
            self.readers[index].question = FetchOrders {
                rows_max: [0, 1, 3, 8][random.index(4)],
                rows_min: [0, 1, 1, 5][random.index(4)],
                bytes_max: [0, 0, 0, 500][random.index(4)],
                wait_max_us: [0, 1, 2_000, 900_000][random.index(4)],
                credit: 1 + random.below(3) as u32,
                credit_rows: [0, 0, 1, 6][random.index(4)],
                credit_bytes: [0, 0, 0, 700][random.index(4)],
                ..fetch_of(&self.readers[index].filter)
            };
        }
        let question = FetchOrders {
            source_id: PartitionId(if random.one_in(8) { self.source() } else { 0 }),
            ..self.readers[index].question
        };
        let token = self.readers[index].token.clone();
        assert_eq!(self.venue.ask(index as u64, &question, &token), FetchOutcome::Accepted);
        let reader = &mut self.readers[index];
        reader.is_asking = true;
        reader.rows_left = (question.credit_rows > 0).then_some(question.credit_rows.into());
    }

    fn add_credit(&mut self, index: usize) {
        let (random, reader) = (&mut self.random, &mut self.readers[index]);
        let more = AddCredit {
            correlation_id: reader.question.correlation_id,
            session_id: reader.question.session_id,
            pages: random.below(3) as u32,
            rows: random.below(9) as u32,
            bytes: random.below(1_500) as u32,
        };
        reader.rows_left = reader.rows_left.map(|left| left + u64::from(more.rows));
        self.venue.router.add_credit(index as u64, &more, self.venue.now);
    }

    fn stop_or_start(&mut self) {
        let index = self.follower();
        if self.venue.followers[index].is_up {
            self.venue.stop(index);
        } else {
            self.start(index);
        }
    }

    /// Starts a new store, which takes in the source's changes later.
    fn start(&mut self, index: usize) {
        self.venue.start(index);
        let count = self.random.index(200);
        self.venue.feed(index, count);
    }

    /// A follower comes back with its orders and without its fetches; the router is not told.
    fn lose_questions(&mut self) {
        let index = self.follower();
        let before = self.venue.followers[index].clone();
        if before.is_up {
            self.venue.replace_quietly(index);
        }
    }

    fn fail(&mut self) {
        if self.random.one_in(2) {
            let source = self.source();
            let lost_count = self.random.index(6);
            self.venue.fail(source, lost_count);
        }
    }

    fn grow(&mut self) {
        let source_count = self.venue.histories.len();
        if source_count < 4 && self.random.one_in(2) {
            self.venue.add_master(source_count as u16 + 1);
        } else if self.venue.followers.len() < 10 {
            let source = self.source();
            let kinds = [Kinds::FULL, Kinds::SINGLE, Kinds::NONE][self.random.index(3)];
            self.venue.add_replica(source, kinds);
        }
    }

    /// Removes a follower for good, and adds another elsewhere.
    fn move_source(&mut self) {
        let index = self.follower();
        if self.venue.followers[index].is_up {
            self.venue.stop(index);
        }
        let gone = self.venue.followers.remove(index);
        self.venue.router.remove_backend(gone.id);
        let is_left = self.venue.followers.iter().any(|each| each.source == gone.source);
        if !is_left || self.random.one_in(2) {
            self.venue.add_master(gone.source.0);
        }
    }

    fn restart_router(&mut self) {
        self.router_count += 1;
        let config = config(&mut self.random);
        self.venue.router = Router::new(config, sealer(1_000 + self.router_count));
        self.venue.local = Default::default();
        self.venue.sink.full.clear();
        let followers = core::mem::take(&mut self.venue.followers);
        for follower in &followers {
            let id = self.venue.router.add_backend(follower.info).expect("few sources");
            self.venue.followers.push(crate::venue::Follower { id, ..follower.clone() });
        }
        for (index, follower) in followers.iter().enumerate() {
            if follower.is_up {
                self.start(index);
            }
        }
        self.readers.iter_mut().for_each(|reader| reader.is_asking = false);
    }

    fn block(&mut self) {
        let connection = self.random.below(READERS as u64);
        if self.venue.sink.full.contains(&connection) {
            self.venue.sink.full.retain(|each| *each != connection);
            self.venue.router.resume(connection);
        } else {
            self.venue.sink.full.push(connection);
        }
    }

    fn take_pages(&mut self, index: usize) {
        for answer in self.venue.answers(index as u64) {
            let reader = &mut self.readers[index];
            assert!(reader.is_asking, "a page that nobody asked for");
            reader.is_asking = answer.header.credit_left > 0;
            reader.page_count += 1;
            if answer.header.reason != Reason::None {
                let is_legal =
                    matches!(answer.header.reason, Reason::ResyncFloor | Reason::ResyncEpoch);
                assert!(is_legal, "{:?}", answer.header.reason);
                (reader.token, reader.mirror) = (answer.token, BTreeMap::new());
                continue;
            }
            let taken = u64::from(answer.header.row_count);
            assert!(reader.rows_left.is_none_or(|left| taken <= left), "more rows than its credit");
            reader.rows_left = reader.rows_left.map(|left| left - taken);
            reader.take(&answer);
            let filter = reader.filter;
            for (source, histories) in &self.venue.histories {
                let history = histories.last().expect("there is always one");
                self.readers[index].check(*source, history, &filter);
            }
        }
    }

    /// Brings everything up and to rest, and every reader to the end.
    fn finish(&mut self) {
        self.venue.sink.full.clear();
        for index in 0..READERS {
            self.venue.router.drop_connection(index as u64, &mut self.venue.local);
            self.readers[index].is_asking = false;
        }
        for index in 0..self.venue.followers.len() {
            if !self.venue.followers[index].is_up {
                self.venue.start(index);
            }
        }
        self.venue.feed_all();
        // By then, backends that were set aside serve again.
        self.venue.advance_by(Nanos(20_000 * MS));
        for index in 0..READERS {
            self.finish_reader(index);
        }
    }

    fn finish_reader(&mut self, index: usize) {
        for _ in 0..2_000 {
            let question = fetch_of(&self.readers[index].filter);
            let token = self.readers[index].token.clone();
            assert_eq!(self.venue.ask(index as u64, &question, &token), FetchOutcome::Accepted);
            self.readers[index].is_asking = true;
            self.readers[index].rows_left = None;
            self.venue.settle();
            while self.readers[index].is_asking {
                let bytes = self.venue.sink.out.get(&(index as u64)).cloned();
                if let Some(answer) = crate::venue::answers(&bytes.unwrap_or_default()).last() {
                    let flags = answer.header.flags;
                    self.take_pages(index);
                    if flags == PageFlags::ONLINE && answer.header.reason == Reason::None {
                        return self.check_end(index);
                    }
                    continue;
                }
                assert!(self.venue.advance(), "nothing ever answers");
            }
        }
        panic!("never online with all sources");
    }

    fn check_end(&self, index: usize) {
        let reader = &self.readers[index];
        for (source, histories) in &self.venue.histories {
            let history = histories.last().expect("there is always one");
            let want: BTreeMap<Rec, ChangeId> = model_of(history)
                .live(&reader.filter)
                .into_iter()
                .map(|(rec, row)| (rec, change_id_of(&row)))
                .collect();
            let of_source = reader.mirror.iter().filter(|((each, _), _)| each == source);
            let have: BTreeMap<Rec, ChangeId> = of_source
                .filter(|(_, row)| is_live(row))
                .map(|((_, rec), row)| (*rec, change_id_of(row)))
                .collect();
            assert_eq!(have, want, "source {source}, {:?}", reader.filter);
        }
    }
}

impl Reader {
    fn take(&mut self, answer: &Answer) {
        assert_in_order(&answer.rows);
        for row in &answer.rows {
            let source = row.order_id.partition();
            let (before, after) = (self.change_id(source), change_id_in(&answer.token, source.0));
            let change_id = change_id_of(row);
            assert!(
                change_id > before && change_id <= after,
                "{change_id:?} is not in {before:?}..{after:?}"
            );
            if row.flags == RowFlags::default() {
                self.mirror.insert((source, row.rec), *row);
            } else {
                self.mirror.remove(&(source, row.rec));
            }
        }
        self.token.clone_from(&answer.token);
    }

    fn change_id(&self, source: PartitionId) -> ChangeId {
        self.at(source).map_or(ChangeId::START, |at| at.change_id)
    }

    fn at(&self, source: PartitionId) -> Option<SourceCursor> {
        if self.token.is_empty() {
            return None;
        }
        cursors(&self.token).into_iter().find(|at| at.source == source)
    }

    /// Checks that the reader's orders of a source match the place in its token.
    fn check(&self, source: PartitionId, history: &History, filter: &Filter) {
        let Some(at) = self.at(source) else { return };
        if is_disowned(&at, history) {
            return;
        }
        let model = model_of(history);
        let latest = model.latest(ChangeId::START);
        for (rec, row) in latest.iter().filter(|(_, row)| change_id_of(row) <= at.change_id) {
            let mirrored = self.mirror.get(&(source, *rec));
            let is_wanted = is_live(row) && filter.matches(&keys_of(row));
            assert!(
                mirrored.is_some() || !is_wanted,
                "source {source} record {rec} was skipped: {row:?}, token at {at:?}, {filter:?}"
            );
            let Some(mirrored) = mirrored else { continue };
            assert!(row.flags == RowFlags::default(), "{rec} is gone and still there");
            assert!(filter.matches(&keys_of(row)), "{rec} left and is still there");
            let strip = |row: &OrderRow| OrderRow { merged_count: 0, ..*row };
            assert_eq!(strip(mirrored), strip(row), "an old state of {rec}, token at {at:?}");
        }
        let own = self.mirror.keys().filter(|(each, _)| *each == source);
        for (_, rec) in own {
            assert!(latest.contains_key(rec), "record {rec} of source {source} never was");
        }
    }
}

fn keys_of(row: &OrderRow) -> Keys {
    Keys { firm_id: row.firm_id, account_id: row.account_id, instrument_id: row.instrument_id }
}

/// True for a place beyond the end of its epoch: the reader is refused at its next fetch.
fn is_disowned(at: &SourceCursor, history: &History) -> bool {
    history.changes.iter().any(|change| match change {
        Change::Epoch(epoch, valid_to) => at.epoch < *epoch && at.reach() > *valid_to,
        _ => false,
    })
}

fn model_of(history: &History) -> Model {
    let mut model = Model::default();
    for change in &history.changes {
        match change {
            Change::Order(event) => model.ingest(event),
            Change::Delete(change_id) => model.delete(*change_id),
            Change::Epoch(..) => {}
        }
    }
    model
}

fn live_of(history: &History) -> Vec<(Rec, Keys)> {
    let live = model_of(history).live(&Filter::ALL);
    live.into_iter().map(|(rec, row)| (rec, keys_of(&row))).collect()
}

fn config(random: &mut Random) -> RouterConfig {
    let default = RouterConfig::default();
    RouterConfig {
        linger: Nanos([0, 5 * MS, default.linger.0][random.index(3)]),
        park_wait: Nanos([MS, 300 * MS, default.park_wait.0][random.index(3)]),
        lag_max: [0, 5, default.lag_max][random.index(3)],
        poll_visit_max: [1, 3, default.poll_visit_max][random.index(3)],
        jitter_seed: random.below(1_000),
        ..default
    }
}

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn readers_end_with_the_latest_state_of_what_they_may_see_whatever_happens() {
    let steps = from_env("WEIR_ROUTER_STEPS", 50_000);
    let first = from_env("WEIR_ROUTER_SEED", 1);
    let worlds = steps.div_ceil(WORLD_STEPS);
    let (mut page_count, mut figures) = (0, Vec::new());
    for seed in first..first + worlds {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            (0..WORLD_STEPS).for_each(|_| world.step());
            world.finish();
            let pages: u64 = world.readers.iter().map(|reader| reader.page_count).sum();
            (pages, *world.venue.router.figures())
        });
        let Ok((pages, of_world)) = outcome else { panic!("seed {seed}: see above") };
        page_count += pages;
        figures.push(of_world);
    }
    let sum = |of: fn(&weir_delivery::router::RouterFigures) -> u64| -> u64 {
        figures.iter().map(of).sum()
    };
    println!(
        "{} steps, {page_count} pages, {} questions to backends, {} adopted, {} switched, \
         {} late, {} faults, {} sent back",
        worlds * WORLD_STEPS,
        sum(|f| f.asked_count),
        sum(|f| f.adopted_count),
        sum(|f| f.switch_count),
        sum(|f| f.late_count),
        sum(|f| f.fault_count),
        sum(|f| f.resync_count),
    );
    // A run without any failure would have tested nothing.
    if worlds >= 100 {
        let seen = [page_count, sum(|f| f.switch_count), sum(|f| f.resync_count)];
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }
}
