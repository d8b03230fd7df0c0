//! The `sh` blocks of the pages below `docs`, run as README's section is.
//!
//! The commands of a page work in order, on one node, in a directory with the files that the page
//! speaks of: `weir.toml` and the calendars are blocks of the page itself, `day.pcap.gz` is a
//! capture made here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_skip::{Need, skip};

use crate::shell::{blocks, commands_of};
use crate::{capture, documents, root, shell};

/// The pages that are run, and a number for the ports of each.
const RUN: [(&str, u16); 4] = [
    ("docs/operations.md", 1),
    ("docs/market.md", 2),
    ("docs/feeds.md", 3),
    ("docs/protocols/web.md", 4),
];

/// The calendars of the operators' page: the names that its commands use, and the first lines.
pub const CALENDARS: [(&str, &str); 3] = [
    ("calendar.toml", "timezone = \"Europe/Berlin\""),
    ("offsets.toml", "utc_offset = "),
    ("overnight.toml", "timezone = \"America/Chicago\""),
];

/// Commands of a checkout and not of an installed program, and what runs them.
const OF_A_CHECKOUT: [(&str, &str); 4] = [
    ("./x demo", "each walk through README"),
    ("./x test", ".ci/run"),
    ("cargo test -p weir --test real_flow", "./x test"),
    ("pip install .", "the tests of the Python package"),
];

/// The commands of a page, with the addresses of this machine's default ports moved.
fn commands(path: &str, base: u16) -> Vec<String> {
    let page = std::fs::read_to_string(root().join(path)).unwrap();
    let all = blocks(&page, "sh").into_iter().flat_map(commands_of);
    all.map(|command| moved(&command, base)).collect()
}

/// Replaces the default base of ports, as `WEIR_PORT_BASE` does for a command's own defaults.
fn moved(text: &str, base: u16) -> String {
    let mut parts = text.split(":70");
    let mut moved = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (offset, rest) = part.split_at(2);
        moved +=
            &format!(":{}{rest}", base + offset.parse::<u16>().expect("a port of four digits"));
    }
    moved
}

/// Returns the page's block of configuration that begins with this line.
pub fn configuration(path: &str, first: &str) -> String {
    let page = std::fs::read_to_string(root().join(path)).unwrap();
    let mut found = blocks(&page, "toml").into_iter().filter(|block| block.starts_with(first));
    found.next().expect(first).to_owned()
}

fn run(path: &str, prepare: impl FnOnce(&Path, u16)) {
    let (_, lane) = RUN.iter().find(|(page, _)| *page == path).expect("it is in the table");
    let base = shell::port_base(*lane);
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path(), base);
    shell::run(&commands(path, base), dir.path(), base);
}

#[test]
fn commands_of_the_operators_page_work_as_printed() {
    run("docs/operations.md", |dir, base| {
        let ingest = configuration("docs/operations.md", "[ingest]");
        // The page's address is another host's, and a file's ports are not moved.
        let here = "listen = \"127.0.0.1:7001\"\nhttp = \"127.0.0.1:7080\"\n";
        let text = format!("{here}{}", ingest.replace("10.0.0.1", "127.0.0.1"));
        std::fs::write(dir.join("weir.toml"), moved(&text, base)).unwrap();
        for (name, first) in CALENDARS {
            let calendar = configuration("docs/operations.md", first);
            std::fs::write(dir.join(name), calendar).unwrap();
        }
    });
}

#[test]
fn commands_of_the_page_on_market_data_work_as_printed() {
    run("docs/market.md", |dir, _| capture::write(&dir.join("day.pcap.gz")));
}

#[test]
fn commands_of_the_page_on_feeds_work_as_printed() {
    run("docs/feeds.md", |dir, _| capture::write(&dir.join("day.pcap.gz")));
}

#[test]
fn commands_of_the_page_on_http_work_as_printed() {
    let mut curl = Command::new("curl");
    let is_there =
        curl.arg("--version").stdout(Stdio::null()).status().is_ok_and(|it| it.success());
    if is_there {
        run("docs/protocols/web.md", |_, _| ());
    } else {
        skip(Need::Curl, "the commands of docs/protocols/web.md");
    }
}

#[test]
fn every_block_of_commands_is_run() {
    let root = root();
    let mut found: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)).into();
    for folder in ["docs", "bench", "python", "packaging", "data", "schema"] {
        documents::pages(&root.join(folder), &mut found);
    }
    let mut others = Vec::new();
    for path in found {
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(!page.contains("```console") && !page.contains("```bash"), "{}", path.display());
        let is_run = RUN.iter().any(|(run, _)| path == root.join(run));
        let by_hand = if path.ends_with("README.md") { crate::by_hand(&page) } else { Vec::new() };
        let commands = blocks(&page, "sh").into_iter().flat_map(commands_of);
        others.extend(commands.filter(|command| !is_run && !by_hand.contains(command)));
    }
    let is_known =
        |command: &String| OF_A_CHECKOUT.iter().any(|(known, _)| command.starts_with(known));
    let unknown: Vec<_> = others.iter().filter(|command| !is_known(command)).collect();
    assert!(unknown.is_empty(), "no test runs {unknown:?}");
    assert_eq!(others.len(), OF_A_CHECKOUT.len(), "{others:?}");
}

#[test]
fn ports_are_moved_wherever_they_stand() {
    assert_eq!(moved("a 127.0.0.1:7003, 'x:7081/b'", 20_000), "a 127.0.0.1:20003, 'x:20081/b'");
}
