//! The thread that publishes the node's own market, where it is published.

use weir_market::publish::{Calendar, Channel, RequestServer};

use super::*;
use crate::market::publish::{PublishAgent, PublishFigures, PublishParts};
use crate::market::udp;

/// The publisher's thread, where it takes requests, and its figures.
pub(super) struct Publisher {
    pub(super) runner: Runner,
    pub(super) requests: SocketAddr,
    pub(super) figures: Arc<PublishFigures>,
}

/// The threads behind the others, with the publisher's before them: it has heard all when they end.
pub(super) fn before(publisher: Option<Publisher>, behind: Vec<Runner>) -> Vec<Runner> {
    publisher.map(|publisher| publisher.runner).into_iter().chain(behind).collect()
}

impl Assembly<'_> {
    /// What publishes the trading partition's market, where the configuration says so.
    pub(super) fn publisher(&self, trading: &Recovered) -> anyhow::Result<Option<Publisher>> {
        let Some(section) = &self.config.market_data.publish else { return Ok(None) };
        let events = trading.reader();
        anyhow::ensure!(
            events.next_record() == 1,
            "market_data.publish: the event log begins at record {}: orders of before are not \
             known, and a book without them would be wrong",
            events.next_record()
        );
        let sender = udp::sender(section.interface, section.hops)
            .with_context(|| format!("cannot send by {}", section.interface))?;
        sender.set_nonblocking(true)?;
        let requests = std::net::UdpSocket::bind(section.requests)
            .with_context(|| format!("cannot take requests on {}", section.requests))?;
        requests.set_nonblocking(true)?;
        let (address, poller) = (requests.local_addr()?, FdPoller::new(&[requests.as_raw_fd()])?);
        let figures = Arc::new(PublishFigures::default());
        let agent = PublishAgent::new(PublishParts {
            partition_id: TRADING,
            events,
            event_count: trading.event_count(),
            epoch: trading.epoch,
            ended: trading.ended.clone(),
            calendar: Calendar::new(section.day_begins_hour),
            channel: Channel::new(section.messages_max, section.packet_bytes),
            server: RequestServer::new(section.requests_per_second),
            sender,
            lines: std::iter::once(section.group).chain(section.line_b).collect(),
            requests,
            look_interval: Nanos(section.look_interval_us * 1_000),
            figures: figures.clone(),
        });
        let runner = Runner::new("publish", Wake::new(), self.config.wait)
            .sharing(DELIVERY_SHARE)
            .giving_way()
            .with_sockets(poller)
            .with_agent(agent);
        Ok(Some(Publisher { runner, requests: address, figures }))
    }
}
