//! Functions with more than four parameters.
//!
//! Parameters that belong together are a struct with a name. The receiver counts, as it does for
//! clippy, which holds every function to seven. The declaration of a trait's function counts and
//! its implementations do not, so that signatures of a library never count. The ratchet holds the
//! number of each crate, tests included.

use super::Finding;
use super::ratchet::{Excess, Excesses};
use super::source::Source;
use crate::tree::Tree;

/// Parameters of a function, its receiver among them.
const PARAMS_MAX: usize = 4;

/// The number of such functions in each crate; each entry points at the first of them.
pub(crate) fn excesses(tree: &Tree, sources: &[Source]) -> Excesses {
    let mut found = Excesses::new();
    for Finding { path, line, message } in places(sources) {
        let key = format!("params {}", tree.crate_of(&path));
        let message = format!("{message} (`xtask params` lists all)");
        found.entry(key).or_insert(Excess { size: 0, path, line, message }).size += 1;
    }
    found
}

/// All such functions, by path and line.
pub(crate) fn places(sources: &[Source]) -> Vec<Finding> {
    let mut places = Vec::new();
    for source in sources {
        for function in source.functions.iter().filter(|f| f.param_count > PARAMS_MAX) {
            let (name, count) = (&function.name, function.param_count);
            let message = format!("`{name}` has {count} parameters, aim {PARAMS_MAX}: group them");
            places.push(Finding::new(&source.path, function.line, message));
        }
    }
    places.sort();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_parameters_and_its_receiver() {
        let four = "b: u8, c: u8, d: u8, e: u8";
        let three = "b: u8, c: u8, d: u8";
        let cases = [
            (format!("fn a({four}, f: u8) {{}}"), true),
            (format!("fn a({four}) {{}}"), false),
            (format!("impl A {{ fn a(&self, {four}) {{}} }}"), true),
            (format!("impl A {{ fn a(&mut self, {three}) {{}} }}"), false),
            (format!("trait A {{ fn a(self, {four}); }}"), true),
            (format!("impl A for B {{ fn a(&self, {four}) {{}} }}"), false),
            (format!("impl A for B {{ fn a() {{ fn c({four}, f: u8) {{}} }} }}"), true),
            (format!("mod tests {{ fn a({four}, f: u8) {{}} }}"), true),
        ];
        for (text, wanted) in cases {
            let source = Source::parse("a.rs", &text).unwrap();
            assert_eq!(!places(&[source]).is_empty(), wanted, "{text}");
        }
    }

    #[test]
    fn a_crate_is_counted_with_its_tests_and_points_at_its_first_function() {
        let long = |name: &str| format!("fn {name}(b: u8, c: u8, d: u8, e: u8, f: u8) {{}}\n");
        let (lib, test) = (format!("fn z() {{}}\n{}", long("a")), long("t"));
        let files = [
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", lib.as_str()),
            ("crates/a/tests/a.rs", test.as_str()),
        ];
        let tree = Tree::of(&files);
        let sources: Vec<Source> =
            tree.with_extension("rs").map(|f| Source::parse(&f.path, &f.text).unwrap()).collect();
        let found: Vec<String> = excesses(&tree, &sources)
            .iter()
            .map(|(key, e)| format!("{key} {} {}:{}", e.size, e.path, e.line))
            .collect();
        assert_eq!(found, ["params crates/a 2 crates/a/src/lib.rs:2"]);
    }
}
