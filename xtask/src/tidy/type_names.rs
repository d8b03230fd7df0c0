//! Names of types that say nothing: participles and words that once named many unlike things.
//!
//! A type's name is a noun with one meaning, as `docs/glossary.md` has it. Structs, enums, unions,
//! traits and aliases are checked over tokens, in tests too. A variant may have such a name: the
//! enum before it gives the meaning.

use super::Finding;
use super::source::Source;

/// The refused names.
const REFUSED: &[&str] = &[
    "Asked", "Asking", "Got", "Hearing", "Look", "Looked", "Making", "Named", "Place", "Places",
    "Put", "Said", "Saying", "Stand", "Step", "Taking", "Told", "Wish", "Wishes", "Word",
];

/// The keywords before a type's name.
const KEYWORDS: &[&str] = &["struct", "enum", "union", "trait", "type"];

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().flat_map(refused).collect()
}

fn refused(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pair in source.tokens.windows(2) {
        let [keyword, name] = pair else { continue };
        if !KEYWORDS.contains(&keyword.text.as_str()) || !REFUSED.contains(&name.text.as_str()) {
            continue;
        }
        let message =
            format!("type `{}`: a participle or a worn word; name the thing by a noun", name.text);
        findings.push(Finding::new(&source.path, name.line, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let sources = [Source::parse("crates/a/src/lib.rs", text).unwrap()];
        check(&sources).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn each_kind_of_type_is_refused_under_each_name() {
        for name in REFUSED {
            for text in [
                format!("struct {name};"),
                format!("/// A doc.\n#[derive(Debug)]\npub(crate) enum {name} {{ A }}"),
                format!("pub trait {name} {{}}"),
                format!("union {name} {{ a: u8 }}"),
                format!("type {name} = (u8, u8);"),
                format!("#[cfg(test)]\nmod tests {{\n    pub struct {name}<'a>(&'a u8);\n}}"),
            ] {
                assert_eq!(lines(&text).len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn other_names_variants_and_uses_are_not() {
        for text in [
            "struct Stepper; struct PlaceId; enum Toldness { A }",
            "enum Answer { Said, Told(u8), Step { at: u8 } }",
            "fn a() -> b::Place { b::Place::new() }",
            "// struct Told;\nconst A: &str = \"struct Told;\";",
        ] {
            assert_eq!(lines(text), [0_usize; 0], "{text}");
        }
    }

    #[test]
    fn a_finding_stands_on_the_line_of_the_name() {
        assert_eq!(lines("struct A;\n\npub struct\nTold;\n"), [4]);
    }
}
