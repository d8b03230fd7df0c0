//! Requests of gateways for old records, and their answers.
//!
//! A gateway gets the records of its bound sessions and definitions alone, as on the link itself.
//! One page is made for a request, once its first record can be read; those of a gateway's own
//! reader come first.

use weir_types::SessionId;
use weir_wire::group::Group;

use super::pump::is_definition;
use super::{GatewayLink, OUTPUT_LEN_MAX, OldRecordRead, PartitionEnd, PartitionView};
use crate::codec::{BatchEntries, LinkFault};
use crate::message::{AskRecords, OldRecord, OldRecords, RecordNo};
use crate::records::addressed;

/// The requests that a gateway may have open.
pub const ASKS_MAX: usize = 64;
/// The records of a request, and of its answer.
pub const PAGE_RECORDS_MAX: usize = 128;
/// The records at which an answer to a request for all from one on looks.
const LOOKS_MAX: u64 = 4_096;

/// A request for old records.
#[derive(Debug)]
pub(super) struct OldAsk {
    number: u64,
    wanted: Wanted,
}

#[derive(Debug)]
enum Wanted {
    From(u64),
    These(Vec<u64>),
}

impl Wanted {
    fn get(&self, index: u64) -> Option<u64> {
        match self {
            Wanted::From(first) => (index < LOOKS_MAX).then(|| first.saturating_add(index)),
            Wanted::These(numbers) => numbers.get(usize::try_from(index).ok()?).copied(),
        }
    }
}

impl GatewayLink {
    /// Takes a request.
    pub(super) fn take_ask(
        &mut self,
        ask: &AskRecords,
        numbers: Group<'_, RecordNo>,
    ) -> Result<(), LinkFault> {
        let numbers: Vec<_> = numbers.flatten().map(|one| one.record).collect();
        let is_page = numbers.len() <= PAGE_RECORDS_MAX && numbers.is_sorted_by(|a, b| a < b);
        // No record has the number zero, and a reader of the files would stop the process.
        let is_page = is_page && numbers.first() != Some(&0);
        if !is_page || numbers.is_empty() == (ask.from_record == 0) {
            return Err(LinkFault::OutOfPlace("AskRecords"));
        }
        if self.asks.len() >= ASKS_MAX {
            return Err(LinkFault::WindowOverrun);
        }
        let is_from = numbers.is_empty();
        let wanted = if is_from { Wanted::From(ask.from_record) } else { Wanted::These(numbers) };
        let ask_of = OldAsk { number: ask.number, wanted };
        match ask.is_urgent == weir_types::Switch::On {
            true => self.asks.push_front(ask_of),
            false => self.asks.push_back(ask_of),
        }
        Ok(())
    }

    fn put_page(&mut self, head: &OldRecords, page: Page) {
        let mut batch = page.batch;
        batch.put::<_, OldRecord>(head, &mut self.output);
    }
}

/// The answer to a request.
#[derive(Default)]
struct Page {
    batch: BatchEntries,
}

impl PartitionEnd {
    /// Answers a gateway's oldest request whose records can be read now, if there is room; true if
    /// it did. One at a time: reads of files would keep the other links from being served.
    pub(super) fn answer_ask(&mut self, gateway: SessionId, view: &mut impl PartitionView) -> bool {
        let (epoch, partition_id) = (view.epoch(), self.terms.partition_id);
        for _ in 0..ASKS_MAX {
            let Some(link) = self.links.get_mut(&gateway) else { return false };
            if link.output.len() >= OUTPUT_LEN_MAX {
                return false;
            }
            let Some(ask) = link.asks.pop_front() else { return false };
            let page = self.page_of(gateway, &ask.wanted, view);
            let Some(link) = self.links.get_mut(&gateway) else { return false };
            match page {
                Some(page) => {
                    let number = ask.number;
                    let head = OldRecords { number, session_id: gateway, epoch, partition_id };
                    link.put_page(&head, page);
                    return true;
                }
                // Others may have their records.
                None => link.asks.push_back(ask),
            }
        }
        false
    }

    /// Returns the records of a page; `None` while the first one cannot be read.
    fn page_of(
        &mut self,
        gateway: SessionId,
        wanted: &Wanted,
        view: &mut impl PartitionView,
    ) -> Option<Page> {
        let (mut page, mut record) = (Page::default(), std::mem::take(&mut self.record));
        let (mut index, mut is_there) = (0, true);
        while let Some(number) = wanted.get(index)
            && number < view.end_record()
            && !page.batch.is_full(PAGE_RECORDS_MAX)
        {
            let read = view.old_record(number, &mut record);
            is_there = read != OldRecordRead::NotYet || index > 0;
            if read != OldRecordRead::Found {
                break;
            }
            if self.may_see(gateway, &record) {
                page.batch.push(&OldRecord { number }, &record);
            }
            index += 1;
        }
        self.record = record;
        is_there.then_some(page)
    }

    fn may_see(&self, gateway: SessionId, record: &[u8]) -> bool {
        let Some(link) = self.links.get(&gateway) else { return false };
        match addressed(record) {
            _ if self.is_control() => true,
            Some(to) => self.bindings.get(&to.session_id).is_some_and(|one| link.carries(one)),
            None => is_definition(record),
        }
    }
}
