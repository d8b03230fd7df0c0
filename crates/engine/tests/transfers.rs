//! Cash moved between two partitions by two transfers, one in each log, while answers of either
//! side are lost and either engine restarts from an older snapshot and its log.

mod support;

use support::*;
use weir_engine::{Engine, EngineConfig};
use weir_types::*;
use weir_wire::reference::Transfer;
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

    fn cash(&self) -> i128 {
        let totals = self.engine.totals();
        assert!(totals.is_conserved());
        (totals.cash_free + totals.cash_reserved).0
    }
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
        let partition_id = PartitionId(at as u16 + 1);
        let moved = Transfer { partition_id, ..transfer(RICH, transfer_id, cash, 0) };
        let request = numbered(Request::Transfer(moved), self.request_no);
        let events = self.partitions[at].apply(Command::Request(request));
        match &events[..] {
            [Event::Plain(weir_wire::PlainEvent::RequestDone(done))] => Ok(done.affected_count),
            [refused] => Err(rejected_of(refused).reason),
            other => panic!("{other:?}"),
        }
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
