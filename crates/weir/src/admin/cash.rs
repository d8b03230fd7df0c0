//! `weir admin cash`: an account's cash, which is allotted to the trading partitions.
//!
//! A move takes two transfers under one number: out of the one log, then into the other. Each
//! partition carries out the account's last number once, so the command may be given again, with
//! the number, until both are done. Both transfers name the partition at the other end, which a
//! partition compares as it does the amount: a move that is repeated with another target is
//! refused where the cash has left already. The command tells the number before the first of them:
//!
//! | ended behind | cash is | the command again |
//! | --- | --- | --- |
//! | nothing | where it was | moves it |
//! | the first transfer | in transit, available in neither partition | carries out the second |
//! | both | moved | says so |
//!
//! INVARIANT: no answer says that cash is in a partition, or is not there, unless the engine of
//! that partition has said so about this number. A partition knows an account's last number alone:
//! once it has a later one, it cannot tell whether it carried out this one. Nor does a request that
//! no log took tell of an earlier one under the same number, which may still wait. Then the logs
//! are to be looked at, and the command says for which record.

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use weir_client::clock::unix_time;
use weir_client::{Admin, ClientError};
use weir_types::{AccountId, Cash, InstrumentId, PartitionId, Reason, RequestNo, SessionId};
use weir_wire::Request;
use weir_wire::reference::Transfer;

use super::{Outcome, with_name};

/// Commands on the cash of accounts.
#[derive(Debug, clap::Subcommand)]
pub(super) enum CashCommand {
    /// Move an account's cash from one partition to another, once by the transfer's number. A
    /// command that was interrupted is given again with the number that it told.
    Move(MoveArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct MoveArgs {
    /// The account.
    #[arg(long)]
    account: u32,
    /// The partition that gives the cash.
    #[arg(long)]
    from: u16,
    /// The partition that gets it.
    #[arg(long)]
    to: u16,
    /// Cash, in price units times lots, above zero.
    #[arg(long)]
    cash: i128,
    /// The number of both transfers, above that of the account's last in either partition. The time
    /// of day when not given.
    #[arg(long)]
    transfer_id: Option<u64>,
}

/// Carries out a command on cash.
///
/// # Errors
/// When the node cannot be reached or refuses.
pub(super) fn carry_out(admin: &mut Admin, command: &CashCommand) -> anyhow::Result<Outcome> {
    let CashCommand::Move(args) = command;
    let partitions = admin.partitions();
    for id in [args.from, args.to] {
        let is_there = partitions.contains(&PartitionId(id));
        ensure!(is_there, "the node has no trading partition {id}");
    }
    ensure!(args.from != args.to, "the cash is in partition {} already", args.from);
    ensure!(args.cash > 0, "nothing to move: give --cash above zero");
    let transfer_id = args.transfer_id.unwrap_or_else(|| unix_time().0);
    if args.transfer_id.is_none() {
        eprintln!("transfer {transfer_id}: if this is interrupted, repeat with --transfer-id");
    }
    move_cash(admin, args, transfer_id)
}

fn move_cash(admin: &mut Admin, args: &MoveArgs, transfer_id: u64) -> anyhow::Result<Outcome> {
    let MoveArgs { account, from, to, cash, .. } = args;
    let mut transfer = |id: u16, cash: i128| {
        let here = PartitionId(id);
        let peer_partition_id = PartitionId(if id == *from { *to } else { *from });
        let leg = leg(*account, transfer_id, here);
        let transfer = Transfer { cash: Cash(cash), peer_partition_id, ..leg };
        admin.request(here, Request::Transfer(transfer)).map(|done| done > 0)
    };
    let again = format!(
        "weir admin cash move --account {account} --from {from} --to {to} --cash {cash} \
         --transfer-id {transfer_id}"
    );
    let look = |id: &u16| {
        format!(
            "look for transfer {transfer_id} of account {account} in the log of partition {id} \
             (weir log dump)"
        )
    };
    let is_out = match transfer(*from, -cash) {
        Ok(is_out) => is_out,
        Err(error) if is_decided(&error, args.transfer_id.is_none()) => {
            return Err(with_name(error.into()).context("nothing was moved"));
        }
        Err(error @ ClientError::Refused { .. }) => {
            let error = with_name(error.into());
            bail!(
                "{error:#}. That does not tell whether the cash left partition {from} before: {}. \
                 If it is there, with partition {to} at its other end, finish: weir admin deposit \
                 --account {account} --partition {to} --peer {from} --cash {cash} --transfer-id \
                 {transfer_id}; if not, nothing was moved",
                look(from)
            );
        }
        Err(error) => return Err(error).with_context(|| format!("it may be out; repeat: {again}")),
    };
    let is_in = match transfer(*to, *cash) {
        Ok(is_in) => is_in,
        // What left the one partition just now has not entered the other one before.
        Err(error) if is_decided(&error, is_out) => {
            let error = with_name(error.into());
            bail!(
                "{cash} of account {account} are out of partition {from} and not in {to}, which \
                 says: {error:#}. Remove the cause and repeat: {again}; or give them back: weir \
                 admin deposit --account {account} --partition {from} --cash {cash}"
            );
        }
        Err(error @ ClientError::Refused { .. }) => {
            let error = with_name(error.into());
            bail!(
                "{cash} of account {account} are out of partition {from}, and may be in {to}, \
                 which says: {error:#}. Repeat: {again}; if it is refused for the number, {}, and \
                 give nothing back before",
                look(to)
            );
        }
        Err(error) => return Err(error).with_context(|| format!("it is out; repeat: {again}")),
    };
    let moved = format!(
        "cash {cash} of account {account} is moved from partition {from} to {to} (transfer \
         {transfer_id})"
    );
    let text = match (is_out, is_in) {
        (false, false) => format!("{moved}: before now; nothing was moved again"),
        (false, true) => format!("{moved}: it had been in transit"),
        _ => moved,
    };
    let json = json!({ "transfer_id": transfer_id, "moved_out": is_out, "moved_in": is_in });
    Ok(Outcome::of(text, json))
}

/// Returns one of a move's transfers, without its cash.
fn leg(account: u32, transfer_id: u64, partition_id: PartitionId) -> Transfer {
    Transfer {
        request_no: RequestNo::NONE,
        transfer_id,
        cash: Cash(0),
        position_qty: 0,
        session_id: SessionId::NONE,
        account_id: AccountId(account),
        instrument_id: InstrumentId::NONE,
        partition_id,
        peer_partition_id: PartitionId::NONE,
    }
}

/// Returns true for an answer by which the engine has not carried out the number, now or before. Of
/// a later number of the account it says so only where this one `is_new`.
fn is_decided(error: &ClientError, is_new: bool) -> bool {
    let ClientError::Refused { reason, .. } = error else { return false };
    match reason {
        Reason::TransferIdUsed => is_new,
        // No log took it: one that was sent before may be under way.
        Reason::Overloaded
        | Reason::LogFull
        | Reason::PartitionAway
        | Reason::TooManyInFlight
        | Reason::NotLoggedOn => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_no_log_or_of_a_later_number_decides_nothing() {
        let refused =
            |reason| ClientError::Refused { request: "Transfer", reason, subject: String::new() };
        assert!(is_decided(&refused(Reason::InsufficientCash), false));
        assert!(is_decided(&refused(Reason::TransferIdUsed), true));
        for reason in [Reason::TransferIdUsed, Reason::Overloaded, Reason::LogFull] {
            assert!(!is_decided(&refused(reason), false), "{reason:?}");
        }
        assert!(!is_decided(&refused(Reason::Overloaded), true));
        assert!(!is_decided(&ClientError::Closed, true));
    }
}
