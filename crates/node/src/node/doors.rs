//! The listeners other than the gateway's, for outside cores and for subscribers; and with TLS, the
//! thread of each listener that does its handshakes.

use anyhow::Context;
use rtrb::RingBuffer;
use weir_door::handshakes::{HandshakeLimits, Handshakes, HandshakesParts, SECURED_MAX};
use weir_door::{Door, DoorLimits};
use weir_io::net::Listener;
use weir_io::{Clock, OsRng, Rng, SystemClock};
use weir_log::SequencedLog as _;
use weir_orderstate::ingest::{IngestAgent, IngestParts, ingest_agent, ingest_to_store};
use weir_partition::recovery::RecoveredPartition;
use weir_runtime::{Runner, RunningThread, WaitStrategy, Wake};
use weir_subscribe::{EventParts, SubscriptionsAgent, SubscriptionsParts, subscriptions_agent};
use weir_types::Nanos;
use weir_wire::session::NodeId;

use super::assembly::Assembly;
use super::stores::Ingest;
use super::threads::{DELIVERY_SHARE, NEWCOMERS_SHARE};

/// A listener with an agent of its own.
pub(super) struct OuterDoor<A> {
    agent: A,
    handshakes: Option<Runner>,
}

impl Assembly<'_> {
    /// Opens the listener of order entry and delivery.
    pub(super) fn front_door(
        &self,
        listener: std::net::TcpListener,
    ) -> anyhow::Result<(Door, Option<Runner>)> {
        self.door(listener, "handshakes", &self.wakes.newcomers)
    }

    /// The limits of a door beside the gateway's; strangers have the same as there.
    pub(super) fn door_limits(&self, connections_max: usize) -> DoorLimits {
        DoorLimits { connections_max, lobby: self.gateway_config().lobby }
    }

    /// Creates the door of a listener and, with TLS, the thread that does the handshakes and wakes
    /// the door's thread.
    pub(super) fn door(
        &self,
        listener: std::net::TcpListener,
        thread: &'static str,
        wake: &Wake,
    ) -> anyhow::Result<(Door, Option<Runner>)> {
        let (Some(tls), Some(section)) = (&self.tls, &self.config.tls) else {
            return Ok((Door::Plain(Listener::from_std(listener)?), None));
        };
        let (secured, to_door) = RingBuffer::new(SECURED_MAX);
        let handshakes = Handshakes::new(HandshakesParts {
            listener,
            door: tls.clone(),
            secured,
            wake: wake.clone(),
            limits: HandshakeLimits {
                pending_max: section.handshakes_max,
                time_max: Nanos(section.handshake_max_ms * 1_000_000),
            },
            draining: self.draining.clone(),
        })?;
        let runner = Runner::new(thread, Wake::new(), WaitStrategy::Park)
            .sharing(NEWCOMERS_SHARE)
            .giving_way()
            .with_sockets(handshakes);
        Ok((Door::Tls(to_door), Some(runner)))
    }

    /// Builds the agent that outside cores connect to, where configured, and the store's end of its
    /// ring.
    pub(super) fn ingest(&mut self, control: &RecoveredPartition) -> anyhow::Result<Ingest> {
        let Some(section) = &self.config.ingest else { return Ok(None) };
        let listener = std::net::TcpListener::bind(section.listen)
            .with_context(|| format!("cannot listen for cores on {}", section.listen))?;
        self.ingest_at = Some(listener.local_addr()?);
        let (door, handshakes) = self.door(listener, "ingest-tls", &self.wakes.ingest)?;
        let (port, store_port) =
            ingest_to_store(self.wakes.ingest.clone(), self.wakes.delivery.clone());
        self.health.watch_sources(self.ingest_figures.clone());
        let agent = ingest_agent(IngestParts {
            door,
            sources: self.sources(),
            followed: self
                .followed()
                .iter()
                .map(|s| s.source)
                .chain(self.config.own_ids())
                .collect(),
            definitions: control.reader("ingest"),
            port,
            node_id: NodeId(control.log.log_id().to_be_bytes()),
            rng: Box::new(OsRng),
            limits: self.door_limits(section.connections_max),
            draining: self.draining.clone(),
            figures: self.ingest_figures.clone(),
        })?;
        Ok(Some((OuterDoor { agent, handshakes }, store_port)))
    }

    /// Builds the agent of durable subscriptions, where configured.
    pub(super) fn subscriptions(
        &mut self,
        control: &RecoveredPartition,
        trading: &[RecoveredPartition],
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Option<OuterDoor<SubscriptionsAgent>>> {
        let Some(section) = &self.config.subscriptions else { return Ok(None) };
        let listener = std::net::TcpListener::bind(section.listen)
            .with_context(|| format!("cannot listen for subscribers on {}", section.listen))?;
        self.subscriptions_at = Some(listener.local_addr()?);
        let (door, handshakes) = self.door(listener, "subscribe-tls", &self.wakes.subscriptions)?;
        let dir = section.dir.clone().unwrap_or_else(|| self.config.dir.join("broker"));
        let id = (u128::from(OsRng.next_u64()) << 64) | u128::from(OsRng.next_u64());
        let config = section.config(id, self.config.durability);
        let (durability, quota) = (config.durability, config.quota);
        let disk = weir_io::ThreadDisk::open(&dir, Some(self.wakes.subscriptions.as_waker()))?;
        let log_times = trading.iter().map(|one| one.log.last_log_time());
        let log_time = log_times.max().unwrap_or(Nanos(0));
        // Served time of a new broker, so that its times look like others.
        let now = SystemClock.now().max(log_time);
        let (broker, report) = weir_broker::Broker::open(config, disk, now)
            .with_context(|| format!("cannot open the subscriptions in {}", dir.display()))?;
        if !report.was_closed && report.run > 1 {
            notes.push(format!(
                "durable subscriptions: {}, {} messages not taken, found after a crash",
                report.subscriptions, report.messages
            ));
        }
        let agent = subscriptions_agent(SubscriptionsParts {
            door,
            broker,
            durability,
            quota,
            bounds: section.bounds(),
            log_time,
            events: trading.iter().map(events_of).collect(),
            sources: self.sources(),
            definitions: control.reader("durable subscriptions"),
            node_id: NodeId(control.log.log_id().to_be_bytes()),
            rng: Box::new(OsRng),
            limits: self.door_limits(section.connections_max),
            draining: self.draining.clone(),
            figures: self.subscriptions_figures.clone(),
        })?;
        Ok(Some(OuterDoor { agent, handshakes }))
    }

    /// Starts the threads of the agents with listeners of their own.
    pub(super) fn start_doors(
        &self,
        ingest: Option<OuterDoor<IngestAgent>>,
        subscriptions: Option<OuterDoor<SubscriptionsAgent>>,
        threads: &mut Vec<RunningThread>,
    ) -> anyhow::Result<()> {
        if let Some(door) = ingest {
            let runner = Runner::new("ingest", self.wakes.ingest.clone(), WaitStrategy::Park)
                .with_sockets(door.agent);
            self.start_door("ingest", runner, "ingest-tls", door.handshakes, threads)?;
        }
        if let Some(door) = subscriptions {
            let runner =
                Runner::new("subscribe", self.wakes.subscriptions.clone(), self.config.wait)
                    .with_sockets(door.agent);
            self.start_door("subscribe", runner, "subscribe-tls", door.handshakes, threads)?;
        }
        Ok(())
    }

    fn start_door(
        &self,
        name: &'static str,
        runner: Runner,
        secured: &'static str,
        handshakes: Option<Runner>,
        threads: &mut Vec<RunningThread>,
    ) -> anyhow::Result<()> {
        let runner = runner.sharing(DELIVERY_SHARE).giving_way().with_beat(self.beat(name));
        threads.push(runner.start()?);
        if let Some(handshakes) = handshakes {
            threads.push(handshakes.with_beat(self.beat(secured)).start()?);
        }
        Ok(())
    }
}

/// Returns a partition's events for durable subscriptions.
fn events_of(trading: &RecoveredPartition) -> EventParts {
    EventParts {
        partition_id: trading.partition_id,
        events: trading.reader("durable subscriptions"),
        event_count: trading.event_count(),
        last: trading.engine.position(),
    }
}
