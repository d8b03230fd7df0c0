//! Translates commands for a peer engine, into records of a flow file that `bench/peers` reads.
//!
//! The file is a header of two 64-bit counts (operations of the warm-up, then timed ones) and
//! records of 40 bytes, all little-endian. Orders are numbered from one and keep their number for
//! life, so a replace becomes a move or a reduction of the order with which its chain began.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use weir_types::{ClOrdId, ExecInst, OrdType, Price, Qty, SessionId, Side, TimeInForce};
use weir_wire::order_entry::{NewOrder, ReplaceOrder};
use weir_wire::{Command, Definition, Request};

/// The kind of a record; its codes are those of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    #[default]
    User = 1,
    Deposit = 2,
    Place = 3,
    Cancel = 4,
    Move = 5,
    Reduce = 6,
    Symbol = 7,
}

/// One record of the file. A reduction's quantity is the quantity by which the order shrinks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    kind: Kind,
    is_sell: bool,
    is_ioc: bool,
    instrument: u32,
    account: u32,
    order: u64,
    price_or_amount: i64,
    qty: u64,
}

impl Record {
    fn to_bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.is_sell);
        bytes[2] = u8::from(self.is_ioc);
        bytes[4..8].copy_from_slice(&self.instrument.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.account.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.order.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.price_or_amount.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.qty.to_le_bytes());
        bytes
    }
}

/// An order in the peer's terms.
#[derive(Clone, Copy)]
struct Order {
    number: u64,
    account: u32,
    price: Price,
    qty: Qty,
}

/// Translates commands into records, in their order.
#[derive(Default)]
pub(crate) struct Translator {
    /// Indexed by every name that an order had.
    orders: HashMap<(SessionId, ClOrdId), Order>,
    order_count: u64,
}

impl Translator {
    /// Appends the peer's records of a command; fails with the kind of a command without an
    /// equivalent.
    pub(crate) fn translate(
        &mut self,
        command: &Command,
        out: &mut Vec<Record>,
    ) -> Result<(), &'static str> {
        let none = Record::default();
        match command {
            Command::Import(_, Definition::DefineInstrument(instrument)) => {
                let instrument = instrument.instrument_id.0;
                out.push(Record { kind: Kind::Symbol, instrument, ..none });
            }
            Command::Import(_, Definition::DefineAccount(account)) => {
                let account = account.account_id.0;
                out.push(Record { kind: Kind::User, account, ..none });
            }
            // The peer has no firms and sessions.
            Command::Import(..) => {}
            Command::Request(Request::Transfer(transfer)) => {
                let cash = i64::try_from(transfer.cash.0).expect("an amount that the peer can add");
                let lots = (transfer.instrument_id.0, transfer.position_qty);
                let account = transfer.account_id.0;
                for (instrument, price_or_amount) in [(0, cash), lots] {
                    if price_or_amount != 0 {
                        let kind = Kind::Deposit;
                        out.push(Record { kind, instrument, account, price_or_amount, ..none });
                    }
                }
            }
            Command::Request(Request::NewOrder(order)) => out.push(self.place(order)?),
            Command::Request(Request::ReplaceOrder(replace)) => out.push(self.replace(replace)?),
            Command::Request(Request::CancelOrder(cancel)) => {
                let name = (cancel.session_id, cancel.orig_cl_ord_id);
                let Order { number, account, .. } =
                    *self.orders.get(&name).ok_or("cancel of an order without that name")?;
                let instrument = cancel.instrument_id.0;
                out.push(Record { kind: Kind::Cancel, instrument, account, order: number, ..none });
            }
            Command::Request(_) => return Err("other request"),
            Command::Tick => return Err("tick"),
            Command::SessionLost(_) => return Err("loss of a session"),
            Command::SessionChoice(_) => return Err("choice of a session"),
            Command::SetLimits(_) => return Err("limits"),
        }
        Ok(())
    }

    fn place(&mut self, order: &NewOrder) -> Result<Record, &'static str> {
        let is_ioc = order.time_in_force == TimeInForce::Ioc;
        if order.ord_type != OrdType::Limit
            || !(is_ioc || order.time_in_force == TimeInForce::Gtc)
            || order.exec_inst != ExecInst::NONE
            || !order.min_qty.is_zero()
            || !order.display_qty.is_zero()
        {
            return Err("order of another type, time in force or condition");
        }
        self.order_count += 1;
        let (number, account) = (self.order_count, order.account_id.0);
        let known = Order { number, account, price: order.price, qty: order.order_qty };
        self.orders.insert((order.session_id, order.cl_ord_id), known);
        Ok(Record {
            kind: Kind::Place,
            is_sell: order.side == Side::Sell,
            is_ioc,
            instrument: order.instrument_id.0,
            account,
            order: number,
            price_or_amount: order.price.0,
            qty: order.order_qty.0,
        })
    }

    /// Translates a new price to a move and a lower quantity to a reduction; the peer has no record
    /// for both at once or for an increase.
    fn replace(&mut self, replace: &ReplaceOrder) -> Result<Record, &'static str> {
        let name = (replace.session_id, replace.orig_cl_ord_id);
        let before = *self.orders.get(&name).ok_or("replace of an order without that name")?;
        let Order { number, account, .. } = before;
        let none = Record {
            instrument: replace.instrument_id.0,
            account,
            order: number,
            ..Record::default()
        };
        let record = if replace.price == before.price && replace.order_qty < before.qty {
            let qty = before.qty.0 - replace.order_qty.0;
            Record { kind: Kind::Reduce, qty, ..none }
        } else if replace.price != before.price && replace.order_qty == before.qty {
            Record { kind: Kind::Move, price_or_amount: replace.price.0, ..none }
        } else {
            return Err("replace that is neither a move nor a reduction");
        };
        let after = Order { price: replace.price, qty: replace.order_qty, ..before };
        self.orders.insert((replace.session_id, replace.cl_ord_id), after);
        Ok(record)
    }
}

/// A flow file that is being written.
pub(crate) struct FlowFile(BufWriter<File>);

impl FlowFile {
    pub(crate) fn create(path: &str, warm_up: usize, timed: usize) -> FlowFile {
        let mut file = BufWriter::new(File::create(path).expect("the file can be made"));
        for count in [warm_up as u64, timed as u64] {
            file.write_all(&count.to_le_bytes()).expect("room for the file");
        }
        FlowFile(file)
    }

    pub(crate) fn write(&mut self, records: &[Record]) {
        for record in records {
            self.0.write_all(&record.to_bytes()).expect("room for the file");
        }
    }

    pub(crate) fn close(self) {
        self.0.into_inner().expect("room for the file");
    }
}
