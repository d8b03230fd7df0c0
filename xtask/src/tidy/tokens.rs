//! A Rust source as a flat list of tokens with their lines.
//!
//! Comments are not tokens and a string is one literal, so a rule over tokens cannot be set off by
//! prose. The inside of macro calls is included: `assert!(Instant::now() > x)` reads the clock.

use proc_macro2::{TokenStream, TokenTree};

/// One token: its text and the line it starts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Flattens `stream`; a group becomes its opening delimiter, its content and its closing one.
pub(crate) fn flatten(stream: TokenStream) -> Vec<Token> {
    let mut tokens = Vec::new();
    push_all(stream, &mut tokens);
    tokens
}

fn push_all(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = delimiters(group.delimiter());
                tokens.push(Token { text: open.to_string(), line });
                push_all(group.stream(), tokens);
                tokens.push(Token { text: close.to_string(), line: group.span_close().end().line });
            }
            TokenTree::Punct(punct) => {
                tokens.push(Token { text: punct.as_char().to_string(), line });
            }
            TokenTree::Ident(ident) => tokens.push(Token { text: ident.to_string(), line }),
            TokenTree::Literal(literal) => {
                tokens.push(Token { text: literal.to_string(), line });
            }
        }
    }
}

fn delimiters(delimiter: proc_macro2::Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        proc_macro2::Delimiter::Parenthesis => ("(", ")"),
        proc_macro2::Delimiter::Brace => ("{", "}"),
        proc_macro2::Delimiter::Bracket => ("[", "]"),
        proc_macro2::Delimiter::None => ("", ""),
    }
}

/// Splits a written pattern such as `Instant::now` or `println!` into the tokens to look for.
pub(crate) fn pattern(written: &str) -> Vec<String> {
    let stream: TokenStream = written.parse().expect("patterns are literals of this crate");
    flatten(stream).into_iter().map(|token| token.text).collect()
}

/// True when `pattern` stands in `tokens` at `index`.
pub(crate) fn matches_at(tokens: &[Token], index: usize, pattern: &[String]) -> bool {
    tokens.len() - index >= pattern.len()
        && tokens[index..].iter().zip(pattern).all(|(token, wanted)| token.text == *wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_in_code_and_not_in_prose() {
        let text =
            "// Instant::now\nfn a() {\n  let s = \"Instant::now\";\n  m!(Instant::now());\n}";
        let tokens = flatten(text.parse().unwrap());
        let wanted = pattern("Instant::now");
        let lines: Vec<usize> = (0..tokens.len())
            .filter(|index| matches_at(&tokens, *index, &wanted))
            .map(|index| tokens[index].line)
            .collect();
        assert_eq!(lines, [4]);
    }
}
