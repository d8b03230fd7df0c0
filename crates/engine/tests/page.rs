//! The examples of `docs/matching.md`, played on both engines: the page must show their events. An
//! example is a code block marked `example`, with a line per command and its events below it.

mod support;

use support::play::Pair;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/matching.md");

fn page() -> String {
    std::fs::read_to_string(PAGE).expect("the page is there")
}

/// A command of an example with its line number and the events on the page.
struct ExampleCommand<'a> {
    line_no: usize,
    command: &'a str,
    /// `None` where the page omits events such as an order's acceptance.
    told: Option<Vec<&'a str>>,
}

fn examples(page: &str) -> Vec<Vec<ExampleCommand<'_>>> {
    let mut examples: Vec<Vec<ExampleCommand<'_>>> = Vec::new();
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
                steps.push(ExampleCommand { line_no, command: line, told: None });
            }
        }
    }
    examples
}

/// Returns true for events that an example may omit: an order accepted without a trade, a new
/// phase, a done request.
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
