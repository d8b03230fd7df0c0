//! The vendors' files: the measured shares must not fall.

use weir_client::flow::lobster::{BookRow, Message, MessageKind};
use weir_client::flow::{
    ANONYMOUS_ID_FIRST, FlowItem, FlowKind, LobsterFlow, OracleReport, Survey, load, load_bitstamp,
    lobster, report,
};

pub(crate) use weir_skip::recorded as data;

use crate::slow_book::{Fault, SlowBook};

fn check(path: &str, fault: Fault) -> Option<OracleReport> {
    let path = data(path)?;
    let flow = load(&path).expect("a vendor's file reads");
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (report, _) = report(&name, &flow.items, SlowBook::with(fault));
    println!("{report}");
    assert_eq!(report.oracle.orphans, 0);
    Some(report.oracle)
}

#[test]
fn lobster_days_are_reproduced() {
    // All rows must be equal. Of the executions, the market itself keeps time priority in all but
    // about two in a thousand; the shares required are those measured, cut to three digits.
    for (name, rows, executions, ppm_min) in [
        ("AAPL_2012-06-21_1", 118_497, 15_099, 998_000),
        ("AMZN_2012-06-21_1", 57_515, 5_903, 998_000),
        ("AMZN_2012-06-21_5", 155_935, 7_922, 998_000),
    ] {
        let path = format!("lobster/LOBSTER_SampleFile_{name}.zip");
        let Some(report) = check(&path, Fault::None) else { return };
        assert_eq!((report.rows.compared, report.rows.equal), (rows, rows), "{name}");
        assert_eq!(report.executions.compared, executions, "{name}");
        assert!(report.executions.ppm() >= ppm_min, "{name}: {}", report.executions);
        assert!(report.executions_of_seeds.ppm() >= 997_000, "{name}");
        assert_eq!(report.unexplained(), 0, "{name}");
    }
}

#[test]
fn errors_of_a_book_are_found_in_a_lobster_day() {
    let path = "lobster/LOBSTER_SampleFile_AAPL_2012-06-21_1.zip";
    for fault in [
        Fault::LastInFirstOut,
        Fault::ReplaceLosesPriority,
        Fault::CancelForgotten,
        Fault::TouchDoesNotTrade,
    ] {
        let Some(report) = check(path, fault) else { return };
        assert_ne!(report.unexplained(), 0, "{fault:?}");
    }
}

#[test]
fn the_bitstamp_day_is_reproduced() {
    let Some(path) = data("bitstamp/2015-05-01.log.xz") else { return };
    let (flow, notes) = load_bitstamp(&path).unwrap();
    println!("{notes:#?}");
    assert_eq!(notes.order_events, 50_414);
    assert_eq!((notes.trades_published, notes.trades_paired, notes.unpaired), (575, 575, 0));
    assert_eq!((notes.rows_contradicting, notes.rows_out_of_step), (53, 53));
    let (report, _) = report("Bitstamp", &flow.items, SlowBook::default());
    let report = report.oracle;
    assert_eq!((report.rows.compared, report.rows.equal), (5_011, 4_958));
    assert_eq!((report.executions.compared, report.executions.equal), (548, 548));
    assert_eq!(report.executions_of_seeds.equal, 27);
    assert_eq!((report.unexplained(), report.mended), (0, 0));
}

#[test]
fn the_bitstamp_table_tells_the_same_trades() {
    let Some(report) = check("bitstamp/orders.csv.xz", Fault::None) else { return };
    assert_eq!((report.executions.compared, report.executions.equal), (548, 548));
    assert_eq!(report.unexplained(), 0);
}

#[test]
fn lobster_days_are_reproduced_without_looking_ahead() {
    for name in ["AAPL_2012-06-21_1", "AMZN_2012-06-21_1", "AMZN_2012-06-21_5"] {
        let Some(path) = data(&format!("lobster/LOBSTER_SampleFile_{name}.zip")) else { return };
        let mut flow = LobsterFlow::new(Survey::default());
        let mut items = Vec::new();
        for pair in lobster::open_zip(&path).unwrap() {
            let (message, row) = pair.unwrap();
            flow.push(&message, &row, &mut items);
        }
        let (report, _) = report(name, &items, SlowBook::default());
        println!("{report}");
        let report = report.oracle;
        // Unseen orders then lack their names, which shows in the rows.
        assert!(report.rows.ppm() >= 950_000, "{name}: {}", report.rows);
        assert!(report.executions.ppm() >= 985_000, "{name}: {}", report.executions);
        assert_eq!(report.unexplained(), 0, "{name}");
    }
}

/// The days of LOBSTER, each with its deletions that leave a rest of an anonymous seed: with a look
/// at the whole file, and without. The first are none: all orders that messages name are then
/// seeded by their own ids.
const DELETIONS_OF_PART: [(&str, usize, usize); 3] = [
    ("AAPL_2012-06-21_1", 0, 1_343),
    ("AMZN_2012-06-21_1", 0, 937),
    ("AMZN_2012-06-21_5", 0, 2_004),
];

/// Converts a day and returns the number of its deletions that leave a rest of an anonymous seed.
fn deletions_of_part(day: &[(Message, BookRow)], survey: Survey) -> usize {
    let is_reduced_seed = |item: &&FlowItem| match item {
        FlowItem::Event(event) => {
            event.kind == FlowKind::PartialCancel && event.source_order_id >= ANONYMOUS_ID_FIRST
        }
        FlowItem::Row(_) => false,
    };
    let (mut flow, mut items, mut count) = (LobsterFlow::new(survey), Vec::new(), 0);
    for (message, row) in day {
        items.clear();
        flow.push(message, row, &mut items);
        if message.kind == MessageKind::Deletion {
            count += items.iter().filter(is_reduced_seed).count();
        }
    }
    count
}

#[test]
fn a_deletion_leaves_a_rest_of_a_seed_only_where_the_file_is_not_looked_ahead_in() {
    for (name, with_survey, without) in DELETIONS_OF_PART {
        let Some(path) = data(&format!("lobster/LOBSTER_SampleFile_{name}.zip")) else { return };
        let day = lobster::open_zip(&path).unwrap().map(|pair| pair.unwrap());
        let day: Vec<(Message, BookRow)> = day.collect();
        let survey = Survey::of(day.iter().map(|(message, _)| message));
        let counts = (deletions_of_part(&day, survey), deletions_of_part(&day, Survey::default()));
        println!("{name}: {} deletions of a part, {} without looking ahead", counts.0, counts.1);
        assert_eq!(counts, (with_survey, without), "{name}");
    }
}
