//! The ends of bindings: sessions that leave, leases that lapse, and rights that are taken away.
//!
//! A session is lost where its binding ends, if the log holds its choice of cancel-on-disconnect.
//!
//! INVARIANT: a binding that has ended is bound again by no grant that was void at its end.

use weir_types::{Nanos, Reason, RequestNo, SessionId, Switch};
use weir_wire::Command;
use weir_wire::reference::SessionLost;

use super::{Binding, Claimed, EndedBinding, GatewayLink, PartitionEnd, Phase, session_of};
use crate::plant::{self, Plant};

/// The end of all grants of a session so far: its key, its role or its firm is another one, its key
/// has expired, or another gateway has it.
#[derive(Clone, Copy, Debug)]
pub struct Revocation {
    /// The session.
    pub session_id: SessionId,
    /// The generation of control's next grant: those from here on are good.
    pub good_from: u64,
    /// The reason that the session's gateway is told.
    pub reason: Reason,
}

impl PartitionEnd {
    /// Ends a session's binding by a grant of before, and binds no such grant any more. Its gateway
    /// would do so, and may not have heard of it: its link to control may be cut, or its lease may
    /// run. The session's requests that the ring has not taken are dropped.
    pub fn revoke(&mut self, revoked: &Revocation) {
        let Revocation { session_id: id, good_from, reason } = *revoked;
        let binding = self.bindings.get(&id).copied();
        if binding.is_some_and(|one| one.generation >= good_from) || plant::is(Plant::RightsKept) {
            return;
        }
        self.drop_requests(id);
        if let Some(binding) = binding {
            self.tell_unbound(&binding, revoked);
            self.lose(id);
        }
        let ended = EndedBinding {
            generation: good_from.saturating_sub(1),
            is_lost: true,
            revoked_for: Some(reason),
        };
        self.ended.insert(id, ended);
    }

    /// Drops a session's requests that wait for the ring. The partition has not received them.
    fn drop_requests(&mut self, id: SessionId) {
        let mut dropped: Vec<(Option<SessionId>, RequestNo)> = Vec::new();
        self.queue.retain(|queued| match &queued.command {
            Command::Request(request) if session_of(&queued.command) == id => {
                dropped.push((queued.gateway, request.request_no()));
                false
            }
            _ => true,
        });
        for (gateway, request_no) in dropped {
            self.settle(id, request_no);
            if let Some(link) = gateway.and_then(|gateway| self.links.get_mut(&gateway)) {
                link.queued = link.queued.saturating_sub(1);
            }
        }
    }

    /// Another process has the gateway's identity now: the sessions of the one before are absent.
    pub(super) fn orphan(&mut self, gateway: SessionId, before: &GatewayLink) {
        let mut bindings = self.bindings.values_mut();
        for binding in bindings.by_ref().filter(|one| one.gateway == gateway) {
            binding.absent_since.get_or_insert(before.heard_at);
        }
    }

    /// Lets a session's lease run, if it is bound to this process.
    pub(super) fn leave(&mut self, id: SessionId, by: Claimed) {
        let Some(link) = self.links.get(&by.gateway) else { return };
        let binding = self.bindings.get_mut(&id);
        let is_its =
            |one: &&mut Binding| one.gateway == by.gateway && one.incarnation == by.incarnation;
        if let Some(binding) = binding.filter(is_its) {
            // Its message has just come.
            binding.absent_since.get_or_insert(link.heard_at);
        }
    }

    /// Ends a session's binding, and sequences its loss if its choice says so.
    pub(super) fn lose(&mut self, id: SessionId) {
        let is_lost = self.choices.contains(&id);
        let ended = self.bindings.remove(&id);
        if let Some(Binding { generation, .. }) = ended.filter(|_| !plant::is(Plant::EndForgotten))
        {
            let revoked_for = None;
            self.ended.insert(id, EndedBinding { generation, is_lost, revoked_for });
        }
        self.sequence_loss(id);
    }

    pub(super) fn sequence_loss(&mut self, id: SessionId) {
        if self.choices.remove(&id) {
            let lost = SessionLost { session_id: id, cancel_on_disconnect: Switch::On };
            self.put_notice(Command::SessionLost(lost));
        }
    }

    /// All sessions of the gateway are named: the others have ended.
    pub(super) fn named(&mut self, gateway: SessionId) {
        let Some(link) = self.links.get_mut(&gateway) else { return };
        link.phase = Phase::Open;
        let (incarnation, named) = (link.incarnation, std::mem::take(&mut link.named));
        let is_its = |one: &Binding| one.gateway == gateway && one.incarnation == incarnation;
        let bindings = self.bindings.iter().filter(|(id, one)| is_its(one) && !named.contains(id));
        // One that may come back elsewhere has its own time.
        let ended = bindings.filter(|(_, one)| one.absent_since.is_none()).map(|(id, _)| *id);
        let ended: Vec<_> = ended.collect();
        if !plant::is(Plant::UnnamedKept) {
            ended.into_iter().for_each(|id| self.lose(id));
        }
    }

    /// A start reads logs and waits for limits between its build and its first cycle, for minutes
    /// if the log is long. No gateway could come meanwhile.
    pub(super) fn begin_leases(&mut self, now: Nanos) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let recovered = self.bindings.values_mut().filter(|one| one.gateway.is_none());
        recovered.for_each(|one| one.absent_since = Some(now));
    }

    /// Ends the bindings whose lease has lapsed, and forgets gateways that were away for as long.
    pub(super) fn let_lapse(&mut self, now: Nanos) {
        let lease = self.terms.lease;
        let is_over = |since: Nanos| now.since(since) >= lease;
        let is_lapsed = |one: &Binding| {
            let link = self.links.get(&one.gateway).filter(|l| l.incarnation == one.incarnation);
            let away_since = link.filter(|link| link.phase == Phase::Absent).map(|link| {
                match plant::is(Plant::LeaseFromOpening) {
                    true => link.opened_at,
                    false => link.heard_at,
                }
            });
            one.absent_since.or(away_since).is_some_and(is_over)
        };
        let lapsed = self.bindings.iter().filter(|(_, one)| is_lapsed(one)).map(|(id, _)| *id);
        let lapsed: Vec<_> = lapsed.collect();
        for id in lapsed {
            self.lapsed += u64::from(self.choices.contains(&id));
            if plant::is(Plant::LapseUnsequenced) {
                self.bindings.remove(&id);
            } else {
                self.lose(id);
            }
        }
        self.links.retain(|_, link| link.phase != Phase::Absent || !is_over(link.heard_at));
    }
}
