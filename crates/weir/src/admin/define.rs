//! `weir admin instrument|firm|account|session`: definitions, and changes of them.
//!
//! A command sets the fields whose options are given. An identifier that is defined keeps all
//! others; one that is not is defined, with defaults. The node compares, not the command, so that a
//! definition that somebody else makes at the same time is not lost. A new session's key is drawn
//! here, printed once and kept nowhere; the node gets its hash.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use weir_client::admin::switch;
use weir_client::clock::{nanos, unix_time};
use weir_client::load::setup::{fresh_key, key_hash};
use weir_client::status::{InstrumentStatus, StatusPage};
use weir_client::{Admin, ClientError};
use weir_runtime::civil::{parse_moment, utc};
use weir_types::{
    AccountId, Credential, CredentialKind, FirmId, GroupId, InstrumentId, Nanos, PartitionId,
    Phase, Price, Qty, Reason, RequestNo, Role, SessionId, Symbol,
};
use weir_wire::message::Message;
use weir_wire::reference::{
    DefineAccount, DefineFirm, DefineInstrument, DefineSession, NEW, field_bit,
};

use super::{AdminArgs, Outcome, done, identifier, name_of, parse_role, symbol};
use crate::calendar::parse_phase;
use crate::endpoint::{DIR_VARIABLE, Endpoint, Login, dir_of, hex, key_file_name};
use crate::explain::contradictions;
use crate::keygen::{parse_32, read_public_key};
use crate::published::told_as_unfit;
use crate::standing::AcceptedDefinitions;
use crate::units;

/// Options of `weir admin instrument`. A new instrument needs a symbol; the rest has defaults.
#[derive(Debug, clap::Args)]
pub(super) struct InstrumentArgs {
    /// Its identifier.
    #[arg(long)]
    id: u32,
    /// Its name: up to 16 characters. Of an instrument without live orders it can be changed.
    #[arg(long)]
    symbol: Option<String>,
    /// The partition that trades it: without it the one that the node's configuration chooses; of
    /// another node's, 1.
    #[arg(long)]
    partition: Option<u16>,
    /// Prices are multiples of this mantissa; 1 for a new one.
    #[arg(long)]
    tick: Option<i64>,
    /// Quantities are multiples of this; 1 for a new one.
    #[arg(long)]
    lot: Option<u64>,
    /// The largest quantity of an order; 1000000000 for a new one.
    #[arg(long)]
    qty_max: Option<u64>,
    /// The lowest price, as a mantissa; 1 for a new one.
    #[arg(long, allow_negative_numbers = true)]
    price_min: Option<i64>,
    /// The highest price, as a mantissa; for a new one the highest of the published market,
    /// 429496.7295.
    #[arg(long)]
    price_max: Option<i64>,
    /// A price of mantissa m is m times ten to this power; -2 for a new one.
    #[arg(long, allow_negative_numbers = true)]
    price_exponent: Option<i8>,
    /// A lot is ten to this power units; 0 for a new one.
    #[arg(long, allow_negative_numbers = true)]
    qty_exponent: Option<i8>,
    /// The phase it begins in; continuous for a new one.
    #[arg(long, value_parser = parse_phase)]
    phase: Option<Phase>,
    /// The static reference until an uncrossing trades, as a mantissa; 0 for none.
    #[arg(long, allow_negative_numbers = true)]
    reference_price: Option<i64>,
    /// The largest distance of a trade from the static reference, in basis points; 0 for no collar.
    #[arg(long, value_name = "BASIS_POINTS")]
    static_collar: Option<u32>,
    /// The largest distance of a trade from the last price, in basis points; 0 for no collar.
    #[arg(long, value_name = "BASIS_POINTS")]
    dynamic_collar: Option<u32>,
    /// Its group, which `halt group:7` and others name; 0 for none.
    #[arg(long, value_name = "GROUP")]
    group: Option<u16>,
    /// Duration of a volatility call; 0: until an operator ends it, a number alone is
    /// milliseconds. `--volatility-call-ms` is the same.
    #[arg(long, alias = "volatility-call-ms", value_name = "TIME", value_parser = units::millis)]
    volatility_call: Option<Duration>,
}

/// Options of `weir admin firm`. A new firm needs a name.
#[derive(Debug, clap::Args)]
pub(super) struct FirmArgs {
    /// Its identifier.
    #[arg(long, value_parser = identifier)]
    id: u32,
    /// Its name: up to 16 characters.
    #[arg(long)]
    name: Option<String>,
    /// Live orders of its sessions together, in each partition; 0 for the partition's default.
    #[arg(long, value_name = "ORDERS")]
    live_orders_max: Option<u32>,
}

/// Options of `weir admin account`. A new account needs a firm.
#[derive(Debug, clap::Args)]
pub(super) struct AccountArgs {
    /// Its identifier.
    #[arg(long, value_parser = identifier)]
    id: u32,
    /// Its firm.
    #[arg(long, value_parser = identifier)]
    firm: Option<u32>,
    /// May sell what it does not hold and buy on credit.
    #[arg(long)]
    unlimited: bool,
    /// May not, as a new account.
    #[arg(long, conflicts_with = "unlimited")]
    limited: bool,
    /// Live orders for it, in each partition; 0 for the partition's default.
    #[arg(long, value_name = "ORDERS")]
    live_orders_max: Option<u32>,
}

/// Options of `weir admin session`. A new session of the role trader needs a firm.
#[derive(Debug, clap::Args)]
pub(super) struct SessionArgs {
    /// Its identifier.
    #[arg(long, value_parser = identifier)]
    id: u32,
    /// Its firm; not for supervisors and operators.
    #[arg(long)]
    firm: Option<u32>,
    /// trader, supervisor, operator, drop-copy or source; trader for a new one.
    #[arg(long, value_parser = parse_role)]
    role: Option<Role>,
    /// New orders and replaces a second that each partition takes; 0 for no bound.
    #[arg(long, value_name = "PER_SECOND")]
    order_rate: Option<u32>,
    /// Requests that may be without an answer; 0 for no bound.
    #[arg(long, value_name = "REQUESTS")]
    in_flight: Option<u32>,
    /// Its live orders, in each partition; 0 for the partition's default.
    #[arg(long, value_name = "ORDERS")]
    live_orders_max: Option<u32>,
    /// It logs on by signature: its public key, a file that `weir keygen` made.
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// It has an API key already: the key's hash, as printed when it was drawn.
    #[arg(long, value_name = "HEX", conflicts_with = "public_key")]
    key_hash: Option<String>,
    /// Draw a new API key for a session that has one. Who uses the old one is ended.
    #[arg(long, conflicts_with_all = ["public_key", "key_hash"])]
    new_key: bool,
    /// Draw an API key, also for a session that has one, and store it in DIR/session-ID.key,
    /// readable by its owner only, where commands on this machine find it; DIR is that of --dir.
    #[arg(long, conflicts_with_all = ["public_key", "key_hash"])]
    keep_key: bool,
    /// Expiry of its key: 2026-11-23T08:50:00Z, an offset such as +01:00 for the Z, or
    /// from now: +90s, +10m; or never, as of a new session.
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
}

/// The fields that the options of a command set, as bits of a definition of type `M`.
struct FieldsSet<M> {
    bits: u32,
    of: std::marker::PhantomData<M>,
}

impl<M: Message> FieldsSet<M> {
    /// Begins with the identifier's field, so that a change without options is one.
    fn of_change(identifier: &str) -> FieldsSet<M> {
        FieldsSet { bits: field_bit::<M>(identifier), of: std::marker::PhantomData }
    }

    /// Stores the value of an option that was given.
    fn set<T>(&mut self, name: &str, field: &mut T, given: Option<T>) {
        if let Some(value) = given {
            *field = value;
            self.bits |= field_bit::<M>(name);
        }
    }
}

impl InstrumentArgs {
    /// Returns the change of the standing definition, with the values of the status page in the
    /// fields that are not set; a complete definition if none stands.
    fn definition(&self, standing: Option<&InstrumentStatus>) -> anyhow::Result<DefineInstrument> {
        let mut d = match standing {
            Some(row) => of_status(row)?,
            None => of_new(InstrumentId(self.id)),
        };
        let mut fields = FieldsSet::<DefineInstrument>::of_change("instrument_id");
        let name = self.symbol.as_deref().map(symbol).transpose()?;
        fields.set("symbol", &mut d.symbol, name);
        fields.set("tick_size", &mut d.tick_size, self.tick.map(Price));
        fields.set("lot_size", &mut d.lot_size, self.lot.map(Qty));
        fields.set("order_qty_max", &mut d.order_qty_max, self.qty_max.map(Qty));
        fields.set("price_min", &mut d.price_min, self.price_min.map(Price));
        fields.set("price_max", &mut d.price_max, self.price_max.map(Price));
        let reference = self.reference_price.map(Price);
        fields.set("reference_price", &mut d.reference_price, reference);
        fields.set("volatility_call", &mut d.volatility_call, self.volatility_call.map(nanos));
        fields.set("static_collar", &mut d.static_collar, self.static_collar);
        fields.set("dynamic_collar", &mut d.dynamic_collar, self.dynamic_collar);
        fields.set("price_exponent", &mut d.price_exponent, self.price_exponent);
        fields.set("qty_exponent", &mut d.qty_exponent, self.qty_exponent);
        fields.set("phase", &mut d.phase, self.phase);
        fields.set("group_id", &mut d.group_id, self.group.map(GroupId));
        let partition_id = self.partition.map(PartitionId);
        match standing {
            Some(row) => {
                let stands = row.partition_id();
                if let Some(other) = partition_id.filter(|id| *id != stands) {
                    bail!("--partition {other}: {stands} stands and cannot be changed");
                }
                d.fields = fields.bits;
            }
            None => {
                if d.symbol.is_none() {
                    bail!("instrument {} is not defined: give --symbol to define it", self.id);
                }
                d.partition_id = partition_id.unwrap_or(d.partition_id);
                if self.price_max.is_none() {
                    d.price_max = highest_price(&d);
                }
                d.fields = NEW;
            }
        }
        Ok(d)
    }
}

/// Returns a definition of a new instrument, without a symbol and a partition.
fn of_new(instrument_id: InstrumentId) -> DefineInstrument {
    DefineInstrument {
        request_no: RequestNo::NONE,
        symbol: Symbol::NONE,
        tick_size: Price(1),
        lot_size: Qty(1),
        order_qty_max: Qty(1_000_000_000),
        price_min: Price(1),
        price_max: Price(1),
        reference_price: Price(0),
        volatility_call: Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: SessionId::NONE,
        instrument_id,
        partition_id: PartitionId::NONE,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
        fields: NEW,
        group_id: GroupId::NONE,
    }
}

/// Returns the definition on the status page, with values that contradict nothing in fields that
/// the page does not have.
fn of_status(row: &InstrumentStatus) -> anyhow::Result<DefineInstrument> {
    Ok(DefineInstrument {
        symbol: symbol(&row.symbol)?,
        tick_size: row.tick_size,
        lot_size: row.lot_size,
        order_qty_max: Qty(u64::MAX),
        price_min: row.price_min.unwrap_or(Price(i64::MIN)),
        price_max: row.price_max.unwrap_or(Price(i64::MAX)),
        partition_id: row.partition_id(),
        price_exponent: row.price_exponent,
        qty_exponent: row.qty_exponent,
        group_id: GroupId(row.group),
        ..of_new(row.instrument_id())
    })
}

/// Returns the highest price that the published market can tell, as a mantissa, or the instrument's
/// own prices where they are higher.
fn highest_price(d: &DefineInstrument) -> Price {
    /// In ten-thousandths, with 32 bits.
    const HIGHEST: i64 = u32::MAX as i64;
    let shift = i32::from(d.price_exponent) + 4;
    let scale = 10i64.checked_pow(shift.unsigned_abs());
    let highest = match scale {
        Some(scale) if shift >= 0 => HIGHEST / scale,
        Some(scale) => HIGHEST.saturating_mul(scale),
        None if shift >= 0 => 0,
        None => i64::MAX,
    };
    Price(highest).max(d.price_min).max(d.reference_price)
}

/// Returns an instrument's row on the status page.
fn standing_instrument(login: &Login, id: u32) -> anyhow::Result<Option<InstrumentStatus>> {
    Ok(login.endpoint.status()?.instruments.into_iter().find(|row| row.id == id))
}

/// Returns the present symbol of the instrument and the new one, if the command renames it.
pub(super) fn renaming(
    login: &Login,
    args: &InstrumentArgs,
) -> anyhow::Result<Option<(String, String)>> {
    let Some(new) = &args.symbol else { return Ok(None) };
    let standing = standing_instrument(login, args.id)?;
    Ok(standing.filter(|row| row.symbol != *new).map(|row| (row.symbol, new.clone())))
}

pub(super) fn instrument(
    admin: &mut Admin,
    command: &AdminArgs,
    args: &InstrumentArgs,
) -> anyhow::Result<Outcome> {
    let login = &command.login;
    let standing = standing_instrument(login, args.id)?;
    let mut definition = args.definition(standing.as_ref())?;
    if standing.is_none() {
        definition.partition_id = match admin.partitions()[..] {
            // A router or a replica only shows it.
            [] => PartitionId(args.partition.unwrap_or(1)),
            // The configuration of the node decides where the command does not.
            [..] => PartitionId(args.partition.unwrap_or(0)),
        };
    }
    let mut defined = admin.define_instrument(definition);
    if matches!(defined, Err(ClientError::Refused { reason: Reason::AlreadyDefined, .. })) {
        // It was defined a moment ago and was not on the page yet.
        let find =
            |page: &StatusPage| page.instruments.iter().find(|row| row.id == args.id).cloned();
        let (_, row) = login.endpoint.status_until(find)?;
        let row = row.context("AlreadyDefined: the instrument is not on the status page")?;
        if args.symbol.as_ref().is_some_and(|symbol| *symbol != row.symbol) && !command.yes {
            bail!("AlreadyDefined: instrument {} is {}", args.id, row.symbol);
        }
        definition = args.definition(Some(&row))?;
        defined = admin.define_instrument(definition);
    }
    defined.or_else(|error| Err(refused_instrument(login, &definition, error)?))?;
    // Commands find instruments on the status page, which a definition reaches a moment later. A
    // page that cannot be read is the next command's matter.
    if standing.is_none()
        && let Some(note) = told_as_unfit(&definition)
    {
        eprintln!("weir: {note}");
    }
    let name = definition.symbol.to_string();
    let place = |page: &StatusPage| page.instrument(&name).map(InstrumentStatus::partition_id);
    let shown = login.endpoint.status_until(place).ok().and_then(|(_, place)| place);
    let chosen = Some(definition.partition_id).filter(|id| !id.is_none());
    let place = shown.or(chosen).map_or_else(String::new, |id| format!(" in partition {id}"));
    Ok(done(format!("instrument {} is {name}{place}", args.id)))
}

/// Returns a refusal with the options that caused it.
fn refused_instrument(
    login: &Login,
    d: &DefineInstrument,
    error: ClientError,
) -> anyhow::Result<anyhow::Error> {
    let ClientError::Refused { reason, .. } = error else { return Ok(error.into()) };
    let option = match reason {
        Reason::InvalidDefinition => {
            let (_, found) = login.endpoint.status_until(|page| {
                let found = contradictions(d, &page.instruments);
                (!found.is_empty()).then_some(found)
            })?;
            return Ok(match found {
                Some(found) => anyhow::anyhow!(
                    "the definition contradicts (InvalidDefinition): {}",
                    found.join("; ")
                ),
                None => anyhow::anyhow!("InvalidDefinition: {error}"),
            });
        }
        Reason::LiveOrdersOffTick => format!("--tick {}", d.tick_size),
        Reason::LiveOrdersOffLot => format!("--lot {}", d.lot_size),
        Reason::LiveOrdersOutOfRange => {
            format!("--price-min {}, --price-max {}", d.price_min, d.price_max)
        }
        Reason::LiveOrdersTooLarge => format!("--qty-max {}", d.order_qty_max),
        Reason::LiveOrdersNamed => format!("--symbol {}", d.symbol),
        Reason::WrongPartition if d.partition_id.is_none() => bail!(
            "instrument {}: no [[partition]] of the node takes {} (WrongPartition): give \
             --partition",
            d.instrument_id,
            d.symbol
        ),
        _ => return Ok(error.into()),
    };
    Ok(anyhow::anyhow!(
        "{option}: {reason} ({reason:?}): cancel them with `weir admin cancel instrument {}`",
        d.instrument_id
    ))
}

pub(super) fn firm(admin: &mut Admin, args: &FirmArgs) -> anyhow::Result<Outcome> {
    let id = args.id;
    let mut d = DefineFirm {
        request_no: RequestNo::NONE,
        name: Symbol::NONE,
        session_id: SessionId::NONE,
        firm_id: FirmId(id),
        live_orders_max: 0,
        fields: 0,
    };
    let mut fields = FieldsSet::<DefineFirm>::of_change("firm_id");
    fields.set("name", &mut d.name, args.name.as_deref().map(symbol).transpose()?);
    fields.set("live_orders_max", &mut d.live_orders_max, args.live_orders_max);
    d.fields = fields.bits;
    match admin.define_firm(d) {
        Err(ClientError::Refused { reason: Reason::UnknownFirm, .. }) => {
            if args.name.is_none() {
                bail!("UnknownFirm: firm {id} is not defined: give --name to define it");
            }
            admin.define_firm(DefineFirm { fields: NEW, ..d })?;
        }
        answer => answer?,
    }
    Ok(done(match &args.name {
        Some(name) => format!("firm {id} is {name}"),
        None => format!("firm {id} is changed"),
    }))
}

pub(super) fn account(
    admin: &mut Admin,
    command: &AdminArgs,
    args: &AccountArgs,
) -> anyhow::Result<Outcome> {
    let id = args.id;
    let mut d = DefineAccount {
        request_no: RequestNo::NONE,
        session_id: SessionId::NONE,
        account_id: AccountId(id),
        firm_id: FirmId::NONE,
        unlimited: switch(false),
        live_orders_max: 0,
        fields: 0,
    };
    let mut fields = FieldsSet::<DefineAccount>::of_change("account_id");
    fields.set("firm_id", &mut d.firm_id, args.firm.map(FirmId));
    let unlimited = (args.unlimited || args.limited).then(|| switch(args.unlimited));
    fields.set("unlimited", &mut d.unlimited, unlimited);
    fields.set("live_orders_max", &mut d.live_orders_max, args.live_orders_max);
    d.fields = fields.bits;
    let before = args.limited.then(|| refused_imports(&command.login.endpoint));
    let defined = match admin.define_account(d) {
        Err(ClientError::Refused { reason: Reason::UnknownAccount, .. }) => {
            if args.firm.is_none() {
                bail!("UnknownAccount: account {id} is not defined: give --firm to define it");
            }
            admin.define_account(DefineAccount { fields: NEW, ..d })
        }
        answer => answer,
    };
    let firm = d.firm_id;
    defined.map_err(|error| {
        stands(error, || match standing(command).account(d.account_id) {
            Some(first) => format!("--firm {firm}: {first} stands and cannot be changed"),
            None => format!("--firm {firm}: the first firm of account {id} stands"),
        })
    })?;
    let limit = before.map(|before| limit_outcome(&command.login.endpoint, before));
    if let Some(LimitOutcome::LeftOut(partition)) = limit {
        bail!(
            "partition {partition} has refused a definition, or a part of one: unless that was \
             another, account {id} is in debt there and stays unlimited; all else is done. Stop it \
             with `weir admin kill account {id}`, move in what it lacks, and define it again"
        );
    }
    let doubt = (limit == Some(LimitOutcome::Unknown)).then(|| {
        format!(
            "whether each partition limits account {id} is not known yet: one where it is in debt \
             does not, and `weir status` counts it as a refused import"
        )
    });
    let done = done(match args.firm {
        Some(firm) => format!("account {id} is firm {firm}'s"),
        None => format!("account {id} is changed"),
    });
    Ok(Outcome { doubt, ..done })
}

/// The outcome in the partitions of a definition that limits an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitOutcome {
    Limited,
    /// This partition has refused a definition since.
    LeftOut(u64),
    /// The status page cannot be read, or some partition does not have the definition yet.
    Unknown,
}

/// The number of definitions that each trading partition has refused; none where the status page
/// cannot be read.
fn refused_imports(endpoint: &Endpoint) -> Option<Vec<(u64, u64)>> {
    endpoint.status().ok().map(|page| trading(&page.json, "imports_refused"))
}

/// Returns a figure of each trading partition, with the partition's number.
pub(super) fn trading(page: &serde_json::Value, figure: &str) -> Vec<(u64, u64)> {
    let rows = page["partitions"].as_array().into_iter().flatten();
    let of = |row: &serde_json::Value| Some((row["id"].as_u64()?, row[figure].as_u64()?));
    rows.filter_map(of).filter(|(id, _)| *id != 0).collect()
}

/// Returns a definition's outcome, by the definitions that each partition had refused `before`. The
/// node answers when its control log has the definition, and the partitions, of which some may
/// know the account to be in debt, take it from there.
fn limit_outcome(endpoint: &Endpoint, before: Option<Vec<(u64, u64)>>) -> LimitOutcome {
    let Some(before) = before else { return LimitOutcome::Unknown };
    let is_imported = |page: &StatusPage| has_imported(&page.json).then_some(());
    let Ok((_, Some(()))) = endpoint.status_until(is_imported) else {
        return LimitOutcome::Unknown;
    };
    // Once more: a page may have a partition's figures from before and behind the definition.
    let page = endpoint.status();
    page.map_or(LimitOutcome::Unknown, |page| outcome_in(&page.json, &before))
}

/// Returns true if each trading partition has all definitions of the control log.
pub(super) fn has_imported(page: &serde_json::Value) -> bool {
    let rows = page["partitions"].as_array().into_iter().flatten();
    let control = rows.clone().find(|row| row["id"] == 0);
    let accepted = control.and_then(|row| row["imported_to"].as_u64());
    accepted.is_some_and(|to| trading(page, "imported_to").iter().all(|(_, at)| *at >= to))
}

/// Returns the outcome by a page on which all partitions have the definition.
fn outcome_in(page: &serde_json::Value, before: &[(u64, u64)]) -> LimitOutcome {
    let after = trading(page, "imports_refused");
    let refused_more =
        |(id, count): &&(u64, u64)| after.iter().any(|(other, now)| other == id && now > count);
    let left_out = before.iter().find(refused_more);
    left_out.map_or(LimitOutcome::Limited, |(id, _)| LimitOutcome::LeftOut(*id))
}

/// A session's credential, its kind, and the API key if one was drawn.
struct Drawn {
    credential: Credential,
    kind: CredentialKind,
    api_key: Option<String>,
}

impl SessionArgs {
    /// Returns the change that the options ask for, without a credential.
    fn change(&self) -> anyhow::Result<(DefineSession, FieldsSet<DefineSession>)> {
        let valid_until = match self.expires.as_deref() {
            Some("never") => Some(Nanos(0)),
            Some(text) => {
                let at = parse_moment(text, unix_time());
                Some(at.map_err(anyhow::Error::msg).context("--expires")?)
            }
            None => None,
        };
        let mut d = DefineSession {
            request_no: RequestNo::NONE,
            valid_until: Nanos(0),
            credential: Credential([0; 32]),
            session_id: SessionId::NONE,
            defined_session_id: SessionId(self.id),
            firm_id: FirmId::NONE,
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Trader,
            credential_kind: CredentialKind::ApiKey,
            live_orders_max: 0,
            fields: 0,
        };
        let mut fields = FieldsSet::of_change("defined_session_id");
        fields.set("valid_until", &mut d.valid_until, valid_until);
        fields.set("firm_id", &mut d.firm_id, self.firm.map(FirmId));
        fields.set("order_rate_max", &mut d.order_rate_max, self.order_rate);
        fields.set("in_flight_max", &mut d.in_flight_max, self.in_flight);
        fields.set("role", &mut d.role, self.role);
        fields.set("live_orders_max", &mut d.live_orders_max, self.live_orders_max);
        Ok((d, fields))
    }

    /// Returns true if the options ask for another credential.
    fn names_credential(&self) -> bool {
        self.new_key || self.keep_key || self.public_key.is_some() || self.key_hash.is_some()
    }
}

pub(super) fn session(
    admin: &mut Admin,
    command: &AdminArgs,
    args: &SessionArgs,
) -> anyhow::Result<Outcome> {
    let id = args.id;
    let dir = dir_of(command.login.dir.as_deref(), DIR_VARIABLE, "weir-data");
    if args.keep_key && !dir.is_dir() {
        bail!("no directory {} to keep the key in: name the node's with --dir", dir.display());
    }
    let (mut d, mut fields) = args.change()?;
    let mut drawn = if args.names_credential() { Some(credential(args)?) } else { None };
    if let Some(drawn) = &drawn {
        fields.set("credential", &mut d.credential, Some(drawn.credential));
        fields.set("credential_kind", &mut d.credential_kind, Some(drawn.kind));
    }
    d.fields = fields.bits;
    let defined = match admin.define_session(d) {
        Err(ClientError::Refused { reason: Reason::UnknownSession, .. }) => {
            let of_new = drawn.take().map_or_else(|| credential(args), Ok)?;
            (d.credential, d.credential_kind, d.fields) = (of_new.credential, of_new.kind, NEW);
            drawn = Some(of_new);
            admin.define_session(d)
        }
        answer => answer,
    };
    defined.map_err(|error| {
        stands(error, || session_contradiction(args, standing(command).session(SessionId(id))))
    })?;
    let api_key = drawn.as_ref().and_then(|drawn| drawn.api_key.as_deref());
    let file = if args.keep_key { Some(keep_key(&dir, id, api_key)?) } else { None };
    Ok(told_session(args, &d, drawn, file))
}

fn told_session(
    args: &SessionArgs,
    d: &DefineSession,
    drawn: Option<Drawn>,
    file: Option<PathBuf>,
) -> Outcome {
    let id = args.id;
    let kept = drawn.as_ref().map(|drawn| hex(&drawn.credential.0));
    let mut text = match (&drawn, &kept) {
        (Some(drawn), Some(kept)) => match (&drawn.api_key, drawn.kind) {
            (Some(_), _) if let Some(file) = &file => {
                format!("session {id} has an API key in {}; its hash: {kept}", file.display())
            }
            (Some(key), _) => format!(
                "session {id} has this API key; it is not shown again\n{key}\nits hash: {kept}"
            ),
            (None, CredentialKind::ApiKey) => {
                format!("session {id} has the API key of hash {kept}")
            }
            (None, CredentialKind::Ed25519) => format!("session {id} logs on by the key of {kept}"),
        },
        _ => format!("session {id} is changed and keeps its key"),
    };
    match args.expires.as_deref() {
        Some("never") => text.push_str("\nit does not expire"),
        Some(_) => text.push_str(&format!("\nit expires at {}", utc(d.valid_until))),
        None => {}
    }
    let is_known = args.expires.is_some() || d.fields == NEW;
    let key_file = file.as_ref().map(|file| file.display().to_string());
    let api_key = drawn.and_then(|drawn| drawn.api_key).filter(|_| file.is_none());
    let json = serde_json::json!({
        "session": id, "api_key": api_key, "key_file": key_file, "credential": kept,
        "valid_until_ns": is_known.then_some(d.valid_until.0),
    });
    Outcome::of(text, json)
}

/// The definitions that stand, where this machine has the node's directory.
fn standing(args: &AdminArgs) -> AcceptedDefinitions {
    let dir = dir_of(args.login.dir.as_deref(), DIR_VARIABLE, "weir-data");
    let found =
        args.login.endpoint.status_until(|page| AcceptedDefinitions::read(&dir, &page.json));
    // Without a status page the error is told as the node told it.
    found.ok().and_then(|(_, standing)| standing).unwrap_or_default()
}

/// Returns the fields of a session's definition that contradict each other or the standing
/// definition.
fn session_contradiction(args: &SessionArgs, standing: Option<(Role, FirmId)>) -> String {
    let id = args.id;
    let firm = args.firm.map(FirmId);
    if let (Some(role), Some(firm)) = (args.role, firm)
        && !role.has_firm()
        && !firm.is_none()
    {
        return format!("--firm {firm}: the role {} has no firm", name_of(&role));
    }
    let Some((first_role, first_firm)) = standing else {
        let role = args.role.map(|role| format!("--role {}", name_of(&role)));
        let given: Vec<_> =
            role.into_iter().chain(firm.map(|firm| format!("--firm {firm}"))).collect();
        let given = given.join(", ");
        return format!("{given}: the first role and firm of session {id} stand");
    };
    let mut found = Vec::new();
    if let Some(role) = args.role.filter(|role| *role != first_role) {
        let (role, first) = (name_of(&role), name_of(&first_role));
        found.push(format!("--role {role}: {first} stands and cannot be changed"));
    }
    if let Some(firm) = firm.filter(|firm| *firm != first_firm) {
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

/// Reads the credential that the options name, or draws an API key.
fn credential(args: &SessionArgs) -> anyhow::Result<Drawn> {
    if let Some(path) = &args.public_key {
        let credential = Credential(read_public_key(path)?);
        return Ok(Drawn { credential, kind: CredentialKind::Ed25519, api_key: None });
    }
    if let Some(text) = &args.key_hash {
        let hash = parse_32(text).context("--key-hash: want 64 hexadecimal digits")?;
        let kind = CredentialKind::ApiKey;
        return Ok(Drawn { credential: Credential(hash), kind, api_key: None });
    }
    let key = fresh_key()?;
    let api_key = Some(hex(&key.0));
    Ok(Drawn { credential: key_hash(&key), kind: CredentialKind::ApiKey, api_key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        instrument: InstrumentArgs,
    }

    #[test]
    fn a_limit_is_left_out_where_a_partition_refuses_more_and_not_known_before_all_have_it() {
        let page = |at: u64, refused: u64| {
            serde_json::json!({ "partitions": [
                { "id": 0, "imported_to": 9, "imports_refused": 0 },
                { "id": 1, "imported_to": at, "imports_refused": refused },
            ]})
        };
        assert_eq!([8, 9, 10].map(|at| has_imported(&page(at, 0))), [false, true, true]);
        let none = serde_json::json!({ "partitions": [{ "id": 0, "imported_to": 9 }]});
        assert!(has_imported(&none), "no partition trades");
        assert!(!has_imported(&serde_json::json!({})));
        let before = trading(&page(8, 3), "imports_refused");
        assert_eq!(outcome_in(&page(9, 3), &before), LimitOutcome::Limited);
        assert_eq!(outcome_in(&page(9, 4), &before), LimitOutcome::LeftOut(1));
        assert_eq!(outcome_in(&none, &[]), LimitOutcome::Limited);
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
            let definition = line.instrument.definition(None).unwrap();
            assert_eq!((definition.price_max, definition.fields), (Price(want), NEW), "{words:?}");
        }
    }

    #[test]
    fn an_instrument_by_defaults_is_published_and_the_reason_of_another_is_told() {
        for (words, wants) in [
            (&["--symbol", "AAPL"][..], None),
            (&["--symbol", "AAPL", "--price-exponent", "-4"], None),
            (&["--symbol", "NINE99999"], Some("longer than eight")),
            (&["--symbol", "AAPL", "--qty-max", "1099511627776"], Some("largest order")),
            (&["--symbol", "AAPL", "--price-max", "1000000000000"], Some("highest price")),
            (&["--symbol", "AAPL", "--price-exponent", "-8"], Some("tick is finer")),
        ] {
            let words = [&["weir", "--id", "1"], words].concat();
            let line = <Line as clap::Parser>::try_parse_from(&words).unwrap();
            let told = told_as_unfit(&line.instrument.definition(None).unwrap());
            match wants {
                None => assert_eq!(told, None, "{words:?}"),
                Some(wants) => {
                    let told = told.expect("it is left out");
                    assert!(told.contains(wants) && told.contains(words[4]), "{told}");
                }
            }
        }
    }

    #[test]
    fn a_change_sets_only_the_fields_of_its_options() {
        let row = serde_json::json!({
            "id": 30, "symbol": "ABC", "price_exponent": -2, "partition": 2, "tick_size": "0.01",
        });
        let row: InstrumentStatus = serde_json::from_value(row).unwrap();
        let words = ["weir", "--id", "30", "--tick", "5"];
        let line = <Line as clap::Parser>::try_parse_from(words).unwrap();
        let change = line.instrument.definition(Some(&row)).unwrap();
        let bit = field_bit::<DefineInstrument>;
        assert_eq!(change.fields, bit("instrument_id") | bit("tick_size"));
        assert_eq!((change.tick_size, change.partition_id), (Price(5), PartitionId(2)));
        assert!(line.instrument.definition(None).is_err(), "a new one needs a symbol");
    }
}
