//! The recorded day in a form that both Weir's engine and a peer can play.
//!
//! Commands without an equivalent at the peer are left out for both and counted. The day's accounts
//! trade on credit, which the peer does not support. Commands of the opening give them more money
//! and lots than the day can use, so that both sides check every order.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{AccountId, Cash, InstrumentId, PartitionId, RequestNo, Role, SessionId, Switch};
use weir_wire::reference::{DefineAccount, Transfer};
use weir_wire::{Command, Definition, Request};

use super::peer_flow::{Record, Translator};

const CASH: i128 = 1 << 60;
const LOTS: i64 = 1 << 50;
/// A number above those that the recorded operator used, for requests and transfers.
const FIRST_NUMBER: u64 = 1 << 62;

/// The commands of a day, each part also in the peer's records.
#[derive(Default)]
pub(crate) struct Day {
    /// Reference data and money: not timed.
    pub(crate) opening: Vec<Command>,
    pub(crate) opening_records: Vec<Record>,
    pub(crate) orders: Vec<Command>,
    pub(crate) order_records: Vec<Record>,
    /// The number of commands of each kind that neither side plays.
    pub(crate) left_out: BTreeMap<&'static str, u64>,
}

impl Day {
    pub(crate) fn of(commands: Vec<Command>) -> Day {
        let mut day = Day::default();
        let mut translator = Translator::default();
        let (opening, rest): (Vec<_>, Vec<_>) = commands.into_iter().partition(|command| {
            matches!(command, Command::Import(..) | Command::Request(Request::Transfer(_)))
        });
        day.opening = funded(opening);
        for command in &day.opening {
            let told = translator.translate(command, &mut day.opening_records);
            told.expect("reference data and money have their equal");
        }
        for command in rest {
            match translator.translate(&command, &mut day.order_records) {
                Ok(()) => day.orders.push(command),
                Err(kind) => *day.left_out.entry(kind).or_default() += 1,
            }
        }
        day
    }

    pub(crate) fn left_out_json(&self) -> String {
        let counts: Vec<_> =
            self.left_out.iter().map(|(kind, count)| format!("\"{kind}\":{count}")).collect();
        format!("{{{}}}", counts.join(","))
    }
}

/// Returns the opening without credit for any account.
fn funded(mut opening: Vec<Command>) -> Vec<Command> {
    let (mut operator, mut accounts) = (None, BTreeSet::new());
    let mut instruments = BTreeMap::new();
    for command in &mut opening {
        match command {
            Command::Import(_, Definition::DefineSession(session))
                if session.role == Role::Operator =>
            {
                operator = Some(session.defined_session_id);
            }
            Command::Import(_, Definition::DefineInstrument(instrument)) => {
                instruments.insert(instrument.instrument_id, instrument.partition_id);
            }
            Command::Import(_, Definition::DefineAccount(account))
                if account.unlimited == Switch::On =>
            {
                accounts.insert(account.account_id);
                *account = DefineAccount { unlimited: Switch::Off, ..*account };
            }
            _ => {}
        }
    }
    let mut number = FIRST_NUMBER;
    for account_id in accounts {
        for (instrument_id, partition_id) in &instruments {
            number += 1;
            let session_id = operator.expect("the day has an operator");
            let (instrument_id, partition_id) = (*instrument_id, *partition_id);
            opening.push(transfer(number, session_id, account_id, instrument_id, partition_id));
        }
    }
    opening
}

fn transfer(
    number: u64,
    session_id: SessionId,
    account_id: AccountId,
    instrument_id: InstrumentId,
    partition_id: PartitionId,
) -> Command {
    Command::Request(Request::Transfer(Transfer {
        request_no: RequestNo(number),
        transfer_id: number,
        cash: Cash(CASH),
        position_qty: LOTS,
        session_id,
        account_id,
        instrument_id,
        partition_id,
        peer_partition_id: PartitionId::NONE,
    }))
}
