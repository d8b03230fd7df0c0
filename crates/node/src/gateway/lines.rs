//! What the gateway tells those who run it: who came, who was refused, who was cut and why.
//!
//! Strangers can cause each of these as often as they like, so each kind has its limit of lines;
//! the counters count them all.

use std::net::SocketAddr;

use weir_types::{Nanos, Reason, SessionId};

use super::Gateway;
use super::connection::Connection;
use super::copies::StreamKey;
use crate::diagnostics::LineLimit;

/// A limit for each kind of line.
#[derive(Debug, Default)]
pub struct Lines {
    logons: LineLimit,
    refusals: LineLimit,
    closings: LineLimit,
    losses: LineLimit,
    turned_away: LineLimit,
    copies_cut: LineLimit,
}

impl Gateway {
    pub(super) fn tell_logon(&mut self, connection: &Connection, session: SessionId, now: Nanos) {
        if let Some(left_out) = self.lines.logons.permit(now) {
            let peer = peer_of(connection);
            tracing::info!(session = session.0, peer, left_out, "session logged on");
        }
    }

    pub(super) fn tell_refused_logon(
        &mut self,
        connection: &Connection,
        session: SessionId,
        reason: Reason,
        now: Nanos,
    ) {
        self.counters.logons_refused += 1;
        self.counters.logons_refused_by.add(reason);
        if let Some(left_out) = self.lines.refusals.permit(now) {
            let peer = peer_of(connection);
            tracing::warn!(session = session.0, peer, ?reason, left_out, "logon refused");
        }
    }

    pub(super) fn tell_closing(&mut self, connection: &Connection, reason: Reason, now: Nanos) {
        self.counters.closed_by.add(reason);
        if let Some(left_out) = self.lines.closings.permit(now) {
            let (peer, sessions) = (peer_of(connection), sessions_of(connection));
            if matches!(reason, Reason::LogoutRequested | Reason::Stopping) {
                tracing::info!(peer, sessions, ?reason, left_out, "connection closed");
            } else {
                tracing::warn!(peer, sessions, ?reason, left_out, "connection cut");
            }
        }
    }

    /// A session goes without having said so.
    pub(super) fn tell_loss(
        &mut self,
        connection: &Connection,
        session: SessionId,
        why: &'static str,
        now: Nanos,
    ) {
        self.counters.sessions_lost += 1;
        if let Some(left_out) = self.lines.losses.permit(now) {
            let peer = peer_of(connection);
            tracing::warn!(session = session.0, peer, why, left_out, "session lost");
        }
    }

    /// A stream of copies was behind what is kept.
    pub(super) fn tell_cut_copies(&mut self, key: StreamKey, now: Nanos) {
        self.counters.copy_streams_cut += 1;
        if let Some(left_out) = self.lines.copies_cut.permit(now) {
            let (session, firm) = (key.session_id.0, key.firm_id.0);
            tracing::warn!(session, firm, left_out, "copies ended: too slow for what is kept");
        }
    }

    /// There is no place for one more connection.
    pub(super) fn tell_turned_away(&mut self, peer: Option<SocketAddr>, now: Nanos) {
        self.counters.connections_refused += 1;
        if let Some(left_out) = self.lines.turned_away.permit(now) {
            let connections = self.connections.count();
            let peer = text_of(peer);
            tracing::warn!(peer, connections, left_out, "connection turned away: no place");
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
