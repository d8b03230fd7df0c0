//! Input that no operator means: a full disk behind standard output, names that are not UTF-8,
//! numbers at the end of their range, one address for two listeners.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Home, OPERATOR};
use crate::{fail, hex, succeed, weir, weir_at};

fn operators_key() -> String {
    hex(OPERATOR.key().0)
}

/// A path in a directory, with a name that is not UTF-8.
fn not_utf8(dir: &Path, name: &str) -> OsString {
    let mut bytes = dir.join(name).into_os_string().into_vec();
    bytes.push(0xff);
    OsString::from_vec(bytes)
}

/// The error of a command whose standard output is a full disk.
fn fail_on_full_disk(command: &mut Command) -> String {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
    said
}

#[test]
fn a_full_disk_behind_standard_output_is_an_error_and_no_panic() {
    let home = Home::new("memory");
    let node = home.start();
    let (key, secret) = (operators_key(), home.path("alice.key"));
    let keygen = ["keygen", "--out", secret.to_str().unwrap()];
    let mut commands = vec![weir(&keygen), weir_at(&node, &["status", "--json"])];
    commands.extend(
        [&["trades"][..], &["orders", "--once"], &["top", "--once"], &["positions"]]
            .map(|words| weir_at(&node, &[words, &["--key", &key]].concat())),
    );
    for mut command in commands {
        let said = fail_on_full_disk(&mut command);
        assert!(said.contains("No space left on device"), "{command:?}: {said}");
        assert!(!said.contains("panicked"), "{command:?}: {said}");
    }
}

#[test]
fn paths_that_are_not_utf8_are_taken_and_shown() {
    let home = Home::new("memory");
    let node = home.start();
    let dir = home.path("names");
    std::fs::create_dir(&dir).unwrap();
    let path = |name: &str| not_utf8(&dir, name);
    let shown = |command: &mut Command, field: &str| {
        let json: Value = serde_json::from_str(&succeed(command)).unwrap();
        let shown = json[field].as_str().unwrap_or_else(|| panic!("{field} in {json}")).to_owned();
        assert!(shown.ends_with('\u{fffd}') || shown.contains("\u{fffd}/"), "{shown}");
    };
    let words = ["certificate", "--name", "localhost", "--json", "--dir"];
    shown(weir(&words).arg(path("tls")), "certificate");
    shown(weir(&["keygen", "--json", "--out"]).arg(path("key")), "secret_key_file");
    let data = home.data();
    let export = ["log", "export", "--dir", data.to_str().unwrap(), "--json", "--out"];
    shown(weir(&export).arg(path("log")), "file");
    let keys = path("keys");
    std::fs::create_dir(&keys).unwrap();
    let admin = ["admin", "--key", &operators_key(), "--json", "--dir"];
    let mut session = weir_at_admin(&node, &admin, &keys);
    shown(session.args(["session", "--id", "40", "--role", "operator", "--keep-key"]), "key_file");
    assert!(Path::new(&keys).join("session-40.key").is_file());
}

/// `weir admin` with a directory.
fn weir_at_admin(node: &crate::support::Node, words: &[&str], dir: &OsStr) -> Command {
    let mut command = weir(words);
    command.arg(dir).args(["--node", &node.address().to_string(), "--http", node.http()]);
    command
}

#[test]
fn a_backup_into_a_directory_of_other_files_is_refused_and_removes_none() {
    let home = Home::new("memory");
    let _node = home.start_without_key();
    let (data, papers) = (home.data(), home.path("papers"));
    std::fs::create_dir(&papers).unwrap();
    std::fs::write(papers.join("thesis.txt"), "the only copy").unwrap();
    for (target, file) in [(&papers, "thesis.txt"), (&data, "operator.key")] {
        let mut backup = weir(&["backup", "--dir", data.to_str().unwrap(), "--to"]);
        let said = fail(backup.arg(target));
        assert!(said.contains("holds other files"), "{said}");
        assert!(target.join(file).is_file(), "{file} is gone");
    }
}

#[test]
fn a_key_in_the_environment_that_is_not_utf8_is_refused() {
    let home = Home::new("memory");
    let node = home.start_without_key();
    let data = home.data();
    let mut orders = weir_at(&node, &["orders", "--once", "--dir", data.to_str().unwrap()]);
    let said = fail(orders.env("WEIR_API_KEY", OsStr::from_bytes(b"\xff\xfe")));
    assert!(said.contains("WEIR_API_KEY"), "{said}");
}

#[test]
fn identifiers_and_times_past_their_ends_are_refused_before_anything_is_defined() {
    let last = u32::MAX.to_string();
    for (words, want) in [
        (&["load", "--first-id", &last, "--sessions", "4"][..], "--first-id 4294967295: want 1 to"),
        (&["load", "--first-id", "0"], "--first-id 0: want 1 to"),
        (&["replay", "--first-id", &last, "--copies", "2"], "--first-id 4294967295: want 1 to"),
        (&["replay", "--copies", "3", "--shift", "213503d"], "--shift of all --copies"),
        (
            &["emulate", "core", "--cores", "2", "--source-session", &last],
            "--source-session 4294967295: want 1 to",
        ),
        (&["emulate", "core", "--batch-wait", "213503d"], "--batch-wait must be at most a day"),
        (
            &["emulate", "clients", "--first-id", &last, "--mix", "all:2"],
            "--first-id 4294967295: want 1 to",
        ),
        (&["market", "watch", ""], "pattern \"\": want a symbol"),
        (&["admin", "session", "--id", "0"], "invalid value '0' for '--id <ID>': want 1 to"),
        (&["admin", "firm", "--id", "0", "--name", "A"], "for '--id <ID>': want 1 to"),
        (&["admin", "account", "--id", "0", "--firm", "1"], "for '--id <ID>': want 1 to"),
        (&["load", "--rate", "1e400"], "--rate must be a number above zero"),
        (&["certificate", "--dir", "none", "--name", ""], "a certificate needs a name"),
        (&["certificate", "--dir", "none", "--name", "a", "--name", " "], "needs a name"),
    ] {
        let said = fail(&mut weir(words));
        assert!(said.contains(want) && !said.contains("panicked"), "{words:?}: {said}");
    }
}

#[test]
fn a_load_whose_first_order_is_due_after_the_end_of_time_sends_nothing() {
    let home = Home::new("memory");
    let node = home.start();
    let words = ["load", "--rate", "1e-300", "--duration", "1s", "--warm-up", "0s", "--json"];
    let text = succeed(weir_at(&node, &words).args(["--key", &operators_key()]));
    let said: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(said["report"]["counts"]["sent"], 0, "{said}");
}

#[test]
fn identifiers_that_other_definitions_have_are_named_with_the_option() {
    let home = Home::new("memory");
    let node = home.start();
    let key = operators_key();
    let words = ["load", "--duration", "1s", "--warm-up", "0s", "--rate", "10", "--key", &key];
    succeed(weir_at(&node, &words).args(["--first-id", "800000"]));
    // Its sessions are traders; clients are supervisors.
    let words = ["emulate", "clients", "--mix", "all:1", "--key", &key];
    let said = fail(&mut weir_at(&node, &words));
    assert!(said.contains("from 800000 on: choose others with --first-id"), "{said}");
}

#[test]
fn one_address_for_two_listeners_is_refused_by_both_keys() {
    let home = Home::new("memory");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let data = home.data();
    let words = ["serve", "--dir", data.to_str().unwrap(), "--listen", &free, "--http", &free];
    let said = fail(&mut weir(&words));
    assert!(said.contains(&format!("listen and http are both {free}")), "{said}");
    assert!(!data.exists(), "nothing is made before the configuration is checked");
}

#[test]
fn a_directory_in_the_configuration_goes_before_the_environment() {
    let home = Home::new("memory");
    let here = home.path("here");
    std::fs::create_dir(&here).unwrap();
    // The name is also that of the default.
    let text = "dir = \"weir-data\"\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n";
    std::fs::write(here.join("node.toml"), text).unwrap();
    let mut serve = weir(&["serve", "--durability", "memory", "--config", "node.toml"]);
    serve.current_dir(&here).env("WEIR_DIR", here.join("elsewhere")).stdout(Stdio::piped());
    let mut node = serve.spawn().unwrap();
    let mut ready = [0; 10];
    node.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"weir ready");
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(here.join("weir-data").is_dir() && !here.join("elsewhere").exists());
}
