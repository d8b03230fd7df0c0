//! The node's instruments by identifier: symbols, and prices and quantities as decimals.
//!
//! They come from the status page. An instrument that is not on it has its number for a symbol, and
//! prices and quantities as the integers of the protocol.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use weir_client::status::{InstrumentStatus, StatusPage};
use weir_types::{InstrumentId, Price, Qty, decimal};
use weir_web::order_json::Scale;

use super::endpoint::Endpoint;

/// The shortest time between two reads of the status page.
const REFRESH: Duration = Duration::from_secs(1);
/// The longest time until a definition is on the status page, and the pause between reads of it.
const PAGE_LAG_MAX: Duration = Duration::from_millis(300);
const PAGE_PAUSE: Duration = Duration::from_millis(20);

/// The instruments of a node.
pub(crate) struct Instruments {
    all: HashMap<InstrumentId, InstrumentStatus>,
    http: String,
    read_at: Instant,
    /// Instruments that were not on the page when they were looked for.
    absent: HashSet<InstrumentId>,
}

impl Instruments {
    /// Reads the status page.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn fetch(endpoint: &Endpoint) -> anyhow::Result<Instruments> {
        let mut instruments = Instruments::none(endpoint);
        instruments.take(endpoint.status()?);
        Ok(instruments)
    }

    /// Reads the status page if it is there; without it prices are integers.
    pub(crate) fn fetch_if_there(endpoint: &Endpoint) -> Instruments {
        let mut instruments = Instruments::none(endpoint);
        if let Ok(page) = endpoint.status() {
            instruments.take(page);
        }
        instruments
    }

    fn none(endpoint: &Endpoint) -> Instruments {
        let (http, read_at) = (endpoint.http(), Instant::now());
        Instruments { all: HashMap::new(), http, read_at, absent: HashSet::new() }
    }

    fn take(&mut self, page: StatusPage) {
        self.all = page.instruments.into_iter().map(|one| (one.instrument_id(), one)).collect();
    }

    /// Reads the page again before an instrument is shown, at most once a second: it may have been
    /// renamed. One that is not on the page and is looked for the first time may just have been
    /// defined: its definition is waited for.
    pub(crate) fn refresh_for(&mut self, id: InstrumentId) {
        let is_new = !id.is_none() && !self.all.contains_key(&id) && self.absent.insert(id);
        let is_first = is_new && self.absent.len() == 1;
        if id.is_none() || !is_first && self.read_at.elapsed() < REFRESH {
            return;
        }
        let begun = Instant::now();
        while let Ok(page) = StatusPage::fetch(&self.http) {
            self.take(page);
            if !is_new || self.all.contains_key(&id) || begun.elapsed() >= PAGE_LAG_MAX {
                break;
            }
            std::thread::sleep(PAGE_PAUSE);
        }
        self.read_at = Instant::now();
    }

    /// The symbol; empty for no instrument.
    pub(crate) fn symbol(&self, id: InstrumentId) -> String {
        match self.all.get(&id) {
            Some(one) => one.symbol.clone(),
            None if id.is_none() => String::new(),
            None => id.to_string(),
        }
    }

    /// The symbol as a value of JSON; null for an instrument that is not on the page.
    pub(crate) fn symbol_json(&self, id: InstrumentId) -> serde_json::Value {
        self.all.get(&id).map(|one| one.symbol.clone()).into()
    }

    /// The symbol and the exponents; none for an instrument that is not on the page.
    pub(crate) fn scale(&self, id: InstrumentId) -> Option<Scale> {
        self.all.get(&id).map(|one| Scale {
            symbol: one.symbol.clone(),
            price_exponent: one.price_exponent,
            qty_exponent: one.qty_exponent,
        })
    }

    /// The exponent of prices.
    pub(crate) fn price_exponent(&self, id: InstrumentId) -> i8 {
        self.all.get(&id).map_or(0, |one| one.price_exponent)
    }

    /// A price as a decimal.
    pub(crate) fn price(&self, id: InstrumentId, price: Price) -> String {
        decimal(i128::from(price.0), self.price_exponent(id))
    }

    /// A quantity as a decimal.
    pub(crate) fn qty(&self, id: InstrumentId, qty: Qty) -> String {
        self.lots(id, i128::from(qty.0))
    }

    /// Lots, also below zero, as a decimal.
    pub(crate) fn lots(&self, id: InstrumentId, lots: i128) -> String {
        decimal(lots, self.all.get(&id).map_or(0, |one| one.qty_exponent))
    }
}
