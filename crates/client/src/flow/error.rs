//! Errors in files of market data, with their position.
//!
//! Every error of the parsers names the file, the line and the field. No input makes a parser
//! panic: input that it cannot parse is one of these values.

/// The reason why a file of order flow could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The file could not be opened or read, or its archive is damaged.
    #[error("{file}: {source}")]
    Io {
        /// The file, as the caller named it.
        file: String,
        /// The reader's error.
        #[source]
        source: std::io::Error,
    },
    /// A field does not conform to the format.
    #[error("{file}:{line}: field {field}: {why}")]
    Field {
        /// The file, as the caller named it.
        file: String,
        /// Its line, from 1.
        line: u64,
        /// The field's name in the format's own description.
        field: &'static str,
        /// The cause.
        why: &'static str,
    },
    /// A line is longer than any line of the format can be.
    #[error("{file}:{line}: the line has more than {max} bytes")]
    LineTooLong {
        /// The file, as the caller named it.
        file: String,
        /// Its line, from 1.
        line: u64,
        /// The most bytes a line may have.
        max: usize,
    },
    /// The file has more lines than a reader accepts.
    #[error("{file}: more than {max} lines")]
    TooManyLines {
        /// The file, as the caller named it.
        file: String,
        /// The most lines a file may have.
        max: u64,
    },
    /// Two files that belong together differ in their number of lines.
    #[error("{file}:{line}: the message file and the book file differ in length")]
    Unpaired {
        /// The file that ended first.
        file: String,
        /// The missing line, from 1.
        line: u64,
    },
    /// An archive lacks the required member.
    #[error("{file}: no member whose name contains {wanted:?}")]
    NoMember {
        /// The archive.
        file: String,
        /// A part of the member's name.
        wanted: &'static str,
    },
    /// A packed file is damaged.
    #[error("{file}: {source}")]
    Packed {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: super::packed::UnpackError,
    },
    /// A file's name does not tell its format.
    #[error("{file}: neither .zip (LOBSTER), .log.xz or .csv.xz (Bitstamp) nor .wflow")]
    UnknownKind {
        /// The file.
        file: String,
    },
}
