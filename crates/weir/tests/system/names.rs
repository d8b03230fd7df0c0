//! A renamed instrument: its new name at each door, also in views that ran before and in those of
//! the next start.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use weir_client::request::{LimitOrder, cancel};
use weir_client::session::{SessionEvent, Submit, Times};
use weir_types::{ClOrdId, InstrumentId, PartitionId, Reason, RequestNo, Side, Symbol};
use weir_wire::Request;
use weir_wire::reference::{DefineInstrument, field_bit};

use crate::definitions::succeed;
use crate::market_web::Reader;
use crate::own_feed::{Venue, Wire, gateway};
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, Home, INSTRUMENT, Node, OPERATOR, SUPERVISOR, TRADING, instrument, open_market,
    until,
};
use crate::tools::weir_at;
use crate::web::{Socket, hear, open, page, say};

const CONTROL: PartitionId = PartitionId(0);
const WEB: &str = "[web]\nlisten = \"127.0.0.1:0\"\n";
const RENAME: [&str; 6] = ["--yes", "instrument", "--id", "1", "--symbol", "EURUSD"];

/// A command that prints rows as they come.
struct Printing {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Printing {
    fn start(command: &mut Command) -> Printing {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Printing { child, lines }
    }

    /// Returns the symbol of the next row.
    fn symbol(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let row: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no row: {line:?}"));
        row["symbol"].clone()
    }
}

/// Follows all orders as the supervisor.
fn orders_of(node: &Node) -> Printing {
    let (session, key) = (SUPERVISOR.session_id.to_string(), hex(SUPERVISOR.key().0));
    let mut command = weir_at(node, &["orders", "--json", "--session", &session]);
    Printing::start(command.args(["--key", &key]))
}

fn hex(key: [u8; 32]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Drop for Printing {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _is_killed = self.child.kill();
        let _is_waited_for = self.child.wait();
    }
}

/// Enters an order and cancels it, so that the instrument can be renamed.
fn come_and_go(trader: &mut Trader, number: u64) {
    trader.ask_for_report(ALICE.buy(number, 51, 1));
    let (name, of) = (ClOrdId::from_number(number + 1), ClOrdId::from_number(number));
    trader.ask_for_report(cancel(name, of, INSTRUMENT));
}

/// Returns the symbol of a subscription's next row.
fn next_symbol(socket: &mut Socket) -> Value {
    loop {
        let page = hear(socket);
        if let Some(row) = page["rows"].as_array().and_then(|rows| rows.last()) {
            return row["symbol"].clone();
        }
    }
}

#[test]
fn a_renamed_instrument_has_its_new_name_in_every_view_of_its_orders() {
    let home = Home::with_config("os", WEB);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    come_and_go(&mut alice, 1);
    let mut socket = open(&node, &ALICE);
    say(&mut socket, &json!({"subscribe": 1}));
    assert_eq!(next_symbol(&mut socket), "WEIR1");
    let mut orders = orders_of(&node);
    assert_eq!(orders.symbol(), "WEIR1");

    succeed(&node, &RENAME);
    let of_page = |node: &Node| page(node, &ALICE, "/orders")["rows"][0]["symbol"].clone();
    until("the new name over HTTP", || (of_page(&node) == "EURUSD").then_some(()));
    let mut number = 3;
    until("the new name in views that ran before", || {
        come_and_go(&mut alice, number);
        number += 2;
        let told = [next_symbol(&mut socket), orders.symbol()];
        (told == ["EURUSD", "EURUSD"]).then_some(())
    });
    let key = hex(BOB.key().0);
    let words = ["order", "buy", "1", "EURUSD", "0.51", "--json", "--session", "12"];
    let entered = weir_at(&node, &words).args(["--key", &key]).output().unwrap();
    let said = String::from_utf8_lossy(&entered.stdout);
    assert!(said.contains("EURUSD"), "{entered:?}");
    drop((alice, socket, orders));
    assert!(node.terminate().success());

    let node = home.start();
    assert_eq!(of_page(&node), "EURUSD", "the first page of the next start");
    let mut orders = orders_of(&node);
    assert_eq!(orders.symbol(), "EURUSD");
}

#[test]
fn a_renamed_instrument_has_its_new_name_in_market_data() {
    let venue = Venue::new("os", "");
    let wire = Wire::new(&venue, [0, 0]);
    let node = venue.start();
    let request = format!("request = \"{}\"\n{WEB}", venue.requests);
    let (gate, _home) = gateway(&wire, "from_start = true", &request);
    open_market(&node, &[ALICE, BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    let mut reader = Reader::open(&gate, &ALICE);
    reader.say(&json!({"subscribe": 1, "pattern": "*", "content": "Bbo"}));
    reader.say(&json!({"subscribe": 2, "pattern": "EURUSD", "content": "Bbo"}));
    come_and_go(&mut alice, 1);
    let is_named = |reader: &Reader, symbol: &str| {
        let mut all = reader.all("MarketInstrument").iter();
        all.any(|one| one["symbol"] == symbol)
    };
    reader.until("the first name", |reader| is_named(reader, "WEIR1"));
    succeed(&node, &RENAME);
    until("the new name", || {
        let status = node.status();
        (status["instruments"][0]["symbol"] == "EURUSD").then_some(())
    });
    alice.ask_for_report(ALICE.buy(3, 51, 1));
    reader.until("the new name", |reader| is_named(reader, "EURUSD"));
    reader.until("quotes by the new name", |reader| {
        reader.all("MarketQuote").iter().any(|quote| quote["handle"] == 2)
    });
}

/// Returns the answers to a rename of instrument 1 and a definition of instrument 2 with the same
/// symbol, under way together.
fn rename_and_define(operator: &mut Trader) -> [SessionEvent; 2] {
    let symbol = Symbol::new("EURUSD").unwrap();
    let fields = field_bit::<DefineInstrument>("symbol");
    let renamed = DefineInstrument { symbol, fields, ..instrument(INSTRUMENT) };
    let defined = DefineInstrument { symbol, ..instrument(InstrumentId(2)) };
    let requests = [(TRADING, renamed), (CONTROL, defined)];
    let numbers: [RequestNo; 2] = requests.map(|(partition, d)| {
        let request = Request::DefineInstrument(d);
        let session_id = OPERATOR.session_id;
        match operator.client.submit(session_id, partition, request, Times::default()) {
            Submit::Sent(number) => number,
            other => panic!("{request:?}: {other:?}"),
        }
    });
    let ids = [INSTRUMENT, InstrumentId(2)];
    [0, 1].map(|index| {
        operator.next("an answer", |event| {
            let (SessionEvent::Done { answered, .. }
            | SessionEvent::Rejected { answered, .. }
            | SessionEvent::Refused { answered, .. }) = event
            else {
                return None;
            };
            let answered = answered.as_ref()?;
            let Request::DefineInstrument(d) = answered.request else { return None };
            let is_it = (answered.request_no, d.instrument_id) == (numbers[index], ids[index]);
            is_it.then(|| event.clone())
        })
    })
}

#[test]
fn of_a_rename_and_a_definition_with_one_symbol_under_way_together_one_is_refused() {
    let home = Home::new("os");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut operator = Trader::log_on(&node, OPERATOR);
    let [renamed, defined] = rename_and_define(&mut operator);
    assert!(matches!(renamed, SessionEvent::Done { .. }), "{renamed:?}");
    let SessionEvent::Refused { reject, .. } = defined else { panic!("{defined:?}") };
    assert_eq!(reject.reason, Reason::InvalidDefinition);
    drop(operator);
    // The identifier is not used up.
    succeed(&node, &["instrument", "--id", "2", "--symbol", "GBPUSD", "--partition", "1"]);
    let mut alice = Trader::log_on(&node, ALICE);
    let mut number = 0;
    until("an order in it", || {
        number += 1;
        let order = ALICE.order(number, Side::Buy, 51, 1);
        let order = LimitOrder { instrument_id: InstrumentId(2), ..order };
        (alice.ask_for_report(order.request()).reason == Reason::None).then_some(())
    });
    node.partition_when(TRADING, |row| row["imports_refused"] == 0);
}
