//! The gateway's diagnostic lines: logons, refusals, and connections cut, with the reasons.
//!
//! Strangers can cause each of these at will, so each kind has its limit of lines; the counters
//! count them all.

use std::net::SocketAddr;

use weir_runtime::LineLimit;
use weir_types::{Nanos, Reason, SessionId};

use super::GatewayCounters;
use super::connection::Connection;
use super::copies::StreamKey;

/// A limit for each kind of line.
#[derive(Debug, Default)]
pub struct Lines {
    logons: LineLimit,
    refusals: LineLimit,
    closings: LineLimit,
    losses: LineLimit,
    takeovers: LineLimit,
    turned_away: LineLimit,
    copies_cut: LineLimit,
}

impl Lines {
    pub(super) fn logged_on(&mut self, connection: &Connection, session: SessionId, now: Nanos) {
        if let Some(suppressed) = self.logons.permit(now) {
            let peer = peer_of(connection);
            tracing::info!(session = session.0, peer, suppressed, "session logged on");
        }
    }

    pub(super) fn refused_logon(
        &mut self,
        counters: &mut GatewayCounters,
        connection: &Connection,
        session: SessionId,
        reason: Reason,
        now: Nanos,
    ) {
        counters.logons_refused += 1;
        counters.logons_refused_by.add(reason);
        if let Some(suppressed) = self.refusals.permit(now) {
            let peer = peer_of(connection);
            tracing::warn!(session = session.0, peer, ?reason, suppressed, "logon refused");
        }
    }

    pub(super) fn closing(
        &mut self,
        counters: &mut GatewayCounters,
        connection: &Connection,
        reason: Reason,
        now: Nanos,
    ) {
        counters.closed_by.add(reason);
        if let Some(suppressed) = self.closings.permit(now) {
            let (peer, sessions) = (peer_of(connection), sessions_of(connection));
            if matches!(reason, Reason::LogoutRequested | Reason::Stopping) {
                tracing::info!(peer, sessions, ?reason, suppressed, "connection closed");
            } else {
                tracing::warn!(peer, sessions, ?reason, suppressed, "connection cut");
            }
        }
    }

    /// Reports a session that ended without a logout.
    pub(super) fn lost(
        &mut self,
        counters: &mut GatewayCounters,
        connection: &Connection,
        session: SessionId,
        why: &'static str,
        now: Nanos,
    ) {
        counters.sessions_lost += 1;
        if let Some(suppressed) = self.losses.permit(now) {
            let peer = peer_of(connection);
            tracing::warn!(session = session.0, peer, why, suppressed, "session lost");
        }
    }

    /// Reports a session that another connection has taken over from this one.
    pub(super) fn taken_over(&mut self, connection: &Connection, session: SessionId, now: Nanos) {
        if let Some(suppressed) = self.takeovers.permit(now) {
            let peer = peer_of(connection);
            tracing::warn!(session = session.0, peer, suppressed, "session taken over");
        }
    }

    /// Reports a stream of copies that fell behind the retained records.
    pub(super) fn cut_copies(
        &mut self,
        counters: &mut GatewayCounters,
        key: StreamKey,
        now: Nanos,
    ) {
        counters.copy_streams_cut += 1;
        if let Some(suppressed) = self.copies_cut.permit(now) {
            let (session, firm) = (key.session_id.0, key.firm_id.0);
            tracing::warn!(session, firm, suppressed, "copies ended: too slow for what is kept");
        }
    }

    /// Reports a connection refused because `connections` already exist.
    pub(super) fn turned_away(
        &mut self,
        counters: &mut GatewayCounters,
        peer: Option<SocketAddr>,
        connections: usize,
        now: Nanos,
    ) {
        counters.connections_refused += 1;
        if let Some(suppressed) = self.turned_away.permit(now) {
            let peer = text_of(peer);
            tracing::warn!(peer, connections, suppressed, "connection turned away: no place");
        }
    }
}

pub(super) fn peer_of(connection: &Connection) -> String {
    text_of(connection.peer)
}

fn text_of(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(String::new, |peer| peer.to_string())
}

fn sessions_of(connection: &Connection) -> String {
    let ids: Vec<String> = connection.sessions.iter().map(SessionId::to_string).collect();
    ids.join(",")
}
