//! The error of a configuration: a file that cannot be read, a text that is no TOML, a value that
//! is out of range. Each part checks its own section and reports by this type.

use std::path::PathBuf;

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The text is no configuration.
    #[error("{0}")]
    Invalid(#[from] Box<toml::de::Error>),
    /// A value is out of range.
    #[error("{key} = {value} is out of range: want {want}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is wanted.
        want: &'static str,
    },
}
