//! The load of a soak: traders at a steady rate, each order of which is answered once.

use std::time::Duration;

use anyhow::ensure;
use serde::Serialize;
use weir_client::clock::WaitStrategy;
use weir_client::load::{
    Arrivals, Generator, Kinds, Listing, LoadPlan, LoadReport, Mix, MixSource, Pace, Schedule,
    Trader,
};
use weir_types::Nanos;

use super::TIMEOUT;
use super::market::Market;
use super::node::Node;

const CONNECTIONS: usize = 4;
/// The most live orders of a trader.
const LIVE_MAX: usize = 500;
const KINDS: Kinds = Kinds { stops: 5, icebergs: 5, gtd: 5, ioc: 0 };

/// The counts of all lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) answered: u64,
    /// Orders that were due while too many were unanswered, and were not sent.
    pub(super) held_back: u64,
    /// Reports of trades, of both sides.
    pub(super) trades: u64,
    pub(super) reports: u64,
}

/// The traders.
pub(super) struct Load {
    traders: Vec<Trader>,
    listings: Vec<Listing>,
    rate: f64,
    /// The number of lives so far; each has a seed of its own.
    life: u64,
    pub(super) counts: Counts,
}

impl Load {
    pub(super) fn new(market: &Market, rate: u32) -> Load {
        Load {
            traders: market.traders.clone(),
            listings: market.listings.clone(),
            rate: f64::from(rate),
            life: 0,
            counts: Counts::default(),
        }
    }

    /// Trades for `length` and leaves no live order.
    pub(super) fn run(&mut self, node: &Node, length: Duration) -> anyhow::Result<()> {
        self.life += 1;
        let mut generator = Generator::connect(node.order_entry(), &self.traders, CONNECTIONS)?;
        let accounts: Vec<_> = self.traders.iter().map(|trader| trader.account_id).collect();
        let mut source = MixSource::new(Mix::default(), self.listings.clone(), &accounts, LIVE_MAX)
            .with_kinds(KINDS);
        source.begin(Schedule::new(Arrivals::Poisson, self.rate, self.life), self.life);
        let plan = LoadPlan {
            pace: Pace::Open,
            warm_up: Duration::ZERO,
            duration: length,
            wait: WaitStrategy::Park,
            // Nothing is timed here.
            late_after: Nanos(u64::MAX),
            late_share_max: 1.0,
        };
        let report = generator.run(&plan, &mut source, &mut |_| {})?;
        generator.close(TIMEOUT)?;
        self.add(&report)
    }

    fn add(&mut self, report: &LoadReport) -> anyhow::Result<()> {
        let counts = report.counts;
        self.counts.sent += counts.sent;
        self.counts.answered += counts.answered;
        self.counts.held_back += counts.held_back;
        self.counts.trades += counts.trades;
        self.counts.reports += counts.reports;
        let is_answered_once =
            counts.sent == counts.answered && counts.unanswered == 0 && counts.answered_again == 0;
        ensure!(is_answered_once, "not each request was answered once: {counts:?}");
        ensure!(counts.answered > 0 && counts.trades > 0, "nothing was traded: {counts:?}");
        Ok(())
    }
}
