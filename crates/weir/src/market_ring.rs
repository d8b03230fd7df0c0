//! `weir market watch --shm`: messages of a gateway on this machine, from its ring in shared
//! memory.

use std::path::Path;
use std::time::Duration;

use weir_client::{MarketRing, RingEvent};
use weir_feed::SymbolText;
use weir_market::conflate::Pattern;
use weir_types::InstrumentId;
use weir_wire::market_dialogue::MarketMessage;

use super::market::{Printer, SubscriptionArg};
use super::market_line::Names;

/// Messages taken at once.
const MESSAGES_MAX: usize = 1_024;
/// The pause after an empty poll: people read this.
const REST: Duration = Duration::from_millis(1);

/// The part of the ring's messages that is printed.
pub(super) struct Shown<'a> {
    pub pattern: Pattern,
    pub content: &'a [SubscriptionArg],
}

impl Shown<'_> {
    fn has(&self, message: &MarketMessage<'_>, names: &Names) -> bool {
        let of = |id: InstrumentId, args: &[SubscriptionArg]| {
            let symbol = SymbolText::new(names.symbol(id).as_bytes());
            args.iter().any(|arg| self.content.contains(arg))
                && symbol.is_some_and(|symbol| self.pattern.matches(&symbol))
        };
        match message {
            MarketMessage::Quote(one) => of(one.instrument_id, &[SubscriptionArg::Bbo]),
            MarketMessage::Trade(one) => of(one.instrument_id, &[SubscriptionArg::Trades]),
            MarketMessage::Status(one) => of(one.instrument_id, &[SubscriptionArg::Status]),
            MarketMessage::Statistics(one) => of(one.instrument_id, &[SubscriptionArg::Statistics]),
            MarketMessage::Levels(one, _) => {
                of(one.instrument_id, &[SubscriptionArg::Depth, SubscriptionArg::Levels])
            }
            MarketMessage::Orders(one, _) => of(one.instrument_id, &[SubscriptionArg::Orders]),
            MarketMessage::Order(one) => of(one.instrument_id, &[SubscriptionArg::Orders]),
            _ => true,
        }
    }
}

/// Prints messages of the ring as they come.
///
/// # Errors
/// When the ring is not there or the terminal does not take it.
pub(super) fn watch(path: &Path, shown: &Shown<'_>, mut printer: Printer) -> anyhow::Result<()> {
    let mut ring = MarketRing::new(path);
    let mut is_open = false;
    loop {
        let taken = ring.poll(MESSAGES_MAX, |event| match event {
            RingEvent::Opened => is_open = true,
            RingEvent::Message(message) => {
                let is_name = matches!(message, MarketMessage::Instrument(..));
                if is_name || shown.has(message, printer.names()) {
                    printer.take(message);
                }
            }
            RingEvent::Lost => eprintln!("weir: messages were lost; snapshots follow"),
            RingEvent::Closed => eprintln!("weir: the gateway has ended"),
        });
        if printer.flush()? {
            return Ok(());
        }
        if let (Some(failure), false) = (ring.take_failure(), is_open) {
            anyhow::bail!("{failure}");
        }
        if taken == 0 {
            std::thread::sleep(REST);
        }
    }
}
