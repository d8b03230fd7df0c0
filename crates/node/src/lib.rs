//! The node: gateway, partitions, delivery, probes and the command line, as one process.
//!
//! * [`agent`], [`runner`]: parts with a duty cycle, and the threads that run them.
//! * [`gateway`], [`partition`], [`control_feed`], [`delivery_agent`], [`keeper`]: the parts.
//! * [`handoff`], [`event_reader`], [`reader_ports`]: what crosses between them; [`entitlement`]:
//!   who may see what; [`token_keys`]: what seals tokens; [`reader_list`]: who waits.
//! * [`router`]: order state of many nodes as one service.
//! * [`node`]: puts them together; [`config`]: what can be set.
//! * [`status`], [`cycles`], [`http`], [`health`], [`service`], [`diagnostics`]: what the node says
//!   of itself.
//! * [`cold`]: orders that the delivery store let go.
//! * [`web`]: order state over HTTP; [`order_json`], [`hex`]: how it is written.
//! * [`market`]: market data received, captured, measured and sent again.
//! * [`backup`]: a copy of a node's directory, and a node made of one.
//! * [`cli`]: `weir serve`, `weir demo` and the rest.

pub mod agent;
pub mod backup;
pub mod bench_broker;
pub mod bench_cold;
pub mod bench_delivery;
pub mod bench_isolation;
pub mod bench_market_udp;
pub mod bench_probes;
pub mod bench_roundtrip;
pub mod bench_router;
pub mod broker;
pub mod cli;
pub mod cold;
pub mod config;
pub mod control_feed;
pub mod cycles;
pub mod delivery_agent;
pub mod diagnostics;
pub mod door;
pub mod entitlement;
pub mod event_reader;
pub mod fd_poller;
pub mod gateway;
pub mod handoff;
pub mod health;
pub mod heap;
pub mod hex;
pub mod http;
pub mod ingest;
pub mod keeper;
pub mod market;
pub mod markets;
pub mod node;
pub mod order_json;
pub mod partition;
pub mod reader_list;
pub mod reader_ports;
pub mod reason_counts;
pub mod replica;
pub mod router;
pub mod runner;
pub mod service;
pub mod stage_clock;
pub mod status;
pub mod stores;
pub mod token_keys;
pub mod web;
