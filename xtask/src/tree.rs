//! The tree as the checks see it: every text file of the project, read once, by path.
//!
//! Leaves out the products of builds and tools, and anything that is not UTF-8. Paths are relative
//! to the root with forward slashes, in order, so that reports are stable.

use std::fs;
use std::io;
use std::path::Path;

/// Folders that hold no source of ours: build outputs, version control, fuzz leftovers.
const SKIPPED_DIRS: &[&str] =
    &["target", ".git", "corpus", "artifacts", "node_modules", "__pycache__", ".venv"];

/// Text larger than this is data, not source; no rule here is about data.
const TEXT_BYTES_MAX: u64 = 2 << 20;

/// One text file.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All text files of the project, by path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<TextFile>,
    /// Every path that exists, folders included: what a link may point to.
    pub(crate) paths: Vec<String>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_dir(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.paths.sort();
        Ok(tree)
    }

    /// A tree made of given files: the form in which tests plant violations.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.paths.push((*path).to_string());
            tree.files.push(TextFile { path: (*path).to_string(), text: (*text).to_string() });
        }
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.paths.sort();
        tree
    }

    fn read_dir(&mut self, dir: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type()?;
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            if kind.is_dir() {
                if !SKIPPED_DIRS.contains(&name.as_str()) {
                    self.paths.push(path.clone());
                    self.read_dir(&entry.path(), &path)?;
                }
            } else if kind.is_file() && !SKIPPED_DIRS.contains(&name.as_str()) {
                // In a work tree `.git` is a file.
                self.paths.push(path.clone());
                self.read_file(&entry, path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, entry: &fs::DirEntry, path: String) -> io::Result<()> {
        // A file may vanish between the listing and the read (an editor's scratch file): skip it.
        let Ok(meta) = entry.metadata() else { return Ok(()) };
        if meta.len() > TEXT_BYTES_MAX {
            return Ok(());
        }
        let bytes = match fs::read(entry.path()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if !bytes.contains(&0)
            && let Ok(text) = String::from_utf8(bytes)
        {
            self.files.push(TextFile { path, text });
        }
        Ok(())
    }

    /// The text at `path`, if there is such a file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        let index = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        Some(&self.files[index].text)
    }

    /// True when a file or folder of that path exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.binary_search_by(|known| known.as_str().cmp(path)).is_ok()
    }

    /// The folder of the nearest manifest above `path`; `.` for the root's.
    pub(crate) fn crate_of<'a>(&self, path: &'a str) -> &'a str {
        let mut dir = path;
        while let Some((above, _)) = dir.rsplit_once('/') {
            if self.has(&format!("{above}/Cargo.toml")) {
                return above;
            }
            dir = above;
        }
        "."
    }

    pub(crate) fn with_extension<'a>(
        &'a self,
        extension: &'a str,
    ) -> impl Iterator<Item = &'a TextFile> {
        self.files.iter().filter(move |file| {
            file.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projects_own_tree_holds_this_file_and_no_build_output() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tree = Tree::read(&root).unwrap();
        assert!(tree.text("xtask/src/tree.rs").is_some());
        assert!(tree.has("xtask/src"));
        assert!(!tree.paths.iter().any(|path| path.split('/').any(|part| part == "target")));
    }
}
