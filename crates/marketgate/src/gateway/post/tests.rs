//! Tests of the events that the updating thread sends to bars and statistics.

use weir_feed::{Action, TradingState};
use weir_market::BooksConfig;
use weir_market::conflate::ConflatorConfig;
use weir_market::interval::{OrderAct, Quote};
use weir_types::{PhaseCause, Price, Qty, Side};

use super::super::flush_slot::FlushSlot;
use super::super::ring::Slots;
use super::super::stages::UpdateProbe;
use super::super::update::{BATCH_MAX, UpdateParts, UpdateStage, WhenFull};
use super::*;
use crate::post::audit::SendOutcome;
use crate::post::{
    AuditSection, BarsSection, EventSelection, PostReceiver, PostSection, StatisticsSection,
    post_events,
};

/// Discards the slots for flush.
struct Deaf;

impl Slots<FlushSlot> for Deaf {
    fn write(&mut self, write: impl FnOnce(&mut FlushSlot)) -> bool {
        write(&mut FlushSlot::default());
        true
    }
}

const CHANNEL: ChannelKey = ChannelKey { pair: 0, number: 0 };
const ALL: EventSelection = EventSelection { bars: true, statistics: true };

struct Rig {
    stage: UpdateStage<Deaf>,
    receiver: PostReceiver,
    sequence: u64,
}

impl Rig {
    fn new(wants: EventSelection) -> Rig {
        let (sender, receiver) = post_events(100, wants);
        let stage = UpdateStage::new(UpdateParts {
            books: BooksConfig { instruments_max: 8, ..BooksConfig::default() },
            batch_max: BATCH_MAX,
            conflator: ConflatorConfig {
                instrument_id_max: InstrumentId(7),
                ..ConflatorConfig::default()
            },
            door: Deaf,
            wakes: Vec::new(),
            wishes: Vec::new(),
            when_full: WhenFull::Merge,
            post: Some(sender),
            probe: UpdateProbe::default(),
        });
        Rig { stage, receiver, sequence: 0 }
    }

    /// Returns the events that an update sends.
    fn update(&mut self, is_snapshot: bool, action: Action) -> Vec<PostEvent> {
        self.sequence += 1;
        let ts = Nanos(self.sequence);
        let origin = Origin { channel: CHANNEL, ts_recv: ts, ts_poll: ts, is_snapshot };
        let (instrument_id, sequence) = (InstrumentId(1), self.sequence);
        self.stage.update(&origin, Update { instrument_id, sequence, ts_event: ts, action });
        self.stage.turn(ts);
        self.told()
    }

    fn channel(&mut self, event: &ChannelEvent) -> Vec<PostEvent> {
        self.stage.channel(CHANNEL, event);
        self.told()
    }

    fn told(&mut self) -> Vec<PostEvent> {
        let mut told = Vec::new();
        self.receiver.take(100, &mut |event| told.push(*event));
        told
    }
}

fn add(order_id: u64, price: i64) -> Action {
    Action::Add { order_id, side: Side::Buy, price: Price(price), size: Qty(5) }
}

fn bid(price: i64) -> Quote {
    Quote { bid_px: Price(price), bid_sz: Qty(5), ..Quote::default() }
}

#[test]
fn an_order_is_told_and_a_quote_where_it_is_another() {
    let mut rig = Rig::new(ALL);
    let told = rig.update(false, add(1, 10));
    let [PostEvent::Act(activity), PostEvent::Quote(quoted)] = told[..] else { panic!("{told:?}") };
    assert_eq!((activity.order, activity.added), (Some(OrderAct::Add), Qty(5)));
    assert_eq!((quoted.quote, quoted.state, quoted.is_whole), (bid(10), None, false));
    assert_eq!(rig.update(false, add(2, 9)).len(), 1, "the best bid is as it was");
    let state = TradingState::Halted;
    let told =
        rig.update(false, Action::Status { state, reason: *b"T1  ", cause: PhaseCause::Unknown });
    assert!(matches!(told[..], [PostEvent::Call(called)] if called.state == state), "{told:?}");
    let told = rig.update(false, add(3, 11));
    assert!(
        matches!(told[..], [_, PostEvent::Quote(quoted)] if quoted.state == Some(state)),
        "{told:?}"
    );
    let told = rig.update(false, Action::Clear);
    assert!(
        matches!(told[..], [PostEvent::Quote(it)] if it.is_whole && it.quote == Quote::default()),
        "{told:?}"
    );
}

#[test]
fn who_wants_bars_alone_is_told_of_trades_alone() {
    let mut rig = Rig::new(EventSelection { bars: true, statistics: false });
    assert_eq!(rig.update(false, add(1, 10)), []);
    assert_eq!(rig.update(false, Action::Clear), []);
    let reason = ClearReason::SnapshotBegins;
    assert_eq!(rig.channel(&ChannelEvent::Clear { reason }), []);
    assert_eq!(rig.channel(&ChannelEvent::Joined { next: 9 }), []);
    rig.update(false, add(2, 10));
    let execute =
        Action::Execute { order_id: 2, size: Qty(2), price: None, match_id: 7, is_printable: true };
    let told = rig.update(false, execute);
    assert!(matches!(told[..], [PostEvent::Trade(_)]), "{told:?}");
    let undone = Action::TradeBreak { match_id: 7, size: Qty(2), price: Price(10) };
    let told = rig.update(false, undone);
    assert!(matches!(told[..], [PostEvent::Break(_)]), "{told:?}");
}

#[test]
fn who_wants_statistics_alone_is_told_of_no_bars() {
    let mut rig = Rig::new(EventSelection { bars: false, statistics: true });
    rig.update(false, add(1, 10));
    let execute =
        Action::Execute { order_id: 1, size: Qty(5), price: None, match_id: 7, is_printable: true };
    let told = rig.update(false, execute);
    let [PostEvent::Act(activity), PostEvent::Quote(_)] = told[..] else { panic!("{told:?}") };
    assert_eq!((activity.is_trade, activity.traded, activity.removed), (true, Qty(5), Qty(5)));
}

#[test]
fn what_a_snapshot_says_is_told_as_a_book_and_not_as_changes() {
    let mut rig = Rig::new(ALL);
    rig.update(false, add(1, 10));
    assert_eq!(rig.channel(&ChannelEvent::Damaged), [PostEvent::Gap(0)]);
    let reason = ClearReason::SnapshotBegins;
    let told = rig.channel(&ChannelEvent::Clear { reason });
    assert_eq!(told, [PostEvent::Void(0, ChannelReset::GivenUp)]);
    assert_eq!(rig.update(true, add(2, 12)), []);
    let state = TradingState::Trading;
    assert_eq!(
        rig.update(true, Action::Status { state, reason: *b"    ", cause: PhaseCause::Unknown }),
        []
    );
    let told = rig.channel(&ChannelEvent::Joined { next: 9 });
    let [PostEvent::Book(stated)] = told[..] else { panic!("{told:?}") };
    assert_eq!((stated.instrument_id.0, stated.channel), (1, 0));
    assert_eq!((stated.quote, stated.state), (bid(12), Some(state)));
    let told = rig.channel(&ChannelEvent::EndOfSession { session: 1 });
    assert_eq!(told, [PostEvent::EndSession(0)]);
    let reason = ClearReason::Session { session: 2 };
    let told = rig.channel(&ChannelEvent::Clear { reason });
    assert_eq!(told, [PostEvent::Void(0, ChannelReset::NewSession)]);
}

#[test]
fn a_feed_that_empties_all_books_says_so_of_the_channel() {
    let mut rig = Rig::new(ALL);
    rig.update(false, add(1, 10));
    let (instrument_id, action) = (InstrumentId(0), Action::Clear);
    let origin =
        Origin { channel: CHANNEL, ts_recv: Nanos(5), ts_poll: Nanos(5), is_snapshot: false };
    let update = Update { instrument_id, sequence: 2, ts_event: Nanos(5), action };
    rig.stage.update(&origin, update);
    rig.stage.turn(Nanos(5));
    assert_eq!(rig.told(), [PostEvent::Void(0, ChannelReset::Emptied)]);
}

#[test]
fn files_are_named_by_the_wall_clock() {
    const SECOND: u64 = 1_000_000_000;
    let now = Nanos(1_700_000_000 * SECOND);
    let wall = Nanos(now.0 + 26 * 3_600 * SECOND);
    let dir = tempfile::tempdir().expect("a directory");
    let [audit, bars, statistics] = ["audit", "bars", "statistics"].map(|it| dir.path().join(it));
    let section = PostSection {
        audit: Some(AuditSection { dir: audit, ..AuditSection::default() }),
        bars: Some(BarsSection { dir: bars, ..BarsSection::default() }),
        statistics: Some(StatisticsSection { dir: statistics, ..StatisticsSection::default() }),
    };
    let lines = ["A".to_owned()];
    let (processor, mut senders) = PostProcessor::new(&section, &lines).expect("it begins");
    let mut agent = PostAgent::new(processor);
    agent.wall_clock_moved(WallOffset::between(now, wall));
    let mut rig = Rig::new(ALL);
    let execute =
        Action::Execute { order_id: 1, size: Qty(5), price: None, match_id: 7, is_printable: true };
    let told = [rig.update(false, add(1, 10)), rig.update(false, execute)].concat();
    told.iter().for_each(|event| hand_over(senders.events.as_mut().expect("a ring"), *event));
    let [src, dst] = ["10.0.0.1:4", "224.0.0.1:5"].map(|text| text.parse().expect("an address"));
    let datagram = Datagram { ts_recv: wall, src, dst, payload: &[7; 9] };
    let audit = senders.audit.as_mut().expect("a queue");
    assert_eq!(audit.send(LineNo(0), now, &datagram), SendOutcome::Taken);
    while agent.do_work(now) > 0 {}
    assert!(agent.stop(now));
    let names = ["audit", "bars", "statistics"].map(|it| {
        let files = std::fs::read_dir(dir.path().join(it)).expect("a directory");
        let names = files.map(|file| file.expect("a file").file_name().into_string());
        names.collect::<Result<Vec<_>, _>>().expect("text").join(" ")
    });
    let moment = "20231116T001320.000000000Z";
    let want = [
        format!("audit-{moment}.pcapng.zst"),
        format!("bars-time-60s-{moment}.parquet"),
        format!("statistics-60s-{moment}.parquet"),
    ];
    assert_eq!(names, want);
}
