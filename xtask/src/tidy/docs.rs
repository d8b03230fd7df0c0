//! Documents that match the code: the schema's fingerprint in its page, links that resolve, and
//! an index that knows every decision.
//!
//! The page on order entry carries the SHA-256 of the schema that it describes. After a change of
//! the schema the page is read again and the new fingerprint written: no sooner does the test pass.

use sha2::{Digest, Sha256};

use super::Finding;
use crate::tree::{TextFile, Tree};

const SCHEMA_PATH: &str = "schema/weir.xml";
const SCHEMA_PAGE: &str = "docs/protocols/order-entry.md";
const DECISION_DIR: &str = "docs/adr/";
const DECISION_INDEX: &str = "docs/adr/README.md";
const SCHEMA_MARK: &str = "schema-sha256:";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_schema(tree);
    findings.extend(check_decisions(tree));
    for file in tree.with_extension("md") {
        findings.extend(check_links(tree, file));
    }
    findings
}

fn check_schema(tree: &Tree) -> Vec<Finding> {
    let Some(schema) = tree.text(SCHEMA_PATH) else {
        return vec![Finding::new(SCHEMA_PATH, 0, "is missing: it is the contract of the wire")];
    };
    let actual = hex(&Sha256::digest(schema.as_bytes()));
    let Some(page) = tree.text(SCHEMA_PAGE) else {
        let message = format!("is missing: it documents {SCHEMA_PATH} ({SCHEMA_MARK} {actual})");
        return vec![Finding::new(SCHEMA_PAGE, 0, message)];
    };
    for (index, line) in page.lines().enumerate() {
        let Some((_, rest)) = line.split_once(SCHEMA_MARK) else { continue };
        let stated = rest.trim().trim_matches('`');
        if stated == actual {
            return Vec::new();
        }
        let message = format!(
            "{SCHEMA_PATH} has changed: read this page against it, then write \
             {SCHEMA_MARK} {actual}"
        );
        return vec![Finding::new(SCHEMA_PAGE, index + 1, message)];
    }
    let message = format!("holds no line `{SCHEMA_MARK} {actual}`");
    vec![Finding::new(SCHEMA_PAGE, 0, message)]
}

/// Every decision is in the index of decisions.
fn check_decisions(tree: &Tree) -> Vec<Finding> {
    let index = tree.text(DECISION_INDEX).unwrap_or("");
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        let Some(name) = file.path.strip_prefix(DECISION_DIR) else { continue };
        if file.path != DECISION_INDEX && !index.contains(&format!("({name})")) {
            let message = format!("is not in {DECISION_INDEX}: add a row for it");
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    findings
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every relative link of a page points to a file or folder of the project, and to a heading of it
/// where it names one.
fn check_links(tree: &Tree, page: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_code = false;
    for (index, line) in page.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in link_targets(line) {
            if let Some(problem) = broken(tree, page, target) {
                findings.push(Finding::new(&page.path, index + 1, problem));
            }
        }
    }
    findings
}

/// Returns the link targets: the texts between `](` and `)`, outside inline code.
fn link_targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (number, stretch) in line.split('`').enumerate() {
        // Odd stretches are inline code; the link text itself may hold code, its target may not.
        if number % 2 == 1 {
            continue;
        }
        let mut rest = stretch;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, tail)) = after.split_once(')') else { break };
            targets.push(target.split_whitespace().next().unwrap_or(""));
            rest = tail;
        }
    }
    targets
}

fn broken(tree: &Tree, page: &TextFile, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { page.path.clone() } else { resolve(&page.path, file) };
    if !tree.has(&path) {
        return Some(format!("link to `{target}`, which does not exist"));
    }
    let linked = tree.text(&path)?;
    if heading.is_empty() || !path.ends_with(".md") || has_heading(linked, heading) {
        return None;
    }
    Some(format!("link to `{target}`: no such heading in {path}"))
}

/// `../b.md` seen from `docs/x/a.md` is `docs/b.md`.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn has_heading(text: &str, slug: &str) -> bool {
    text.lines().filter(|line| line.starts_with('#')).any(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let found: String = title
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        found == slug
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "<messageSchema/>";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_schema_that_changed_without_its_page_is_found() {
        let fingerprint = hex(&Sha256::digest(SCHEMA));
        let page = format!("# Order entry\n\n`schema-sha256: {fingerprint}`\n");
        assert_eq!(findings(&[(SCHEMA_PATH, SCHEMA), (SCHEMA_PAGE, &page)]), [""; 0]);
        let changed = findings(&[(SCHEMA_PATH, "<other/>"), (SCHEMA_PAGE, &page)]);
        assert!(changed[0].starts_with("docs/protocols/order-entry.md:3:"), "{changed:?}");
    }

    #[test]
    fn a_missing_schema_page_or_fingerprint_is_found() {
        assert!(findings(&[])[0].contains("is missing"));
        assert!(findings(&[(SCHEMA_PATH, SCHEMA)])[0].contains("is missing"));
        let found = findings(&[(SCHEMA_PATH, SCHEMA), (SCHEMA_PAGE, "# Order entry\n")]);
        assert!(found[0].contains("holds no line"), "{found:?}");
    }

    #[test]
    fn a_decision_outside_the_index_is_found() {
        let tree = Tree::of(&[
            (DECISION_INDEX, "| [0001](0001-a.md) | A |"),
            ("docs/adr/0001-a.md", "# A"),
            ("docs/adr/0002-b.md", "# B"),
        ]);
        let found = check_decisions(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "docs/adr/0002-b.md");
    }

    #[test]
    fn links_that_do_not_resolve_are_found() {
        let cases = [
            ("[a](b.md)", 0),
            ("[a](../x/b.md#two-words)", 0),
            ("[a](b.md#three)", 1),
            ("[a](c.md) and [d](e/)", 2),
            ("[a](https://example.org/c.md)", 0),
            ("`[a](c.md)`", 0),
            ("[`a`](c.md)", 1),
            ("```\n[a](c.md)\n```", 0),
        ];
        for (text, count) in cases {
            let tree = Tree::of(&[("x/a.md", text), ("x/b.md", "# B\n## Two words!\n")]);
            let found = check_links(&tree, &tree.files[0]);
            assert_eq!(found.len(), count, "{text}: {found:?}");
        }
    }
}
