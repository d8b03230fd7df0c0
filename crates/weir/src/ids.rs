//! Ranges of identifiers that a command defines: they count up from an option's value.

use weir_client::ClientError;
use weir_types::Reason;

/// Checks that `count` identifiers from `first` on exist.
///
/// # Errors
/// The option and the accepted values.
pub(super) fn check(option: &str, first: u32, count: u32) -> anyhow::Result<()> {
    let last = u32::MAX - count.max(1) + 1;
    anyhow::ensure!(
        (1..=last).contains(&first),
        "{option} {first}: want 1 to {last}, since {count} identifiers count up from there"
    );
    Ok(())
}

/// Explains the refusal of a definition whose identifier something else has.
pub(super) fn explain(option: &str, first: u32, error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Refused { reason: Reason::InvalidDefinition, request, .. } => anyhow::anyhow!(
            "{request} is refused (InvalidDefinition): another definition has its name or one of \
             the identifiers from {first} on: choose others with {option}"
        ),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_begin_at_one_and_end_at_the_largest() {
        for (first, count, is_right) in [
            (1, 1, true),
            (u32::MAX, 1, true),
            (u32::MAX - 1, 2, true),
            (u32::MAX, 2, false),
            (2, u32::MAX, false),
            (0, 1, false),
        ] {
            assert_eq!(check("--first-id", first, count).is_ok(), is_right, "{first} {count}");
        }
    }
}
