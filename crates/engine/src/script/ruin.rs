//! A trade of an account that then loses its cash or lots by transfers, and a bust of it by force:
//! few other busts meet an account that cannot pay.

use weir_types::{Cash, ExecType, InstrumentId, PartitionId, Side, Switch};
use weir_wire::event::OrderEvent;
use weir_wire::reference::{BustTrade, Transfer};
use weir_wire::{Command, Request};

use super::{HERE, OPERATOR, Script};

/// Amounts that are withdrawn one after the other; those that are too high are refused.
const CASH: [i128; 8] = [300_000, 100_000, 50_000, 25_000, 12_000, 6_000, 3_000, 1_500];
const LOTS: [i64; 8] = [3_000, 1_500, 800, 400, 200, 100, 50, 20];

/// A ruin in progress.
#[derive(Clone, Copy)]
pub(super) struct Ruin {
    /// The side of the trade.
    trade: OrderEvent,
    step: usize,
}

impl Ruin {
    /// Returns true behind the bust: the withdrawn amount comes back some time.
    pub(super) fn is_over(self) -> bool {
        self.step > CASH.len()
    }

    fn amounts(self) -> (i128, i64) {
        let (cash, lots) = match self.step {
            step if step < CASH.len() => (-CASH[step], -LOTS[step]),
            _ => (120_000, 2_000),
        };
        if self.trade.side == Side::Sell { (cash, 0) } else { (0, lots) }
    }
}

impl Script<'_> {
    /// Remembers a side of a trade that may be ruined: one of an account with limits.
    pub(super) fn note_trade(&mut self, event: &OrderEvent) {
        if event.exec_type == ExecType::Trade && [11, 12, 21].contains(&event.account_id.0) {
            self.last_trade = Some(*event);
        }
    }

    /// Returns the first command of a ruin, or a bust if there is no trade.
    pub(super) fn begin_ruin(&mut self) -> Command {
        match self.last_trade {
            Some(trade) => self.next_of_ruin(Ruin { trade, step: 0 }),
            None => self.bust_trade(),
        }
    }

    /// Returns the next withdrawal, then the bust, at last the deposit.
    pub(super) fn next_of_ruin(&mut self, ruin: Ruin) -> Command {
        let Ruin { trade, step } = ruin;
        let request_no = self.request_no(OPERATOR);
        self.ruin = Some(Ruin { trade, step: step + 1 }).filter(|_| !ruin.is_over());
        if step == CASH.len() {
            return Command::Request(Request::BustTrade(BustTrade {
                request_no,
                match_id: trade.match_id,
                session_id: OPERATOR,
                partition_id: HERE,
                force: Switch::On,
            }));
        }
        self.transfer_id += 1;
        let (cash, position_qty) = ruin.amounts();
        let is_of_cash = position_qty == 0;
        Command::Request(Request::Transfer(Transfer {
            request_no,
            transfer_id: self.transfer_id,
            cash: Cash(cash),
            position_qty,
            session_id: OPERATOR,
            account_id: trade.account_id,
            instrument_id: if is_of_cash { InstrumentId(0) } else { trade.instrument_id },
            partition_id: HERE,
            peer_partition_id: PartitionId(0),
        }))
    }
}
