//! `weir admin`: an operator's requests, one per call, each waited for.
//!
//! A refusal is an error with the engine's reason and a failing exit status. A session that another
//! connection keeps is taken over after a second. Definitions are in `define`, the instruments that
//! a command names in `many`, changes of their phases in `phases`, calendars in `filing`, moves of
//! cash between partitions in `cash`, the question before dangerous commands in `consent`.

mod cash;
mod consent;
mod define;
mod filing;
mod many;
mod phases;
mod source;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use weir_client::admin::switch;
use weir_client::clock::unix_time;
use weir_client::status::{InstrumentStatus, phase_name};
use weir_client::{Admin, ClientError};
use weir_runtime::civil::{Date, parse_moment, utc};
use weir_types::{
    AccountId, Cash, ClOrdId, FirmId, InstrumentId, KillScope, MassCancelScope, MatchId, Nanos,
    PartitionId, Phase, Price, Reason, RequestNo, Role, SessionId, Switch, Symbol,
};
use weir_wire::Request;
use weir_wire::order_entry::MassCancel;
use weir_wire::reference::{ChangePhases, KillSwitch, SetPhase, Transfer};

use super::calendar::parse_phase;
use super::choices::{by_name, name_of};
use super::endpoint::Login;
use super::units::decimal;
use define::{AccountArgs, FirmArgs, InstrumentArgs, SessionArgs};

/// Options of `weir admin`.
#[derive(Debug, clap::Args)]
pub struct AdminArgs {
    #[command(flatten)]
    login: Login,
    /// One JSON object instead of a sentence.
    #[arg(long, global = true)]
    json: bool,
    /// Do without asking what the command asks about on a terminal; needed where there is none.
    #[arg(long, global = true)]
    yes: bool,
    #[command(subcommand)]
    command: AdminCommand,
}

/// The time for which a command leaves its session to the connections that have it, in all: more
/// than another command mostly takes. Then it takes the session over, as from a process that hangs,
/// also from an import, a calendar or a cancel of many orders that is at work.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same of a command that stops trading.
const PATIENCE_TO_STOP: Duration = Duration::from_millis(200);

impl AdminArgs {
    /// The time after which the command takes its session over.
    fn patience(&self) -> Duration {
        match &self.command {
            AdminCommand::Halt { .. } | AdminCommand::Kill(KillArgs { off: false, .. }) => {
                PATIENCE_TO_STOP
            }
            _ => PATIENCE,
        }
    }
}

#[derive(Debug, clap::Subcommand)]
enum AdminCommand {
    /// Define an instrument, or change it. Options that are not given leave their fields as they
    /// are.
    Instrument(InstrumentArgs),
    /// Define a firm, or change it.
    Firm(FirmArgs),
    /// Define an account, or change it.
    Account(AccountArgs),
    /// Define a session, or change it. Draws the API key of a new session and prints it once. A
    /// session that is logged on by another key than a new one is ended.
    Session(SessionArgs),
    /// Move cash or a position into an account; negative amounts move out.
    Deposit(DepositArgs),
    /// Show an account's cash by partition, and move it between them.
    #[command(subcommand)]
    Cash(cash::CashCommand),
    /// Set an instrument's phase, now.
    Phase {
        /// Its symbol or identifier, all, or a group: group:7.
        instrument: String,
        /// closed, opening-call, continuous, volatility-call, closing-call or halted.
        #[arg(value_parser = parse_phase)]
        phase: Phase,
        /// Begin continuous trading also if the call would uncross beyond the collars.
        #[arg(long)]
        override_collars: bool,
    },
    /// File a change of phase for later, or forget those filed.
    Schedule(ScheduleArgs),
    /// File the changes of phase of the days to come, as a calendar says.
    Calendar(CalendarArgs),
    /// Take a trade back: cash and lots return, both sides are told, the orders stay as they are.
    Bust {
        /// The trade's number, as both sides' reports give it.
        match_id: u64,
        /// The partition that it happened in, where there are several.
        #[arg(long)]
        partition: Option<u16>,
        /// Also if a limited account has spent the cash or the lots: it is in debt then.
        #[arg(long)]
        force: bool,
    },
    /// Set the last price or the static reference of an instrument, from which collars are
    /// measured, until a trade sets another. Triggers no stop.
    Reference {
        /// Its symbol or identifier.
        instrument: String,
        /// The last price, such as 10.05, or none.
        #[arg(long, allow_hyphen_values = true, required_unless_present = "fixed")]
        last: Option<String>,
        /// The static reference, or none: the definition's then.
        #[arg(long = "static", value_name = "STATIC", allow_hyphen_values = true)]
        fixed: Option<String>,
    },
    /// Halt an instrument until it is resumed: no entry, no trades; cancels are served. A filed
    /// close closes it, and no other filed change lifts the halt.
    Halt {
        /// Its symbol or identifier, all, or a group: group:7.
        instrument: String,
    },
    /// Lift the halt of an instrument: it goes back to the phase before, and stays closed if that
    /// was it.
    Resume {
        /// Its symbol or identifier, all, or a group: group:7.
        instrument: String,
        /// Back to continuous trading through a volatility call.
        #[arg(long)]
        call: bool,
    },
    /// Stop entry for somebody; cancels are served, and stops that are reached are cancelled.
    Kill(KillArgs),
    /// Reset an outside source.
    Source(source::SourceArgs),
    /// Cancel all live orders of a firm or an account, or of an instrument over all firms.
    Cancel(CancelArgs),
}

#[derive(Debug, clap::Args)]
struct KillArgs {
    /// all, firm, account or session.
    #[arg(value_parser = parse_scope)]
    scope: KillScope,
    /// The firm, account or session.
    #[arg(default_value_t = 0)]
    id: u32,
    /// Only in this partition; else in all.
    #[arg(long)]
    partition: Option<u16>,
    /// Allow entry again.
    #[arg(long)]
    off: bool,
    /// Cancel their live orders too.
    #[arg(long, conflicts_with = "off")]
    cancel: bool,
}

#[derive(Debug, clap::Args)]
struct CancelArgs {
    /// firm, account or instrument.
    #[arg(value_parser = parse_cancel_scope)]
    scope: MassCancelScope,
    /// The firm's or account's identifier, the instrument's symbol or identifier.
    of: String,
    /// Only orders of this instrument: symbol or identifier.
    #[arg(long)]
    instrument: Option<String>,
    /// Only in this partition; else in all, or in the instrument's.
    #[arg(long)]
    partition: Option<u16>,
}

#[derive(Debug, clap::Args)]
struct ScheduleArgs {
    /// The instrument's symbol or identifier, all, or a group: group:7. A group's change is made in
    /// the instruments that are in it then.
    instrument: String,
    /// The phase to be in then.
    #[arg(value_parser = parse_phase, required_unless_present = "clear")]
    phase: Option<Phase>,
    /// Time: 2026-11-23T08:50:00Z, an offset such as +01:00 for the Z, or from now: +90s, +10m.
    #[arg(long, value_name = "TIME", required_unless_present = "clear")]
    at: Option<String>,
    /// Forget the changes filed for the instrument or the group itself instead; of all, those of
    /// each instrument and group too.
    #[arg(long, conflicts_with_all = ["at", "phase"])]
    clear: bool,
}

#[derive(Debug, clap::Args)]
struct CalendarArgs {
    /// The calendar: see docs/operations.md.
    file: PathBuf,
    /// The instruments' symbols or identifiers, groups such as group:7, or all.
    #[arg(long, value_name = "SYMBOL", value_delimiter = ',', default_value = "all")]
    instruments: Vec<String>,
    /// Number of days to file.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=366))]
    days: u32,
    /// The first of them; today when not given, after the rest of a day that began yesterday.
    #[arg(long, value_name = "YYYY-MM-DD")]
    from: Option<Date>,
    /// First forget the changes filed for these instruments or groups themselves; of all, those of
    /// each instrument and group too.
    #[arg(long)]
    replace: bool,
    /// Say what would be filed and file nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct DepositArgs {
    /// The account.
    #[arg(long)]
    account: u32,
    /// Cash, in price units times lots.
    #[arg(long, allow_negative_numbers = true, default_value_t = 0)]
    cash: i128,
    /// The instrument of the position: symbol or identifier.
    #[arg(long, requires = "qty")]
    instrument: Option<String>,
    /// Lots of the instrument.
    #[arg(long, allow_negative_numbers = true, requires = "instrument")]
    qty: Option<i64>,
    /// The partition of the cash, where there are several; the instrument's when a position moves.
    #[arg(long)]
    partition: Option<u16>,
    /// For one half of a move between partitions: the partition at the other end.
    #[arg(long)]
    peer: Option<u16>,
    /// The transfer's own number, increasing per account: the last one again, with the same
    /// amounts and the same other end, moves nothing and says so; any other that is not above it is
    /// refused. The time of day when not given.
    #[arg(long)]
    transfer_id: Option<u64>,
}

/// An identifier; 0 stands for none on the wire.
fn identifier(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|id| *id > 0).ok_or_else(|| format!("want 1 to {}", u32::MAX))
}

/// Runs `weir admin`.
///
/// # Errors
/// When the node cannot be reached or refuses.
pub fn run(args: AdminArgs) -> anyhow::Result<()> {
    // Before the logon, because a session that waits for an answer sends no heartbeats.
    consent::obtain(&args)?;
    let AdminCommand::Cash(command) = &args.command else { return run_once(&args) };
    let Some(every) = command.every() else { return run_once(&args) };
    loop {
        if let Err(error) = run_once(&args) {
            eprintln!("weir: {error:#}");
        }
        std::thread::sleep(Duration::from_secs(every));
    }
}

fn run_once(args: &AdminArgs) -> anyhow::Result<()> {
    let mut admin = args.login.admin_within(args.patience())?;
    let outcome = carry_out(&mut admin, args).map_err(with_name)?;
    let closed = admin.close();
    if args.json {
        println!("{}", outcome.json);
    } else {
        println!("{}", outcome.text);
    }
    if let Some(failure) = outcome.failure {
        bail!(failure);
    }
    closed?;
    outcome.doubt.map_or(Ok(()), |doubt| Err(NotKnownYet(doubt).into()))
}

/// The end of a command that was carried out, and one of whose effects is not known yet.
#[derive(Debug)]
pub struct NotKnownYet(String);

impl NotKnownYet {
    /// The exit status of such a command: it is done, and a script may look again later.
    pub const EXIT_STATUS: u8 = 3;
}

impl std::fmt::Display for NotKnownYet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotKnownYet {}

/// A refusal with its reason's name, as the protocol's pages have it.
fn with_name(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused { request, reason, subject }) => {
            let subject = if subject.is_empty() { String::new() } else { format!(" ({subject})") };
            let reason = match reason {
                Reason::UnknownTemplate => {
                    "UnknownTemplate: the node is older than this command and does not know the \
                     request"
                        .to_owned()
                }
                reason => format!("{reason:?}: {reason}"),
            };
            anyhow::anyhow!("{request}{subject} is refused: {reason}")
        }
        _ => error,
    }
}

struct Outcome {
    text: String,
    json: serde_json::Value,
    /// An effect that is not known yet, and the way to learn of it.
    doubt: Option<String>,
    /// The part that was refused, of a command that was done in another part.
    failure: Option<String>,
}

impl Outcome {
    fn of(text: String, json: serde_json::Value) -> Outcome {
        Outcome { text, json, doubt: None, failure: None }
    }
}

fn done(text: String) -> Outcome {
    let json = serde_json::json!({ "done": text });
    Outcome::of(text, json)
}

fn carry_out(admin: &mut Admin, args: &AdminArgs) -> anyhow::Result<Outcome> {
    match &args.command {
        AdminCommand::Instrument(instrument) => define::instrument(admin, args, instrument),
        AdminCommand::Firm(firm) => define::firm(admin, firm),
        AdminCommand::Account(account) => define::account(admin, args, account),
        AdminCommand::Session(session) => define::session(admin, args, session),
        AdminCommand::Deposit(deposit) => transfer(admin, args, deposit),
        AdminCommand::Cash(command) => cash::carry_out(admin, command),
        AdminCommand::Phase { instrument, phase, override_collars } => {
            set_phase(admin, args, instrument, *phase, switch(*override_collars))
        }
        AdminCommand::Halt { instrument } => {
            set_phase(admin, args, instrument, Phase::Halted, Switch::Off)
        }
        AdminCommand::Resume { instrument, call } => resume(admin, args, instrument, *call),
        AdminCommand::Schedule(of) => schedule(admin, args, of),
        AdminCommand::Calendar(of) => filing::file_calendar(admin, args, of),
        AdminCommand::Bust { match_id, partition, force } => {
            let partition = trading_partition(admin, *partition)?;
            admin
                .bust_trade(partition, MatchId(*match_id), switch(*force))
                .map_err(|error| with_oldest(args, partition, error))?;
            let text = format!("trade {match_id} of partition {partition} is taken back");
            let json = serde_json::json!({ "busted": match_id, "partition": partition.0 });
            Ok(Outcome::of(text, json))
        }
        AdminCommand::Reference { instrument, last, fixed } => {
            set_reference(admin, args, instrument, [last, fixed].map(Option::as_deref))
        }
        AdminCommand::Source(of) => source::carry_out(args, of),
        AdminCommand::Cancel(of) => mass_cancel(admin, args, of),
        AdminCommand::Kill(of) => kill(admin, of),
    }
}

fn kill(admin: &mut Admin, of: &KillArgs) -> anyhow::Result<Outcome> {
    let KillArgs { scope, id, off, cancel, .. } = *of;
    if scope != KillScope::All && id == 0 {
        bail!("whom? give the firm's, account's or session's identifier");
    }
    let partitions = match of.partition {
        Some(partition) => vec![PartitionId(partition)],
        None => admin.partitions(),
    };
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    let (switch_to, cancel_orders) = (switch(!off), switch(cancel));
    let told = many::ask_each(admin, &partitions, |partition_id| {
        let switch = switch_to;
        Request::KillSwitch(KillSwitch {
            request_no,
            session_id,
            id,
            partition_id,
            scope,
            switch,
            cancel_orders,
        })
    })
    .in_some()?;
    let state = if off { "allowed again" } else { "stopped" };
    let text = format!("entry is {state}{}: {scope:?} {id}", told.within());
    let cancelled = told.affected_count();
    let outcome = if cancel {
        let text = format!("{text}; {cancelled} orders are cancelled");
        let json = serde_json::json!({ "done": text, "cancelled": cancelled });
        Outcome::of(text, json)
    } else {
        done(text)
    };
    Ok(Outcome { failure: told.failure(), ..outcome })
}

/// Returns the refusal of a bust; of a trade that is too old with the oldest one that is not.
fn with_oldest(args: &AdminArgs, partition: PartitionId, error: ClientError) -> anyhow::Error {
    let is_too_old = matches!(error, ClientError::Refused { reason: Reason::TradeTooOld, .. });
    let page = is_too_old.then(|| args.login.endpoint.status().ok()).flatten();
    let error = with_name(error.into());
    match page.and_then(|page| oldest_trade(&page.json, partition)) {
        Some(oldest) => anyhow::anyhow!("{error:#}; {oldest}"),
        None => error,
    }
}

/// Returns a sentence with the oldest trade of a partition that can be taken back.
fn oldest_trade(page: &serde_json::Value, partition: PartitionId) -> Option<String> {
    let row = page["partitions"].as_array()?.iter().find(|row| row["id"] == partition.0)?;
    let (oldest, time) = (row["oldest_trade"].as_u64()?, row["oldest_trade_time_ns"].as_u64()?);
    Some(match oldest {
        0 => "no trade can be taken back any more".to_owned(),
        _ => format!("the oldest that can be taken back is {oldest} of {}", utc(Nanos(time))),
    })
}

/// Returns the partition that was given, or the node's only one.
fn trading_partition(admin: &Admin, given: Option<u16>) -> anyhow::Result<PartitionId> {
    match (given, &admin.partitions()[..]) {
        (Some(id), _) => Ok(PartitionId(id)),
        (None, [one]) => Ok(*one),
        (None, []) => bail!("the node has no trading partition"),
        (None, [..]) => bail!("the node has several partitions: give --partition"),
    }
}

fn transfer(admin: &mut Admin, args: &AdminArgs, deposit: &DepositArgs) -> anyhow::Result<Outcome> {
    let (instrument_id, partition_id) = match &deposit.instrument {
        Some(name) => {
            let instrument = args.login.endpoint.instrument(name)?;
            (instrument.instrument_id(), instrument.partition_id())
        }
        None => (InstrumentId::NONE, trading_partition(admin, deposit.partition)?),
    };
    let position_qty = deposit.qty.unwrap_or(0);
    if deposit.cash == 0 && position_qty == 0 {
        bail!("nothing to move: give --cash or --instrument with --qty");
    }
    let transfer_id = deposit.transfer_id.unwrap_or_else(|| unix_time().0);
    let transfer = Request::Transfer(Transfer {
        request_no: RequestNo::NONE,
        transfer_id,
        cash: Cash(deposit.cash),
        position_qty,
        session_id: SessionId::NONE,
        account_id: AccountId(deposit.account),
        instrument_id,
        partition_id,
        peer_partition_id: PartitionId(deposit.peer.unwrap_or(0)),
    });
    let is_moved = admin.request(partition_id, transfer)? > 0;
    let what = format!(
        "account {} got cash {} and {position_qty} lots in partition {partition_id} \
         (transfer {transfer_id})",
        deposit.account, deposit.cash
    );
    let text = if is_moved { what } else { format!("{what}: before now; nothing was moved again") };
    let json = serde_json::json!({ "transfer_id": transfer_id, "moved": is_moved });
    Ok(Outcome::of(text, json))
}

fn mass_cancel(admin: &mut Admin, args: &AdminArgs, of: &CancelArgs) -> anyhow::Result<Outcome> {
    let is_by_instrument = of.scope == MassCancelScope::Instrument;
    if is_by_instrument && of.instrument.is_some() {
        bail!("one instrument: {} or --instrument?", of.of);
    }
    let named = if is_by_instrument { Some(&of.of) } else { of.instrument.as_ref() };
    let instrument = named.map(|name| args.login.endpoint.instrument(name)).transpose()?;
    let id = match of.scope {
        MassCancelScope::Instrument => 0,
        _ => of.of.parse().with_context(|| format!("{:?} is no identifier", of.of))?,
    };
    let partitions = match (&instrument, of.partition) {
        (Some(instrument), _) => vec![instrument.partition_id()],
        (None, Some(partition)) => vec![PartitionId(partition)],
        (None, None) => admin.partitions(),
    };
    let told = many::ask_each(admin, &partitions, |partition_id| {
        Request::MassCancel(MassCancel {
            request_no: RequestNo::NONE,
            cl_ord_id: ClOrdId::NONE,
            sending_time: Nanos(0),
            session_id: SessionId::NONE,
            instrument_id: instrument.as_ref().map_or(InstrumentId::NONE, |i| i.instrument_id()),
            account_id: AccountId(if of.scope == MassCancelScope::Account { id } else { 0 }),
            firm_id: FirmId(if of.scope == MassCancelScope::Firm { id } else { 0 }),
            partition_id,
            scope: of.scope,
        })
    })
    .in_some()?;
    let (cancelled, within) = (told.affected_count(), told.within());
    let text = format!("{cancelled} orders of {:?} {} are cancelled{within}", of.scope, of.of);
    let json = serde_json::json!({ "cancelled": cancelled });
    Ok(Outcome { failure: told.failure(), ..Outcome::of(text, json) })
}

fn set_phase(
    admin: &mut Admin,
    args: &AdminArgs,
    name: &str,
    phase: Phase,
    override_collars: Switch,
) -> anyhow::Result<Outcome> {
    if let Some(group_id) = many::group_of(name)? {
        let change = ChangePhases { phase, override_collars, ..phases::resume_of(group_id) };
        return phases::change(admin, args, ChangePhases { resumes: Switch::Off, ..change });
    }
    let instrument = args.login.endpoint.instrument(name)?;
    let set = SetPhase {
        request_no: RequestNo::NONE,
        session_id: SessionId::NONE,
        instrument_id: instrument.instrument_id(),
        phase,
        override_collars,
    };
    let reached = admin.change_phase(instrument.partition_id(), Request::SetPhase(set))?;
    Ok(reached_by(&instrument, reached))
}

fn resume(
    admin: &mut Admin,
    args: &AdminArgs,
    name: &str,
    through_call: bool,
) -> anyhow::Result<Outcome> {
    if let Some(group_id) = many::group_of(name)? {
        let through_call = switch(through_call);
        let change = ChangePhases { through_call, ..phases::resume_of(group_id) };
        return phases::change(admin, args, change);
    }
    let instrument = args.login.endpoint.instrument(name)?;
    let (partition_id, instrument_id) = (instrument.partition_id(), instrument.instrument_id());
    let reached = admin.resume_trading(partition_id, instrument_id, through_call)?;
    Ok(reached_by(&instrument, reached))
}

/// Tells the phase that an instrument reached: a collar may have made another than the one asked
/// for.
fn reached_by(instrument: &InstrumentStatus, phase: Phase) -> Outcome {
    let (symbol, phase) = (&instrument.symbol, phase_name(phase));
    let text = format!("{symbol} is {phase}");
    let json = serde_json::json!({ "done": text, "phases": { phase: [symbol] } });
    Outcome::of(text, json)
}

fn set_reference(
    admin: &mut Admin,
    args: &AdminArgs,
    name: &str,
    [last, fixed]: [Option<&str>; 2],
) -> anyhow::Result<Outcome> {
    let instrument = args.login.endpoint.instrument(name)?;
    let price = |option: &str, text: Option<&str>| match text {
        None => Ok(None),
        Some("none") => Ok(Some(Price(0))),
        Some(text) => {
            let mantissa = decimal(text, instrument.price_exponent);
            let mantissa = mantissa.map_err(anyhow::Error::msg).context(option.to_owned())?;
            anyhow::ensure!(mantissa != 0, "{option}: zero is no reference; give none");
            Ok(Some(Price(mantissa)))
        }
    };
    let (last_px, static_px) = (price("--last", last)?, price("--static", fixed)?);
    let (partition_id, instrument_id) = (instrument.partition_id(), instrument.instrument_id());
    admin.set_reference(partition_id, instrument_id, last_px, static_px)?;
    let told = [("last price", last), ("static reference", fixed)];
    let parts: Vec<_> =
        told.iter().filter_map(|(what, text)| Some(format!("{what} {}", (*text)?))).collect();
    Ok(done(format!("{}: {}", instrument.symbol, parts.join(", "))))
}

fn schedule(admin: &mut Admin, args: &AdminArgs, of: &ScheduleArgs) -> anyhow::Result<Outcome> {
    let named = many::named(args, std::slice::from_ref(&of.instrument), &admin.partitions())?;
    let (Some(phase), Some(at)) = (of.phase, &of.at) else {
        let mut cleared = 0;
        named.for_each(|owner| {
            cleared += admin.clear_schedules(owner)?;
            Ok(())
        })?;
        if cleared == 0 && of.instrument != "all" {
            many::note_that_others_stay(args, &of.instrument);
        }
        let text = format!("{cleared} changes of {} are forgotten", of.instrument);
        return Ok(Outcome::of(text, serde_json::json!({ "cleared": cleared })));
    };
    let at = time_of(at)?;
    named.for_each(|owner| admin.file_phase(owner, at, phase))?;
    let line = format!("{}  {}", utc(at), phase_name(phase));
    let json = serde_json::json!({ "at": utc(at), "at_ns": at.0, "phase": phase_name(phase) });
    Ok(told(&named.instruments, vec![ChangeRow { line, json }], false))
}

/// A change of phase as it is printed.
struct ChangeRow {
    line: String,
    json: serde_json::Value,
}

fn told(instruments: &[InstrumentStatus], changes: Vec<ChangeRow>, is_dry: bool) -> Outcome {
    let symbols: Vec<_> = instruments.iter().map(|i| i.symbol.as_str()).collect();
    let lines = changes.iter().map(|row| format!("  {}\n", row.line));
    let text = format!(
        "{} changes {} for {}\n{}",
        changes.len(),
        if is_dry { "would be filed" } else { "are filed" },
        symbols.join(", "),
        lines.collect::<String>()
    );
    let rows: Vec<_> = changes.into_iter().map(|row| row.json).collect();
    let json = serde_json::json!({ "filed": !is_dry, "instruments": symbols, "changes": rows });
    Outcome::of(text.trim_end().to_owned(), json)
}

/// Returns the time that an option gives.
fn time_of(at: &str) -> anyhow::Result<Nanos> {
    parse_moment(at, unix_time()).map_err(anyhow::Error::msg).context("--at")
}

fn symbol(text: &str) -> anyhow::Result<Symbol> {
    let symbol = Symbol::new(text).filter(|symbol| symbol.is_valid() && !symbol.is_none());
    symbol.with_context(|| format!("{text:?} is not a name of 1 to 16 printable characters"))
}

fn parse_role(text: &str) -> Result<Role, String> {
    by_name(text, Role::ALL)
}

fn parse_scope(text: &str) -> Result<KillScope, String> {
    by_name(text, KillScope::ALL)
}

fn parse_cancel_scope(text: &str) -> Result<MassCancelScope, String> {
    use MassCancelScope::{Account, Firm, Instrument};
    by_name(text, &[Firm, Account, Instrument])
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: AdminArgs,
    }

    #[test]
    fn commands_that_stop_trading_take_their_session_over_sooner_than_others() {
        let cases: [(&[&str], Duration); 5] = [
            (&["halt", "ABC"], PATIENCE_TO_STOP),
            (&["kill", "all"], PATIENCE_TO_STOP),
            (&["kill", "all", "--off"], PATIENCE),
            (&["resume", "ABC"], PATIENCE),
            (&["source", "reset", "40"], PATIENCE),
        ];
        for (words, patience) in cases {
            let line = Line::try_parse_from([&["admin"], words].concat()).unwrap();
            assert_eq!(line.args.patience(), patience, "{words:?}");
        }
    }

    #[test]
    fn enumerations_are_named_in_lower_case() {
        assert_eq!(parse_role("supervisor"), Ok(Role::Supervisor));
        assert_eq!(parse_role("drop-copy"), Ok(Role::DropCopy));
        assert_eq!(parse_phase("halted"), Ok(Phase::Halted));
        assert_eq!(parse_phase("opening-call"), Ok(Phase::OpeningCall));
        assert_eq!(parse_scope("all"), Ok(KillScope::All));
        assert_eq!(parse_cancel_scope("instrument"), Ok(MassCancelScope::Instrument));
        assert!(parse_cancel_scope("session").is_err(), "an operator's session has no orders");
        assert_eq!(
            parse_role("king"),
            Err("want trader, supervisor, operator, drop-copy, source, gateway".to_owned())
        );
    }

    #[test]
    fn a_refusal_of_an_old_trade_names_the_oldest_that_can_be_taken_back() {
        let row = |id: u16, oldest: u64, time: u64| {
            serde_json::json!({
                "id": id, "oldest_trade": oldest, "oldest_trade_time_ns": time,
            })
        };
        let time = 1_767_600_000_000_000_000;
        let page = serde_json::json!({ "partitions": [row(0, 0, 0), row(1, 7, time)] });
        let oldest = |id| oldest_trade(&page, PartitionId(id));
        let want = "the oldest that can be taken back is 7 of 2026-01-05T08:00:00Z";
        assert_eq!(oldest(1).as_deref(), Some(want));
        assert_eq!(oldest(0).as_deref(), Some("no trade can be taken back any more"));
        assert_eq!(oldest(2), None, "a page of an older node");
    }

    #[test]
    fn identifiers_begin_at_one() {
        assert_eq!(identifier("4294967295"), Ok(u32::MAX));
        for text in ["0", "-1", "4294967296", "x", ""] {
            assert_eq!(identifier(text), Err("want 1 to 4294967295".to_owned()), "{text:?}");
        }
    }

    #[test]
    fn names_are_short_and_printable() {
        assert!(symbol("AAPL").is_ok());
        for text in ["", "A B", "SEVENTEEN-LETTERS", "é"] {
            assert!(symbol(text).is_err(), "{text:?}");
        }
    }
}
