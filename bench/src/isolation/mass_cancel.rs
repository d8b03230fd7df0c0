//! A session with many live orders that cancels all of them with one request, once in each run: it
//! enters the orders before the run, and stays after it until the last report of the cancel.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use weir_client::request::{LimitOrder, cancel_all};
use weir_client::session::SessionEvent;
use weir_client::{Client, Incoming};
use weir_types::{ClOrdId, ExecType, Side};

use super::history::settle;
use super::party::{FLOOD_UNANSWERED_MAX, Party, log_on, order, submit};
use super::rig::{CANCELLER, FIRST_INSTRUMENT, TRADING};

/// The prices over which the orders spread, all of them below those of the good sessions.
const PRICES: u64 = 1_000;
/// The orders that are sent before their answers are read.
const BURST: u64 = 500;
/// The longest wait for the reports of a cancel.
const SWEPT_WITHIN: Duration = Duration::from_secs(120);

/// The session that cancels.
pub(super) struct Canceller {
    order_count: u64,
    delay: Duration,
    client: Option<Client>,
    /// The time of the cancel, until it is sent.
    due: Option<Instant>,
    live: u64,
    done: u64,
}

impl Canceller {
    /// Cancels `order_count` orders `delay` after it has entered them.
    pub(super) fn new(order_count: usize, delay: Duration) -> Canceller {
        let order_count = order_count as u64;
        Canceller { order_count, delay, client: None, due: None, live: 0, done: 0 }
    }

    fn enter_orders(&mut self, client: &mut Client) -> anyhow::Result<()> {
        // Entering takes longer than a nanosecond an order: names are unique.
        let first_name = weir_client::clock::unix_time().0;
        for number in 0..self.order_count {
            let price = 1 + i64::try_from(number % PRICES).expect("a small price");
            let order = order(CANCELLER, FIRST_INSTRUMENT, Side::Buy, price, 1);
            let cl_ord_id = ClOrdId::from_number(first_name + number);
            let order = LimitOrder { cl_ord_id, ..order };
            submit(client, CANCELLER, order.request())?;
            if (number + 1).is_multiple_of(BURST) {
                settle(client, BURST as usize)?;
            }
        }
        settle(client, 0)?;
        self.live = self.order_count;
        Ok(())
    }

    /// Reads reports for at most `timeout`, after it has sent a cancel that is due.
    fn work(&mut self, timeout: Duration) -> anyhow::Result<()> {
        let Some(client) = &mut self.client else {
            std::thread::sleep(timeout);
            return Ok(());
        };
        if self.due.take_if(|due| *due <= Instant::now()).is_some() {
            submit(client, CANCELLER, cancel_all(TRADING))?;
        }
        let mut cancelled = 0;
        client.poll(timeout, |incoming, _| {
            if let Incoming::Session(_, SessionEvent::Report { report, .. }) = incoming {
                cancelled += u64::from(report.event.exec_type == ExecType::Canceled);
            }
        })?;
        self.live = self.live.saturating_sub(cancelled);
        self.done += cancelled;
        Ok(())
    }
}

impl Party for Canceller {
    fn turn(&mut self, node: Option<SocketAddr>, _: bool) -> anyhow::Result<()> {
        let left = Instant::now();
        self.due = self.due.map(|_| left);
        while self.live > 0 {
            let live = self.live;
            ensure!(left.elapsed() < SWEPT_WITHIN, "{live} orders are not cancelled");
            self.work(Duration::from_millis(100))?;
        }
        self.client = None;
        if let Some(node) = node {
            let mut client = log_on(node, CANCELLER, FLOOD_UNANSWERED_MAX)?;
            self.enter_orders(&mut client)?;
            self.client = Some(client);
            self.due = Some(Instant::now() + self.delay);
        }
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<()> {
        self.work(Duration::from_millis(5))
    }

    fn done(&self) -> u64 {
        self.done
    }
}
