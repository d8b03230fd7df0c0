//! A page: the rows that are new since a place, as the wire's header and rows.
//!
//! [`OrderStore::select`] picks the rows and [`put_page`] writes them. Between the two calls the
//! caller seals the next token, which the header carries. A page visits a bounded number of
//! entries; it moves its reader on even if none of them matches.

use weir_types::{ChangeId, Nanos, Reason};
use weir_wire::delivery::{OrderPage, OrderPageBody, OrderRow, PageFlags};
use weir_wire::dialogue::put_order_page;
use weir_wire::frame::{put_frame_with, put_message};
use weir_wire::rows::put_row_count;

use crate::ahead::NO_GROUP;
use crate::filter::Filter;
use crate::heap::Block;
use crate::index::FilterRing;
use crate::row::{Row, SlotMeta, SlotState};
use crate::store::OrderStore;

/// Rows that are touched together before they are copied.
const LOOK_ROWS: usize = 16;
/// The most rows that a page can have: the greatest count of a group.
pub const PAGE_ROWS_MAX: u32 = 65_535;

/// Limits of a page's size and cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Rows, at least one.
    pub rows_max: u32,
    /// Bytes of rows, attributes included; one row is always allowed.
    pub bytes_max: u32,
    /// Entries visited, at least one.
    pub scan_max: u32,
}

/// A row picked for a page.
#[derive(Clone, Copy, Debug)]
struct Picked {
    slot: u32,
    block: Block,
    row_len: u16,
    merged_count: u32,
}

/// The rows of a page, picked and not written yet. A reused selection allocates nothing. Valid
/// until the store takes in its next event.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    rows: Vec<Picked>,
    byte_count: u32,
    /// True when the rows were touched as they were picked.
    is_looked_at: bool,
}

/// The result of picking a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pick {
    /// The row is in the page, or not for this reader.
    Done,
    /// The row is for this reader, but the page is full.
    Full,
}

/// The rows that a page is made of.
#[derive(Clone, Copy, Debug)]
pub struct PageQuery<'a> {
    /// The reader's place: the rows that changed after it.
    pub after: ChangeId,
    /// The newest change when the reader began without a token; the start if unknown. A reader of
    /// live orders alone gets none that ended there or earlier.
    pub since: ChangeId,
    /// The rows that pass it.
    pub filter: &'a Filter,
    /// The limits of the page.
    pub limits: &'a PageLimits,
}

/// A page without its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The place from which its reader goes on.
    pub next: ChangeId,
    /// Rows.
    pub row_count: u32,
    /// Changes that the rows stand for besides their own.
    pub merged_count: u32,
    /// The time of the oldest change in it; zero if there is none.
    pub oldest_transact_time: Nanos,
    /// True when the page reaches the newest state.
    pub is_online: bool,
    /// True when the page ends among the changes of one `seq`.
    pub is_partial: bool,
    /// True when its limits ended the page: more rows may be available now.
    pub is_cut: bool,
    /// Entries visited.
    pub scan_count: u32,
    /// Bytes of rows.
    pub byte_count: u32,
    /// True when the page was found by visiting other readers' rows too, because no ring is exactly
    /// the filter's. Such a page may be empty and cut.
    pub is_scan: bool,
    /// Elementary steps: entries visited, and bitmap words read on the way to them.
    pub step_count: u32,
}

impl Page {
    /// Returns the flags of the wire format.
    #[must_use]
    pub fn flags(&self) -> PageFlags {
        let none = PageFlags::default();
        let online = if self.is_online { PageFlags::ONLINE } else { none };
        online.with(if self.is_partial { PageFlags::PARTIAL } else { none })
    }
}

impl OrderStore {
    /// Picks the rows that changed after `after` and pass `filter`, in order, within `limits`.
    pub fn select(
        &self,
        after: ChangeId,
        filter: &Filter,
        limits: &PageLimits,
        selection: &mut Selection,
    ) -> Page {
        self.select_from(&PageQuery { after, since: ChangeId::START, filter, limits }, selection)
    }

    /// Picks a page's rows, in order.
    pub fn select_from(&self, query: &PageQuery<'_>, selection: &mut Selection) -> Page {
        let PageQuery { after, filter, .. } = *query;
        selection.rows.clear();
        selection.byte_count = 0;
        let mut page = Page {
            next: after.max(self.head()),
            row_count: 0,
            merged_count: 0,
            oldest_transact_time: Nanos(0),
            // A store behind its reader is not at the newest state that the reader has seen.
            is_online: self.complete_to() >= after,
            is_partial: false,
            is_cut: false,
            scan_count: 0,
            byte_count: 0,
            is_scan: false,
            step_count: 1,
        };
        if let FilterRing::Ring { ring, is_exact } = self.index.find(filter) {
            page.is_scan = !is_exact;
            // Few of the rows that a scan visits may be picked, so it does not touch them ahead.
            selection.is_looked_at = is_exact;
            if self.index.newest(ring) > after {
                self.walk(ring, query, &mut page, selection);
            }
        }
        page.byte_count = selection.byte_count;
        page
    }

    fn walk(&self, ring: u32, query: &PageQuery<'_>, page: &mut Page, selection: &mut Selection) {
        let PageQuery { after, limits, .. } = *query;
        let rows_max = limits.rows_max.clamp(1, PAGE_ROWS_MAX);
        let mut position = self.index.position_after(ring, after);
        let (mut group, mut next, mut count) = (NO_GROUP, 0, 0);
        // The last place that is complete, and the current one.
        let (mut done, mut last) = (after, after);
        loop {
            if next == count {
                let steps;
                // One entry more than there is room for shows whether there is more to come.
                let wanted = (rows_max - page.row_count).max(1);
                let with_rows = selection.is_looked_at;
                (count, steps) = self.next_group(ring, position, wanted, with_rows, &mut group);
                page.step_count += steps;
                next = 0;
                if count == 0 {
                    return;
                }
            }
            let (at, entry) = group[next];
            next += 1;
            let is_next = entry.change_id > last;
            if is_next {
                (done, last) = (last, entry.change_id);
            }
            let is_full = page.row_count == rows_max;
            let is_spent = page.scan_count >= limits.scan_max.max(1);
            // A record and the mark of its former keys share a place, and no reader gets both: a
            // page ends before both or after both.
            if (is_full || is_spent) && is_next
                || self.pick(entry.slot, query, page, selection) == Pick::Full
            {
                (page.next, page.is_online, page.is_cut) = (done, false, true);
                page.is_partial = last.seq == done.seq;
                return;
            }
            page.scan_count += 1;
            page.step_count += 1;
            position = at + 1;
        }
    }

    #[inline]
    fn pick(
        &self,
        slot: u32,
        query: &PageQuery<'_>,
        page: &mut Page,
        selection: &mut Selection,
    ) -> Pick {
        let PageQuery { after, limits, .. } = *query;
        let meta = self.metas.get(slot);
        if !is_for(meta, query) {
            return Pick::Done;
        }
        let byte_count = selection.byte_count + u32::from(meta.row_len);
        if byte_count > limits.bytes_max && page.row_count > 0 {
            return Pick::Full;
        }
        selection.byte_count = byte_count;
        let merged_count = meta.merged_count(after);
        let SlotMeta { block, row_len, .. } = *meta;
        selection.rows.push(Picked { slot, block, row_len, merged_count });
        page.row_count += 1;
        page.merged_count = page.merged_count.saturating_add(merged_count);
        let time = Row(self.heap.bytes(block, usize::from(row_len))).transact_time();
        // Rows without a body have no time.
        if time != Nanos(0) {
            let oldest = page.oldest_transact_time;
            page.oldest_transact_time = if oldest == Nanos(0) { time } else { oldest.min(time) };
        }
        Pick::Done
    }

    /// Returns the picked rows as values, for tests and tools.
    #[must_use]
    pub fn rows(&self, selection: &Selection) -> Vec<OrderRow> {
        let row = |picked: &Picked| OrderRow {
            merged_count: picked.merged_count,
            ..self.row(picked.slot).decode()
        };
        selection.rows.iter().map(row).collect()
    }

    /// Returns the attributes of each picked row, for tests and tools.
    #[must_use]
    pub fn row_attributes(&self, selection: &Selection) -> Vec<&[u8]> {
        selection.rows.iter().map(|picked| self.row(picked.slot).attributes()).collect()
    }

    fn put_rows(&self, selection: &Selection, out: &mut Vec<u8>) {
        put_row_count(selection.rows.len(), out);
        out.reserve(selection.byte_count as usize);
        for group in selection.rows.chunks(LOOK_ROWS) {
            if !selection.is_looked_at {
                self.look_at_rows(group.iter().map(|picked| picked.slot));
            }
            for picked in group {
                let bytes = self.heap.bytes(picked.block, usize::from(picked.row_len));
                Row(bytes).put(picked.merged_count, out);
            }
        }
    }
}

/// Decides whether a ring's entry is for a reader:
///
/// ```text
/// standing         | may be known | the entry is for the reader if
/// -----------------+--------------+-----------------------------------------------------
/// LEAVE mark       | -            | the filter matches the old keys and not the new ones
/// live             | -            | the filter matches
/// ended, tombstone | yes          | the filter matches
/// ended, tombstone | no           | the filter matches and is not for live orders only
/// ```
///
/// A reader may know an ended order if it began by the reader's place and ended after the newest
/// change of the time when the reader began.
#[inline]
fn is_for(meta: &SlotMeta, query: &PageQuery<'_>) -> bool {
    let PageQuery { after, since, filter, .. } = *query;
    if !filter.matches(&meta.keys) {
        return false;
    }
    match meta.standing {
        SlotState::Leave => !filter.matches(&meta.next_keys),
        SlotState::Ended | SlotState::Tombstone => {
            !filter.live_only || meta.known_from() <= after && meta.change_id > since
        }
        SlotState::Live => true,
        SlotState::Free => unreachable!("a free slot is in no ring"),
    }
}

/// The fields of a page's header that come from its fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHead {
    /// The fetch's number.
    pub correlation_id: u64,
    /// The session.
    pub session_id: weir_types::SessionId,
    /// The time of the fetch, since the Unix epoch.
    pub asked_time: Nanos,
    /// The time at which the page was made, since the Unix epoch.
    pub served_time: Nanos,
    /// The number of pages that may still come.
    pub credit_left: u32,
}

/// Appends a page's frames: the header with the next token, and the rows if there are any.
pub fn put_page(
    store: &OrderStore,
    selection: &Selection,
    head: &PageHead,
    page: &Page,
    token: &[u8],
    out: &mut Vec<u8>,
) {
    let header = OrderPage {
        oldest_transact_time: page.oldest_transact_time,
        row_count: page.row_count,
        merged_count: page.merged_count,
        flags: page.flags(),
        ..empty_header(head, Reason::None)
    };
    put_order_page(&header, token, out);
    if page.row_count == 0 {
        return;
    }
    let PageHead { correlation_id, session_id, .. } = *head;
    put_frame_with(out, |out| {
        put_message(&OrderPageBody { correlation_id, session_id }, out);
        put_rows_at(out, store, selection);
    });
}

fn put_rows_at(out: &mut Vec<u8>, store: &OrderStore, selection: &Selection) {
    let start = out.len();
    store.put_rows(selection, out);
    // A group's header is four bytes; the rest is rows, as long as they were when picked.
    assert_eq!(out.len() - start - 4, selection.byte_count as usize);
}

/// A page whose rows do not come from a store, each in wire format. It is never ONLINE: only the
/// store knows the newest state.
#[derive(Clone, Copy, Debug)]
pub struct RowsPage<'a> {
    /// Rows.
    pub row_count: u32,
    /// Changes that the rows stand for besides their own.
    pub merged_count: u32,
    /// The time of the oldest change in it; zero if there is none.
    pub oldest_transact_time: Nanos,
    /// True when the page ends among the changes of one `seq`.
    pub is_partial: bool,
    /// The rows, one after the other.
    pub rows: &'a [u8],
}

/// Appends a page's frames as [`put_page`] does, for rows that do not come from a store.
pub fn put_rows_page(head: &PageHead, page: &RowsPage<'_>, token: &[u8], out: &mut Vec<u8>) {
    let none = PageFlags::default();
    let header = OrderPage {
        oldest_transact_time: page.oldest_transact_time,
        row_count: page.row_count,
        merged_count: page.merged_count,
        flags: if page.is_partial { PageFlags::PARTIAL } else { none },
        ..empty_header(head, Reason::None)
    };
    put_order_page(&header, token, out);
    if page.row_count == 0 {
        return;
    }
    let PageHead { correlation_id, session_id, .. } = *head;
    put_frame_with(out, |out| {
        put_message(&OrderPageBody { correlation_id, session_id }, out);
        put_row_count(page.row_count as usize, out);
        out.extend_from_slice(page.rows);
    });
}

/// Appends a page that refuses its fetch; `token` is the oldest legal one, empty if there is none
/// for this session.
pub fn put_refusal(head: &PageHead, reason: Reason, token: &[u8], out: &mut Vec<u8>) {
    put_order_page(&empty_header(head, reason), token, out);
}

fn empty_header(head: &PageHead, reason: Reason) -> OrderPage {
    OrderPage {
        correlation_id: head.correlation_id,
        oldest_transact_time: Nanos(0),
        asked_time: head.asked_time,
        served_time: head.served_time,
        session_id: head.session_id,
        row_count: 0,
        merged_count: 0,
        credit_left: head.credit_left,
        reason,
        flags: PageFlags::default(),
    }
}
