//! The threads of trading partitions that name one: `thread` and `core` of a `[[partition]]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_runtime::ConfigError;
use weir_types::PartitionId;

use super::{Config, PartitionSection};

/// The length of a thread's name in bytes: Linux shows no more.
const NAME_LEN_MAX: usize = 15;
/// The number of a core up to which the system's set of cores reaches.
const CORE_MAX: usize = 1_023;

/// The names of the node's own threads.
const OWN_NAMES: [&str; 35] = [
    "archive",
    "checkpoints",
    "cold",
    "core",
    "delivery",
    "diagnostics",
    "gateway",
    "handshakes",
    "history",
    "ingest",
    "ingest-tls",
    "keeper",
    "links",
    "links-tls",
    "main",
    "market-post",
    "market-receive",
    "market-tls",
    "market-update",
    "newcomers",
    "partition",
    "publish",
    "replica",
    "shadows",
    "snapshots",
    "store-snapshots",
    "subscribe",
    "subscribe-tls",
    "uplinks",
    "web",
    "web-market",
    "web-readers",
    "weir",
    "weir-disk",
    "weir-disk-slow",
];
/// The beginnings of names that the node's own threads have, with a number behind.
const OWN_FAMILIES: [&str; 2] = ["flush-", "hiccup-"];

/// A thread that runs trading partitions and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionThread {
    /// Its name.
    pub name: Arc<str>,
    /// Its core; not pinned without one.
    pub core: Option<usize>,
    /// Its partitions, in ascending order.
    pub partitions: Vec<PartitionId>,
}

/// Returns true for a name that a partition's thread may have.
fn may_be_named(name: &str) -> bool {
    let is_written_well =
        name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')) && !name.is_empty();
    let is_own =
        OWN_NAMES.contains(&name) || OWN_FAMILIES.iter().any(|family| name.starts_with(family));
    is_written_well && name.len() <= NAME_LEN_MAX && !is_own
}

impl Config {
    /// Returns the threads that partitions name, in the order of their names.
    #[must_use]
    pub fn partition_threads(&self) -> Vec<PartitionThread> {
        let mut threads = BTreeMap::<&str, PartitionThread>::new();
        let mut sections: Vec<_> = self.partitions.iter().collect();
        sections.sort_by_key(|section| section.id);
        for PartitionSection { id, thread, core, .. } in sections {
            let Some(name) = thread.as_deref() else { continue };
            let thread = threads.entry(name).or_insert_with(|| PartitionThread {
                name: name.into(),
                core: None,
                partitions: Vec::new(),
            });
            thread.core = thread.core.or(*core);
            thread.partitions.push(PartitionId(*id));
        }
        threads.into_values().collect()
    }

    /// Checks the names of partitions' threads, and that each thread has one core at most.
    pub(super) fn check_partition_threads(&self) -> Result<(), ConfigError> {
        let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
        for (index, one) in self.partitions.iter().enumerate() {
            match (&one.thread, one.core) {
                (None, None) => continue,
                (None, Some(core)) => {
                    let want = "none without partition.thread: the partition shares a thread of \
                                the node, whose core is in cores";
                    return out("partition.core", core.to_string(), want);
                }
                (Some(name), _) if !may_be_named(name) => {
                    let want = "1 to 15 of a-z, 0-9 and -, and no name of the node's own threads";
                    return out("partition.thread", format!("{name:?}"), want);
                }
                (Some(name), _) if self.follows_own() => {
                    let want = "none where replica.sources has the partition: its orders are \
                                matched elsewhere";
                    return out("partition.thread", format!("{name:?}"), want);
                }
                (Some(_), Some(core)) if core > CORE_MAX => {
                    return out("partition.core", core.to_string(), "0 to 1023");
                }
                (Some(_), _) => {}
            }
            let on_same = |other: &&PartitionSection| other.thread == one.thread;
            let mut cores = self.partitions[..index].iter().filter(on_same).filter_map(|o| o.core);
            if let (Some(core), Some(before)) = (one.core, cores.next())
                && core != before
            {
                let name = one.thread.as_deref().unwrap_or_default();
                let value = format!("{core} and {before} of thread {name:?}");
                return out("partition.core", value, "one core for each thread");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(sections: &[(u16, &str)]) -> String {
        let text = |(id, keys): &(u16, &str)| format!("[[partition]]\nid = {id}\n{keys}\n");
        sections.iter().map(text).collect()
    }

    #[test]
    fn partitions_with_the_same_thread_share_it_and_its_core() {
        let text = sections(&[
            (7, "thread = 'hot-1'"),
            (3, ""),
            (2, "thread = 'hot-1'\ncore = 5"),
            (9, "thread = 'a'"),
        ]);
        let threads = Config::parse(&text).unwrap().partition_threads();
        let of = |name: &str, core, ids: &[u16]| PartitionThread {
            name: name.into(),
            core,
            partitions: ids.iter().copied().map(PartitionId).collect(),
        };
        assert_eq!(threads, [of("a", None, &[9]), of("hot-1", Some(5), &[2, 7])]);
        assert_eq!(Config::parse("").unwrap().partition_threads(), []);
    }

    #[test]
    fn a_thread_that_cannot_be_is_refused_by_its_key() {
        let replica = "[replica]\nmaster = '127.0.0.1:1'\nsession = 2\nkey_file = 'k'\n\
                       sources = [7]\n";
        for (text, key, value) in [
            (sections(&[(7, "thread = ''")]), "partition.thread", "\"\""),
            (sections(&[(7, "thread = 'Hot'")]), "partition.thread", "Hot"),
            (sections(&[(7, "thread = 'sixteen-letters-'")]), "partition.thread", "sixteen"),
            (sections(&[(7, "thread = 'core'")]), "partition.thread", "core"),
            (sections(&[(7, "thread = 'flush-7'")]), "partition.thread", "flush-7"),
            (sections(&[(7, "core = 1")]), "partition.core", "1"),
            (sections(&[(7, "thread = 'a'\ncore = 1024")]), "partition.core", "1024"),
            (
                sections(&[(7, "thread = 'a'\ncore = 1"), (8, "thread = 'a'\ncore = 2")]),
                "partition.core",
                "2 and 1 of thread \"a\"",
            ),
            (sections(&[(7, "thread = 'a'")]) + replica, "partition.thread", "\"a\""),
        ] {
            let error = Config::parse(&text).unwrap_err().to_string();
            assert!(error.contains(&format!("{key} ")) && error.contains(value), "{text}: {error}");
        }
        assert!(may_be_named("fifteen-letters") && may_be_named("0"));
    }

    /// Two threads with one name could not be told apart.
    #[test]
    fn no_partition_takes_the_name_of_a_thread_that_the_architecture_page_has() {
        let page = include_str!("../../../../docs/ARCHITECTURE.md");
        let (_, page) = page.split_once("| thread | agents |").expect("the table of threads");
        let table = page.split("\n\n").next().unwrap_or_default();
        let first = table.lines().filter_map(|line| line.split('|').nth(1));
        let names: Vec<&str> = first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names.into_iter().filter(|name| *name != "NAME") {
            assert!(!may_be_named(name), "{name}");
        }
    }
}
