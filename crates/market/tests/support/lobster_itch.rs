//! A LOBSTER day as Nasdaq would have sent it: ITCH 5.0 messages in MoldUDP64 packets.
//!
//! The input is the normal form of `weir_client::flow`, whose events, applied by order number
//! alone, yield the day's rows. Orders from before the file, or that come into view at its depth,
//! are added like any order; those that go out of view are cancelled. Times are LOBSTER's, since
//! midnight.
//!
//! | event | message |
//! | --- | --- |
//! | `Seed`, `Add` | `A` |
//! | `ExecuteVisible`, `Fill` | `E` |
//! | `PartialCancel` | `X` |
//! | `Delete` | `D` |
//! | `Vanish` | `X`, or `D` when nothing is left |
//! | `HiddenExecution` | `P` |
//! | `Halt`, `QuoteResume`, `TradeResume` | `H` |

use std::collections::HashMap;

use weir_client::flow::{FlowEvent, FlowKind};
use weir_feed::itch::encode;
use weir_feed::itch::encode::{Header, stock};
use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome};
use weir_types::Side;

/// Converts the events of one instrument to messages.
pub struct Transcoder {
    stock: [u8; 8],
    stock_locate: u16,
    standing: HashMap<u64, u64>,
    match_number: u64,
}

impl Transcoder {
    /// Creates a transcoder for an instrument with up to eight letters and this number.
    pub fn new(symbol: &str, stock_locate: u16) -> Transcoder {
        let stock = stock(symbol).expect("a symbol of up to eight letters");
        Transcoder { stock, stock_locate, standing: HashMap::new(), match_number: 0 }
    }

    /// Passes `tell` the first messages of a day: start of messages, the instrument, and its
    /// trading state.
    pub fn begin(&self, mut tell: impl FnMut(&[u8])) {
        let event = encode::SystemEvent { event_code: b'O' };
        tell(&event.to_bytes(&Header::default()));
        let directory = encode::StockDirectory {
            stock: self.stock,
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
        };
        tell(&directory.to_bytes(&self.header(0)));
        tell(&self.trading_action(b'T').to_bytes(&self.header(0)));
    }

    /// Passes `tell` the message of an event.
    pub fn event(&mut self, event: &FlowEvent, mut tell: impl FnMut(&[u8])) {
        let header = self.header(event.ts.0);
        let order_reference = event.source_order_id;
        let shares = u32::try_from(event.qty.0).expect("shares of an order fit 32 bits");
        match event.kind {
            FlowKind::Seed | FlowKind::Add => {
                self.standing.insert(order_reference, event.qty.0);
                let price = price(event);
                let (side, stock) = (side(event.side), self.stock);
                let add = encode::AddOrder { order_reference, side, shares, stock, price };
                tell(&add.to_bytes(&header));
            }
            FlowKind::ExecuteVisible | FlowKind::Fill => {
                self.leave(event);
                let (executed_shares, match_number) = (shares, self.next_match());
                let executed =
                    encode::OrderExecuted { order_reference, executed_shares, match_number };
                tell(&executed.to_bytes(&header));
            }
            FlowKind::PartialCancel | FlowKind::Delete | FlowKind::Vanish => {
                if self.leave(event) == 0 {
                    tell(&encode::OrderDelete { order_reference }.to_bytes(&header));
                } else {
                    let cancelled_shares = shares;
                    let cancel = encode::OrderCancel { order_reference, cancelled_shares };
                    tell(&cancel.to_bytes(&header));
                }
            }
            FlowKind::HiddenExecution => tell(&self.trade(event, shares).to_bytes(&header)),
            FlowKind::Halt => tell(&self.trading_action(b'H').to_bytes(&header)),
            FlowKind::QuoteResume => tell(&self.trading_action(b'Q').to_bytes(&header)),
            FlowKind::TradeResume => tell(&self.trading_action(b'T').to_bytes(&header)),
        }
    }

    fn header(&self, timestamp: u64) -> Header {
        Header { stock_locate: self.stock_locate, tracking_number: 0, timestamp }
    }

    fn trading_action(&self, trading_state: u8) -> encode::StockTradingAction {
        let (stock, reason) = (self.stock, *b"    ");
        encode::StockTradingAction { stock, trading_state, reserved: b' ', reason }
    }

    fn trade(&mut self, event: &FlowEvent, shares: u32) -> encode::Trade {
        encode::Trade {
            order_reference: 0,
            side: b'B',
            shares,
            stock: self.stock,
            price: price(event),
            match_number: self.next_match(),
        }
    }

    fn next_match(&mut self) -> u64 {
        self.match_number += 1;
        self.match_number
    }

    /// Returns the quantity left of the event's order after it.
    fn leave(&mut self, event: &FlowEvent) -> u64 {
        let standing = self.standing.get_mut(&event.source_order_id).expect("an order that stands");
        *standing = standing.checked_sub(event.qty.0).expect("no more than stands");
        let left = *standing;
        if left == 0 {
            self.standing.remove(&event.source_order_id);
        }
        left
    }
}

fn price(event: &FlowEvent) -> u32 {
    u32::try_from(event.price.0).expect("a price of ITCH fits 32 bits")
}

fn side(side: Side) -> u8 {
    match side {
        Side::Buy => b'B',
        Side::Sell => b'S',
    }
}

/// Packs messages into datagrams of at most `len_max` bytes, and ends the session.
pub struct Datagrams {
    writer: PacketWriter,
    /// The datagrams so far.
    pub sent: Vec<Vec<u8>>,
}

impl Datagrams {
    /// Creates a packer for this session, from message 1 on.
    pub fn new(session: &str, len_max: usize) -> Datagrams {
        let session = MoldSession::new(session).expect("a session's name");
        Datagrams { writer: PacketWriter::new(session, 1, len_max), sent: Vec::new() }
    }

    /// Adds the next message.
    pub fn push(&mut self, message: &[u8]) {
        let pushed = self.writer.push(message);
        if pushed == PushOutcome::Full {
            self.flush();
            assert_eq!(self.writer.push(message), PushOutcome::Added);
        } else {
            assert_eq!(pushed, PushOutcome::Added);
        }
    }

    /// Flushes the partly filled datagram.
    pub fn flush(&mut self) {
        let Datagrams { writer, sent } = self;
        writer.take(|datagram| sent.push(datagram.to_vec()));
    }

    /// Flushes the partly filled datagram, and adds the end of the session.
    pub fn end(mut self) -> Vec<Vec<u8>> {
        self.flush();
        self.sent.push(self.writer.end_of_session().to_vec());
        self.sent
    }
}
