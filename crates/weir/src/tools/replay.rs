//! A capture sent again: at its own pace, faster, or as fast as the socket takes it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_feed::capture::Datagram;
use weir_marketgate::capture::{CaptureFile, FileError, Item, Pace, Speed};

/// Shorter waits than this are spent in a loop: a sleep ends late.
const SLEEP_MIN: Duration = Duration::from_micros(200);

/// The parameters of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayPlan {
    /// The destination.
    pub to: SocketAddr,
    /// Only what went to this group.
    pub group: Option<SocketAddr>,
    /// The speed.
    pub speed: Speed,
    /// Of a million datagrams so many are not sent.
    pub loss_millionths: u64,
    /// The seed of the choice of datagrams left out.
    pub seed: u64,
}

/// The outcome of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Datagrams sent.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams left out on purpose.
    pub left_out: u64,
    /// Datagrams that the system refused.
    pub refused: u64,
    /// Its duration.
    pub elapsed: Duration,
    /// The latest that a datagram was sent after its time.
    pub late_max: Duration,
}

/// Sends a capture's datagrams.
///
/// # Errors
/// The capture's: all before was sent. What the system refuses is counted.
pub fn replay(
    file: &mut CaptureFile,
    socket: &UdpSocket,
    plan: &ReplayPlan,
) -> (ReplayReport, Option<FileError>) {
    let mut report = ReplayReport::default();
    let mut chance = plan.seed;
    let start = Instant::now();
    let mut pace = Pace::new(plan.speed);
    let error = loop {
        let more = file.next(&mut |item| {
            let Item::Datagram(datagram) = item else { return };
            if plan.group.is_some_and(|group| group != datagram.dst) {
                return;
            }
            if draw(&mut chance) % 1_000_000 < plan.loss_millionths {
                report.left_out += 1;
                return;
            }
            if let Some(due) = pace.due(datagram.ts_recv) {
                report.late_max = report.late_max.max(wait_until(start, due));
            }
            send(socket, plan.to, datagram, &mut report);
        });
        match more {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
    };
    report.elapsed = start.elapsed();
    (report, error)
}

/// Waits until `due` after `start`; how late it is then.
fn wait_until(start: Instant, due: Duration) -> Duration {
    loop {
        let elapsed = start.elapsed();
        let Some(left) = due.checked_sub(elapsed).filter(|left| !left.is_zero()) else {
            return elapsed.saturating_sub(due);
        };
        if left > SLEEP_MIN {
            std::thread::sleep(left - SLEEP_MIN);
        } else {
            std::thread::yield_now();
        }
    }
}

fn send(socket: &UdpSocket, to: SocketAddr, datagram: &Datagram<'_>, report: &mut ReplayReport) {
    loop {
        match socket.send_to(datagram.payload, to) {
            Ok(len) => {
                report.sent += 1;
                report.bytes += len as u64;
                return;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                report.refused += 1;
                return;
            }
        }
    }
}

/// The splitmix64 generator.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
