//! A partition over a log whose leadership the test decides.

use std::sync::{Mutex, MutexGuard};

use weir_engine::EngineConfig;
use weir_log::tail::{TailConfig, tail};
use weir_log::{EpochEnd, LogError};
use weir_types::{FirmId, PartitionId, RequestNo, SessionId, Symbol};
use weir_wire::Definition;
use weir_wire::reference::DefineFirm;

use super::*;
use crate::event_reader::{EventReader, ReadEvent};
use crate::handoff::gateway_to_partition;

/// The state of a log without entries.
struct State {
    epoch: Epoch,
    /// An epoch that is not reported yet.
    untold: Option<Epoch>,
    next: u64,
    committed: Position,
    log_time: Nanos,
}

#[derive(Clone)]
struct ScriptedLog(Arc<Mutex<State>>);

impl ScriptedLog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn lead(&self, epoch: Epoch) {
        let mut state = self.state();
        (state.epoch, state.untold) = (epoch, Some(epoch));
    }
}

impl SequencedLog for ScriptedLog {
    fn append(&mut self, epoch: Epoch, log_time: Nanos, batch: &Batch) -> Append {
        let mut state = self.state();
        if epoch != state.epoch {
            return Append::NotLeader;
        }
        let first = Position(state.next);
        (state.next, state.log_time) = (state.next + u64::from(batch.count()), log_time);
        Append::At { first }
    }

    fn poll(&mut self) -> Poll {
        let mut state = self.state();
        let committed = Poll::Committed(state.committed);
        state.untold.take().map_or(committed, Poll::Leading)
    }

    fn do_work(&mut self, _now: Nanos) -> Result<usize, LogError> {
        Ok(0)
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        false
    }

    fn flush_blocking(&mut self) -> Result<(), LogError> {
        Ok(())
    }

    fn truncate(&mut self, _before: Position) {}

    fn epoch(&self) -> Epoch {
        self.state().epoch
    }

    fn next_position(&self) -> Position {
        Position(self.state().next)
    }

    fn last_log_time(&self) -> Nanos {
        self.state().log_time
    }
}

/// Returns the import of a firm's definition, which causes one event.
fn import(number: u32) -> Submission {
    let definition = DefineFirm {
        request_no: RequestNo::NONE,
        name: Symbol::new("FIRM").unwrap(),
        session_id: SessionId::NONE,
        firm_id: FirmId(number),
        live_orders_max: 0,
    };
    let at = Position(u64::from(number));
    Submission::internal(Command::Import(at, Definition::DefineFirm(definition)))
}

#[test]
fn an_epoch_that_ends_under_a_partition_ends_behind_the_events_of_its_last_command() {
    let (epoch, next, log_time) = (Epoch(1), 1, Nanos(0));
    let state = State { epoch, untold: None, next, committed: Position::NONE, log_time };
    let log = ScriptedLog(Arc::new(Mutex::new(state)));
    let partition_id = PartitionId(1);
    let (mut port, source) = gateway_to_partition(partition_id, Wake::new());
    let (writer, handle) = tail(TailConfig::new(1 << 20, 1));
    let mut partition = Partition::new(PartitionParts {
        engine: Engine::new(EngineConfig::new(partition_id)),
        log: log.clone(),
        tail: writer,
        sources: vec![source],
        views: Vec::new(),
        recorder: Recorder::disabled(),
        figures: Arc::default(),
        durability: Durability::Disk,
    });
    let mut work = |now| partition.do_work(Nanos(now));
    port.submissions.push(import(1)).unwrap();
    work(1);
    // The first command is not committed yet when the log leads in another epoch.
    log.lead(Epoch(2));
    work(2);
    port.submissions.push(import(2)).unwrap();
    work(3);
    log.state().committed = Position(2);
    work(4);
    log.lead(Epoch(4));
    work(5);
    let mut events = EventReader::new(&handle, "no-files".into(), 1);
    let mut record = Vec::new();
    let told: Vec<String> = std::iter::from_fn(|| match events.next(&mut record) {
        ReadEvent::Record(number) => Some(format!("{number}")),
        ReadEvent::EpochEnded(change) => {
            let EpochEnd { epoch, last_valid } = change.ended;
            Some(format!("{epoch} to {last_valid}, {} from {}", change.next, change.first_again))
        }
        ReadEvent::UpToDate => None,
    })
    .collect();
    assert_eq!(told, ["1", "1 to 1, 2 from 2", "2", "2 to 2, 4 from 3"]);
}
