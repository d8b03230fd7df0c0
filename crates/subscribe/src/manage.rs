//! Requests about subscriptions: to create, list, attach to and end them. The entitlement of a
//! session is decided here and nowhere else of the broker.
//!
//! | role | executions | trades | messages | state |
//! | --- | --- | --- | --- | --- |
//! | trader, drop copy | its firm's | all | its own | its firm's names |
//! | supervisor, operator | any firm's, all | all | its own | any |
//! | source | none | none | none | none |
//!
//! A name belongs to a firm: two firms may use the same one. Supervisors and operators share
//! theirs, and may ask for any firm's.

use weir_broker::{
    Broker, Change, EvictReason, ListedSubscription, Name, OriginMark, OriginMarks, PublishTimes,
    Quota, RowKind, Status, SubscriptionError, Terms, Topic, TopicKind,
};
use weir_door::figures::add;
use weir_door::{Intake, LoggedOn};
use weir_io::Disk;
use weir_types::{
    AckLevel, Durability, FirmId, Nanos, Reason, Role, SessionId, SubscriptionAction,
    SubscriptionKind, SubscriptionStatus, Switch,
};
use weir_wire::dialogue::{put_with_data, put_with_taken};
use weir_wire::frame::put_frame;
use weir_wire::subscription::{
    AttachSubscription, CreateSubscription, DetachSubscription, NamedToken, SubscriptionAttached,
    SubscriptionDone, SubscriptionEnded, SubscriptionRequest, SubscriptionState, TakenPlace,
};

use super::agent::{PromisedAnswer, Subscriptions};
use super::link::{HandleTarget, HeldQueue, Link};
use super::producer::EventProducer;

/// Subscriptions of one answer to a list.
const LIST_MAX: usize = 100;

/// True if the role is entitled to all firms.
fn sees_all(role: Role) -> bool {
    matches!(role, Role::Supervisor | Role::Operator)
}

/// The firm that owns a session's names; none for those who see all.
fn owner_of(session: &LoggedOn) -> FirmId {
    if sees_all(session.role) { FirmId::NONE } else { session.firm_id }
}

/// The name in the broker of a firm's own name.
fn full_name(firm_id: FirmId, name: &[u8]) -> Option<Name> {
    let name = std::str::from_utf8(name).ok()?;
    // The firm and the stroke alone are a name, of nothing.
    if name.is_empty() { None } else { Name::new(&format!("{firm_id}/{name}")) }
}

/// The firm of a full name, and the firm's own name.
fn parts_of(name: &Name) -> Option<(FirmId, &str)> {
    let (firm, own) = name.as_str().split_once('/')?;
    Some((FirmId(firm.parse().ok()?), own))
}

/// The request that an answer names, and its session.
#[derive(Clone, Copy)]
struct Requester {
    correlation_id: u64,
    session_id: SessionId,
}

/// The topic of a session's request, or the reason to refuse it.
fn topic_for(session: &LoggedOn, kind: SubscriptionKind, key: u32) -> Result<Topic, Reason> {
    if !session.role.may_read() {
        return Err(Reason::NotEntitled);
    }
    let (kind, key) = match kind {
        SubscriptionKind::Executions if sees_all(session.role) => (TopicKind::Executions, key),
        SubscriptionKind::Executions if key == 0 || key == session.firm_id.0 => {
            (TopicKind::Executions, session.firm_id.0)
        }
        SubscriptionKind::Trades => (TopicKind::Trades, key),
        SubscriptionKind::Messages if key == 0 || key == session.session_id.0 => {
            (TopicKind::Messages, session.session_id.0)
        }
        _ => return Err(Reason::NotEntitled),
    };
    Ok(Topic { kind, key })
}

/// True if a session may attach to a row's subscription.
fn may_attach(session: &LoggedOn, kind: &RowKind) -> bool {
    let RowKind::Queue { topic, .. } = kind else { return session.role.may_read() };
    topic_for(session, kind_of(topic.kind), topic.key) == Ok(*topic)
}

fn kind_of(kind: TopicKind) -> SubscriptionKind {
    match kind {
        TopicKind::Executions => SubscriptionKind::Executions,
        TopicKind::Trades => SubscriptionKind::Trades,
        TopicKind::Messages => SubscriptionKind::Messages,
    }
}

fn reason_of(error: &SubscriptionError) -> Reason {
    match error {
        SubscriptionError::Unknown(_) => Reason::SubscriptionUnknown,
        SubscriptionError::Exists(_) => Reason::SubscriptionExists,
        SubscriptionError::TooMany { .. } => Reason::TooManySubscriptions,
        SubscriptionError::Attached(_) => Reason::SubscriptionInUse,
        SubscriptionError::NotAttached => Reason::NotAttached,
        SubscriptionError::OtherKind(_) => Reason::SubscriptionOtherKind,
        SubscriptionError::TokenTooLong { .. } => Reason::FieldOutOfRange,
        SubscriptionError::Evicted { reason, .. } => eviction(*reason),
        SubscriptionError::Expired { .. } => Reason::SubscriptionExpired,
        SubscriptionError::AckAhead { .. } => Reason::AckAhead,
        SubscriptionError::Stopped => Reason::BrokerStopped,
    }
}

fn eviction(reason: EvictReason) -> Reason {
    match reason {
        EvictReason::Bytes => Reason::QuotaBytes,
        EvictReason::Messages => Reason::QuotaMessages,
        EvictReason::Age => Reason::QuotaAge,
        EvictReason::MemoryFull => Reason::BrokerMemoryFull,
        EvictReason::DiskFull => Reason::BrokerDiskFull,
        EvictReason::Unreadable => Reason::SpillUnreadable,
        EvictReason::Operator => Reason::EvictedByOperator,
    }
}

/// The reason for the end of a subscription, and the marks it had taken; `None` while it lives.
pub(super) fn reason_of_end<D: Disk>(
    broker: &Broker<D>,
    name: &Name,
) -> Option<(Reason, OriginMarks)> {
    let row = broker.look(name).ok()?.row;
    let reason = match row.status {
        Status::Live => return None,
        Status::Evicted(reason) => eviction(reason),
        Status::Expired => Reason::SubscriptionExpired,
    };
    match row.kind {
        RowKind::Queue { taken, .. } => Some((reason, taken)),
        RowKind::Token(_) => Some((reason, OriginMarks::default())),
    }
}

/// The level at which a broker of this durability acknowledges.
pub(super) fn level_of(durability: Durability) -> AckLevel {
    match durability {
        Durability::Memory => AckLevel::Memory,
        Durability::Os => AckLevel::Os,
        Durability::Disk => AckLevel::Disk,
    }
}

/// The marks of the messages that a subscription has taken, as the wire has them.
pub(super) fn taken_marks(taken: &OriginMarks) -> Vec<TakenPlace> {
    let mark = |mark: &OriginMark| TakenPlace {
        record: mark.record,
        source: mark.source.0,
        epoch: mark.epoch,
    };
    taken.as_slice().iter().map(mark).collect()
}

/// The limit of a request; none for zero.
fn asked(value: u64) -> Option<u64> {
    (value > 0).then_some(value)
}

impl Subscriptions {
    /// The terms of a creation; the broker reduces those that are above the node's.
    fn terms_of(&self, create: &CreateSubscription, kind: Option<TopicKind>) -> Terms {
        let default = self.default_quota;
        let quota = Quota {
            bytes_max: asked(create.quota_bytes).unwrap_or(default.bytes_max),
            messages_max: asked(create.quota_messages).unwrap_or(default.messages_max),
            age_max: asked(create.quota_age.0).map_or(default.age_max, Nanos),
        };
        let mut after = OriginMarks::default();
        if matches!(kind, Some(TopicKind::Executions | TopicKind::Trades)) {
            for producer in &self.producers {
                after.advance(producer.mark());
            }
        }
        let expire_after = asked(create.expire_after.0).map(Nanos);
        Terms { quota: Some(quota), expire_after, created_by: create.session_id.0, after }
    }

    pub(super) fn create(
        &mut self,
        link: &mut Link,
        session: &LoggedOn,
        create: &CreateSubscription,
        name: &[u8],
        now: Nanos,
    ) -> Intake {
        if !self.producers.iter().all(EventProducer::has_caught_up) {
            return Intake::Wait;
        }
        let created = self.try_create(session, create, name, now);
        let (correlation_id, session_id) = (create.correlation_id, session.session_id);
        self.promise(link, Requester { correlation_id, session_id }, created);
        Intake::Done
    }

    fn try_create(
        &mut self,
        session: &LoggedOn,
        create: &CreateSubscription,
        name: &[u8],
        now: Nanos,
    ) -> Result<Change, Reason> {
        let name = full_name(owner_of(session), name).ok_or(Reason::FieldOutOfRange)?;
        if create.level.code() > level_of(self.durability).code() {
            return Err(Reason::LevelNotServed);
        }
        // A repeated creation is told that the name is in use.
        if self.broker.look(&name).is_err() {
            let checked = self.bounds.check(&self.broker, owner_of(session), session.session_id);
            checked.inspect_err(|reason| self.count_bounded(*reason))?;
        }
        let made = if create.kind == SubscriptionKind::State {
            if !session.role.may_read() || create.topic_key != 0 {
                return Err(Reason::NotEntitled);
            }
            let terms = self.terms_of(create, None);
            self.broker.create_token(&name, &[], &terms, now)
        } else {
            let topic = topic_for(session, create.kind, create.topic_key)?;
            let terms = self.terms_of(create, Some(topic.kind));
            self.broker.create_on(&name, topic, terms, now)
        };
        made.map_err(|error| reason_of(&error))
    }

    fn count_bounded(&self, reason: Reason) {
        let counters = &self.figures.counters;
        match reason {
            Reason::TooManyFirmSubscriptions => add(&counters.firm_bounded, 1),
            _ => add(&counters.session_bounded, 1),
        }
    }

    /// Answers once the change is saved, or at once if there is none.
    fn promise(&mut self, link: &mut Link, requester: Requester, made: Result<Change, Reason>) {
        let Requester { correlation_id, session_id } = requester;
        let reason = made.as_ref().err().copied().unwrap_or(Reason::None);
        let has_more = Switch::Off;
        let done = SubscriptionDone { correlation_id, session_id, reason, has_more };
        match made {
            Ok(change) => {
                link.state.promised_count += 1;
                self.promised.push_back(PromisedAnswer { change, connection: link.id, done });
            }
            Err(_) => put_frame(&done, &mut link.socket.output),
        }
    }

    pub(super) fn take_request(
        &mut self,
        link: &mut Link,
        session: &LoggedOn,
        request: &SubscriptionRequest,
        name: &[u8],
    ) {
        let owner = owner_of(session);
        let firm_id = if request.firm_id.is_none() { owner } else { request.firm_id };
        let requester =
            Requester { correlation_id: request.correlation_id, session_id: session.session_id };
        if !session.role.may_read() || (firm_id != owner && !sees_all(session.role)) {
            return self.promise(link, requester, Err(Reason::NotEntitled));
        }
        if request.action == SubscriptionAction::List {
            return self.list(link, request, owner, name);
        }
        if request.action == SubscriptionAction::Compact {
            return self.compact(link, session, requester, name);
        }
        let done = match full_name(firm_id, name) {
            None => Err(Reason::FieldOutOfRange),
            Some(name) => self.act(session, request.action, &name),
        };
        self.promise(link, requester, done);
    }

    /// Begins to compact the spill files; the status page shows the progress.
    fn compact(&mut self, link: &mut Link, session: &LoggedOn, requester: Requester, name: &[u8]) {
        let Requester { correlation_id, session_id } = requester;
        let reason = match name {
            _ if !sees_all(session.role) => Reason::NotEntitled,
            [] => {
                self.broker.compact();
                Reason::None
            }
            // One subscription's messages have no files of their own.
            _ => Reason::FieldOutOfRange,
        };
        let has_more = Switch::Off;
        let done = SubscriptionDone { correlation_id, session_id, reason, has_more };
        put_frame(&done, &mut link.socket.output);
    }

    fn act(
        &mut self,
        session: &LoggedOn,
        action: SubscriptionAction,
        name: &Name,
    ) -> Result<Change, Reason> {
        let done = match action {
            SubscriptionAction::Evict if !sees_all(session.role) => {
                return Err(Reason::NotEntitled);
            }
            SubscriptionAction::Delete => self.broker.delete(name),
            SubscriptionAction::Evict => self.broker.evict(name),
            SubscriptionAction::Drain => self.broker.skip(name),
            SubscriptionAction::List | SubscriptionAction::Compact => {
                unreachable!("neither changes a subscription")
            }
        };
        done.map_err(|error| reason_of(&error))
    }

    /// Lists the names of a firm, or of all firms for those who see all, after a name.
    fn list(
        &mut self,
        link: &mut Link,
        request: &SubscriptionRequest,
        owner: FirmId,
        behind: &[u8],
    ) {
        let SubscriptionRequest { correlation_id, session_id, firm_id, .. } = *request;
        let only =
            if firm_id.is_none() && owner.is_none() { None } else { Some(firm_id.max(owner)) };
        // In a list of several firms the request names the last one by its full name.
        let behind = String::from_utf8_lossy(behind).into_owned();
        let all = self.broker.list();
        let mut found = all.iter().filter(|listed| {
            let Some((firm_id, own)) = parts_of(&listed.row.name) else { return false };
            let at = if only.is_some() { own } else { listed.row.name.as_str() };
            only.is_none_or(|only| only == firm_id) && at > behind.as_str()
        });
        for listed in found.by_ref().take(LIST_MAX) {
            let requester = Requester { correlation_id, session_id };
            let (state, own) = state_of(listed, requester, self.times);
            let name = if only.is_some() { own } else { listed.row.name.as_str() };
            put_with_data(&state, name.as_bytes(), &mut link.socket.output);
        }
        let has_more = if found.next().is_some() { Switch::On } else { Switch::Off };
        let reason = Reason::None;
        let done = SubscriptionDone { correlation_id, session_id, reason, has_more };
        put_frame(&done, &mut link.socket.output);
    }

    pub(super) fn attach(
        &mut self,
        link: &mut Link,
        session: &LoggedOn,
        attach: &AttachSubscription,
        name: &[u8],
        now: Nanos,
    ) {
        let refused = match full_name(owner_of(session), name) {
            None => Some(Reason::FieldOutOfRange),
            Some(_) if link.state.held.contains_key(&attach.handle) => {
                Some(Reason::SubscriptionInUse)
            }
            Some(_) if link.state.held.len() >= self.bounds.firm_max => {
                self.count_bounded(Reason::TooManySessionSubscriptions);
                Some(Reason::TooManySessionSubscriptions)
            }
            Some(name) => self.try_attach(link, session, attach, &name, now).err(),
        };
        if let Some(reason) = refused {
            let requester =
                Requester { correlation_id: attach.correlation_id, session_id: session.session_id };
            self.promise(link, requester, Err(reason));
        }
    }

    fn try_attach(
        &mut self,
        link: &mut Link,
        session: &LoggedOn,
        attach: &AttachSubscription,
        name: &Name,
        now: Nanos,
    ) -> Result<(), Reason> {
        let AttachSubscription { correlation_id, session_id, handle, .. } = *attach;
        let row = self.broker.look(name).map_err(|error| reason_of(&error))?.row;
        if !may_attach(session, &row.kind) {
            return Err(Reason::NotEntitled);
        }
        if let Some((reason, taken)) = reason_of_end(&self.broker, name) {
            let ended = SubscriptionEnded { correlation_id, session_id, handle, reason };
            put_with_taken(&ended, &taken_marks(&taken), &mut link.socket.output);
            return Ok(());
        }
        let (mut message_no, mut may_have_lost, mut taken) =
            (0, Switch::Off, OriginMarks::default());
        let mut queue = None;
        if let RowKind::Queue { topic, .. } = row.kind {
            let attached = self.broker.attach(name, now).map_err(|error| reason_of(&error))?;
            message_no = attached.acked.0;
            may_have_lost = if attached.may_have_lost { Switch::On } else { Switch::Off };
            taken = attached.taken;
            queue = Some(HeldQueue {
                attachment: attached.attachment,
                topic,
                credit_messages: attach.credit_messages.into(),
                credit_bytes: attach.credit_bytes.into(),
            });
            let at = (link.id, handle);
            self.by_topic.entry(topic).or_default().push(at);
            self.holders.insert(name.clone(), at);
            self.hot.insert(at);
        }
        link.state.held.insert(handle, HandleTarget { name: name.clone(), queue });
        let answer =
            SubscriptionAttached { correlation_id, message_no, session_id, handle, may_have_lost };
        put_with_taken(&answer, &taken_marks(&taken), &mut link.socket.output);
        if let Ok(token) = self.broker.token(name) {
            let named = NamedToken { correlation_id, session_id, handle };
            put_with_data(&named, token, &mut link.socket.output);
        }
        Ok(())
    }

    pub(super) fn detach(&mut self, link: &mut Link, detach: &DetachSubscription, now: Nanos) {
        let requester =
            Requester { correlation_id: detach.correlation_id, session_id: detach.session_id };
        let Some(held) = link.state.held.remove(&detach.handle) else {
            return self.promise(link, requester, Err(Reason::NotAttached));
        };
        self.let_go((link.id, detach.handle), &held, now);
        self.promise(link, requester, Ok(Change::default()));
    }

    pub(super) fn keep_token(
        &mut self,
        link: &mut Link,
        token: &NamedToken,
        bytes: &[u8],
        now: Nanos,
    ) {
        let requester =
            Requester { correlation_id: token.correlation_id, session_id: token.session_id };
        let kept = match link.state.held.get(&token.handle) {
            None => Err(Reason::NotAttached),
            Some(held) => {
                self.broker.keep_token(&held.name, bytes, now).map_err(|error| reason_of(&error))
            }
        };
        self.promise(link, requester, kept);
    }
}

fn state_of(
    listed: &ListedSubscription,
    requester: Requester,
    times: PublishTimes,
) -> (SubscriptionState, &str) {
    let Requester { correlation_id, session_id } = requester;
    let (row, lag) = (&listed.row, &listed.lag);
    let (firm_id, own) = parts_of(&row.name).unwrap_or((FirmId::NONE, row.name.as_str()));
    let (kind, topic_key) = match &row.kind {
        RowKind::Queue { topic, .. } => (kind_of(topic.kind), topic.key),
        RowKind::Token(_) => (SubscriptionKind::State, 0),
    };
    let (status, reason) = match row.status {
        Status::Live => (SubscriptionStatus::Live, Reason::None),
        Status::Evicted(reason) => (SubscriptionStatus::Evicted, eviction(reason)),
        Status::Expired => (SubscriptionStatus::Expired, Reason::SubscriptionExpired),
    };
    // The moment by the wall clock, as far as the node served without a break since.
    let detached_time = times.stamp.0.saturating_sub(times.now.since(row.detached_at).0);
    let state = SubscriptionState {
        correlation_id,
        lag_messages: lag.messages,
        lag_bytes: lag.bytes,
        spilled_bytes: lag.spilled_bytes,
        lag_age: lag.age,
        quota_bytes: row.quota.bytes_max,
        quota_messages: row.quota.messages_max,
        quota_age: row.quota.age_max,
        expire_after: row.expire_after,
        detached_time: Nanos(if listed.is_attached { 0 } else { detached_time }),
        session_id,
        firm_id,
        topic_key,
        kind,
        status,
        reason,
    };
    (state, own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(role: Role) -> LoggedOn {
        let (session_id, firm_id) = (SessionId(7), FirmId(if role.has_firm() { 11 } else { 0 }));
        let (heartbeat_interval, valid_until) = (1, Nanos(0));
        LoggedOn { session_id, firm_id, role, heartbeat_interval, valid_until }
    }

    #[test]
    fn a_session_gets_the_topics_that_its_role_may_see() {
        use SubscriptionKind::{Executions, Messages, State, Trades};
        let all = [Role::Trader, Role::DropCopy, Role::Supervisor, Role::Operator, Role::Source];
        // (kind, key asked for), then the key that each role gets.
        type Row = ((SubscriptionKind, u32), [Option<u32>; 5]);
        let table: [Row; 8] = [
            ((Executions, 0), [Some(11), Some(11), Some(0), Some(0), None]),
            ((Executions, 11), [Some(11), Some(11), Some(11), Some(11), None]),
            ((Executions, 12), [None, None, Some(12), Some(12), None]),
            ((Trades, 0), [Some(0), Some(0), Some(0), Some(0), None]),
            ((Trades, 3), [Some(3), Some(3), Some(3), Some(3), None]),
            ((Messages, 0), [Some(7), Some(7), Some(7), Some(7), None]),
            ((Messages, 8), [None; 5]),
            ((State, 0), [None; 5]),
        ];
        for ((kind, key), wanted) in table {
            for (role, wanted) in all.into_iter().zip(wanted) {
                let got = topic_for(&session(role), kind, key).map(|topic| topic.key);
                assert_eq!(got, wanted.ok_or(Reason::NotEntitled), "{role:?} {kind:?} {key}");
            }
        }
    }

    #[test]
    fn a_name_is_a_firms_own() {
        let name = full_name(FirmId(11), b"fills").expect("a name");
        assert_eq!((name.as_str(), parts_of(&name)), ("11/fills", Some((FirmId(11), "fills"))));
        assert_ne!(full_name(FirmId(1), b"1/fills"), Some(name));
        for bad in [&b""[..], b"a b", &[0xff], &[b'x'; 65]] {
            assert_eq!(full_name(FirmId(11), bad), None, "{bad:?}");
        }
    }
}
