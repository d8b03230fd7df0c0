//! Random scripts in which all kinds of orders meet in all phases: after each command, the reader's
//! book equals the engine's.

use proptest::prelude::*;
use weir_engine::script::{Script, readable_command};
use weir_engine::{Engine, EngineConfig, OrderQueue};
use weir_feed::session_name::Calendar;
use weir_market::publish::{PhaseNow, StandingPlace};
use weir_marketgate::publish::StandingMarket;
use weir_types::{ClOrdId, Epoch, InstrumentId, PartitionId, Symbol};

use super::reader::{HERE, Reader, Rig};

/// The instrument of the scripts that ITCH can represent.
const FIT: InstrumentId = InstrumentId(100);

/// Shortens the scripts' symbols for ITCH: sixteen digits do not fit.
pub fn with_short_symbol(events: &mut [weir_wire::Event]) {
    for event in events {
        if let weir_wire::Event::Defined(_, weir_wire::Definition::DefineInstrument(d)) = event {
            d.symbol = short(d.symbol);
        }
    }
}

/// Returns the instrument's symbol after a definition: a change may have renamed it.
fn new_symbol(event: &weir_wire::Event) -> Option<String> {
    match event {
        weir_wire::Event::Defined(_, weir_wire::Definition::DefineInstrument(d))
            if d.instrument_id == FIT && d.partition_id == HERE =>
        {
            Some(d.symbol.to_string())
        }
        _ => None,
    }
}

/// Begins a publication anew with the engine's book, in an epoch of its own, as a start does whose
/// first events and checkpoints are gone.
fn begin_with_book(rig: &mut Rig, engine: &Engine) {
    let epoch = rig.publication.epoch();
    let place = |queue, shown| match queue {
        OrderQueue::Book => StandingPlace::Book { shown },
        OrderQueue::Market => StandingPlace::Market,
        OrderQueue::Stop => StandingPlace::Stop,
        OrderQueue::Parked => StandingPlace::Parked,
    };
    let orders = engine.queued_orders();
    assert_eq!(orders.len(), engine.live_order_count() as usize);
    let market = StandingMarket {
        time: engine.time(),
        epoch,
        instruments: (engine.instruments())
            .filter(|state| state.definition.partition_id == HERE)
            .map(|state| {
                let mut definition = state.definition;
                definition.symbol = short(definition.symbol);
                (definition, PhaseNow { phase: state.phase, cause: state.cause() })
            }),
        orders: orders.into_iter().map(|order| {
            let place = place(order.queue, order.shown_qty);
            (order.state, place)
        }),
    };
    // A publication that has all events begins the next session with the same messages: a start may
    // go on in an epoch that an earlier one began, and that had no event since.
    let mut with_past = (rig.publication.clone(), Reader::new());
    with_past.0.enter_epoch(Epoch(epoch.0 + 1), &mut with_past.1);
    rig.publication = market.publication(Calendar::new(PartitionId(1), 0));
    rig.publication.enter_epoch(Epoch(epoch.0 + 1), &mut rig.reader);
    // But for the times: a start takes that of the newest event with public content, and here the
    // engine has been told the time by other commands since.
    let without_times = |reader: &Reader| -> Vec<_> {
        let messages = reader.messages.iter();
        messages.map(|message| [&message[..5], &message[11..]].concat()).collect()
    };
    if with_past.0.session().is_some() {
        assert_eq!(without_times(&rig.reader), without_times(&with_past.1));
    }
    rig.join_late();
}

fn short(symbol: Symbol) -> Symbol {
    Symbol::new(symbol.to_string().trim_start_matches('0')).expect("shorter than it was")
}

fn play(bytes: &[u8], begin_anew_every: u32) -> Rig {
    let mut script = Script::new(bytes);
    let mut engine = Engine::new(EngineConfig::new(HERE));
    let (mut rig, mut events, mut commands) = (Rig::new(), Vec::new(), 0_u32);
    let mut symbol = format!("{:x}", FIT.0);
    assert_eq!(ClOrdId::from_number(100).to_string().trim_start_matches('0'), symbol);
    while !script.is_over() {
        let command = script.command();
        events.clear();
        engine.apply(engine.position().next(), script.now(), &command, &mut events);
        script.hear(&events);
        with_short_symbol(&mut events);
        symbol = events.iter().rev().find_map(new_symbol).unwrap_or(symbol);
        rig.publish(&events);
        let differs = rig.differs(&engine, FIT, &symbol, -2, usize::MAX);
        assert_eq!(differs, None, "after {}: {events:#?}", readable_command(&command));
        let late = rig.late_differs(&symbol);
        assert_eq!(late, None, "after {}: {events:#?}", readable_command(&command));
        commands += 1;
        if commands % begin_anew_every == 0 {
            begin_with_book(&mut rig, &engine);
            let differs = rig.differs(&engine, FIT, &symbol, -2, usize::MAX);
            assert_eq!(differs, None, "anew after {}", readable_command(&command));
        }
        if commands % 37 == 0 {
            rig.join_late();
            assert_eq!(rig.late_differs(&symbol), None, "as it joins");
        }
    }
    assert_eq!(rig.publication.counts().strangers, 0);
    rig
}

/// Returns pseudo-random bytes, the same on every machine.
pub fn random_bytes(count: usize, mut state: u64) -> Vec<u8> {
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| draw()).collect()
}

#[test]
fn the_book_of_a_long_script_is_the_engines_after_each_command() {
    let rig = play(&random_bytes(400_000, 7), u32::MAX);
    let kinds = &rig.reader.kinds;
    for kind in ['S', 'R', 'H', 'A', 'E', 'C', 'X', 'D', 'U', 'Q', 'I', 'B'] {
        assert!(kinds.get(&kind).is_some_and(|count| *count > 0), "no {kind}: {kinds:?}");
    }
    assert_eq!(rig.reader.out_of_turn, 0, "every execution hits who stands first");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_book_of_any_script_is_the_engines_after_each_command(
        data in proptest::collection::vec(any::<u8>(), 0..4_000),
    ) {
        play(&data, u32::MAX);
    }

    #[test]
    fn a_publication_that_begins_with_the_engines_book_has_it_and_goes_on(
        data in proptest::collection::vec(any::<u8>(), 0..4_000),
        every in 1_u32..200,
    ) {
        let rig = play(&data, every);
        prop_assert_eq!(rig.reader.out_of_turn, 0, "every execution hits who stands first");
    }
}
