//! An operator's reset of a source: the node forgets its orders and asks its core for all of them.

use std::time::{Duration, Instant};

use weir_types::{PartitionId, Reason};
use weir_wire::Message;
use weir_wire::frame::put_frame;
use weir_wire::ingest::{ResetSource, SourceReset};

use super::SourceMessage;
use crate::client::{Client, Incoming};
use crate::connection::{Limits, Target};
use crate::error::ClientError;
use crate::session::{SessionConfig, SessionEvent};

/// Resets a source over the node's listener for outside cores, as an operator's session; `timeout`
/// applies to each answer.
///
/// # Errors
/// [`ClientError::Refused`], [`ClientError::Timeout`], or those of the connection.
pub fn reset_source(
    target: impl Into<Target>,
    session: SessionConfig,
    source_id: PartitionId,
    timeout: Duration,
) -> Result<SourceReset, ClientError> {
    let limits = Limits { connect_timeout: timeout, ..Limits::default() };
    let mut client = Client::connect(target, limits)?;
    let session_id = session.session_id;
    client.log_on(session, timeout)?;
    put_frame(&ResetSource { session_id, source_id }, client.outbox());
    let begun = Instant::now();
    let mut answer = None;
    while answer.is_none() {
        let left = timeout.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(ClientError::Timeout { waiting_for: "the reset of a source", timeout });
        }
        client.poll(left, |incoming, _| {
            if answer.is_none() {
                answer = answer_of(&incoming, source_id);
            }
        })?;
    }
    let answer = answer.expect("the loop ends with one");
    answer.map_err(|reason| {
        let (request, subject) = (ResetSource::NAME, format!("source {source_id}"));
        ClientError::Refused { request, reason, subject }
    })
}

fn answer_of(
    incoming: &Incoming<'_>,
    source_id: PartitionId,
) -> Option<Result<SourceReset, Reason>> {
    match incoming {
        Incoming::Source(SourceMessage::Reset(reset)) if reset.source_id == source_id => {
            Some(Ok(*reset))
        }
        Incoming::Source(SourceMessage::Reject(reject)) if reject.source_id == source_id => {
            Some(Err(reject.reason))
        }
        // A node of before knows no such message.
        Incoming::Session(_, SessionEvent::Refused { reject, .. }) => Some(Err(reject.reason)),
        _ => None,
    }
}
