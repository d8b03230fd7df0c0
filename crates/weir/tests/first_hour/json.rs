//! JSON of order state: decimals by the instrument's exponents, null for a missing value.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::{ALICE, HANG, Home, OPERATOR, Who, open_market};
use crate::{hex, succeed, weir, weir_at};

/// A page of `GET /orders`.
fn orders_over_http(address: &str, authorization: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let head = "GET /orders HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n";
    write!(stream, "{head}Authorization: {authorization}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head, then a body");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn orders_over_http_and_on_the_command_line_are_the_same_decimals() {
    let home = Home::with_config("memory", "[web]\nlisten = \"127.0.0.1:0\"\n");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let (session, key) = (ALICE.session_id.to_string(), hex(ALICE.key().0));
    for words in [
        &["order", "sell", "100", "WEIR1", "10.05"][..],
        &["order", "buy", "7", "WEIR1", "9.5", "--stop", "11"],
    ] {
        succeed(weir_at(&node, words).args(["--session", &session, "--key", &key]));
    }
    let words = ["orders", "--once", "--json", "--session", &session, "--key", &key];
    let text = succeed(&mut weir_at(&node, &words));
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut served = orders_over_http(node.web(), &format!("Bearer {session}:{key}"));
    assert_eq!(served["rows"].take(), Value::Array(rows.clone()));
    let members = |row: &Value| {
        ["symbol", "price", "stop_px", "order_qty", "last_px"].map(|name| row[name].clone())
    };
    let nothing = Value::Null;
    let sold = [json!("WEIR1"), json!("10.05"), nothing.clone(), json!("100"), nothing.clone()];
    let stop = [json!("WEIR1"), json!("9.50"), json!("11.00"), json!("7"), nothing];
    assert_eq!(rows.iter().map(members).collect::<Vec<_>>(), [sold, stop]);
}

#[test]
fn a_log_is_dumped_as_columns_and_as_json_by_the_fields_names() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let (session, key) = (ALICE.session_id.to_string(), hex(ALICE.key().0));
    let words = ["order", "sell", "100", "WEIR1", "10.05", "--cl-ord-id", "77"];
    succeed(weir_at(&node, &words).args(["--session", &session, "--key", &key]));
    let data = home.data();
    let dump = |more: &[&str]| {
        let words = [&["log", "dump", "--dir", data.to_str().unwrap()], more].concat();
        succeed(&mut weir(&words))
    };
    let named = |text: &str, name: &str| -> Vec<Value> {
        let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        objects.filter(|object| object["message"] == name).collect()
    };
    let commands = dump(&["--json"]);
    let [order] = named(&commands, "NewOrder").try_into().unwrap();
    let fields = &order["fields"];
    assert!(order["position"].is_u64() && order["log_time"].is_u64(), "{order}");
    assert_eq!((&fields["price"], &fields["side"]), (&json!(1_005), &json!("Sell")));
    assert_eq!((&fields["cl_ord_id"], &fields["exec_inst"]), (&json!("77"), &json!([])));
    let imports = named(&commands, "Import");
    let symbols = imports.iter().map(|import| &import["definition"]["fields"]["symbol"]);
    assert!(symbols.into_iter().any(|symbol| symbol == "WEIR1"), "{imports:?}");
    let events = dump(&["--json", "--events"]);
    let [event] = named(&events, "OrderEvent").try_into().unwrap();
    assert_eq!(event["fields"]["exec_type"], "New", "{event}");
    let columns = dump(&[]);
    let line = columns.lines().find(|line| line.contains("NewOrder")).expect("a line");
    assert!(line.contains("price=1005") && !line.contains("stop_px"), "{line}");
    assert!(columns.lines().next().unwrap().contains("log time"), "{columns}");
}

#[test]
fn subscriptions_are_listed_by_the_names_of_kind_status_and_reason() {
    let home = Home::with_config("memory", "[subscriptions]\nlisten = \"127.0.0.1:0\"\n");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let as_of = |who: Who, words: &[&str]| {
        let (session, key) = (who.session_id.to_string(), hex(who.key().0));
        let mut command = weir_at(&node, &["subscriptions"]);
        succeed(command.args(["--session", &session, "--key", &key]).args(words))
    };
    let listed = || -> Value { serde_json::from_str(&as_of(ALICE, &["list", "--json"])).unwrap() };
    as_of(ALICE, &["create", "fills", "--kind", "executions"]);
    let live = listed();
    assert_eq!((&live["kind"], &live["status"]), (&json!("executions"), &json!("live")), "{live}");
    assert_eq!(live["reason"], Value::Null, "{live}");
    let table = as_of(ALICE, &["list"]);
    assert!(table.contains("executions"), "{table}");
    let firm = ALICE.firm_id.to_string();
    as_of(OPERATOR, &["evict", "fills", "--firm", &firm]);
    let evicted = listed();
    assert_eq!(evicted["status"], "evicted", "{evicted}");
    assert_eq!(evicted["reason"], "EvictedByOperator", "{evicted}");
}
