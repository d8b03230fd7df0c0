//! `weir admin`: an operator's requests, one per call, each waited for.
//!
//! A refusal is an error with the engine's reason and a failing exit status. A new session's key
//! is drawn here, printed once and kept nowhere; the node gets its hash.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use weir_client::admin::switch;
use weir_client::clock::{nanos, unix_time};
use weir_client::load::setup::{fresh_key, key_hash};
use weir_client::status::{InstrumentStatus, StatusPage, phase_name};
use weir_client::{Admin, ClientError};
use weir_runtime::civil::{Date, parse_moment, utc};
use weir_types::{
    AccountId, Cash, ClOrdId, Credential, CredentialKind, FirmId, InstrumentId, KillScope,
    MassCancelScope, MatchId, Nanos, PartitionId, Phase, Price, Qty, Reason, RequestNo, Role,
    SessionId, Symbol,
};
use weir_wire::Request;
use weir_wire::order_entry::MassCancel;
use weir_wire::reference::{
    DefineAccount, DefineFirm, DefineInstrument, DefineSession, KillSwitch, Transfer,
};

use super::calendar::{Calendar, parse_phase};
use super::endpoint::{DIR_VARIABLE, Login, dir_of, hex, key_file_name};
use super::explain::contradictions;
use super::keygen::{parse_32, read_public_key};
use super::standing::AcceptedDefinitions;
use super::units;

/// Options of `weir admin`.
#[derive(Debug, clap::Args)]
pub struct AdminArgs {
    #[command(flatten)]
    login: Login,
    /// One JSON object instead of a sentence.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AdminCommand {
    /// Define an instrument, or change it.
    Instrument(InstrumentArgs),
    /// Define a firm.
    Firm {
        /// Its identifier.
        #[arg(long, value_parser = identifier)]
        id: u32,
        /// Its name: up to 16 characters.
        #[arg(long)]
        name: String,
        /// Live orders of its sessions together, in each partition; 0 for the partition's default.
        #[arg(long, value_name = "ORDERS", default_value_t = 0)]
        live_orders_max: u32,
    },
    /// Define an account.
    Account {
        /// Its identifier.
        #[arg(long, value_parser = identifier)]
        id: u32,
        /// Its firm.
        #[arg(long, value_parser = identifier)]
        firm: u32,
        /// May sell what it does not hold and buy on credit.
        #[arg(long)]
        unlimited: bool,
        /// Live orders for it, in each partition; 0 for the partition's default.
        #[arg(long, value_name = "ORDERS", default_value_t = 0)]
        live_orders_max: u32,
    },
    /// Define a session; draws its API key and prints it once, unless it has a key already. A
    /// session that is logged on by another key than the new one is ended.
    Session(SessionArgs),
    /// Move cash or a position into an account; negative amounts move out.
    Deposit(DepositArgs),
    /// Set an instrument's phase, now.
    Phase {
        /// Its symbol or identifier, or all.
        instrument: String,
        /// closed, opening-call, continuous, volatility-call, closing-call or halted.
        #[arg(value_parser = parse_phase)]
        phase: Phase,
    },
    /// File a change of phase for later, or forget those filed.
    Schedule(ScheduleArgs),
    /// File the changes of phase of the days to come, as a calendar says.
    Calendar(CalendarArgs),
    /// Take a trade back: cash and lots return, both sides are told, the orders stay as they are.
    Bust {
        /// The trade's number, as both sides' reports give it.
        match_id: u64,
        /// The partition that it happened in.
        #[arg(long, default_value_t = 1)]
        partition: u16,
    },
    /// Halt an instrument: no entry, no trades; cancels are served.
    Halt {
        /// Its symbol or identifier, or all.
        instrument: String,
    },
    /// Resume continuous trading.
    Resume {
        /// Its symbol or identifier, or all.
        instrument: String,
    },
    /// Stop entry for somebody; cancels are served.
    Kill {
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
    },
    /// Cancel all live orders of a firm or an account, or of an instrument over all firms.
    Cancel(CancelArgs),
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
struct InstrumentArgs {
    /// Its identifier.
    #[arg(long)]
    id: u32,
    /// Its name: up to 16 characters.
    #[arg(long)]
    symbol: String,
    /// The partition that trades it.
    #[arg(long, default_value_t = 1)]
    partition: u16,
    /// Prices are multiples of this mantissa.
    #[arg(long, default_value_t = 1)]
    tick: i64,
    /// Quantities are multiples of this.
    #[arg(long, default_value_t = 1)]
    lot: u64,
    /// The largest quantity of an order.
    #[arg(long, default_value_t = 1_000_000_000)]
    qty_max: u64,
    /// The lowest price, as a mantissa.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    price_min: i64,
    /// The highest price, as a mantissa; by default the highest of the published market,
    /// 429496.7295.
    #[arg(long)]
    price_max: Option<i64>,
    /// A price of mantissa m is m times ten to this power.
    #[arg(long, default_value_t = -2, allow_negative_numbers = true)]
    price_exponent: i8,
    /// A lot is ten to this power units.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    qty_exponent: i8,
    /// The phase it begins in.
    #[arg(long, default_value = "continuous", value_parser = parse_phase)]
    phase: Phase,
    /// The static reference until an uncrossing trades, as a mantissa; 0 for none.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    reference_price: i64,
    /// The largest distance of a trade from the static reference, in basis points; 0 for no collar.
    #[arg(long, value_name = "BASIS_POINTS", default_value_t = 0)]
    static_collar: u32,
    /// The largest distance of a trade from the last price, in basis points; 0 for no collar.
    #[arg(long, value_name = "BASIS_POINTS", default_value_t = 0)]
    dynamic_collar: u32,
    /// Duration of a volatility call; 0: until an operator ends it, a number alone is
    /// milliseconds. `--volatility-call-ms` is the same.
    #[arg(long, alias = "volatility-call-ms", value_name = "TIME", default_value = "0ms",
          value_parser = units::millis)]
    volatility_call: Duration,
}

#[derive(Debug, clap::Args)]
struct SessionArgs {
    /// Its identifier.
    #[arg(long, value_parser = identifier)]
    id: u32,
    /// Its firm; not for supervisors and operators.
    #[arg(long, default_value_t = 0)]
    firm: u32,
    /// trader, supervisor, operator, drop-copy or source.
    #[arg(long, default_value = "trader", value_parser = parse_role)]
    role: Role,
    /// New orders and replaces a second that each partition takes; 0 for no bound.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 0)]
    order_rate: u32,
    /// Requests that may be without an answer; 0 for no bound.
    #[arg(long, value_name = "REQUESTS", default_value_t = 0)]
    in_flight: u32,
    /// Its live orders, in each partition; 0 for the partition's default.
    #[arg(long, value_name = "ORDERS", default_value_t = 0)]
    live_orders_max: u32,
    /// It logs on by signature: its public key, a file that `weir keygen` made.
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// It has an API key already: the key's hash, as printed when it was drawn.
    #[arg(long, value_name = "HEX", conflicts_with = "public_key")]
    key_hash: Option<String>,
    /// Store the drawn API key in DIR/session-ID.key, readable by its owner only, where commands on
    /// this machine find it; DIR is that of --dir.
    #[arg(long, conflicts_with_all = ["public_key", "key_hash"])]
    keep_key: bool,
    /// Expiry of its key: 2026-11-23T08:50:00Z, an offset such as +01:00 for the Z, or
    /// from now: +90s, +10m. For ever when not given.
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
}

#[derive(Debug, clap::Args)]
struct ScheduleArgs {
    /// The instrument's symbol or identifier, or all.
    instrument: String,
    /// The phase to be in then.
    #[arg(value_parser = parse_phase, required_unless_present = "clear")]
    phase: Option<Phase>,
    /// Time: 2026-11-23T08:50:00Z, an offset such as +01:00 for the Z, or from now: +90s, +10m.
    #[arg(long, value_name = "TIME", required_unless_present = "clear")]
    at: Option<String>,
    /// Forget all changes filed for the instrument instead.
    #[arg(long, conflicts_with_all = ["at", "phase"])]
    clear: bool,
}

#[derive(Debug, clap::Args)]
struct CalendarArgs {
    /// The calendar: see docs/operations.md.
    file: PathBuf,
    /// The instruments' symbols or identifiers, or all.
    #[arg(long, value_name = "SYMBOL", value_delimiter = ',', default_value = "all")]
    instruments: Vec<String>,
    /// Number of days to file.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=366))]
    days: u32,
    /// The first of them; today when not given.
    #[arg(long, value_name = "YYYY-MM-DD")]
    from: Option<Date>,
    /// Forget what is filed for the instruments before.
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
    /// The partition of the cash; the instrument's when a position moves.
    #[arg(long, default_value_t = 1)]
    partition: u16,
    /// The transfer's own number, increasing per account: the last one again, with the same
    /// amounts, moves nothing and says so; any other that is not above it is refused. The time of
    /// day when not given.
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
    let mut admin = args.login.admin()?;
    let outcome = carry_out(&mut admin, &args).map_err(with_name)?;
    admin.close()?;
    if args.json {
        println!("{}", outcome.json);
    } else {
        println!("{}", outcome.text);
    }
    Ok(())
}

/// A refusal with its reason's name, as the protocol's pages have it.
fn with_name(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused { request, reason, subject }) => {
            let subject = if subject.is_empty() { String::new() } else { format!(" ({subject})") };
            anyhow::anyhow!("{request}{subject} is refused: {reason:?}: {reason}")
        }
        _ => error,
    }
}

struct Outcome {
    text: String,
    json: serde_json::Value,
}

fn done(text: String) -> Outcome {
    let json = serde_json::json!({ "done": text });
    Outcome { text, json }
}

fn carry_out(admin: &mut Admin, args: &AdminArgs) -> anyhow::Result<Outcome> {
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    match &args.command {
        AdminCommand::Instrument(instrument) => define_instrument(admin, &args.login, instrument),
        AdminCommand::Firm { id, name, live_orders_max } => {
            let (firm_id, name, live_orders_max) = (FirmId(*id), symbol(name)?, *live_orders_max);
            let definition = DefineFirm { request_no, name, session_id, firm_id, live_orders_max };
            admin.define_firm(definition)?;
            Ok(done(format!("firm {id} is {name}")))
        }
        AdminCommand::Account { id, firm, unlimited, live_orders_max } => {
            let (account_id, firm_id) = (AccountId(*id), FirmId(*firm));
            let unlimited = switch(*unlimited);
            let definition = DefineAccount {
                request_no,
                session_id,
                account_id,
                firm_id,
                unlimited,
                live_orders_max: *live_orders_max,
            };
            admin.define_account(definition).map_err(|error| {
                stands(error, || match standing(args).account(account_id) {
                    Some(first) => format!("--firm {firm}: {first} stands and cannot be changed"),
                    None => format!("--firm {firm}: the first firm of account {id} stands"),
                })
            })?;
            Ok(done(format!("account {id} is firm {firm}'s")))
        }
        AdminCommand::Session(session) => define_session(admin, args, session),
        AdminCommand::Deposit(deposit) => transfer(admin, args, deposit),
        AdminCommand::Phase { instrument, phase } => set_phase(admin, args, instrument, *phase),
        AdminCommand::Halt { instrument } => set_phase(admin, args, instrument, Phase::Halted),
        AdminCommand::Resume { instrument } => {
            set_phase(admin, args, instrument, Phase::Continuous)
        }
        AdminCommand::Schedule(of) => schedule(admin, args, of),
        AdminCommand::Calendar(of) => file_calendar(admin, args, of),
        AdminCommand::Bust { match_id, partition } => {
            admin.bust_trade(PartitionId(*partition), MatchId(*match_id))?;
            let text = format!("trade {match_id} of partition {partition} is taken back");
            let json = serde_json::json!({ "busted": match_id, "partition": partition });
            Ok(Outcome { text, json })
        }
        AdminCommand::Cancel(of) => mass_cancel(admin, args, of),
        AdminCommand::Kill { scope, id, partition, off } => {
            if *scope != KillScope::All && *id == 0 {
                bail!("whom? give the firm's, account's or session's identifier");
            }
            let partitions = match partition {
                Some(partition) => vec![PartitionId(*partition)],
                None => admin.partitions(),
            };
            let (id, scope, switch) = (*id, *scope, switch(!off));
            for partition_id in partitions {
                let kill = KillSwitch { request_no, session_id, id, partition_id, scope, switch };
                admin.kill_switch(kill)?;
            }
            let state = if *off { "allowed again" } else { "stopped" };
            Ok(done(format!("entry is {state}: {scope:?} {id}")))
        }
    }
}

/// The highest price that the published market can tell, as a mantissa, or the instrument's own
/// prices where they are higher.
fn price_max_of(args: &InstrumentArgs) -> i64 {
    /// In ten-thousandths, with 32 bits.
    const HIGHEST: i64 = u32::MAX as i64;
    let shift = i32::from(args.price_exponent) + 4;
    let scale = 10i64.checked_pow(shift.unsigned_abs());
    let highest = match scale {
        Some(scale) if shift >= 0 => HIGHEST / scale,
        Some(scale) => HIGHEST.saturating_mul(scale),
        None if shift >= 0 => 0,
        None => i64::MAX,
    };
    highest.max(args.price_min).max(args.reference_price)
}

fn define_instrument(
    admin: &mut Admin,
    login: &Login,
    args: &InstrumentArgs,
) -> anyhow::Result<Outcome> {
    let definition = DefineInstrument {
        request_no: RequestNo::NONE,
        symbol: symbol(&args.symbol)?,
        tick_size: Price(args.tick),
        lot_size: Qty(args.lot),
        order_qty_max: Qty(args.qty_max),
        price_min: Price(args.price_min),
        price_max: Price(args.price_max.unwrap_or_else(|| price_max_of(args))),
        reference_price: Price(args.reference_price),
        volatility_call: nanos(args.volatility_call),
        static_collar: args.static_collar,
        dynamic_collar: args.dynamic_collar,
        session_id: SessionId::NONE,
        instrument_id: InstrumentId(args.id),
        partition_id: PartitionId(args.partition),
        price_exponent: args.price_exponent,
        qty_exponent: args.qty_exponent,
        phase: args.phase,
    };
    admin.define_instrument(definition).or_else(|error| match error {
        ClientError::Refused { reason: Reason::InvalidDefinition, .. } => {
            let (_, found) = login.endpoint.status_until(|page| {
                let found = contradictions(&definition, &page.instruments);
                (!found.is_empty()).then_some(found)
            })?;
            let Some(found) = found else { bail!("InvalidDefinition: {error}") };
            bail!("the definition contradicts (InvalidDefinition): {}", found.join("; "))
        }
        error => Err(error.into()),
    })?;
    // Commands find instruments on the status page, which a definition reaches a moment later. A
    // page that cannot be read is the next command's matter.
    let id = InstrumentId(args.id);
    let is_there = |page: &StatusPage| {
        page.instruments.iter().any(|one| one.instrument_id() == id).then_some(())
    };
    let _ = login.endpoint.status_until(is_there);
    Ok(done(format!("instrument {} is {} in partition {}", args.id, args.symbol, args.partition)))
}

fn define_session(
    admin: &mut Admin,
    command: &AdminArgs,
    args: &SessionArgs,
) -> anyhow::Result<Outcome> {
    let id = args.id;
    let dir = dir_of(command.login.dir.as_deref(), DIR_VARIABLE, "weir-data");
    if args.keep_key && !dir.is_dir() {
        bail!("no directory {} to keep the key in: name the node's with --dir", dir.display());
    }
    let (credential, credential_kind, drawn) = credential(args)?;
    let valid_until = match &args.expires {
        Some(text) => {
            let at = parse_moment(text, unix_time());
            at.map_err(anyhow::Error::msg).context("--expires")?
        }
        None => Nanos(0),
    };
    let definition = DefineSession {
        request_no: RequestNo::NONE,
        valid_until,
        credential,
        session_id: SessionId::NONE,
        defined_session_id: SessionId(id),
        firm_id: FirmId(args.firm),
        order_rate_max: args.order_rate,
        in_flight_max: args.in_flight,
        role: args.role,
        credential_kind,
        live_orders_max: args.live_orders_max,
    };
    admin.define_session(definition).map_err(|error| {
        stands(error, || session_contradiction(args, standing(command).session(SessionId(id))))
    })?;
    let file = if args.keep_key { Some(keep_key(&dir, id, drawn.as_deref())?) } else { None };
    let kept = hex(&credential.0);
    let mut text = match (&drawn, credential_kind) {
        (Some(_), _) if let Some(file) = &file => {
            format!("session {id} has an API key in {}; its hash: {kept}", file.display())
        }
        (Some(key), _) => {
            format!("session {id} has this API key; it is not shown again\n{key}\nits hash: {kept}")
        }
        (None, CredentialKind::ApiKey) => format!("session {id} has the API key of hash {kept}"),
        (None, CredentialKind::Ed25519) => format!("session {id} logs on by the key of {kept}"),
    };
    if args.expires.is_some() {
        text.push_str(&format!("\nit expires at {}", utc(valid_until)));
    }
    let key_file = file.as_ref().map(|file| file.display().to_string());
    let json = serde_json::json!({
        "session": id, "api_key": if file.is_some() { None } else { drawn }, "key_file": key_file,
        "credential": kept, "valid_until_ns": valid_until.0,
    });
    Ok(Outcome { text, json })
}

/// The definitions that stand, where this machine has the node's directory.
fn standing(args: &AdminArgs) -> AcceptedDefinitions {
    let dir = dir_of(args.login.dir.as_deref(), DIR_VARIABLE, "weir-data");
    let found =
        args.login.endpoint.status_until(|page| AcceptedDefinitions::read(&dir, &page.json));
    // Without a status page the error is told as the node told it.
    found.ok().and_then(|(_, standing)| standing).unwrap_or_default()
}

/// The fields of a session's definition that contradict each other or the standing definition.
fn session_contradiction(args: &SessionArgs, standing: Option<(Role, FirmId)>) -> String {
    let (id, role, firm) = (args.id, name_of(&args.role), FirmId(args.firm));
    if !args.role.has_firm() && !firm.is_none() {
        return format!("--firm {firm}: the role {role} has no firm");
    }
    let Some((first_role, first_firm)) = standing else {
        return format!(
            "--role {role}, --firm {firm}: the first role and firm of session {id} stand"
        );
    };
    let mut found = Vec::new();
    if first_role != args.role {
        let first = name_of(&first_role);
        found.push(format!("--role {role}: {first} stands and cannot be changed"));
    }
    if first_firm != firm {
        found.push(format!("--firm {firm}: {first_firm} stands and cannot be changed"));
    }
    found.join("; ")
}

/// A contradiction with the standing definition, in words.
fn stands(error: ClientError, text: impl FnOnce() -> String) -> anyhow::Error {
    match error {
        ClientError::Refused { reason: Reason::InvalidDefinition, .. } => {
            anyhow::anyhow!("the definition contradicts (InvalidDefinition): {}", text())
        }
        ClientError::Refused { reason: Reason::UnknownFirm, .. } => anyhow::anyhow!(
            "UnknownFirm: no such firm; define it first with `weir admin firm --id ID --name NAME`"
        ),
        error => error.into(),
    }
}

/// Stores a drawn key in the directory of the node on this machine.
fn keep_key(dir: &Path, id: u32, drawn: Option<&str>) -> anyhow::Result<PathBuf> {
    let key = drawn.context("a key that was not drawn here is not stored")?;
    let path = dir.join(key_file_name(id));
    weir_io::durable::write_file(&path, format!("{key}\n").as_bytes(), 0o600)
        .with_context(|| format!("the key file {}", path.display()))?;
    Ok(path)
}

/// The credential that the node stores, its kind, and the API key if one was drawn.
fn credential(args: &SessionArgs) -> anyhow::Result<(Credential, CredentialKind, Option<String>)> {
    if let Some(path) = &args.public_key {
        return Ok((Credential(read_public_key(path)?), CredentialKind::Ed25519, None));
    }
    if let Some(text) = &args.key_hash {
        let hash = parse_32(text).context("--key-hash: want 64 hexadecimal digits")?;
        return Ok((Credential(hash), CredentialKind::ApiKey, None));
    }
    let key = fresh_key()?;
    Ok((key_hash(&key), CredentialKind::ApiKey, Some(hex(&key.0))))
}

fn transfer(admin: &mut Admin, args: &AdminArgs, deposit: &DepositArgs) -> anyhow::Result<Outcome> {
    let (instrument_id, partition_id) = match &deposit.instrument {
        Some(name) => {
            let instrument = args.login.endpoint.instrument(name)?;
            (instrument.instrument_id(), instrument.partition_id())
        }
        None => (InstrumentId::NONE, PartitionId(deposit.partition)),
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
    });
    let is_moved = admin.request(partition_id, transfer)? > 0;
    let what = format!(
        "account {} got cash {} and {position_qty} lots in partition {partition_id} \
         (transfer {transfer_id})",
        deposit.account, deposit.cash
    );
    let text = if is_moved { what } else { format!("{what}: before now; nothing was moved again") };
    let json = serde_json::json!({ "transfer_id": transfer_id, "moved": is_moved });
    Ok(Outcome { text, json })
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
    let mut cancelled = 0;
    for partition_id in partitions {
        let cancel = MassCancel {
            request_no: RequestNo::NONE,
            cl_ord_id: ClOrdId::NONE,
            sending_time: Nanos(0),
            session_id: SessionId::NONE,
            instrument_id: instrument.as_ref().map_or(InstrumentId::NONE, |i| i.instrument_id()),
            account_id: AccountId(if of.scope == MassCancelScope::Account { id } else { 0 }),
            firm_id: FirmId(if of.scope == MassCancelScope::Firm { id } else { 0 }),
            partition_id,
            scope: of.scope,
        };
        cancelled += admin.request(partition_id, Request::MassCancel(cancel))?;
    }
    let text = format!("{cancelled} orders of {:?} {} are cancelled", of.scope, of.of);
    Ok(Outcome { text, json: serde_json::json!({ "cancelled": cancelled }) })
}

fn set_phase(
    admin: &mut Admin,
    args: &AdminArgs,
    name: &str,
    phase: Phase,
) -> anyhow::Result<Outcome> {
    let instruments = named(args, &[name.to_owned()])?;
    for_each(&instruments, |instrument| {
        admin.set_phase(instrument.partition_id(), instrument.instrument_id(), phase)
    })?;
    let symbols: Vec<_> = instruments.iter().map(|i| i.symbol.as_str()).collect();
    Ok(done(format!("{} is {}", symbols.join(", "), phase_name(phase))))
}

/// The instruments of these names; `all` is each that the node has.
fn named(args: &AdminArgs, names: &[String]) -> anyhow::Result<Vec<InstrumentStatus>> {
    if names.iter().any(|name| name == "all") {
        let all = args.login.endpoint.status()?.instruments;
        anyhow::ensure!(!all.is_empty(), "the node has no instruments");
        return Ok(all);
    }
    names.iter().map(|name| args.login.endpoint.instrument(name)).collect()
}

/// Asks for each instrument, also behind one that is refused; then names those that were.
fn for_each(
    instruments: &[InstrumentStatus],
    mut ask: impl FnMut(&InstrumentStatus) -> Result<(), ClientError>,
) -> anyhow::Result<()> {
    let mut refused = Vec::new();
    for instrument in instruments {
        match ask(instrument) {
            Ok(()) => {}
            Err(ClientError::Refused { reason, .. }) => {
                refused.push(format!("{}: {reason:?}: {reason}", instrument.symbol));
            }
            Err(error) => return Err(error).with_context(|| instrument.symbol.clone()),
        }
    }
    let count = instruments.len();
    anyhow::ensure!(
        refused.is_empty(),
        "refused for {} of {count} instruments: {}",
        refused.len(),
        refused.join("; ")
    );
    Ok(())
}

fn schedule(admin: &mut Admin, args: &AdminArgs, of: &ScheduleArgs) -> anyhow::Result<Outcome> {
    let instruments = named(args, std::slice::from_ref(&of.instrument))?;
    let (Some(phase), Some(at)) = (of.phase, &of.at) else {
        let cleared = clear(admin, &instruments)?;
        let text = format!("{cleared} changes of {} are forgotten", of.instrument);
        return Ok(Outcome { text, json: serde_json::json!({ "cleared": cleared }) });
    };
    let at = parse_moment(at, unix_time()).map_err(anyhow::Error::msg).context("--at")?;
    file(admin, &instruments, &[(at, phase)])?;
    Ok(told(&instruments, &[(at, phase)], false))
}

fn clear(admin: &mut Admin, instruments: &[InstrumentStatus]) -> anyhow::Result<u64> {
    let mut cleared = 0;
    for_each(instruments, |instrument| {
        let (partition_id, instrument_id) = (instrument.partition_id(), instrument.instrument_id());
        cleared += admin.clear_schedule(partition_id, instrument_id)?;
        Ok(())
    })?;
    Ok(cleared)
}

fn file(
    admin: &mut Admin,
    instruments: &[InstrumentStatus],
    changes: &[(Nanos, Phase)],
) -> anyhow::Result<()> {
    for_each(instruments, |instrument| {
        let (partition_id, instrument_id) = (instrument.partition_id(), instrument.instrument_id());
        changes.iter().try_for_each(|(at, phase)| {
            admin.schedule_phase(partition_id, instrument_id, *at, *phase)
        })
    })
}

fn told(instruments: &[InstrumentStatus], changes: &[(Nanos, Phase)], is_dry: bool) -> Outcome {
    let symbols: Vec<_> = instruments.iter().map(|i| i.symbol.as_str()).collect();
    let lines =
        changes.iter().map(|(at, phase)| format!("  {}  {}\n", utc(*at), phase_name(*phase)));
    let text = format!(
        "{} changes {} for {}\n{}",
        changes.len(),
        if is_dry { "would be filed" } else { "are filed" },
        symbols.join(", "),
        lines.collect::<String>()
    );
    let rows: Vec<_> = changes
        .iter()
        .map(|(at, phase)| {
            serde_json::json!({ "at": utc(*at), "at_ns": at.0, "phase": phase_name(*phase) })
        })
        .collect();
    let json = serde_json::json!({ "filed": !is_dry, "instruments": symbols, "changes": rows });
    Outcome { text: text.trim_end().to_owned(), json }
}

fn file_calendar(
    admin: &mut Admin,
    args: &AdminArgs,
    of: &CalendarArgs,
) -> anyhow::Result<Outcome> {
    let path = of.file.display();
    let text = std::fs::read_to_string(&of.file).with_context(|| format!("calendar {path}"))?;
    let calendar = Calendar::parse(&text).with_context(|| format!("calendar {path}"))?;
    let instruments = named(args, &of.instruments)?;
    let now = unix_time();
    let first = of.from.unwrap_or_else(|| calendar.date_of(now));
    let mut changes = calendar.changes(first, of.days);
    // What is over cannot be filed: the node takes only what is to come.
    changes.retain(|(at, _)| *at > now);
    if !of.dry_run {
        if of.replace {
            clear(admin, &instruments)?;
        }
        file(admin, &instruments, &changes)?;
    }
    Ok(told(&instruments, &changes, of.dry_run))
}

fn symbol(text: &str) -> anyhow::Result<Symbol> {
    let symbol = Symbol::new(text).filter(|symbol| symbol.is_valid() && !symbol.is_none());
    symbol.with_context(|| format!("{text:?} is not a name of 1 to 16 printable characters"))
}

/// The name of an option's value: in lower case with hyphens between its words.
fn name_of<T: std::fmt::Debug>(value: &T) -> String {
    let camel = format!("{value:?}");
    let words = camel.char_indices().map(|(at, letter)| match letter {
        'A'..='Z' if at > 0 => format!("-{}", letter.to_ascii_lowercase()),
        _ => letter.to_ascii_lowercase().to_string(),
    });
    words.collect()
}

/// The value whose name, in lower case with hyphens between its words, is `text`.
pub(super) fn by_name<T: Copy + std::fmt::Debug>(text: &str, all: &[T]) -> Result<T, String> {
    all.iter().copied().find(|value| name_of(value) == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(name_of).collect();
        format!("want {}", names.join(", "))
    })
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
    use super::*;

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
            Err("want trader, supervisor, operator, drop-copy, source".to_owned())
        );
    }

    #[test]
    fn identifiers_begin_at_one() {
        assert_eq!(identifier("4294967295"), Ok(u32::MAX));
        for text in ["0", "-1", "4294967296", "x", ""] {
            assert_eq!(identifier(text), Err("want 1 to 4294967295".to_owned()), "{text:?}");
        }
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        instrument: InstrumentArgs,
    }

    #[test]
    fn the_highest_price_by_default_is_that_of_the_published_market() {
        for (words, want) in [
            (&[][..], 42_949_672),
            (&["--price-exponent", "-4"], 4_294_967_295),
            (&["--price-exponent", "-6"], 429_496_729_500),
            (&["--price-exponent", "0"], 429_496),
            (&["--price-exponent", "-100"], i64::MAX),
            (&["--price-exponent", "100"], 1),
            (&["--price-exponent", "9", "--price-min", "5", "--reference-price", "7"], 7),
        ] {
            let words = [&["weir", "--id", "1", "--symbol", "A"], words].concat();
            let line = <Line as clap::Parser>::try_parse_from(&words).unwrap();
            assert_eq!(price_max_of(&line.instrument), want, "{words:?}");
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
