//! Errors name the cause and the next step, once.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::rig::{NAME, Rig};
use crate::support::{ALICE, BOB, Home, Node, OPERATOR, open_market};
use crate::{fail, hex, succeed, weir, weir_at};

fn operators_key() -> String {
    hex(OPERATOR.key().0)
}

/// A text is said once.
fn assert_once(said: &str, text: &str) {
    assert_eq!(said.matches(text).count(), 1, "{text:?} in {said}");
}

#[test]
fn a_plain_client_at_a_tls_port_and_tls_at_a_plain_one_are_named() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    let key = operators_key();
    let at = |tls: &[&str], node: &Node| {
        let address = node.address().to_string();
        let login = ["admin", "--key", &key, "--node", &address, "--http", node.http()];
        weir(&[&login, tls, &["firm", "--id", "1", "--name", "A"]].concat())
    };
    let said = fail(&mut at(&[], &node));
    assert_once(&said, "uses TLS: give --tls-ca");
    let ca = rig.home.path("ca.pem");
    let tls = ["--tls-ca", ca.to_str().unwrap(), "--tls-name", NAME];
    succeed(&mut at(&tls, &node));
    let home = Home::new("memory");
    let node = home.start();
    let said = fail(&mut at(&tls, &node));
    assert_once(&said, "does not use TLS: leave out --tls-ca");
}

#[test]
fn a_wrong_key_is_named_by_its_source() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let file = home.path("wrong.key");
    std::fs::write(&file, "00".repeat(32)).unwrap();
    let set_mode = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    set_mode(0o640);
    let file = file.to_str().unwrap();
    let said = fail(&mut weir_at(&node, &["orders", "--once", "--key-file", file]));
    assert!(said.contains("wrong.key: others may read it (mode 640)"), "{said}");
    set_mode(0o600);
    let said = fail(&mut weir_at(&node, &["orders", "--once", "--key-file", file]));
    assert!(said.contains("wrong.key: UnknownKey: "), "{said}");
    let said = fail(weir_at(&node, &["orders", "--once"]).env("WEIR_API_KEY", "00".repeat(32)));
    assert_once(&said, "with the key of WEIR_API_KEY");
    // An option goes before the environment.
    std::fs::write(file, operators_key()).unwrap();
    let mut orders = weir_at(&node, &["orders", "--once", "--key-file", file]);
    succeed(orders.env("WEIR_API_KEY", "00".repeat(32)));
}

#[test]
fn a_node_on_this_machine_lends_its_key_by_its_directory() {
    let home = Home::new("memory");
    let node = home.start_without_key();
    let data = home.data();
    let data = data.to_str().unwrap();
    succeed(&mut weir_at(&node, &["orders", "--once", "--dir", data]));
    succeed(weir_at(&node, &["orders", "--once"]).env("WEIR_DIR", data));
    let elsewhere = home.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let said = fail(weir_at(&node, &["orders", "--once"]).current_dir(&elsewhere));
    assert!(said.contains("weir-data/operator.key is not there"), "{said}");
    let address = node.address().to_string().replace("127.0.0.1", "localhost");
    let http = node.http();
    let words = ["orders", "--once", "--dir", data, "--node", &address, "--http", http];
    succeed(&mut weir(&words));
}

#[test]
fn a_contradicting_definition_names_the_field_and_the_value_that_stands() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let admin = |words: &[&str]| {
        let address = node.address().to_string();
        let login = ["admin", "--key", &operators_key(), "--node", &address, "--http", node.http()];
        weir(&[&login, words].concat())
    };
    for (words, want) in [
        (
            &["instrument", "--id", "1", "--symbol", "WEIR1", "--price-exponent", "-4"][..],
            "--price-exponent -4: -2 stands and cannot be changed",
        ),
        (&["instrument", "--id", "2", "--symbol", "WEIR1"], "--symbol WEIR1 is instrument 1's"),
        (&["instrument", "--id", "3", "--symbol", "A", "--tick", "0"], "--tick 0: want 1 or more"),
        (&["account", "--id", "5", "--firm", "99"], "define it first with `weir admin firm"),
        (
            &["session", "--id", "11", "--firm", "11", "--role", "drop-copy"],
            "--role drop-copy, --firm 11: the first role and firm of session 11 stand",
        ),
        (&["account", "--id", "11", "--firm", "12"], "--firm 12: the first firm of account 11"),
    ] {
        assert_once(&fail(&mut admin(words)), want);
    }
    // With the node's directory on this machine the values that stand are known.
    let data = home.data();
    let here =
        |words: &[&str]| fail(&mut admin(&[&["--dir", data.to_str().unwrap()], words].concat()));
    for (words, want) in [
        (
            &["session", "--id", "11", "--firm", "12", "--role", "drop-copy"][..],
            "--role drop-copy: trader stands and cannot be changed; \
             --firm 12: 11 stands and cannot be changed",
        ),
        (
            &["session", "--id", "11", "--firm", "12"],
            "(InvalidDefinition): --firm 12: 11 stands and cannot be changed",
        ),
        (&["account", "--id", "11", "--firm", "12"], "--firm 12: 11 stands and cannot be changed"),
    ] {
        assert_once(&here(words), want);
    }
}

/// Serves a node's pages during its recovery.
fn recovering() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).unwrap() > 0);
            let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 12\r\n\r\n";
            writeln!(stream, "{head}it recovers").unwrap();
        }
    });
    address
}

#[test]
fn a_node_that_recovers_and_one_that_is_not_there_are_told_apart() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let key = operators_key();
    let http = recovering();
    let words = ["orders", "--once", "--key", &key, "--node", &free, "--http", &http];
    let said = fail(&mut weir(&words));
    assert_once(&said, "recovers and takes no connections yet: `weir status --wait 5m`");
    assert_once(&fail(&mut weir(&["status", "--http", &http])), "recovers: `weir status --wait");
    let words = ["orders", "--once", "--key", &key, "--node", &free, "--http", &free];
    let said = fail(&mut weir(&words));
    assert_once(&said, "start a node with `weir serve`");
    assert_once(&said, "refused");
}

#[test]
fn a_port_in_use_names_the_option_that_changes_it() {
    let home = Home::new("memory");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let data = home.data();
    let dir = data.to_str().unwrap();
    for option in ["--listen", "--http", "--web"] {
        let mut words = vec!["serve", "--dir", dir, "--durability", "memory"];
        for other in ["--listen", "--http", "--web"] {
            words.extend([other, if other == option { taken.as_str() } else { "127.0.0.1:0" }]);
        }
        let said = fail(&mut weir(&words));
        assert_once(&said, &format!("has the address {taken}: choose another with {option}"));
    }
}

#[test]
fn values_with_wrong_units_name_the_accepted_forms() {
    for (words, want) in [
        (&["load", "--duration", "soon"][..], "such as 250us or 10s"),
        (&["load", "--reconnect", "5"], "want a number and a unit"),
        (&["load", "--arrivals", "staircase:500*soon"], "such as staircase:500*4s,2000*250ms"),
        (&["serve", "--listen", "localhost"], "such as 127.0.0.1:7001 or localhost:7001"),
        (
            &["feed", "record", "--from", "1.2.3.4:5", "--out", "x", "--receive-buffer", "8M"],
            "64MiB",
        ),
    ] {
        let said = fail(&mut weir(words));
        assert!(said.contains(want), "{words:?}: {said}");
    }
}

#[test]
fn an_old_name_is_refused_with_the_new_one() {
    let home = Home::new("memory");
    for (words, want) in [
        (&["delivery", "top", "--once"][..], "use `weir top`"),
        (&["delivery", "subscriptions", "list", "--json"], "use `weir subscriptions`"),
        (&["delivery"], "`weir subscriptions` for durable subscriptions and `weir top`"),
        (&["delivery", "--help"], "`weir subscriptions` for durable subscriptions and `weir top`"),
        (&["top", "--broker", "127.0.0.1:1"], "the option is named --subscriptions now"),
        (&["subscriptions", "--broker=x", "list"], "the option is named --subscriptions now"),
        (&["orders", "--name", "a", "--broker", "x"], "the option is named --subscriptions now"),
        (
            &["backup", "--to", "x", "--broker-dir", "y"],
            "the option is named --subscriptions-dir now",
        ),
        (
            &["backup", "--to", "x", "--without-broker"],
            "the option is named --without-subscriptions now",
        ),
    ] {
        assert_once(&fail(&mut weir(words)), want);
    }
    let config = home.path("old.toml");
    std::fs::write(&config, "[broker]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let said = fail(&mut weir(&["serve", "--config", config.to_str().unwrap()]));
    assert_once(&said, "old.toml: [broker] is named [subscriptions] now");
    let help = succeed(&mut weir(&["--help"]));
    assert!(help.contains("subscriptions") && !help.contains("delivery  "), "{help}");
}

#[test]
fn the_port_of_the_status_page_is_not_taken_for_that_of_order_entry() {
    let home = Home::new("memory");
    let node = home.start();
    let key = operators_key();
    let words = ["orders", "--once", "--key", &key, "--node", node.http(), "--http", node.http()];
    let said = fail(&mut weir(&words));
    assert_once(&said, "speaks HTTP");
    assert!(said.contains("--node"), "{said}");
}

#[test]
fn a_session_that_may_not_see_copies_and_a_firm_that_is_none_are_named() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let (alice, operator) = (hex(ALICE.key().0), operators_key());
    for command in [&["trades"][..], &["positions"], &["drop-copy", "--once", "--from", "oldest"]] {
        let as_alice = [command, &["--session", "11", "--key", &alice]].concat();
        assert_once(
            &fail(&mut weir_at(&node, &as_alice)),
            "its own drop copy sessions, for supervisors",
        );
        let of_nobody = [command, &["--firm", "99", "--key", &operator]].concat();
        assert_once(&fail(&mut weir_at(&node, &of_nobody)), "no such firm");
    }
}

#[test]
fn a_command_ends_quietly_when_the_reader_of_its_output_has_left() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let (bob, alice, operator) = (hex(BOB.key().0), hex(ALICE.key().0), operators_key());
    let order = ["order", "buy", "1", "WEIR1", "10", "--session", "11", "--key", &alice];
    succeed(&mut weir_at(&node, &order));
    for command in [
        &["status"][..],
        &["status", "--json"],
        &["orders", "--once", "--key", &operator],
        &["trades", "--json", "--key", &operator, "--follow"],
        &["drop-copy", "--once", "--from", "oldest", "--key", &operator],
        &["book", "WEIR1", "--once", "--key", &operator],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut weir = weir_at(&node, command);
        let mut child = weir.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        if command.contains(&"--follow") {
            // It prints nothing before the first trade.
            let sell = ["order", "sell", "1", "WEIR1", "10", "--session", "12", "--key", &bob];
            succeed(&mut weir_at(&node, &sell));
        }
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{command:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("pipe"), "{command:?}: {said}");
    }
}
