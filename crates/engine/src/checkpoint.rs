//! Comparison of replicas: the checkpoint's event, which carries the digest, and the hash of the
//! whole state, which reads every row and is for uses without time pressure.

use weir_wire::event::Checkpoint;
use weir_wire::{Event, PlainEvent};

use crate::config::EventSink;
use crate::digest::{self, CheckpointParts, Counts, Numbers};
use crate::engine::Engine;

impl Engine {
    /// Folds the standing state into the digest and emits a checkpoint with it.
    pub(crate) fn say_checkpoint<S: EventSink>(&mut self, out: &mut S) {
        if self.config.is_digested {
            self.digest = digest::fold_standing(self.digest, &self.standing());
        }
        let event = Event::Plain(PlainEvent::Checkpoint(Checkpoint {
            position: self.position,
            transact_time: self.time,
            digest: self.digest,
            seq: self.seq,
            rec: self.rec,
            partition_id: self.config.partition_id,
        }));
        self.say(&event, out);
    }

    fn standing(&self) -> CheckpointParts {
        CheckpointParts {
            numbers: Numbers {
                rec: self.rec.0,
                seq: self.seq.0,
                exec_id: self.exec_id.0,
                match_id: self.match_id.0,
            },
            control_position: self.control_position,
            is_killed: self.is_killed,
            cash_moved_in: self.cash_moved_in,
            cash_moved_out: self.cash_moved_out,
            counts: Counts {
                orders: self.orders.live_count() as usize,
                positions: self.positions.count(),
                firms: self.firms.rows().len(),
                accounts: self.accounts.rows().len(),
                sessions: self.sessions.rows().len(),
                instruments: self.instruments.rows().len(),
                trades: self.retained_trades().count,
                imports_refused: self.imports_refused,
            },
            timers_and_choices: (self.choices_word())
                .wrapping_add(self.timers.word())
                .wrapping_add(self.group_changes_word())
                .wrapping_add(self.list_word()),
            sweeps: self.sweeps_word(),
        }
    }

    fn choices_word(&self) -> u64 {
        let words = self.cancel_on_disconnect().iter().map(|id| digest::choice_word(*id));
        words.fold(0, u64::wrapping_add)
    }

    /// Returns a hash of everything in a [snapshot](Engine::snapshot), which is the engine's whole
    /// state. Engines with equal hashes at a position behave alike from there, and any difference
    /// of one bit shows, even one that the digest cannot see. It takes as long as a snapshot.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut bytes = Vec::new();
        self.snapshot(&mut bytes);
        Engine::state_hash_of(&bytes)
    }

    /// Returns the [`state_hash`](Engine::state_hash) of the engine that the snapshot was taken of.
    #[must_use]
    pub fn state_hash_of(snapshot: &[u8]) -> u64 {
        digest::hash_bytes(snapshot)
    }
}
