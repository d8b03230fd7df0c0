//! The choice of a backend: the backends present, the progress of each, and those set aside.
//!
//! A backend is chosen by the first of these that differs:
//!
//! ```text
//! it did not take too long with the reader's last request
//! it has reached the source's newest epoch
//! it has reached the reader's place
//! it is the master, or the master has shown the source's log
//! it is not further behind its source than `lag_max`
//! role: a filter prefers master, indexed replica, unindexed replica;
//!       a reader of everything the reverse
//! the one that was asked before; its unanswered requests; its number
//! ```
//! A backend in an epoch before that of the reader's place cannot judge the place and is not asked.
//! A failed backend is set aside for a time that doubles with each failure, then tested with one
//! request.

use weir_types::{ChangeId, Epoch, Nanos, PartitionId, SourceLog};

use super::RouterConfig;
use super::backend::{BackendFault, BackendId, BackendInfo, BackendRole, BackendState, Health};
use super::leg::PendingRequest;
use crate::plant::{self, Plant};
use crate::token::{SourceCursor, is_other_log};

#[derive(Debug)]
struct Backend {
    id: BackendId,
    info: BackendInfo,
    health: Health,
    /// The time until which it is set aside.
    aside_until: Nanos,
    epoch: Option<Epoch>,
    head: ChangeId,
    /// The log that its last answer showed.
    log: SourceLog,
    asked_count: u32,
    fault_count: u32,
    last_fault: Option<BackendFault>,
    /// Changes whenever earlier requests can no longer be answered.
    generation: u32,
    is_removed: bool,
    /// The time of a probe that it has not answered.
    probed_at: Option<Nanos>,
    answer_count: u64,
}

/// A source, and its newest known state, from any backend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) id: PartitionId,
    pub(super) epoch: Epoch,
    pub(super) head: ChangeId,
    /// The log of its changes: its master's, or until that is heard of, another backend's.
    pub(super) log: SourceLog,
    /// True when the master has been heard of, so that the log is its own.
    pub(super) is_log_sure: bool,
}

/// The criteria for a request's backend.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackendCriteria {
    pub(super) at: SourceCursor,
    /// The filter names a key.
    pub(super) is_keyed: bool,
    /// The backend of the last request, preferred among equals.
    pub(super) current: Option<BackendId>,
    /// The backend that took too long, asked again only without another.
    pub(super) avoided: Option<BackendId>,
}

/// The backend chosen for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) backend: BackendId,
    /// It has not reached the place, or is known to be in an earlier epoch than its source.
    pub(super) is_behind: bool,
    /// Its answer about the place is decisive, whatever its epoch.
    pub(super) is_forced: bool,
}

/// The backends of all sources.
#[derive(Debug)]
pub(super) struct Pool {
    backends: Vec<Backend>,
    /// The sources, in the order of their numbers.
    sources: Vec<Source>,
    chance: u64,
}

impl Pool {
    pub(super) fn new(jitter_seed: u64) -> Pool {
        Pool { backends: Vec::new(), sources: Vec::new(), chance: jitter_seed }
    }

    pub(super) fn sources(&self) -> &[Source] {
        &self.sources
    }

    pub(super) fn source(&self, id: PartitionId) -> Option<&Source> {
        self.sources.iter().find(|source| source.id == id)
    }

    /// Adds a backend that is down, and its source if it is new; the flag is true if it is.
    pub(super) fn add(&mut self, info: BackendInfo) -> (BackendId, bool) {
        let id = BackendId(u32::try_from(self.backends.len()).expect("backends are few"));
        self.backends.push(Backend {
            id,
            info,
            health: Health::Down,
            aside_until: Nanos(0),
            epoch: None,
            head: ChangeId::START,
            log: SourceLog::NONE,
            asked_count: 0,
            fault_count: 0,
            last_fault: None,
            generation: 0,
            is_removed: false,
            probed_at: None,
            answer_count: 0,
        });
        (id, self.add_source(info.source))
    }

    fn add_source(&mut self, id: PartitionId) -> bool {
        let Err(at) = self.sources.binary_search_by_key(&id, |source| source.id) else {
            return false;
        };
        let (epoch, head) = (Epoch(0), ChangeId::START);
        let (log, is_log_sure) = (SourceLog::NONE, false);
        self.sources.insert(at, Source { id, epoch, head, log, is_log_sure });
        true
    }

    /// Removes a source that has no backends; false if it has one or is not known.
    pub(super) fn remove_source(&mut self, id: PartitionId) -> bool {
        let has_backend = self.backends.iter().any(|b| b.info.source == id && !b.is_removed);
        let at = self.sources.binary_search_by_key(&id, |source| source.id);
        match at {
            Ok(at) if !has_backend => {
                self.sources.remove(at);
                true
            }
            _ => false,
        }
    }

    fn get(&self, id: BackendId) -> &Backend {
        &self.backends[id.0 as usize]
    }

    fn get_mut(&mut self, id: BackendId) -> &mut Backend {
        &mut self.backends[id.0 as usize]
    }

    pub(super) fn info(&self, id: BackendId) -> &BackendInfo {
        &self.get(id).info
    }

    pub(super) fn remove(&mut self, id: BackendId) {
        self.set_down(id);
        self.get_mut(id).is_removed = true;
    }

    pub(super) fn set_up(&mut self, id: BackendId) {
        let backend = self.get_mut(id);
        if !backend.is_removed && backend.health == Health::Down {
            // Another process may be at its address now: earlier reports do not count.
            (backend.health, backend.epoch, backend.head) = (Health::Up, None, ChangeId::START);
        }
    }

    pub(super) fn set_down(&mut self, id: BackendId) {
        let backend = self.get_mut(id);
        (backend.health, backend.asked_count) = (Health::Down, 0);
        backend.probed_at = None;
        backend.generation = backend.generation.wrapping_add(1);
    }

    /// Records a backend's progress; true if its source has a newer epoch than was known.
    pub(super) fn heard_of(&mut self, id: BackendId, epoch: Epoch, head: ChangeId) -> bool {
        let backend = self.get_mut(id);
        (backend.epoch, backend.head) = (Some(epoch), head);
        let BackendInfo { source: source_id, role, .. } = backend.info;
        let source = self.sources.iter_mut().find(|source| source.id == source_id);
        let Some(source) = source else { return false };
        source.is_log_sure |= role == BackendRole::Master;
        let is_newer = epoch > source.epoch;
        if is_newer {
            (source.epoch, source.head) = (epoch, head);
        } else if epoch == source.epoch {
            source.head = source.head.max(head);
        }
        is_newer
    }

    /// Compares the log that an answer shows with that of the source, which is the master's, or
    /// that of the first that answered where the router has no master of the source:
    ///
    /// ```text
    /// the answer    | the source's log is    | the log
    /// --------------+------------------------+-----------------------------------------
    /// of no log     | any                    | stays: the store is of an older program,
    ///               |                        | or its source has no log of its own
    /// of the master | any                    | is the answer's from now on
    /// of a replica  | not known, or the same | is the answer's
    /// of a replica  | another                | stays, and the replica is at fault; without a
    ///               |                        | master, only while another that serves showed it
    /// ```
    /// Replicas alone can all go over to a new exchange.
    ///
    /// Returns true when the source has another log than before.
    pub(super) fn heard_log(
        &mut self,
        id: BackendId,
        log: SourceLog,
    ) -> Result<bool, BackendFault> {
        if log.is_none() {
            return Ok(false);
        }
        self.get_mut(id).log = log;
        let BackendInfo { source: source_id, role, .. } = self.get(id).info;
        let Some(before) = self.source(source_id).map(|source| source.log) else {
            return Ok(false);
        };
        let is_judged = role == BackendRole::Replica || plant::is(Plant::MasterJudgedByReplica);
        let is_other = is_judged && is_other_log(before, log);
        let is_at_fault = is_other && self.keeps_log(source_id, before);
        if is_at_fault && !plant::is(Plant::ForeignReplicaServes) {
            return Err(BackendFault::OtherLog);
        }
        let source = self.sources.iter_mut().find(|source| source.id == source_id);
        let source = source.expect("it was found");
        source.log = log;
        if before == log || before.is_none() {
            return Ok(false);
        }
        // Nothing is known of the new log's progress.
        (source.epoch, source.head) = (Epoch(0), ChangeId::START);
        Ok(true)
    }

    /// True while a source's log is `log` whatever a replica shows: a master of it is known, or a
    /// backend that serves has shown that log.
    fn keeps_log(&self, source: PartitionId, log: SourceLog) -> bool {
        self.backends.iter().filter(|of| of.info.source == source && !of.is_removed).any(|of| {
            let is_shown = of.log == log || plant::is(Plant::ReplicasKeepFirstLog);
            of.info.role == BackendRole::Master || (of.health == Health::Up && is_shown)
        })
    }

    /// Returns a place that an answer shows a backend to have, or a later one that it showed before
    /// in the same epoch: a store may be complete beyond its newest change, and only the token of a
    /// reader that comes from there shows it.
    pub(super) fn not_before(&self, id: BackendId, epoch: Epoch, shown: ChangeId) -> ChangeId {
        let backend = self.get(id);
        if backend.epoch == Some(epoch) { shown.max(backend.head) } else { shown }
    }

    /// Returns the backend's generation, to be stored with a request.
    pub(super) fn generation(&self, id: BackendId) -> u32 {
        self.get(id).generation
    }

    /// True when a request may still be answered: its backend serves, in the same generation.
    pub(super) fn is_serving(&self, asking: &PendingRequest) -> bool {
        let backend = self.get(asking.backend);
        matches!(backend.health, Health::Up | Health::Probing)
            && backend.generation == asking.generation
    }

    /// True when some backend of a source could be asked, if it were far enough.
    pub(super) fn has_serving(&self, source: PartitionId) -> bool {
        let serves = |backend: &Backend| {
            backend.info.source == source && matches!(backend.health, Health::Up | Health::Probing)
        };
        self.backends.iter().any(serves)
    }

    pub(super) fn epoch_of(&self, id: BackendId) -> Option<Epoch> {
        self.get(id).epoch
    }

    pub(super) fn head_of(&self, id: BackendId) -> ChangeId {
        self.get(id).head
    }

    /// True when a backend is known to be before a place, or before its source's newest epoch.
    pub(super) fn is_behind(&self, id: BackendId, at: &SourceCursor) -> bool {
        let backend = self.get(id);
        let newest = self.source(at.source).map_or(Epoch(0), |source| source.epoch);
        backend.epoch.is_some_and(|epoch| {
            epoch < newest || (epoch == at.epoch && backend.head < at.change_id)
        })
    }

    pub(super) fn health_of(&self, id: BackendId) -> Health {
        self.get(id).health
    }

    /// Returns the time of the probe that it has not answered.
    pub(super) fn probed_at(&self, id: BackendId) -> Option<Nanos> {
        self.get(id).probed_at
    }

    pub(super) fn set_probed_at(&mut self, id: BackendId, at: Option<Nanos>) {
        self.get_mut(id).probed_at = at;
    }

    pub(super) fn asked(&mut self, id: BackendId) {
        self.get_mut(id).asked_count += 1;
    }

    /// Counts a request that needs no answer any more.
    pub(super) fn is_done(&mut self, asking: &PendingRequest) {
        let backend = self.get_mut(asking.backend);
        if backend.generation == asking.generation {
            backend.asked_count -= 1;
        }
    }

    /// Records a valid answer. Returns true if it shows that a backend which was tested serves.
    pub(super) fn succeeded(&mut self, id: BackendId) -> bool {
        let backend = self.get_mut(id);
        let was_tested = backend.health == Health::Probing;
        if was_tested {
            backend.health = Health::Up;
        }
        if backend.health == Health::Up {
            backend.fault_count = 0;
        }
        was_tested
    }

    /// Counts a valid answer to a reader. One to a probe shows nothing of the store's other work.
    pub(super) fn answered(&mut self, id: BackendId) {
        self.get_mut(id).answer_count += 1;
    }

    /// Returns the number of a backend's valid answers to readers.
    pub(super) fn answer_count(&self, id: BackendId) -> u64 {
        self.get(id).answer_count
    }

    /// Sets a backend aside.
    pub(super) fn failed(
        &mut self,
        id: BackendId,
        fault: BackendFault,
        config: &RouterConfig,
        now: Nanos,
    ) {
        let jitter = self.next_chance();
        let backend = self.get_mut(id);
        backend.last_fault = Some(fault);
        if !matches!(backend.health, Health::Up | Health::Probing) {
            return;
        }
        let doublings = backend.fault_count.min(20);
        backend.fault_count = backend.fault_count.saturating_add(1);
        let span = config.aside_min.0.saturating_mul(1 << doublings).min(config.aside_max.0);
        // Half of the time is fixed and half random, so that routers do not all return at once.
        let span = span / 2 + jitter % (span / 2 + 1);
        (backend.health, backend.asked_count) = (Health::Aside, 0);
        backend.probed_at = None;
        backend.generation = backend.generation.wrapping_add(1);
        backend.aside_until = Nanos(now.0.saturating_add(span));
    }

    /// Ends the time aside of those that are due, and returns their sources.
    pub(super) fn end_asides(&mut self, now: Nanos) -> Vec<PartitionId> {
        let is_over = |b: &&mut Backend| b.health == Health::Aside && b.aside_until <= now;
        let over = self.backends.iter_mut().filter(is_over);
        over.map(|backend| {
            backend.health = Health::Probing;
            backend.info.source
        })
        .collect()
    }

    /// Returns the time at which the first backend set aside is due.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let aside = self.backends.iter().filter(|backend| backend.health == Health::Aside);
        aside.map(|backend| backend.aside_until).min()
    }

    /// SplitMix64 (Steele, Lea, Flood): any sequence that differs between routers is enough.
    fn next_chance(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.chance ^ self.chance >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns the best backend for a request; `None` if none can be asked.
    pub(super) fn choose(&self, wanted: &BackendCriteria, config: &RouterConfig) -> Option<Choice> {
        let can_be_asked = |backend: &&Backend| {
            let is_free = match backend.health {
                Health::Up => true,
                Health::Probing => backend.asked_count == 0,
                Health::Down | Health::Aside => false,
            };
            let is_before = backend.epoch.is_some_and(|epoch| epoch < wanted.at.epoch);
            backend.info.source == wanted.at.source && is_free && !is_before
        };
        let newest = self.source(wanted.at.source)?;
        let rank = |backend: &&Backend| {
            // Only the master shows which log is the source's.
            let is_unsure = !newest.is_log_sure && backend.info.role == BackendRole::Replica;
            let is_old = backend.epoch.is_some_and(|epoch| epoch < newest.epoch);
            let is_behind = self.is_behind(backend.id, &wanted.at);
            let is_far = lag(backend, newest) > config.lag_max;
            let preference = preference(&backend.info, wanted.is_keyed);
            let is_other = wanted.current != Some(backend.id);
            let load = (is_other, backend.asked_count, backend.id);
            let is_avoided = wanted.avoided == Some(backend.id);
            (is_avoided, is_old, is_behind, is_unsure, is_far, preference, load)
        };
        let best = self.backends.iter().filter(can_be_asked).min_by_key(rank)?;
        let is_behind = self.is_behind(best.id, &wanted.at);
        Some(Choice { backend: best.id, is_behind, is_forced: false })
    }

    /// Returns the source's master, if it can be asked.
    pub(super) fn master(&self, source: PartitionId) -> Option<BackendId> {
        let is_wanted = |backend: &&Backend| {
            backend.info.source == source
                && backend.info.role == BackendRole::Master
                && backend.health == Health::Up
        };
        self.backends.iter().find(is_wanted).map(|backend| backend.id)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = (BackendId, BackendState)> + '_ {
        let present = self.backends.iter().filter(|backend| !backend.is_removed);
        present.map(|backend| {
            let state = BackendState {
                info: backend.info,
                health: backend.health,
                epoch: backend.epoch,
                head: backend.head,
                lag: self.source(backend.info.source).map_or(0, |source| lag(backend, source)),
                asked_count: backend.asked_count,
                fault_count: backend.fault_count,
                last_fault: backend.last_fault,
            };
            (backend.id, state)
        })
    }
}

fn lag(backend: &Backend, newest: &Source) -> u64 {
    newest.head.seq.0.saturating_sub(backend.head.seq.0)
}

fn preference(info: &BackendInfo, is_keyed: bool) -> u8 {
    let rank = match (info.role, info.is_indexed) {
        (BackendRole::Master, _) => 0,
        (BackendRole::Replica, true) => 1,
        (BackendRole::Replica, false) => 2,
    };
    if is_keyed { rank } else { 2 - rank }
}
