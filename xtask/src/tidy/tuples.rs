//! Functions that take a tuple.
//!
//! `fn level((price, quantity): (Price, Qty))` hides two parameters, or a type without a name. A
//! parameter of the type `&(A, B)` counts too, a list of tuples does not. The declaration of a
//! trait's function counts and its implementations do not, so that signatures of a library never
//! count. The ratchet holds the number of each crate, tests included.

use super::Finding;
use super::ratchet::{Excess, Excesses};
use super::source::Source;
use crate::tree::Tree;

/// The number of such functions in each crate; each entry points at the first of them.
pub(crate) fn excesses(tree: &Tree, sources: &[Source]) -> Excesses {
    let mut found = Excesses::new();
    for Finding { path, line, message } in places(sources) {
        let key = format!("tuples {}", tree.crate_of(&path));
        let message = format!("{message} (`xtask tuples` lists all)");
        found.entry(key).or_insert(Excess { size: 0, path, line, message }).size += 1;
    }
    found
}

/// All such functions, by path and line.
pub(crate) fn places(sources: &[Source]) -> Vec<Finding> {
    let mut places = Vec::new();
    for source in sources {
        for function in source.functions.iter().filter(|function| function.takes_tuple) {
            let message = format!("`{}` takes a tuple: name its fields", function.name);
            places.push(Finding::new(&source.path, function.line, message));
        }
    }
    places.sort();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(text: &str) -> bool {
        let source = Source::parse("a.rs", text).unwrap();
        !places(&[source]).is_empty()
    }

    #[test]
    fn a_tuple_is_found_as_a_pattern_or_as_a_type_and_only_where_a_parameter_is_one() {
        let cases = [
            ("fn a((b, c): (u32, u32)) {}", true),
            ("fn a(b: (u32, u32)) {}", true),
            ("fn a(b: u32, c: &mut (u32, u32)) {}", true),
            ("fn a(b: (&(u32, u32))) {}", true),
            ("impl A { fn a(&self, b: (u32,)) {} }", true),
            ("mod a { mod tests { fn a(b: (u32, u32)) {} } }", true),
            ("fn a() { fn b(c: (u32, u32)) {} }", true),
            ("trait A { fn a(b: (u32, u32)); }", true),
            ("trait A { fn a(b: (u32, u32)) {} }", true),
            ("impl A for (u32, u32) { fn a(&self, b: (u32, u32)) {} }", false),
            ("impl A for B { fn a() { fn c(d: (u32, u32)) {} } }", true),
            ("impl A for B {} impl B { fn a(b: (u32, u32)) {} }", true),
            ("impl A for B { fn a() { fn c() {} } fn d(e: (u32, u32)) {} }", false),
            ("fn a(b: u32, c: ()) -> (u32, u32) { (b, b) }", false),
            ("fn a(b: &[(u32, u32)], c: [(u32, u32); 2]) {}", false),
            ("fn a(b: impl Fn((u32, u32)), c: fn((u32, u32))) {}", false),
            ("fn a() { let b = |(c, d): (u32, u32)| c + d; }", false),
        ];
        for (text, wanted) in cases {
            assert_eq!(is_found(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_crate_is_counted_with_its_tests_and_points_at_its_first_tuple() {
        let text = "fn a() {}\nfn b(c: (u8, u8)) {}\n#[cfg(test)]\nmod tests {\n\
                    fn d(e: (u8, u8)) {}\n}\n";
        let files = [
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", text),
            ("crates/a/tests/a.rs", "fn f(g: &(u8, u8)) {}"),
            ("crates/b/Cargo.toml", ""),
            ("crates/b/src/lib.rs", "fn a(b: u8) {}"),
        ];
        let tree = Tree::of(&files);
        let sources: Vec<Source> =
            tree.with_extension("rs").map(|f| Source::parse(&f.path, &f.text).unwrap()).collect();
        let found: Vec<String> = excesses(&tree, &sources)
            .iter()
            .map(|(key, e)| format!("{key} {} {}:{} {}", e.size, e.path, e.line, e.message))
            .collect();
        let wanted = "tuples crates/a 3 crates/a/src/lib.rs:2 `b` takes a tuple: name its fields \
                      (`xtask tuples` lists all)";
        assert_eq!(found, [wanted]);
    }
}
