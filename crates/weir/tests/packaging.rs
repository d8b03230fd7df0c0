//! The program accepts an installation's files.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

use clap::Parser;
use weir_cli::Cli;
use weir_node::config::Config;
use weir_node::diagnostics::LineFormat;
use weir_runtime::ConfigError;

const UNIT: &str = include_str!("../../../packaging/weir.service");
const CONFIG: &str = include_str!("../../../packaging/weir.toml");

#[test]
fn the_configuration_is_one() {
    let config = Config::parse(CONFIG).unwrap();
    config.check_listeners().unwrap();
    assert_eq!(config.diagnostics.format, LineFormat::Json);
    assert!(!config.http.ip().is_unspecified(), "figures are not for everybody");
}

#[test]
fn opened_to_other_machines_the_configuration_needs_its_certificate() {
    let open = CONFIG.replace("listen = \"127.0.0.1:7001\"", "listen = \"0.0.0.0:7001\"");
    let error = Config::parse(&open).unwrap().check_listeners().unwrap_err();
    assert!(matches!(error, ConfigError::ClearText { key: "listen", .. }), "{error}");
    let lines = open.lines().map(|line| match line.strip_prefix("# ") {
        Some(set) if set == "[tls]" || set.starts_with("certificate") || set.starts_with("key") => {
            set
        }
        _ => line,
    });
    let with_tls = lines.collect::<Vec<_>>().join("\n");
    let config = Config::parse(&with_tls).unwrap();
    assert!(config.tls.is_some(), "{with_tls}");
    config.check_listeners().unwrap();
}

#[test]
fn the_unit_starts_the_node_with_the_configuration() {
    let starts: Vec<_> = UNIT.lines().filter_map(|line| line.strip_prefix("ExecStart=")).collect();
    let [start] = starts[..] else { panic!("one command starts it: {starts:?}") };
    let words: Vec<_> = start.split_whitespace().collect();
    assert!(words.contains(&"/etc/weir/weir.toml"));
    Cli::try_parse_from(words).unwrap();
    // The state directory that systemd creates is the configuration's.
    assert!(UNIT.contains("StateDirectory=weir") && CONFIG.contains("dir = \"/var/lib/weir\""));
    // The program reports readiness and sends watchdog notices.
    assert!(UNIT.contains("Type=notify") && UNIT.contains("WatchdogSec="));
}
