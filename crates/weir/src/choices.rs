//! Values of options that are one of a few: their names, in lower case with hyphens between words.
//!
//! The names are those of the protocol's enumerations, of which each has a list of all its values.

/// The name of an option's value: in lower case with hyphens between its words.
pub(super) fn name_of<T: std::fmt::Debug>(value: &T) -> String {
    let camel = format!("{value:?}");
    let words = camel.char_indices().map(|(at, letter)| match letter {
        'A'..='Z' if at > 0 => format!("-{}", letter.to_ascii_lowercase()),
        _ => letter.to_ascii_lowercase().to_string(),
    });
    words.collect()
}

/// The value whose name, in lower case with hyphens between its words, is `text`.
pub(super) fn by_name<T: Copy + std::fmt::Debug>(text: &str, all: &[T]) -> Result<T, String> {
    all.iter().copied().find(|value| name_of(value) == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(name_of).collect();
        format!("want {}", names.join(", "))
    })
}
