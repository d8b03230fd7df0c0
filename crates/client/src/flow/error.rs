//! What can be wrong with a file of market data, said so that a person finds the place.
//!
//! Every error of the parsers names the file, the line and the field. No input makes a parser
//! panic: what it cannot read is one of these values.

/// Why a file of order flow could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The file could not be opened or read, or its archive is damaged.
    #[error("{file}: {source}")]
    Io {
        /// The file, as the caller named it.
        file: String,
        /// What the reader said.
        #[source]
        source: std::io::Error,
    },
    /// A field does not hold what the format says.
    #[error("{file}:{line}: field {field}: {why}")]
    Field {
        /// The file, as the caller named it.
        file: String,
        /// Its line, from 1.
        line: u64,
        /// The field's name in the format's own description.
        field: &'static str,
        /// What is wrong with it.
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
    /// The file has more lines than a reader takes.
    #[error("{file}: more than {max} lines")]
    TooManyLines {
        /// The file, as the caller named it.
        file: String,
        /// The most lines a file may have.
        max: u64,
    },
    /// Two files that belong together do not have as many lines as each other.
    #[error("{file}:{line}: the message file and the book file differ in length")]
    Unpaired {
        /// The file that ended first.
        file: String,
        /// The line it lacks, from 1.
        line: u64,
    },
    /// An archive does not hold the member that is needed.
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
        /// What is wrong with it.
        #[source]
        source: super::packed::UnpackError,
    },
    /// A file's name does not tell what it is.
    #[error("{file}: neither .zip (LOBSTER), .log.xz or .csv.xz (Bitstamp) nor .wflow")]
    UnknownKind {
        /// The file.
        file: String,
    },
}
