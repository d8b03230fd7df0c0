//! The examples of `docs/matching.md`, played on both engines: what the page shows is what they
//! say. An example is a code block marked `example`: a line a command, below it what it brings.

mod common;

use common::play::Pair;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/matching.md");

fn page() -> String {
    std::fs::read_to_string(PAGE).expect("the page is there")
}

/// A command of an example, where it stands, and what the page says that it brings.
struct Step<'a> {
    line_no: usize,
    command: &'a str,
    /// `None` where the page leaves out the order's acceptance or the like.
    told: Option<Vec<&'a str>>,
}

fn examples(page: &str) -> Vec<Vec<Step<'_>>> {
    let mut examples: Vec<Vec<Step<'_>>> = Vec::new();
    let mut is_inside = false;
    for (line_no, line) in (1..).zip(page.lines()) {
        if line.trim_start().starts_with("```") {
            is_inside = line.trim() == "```example";
            if is_inside {
                examples.push(Vec::new());
            }
        } else if is_inside && !line.is_empty() {
            let steps = examples.last_mut().expect("begun by its first line");
            if let Some(told) = line.strip_prefix("=> ") {
                let step = steps.last_mut().expect("a command stands before its events");
                step.told.get_or_insert_default().extend(told.split("; "));
            } else {
                steps.push(Step { line_no, command: line, told: None });
            }
        }
    }
    examples
}

/// What an example may leave out: an order that is taken and nothing more, a done request.
fn is_plain(told: &[String]) -> bool {
    let plain = |text: &String| {
        let words: Vec<&str> = text.split(' ').collect();
        words[0] == "done" || words[0] == "phase" || (words.len() == 3 && words[1] == "New")
    };
    told.iter().all(plain)
}

#[test]
fn every_example_of_the_page_is_what_both_engines_say() {
    let page = page();
    let examples = examples(&page);
    let mut wrong = String::new();
    for steps in &examples {
        let mut pair = Pair::open();
        for step in steps {
            let told = pair.play(step.command);
            let is_right = match &step.told {
                Some(want) => told == *want || (told.is_empty() && *want == ["nothing"]),
                None => is_plain(&told),
            };
            if !is_right {
                let told = if told.is_empty() { "nothing".to_owned() } else { told.join("; ") };
                wrong.push_str(&format!("{}: {}\n=> {told}\n", step.line_no, step.command));
            }
        }
    }
    assert!(wrong.is_empty(), "the engines say:\n{wrong}");
    assert!(examples.len() >= 25, "{} examples", examples.len());
}
