//! LOBSTER's two files of a stock's day: the messages, and the top of the book after each message.
//!
//! Streaming: one line of each at a time. A row has as many levels as the file was ordered with;
//! unoccupied ones have a price of ±9999999999 and are left out.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use weir_types::{Nanos, Price, Qty, Side};

use super::error::FlowError;
use super::lines::{Lines, decimal, integer, unsigned};
use super::model::Level;

/// The most levels per side of a row; LOBSTER sells up to 200.
pub const DEPTH_MAX: usize = 256;

/// The most bytes an archive's member may unpack to.
const MEMBER_LEN_MAX: u64 = 1 << 30;

/// The price, without its sign, of an unoccupied level.
const NO_LEVEL: i64 = 9_999_999_999;

/// A message's type, in LOBSTER's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// 1: a new limit order.
    Submission,
    /// 2: a partial cancellation.
    PartialCancel,
    /// 3: an order is cancelled.
    Deletion,
    /// 4: a visible order is executed.
    ExecuteVisible,
    /// 5: a hidden order is executed.
    ExecuteHidden,
    /// 7 with price -1: trading halts.
    Halt,
    /// 7 with price 0: quoting resumes.
    QuoteResume,
    /// 7 with price 1: trading resumes.
    TradeResume,
}

/// A line of the message file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The time since midnight of the day, at the exchange.
    pub ts: Nanos,
    /// Its type.
    pub kind: MessageKind,
    /// The order, 0 for a hidden one.
    pub order_id: u64,
    /// The quantity in shares.
    pub qty: Qty,
    /// The price in ten-thousandths of a dollar.
    pub price: Price,
    /// The side of the order concerned, not of its aggressor.
    pub side: Side,
}

/// A line of the book file, best levels first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookRow {
    /// Bids.
    pub bids: Vec<Level>,
    /// Asks.
    pub asks: Vec<Level>,
    /// The most levels per side in this file.
    pub depth: usize,
}

/// The messages of a day, each with the book after it.
pub struct LobsterDay<M, B> {
    messages: Lines<M>,
    rows: Lines<B>,
}

/// A day whose files are in memory, as [`open_zip`] returns it.
pub type LobsterMemory = LobsterDay<Cursor<Vec<u8>>, Cursor<Vec<u8>>>;

impl<M: BufRead, B: BufRead> LobsterDay<M, B> {
    /// Reads the two files; `file` names them in errors.
    pub fn new(messages: M, rows: B, file: &str) -> LobsterDay<M, B> {
        LobsterDay {
            messages: Lines::new(messages, &format!("{file} (message)")),
            rows: Lines::new(rows, &format!("{file} (orderbook)")),
        }
    }

    fn read(&mut self) -> Result<Option<(Message, BookRow)>, FlowError> {
        match (self.messages.advance()?, self.rows.advance()?) {
            (false, false) => Ok(None),
            (true, true) => Ok(Some((message(&self.messages)?, row(&self.rows)?))),
            (true, false) => Err(unpaired(&self.rows)),
            (false, true) => Err(unpaired(&self.messages)),
        }
    }
}

impl<M: BufRead, B: BufRead> Iterator for LobsterDay<M, B> {
    type Item = Result<(Message, BookRow), FlowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Opens a day from the vendor's zip with a message and an orderbook file.
///
/// # Errors
/// The file cannot be read, is not a zip, or lacks one of the two members.
pub fn open_zip(path: &Path) -> Result<LobsterMemory, FlowError> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let failed = |source| FlowError::Io { file: name.clone(), source };
    let file = File::open(path).map_err(failed)?;
    let mut archive = zip::ZipArchive::new(BufReader::new(file))
        .map_err(|error| failed(std::io::Error::other(error)))?;
    let mut member = |wanted: &'static str| -> Result<Vec<u8>, FlowError> {
        let named =
            |name: Result<std::borrow::Cow<str>, _>| name.is_ok_and(|name| name.contains(wanted));
        let index = (0..archive.len())
            .find(|index| archive.name_for_index(*index).is_some_and(named))
            .ok_or(FlowError::NoMember { file: name.clone(), wanted })?;
        let entry =
            archive.by_index(index).map_err(|error| failed(std::io::Error::other(error)))?;
        let mut bytes = Vec::new();
        entry.take(MEMBER_LEN_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MEMBER_LEN_MAX {
            return Err(failed(std::io::ErrorKind::FileTooLarge.into()));
        }
        Ok(bytes)
    };
    let (messages, rows) = (member("_message_")?, member("_orderbook_")?);
    Ok(LobsterDay::new(Cursor::new(messages), Cursor::new(rows), &name))
}

fn unpaired<R: BufRead>(shorter: &Lines<R>) -> FlowError {
    FlowError::Unpaired { file: shorter.file().to_owned(), line: shorter.line() + 1 }
}

fn message<R: BufRead>(lines: &Lines<R>) -> Result<Message, FlowError> {
    let mut fields = lines.current().split(|byte| *byte == b',');
    let mut field = |name: &'static str| {
        fields.next().ok_or("missing").map_err(|why| lines.bad(name, why)).map(|text| (name, text))
    };
    let bad = |name: &'static str| move |why| lines.bad(name, why);
    let (name, text) = field("Time")?;
    let ts = u64::try_from(decimal(text, 9).map_err(bad(name))?)
        .map_err(|_| lines.bad(name, "negative"))?;
    let (name, text) = field("Type")?;
    let code = unsigned(text).map_err(bad(name))?;
    let (name, text) = field("Order ID")?;
    let order_id = unsigned(text).map_err(bad(name))?;
    if order_id >= super::model::ANONYMOUS_ID_FIRST {
        return Err(lines.bad(name, "out of range"));
    }
    let (name, text) = field("Size")?;
    let qty = unsigned(text).map_err(bad(name))?;
    let (name, text) = field("Price")?;
    let price = integer(text).map_err(bad(name))?;
    let (name, text) = field("Direction")?;
    let side = match text {
        b"1" => Side::Buy,
        b"-1" => Side::Sell,
        _ => return Err(lines.bad(name, "neither 1 nor -1")),
    };
    let kind = kind(code, price).map_err(bad("Type"))?;
    Ok(Message { ts: Nanos(ts), kind, order_id, qty: Qty(qty), price: Price(price), side })
}

fn kind(code: u64, price: i64) -> Result<MessageKind, &'static str> {
    match (code, price) {
        (1, _) => Ok(MessageKind::Submission),
        (2, _) => Ok(MessageKind::PartialCancel),
        (3, _) => Ok(MessageKind::Deletion),
        (4, _) => Ok(MessageKind::ExecuteVisible),
        (5, _) => Ok(MessageKind::ExecuteHidden),
        (7, -1) => Ok(MessageKind::Halt),
        (7, 0) => Ok(MessageKind::QuoteResume),
        (7, 1) => Ok(MessageKind::TradeResume),
        (7, _) => Err("a halt whose price is none of -1, 0, 1"),
        _ => Err("none of 1, 2, 3, 4, 5, 7"),
    }
}

fn row<R: BufRead>(lines: &Lines<R>) -> Result<BookRow, FlowError> {
    const NAMES: [&str; 4] = ["Ask Price", "Ask Size", "Bid Price", "Bid Size"];
    let mut row = BookRow::default();
    let mut four = [0i64; 4];
    let mut count = 0;
    for (index, text) in lines.current().split(|byte| *byte == b',').enumerate() {
        let name = NAMES[index % 4];
        four[index % 4] = integer(text).map_err(|why| lines.bad(name, why))?;
        count = index + 1;
        if count % 4 != 0 {
            continue;
        }
        row.depth += 1;
        if row.depth > DEPTH_MAX {
            return Err(lines.bad(name, "more levels than a row may have"));
        }
        for (levels, price, size) in
            [(&mut row.asks, four[0], four[1]), (&mut row.bids, four[2], four[3])]
        {
            if price.abs() != NO_LEVEL {
                let qty = u64::try_from(size).map_err(|_| lines.bad(name, "negative size"))?;
                levels.push(Level { price: Price(price), qty: Qty(qty) });
            }
        }
    }
    if count % 4 != 0 {
        return Err(lines.bad(NAMES[count % 4], "missing"));
    }
    let falls = row.bids.windows(2).all(|pair| pair[0].price > pair[1].price);
    let rises = row.asks.windows(2).all(|pair| pair[0].price < pair[1].price);
    if !falls || !rises {
        return Err(lines.bad("Ask Price", "the levels are not in order of price"));
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(messages: &str, rows: &str) -> Vec<Result<(Message, BookRow), FlowError>> {
        LobsterDay::new(messages.as_bytes(), rows.as_bytes(), "test").collect()
    }

    #[test]
    fn a_message_and_its_row_are_read() {
        let got = day(
            "34200.004241176,1,16113575,18,5853300,1\n",
            "5859400,200,5853300,18,9999999999,0,-9999999999,0\n",
        );
        let (message, row) = got[0].as_ref().unwrap();
        assert_eq!(message.ts, Nanos(34_200_004_241_176));
        assert_eq!((message.kind, message.side), (MessageKind::Submission, Side::Buy));
        assert_eq!((row.depth, row.asks.len(), row.bids.len()), (2, 1, 1));
        assert_eq!(row.bids[0], Level { price: Price(5_853_300), qty: Qty(18) });
    }

    #[test]
    fn what_cannot_be_read_names_file_line_and_field() {
        let row = "1,1,0,1";
        for (line, want) in [
            ("1,1,1,1,1", "test (message):1: field Direction: missing"),
            ("x,1,1,1,1,1", "test (message):1: field Time: not a number"),
            ("1,6,1,1,1,1", "test (message):1: field Type: none of 1, 2, 3, 4, 5, 7"),
            ("1,1,-1,1,1,1", "test (message):1: field Order ID: negative"),
            ("1,1,1,1,1,0", "test (message):1: field Direction: neither 1 nor -1"),
        ] {
            assert_eq!(day(line, row)[0].as_ref().unwrap_err().to_string(), want);
        }
        let got = day("1,1,1,1,1,1", "1,1,0");
        let want = "test (orderbook):1: field Bid Size: missing";
        assert_eq!(got[0].as_ref().unwrap_err().to_string(), want);
        assert!(matches!(day("", row)[0], Err(FlowError::Unpaired { line: 1, .. })));
    }
}
