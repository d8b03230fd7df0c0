//! Tests of OPRA, CQS and CTS: every real frame field by field, and the resulting updates.

use weir_feed::layout::Value;
use weir_feed::{Action, CollectedUpdates, Context, Feed, PacketKind, Venue, cta, opra};
use weir_types::{Nanos, Price, Qty};

use crate::capture::data;
use crate::oracle::{Listing, compare};
use crate::udp_capture::payloads;

/// Returns all definitions and updates of a capture.
fn told(feed: &mut impl Feed, path: &str) -> Option<CollectedUpdates> {
    let capture = data(&format!("omi/Siac/{path}"))?;
    let mut told = CollectedUpdates::default();
    for datagram in payloads(&capture) {
        let packet = feed.packet(datagram).expect("a real packet");
        let (mut rest, mut sequence) = (packet.messages, packet.sequence);
        while !rest.is_empty() {
            let (message, tail) = feed.next_message(rest).expect("a real message");
            rest = tail;
            let context = Context { sequence, channel: 0, ts_send: packet.ts_send };
            feed.decode(&context, message, &mut told).expect("a sound message");
            sequence += 1;
        }
        if packet.kind != PacketKind::Heartbeat {
            assert_eq!(sequence, packet.sequence + u64::from(packet.count), "{path}");
        }
    }
    Some(told)
}

fn opra_listing(datagram: &[u8]) -> Listing {
    let mut listing = Listing::default();
    let header = opra::BlockHeader::read(datagram).expect("it is long enough");
    header.fields(&mut |name, value| listing.add(name, value));
    let feed = opra::Opra::new();
    let mut rest = feed.packet(datagram).expect("a real packet").messages;
    while !rest.is_empty() {
        let (message, tail) = feed.next_message(rest).expect("a real message");
        rest = tail;
        listing.message();
        let (header, body, extra) = opra::parse(message).expect("a real message");
        header.fields(&mut |name, value| listing.add(name, value));
        body.fields(&mut |name, value| listing.add(name, value));
        match body {
            opra::Message::Administrative(_) => listing.add("message_data", Value::Text(extra)),
            _ => opra_appendages(header.message_indicator[0], extra, &mut listing),
        }
    }
    listing
}

fn opra_appendages(indicator: u8, mut extra: &[u8], listing: &mut Listing) {
    let sides = opra::sides_of(indicator).unwrap_or([opra::SideChange::Same; 2]);
    for (prefix, side) in ["bestbid", "bestoffer"].into_iter().zip(sides) {
        if side == opra::SideChange::Appendage {
            let appendage = opra::Appendage::read(extra).expect("it is there");
            extra = &extra[opra::Appendage::LEN..];
            listing.prefix = prefix;
            appendage.fields(&mut |name, value| listing.add(name, value));
            listing.prefix = "";
        }
    }
}

fn cta_listing(path: &str, datagram: &[u8]) -> Listing {
    let mut listing = Listing { decimals: 6, ..Listing::default() };
    let header = cta::BlockHeader::read(datagram).expect("it is long enough");
    header.fields(&mut |name, value| listing.add(name, value));
    let feed = cta::Cta::new(feed_of(path));
    let mut rest = feed.packet(datagram).expect("a real packet").messages;
    while !rest.is_empty() {
        let (message, tail) = feed.next_message(rest).expect("a real message");
        rest = tail;
        listing.message();
        listing.add("message_length", Value::Unsigned(message.len() as u64 + 2));
        let (header, body, extra) = cta::parse(message).expect("a real message");
        header.fields(&mut |name, value| listing.add(name, value));
        cta_body(&body, feed_of(path), &mut listing);
        cta_rest(&body, extra, &mut listing);
    }
    listing
}

fn cta_body(body: &cta::Message, feed: cta::CtaFeed, listing: &mut Listing) {
    let is_short = body.name().contains("Short");
    listing.decimals = if is_short { 2 } else { 6 };
    let is_prior = body.name().contains("PriorDay");
    body.fields(&mut |name, value| {
        // Here the other decoder reads four bytes of eight and takes the rest for the next field.
        let is_unread = is_prior && name == "prior_day_trade_nanoseconds";
        let is_misread = is_prior && name == "cancel_error_action";
        assert!(!is_misread || matches!(value, Value::Text(b"1" | b"2")), "{value}");
        // CTS uses this byte, CQS does not.
        let is_reserved =
            feed == cta::CtaFeed::Quotes && name == "minimum_price_increment_indicator";
        if !is_unread && !is_misread && !is_reserved {
            listing.add(name, value);
        }
    });
    listing.decimals = 6;
}

fn cta_rest(body: &cta::Message, mut extra: &[u8], listing: &mut Listing) {
    if let cta::Message::ApproximateVolumes(volumes) = body {
        for _ in 0..volumes.number_of_participants {
            let volume = cta::message::ParticipantVolume::read(extra).expect("it is there");
            extra = &extra[cta::message::ParticipantVolume::LEN..];
            volume.fields(&mut |name, value| listing.add(name, value));
        }
    }
    let cta::Message::LongQuote(quote) = body else { return };
    let sides = cta::sides_of(quote.national_bbo_indicator[0]).expect("it is known");
    for (name, side) in ["bestbid", "bestoffer"].into_iter().zip(sides) {
        if side == cta::SideChange::Long {
            let appendage = cta::quote::LongAppendage::read(extra).expect("it is there");
            extra = &extra[cta::quote::LongAppendage::LEN..];
            appendage.fields(&mut |field, value| listing.add(&field.replace("best", name), value));
        }
    }
}

fn feed_of(path: &str) -> cta::CtaFeed {
    if path.contains("Cqs") { cta::CtaFeed::Quotes } else { cta::CtaFeed::Trades }
}

#[test]
fn each_field_of_real_frames_of_opra_is_what_another_decoder_reads() {
    let counts = compare(include_str!("../oracle/opra.txt"), |_, datagram| opra_listing(datagram));
    assert!(matches!(counts, (0, 0) | (4, 4)), "{counts:?}");
}

#[test]
fn each_field_of_real_frames_of_cta_is_what_another_decoder_reads() {
    let counts = compare(include_str!("../oracle/cta.txt"), cta_listing);
    assert!(matches!(counts, (0, 0) | (38, 126)), "{counts:?}");
}

#[test]
fn a_real_quote_of_opra_is_its_venues_and_moves_one_side_of_the_best() {
    let mut feed = opra::Opra::new();
    let path = "Opra.Recipient.v6.2/LongEquityAndIndexQuoteMessage.pcap";
    let Some(told) = told(&mut feed, path) else { return };
    let [definition] = told.definitions[..] else { panic!("one series") };
    assert_eq!(definition.symbol.as_str(), "AMZN  240119C00165250");
    let actions: Vec<Action> = told.updates.iter().map(|update| update.action).collect();
    let cents = |cents: i64| Price(cents * 10_000_000);
    let quote = Action::Quote {
        venue: Venue(b'D'),
        bid_px: cents(61),
        bid_sz: Qty(239),
        ask_px: cents(63),
        ask_sz: Qty(495),
    };
    let best = Action::Consolidated {
        bid_venue: Venue(b'P'),
        ask_venue: Venue(0),
        bid_px: cents(61),
        bid_sz: Qty(243),
        ask_px: Price(0),
        ask_sz: Qty(0),
    };
    assert_eq!(actions, [quote, best]);
    assert_eq!(told.updates[0].ts_event, Nanos(1_701_291_404_954_681_088));
}

#[test]
fn a_real_short_quote_of_opra_has_a_strike_of_one_decimal() {
    let mut feed = opra::Opra::new();
    let path = "Opra.Recipient.v6.2/ShortEquityAndIndexQuoteMessage.pcap";
    let Some(told) = told(&mut feed, path) else { return };
    assert_eq!(told.definitions[0].symbol.as_str(), "AMZN  231229C00133000");
    let Action::Quote { bid_px, ask_sz, .. } = told.updates[0].action else { panic!() };
    assert_eq!((bid_px, ask_sz), (Price(14_100_000_000), Qty(2)));
}

#[test]
fn a_real_quote_of_cqs_has_the_national_best_with_it() {
    let mut feed = cta::Cta::new(cta::CtaFeed::Quotes);
    let Some(told) = told(&mut feed, "Cqs.Cta.v1.91/LongQuoteMessage.pcap") else { return };
    let best = Action::Consolidated {
        bid_venue: Venue(b'Z'),
        ask_venue: Venue(b'Z'),
        bid_px: Price(29_460_000_000),
        bid_sz: Qty(3),
        ask_px: Price(29_470_000_000),
        ask_sz: Qty(2),
    };
    assert_eq!(told.updates.last().map(|update| update.action), Some(best));
    assert_eq!(told.definitions[0].symbol.as_str(), "STOR");
}

#[test]
fn real_trades_of_cts_have_one_unit_whichever_message_they_come_in() {
    for (path, millionths) in [
        ("Cts.Cta.v1.91/ShortTradeMessage.pcap", None),
        ("Cts.Cta.v2.9/LongTradeMessage.pcap", None),
        ("Cts.Cta.v2.11.b/T_R_Fractional_Long_Trade.pcap", Some(91_000_000)),
    ] {
        let mut feed = cta::Cta::new(cta::CtaFeed::Trades);
        let Some(told) = told(&mut feed, path) else { return };
        let Action::Trade { size, .. } = told.updates[0].action else { panic!("{path}") };
        assert_eq!(size.0 % 1_000_000, 0, "{path}: whole shares");
        assert!(size.0 >= 1_000_000, "{path}");
        assert_eq!(size.0, millionths.unwrap_or(size.0), "{path}");
    }
}

#[test]
fn a_real_correction_undoes_one_trade_and_reports_another() {
    let mut feed = cta::Cta::new(cta::CtaFeed::Trades);
    let path = "Cts.Cta.v2.10/TradeCorrectionMessage.pcap";
    let Some(told) = told(&mut feed, path) else { return };
    let [first, second] = told.updates[..] else { panic!("two updates") };
    assert!(matches!(first.action, Action::TradeBreak { .. }));
    assert!(matches!(second.action, Action::Trade { .. }));
    assert_eq!(first.instrument_id, second.instrument_id);
}

#[test]
fn numbers_of_blocks_count_messages() {
    // No other block of that day lies between these two: any other way of counting would show a
    // gap.
    let path = |name: &str| format!("omi/Siac/Cts.Cta.v2.11.b/{name}.pcap");
    let Some(before) = data(&path("A_D_End_of_Start_of_Day_Summary")) else { return };
    let Some(after) = data(&path("T_R_Fractional_Long_Trade")) else { return };
    let feed = cta::Cta::new(cta::CtaFeed::Trades);
    let [before] = payloads(&before)[..] else { panic!("one datagram") };
    let [after] = payloads(&after)[..] else { panic!("one datagram") };
    let before = feed.packet(before).expect("a real packet");
    let after = feed.packet(after).expect("a real packet");
    assert_eq!(before.sequence + u64::from(before.count), after.sequence);
}

#[test]
fn control_messages_tell_what_a_packet_is() {
    for (name, kind) in [
        ("C_T_Line_Integrity", PacketKind::Heartbeat),
        ("C_A_Start_of_Day", PacketKind::Reset),
        ("C_Z_End_of_Day", PacketKind::Data),
    ] {
        for (folder, feed) in
            [("Cts.Cta.v2.11.b", cta::CtaFeed::Trades), ("Cqs.Cta.v2.10.a", cta::CtaFeed::Quotes)]
        {
            let Some(capture) = data(&format!("omi/Siac/{folder}/{name}.pcap")) else { return };
            let feed = cta::Cta::new(feed);
            let packet = feed.packet(payloads(&capture)[0]).expect("a real packet");
            assert_eq!(packet.kind, kind, "{folder} {name}");
        }
    }
}
