//! The arrows between crates: the crates that each may depend on.
//!
//! The table below is the project's dependency picture. A crate that is not in it has no permission
//! to depend on anything of ours, so that a new crate is placed here on purpose.

use std::collections::BTreeSet;

use super::Finding;
use crate::tree::{TextFile, Tree};

/// A crate, the crates it may depend on, and further ones for its tests and examples. Names are
/// without the prefix `weir-`.
struct Arrow {
    name: &'static str,
    may_know: &'static [&'static str],
    tests_may_know: &'static [&'static str],
}

/// Knows every crate of the workspace.
const ALL: &str = "*";

const fn arrow(name: &'static str, may_know: &'static [&'static str]) -> Arrow {
    Arrow { name, may_know, tests_may_know: &[] }
}

/// The name of one of our crates as the table has it.
fn short(name: &str) -> &str {
    name.strip_prefix("weir-").unwrap_or(name)
}

/// `types` ← `wire` ← everything; `probe` ← everything that is timed; the views and the engine do
/// not know each other. Above them stand the parts with threads and sockets, each on the way from
/// the wire to the node: `runtime` ← `door` and `partition` ← `gateway`, `orderstate`, `subscribe`,
/// `marketgate` ← `web` ← `node` ← the command line.
const ARROWS: &[Arrow] = &[
    arrow("types", &[]),
    arrow("probe", &[]),
    arrow("memory", &[]),
    arrow("tls", &[]),
    arrow("shm", &[]),
    arrow("wire", &["types"]),
    arrow("io", &["types", "probe"]),
    arrow("log", &["types", "wire", "io", "probe"]),
    arrow("engine", VIEW_KNOWS),
    arrow("delivery", VIEW_KNOWS),
    arrow("feed", &["types", "memory"]),
    Arrow { name: "market", may_know: MARKET_KNOWS, tests_may_know: &["client"] },
    arrow("broker", &["types", "wire", "io"]),
    arrow("link", &["types", "wire"]),
    Arrow { name: "cold", may_know: &["types", "wire", "io"], tests_may_know: &["delivery"] },
    arrow("client", &["types", "wire", "probe", "shm", "tls"]),
    arrow("runtime", &["types", "io", "probe"]),
    arrow("door", &["types", "wire", "io", "tls", "delivery", "runtime"]),
    arrow("partition", &["types", "wire", "io", "log", "engine", "probe", "runtime"]),
    Arrow { name: "gateway", may_know: GATEWAY_KNOWS, tests_may_know: &["log", "engine"] },
    arrow("linkgate", LINK_GATE_KNOWS),
    arrow("orderstate", ORDER_STATE_KNOWS),
    arrow("subscribe", &["types", "wire", "io", "log", "broker", "runtime", "door", "partition"]),
    arrow("marketgate", MARKET_GATEWAY_KNOWS),
    Arrow { name: "web", may_know: WEB_KNOWS, tests_may_know: &["log"] },
    arrow("node", NODE_KNOWS),
    arrow("powercut", &["io"]),
    arrow("skip", &[]),
    arrow("plant", &[]),
    arrow("growth", &[]),
    arrow("sim", SIM_KNOWS),
    Arrow { name: "weir", may_know: COMMAND_LINE_KNOWS, tests_may_know: &[ALL] },
    arrow("python", &["types", "wire", "tls", "client"]),
    arrow("abi", &["types", "wire", "engine"]),
    arrow("bench", &[ALL]),
    arrow("campaign", &["types", "wire", "io", "log", "engine", "feed", "client", "growth"]),
    arrow("cold-format", &["types", "wire", "client"]),
    arrow("itch-bench", &["types", "feed", "market", "client"]),
    arrow("shm-bench", &["probe", "shm"]),
    arrow("fuzz", &[ALL]),
    Arrow { name: "xtask", may_know: &[], tests_may_know: &[] },
];

/// The tests of every crate may know it: it reports the tests that this machine cannot run.
const OF_ALL_TESTS: &str = "skip";

/// Every crate may know it: it declares planted bugs, of which normal builds have none.
const OF_ALL: &str = "plant";

/// The crates below the engine and the views.
const VIEW_KNOWS: &[&str] = &["types", "wire", "probe", "memory"];

const MARKET_KNOWS: &[&str] = &["types", "wire", "probe", "memory", "feed"];

const GATEWAY_KNOWS: &[&str] =
    &["types", "wire", "io", "link", "probe", "tls", "runtime", "door", "partition"];

const LINK_GATE_KNOWS: &[&str] = &[
    "types",
    "wire",
    "io",
    "log",
    "link",
    "tls",
    "client",
    "runtime",
    "door",
    "partition",
    "gateway",
];

const ORDER_STATE_KNOWS: &[&str] = &[
    "types",
    "wire",
    "io",
    "log",
    "probe",
    "tls",
    "client",
    "delivery",
    "cold",
    "runtime",
    "door",
    "partition",
];

const MARKET_GATEWAY_KNOWS: &[&str] = &[
    "types",
    "wire",
    "io",
    "log",
    "probe",
    "memory",
    "shm",
    "tls",
    "client",
    "feed",
    "market",
    "runtime",
    "door",
    "partition",
];

const WEB_KNOWS: &[&str] = &[
    "types",
    "wire",
    "io",
    "delivery",
    "feed",
    "market",
    "runtime",
    "door",
    "partition",
    "marketgate",
];

/// All parts of a process, and not what drives or measures one.
const NODE_KNOWS: &[&str] = &[
    "types",
    "wire",
    "io",
    "log",
    "engine",
    "probe",
    "tls",
    "client",
    "delivery",
    "cold",
    "broker",
    "feed",
    "market",
    "runtime",
    "door",
    "partition",
    "gateway",
    "link",
    "linkgate",
    "orderstate",
    "subscribe",
    "marketgate",
    "web",
];

/// The parts that the simulation runs under simulated time, disks and networks: none of the edges.
const SIM_KNOWS: &[&str] = &[
    "types",
    "wire",
    "io",
    "log",
    "probe",
    "engine",
    "delivery",
    "client",
    "runtime",
    "door",
    "partition",
    "gateway",
    "growth",
];

const COMMAND_LINE_KNOWS: &[&str] = &[
    "types",
    "wire",
    "io",
    "log",
    "probe",
    "tls",
    "client",
    "engine",
    "feed",
    "market",
    "runtime",
    "partition",
    "orderstate",
    "marketgate",
    "web",
    "node",
];

/// The file of the table, for findings.
const TABLE_PATH: &str = "xtask/src/tidy/arrows.rs";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_manifests(tree);
    findings.extend(stale_entries(tree));
    findings
}

fn manifests(tree: &Tree) -> impl Iterator<Item = &TextFile> {
    tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml"))
}

fn check_manifests(tree: &Tree) -> Vec<Finding> {
    manifests(tree).flat_map(|file| check_manifest(&file.path, &file.text)).collect()
}

/// Entries and names in the table that no crate of the tree has.
fn stale_entries(tree: &Tree) -> Vec<Finding> {
    let names: BTreeSet<String> = manifests(tree)
        .filter_map(|file| file.text.parse().ok())
        .filter_map(|manifest| package_name(&manifest).map(|name| short(name).to_string()))
        .collect();
    let known = ARROWS.iter().flat_map(|arrow| arrow.may_know.iter().chain(arrow.tests_may_know));
    let of_all = [OF_ALL, OF_ALL_TESTS];
    let stated: BTreeSet<&str> = ARROWS
        .iter()
        .map(|arrow| arrow.name)
        .chain(known.copied().filter(|name| *name != ALL))
        .chain(of_all)
        .collect();
    let is_stale = |name: &&str| !names.contains(*name);
    let told = |name| {
        let message = format!("the table names `{name}`, which no manifest does: remove it");
        Finding::new(TABLE_PATH, 0, message)
    };
    stated.into_iter().filter(is_stale).map(told).collect()
}

fn package_name(manifest: &toml::Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

fn check_manifest(path: &str, text: &str) -> Vec<Finding> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, 0, format!("is not TOML: {error}"))],
    };
    let Some(name) = package_name(&manifest) else {
        return Vec::new();
    };
    let arrow = ARROWS.iter().find(|arrow| arrow.name == short(name));
    let mut findings = Vec::new();
    for (table, is_test) in
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
    {
        for dependency in dependencies(&manifest, table) {
            let allowed = arrow.is_some_and(|arrow| {
                arrow.allows(&dependency) || is_test && arrow.tests_allow(&dependency)
            });
            if !allowed {
                let line = line_of(text, &dependency);
                let message = format!(
                    "`{name}` must not know `{dependency}` ({table}): see the table in \
                     xtask/src/tidy/arrows.rs"
                );
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

impl Arrow {
    fn allows(&self, dependency: &str) -> bool {
        short(dependency) == OF_ALL
            || self.may_know.contains(&ALL)
            || self.may_know.contains(&short(dependency))
    }

    fn tests_allow(&self, dependency: &str) -> bool {
        short(dependency) == OF_ALL_TESTS
            || self.tests_may_know.contains(&ALL)
            || self.tests_may_know.contains(&short(dependency))
    }
}

/// Our own crates among the dependencies of `manifest`, those of single targets included.
fn dependencies(manifest: &toml::Table, table: &str) -> Vec<String> {
    let mut tables: Vec<&toml::Value> = manifest.get(table).into_iter().collect();
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(|target| target.get(table)));
    }
    let mut names = Vec::new();
    for entries in tables.into_iter().filter_map(toml::Value::as_table) {
        for (key, value) in entries {
            // `x = { package = "weir-y" }` is weir-y under another name.
            let renamed = value.get("package").and_then(toml::Value::as_str);
            names.push(renamed.unwrap_or(key).to_string());
        }
    }
    names.retain(|name| name == "weir" || name == "xtask" || name.starts_with("weir-"));
    names
}

fn line_of(text: &str, dependency: &str) -> usize {
    text.lines().position(|line| line.contains(dependency)).map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, rest: &str) -> Vec<String> {
        let text = format!("[package]\nname = \"{name}\"\n{rest}");
        let path = "crates/a/Cargo.toml";
        check_manifests(&Tree::of(&[(path, &text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_arrow_against_the_table_is_found_with_its_line() {
        let found = findings("weir-engine", "[dependencies]\nweir-delivery.workspace = true\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/a/Cargo.toml:4: `weir-engine` must not know"));
        let allowed = "[dependencies]\nweir-wire.workspace = true\nserde = \"1\"\n";
        assert_eq!(findings("weir-engine", allowed), [""; 0]);
    }

    #[test]
    fn arrows_hidden_by_renaming_or_in_other_tables_are_found() {
        let renamed = "[dependencies]\nt = { package = \"weir-types\", path = \"../types\" }\n";
        assert_eq!(findings("weir-probe", renamed).len(), 1);
        let dev = "[dev-dependencies]\nweir-engine = { path = \"../engine\" }\n";
        assert_eq!(findings("weir-delivery", dev).len(), 1);
        let target = "[target.'cfg(unix)'.dependencies]\nweir-sim = { path = \"../sim\" }\n";
        assert_eq!(findings("weir-io", target).len(), 1);
    }

    #[test]
    fn the_reports_of_skipped_tests_are_for_tests_alone() {
        let tests = "[dev-dependencies]\nweir-skip.workspace = true\n";
        assert_eq!(findings("weir-types", tests), [""; 0]);
        let code = "[dependencies]\nweir-skip.workspace = true\n";
        assert_eq!(findings("weir-types", code).len(), 1);
    }

    #[test]
    fn a_crate_that_is_not_in_the_table_may_know_nothing() {
        let rest = "[dependencies]\nweir-types.workspace = true\n";
        assert_eq!(findings("weir-new", rest).len(), 1);
    }

    #[test]
    fn benchmarks_may_know_all_and_the_node_none_of_them() {
        let rest = "[dependencies]\nweir-engine = {}\nweir-web = {}\nweir-log = {}\n";
        assert_eq!(findings("weir-bench", rest), [""; 0]);
        let rest = "[dependencies]\nweir-bench.workspace = true\n";
        assert_eq!(findings("weir-node", rest).len(), 1);
        let web = "[dependencies]\nweir-web.workspace = true\n";
        assert_eq!(findings("weir-sim", web).len(), 1);
    }

    #[test]
    fn an_entry_of_the_table_without_a_crate_is_found() {
        let manifest = |name: &str| {
            let name = if name == "weir" || name == "xtask" {
                name.to_string()
            } else {
                format!("weir-{name}")
            };
            format!("[package]\nname = \"{name}\"\n")
        };
        let files: Vec<(String, String)> = ARROWS
            .iter()
            .map(|arrow| (format!("crates/{}/Cargo.toml", arrow.name), manifest(arrow.name)))
            .collect();
        let of = |files: &[(String, String)]| {
            let files: Vec<_> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            stale_entries(&Tree::of(&files)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of(&files), [""; 0]);
        let without: Vec<_> =
            files.into_iter().filter(|(path, _)| path != "crates/cold/Cargo.toml").collect();
        let found = of(&without);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("the table names `cold`"), "{found:?}");
    }

    #[test]
    fn the_table_has_no_arrow_upwards() {
        for (index, arrow) in ARROWS.iter().enumerate() {
            for known in arrow.may_know.iter().filter(|known| **known != ALL) {
                let position = ARROWS.iter().position(|other| other.name == *known);
                let below = position.is_some_and(|position| position < index);
                assert!(below, "`{}` knows `{known}`, which is not above it", arrow.name);
            }
        }
    }
}
