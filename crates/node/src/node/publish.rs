//! The threads that publish the node's own market and serve snapshots of it, where configured.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use anyhow::Context;
use weir_feed::session_name::Calendar;
use weir_market::publish::{Channel, RequestServer};
use weir_marketgate::publish::{
    EventPublisherParts, PublishAgent, PublishFigures, PublishParts, SnapshotAgent,
    SnapshotFigures, SnapshotParts,
};
use weir_marketgate::udp;
use weir_partition::recovery::RecoveredPartition;
use weir_runtime::fd_poller::FdPoller;
use weir_runtime::{Runner, Wake};
use weir_types::Nanos;

use super::assembly::Assembly;
use super::threads::DELIVERY_SHARE;
use crate::config::MarketPublisherSection;

/// The name under which the status shows what the publisher holds.
const PUBLISHER: &str = "market publisher";

impl Assembly<'_> {
    /// Builds the threads that publish the trading partition's market, where configured.
    pub(super) fn publisher(
        &mut self,
        trading: &RecoveredPartition,
    ) -> anyhow::Result<Vec<Runner>> {
        let Some(section) = &self.config.market_publisher else { return Ok(Vec::new()) };
        let first = trading.reader(PUBLISHER).next_record();
        anyhow::ensure!(
            first == 1,
            "market_publisher: the event log begins at record {first}: orders of before are \
             not known, and a book without them would be wrong"
        );
        let (snapshots, server) = self.snapshots(section, trading)?.unzip();
        let figures = Arc::new(PublishFigures::new(snapshots));
        let sender = udp::sender(section.interface, section.hops)
            .with_context(|| format!("cannot send by {}", section.interface))?;
        sender.set_nonblocking(true)?;
        let requests = UdpSocket::bind(section.requests)
            .with_context(|| format!("cannot take requests on {}", section.requests))?;
        requests.set_nonblocking(true)?;
        let (address, poller) = (requests.local_addr()?, FdPoller::new(&[requests.as_raw_fd()])?);
        let agent = PublishAgent::new(PublishParts {
            events: events(section, trading),
            channel: Channel::new(section.messages_max, section.packet_bytes),
            server: RequestServer::new(section.requests_per_second),
            sender,
            lines: std::iter::once(section.group).chain(section.line_b).collect(),
            requests,
            look_interval: Nanos(section.look_interval_us * 1_000),
            figures: figures.clone(),
        });
        let runner = self.behind("publish").with_sockets(poller).with_agent(agent);
        self.publish = Some((address, figures));
        Ok(std::iter::once(runner).chain(server).collect())
    }

    /// Builds the snapshot server of that market, where configured: its figures and its thread.
    fn snapshots(
        &self,
        section: &MarketPublisherSection,
        trading: &RecoveredPartition,
    ) -> anyhow::Result<Option<(Arc<SnapshotFigures>, Runner)>> {
        let Some(address) = section.snapshots else { return Ok(None) };
        let access = section.snapshots_access().context("market_publisher")?;
        let listener = std::net::TcpListener::bind(address)
            .with_context(|| format!("cannot serve snapshots on {address}"))?;
        listener.set_nonblocking(true)?;
        let poller = FdPoller::new(&[listener.as_raw_fd()])?;
        let figures = Arc::new(SnapshotFigures::new(listener.local_addr()?));
        let agent = SnapshotAgent::new(SnapshotParts {
            events: events(section, trading),
            listener,
            access,
            limits: section.snapshot_limits(),
            timeout: Nanos(section.snapshots_timeout_ms * 1_000_000),
            look_interval: Nanos(section.look_interval_us * 1_000),
            figures: figures.clone(),
        });
        Ok(Some((figures, self.behind("snapshots").with_sockets(poller).with_agent(agent))))
    }

    /// Returns a thread that yields to those of the order path.
    fn behind(&self, name: &'static str) -> Runner {
        Runner::new(name, Wake::new(), self.config.wait).sharing(DELIVERY_SHARE).giving_way()
    }
}

fn events(section: &MarketPublisherSection, trading: &RecoveredPartition) -> EventPublisherParts {
    EventPublisherParts {
        partition_id: trading.partition_id,
        events: trading.reader(PUBLISHER),
        event_count: trading.event_count(),
        calendar: Calendar::new(section.day_begins_hour),
    }
}
