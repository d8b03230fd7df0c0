//! The node as its machine's operator sees it: metrics, status, and errors that name the remedy.

use std::process::Command;

use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, open_market};

/// Returns whether a line is a comment, `name value` or `name{label="value",...} value`.
fn is_prometheus(line: &str) -> bool {
    if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
        return true;
    }
    let Some((series, value)) = line.rsplit_once(' ') else { return false };
    let is_number = value.parse::<f64>().is_ok();
    let (name, labels) = match series.split_once('{') {
        None => (series, None),
        Some((name, rest)) => (name, Some(rest)),
    };
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    let are_labels = labels.is_none_or(|labels| {
        labels.strip_suffix('}').is_some_and(|labels| {
            labels.split("\",").all(|label| {
                label.split_once("=\"").is_some_and(|(name, value)| {
                    !name.is_empty() && !value.trim_end_matches('"').contains('"')
                })
            })
        })
    });
    is_number && is_name && are_labels
}

#[test]
fn metrics_are_in_prometheus_format_and_hold_the_latencies_of_the_orders() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=50 {
        alice.ask_for_report(ALICE.buy(number, 50, 1));
    }
    // The drain takes the stamps shortly after the answers.
    let text = crate::support::until("the orders' latencies", || {
        let (code, text) = node.get("/metrics");
        assert_eq!(code, 200);
        let count = text.lines().find_map(|line| {
            let count = line.strip_prefix("weir_latency_seconds_count{measure=\"server\"} ")?;
            count.parse::<u64>().ok()
        });
        count.is_some_and(|count| count >= 50).then_some(text)
    });
    for line in text.lines() {
        assert!(is_prometheus(line), "{line:?} is no metric");
    }
    for name in [
        "weir_latency_seconds_bucket{measure=\"t1\",le=\"+Inf\"}",
        "weir_gateway_requests_total",
        "weir_gateway_cycle_nanoseconds{quantile=\"0.99\"}",
        "weir_partition_position{partition=\"1\"}",
        "weir_delivery_orders",
        "weir_log_bytes",
    ] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} is not in\n{text}");
    }
}

#[test]
fn status_and_health_are_served_and_other_paths_are_not() {
    let home = Home::new("os");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    assert_eq!(node.get("/live"), (200, "live\n".to_owned()));
    assert_eq!(node.get("/ready"), (200, "ready\n".to_owned()));
    assert_eq!(node.get("/nothing").0, 404);
    let status = crate::support::until("the instruments", || {
        let status = node.status();
        (status["instruments"][0]["symbol"] == "WEIR1").then_some(status)
    });
    assert_eq!(status["durability"], "os");
    assert_eq!(status["partitions"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_configuration_with_an_unknown_key_or_a_wrong_value_is_refused_by_name() {
    let cases = [
        ("[gateway]\noutput_bytes = 1", "output_bytes"),
        ("colour = \"red\"", "colour"),
        ("[snapshots]\nkeep = 0", "snapshots.keep"),
        ("[gateway]\noutput_bytes_max = 1", "gateway.output_bytes_max"),
        ("wait = \"sleep\"", "sleep"),
        ("listen = 7001", "listen"),
    ];
    for (config, named) in cases {
        let output = Home::with_config("memory", config).fail_to_start();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(named), "{config:?}: {said}");
        assert!(said.contains("weir.toml") || named.contains('.'), "{config:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_second_node_on_the_same_directory_is_refused_and_the_first_goes_on() {
    let home = Home::new("disk");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let output = home.fail_to_start();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("another process") || said.contains("lock"), "{said}");
    assert!(said.contains("data"), "the directory is named: {said}");
    assert!(!said.contains("panicked"), "{said}");
    Trader::log_on(&node, ALICE).ask_for_report(ALICE.buy(1, 50, 1));
}

#[test]
fn an_address_that_is_taken_is_named() {
    let home = Home::new("memory");
    let node = home.start();
    let elsewhere = Home::new("memory");
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--http", "127.0.0.1:0", "--listen", &node.address().to_string()])
        .args(["--dir".into(), elsewhere.data()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains(&node.address().to_string()), "{said}");
}

#[test]
fn a_first_operator_without_a_key_gets_one_that_only_the_owner_can_read() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new("memory");
    let node = home.start_without_key();
    let path = home.data().join("operator.key");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = std::fs::read_to_string(&path).unwrap();
    let said = home.said_at_start();
    assert!(said.contains("operator.key") && !said.contains(key.trim()));
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["admin", "--node", &node.address().to_string()])
        .args(["--key-file".into(), path])
        .args(["firm", "--id", "7", "--name", "MINE"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
