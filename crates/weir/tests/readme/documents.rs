//! Every command line of `weir` in the documents names commands and options that exist.
//!
//! Lines in `sh` blocks and code spans are checked against the program's own definition; [`super`]
//! runs the blocks. A word in capitals stands for a value.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use weir_cli::Cli;

/// Code spans that begin like a command line: a line that a node prints, and bytes of a file.
const OTHER_SPANS: [&str; 2] = ["weir ready ", "weir audit 1"];

/// The pages of a folder, and those in folders below.
pub fn pages(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The command lines of `weir` on a page.
fn command_lines(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let page = page.replace("\\\n", " ");
    let (mut text, mut is_block) = (String::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            lines.extend(line.trim().starts_with("weir ").then(|| line.trim().to_owned()));
        } else {
            text += line.trim();
            text.push(' ');
        }
    }
    let spans = text.split('`').skip(1).step_by(2);
    let is_command = |span: &&str| {
        span.starts_with("weir ") && !OTHER_SPANS.iter().any(|other| span.starts_with(other))
    };
    lines.extend(spans.filter(is_command).map(str::to_owned));
    lines
}

fn has_option(commands: &[&Command], name: &str) -> bool {
    let is_own = |command: &&Command| {
        command.get_arguments().any(|arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(name) || aliases.contains(&name)
        })
    };
    name == "help" || commands.iter().any(is_own)
}

/// The first command or option of a line that does not exist.
fn unknown(root: &Command, line: &str) -> Option<String> {
    let line = line.split(['#', '&', ';', '…']).next().unwrap_or_default();
    let mut commands = vec![root];
    let mut has_value = false;
    for word in line.split_whitespace().skip(1).map(|word| word.trim_matches(['[', ']', ','])) {
        if matches!(word, "|" | ">" | ">>") {
            break;
        }
        let last = commands[commands.len() - 1];
        if let Some(option) = word.strip_prefix("--") {
            let names = option.split(['=', '/']).next().unwrap_or_default();
            let all = names.split("|--").map(|name| name.trim_start_matches("--"));
            let wrong = all.into_iter().find(|name| !has_option(&commands, name));
            if let Some(name) = wrong.filter(|name| !name.is_empty()) {
                return Some(format!("--{name}"));
            }
            has_value = true;
            continue;
        }
        let found = last.find_subcommand(word);
        if let Some(found) = found {
            commands.push(found);
            has_value = false;
            continue;
        }
        let is_name = word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '|');
        let has_subcommands = last.get_subcommands().next().is_some();
        if has_subcommands && is_name && !has_value {
            // Several commands in one span: `weir admin halt|resume`.
            let wrong = word.split('|').find(|name| last.find_subcommand(name).is_none());
            return wrong.map(str::to_owned);
        }
        has_value = false;
    }
    None
}

#[test]
fn command_lines_in_documents_name_commands_and_options_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md"), root.join("python/README.md")];
    pages(&root.join("docs"), &mut found);
    pages(&root.join("bench"), &mut found);
    let cli = Cli::command();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in found {
        for line in command_lines(&std::fs::read_to_string(&path).unwrap()) {
            count += 1;
            if let Some(unknown) = unknown(&cli, &line) {
                wrong.push(format!("{}: `{line}`: there is no {unknown}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 150, "only {count} command lines were found");
}

#[test]
fn unknown_commands_and_options_are_found_in_spans_and_blocks() {
    let page = "`weir serve --dirr D` and\n`weir\nadmin halt|resumee X`\n```sh\n\
                weir load --rate 5 --rat 6   # --no\nls\n```\n`weir log dump --json --from 1`\n";
    let lines = command_lines(page);
    let cli = Cli::command();
    let found: Vec<_> = lines.iter().filter_map(|line| unknown(&cli, line)).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(found, ["--rat", "--dirr", "resumee"]);
}
