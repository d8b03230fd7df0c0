//! The arrows between crates: who may know whom.
//!
//! The table below is the project's dependency picture. A crate that is not in it has no permission
//! to depend on anything of ours, so that a new crate is placed here on purpose.

use super::Finding;
use super::tree::Tree;

/// Crate, what it may depend on, and what its tests and examples may depend on besides.
struct Arrow {
    name: &'static str,
    may_know: &'static [&'static str],
    tests_may_know: &'static [&'static str],
}

/// Knows every crate of the workspace.
const ALL: &str = "*";

/// `types` ← `wire` ← everything; `probe` ← everything that is timed; the views and the engine do
/// not know each other; `node` and `sim` know all.
const ARROWS: &[Arrow] = &[
    Arrow { name: "weir-types", may_know: &[], tests_may_know: &[] },
    Arrow { name: "weir-probe", may_know: &[], tests_may_know: &[] },
    Arrow { name: "weir-memory", may_know: &[], tests_may_know: &[] },
    Arrow { name: "weir-wire", may_know: &["weir-types"], tests_may_know: &[] },
    Arrow { name: "weir-io", may_know: &["weir-types", "weir-probe"], tests_may_know: &[] },
    Arrow {
        name: "weir-log",
        may_know: &["weir-types", "weir-wire", "weir-io", "weir-probe"],
        tests_may_know: &[],
    },
    Arrow { name: "weir-engine", may_know: VIEW_KNOWS, tests_may_know: &[] },
    Arrow { name: "weir-delivery", may_know: VIEW_KNOWS, tests_may_know: &[] },
    Arrow {
        name: "weir-broker",
        may_know: &["weir-types", "weir-wire", "weir-io"],
        tests_may_know: &[],
    },
    Arrow { name: "weir-market", may_know: VIEW_KNOWS, tests_may_know: &["weir-client"] },
    Arrow { name: "weir-query", may_know: VIEW_KNOWS, tests_may_know: &[] },
    Arrow { name: "weir-flow", may_know: VIEW_KNOWS, tests_may_know: &[] },
    Arrow { name: "weir-tls", may_know: &[], tests_may_know: &[] },
    Arrow { name: "weir-shm", may_know: &[], tests_may_know: &[] },
    Arrow {
        name: "weir-client",
        may_know: &["weir-types", "weir-wire", "weir-probe", "weir-shm", "weir-tls"],
        tests_may_know: &[],
    },
    Arrow {
        name: "weir-python",
        may_know: &["weir-types", "weir-wire", "weir-tls", "weir-client"],
        tests_may_know: &[],
    },
    Arrow {
        name: "weir-abi",
        may_know: &["weir-types", "weir-wire", "weir-engine"],
        tests_may_know: &[],
    },
    Arrow {
        name: "weir-cold",
        may_know: &["weir-types", "weir-wire", "weir-io"],
        tests_may_know: &["weir-delivery"],
    },
    Arrow {
        name: "weir-cold-format",
        may_know: &["weir-types", "weir-wire", "weir-client"],
        tests_may_know: &[],
    },
    Arrow {
        name: "weir-itch-bench",
        may_know: &["weir-types", "weir-market", "weir-client"],
        tests_may_know: &[],
    },
    Arrow { name: "weir-shm-bench", may_know: &["weir-probe", "weir-shm"], tests_may_know: &[] },
    Arrow { name: "weir-powercut", may_know: &["weir-io"], tests_may_know: &[] },
    Arrow { name: "weir-skip", may_know: &[], tests_may_know: &[] },
    Arrow { name: "weir-sim", may_know: &[ALL], tests_may_know: &[] },
    Arrow { name: "weir", may_know: &[ALL], tests_may_know: &[] },
    Arrow { name: "xtask", may_know: &[], tests_may_know: &[] },
    Arrow { name: "weir-fuzz", may_know: &[ALL], tests_may_know: &[] },
];

/// The tests of every crate may know it: it reports what they cannot run.
const OF_ALL_TESTS: &str = "weir-skip";

/// What a part that is fed by the log alone may know.
const VIEW_KNOWS: &[&str] = &["weir-types", "weir-wire", "weir-probe", "weir-memory"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter(|file| file.path.ends_with("Cargo.toml"))
        .flat_map(|file| check_manifest(&file.path, &file.text))
        .collect()
}

fn check_manifest(path: &str, text: &str) -> Vec<Finding> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, 0, format!("is not TOML: {error}"))],
    };
    let Some(name) = manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(toml::Value::as_str)
    else {
        return Vec::new();
    };
    let arrow = ARROWS.iter().find(|arrow| arrow.name == name);
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
        self.may_know.contains(&ALL) || self.may_know.contains(&dependency)
    }

    fn tests_allow(&self, dependency: &str) -> bool {
        dependency == OF_ALL_TESTS || self.tests_may_know.contains(&dependency)
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
    names.retain(|name| ARROWS.iter().any(|arrow| arrow.name == name) || name.starts_with("weir"));
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
        check(&Tree::of(&[(path, &text)])).iter().map(ToString::to_string).collect()
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
    fn the_node_may_know_all() {
        let rest = "[dependencies]\nweir-engine = {}\nweir-delivery = {}\nweir-log = {}\n";
        assert_eq!(findings("weir", rest), [""; 0]);
    }
}
