//! Certificates at the start and at SIGHUP.

use std::process::Output;

use weir_client::ClientError;
use weir_tls::authority::{Authority, Usage};

use crate::rig::{Rig, try_operator};
use crate::support::{ALICE, until};

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_wrong_with_a_file_is_said_at_the_start() {
    let rig = Rig::new("memory", "");
    let strangers = Authority::new("Other").unwrap().sign(&["x"], Usage::Server).unwrap();
    let cases: [(&str, &str, &str); 4] = [
        ("node.pem", "", "node.pem: certificates"),
        ("node.pem", "no PEM at all", "node.pem: certificates"),
        ("node.key", "", "node.key: a private key"),
        ("node.key", &strangers.key, "node.pem: "),
    ];
    for (file, text, said) in cases {
        let before = std::fs::read_to_string(rig.home.path(file)).unwrap();
        rig.write(file, text);
        let error = error_of(&rig.home.fail_to_start());
        assert!(error.contains(said), "{file} {text:?}: {error}");
        rig.write(file, &before);
    }
    std::fs::remove_file(rig.home.path("node.key")).unwrap();
    let error = error_of(&rig.home.fail_to_start());
    assert!(error.contains("node.key"), "{error}");
}

#[test]
fn a_hangup_reads_the_certificates_anew_and_running_connections_go_on() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    rig.open_market(&node, &[ALICE]);
    let mut alice = rig.trader(&node, ALICE);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    let next = Authority::new("The next authority").unwrap();
    rig.write("next.pem", &next.certificate());
    rig.write_pair("node", &next, Usage::Server);
    // The node does not read new files before the signal.
    try_operator(rig.target(&node)).unwrap();
    node.hang_up();
    until("new certificates", || (node.status()["tls"]["reloads"] == 1).then_some(()));
    let refused = try_operator(rig.target(&node)).unwrap_err();
    assert!(matches!(refused, ClientError::Handshake { .. }), "{refused:?}");
    let target = weir_client::Target::of(node.address(), Some(rig.believing("next.pem")));
    try_operator(target).unwrap();
    alice.ask_for_report(ALICE.buy(2, 50, 1));
}

#[test]
fn certificates_that_cannot_be_used_leave_the_old_ones() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    rig.write("node.key", "no key");
    node.hang_up();
    until("the refusal", || (node.status()["tls"]["reloads_failed"] == 1).then_some(()));
    until("the log's line", || rig.home.said().contains("the old certificates").then_some(()));
    try_operator(rig.target(&node)).unwrap();
}

#[test]
fn a_hangup_without_tls_reads_the_keys_of_tokens_alone() {
    let home = crate::support::Home::new("memory");
    let node = home.start();
    node.hang_up();
    until("the log's line", || home.said().contains("the keys of tokens are read").then_some(()));
    try_operator(node.address()).unwrap();
}
