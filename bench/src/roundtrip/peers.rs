//! The references of the round trip: an independent echo, and a bare write-and-sync loop.
//!
//! The client here is a blocking socket and a loop, so that the comparison contains nothing of Weir
//! but the echo itself.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_client::load::Quantiles;
use weir_client::load::measure::histogram;
use weir_client::request::LimitOrder;
use weir_types::{
    AccountId, ClOrdId, InstrumentId, Price, Qty, RequestNo, SessionId, Side, Switch, TimeInForce,
};
use weir_wire::Message;
use weir_wire::dialogue::{put_logon, put_request};
use weir_wire::frame::{FRAME_HEADER_LEN, SOFH_LEN};
use weir_wire::report::ExecutionReport;
use weir_wire::session::{ApiKey, Logon};

/// The length of the sync loop's file, at which it starts over; filled ahead, as the log's segments
/// are.
const FILE_LEN: u64 = 8 << 20;

/// An independent echo, in a separate process.
#[derive(Debug)]
pub(super) struct Socat {
    process: std::process::Child,
    address: SocketAddr,
}

impl Socat {
    /// Starts the echo; `None` if the program is missing.
    pub(super) fn start() -> anyhow::Result<Option<Socat>> {
        // A port that was free a moment ago; socat does not report the port that it chose.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let listen =
            format!("TCP4-LISTEN:{},bind=127.0.0.1,reuseaddr,fork,nodelay", address.port());
        let started = Command::new("socat").args([&listen, "PIPE"]).stdin(Stdio::null()).spawn();
        let process = match started {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            started => started.context("cannot start socat")?,
        };
        let socat = Socat { process, address };
        let deadline = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(address).is_err() {
            anyhow::ensure!(Instant::now() < deadline, "socat does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(socat))
    }

    /// The listening address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Socat {
    fn drop(&mut self) {
        // Its forks end with their connections.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a new order's frame, and the length of its report's frame.
pub(super) fn order_frame() -> (Vec<u8>, usize) {
    let order = LimitOrder {
        cl_ord_id: ClOrdId::from_number(1),
        instrument_id: InstrumentId(1),
        account_id: AccountId(1),
        side: Side::Buy,
        price: Price(100),
        order_qty: Qty(1),
        time_in_force: TimeInForce::Gtc,
    };
    let request = weir_client::request::stamp(order.request(), SessionId(1), RequestNo(1));
    let mut frame = Vec::new();
    put_request(&request, &mut frame);
    (frame, FRAME_HEADER_LEN + ExecutionReport::BLOCK_LENGTH)
}

/// Sends one order's bytes at a time to an echo of bytes.
pub(super) fn ping_bytes(address: SocketAddr, run: Duration) -> anyhow::Result<Quantiles> {
    let (frame, _) = order_frame();
    let stream = connect(address)?;
    ping(stream, &frame, frame.len(), run)
}

/// Sends one order at a time to Weir's echo, with the same client.
pub(super) fn ping_weir_echo(address: SocketAddr, run: Duration) -> anyhow::Result<Quantiles> {
    let mut stream = connect(address)?;
    let logon = Logon {
        api_key: ApiKey([0; 32]),
        session_id: SessionId(1),
        heartbeat_interval_ms: 60_000,
        cancel_on_disconnect: Switch::Off,
        takeover: Switch::Off,
    };
    let mut bytes = Vec::new();
    put_logon(&logon, &[], &mut bytes);
    stream.write_all(&bytes)?;
    let mut head = [0; SOFH_LEN];
    stream.read_exact(&mut head)?;
    let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let mut rest = vec![0; len.saturating_sub(SOFH_LEN)];
    stream.read_exact(&mut rest)?;
    let (frame, answer_len) = order_frame();
    ping(stream, &frame, answer_len, run)
}

fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(stream)
}

fn ping(
    mut stream: TcpStream,
    question: &[u8],
    answer_len: usize,
    run: Duration,
) -> anyhow::Result<Quantiles> {
    let mut times = histogram();
    let mut answer = vec![0; answer_len];
    let start = Instant::now();
    while start.elapsed() < run {
        let sent = Instant::now();
        stream.write_all(question)?;
        stream.read_exact(&mut answer)?;
        times.saturating_record(weir_client::clock::nanos(sent.elapsed()).0);
    }
    Ok(Quantiles::of(&times))
}

/// Writes and syncs an order's bytes repeatedly, in a file filled ahead: the lower bound of the
/// cost of `disk` on this machine.
pub(super) fn bare_sync(dir: &Path, run: Duration) -> anyhow::Result<Quantiles> {
    let path = dir.join("bare-sync");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
    if file.metadata()?.len() < FILE_LEN {
        file.write_all_at(&vec![0; usize::try_from(FILE_LEN)?], 0)?;
        file.sync_all()?;
    }
    let (frame, _) = order_frame();
    let (mut times, mut offset) = (histogram(), 0);
    let start = Instant::now();
    while start.elapsed() < run {
        let begun = Instant::now();
        file.write_all_at(&frame, offset)?;
        file.sync_data()?;
        times.saturating_record(weir_client::clock::nanos(begun.elapsed()).0);
        offset = (offset + frame.len() as u64) % (FILE_LEN - frame.len() as u64);
    }
    Ok(Quantiles::of(&times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_sync_loop_measures_every_write() {
        let dir = tempfile::tempdir().unwrap();
        let figures = bare_sync(dir.path(), Duration::from_millis(20)).unwrap();
        assert!(figures.count > 0 && figures.max > 0);
    }
}
