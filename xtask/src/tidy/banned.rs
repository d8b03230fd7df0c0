//! Calls that a pure crate must not make: time, threads, chance, surroundings, output, floats.
//!
//! A pure crate's answer depends on its arguments alone; so it is possible to replay, to simulate
//! and to compare replicas. A crate at the seams has sockets and randomness, and takes them, and
//! its time, from the seams of `io` that it is given. Checked over tokens, outside tests.

use super::Finding;
use super::source::Source;
use super::tokens::{Token, matches_at, pattern};

/// A stretch of the tree and what it must be free of.
struct Pure {
    /// Path that the rule covers, folder or file.
    prefix: &'static str,
    /// Paths under `prefix` that it does not cover.
    except: &'static [&'static str],
    /// Floating point is banned too.
    is_float_free: bool,
    /// Its I/O goes through the seams: it names types of `std::io` and `std::net`.
    is_at_seams: bool,
}

const fn pure(prefix: &'static str, is_float_free: bool) -> Pure {
    Pure { prefix, except: &[], is_float_free, is_at_seams: false }
}

const fn at_seams(prefix: &'static str, except: &'static [&'static str]) -> Pure {
    Pure { prefix, except, is_float_free: false, is_at_seams: true }
}

/// The paths that the rules cover: shipped code in `src/`, not tests, benches or examples.
const PURE: &[Pure] = &[
    pure("crates/types/src/", true),
    pure("crates/wire/src/", true),
    pure("crates/engine/src/", true),
    pure("crates/delivery/src/", true),
    pure("crates/log/src/", true),
    pure("crates/broker/src/", true),
    pure("crates/cold/src/", true),
    pure("crates/feed/src/", true),
    pure("crates/market/src/", true),
    at_seams("crates/gateway/src/", &[]),
    at_seams("crates/door/src/", DOOR_HANDSHAKES),
];

/// The handshakes of TLS, which the simulation does not run: their lines are limited by the clock.
const DOOR_HANDSHAKES: &[&str] = &["crates/door/src/handshakes.rs"];

/// Names that a crate at the seams may use: types and errors, not calls.
const OF_SEAMS: &[&str] = &["std::net", "std::io"];

/// Names that a crate at the seams must not use beside the rest: the things behind the seams.
const BEHIND_SEAMS: &[(&str, &str)] = &[
    ("mio", "has its sockets from `io::net`"),
    ("SystemClock", "takes its time as an argument"),
    ("OsRng", "draws from the generator that it is given"),
];

/// Each banned text, and the reason.
const BANNED: &[(&str, &str)] = &[
    ("Instant::now", "takes its time as an argument"),
    ("SystemTime::now", "takes its time as an argument"),
    ("UNIX_EPOCH.elapsed", "takes its time as an argument"),
    ("thread::spawn", "starts no thread"),
    ("thread::sleep", "never waits"),
    ("thread_rng", "knows no chance"),
    ("rand::rng", "knows no chance"),
    ("rand::random", "knows no chance"),
    ("getrandom", "knows no chance"),
    ("RandomState", "iterates in an order that the log decides"),
    ("std::env", "does not look around"),
    ("env::var", "does not look around"),
    ("std::fs", "does no I/O"),
    ("std::net", "does no I/O"),
    ("std::io", "does no I/O"),
    ("std::process", "does not leave on its own"),
    ("println!", "does not print"),
    ("eprintln!", "does not print"),
    ("print!", "does not print"),
    ("eprint!", "does not print"),
];

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let patterns = |texts: &[(&'static str, &'static str)]| -> Vec<_> {
        texts.iter().map(|(written, why)| (pattern(written), *written, *why)).collect()
    };
    let (banned, behind) = (patterns(BANNED), patterns(BEHIND_SEAMS));
    let mut findings = Vec::new();
    for source in sources {
        let Some(pure) = PURE.iter().find(|pure| pure.covers(&source.path)) else { continue };
        for index in 0..source.tokens.len() {
            let line = source.tokens[index].line;
            if source.is_test_line(line) {
                continue;
            }
            let behind = behind.iter().filter(|_| pure.is_at_seams);
            for (wanted, written, why) in banned.iter().chain(behind) {
                if matches_at(&source.tokens, index, wanted) && !pure.allows(written) {
                    let message = format!("`{written}` in a pure crate: it {why}");
                    findings.push(Finding::new(&source.path, line, message));
                }
            }
            findings.extend(random_map(source, index));
            if pure.is_float_free && is_float(&source.tokens[index].text) {
                let text = &source.tokens[index].text;
                let message = format!("floating point (`{text}`) where every replica must agree");
                findings.push(Finding::new(&source.path, line, message));
            }
        }
    }
    findings
}

impl Pure {
    fn covers(&self, path: &str) -> bool {
        path.starts_with(self.prefix) && !self.except.iter().any(|except| path.starts_with(except))
    }

    fn allows(&self, written: &str) -> bool {
        self.is_at_seams && OF_SEAMS.contains(&written)
    }
}

/// A `HashMap` or `HashSet` with the default, random hasher: by constructor or by type.
fn random_map(source: &Source, index: usize) -> Option<Finding> {
    let tokens = &source.tokens[index..];
    let hasher_position = match tokens[0].text.as_str() {
        "HashMap" => 2,
        "HashSet" => 1,
        _ => return None,
    };
    let text_at = |offset: usize| tokens.get(offset).map_or("", |token| token.text.as_str());
    let is_random = match text_at(1) {
        "<" => argument_count(&tokens[1..]) <= hasher_position,
        ":" if text_at(3) == "<" => argument_count(&tokens[3..]) <= hasher_position,
        ":" => ["new", "with_capacity", "from", "from_iter"].contains(&text_at(3)),
        _ => false,
    };
    is_random.then(|| {
        let name = &tokens[0].text;
        let message = format!(
            "`{name}` with its random hasher in a pure crate: use a BTreeMap, an index, or name a \
             fixed hasher"
        );
        Finding::new(&source.path, tokens[0].line, message)
    })
}

/// Returns the number of arguments between the `<` that `tokens` begin with and its `>`.
fn argument_count(tokens: &[Token]) -> usize {
    let mut depth = 0_i32;
    let mut count = 1;
    for (index, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "<" | "(" | "[" | "{" => depth += 1,
            // The `>` of `->` closes nothing.
            ">" if index > 0 && tokens[index - 1].text == "-" => {}
            ">" | ")" | "]" | "}" => depth -= 1,
            "," if depth == 1 => count += 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    count
}

/// The types `f32` and `f64` and literals such as `1.5` or `2f64`.
fn is_float(token: &str) -> bool {
    if token == "f32" || token == "f64" {
        return true;
    }
    token.starts_with(|c: char| c.is_ascii_digit())
        && match syn::parse_str(token) {
            Ok(syn::Lit::Float(_)) => true,
            Ok(syn::Lit::Int(integer)) => integer.suffix().starts_with('f'),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<Finding> {
        check(&[Source::parse(path, text).unwrap()])
    }

    #[test]
    fn every_banned_call_is_found_in_a_pure_crate() {
        for (written, _) in BANNED {
            let text = format!("fn a() {{\n    let _ = {written}();\n}}");
            let found = findings("crates/engine/src/book.rs", &text);
            assert!(found.iter().any(|f| f.line == 2), "{written} is not found: {found:?}");
        }
    }

    #[test]
    fn edges_tests_and_prose_may_name_them() {
        let call = "fn a() { let _ = std::time::Instant::now(); }";
        assert_eq!(findings("crates/weir/src/main.rs", call), []);
        assert_eq!(findings("crates/engine/benches/a.rs", call), []);
        let text = format!("//! Instant::now\n#[cfg(test)]\nmod tests {{ {call} }}");
        assert_eq!(findings("crates/engine/src/book.rs", &text), []);
        for path in ["crates/delivery/src/store.rs", "crates/cold/src/service.rs"] {
            assert_eq!(findings(path, call).len(), 1);
        }
    }

    #[test]
    fn a_crate_at_the_seams_names_errors_and_addresses_and_nothing_behind_the_seams() {
        let allowed = "fn a(b: std::net::SocketAddr) -> std::io::Result<()> {}";
        for path in ["crates/gateway/src/lib.rs", "crates/door/src/transport.rs"] {
            assert_eq!(findings(path, allowed), []);
            for call in ["mio::Poll::new()", "SystemClock.now()", "OsRng", "Instant::now()"] {
                let text = format!("fn a() {{ let _ = {call}; }}");
                assert_eq!(findings(path, &text).len(), 1, "{call} in {path}");
            }
            assert_eq!(findings(path, "fn a() { let a: HashMap<u8, u8> = b; }").len(), 1);
        }
        let clock = "fn a() { let _ = SystemClock.now(); }";
        assert_eq!(findings("crates/door/src/handshakes.rs", clock), []);
        assert_eq!(findings("crates/node/src/node.rs", clock), []);
    }

    #[test]
    fn maps_with_a_random_hasher_are_found_and_others_are_not() {
        let cases = [
            ("let a = HashMap::new();", 1),
            ("let a: HashMap<u32, Vec<(u8, u8)>> = b;", 1),
            ("let a = HashMap::<u32, u8>::with_hasher(b);", 1),
            ("let a: HashSet<u32> = b;", 1),
            ("let a: HashMap<u32, u8, Fixed> = HashMap::with_hasher(Fixed);", 0),
            ("let a: HashSet<fn(u8) -> u8, Fixed> = b;", 0),
            ("let a: BTreeMap<u32, u8> = BTreeMap::new();", 0),
        ];
        for (statement, count) in cases {
            let text = format!("fn a() {{ {statement} }}");
            let found = findings("crates/wire/src/a.rs", &text);
            assert_eq!(found.len(), count, "{statement}: {found:?}");
        }
    }

    #[test]
    fn floats_are_found_where_replicas_must_agree() {
        for text in ["const A: f64 = 1;", "const A: u8 = 1.5;", "const A: u8 = 2f32;"] {
            assert_eq!(findings("crates/types/src/num.rs", text).len(), 1, "{text}");
        }
        assert_eq!(findings("crates/types/src/num.rs", "const A: u8 = B.0 + 0x1f;"), []);
    }
}
