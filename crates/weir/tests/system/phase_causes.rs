//! The cause of an instrument's phase, and the halt that holds, in each place that shows them: the
//! status page, `weir status`, `weir book`, and the market data of a gateway that reads the
//! published market, over TCP and over a WebSocket. Market data never names the operator's session.

use serde_json::{Value, json};
use weir_client::market::Wanted;
use weir_client::status::cause_name;
use weir_types::{MarketContent, Nanos, OrdStatus, PhaseCause, Price, TradingState};
use weir_wire::market::StatusReason;
use weir_wire::reference::DefineInstrument;

use crate::definitions::{row, succeed};
use crate::market::{Subscriber, addresses};
use crate::market_web::Reader;
use crate::own_feed::{Venue, Wire, gateway};
use crate::support::address::free_address;
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, HANG, INSTRUMENT, Node, OPERATOR, instrument, open_market, until,
};
use crate::tools::weir_at;

/// The instrument as all places show it.
struct Shown {
    phase: &'static str,
    cause: PhaseCause,
    is_held: bool,
    /// The reason of the published trading state.
    reason: [u8; 4],
}

fn shown(phase: &'static str, cause: PhaseCause, is_held: bool, reason: &[u8; 4]) -> Shown {
    Shown { phase, cause, is_held, reason: *reason }
}

/// Returns the output of `weir WORDS` at a node.
fn said(node: &Node, words: &[&str]) -> String {
    let output = weir_at(node, words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

impl Shown {
    /// The operator's session, where the node shows it.
    fn by(&self) -> Option<u32> {
        (self.cause == PhaseCause::Operator).then_some(OPERATOR.session_id.0)
    }

    /// Checks all places: at the node itself, and at a gateway of its market.
    fn check(&self, a: &Node, b: &Node) {
        self.check_page(a);
        self.check_commands(a);
        self.check_market(b);
    }

    /// Waits until the status page shows it.
    fn check_page(&self, node: &Node) {
        let cause = json!(cause_name(self.cause));
        let row = until("the phase and its cause", || {
            let row = node.status()["instruments"][0].clone();
            (row["phase"] == self.phase && row["phase_cause"] == cause).then_some(row)
        });
        let told = (&row["phase_by"], &row["is_held"], row["phase_since_ns"].is_u64());
        let is_changed = self.cause != PhaseCause::Unknown;
        assert_eq!(told, (&json!(self.by()), &json!(self.is_held), is_changed), "{row}");
    }

    fn check_commands(&self, node: &Node) {
        let by = self.by().map(|by| by.to_string());
        let table = said(node, &["status"]);
        let mut lines = table.lines().skip_while(|line| *line != "instruments").skip(1);
        let mut words = || lines.next().unwrap().split_whitespace().collect::<Vec<_>>();
        let (names, cells) = (words(), words());
        let cell = |name: &str| cells[names.iter().position(|of| *of == name).unwrap()];
        let told = ["phase", "phase_cause", "phase_by", "is_held"].map(cell);
        let (cause, is_held) = (cause_name(self.cause), self.is_held.to_string());
        let want = [self.phase, cause.unwrap_or("-"), by.as_deref().unwrap_or("-"), &is_held];
        assert_eq!(told, want, "{table}");

        let origin = [cause.map(str::to_owned), by].into_iter().flatten().collect::<Vec<_>>();
        let hold = self.is_held.then(|| "held".to_owned());
        let notes = Some(origin.join(" ")).filter(|text| !text.is_empty()).into_iter().chain(hold);
        let notes = notes.collect::<Vec<_>>().join(", ");
        let notes = if notes.is_empty() { notes } else { format!(" ({notes})") };
        let book = said(node, &["book", "WEIR1", "--once"]);
        assert!(book.starts_with(&format!("WEIR1  {}{notes}  ", self.phase)), "{book}");
        let book: Value =
            serde_json::from_str(&said(node, &["book", "WEIR1", "--once", "--json"])).unwrap();
        let row = row(node, 1);
        for name in ["phase", "phase_since_ns", "phase_cause", "phase_by", "is_held"] {
            assert_eq!(book[name], row[name], "{name}");
        }
    }

    /// Waits until a subscriber of a gateway is told of it, over TCP and over a WebSocket.
    fn check_market(&self, gateway: &Node) {
        let state = match self.phase {
            "continuous" => TradingState::Trading,
            "volatility-call" => TradingState::Paused,
            _ => TradingState::Halted,
        };
        let wanted = [Wanted::new("*", MarketContent::Status)];
        let mut binary = Subscriber::new(addresses(gateway)[0], &wanted);
        let want = (self.cause, StatusReason(self.reason));
        binary.until("the cause", |told| told.causes.values().any(|told| *told == want));
        assert!(binary.told.statuses.values().all(|told| *told == state));

        let mut reader = Reader::open(gateway, &ALICE);
        reader.say(&json!({"subscribe": 1, "pattern": "*", "content": "Status"}));
        let cause = format!("{:?}", self.cause);
        let last = |reader: &Reader| reader.all("MarketStatus").last().cloned();
        reader.until("the cause", |reader| last(reader).is_some_and(|one| one["cause"] == cause));
        let told = last(&reader).unwrap();
        let reason = String::from_utf8_lossy(&self.reason).trim_end().to_owned();
        assert_eq!(
            (&told["status_reason"], &told["state"]),
            (&json!(reason), &json!(format!("{state:?}")))
        );
        let names: Vec<&String> = told.as_object().unwrap().keys().collect();
        assert!(
            names.iter().all(|name| !name.contains("session") && !name.contains("by")),
            "{told}"
        );
    }
}

/// Meets two orders at a price beyond the collar: a volatility call begins.
fn interrupt(node: &Node, number: u64, price: i64) {
    let (mut alice, mut bob) = (Trader::log_on(node, ALICE), Trader::log_on(node, BOB));
    bob.ask_for_report(BOB.sell(number, price, 1));
    let entered = alice.ask_for_report(ALICE.buy(number, price, 1));
    assert_eq!(entered.ord_status, OrdStatus::New, "no trade beyond the collar");
    for trader in [alice, bob] {
        trader.client.log_out(HANG).unwrap();
    }
}

/// Changes the instrument: collars of 5 % about 10.00 or the last uncrossing, and the duration of
/// calls.
fn collar(node: &Node, volatility_call: Nanos) {
    let mut admin = node.admin();
    let definition = DefineInstrument {
        reference_price: Price(1_000),
        static_collar: 500,
        volatility_call,
        ..instrument(INSTRUMENT)
    };
    admin.define_instrument(definition).unwrap();
    admin.close().unwrap();
}

#[test]
fn the_cause_of_a_phase_is_shown_in_every_place_and_outlives_a_restart() {
    let snapshots = free_address();
    let venue = Venue::new("os", &format!("snapshots = \"{snapshots}\"\n"));
    let wire = Wire::new(&venue, [0, 0]);
    let a = venue.start();
    open_market(&a, &[ALICE, BOB]);
    let more = format!(
        "request = \"{}\"\n[market_gateway.feed.lines.glimpse]\naddress = \"{snapshots}\"\n\
         [web]\nlisten = \"127.0.0.1:0\"\n",
        venue.requests
    );
    let (b, _home) = gateway(&wire, "", &more);
    shown("continuous", PhaseCause::Unknown, false, b"    ").check(&a, &b);
    succeed(&a, &["halt", "WEIR1"]);
    shown("halted", PhaseCause::Operator, true, b"HALO").check(&a, &b);
    succeed(&a, &["resume", "WEIR1"]);
    shown("continuous", PhaseCause::Operator, false, b"CONO").check(&a, &b);
    succeed(&a, &["schedule", "WEIR1", "halted", "--at", "+3s"]);
    shown("halted", PhaseCause::Schedule, false, b"HALS").check(&a, &b);
    // The phase stays, and the halt holds from here on.
    succeed(&a, &["halt", "WEIR1"]);
    let held = shown("halted", PhaseCause::Operator, true, b"HALO");
    held.check(&a, &b);

    let before = row(&a, 1);
    assert!(a.terminate().success());
    let a = venue.start();
    held.check(&a, &b);
    assert_eq!(row(&a, 1), before);
    // A gateway that comes now joins by a snapshot.
    let late_wire = Wire::new(&venue, [0, 0]);
    let (late, _late_home) = gateway(&late_wire, "", &more);
    held.check_market(&late);

    collar(&a, Nanos(0));
    succeed(&a, &["resume", "WEIR1"]);
    interrupt(&a, 1, 1_100);
    shown("volatility-call", PhaseCause::Collar, false, b"VOLC").check(&a, &b);
    succeed(&a, &["phase", "WEIR1", "continuous", "--override-collars"]);
    shown("continuous", PhaseCause::Operator, false, b"CONO").check(&a, &b);
    collar(&a, Nanos(400_000_000));
    interrupt(&a, 2, 1_200);
    let ended = shown("continuous", PhaseCause::CallEnd, false, b"CONE");
    ended.check(&a, &b);
    ended.check_market(&late);
}
