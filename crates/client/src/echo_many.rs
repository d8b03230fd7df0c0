//! The echo for many connections, plain or with TLS (rustls, as the node's): it uses epoll instead
//! of trying each connection.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use weir_tls::ServerTls;
use weir_types::SessionId;

use crate::connection::{Connection, Limits};
use crate::echo::answer;
use crate::error::ClientError;

/// The interval at which `stop` is checked.
const CARE_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const LISTENER: u64 = u64::MAX;
/// Requests are small.
const LIMITS: Limits = Limits {
    frame_len_max: 256 << 10,
    outbox_len_max: 8 << 20,
    connect_timeout: std::time::Duration::from_secs(5),
};

struct Served {
    connection: Connection,
    /// True while epoll reports when the socket is writable.
    wants_out: bool,
}

/// Serves connections of `listener` until `stop` is set; with TLS if `tls` is given.
///
/// # Errors
/// [`ClientError::Io`] of the listener; a connection's error ends that connection only.
pub fn serve(
    listener: &TcpListener,
    tls: Option<&ServerTls>,
    stop: &AtomicBool,
) -> Result<(), ClientError> {
    let failed = |error: rustix::io::Errno| ClientError::io("waiting for clients", error.into());
    listener.set_nonblocking(true).map_err(|e| ClientError::io("listening", e))?;
    let poll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
    epoll::add(&poll, listener, EventData::new_u64(LISTENER), EventFlags::IN).map_err(failed)?;
    let mut served: HashMap<u64, Served> = HashMap::new();
    let mut numbers = 0..LISTENER;
    let mut sessions: HashMap<SessionId, u64> = HashMap::new();
    let mut ready: Vec<Event> = Vec::with_capacity(1_024);
    // SYNC: pairs with the store of `stop` by the thread that ends the echo; only the flag itself
    // is communicated.
    while !stop.load(Ordering::Relaxed) {
        ready.clear();
        match epoll::wait(&poll, spare_capacity(&mut ready), Some(&CARE_INTERVAL)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
        for event in &ready {
            let number = event.data.u64();
            if number == LISTENER {
                accept(listener, tls, &mut |connection| {
                    let number = numbers.next().expect("fewer connections than 2^64");
                    let added =
                        epoll::add(&poll, &connection, EventData::new_u64(number), EventFlags::IN);
                    if added.is_ok() {
                        served.insert(number, Served { connection, wants_out: false });
                    }
                })?;
            } else if let Some(one) = served.get_mut(&number)
                && serve_one(one, &mut sessions, &poll, number).is_err()
            {
                // Closing a socket removes it from epoll.
                served.remove(&number);
            }
        }
    }
    Ok(())
}

fn accept(
    listener: &TcpListener,
    tls: Option<&ServerTls>,
    take: &mut dyn FnMut(Connection),
) -> Result<(), ClientError> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(ClientError::io("accepting a connection", error)),
        };
        let connection = match tls.map(ServerTls::accept) {
            None => Connection::of(stream, LIMITS),
            Some(Ok(link)) => Connection::with_link(stream, link, LIMITS),
            Some(Err(error)) => return Err(ClientError::Tls(error.into())),
        };
        // A peer that is already gone is no error.
        connection.into_iter().for_each(&mut *take);
    }
}

fn serve_one(
    one: &mut Served,
    sessions: &mut HashMap<SessionId, u64>,
    poll: &OwnedFd,
    number: u64,
) -> Result<(), ClientError> {
    loop {
        answer(&mut one.connection, sessions)?;
        if !one.connection.has_more() {
            break;
        }
    }
    let wants_out = one.connection.backlog_len() > 0;
    if wants_out != one.wants_out {
        one.wants_out = wants_out;
        let out = if wants_out { EventFlags::OUT } else { EventFlags::empty() };
        let data = EventData::new_u64(number);
        epoll::modify(poll, one.connection.as_fd(), data, EventFlags::IN | out)
            .map_err(|error| ClientError::io("waiting for clients", error.into()))?;
    }
    Ok(())
}
