//! The shipped sample: always present, always checked.

use std::num::NonZeroU64;

use weir_client::flow::{
    BookUnderTest, Deviation, OracleReport, PackedFlow, Plan, ReplayConfig, decode, encode, load,
    report,
};
use weir_types::Nanos;

use crate::files::data;
use crate::slow_book::{Fault, SlowBook};

const SAMPLE: &[u8] = include_bytes!("../../../../data/bitstamp-2015-05-01.wflow");

fn sample() -> PackedFlow {
    decode(SAMPLE).expect("the shipped sample unpacks")
}

fn play(fault: Fault) -> OracleReport {
    let (report, _) = report("sample", &sample().items, SlowBook::with(fault));
    println!("{fault:?} {report}");
    report.oracle
}

#[test]
fn the_sample_is_small_and_names_its_source() {
    assert!(SAMPLE.len() <= 600_000, "{} bytes", SAMPLE.len());
    let header = sample().header;
    assert!(header.source.contains("Bitstamp"));
    assert_eq!((header.price_exponent, header.qty_exponent), (-2, -8));
}

#[test]
fn the_sample_is_reproduced() {
    let report = play(Fault::None);
    assert_eq!((report.rows.compared, report.rows.equal), (5_011, 4_958));
    assert_eq!((report.executions.compared, report.executions.equal), (548, 548));
    assert_eq!((report.executions_of_seeds.compared, report.executions_of_seeds.equal), (27, 27));
    assert_eq!(report.deviations.get(&Deviation::SourceContradiction), Some(&53));
    assert_eq!((report.unexplained(), report.mended, report.orphans), (0, 0, 0));
}

#[test]
fn errors_of_a_book_are_found_in_the_sample() {
    for fault in [Fault::LastInFirstOut, Fault::CancelForgotten, Fault::TouchDoesNotTrade] {
        assert_ne!(play(fault).unexplained(), 0, "{fault:?}");
    }
}

#[test]
fn the_sample_packs_and_unpacks_to_itself() {
    let flow = sample();
    let bytes = encode(&flow.header, &flow.items).unwrap();
    assert_eq!(decode(&bytes).unwrap(), flow);
}

#[test]
fn the_sample_is_what_the_source_file_gives() {
    let Some(path) = data("bitstamp/2015-05-01.log.xz") else { return };
    assert!(load(&path).unwrap() == sample(), "pack the file again: docs/real-flow.md");
}

#[test]
fn the_sample_makes_a_plan_of_a_trading_day() {
    let plan = Plan::of(&sample().items);
    assert_eq!(plan.len(), 49_475);
    let hours = plan.span(NonZeroU64::MIN).0 / 3_600_000_000_000;
    assert_eq!(hours, 5);
}

/// Plays a plan as the demo does, without repairs, and counts the orders refused by the book.
fn refused(plan: &Plan, copies: u32) -> usize {
    let config = ReplayConfig { speed: NonZeroU64::MIN, copies, shift: Nanos(1_000_000_000) };
    let mut books: Vec<SlowBook> = (0..copies).map(|_| SlowBook::default()).collect();
    let mut last = Nanos(0);
    let mut refused = 0;
    for due in plan.replay(config) {
        assert!(due.at >= last, "due times run back");
        last = due.at;
        refused += usize::from(!books[due.copy as usize].submit(&due.intent).accepted);
    }
    refused
}

#[test]
fn the_sample_plays_on_several_instruments_without_a_refusal() {
    assert_eq!(refused(&Plan::of(&sample().items), 3), 0);
}

#[test]
fn lobster_days_play_without_mending_and_almost_without_refusals() {
    for (name, refused_max) in
        [("AAPL_2012-06-21_1", 6), ("AMZN_2012-06-21_1", 1), ("AMZN_2012-06-21_5", 2)]
    {
        let Some(path) = data(&format!("lobster/LOBSTER_SampleFile_{name}.zip")) else { return };
        let plan = Plan::of(&load(&path).unwrap().items);
        let refused = refused(&plan, 1);
        println!("{name}: {refused} of {} refused", plan.len());
        assert!(refused <= refused_max, "{name}: {refused} refused");
    }
}
