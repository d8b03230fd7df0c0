//! Assembles a node that follows another node's partition and has none of its own: a control
//! partition, in which its clients' sessions are defined, and the followed stores. It trades
//! nothing.
//!
//! Clients log on as at any node: same gateway, same newcomers' thread, same keys.

use super::*;

/// Starts a node whose partition 1 is followed from another node.
pub(super) fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
    refuse_traded(config)?;
    let (listener, address) = listen(config)?;
    let web_listener = listen_for_web(config)?;
    let tls = open_door(config)?;
    prepare_dir(config, &[PartitionId(0)])?;
    let wake_fd = WakeFd::new()?;
    let control = recover(&config.recovery(), PartitionId(0), &wake_fd)?;
    let mut notes = control.notes.clone();
    let mut probes = Probes::start(config, &mut notes);
    let mut assembly = Assembly::new(config, health, tls.clone())?;
    let bootstrap = bootstrap(config, &control, &mut notes)?;
    let (control_port, control_source) =
        gateway_to_partition(PartitionId(0), assembly.wakes.partition.clone());
    let (delivery_port, gateway_port) =
        gateway_to_delivery(assembly.wakes.gateway.clone(), assembly.wakes.delivery.clone());
    let (door, handshakes) = assembly.front_door(listener)?;
    let ports = vec![port_of(control_port, &control)];
    let mut gateway = assembly.gateway(ports, delivery_port, &mut probes, &[&control])?;
    let newcomers = assembly.newcomers(door, &mut gateway)?;
    let web = assembly.web_side(&gateway, || control.reader());
    let definitions = gateway.definition_count();
    let (ingest, ingest_port) = assembly.ingest(&control)?.unzip();
    let ingest_address = ingest.as_ref().map(|door| door.address);
    let (replica, update_port) = assembly.replica()?.unzip();
    let reader_ports = ReaderPorts::new(gateway_port, web.port);
    let (mut delivery, writer) =
        assembly.delivery((reader_ports, (ingest_port, update_port)), (None, &mut notes))?;
    let figures = assembly.figures(&control);
    let (control, shadow) = control.with_shadow(&config.recovery())?;
    let control = assembly.partition(control, vec![bootstrap, control_source], &mut probes);
    let latencies = probes.drain.as_ref().map(Drain::reader);
    let hiccups = start_hiccups(config, probes.clock.as_ref(), &mut notes);
    let status = Arc::new(NodeStatus {
        partitions: vec![figures],
        tls: tls.clone(),
        web: web.hub.as_ref().map(|hub| hub.figures.clone()),
        ingest: ingest_address.map(|address| (address, assembly.ingest_figures.clone())),
        latencies,
        hiccups,
        ..assembly.status()
    });
    let always = [keeper(probes.drain), shadows().with_agent(shadow)];
    let aside = (delivery.take_cold(), replica, writer);
    let others = Others {
        delivery: assembly.delivery_thread().with_agent(delivery),
        ingest,
        broker: None,
        newcomers,
        handshakes,
        web_readers: web.readers,
        background: assembly.background(aside, always),
    };
    let threads = assembly.start_threads((gateway, vec![Box::new(control)]), others, &wake_fd)?;
    assembly.wait_for_operator(definitions)?;
    let web = web_listener.zip(web.hub).map(|(at, hub)| WebServer::start(at, hub, None));
    let Assembly { draining, token_keys, .. } = assembly;
    let (web, reload) = (web.transpose()?, None);
    Ok(Node { threads, draining, address, status, tls, web, reload, token_keys, notes })
}

/// Refuses a directory with orders of its own: the followed partition would hide them.
fn refuse_traded(config: &Config) -> anyhow::Result<()> {
    let dir = config.dir.join(partition_dir(TRADING));
    anyhow::ensure!(
        !dir.exists(),
        "replica.sources has 1, and {} holds orders of this node's own: choose another dir",
        dir.display()
    );
    Ok(())
}
