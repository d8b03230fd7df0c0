//! A supervisor's keys in use as fast as they serve: one session reads the state of all orders from
//! the beginning, another one the drop copy of all firms, and both begin again at the end.

use std::net::SocketAddr;
use std::time::Duration;

use weir_cli::endpoint::TIMEOUT;
use weir_client::drop_copy::{Beginning, DropCopy};
use weir_client::{Client, DropCopyReader, Follower, FollowerConfig, Incoming};
use weir_types::FirmId;

use super::history;
use super::party::{Party, log_on, patient_config};
use super::rig::SUPERVISORS;

/// The pages that may come in answer to one question.
const CREDIT: u32 = 16;
/// The longest wait of a page when there is nothing new, in microseconds.
const WAIT_US: u32 = 1_000;
/// The copies after which the reader of copies begins again though more would come.
const COPIES_MAX: u64 = 200_000;
/// The wait for anything when nothing has come.
const WAIT: Duration = Duration::from_millis(1);

/// The supervisor.
#[derive(Default)]
pub(super) struct Supervisor {
    /// The nodes that have a history.
    prepared: Vec<SocketAddr>,
    readers: Option<Readers>,
    done: u64,
}

impl Party for Supervisor {
    fn turn(&mut self, node: Option<SocketAddr>, _: bool) -> anyhow::Result<()> {
        if let Some(readers) = self.readers.take() {
            readers.client.log_out(TIMEOUT)?;
            readers.copies.map_or(Ok(()), |copies| copies.log_out(TIMEOUT))?;
        }
        let Some(node) = node else { return Ok(()) };
        if !self.prepared.contains(&node) {
            history::write(node)?;
            self.prepared.push(node);
        }
        self.readers = Some(Readers::begin(node)?);
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let Some(readers) = &mut self.readers else {
            std::thread::sleep(Duration::from_millis(5));
            return Ok(());
        };
        let rows = readers.read_rows()?;
        let copies = readers.read_copies(if rows > 0 { Duration::ZERO } else { WAIT })?;
        self.done += rows + copies;
        Ok(())
    }

    fn done(&self) -> u64 {
        self.done
    }
}

/// The readers at a node.
struct Readers {
    node: SocketAddr,
    client: Client,
    follower: Follower,
    follower_no: u32,
    /// None only while it begins again: a session is logged on once.
    copies: Option<DropCopyReader>,
    /// The copies since the beginning.
    copy_count: u64,
}

impl Readers {
    fn begin(node: SocketAddr) -> anyhow::Result<Readers> {
        let mut client = log_on(node, SUPERVISORS[0], 1)?;
        let mut follower = follower(0);
        follower.ask(client.outbox());
        let copies = Some(copies(node)?);
        Ok(Readers { node, client, follower, follower_no: 0, copies, copy_count: 0 })
    }

    /// Reads the rows that have come; begins again when that was all of them.
    fn read_rows(&mut self) -> anyhow::Result<u64> {
        let Readers { client, follower, follower_no, .. } = self;
        let (mut rows, mut trouble) = (0, None);
        client.poll(Duration::ZERO, |incoming, out| {
            let heard = match incoming {
                Incoming::Page(page, token) => follower.on_page(&page, token, out).map(drop),
                Incoming::Rows(body, of_page) => {
                    follower.on_rows(&body, of_page, |_| rows += 1).map(drop)
                }
                _ => Ok(()),
            };
            trouble = trouble.take().or(heard.err());
        })?;
        trouble.map_or(Ok(()), Err)?;
        if follower.is_online() {
            follower.put_cancel(client.outbox());
            *follower_no = follower_no.wrapping_add(1);
            *follower = self::follower(*follower_no);
            follower.ask(client.outbox());
        }
        Ok(rows)
    }

    /// Reads the copies that come within `wait`; begins again when none does.
    fn read_copies(&mut self, wait: Duration) -> anyhow::Result<u64> {
        let copies_reader = self.copies.as_mut().expect("it has begun");
        let count = copies_reader.poll(wait, |_, _| {})? as u64;
        self.copy_count += count;
        let is_over = count == 0 && !wait.is_zero() || self.copy_count > COPIES_MAX;
        if is_over && self.copy_count > 0 {
            self.copy_count = 0;
            self.copies.take().map_or(Ok(()), |ended| ended.log_out(TIMEOUT))?;
            self.copies = Some(copies(self.node)?);
        }
        Ok(count)
    }
}

/// A follower of all orders, from the first one on.
fn follower(follower_no: u32) -> Follower {
    let config = FollowerConfig {
        follower_no,
        credit: CREDIT,
        wait_max_us: WAIT_US,
        ..FollowerConfig::new(SUPERVISORS[0])
    };
    Follower::new(config, Vec::new())
}

/// A reader of the copies of all firms, from the first one on.
fn copies(node: SocketAddr) -> anyhow::Result<DropCopyReader> {
    let id = SUPERVISORS[1];
    let copies = DropCopy::new(id, FirmId::NONE, Beginning::Oldest, &[]);
    Ok(DropCopyReader::connect(node, patient_config(id), copies, TIMEOUT)?)
}
