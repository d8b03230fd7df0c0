//! The desk from a connection's view: frames in, frames out.

mod support;

use std::collections::BTreeMap;

use support::{SOURCE, event, keys};
use weir_delivery::{
    Desk, DeskConfig, Entitlement, FetchOutcome, NonceCounter, OrderStore, PageCounts, PageSink,
    Question, Retention, StoreConfig, TokenKey, TokenSealer, WaitCause,
};
use weir_types::{
    AccountId, ChangeId, Epoch, FirmId, InstrumentId, Nanos, OrdStatus, PartitionId, Qty, Reason,
    Rec, Seq, SessionId, SourceLog, Switch, WallOffset,
};
use weir_wire::delivery::{AddCredit, CancelFetch, FetchOrders, OrderPage, OrderRow, PageFlags};
use weir_wire::event::OrderEvent;
use weir_wire::frame::{Framing, RawMessage, next_frame};
use weir_wire::{DecodeError, Message, NodeMessage};

const MS: u64 = 1_000_000;

#[derive(Default)]
struct Sink {
    out: BTreeMap<u64, Vec<u8>>,
    full: Vec<u64>,
}

impl PageSink for Sink {
    fn buffer(&mut self, connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        if self.full.contains(&connection) {
            return None;
        }
        Some(self.out.entry(connection).or_default())
    }
}

struct Answer {
    header: OrderPage,
    token: Vec<u8>,
    rows: Vec<OrderRow>,
}

struct Rig {
    desk: Desk,
    sink: Sink,
    seq: u64,
    now: Nanos,
}

impl Rig {
    fn new(config: DeskConfig, retained_max: u32) -> Rig {
        let retention = Retention { count_max: retained_max, bytes_max: u64::MAX };
        let store =
            OrderStore::new(StoreConfig { retention, ..StoreConfig::new(SOURCE, Epoch(2)) });
        Rig {
            desk: Desk::new(config, store, sealer(1)),
            sink: Sink::default(),
            seq: 0,
            now: Nanos(MS),
        }
    }

    fn with_orders(count: u64) -> Rig {
        let mut rig = Rig::new(DeskConfig::default(), 1_000);
        (1..=count).for_each(|rec| rig.say(rec, OrdStatus::New));
        rig
    }

    fn say(&mut self, rec: u64, status: OrdStatus) {
        self.seq += 1;
        self.say_at_same_seq(rec, status);
    }

    /// A change at the `seq` of the one before, as outside cores send them.
    fn say_at_same_seq(&mut self, rec: u64, status: OrdStatus) {
        let event = event(self.seq, rec, keys(1 + (rec % 2) as u32, 1, 1), status);
        let _ = self.desk.ingest(&event).expect("events come in order");
    }

    fn ask(&mut self, connection: u64, fetch: &FetchOrders, token: &[u8]) -> FetchOutcome {
        let entitlement = Entitlement::all();
        self.desk.ask(&Question { connection, fetch, token, min_token: &[], entitlement }, self.now)
    }

    fn poll(&mut self) -> u32 {
        let mut page_count = 0;
        loop {
            let polled = self.desk.poll(self.now, &mut self.sink);
            page_count += polled.page_count;
            if !polled.has_more {
                return page_count;
            }
        }
    }

    /// Cancels the fetch of this number of the bench's session.
    fn cancel(&mut self, connection: u64, correlation_id: u64) {
        let session_id = fetch().session_id;
        self.desk.cancel(connection, &CancelFetch { correlation_id, session_id });
    }

    fn answers(&mut self, connection: u64) -> Vec<Answer> {
        let bytes = self.sink.out.remove(&connection).unwrap_or_default();
        let (mut bytes, mut answers) = (&bytes[..], Vec::<Answer>::new());
        while let Framing::Frame { len, message } = next_frame(bytes, 1 << 24) {
            match decode(message) {
                NodeMessage::OrderPage(header, token) => {
                    answers.push(Answer { header, token: token.to_vec(), rows: Vec::new() });
                }
                NodeMessage::OrderPageBody(_, rows) => {
                    let answer = answers.last_mut().expect("the header comes first");
                    answer.rows = rows.map(|row| row.expect("a row decodes").0).collect();
                }
                other => panic!("{other:?}"),
            }
            bytes = &bytes[len..];
        }
        assert!(bytes.is_empty(), "whole frames only");
        let is_counted = |answer: &Answer| answer.header.row_count as usize == answer.rows.len();
        assert!(answers.iter().all(is_counted));
        answers
    }

    fn answer(&mut self, connection: u64) -> Answer {
        let mut answers = self.answers(connection);
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// Fetches and returns the immediate answer.
    fn fetch(&mut self, fetch: &FetchOrders, token: &[u8]) -> Answer {
        assert_eq!(self.ask(9, fetch, token), FetchOutcome::Accepted);
        self.poll();
        self.answer(9)
    }
}

fn decode(message: Result<RawMessage<'_>, DecodeError>) -> NodeMessage<'_> {
    NodeMessage::decode(&message.expect("a message header")).expect("a node's message")
}

fn sealer(key_id: u8) -> TokenSealer {
    TokenSealer::new(TokenKey::new(key_id, &[5; 32]), NonceCounter::new(1, Nanos(1)))
}

fn fetch() -> FetchOrders {
    FetchOrders {
        correlation_id: 77,
        session_id: SessionId(4),
        firm_id: FirmId::NONE,
        account_id: AccountId::NONE,
        instrument_id: InstrumentId::NONE,
        rows_max: 0,
        rows_min: 1,
        bytes_max: 0,
        wait_max_us: 500,
        credit: 1,
        live_only: Switch::Off,
        source_id: PartitionId::NONE,
        min_wait_us: 0,
        credit_rows: 0,
        credit_bytes: 0,
    }
}

#[test]
fn a_snapshot_comes_in_pages_and_the_last_one_says_online() {
    let mut rig = Rig::with_orders(25);
    let (mut token, mut recs) = (Vec::new(), Vec::new());
    for page in 0..3 {
        let answer = rig.fetch(&FetchOrders { rows_max: 10, ..fetch() }, &token);
        assert_eq!(answer.header.reason, Reason::None);
        assert_eq!(answer.header.flags.contains(PageFlags::ONLINE), page == 2);
        assert_eq!((answer.header.correlation_id, answer.token.len()), (77, 82));
        recs.extend(answer.rows.iter().map(|row| row.rec.0));
        token = answer.token;
    }
    assert_eq!(recs, (1..=25).collect::<Vec<u64>>());
}

#[test]
fn a_new_reader_of_live_orders_gets_those_alone_and_then_the_ends_of_what_it_saw() {
    let mut rig = Rig::with_orders(60);
    // All but every tenth have ended, spread over the pages of a new reader.
    for rec in (1..=60).filter(|rec| rec % 10 != 0) {
        rig.say(rec, OrdStatus::Filled);
    }
    (61..=63).for_each(|rec| rig.say(rec, OrdStatus::New));
    let live = FetchOrders { rows_max: 2, rows_min: 0, live_only: Switch::On, ..fetch() };
    let (mut token, mut seen, mut pages) = (Vec::new(), Vec::new(), 0);
    loop {
        let answer = rig.fetch(&live, &token);
        let recs = answer.rows.iter().map(|row| (row.rec.0, row.ord_status.is_live()));
        seen.extend(recs);
        token = answer.token;
        pages += 1;
        if pages == 1 {
            // One that it has seen, and one that it has not.
            rig.say(10, OrdStatus::Filled);
            rig.say(50, OrdStatus::Filled);
        }
        if answer.header.flags.contains(PageFlags::ONLINE) {
            break;
        }
    }
    let ends: Vec<u64> = seen.iter().filter(|(_, is_live)| !is_live).map(|(rec, _)| *rec).collect();
    assert!(ends.contains(&10), "it saw 10 live: {seen:?}");
    assert!(ends.iter().all(|rec| [10, 50].contains(rec)), "dead before it began: {seen:?}");
    let mut live_recs: Vec<u64> =
        seen.iter().filter(|(_, is_live)| *is_live).map(|(rec, _)| *rec).collect();
    live_recs.sort_unstable();
    assert_eq!(live_recs, [10, 20, 30, 40, 60, 61, 62, 63]);
}

#[test]
fn a_reader_of_live_orders_gets_the_end_of_one_that_a_store_behind_its_first_told() {
    let (mut ahead, mut behind) = (Rig::with_orders(3), Rig::with_orders(3));
    ahead.say(2, OrdStatus::Filled);
    ahead.say(3, OrdStatus::PartiallyFilled);
    let live = FetchOrders { rows_max: 1, rows_min: 0, live_only: Switch::On, ..fetch() };
    let token = ahead.fetch(&live, &[]).token;
    let answer = behind.fetch(&live, &token);
    assert_eq!((answer.rows[0].rec, answer.rows[0].ord_status), (Rec(2), OrdStatus::New));
    behind.say(2, OrdStatus::Filled);
    let rows = behind.fetch(&FetchOrders { rows_max: 9, ..live }, &answer.token).rows;
    let rows: Vec<_> = rows.iter().map(|row| (row.rec.0, row.ord_status.is_live())).collect();
    assert_eq!(rows, [(3, true), (2, false)]);
}

#[test]
fn a_parked_reader_is_answered_when_something_comes_and_not_before() {
    let mut rig = Rig::with_orders(3);
    let token = rig.fetch(&fetch(), &[]).token;
    assert_eq!(rig.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    assert_eq!(rig.poll(), 0);
    rig.now = Nanos(3 * MS);
    assert_eq!(rig.poll(), 0, "its own wait is for filling, not for giving up");
    rig.say(2, OrdStatus::PartiallyFilled);
    assert_eq!(rig.poll(), 1);
    let answer = rig.answer(1);
    assert_eq!(answer.rows[0].rec, Rec(2));
    assert_eq!((answer.header.asked_time, answer.header.served_time), (Nanos(MS), Nanos(3 * MS)));
    assert_eq!(rig.desk.reader_count(), 0);
}

#[test]
fn pages_have_the_times_of_a_wall_clock_that_was_set_and_waits_do_not() {
    const HOUR: u64 = 3_600_000 * MS;
    let mut rig = Rig::with_orders(3);
    let token = rig.fetch(&fetch(), &[]).token;
    rig.desk.wall_clock_moved(WallOffset::between(rig.now, Nanos(rig.now.0 + HOUR)));
    assert_eq!(rig.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    assert_eq!(rig.poll(), 0);
    rig.now = Nanos(3 * MS);
    rig.say(2, OrdStatus::PartiallyFilled);
    assert_eq!(rig.poll(), 1);
    let head = rig.answer(1).header;
    assert_eq!((head.asked_time, head.served_time), (Nanos(HOUR + MS), Nanos(HOUR + 3 * MS)));
    assert_eq!(rig.ask(1, &fetch(), b"no token"), FetchOutcome::Accepted);
    assert_eq!(rig.poll(), 1);
    let refused = rig.answer(1).header;
    assert_eq!(refused.served_time, Nanos(HOUR + 3 * MS), "of a refusal too");
}

#[test]
fn a_page_waits_to_fill_until_its_deadline() {
    let mut rig = Rig::with_orders(3);
    let token = rig.fetch(&fetch(), &[]).token;
    let question = FetchOrders { rows_min: 3, ..fetch() };
    for _ in 0..2 {
        assert_eq!(rig.ask(1, &question, &token), FetchOutcome::Accepted);
    }
    rig.say(1, OrdStatus::PartiallyFilled);
    assert_eq!(rig.poll(), 0);
    let deadline = rig.desk.next_deadline().unwrap();
    assert_eq!(deadline, Nanos(MS + 500_000));
    rig.now = deadline;
    assert_eq!(rig.poll(), 2);
    assert!(rig.answers(1).iter().all(|answer| answer.rows.len() == 1));
    assert_eq!(rig.ask(1, &question, &token), FetchOutcome::Accepted);
    rig.say(2, OrdStatus::PartiallyFilled);
    rig.say(3, OrdStatus::PartiallyFilled);
    assert_eq!(rig.poll(), 1, "a full page does not wait");
}

#[test]
fn an_idle_reader_gets_an_empty_page_that_moves_its_token_on() {
    let mut rig = Rig::with_orders(2);
    let of_firm = FetchOrders { account_id: AccountId(99), ..fetch() };
    let token = rig.fetch(&FetchOrders { rows_min: 0, ..of_firm }, &[]).token;
    assert_eq!(rig.ask(1, &of_firm, &token), FetchOutcome::Accepted);
    rig.say(1, OrdStatus::Filled);
    assert_eq!(rig.poll(), 0);
    rig.now = rig.desk.next_deadline().unwrap();
    assert_eq!(rig.now, Nanos(MS + DeskConfig::default().idle_wait.0));
    assert_eq!(rig.poll(), 1);
    let answer = rig.answer(1);
    assert_eq!(answer.rows, []);
    assert!(answer.header.flags.contains(PageFlags::ONLINE));
    let at = sealer(1).peek(&answer.token).unwrap();
    assert_eq!(at[0].change_id, rig.desk.store().head());
}

#[test]
fn a_first_question_to_an_empty_store_hears_online_after_its_own_wait() {
    let mut rig = Rig::with_orders(0);
    assert_eq!(rig.ask(1, &fetch(), &[]), FetchOutcome::Accepted);
    assert_eq!(rig.poll(), 0);
    rig.now = rig.desk.next_deadline().unwrap();
    assert_eq!((rig.now, rig.poll()), (Nanos(MS + 500_000), 1));
    assert!(rig.answer(1).header.flags.contains(PageFlags::ONLINE));
}

#[test]
fn credit_is_so_many_pages_and_no_more() {
    let mut rig = Rig::with_orders(5);
    assert_eq!(
        rig.ask(1, &FetchOrders { rows_max: 2, credit: 4, ..fetch() }, &[]),
        FetchOutcome::Accepted
    );
    assert_eq!(rig.poll(), 3);
    rig.say(1, OrdStatus::Filled);
    rig.say(2, OrdStatus::Filled);
    rig.say(3, OrdStatus::Filled);
    assert_eq!(rig.poll(), 1);
    let left: Vec<u32> = rig.answers(1).iter().map(|answer| answer.header.credit_left).collect();
    assert_eq!(left, [3, 2, 1, 0]);
    assert_eq!(rig.desk.reader_count(), 0);
}

/// More rows and bytes for fetch 77.
fn more(pages: u32, rows: u32, bytes: u32) -> AddCredit {
    AddCredit { correlation_id: 77, session_id: SessionId(4), pages, rows, bytes }
}

#[test]
fn credit_in_rows_is_so_many_rows_and_what_comes_after_is_the_latest() {
    let mut rig = Rig::with_orders(5);
    let question = FetchOrders { rows_max: 2, credit: 9, credit_rows: 3, ..fetch() };
    assert_eq!(rig.ask(1, &question, &[]), FetchOutcome::Accepted);
    rig.poll();
    let rows: Vec<usize> = rig.answers(1).iter().map(|answer| answer.rows.len()).collect();
    assert_eq!(rows, [2, 1]);
    // It stays at its place, regardless of changes and of time.
    (0..3).for_each(|_| rig.say(5, OrdStatus::PartiallyFilled));
    rig.now = Nanos(10_000 * MS);
    assert_eq!(rig.poll(), 0);
    rig.desk.resume(1);
    assert_eq!((rig.poll(), rig.desk.next_deadline()), (0, None));
    // Credit for another fetch, or for one that is not there, has no effect.
    rig.desk.add_credit(1, &AddCredit { correlation_id: 78, ..more(1, 9, 0) }, rig.now);
    rig.desk.add_credit(2, &more(1, 9, 0), rig.now);
    assert_eq!(rig.poll(), 0);
    rig.desk.add_credit(1, &more(0, 9, 0), rig.now);
    rig.poll();
    let answers = rig.answers(1);
    let recs: Vec<u64> = answers.iter().flat_map(|a| &a.rows).map(|row| row.rec.0).collect();
    assert_eq!(recs, [4, 5], "the latest state once");
    assert_eq!(answers[0].rows[1].merged_count, 3);
}

#[test]
fn credit_in_bytes_is_so_many_bytes_but_for_one_row_that_is_longer() {
    let mut rig = Rig::with_orders(6);
    let row = OrderRow::BLOCK_LENGTH as u32 + 2;
    let question = FetchOrders { credit: 9, credit_bytes: 2 * row + 1, ..fetch() };
    assert_eq!(rig.ask(1, &question, &[]), FetchOutcome::Accepted);
    rig.poll();
    let rows: Vec<usize> = rig.answers(1).iter().map(|answer| answer.rows.len()).collect();
    assert_eq!(rows, [2, 1], "a byte that is left is good for a row");
    assert_eq!(rig.poll(), 0);
    rig.desk.add_credit(1, &more(0, 7, 2 * row), rig.now);
    rig.poll();
    assert_eq!(rig.answer(1).rows.len(), 2, "rows were not bounded, and are not now");
}

#[test]
fn credit_in_pages_can_be_added_to_up_to_the_limit() {
    let mut rig = Rig::with_orders(1);
    let question = FetchOrders { credit: 2, credit_rows: 100, ..fetch() };
    assert_eq!(rig.ask(1, &question, &[]), FetchOutcome::Accepted);
    rig.poll();
    assert_eq!(rig.answer(1).header.credit_left, 1);
    rig.desk.add_credit(1, &more(u32::MAX, 0, 0), rig.now);
    rig.say(1, OrdStatus::Filled);
    rig.poll();
    assert_eq!(rig.answer(1).header.credit_left, DeskConfig::default().credit_max - 1);
}

#[test]
fn an_operator_sees_who_waits_for_what_and_how_far_behind_each_is() {
    let mut rig = Rig::with_orders(10);
    let listed = |rig: &Rig, from| {
        let mut found = Vec::new();
        let next = rig.desk.list(from, 2, &mut |one| found.push(one));
        (found, next)
    };
    let token = rig.fetch(&fetch(), &[]).token;
    let of_firm = FetchOrders { firm_id: FirmId(2), correlation_id: 78, ..fetch() };
    let token_of_firm = rig.fetch(&of_firm, &[]).token;
    rig.sink.full.push(2);
    for (connection, question, token) in
        [(1, fetch(), &token), (2, of_firm, &token_of_firm), (3, fetch(), &token)]
    {
        assert_eq!(rig.ask(connection, &question, token), FetchOutcome::Accepted);
    }
    rig.poll();
    // Orders 1 to 3 change; the firm's are 1 and 3.
    (1..=3).for_each(|rec| rig.say(rec, OrdStatus::PartiallyFilled));
    let (found, next) = listed(&rig, 0);
    assert_eq!((found.len(), next), (2, Some(2)), "so many seats a call");
    let ends = listed(&rig, 2);
    assert_eq!((ends.0.len(), ends.1), (1, None));
    let [all, firm] = &found[..] else { panic!("{found:?}") };
    assert_eq!((all.connection, all.session_id, all.changes), (1, SessionId(4), 3));
    assert_eq!((all.waits_for, all.credit_left), (WaitCause::Rows, 1));
    assert_eq!(firm.filter.map(|filter| filter.firm_id), Some(FirmId(2)));
    let lag = rig.desk.lag(all).unwrap();
    assert_eq!((lag.rows, lag.is_more), (3, false));
    assert!(lag.bytes >= 3 * OrderRow::BLOCK_LENGTH as u32);
    let of_firm = rig.desk.lag(firm).unwrap();
    assert_eq!((of_firm.rows, of_firm.oldest_transact_time), (2, lag.oldest_transact_time));
    rig.poll();
    // The first got its page and fetches again; the second's connection takes no data.
    let token = rig.answer(1).token;
    assert_eq!(rig.desk.lag(all), None, "its question is answered");
    assert_eq!(rig.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    let mut found = Vec::new();
    assert_eq!(rig.desk.list(0, 64, &mut |one| found.push(one)), None);
    found.sort_by_key(|one| one.connection);
    let [first, second] = &found[..] else { panic!("{found:?}") };
    assert_eq!((first.served.pages, first.served.rows), (1, 3));
    assert_eq!((second.waits_for, second.served.pages), (WaitCause::Reader, 0));
    rig.desk.drop_connection(1);
    assert_eq!(rig.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    let mut found = Vec::new();
    rig.desk.list(0, 64, &mut |one| found.push(one));
    let again = found.iter().find(|one| one.connection == 1).unwrap();
    assert_eq!(again.served, PageCounts::default(), "another connection of that number");
}

#[test]
fn what_was_served_is_remembered_of_a_bounded_number_of_connections() {
    let mut rig = Rig::new(DeskConfig { readers_max: 2, ..DeskConfig::default() }, 1_000);
    rig.say(1, OrdStatus::New);
    for connection in 1..=50 {
        assert_eq!(rig.ask(connection, &fetch(), &[]), FetchOutcome::Accepted);
        rig.poll();
        rig.answer(connection);
    }
    for (connection, pages) in [(2, 1), (50, 0)] {
        assert_eq!(rig.ask(connection, &fetch(), &[]), FetchOutcome::Accepted);
        let mut found = Vec::new();
        rig.desk.list(0, 64, &mut |one| found.push((one.connection, one.served.pages)));
        assert_eq!(found, [(connection, pages)]);
        rig.cancel(connection, 77);
    }
}

#[test]
fn a_connection_that_takes_nothing_holds_up_nobody_and_loses_nothing() {
    let mut rig = Rig::with_orders(2);
    let token = rig.fetch(&fetch(), &[]).token;
    rig.sink.full.push(1);
    for connection in [1, 2] {
        assert_eq!(rig.ask(connection, &fetch(), &token), FetchOutcome::Accepted);
    }
    rig.say(1, OrdStatus::PartiallyFilled);
    assert_eq!(rig.poll(), 1);
    assert_eq!(rig.answer(2).rows.len(), 1);
    assert_eq!(rig.desk.next_deadline(), None, "nobody polls for a full connection");
    rig.say(2, OrdStatus::PartiallyFilled);
    rig.sink.full.clear();
    rig.desk.resume(1);
    assert_eq!(rig.poll(), 1);
    assert_eq!(rig.answer(1).rows.len(), 2);
}

#[test]
fn a_dropped_connection_leaves_nothing_behind() {
    let mut rig = Rig::with_orders(2);
    let token = rig.fetch(&fetch(), &[]).token;
    for _ in 0..3 {
        assert_eq!(rig.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    }
    rig.poll();
    rig.desk.drop_connection(1);
    assert_eq!((rig.desk.reader_count(), rig.desk.next_deadline()), (0, None));
    rig.say(1, OrdStatus::Filled);
    assert_eq!(rig.poll(), 0);
}

#[test]
fn readers_beyond_the_limits_are_refused() {
    let limits = DeskConfig { readers_max: 3, readers_of_all_max: 2, ..Default::default() };
    let mut rig = Rig::new(limits, 10);
    let asked = [1, 1, 1, 2, 3].map(|connection| rig.ask(connection, &fetch(), &[]));
    let refused = FetchOutcome::Refused;
    let accepted = FetchOutcome::Accepted;
    let want =
        [accepted, accepted, refused(Reason::LimitReached), accepted, refused(Reason::Overloaded)];
    assert_eq!(asked, want);
}

#[test]
fn a_session_that_sees_all_may_have_more_questions_waiting_than_one_of_a_firm() {
    let limits =
        DeskConfig { readers_per_connection_max: 1, readers_of_all_max: 3, ..Default::default() };
    let mut rig = Rig::new(limits, 10);
    for (connection, entitlement, count_max) in
        [(1, Entitlement::firm(FirmId(1)), 1), (2, Entitlement::all(), 3)]
    {
        let question =
            Question { connection, fetch: &fetch(), token: &[], min_token: &[], entitlement };
        for _ in 0..count_max {
            assert_eq!(rig.desk.ask(&question, rig.now), FetchOutcome::Accepted);
        }
        let beyond = rig.desk.ask(&question, rig.now);
        assert_eq!(beyond, FetchOutcome::Refused(Reason::LimitReached));
    }
}

#[test]
fn one_call_does_a_bounded_amount_of_work_and_all_get_their_turn() {
    let limits = DeskConfig { poll_scan_max: 60, page_rows_max: 20, ..Default::default() };
    let mut rig = Rig::new(limits, 10);
    (1..=50).for_each(|rec| rig.say(rec, OrdStatus::New));
    for connection in 0..20 {
        assert_eq!(rig.ask(connection, &fetch(), &[]), FetchOutcome::Accepted);
    }
    let mut calls = 0;
    loop {
        let polled = rig.desk.poll(rig.now, &mut rig.sink);
        assert!(polled.row_count <= 60 + 20);
        calls += 1;
        if !polled.has_more {
            break;
        }
    }
    assert!(calls >= 5);
    assert!((0..20).all(|connection| rig.answer(connection).rows.len() == 20));
}

#[test]
fn a_page_that_ends_inside_the_changes_of_one_seq_says_partial() {
    let mut rig = Rig::with_orders(1);
    for rec in 2..=5 {
        let event = event(1, rec, keys(1, 1, 1), OrdStatus::New);
        let _ = rig.desk.ingest(&event).unwrap();
    }
    let first = rig.fetch(&FetchOrders { rows_max: 3, ..fetch() }, &[]);
    assert!(first.header.flags.contains(PageFlags::PARTIAL));
    let second = rig.fetch(&FetchOrders { rows_max: 3, ..fetch() }, &first.token);
    assert!(!second.header.flags.contains(PageFlags::PARTIAL));
    assert_eq!(second.rows.iter().map(|row| row.rec.0).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn a_row_tells_an_icebergs_slice() {
    let mut rig = Rig::with_orders(1);
    rig.seq += 1;
    let slice = Qty(3);
    let iceberg = event(rig.seq, 2, keys(1, 1, 1), OrdStatus::New);
    let iceberg = OrderEvent { display_qty: slice, ..iceberg };
    let _ = rig.desk.ingest(&iceberg).expect("events come in order");
    let shown: Vec<_> = rig.fetch(&fetch(), &[]).rows.iter().map(|r| r.display_qty).collect();
    assert_eq!(shown, [Qty::ZERO, slice]);
}

#[test]
fn what_was_merged_is_counted() {
    let mut rig = Rig::with_orders(2);
    let token = rig.fetch(&fetch(), &[]).token;
    (0..4).for_each(|_| rig.say(1, OrdStatus::PartiallyFilled));
    let answer = rig.fetch(&fetch(), &token);
    assert_eq!((answer.header.merged_count, answer.rows[0].merged_count), (3, 3));
}

#[test]
fn every_reason_to_start_again_has_its_name_and_a_token_to_start_with() {
    let mut rig = Rig::new(DeskConfig::default(), 2);
    rig.desk.store_mut().know_past_epoch(Epoch(1), ChangeId::new(Seq(2), Rec(9)));
    (1..=6).for_each(|rec| rig.say(rec, OrdStatus::New));
    let token = rig.fetch(&FetchOrders { rows_max: 3, ..fetch() }, &[]).token;
    let other_key = TokenSealer::new(TokenKey::new(1, &[6; 32]), NonceCounter::new(1, Nanos(1)));
    let at = |sealer: &mut TokenSealer, epoch: u32, seq: u64| {
        let all = weir_delivery::Scope::new(weir_delivery::Filter::ALL, Entitlement::all());
        let change_id = ChangeId::new(Seq(seq), Rec(1));
        let source = weir_delivery::SourceCursor::new(SOURCE, Epoch(epoch), change_id);
        let mut token = Vec::new();
        sealer.seal(&all.unwrap(), &[source], &mut token);
        token
    };
    let mut other_key = other_key;
    let filtered = FetchOrders { firm_id: FirmId(1), ..fetch() };
    let cases = [
        (fetch(), vec![1, 2, 3], Reason::ResyncToken),
        (fetch(), at(&mut other_key, 2, 1), Reason::ResyncToken),
        (filtered, token.clone(), Reason::ResyncFilter),
        (fetch(), at(&mut sealer(1), 1, 3), Reason::ResyncEpoch),
        (fetch(), at(&mut sealer(1), 7, 1), Reason::ResyncEpoch),
        (fetch(), at(&mut sealer(1), 1, 2), Reason::None),
        (fetch(), token.clone(), Reason::None),
    ];
    for (question, token, reason) in &cases {
        assert_eq!(rig.fetch(question, token).header.reason, *reason);
    }
    (1..=6).for_each(|rec| rig.say(rec, OrdStatus::Filled));
    let refused = rig.fetch(&fetch(), &token);
    assert_eq!((refused.header.reason, refused.rows.len()), (Reason::ResyncFloor, 0));
    let again = rig.fetch(&fetch(), &refused.token);
    assert_eq!((again.header.reason, again.rows.len()), (Reason::None, 2));
}

#[test]
fn a_first_copy_ends_although_its_live_orders_are_older_than_what_is_gone() {
    let mut rig = Rig::new(DeskConfig::default(), 2);
    (1..=25).for_each(|rec| rig.say(rec, OrdStatus::New));
    (26..=35).for_each(|rec| rig.say(rec, OrdStatus::New));
    (26..=35).for_each(|rec| rig.say(rec, OrdStatus::Filled));
    let ten = FetchOrders { rows_max: 10, rows_min: 0, ..fetch() };
    let (mut token, mut recs, mut middle) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let answer = rig.fetch(&ten, &token);
        assert_eq!(answer.header.reason, Reason::None, "after {recs:?}");
        recs.extend(answer.rows.iter().map(|row| row.rec.0));
        token = answer.token;
        if answer.header.flags.contains(PageFlags::ONLINE) {
            break;
        }
        middle.clone_from(&token);
    }
    assert_eq!(recs, (1..=25).chain(34..=35).collect::<Vec<u64>>());
    // One that it saw live ends, and is gone before it comes again.
    rig.say(1, OrdStatus::Filled);
    (36..=38).for_each(|rec| rig.say(rec, OrdStatus::New));
    (36..=38).for_each(|rec| rig.say(rec, OrdStatus::Filled));
    assert_eq!(rig.fetch(&ten, &middle).header.reason, Reason::ResyncFloor);
}

#[test]
fn a_first_copy_ends_although_more_orders_than_are_kept_ended_at_its_newest_seq() {
    for live_only in [Switch::Off, Switch::On] {
        let mut rig = Rig::new(DeskConfig::default(), 2);
        (1..=40).for_each(|rec| rig.say(rec, OrdStatus::New));
        rig.seq += 1;
        (26..=35).for_each(|rec| rig.say_at_same_seq(rec, OrdStatus::Filled));
        let ten = FetchOrders { rows_max: 10, rows_min: 0, live_only, ..fetch() };
        let (mut token, mut recs, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_online = false;
        while !is_online {
            let answer = rig.fetch(&ten, &token);
            assert_eq!(answer.header.reason, Reason::None, "after {recs:?}");
            recs.extend(answer.rows.iter().map(|row| row.rec.0));
            is_online = answer.header.flags.contains(PageFlags::ONLINE);
            token = answer.token;
            tokens.push(token.clone());
        }
        let is_given = |rec: &u64| live_only == Switch::Off || *rec < 34;
        let ended = (34..=35).filter(is_given);
        assert_eq!(recs, (1..=25).chain(36..=40).chain(ended).collect::<Vec<u64>>());
        // The source goes on within this seq: three that it saw live end, and the first of them is
        // gone before it comes again.
        (36..=38).for_each(|rec| rig.say_at_same_seq(rec, OrdStatus::Filled));
        let behind = rig.fetch(&ten, &tokens[2]);
        assert_eq!(behind.header.reason, Reason::ResyncFloor, "{live_only:?}");
    }
}

#[test]
fn a_place_is_refused_when_the_reader_began_at_a_change_of_its_seq_that_was_lost() {
    let mut rig = Rig::with_orders(4);
    rig.seq += 1;
    (1..=3).for_each(|rec| rig.say_at_same_seq(rec, OrdStatus::Filled));
    let one = FetchOrders { rows_max: 1, rows_min: 0, ..fetch() };
    let token = rig.fetch(&one, &[]).token;
    // It began at the end of order 3, of which the next epoch knows nothing.
    let valid_to = ChangeId::new(Seq(rig.seq), Rec(2));
    let mut after = Rig::new(DeskConfig::default(), 1_000);
    (1..=4).for_each(|rec| after.say(rec, OrdStatus::New));
    after.seq += 1;
    (1..=2).for_each(|rec| after.say_at_same_seq(rec, OrdStatus::Filled));
    after.desk.store_mut().begin_epoch(Epoch(3), valid_to).unwrap();
    assert_eq!(after.fetch(&one, &token).header.reason, Reason::ResyncEpoch);
}

#[test]
fn a_token_of_another_log_is_refused_and_one_of_no_log_is_not() {
    let rig_of = |log: u64, count: u64| {
        let mut rig = Rig::with_orders(count);
        rig.desk.store_mut().set_log(SourceLog(log));
        rig
    };
    let two = FetchOrders { rows_max: 2, rows_min: 0, ..fetch() };
    let token_of = |log| rig_of(log, 9).fetch(&two, &[]).token;
    // The store of a node that was wiped, or of another exchange, with the same number and epoch.
    for (reader, store, want) in [
        (7, 7, Reason::None),
        (7, 8, Reason::ResyncEpoch),
        (0, 8, Reason::None),
        (7, 0, Reason::None),
    ] {
        let mut rig = rig_of(store, 9);
        let answer = rig.fetch(&two, &token_of(reader));
        assert_eq!(answer.header.reason, want, "a token of {reader} at {store}");
        if want == Reason::None {
            assert_eq!(answer.rows[0].rec, Rec(3));
            // A store that does not know its log keeps the reader's.
            let kept = if store == 0 { reader } else { store };
            let mut other = rig_of(9, 9);
            let refused = other.fetch(&two, &answer.token).header.reason;
            assert_eq!(refused, Reason::ResyncEpoch, "{kept}");
        } else {
            let again = rig.fetch(&two, &answer.token);
            assert_eq!((again.header.reason, again.rows[0].rec), (Reason::None, Rec(1)));
        }
        let min_wait_us = 1_000;
        let waits = FetchOrders { min_wait_us, ..two };
        let min = token_of(reader);
        let (now, mut rig) = (Nanos(MS), rig_of(store, 9));
        let question = Question {
            connection: 1,
            fetch: &waits,
            token: &[],
            min_token: &min,
            entitlement: Entitlement::all(),
        };
        assert_eq!(rig.desk.ask(&question, now), FetchOutcome::Accepted);
        rig.poll();
        let want = match want {
            Reason::None => Reason::None,
            _ => Reason::MinTokenNotReached,
        };
        assert_eq!(rig.answer(1).header.reason, want, "at least a token of {reader} at {store}");
    }
}

#[test]
fn a_reader_that_waits_is_refused_when_its_store_is_replaced_by_one_of_another_log() {
    let mut rig = Rig::with_orders(2);
    rig.desk.store_mut().set_log(SourceLog(7));
    let token = rig.fetch(&FetchOrders { rows_min: 0, ..fetch() }, &[]).token;
    assert_eq!(rig.ask(3, &fetch(), &token), FetchOutcome::Accepted);
    rig.poll();
    let mut other = Rig::with_orders(9);
    other.desk.store_mut().set_log(SourceLog(8));
    let empty = OrderStore::new(StoreConfig::new(SOURCE, Epoch(2)));
    let other = other.desk.replace_store(empty);
    drop(rig.desk.replace_store(other));
    rig.poll();
    assert_eq!(rig.answer(3).header.reason, Reason::ResyncEpoch);
}

#[test]
fn a_firm_that_names_another_is_told_that_it_may_not() {
    let mut rig = Rig::with_orders(4);
    let fetch = FetchOrders { firm_id: FirmId(2), ..fetch() };
    let entitlement = Entitlement::firm(FirmId(1));
    let question =
        Question { connection: 1, fetch: &fetch, token: &[], min_token: &[], entitlement };
    assert_eq!(rig.desk.ask(&question, rig.now), FetchOutcome::Accepted);
    rig.poll();
    let answer = rig.answer(1);
    assert_eq!((answer.header.reason, answer.token.len()), (Reason::NotEntitled, 0));
}

#[test]
fn a_session_that_has_ended_is_served_no_more_and_its_neighbours_are() {
    let mut rig = Rig::with_orders(2);
    let token = rig.fetch(&fetch(), &[]).token;
    let neighbour = FetchOrders { session_id: SessionId(5), ..fetch() };
    for (connection, question) in [(1, fetch()), (1, neighbour), (2, fetch())] {
        assert_eq!(rig.ask(connection, &question, &token), FetchOutcome::Accepted);
    }
    rig.poll();
    rig.desk.end_session(1, SessionId(4));
    assert_eq!(rig.desk.reader_count(), 2);
    rig.say(1, OrdStatus::Filled);
    assert_eq!(rig.poll(), 2);
    assert_eq!(rig.answer(1).header.session_id, SessionId(5));
    assert_eq!(rig.answer(2).header.session_id, SessionId(4), "logged on elsewhere");
}

#[test]
fn credit_and_cancels_reach_the_fetches_of_their_own_session_alone() {
    let mut rig = Rig::with_orders(9);
    let question = FetchOrders { rows_max: 1, credit: 9, credit_rows: 1, ..fetch() };
    let other = SessionId(5);
    for session_id in [SessionId(4), other] {
        let question = FetchOrders { session_id, ..question };
        assert_eq!(rig.ask(1, &question, &[]), FetchOutcome::Accepted);
    }
    rig.poll();
    assert_eq!(rig.answers(1).len(), 2);
    rig.desk.add_credit(1, &AddCredit { session_id: other, ..more(0, 1, 0) }, rig.now);
    rig.poll();
    assert_eq!(rig.answer(1).header.session_id, other);
    rig.desk.cancel(1, &CancelFetch { correlation_id: 77, session_id: SessionId(6) });
    assert_eq!(rig.desk.reader_count(), 2);
    rig.cancel(1, 77);
    assert_eq!(rig.desk.reader_count(), 1);
    rig.desk.add_credit(1, &AddCredit { session_id: other, ..more(0, 1, 0) }, rig.now);
    rig.poll();
    assert_eq!(rig.answer(1).header.session_id, other);
}

#[test]
fn a_token_from_a_replica_that_is_ahead_waits_for_this_one() {
    let mut rig = Rig::with_orders(2);
    let mut ahead = Rig::with_orders(5);
    let token = ahead.fetch(&fetch(), &[]).token;
    assert_eq!(rig.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    (3..=5).for_each(|rec| rig.say(rec, OrdStatus::New));
    assert_eq!(rig.poll(), 0);
    rig.say(2, OrdStatus::Filled);
    assert_eq!(rig.poll(), 1);
    assert_eq!(rig.answer(1).rows[0].rec, Rec(2));
}

/// A rebuilt store takes in its source's changes one by one. A reader waits ahead of it, at a place
/// that the source lost afterwards: when the store learns that the epoch ended before that place,
/// the reader must not go on from there, because other changes now stand before its place.
#[test]
fn a_reader_that_waits_ahead_of_the_store_is_sent_back_when_its_epoch_ends_before_its_place() {
    let mut rig = Rig::with_orders(2);
    let mut ahead = Rig::with_orders(5);
    let token = ahead.fetch(&fetch(), &[]).token;
    assert_eq!(rig.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    assert_eq!(rig.poll(), 0);
    let head = rig.desk.store().head();
    rig.desk.store_mut().begin_epoch(Epoch(3), head).unwrap();
    (3..=6).for_each(|rec| rig.say(rec, OrdStatus::New));
    assert_eq!(rig.poll(), 1);
    assert_eq!(rig.answer(1).header.reason, Reason::ResyncEpoch);
}

/// A page leaves out an order's states before its latest change. If that change is lost with the
/// end of the epoch, the earlier state is valid again, and may lie before the place that the reader
/// has reached: the reader would never get it.
#[test]
fn a_place_is_refused_when_the_pages_before_it_knew_of_changes_that_were_lost() {
    let mut rig = Rig::with_orders(4);
    rig.say(1, OrdStatus::PartiallyFilled);
    let first = rig.fetch(&FetchOrders { rows_max: 2, ..fetch() }, &[]);
    assert_eq!(first.rows.iter().map(|row| row.rec.0).collect::<Vec<_>>(), [2, 3]);
    // The source fails and comes back without the change of record 1, which pages had relied on.
    let mut back = Rig::with_orders(4);
    let head = back.desk.store().head();
    back.desk.store_mut().begin_epoch(Epoch(3), head).unwrap();
    assert_eq!(back.fetch(&fetch(), &first.token).header.reason, Reason::ResyncEpoch);
    // A token of a reader that was served everything stays valid.
    let mut before = Rig::with_orders(4);
    let all = before.fetch(&fetch(), &[]);
    let at_once = FetchOrders { rows_min: 0, ..fetch() };
    assert_eq!(back.fetch(&at_once, &all.token).header.reason, Reason::None);
}

fn ask_at_least(rig: &mut Rig, min_wait_us: u32, tokens: [&[u8]; 2]) {
    let [token, min_token] = tokens;
    let (fetch, entitlement) = (FetchOrders { min_wait_us, ..fetch() }, Entitlement::all());
    let question = Question { connection: 1, fetch: &fetch, token, min_token, entitlement };
    assert_eq!(rig.desk.ask(&question, rig.now), FetchOutcome::Accepted);
}

#[test]
fn a_read_waits_until_the_store_has_reached_what_the_question_says() {
    let mut ahead = Rig::with_orders(5);
    let min = ahead.fetch(&fetch(), &[]).token;
    // From the beginning, at a store that lags.
    let mut rig = Rig::with_orders(2);
    ask_at_least(&mut rig, 5_000, [&[], &min]);
    assert_eq!(rig.poll(), 0, "two orders are there, and not enough");
    (3..=4).for_each(|rec| rig.say(rec, OrdStatus::New));
    assert_eq!(rig.poll(), 0);
    rig.say(5, OrdStatus::New);
    assert_eq!(rig.poll(), 1);
    assert_eq!(rig.answer(1).rows.len(), 5);
    // A store that is there already does not wait.
    ask_at_least(&mut rig, 1, [&[], &min]);
    assert_eq!(rig.poll(), 1);
}

#[test]
fn a_read_is_refused_when_the_store_does_not_reach_what_it_says_in_time() {
    let mut ahead = Rig::with_orders(5);
    let min = ahead.fetch(&fetch(), &[]).token;
    let mut rig = Rig::with_orders(2);
    let token = rig.fetch(&fetch(), &[]).token;
    ask_at_least(&mut rig, 5_000, [&token, &min]);
    rig.poll();
    rig.now = Nanos(rig.now.0 + 5 * MS - 1);
    assert_eq!(rig.poll(), 0);
    rig.now = Nanos(rig.now.0 + 1);
    assert_eq!(rig.poll(), 1);
    let answer = rig.answer(1);
    assert_eq!(answer.header.reason, Reason::MinTokenNotReached);
    assert_eq!(answer.token, [], "the reader's own token is as good as before");
    assert_eq!(rig.desk.reader_count(), 0);
    // Without a time of its own it waits for the desk's default.
    ask_at_least(&mut rig, 0, [&token, &min]);
    rig.poll();
    let deadline = DeskConfig::default().min_wait_default.0;
    assert_eq!(rig.desk.next_deadline(), Some(Nanos(rig.now.0 + deadline)));
}

#[test]
fn what_was_lost_with_an_epochs_end_is_never_reached_and_what_was_kept_is() {
    let mut rig = Rig::with_orders(4);
    let kept = rig.fetch(&FetchOrders { rows_max: 2, ..fetch() }, &[]).token;
    let lost = rig.fetch(&fetch(), &[]).token;
    let mut other = Rig::with_orders(2);
    let valid_to = other.desk.store().head();
    other.desk.store_mut().begin_epoch(Epoch(3), valid_to).unwrap();
    ask_at_least(&mut other, 9_000_000, [&[], &lost]);
    assert_eq!(other.poll(), 1, "it is told at once");
    assert_eq!(other.answer(1).header.reason, Reason::MinTokenNotReached);
    ask_at_least(&mut other, 9_000_000, [&[], &kept]);
    assert_eq!(other.poll(), 1);
    assert_eq!(other.answer(1).header.reason, Reason::None);
}

#[test]
fn a_minimum_that_is_no_token_of_the_reader_is_refused_as_such() {
    let mut rig = Rig::with_orders(4);
    let filtered = FetchOrders { firm_id: FirmId(1), ..fetch() };
    let others = rig.fetch(&filtered, &[]).token;
    let mut forged = rig.fetch(&fetch(), &[]).token;
    forged[40] ^= 1;
    for min in [&others[..], &forged, &[1, 2, 3]] {
        ask_at_least(&mut rig, 1_000, [&[], min]);
        assert_eq!(rig.poll(), 1);
        let answer = rig.answer(1);
        assert_eq!(answer.header.reason, Reason::MinTokenInvalid);
        assert_eq!((answer.token.len(), answer.rows.len()), (0, 0));
    }
}

#[test]
fn a_question_that_is_taken_back_is_not_answered_and_makes_room() {
    let limits = DeskConfig { readers_of_all_max: 2, ..Default::default() };
    let mut rig = Rig::new(limits, 10);
    let numbered = |correlation_id| FetchOrders { correlation_id, ..fetch() };
    assert_eq!(rig.ask(1, &numbered(5), &[]), FetchOutcome::Accepted);
    assert_eq!(rig.ask(1, &numbered(6), &[]), FetchOutcome::Accepted);
    rig.cancel(2, 5);
    rig.cancel(1, 4);
    assert_eq!(rig.desk.reader_count(), 2, "another's, and one that is not there");
    rig.cancel(1, 5);
    assert_eq!(rig.ask(1, &numbered(7), &[]), FetchOutcome::Accepted);
    rig.say(1, OrdStatus::New);
    rig.poll();
    let answered: Vec<u64> =
        rig.answers(1).iter().map(|answer| answer.header.correlation_id).collect();
    assert_eq!(answered.len(), 2);
    assert!(!answered.contains(&5), "{answered:?}");
}

#[cfg(feature = "planted")]
#[test]
fn a_planted_desk_that_takes_tokens_of_another_log_is_found() {
    use weir_delivery::plant::{self, Plant};
    plant::set(Some(Plant::TokenOfOtherLogTaken));
    let found =
        std::panic::catch_unwind(a_token_of_another_log_is_refused_and_one_of_no_log_is_not);
    plant::set(None);
    assert!(found.is_err());
}

#[cfg(feature = "planted")]
#[test]
fn a_planted_desk_that_takes_continuations_of_other_sessions_is_found() {
    use weir_delivery::plant::{self, Plant};
    plant::set(Some(Plant::ForeignContinuationTaken));
    let found =
        std::panic::catch_unwind(credit_and_cancels_reach_the_fetches_of_their_own_session_alone);
    plant::set(None);
    assert!(found.is_err());
}
