//! Truncated and corrupted frames yield a specific error, never a panic.

use weir_feed::cta::{Cta, CtaFeed};
use weir_feed::iex::{Iex, Protocol};
use weir_feed::opra::Opra;
use weir_feed::{CollectedUpdates, Context, Feed, FeedError};

use crate::capture::data;
use crate::iex::framed;
use crate::udp_capture::payloads;

/// Decodes a whole datagram; the first framing error ends it, errors of messages do not.
fn decode(feed: &mut impl Feed, datagram: &[u8]) -> Result<CollectedUpdates, FeedError> {
    let packet = feed.packet(datagram)?;
    let (mut rest, mut told) = (packet.messages, CollectedUpdates::default());
    feed.look_ahead(rest);
    while !rest.is_empty() {
        let (message, tail) = feed.next_message(rest)?;
        assert!(tail.len() < rest.len(), "it goes on");
        rest = tail;
        let context = Context { sequence: 1, channel: 0, ts_send: packet.ts_send };
        let before = (told.definitions.len(), told.updates.len());
        if feed.decode(&context, message, &mut told).is_err() {
            assert_eq!(before, (told.definitions.len(), told.updates.len()), "told with an error");
        }
        cut_message(feed, &context, message);
    }
    Ok(told)
}

/// Checks that splitting off a message truncated at any byte does not panic.
fn cut_message(feed: &impl Feed, _: &Context, message: &[u8]) {
    for len in 0..message.len() {
        _ = feed.next_message(&message[..len]);
    }
}

/// Truncates a datagram at each byte, and changes each byte; a checksum must detect the change.
fn ruin<F: Feed>(feed: impl Fn() -> F, has_checksum: bool, datagram: &[u8]) {
    assert!(decode(&mut feed(), datagram).is_ok());
    for len in 0..datagram.len() {
        assert!(decode(&mut feed(), &datagram[..len]).is_err(), "cut at {len}");
        for byte in [0, 0x7f, 0xff, datagram[len].wrapping_add(1)] {
            let mut changed = datagram.to_vec();
            changed[len] = byte;
            let read = decode(&mut feed(), &changed);
            assert!(read.is_err() || !has_checksum || changed == datagram, "byte {len}: {byte}");
            for message_len in 0..changed.len() {
                let context = Context { sequence: 1, channel: 0, ts_send: weir_types::Nanos(0) };
                let message = &changed[message_len..];
                feed().look_ahead(message);
                if message_len >= 20 {
                    _ = feed().decode(&context, message, &mut CollectedUpdates::default());
                }
            }
        }
    }
    let mut longer = datagram.to_vec();
    longer.push(0);
    let error = decode(&mut feed(), &longer).err();
    assert_eq!(error, Some(FeedError::Trailing { len: 1 }));
}

#[test]
fn packets_of_iex_cut_or_changed_are_refused_or_read_without_harm() {
    let mut message = vec![b'8', 1];
    message.extend([0; 8]);
    message.extend(b"A       ");
    message.extend([0; 12]);
    ruin(|| Iex::new(Protocol::Deep), false, &framed(Protocol::Deep, &message));
    for (path, protocol) in [
        ("Deep.IexTp.v1.0/PriceLevelBuyUpdateMessage.pcap", Protocol::Deep),
        ("DeepPlus.IexTp.1.0.2/L_OrderExecuted.pcap", Protocol::DeepPlus),
        ("Tops.IexTp.v1.5/AuctionInformationMessage.pcap", Protocol::Tops),
        ("Tops.IexTp.v1.5/OperationalHaltStatusMessage.pcap", Protocol::Tops),
    ] {
        let Some(capture) = data(&format!("omi/Iex/{path}")) else { return };
        ruin(|| Iex::new(protocol), false, payloads(&capture)[0]);
    }
}

#[test]
fn blocks_of_the_aggregators_cut_or_changed_are_refused_or_read_without_harm() {
    for path in [
        "Opra.Recipient.v6.2/AdministrativeMessage.pcap",
        "Opra.Recipient.v6.2/LongEquityAndIndexQuoteMessage.pcap",
        "Opra.Recipient.v6.2/ShortEquityAndIndexQuoteMessage.pcap",
    ] {
        let Some(capture) = data(&format!("omi/Siac/{path}")) else { return };
        ruin(Opra::new, true, payloads(&capture)[0]);
    }
    for (path, line) in [
        ("Cqs.Cta.v1.91/LongQuoteMessage.pcap", CtaFeed::Quotes),
        ("Cts.Cta.v2.9/MultipleMessages.pcap", CtaFeed::Trades),
        ("Cts.Cta.v2.10/TradeCorrectionMessage.pcap", CtaFeed::Trades),
        ("Cts.Cta.v2.11.b/T_E_Fractional_Trade_Cancel-Error.pcap", CtaFeed::Trades),
    ] {
        let Some(capture) = data(&format!("omi/Siac/{path}")) else { return };
        ruin(|| Cta::new(line), true, payloads(&capture)[0]);
    }
}
