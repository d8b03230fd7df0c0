//! HTTP requests for order state.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::support::{HANG, Node, Who};

/// Sends `GET path` and returns the status code and the JSON body.
pub fn get(node: &Node, who: &Who, path: &str) -> (u16, Value) {
    let key: String = who.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut stream = TcpStream::connect(node.web()).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let ask = format!(
        "GET {path} HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer {}:{key}\r\n\
         Connection: close\r\n\r\n",
        who.session_id
    );
    stream.write_all(ask.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head, then a body");
    let code = head.split(' ').nth(1).expect("HTTP/1.1 CODE").parse().unwrap();
    (code, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// Returns a token's bytes.
pub fn bytes(hex: &str) -> Vec<u8> {
    let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
    bytes.collect::<Result<_, _>>().unwrap()
}
