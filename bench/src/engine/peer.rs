//! `weir-bench engine-peer`: Weir's side of the comparison with a peer engine on the same flow.
//!
//! `bare` omits work that a peer does not do either: the digest, remembered answers and the
//! encoding of events, of which only trades and ends are then recorded.

use std::path::PathBuf;

use weir_engine::{Engine, EngineConfig, Memory};
use weir_types::{Nanos, PartitionId, Position};
use weir_wire::event::{OrderEvent, RequestRejected};
use weir_wire::frame::{MESSAGE_HEADER_LEN, parse_message};
use weir_wire::message::Message;
use weir_wire::{Command, Event, PlainEvent};

use super::day::Day;
use super::flow;
use super::mix::Mix;
use super::peer_flow::{FlowFile, Translator};
use super::timing::{Spent, time_spent};

const STANDING: usize = 500_000;
const BLOCK_LEN: usize = 1_000;

/// Options of `weir-bench engine-peer`.
#[derive(Debug, clap::Args)]
pub struct PeerArgs {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, clap::Subcommand)]
enum Mode {
    /// Play the synthetic mix.
    Play {
        /// Operations before the measured ones.
        warm_up: usize,
        /// Measured operations.
        operations: usize,
        /// `bare`: without work that a peer does not do either.
        #[arg(value_parser = ["bare"])]
        bare: Option<String>,
    },
    /// Play the recorded day, each pass on a fresh engine.
    PlayDay {
        /// A file of `weir log export`.
        commands: PathBuf,
        /// Passes before the measured ones.
        warm_up: usize,
        /// Measured passes.
        passes: usize,
        /// `bare`: without work that a peer does not do either.
        #[arg(value_parser = ["bare"])]
        bare: Option<String>,
    },
    /// Write the mix for the peers in `bench/peers`.
    Export {
        /// Operations before the measured ones.
        warm_up: usize,
        /// Measured operations.
        operations: usize,
        /// The new file.
        file: String,
    },
    /// Write the recorded day for the peers.
    ExportDay {
        /// A file of `weir log export`.
        commands: PathBuf,
        /// The new file.
        file: String,
    },
}

/// Runs the benchmark, or writes a flow.
///
/// # Panics
/// If a file cannot be read or written.
pub fn run(args: &PeerArgs) -> anyhow::Result<()> {
    match &args.mode {
        Mode::Play { warm_up, operations, bare } => {
            mix(*warm_up, *operations, Run::new(bare.is_some(), None));
        }
        Mode::Export { warm_up, operations, file } => {
            let file = FlowFile::create(file, STANDING + warm_up, *operations);
            let export = Export { file, translator: Translator::default() };
            mix(*warm_up, *operations, Run::new(false, Some(export)));
        }
        Mode::PlayDay { commands, warm_up, passes, bare } => {
            play_day(&Day::of(flow::read(commands)), *warm_up, *passes, bare.is_some());
        }
        Mode::ExportDay { commands, file } => {
            export_day(&Day::of(flow::read(commands)), file);
        }
    }
    Ok(())
}

fn mix(warm_up: usize, operations: usize, mut run: Run) {
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
    if let Some(export) = run.export.take() {
        export.file.close();
    }
    print(operations, spent, &run.trades, &run.engine, "");
}

/// Plays all passes, which are equal: figures are the sums of the timed ones, live orders of the
/// last.
fn play_day(day: &Day, warm_up_passes: usize, passes: usize, is_bare: bool) {
    assert!(passes > 0, "nothing would be timed");
    let (mut spent, mut trades) = (Spent::default(), Trades::default());
    let mut last = None;
    for pass in 0..warm_up_passes + passes {
        drop(last.take()); // only one engine at a time has memory
        let mut run = Run::new(is_bare, None);
        run.play(&day.opening);
        run.hear();
        assert_eq!(run.trades.refused, 0, "of the opening");
        for block in day.orders.chunks(BLOCK_LEN) {
            let of_block = run.play(block);
            run.hear();
            if pass >= warm_up_passes {
                spent += of_block;
            }
        }
        if pass >= warm_up_passes {
            trades += run.trades;
        }
        last = Some(run);
    }
    let engine = last.expect("a pass was played").engine;
    let how = format!(
        "\"warm_up_passes\":{warm_up_passes},\"passes\":{passes},\"left_out\":{},",
        day.left_out_json()
    );
    print(day.orders.len() * passes, spent, &trades, &engine, &how);
}

fn export_day(day: &Day, path: &str) {
    let mut file = FlowFile::create(path, 0, day.orders.len());
    file.write(&day.opening_records);
    file.write(&day.order_records);
    file.close();
    println!("{{\"operations\":{},\"left_out\":{}}}", day.orders.len(), day.left_out_json());
}

fn print(operations: usize, spent: Spent, trades: &Trades, engine: &Engine, more: &str) {
    assert!(engine.totals().is_conserved());
    println!(
        "{{\"operations\":{operations},{more}\"operations_per_second\":{:.0},\
         \"operations_per_wall_second\":{:.0},\"trades\":{},\"traded_lots\":{},\"refused\":{},\
         \"live_orders\":{},\"digest\":\"{:016x}\"}}",
        operations as f64 / spent.processor,
        operations as f64 / spent.wall,
        trades.sides / 2,
        trades.lots / 2,
        trades.refused,
        engine.live_order_count(),
        engine.digest()
    );
}

/// Plays `count` commands of the mix; returns their time without generating them and reading
/// records.
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
        run.hear();
        mix.hear(&run.records);
        run.ended.drain(..).for_each(|name| mix.hear_of_end(name));
    }
    spent
}

struct Run {
    engine: Engine,
    position: u64,
    is_bare: bool,
    records: Vec<u8>,
    /// Names of ended orders, for a run without records.
    ended: Vec<u64>,
    trades: Trades,
    export: Option<Export>,
}

impl Run {
    fn new(is_bare: bool, export: Option<Export>) -> Run {
        let usual = EngineConfig::new(PartitionId(1));
        let config = EngineConfig {
            positions_max: 1 << 22,
            memory: Memory::Ahead,
            is_digested: !is_bare,
            outcomes_max: if is_bare { 0 } else { usual.outcomes_max },
            ..usual
        };
        Run {
            engine: Engine::new(config),
            position: 0,
            is_bare,
            records: Vec::with_capacity(4 << 20),
            ended: Vec::with_capacity(1 << 16),
            trades: Trades::default(),
            export,
        }
    }

    /// Plays a block; encoding event records like the event log is part of the timing.
    fn play(&mut self, block: &[Command]) -> Spent {
        if let Some(export) = &mut self.export {
            block.iter().for_each(|command| export.write(command));
        }
        self.records.clear();
        let Run { engine, position, records, ended, trades, .. } = self;
        if self.is_bare {
            return time_spent(|| {
                play_to(engine, position, block, |event| trades.take(event, ended))
            });
        }
        time_spent(|| play_to(engine, position, block, |event| event.encode(records)))
    }

    /// Counts the trades in the records of the last block.
    fn hear(&mut self) {
        self.trades.hear(&self.records);
    }
}

#[inline(always)]
fn play_to(
    engine: &mut Engine,
    position: &mut u64,
    block: &[Command],
    mut out: impl FnMut(&Event),
) {
    for (at, command) in block.iter().enumerate() {
        engine.prefetch(&block[at + 1..]);
        *position += 1;
        engine.apply(Position(*position), Nanos(*position), command, &mut out);
    }
}

/// The results of the commands, for comparison with the peer's.
#[derive(Clone, Copy, Default)]
struct Trades {
    sides: u64,
    lots: u64,
    refused: u64,
}

impl std::ops::AddAssign for Trades {
    fn add_assign(&mut self, other: Trades) {
        self.sides += other.sides;
        self.lots += other.lots;
        self.refused += other.refused;
    }
}

impl Trades {
    /// Counts an event in a run without records.
    #[inline(always)]
    fn take(&mut self, event: &Event, ended: &mut Vec<u64>) {
        match event {
            Event::Plain(PlainEvent::OrderEvent(e)) => {
                if !e.match_id.is_none() {
                    self.sides += 1;
                    self.lots += e.last_qty.0;
                }
                self.refused += u64::from(e.rec.is_none());
                if !e.ord_status.is_live()
                    && let Some(name) = e.cl_ord_id.to_number()
                {
                    ended.push(name);
                }
            }
            Event::Plain(PlainEvent::RequestRejected(_)) => self.refused += 1,
            _ => {}
        }
    }

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

/// Writes commands in the peer's format.
struct Export {
    file: FlowFile,
    translator: Translator,
}

impl Export {
    fn write(&mut self, command: &Command) {
        let mut records = Vec::new();
        self.translator.translate(command, &mut records).expect("the mix has its equal");
        self.file.write(&records);
    }
}
