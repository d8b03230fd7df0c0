//! Errors of the Rust client as the exceptions of `weir.errors`.
//!
//! The classes are Python's, so that they can be documented and subclassed there; this file has the
//! table from errors to classes. An exception keeps the server's reason by its name.

use pyo3::prelude::*;
use weir_client::ClientError;
use weir_types::Reason;

/// An error not yet raised, which can be kept without the interpreter's lock.
#[derive(Clone, Debug)]
pub struct Failure {
    class: &'static str,
    message: String,
    reason: Option<Reason>,
}

impl Failure {
    /// Creates an error of this class of `weir.errors`.
    pub fn new(class: &'static str, message: impl Into<String>) -> Failure {
        Failure { class, message: message.into(), reason: None }
    }

    /// Adds the server's reason.
    pub fn because(self, reason: Reason) -> Failure {
        Failure { reason: Some(reason), ..self }
    }

    /// Creates the exception.
    pub fn raise(&self) -> PyErr {
        Python::attach(|py| {
            let made = py
                .import("weir.errors")
                .and_then(|module| module.getattr(self.class))
                .and_then(|class| class.call1((&self.message, self.reason.map(name_of))));
            made.map_or_else(|error| error, PyErr::from_value)
        })
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        failure.raise()
    }
}

/// Returns a reason's name in the schema.
pub fn name_of(reason: Reason) -> String {
    format!("{reason:?}")
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let (class, reason) = class_of(&error);
        let message = match &error {
            // The subject is the field or name that was refused.
            ClientError::Refused { subject, .. } if !subject.is_empty() => {
                format!("{error} ({subject})")
            }
            _ => error.to_string(),
        };
        Failure { class, message, reason }
    }
}

fn class_of(error: &ClientError) -> (&'static str, Option<Reason>) {
    match error {
        ClientError::Addresses(_)
        | ClientError::Connect { .. }
        | ClientError::Handshake { .. }
        | ClientError::Cut
        | ClientError::Tls(_)
        | ClientError::Io { .. }
        | ClientError::Closed
        | ClientError::OutboxFull { .. }
        | ClientError::Gap { .. }
        | ClientError::CopyGap { .. }
        | ClientError::HeartbeatLost { .. } => ("ConnectionLost", None),
        ClientError::LogonRejected { reason, .. } => ("LogonRejected", Some(*reason)),
        ClientError::LoggedOut { reason, .. } => ("LoggedOut", Some(*reason)),
        ClientError::Refused { reason, .. } | ClientError::CopiesRefused { reason, .. } => {
            ("Refused", Some(*reason))
        }
        ClientError::Timeout { .. } => ("Timeout", None),
        ClientError::Broken(_)
        | ClientError::Decode(_)
        | ClientError::PhaseNotTold { .. }
        | ClientError::StateOutOfOrder { .. }
        | ClientError::UnexpectedRows { .. } => ("ProtocolError", None),
        ClientError::OtherHistory { .. } | ClientError::SourceHistory(_) => ("OtherHistory", None),
        ClientError::Address(_) | ClientError::WrongNode { .. } => ("WrongNode", None),
        ClientError::NotOpen(_)
        | ClientError::UnknownInstrument(_)
        | ClientError::Status { .. } => ("WeirError", None),
    }
}
