//! Order state over HTTP: long polls and WebSockets, access, and refusals.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};
use weir_types::{ClOrdId, FirmId, Nanos, OrdStatus, OrderId, Role, Seq};
use weir_web::order_json::gone_json;
use weir_wire::reference::DefineSession;

use crate::support::following::Following;
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, HANG, Home, INSTRUMENT, Node, SUPERVISOR, Who, definition_of, open_market,
    trader_of, until,
};

fn market() -> (Home, Node) {
    let home = Home::with_config("memory", "[web]\nlisten = \"127.0.0.1:0\"\n");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    (home, node)
}

pub fn bearer(who: &Who) -> String {
    let key: String = who.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("Bearer {}:{key}", who.session_id.0)
}

/// Sends `GET path` and returns the status code and the JSON body.
pub fn get_as(node: &Node, authorization: &str, path: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(node.web()).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let ask = format!(
        "GET {path} HTTP/1.1\r\nHost: weir\r\nAuthorization: {authorization}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head, then a body");
    let code = head.split(' ').nth(1).expect("HTTP/1.1 CODE").parse().unwrap();
    (code, serde_json::from_str(body).unwrap_or(Value::Null))
}

pub fn get(node: &Node, who: &Who, path: &str) -> (u16, Value) {
    get_as(node, &bearer(who), path)
}

pub fn page(node: &Node, who: &Who, path: &str) -> Value {
    let (code, page) = get(node, who, path);
    assert_eq!(code, 200, "{page}");
    page
}

/// Waits until so many readers have come in, those that have left included: the number of readers
/// that are there may still count one whose page is done.
fn until_entered(node: &Node, count: u64) {
    until("the readers", || (node.status()["web"]["entered"] == count).then_some(()));
}

pub fn token_of(page: &Value) -> &str {
    page["token"].as_str().expect("a token")
}

/// Notes the `seq` of each order on a page, and removes the orders that are gone.
pub fn note_rows(page: &Value, seen: &mut BTreeMap<OrderId, Seq>) {
    for row in page["rows"].as_array().expect("rows") {
        let number = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name} of {row}"));
        let order_id = OrderId(number("order_id"));
        if row["gone"] == true {
            seen.remove(&order_id);
        } else {
            seen.insert(order_id, Seq(number("seq")));
        }
    }
}

#[test]
fn an_order_that_is_gone_is_noted_no_longer() {
    let order = |order_id: u64, seq: u64| json!({ "order_id": order_id, "rec": 9, "seq": seq });
    let mut seen = BTreeMap::new();
    note_rows(&json!({ "rows": [order(1, 5), order(2, 6)] }), &mut seen);
    note_rows(&json!({ "rows": [gone_json(OrderId(1)), order(2, 7)] }), &mut seen);
    assert_eq!(seen, BTreeMap::from([(OrderId(2), Seq(7))]));
}

/// Returns the prices, decimals of two places, as ticks.
fn prices_of(page: &Value) -> Vec<i64> {
    let rows = page["rows"].as_array().expect("rows");
    let ticks = |row: &Value| {
        let (whole, cents) = row["price"].as_str()?.split_once('.')?;
        (cents.len() == 2).then(|| format!("{whole}{cents}").parse().ok())?
    };
    rows.iter().map(|row| ticks(row).unwrap_or_else(|| panic!("no price: {row}"))).collect()
}

#[test]
fn orders_are_paged_and_the_token_goes_on_where_a_page_ended() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=5 {
        alice.ask_for_report(ALICE.sell(number, 100 + number.cast_signed(), 1));
    }
    let first = page(&node, &ALICE, "/orders?max_rows=2");
    assert_eq!((prices_of(&first), &first["online"]), (vec![101, 102], &json!(false)));
    let row = &first["rows"][0];
    assert_eq!((&row["symbol"], &row["price"]), (&json!("WEIR1"), &json!("1.01")), "{row}");
    assert_eq!((&row["leaves_qty"], &row["stop_px"]), (&json!("1"), &Value::Null), "{row}");
    let next = page(&node, &ALICE, &format!("/orders?token={}", token_of(&first)));
    assert_eq!((prices_of(&next), &next["online"]), (vec![103, 104, 105], &json!(true)));
    // Without changes, the wait ends with an empty page, which still carries a token.
    let empty = page(&node, &ALICE, &format!("/orders?wait_ms=1&token={}", token_of(&next)));
    assert_eq!((empty["row_count"].as_u64(), prices_of(&empty)), (Some(0), vec![]));
    // Another firm sees none of these orders, a supervisor sees all.
    assert_eq!(prices_of(&page(&node, &BOB, "/orders?wait_ms=1")), [0; 0]);
    assert_eq!(prices_of(&page(&node, &SUPERVISOR, "/orders")).len(), 5);
    assert_eq!(prices_of(&page(&node, &SUPERVISOR, "/orders?firm=99&wait_ms=1")), [0; 0]);
}

#[test]
fn who_waits_is_answered_when_something_comes() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.sell(1, 101, 1));
    let begin = page(&node, &ALICE, "/orders");
    let path = format!("/orders?wait_ms=30000&token={}", token_of(&begin));
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| page(&node, &ALICE, &path));
        until_entered(&node, 2);
        alice.ask_for_report(ALICE.sell(2, 102, 1));
        waiting.join().unwrap()
    });
    assert_eq!(prices_of(&waited), [102]);
}

#[test]
fn a_token_is_the_same_over_http_and_over_the_binary_protocol() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.sell(1, 101, 1));
    let begin = page(&node, &SUPERVISOR, "/orders");
    alice.ask_for_report(ALICE.sell(2, 102, 1));
    let hex = token_of(&begin);
    let token = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
    let token: Result<Vec<u8>, _> = token.collect();
    let mut following = Following::start(&node, SUPERVISOR, token.unwrap());
    following.until_online();
    let prices: Vec<i64> = following.states().values().map(|row| row.price.0).collect();
    assert_eq!(prices, [102], "only what came behind the token");
    assert!(following.resyncs.is_empty());
}

#[test]
fn nobody_gets_in_without_a_key_that_is_good() {
    let (_home, node) = market();
    let nobody = trader_of(99);
    let bobs_key = bearer(&BOB).replace(&BOB.session_id.0.to_string(), "11");
    for wrong in ["Bearer", "Basic 11:00", "Bearer 11:00", &bearer(&nobody), &bobs_key] {
        let (code, refusal) = get_as(&node, wrong, "/orders");
        assert_eq!((code, &refusal["error"]), (401, &json!("UnknownKey")), "{wrong}");
    }
    assert_eq!(node.status()["web"]["keys_refused"], 5);
    let source =
        DefineSession { role: Role::Source, firm_id: FirmId::NONE, ..definition_of(&nobody) };
    node.admin().define_session(source).unwrap();
    let (code, refusal) = get(&node, &nobody, "/orders");
    assert_eq!((code, &refusal["error"]), (403, &json!("NotEntitled")));
}

#[test]
fn what_is_wrong_with_a_question_is_told_by_its_name() {
    let (_home, node) = market();
    let (code, refusal) = get(&node, &ALICE, "/orders?firm=x");
    assert_eq!((code, &refusal["parameter"]), (400, &json!("firm")));
    let (code, refusal) = get(&node, &ALICE, "/orders?colour=red");
    assert_eq!((code, &refusal["parameter"]), (400, &json!("colour")));
    let (code, refusal) = get(&node, &ALICE, "/orders?firm=12");
    assert_eq!((code, &refusal["error"]), (403, &json!("NotEntitled")), "another firm's");
    let (code, refusal) = get(&node, &ALICE, "/orders?token=00ff");
    assert_eq!((code, &refusal["error"]), (410, &json!("ResyncToken")));
    // A token belongs to one query: with another filter it is refused.
    let begin = page(&node, &ALICE, "/orders?wait_ms=1");
    let other = format!("/orders?live=true&token={}", token_of(&begin));
    let (code, refusal) = get(&node, &ALICE, &other);
    assert_eq!((code, &refusal["error"]), (410, &json!("ResyncFilter")));
    let oldest = refusal["token"].as_str().expect("the oldest legal token");
    assert_eq!(
        page(&node, &ALICE, &format!("/orders?live=true&wait_ms=1&token={oldest}"))["row_count"],
        0
    );
}

pub type Socket = WebSocket<MaybeTlsStream<TcpStream>>;

pub fn open(node: &Node, who: &Who) -> Socket {
    let (socket, _) = tungstenite::connect(stream_request(node, who)).unwrap();
    let MaybeTlsStream::Plain(stream) = socket.get_ref() else { panic!("it is plain") };
    stream.set_read_timeout(Some(HANG)).unwrap();
    socket
}

fn stream_request(node: &Node, who: &Who) -> tungstenite::handshake::client::Request {
    let mut request = format!("ws://{}/orders/stream", node.web()).into_client_request().unwrap();
    let value = HeaderValue::from_str(&bearer(who)).unwrap();
    request.headers_mut().insert("Authorization", value);
    request
}

pub fn say(socket: &mut Socket, message: &Value) {
    socket.send(Message::text(message.to_string())).unwrap();
}

pub fn hear(socket: &mut Socket) -> Value {
    loop {
        match socket.read().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Close(frame) => panic!("closed: {frame:?}"),
            _ => {}
        }
    }
}

/// Returns the prices of a subscription's next page with rows.
fn hear_prices(socket: &mut Socket, id: u32) -> Vec<i64> {
    loop {
        let message = hear(socket);
        assert_eq!(message["id"], id, "{message}");
        if message["row_count"] != 0 {
            return prices_of(&message);
        }
    }
}

#[test]
fn a_subscription_gives_what_is_there_and_then_what_comes() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.sell(1, 101, 1));
    let mut socket = open(&node, &ALICE);
    say(&mut socket, &json!({"subscribe": 7}));
    let first = hear(&mut socket);
    assert_eq!((&first["id"], &first["online"]), (&json!(7), &json!(true)));
    assert_eq!(prices_of(&first), [101]);
    alice.ask_for_report(ALICE.sell(2, 102, 1));
    assert_eq!(hear_prices(&mut socket, 7), [102]);
    // A second subscription on the same socket, with a filter that the first lacks.
    let (first, cancel) = (ClOrdId::from_number(1), ClOrdId::from_number(3));
    let cancel = weir_client::request::cancel(cancel, first, INSTRUMENT);
    let canceled = alice.ask_for_report(cancel);
    assert_eq!(canceled.ord_status, OrdStatus::Canceled);
    assert_eq!(hear_prices(&mut socket, 7), [101]);
    say(&mut socket, &json!({"unsubscribe": 7}));
    assert_eq!(hear(&mut socket), json!({"id": 7, "unsubscribed": true}));
    say(&mut socket, &json!({"subscribe": 8, "live": true}));
    assert_eq!(hear_prices(&mut socket, 8), [102]);
    until("the figures", || (node.status()["web"]["sockets"] == 1).then_some(()));
    drop(socket);
    until("its end", || (node.status()["web"]["readers"] == 0).then_some(()));
}

#[test]
fn pages_of_two_subscriptions_that_come_together_are_both_given() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.sell(1, 101, 1));
    let mut socket = open(&node, &ALICE);
    for id in [7, 8] {
        say(&mut socket, &json!({"subscribe": id, "wait_ms": 10_000}));
        assert_eq!(hear(&mut socket)["id"], id);
    }
    // Both wait, so that one change makes a page of each.
    for (number, price) in (2..).zip(102..110) {
        alice.ask_for_report(ALICE.sell(number, price, 1));
        let mut pages = [hear(&mut socket), hear(&mut socket)];
        pages.sort_by_key(|page| page["id"].as_u64());
        assert_eq!(pages.each_ref().map(|page| page["id"].as_u64()), [Some(7), Some(8)]);
        assert_eq!(pages.each_ref().map(prices_of), [[price], [price]]);
    }
}

#[test]
fn a_subscription_with_credit_gets_so_many_rows_and_no_more_until_it_has_more() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=5 {
        alice.ask_for_report(ALICE.sell(number, 100 + number.cast_signed(), 1));
    }
    let mut socket = open(&node, &ALICE);
    say(&mut socket, &json!({"subscribe": 1, "rows": 3}));
    assert_eq!(hear_prices(&mut socket, 1), [101, 102, 103]);
    // Any page sent meanwhile would arrive before this answer.
    say(&mut socket, &json!({"unsubscribe": 2}));
    assert_eq!(hear(&mut socket)["parameter"], "unsubscribe");
    say(&mut socket, &json!({"credit": 1, "rows": 1}));
    assert_eq!(hear_prices(&mut socket, 1), [104]);
    say(&mut socket, &json!({"credit": 1, "rows": 9}));
    assert_eq!(hear_prices(&mut socket, 1), [105]);
}

#[test]
fn what_is_wrong_with_a_message_is_told_and_too_much_of_it_closes_the_socket() {
    let (_home, node) = market();
    let mut socket = open(&node, &ALICE);
    let wrongs = [
        (json!([1]), ""),
        (json!({"hello": 1}), ""),
        (json!({"subscribe": -1}), "subscribe"),
        (json!({"subscribe": 1, "firm": "x"}), "firm"),
        (json!({"subscribe": 1, "rows": 0}), "rows"),
        (json!({"credit": 5, "rows": 1}), "credit"),
        (json!({"credit": 5, "live": true}), "live"),
    ];
    let count = wrongs.len();
    for (wrong, parameter) in wrongs {
        say(&mut socket, &wrong);
        let refusal = hear(&mut socket);
        assert_eq!(
            (&refusal["error"], &refusal["parameter"]),
            (&json!("BadParameter"), &json!(parameter))
        );
    }
    for _ in count..16 {
        say(&mut socket, &json!(null));
        assert_eq!(hear(&mut socket)["error"], "BadParameter");
    }
    let Message::Close(Some(frame)) = socket.read().unwrap() else { panic!("it is to be closed") };
    assert_eq!(frame.reason.as_str(), "TooManyErrors");
}

#[test]
fn a_replaced_key_ends_who_came_in_by_the_old_one() {
    let (_home, node) = market();
    let mut socket = open(&node, &ALICE);
    say(&mut socket, &json!({"subscribe": 1}));
    let other =
        DefineSession { credential: definition_of(&BOB).credential, ..definition_of(&ALICE) };
    node.admin().define_session(other).unwrap();
    assert_eq!(close_of(&mut socket), (1008, "KeyReplaced".to_owned()));
    let (code, refusal) = get(&node, &ALICE, "/orders");
    assert_eq!((code, &refusal["error"]), (401, &json!("UnknownKey")));
}

#[test]
fn readers_of_a_node_that_stops_are_told_so() {
    let (_home, node) = market();
    let mut socket = open(&node, &ALICE);
    say(&mut socket, &json!({"subscribe": 1, "wait_ms": 30000}));
    Trader::log_on(&node, ALICE).ask_for_report(ALICE.sell(1, 101, 1));
    hear_prices(&mut socket, 1);
    let token = token_of(&page(&node, &ALICE, "/orders")).to_owned();
    let mut polling = TcpStream::connect(node.web()).unwrap();
    polling.set_read_timeout(Some(HANG)).unwrap();
    let headers = format!("Host: weir\r\nAuthorization: {}\r\n", bearer(&ALICE));
    let path = format!("/orders?wait_ms=30000&token={token}");
    write!(polling, "GET {path} HTTP/1.1\r\n{headers}\r\n").unwrap();
    until_entered(&node, 3);
    assert!(node.terminate().success());
    assert_eq!(close_of(&mut socket), (1001, "Stopping".to_owned()));
    let mut answer = String::new();
    polling.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Stopping"), "{answer}");
}

/// Reads a socket to its close, and returns the close's code and reason.
pub fn close_of(socket: &mut Socket) -> (u16, String) {
    loop {
        if let Message::Close(frame) = socket.read().unwrap() {
            let frame = frame.expect("a reason");
            return (frame.code.into(), frame.reason.as_str().to_owned());
        }
    }
}

#[test]
fn readers_end_when_their_key_expires_whether_they_ask_or_wait() {
    let (_home, node) = market();
    // The one waits with credit, the other has none left and asks for nothing.
    let (mut waiting, mut idle) = (open(&node, &ALICE), open(&node, &ALICE));
    Trader::log_on(&node, ALICE).ask_for_report(ALICE.sell(1, 101, 1));
    say(&mut waiting, &json!({"subscribe": 1, "wait_ms": 30000}));
    say(&mut idle, &json!({"subscribe": 1, "rows": 1}));
    hear_prices(&mut waiting, 1);
    hear_prices(&mut idle, 1);
    let token = token_of(&page(&node, &ALICE, "/orders")).to_owned();
    let path = format!("/orders?wait_ms=30000&token={token}");
    let (code, refusal) = std::thread::scope(|scope| {
        let polling = scope.spawn(|| get(&node, &ALICE, &path));
        until_entered(&node, 4);
        let expired = DefineSession { valid_until: Nanos(1), ..definition_of(&ALICE) };
        node.admin().define_session(expired).unwrap();
        polling.join().unwrap()
    });
    assert_eq!((code, &refusal["error"]), (401, &json!("KeyExpired")));
    for socket in [&mut waiting, &mut idle] {
        assert_eq!(close_of(socket), (1008, "KeyExpired".to_owned()));
    }
    until("their end", || (node.status()["web"]["readers"] == 0).then_some(()));
    assert_eq!(node.status()["web"]["keys_ended"], 3);
}

/// Pages of a thousand rows, of one subscription each: twice as much as the system's buffers hold.
const UNREAD_PAGES: u64 = 16;

/// Enters enough orders for a page of a thousand rows.
fn enter_many_orders(node: &Node) {
    let mut alice = Trader::log_on(node, ALICE);
    for number in 1..=2_000 {
        alice.send(ALICE.sell(number, 101, 1));
        if number % 500 == 0 {
            alice.settle();
        }
    }
}

/// A connection that holds little of what it does not read.
fn narrow_connection(node: &Node) -> TcpStream {
    let stream = TcpStream::connect(node.web()).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 64 << 10).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream
}

/// Waits until the node makes no more pages, because a connection takes none.
fn until_stalled(node: &Node) {
    let pages = || node.status()["web"]["pages"].as_u64().unwrap();
    until("the socket to be full", || {
        let before = pages();
        std::thread::sleep(Duration::from_millis(500));
        (before > 3 && before == pages()).then_some(())
    });
}

/// A reader that takes nothing, with a page that the node has written in part and others that wait.
fn stalled_reader(node: &Node) -> WebSocket<TcpStream> {
    enter_many_orders(node);
    let stream = narrow_connection(node);
    let (mut socket, _) = tungstenite::client(stream_request(node, &ALICE), stream).unwrap();
    for id in 1..=UNREAD_PAGES {
        let ask = json!({"subscribe": id});
        socket.send(Message::text(ask.to_string())).unwrap();
    }
    until_stalled(node);
    socket
}

/// Returns the number of answers in a connection's bytes, and whether the last one is complete.
fn answers_in(mut bytes: &[u8]) -> (u64, bool) {
    let mut count = 0;
    while !bytes.is_empty() {
        let Some(head_len) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else {
            return (count, false);
        };
        let head = std::str::from_utf8(&bytes[..head_len]).unwrap().to_lowercase();
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        let (_, len) = head.split_once("content-length: ").expect("its length");
        let len: usize = len.lines().next().unwrap().parse().unwrap();
        let Some(behind) = bytes.get(head_len + 4 + len..) else { return (count, false) };
        bytes = behind;
        count += 1;
    }
    (count, true)
}

#[test]
fn a_page_that_is_not_read_is_cut_off_when_its_session_ends() {
    let (_home, node) = market();
    enter_many_orders(&node);
    let mut stream = narrow_connection(&node);
    let headers = format!("Host: weir\r\nAuthorization: {}\r\n", bearer(&ALICE));
    let ask = format!("GET /orders HTTP/1.1\r\n{headers}\r\n");
    stream.write_all(ask.repeat(UNREAD_PAGES as usize).as_bytes()).unwrap();
    until_stalled(&node);
    let other =
        DefineSession { credential: definition_of(&BOB).credential, ..definition_of(&ALICE) };
    node.admin().define_session(other).unwrap();
    until("its end", || (node.status()["web"]["http_connections"] == 0).then_some(()));
    let mut bytes = Vec::new();
    // Closed or reset.
    drop(stream.read_to_end(&mut bytes));
    let (count, is_complete) = answers_in(&bytes);
    assert!(count < UNREAD_PAGES && !is_complete, "{count} answers");
    until("its place", || (node.status()["web"]["readers"] == 0).then_some(()));
}

#[test]
fn a_socket_that_is_not_read_ends_with_its_key_and_gives_none_of_the_pages_that_waited() {
    let (_home, node) = market();
    let mut socket = stalled_reader(&node);
    let other =
        DefineSession { credential: definition_of(&BOB).credential, ..definition_of(&ALICE) };
    node.admin().define_session(other).unwrap();
    until("the end of its task", || (node.status()["web"]["sockets"] == 0).then_some(()));
    // It reads again: the bytes that the system had, and the end.
    let mut page_count = 0;
    let end = loop {
        match socket.read() {
            Ok(Message::Text(_)) => page_count += 1,
            Ok(Message::Close(frame)) => panic!("behind half a page: {frame:?}"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(page_count < UNREAD_PAGES, "{page_count} pages, then {end}");
}
