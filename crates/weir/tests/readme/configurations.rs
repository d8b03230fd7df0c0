//! The `toml` blocks of the pages, read by the code that reads them in use.

use weir_cli::calendar::Calendar;
use weir_marketgate::receiver::FeedSection;
use weir_node::config::Config;
use weir_runtime::civil::Date;

use crate::pages::{CALENDARS, configuration};
use crate::shell::blocks;
use crate::{documents, root};

/// A gateway, for sections that are a part of its configuration.
const GATEWAY: &str = "[market_gateway]\nlisten = \"127.0.0.1:7003\"\n";
const FEED: &str = "[market_gateway.feed]\nname = \"itch\"\n\
                    [[market_gateway.feed.lines]]\na = \"233.54.12.111:26477@10.0.0.1\"\n";

/// Reads a block by what it begins with.
fn read(block: &str) -> Result<(), String> {
    let node = |text: &str| Config::parse(text).map(drop).map_err(|error| error.to_string());
    match block.lines().next().unwrap_or_default() {
        first if first.starts_with("utc_offset") || first.starts_with("timezone") => {
            Calendar::parse(block).map(drop).map_err(|error| error.to_string())
        }
        first if first.starts_with("name") => {
            FeedSection::parse(block).map(drop).map_err(|error| error.to_string())
        }
        "[market_gateway.feed]" => node(&format!("{GATEWAY}{block}")),
        first if first.starts_with("[market_gateway.") => node(&format!("{GATEWAY}{FEED}{block}")),
        _ => node(block),
    }
}

#[test]
fn every_configuration_on_a_page_is_read() {
    let root = root();
    let mut found = vec![root.join("README.md")];
    documents::pages(&root.join("docs"), &mut found);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in found {
        let page = std::fs::read_to_string(&path).unwrap();
        for block in blocks(&page, "toml") {
            count += 1;
            if let Err(error) = read(block) {
                wrong.push(format!("{}: {error}\n{block}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(count > 10, "only {count} configurations were found");
}

#[test]
fn a_block_with_an_unknown_key_or_a_wrong_value_is_an_error() {
    for block in [
        "[ingest]\nlisten = \"10.0.0.1:7003\"\ncolour = 1",
        "[delivery]\nindexes = \"some\"",
        "name = \"nobody\"",
        "utc_offset = \"1\"",
        "timezone = \"CEST\"\ndays = []\nphase = []",
        "[market_gateway.shm]\nring_bytes = 1",
    ] {
        assert!(read(block).is_err(), "{block}");
    }
}

#[test]
fn calendars_of_the_operators_page_make_the_changes_that_it_shows() {
    let path = "docs/operations.md";
    let page = std::fs::read_to_string(root().join(path)).unwrap();
    let day = |text: &str| text.parse::<Date>().unwrap();
    let [berlin, by_hand, chicago] =
        CALENDARS.map(|(_, first)| Calendar::parse(&configuration(path, first)).unwrap());
    // From a Thursday to a Sunday, over the beginning of daylight saving time.
    let changes = chicago.changes(day("2027-03-11"), 4).unwrap();
    let lines: Vec<_> = changes.iter().map(|change| format!("  {change}")).collect();
    assert_eq!(lines.len(), 6);
    assert!(blocks(&page, "text").contains(&&*lines.join("\n")), "{lines:#?}");
    // The offsets by hand are those of the zone, to the end of daylight saving time and behind it.
    let [by_zone, by_hand] =
        [berlin, by_hand].map(|calendar| calendar.changes(day("2026-11-02"), 500).unwrap());
    assert_eq!(by_zone, by_hand);
    assert!(by_zone.len() > 1_000);
}
