//! A listener's diagnostic lines: refused logons, connections cut, connections turned away.
//!
//! Strangers can cause each of these at will, so each kind has its limit of lines; the counters
//! count them all.

use std::net::SocketAddr;

use weir_runtime::LineLimit;
use weir_types::{Nanos, Reason, SessionId};

/// The lines of one door, with a limit for each kind.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The section of the configuration that opens it.
    door: &'static str,
    refusals: LineLimit,
    cuts: LineLimit,
    turned_away: LineLimit,
}

impl Lines {
    pub(crate) fn new(door: &'static str) -> Lines {
        let limit = LineLimit::default;
        Lines { door, refusals: limit(), cuts: limit(), turned_away: limit() }
    }

    /// Reports a refused logon of `session`.
    pub(crate) fn refused_logon(
        &mut self,
        peer: Option<SocketAddr>,
        session: SessionId,
        reason: Reason,
        now: Nanos,
    ) {
        if let Some(suppressed) = self.refusals.permit(now) {
            let (door, session, peer) = (self.door, session.0, text_of(peer));
            tracing::warn!(door, session, peer, ?reason, suppressed, "logon refused");
        }
    }

    /// Reports a connection that the node ends; `session` is zero before its logon.
    pub(crate) fn cut(
        &mut self,
        peer: Option<SocketAddr>,
        session: SessionId,
        reason: Reason,
        now: Nanos,
    ) {
        if let Some(suppressed) = self.cuts.permit(now) {
            let (door, session, peer) = (self.door, session.0, text_of(peer));
            tracing::warn!(door, session, peer, ?reason, suppressed, "connection cut");
        }
    }

    /// Reports a connection that found no place.
    pub(crate) fn turned_away(&mut self, peer: Option<SocketAddr>, why: &'static str, now: Nanos) {
        if let Some(suppressed) = self.turned_away.permit(now) {
            let (door, peer) = (self.door, text_of(peer));
            tracing::warn!(door, peer, why, suppressed, "connection turned away");
        }
    }
}

/// The address of a peer; empty for a connection from inside the node.
fn text_of(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(String::new, |peer| peer.to_string())
}
