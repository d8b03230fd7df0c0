//! The capture that commands of pages read: a few seconds of Nasdaq's feed.

use std::path::Path;

use weir_feed::capture::Datagram;
use weir_feed::itch::encode::{
    AddOrder, Header, OrderExecuted, StockDirectory, SystemEvent, stock,
};
use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome};
use weir_marketgate::capture::CaptureWriter;
use weir_types::Nanos;

/// Half past nine.
const OPENING_NS: u64 = 34_200_000_000_000;
const DATAGRAMS: u64 = 300;
const INTERVAL_NS: u64 = 10_000_000;

fn directory() -> StockDirectory {
    StockDirectory {
        stock: stock("AAPL").expect("a symbol"),
        market_category: b'Q',
        financial_status: b'N',
        round_lot_size: 100,
        round_lots_only: b'N',
        issue_classification: b'C',
        issue_sub_type: *b"Z ",
        authenticity: b'P',
        short_sale_threshold: b'N',
        ipo_flag: b'N',
        luld_reference_price_tier: b'1',
        etp_flag: b'N',
        etp_leverage_factor: 0,
        inverse_indicator: b'N',
    }
}

/// An order of each side, and from the second datagram on an execution of the newest bid.
fn messages(number: u64) -> Vec<Vec<u8>> {
    let timestamp = OPENING_NS + number * INTERVAL_NS;
    let header = Header { stock_locate: 1, tracking_number: 0, timestamp };
    let cents = u32::try_from(number % 10).unwrap() * 100;
    let add = |side: u64| AddOrder {
        order_reference: 2 * number + side,
        side: [b'B', b'S'][usize::try_from(side).unwrap()],
        shares: 100,
        stock: stock("AAPL").expect("a symbol"),
        price: if side == 0 { 1_990_000 + cents } else { 2_000_000 + cents },
    };
    let mut messages = vec![add(0).to_bytes(&header).to_vec(), add(1).to_bytes(&header).to_vec()];
    if number > 1 {
        let order_reference = 2 * (number - 1);
        let executed = OrderExecuted { order_reference, executed_shares: 40, match_number: number };
        messages.push(executed.to_bytes(&header).to_vec());
    }
    messages
}

/// Writes the capture.
pub fn write(path: &Path) {
    let session = MoldSession::new("DAY").expect("a session's name");
    let mut packets = PacketWriter::new(session, 1, 1_400);
    let mut capture = CaptureWriter::create(path).expect("a new file");
    for number in 0..DATAGRAMS {
        let messages = if number == 0 {
            let header = Header { stock_locate: 1, tracking_number: 0, timestamp: OPENING_NS };
            let opening = SystemEvent { event_code: b'O' }.to_bytes(&Header::default());
            vec![opening.to_vec(), directory().to_bytes(&header).to_vec()]
        } else {
            messages(number)
        };
        for message in messages {
            assert_eq!(packets.push(&message), PushOutcome::Added);
        }
        let ts_recv = Nanos(OPENING_NS + number * INTERVAL_NS);
        let (src, dst) = ("10.0.0.1:9".parse().unwrap(), "239.77.20.5:26477".parse().unwrap());
        packets.take(|payload| {
            capture.write(&Datagram { ts_recv, src, dst, payload }).expect("it is written");
        });
    }
    capture.finish().expect("it ends");
}
