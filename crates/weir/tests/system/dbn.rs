//! A gateway that serves the market of a DBN file.

use ::dbn::encode::EncodeRecord;
use ::dbn::encode::dbn::Encoder;
use ::dbn::{MappingInterval, MboMsg, Metadata, RecordHeader, SType, Schema, SymbolMapping};
use weir_client::market::Wanted;
use weir_types::{MarketContent, Price, Qty, Side};

use crate::market::{Subscriber, addresses};
use crate::support::{ALICE, Home, open_market, until};

const TODAY: u64 = 20_458 * 86_400_000_000_000;
const NUMBER: u32 = 3_000_000_000;

/// Returns an order message of the instrument: action and side, price in whole units, size.
fn order(order_id: u64, action: u8, side: u8, price: i64, size: u32) -> MboMsg {
    MboMsg {
        hd: RecordHeader::new::<MboMsg>(::dbn::rtype::MBO, 2, NUMBER, TODAY + order_id),
        order_id,
        price: price * 1_000_000_000,
        size,
        action: action as std::ffi::c_char,
        side: side as std::ffi::c_char,
        ts_recv: TODAY + order_id,
        ..MboMsg::default()
    }
}

#[test]
fn a_file_of_dbn_is_served_by_its_symbols() {
    let date = |day| time::Date::from_calendar_date(2026, time::Month::January, day).unwrap();
    let interval =
        MappingInterval { start_date: date(5), end_date: date(6), symbol: NUMBER.to_string() };
    let mapping = SymbolMapping { raw_symbol: "NAMED".to_owned(), intervals: vec![interval] };
    let metadata = Metadata::builder()
        .dataset("XNAS.ITCH")
        .schema(Some(Schema::Mbo))
        .start(TODAY)
        .stype_in(Some(SType::RawSymbol))
        .stype_out(SType::InstrumentId)
        .mappings(vec![mapping])
        .build();
    let mut encoder = Encoder::new(Vec::new(), &metadata).unwrap();
    for record in [
        order(1, b'A', b'B', 99, 5),
        order(2, b'A', b'B', 98, 7),
        order(3, b'A', b'A', 101, 9),
        order(2, b'C', b'B', 98, 3),
    ] {
        encoder.encode_record(&record).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("day.dbn.zst");
    std::fs::write(&path, zstd::encode_all(&encoder.get_ref()[..], 1).unwrap()).unwrap();
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n[market_gateway.feed]\nname = \"dbn\"\n\
         [market_gateway.feed.capture]\nfile = {path:?}\n"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE]);
    until("the file is read", || {
        (node.status()["market"]["receive"]["is_over"] == true).then_some(())
    });
    let wanted = [Wanted::new("NAMED", MarketContent::Levels)];
    let mut subscriber = Subscriber::new(addresses(&node)[0], &wanted);
    let row = |side, price: i64, size| (side, Price(price * 1_000_000_000), Qty(size), 1);
    let want = [row(Side::Buy, 99, 5), row(Side::Buy, 98, 4), row(Side::Sell, 101, 9)];
    subscriber.until("its levels", |told| told.levels.values().any(|levels| *levels == want));
}
