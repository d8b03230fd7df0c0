//! Assembles a router: a control partition of its own, in which its clients' sessions are defined,
//! and the agent that queries the nodes behind it. It trades nothing.
//!
//! Clients log on as at a node: same gateway, same newcomers' thread, same keys.

use weir_orderstate::router::{RouterAgent, RouterBoard, RouterParts};

use super::*;

/// The reason why a router is not ready while none of its sources can be queried.
const CUT_OFF: &str = "no store of any source can be asked";

/// Starts a router.
pub(super) fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
    let section = config.router.clone().context("a router has a section [router]")?;
    let (listener, address) = listen(config)?;
    let web_listener = listen_for_web(config)?;
    let tls = open_door(config)?;
    prepare_dir(config, &[PartitionId(0)])?;
    let wake_fd = WakeFd::new()?;
    let control = recover(&config.recovery(), PartitionId(0), &wake_fd)?;
    let mut notes = control.notes.clone();
    let mut probes = Probes::start(config, &mut notes);
    let mut assembly = Assembly::new(config, health.clone(), tls.clone())?;
    let bootstrap = bootstrap(config, &control, &mut notes)?;
    let (control_port, control_source) =
        gateway_to_partition(PartitionId(0), assembly.wakes.partition.clone());
    let (delivery_port, gateway_port) =
        gateway_to_delivery(assembly.wakes.gateway.clone(), assembly.wakes.delivery.clone());
    let lineage = Lineage::new(control.epoch, &control.ended);
    let ports = vec![PortParts { ring: control_port, events: control.reader(), lineage }];
    let (door, handshakes) = assembly.front_door(listener)?;
    let mut gateway = assembly.gateway(ports, delivery_port, &mut probes, &[&control])?;
    let newcomers = assembly.newcomers(door, &mut gateway)?;
    let web = assembly.web_side(&gateway, || control.reader());
    let definitions = gateway.definition_count();
    let board = Arc::<RouterBoard>::default();
    let reload = Reload::new(assembly.wakes.delivery.clone());
    health.watch_trouble(CUT_OFF, board.is_cut_off.clone());
    let router = RouterAgent::new(RouterParts {
        section,
        sealer: sealer(&assembly.token_keys),
        ports: ReaderPorts::new(gateway_port, web.port),
        reload: reload.clone(),
        figures: assembly.delivery_figures.clone(),
        board: board.clone(),
    })?;
    let figures = assembly.figures(&control);
    let (control, shadow) = control.with_shadow(&config.recovery())?;
    let control = assembly.partition(control, vec![bootstrap, control_source], &mut probes);
    let latencies = probes.drain.as_ref().map(Drain::reader);
    let hiccups = start_hiccups(config, probes.clock.as_ref(), &mut notes);
    let status = Arc::new(NodeStatus {
        partitions: vec![figures],
        tls: tls.clone(),
        web: web.hub.as_ref().map(|hub| hub.figures.clone()),
        router: Some(board),
        latencies,
        hiccups,
        ..assembly.status()
    });
    let others = Others {
        delivery: assembly.delivery_thread().with_sockets(router),
        ingest: None,
        broker: None,
        newcomers,
        handshakes,
        web_readers: web.readers,
        background: vec![keeper(probes.drain), shadows().with_agent(shadow)],
    };
    let threads = assembly.start_threads((gateway, vec![Box::new(control)]), others, &wake_fd)?;
    assembly.wait_for_operator(definitions)?;
    let web = web_listener.zip(web.hub).map(|(at, hub)| WebServer::start(at, hub, None));
    let Assembly { draining, token_keys, .. } = assembly;
    let (web, reload) = (web.transpose()?, Some(reload));
    Ok(Node { threads, draining, address, status, tls, web, reload, token_keys, notes })
}
