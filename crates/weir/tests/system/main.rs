//! System tests: real nodes as processes, real clients over TCP, one node per test.
//!
//! Each test checks one promise of a protocol page or of the command line. The tests share nothing,
//! so they run side by side. None of them measures time.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod support;

mod access;
mod archive;
mod backup;
mod clocks;
mod cold;
mod cold_sources;
mod dbn;
mod definitions;
mod descriptors;
mod drop_copy;
mod emulators;
mod executions;
mod fairness;
mod follower;
mod gateways;
mod groups;
mod halts;
mod ingest;
mod ingest_restart;
mod leftovers;
mod links;
mod liveness;
mod lobby;
mod logon;
mod malformed;
mod market;
mod market_web;
mod matching;
mod names;
mod operations;
mod operator;
mod own_feed;
mod own_replica;
mod own_snapshot;
mod own_snapshots;
mod partition_cash;
mod partition_places;
mod partition_threads;
mod partitions;
mod phase_causes;
mod pipelining;
mod publish;
mod reader_tools;
mod repeats;
mod replica;
mod restart;
mod retention;
mod retention_views;
mod secrets;
mod service;
mod several_channels;
mod several_partitions;
mod slow_reader;
mod source_failures;
mod stalled_disk;
mod state_client;
mod subscription_bounds;
mod subscriptions;
mod tools;
mod troubles;
mod web;
mod web_bounds;
