//! DBN files written by the format's own encoder: their books, the handling of damage, and
//! Databento's own samples if `WEIR_DATA` names a folder that has them.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use dbn::decode::{DbnMetadata, DecodeRecordRef};
use dbn::encode::EncodeRecord;
use dbn::encode::dbn::Encoder;
use dbn::{
    MappingInterval, MboMsg, Mbp10Msg, Metadata, RecordHeader, SType, Schema, SymbolMapping, v1, v2,
};
use weir_feed::feed_by_name;
use weir_feed::itch::encode::{
    AddOrder, Header, OrderCancel, OrderDelete, OrderExecuted, OrderReplace, StockDirectory, stock,
};
use weir_marketgate::capture::{CaptureFile, FileError, FileKind};
use weir_marketgate::gateway::file_books::FileBooks;
use weir_types::{InstrumentId, Qty, Side};

const SYMBOLS: [&str; 3] = ["AAA", "BBB", "CCC"];
/// The dataset's number of the first symbol; the others follow.
const FIRST: u32 = 4_000_000_000;
const DAY: u64 = 86_400_000_000_000;
/// 2026-01-05.
const TODAY: u64 = 20_458 * DAY;

fn metadata(version: u8, schema: Schema) -> Metadata {
    let date = |day| time::Date::from_calendar_date(2026, time::Month::January, day).unwrap();
    let mappings = (FIRST..).zip(SYMBOLS).map(|(number, symbol)| SymbolMapping {
        raw_symbol: symbol.to_owned(),
        intervals: vec![
            // A mapping of an earlier day does not apply.
            MappingInterval { start_date: date(1), end_date: date(5), symbol: "77".to_owned() },
            MappingInterval { start_date: date(5), end_date: date(6), symbol: number.to_string() },
        ],
    });
    let mut metadata = Metadata::builder()
        .version(version)
        .dataset("XNAS.ITCH")
        .schema(Some(schema))
        .start(TODAY)
        .stype_in(Some(SType::RawSymbol))
        .stype_out(SType::InstrumentId)
        .mappings(mappings.collect())
        .build();
    metadata.symbol_cstr_len = if version == 1 { 22 } else { 71 };
    metadata
}

fn header<T: dbn::HasRType>(rtype: u8, instrument: usize, ts_event: u64) -> RecordHeader {
    RecordHeader::new::<T>(rtype, 2, FIRST + instrument as u32, ts_event)
}

/// An order as a record notes it.
#[derive(Clone, Copy)]
struct MboOrder {
    order_id: u64,
    side: u8,
    cents: i64,
    size: u32,
}

/// A flow of orders, as length-prefixed ITCH messages and as records.
struct Flow {
    itch: Vec<u8>,
    records: Vec<MboMsg>,
    live: Vec<(usize, u64, Side, u32, i64)>,
    chance: u64,
    next: u64,
}

impl Flow {
    fn draw(&mut self, below: u64) -> u64 {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(11);
        (self.chance >> 33) % below
    }

    fn say(&mut self, message: &[u8]) {
        self.itch.extend_from_slice(&u16::try_from(message.len()).unwrap().to_be_bytes());
        self.itch.extend_from_slice(message);
    }

    fn note(&mut self, at: usize, action: u8, order: MboOrder) {
        let MboOrder { order_id, side, cents, size } = order;
        let ts_event = TODAY + self.records.len() as u64;
        self.records.push(MboMsg {
            hd: header::<MboMsg>(dbn::rtype::MBO, at, ts_event),
            order_id,
            price: cents * 10_000_000,
            size,
            action: action as std::ffi::c_char,
            side: side as std::ffi::c_char,
            ts_recv: ts_event,
            ..MboMsg::default()
        });
    }

    fn add(&mut self, head: &Header, at: usize) {
        self.next += 1;
        let side = if self.draw(2) == 0 { Side::Buy } else { Side::Sell };
        let cents = 1_000 + self.draw(20) as i64 + if side == Side::Buy { -20 } else { 1 };
        let (shares, code) = (1 + self.draw(9) as u32, if side == Side::Buy { b'B' } else { b'S' });
        let price = u32::try_from(cents * 100).unwrap();
        let order_reference = self.next;
        let add = AddOrder { order_reference, side: code, shares, stock: *b"        ", price };
        self.say(&add.to_bytes(head));
        let order = MboOrder { order_id: self.next, side: dbn_side(side), cents, size: shares };
        self.note(at, b'A', order);
        self.live.push((at, self.next, side, shares, cents));
    }

    fn change(&mut self, place: usize) {
        let (at, order_reference, side, shares, cents) = self.live[place];
        let head = &Header { stock_locate: at as u16 + 1, ..Header::default() };
        let less = 1 + self.draw(u64::from(shares)) as u32;
        let own = dbn_side(side);
        let whole = MboOrder { order_id: order_reference, side: own, cents, size: shares };
        let part = MboOrder { size: less, ..whole };
        match self.draw(4) {
            0 => {
                self.live.swap_remove(place);
                self.say(&OrderDelete { order_reference }.to_bytes(head));
                self.note(at, b'C', whole);
            }
            1 if less < shares => {
                self.live[place].3 -= less;
                let cancel = OrderCancel { order_reference, cancelled_shares: less };
                self.say(&cancel.to_bytes(head));
                self.note(at, b'C', part);
            }
            2 => {
                // A replace has a new number in ITCH, and so it does in Databento's records: a
                // delete and an add.
                self.next += 1;
                let (new_order_reference, cents_now) = (self.next, cents - 1);
                self.live[place] = (at, self.next, side, 5, cents_now);
                let price = u32::try_from(cents_now * 100).unwrap();
                let original_order_reference = order_reference;
                let replace = OrderReplace {
                    original_order_reference,
                    new_order_reference,
                    shares: 5,
                    price,
                };
                self.say(&replace.to_bytes(head));
                self.note(at, b'C', whole);
                let new = MboOrder { order_id: self.next, cents: cents_now, size: 5, ..whole };
                self.note(at, b'A', new);
            }
            _ => {
                let match_number = self.records.len() as u64;
                let executed =
                    OrderExecuted { order_reference, executed_shares: less, match_number };
                self.say(&executed.to_bytes(head));
                let trade = MboOrder { order_id: 0, side: dbn_side(side.opposite()), ..part };
                self.note(at, b'T', trade);
                self.note(at, b'F', part);
                self.note(at, b'C', part);
                self.live[place].3 -= less;
                if less == shares {
                    self.live.swap_remove(place);
                }
            }
        }
    }
}

fn dbn_side(side: Side) -> u8 {
    if side == Side::Buy { b'B' } else { b'A' }
}

fn made(steps: usize) -> Flow {
    let (itch, records) = (Vec::new(), Vec::new());
    let mut flow = Flow { itch, records, live: Vec::new(), chance: 3, next: 0 };
    for (locate, symbol) in (1..).zip(SYMBOLS) {
        let directory = StockDirectory { stock: stock(symbol).unwrap(), ..directory() };
        let head = Header { stock_locate: locate, ..Header::default() };
        flow.say(&directory.to_bytes(&head));
    }
    for _ in 0..steps {
        if flow.live.len() < 30 || flow.draw(100) < 45 {
            let at = flow.draw(SYMBOLS.len() as u64) as usize;
            flow.add(&Header { stock_locate: at as u16 + 1, ..Header::default() }, at);
        } else {
            let place = flow.draw(flow.live.len() as u64) as usize;
            flow.change(place);
        }
    }
    flow
}

fn directory() -> StockDirectory {
    StockDirectory {
        stock: *b"        ",
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

fn file(metadata: &Metadata, records: &[MboMsg]) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new(), metadata).unwrap();
    records.iter().for_each(|record| encoder.encode_record(record).unwrap());
    encoder.get_ref().clone()
}

fn open(bytes: Vec<u8>) -> Result<CaptureFile, FileError> {
    CaptureFile::new(Box::new(Cursor::new(bytes)))
}

/// The books of a file's whole content, empty if it does not open, and the error that ended the
/// reading.
fn read(feed: &str, bytes: Vec<u8>) -> (FileBooks, Option<String>) {
    let (opened, refused) = match open(bytes) {
        Ok(opened) => (opened, None),
        Err(error) => (open(file(&metadata(3, Schema::Mbo), &[])).unwrap(), Some(error)),
    };
    let mut market = books_of(feed, opened);
    let error = market.read().map(ToString::to_string);
    (market, refused.map(|error| error.to_string()).or(error))
}

fn books_of(feed: &str, file: CaptureFile) -> FileBooks {
    FileBooks::open(feed_by_name(feed).unwrap(), file, &[]).unwrap()
}

/// Returns the orders of both sides by their places, and the traded volume and trade count.
fn state(market: &FileBooks, symbol: &str) -> (Vec<(u64, i64, u64)>, Qty, u64) {
    let id = market.instrument(symbol).unwrap();
    let books = market.books();
    let sides = [Side::Buy, Side::Sell].into_iter();
    let orders = sides.flat_map(|side| books.orders(id, side));
    let orders = orders.map(|order| (order.order_id, order.price.0, order.size.0)).collect();
    let day = books.statistics(id);
    (orders, day.volume, day.trade_count)
}

#[test]
fn the_same_orders_as_itch_and_as_dbn_give_the_same_books() {
    let flow = made(5_000);
    let (itch, error) = read("itch", flow.itch);
    assert_eq!(error, None);
    let bytes = file(&metadata(3, Schema::Mbo), &flow.records);
    let packed = zstd::encode_all(&bytes[..], 1).unwrap();
    for bytes in [bytes, packed] {
        let (dbn, error) = read("dbn", bytes);
        assert_eq!((error, dbn.counts().refused), (None, 0), "{:?}", dbn.last_error());
        assert_eq!(dbn.books().anomalies().total(), 0);
        let numbers = dbn.definitions().map(|one| one.instrument_id.0);
        assert!(numbers.max() < Some(10), "numbers of our own");
        for symbol in SYMBOLS {
            let (want, found) = (state(&itch, symbol), state(&dbn, symbol));
            assert!(want.0.len() > 3 && want.1 > Qty(100), "{want:?}");
            assert_eq!(found, want, "{symbol}");
        }
    }
}

#[test]
fn a_file_that_is_cut_off_is_read_up_to_where_and_names_the_place() {
    let records = made(50).records;
    let bytes = file(&metadata(3, Schema::Mbo), &records);
    let start = bytes.len() - records.len() * size_of::<MboMsg>();
    for len in (8..bytes.len()).filter(|len| len % 7 == 0 || *len > bytes.len() - 60) {
        let (market, error) = read("dbn", bytes[..len].to_vec());
        let whole = len.saturating_sub(start) / size_of::<MboMsg>();
        let begins = if len < start { 8 } else { start + whole * size_of::<MboMsg>() };
        let names = market.counts().messages - whole as u64;
        assert!(names <= 2 * SYMBOLS.len() as u64, "{names}");
        let is_end = len == begins && len >= start;
        let error = error.unwrap_or_default();
        assert_eq!(error.is_empty(), is_end, "{len}: {error}");
        assert!(is_end || error.contains(&format!("byte {begins}:")), "{len} {begins}: {error}");
    }
}

#[test]
fn other_versions_are_brought_up_or_refused_and_records_nobody_knows_are_counted() {
    let records = made(200).records;
    let want = read("dbn", file(&metadata(3, Schema::Mbo), &records)).0;
    for version in [1, 2] {
        let (found, error) = read("dbn", file(&metadata(version, Schema::Mbo), &records));
        assert_eq!(error, None, "version {version}");
        for symbol in SYMBOLS {
            assert_eq!(state(&found, symbol), state(&want, symbol), "version {version}");
        }
    }
    let mut bytes = file(&metadata(3, Schema::Mbo), &records);
    for version in [0, 4, 200] {
        bytes[3] = version;
        let (_, error) = read("dbn", bytes.clone());
        let error = error.unwrap();
        assert!(error.contains(&format!("version {version};")), "{error}");
    }
    bytes[3] = 3;
    let at = bytes.len() - 100 * size_of::<MboMsg>();
    bytes[at + 1] = 0x77;
    let (market, error) = read("dbn", bytes.clone());
    assert_eq!((error, market.counts().refused), (None, 1));
    // A record of length zero: the next record's start is unknown.
    bytes[at] = 0;
    let (market, error) = read("dbn", bytes);
    assert!(error.unwrap().contains(&format!("at byte {at}:")));
    assert!(market.counts().messages > 0);
}

/// Reads a file with a definition of an old version and a definition that is too short.
fn definitions<T: dbn::HasRType<Header = dbn::v3::RecordHeader> + dbn::encode::DbnEncodable>(
    version: u8,
    record: &T,
) -> (FileBooks, Option<String>) {
    let mut encoder = Encoder::new(Vec::new(), &metadata(version, Schema::Definition)).unwrap();
    encoder.encode_record(record).unwrap();
    let mut bytes = encoder.get_ref().clone();
    // Its header states a length below its type's.
    bytes.extend_from_slice(&[4, dbn::rtype::INSTRUMENT_DEF]);
    bytes.extend_from_slice(&[0; 14]);
    read("dbn", bytes)
}

#[test]
fn definitions_of_old_versions_name_instruments_and_short_ones_are_counted() {
    let name = |text: &mut [std::ffi::c_char]| {
        text.iter_mut().zip(b"OLDNAME").for_each(|(to, from)| *to = *from as std::ffi::c_char);
    };
    let hd = header::<v1::InstrumentDefMsg>(dbn::rtype::INSTRUMENT_DEF, 7, TODAY);
    let mut first = v1::InstrumentDefMsg { hd, ..Default::default() };
    name(&mut first.raw_symbol);
    let hd = header::<v2::InstrumentDefMsg>(dbn::rtype::INSTRUMENT_DEF, 7, TODAY);
    let mut second = v2::InstrumentDefMsg { hd, ..Default::default() };
    name(&mut second.raw_symbol);
    for (version, (market, error)) in [(1, definitions(1, &first)), (2, definitions(2, &second))] {
        assert_eq!((error, market.counts().refused), (None, 1), "version {version}");
        assert!(market.instrument("OLDNAME").is_some(), "version {version}");
    }
}

#[test]
fn metadata_that_lies_of_its_length_ends_the_reading_and_takes_no_memory() {
    let mut bytes = file(&metadata(3, Schema::Mbo), &[]);
    bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = open(bytes.clone()).unwrap_err().to_string();
    assert!(error.contains("4294967295"), "{error}");
    bytes[4..8].copy_from_slice(&3_u32.to_le_bytes());
    assert!(read("dbn", bytes).1.unwrap().contains("at byte 0:"));
}

#[test]
fn metadata_of_any_length_is_read_and_records_of_lengths_that_none_has_are_not() {
    let records = made(50).records;
    let whole = file(&metadata(3, Schema::Mbo), &records);
    let want = read("dbn", whole.clone());
    assert_eq!(want.1, None);
    let end = 8 + u32::from_le_bytes(whole[4..8].try_into().unwrap()) as usize;
    for more in 1..8 {
        let mut longer = whole.clone();
        longer.splice(end..end, vec![0; more]);
        longer[4..8].copy_from_slice(&((end - 8 + more) as u32).to_le_bytes());
        let (market, error) = read("dbn", longer.clone());
        assert_eq!(error, None, "{more} bytes more");
        for symbol in SYMBOLS {
            assert_eq!(state(&market, symbol), state(&want.0, symbol), "{more} bytes more");
        }
        // The file's own bytes state each record's start.
        longer[end + more] += 1;
        let error = read("dbn", longer).1.unwrap();
        assert!(
            error.contains(&format!("at byte {}: a record of 60 bytes", end + more)),
            "{error}"
        );
    }
    let mut shorter = whole;
    shorter.truncate(end + 3);
    assert!(read("dbn", shorter).1.unwrap().contains(&format!("at byte {end}:")));
}

fn samples() -> Vec<PathBuf> {
    let mut folders = Vec::from_iter(weir_skip::recorded("databento"));
    if folders.is_empty() {
        return Vec::new();
    }
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.contains(".dbn") && !name.contains(".frag") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(files.len() > 50, "samples are there");
    files
}

/// Returns a sample's record count by the format's own decoder; `None` for files that it does not
/// read.
fn counted(path: &Path) -> Option<(u64, Vec<Mbp10Msg>)> {
    let mut bytes = std::fs::read(path).unwrap();
    if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        bytes = zstd::decode_all(&bytes[..]).unwrap();
    }
    let mut decoder = dbn::decode::DbnDecoder::new(Cursor::new(bytes)).ok()?;
    let _ = decoder.metadata();
    let (mut count, mut levels, mut is_mixed) = (0, Vec::new(), false);
    while let Some(record) = decoder.decode_record_ref().unwrap() {
        count += 1;
        is_mixed |= record.header().rtype == dbn::rtype::MBO;
        levels.extend(record.get::<Mbp10Msg>().cloned());
    }
    // In a file with orders, the book is built from them.
    Some((count, if is_mixed { Vec::new() } else { levels }))
}

#[test]
fn databentos_samples_are_read_whole() {
    let mut read_files = 0;
    for path in samples() {
        let mut file = match CaptureFile::open(&path) {
            Ok(file) => file,
            Err(error) => {
                println!("{}: {error}", path.display());
                assert!(error.to_string().contains("DBN version 4"));
                continue;
            }
        };
        assert_eq!(file.kind(), FileKind::Dbn, "{}", path.display());
        while file.next(&mut |_| {}).unwrap() {}
        let mut market = books_of("dbn", CaptureFile::open(&path).unwrap());
        let error = market.read();
        let (count, levels) = counted(&path).unwrap();
        assert!(error.is_none(), "{}: {error:?}", path.display());
        assert_eq!(file.counts().messages, count, "{}", path.display());
        read_files += 1;
        if market.counts().refused > 0 {
            println!("{}: {:?}", path.display(), market.last_error());
        }
        if let Some(last) = levels
            .last()
            .filter(|last| levels.iter().all(|r| r.hd.instrument_id == last.hd.instrument_id))
        {
            assert_shows(&market, last);
        }
    }
    println!("{read_files} files");
}

/// Asserts that the book equals the last ten-level record.
fn assert_shows(market: &FileBooks, last: &Mbp10Msg) {
    let ids = market.definitions().map(|one| one.instrument_id);
    let id = ids.filter(|id| market.books().best(*id).bid_sz > Qty(0)).last();
    let id = id.unwrap_or(InstrumentId(1));
    for side in [Side::Buy, Side::Sell] {
        let row = |level: &dbn::BidAskPair| match side {
            Side::Buy => (level.bid_px, u64::from(level.bid_sz)),
            Side::Sell => (level.ask_px, u64::from(level.ask_sz)),
        };
        let want: Vec<_> = last.levels.iter().map(row).filter(|row| row.1 > 0).collect();
        let levels = market.books().levels(id, side, 20);
        let found: Vec<_> = levels.map(|level| (level.price.0, level.size.0)).collect();
        assert_eq!(found, want, "{side:?}");
    }
}

/// A generated day file, read by the commands that take files by name.
#[test]
fn the_command_line_looks_into_a_file_and_shows_a_book() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("day.dbn.zst");
    let flow = made(500);
    let bytes = file(&metadata(3, Schema::Mbo), &flow.records);
    let packed = zstd::encode_all(&bytes[..], 1).unwrap();
    std::fs::File::create(&path).unwrap().write_all(&packed).unwrap();
    let weir = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = command.args(words).output().unwrap();
        (output.status.success(), [output.stdout, output.stderr].concat())
    };
    let path = path.to_str().unwrap();
    let (is_good, said) = weir(&["feed", "inspect", path, "--json"]);
    let page: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert!(is_good && page["file"]["kind"] == "dbn", "{page}");
    assert_eq!(page["file"]["messages"], flow.records.len());
    assert_eq!(page["types"][0]["type"], "0xa0");
    let (is_good, said) = weir(&["feed", "stats", path]);
    assert!(is_good && String::from_utf8_lossy(&said).contains("messages in"));
    let words = ["book", "BBB", "--capture", path, "--feed", "dbn", "--depth", "1000", "--json"];
    let (is_good, said) = weir(&words);
    let book: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert!(is_good, "{book}");
    let want = state(&read("dbn", bytes).0, "BBB");
    assert_eq!(book["volume"], want.1.0.to_string());
    assert!(!book["bids"].as_array().unwrap().is_empty());
    let (is_good, said) = weir(&["feed", "replay", path, "--to", "127.0.0.1:9"]);
    let said = String::from_utf8_lossy(&said);
    assert!(!is_good && said.contains("only a capture has datagrams"), "{said}");
}
