//! Commands and options by the names that they had before the first release.
//!
//! An old name is hidden from the help, and its use is an error that says the new name. No old name
//! does anything.

use std::convert::Infallible;

/// An option that has a new name; its value cannot exist.
#[derive(Clone, Copy, Debug)]
pub struct Renamed(Infallible);

/// The value parser of an option that has a new name.
pub fn to(
    new: &'static str,
) -> impl Fn(&str) -> Result<Renamed, String> + Clone + Send + Sync + 'static {
    move |_| Err(format!("the option is named {new} now"))
}

/// Options of `weir delivery`: anything.
#[derive(Debug, clap::Args)]
pub struct DeliveryArgs {
    /// The words that follow.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Refuses `weir delivery`.
///
/// # Errors
/// Always: the command by its new name.
pub fn refuse_delivery(args: &DeliveryArgs) -> anyhow::Result<()> {
    let new = match args.words.first().map(String::as_str) {
        Some("top") => "`weir top`",
        Some("subscriptions") => "`weir subscriptions`",
        _ => "`weir subscriptions` for durable subscriptions and `weir top` for their backlogs",
    };
    anyhow::bail!("there is no `weir delivery` any more: use {new}")
}
