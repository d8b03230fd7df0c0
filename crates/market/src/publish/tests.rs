//! Tests of private parts; those of the public interface are in `crates/weir/tests/publish`.

use weir_feed::itch::Message;
use weir_feed::session_name::Calendar;
use weir_types::state_bytes::StateBytes;
use weir_types::{Epoch, Nanos, PartitionId};

use super::*;

#[test]
fn a_store_keeps_the_last_messages_by_number() {
    let mut store = Store::new(3);
    assert_eq!((store.oldest(), store.next_sequence(), store.get(1)), (1, 1, None));
    for letter in b'a'..=b'e' {
        store.push(&[letter, letter]);
    }
    assert_eq!((store.oldest(), store.next_sequence()), (3, 6));
    let kept: Vec<_> = (0..8).map(|number| store.get(number)).collect();
    let text = |text: &'static str| Some(text.as_bytes());
    assert_eq!(kept, [None, None, None, text("cc"), text("dd"), text("ee"), None, None]);
    store.clear();
    assert_eq!((store.oldest(), store.next_sequence(), store.get(3)), (1, 1, None));
}

#[test]
fn a_store_that_goes_on_behind_earlier_messages_has_the_later_ones_by_number() {
    for next in [1, 2, 3, 4, 1_000] {
        let mut store = Store::new(3);
        store.clear_before(next);
        assert_eq!((store.oldest(), store.next_sequence()), (next, next));
        for count in 1..=7 {
            store.push(&message(next + count - 1));
            let kept = count.min(3);
            assert_eq!(store.oldest(), next + count - kept);
            for number in store.oldest()..store.next_sequence() {
                assert_eq!(store.get(number), Some(&message(number)[..]));
            }
            assert_eq!(store.get(store.oldest() - 1), None);
        }
    }
}

fn listing() -> Listing {
    Listing {
        instrument_id: InstrumentId(7),
        symbol: Symbol::new("EIGHT888").expect("a symbol"),
        tick_size: Price(1),
        lot_size: Qty(1),
        order_qty_max: Qty(u64::from(u32::MAX)),
        price_min: Price(0),
        price_max: Price(42_949_672),
        price_exponent: -2,
        phase: Phase::Closed,
    }
}

#[test]
fn what_itch_cannot_say_is_left_out_by_its_reason() {
    let symbol = |text| Symbol::new(text).expect("a symbol");
    let with = |price_exponent, tick_size, price_max| Listing {
        price_exponent,
        tick_size: Price(tick_size),
        price_max: Price(price_max),
        ..listing()
    };
    let cases = [
        (listing(), None),
        (Listing { symbol: symbol("NINE99999"), ..listing() }, Some(UnfitReason::Symbol)),
        (Listing { symbol: Symbol::NONE, ..listing() }, Some(UnfitReason::Symbol)),
        (Listing { price_min: Price(-1), ..listing() }, Some(UnfitReason::NegativePrice)),
        (with(-2, 1, 42_949_673), Some(UnfitReason::LargePrice)),
        (with(-4, 1, i64::from(u32::MAX)), None),
        (with(-4, 1, i64::from(u32::MAX) + 1), Some(UnfitReason::LargePrice)),
        (with(-5, 1, 100), Some(UnfitReason::FineTick)),
        (with(-5, 10, 10 * i64::from(u32::MAX)), None),
        (with(-9, 100_000, i64::MAX), Some(UnfitReason::LargePrice)),
        (with(0, 1, 429_496), None),
        (with(0, 1, 429_497), Some(UnfitReason::LargePrice)),
        (with(i8::MAX, 1, 1), Some(UnfitReason::LargePrice)),
        (with(i8::MIN, 1, 1), Some(UnfitReason::FineTick)),
        (
            Listing { order_qty_max: Qty(u64::from(u32::MAX) + 1), ..listing() },
            Some(UnfitReason::LargeQuantity),
        ),
    ];
    for (listing, want) in cases {
        assert_eq!(fit::fit(&listing).err(), want, "{listing:?}");
    }
    let scale = fit::fit(&listing()).expect("it fits").scale;
    assert_eq!(scale.price(Price(42_949_672)), Some(4_294_967_200));
    assert_eq!(scale.price(Price(-1)), None);
}

/// Keeps the reasons of the trading actions.
#[derive(Debug, Default)]
struct Reasons(Vec<[u8; 4]>);

impl PublishSink for Reasons {
    fn session(&mut self, _session: MoldSession) {}

    fn message(&mut self, message: &[u8]) {
        if let Ok(Message::StockTradingAction(view)) = Message::new(message) {
            self.0.push(view.reason());
        }
    }

    fn end(&mut self) {}
}

#[test]
fn a_phase_is_published_with_its_own_cause_also_in_snapshots_and_behind_a_restart() {
    let calendar = Calendar::new(PartitionId(1), 0);
    let mut publication = Publication::new(calendar, Epoch(1));
    let mut told = Reasons::default();
    publication.define(Nanos(1), &listing(), &mut told);
    let mut want = vec![*b"SHUT"];
    for (phase, cause, reason) in [
        (Phase::Continuous, PhaseCause::Operator, *b"CONO"),
        (Phase::Halted, PhaseCause::Schedule, *b"HALS"),
        (Phase::Halted, PhaseCause::Operator, *b"HALO"),
        (Phase::Halted, PhaseCause::Unknown, *b"HALT"),
        (Phase::VolatilityCall, PhaseCause::Collar, *b"VOLC"),
        (Phase::Continuous, PhaseCause::CallEnd, *b"CONE"),
        (Phase::Closed, PhaseCause::Schedule, *b"SHUS"),
    ] {
        let at = PhaseNow { phase, cause };
        publication.phase(Nanos(2), listing().instrument_id, at, &mut told);
        want.push(reason);
        let mut state = Vec::new();
        publication.put_state(&mut state);
        publication = Publication::from_state(&mut StateBytes::new(&state), calendar)
            .expect("it was just written");
        let mut late = Reasons::default();
        publication.snapshot(&mut late);
        assert_eq!(late.0, [reason]);
    }
    assert_eq!(told.0, want);
}

#[cfg(feature = "planted")]
#[test]
fn a_planted_cause_of_the_change_before_is_found() {
    use crate::plant::{Plant, set};
    set(Some(Plant::CauseOfTheChangeBefore));
    let check = a_phase_is_published_with_its_own_cause_also_in_snapshots_and_behind_a_restart;
    let is_found = std::panic::catch_unwind(check).is_err();
    set(None);
    assert!(is_found, "it is planted");
}

/// Returns a numbered message; the lengths vary.
fn message(number: u64) -> Vec<u8> {
    let len = 2 + usize::try_from(number % 49).expect("a short length");
    let mut message = vec![0; len];
    message[..2].copy_from_slice(&(number as u16).to_be_bytes());
    message
}

mod channels {
    use core::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use weir_feed::PacketKind;
    use weir_feed::moldudp64::{Header, Messages, Request, read_packet};

    const SESSION: MoldSession = MoldSession(*b"SESSION001");
    const ASKER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    /// Two partitions' sessions had one name: a server answered with messages of its own market.
    #[test]
    fn a_request_under_the_name_of_another_partitions_session_is_refused() {
        let mut channels = [1, 2].map(|partition| {
            let calendar = Calendar::new(PartitionId(partition), 0);
            let mut channel = Channel::new(9, 200);
            let mut sink = channel.sink(|_: &[u8]| ());
            Publication::new(calendar, Epoch(1)).define(Nanos(1), &listing(), &mut sink);
            channel
        });
        let sessions = channels.each_ref().map(|one| one.session().expect("it is open"));
        let mut server = RequestServer::new(1_000);
        for (own, channel) in channels.iter_mut().enumerate() {
            for (of, session) in sessions.into_iter().enumerate() {
                let request = Request { session, sequence: 1, count: 1 }.to_bytes();
                let answer = server.answer(channel, ASKER, &request, Nanos(1), |_| ());
                assert_eq!(answer, if of == own { Ok(1) } else { Err(Refusal::Session) });
            }
        }
    }

    fn filled(messages_max: usize, count: u64) -> (Channel, Vec<Vec<u8>>) {
        let (mut channel, mut sent) = (Channel::new(messages_max, 200), Vec::new());
        let mut sink = channel.sink(|packet: &[u8]| sent.push(packet.to_vec()));
        sink.session(SESSION);
        (1..=count).for_each(|number| sink.message(&message(number)));
        assert!(sent.is_empty(), "nothing goes out before it is live");
        channel.go_live();
        (channel, sent)
    }

    fn ask(
        server: &mut RequestServer,
        channel: &mut Channel,
        session: MoldSession,
        sequence: u64,
        count: u16,
        now: u64,
    ) -> Result<Vec<u8>, Refusal> {
        let request = Request { session, sequence, count }.to_bytes();
        let mut answer = Vec::new();
        let send = |packet: &[u8]| answer = packet.to_vec();
        server.answer(channel, ASKER, &request, Nanos(now), send).map(|_| answer)
    }

    #[test]
    fn what_cannot_be_served_is_refused_by_its_reason() {
        let (mut channel, _) = filled(10, 30);
        let mut server = RequestServer::new(1_000);
        let cases = [
            ((MoldSession(*b"OTHER     "), 25, 1), Refusal::Session),
            ((SESSION, 31, 1), Refusal::NotYet),
            ((SESSION, u64::MAX, 1), Refusal::NotYet),
            ((SESSION, 20, 5), Refusal::Gone),
            ((SESSION, 0, 5), Refusal::Gone),
            ((SESSION, 25, 0), Refusal::Malformed),
        ];
        for ((session, sequence, count), want) in cases {
            let got = ask(&mut server, &mut channel, session, sequence, count, 0);
            assert_eq!(got, Err(want), "{sequence} of {session:?}");
        }
        let short = server.answer(&mut channel, ASKER, b"short", Nanos(0), |_| ());
        assert_eq!(short, Err(Refusal::Malformed));
        let answer = ask(&mut server, &mut channel, SESSION, 21, 65_535, 0).expect("it is kept");
        assert!(answer.len() <= 200 && Header::read(&answer).is_ok_and(|h| h.sequence == 21));
    }

    #[test]
    fn who_asks_too_often_waits_and_nobody_else_does() {
        let (mut channel, _) = filled(10, 5);
        let mut server = RequestServer::new(3);
        let mut at = |now| ask(&mut server, &mut channel, SESSION, 1, 1, now);
        assert!((0..3).all(|_| at(0).is_ok()));
        assert_eq!(at(0), Err(Refusal::TooOften));
        assert_eq!(at(333_333_331), Err(Refusal::TooOften));
        assert!(at(333_333_332).is_ok() && at(333_333_332).is_err());
        assert!((0..3).all(|_| at(5_000_000_000).is_ok()) && at(5_000_000_000).is_err());
        let request = Request { session: SESSION, sequence: 1, count: 1 }.to_bytes();
        let other = Ipv4Addr::new(10, 0, 0, 2);
        let answered = server.answer(&mut channel, other, &request, Nanos(5_000_000_000), |_| ());
        assert_eq!(answered, Ok(1));
    }

    #[test]
    fn more_requesters_than_are_remembered_are_refused_until_some_have_rested() {
        let (mut channel, _) = filled(10, 5);
        let mut server = RequestServer::new(1);
        let request = Request { session: SESSION, sequence: 1, count: 1 }.to_bytes();
        let mut from = |number: u32, now| {
            let from = Ipv4Addr::from_bits(number);
            server.answer(&mut channel, from, &request, Nanos(now), |_| ())
        };
        assert!((0..1_024).all(|number| from(number, 5) == Ok(1)));
        assert_eq!(from(2_000, 5), Err(Refusal::TooOften));
        assert_eq!(from(2_000, 1_000_000_005), Ok(1));
    }

    #[test]
    fn the_session_before_can_be_asked_for_and_its_end_is_said() {
        let (mut channel, mut sent) = filled(10, 3);
        let next = MoldSession(*b"SESSION002");
        let mut sink = channel.sink(|packet: &[u8]| sent.push(packet.to_vec()));
        sink.message(&message(4));
        sink.end();
        sink.session(next);
        sink.message(&message(1));
        let kinds: Vec<_> = (sent.iter())
            .map(|packet| read_packet(packet, 0).expect("a packet"))
            .map(|packet| (packet.kind, packet.sequence))
            .collect();
        let end = (PacketKind::EndOfSession, 5);
        assert_eq!(kinds, [(PacketKind::Data, 4), end, end, end]);
        assert_eq!((channel.session(), channel.next_sequence()), (Some(next), 2));
        let mut server = RequestServer::new(1_000);
        for (session, count) in [(SESSION, 4), (next, 1)] {
            let answer = ask(&mut server, &mut channel, session, 1, 9, 0).expect("it is kept");
            let packet = read_packet(&answer, 0).expect("a packet");
            assert_eq!((packet.session, packet.count), (session.number(), count));
        }
        channel.sink(|_: &[u8]| ()).session(MoldSession(*b"SESSION003"));
        assert_eq!(
            ask(&mut server, &mut channel, SESSION, 1, 1, 0),
            Err(Refusal::Session),
            "two are kept"
        );
        assert!(channel.heartbeat().is_some_and(|packet| packet[..10] == *b"SESSION003"));
    }

    proptest! {
        #[test]
        fn what_is_sent_and_what_is_asked_for_are_the_messages_by_their_numbers(
            before in 0u64..40,
            live in 1u64..80,
            flushes in prop::collection::vec(any::<bool>(), 80),
            asked in prop::collection::vec((0u64..130, 1u16..60), 1..20),
            messages_max in 1usize..100,
        ) {
            let (mut channel, mut sent) = filled(messages_max, before);
            for number in before + 1..=before + live {
                channel.sink(|packet: &[u8]| sent.push(packet.to_vec())).message(&message(number));
                if flushes[usize::try_from(number - before - 1).expect("few")] {
                    channel.flush(|packet| sent.push(packet.to_vec()));
                }
            }
            channel.flush(|packet| sent.push(packet.to_vec()));
            let mut next = before + 1;
            for packet in &sent {
                prop_assert!(packet.len() <= 200);
                for read in Messages::new(&read_packet(packet, 0).expect("a packet")) {
                    let (number, read) = read.expect("whole messages");
                    prop_assert_eq!((number, read), (next, &message(next)[..]));
                    next += 1;
                }
            }
            prop_assert_eq!(next, before + live + 1);
            let mut server = RequestServer::new(1_000);
            for (sequence, count) in asked {
                let answer = ask(&mut server, &mut channel, SESSION, sequence, count, 0);
                let is_kept = sequence >= channel.oldest() && sequence < channel.next_sequence();
                prop_assert_eq!(answer.is_ok(), is_kept);
                let Ok(answer) = answer else { continue };
                let packet = read_packet(&answer, 0).expect("a packet");
                prop_assert!(packet.count >= 1 && packet.count <= u32::from(count));
                for (number, read) in (sequence..).zip(Messages::new(&packet)) {
                    prop_assert_eq!(read, Ok((number, &message(number)[..])));
                }
            }
        }
    }
}
