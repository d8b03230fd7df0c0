//! Notices to the service manager: `READY=1` once orders are taken, watchdog notices, and requests
//! for more time during a long recovery. Does nothing without one (`NOTIFY_SOCKET` is not set
//! then).
//!
//! Sending never blocks, since the same thread serves HTTP. If the manager does not read and its
//! queue is full, a state (ready, stopping) is sent as soon as there is room, unless a newer one
//! has replaced it by then; a watchdog notice or a request for time is dropped and counted, since
//! the next one repeats it.
//!
//! One socket is opened for all notices and kept: a node without a free descriptor goes on serving,
//! and would be killed if its signs of life needed one.
//!
//! The protocol is `sd_notify(3)`; `packaging/weir.service` relies on it.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::JoinHandle;
use weir_io::monotonic_now;

use crate::health::Health;

/// The interval between a recovery's requests for more time, and the time requested.
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_FOR: Duration = Duration::from_secs(30);

static DROPPED: AtomicU64 = AtomicU64::new(0);
/// The socket of all notices.
static SOCKET: OnceLock<UnixDatagram> = OnceLock::new();

/// Returns the number of watchdog notices and requests for time dropped because the service
/// manager's queue was full.
#[must_use]
pub fn dropped_notices() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// The service manager, if it wants notices. Used within a tokio runtime.
#[derive(Debug, Default)]
pub struct ServiceManager {
    /// The newest state, while the manager's queue is full.
    owed: Mutex<Option<JoinHandle<()>>>,
}

impl ServiceManager {
    /// Reports that orders are taken.
    pub fn tell_ready(&self) {
        self.tell_state(&[NotifyState::Ready, NotifyState::Status("takes orders")]);
    }

    /// Reports that the node stops in order.
    pub fn tell_stopping(&self) {
        self.tell_state(&[NotifyState::Stopping, NotifyState::Status("stops")]);
    }

    fn tell_state(&self, states: &[NotifyState<'_>]) {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(older) = owed.take() {
            older.abort();
        }
        let text = text_of(states);
        match tell(&text) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                tracing::warn!("the service manager does not read: it is told once it does");
                *owed = Some(tokio::spawn(tell_later(text)));
            }
            told => warn_of(told),
        }
    }
}

fn text_of(states: &[NotifyState<'_>]) -> String {
    states.iter().map(|state| format!("{state}\n")).collect()
}

/// Sends a notice, if there is a manager; [`ErrorKind::WouldBlock`] when its queue is full.
fn tell(text: &str) -> io::Result<()> {
    match address()? {
        Some(address) => socket()?.send_to_addr(text.as_bytes(), &address).map(|_| ()),
        None => Ok(()),
    }
}

fn warn_of(told: io::Result<()>) {
    if let Err(error) = told {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

/// Returns the manager's address: a path or, after an `@`, a name in Linux's abstract namespace.
fn address() -> io::Result<Option<SocketAddr>> {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(None) };
    let address = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    Ok(Some(address))
}

fn socket() -> io::Result<&'static UnixDatagram> {
    if let Some(socket) = SOCKET.get() {
        return Ok(socket);
    }
    let socket = non_blocking()?;
    Ok(SOCKET.get_or_init(|| socket))
}

fn non_blocking() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

async fn tell_later(text: String) {
    warn_of(tell_when_there_is_room(&text).await);
}

/// Sends a notice once the manager's queue has room, which only a connected socket shows.
async fn tell_when_there_is_room(text: &str) -> io::Result<()> {
    let Some(address) = address()? else { return Ok(()) };
    let socket = non_blocking()?;
    socket.connect_addr(&address)?;
    tokio::net::UnixDatagram::from_std(socket)?.send(text.as_bytes()).await.map(|_| ())
}

/// Sends a notice that the next one repeats: dropped and counted when the queue is full.
fn tell_in_passing(states: &[NotifyState<'_>]) {
    match tell(&text_of(states)) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        told => warn_of(told),
    }
}

/// Requests more time as long as the recovery lasts. Never ends by itself.
pub async fn ask_for_time() {
    let micros = u32::try_from(ASK_FOR.as_micros()).expect("half a minute");
    loop {
        tell_in_passing(&[NotifyState::ExtendTimeoutUsec(micros), NotifyState::Status("recovers")]);
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Sends watchdog notices at twice the required rate while the node is live. Never ends by itself;
/// does nothing without a watchdog.
pub async fn feed_watchdog(health: &Health) {
    let Some(every) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    loop {
        let why_not = health.why_not_live(monotonic_now());
        if why_not.is_empty() {
            tell_in_passing(&[NotifyState::Watchdog]);
        } else {
            tracing::error!(why = why_not.join("; "), "not live: the watchdog is not fed");
        }
        tokio::time::sleep(every / 2).await;
    }
}
