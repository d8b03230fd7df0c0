//! `weir admin`: an operator's requests, one per call, each waited for.
//!
//! A refusal is an error with the engine's reason and a failing exit status. A new session's key
//! is drawn here, printed once and kept nowhere; the node gets its hash.

use anyhow::{Context, bail};
use weir_client::Admin;
use weir_client::admin::switch;
use weir_client::clock::unix_time;
use weir_client::load::setup::{fresh_key, key_hash};
use weir_types::{
    AccountId, Cash, FirmId, InstrumentId, KillScope, PartitionId, Phase, Price, Qty, RequestNo,
    Role, SessionId, Symbol,
};
use weir_wire::reference::{
    DefineAccount, DefineFirm, DefineInstrument, DefineSession, KillSwitch, Transfer,
};

use super::endpoint::{Login, hex};

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
        #[arg(long)]
        id: u32,
        /// Its name: up to 16 characters.
        #[arg(long)]
        name: String,
    },
    /// Define an account.
    Account {
        /// Its identifier.
        #[arg(long)]
        id: u32,
        /// Its firm.
        #[arg(long)]
        firm: u32,
        /// May sell what it does not hold and buy on credit.
        #[arg(long)]
        unlimited: bool,
    },
    /// Define a session; draws its API key and prints it once.
    Session {
        /// Its identifier.
        #[arg(long)]
        id: u32,
        /// Its firm; not for supervisors and operators.
        #[arg(long, default_value_t = 0)]
        firm: u32,
        /// trader, supervisor or operator.
        #[arg(long, default_value = "trader", value_parser = parse_role)]
        role: Role,
    },
    /// Move cash or a position into an account; negative amounts move out.
    Deposit(DepositArgs),
    /// Set an instrument's phase: closed, continuous or halted.
    Phase {
        /// Its symbol or identifier.
        instrument: String,
        /// The phase.
        #[arg(value_parser = parse_phase)]
        phase: Phase,
    },
    /// Halt an instrument: no entry, no trades; cancels are served.
    Halt {
        /// Its symbol or identifier.
        instrument: String,
    },
    /// Resume continuous trading.
    Resume {
        /// Its symbol or identifier.
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
    /// The highest price, as a mantissa.
    #[arg(long, default_value_t = 1_000_000_000_000)]
    price_max: i64,
    /// A price of mantissa m is m times ten to this power.
    #[arg(long, default_value_t = -2, allow_negative_numbers = true)]
    price_exponent: i8,
    /// A lot is ten to this power units.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    qty_exponent: i8,
    /// The phase it begins in.
    #[arg(long, default_value = "continuous", value_parser = parse_phase)]
    phase: Phase,
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
    /// The transfer's own number, increasing per account: a repeated one changes nothing. The
    /// time of day when not given.
    #[arg(long)]
    transfer_id: Option<u64>,
}

/// Runs `weir admin`.
///
/// # Errors
/// When the node cannot be reached or refuses.
pub fn run(args: AdminArgs) -> anyhow::Result<()> {
    let mut admin = args.login.admin()?;
    let outcome = carry_out(&mut admin, &args)?;
    admin.close()?;
    if args.json {
        println!("{}", outcome.json);
    } else {
        println!("{}", outcome.text);
    }
    Ok(())
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
        AdminCommand::Instrument(instrument) => define_instrument(admin, instrument),
        AdminCommand::Firm { id, name } => {
            let (firm_id, name) = (FirmId(*id), symbol(name)?);
            admin.define_firm(DefineFirm { request_no, name, session_id, firm_id })?;
            Ok(done(format!("firm {id} is {name}")))
        }
        AdminCommand::Account { id, firm, unlimited } => {
            let (account_id, firm_id) = (AccountId(*id), FirmId(*firm));
            let unlimited = switch(*unlimited);
            let definition =
                DefineAccount { request_no, session_id, account_id, firm_id, unlimited };
            admin.define_account(definition)?;
            Ok(done(format!("account {id} is firm {firm}'s")))
        }
        AdminCommand::Session { id, firm, role } => define_session(admin, (*id, *firm, *role)),
        AdminCommand::Deposit(deposit) => transfer(admin, args, deposit),
        AdminCommand::Phase { instrument, phase } => set_phase(admin, args, instrument, *phase),
        AdminCommand::Halt { instrument } => set_phase(admin, args, instrument, Phase::Halted),
        AdminCommand::Resume { instrument } => {
            set_phase(admin, args, instrument, Phase::Continuous)
        }
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

fn define_instrument(admin: &mut Admin, args: &InstrumentArgs) -> anyhow::Result<Outcome> {
    admin.define_instrument(DefineInstrument {
        request_no: RequestNo::NONE,
        symbol: symbol(&args.symbol)?,
        tick_size: Price(args.tick),
        lot_size: Qty(args.lot),
        order_qty_max: Qty(args.qty_max),
        price_min: Price(args.price_min),
        price_max: Price(args.price_max),
        reference_price: Price(0),
        volatility_call: weir_types::Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: SessionId::NONE,
        instrument_id: InstrumentId(args.id),
        partition_id: PartitionId(args.partition),
        price_exponent: args.price_exponent,
        qty_exponent: args.qty_exponent,
        phase: args.phase,
    })?;
    Ok(done(format!("instrument {} is {} in partition {}", args.id, args.symbol, args.partition)))
}

fn define_session(admin: &mut Admin, of: (u32, u32, Role)) -> anyhow::Result<Outcome> {
    let (id, firm, role) = of;
    let key = fresh_key()?;
    admin.define_session(DefineSession {
        request_no: RequestNo::NONE,
        api_key_hash: key_hash(&key),
        session_id: SessionId::NONE,
        defined_session_id: SessionId(id),
        firm_id: FirmId(firm),
        order_rate_max: 0,
        role,
    })?;
    let key = hex(&key.0);
    let text = format!("session {id} has this API key; it is not shown again\n{key}");
    Ok(Outcome { text, json: serde_json::json!({ "session": id, "api_key": key }) })
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
    admin.transfer(Transfer {
        request_no: RequestNo::NONE,
        transfer_id,
        cash: Cash(deposit.cash),
        position_qty,
        session_id: SessionId::NONE,
        account_id: AccountId(deposit.account),
        instrument_id,
        partition_id,
    })?;
    Ok(done(format!(
        "account {} got cash {} and {position_qty} lots in partition {partition_id} \
         (transfer {transfer_id})",
        deposit.account, deposit.cash
    )))
}

fn set_phase(
    admin: &mut Admin,
    args: &AdminArgs,
    name: &str,
    phase: Phase,
) -> anyhow::Result<Outcome> {
    let instrument = args.login.endpoint.instrument(name)?;
    admin.set_phase(instrument.partition_id(), instrument.instrument_id(), phase)?;
    let phase = format!("{phase:?}").to_lowercase();
    Ok(done(format!("{} is {phase}", instrument.symbol)))
}

fn symbol(text: &str) -> anyhow::Result<Symbol> {
    let symbol = Symbol::new(text).filter(|symbol| symbol.is_valid() && !symbol.is_none());
    symbol.with_context(|| format!("{text:?} is not a name of 1 to 16 printable characters"))
}

/// The value whose name, in lower case, is `text`.
fn by_name<T: Copy + std::fmt::Debug>(text: &str, all: &[T]) -> Result<T, String> {
    let name = |value: &T| format!("{value:?}").to_lowercase();
    all.iter().copied().find(|value| name(value) == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(name).collect();
        format!("want {}", names.join(", "))
    })
}

fn parse_role(text: &str) -> Result<Role, String> {
    by_name(text, Role::ALL)
}

fn parse_phase(text: &str) -> Result<Phase, String> {
    by_name(text, Phase::ALL)
}

fn parse_scope(text: &str) -> Result<KillScope, String> {
    by_name(text, KillScope::ALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enumerations_are_named_in_lower_case() {
        assert_eq!(parse_role("supervisor"), Ok(Role::Supervisor));
        assert_eq!(parse_phase("halted"), Ok(Phase::Halted));
        assert_eq!(parse_scope("all"), Ok(KillScope::All));
        assert_eq!(parse_role("king"), Err("want trader, supervisor, operator".to_owned()));
    }

    #[test]
    fn names_are_short_and_printable() {
        assert!(symbol("AAPL").is_ok());
        for text in ["", "A B", "SEVENTEEN-LETTERS", "é"] {
            assert!(symbol(text).is_err(), "{text:?}");
        }
    }
}
