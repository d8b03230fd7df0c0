//! A floor under the checks themselves: a run that looked at nothing must not pass.

use super::Finding;
use crate::tree::Tree;

/// Files that the project cannot be without; if one is not seen, the walk is broken.
const LANDMARKS: &[&str] = &["Cargo.toml", "x", "xtask/src/tidy/mod.rs", "crates/types/src/lib.rs"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    LANDMARKS
        .iter()
        .filter(|path| tree.text(path).is_none())
        .map(|path| Finding::new(path, 0, "is not there: was the right folder checked?"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_tree_is_not_a_tidy_one() {
        assert_eq!(check(&Tree::of(&[])).len(), LANDMARKS.len());
        let files: Vec<(&str, &str)> = LANDMARKS.iter().map(|path| (*path, "a")).collect();
        assert_eq!(check(&Tree::of(&files)), []);
    }
}
