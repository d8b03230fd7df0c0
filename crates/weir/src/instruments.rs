//! The node's instruments by identifier: symbols, and prices and quantities as decimals.
//!
//! They come from the status page. An instrument that is not on it has its number for a symbol, and
//! prices and quantities as the integers of the protocol.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_client::status::{InstrumentStatus, StatusPage};
use weir_types::{InstrumentId, Price, Qty};

use super::endpoint::{Endpoint, decimal};

/// The shortest time between two reads of the status page.
const REFRESH: Duration = Duration::from_secs(1);

/// The instruments of a node.
pub(crate) struct Instruments {
    all: HashMap<InstrumentId, InstrumentStatus>,
    http: String,
    read_at: Instant,
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
        Instruments { all: HashMap::new(), http: endpoint.http(), read_at: Instant::now() }
    }

    fn take(&mut self, page: StatusPage) {
        self.all = page.instruments.into_iter().map(|one| (one.instrument_id(), one)).collect();
    }

    /// Reads the page again for an instrument that was not on it, at most once a second.
    pub(crate) fn refresh_for(&mut self, id: InstrumentId) {
        let is_known = id.is_none() || self.all.contains_key(&id);
        if is_known || self.read_at.elapsed() < REFRESH {
            return;
        }
        self.read_at = Instant::now();
        if let Ok(page) = StatusPage::fetch(&self.http) {
            self.take(page);
        }
    }

    /// The symbol; empty for no instrument.
    pub(crate) fn symbol(&self, id: InstrumentId) -> String {
        match self.all.get(&id) {
            Some(one) => one.symbol.clone(),
            None if id.is_none() => String::new(),
            None => id.to_string(),
        }
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
