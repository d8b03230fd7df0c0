//! `weir market watch --shm`: what a gateway on this machine writes to its ring in shared memory.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use weir_client::{MarketRing, RingEvent};
use weir_feed::SymbolText;
use weir_market::conflate::Pattern;
use weir_types::InstrumentId;
use weir_wire::market_dialogue::MarketMessage;

use super::market::{Names, Wish};

/// Messages taken at once.
const MESSAGES_MAX: usize = 1_024;
/// How long to rest when nothing came: people read this.
const REST: Duration = Duration::from_millis(1);

/// What is shown of what the ring holds.
pub(super) struct Shown<'a> {
    pub pattern: Pattern,
    pub content: &'a [Wish],
    /// End after so many; zero for never.
    pub messages: u64,
}

impl Shown<'_> {
    fn has(&self, message: &MarketMessage<'_>, names: &Names) -> bool {
        let of = |id: InstrumentId, wishes: &[Wish]| {
            let symbol = SymbolText::new(names.symbol(id).as_bytes());
            wishes.iter().any(|wish| self.content.contains(wish))
                && symbol.is_some_and(|symbol| self.pattern.matches(&symbol))
        };
        match message {
            MarketMessage::Quote(one) => of(one.instrument_id, &[Wish::Bbo]),
            MarketMessage::Trade(one) => of(one.instrument_id, &[Wish::Trades]),
            MarketMessage::Status(one) => of(one.instrument_id, &[Wish::Status]),
            MarketMessage::Statistics(one) => of(one.instrument_id, &[Wish::Statistics]),
            MarketMessage::Levels(one, _) => of(one.instrument_id, &[Wish::Depth, Wish::Levels]),
            MarketMessage::Orders(one, _) => of(one.instrument_id, &[Wish::Orders]),
            MarketMessage::Order(one) => of(one.instrument_id, &[Wish::Orders]),
            _ => true,
        }
    }
}

/// Prints what comes.
///
/// # Errors
/// When the ring is not there or the terminal does not take it.
pub(super) fn watch(path: &Path, shown: &Shown<'_>) -> anyhow::Result<()> {
    let mut ring = MarketRing::new(path);
    let (mut names, mut count, mut is_open) = (Names::default(), 0, false);
    let mut out = std::io::stdout().lock();
    loop {
        let mut lines = String::new();
        let taken = ring.poll(MESSAGES_MAX, |event| match event {
            RingEvent::Opened => is_open = true,
            RingEvent::Message(message @ MarketMessage::Instrument(..)) => {
                names.line(message, &mut lines);
            }
            RingEvent::Message(message) if shown.has(message, &names) => {
                count += u64::from(names.line(message, &mut lines));
            }
            RingEvent::Message(_) => {}
            RingEvent::Lost => lines.push_str("messages were lost; snapshots follow\n"),
            RingEvent::Closed => lines.push_str("the gateway is gone\n"),
        });
        out.write_all(lines.as_bytes())?;
        out.flush()?;
        if let (Some(failure), false) = (ring.take_failure(), is_open) {
            anyhow::bail!("{failure}");
        }
        if shown.messages > 0 && count >= shown.messages {
            return Ok(());
        }
        if taken == 0 {
            std::thread::sleep(REST);
        }
    }
}
