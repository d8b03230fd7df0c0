//! Cash moved between two partitions by two transfers, one in each log, while answers of either
//! side are lost and either engine restarts from an older snapshot and its log.

mod support;

use support::*;
use weir_engine::{Engine, EngineConfig};
use weir_types::*;
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::{AccountInquiry, Transfer};
use weir_wire::{Command, Event, Request};

/// A partition's engine, its log, and a snapshot from which it can restart.
struct Partition {
    config: EngineConfig,
    engine: Engine,
    log: Vec<Command>,
    snapshot: Vec<u8>,
}

impl Partition {
    fn open(id: u16) -> Partition {
        let config = EngineConfig::new(PartitionId(id));
        let engine = Engine::new(config.clone());
        let mut snapshot = Vec::new();
        engine.snapshot(&mut snapshot);
        let mut partition = Partition { config, engine, log: Vec::new(), snapshot };
        for (at, definition) in (1..).zip(definitions()) {
            partition.apply(Command::Import(Position(at), definition));
        }
        partition
    }

    fn apply(&mut self, command: Command) -> Vec<Event> {
        self.log.push(command);
        apply_next(&mut self.engine, &command)
    }

    /// Ends the process: only the log and an old snapshot remain.
    fn crash(&mut self) {
        let engine = Engine::restore(self.config.clone(), &self.snapshot);
        let mut engine = engine.expect("a snapshot reads back");
        for command in &self.log[engine.position().0 as usize..] {
            apply_next(&mut engine, command);
        }
        assert_eq!(engine.state_hash(), self.engine.state_hash());
        self.engine = engine;
    }

    fn take_snapshot(&mut self) {
        self.snapshot.clear();
        self.engine.snapshot(&mut self.snapshot);
    }

    /// Asks for a transfer in this partition.
    fn ask(&mut self, request_no: u64, asked: Transfer) -> Result<u64, Reason> {
        let asked = Transfer { partition_id: self.config.partition_id, ..asked };
        let request = numbered(Request::Transfer(asked), request_no);
        match &self.apply(Command::Request(request))[..] {
            [Event::Plain(weir_wire::PlainEvent::RequestDone(done))] => Ok(done.affected_count),
            [refused] => Err(rejected_of(refused).reason),
            other => panic!("{other:?}"),
        }
    }

    fn cash(&self) -> i128 {
        let totals = self.engine.totals();
        assert!(totals.is_conserved());
        (totals.cash_free + totals.cash_reserved).0
    }
}

/// Returns a transfer of cash with that partition at its other end.
fn moved(transfer_id: u64, cash: i128, peer: u16) -> Transfer {
    let peer_partition_id = PartitionId(peer);
    Transfer { peer_partition_id, ..transfer(RICH, transfer_id, cash, 0) }
}

fn apply_next(engine: &mut Engine, command: &Command) -> Vec<Event> {
    let position = engine.position().next();
    let mut events = Vec::new();
    engine.apply(position, Nanos(1_000 + position.0), command, &mut events);
    events
}

/// An operator who moves cash in two legs and repeats each request until it is answered.
struct Mover {
    partitions: [Partition; 2],
    request_no: u64,
    deposited: i128,
    /// Cash moved out of one partition and not yet into the other.
    in_transit: i128,
}

impl Mover {
    fn ask(&mut self, at: usize, transfer_id: u64, cash: i128) -> Result<u64, Reason> {
        self.request_no += 1;
        let request_no = self.request_no;
        self.partitions[at].ask(request_no, moved(transfer_id, cash, 2 - at as u16))
    }

    /// Carries out one leg. Its answer may be lost, or the partition may crash after it; the leg is
    /// then requested again under the same transfer number.
    fn leg(&mut self, at: usize, transfer_id: u64, cash: i128, chance: u64) {
        let done = self.ask(at, transfer_id, cash);
        assert_eq!(done, Ok(1), "transfer {transfer_id}");
        self.in_transit -= cash;
        self.check();
        for again in 0..chance % 3 {
            if (chance >> again) & 4 != 0 {
                self.partitions[at].crash();
            }
            assert_eq!(self.ask(at, transfer_id, cash), Ok(0), "asked again");
            self.check();
        }
    }

    fn check(&self) {
        let held: i128 = self.partitions.iter().map(Partition::cash).sum();
        assert_eq!(held + self.in_transit, self.deposited, "nothing is created or lost");
        let totals = self.partitions.each_ref().map(|partition| partition.engine.totals());
        let moved_in: i128 = totals.iter().map(|t| t.cash_moved_in.0).sum();
        let moved_out: i128 = totals.iter().map(|t| t.cash_moved_out.0).sum();
        assert_eq!(moved_out - (moved_in - self.deposited), self.in_transit);
    }
}

#[test]
fn cash_between_two_partitions_is_in_one_of_them_or_in_transit_whatever_crashes() {
    let partitions = [Partition::open(1), Partition::open(2)];
    let mut mover = Mover { partitions, request_no: 0, deposited: 0, in_transit: 0 };
    assert_eq!(mover.ask(0, 1, 1_000_000), Ok(1));
    mover.deposited = 1_000_000;
    mover.check();
    let mut chance: u64 = 0x9e37_79b9_7f4a_7c15;
    for transfer_id in 2..200 {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let draw = chance >> 33;
        let from = usize::from(mover.partitions[0].cash() < mover.partitions[1].cash());
        let cash = i128::from(draw % 1_000 + 1);
        mover.leg(from, transfer_id, -cash, draw >> 10);
        for at in [0, 1] {
            // Both partitions may crash while the cash is in neither.
            if draw >> 20 & (1 << at) != 0 {
                mover.partitions[at].crash();
            }
        }
        mover.check();
        mover.leg(1 - from, transfer_id, cash, draw >> 16);
        if draw.is_multiple_of(7) {
            mover.partitions[from].take_snapshot();
        }
        // An old transfer is never reported as done again, and other amounts are never accepted.
        assert_eq!(mover.ask(from, transfer_id - 1, -cash), Err(Reason::TransferIdUsed));
        assert_eq!(mover.ask(from, transfer_id, -cash - 1), Err(Reason::TransferIdUsed));
        mover.check();
    }
    assert_eq!(mover.in_transit, 0);
}

#[test]
fn a_transfer_again_with_another_partition_at_its_other_end_is_refused() {
    let mut partition = Partition::open(1);
    assert_eq!(partition.ask(1, moved(1, 1_000, 0)), Ok(1));
    assert_eq!(partition.ask(2, moved(2, -300, 2)), Ok(1));
    for (request_no, restarts) in [(3, false), (10, true)] {
        if restarts {
            partition.take_snapshot();
            partition.crash();
        }
        for (no, peer) in (request_no..).zip([0, 3]) {
            assert_eq!(
                partition.ask(no, moved(2, -300, peer)),
                Err(Reason::TransferIdUsed),
                "{peer}"
            );
        }
        let own = partition.ask(request_no + 2, moved(2, -300, 1));
        assert_eq!(own, Err(Reason::WrongPartition));
        assert_eq!(partition.ask(request_no + 3, moved(2, -300, 2)), Ok(0));
        assert_eq!(partition.cash(), 700);
    }
}

#[test]
fn an_inquiry_tells_cash_reservations_and_the_last_transfer_and_changes_nothing() {
    let mut desk = Desk::open();
    let inquiry = |account_id| {
        let (request_no, partition_id) = (RequestNo(0), HERE);
        AccountInquiry { request_no, session_id: OPERATOR, account_id, partition_id }
    };
    let told = |desk: &mut Desk| {
        let done = done_of(&desk.ask(Request::AccountInquiry(inquiry(POOR)))[0]);
        let last = (done.last_transfer_id, done.last_transfer_cash.0, done.last_transfer_peer.0);
        assert_eq!(done.affected_count, 0);
        (done.cash.0, done.reserved.0, last)
    };
    assert_eq!(told(&mut desk), (0, 0, (0, 0, 0)), "before the first transfer");
    let moved = transfer(POOR, 7, 1_000, 0);
    let moved = Transfer { peer_partition_id: PartitionId(5), ..moved };
    let done = done_of(&desk.ask(Request::Transfer(moved))[0]);
    assert_eq!((done.affected_count, done.cash), (1, Cash(1_000)), "a transfer tells it too");
    let bid = NewOrder { account_id: POOR, ..buy(100, 3, "bid") };
    desk.ask(Request::NewOrder(bid));
    assert_eq!(told(&mut desk), (1_000, 300, (7, 1_000, 5)));
    assert_eq!(told(&mut desk), (1_000, 300, (7, 1_000, 5)));

    let refused = |desk: &mut Desk, m: AccountInquiry| {
        rejected_of(&desk.ask(Request::AccountInquiry(m))[0]).reason
    };
    assert_eq!(refused(&mut desk, inquiry(AccountId(999))), Reason::UnknownAccount);
    let elsewhere = AccountInquiry { partition_id: PartitionId(9), ..inquiry(POOR) };
    assert_eq!(refused(&mut desk, elsewhere), Reason::WrongPartition);
    let trader = AccountInquiry { session_id: ALICE, ..inquiry(POOR) };
    assert_eq!(refused(&mut desk, trader), Reason::NotEntitled);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bugs_of_transfers_are_found() {
    use weir_engine::plant::Plant;
    let check = a_transfer_again_with_another_partition_at_its_other_end_is_refused;
    assert_each_is_found(&[
        (Plant::TransferPeerIgnored, check),
        (Plant::SnapshotForgetsPeer, check),
    ]);
}
