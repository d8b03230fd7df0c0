//! An account's cash in each partition, and the part of it that is between two of them.
//!
//! A partition tells an account's last transfer with its other end. Of a move, whose first half has
//! taken cash out of a partition, the account's last number at the other end tells the rest:
//!
//! | there | the cash |
//! | --- | --- |
//! | is lower | is in transit: the second half has not been carried out |
//! | is the same, of the same cash and this partition | has arrived |
//! | is higher, or the same of another transfer | may have arrived: no earlier one is known there |

use anyhow::Context as _;
use weir_client::Admin;
use weir_client::admin::AccountCash;
use weir_types::{AccountId, Cash, PartitionId};

/// An account's cash by partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standings(pub(super) Vec<(PartitionId, AccountCash)>);

/// Cash that has left a partition by a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) transfer_id: u64,
    pub(super) from: PartitionId,
    pub(super) to: PartitionId,
    /// Above zero.
    pub(super) cash: i128,
}

/// The whereabouts of cash that has left a partition by a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// In neither partition.
    InTransit,
    /// In the other partition.
    Arrived,
    /// In the other partition or in neither: its log tells.
    Unknown,
}

impl Standings {
    /// Asks all partitions for the account's cash.
    ///
    /// # Errors
    /// Those of an inquiry, with the partition.
    pub(super) fn of(admin: &mut Admin, account_id: AccountId) -> anyhow::Result<Standings> {
        let rows = admin.partitions().into_iter().map(|partition_id| {
            let cash = admin.account_cash(partition_id, account_id);
            let cash = cash.map_err(|error| super::with_name(error.into()));
            let cash = cash.with_context(|| format!("partition {partition_id}"))?;
            Ok((partition_id, cash))
        });
        rows.collect::<anyhow::Result<_>>().map(Standings)
    }

    fn get(&self, partition_id: PartitionId) -> Option<&AccountCash> {
        self.0.iter().find(|(id, _)| *id == partition_id).map(|(_, cash)| cash)
    }

    /// Returns the moves that were the last transfer of a partition that gave cash.
    pub(super) fn sent(&self) -> Vec<(Sent, Whereabouts)> {
        let gave = self.0.iter().filter_map(|(from, cash)| {
            let last = cash.last_transfer.filter(|last| last.cash.0 < 0 && !last.peer.is_none())?;
            let (transfer_id, cash) = (last.transfer_id, last.cash.0.saturating_neg());
            Some(Sent { transfer_id, from: *from, to: last.peer, cash })
        });
        gave.map(|sent| (sent, self.whereabouts_of(&sent))).collect()
    }

    fn whereabouts_of(&self, sent: &Sent) -> Whereabouts {
        let Some(there) = self.get(sent.to) else { return Whereabouts::Unknown };
        let Some(last) = there.last_transfer else { return Whereabouts::InTransit };
        match last.transfer_id {
            id if id < sent.transfer_id => Whereabouts::InTransit,
            id if id == sent.transfer_id
                && last.peer == sent.from
                && last.cash == Cash(sent.cash) =>
            {
                Whereabouts::Arrived
            }
            _ => Whereabouts::Unknown,
        }
    }

    /// Returns the cash in transit between partitions.
    pub(super) fn in_transit(&self) -> Vec<Sent> {
        let sent = self.sent().into_iter();
        sent.filter(|(_, place)| *place == Whereabouts::InTransit).map(|(sent, _)| sent).collect()
    }

    /// Returns the highest number of a transfer of the account.
    pub(super) fn last_transfer_id(&self) -> u64 {
        let ids = self.0.iter().filter_map(|(_, cash)| cash.last_transfer);
        ids.map(|last| last.transfer_id).max().unwrap_or(0)
    }

    /// Returns the cash that no order reserves, by partition.
    pub(super) fn free(&self) -> Vec<(PartitionId, i128)> {
        self.0.iter().map(|(id, cash)| (*id, cash.free().0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use weir_client::admin::LastTransfer;

    use super::*;

    const A: PartitionId = PartitionId(1);
    const B: PartitionId = PartitionId(2);

    fn row(id: PartitionId, last: Option<(u64, i128, PartitionId)>) -> (PartitionId, AccountCash) {
        let last_transfer = last.map(|(transfer_id, cash, peer)| LastTransfer {
            transfer_id,
            cash: Cash(cash),
            peer,
        });
        (id, AccountCash { cash: Cash(500), reserved: Cash(100), last_transfer })
    }

    #[test]
    fn cash_that_left_a_partition_is_in_transit_only_where_the_other_end_has_no_such_number() {
        let out = row(A, Some((7, -30, B)));
        let cases = [
            (None, Whereabouts::InTransit),
            (Some((6, 30, A)), Whereabouts::InTransit),
            (Some((7, 30, A)), Whereabouts::Arrived),
            (Some((7, 31, A)), Whereabouts::Unknown),
            (Some((7, 30, PartitionId(3))), Whereabouts::Unknown),
            (Some((8, 1, PartitionId::NONE)), Whereabouts::Unknown),
        ];
        for (there, place) in cases {
            let standings = Standings(vec![out, row(B, there)]);
            let sent = Sent { transfer_id: 7, from: A, to: B, cash: 30 };
            assert_eq!(standings.sent(), [(sent, place)], "{there:?}");
            assert_eq!(standings.in_transit().len(), usize::from(place == Whereabouts::InTransit));
        }
        assert_eq!(
            Standings(vec![out]).sent()[0].1,
            Whereabouts::Unknown,
            "it has no such partition"
        );
        // Nothing from or to outside is between partitions, nor what came in.
        let others = [row(A, Some((7, -30, PartitionId::NONE))), row(B, Some((8, 30, A)))];
        assert_eq!(Standings(others.to_vec()).sent(), []);
        assert_eq!(Standings(others.to_vec()).last_transfer_id(), 8);
        assert_eq!(Standings(others.to_vec()).free(), [(A, 400), (B, 400)]);
    }
}
