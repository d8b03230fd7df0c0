//! Hostile sessions beside good subscribers.
//!
//! Two gateways run at once, each with its own threads and the same feed: one with a hundred good
//! subscribers, one with a single one. A hostile session is at the good ones' gateway in one run
//! and at the other one in the next. The machine has the same work in both, so that their ratio is
//! the cost of the session to those who share its gateway. The kinds and the runs take turns, so
//! that disturbances of the machine affect all alike.

use serde_json::{Value, json};

use super::hostile::Party;
use super::row;
use super::run::{Cell, Outcome, measure};
use crate::rounds::Rounds;

/// The pairs of runs of each party.
const PAIRS: usize = 7;
/// The threads of a gateway.
const THREADS: usize = 2;

/// The runs of a party.
#[derive(Default)]
struct Runs {
    /// At the good subscribers' gateway.
    beside: Vec<Outcome>,
    /// At the other one.
    apart: Vec<Outcome>,
}

/// Measures the age of the good subscribers' messages with each hostile session beside and apart.
pub fn hostile(base: &Cell) -> Vec<Value> {
    let mut runs: Vec<Runs> = Party::ALL.iter().map(|_| Runs::default()).collect();
    for pair in 0..PAIRS {
        for (party, runs) in Party::ALL.into_iter().zip(&mut runs) {
            // Which of the two is first changes with the pair.
            for is_beside in [pair % 2 == 0, pair % 2 != 0] {
                let outcome = measure_with(base, party, is_beside);
                eprintln!("{} beside {is_beside}: {outcome:?}", party.name());
                if is_beside { &mut runs.beside } else { &mut runs.apart }.push(outcome);
            }
        }
    }
    let rows = Party::ALL.into_iter().zip(&runs);
    let rows: Vec<Value> = rows.map(|(party, runs)| line(base, party, runs)).collect();
    print(&rows);
    rows
}

/// Measures the good subscribers' gateway with a party there, or at the second one.
fn measure_with(base: &Cell, party: Party, is_beside: bool) -> Outcome {
    let [here, there] = if is_beside { [party, Party::None] } else { [Party::None, party] };
    let good = Cell { party: here, has_trades: true, other_threads: THREADS, ..*base };
    let other = Cell { party: there, subscribers: 1, ..good };
    std::thread::scope(|scope| {
        let second = scope.spawn(move || measure(&other));
        let outcome = measure(&good);
        second.join().expect("it measures");
        outcome
    })
}

fn line(base: &Cell, party: Party, runs: &Runs) -> Value {
    let mut line = row(&Cell { party, ..*base }, &runs.beside);
    let last = runs.beside.last().expect("some were measured").hostile;
    line["party"] = json!(party.name());
    line["pairs"] = json!(runs.beside.len());
    line["carried_out"] = json!(last.carried_out);
    line["refused"] = json!(last.refused);
    line["waited"] = json!(last.waited);
    line["wishes"] = json!(last.wishes);
    line["read"] = json!(last.read);
    line["unread"] = json!(last.unread);
    line["looks"] = json!(last.looks);
    for (name, quantile) in [("over_apart_p50", 0), ("over_apart_p99", 1)] {
        let mut ratios = Rounds::default();
        for (beside, apart) in runs.beside.iter().zip(&runs.apart) {
            ratios.push(beside.age[quantile] / apart.age[quantile]);
        }
        line[name] = serde_json::from_str(&ratios.json(3)).expect("it is JSON");
    }
    line
}

/// Prints the parties side by side.
fn print(rows: &[Value]) {
    const COUNTS: [&str; 7] =
        ["carried_out", "refused", "waited", "wishes", "read", "unread", "looks"];
    eprintln!(
        "| party | age p50 us | p99 | p50 over apart | p99 over apart | {} |",
        COUNTS.join(" | ")
    );
    for row in rows {
        let ages = ["age_p50_ns", "age_p99_ns"]
            .map(|name| format!("{:.1}", row[name]["median"].as_f64().unwrap_or(0.0) / 1e3));
        let ratios = ["over_apart_p50", "over_apart_p99"].map(|name| {
            let of = |which| row[name][which].as_f64().unwrap_or(f64::NAN);
            format!("{:.2} [{:.2}, {:.2}]", of("median"), of("low"), of("high"))
        });
        let counts = COUNTS.map(|name| row[name].to_string());
        let party = row["party"].as_str().unwrap_or_default();
        let cells = [ages.join(" | "), ratios.join(" | "), counts.join(" | ")].join(" | ");
        eprintln!("| {party} | {cells} |");
    }
}
