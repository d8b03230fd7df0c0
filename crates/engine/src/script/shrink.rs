//! Reduces the steps of a run to fewer ones that still show a difference.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Duel, DuelOp, DuelSetting};

/// The first difference between two engines.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The index of the step that showed it.
    pub at: usize,
    /// A description of the difference.
    pub text: String,
}

/// Runs the steps from the start; returns the first difference, or an engine's panic.
#[must_use]
pub fn find_difference(setting: DuelSetting, steps: &[DuelOp]) -> Option<Difference> {
    let mut duel = Duel::new(setting);
    steps.iter().enumerate().find_map(|(at, step)| {
        let text = attempt(&mut duel, step).err()?;
        Some(Difference { at, text })
    })
}

/// Takes one step; an engine's panic counts as a difference.
///
/// # Errors
/// Returns the difference.
pub fn attempt(duel: &mut Duel, step: &DuelOp) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| duel.step(step))).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// Removes steps as long as a difference remains, in at most `tries` attempts.
#[must_use]
pub fn shrink(
    setting: DuelSetting,
    mut steps: Vec<DuelOp>,
    mut tries: u32,
) -> (Vec<DuelOp>, Option<Difference>) {
    let mut found = find_difference(setting, &steps);
    let Some(first) = &found else { return (steps, found) };
    steps.truncate(first.at + 1);
    let mut chunk_len = steps.len() / 2;
    while chunk_len > 0 {
        let mut start = 0;
        while start < steps.len() && tries > 0 {
            tries -= 1;
            let end = steps.len().min(start + chunk_len);
            let mut fewer = steps[..start].to_vec();
            fewer.extend_from_slice(&steps[end..]);
            match find_difference(setting, &fewer) {
                Some(difference) => {
                    fewer.truncate(difference.at + 1);
                    steps = fewer;
                    found = Some(difference);
                }
                None => start = end,
            }
        }
        chunk_len /= 2;
    }
    (steps, found)
}
