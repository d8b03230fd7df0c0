//! A gateway process and its node as the operators' page sets them up, over TLS.

use std::path::Path;
use std::process::Command;

use weir_tls::authority::{Authority, Usage};
use weir_types::EventNo;

use crate::rig::{NAME, Rig, with_certificate};
use crate::support::address::free_address;
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, Node, OPERATOR, define_market};

/// Returns the part of the page about gateway processes.
fn section() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let from = page.split_once("## Gateway processes\n").unwrap().1;
    from.split("\n## ").next().unwrap().to_owned()
}

/// Returns the block of configuration that begins with this line.
fn configuration(section: &str, first: &str) -> String {
    let mut blocks = section.split("```toml\n").skip(1);
    let block = blocks.find(|block| block.starts_with(first)).expect(first);
    block.split("```").next().unwrap().to_owned()
}

/// Runs a command of the page in a directory, with the options of a client of this node.
fn run(command: &str, rig: &Rig, node: &Node, dir: &Path) {
    let mut words = command.split_whitespace();
    assert_eq!(words.next(), Some("weir"));
    let mut run = Command::new(env!("CARGO_BIN_EXE_weir"));
    run.arg(words.next().unwrap()).current_dir(dir);
    if command.starts_with("weir admin") {
        let path = |name: &str| rig.home.path(name);
        let key: String = OPERATOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
        run.env("WEIR_API_KEY", key).args(["--node", &node.address().to_string()]);
        run.args(["--http", node.http(), "--tls-name", NAME]);
        run.arg("--tls-ca").arg(path("ca.pem"));
        run.arg("--tls-certificate").arg(path("own.pem"));
        run.arg("--tls-key").arg(path("own.key"));
    }
    let output = run.args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command}: {said}");
}

/// A node that demands certificates of its clients could have no gateway.
#[test]
fn a_gateway_process_is_set_up_as_the_operators_page_says() {
    let clients = Authority::new("clients").unwrap();
    let (rig, link, section) = (Rig::new("os", ""), free_address(), section());
    rig.write("clients.pem", &clients.certificate());
    for name in ["own", "gateway-own"] {
        rig.write_pair(name, &clients, Usage::Client);
    }
    rig.write_pair("gateway", &rig.authority, Usage::Server);
    let here = |text: &str| {
        let path = |name: &str| rig.home.path(name).display().to_string();
        text.replace("10.0.0.1:7021", &link.to_string())
            .replace("listen = \"10.0.0.1:7001\"\n", "")
            .replace("listen = \"10.0.0.5:7001\"\n", "")
            .replace("node1.example", NAME)
            .replace("/etc/weir/node.pem", &path("node.pem"))
            .replace("/etc/weir/node.key", &path("node.key"))
            .replace("/etc/weir/ca.pem", &path("ca.pem"))
    };
    let node = here(&configuration(&section, "# the node"));
    let demand =
        format!("client_ca = {:?}\nclient_required = true\n", rig.home.path("clients.pem"));
    rig.write("weir.toml", &format!("{node}{demand}"));
    let node = rig.start();
    let target = with_certificate(&rig, &node, "own");
    let admin = weir_client::Admin::connect(
        target,
        OPERATOR.session_id,
        OPERATOR.key(),
        crate::support::HANG,
    );
    define_market(admin.unwrap(), &[ALICE, BOB]);

    let of_gateway = Home::with_config("memory", "");
    let dir = of_gateway.path("");
    let commands = section.lines().filter_map(|line| line.strip_prefix("    weir "));
    let commands: Vec<_> = commands.map(|words| format!("weir {words}")).collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    commands.iter().for_each(|command| run(command, &rig, &node, &dir));
    let path = |name: &str| rig.home.path(name).display().to_string();
    let own = here(&configuration(&section, "# the gateway"))
        .replace("/etc/weir/gateway.key", &of_gateway.path("gateway.key").display().to_string())
        .replace(
            "[tls]\ncertificate = \"/etc/weir/gateway.pem\"",
            "[tls]\ncertificate = \"SERVER\"",
        )
        .replace("\nkey = \"/etc/weir/gateway-tls.key\"", "\nkey = \"SERVER-KEY\"")
        .replace("/etc/weir/gateway.pem", &path("gateway-own.pem"))
        .replace("/etc/weir/gateway-tls.key", &path("gateway-own.key"))
        .replace("SERVER-KEY", &path("gateway.key"))
        .replace("SERVER", &path("gateway.pem"));
    std::fs::write(of_gateway.path("weir.toml"), own).unwrap();
    let gateway = of_gateway.start();
    let mut alice = Trader::log_on_at(rig.target(&gateway), ALICE);
    alice.ask_for_report(ALICE.sell(1, 100, 5));
    let mut bob = Trader::resume_at(rig.target(&gateway), BOB, EventNo(1)).unwrap();
    bob.ask_for_report(BOB.buy(1, 100, 5));
    assert!(gateway.terminate().success());
    assert!(node.terminate().success());
}
