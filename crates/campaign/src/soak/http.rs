//! Requests over HTTP, each on a connection of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::Context;

use super::TIMEOUT;

/// Sends `GET path` and returns the status code and the body.
///
/// # Errors
/// A connection that fails, or an answer that is no HTTP.
pub(super) fn get(
    address: SocketAddr,
    path: &str,
    authorization: &str,
) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let ask = format!(
        "GET {path} HTTP/1.1\r\nHost: weir\r\nAuthorization: {authorization}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a head")?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.context("an answer without a code")?, body.to_owned()))
}
