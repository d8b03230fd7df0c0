//! Cycles between the modules of a crate: none may run through a folder.
//!
//! A folder is a part with a border; two parts that import each other are one part in two places.
//! Files at the top of a crate may share one state machine between them and are not checked among
//! themselves. Imports are read from `crate::` and `super::` paths in shipped code, so an import
//! inside a macro counts and one inside a test does not.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::Source;

/// Of one crate: its top-level modules, those that are folders, and each one's imports with the
/// place of the first.
#[derive(Default)]
struct Modules {
    names: BTreeSet<String>,
    folders: BTreeSet<String>,
    imports: BTreeMap<(String, String), (String, usize)>,
}

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for source in sources {
        let Some((dir, rest)) = source.path.split_once("/src/") else { continue };
        let modules = crates.entry(dir).or_default();
        let parts: Vec<&str> = rest.trim_end_matches(".rs").split('/').collect();
        let name = parts[0].to_owned();
        if parts.len() > 1 && name != "bin" {
            modules.folders.insert(name.clone());
        }
        modules.names.insert(name);
    }
    for source in sources {
        let Some((dir, rest)) = source.path.split_once("/src/") else { continue };
        let parts: Vec<&str> = rest.trim_end_matches(".rs").split('/').collect();
        if ["lib", "main", "bin"].contains(&parts[0]) {
            continue;
        }
        let depth = parts.iter().filter(|part| **part != "mod").count();
        let modules = crates.get_mut(dir).expect("it was entered above");
        for (name, line) in imports(source, depth) {
            if name != parts[0] && modules.names.contains(&name) {
                let key = (parts[0].to_owned(), name);
                modules.imports.entry(key).or_insert_with(|| (source.path.clone(), line));
            }
        }
    }
    crates.values().flat_map(findings).collect()
}

/// The top-level modules that a source of this depth names, with the lines.
fn imports(source: &Source, depth: usize) -> Vec<(String, usize)> {
    let text = |index: usize| source.tokens.get(index).map_or("", |token| token.text.as_str());
    let mut found = Vec::new();
    for index in 0..source.tokens.len() {
        let line = source.tokens[index].line;
        if source.is_test_line(line) || index > 0 && text(index - 1) == ":" {
            continue;
        }
        let mut at = index;
        match text(index) {
            "crate" => {}
            "super" => {
                let supers = (0..).take_while(|step| text(index + 3 * step) == "super").count();
                if supers != depth {
                    continue;
                }
                at += 3 * (supers - 1);
            }
            _ => continue,
        }
        if text(at + 1) != ":" || text(at + 2) != ":" {
            continue;
        }
        match text(at + 3) {
            "{" => found.extend(heads(source, at + 3).map(|name| (name, line))),
            name => found.push((name.to_owned(), line)),
        }
    }
    found
}

/// The first names of the paths in a `use` group that opens at `open`.
fn heads(source: &Source, open: usize) -> impl Iterator<Item = String> {
    let (mut depth, mut is_head, mut names) = (0_usize, true, Vec::new());
    for token in &source.tokens[open..] {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" if depth == 1 => break,
            "}" => depth -= 1,
            "," => is_head = depth == 1,
            name if is_head => {
                names.push(name.to_owned());
                is_head = false;
            }
            _ => {}
        }
    }
    names.into_iter()
}

/// One finding for each import that closes a cycle through a folder.
fn findings(modules: &Modules) -> Vec<Finding> {
    let mut found = Vec::new();
    for ((from, to), (path, line)) in &modules.imports {
        let has_folder = modules.folders.contains(from) || modules.folders.contains(to);
        if has_folder && reaches(modules, to, from) {
            let message = format!(
                "`{from}` imports `{to}`, which imports it back: move the shared type below both"
            );
            found.push(Finding::new(path, *line, message));
        }
    }
    found
}

fn reaches(modules: &Modules, from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module.clone()) {
            let imports = modules.imports.keys().filter(|(importer, _)| *importer == module);
            next.extend(imports.map(|(_, imported)| imported.clone()));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> usize {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::parse(path, text).unwrap()).collect();
        check(&sources).len()
    }

    #[test]
    fn a_cycle_through_a_folder_is_found_by_each_of_its_imports() {
        let file = ("crates/a/src/store.rs", "use crate::{feed::Feed, other::B};\n");
        let folder = ("crates/a/src/feed/mod.rs", "use super::store::Store;\n");
        assert_eq!(found(&[file, folder]), 2);
        let deeper = ("crates/a/src/feed/own.rs", "fn f() { super::super::store::g(); }\n");
        let module = ("crates/a/src/feed/mod.rs", "mod own;\n");
        assert_eq!(found(&[file, module, deeper]), 2);
        let around = ("crates/a/src/store.rs", "use crate::third::C;\n");
        let third = ("crates/a/src/third.rs", "use crate::feed::Feed;\n");
        assert_eq!(found(&[around, third, folder]), 2, "the two imports at the folder");
    }

    #[test]
    fn one_way_imports_files_among_themselves_and_tests_are_left_alone() {
        let file = ("crates/a/src/store.rs", "use crate::feed::Feed;\n");
        let folder = ("crates/a/src/feed/mod.rs", "use super::own::Own;\nuse self::b::B;\n");
        assert_eq!(found(&[file, folder]), 0);
        let other = ("crates/a/src/other.rs", "use crate::store::Store;\n");
        let back = ("crates/a/src/store.rs", "use crate::other::Other;\n");
        assert_eq!(found(&[other, back]), 0);
        let tested = "#[cfg(test)]\nmod tests {\n    use crate::store::Store;\n}\n";
        assert_eq!(found(&[file, ("crates/a/src/feed/mod.rs", tested)]), 0);
        let elsewhere = ("crates/b/src/feed/mod.rs", "use crate::store::Store;\n");
        assert_eq!(found(&[file, elsewhere]), 0);
    }
}
