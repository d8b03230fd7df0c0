//! Reference data and the operator's requests: the entries of the control log, and their import by
//! the other partitions.
//!
//! The control log accepts definitions from operators and numbers them; the partitions import them
//! in that order. A change of an instrument is carried out among the orders that it has to fit, by
//! the partition that trades it, and stays there. `fields` says how much a definition sets:
//!
//! | `fields` | meaning | carried out by |
//! | --- | --- | --- |
//! | zero | complete: it replaces the one with the same identifier | the control log |
//! | [`NEW`] | complete: there is none with this identifier | the control log |
//! | other bits | a change of these fields | the control log, or the instrument's partition |

use weir_types::{
    AccountId, Cash, Credential, CredentialKind, FirmId, GroupId, InstrumentId, KillScope, MatchId,
    Nanos, PartitionId, Phase, Position, Price, Qty, RequestNo, Role, ScheduleStep, SessionId,
    Switch, Symbol,
};

use crate::message::{Message, messages};

/// In a definition's `fields`: it is complete, and refused if one with its identifier exists.
pub const NEW: u32 = 1 << 31;

/// The maximum number of changes of phase in a list that is filed at once: more than a year of a
/// calendar's.
pub const SCHEDULE_LIST_MAX: usize = 1 << 12;

/// Returns the bit of a definition's field in its `fields`: one for the field with the schema's id
/// 1, two for the next, and so on.
///
/// # Panics
/// When the message has no such field.
#[must_use]
pub fn field_bit<M: Message>(name: &str) -> u32 {
    let index = M::FIELDS.iter().position(|field| field.name == name);
    1 << index.expect("callers name fields of the message")
}

/// Returns the bits of all fields of a definition.
#[must_use]
pub fn all_fields<M: Message>() -> u32 {
    (1 << M::FIELDS.len()) - 1
}

/// Returns true if a definition with these `fields` changes a standing one.
#[must_use]
pub fn is_change(fields: u32) -> bool {
    fields != 0 && fields & NEW == 0
}

/// Returns `standing` with the `fields` of `change`, and with its sender, number and `fields`.
pub(crate) fn changed<M: Message>(standing: &M, change: &M, fields: u32) -> M {
    let (mut block, mut source) = (Vec::new(), Vec::new());
    standing.encode_block(&mut block);
    change.encode_block(&mut source);
    for (index, field) in M::FIELDS.iter().enumerate() {
        let is_senders = ["request_no", "session_id", "fields"].contains(&field.name);
        if is_senders || fields & (1 << index) != 0 {
            let place = field.offset..field.offset + field.size;
            block[place.clone()].copy_from_slice(&source[place]);
        }
    }
    M::decode_block(&block).expect("each field is one of a valid message")
}

messages! {
    /// Defines an instrument.
    DefineInstrument = 20 from 101, 105 {
        /// The session's request number; zero in an import.
        request_no: RequestNo,
        /// Its name.
        symbol: Symbol,
        /// Prices are multiples of this.
        tick_size: Price,
        /// Quantities are multiples of this.
        lot_size: Qty,
        /// The largest quantity of one order.
        order_qty_max: Qty,
        /// The lowest price accepted.
        price_min: Price,
        /// The highest price accepted.
        price_max: Price,
        /// The static reference until an uncrossing trades; zero for none.
        reference_price: Price,
        /// The duration of a volatility call; zero: until an operator ends it.
        volatility_call: Nanos,
        /// The operator's session.
        session_id: SessionId,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The most that a trade may differ from the static reference, in basis points; zero for no
        /// collar.
        static_collar: u32,
        /// The most that a trade may differ from the last price, in basis points; zero for no
        /// collar.
        dynamic_collar: u32,
        /// The partition that trades it.
        partition_id: PartitionId,
        /// A price of mantissa m is m times ten to this power.
        price_exponent: i8,
        /// A quantity of one lot is ten to this power units.
        qty_exponent: i8,
        /// The phase it begins in.
        phase: Phase,
        /// The fields that it sets, a bit each; zero for a complete definition. See
        /// [`field_bit`] and [`NEW`].
        fields: u32,
        /// Its group; zero for none.
        group_id: GroupId,
    }

    /// Defines a firm.
    DefineFirm = 21 from 32, 36 {
        /// The session's request number; zero in an import.
        request_no: RequestNo,
        /// Its name.
        name: Symbol,
        /// The operator's session.
        session_id: SessionId,
        /// The firm.
        firm_id: FirmId,
        /// The limit of its sessions' live orders in each partition; zero for the partition's
        /// default.
        live_orders_max: u32,
        /// The fields that it sets, a bit each; zero for a complete definition. See
        /// [`field_bit`] and [`NEW`].
        fields: u32,
    }

    /// Defines an account.
    DefineAccount = 22 from 21, 25 {
        /// The session's request number; zero in an import.
        request_no: RequestNo,
        /// The operator's session.
        session_id: SessionId,
        /// The account.
        account_id: AccountId,
        /// Its firm.
        firm_id: FirmId,
        /// On: the account may sell without holdings and buy on credit; its cash and position
        /// checks are off (market makers, test accounts). Its cash and positions are recorded all
        /// the same.
        unlimited: Switch,
        /// The limit of live orders for it in each partition; zero for the partition's default.
        live_orders_max: u32,
        /// The fields that it sets, a bit each; zero for a complete definition. See
        /// [`field_bit`] and [`NEW`].
        fields: u32,
    }

    /// Defines a session and its credential.
    DefineSession = 23 from 70, 74 {
        /// The session's request number; zero in an import.
        request_no: RequestNo,
        /// The expiry of its key, since the Unix epoch (UTC); zero for never.
        valid_until: Nanos,
        /// The BLAKE3 hash of its API key, or its Ed25519 public key.
        credential: Credential,
        /// The operator's session.
        session_id: SessionId,
        /// The session defined.
        defined_session_id: SessionId,
        /// Its firm; zero for supervisors and operators.
        firm_id: FirmId,
        /// The limit of new orders and replaces per second in each partition; zero for no limit.
        order_rate_max: u32,
        /// The limit of unanswered requests, over all partitions; zero for no limit.
        in_flight_max: u32,
        /// Its role.
        role: Role,
        /// The credential's kind.
        credential_kind: CredentialKind,
        /// The limit of its live orders in each partition; zero for the partition's default.
        live_orders_max: u32,
        /// The fields that it sets, a bit each; zero for a complete definition. See
        /// [`field_bit`] and [`NEW`].
        fields: u32,
    }

    /// Moves cash or a position into an account of a partition, or out of it (negative amounts).
    /// Idempotent by `transfer_id`.
    Transfer = 24 from 54 {
        /// The session's request number.
        request_no: RequestNo,
        /// The transfer's own number, unique within the partition, increasing per account.
        transfer_id: u64,
        /// Cash, in price units times lots.
        cash: Cash,
        /// Lots of the instrument.
        position_qty: i64,
        /// The operator's session.
        session_id: SessionId,
        /// The account.
        account_id: AccountId,
        /// The instrument of the position; zero when only cash moves.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// The partition that gives or gets the amounts; zero for a transfer from or to outside of
        /// the partitions.
        peer_partition_id: PartitionId,
    }

    /// Asks for an account's cash in a partition. The answer tells it, and changes nothing.
    AccountInquiry = 33 {
        /// The session's request number.
        request_no: RequestNo,
        /// The operator's session.
        session_id: SessionId,
        /// The account.
        account_id: AccountId,
        /// The partition.
        partition_id: PartitionId,
    }

    /// Changes an instrument's phase.
    SetPhase = 25 from 17 {
        /// The session's request number.
        request_no: RequestNo,
        /// The operator's session.
        session_id: SessionId,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The new phase.
        phase: Phase,
        /// On: an uncrossing that begins continuous trading may be beyond the collars. Refused with
        /// another phase.
        override_collars: Switch,
    }

    /// Stops entry for a session, an account, a firm or all, or allows it again; cancels are served
    /// all the same, and stops of those stopped are cancelled when they are reached.
    KillSwitch = 26 from 20 {
        /// The session's request number.
        request_no: RequestNo,
        /// The operator's session.
        session_id: SessionId,
        /// The firm, account or session; zero for all.
        id: u32,
        /// The partition.
        partition_id: PartitionId,
        /// The kind of `id`.
        scope: KillScope,
        /// On or off.
        switch: Switch,
        /// On: the live orders of those whose entry is stopped are cancelled too. Refused with a
        /// switch that goes off.
        cancel_orders: Switch,
    }

    /// Busts a trade: cash and lots return, the orders stay as they are.
    BustTrade = 27 from 22 {
        /// The session's request number.
        request_no: RequestNo,
        /// The trade.
        match_id: MatchId,
        /// The operator's session.
        session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
        /// On: also if an account has spent the cash or the lots that return. A limited account may
        /// be in debt behind it.
        force: Switch,
    }

    /// Schedules a change of an instrument's phase, or clears its schedule.
    SchedulePhase = 28 {
        /// The session's request number.
        request_no: RequestNo,
        /// The log time of the change; zero clears the instrument's schedule.
        at: Nanos,
        /// The operator's session.
        session_id: SessionId,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The phase to change to.
        phase: Phase,
    }

    /// Lifts the halt of an instrument: it goes back to the phase before.
    ResumeTrading = 29 {
        /// The session's request number.
        request_no: RequestNo,
        /// The operator's session.
        session_id: SessionId,
        /// The instrument.
        instrument_id: InstrumentId,
        /// On: back to continuous trading through a volatility call.
        through_call: Switch,
    }

    /// Sets an instrument's last price, its static reference, or both, until a trade sets another.
    SetReference = 30 {
        /// The session's request number.
        request_no: RequestNo,
        /// The last price; zero for none. Zero unless it is set.
        last_px: Price,
        /// The static reference; zero for the definition's. Zero unless it is set.
        static_px: Price,
        /// The operator's session.
        session_id: SessionId,
        /// The instrument.
        instrument_id: InstrumentId,
        /// On: the last price is set.
        sets_last: Switch,
        /// On: the static reference is set.
        sets_static: Switch,
    }

    /// Changes the phase of all instruments of a group, or of the partition, at once, or lifts
    /// their halts.
    ChangePhases = 31 {
        /// The session's request number.
        request_no: RequestNo,
        /// The operator's session.
        session_id: SessionId,
        /// The group; zero for all instruments of the partition.
        group_id: GroupId,
        /// The partition.
        partition_id: PartitionId,
        /// The new phase; closed if the request lifts halts.
        phase: Phase,
        /// On: halts are lifted instead, as by `ResumeTrading`.
        resumes: Switch,
        /// On: an uncrossing that begins continuous trading may be beyond the collars. Refused with
        /// another phase.
        override_collars: Switch,
        /// On: back to continuous trading through a volatility call. Refused unless halts are
        /// lifted.
        through_call: Switch,
    }

    /// Files changes of the phase of a group, of all instruments of a partition, or of one: a
    /// change alone, or a list at once, by itself or in the place of all that are filed.
    SchedulePhases = 32 {
        /// The session's request number.
        request_no: RequestNo,
        /// The log time of the change, for the steps `File` and `Add`; for `Replace` the time up to
        /// which filed changes stay, no earlier than log time.
        at: Nanos,
        /// The operator's session.
        session_id: SessionId,
        /// The only instrument; zero for those of the group.
        instrument_id: InstrumentId,
        /// The number of changes of the list, for the steps `Append` and `Replace`.
        count: u32,
        /// The group; zero for all instruments of the partition.
        group_id: GroupId,
        /// The partition.
        partition_id: PartitionId,
        /// The phase to change to, for the steps `File` and `Add`.
        phase: Phase,
        /// The effect.
        step: ScheduleStep,
    }

    /// A partition imports the control log's definition at `control_position`; the definition's own
    /// message follows in the same log entry.
    Import = 200 {
        /// The definition's place in the control log.
        control_position: Position,
    }

    /// Timers are due: sequenced when the engine's next deadline has passed.
    Tick = 201 {
        /// Always zero: a block may not be empty.
        reserved: u32,
    }

    /// A session's connection is gone.
    SessionLost = 202 {
        /// The session.
        session_id: SessionId,
        /// On when the session asked for cancel on disconnect.
        cancel_on_disconnect: Switch,
    }

    /// A session has logged on with this choice. Sequenced before its first request, and only if
    /// the log holds another choice.
    SessionChoice = 203 {
        /// The session.
        session_id: SessionId,
        /// On when its loss cancels its orders.
        cancel_on_disconnect: Switch,
    }

    /// The limits of the partition's engine from here on. Sequenced first at a start whose
    /// configuration has others than the log.
    SetLimits = 204 {
        /// The maximum number of accounts.
        accounts_max: u32,
        /// The maximum number of sessions.
        sessions_max: u32,
        /// The maximum number of firms.
        firms_max: u32,
        /// The maximum number of instruments.
        instruments_max: u32,
        /// The maximum number of live orders.
        orders_max: u32,
        /// The maximum number of open positions.
        positions_max: u32,
        /// The maximum number of trades retained for busts.
        trades_max: u32,
    }
}
