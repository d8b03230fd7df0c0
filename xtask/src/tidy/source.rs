//! One Rust source, parsed: its tokens, its functions, and which lines only tests compile.
//!
//! Code under a `#[cfg(test)]` or `#[test]` item is test code: it may read clocks and unwrap. A
//! file under a crate's `tests/`, `benches/` or `examples/` is not shipped and counts as test code
//! as a whole.

use std::ops::RangeInclusive;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use super::tokens::{self, Token};

/// A function and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// `module::Type::name` within the file.
    pub(crate) name: String,
    /// Line of the `fn` keyword (attributes and comments above do not count).
    pub(crate) line: usize,
    /// Lines from the signature to the closing brace, or to the semicolon of a trait's function
    /// without a body.
    pub(crate) line_count: usize,
    /// True when a parameter is a tuple, or a reference to one. False in an implementation of a
    /// trait: the signature is the trait's.
    pub(crate) takes_tuple: bool,
    /// Parameters with the receiver; zero in an implementation of a trait.
    pub(crate) param_count: usize,
}

/// A parsed source.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) lines: Vec<String>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) functions: Vec<Function>,
    test_lines: Vec<RangeInclusive<usize>>,
    /// The possible files of each `#[cfg(test)] mod name;`: paths without their `.rs`.
    test_modules: Vec<String>,
    is_test_file: bool,
    /// Lines of `unsafe fn` whose contract is their trait's.
    pub(crate) contract_lines: Vec<usize>,
}

impl Source {
    /// Parses `text`; a file that is not Rust is a finding, since nothing can be said about it.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Source, Finding> {
        let unreadable = |error: &dyn std::fmt::Display, line: usize| {
            Finding::new(path, line, format!("does not parse as Rust: {error}"))
        };
        let file =
            syn::parse_file(text).map_err(|error| unreadable(&error, error.span().start().line))?;
        let stream = text.parse().map_err(|error: proc_macro2::LexError| unreadable(&error, 0))?;
        let mut walk = Walk::default();
        walk.visit_file(&file);
        Ok(Source {
            path: path.to_string(),
            lines: text.lines().map(str::to_string).collect(),
            tokens: tokens::flatten(stream),
            functions: walk.functions,
            test_lines: walk.test_lines,
            test_modules: walk
                .test_modules
                .iter()
                .map(|name| format!("{}/{name}", module_dir(path)))
                .collect(),
            is_test_file: is_outside_src(path),
            contract_lines: walk.contract_lines,
        })
    }

    /// Marks the files that another file includes as `#[cfg(test)] mod name;`.
    pub(crate) fn mark_test_files(sources: &mut [Source]) {
        let modules: Vec<String> =
            sources.iter().flat_map(|source| source.test_modules.iter().cloned()).collect();
        for source in sources {
            source.is_test_file |= modules.iter().any(|module| {
                source
                    .path
                    .strip_prefix(module.as_str())
                    .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            });
        }
    }

    /// True when only tests compile what stands on `line`.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.is_test_file || self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// Text of `line` (from 1), or nothing past the end.
    pub(crate) fn line(&self, line: usize) -> &str {
        line.checked_sub(1).and_then(|index| self.lines.get(index)).map_or("", String::as_str)
    }
}

/// True for what cargo builds only for tests, measurements and demonstrations.
fn is_outside_src(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.all(|part| part != "src")
        && path.split('/').any(|part| ["tests", "benches", "examples"].contains(&part))
}

/// The folder in which the modules that the file at `path` declares are looked for.
fn module_dir(path: &str) -> String {
    let (dir, file) = path.rsplit_once('/').unwrap_or((".", path));
    match file {
        "lib.rs" | "main.rs" | "mod.rs" => dir.to_string(),
        _ => format!("{dir}/{}", file.trim_end_matches(".rs")),
    }
}

/// `#[test]`, or a `#[cfg(...)]` that names `test` and does not negate it.
fn attribute_is_test(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let words = tokens::flatten(list.tokens.clone());
    list.path.is_ident("cfg")
        && words.iter().any(|token| token.text == "test")
        && !words.iter().any(|token| token.text == "not")
}

#[derive(Default)]
struct Walk {
    scope: Vec<String>,
    functions: Vec<Function>,
    test_lines: Vec<RangeInclusive<usize>>,
    test_modules: Vec<String>,
    contract_lines: Vec<usize>,
    is_in_trait_impl: bool,
}

impl Walk {
    fn mark_if_test(&mut self, attributes: &[syn::Attribute], span: Span) {
        if attributes.iter().any(attribute_is_test) {
            self.test_lines.push(span.start().line..=span.end().line);
        }
    }

    fn add_function(&mut self, signature: &syn::Signature, end: Span) {
        let line = signature.fn_token.span.start().line;
        let mut name = self.scope.clone();
        name.push(signature.ident.to_string());
        let line_count = end.end().line + 1 - line;
        let is_own = !self.is_in_trait_impl;
        let takes_tuple = is_own && signature.inputs.iter().any(is_tuple);
        let param_count = if is_own { signature.inputs.len() } else { 0 };
        let name = name.join("::");
        self.functions.push(Function { name, line, line_count, takes_tuple, param_count });
    }

    fn within(&mut self, name: String, visit: impl FnOnce(&mut Walk)) {
        self.scope.push(name);
        visit(self);
        self.scope.pop();
    }
}

/// The last identifier of a type: enough to tell `impl` blocks of a file apart.
fn type_name(ty: &syn::Type) -> String {
    match ty {
        syn::Type::Path(path) => {
            path.path.segments.last().map_or_else(String::new, |last| last.ident.to_string())
        }
        syn::Type::Reference(reference) => type_name(&reference.elem),
        _ => "_".to_string(),
    }
}

/// A tuple with fields, or a reference to one; a receiver is none.
fn is_tuple(parameter: &syn::FnArg) -> bool {
    let syn::FnArg::Typed(parameter) = parameter else { return false };
    let mut ty = &*parameter.ty;
    loop {
        match ty {
            syn::Type::Reference(reference) => ty = &reference.elem,
            syn::Type::Paren(paren) => ty = &paren.elem,
            syn::Type::Tuple(tuple) => return !tuple.elems.is_empty(),
            _ => return false,
        }
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.mark_if_test(&item.attrs, item.span());
        if item.content.is_none() && item.attrs.iter().any(attribute_is_test) {
            self.test_modules.push(item.ident.to_string());
        }
        self.within(item.ident.to_string(), |walk| visit::visit_item_mod(walk, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.mark_if_test(&item.attrs, item.span());
        let is_outer = std::mem::take(&mut self.is_in_trait_impl);
        self.add_function(&item.sig, item.block.span());
        self.within(item.sig.ident.to_string(), |walk| visit::visit_item_fn(walk, item));
        self.is_in_trait_impl = is_outer;
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.mark_if_test(&item.attrs, item.span());
        if item.trait_.is_some() {
            self.contract_lines.extend(item.items.iter().filter_map(|item| match item {
                syn::ImplItem::Fn(function) => function.sig.unsafety.map(|at| at.span.start().line),
                _ => None,
            }));
        }
        let is_outer = std::mem::replace(&mut self.is_in_trait_impl, item.trait_.is_some());
        self.within(type_name(&item.self_ty), |walk| visit::visit_item_impl(walk, item));
        self.is_in_trait_impl = is_outer;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.mark_if_test(&item.attrs, item.span());
        self.add_function(&item.sig, item.block.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.within(item.ident.to_string(), |walk| visit::visit_item_trait(walk, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let end = item.default.as_ref().map_or_else(|| item.span(), Spanned::span);
        self.add_function(&item.sig, end);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.mark_if_test(&item.attrs, item.span());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
struct A;
impl A {
    /// Doc lines do not count.
    fn one(&self) -> u32 {
        1
    }
}
#[cfg(test)]
mod tests {
    fn two() {}
}
#[cfg(not(test))]
fn three() {}
";

    #[test]
    fn functions_are_named_and_counted_from_signature_to_brace() {
        let source = Source::parse("a.rs", TEXT).unwrap();
        let seen: Vec<(&str, usize, usize)> =
            source.functions.iter().map(|f| (f.name.as_str(), f.line, f.line_count)).collect();
        assert_eq!(seen, [("A::one", 4, 3), ("tests::two", 10, 1), ("three", 13, 1)]);
    }

    #[test]
    fn test_items_and_test_files_count_as_test_code() {
        let source = Source::parse("crates/a/src/a.rs", TEXT).unwrap();
        let test_lines: Vec<usize> = (1..=13).filter(|line| source.is_test_line(*line)).collect();
        assert_eq!(test_lines, [8, 9, 10, 11]);
        let source = Source::parse("crates/a/tests/a.rs", TEXT).unwrap();
        assert!((1..=13).all(|line| source.is_test_line(line)));
    }

    #[test]
    fn the_file_of_a_test_module_counts_as_test_code() {
        let parent = "#[cfg(test)]\nmod oracle;\nmod other;";
        let mut sources = vec![
            Source::parse("crates/a/src/lib.rs", parent).unwrap(),
            Source::parse("crates/a/src/oracle.rs", "fn a() {}").unwrap(),
            Source::parse("crates/a/src/oracle/book.rs", "fn a() {}").unwrap(),
            Source::parse("crates/a/src/other.rs", "fn a() {}").unwrap(),
        ];
        Source::mark_test_files(&mut sources);
        let marked: Vec<bool> = sources.iter().map(|source| source.is_test_line(3)).collect();
        assert_eq!(marked, [false, true, true, false]);
    }

    #[test]
    fn a_source_that_does_not_parse_is_a_finding() {
        let finding = Source::parse("a.rs", "fn (").unwrap_err();
        assert!(finding.message.contains("does not parse"), "{finding}");
    }
}
