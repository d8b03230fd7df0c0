//! Our side of the comparison with a peer engine on one and the same flow.
//!
//! `bench_peer play WARM_UP OPERATIONS` plays the synthetic mix and prints one line of JSON;
//! `bench_peer export WARM_UP OPERATIONS FILE` also writes the same commands to a file that
//! `bench/peers` can read: a header of two 64-bit counts (operations of the warm-up, standing
//! orders included, and timed ones), then records of 40 bytes, all little-endian. A replace
//! becomes a move of the first order of its chain, because peers keep an order's number.

mod bench {
    #[allow(dead_code, reason = "every benchmark takes a part of it")]
    pub(crate) mod mix;
    #[allow(dead_code, reason = "every benchmark takes a part of it")]
    pub(crate) mod timing;
}

use std::fs::File;
use std::io::{BufWriter, Write};

use bench::mix::Mix;
use bench::timing::{Spent, time_spent};
use weir_engine::{Engine, EngineConfig};
use weir_types::{ClOrdId, Nanos, PartitionId, Position, Side, TimeInForce};
use weir_wire::event::{OrderEvent, RequestRejected};
use weir_wire::frame::{MESSAGE_HEADER_LEN, parse_message};
use weir_wire::message::Message;
use weir_wire::{Command, Definition, Event, Request};

const STANDING: usize = 500_000;
const BLOCK_LEN: usize = 10_000;

/// Kinds of records in the file.
const USER: u8 = 1;
const DEPOSIT: u8 = 2;
const PLACE: u8 = 3;
const CANCEL: u8 = 4;
const MOVE: u8 = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> usize {
        let text = arguments.get(at).expect("a count is missing");
        text.replace('_', "").parse().expect("a whole number")
    };
    let (warm_up, operations) = (number(1), number(2));
    let export = match arguments[0].as_str() {
        "play" => None,
        "export" => {
            let path = arguments.get(3).expect("the file to write");
            Some(Export::new(path, STANDING + warm_up, operations))
        }
        other => panic!("unknown mode {other:?}"),
    };
    let config = EngineConfig { positions_max: 1 << 22, ..EngineConfig::new(PartitionId(1)) };
    let mut run = Run {
        engine: Engine::new(config),
        position: 0,
        records: Vec::with_capacity(64 << 20),
        trades: Trades::default(),
        export,
    };
    let mut mix = Mix::new(1);
    for block in mix.opening().chunks(BLOCK_LEN) {
        run.play(block);
    }
    play_all(&mut run, &mut mix, STANDING, |mix, block, count| {
        block.extend((0..count).map(|_| mix.add()));
    });
    play_all(&mut run, &mut mix, warm_up, Mix::block);
    run.trades = Trades::default();
    let spent = play_all(&mut run, &mut mix, operations, Mix::block);
    if let Some(export) = run.export {
        export.file.into_inner().expect("room for the file");
    }
    assert!(run.engine.totals().is_conserved());
    println!(
        "{{\"operations\":{operations},\"operations_per_second\":{:.0},\
         \"operations_per_wall_second\":{:.0},\"trades\":{},\"traded_lots\":{},\"refused\":{},\
         \"live_orders\":{},\"digest\":\"{:016x}\"}}",
        operations as f64 / spent.processor,
        operations as f64 / spent.wall,
        run.trades.sides / 2,
        run.trades.lots / 2,
        run.trades.refused,
        run.engine.live_order_count(),
        run.engine.digest()
    );
}

/// Plays `count` commands of the mix; what they took, making and hearing them left out.
fn play_all(
    run: &mut Run,
    mix: &mut Mix,
    count: usize,
    next: impl Fn(&mut Mix, &mut Vec<Command>, usize),
) -> Spent {
    let (mut block, mut spent, mut left) = (Vec::new(), Spent::default(), count);
    while left > 0 {
        block.clear();
        next(mix, &mut block, left.min(BLOCK_LEN));
        left -= block.len();
        spent += run.play(&block);
        run.trades.hear(&run.records);
        mix.hear(&run.records);
    }
    spent
}

struct Run {
    engine: Engine,
    position: u64,
    records: Vec<u8>,
    trades: Trades,
    export: Option<Export>,
}

impl Run {
    /// Event records are encoded as the event log has them, inside of the timing.
    fn play(&mut self, block: &[Command]) -> Spent {
        if let Some(export) = &mut self.export {
            block.iter().for_each(|command| export.write(command));
        }
        self.records.clear();
        let Run { engine, position, records, .. } = self;
        time_spent(|| {
            for (at, command) in block.iter().enumerate() {
                engine.prefetch(&block[at + 1..]);
                *position += 1;
                let (at, time) = (Position(*position), Nanos(*position));
                engine.apply(at, time, command, &mut |event: &Event| event.encode(records));
            }
        })
    }
}

/// What came of the commands, to be held beside the peer's.
#[derive(Default)]
struct Trades {
    sides: u64,
    lots: u64,
    refused: u64,
}

impl Trades {
    fn hear(&mut self, records: &[u8]) {
        let mut rest = records;
        while !rest.is_empty() {
            let raw = parse_message(rest).expect("the engine encodes whole records");
            if raw.template_id == OrderEvent::TEMPLATE_ID {
                let event: OrderEvent = raw.decode().expect("an order event");
                if !event.match_id.is_none() {
                    self.sides += 1;
                    self.lots += event.last_qty.0;
                }
                self.refused += u64::from(event.rec.is_none());
            }
            self.refused += u64::from(raw.template_id == RequestRejected::TEMPLATE_ID);
            rest = &rest[MESSAGE_HEADER_LEN + raw.block_length..];
        }
    }
}

/// One record of the file.
#[derive(Default)]
struct Record {
    kind: u8,
    is_sell: bool,
    is_ioc: bool,
    instrument: u32,
    account: u32,
    order: u64,
    price_or_amount: i64,
    qty: u64,
}

/// Writes commands as a peer understands them.
struct Export {
    file: BufWriter<File>,
    /// The first order's number and the account, by each name that the order got.
    orders: Vec<(u64, u32)>,
}

impl Export {
    fn new(path: &str, warm_up: usize, operations: usize) -> Export {
        let mut file = BufWriter::new(File::create(path).expect("the file can be made"));
        for count in [warm_up as u64, operations as u64] {
            file.write_all(&count.to_le_bytes()).expect("room for the file");
        }
        Export { file, orders: Vec::new() }
    }

    fn write(&mut self, command: &Command) {
        let none = Record::default();
        match command {
            Command::Import(_, Definition::DefineAccount(account)) => {
                self.put(&Record { kind: USER, account: account.account_id.0, ..none });
            }
            // The peer's symbols are fixed; firms and sessions are none of its.
            Command::Import(..) => {}
            Command::Request(Request::Transfer(transfer)) => {
                let cash = i64::try_from(transfer.cash.0).expect("an amount of the mix");
                let account = transfer.account_id.0;
                let lots = (transfer.instrument_id.0, transfer.position_qty);
                for (instrument, price_or_amount) in [(0, cash), lots] {
                    self.put(&Record {
                        kind: DEPOSIT,
                        instrument,
                        account,
                        price_or_amount,
                        ..none
                    });
                }
            }
            Command::Request(Request::NewOrder(order)) => {
                let (order_no, account) = (number(order.cl_ord_id), order.account_id.0);
                self.name(order_no, (order_no, account));
                self.put(&Record {
                    kind: PLACE,
                    is_sell: order.side == Side::Sell,
                    is_ioc: order.time_in_force == TimeInForce::Ioc,
                    instrument: order.instrument_id.0,
                    account,
                    order: order_no,
                    price_or_amount: order.price.0,
                    qty: order.order_qty.0,
                });
            }
            Command::Request(Request::CancelOrder(cancel)) => {
                let (order, account) = self.orders[number(cancel.orig_cl_ord_id) as usize];
                let instrument = cancel.instrument_id.0;
                self.put(&Record { kind: CANCEL, instrument, account, order, ..none });
            }
            Command::Request(Request::ReplaceOrder(replace)) => {
                let (order, account) = self.orders[number(replace.orig_cl_ord_id) as usize];
                self.name(number(replace.cl_ord_id), (order, account));
                self.put(&Record {
                    kind: MOVE,
                    instrument: replace.instrument_id.0,
                    account,
                    order,
                    price_or_amount: replace.price.0,
                    ..none
                });
            }
            other => panic!("the mix has no {other:?}"),
        }
    }

    fn name(&mut self, name: u64, order: (u64, u32)) {
        let at = name as usize;
        if self.orders.len() <= at {
            self.orders.resize(at + 1, (0, 0));
        }
        self.orders[at] = order;
    }

    fn put(&mut self, record: &Record) {
        let mut bytes = [0; 40];
        bytes[0] = record.kind;
        bytes[1] = u8::from(record.is_sell);
        bytes[2] = u8::from(record.is_ioc);
        bytes[4..8].copy_from_slice(&record.instrument.to_le_bytes());
        bytes[8..12].copy_from_slice(&record.account.to_le_bytes());
        bytes[16..24].copy_from_slice(&record.order.to_le_bytes());
        bytes[24..32].copy_from_slice(&record.price_or_amount.to_le_bytes());
        bytes[32..40].copy_from_slice(&record.qty.to_le_bytes());
        self.file.write_all(&bytes).expect("room for the file");
    }
}

fn number(name: ClOrdId) -> u64 {
    name.to_number().expect("names count")
}
