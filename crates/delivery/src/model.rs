//! A naive order store: all changes in a list, each answer a scan of the whole list.
//!
//! The oracle of the store's tests. It keeps everything and has neither index nor floor. An end
//! keeps its place beside a later tombstone or a row of other keys. The model makes no LEAVE rows:
//! which of them a store sends depends on its rings, but the rows that a reader ends up with do
//! not.

use std::collections::BTreeMap;

use weir_types::{ChangeId, Rec};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::event::OrderEvent;
use weir_wire::rows::put_row;

use crate::filter::{Filter, Keys};
use crate::row::{bodiless_row, row_of};

/// Every change of every order.
#[derive(Clone, Debug, Default)]
pub struct Model {
    changes: Vec<OrderRow>,
    /// The attributes of each change.
    attributes: Vec<Vec<u8>>,
}

impl Model {
    /// Takes in one event.
    pub fn ingest(&mut self, event: &OrderEvent) {
        if !event.rec.is_none() {
            self.ingest_row(row_of(event), &[]);
        }
    }

    /// Takes in one row of an outside core that describes a state, not a deletion.
    pub fn ingest_row(&mut self, row: OrderRow, attributes: &[u8]) {
        self.changes.push(OrderRow { merged_count: 0, ..row });
        self.attributes.push(attributes.to_vec());
    }

    /// Takes in the deletion of a record, if the record is known and not gone already.
    pub fn delete(&mut self, change_id: ChangeId) {
        let known = self.changes.iter().rfind(|row| row.rec == change_id.rec).copied();
        if let Some(row) = known.filter(|row| row.flags == RowFlags::default()) {
            self.ingest_row(bodiless_row(change_id, row.order_id, RowFlags::TOMBSTONE), &[]);
        }
    }

    /// Returns each record's latest state, tombstones included, with the number of its changes
    /// after `after` that are merged into it.
    #[must_use]
    pub fn latest(&self, after: ChangeId) -> BTreeMap<Rec, OrderRow> {
        self.fold(after).0
    }

    /// Returns the ends that keep their places, each with the number of its changes after `after`
    /// that are merged into it.
    #[must_use]
    pub fn ends(&self, after: ChangeId) -> Vec<OrderRow> {
        self.fold(after).1
    }

    fn fold(&self, after: ChangeId) -> (BTreeMap<Rec, OrderRow>, Vec<OrderRow>) {
        let (mut latest, mut ends) = (BTreeMap::<Rec, OrderRow>::new(), Vec::new());
        for change in &self.changes {
            let before = latest.get(&change.rec).copied();
            let end = before.filter(|row| self.keeps_end(row, change));
            ends.extend(end);
            let merged = match (before, end) {
                (Some(row), None) if change_id_of(&row) > after => row.merged_count + 1,
                _ => 0,
            };
            latest.insert(change.rec, OrderRow { merged_count: merged, ..*change });
        }
        (latest, ends)
    }

    fn keeps_end(&self, row: &OrderRow, next: &OrderRow) -> bool {
        let is_gone = next.flags.contains(RowFlags::TOMBSTONE);
        !is_live(row) && (is_gone || self.keys(row) != self.keys(next))
    }

    /// Returns the place of a record's first change.
    #[must_use]
    pub fn first(&self, rec: Rec) -> Option<ChangeId> {
        self.changes.iter().find(|row| row.rec == rec).map(change_id_of)
    }

    /// Returns the rows that are new after `after` for this filter, in order.
    #[must_use]
    pub fn page(&self, after: ChangeId, filter: &Filter) -> Vec<OrderRow> {
        let is_asked_for = |row: &OrderRow| {
            let began = self.first(row.rec).expect("it has a latest state");
            let may_be_known = began <= after;
            change_id_of(row) > after
                && filter.matches(&self.keys(row))
                && (!filter.live_only || is_live(row) || may_be_known)
        };
        let (latest, mut rows) = self.fold(after);
        rows.extend(latest.into_values());
        rows.retain(is_asked_for);
        rows.sort_by_key(change_id_of);
        rows
    }

    /// Returns the live orders that pass a filter.
    #[must_use]
    pub fn live(&self, filter: &Filter) -> BTreeMap<Rec, OrderRow> {
        let mut rows = self.latest(ChangeId::START);
        rows.retain(|_, row| is_live(row) && filter.matches(&self.keys(row)));
        rows
    }

    /// Returns the attributes of a record's latest state.
    #[must_use]
    pub fn attributes(&self, rec: Rec) -> Option<&[u8]> {
        let latest = self.changes.iter().rposition(|row| row.rec == rec)?;
        Some(&self.attributes[latest])
    }

    /// Returns the digest of the live orders that pass a filter, computed as a client computes it
    /// from its mirror.
    #[must_use]
    pub fn digest(&self, filter: &Filter) -> u64 {
        let hash = |row: &OrderRow| {
            let attributes = self.attributes(row.rec).expect("it has a latest state");
            let mut bytes = Vec::new();
            put_row(&OrderRow { merged_count: 0, ..*row }, attributes, &mut bytes);
            xxhash_rust::xxh3::xxh3_64(&bytes)
        };
        self.live(filter).values().map(hash).fold(0, u64::wrapping_add)
    }

    /// Returns a row's keys; for a tombstone, which carries none, the record's last keys.
    fn keys(&self, row: &OrderRow) -> Keys {
        let is_body = |each: &&OrderRow| {
            let is_before = change_id_of(each) <= change_id_of(row);
            each.rec == row.rec && is_before && each.flags == RowFlags::default()
        };
        let row = self.changes.iter().rev().find(is_body).unwrap_or(row);
        Keys { firm_id: row.firm_id, account_id: row.account_id, instrument_id: row.instrument_id }
    }
}

/// Returns a row's place.
#[must_use]
pub fn change_id_of(row: &OrderRow) -> ChangeId {
    ChangeId::new(row.seq, row.rec)
}

/// True for an order that can still change.
#[must_use]
pub fn is_live(row: &OrderRow) -> bool {
    row.flags == RowFlags::default() && row.ord_status.is_live()
}
