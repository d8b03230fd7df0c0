//! `weir admin cash`: an account's cash, which is allotted to the trading partitions.
//!
//! A move takes two transfers under one number: out of the one log, then into the other. Each
//! partition carries out a number once, so the command may be given again, with the number, until
//! both are done. It tells the number before the first of them:
//!
//! | ended behind | cash is | the command again |
//! | --- | --- | --- |
//! | nothing | where it was | moves it |
//! | the first transfer | in transit, available in neither partition | carries out the second |
//! | both | moved | says so |

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use weir_client::clock::unix_time;
use weir_client::{Admin, ClientError};
use weir_types::{AccountId, Cash, InstrumentId, PartitionId, RequestNo, SessionId};
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
        let partition_id = PartitionId(id);
        let transfer = Transfer {
            request_no: RequestNo::NONE,
            transfer_id,
            cash: Cash(cash),
            position_qty: 0,
            session_id: SessionId::NONE,
            account_id: AccountId(*account),
            instrument_id: InstrumentId::NONE,
            partition_id,
        };
        Ok::<_, ClientError>(admin.request(partition_id, Request::Transfer(transfer))? > 0)
    };
    let again = format!(
        "repeat: weir admin cash move --account {account} --from {from} --to {to} --cash {cash} \
         --transfer-id {transfer_id}"
    );
    let is_out = match transfer(*from, -cash) {
        Ok(is_out) => is_out,
        Err(error @ ClientError::Refused { .. }) => {
            return Err(with_name(error.into()).context("nothing was moved"));
        }
        Err(error) => return Err(error).with_context(|| format!("it may be out; {again}")),
    };
    let is_in = match transfer(*to, *cash) {
        Ok(is_in) => is_in,
        Err(error @ ClientError::Refused { .. }) => {
            let error = with_name(error.into());
            bail!(
                "{cash} of account {account} are out of partition {from} and not in {to}, which \
                 says: {error:#}. Remove the cause and {again}; or give them back: weir admin \
                 deposit --account {account} --partition {from} --cash {cash}"
            );
        }
        Err(error) => return Err(error).with_context(|| format!("it is out; {again}")),
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
