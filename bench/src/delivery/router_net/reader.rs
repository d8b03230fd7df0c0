//! The benchmark's reader: follows by token and counts rows.

use std::net::SocketAddr;
use std::time::Duration;

use weir_cli::endpoint::TIMEOUT;
use weir_client::follower::{Follower, FollowerConfig};
use weir_client::{Client, Incoming, Limits, SessionConfig};
use weir_types::PartitionId;

use super::{READER, key_of};

/// The number of polls without progress after which nothing more is expected.
const TURNS_MAX: u32 = 60_000;

pub(super) struct Reader {
    client: Client,
    follower: Follower,
    row_count: u64,
}

impl Reader {
    /// Logs on and queries all orders of a source, or of all sources.
    pub(super) fn log_on(address: SocketAddr, source_id: PartitionId) -> anyhow::Result<Reader> {
        let mut client = Client::connect(address, Limits::default())?;
        let session = SessionConfig {
            heartbeat_interval_ms: 60_000,
            ..SessionConfig::new(READER, key_of(READER))
        };
        client.log_on(session, TIMEOUT)?;
        let config = FollowerConfig { source_id, ..FollowerConfig::new(READER) };
        let mut follower = Follower::new(config, Vec::new());
        follower.ask(client.outbox());
        Ok(Reader { client, follower, row_count: 0 })
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let Reader { client, follower, row_count } = self;
        let mut wrong = None;
        client.poll(Duration::from_millis(1), |incoming, out| {
            let taken = match incoming {
                Incoming::Page(page, token) => follower.on_page(&page, token, out).map(|_| ()),
                Incoming::Rows(body, rows) => {
                    follower.on_rows(&body, rows, |_| *row_count += 1).map(|_| ())
                }
                Incoming::Sources(states, sources) => {
                    follower.on_sources(&states, sources).map(|_| ())
                }
                _ => Ok(()),
            };
            wrong = wrong.take().or(taken.err());
        })?;
        wrong.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Waits for `count` more rows.
    pub(super) fn take_rows(&mut self, count: u64) -> anyhow::Result<()> {
        let wanted = self.row_count + count;
        self.until(|reader| reader.row_count >= wanted)
    }

    pub(super) fn until_online(&mut self) -> anyhow::Result<()> {
        self.until(|reader| reader.follower.is_online())
    }

    fn until(&mut self, is_there: impl Fn(&Reader) -> bool) -> anyhow::Result<()> {
        for _ in 0..TURNS_MAX {
            if is_there(self) {
                return Ok(());
            }
            self.turn()?;
        }
        anyhow::bail!("the reader has {} rows, and no more come", self.row_count)
    }

    pub(super) fn log_out(self) -> anyhow::Result<()> {
        self.client.log_out(TIMEOUT)?;
        Ok(())
    }
}
