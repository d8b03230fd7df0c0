//! The vendors' files: shares measured and held.

use std::path::PathBuf;

use weir_client::flow::{
    LobsterFlow, Oracle, OracleReport, Survey, bitstamp, bitstamp_flow, lobster,
};

use crate::slow_book::SlowBook;

fn data(path: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("WEIR_DATA") else {
        eprintln!("NOT CHECKED: WEIR_DATA is not set, so {path} was not read");
        return None;
    };
    Some(PathBuf::from(root).join(path))
}

fn lobster_report(name: &str) -> Option<OracleReport> {
    let path = data(&format!("lobster/LOBSTER_SampleFile_{name}.zip"))?;
    let day: Vec<_> = lobster::open_zip(&path).unwrap().map(Result::unwrap).collect();
    let mut flow = LobsterFlow::new(Survey::of(day.iter().map(|(message, _)| message)));
    let mut oracle = Oracle::new(SlowBook::default());
    let mut items = Vec::new();
    for (message, row) in &day {
        items.clear();
        flow.push(message, row, &mut items);
        for item in &items {
            oracle.apply(item);
        }
    }
    let (report, _) = oracle.finish();
    println!("{name}\n{report}");
    Some(report)
}

#[test]
fn lobster_aapl_level_1_is_reproduced() {
    let Some(report) = lobster_report("AAPL_2012-06-21_1") else { return };
    assert_eq!(report.unexplained(), 0);
}

#[test]
fn lobster_amzn_level_1_is_reproduced() {
    let Some(report) = lobster_report("AMZN_2012-06-21_1") else { return };
    assert_eq!(report.unexplained(), 0);
}

#[test]
fn lobster_amzn_level_5_is_reproduced() {
    let Some(report) = lobster_report("AMZN_2012-06-21_5") else { return };
    assert_eq!(report.unexplained(), 0);
}

fn bitstamp_report(records: &[bitstamp::Record], name: &str) -> OracleReport {
    let flow = bitstamp_flow(records);
    let mut oracle = Oracle::new(SlowBook::default());
    for item in &flow.items {
        oracle.apply(item);
    }
    let (report, _) = oracle.finish();
    println!("{name}\n{:#?}\n{report}", flow.notes);
    report
}

#[test]
fn the_bitstamp_day_is_reproduced() {
    let Some(path) = data("bitstamp/2015-05-01.log.xz") else { return };
    let records: Vec<_> = bitstamp::open_log(&path).unwrap().map(Result::unwrap).collect();
    let report = bitstamp_report(&records, "Bitstamp 2015-05-01 (log)");
    assert_eq!(report.unexplained(), 0);
}

#[test]
fn the_bitstamp_table_is_reproduced() {
    let Some(path) = data("bitstamp/orders.csv.xz") else { return };
    let records: Vec<_> = bitstamp::open_csv(&path).unwrap().map(Result::unwrap).collect();
    let report = bitstamp_report(&records, "Bitstamp 2015-05-01 (table)");
    assert_eq!(report.unexplained(), 0);
}

