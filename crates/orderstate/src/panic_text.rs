//! The text of a panic that was caught: a broken invariant of one outside source.

use std::any::Any;

/// Returns the text of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a broken invariant".to_owned())
}
