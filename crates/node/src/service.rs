//! What a service manager is told: `READY=1` once orders are taken, signs of life for its watchdog,
//! more time while a long recovery lasts. Nothing without one (`NOTIFY_SOCKET` is not set then).
//!
//! The protocol is `sd_notify(3)`; `packaging/weir.service` relies on it.

use std::time::Duration;

use sd_notify::NotifyState;
use weir_io::{Clock, SystemClock};

use crate::health::Health;

/// How often a recovery asks for more time, and how much.
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_FOR: Duration = Duration::from_secs(30);

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

/// Orders are taken.
pub fn tell_ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("takes orders")]);
}

/// The node ends in order.
pub fn tell_stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stops")]);
}

/// Asks for more time as long as the recovery lasts. Never ends by itself.
pub async fn ask_for_time() {
    let micros = u32::try_from(ASK_FOR.as_micros()).expect("half a minute");
    loop {
        tell(&[NotifyState::ExtendTimeoutUsec(micros), NotifyState::Status("recovers")]);
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Sends signs of life, twice as often as asked for, as long as there is life. Never ends by
/// itself; where no watchdog is set it has nothing to do.
pub async fn feed_watchdog(health: &Health) {
    let Some(every) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    loop {
        let why_not = health.why_not_live(SystemClock.now());
        if why_not.is_empty() {
            tell(&[NotifyState::Watchdog]);
        } else {
            tracing::error!(why = why_not.join("; "), "not live: the watchdog is not fed");
        }
        tokio::time::sleep(every / 2).await;
    }
}
