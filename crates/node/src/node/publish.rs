//! The threads that publish the node's own market and serve snapshots of it, where configured.

use std::net::UdpSocket;

use weir_feed::session_name::Calendar;
use weir_market::publish::{Channel, RequestServer};
use weir_marketgate::publish::{
    HearingParts, PublishAgent, PublishFigures, PublishParts, SnapshotAgent, SnapshotParts,
};
use weir_marketgate::udp;

use super::*;
use crate::config::PublishSection;

/// The publisher's threads, its address for retransmission requests, and its figures.
pub(super) struct Publisher {
    pub(super) runners: Vec<Runner>,
    pub(super) requests: SocketAddr,
    pub(super) figures: Arc<PublishFigures>,
}

/// Prepends the publisher's threads to the background ones. Threads stop in this order, so the
/// publisher has received all events when it stops.
pub(super) fn before(publisher: Option<Publisher>, behind: Vec<Runner>) -> Vec<Runner> {
    publisher.into_iter().flat_map(|publisher| publisher.runners).chain(behind).collect()
}

impl Assembly<'_> {
    /// Builds the publisher of the trading partition's market, where configured.
    pub(super) fn publisher(&self, trading: &Recovered) -> anyhow::Result<Option<Publisher>> {
        let Some(section) = &self.config.market_data.publish else { return Ok(None) };
        let first = trading.reader().next_record();
        anyhow::ensure!(
            first == 1,
            "market_data.publish: the event log begins at record {first}: orders of before are \
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
            hearing: hearing(section, trading),
            channel: Channel::new(section.messages_max, section.packet_bytes),
            server: RequestServer::new(section.requests_per_second),
            sender,
            lines: std::iter::once(section.group).chain(section.line_b).collect(),
            requests,
            look_interval: Nanos(section.look_interval_us * 1_000),
            figures: figures.clone(),
        });
        let runner = self.behind("publish").with_sockets(poller).with_agent(agent);
        let runners = std::iter::once(runner).chain(server).collect();
        Ok(Some(Publisher { runners, requests: address, figures }))
    }

    /// Builds the snapshot server of that market, where configured: its figures and its thread.
    fn snapshots(
        &self,
        section: &PublishSection,
        trading: &Recovered,
    ) -> anyhow::Result<Option<(Arc<SnapshotFigures>, Runner)>> {
        let Some(address) = section.snapshots else { return Ok(None) };
        let access = section.snapshots_access().context("market_data.publish")?;
        let listener = std::net::TcpListener::bind(address)
            .with_context(|| format!("cannot serve snapshots on {address}"))?;
        listener.set_nonblocking(true)?;
        let poller = FdPoller::new(&[listener.as_raw_fd()])?;
        let figures = Arc::new(SnapshotFigures::new(listener.local_addr()?));
        let agent = SnapshotAgent::new(SnapshotParts {
            hearing: hearing(section, trading),
            listener,
            access,
            clients_max: section.snapshots_clients_max,
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

fn hearing(section: &PublishSection, trading: &Recovered) -> HearingParts {
    HearingParts {
        partition_id: TRADING,
        events: trading.reader(),
        event_count: trading.event_count(),
        epoch: trading.epoch,
        ended: trading.ended.clone(),
        calendar: Calendar::new(section.day_begins_hour),
    }
}
