//! `weir admin cash`: an account's cash, which is allotted to the trading partitions.
//!
//! Its standing in each, with the part that is between two of them, is in `standings`; the moves
//! that share it, or fill a partition, in `plan`.
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

mod plan;
mod standings;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use weir_client::clock::unix_time;
use weir_client::{Admin, ClientError};
use weir_types::{AccountId, Cash, InstrumentId, PartitionId, Reason, RequestNo, SessionId};
use weir_wire::Request;
use weir_wire::reference::Transfer;

use super::{Outcome, with_name};
use plan::Move;
use standings::{Sent, Standings, Whereabouts};

/// Commands on the cash of accounts.
#[derive(Debug, clap::Subcommand)]
pub(super) enum CashCommand {
    /// Show an account's cash in each partition, and the part that is between two of them.
    Show(OfAccount),
    /// Move an account's cash from one partition to another, once by the transfer's number. A
    /// command that was interrupted is given again with the number that it told.
    Move(MoveArgs),
    /// Put cash that an interrupted move left between two partitions where it was to go.
    Settle(OfAccount),
    /// Share the cash that no order reserves among the partitions, equally or by weight.
    Rebalance(RebalanceArgs),
    /// Fill the partitions in which accounts have less free cash than a mark, from those in which
    /// they have most.
    TopUp(TopUpArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct OfAccount {
    /// The account.
    #[arg(long)]
    account: u32,
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

#[derive(Debug, clap::Args)]
pub(super) struct RebalanceArgs {
    /// The account.
    #[arg(long)]
    account: u32,
    /// A partition's weight: PARTITION=WEIGHT, once for each. Those not named have weight zero;
    /// when none is, all have the same.
    #[arg(long = "weight", value_name = "PARTITION=WEIGHT", value_parser = parse_weight)]
    weights: Vec<(u16, u32)>,
}

#[derive(Debug, clap::Args)]
pub(super) struct TopUpArgs {
    /// An account; given again for each.
    #[arg(long = "account", value_name = "ACCOUNT", required = true)]
    accounts: Vec<u32>,
    /// The mark: a partition with less free cash is filled, and none gives below it.
    #[arg(long)]
    below: i128,
    /// The free cash to which a partition is filled, not below the mark.
    #[arg(long)]
    fill_to: i128,
    /// Do so again after so many seconds, for good. Each round is a logon of its own, so the
    /// session should be used for nothing else; one that fails is told, and the next one begins by
    /// settling.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
}

impl CashCommand {
    /// Returns the seconds after which the command is to be carried out again.
    pub(super) fn every(&self) -> Option<u64> {
        match self {
            CashCommand::TopUp(args) => args.every,
            _ => None,
        }
    }
}

fn parse_weight(text: &str) -> Result<(u16, u32), String> {
    let of = text.split_once('=').and_then(|(id, of)| Some((id.parse().ok()?, of.parse().ok()?)));
    of.ok_or_else(|| "want PARTITION=WEIGHT, such as 3=2".to_owned())
}

/// Carries out a command on cash.
///
/// # Errors
/// When the node cannot be reached or refuses.
pub(super) fn carry_out(admin: &mut Admin, command: &CashCommand) -> anyhow::Result<Outcome> {
    match command {
        CashCommand::Show(of) => show(admin, AccountId(of.account)),
        CashCommand::Move(args) => move_by_hand(admin, args),
        CashCommand::Settle(of) => settle(admin, AccountId(of.account)),
        CashCommand::Rebalance(args) => rebalance(admin, args),
        CashCommand::TopUp(args) => top_up(admin, args),
    }
}

fn show(admin: &mut Admin, account_id: AccountId) -> anyhow::Result<Outcome> {
    let standings = Standings::of(admin, account_id)?;
    let mut lines = vec![format!("account {account_id}: partition, cash, reserved, free")];
    let mut rows = Vec::new();
    for (id, row) in &standings.0 {
        lines.push(format!("  {id}  {}  {}  {}", row.cash.0, row.reserved.0, row.free().0));
        let last = row.last_transfer.map(|last| {
            let (id, peer) = (last.transfer_id, last.peer.0);
            json!({ "transfer_id": id, "cash": amount(last.cash.0), "peer": peer })
        });
        rows.push(json!({
            "partition": id.0,
            "cash": amount(row.cash.0),
            "reserved": amount(row.reserved.0),
            "free": amount(row.free().0),
            "last_transfer": last,
        }));
    }
    let (mut in_transit, mut unknown) = (Vec::new(), Vec::new());
    for (sent, place) in standings.sent() {
        let Sent { transfer_id, from, to, cash } = sent;
        let row = json!({
            "transfer_id": transfer_id, "from": from.0, "to": to.0, "cash": amount(cash),
        });
        let what = format!("{cash} from partition {from} to {to} (transfer {transfer_id})");
        match place {
            Whereabouts::Arrived => {}
            Whereabouts::InTransit => {
                lines.push(format!("in transit: {what}; finish by weir admin cash settle"));
                in_transit.push(row);
            }
            Whereabouts::Unknown => {
                lines.push(format!(
                    "arrived, or in transit: {what}; partition {to} has had a later transfer, so \
                     its log tells (weir log dump)"
                ));
                unknown.push(row);
            }
        }
    }
    let json = json!({
        "account": account_id.0, "partitions": rows, "in_transit": in_transit, "unknown": unknown,
    });
    Ok(Outcome::of(lines.join("\n"), json))
}

/// Returns an amount as a number of JSON where one holds it, else as text.
fn amount(cash: i128) -> Value {
    i64::try_from(cash).map_or_else(|_| cash.to_string().into(), Value::from)
}

fn move_by_hand(admin: &mut Admin, args: &MoveArgs) -> anyhow::Result<Outcome> {
    let partitions = admin.partitions();
    for id in [args.from, args.to] {
        let is_there = partitions.contains(&PartitionId(id));
        ensure!(is_there, "the node has no trading partition {id}");
    }
    ensure!(args.from != args.to, "the cash is in partition {} already", args.from);
    ensure!(args.cash > 0, "nothing to move: give --cash above zero");
    let transfer_id = args.transfer_id.unwrap_or_else(|| unix_time().0);
    let is_new = args.transfer_id.is_none();
    if is_new {
        eprintln!("transfer {transfer_id}: if this is interrupted, repeat with --transfer-id");
    }
    let (from, to) = (PartitionId(args.from), PartitionId(args.to));
    let sent = Sent { transfer_id, from, to, cash: args.cash };
    let Moved { is_out, is_in } = move_cash(admin, AccountId(args.account), sent, is_new)?;
    let moved = moved_text(AccountId(args.account), &sent);
    let text = match (is_out, is_in) {
        (false, false) => format!("{moved}: before now; nothing was moved again"),
        (false, true) => format!("{moved}: it had been in transit"),
        _ => moved,
    };
    let json = json!({ "transfer_id": transfer_id, "moved_out": is_out, "moved_in": is_in });
    Ok(Outcome::of(text, json))
}

fn moved_text(account_id: AccountId, sent: &Sent) -> String {
    let Sent { transfer_id, from, to, cash } = sent;
    format!(
        "cash {cash} of account {account_id} is moved from partition {from} to {to} (transfer \
         {transfer_id})"
    )
}

fn settle(admin: &mut Admin, account_id: AccountId) -> anyhow::Result<Outcome> {
    let standings = Standings::of(admin, account_id)?;
    let settled = settle_all(admin, account_id, &standings)?;
    let text = match settled.is_empty() {
        true => format!("nothing of account {account_id} is in transit"),
        false => settled.join("\n"),
    };
    let json = json!({ "account": account_id.0, "settled": settled.len() });
    Ok(Outcome::of(text, json))
}

/// Puts the cash in transit where it was to go; returns a line for each.
fn settle_all(
    admin: &mut Admin,
    account_id: AccountId,
    standings: &Standings,
) -> anyhow::Result<Vec<String>> {
    let mut settled = Vec::new();
    for sent in standings.in_transit() {
        let done = transfer(admin, account_id, &sent, sent.to);
        done.map_err(|error| with_name(error.into())).with_context(|| {
            let Sent { transfer_id, from, to, cash } = sent;
            format!(
                "{cash} of account {account_id} are in transit from partition {from} to {to} \
                 (transfer {transfer_id})"
            )
        })?;
        settled.push(format!("{}: it had been in transit", moved_text(account_id, &sent)));
    }
    Ok(settled)
}

fn rebalance(admin: &mut Admin, args: &RebalanceArgs) -> anyhow::Result<Outcome> {
    let account_id = AccountId(args.account);
    let partitions = admin.partitions();
    let weights = weights_of(&partitions, &args.weights)?;
    let (lines, last) = bring(admin, account_id, |free| plan::rebalancing(free, &weights))?;
    let rows = last.0.iter().map(|(id, row)| {
        json!({ "partition": id.0, "cash": amount(row.cash.0), "free": amount(row.free().0) })
    });
    let json = json!({
        "account": account_id.0, "moves": lines.len(), "partitions": rows.collect::<Vec<_>>(),
    });
    let text = match lines.is_empty() {
        true => format!("account {account_id}: nothing to move"),
        false => lines.join("\n"),
    };
    Ok(Outcome::of(text, json))
}

fn weights_of(partitions: &[PartitionId], given: &[(u16, u32)]) -> anyhow::Result<Vec<u32>> {
    let mut ids: Vec<u16> = given.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    let twice = ids.windows(2).find(|pair| pair[0] == pair[1]);
    ensure!(twice.is_none(), "partition {} has two weights", twice.map_or(0, |pair| pair[0]));
    for id in ids {
        let is_there = partitions.contains(&PartitionId(id));
        ensure!(is_there, "the node has no trading partition {id}");
    }
    let weight = |id: &PartitionId| given.iter().find(|(of, _)| *of == id.0).map(|(_, of)| *of);
    let weights = partitions.iter().map(|id| match given {
        [] => 1,
        [..] => weight(id).unwrap_or(0),
    });
    let weights: Vec<u32> = weights.collect();
    ensure!(weights.iter().any(|weight| *weight > 0), "no partition has a weight above zero");
    Ok(weights)
}

fn top_up(admin: &mut Admin, args: &TopUpArgs) -> anyhow::Result<Outcome> {
    ensure!(args.fill_to >= args.below, "--fill-to is below the mark of --below");
    let (mut lines, mut failures) = (Vec::new(), Vec::new());
    for account in &args.accounts {
        let plan = |free: &[_]| plan::topping_up(free, args.below, args.fill_to);
        match bring(admin, AccountId(*account), plan) {
            Ok((moved, _)) => lines.extend(moved),
            // The others are served.
            Err(error) => failures.push(format!("account {account}: {error:#}")),
        }
    }
    let json = json!({ "moves": lines.len(), "failures": failures });
    let text = if lines.is_empty() { "nothing to move".to_owned() } else { lines.join("\n") };
    let failure = (!failures.is_empty()).then(|| failures.join("; "));
    Ok(Outcome { failure, ..Outcome::of(text, json) })
}

/// Settles an account, and carries out the moves that `plan` finds for its free cash. Returns a
/// line for each move and settlement, and the standings behind them.
fn bring(
    admin: &mut Admin,
    account_id: AccountId,
    plan: impl Fn(&[(PartitionId, i128)]) -> Vec<Move>,
) -> anyhow::Result<(Vec<String>, Standings)> {
    let mut standings = Standings::of(admin, account_id)?;
    let mut lines = settle_all(admin, account_id, &standings)?;
    if !lines.is_empty() {
        standings = Standings::of(admin, account_id)?;
    }
    let moves = plan(&standings.free());
    let mut last_id = standings.last_transfer_id();
    for (Move { from, to, cash }, done) in moves.iter().copied().zip(0..) {
        let transfer_id = unix_time().0.max(last_id.saturating_add(1));
        last_id = transfer_id;
        let sent = Sent { transfer_id, from, to, cash };
        let moved = move_cash(admin, account_id, sent, true);
        moved.with_context(|| format!("{done} of {} moves are done", moves.len()))?;
        lines.push(moved_text(account_id, &sent));
    }
    if !moves.is_empty() {
        standings = Standings::of(admin, account_id)?;
    }
    Ok((lines, standings))
}

/// Says which halves of a move were carried out now; the others had been before.
#[derive(Clone, Copy, Debug)]
struct Moved {
    is_out: bool,
    is_in: bool,
}

/// Carries out both halves of a move. A number `is_new` if no move has had it before.
fn move_cash(
    admin: &mut Admin,
    account_id: AccountId,
    sent: Sent,
    is_new: bool,
) -> anyhow::Result<Moved> {
    let Sent { transfer_id, from, to, cash } = sent;
    let again = format!(
        "weir admin cash move --account {account_id} --from {from} --to {to} --cash {cash} \
         --transfer-id {transfer_id}"
    );
    let look = |id: PartitionId| {
        format!(
            "look for transfer {transfer_id} of account {account_id} in the log of partition {id} \
             (weir log dump)"
        )
    };
    let is_out = match transfer(admin, account_id, &sent, from) {
        Ok(is_out) => is_out,
        Err(error) if is_decided(&error, is_new) => {
            return Err(with_name(error.into()).context("nothing was moved"));
        }
        Err(error @ ClientError::Refused { .. }) => {
            let error = with_name(error.into());
            bail!(
                "{error:#}. That does not tell whether the cash left partition {from} before: {}. \
                 If it is there, with partition {to} at its other end, finish: weir admin deposit \
                 --account {account_id} --partition {to} --peer {from} --cash {cash} --transfer-id \
                 {transfer_id}; if not, nothing was moved",
                look(from)
            );
        }
        Err(error) => return Err(error).with_context(|| format!("it may be out; repeat: {again}")),
    };
    let is_in = match transfer(admin, account_id, &sent, to) {
        Ok(is_in) => is_in,
        // What left the one partition just now has not entered the other one before.
        Err(error) if is_decided(&error, is_out) => {
            let error = with_name(error.into());
            bail!(
                "{cash} of account {account_id} are out of partition {from} and not in {to}, which \
                 says: {error:#}. Remove the cause and repeat: {again}; or give them back: weir \
                 admin deposit --account {account_id} --partition {from} --cash {cash}"
            );
        }
        Err(error @ ClientError::Refused { .. }) => {
            let error = with_name(error.into());
            bail!(
                "{cash} of account {account_id} are out of partition {from}, and may be in {to}, \
                 which says: {error:#}. Repeat: {again}; if it is refused for the number, {}, and \
                 give nothing back before",
                look(to)
            );
        }
        Err(error) => return Err(error).with_context(|| format!("it is out; repeat: {again}")),
    };
    Ok(Moved { is_out, is_in })
}

/// Carries out the half of a move in partition `here`; returns false if it had been before.
fn transfer(
    admin: &mut Admin,
    account_id: AccountId,
    sent: &Sent,
    here: PartitionId,
) -> Result<bool, ClientError> {
    let (cash, peer) =
        if here == sent.from { (-sent.cash, sent.to) } else { (sent.cash, sent.from) };
    let transfer = Transfer {
        request_no: RequestNo::NONE,
        transfer_id: sent.transfer_id,
        cash: Cash(cash),
        position_qty: 0,
        session_id: SessionId::NONE,
        account_id,
        instrument_id: InstrumentId::NONE,
        partition_id: here,
        peer_partition_id: peer,
    };
    admin.request(here, Request::Transfer(transfer)).map(|done| done > 0)
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

    #[test]
    fn weights_are_of_partitions_that_are_there_and_named_once() {
        let here = [3, 7].map(PartitionId);
        assert_eq!(weights_of(&here, &[]).unwrap(), [1, 1]);
        assert_eq!(weights_of(&here, &[(7, 2)]).unwrap(), [0, 2]);
        for (given, said) in [
            (&[(4, 1)][..], "no trading partition 4"),
            (&[(3, 1), (3, 2)], "partition 3 has two weights"),
            (&[(3, 0)], "no partition has a weight"),
        ] {
            let error = weights_of(&here, given).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(parse_weight("3=2"), Ok((3, 2)));
        for text in ["3", "3=", "=2", "3=-1", "70000=1"] {
            assert!(parse_weight(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_that_no_number_of_json_holds_are_text() {
        assert_eq!(amount(-5), json!(-5));
        assert_eq!(amount(1 << 70), json!("1180591620717411303424"));
    }
}
