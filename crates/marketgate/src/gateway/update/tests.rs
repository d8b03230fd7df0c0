//! Tests that a batch of updates has the same output as the updates one by one.

use proptest::prelude::*;
use rtrb::RingBuffer;
use weir_feed::TradingState;
use weir_io::monotonic_now;
use weir_types::PhaseCause;

use super::*;

/// Instruments 1, 2 and 3 have room; 4 has none.
const INSTRUMENTS_MAX: u32 = 4;

/// Stores the slots written.
#[derive(Default)]
struct Heard(Vec<FlushSlot>);

impl Slots<FlushSlot> for Heard {
    fn write(&mut self, write: impl FnOnce(&mut FlushSlot)) -> bool {
        let mut told = FlushSlot::default();
        write(&mut told);
        self.0.push(told);
        true
    }
}

/// Creates a stage with interest in everything of its instruments.
fn stage(batch_max: usize) -> UpdateStage<Heard> {
    let (mut wishes, taken) = RingBuffer::new(64);
    for instrument_id in (1..INSTRUMENTS_MAX).map(InstrumentId) {
        for kind in Kind::ALL {
            wishes.push(Interest { instrument_id, kind, is_wanted: true }).expect("there is room");
        }
    }
    UpdateStage::new(UpdateParts {
        books: BooksConfig { instruments_max: INSTRUMENTS_MAX, ..BooksConfig::default() },
        batch_max,
        conflator: ConflatorConfig {
            instrument_id_max: InstrumentId(INSTRUMENTS_MAX - 1),
            ..ConflatorConfig::default()
        },
        door: Heard::default(),
        wakes: Vec::new(),
        wishes: vec![taken],
        when_full: WhenFull::Merge,
        post: None,
        probe: UpdateProbe::default(),
    })
}

/// An input of a stage.
#[derive(Clone, Debug)]
enum Op {
    Update { id: u32, action: Action, is_snapshot: bool },
    Define(u32),
    Channel(ChannelEvent),
    Turn,
}

fn action() -> impl Strategy<Value = Action> {
    let order = 1..20_u64;
    let side = prop_oneof![Just(Side::Buy), Just(Side::Sell)];
    let price = (1..9_i64).prop_map(|price| Price(price * 10_000_000));
    let size = (1..50_u64).prop_map(Qty);
    prop_oneof![
        6 => (order.clone(), side, price.clone(), size.clone()).prop_map(
            |(order_id, side, price, size)| Action::Add { order_id, side, price, size }
        ),
        2 => order.clone().prop_map(|order_id| Action::Delete { order_id }),
        2 => (order.clone(), size.clone(), 0..99_u64).prop_map(|(order_id, size, match_id)| {
            Action::Execute { order_id, size, price: None, match_id, is_printable: true }
        }),
        1 => (order.clone(), order, price.clone(), size.clone()).prop_map(
            |(order_id, new_order_id, price, size)| {
                Action::Replace { order_id, new_order_id, price, size }
            }
        ),
        1 => (0..99_u64, price, size).prop_map(|(match_id, price, size)| {
            Action::TradeBreak { match_id, price, size }
        }),
        1 => Just(Action::Status {
            state: TradingState::Halted,
            reason: *b"HALO",
            cause: PhaseCause::Operator,
        }),
        1 => Just(Action::Clear),
    ]
}

fn step() -> impl Strategy<Value = Op> {
    let event = prop_oneof![
        Just(ChannelEvent::Clear { reason: ClearReason::Session { session: 3 } }),
        Just(ChannelEvent::Clear { reason: ClearReason::SnapshotBegins }),
        Just(ChannelEvent::Joined { next: 7 }),
        Just(ChannelEvent::State { from: State::Live, to: State::Stale }),
        Just(ChannelEvent::Damaged),
    ];
    prop_oneof![
        12 => (0..=INSTRUMENTS_MAX, action(), prop::bool::weighted(0.1)).prop_map(
            |(id, action, is_snapshot)| Op::Update { id, action, is_snapshot }
        ),
        1 => (1..=INSTRUMENTS_MAX).prop_map(Op::Define),
        1 => event.prop_map(Op::Channel),
        2 => Just(Op::Turn),
    ]
}

fn origin(channel: ChannelKey, at: u64, is_snapshot: bool) -> Origin {
    Origin { channel, ts_recv: Nanos(at), ts_poll: Nanos(at + 1), is_snapshot }
}

fn take(stage: &mut UpdateStage<Heard>, at: u64, step: &Op) {
    let channel = ChannelKey { pair: (at % 2) as u32, number: 0 };
    match step {
        Op::Update { id, action, is_snapshot } => {
            let (instrument_id, sequence, ts_event) = (InstrumentId(*id), at, Nanos(at));
            let update = Update { instrument_id, sequence, ts_event, action: *action };
            stage.update(&origin(channel, at, *is_snapshot), update);
        }
        Op::Define(id) => {
            let definition = Definition {
                instrument_id: InstrumentId(*id),
                symbol: weir_feed::SymbolText::new(b"WEIR").expect("a symbol"),
                round_lot: Qty(100),
                previous_close: None,
            };
            stage.define(&origin(channel, at, false), &definition);
        }
        Op::Channel(event) => stage.channel(channel, event),
        Op::Turn => {
            stage.turn(Nanos(at * 1_000));
        }
    }
}

proptest! {
    #[test]
    fn a_batch_is_told_as_its_updates_would_be_one_by_one(
        steps in prop::collection::vec(step(), 1..200),
        batch_max in prop_oneof![2..9_usize, Just(BATCH_MAX)],
    ) {
        let [mut one_by_one, mut batches] = [1, batch_max].map(stage);
        for (at, step) in (10..).zip(&steps).chain([(1_000_000, &Op::Turn)]) {
            take(&mut one_by_one, at, step);
            take(&mut batches, at, step);
            let told = |stage: &mut UpdateStage<Heard>| format!("{:#?}", stage.door.0);
            prop_assert_eq!(told(&mut one_by_one), told(&mut batches));
            one_by_one.door.0.clear();
            batches.door.0.clear();
        }
        prop_assert_eq!(one_by_one.counts(), batches.counts());
        prop_assert_eq!(one_by_one.conflated(), batches.conflated());
    }
}

#[test]
fn the_update_of_a_batch_that_is_timed_carries_its_times() {
    let mut stage = stage(BATCH_MAX);
    stage.turn(Nanos(1));
    stage.door.0.clear();
    let begun = TimedMessage { in_kernel: Some(Nanos(1)), received: monotonic_now() };
    for id in 1..INSTRUMENTS_MAX {
        if id == 2 {
            stage.begin_trace(begun);
        }
        let size = Qty(u64::from(id));
        let side = Side::Buy;
        let action = Action::Add { order_id: u64::from(id), side, price: Price(10_000_000), size };
        take(&mut stage, u64::from(id), &Op::Update { id, action, is_snapshot: false });
    }
    assert_eq!(stage.books().order_count(), 0, "it waits for the turn");
    stage.turn(Nanos(1_000));
    assert_eq!(stage.books().order_count(), 3);
    let timed = stage.door.0.iter().filter(|told| told.trace.is_some());
    let timed: Vec<_> = timed
        .map(|told| match &told.what {
            FlushContent::Entry(entry) => entry.instrument_id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(timed, [InstrumentId(2)]);
}

/// A ring to flush with room for a number of slots.
#[derive(Default)]
struct Narrow {
    heard: Vec<FlushSlot>,
    room: usize,
}

impl Slots<FlushSlot> for Narrow {
    fn write(&mut self, write: impl FnOnce(&mut FlushSlot)) -> bool {
        let Some(room) = self.room.checked_sub(1) else { return false };
        let mut told = FlushSlot::default();
        write(&mut told);
        self.heard.push(told);
        self.room = room;
        true
    }
}

#[test]
fn a_change_of_the_market_waits_for_a_bounded_number_of_snapshots() {
    const SUBSCRIBED: u32 = 1_000;
    let (mut wishes, taken) = RingBuffer::new(SUBSCRIBED as usize);
    for instrument_id in (1..=SUBSCRIBED).map(InstrumentId) {
        let wish = Interest { instrument_id, kind: Kind::Bbo, is_wanted: true };
        wishes.push(wish).expect("there is room");
    }
    let mut stage = UpdateStage::new(UpdateParts {
        books: BooksConfig { instruments_max: SUBSCRIBED + 1, ..BooksConfig::default() },
        batch_max: BATCH_MAX,
        conflator: ConflatorConfig {
            instrument_id_max: InstrumentId(SUBSCRIBED),
            ..ConflatorConfig::default()
        },
        door: Narrow::default(),
        wakes: Vec::new(),
        wishes: vec![taken],
        when_full: WhenFull::Merge,
        post: None,
        probe: UpdateProbe::default(),
    });
    // Flush takes eight slots between two turns, fewer than there are wishes.
    let turn = |stage: &mut UpdateStage<Narrow>, at: u64| {
        stage.door.room = 8;
        stage.turn(Nanos(at));
    };
    turn(&mut stage, 1_000_000);
    let (order_id, side, price, size) = (1, Side::Buy, Price(10_000_000), Qty(7));
    let action = Action::Add { order_id, side, price, size };
    let (instrument_id, sequence, ts_event) = (InstrumentId(1), 5, Nanos(2_000_000));
    let update = Update { instrument_id, sequence, ts_event, action };
    stage.update(&origin(ChannelKey::default(), 2_000_000, false), update);
    let mut at = 2_000_000;
    let is_entry = |told: &&FlushSlot| matches!(told.what, FlushContent::Entry(_));
    let entries = |stage: &UpdateStage<Narrow>| stage.door.heard.iter().filter(is_entry).count();
    while entries(&stage) < SUBSCRIBED as usize + 1 {
        at += 1_000;
        let before = stage.door.heard.len();
        turn(&mut stage, at);
        assert!(stage.door.heard.len() > before, "{before} and no more");
        let is_held = stage.reporter.conflator.queue_len() > 0 || !stage.notices.is_empty();
        assert_eq!(is_held, stage.next_due().is_some_and(|due| due.0 <= at + RETRY_INTERVAL));
    }
    let is_change = |told: &FlushSlot| match &told.what {
        FlushContent::Entry(entry) => !entry.is_snapshot && entry.merged.change_count == 1,
        _ => false,
    };
    let mut told = stage.door.heard.iter().filter(is_entry);
    let place = told.position(is_change).expect("the change was told");
    assert!(place <= WISHES_PER_TURN, "behind {place} snapshots");
    // Each snapshot is behind the answer to its wish, whose number it has here.
    let mut answered = 0;
    for told in &stage.door.heard {
        match &told.what {
            FlushContent::Wished(0, count) => answered = *count,
            FlushContent::Entry(entry) if entry.is_snapshot => {
                assert!(u64::from(entry.instrument_id.0) <= answered, "{entry:?}");
            }
            _ => {}
        }
    }
    assert_eq!(answered, u64::from(SUBSCRIBED));
}

#[test]
fn a_notice_without_room_is_told_again_without_a_packet() {
    let (mut wishes, taken) = RingBuffer::new(1);
    let (instrument_id, kind) = (InstrumentId(1), Kind::Trades);
    wishes.push(Interest { instrument_id, kind, is_wanted: true }).expect("there is room");
    let mut stage = UpdateStage::new(UpdateParts {
        books: BooksConfig { instruments_max: 2, ..BooksConfig::default() },
        batch_max: BATCH_MAX,
        conflator: ConflatorConfig::default(),
        door: Narrow::default(),
        wakes: Vec::new(),
        wishes: vec![taken],
        when_full: WhenFull::Merge,
        post: None,
        probe: UpdateProbe::default(),
    });
    stage.turn(Nanos(7));
    assert_eq!(stage.next_due(), Some(Nanos(7 + RETRY_INTERVAL)), "the answer had no room");
    stage.door.room = 1;
    stage.turn(Nanos(7 + RETRY_INTERVAL));
    assert!(matches!(stage.door.heard[..], [FlushSlot { what: FlushContent::Wished(0, 1), .. }]));
    assert_eq!(stage.next_due(), None);
}
