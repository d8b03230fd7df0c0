//! Traders and a follower of one node over all its lives, and the checks on them at rest.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use weir_client::clock::wait;
use weir_client::load::Rng;
use weir_types::SessionId;

use crate::audit;
use crate::copies::CopyReader;
use crate::leaver::{LEAVER, Leaver};
use crate::support::copying::desk_of;
use crate::support::following::{Following, latest_states};
use crate::support::{HANG, Home, Node, SUPERVISOR, TRADING, Who, definition_of, trader_of, until};
use crate::trader::LoadedTrader;

pub const TRADERS: [Who; 4] = [trader_of(21), trader_of(22), trader_of(23), trader_of(24)];

/// All of the market's traders.
pub const MARKET: [Who; 5] = [TRADERS[0], TRADERS[1], TRADERS[2], TRADERS[3], LEAVER];

/// Receives the copies of the first trader's firm.
const DESK: Who = desk_of(31, TRADERS[0].firm_id);
/// Receives the copies of all firms.
const AUDITOR: Who = Who { session_id: SessionId(32), ..SUPERVISOR };

/// Small segments and frequent snapshots: recovery meets many of both. Little time to return.
pub const SMALL_FILES: &str = "[log]\nsegment_bytes = 1048576\n\
                               [events]\nsegment_bytes = 1048576\n\
                               [snapshots]\nevery_commands = 2000\n\
                               [gateway]\nreturn_within_ms = 100\n";

/// Returns a number from the environment, such as `WEIR_SEED`.
pub fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

pub struct Party {
    pub traders: Vec<LoadedTrader>,
    pub following: Following,
    desk: CopyReader,
    auditor: CopyReader,
    leaver: Leaver,
}

impl Party {
    /// Logs all clients on, each with its own random stream.
    pub fn log_on(node: &Node, seed: u64) -> Party {
        let traders = (1..).zip(TRADERS);
        let traders =
            traders.map(|(i, who)| LoadedTrader::log_on(node, who, Rng::new(seed * 100 + i)));
        let traders = traders.collect();
        let mut admin = node.admin();
        for who in [DESK, AUDITOR] {
            admin.define_session(definition_of(&who)).unwrap();
        }
        admin.close().unwrap();
        let [desk, auditor] = [DESK, AUDITOR].map(|who| CopyReader::start(node, who));
        let following = Following::start(node, SUPERVISOR, Vec::new());
        let mut leaver = Leaver::default();
        leaver.trade(node);
        Party { traders, following, desk, auditor, leaver }
    }

    /// Loads the node until it is gone.
    pub fn trade_to_the_end(&mut self) {
        while self.traders.iter().any(LoadedTrader::is_connected) {
            for trader in self.traders.iter_mut().filter(|trader| trader.is_connected()) {
                trader.fill_window();
                trader.receive();
            }
            self.follow();
            self.desk.take(Duration::ZERO);
            self.auditor.take(Duration::ZERO);
            let connected = self.traders.iter().filter(|trader| trader.is_connected());
            let connections = connected.map(|trader| trader.client().connection());
            wait(connections, Duration::from_millis(5)).unwrap();
        }
    }

    fn follow(&mut self) {
        if let Err(error) = self.following.poll(Duration::ZERO) {
            assert!(error.is_connection_lost(), "the follower: {error}");
        }
    }

    /// Reads the log of a node that has just started, and notes the received events that it lost.
    pub fn look_for_losses(&mut self, home: &Home) {
        let history = audit::history_of(home);
        for trader in &mut self.traders {
            trader.lost_from = audit::lost_from(&history, &trader.ledger);
        }
    }

    /// Reconnects all clients, each trader in the given way.
    pub fn reconnect(&mut self, address: SocketAddr, way: fn(&mut LoadedTrader, SocketAddr)) {
        for trader in &mut self.traders {
            way(trader, address);
        }
        self.desk.go_on(address);
        self.auditor.go_on(address);
        if let Err(error) = self.following.go_on(address) {
            assert!(error.is_connection_lost(), "the follower: {error}");
        }
    }

    /// Waits until the answer to every request has been received.
    pub fn settle(&mut self) {
        for _ in 0..2 {
            // The second fence comes after all effects of other traders' requests before the first.
            for trader in &mut self.traders {
                trader.send_fence();
            }
            for trader in &mut self.traders {
                let begun = std::time::Instant::now();
                while trader.unanswered_count() > 0 {
                    wait([trader.client().connection()], Duration::from_millis(20)).unwrap();
                    trader.receive();
                    assert!(begun.elapsed() < HANG, "{:?} has no answers", trader.who);
                }
            }
        }
    }

    /// Compares all clients' states at rest. Returns the partition's row of the status page.
    pub fn audit(&mut self, home: &Home, node: &Node) -> Value {
        let left = self.leaver.check(home);
        self.settle();
        // At level `memory` the files lag the answers by some milliseconds.
        let (verified, row) = until("the same position in files and figures", || {
            let verified = home.verify(TRADING);
            let row = node.partition_when(TRADING, |_| true);
            (row["position"] == verified["position"]).then_some((verified, row))
        });
        assert_eq!(row["digest"], verified["digest"], "the log's digest is the node's");
        let ledgers: Vec<_> = self.traders.iter().map(|trader| &trader.ledger).collect();
        audit::check_against_log(home, &ledgers);
        audit::check_fills(&ledgers);
        self.desk.check_against(&ledgers[..1]);
        self.auditor.check_against(&ledgers);
        let events = ledgers.iter().flat_map(|ledger| ledger.order_events());
        self.following.until(&latest_states(events.chain(&left)));
        self.leaver.trade(node);
        row
    }

    /// Returns the sum of a figure over the traders.
    pub fn sum(&self, of: fn(&LoadedTrader) -> u64) -> u64 {
        self.traders.iter().map(of).sum()
    }

    /// Returns a summary of the work done; the audits have asserted that nothing was lost or
    /// executed twice.
    pub fn summary(&self) -> String {
        format!(
            "{} requests, all of them answered; sent again: {} without an answer, {} with one; \
             events: {} heard, {} answers first told by resume, {} told again; \
             copies: {} of one firm's, {} of all, {} lost at {} refusals",
            self.sum(|t| t.ledger.sent.len() as u64),
            self.sum(|t| t.resubmitted_count),
            self.sum(|t| t.repeated_count),
            self.sum(|t| t.ledger.events.len() as u64),
            self.sum(|t| t.ledger.resumed_count),
            self.sum(|t| t.ledger.told_again_count),
            self.desk.count(),
            self.auditor.count(),
            self.desk.lost_count + self.auditor.lost_count,
            self.desk.refused_count + self.auditor.refused_count,
        )
    }
}
