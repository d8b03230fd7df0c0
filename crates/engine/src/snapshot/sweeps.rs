//! Sweeps in a snapshot: losses, then mass cancels, each in turn. A reader takes them in any order.

use weir_types::{ClOrdId, MassCancelScope, Rec, RequestNo, Role};

use super::bytes::{Reader, Writer};
use super::{SnapshotError, VERSION_MIN};
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::plant::{self, Plant};
use crate::sweep::{OTHER_SESSION, Sweep, SweepScope};

const INVALID: SnapshotError = SnapshotError::Invalid("sweep");

impl Engine {
    pub(super) fn write_sweeps(&self, w: &mut Writer<'_>) {
        w.count(self.sweeps.len());
        let mut in_turn: Vec<&Sweep> = self.sweeps.in_turn().map(|(_, sweep)| sweep).collect();
        if plant::is(Plant::SnapshotForgetsTurns) {
            in_turn.sort_by_key(|sweep| (sweep.kind(), sweep.session));
        }
        for sweep in in_turn {
            let (code, scope) = sweep.scope.code();
            w.u32(sweep.session);
            w.u64(sweep.request_no.0);
            w.flag(sweep.is_of_kill && !plant::is(Plant::SnapshotForgetsKill));
            w.bytes(&sweep.cl_ord_id.0);
            w.u8(code);
            w.u32(scope);
            w.u32(sweep.instrument);
            w.u64(sweep.bound.0);
            w.u32(sweep.at);
            let next = (sweep.next != NIL).then(|| self.orders[sweep.next].rec);
            w.u64(next.unwrap_or(Rec::NONE).0);
            let forgets_count = plant::is(Plant::SnapshotForgetsSweepCount);
            w.u64(if forgets_count { 0 } else { sweep.ended_count });
        }
    }

    pub(super) fn read_sweeps(
        &mut self,
        r: &mut Reader<'_>,
        version: u32,
    ) -> Result<(), SnapshotError> {
        // A session has at most one of a request and one of its loss.
        let count_max = 2 * self.config.sessions_max;
        for _ in 0..r.count("sweeps", count_max)? {
            let sweep = self.read_sweep(r, version)?;
            if self.sweeps.has_same(&sweep) {
                return Err(INVALID);
            }
            self.sweeps.push_back(sweep);
        }
        Ok(())
    }

    fn read_sweep(&self, r: &mut Reader<'_>, version: u32) -> Result<Sweep, SnapshotError> {
        let session = r.u32()?;
        let request_no = RequestNo(r.u64()?);
        let is_of_kill = version > VERSION_MIN && r.flag()?;
        let cl_ord_id = ClOrdId(*r.take(16)?.first_chunk().expect("sixteen bytes were taken"));
        let scope = self.read_scope(r)?;
        let instrument = r.u32()?;
        let bound = Rec(r.u64()?);
        let at = r.u32()?;
        let next = self.read_next(Rec(r.u64()?))?;
        let sweep = Sweep {
            session,
            request_no,
            is_of_kill,
            cl_ord_id,
            scope,
            instrument,
            bound,
            at,
            next,
            ended_count: r.number()?,
        };
        let asker = self.sessions.rows().get(session as usize).ok_or(INVALID)?;
        let is_asked = !sweep.is_of_lost();
        let is_fine = request_no <= asker.last_request_no
            && (!is_asked || asker.role.may_cancel())
            && (is_asked || scope == SweepScope::Session && instrument == NIL)
            && (asker.role == Role::Operator || scope != SweepScope::Partition)
            && (instrument == NIL || (instrument as usize) < self.instruments.rows().len())
            && (instrument != NIL || is_of_kill || scope != SweepScope::Partition)
            && (is_of_kill || !matches!(scope, SweepScope::Other(_)))
            && (!is_of_kill || is_asked && asker.role == Role::Operator)
            && bound <= self.rec
            && at as usize <= self.sessions.rows().len()
            && (next == NIL || self.orders[next].session == at && self.orders[next].rec <= bound);
        if is_fine { Ok(sweep) } else { Err(INVALID) }
    }

    fn read_scope(&self, r: &mut Reader<'_>) -> Result<SweepScope, SnapshotError> {
        let code = r.u8()?;
        let slot: Slot = r.u32()?;
        if code == OTHER_SESSION {
            let is_known = (slot as usize) < self.sessions.rows().len();
            return if is_known { Ok(SweepScope::Other(slot)) } else { Err(INVALID) };
        }
        let (scope, count) = match MassCancelScope::from_code(code).ok_or(INVALID)? {
            MassCancelScope::Session => (SweepScope::Session, 1),
            MassCancelScope::Account => (SweepScope::Account(slot), self.accounts.rows().len()),
            MassCancelScope::Firm => (SweepScope::Firm(slot), self.firms.rows().len()),
            MassCancelScope::Instrument => (SweepScope::Partition, 1),
        };
        if (slot as usize) < count { Ok(scope) } else { Err(INVALID) }
    }

    fn read_next(&self, rec: Rec) -> Result<Slot, SnapshotError> {
        if rec.is_none() {
            return Ok(NIL);
        }
        self.orders.find_rec(rec).ok_or(INVALID)
    }
}
