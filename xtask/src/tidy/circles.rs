//! Cycles between the modules of a folder: none may run through a folder in it.
//!
//! A folder is a part with a border; two parts that import each other are one part in two places.
//! This holds among the children of each folder, and among those of a crate. The folder's own file
//! (`mod.rs`, `lib.rs`) is its face, which knows all children, and is none of them; a name that it
//! passes on counts as an import of the child that has it.
//!
//! Files next to each other are not checked among themselves: the parts of one state machine may
//! lie in several, as the `impl Engine` of the engine does. Each of them calls the others through
//! that type, so none is above another; together they are one module that is too long for a file.
//!
//! Imports are read from `crate::`, `self::` and `super::` paths in shipped code, so an import
//! inside a macro counts and one inside a test does not.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::Source;

/// The path of a module in its crate, or of an item in a module.
type Path = Vec<String>;

/// The modules of one crate.
#[derive(Default)]
struct Modules {
    /// The modules, and those of them that are folders.
    names: BTreeSet<Path>,
    folders: BTreeSet<Path>,
    /// The names that a module has from others, each with the path that it stands for.
    passed_on: BTreeMap<Path, Path>,
    /// For each folder its children's imports of each other, with the place of the first.
    imports: BTreeMap<Path, Imports>,
}

/// The most names that stand for one another.
const PASSES_MAX: usize = 8;

/// Imports between the children of one folder, each with the place of the first.
type Imports = BTreeMap<(String, String), ImportLine>;

/// A line of a source.
struct ImportLine {
    path: String,
    line: usize,
}

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for source in sources {
        let Some((dir, module)) = module_of(source) else { continue };
        let modules = crates.entry(dir).or_default();
        let is_file = usize::from(!source.path.ends_with("/mod.rs"));
        modules
            .folders
            .extend((1..=module.len().saturating_sub(is_file)).map(|len| module[..len].to_vec()));
        modules.names.extend((1..=module.len()).map(|len| module[..len].to_vec()));
        modules.passed_on.extend(declared(source, &module));
    }
    for source in sources {
        let Some((dir, module)) = module_of(source) else { continue };
        let modules = crates.get_mut(dir).expect("it was entered above");
        for (path, line) in imports(source, &module) {
            modules.enter(&module, path, ImportLine { path: source.path.clone(), line });
        }
    }
    crates.values().flat_map(findings).collect()
}

/// The crate of a source, and the path of its module; `None` for a program of its own.
fn module_of(source: &Source) -> Option<(&str, Path)> {
    let (dir, rest) = source.path.split_once("/src/")?;
    let mut module: Path = rest.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    module.pop_if(|last| last == "mod");
    if module == ["lib"] || module == ["main"] {
        module.clear();
    }
    (module.first().is_none_or(|first| first != "bin")).then_some((dir, module))
}

impl Modules {
    /// Enters a module's import of a path of its crate.
    fn enter(&mut self, module: &[String], mut path: Path, place: ImportLine) {
        for _ in 0..PASSES_MAX {
            let same = module.iter().zip(&path).take_while(|(a, b)| a == b).count();
            let (Some(from), Some(to)) = (module.get(same), path.get(same)) else { return };
            if self.names.contains(&path[..=same]) {
                let imports = self.imports.entry(path[..same].to_vec()).or_default();
                imports.entry((from.clone(), to.clone())).or_insert(place);
                return;
            }
            let Some(original) = self.passed_on.get(&path[..=same]) else { return };
            path = [&original[..], &path[same + 1..]].concat();
        }
    }
}

/// The names from other modules that a source declares, each with its path.
fn declared(source: &Source, module: &[String]) -> Vec<(Path, Path)> {
    let mut found = Vec::new();
    for index in shipped(source).filter(|index| text(source, *index) == "use") {
        for Leaf { path, name } in leaves(source, index + 1) {
            let own = [module, &[name]].concat();
            found.push((own, absolute(&path, module)));
        }
    }
    found
}

/// The paths of its crate that a source names, with the lines.
fn imports(source: &Source, module: &[String]) -> Vec<(Path, usize)> {
    let begins = |index: &usize| {
        let before = |back: usize| index.checked_sub(back).map_or("", |at| text(source, at));
        let is_head = ["crate", "self", "super"].contains(&text(source, *index));
        is_head && before(1) != ":" && (before(2), before(1)) != ("(", "in")
    };
    let mut found = Vec::new();
    for index in shipped(source).filter(begins) {
        let line = source.tokens[index].line;
        let leaves = leaves(source, index).into_iter();
        found.extend(leaves.map(|leaf| (absolute(&leaf.path, module), line)));
    }
    found
}

/// The indices of the tokens outside of tests.
fn shipped(source: &Source) -> impl Iterator<Item = usize> {
    (0..source.tokens.len()).filter(|index| !source.is_test_line(source.tokens[*index].line))
}

fn text(source: &Source, index: usize) -> &str {
    source.tokens.get(index).map_or("", |token| token.text.as_str())
}

/// Returns a path, as a module writes it, from the crate's root on.
fn absolute(path: &[String], module: &[String]) -> Path {
    let heads = path.iter().take_while(|part| ["self", "super"].contains(&part.as_str()));
    let ups = heads.clone().filter(|part| *part == "super").count();
    match path.first().map_or("", String::as_str) {
        "crate" => path[1..].to_vec(),
        _ => [&module[..module.len().saturating_sub(ups)], &path[heads.count()..]].concat(),
    }
}

/// One path of a tree of paths, and the name that stands for it.
struct Leaf {
    path: Path,
    name: String,
}

/// The paths of the tree, as in `a::{b, c::d as e}`, that begins at a token.
fn leaves(source: &Source, at: usize) -> Vec<Leaf> {
    let mut found = Vec::new();
    collect(source, at, Path::new(), &mut found);
    found
}

/// Collects the paths of a tree behind `path`; returns the token behind it.
fn collect(source: &Source, mut at: usize, mut path: Path, found: &mut Vec<Leaf>) -> usize {
    if text(source, at) == "{" {
        while text(source, at) != "}" && at < source.tokens.len() {
            at = collect(source, at + 1, path.clone(), found);
        }
        return at + 1;
    }
    let part = text(source, at);
    if !part.starts_with(|first: char| first.is_alphabetic() || first == '_') {
        found.push(Leaf { name: String::new(), path });
        return at + usize::from(part == "*");
    }
    if part != "self" || path.is_empty() {
        path.push(part.to_owned());
    }
    match [text(source, at + 1), text(source, at + 2)] {
        [":", ":"] => collect(source, at + 3, path, found),
        ["as", name] => {
            found.push(Leaf { name: name.to_owned(), path });
            at + 3
        }
        _ => {
            found.push(Leaf { name: path[path.len() - 1].clone(), path });
            at + 1
        }
    }
}

/// One finding for each import that closes a cycle through a folder.
fn findings(modules: &Modules) -> Vec<Finding> {
    let mut found = Vec::new();
    for (folder, imports) in &modules.imports {
        let is_folder = |name: &String| {
            modules.folders.contains(&[&folder[..], std::slice::from_ref(name)].concat())
        };
        for ((from, to), place) in imports {
            if (is_folder(from) || is_folder(to)) && reaches(imports, to, from) {
                let message = format!(
                    "`{from}` imports `{to}`, which imports it back: move the shared type below \
                     both"
                );
                found.push(Finding::new(&place.path, place.line, message));
            }
        }
    }
    found
}

fn reaches(imports: &Imports, from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module.clone()) {
            let imports = imports.keys().filter(|(importer, _)| *importer == module);
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
    fn a_cycle_in_a_folder_is_found_if_it_runs_through_a_folder_in_that() {
        let agent = ("crates/a/src/gate/agent.rs", "use super::{post::Post, figures::Figures};\n");
        let figures = ("crates/a/src/gate/figures.rs", "use super::agent::Agent;\n");
        let back = ("crates/a/src/gate/post/own.rs", "use crate::gate::{agent::{self, Agent}};\n");
        assert_eq!(found(&[agent, figures, back]), 2, "the two imports at the inner folder");
        let forth = ("crates/a/src/gate/post/own.rs", "use super::{super::batch::Batch};\n");
        let batch = ("crates/a/src/gate/batch.rs", "pub struct Batch;\n");
        assert_eq!(found(&[agent, figures, forth, batch]), 0, "two files alone");
        let tied = ("crates/a/src/gate/batch.rs", "pub(in crate::gate::post) struct Batch;\n");
        assert_eq!(found(&[agent, figures, forth, tied]), 0, "a visibility is no import");
    }

    #[test]
    fn a_name_that_a_folder_passes_on_is_an_import_of_the_child_that_has_it() {
        let face = ("crates/a/src/gate/mod.rs", "mod agent;\npub use agent::{Agent as Worker};\n");
        let agent = ("crates/a/src/gate/agent.rs", "use super::post::Post;\n");
        let post = ("crates/a/src/gate/post/mod.rs", "use super::Worker;\n");
        assert_eq!(found(&[face, agent, post]), 2);
        let root = ("crates/a/src/lib.rs", "pub use gate::Worker;\nmod gate;\n");
        let over_the_root = ("crates/a/src/gate/post/mod.rs", "fn f() { crate::Worker::new(); }\n");
        assert_eq!(found(&[root, face, agent, over_the_root]), 2);
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
