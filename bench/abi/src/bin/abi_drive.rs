//! Plays recorded workloads through libraries behind the interface, and times each by the CPU time
//! of the calling thread.
//!
//! `abi_drive ROUNDS WORKLOAD... -- LIBRARY...`. Each round plays every workload through every
//! library, one after the other, each in a process of its own, so that slow periods of a shared
//! machine affect all alike and no engine inherits another's memory. Prints one JSON object.
//! Reports go to the driver's own queue, which copies each into a ring that is never drained and
//! counts it by kind: the matcher's cost of reporting, without interference from a second thread.

use std::ffi::{CString, c_void};
use std::io::{Read, Write};
use std::mem::transmute;
use std::process::{Command, Stdio};

use weir_abi::message::{CancelMessage, ModifyMessage, NewMessage, Report, ReportKind, Transport};

const MAGIC: u64 = 0x4d45_4257_5f30_3031;
const HEADER_LEN: usize = 16;
const RECORD_LEN: usize = 40;
/// The reports that the ring holds: 64 KiB, as a drained queue would reuse.
const RING_LEN: usize = 1 << 10;
const KINDS: usize = 6;

enum Message {
    New(NewMessage),
    Cancel(CancelMessage),
    Modify(ModifyMessage),
}

fn read_workload(path: &str) -> Vec<Message> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    assert!(bytes.len() >= HEADER_LEN, "{path} is no workload");
    let (header, records) = bytes.split_at(HEADER_LEN);
    assert!(header[..8] == MAGIC.to_le_bytes() && header[8] == 1, "{path} is no workload");
    assert!(records.len() % RECORD_LEN == 0, "{path} ends within a record");
    records.chunks_exact(RECORD_LEN).map(message).collect()
}

fn message(record: &[u8]) -> Message {
    let word = |at: usize| {
        u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes of the record"))
    };
    let quantity = (word(0) >> 32) as u32;
    let (sequence_number, order_id, price) = (word(8), word(16), word(24) as i64);
    match record[0] {
        0 => Message::New(NewMessage {
            order_id,
            sequence_number,
            price,
            quantity,
            side: record[1],
            is_ioc: record[2],
            reserved: [0; 2],
        }),
        1 => Message::Cancel(CancelMessage { order_id, sequence_number }),
        2 => Message::Modify(ModifyMessage {
            order_id,
            sequence_number,
            price,
            quantity,
            side: record[1],
            reserved: [0; 3],
        }),
        other => panic!("no message is of type {other}"),
    }
}

/// The queue of [`RING`]: counts reports and keeps the last ones.
struct Ring {
    reports: Vec<Report>,
    pushed: usize,
    counts: [u64; KINDS],
}

// SAFETY: called by a library only, with the handle from `create`.
unsafe extern "C" fn create(_: u32) -> *mut c_void {
    let empty = Report {
        kind: ReportKind::OrderAck,
        side: 0,
        reserved: [0; 6],
        sequence_number: 0,
        order_id: 0,
        price: 0,
        quantity: 0,
        reserved_quantity: 0,
        maker_order_id: 0,
        taker_order_id: 0,
        padding: 0,
    };
    let ring = Ring { reports: vec![empty; RING_LEN], pushed: 0, counts: [0; KINDS] };
    Box::into_raw(Box::new(ring)).cast()
}

// SAFETY: called by a library only, with the handle from `create`.
unsafe extern "C" fn push(handle: *mut c_void, report: *const Report) -> i32 {
    // SAFETY: the handle is `create`'s, the report the engine's; one thread calls the engine, and
    // the engine reports from that thread only.
    let (ring, report) = unsafe { (&mut *handle.cast::<Ring>(), *report) };
    ring.reports[ring.pushed % RING_LEN] = report;
    ring.pushed += 1;
    ring.counts[report.kind as usize] += 1;
    1
}

// SAFETY: called by a library only, with the handle from `create`.
unsafe extern "C" fn drain(_: *mut c_void, _: *mut Report, _: u32) -> u32 {
    0
}

// SAFETY: called by a library only, with the handle from `create`.
unsafe extern "C" fn flush(_: *mut c_void) {}

// SAFETY: called by a library only, with the handle from `create`.
unsafe extern "C" fn destroy(handle: *mut c_void) {
    // SAFETY: the handle is `create`'s and is freed once.
    drop(unsafe { Box::from_raw(handle.cast::<Ring>()) });
}

static RING: Transport = Transport { create, push, drain, flush, destroy };

// SAFETY: the interface's own function; `play_once` keeps its order of calls.
type Init = unsafe extern "C" fn(u64, *const Transport, *mut c_void);
// SAFETY: the interface's own function; `play_once` keeps its order of calls.
type Take<M> = unsafe extern "C" fn(*const M);
// SAFETY: the interface's own function; `play_once` keeps its order of calls.
type Signal = unsafe extern "C" fn();

/// The functions of a library.
struct Library {
    init: Init,
    shutdown: Signal,
    new_order: Take<NewMessage>,
    cancel: Take<CancelMessage>,
    modify: Take<ModifyMessage>,
    flush: Signal,
}

impl Library {
    fn open(path: &str) -> Library {
        let name = CString::new(path).expect("a path without a zero byte");
        // SAFETY: the name ends in a zero; the caller is responsible for the library's
        // initialisers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{path} cannot be loaded");
        let symbol = |name: &str| {
            let text = CString::new(name).expect("a name without a zero byte");
            // SAFETY: the handle is open and the name ends in a zero.
            let address = unsafe { libc::dlsym(handle, text.as_ptr()) };
            assert!(!address.is_null(), "{path} has no {name}");
            address
        };
        // SAFETY: the interface fixes the types of these symbols.
        unsafe {
            Library {
                init: transmute::<*mut c_void, Init>(symbol("engine_init")),
                shutdown: transmute::<*mut c_void, Signal>(symbol("engine_shutdown")),
                new_order: transmute::<*mut c_void, Take<NewMessage>>(symbol(
                    "engine_on_new_order",
                )),
                cancel: transmute::<*mut c_void, Take<CancelMessage>>(symbol("engine_on_cancel")),
                modify: transmute::<*mut c_void, Take<ModifyMessage>>(symbol("engine_on_modify")),
                flush: transmute::<*mut c_void, Signal>(symbol("engine_flush")),
            }
        }
    }

    fn play(&self, message: &Message) {
        // SAFETY: the messages live across the call; `init` was called before.
        unsafe {
            match message {
                Message::New(m) => (self.new_order)(m),
                Message::Cancel(m) => (self.cancel)(m),
                Message::Modify(m) => (self.modify)(m),
            }
        }
    }
}

/// Returns the CPU time of this thread in seconds.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec to the given address and does not keep the pointer.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "the thread's clock can be read");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Plays one workload through one library in this process; returns seconds, messages, reports by
/// kind.
fn play_once(workload: &str, library: &str) -> (f64, usize, [u64; KINDS]) {
    let messages = read_workload(workload);
    let (seconds, counts) = play_all(&Library::open(library), &messages, thread_seconds);
    (seconds, messages.len(), counts)
}

/// Plays all messages through a library, with a ring of its own; returns seconds by `clock` and
/// reports by kind.
fn play_all(
    library: &Library,
    messages: &[Message],
    clock: impl Fn() -> f64,
) -> (f64, [u64; KINDS]) {
    // SAFETY: `create` makes a ring, which is freed below, after its last use.
    let ring = unsafe { create(0) };
    // SAFETY: the transport is static and the ring outlives the library's use of it.
    unsafe { (library.init)(1, &RING, ring) };
    let start = clock();
    messages.iter().for_each(|message| library.play(message));
    // SAFETY: `init` was called before.
    unsafe { (library.flush)() };
    let seconds = clock() - start;
    // SAFETY: the library is done and the ring is ours.
    let counts = unsafe { (*ring.cast::<Ring>()).counts };
    // SAFETY: nothing uses the library's venue or the ring any more.
    unsafe {
        (library.shutdown)();
        destroy(ring);
    }
    (seconds, counts)
}

/// Plays once in a process of its own; returns messages per second, and the reports as text.
fn play_apart(workload: &str, library: &str) -> (f64, String) {
    let itself = std::env::current_exe().expect("this program has a path");
    let output = Command::new(itself)
        .args(["--once", workload, library])
        .stderr(Stdio::inherit())
        .output()
        .expect("this program can be started");
    assert!(output.status.success(), "{library} failed on {workload}");
    let text = String::from_utf8(output.stdout).expect("its own output is text");
    let (rate, reports) = text.trim().split_once(' ').expect("two fields");
    (rate.parse().expect("a rate"), reports.to_owned())
}

fn stem(path: &str) -> &str {
    std::path::Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or(path)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [once, workload, library] = args.as_slice()
        && once == "--once"
    {
        let (seconds, count, reports) = play_once(workload, library);
        println!("{} {reports:?}", count as f64 / seconds);
        return;
    }
    let usage = "abi_drive ROUNDS WORKLOAD... -- LIBRARY...";
    let split = args.iter().position(|arg| arg == "--").expect(usage);
    let rounds: usize = args[0].parse().expect(usage);
    let (workloads, libraries) = (&args[1..split], &args[split + 1..]);
    assert!(rounds > 0 && !workloads.is_empty() && !libraries.is_empty(), "{usage}");
    let mut rates = vec![vec![Vec::new(); libraries.len()]; workloads.len()];
    for round in 0..rounds {
        for (w, workload) in workloads.iter().enumerate() {
            let mut first_reports: Option<String> = None;
            // Every other round in reverse order, so that no library always follows the same one.
            for step in 0..libraries.len() {
                let l = if round % 2 == 0 { step } else { libraries.len() - 1 - step };
                let (rate, reports) = play_apart(workload, &libraries[l]);
                let first = first_reports.get_or_insert_with(|| reports.clone());
                assert!(*first == reports, "{} reported {reports}, not {first}", libraries[l]);
                rates[w][l].push(rate);
            }
        }
    }
    print(workloads, libraries, &rates);
}

fn print(workloads: &[String], libraries: &[String], rates: &[Vec<Vec<f64>>]) {
    let of = |l: usize| {
        let each: Vec<(f64, String)> = (workloads.iter().zip(rates))
            .map(|(workload, row)| {
                let mut sorted = row[l].clone();
                sorted.sort_by(f64::total_cmp);
                let (median, best) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
                let name = stem(workload);
                (median, format!("\"{name}\":{{\"median\":{median:.0},\"best\":{best:.0}}}"))
            })
            .collect();
        let worst = each.iter().map(|(median, _)| *median).fold(f64::INFINITY, f64::min);
        let texts: Vec<String> = each.into_iter().map(|(_, text)| text).collect();
        format!("\"{}\":{{\"worst_median\":{worst:.0},{}}}", stem(&libraries[l]), texts.join(","))
    };
    let all: Vec<String> = (0..libraries.len()).map(of).collect();
    let line = format!("{{\"rounds\":{},{}}}", rates[0][0].len(), all.join(","));
    writeln!(std::io::stdout(), "{line}").expect("standard output takes the line");
}

#[cfg(test)]
mod tests {
    use weir_abi::{
        engine_flush, engine_init, engine_on_cancel, engine_on_modify, engine_on_new_order,
        engine_shutdown,
    };

    use super::*;

    /// Makes a record of a workload: type, side, quantity, and its words.
    fn record(kind: u8, side: u8, quantity: u32, words: [u64; 3]) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        (bytes[0], bytes[1]) = (kind, side);
        bytes[4..8].copy_from_slice(&quantity.to_le_bytes());
        for (at, word) in words.into_iter().enumerate() {
            bytes[8 + 8 * at..16 + 8 * at].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_workload_is_played_through_the_interface_and_its_reports_are_counted() {
        let ours = Library {
            init: engine_init,
            shutdown: engine_shutdown,
            new_order: engine_on_new_order,
            cancel: engine_on_cancel,
            modify: engine_on_modify,
            flush: engine_flush,
        };
        // More reports than the ring holds.
        let mut records: Vec<_> = (1..=RING_LEN as u64 / 2)
            .flat_map(|id| {
                [record(0, 1, 5, [2 * id, id, 105]), record(1, 0, 0, [2 * id + 1, id, 0])]
            })
            .collect();
        records.push(record(0, 1, 5, [9_000, 9_000, 105]));
        records.push(record(2, 1, 7, [9_001, 9_000, 104]));
        records.push(record(0, 0, 7, [9_002, 9_002, 104]));
        let messages: Vec<Message> = records.iter().map(|record| message(record)).collect();
        let (_, counts) = play_all(&ours, &messages, || 0.0);
        let told = |kind: ReportKind| counts[kind as usize];
        assert_eq!(told(ReportKind::OrderAck), RING_LEN as u64 / 2 + 2);
        assert_eq!(told(ReportKind::CancelAck), RING_LEN as u64 / 2);
        assert_eq!((told(ReportKind::ModifyAck), told(ReportKind::Trade)), (1, 1));
    }

    #[test]
    fn the_threads_clock_goes_forward() {
        let first = thread_seconds();
        assert!(first >= 0.0 && thread_seconds() >= first);
    }
}
