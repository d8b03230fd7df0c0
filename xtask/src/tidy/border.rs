//! The border inside the gateway: only its protocols name the functions for bytes.
//!
//! The session core is the same for each protocol as long as it finds no frames, decodes no
//! messages and writes none. Checked over tokens, outside tests: each path that begins with
//! `weir_wire`, and each name in a group of imports from there.

use super::Finding;
use super::source::Source;
use super::tokens::Token;

/// The files of the session core, apart from those of the protocols.
const CORE: &str = "crates/gateway/src/";
const PROTOCOLS: &str = "crates/gateway/src/protocol/";

/// The modules and names of `weir_wire` that read or write bytes.
const OF_BYTES: &[&str] = &[
    "challenge",
    "dialogue",
    "field",
    "frame",
    "group",
    "message",
    "rows",
    "ClientMessage",
    "DecodeError",
    "Message",
    "NodeMessage",
    // Types that only a frame needs; the core has `Refusal` and `Answer`.
    "Label",
    "Logout",
    "Reject",
    // A glob hides the names.
    "*",
];

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        if !source.path.starts_with(CORE) || source.path.starts_with(PROTOCOLS) {
            continue;
        }
        for (index, token) in source.tokens.iter().enumerate() {
            if token.text != "weir_wire" || source.is_test_line(token.line) {
                continue;
            }
            let names = path_tokens(&source.tokens[index..]);
            for name in names.filter(|name| OF_BYTES.contains(&name.text.as_str())) {
                let message = format!(
                    "`{}` of `weir_wire` in the gateway's session core: bytes belong in \
                     {PROTOCOLS}",
                    name.text
                );
                findings.push(Finding::new(&source.path, name.line, message));
            }
        }
    }
    findings
}

/// Returns the tokens of the path that `tokens` begin with, and of the groups in it.
fn path_tokens(tokens: &[Token]) -> impl Iterator<Item = &Token> {
    let mut depth = 0_usize;
    tokens.iter().take_while(move |token| {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => {
                let is_outside = depth == 0;
                depth = depth.saturating_sub(1);
                return !is_outside;
            }
            ":" => {}
            "*" | "," => return depth > 0 || token.text == "*",
            text => return text.starts_with(|c: char| c.is_alphabetic() || c == '_'),
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<Finding> {
        check(&[Source::parse(path, text).unwrap()])
    }

    #[test]
    fn the_core_names_nothing_of_bytes() {
        let cases = [
            ("use weir_wire::frame::put_frame;", 1),
            ("use weir_wire::dialogue::{ClientMessage, Tokens};", 2),
            ("use weir_wire::{Command, frame::{RawMessage, next_frame}, Message};", 2),
            ("use weir_wire::session::{Heartbeat, Logout};", 1),
            ("use weir_wire::*;", 1),
            ("fn a() { weir_wire::frame::put_frame(&b, c); }", 1),
            ("fn a(b: &weir_wire::frame::RawMessage<'_>) {}", 1),
            ("use weir_wire::{Command, Destination, Request};", 0),
            ("use weir_wire::session::{Logon, LogonReject};\nuse crate::frame::Frame;", 0),
            ("fn a(b: Vec<weir_wire::reference::DefineInstrument>, frame: u8) {}", 0),
            ("fn a() { b(weir_wire::record::c, frame); }", 0),
        ];
        for (text, count) in cases {
            for file in ["intake.rs", "newcomers.rs", "streams/new.rs"] {
                let found = findings(&format!("crates/gateway/src/{file}"), text);
                assert_eq!(found.len(), count, "{text}: {found:?}");
            }
        }
    }

    #[test]
    fn protocols_tests_and_other_crates_may_name_it() {
        let import = "use weir_wire::frame::put_frame;";
        for path in [
            "crates/gateway/src/protocol/sbe.rs",
            "crates/gateway/tests/wire.rs",
            "crates/door/src/listener.rs",
        ] {
            assert_eq!(findings(path, import), []);
        }
        let text = format!("#[cfg(test)]\nmod tests {{ {import} }}");
        assert_eq!(findings("crates/gateway/src/intake.rs", &text), []);
    }

    #[test]
    fn a_finding_stands_on_the_line_of_the_name() {
        let text = "use weir_wire::{\n    Command,\n    frame::put_frame,\n};";
        let lines: Vec<_> =
            findings("crates/gateway/src/lib.rs", text).iter().map(|f| f.line).collect();
        assert_eq!(lines, [3]);
    }
}
