//! Old events at a node, for the parties that read them: orders that end at once, of one session
//! that has most of them, and of two that resume.

use std::net::SocketAddr;

use weir_cli::endpoint::TIMEOUT;
use weir_client::request::LimitOrder;
use weir_client::{Client, Limits};
use weir_types::{SessionId, Side, TimeInForce};

use super::party::{order, patient_config, submit};
use super::rig::{FIRST_INSTRUMENT, FLOODER, RESUMERS};

/// The orders of a history, with two events each: several times the events that a node of these
/// scenarios has in memory.
const ORDERS: u64 = 100_000;
/// One order in so many is of the session with few events, one in so many of that with more.
const SPARSE_EVERY: u64 = 1_000;
const DENSE_EVERY: u64 = 10;
/// The most unanswered requests of a session.
const WINDOW: usize = 500;

/// Writes a history, on a connection of its own.
pub(super) fn write(node: SocketAddr) -> anyhow::Result<()> {
    let mut client = Client::connect(node, Limits::default())?;
    for id in [FLOODER, RESUMERS[0], RESUMERS[1]] {
        client.log_on(patient_config(id), TIMEOUT)?;
    }
    for number in 1..=ORDERS {
        let id = match number {
            _ if number % SPARSE_EVERY == 0 => RESUMERS[0],
            _ if number % DENSE_EVERY == 0 => RESUMERS[1],
            _ => FLOODER,
        };
        submit(&mut client, id, passing_order(id).request())?;
        if number % 100 == 0 {
            settle(&mut client, WINDOW)?;
        }
    }
    settle(&mut client, 0)?;
    client.log_out(TIMEOUT)?;
    Ok(())
}

/// An order that meets no other and ends.
fn passing_order(id: SessionId) -> LimitOrder {
    let order = order(id, FIRST_INSTRUMENT, Side::Buy, 1, 1);
    LimitOrder { time_in_force: TimeInForce::Ioc, ..order }
}

/// Reads answers until no session has more than `left` unanswered requests.
pub(super) fn settle(client: &mut Client, left: usize) -> anyhow::Result<()> {
    client.flush()?;
    while client.sessions().iter().any(|session| session.unanswered_count() > left) {
        client.poll(TIMEOUT, |_, _| {})?;
    }
    Ok(())
}
