//! Two sessions that log on far behind again and again: each asks for all its events from the first
//! one on, which the node reads from its files, takes some, and drops the connection. One has a few
//! events among many of others, the other one more.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weir_client::session::SessionEvent;
use weir_client::{Client, ClientError, Incoming, Limits, Session};
use weir_types::{Epoch, EventNo, Reason};

use super::history;
use super::party::{Party, patient_config};
use super::rig::{RESUMERS, TRADING};

/// The events after which a connection is dropped; the sparse session has fewer.
const EVENTS_MAX: u64 = 5_000;
/// The time after which it is dropped anyway.
const VISIT_MAX: Duration = Duration::from_millis(200);
/// The pause when the previous connection of the session still counts.
const RETRY: Duration = Duration::from_millis(1);

/// A connection that takes old events.
struct Visit {
    client: Client,
    begun: Instant,
    events: u64,
}

/// The sessions that resume, one after the other.
#[derive(Default)]
pub(super) struct Resumer {
    node: Option<SocketAddr>,
    /// The nodes that have a history.
    prepared: Vec<SocketAddr>,
    visit: Option<Visit>,
    visits: usize,
    done: u64,
}

impl Party for Resumer {
    fn turn(&mut self, node: Option<SocketAddr>, _: bool) -> anyhow::Result<()> {
        self.visit = None;
        self.node = node;
        if let Some(node) = node.filter(|node| !self.prepared.contains(node)) {
            history::write(node)?;
            self.prepared.push(node);
        }
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let Some(node) = self.node else {
            std::thread::sleep(Duration::from_millis(5));
            return Ok(());
        };
        let visit = match &mut self.visit {
            Some(visit) => visit,
            none => {
                let id = RESUMERS[self.visits % RESUMERS.len()];
                self.visits += 1;
                none.insert(begin(node, Session::new(patient_config(id)))?)
            }
        };
        let mut events = 0;
        let polled = visit.client.poll(Duration::from_millis(10), |incoming, _| {
            let is_event = matches!(incoming, Incoming::Session(_, SessionEvent::Report { .. }));
            events += u64::from(is_event);
        });
        visit.events += events;
        self.done += events;
        match polled {
            Ok(_) if visit.events < EVENTS_MAX && visit.begun.elapsed() < VISIT_MAX => {}
            Ok(_) => self.visit = None,
            Err(ClientError::LogonRejected { reason: Reason::AlreadyLoggedOn, .. }) => {
                self.visit = None;
                std::thread::sleep(RETRY);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn done(&self) -> u64 {
        self.done
    }
}

/// Connects and asks for all events of a session.
fn begin(node: SocketAddr, mut session: Session) -> anyhow::Result<Visit> {
    let mut client = Client::connect(node, Limits::default())?;
    session.resume_after(TRADING, EventNo(0), Epoch::NONE);
    client.start_logon(session);
    Ok(Visit { client, begun: Instant::now(), events: 0 })
}
