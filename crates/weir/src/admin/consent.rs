//! The question before a command that cannot be taken back, or that stops a market.
//!
//! On a terminal the command says its effect and asks. Without one there is nobody to ask: it
//! is refused, unless `--yes` was given.

use std::io::{BufRead, IsTerminal};

use anyhow::{bail, ensure};
use weir_client::status::phase_name;
use weir_types::{KillScope, MassCancelScope, Phase};

use super::{AdminArgs, AdminCommand, CancelArgs, define, name_of};

/// Returns when the command needs no consent, or has it.
///
/// # Errors
/// When it is denied, or nobody can be asked.
pub(super) fn obtain(args: &AdminArgs) -> anyhow::Result<()> {
    if args.yes {
        return Ok(());
    }
    let Some(effect) = effect(args)? else { return Ok(()) };
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprint!("{effect}. Go on? [y/N] ");
        return ask(&mut stdin.lock());
    }
    bail!("{effect}: there is no terminal to ask on; give --yes to do it without being asked")
}

fn ask(input: &mut dyn BufRead) -> anyhow::Result<()> {
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    let is_given = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    ensure!(is_given, "nothing was done");
    Ok(())
}

/// Returns what the command will do, if it needs consent.
fn effect(args: &AdminArgs) -> anyhow::Result<Option<String>> {
    Ok(match &args.command {
        AdminCommand::Instrument(instrument) => {
            define::renaming(&args.login, instrument)?.map(|(from, to)| {
                format!("this renames {from} to {to}, for participants and in market data")
            })
        }
        AdminCommand::Kill { scope: KillScope::All, off: false, partition, cancel, .. } => {
            let partition = within(*partition);
            let and = if *cancel { " and cancels all live orders" } else { "" };
            Some(format!("this stops the entry of orders for everybody{and}, {partition}"))
        }
        AdminCommand::Kill { scope, id, cancel: true, partition, .. } => {
            let partition = within(*partition);
            Some(format!(
                "this stops the entry of orders for {} {id} and cancels their live orders, \
                 {partition}",
                name_of(scope)
            ))
        }
        AdminCommand::Halt { instrument } => stopped(args, instrument, Phase::Halted)?,
        AdminCommand::Phase { instrument, phase, .. } => stopped(args, instrument, *phase)?,
        AdminCommand::Bust { match_id, partition } => {
            let of = partition.map_or_else(String::new, |id| format!(" of partition {id}"));
            Some(format!(
                "this takes trade {match_id}{of} back: cash and lots return, and both sides are \
                 told"
            ))
        }
        AdminCommand::Cancel(cancel) => Some(cancelled(cancel)),
        _ => None,
    })
}

/// Returns the effect of a phase that ends trading in all instruments.
fn stopped(args: &AdminArgs, name: &str, phase: Phase) -> anyhow::Result<Option<String>> {
    if name != "all" || !matches!(phase, Phase::Halted | Phase::Closed) {
        return Ok(None);
    }
    let symbols: Vec<_> =
        super::named(args, &[name.to_owned()])?.into_iter().map(|row| row.symbol).collect();
    let (count, symbols, phase) = (symbols.len(), symbols.join(", "), phase_name(phase));
    Ok(Some(format!("this makes all {count} instruments {phase}: {symbols}")))
}

fn cancelled(of: &CancelArgs) -> String {
    let scope = name_of(&of.scope);
    let only = match (&of.instrument, of.scope) {
        (Some(instrument), _) => format!("in instrument {instrument}"),
        (None, MassCancelScope::Instrument) => "of all firms".to_owned(),
        (None, _) => within(of.partition),
    };
    format!("this cancels all live orders of {scope} {}, {only}", of.of)
}

fn within(partition: Option<u16>) -> String {
    partition.map_or_else(|| "in all partitions".to_owned(), |id| format!("in partition {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_consent() {
        for (answer, want) in [
            ("y\n", true),
            ("Yes\n", true),
            ("", false),
            ("\n", false),
            ("no\n", false),
            ("yy", false),
        ] {
            assert_eq!(ask(&mut answer.as_bytes()).is_ok(), want, "{answer:?}");
        }
    }
}
