//! The decoders compared, each reading the same fields of the same messages.

use std::ops::ControlFlow;

use itch5::{MessageHandler, messages as theirs};
use itchy::{Body, MessageStream};
use weir_feed::capture::{Record, next_record};
use weir_feed::itch::{Itch, Message};
use weir_feed::moldudp64::next_message;
use weir_feed::{Action, Context, Definition, Feed, UpdateSink, Update};
use weir_types::Nanos;

/// The sums over the fields read: of orders added (attributed or not), deleted, executed at their
/// price, reduced and replaced, and of trades. Prices in 10^-4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub messages: u64,
    orders: u64,
    shares: u64,
    prices: u64,
    times: u64,
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, order: u64, shares: u32, price: u64, time: u64) {
        self.orders = self.orders.wrapping_add(order);
        self.shares = self.shares.wrapping_add(u64::from(shares));
        self.prices = self.prices.wrapping_add(price);
        self.times = self.times.wrapping_add(time);
    }
}

/// The decoders by name.
pub const SIDES: [(&str, fn(&[u8]) -> Sums); 5] = [
    ("weir_views", weir_views),
    ("weir_updates", weir_updates),
    ("weir_file", weir_file),
    ("itch5", itch5_handler),
    ("itchy", itchy_stream),
];

#[inline(always)]
fn sum_view(sums: &mut Sums, message: &[u8]) {
    sums.messages += 1;
    match Message::new(message).expect("a good message") {
        Message::AddOrder(m) => {
            sums.add(m.order_reference(), m.shares(), u64::from(m.price()), m.timestamp());
        }
        Message::AddOrderWithMpid(m) => {
            sums.add(m.order_reference(), m.shares(), u64::from(m.price()), m.timestamp());
        }
        Message::OrderDelete(m) => sums.add(m.order_reference(), 0, 0, m.timestamp()),
        Message::OrderExecuted(m) => {
            sums.add(m.order_reference(), m.executed_shares(), 0, m.timestamp());
        }
        Message::OrderCancel(m) => {
            sums.add(m.order_reference(), m.cancelled_shares(), 0, m.timestamp());
        }
        Message::OrderReplace(m) => {
            sums.add(m.new_order_reference(), m.shares(), u64::from(m.price()), m.timestamp());
        }
        Message::Trade(m) => sums.add(0, m.shares(), u64::from(m.price()), m.timestamp()),
        _ => {}
    }
}

fn weir_views(bytes: &[u8]) -> Sums {
    let mut sums = Sums::default();
    let mut rest = bytes;
    while let Ok((message, after)) = next_message(rest) {
        sum_view(&mut sums, message);
        rest = after;
    }
    sums
}

fn weir_file(bytes: &[u8]) -> Sums {
    let mut sums = Sums::default();
    let mut rest = bytes;
    loop {
        match next_record(rest, 0, true).expect("the file is whole") {
            Record::Message { used, message } => {
                sum_view(&mut sums, message);
                rest = &rest[used..];
            }
            Record::EndOfSession { used } => rest = &rest[used..],
            Record::More { .. } | Record::End => return sums,
        }
    }
}

struct Summing(Sums);

impl UpdateSink for Summing {
    fn define(&mut self, _: &Definition) {}

    #[inline]
    fn update(&mut self, update: Update) {
        let (order, size, price) = match update.action {
            Action::Add { order_id, size, price, .. } => (order_id, size, price.0),
            Action::Replace { new_order_id, size, price, .. } => (new_order_id, size, price.0),
            Action::Delete { order_id } => (order_id, weir_types::Qty(0), 0),
            Action::Reduce { order_id, size } => (order_id, size, 0),
            Action::Execute { order_id, size, price: None, .. } => (order_id, size, 0),
            Action::Trade { size, price, .. } => (0, size, price.0),
            _ => return,
        };
        // In 10^-9 here; converted to 10^-4 at the end.
        self.0.add(order, size.0 as u32, price as u64, update.ts_event.0);
    }
}

fn weir_updates(bytes: &[u8]) -> Sums {
    let mut itch = Itch::new(Nanos(0));
    let mut sink = Summing(Sums::default());
    let mut rest = bytes;
    let mut sequence = 0;
    while let Ok((message, after)) = next_message(rest) {
        sequence += 1;
        let context = Context { sequence, channel: 0, ts_send: Nanos(0) };
        itch.decode(&context, message, &mut sink).expect("a good message");
        rest = after;
    }
    Sums { messages: sequence, prices: sink.0.prices / 100_000, ..sink.0 }
}

struct Handler(Sums);

/// Makes methods that sum up a message of one type and count it.
macro_rules! summing {
    ($($method:ident: $kind:ident, $order:ident, $shares:ident $(, $price:ident)?;)*) => {
        $(
            #[inline]
            fn $method(&mut self, m: &theirs::$kind) -> ControlFlow<()> {
                let price = 0 $(+ u64::from(m.$price().into_u32()))?;
                self.0.messages += 1;
                self.0.add(m.$order(), m.$shares(), price, m.timestamp().to_u64());
                ControlFlow::Continue(())
            }
        )*
    };
}

/// Makes methods that count a message.
macro_rules! counting {
    ($($method:ident: $kind:ident;)*) => {
        $(
            #[inline]
            fn $method(&mut self, _: &theirs::$kind) -> ControlFlow<()> {
                self.0.messages += 1;
                ControlFlow::Continue(())
            }
        )*
    };
}

impl MessageHandler for Handler {
    summing! {
        on_add_order_no_mpid_attribution: AddOrderNoMPIDAttribution, order_reference_number, shares,
            price;
        on_add_order_with_mpid_attribution: AddOrderWithMPIDAttribution, order_reference_number,
            shares, price;
        on_order_executed: OrderExecuted, order_reference_number, executed_shares;
        on_order_cancel: OrderCancel, order_reference_number, cancelled_shares;
        on_order_replace: OrderReplace, new_order_reference_number, shares, price;
    }

    counting! {
        on_system_event: SystemEvent;
        on_stock_directory: StockDirectory;
        on_stock_trading_action: StockTradingAction;
        on_reg_sho_restriction: RegSHORestriction;
        on_market_participant_position: MarketParticipantPosition;
        on_mwcb_decline_level: MWCBDeclineLevel;
        on_mwcb_status: MWCBStatus;
        on_quoting_period_update: QuotingPeriodUpdate;
        on_luld_auction_collar: LULDAuctionCollar;
        on_operational_halt: OperationalHalt;
        on_order_executed_with_price: OrderExecutedWithPrice;
        on_cross_trade: CrossTrade;
        on_broken_trade: BrokenTrade;
        on_net_order_imbalance_indicator: NetOrderImbalanceIndicator;
        on_retail_price_improvement_indicator: RetailPriceImprovementIndicator;
        on_direct_listing_with_capital_raise_price_discovery:
            DirectListingwithCapitalRaisePriceDiscovery;
    }

    #[inline]
    fn on_order_delete(&mut self, m: &theirs::OrderDelete) -> ControlFlow<()> {
        self.0.messages += 1;
        self.0.add(m.order_reference_number(), 0, 0, m.timestamp().to_u64());
        ControlFlow::Continue(())
    }

    #[inline]
    fn on_trade(&mut self, m: &theirs::Trade) -> ControlFlow<()> {
        self.0.messages += 1;
        let price = u64::from(m.price().into_u32());
        self.0.add(0, m.shares(), price, m.timestamp().to_u64());
        ControlFlow::Continue(())
    }
}

fn itch5_handler(bytes: &[u8]) -> Sums {
    let mut handler = Handler(Sums::default());
    itch5::Parser::new(bytes).parse_stream(&mut handler).expect("good messages");
    handler.0
}

fn itchy_stream(bytes: &[u8]) -> Sums {
    let mut sums = Sums::default();
    for message in MessageStream::from_reader(bytes) {
        let message = message.expect("a good message");
        sums.messages += 1;
        let (order, shares, price) = match message.body {
            Body::AddOrder(m) => (m.reference, m.shares, m.price.raw()),
            Body::DeleteOrder { reference } => (reference, 0, 0),
            Body::OrderExecuted { reference, executed, .. } => (reference, executed, 0),
            Body::OrderCancelled { reference, cancelled } => (reference, cancelled, 0),
            Body::ReplaceOrder(m) => (m.new_reference, m.shares, m.price.raw()),
            Body::NonCrossTrade(m) => (0, m.shares, m.price.raw()),
            _ => continue,
        };
        sums.add(order, shares, u64::from(price), message.timestamp);
    }
    sums
}
