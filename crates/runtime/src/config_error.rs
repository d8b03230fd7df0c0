//! The error of a configuration: an unreadable file, a text that is not TOML, a value out of range.
//! Each part checks its own section and reports with this type.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The reason for refusing a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// The text is not a valid configuration.
    #[error("{0}")]
    Invalid(#[from] Box<toml::de::Error>),
    /// A section has the name of an earlier version.
    #[error("[{old}] is named [{new}] now")]
    Renamed {
        /// The name in the file.
        old: String,
        /// The name to write.
        new: &'static str,
    },
    /// Two listeners have one address.
    #[error("{first} and {second} are both {address}: each listener needs an address of its own")]
    SameAddress {
        /// The key of one listener.
        first: &'static str,
        /// The key of the other.
        second: &'static str,
        /// The address of the other.
        address: SocketAddr,
    },
    /// A listener takes keys from other machines without TLS.
    #[error(
        "{key} = {address}: other machines can reach it, and without TLS keys come in clear: \
         set [tls] (`weir certificate` makes a certificate), an address of this machine alone, or \
         clear_text_allowed = true where that network is private"
    )]
    ClearText {
        /// The key of the listener.
        key: &'static str,
        /// Its address.
        address: SocketAddr,
    },
    /// A listener takes a password from other machines, and its protocol has no TLS.
    #[error(
        "{key} = {address}: other machines can reach it, and its password comes in clear: choose \
         an address of this machine alone, or clear_text_allowed = true where that network is \
         private"
    )]
    ClearPassword {
        /// The key of the listener.
        key: &'static str,
        /// Its address.
        address: SocketAddr,
    },
    /// A value is out of range.
    #[error("{key} = {value} is out of range: want {want}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// The accepted values.
        want: &'static str,
    },
}
