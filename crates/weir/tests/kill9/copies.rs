//! A drop-copy client over all lives of the node, checked against the ledgers of the copied
//! sessions.
//!
//! INVARIANT: a copy that is sent again equals the first one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weir_client::ClientError;
use weir_client::drop_copy::{Beginning, CopiedReport, DropCopy, DropCopyReader};
use weir_types::{CopyNo, EventNo, FirmId, PartitionId, Reason, SessionId};
use weir_wire::PlainEvent;
use weir_wire::report::StageTimes;

use crate::ledger::Ledger;
use crate::support::{HANG, Node, TRADING, Who};

pub struct CopyReader {
    who: Who,
    /// `None` after a refusal, until it reconnects.
    reader: Option<DropCopyReader>,
    address: SocketAddr,
    /// By copy number: the owner of the report, the owner's event number, and the report.
    heard: BTreeMap<(PartitionId, CopyNo), (SessionId, EventNo, PlainEvent)>,
    /// The number of copies of the trading partition by owner: a check that counted them anew for
    /// each packet took minutes once a million had been received.
    counts: BTreeMap<SessionId, usize>,
    /// The number of copies voided because the node had lost them, as its level allows.
    pub lost_count: u64,
    /// The number of refusals because of another history.
    pub refused_count: u64,
}

fn connect(who: Who, address: SocketAddr) -> Result<DropCopyReader, ClientError> {
    let copies = DropCopy::new(who.session_id, FirmId::NONE, Beginning::Oldest, &[]);
    DropCopyReader::connect(address, who.patient_config(), copies, HANG)
}

impl CopyReader {
    /// Logs on and requests all copies.
    pub fn start(node: &Node, who: Who) -> CopyReader {
        let address = node.address();
        let (heard, counts, lost_count, refused_count) = Default::default();
        let reader = Some(connect(who, address).unwrap());
        CopyReader { who, reader, address, heard, counts, lost_count, refused_count }
    }

    /// Sets the address of a restarted node; the next [`CopyReader::take`] connects to it.
    pub fn go_on(&mut self, address: SocketAddr) {
        self.address = address;
        if let Some(reader) = &mut self.reader {
            reader.set_address(address);
        }
    }

    /// Receives copies. If the node has lost some of them, all from there on are void.
    pub fn take(&mut self, timeout: Duration) {
        if self.reader.is_none() {
            // The node may be down, or may not have noticed the last connection's end.
            self.reader = connect(self.who, self.address).ok();
        }
        let Some(reader) = &mut self.reader else { return };
        let (heard, counts) = (&mut self.heard, &mut self.counts);
        let taken = reader.poll(timeout, |head, report| {
            let (event_no, event) = event_of(report);
            let copy = (head.owner_session_id, event_no, event);
            let before = heard.insert((head.partition_id, head.copy_no), copy);
            assert!(before.is_none_or(|before| before == copy), "told again as {copy:?}");
            if before.is_none() && head.partition_id == TRADING {
                *counts.entry(head.owner_session_id).or_default() += 1;
            }
        });
        match taken {
            Ok(_) => {}
            Err(ClientError::CopiesRefused { partition_id, reason, next_copy_no, .. }) => {
                assert_eq!(reason, Reason::ResumeOtherHistory, "of partition {partition_id}");
                self.forget_from(partition_id, next_copy_no);
            }
            Err(error) => panic!("the copies of {:?}: {error}", self.who),
        }
    }

    fn forget_from(&mut self, partition_id: PartitionId, other_from: CopyNo) {
        let before = self.heard.len();
        self.heard.retain(|(of, copy_no), _| *of != partition_id || *copy_no < other_from);
        self.counts.clear();
        for ((partition_id, _), (owner, ..)) in &self.heard {
            if *partition_id == TRADING {
                *self.counts.entry(*owner).or_default() += 1;
            }
        }
        self.lost_count += (before - self.heard.len()) as u64;
        self.refused_count += 1;
        assert!(self.heard.len() < before, "only who had what is lost is refused");
        // The next request starts at the oldest copy: the copies kept are sent again and must be
        // equal.
        self.reader = None;
    }

    fn events_of(&self, session_id: SessionId) -> BTreeMap<EventNo, PlainEvent> {
        let theirs = self.heard.iter().filter(|((partition_id, _), (owner, ..))| {
            *partition_id == TRADING && *owner == session_id
        });
        theirs.map(|(_, (_, event_no, event))| (*event_no, *event)).collect()
    }

    /// Returns a message about missing and unknown copies.
    fn difference(&self, ledgers: &[&Ledger]) -> String {
        let of = |ledger: &&Ledger| {
            let heard = self.events_of(ledger.session_id);
            let missing = ledger.events.keys().find(|no| !heard.contains_key(no));
            let extra = heard.keys().find(|no| !ledger.events.contains_key(no));
            format!(
                "of {} it has {} of {} reports, first missing {missing:?}, first unknown {extra:?}",
                ledger.session_id,
                heard.len(),
                ledger.events.len()
            )
        };
        let each: Vec<String> = ledgers.iter().map(of).collect();
        format!("the copies of {:?}: {}", self.who, each.join("; "))
    }

    /// Receives until it has exactly each owner's own events, in the order in which they were sent.
    pub fn check_against(&mut self, ledgers: &[&Ledger]) {
        let begun = Instant::now();
        // The events are compared only once the numbers match.
        let is_same = |reader: &CopyReader, ledger: &Ledger| {
            reader.counts.get(&ledger.session_id).copied().unwrap_or(0) == ledger.events.len()
                && reader.events_of(ledger.session_id) == ledger.events
        };
        while !ledgers.iter().all(|ledger| is_same(self, ledger)) {
            assert!(begun.elapsed() < HANG, "{}", self.difference(ledgers));
            self.take(Duration::from_millis(20));
        }
        for ledger in ledgers {
            let owners = self.heard.values().filter(|(owner, ..)| *owner == ledger.session_id);
            assert!(owners.map(|(_, event_no, _)| *event_no).is_sorted(), "in order");
        }
    }

    /// Returns the number of copies received.
    pub fn count(&self) -> usize {
        self.heard.len()
    }
}

fn event_of(report: &CopiedReport) -> (EventNo, PlainEvent) {
    match report {
        CopiedReport::Order(report) => {
            assert_eq!(report.stage_times, StageTimes::default(), "a copy has no times");
            (report.event.event_no, PlainEvent::OrderEvent(report.event))
        }
        CopiedReport::Rejected(rejected) => {
            (rejected.event_no, PlainEvent::RequestRejected(*rejected))
        }
        CopiedReport::Done(done) => (done.event_no, PlainEvent::RequestDone(*done)),
        CopiedReport::TradeBusted(bust) => (bust.event_no, PlainEvent::TradeBusted(*bust)),
    }
}
