//! A synthetic day: orders that are added, reduced, executed, replaced and deleted, in about the
//! mix of a real day, on 5,000 instruments. The same at each run.

use weir_feed::itch::encode::Header;
use weir_feed::itch::encode;

use crate::frame;

/// Generates this many messages, each with a length prefix.
pub fn day(message_count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for number in 0..message_count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let header = Header {
            stock_locate: (state >> 8) as u16 % 5_000,
            tracking_number: 0,
            timestamp: 34_200_000_000_000 + number * 1_000,
        };
        put(&mut bytes, state, number, &header);
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, state: u64, number: u64, header: &Header) {
    let order_reference = (state >> 24) % (number + 1);
    let shares = (state >> 40) as u32 % 10 * 100 + 100;
    let price = 1_000_000 + (state >> 50) as u32 % 1_000 * 100;
    let stock = *b"WEIR    ";
    let side = if state & 1 == 0 { b'B' } else { b'S' };
    match (state >> 16) % 100 {
        0..45 => {
            let order_reference = number;
            let add = encode::AddOrder { order_reference, side, shares, stock, price };
            frame(bytes, &add.to_bytes(header));
        }
        45..85 => frame(bytes, &encode::OrderDelete { order_reference }.to_bytes(header)),
        85..92 => frame(
            bytes,
            &encode::OrderReplace {
                original_order_reference: order_reference,
                new_order_reference: number,
                shares,
                price,
            }
            .to_bytes(header),
        ),
        92..97 => {
            let (executed_shares, match_number) = (shares, number);
            let executed = encode::OrderExecuted { order_reference, executed_shares, match_number };
            frame(bytes, &executed.to_bytes(header));
        }
        97..99 => {
            let cancel = encode::OrderCancel { order_reference, cancelled_shares: shares };
            frame(bytes, &cancel.to_bytes(header));
        }
        _ => frame(
            bytes,
            &encode::Trade {
                order_reference: 0,
                side: b'B',
                shares,
                stock,
                price,
                match_number: number,
            }
            .to_bytes(header),
        ),
    }
}
