//! The Rust end of the round trip with the codecs that the SBE tool generates for Java.
//!
//! `write DIR` encodes frames of every message with deterministic, varied values into
//! `vectors.bin`, and their fields as text into `vectors.txt`. `check DIR` compares them with the
//! `java.bin` and `java.txt` that `tests/java` made of them, byte for byte, and decodes what Java
//! encoded. `tests/java/run.sh` runs all three steps. Every value goes through the typed message.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use weir_wire::catalogue::{GroupInfo, MessageInfo, Tail};
use weir_wire::delivery::{FetchOrders, OrderPage, OrderPageBody, OrderRow};
use weir_wire::event::{Checkpoint, Defined, PhaseChanged, RequestDone, RequestRejected};
use weir_wire::frame::{Framing, next_frame, put_frame_with, put_message};
use weir_wire::group::{put_data, put_group};
use weir_wire::message::camel_case;
use weir_wire::order_entry::{CancelOrder, MassCancel, NewOrder, ReplaceOrder};
use weir_wire::reference::{
    DefineAccount, DefineFirm, DefineInstrument, DefineSession, Import, KillSwitch, SessionLost,
    SetPhase, Tick, Transfer,
};
use weir_wire::report::ExecutionReport;
use weir_wire::session::{
    Heartbeat, Logon, LogonAck, LogonReject, Logout, PartitionState, Reject, ResumePoint,
};
use weir_wire::{DecodeError, FieldInfo, Message, catalogue};

/// Frames of each message: the first all zeros, the second all ones, the rest drawn.
const FRAMES_PER_MESSAGE: u64 = 200;
/// Draws for one field before its values are taken to be impossible.
const DRAWS_MAX: usize = 100_000;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["write", dir] => write(Path::new(dir)),
        ["check", dir] => check(Path::new(dir)),
        _ => Err("usage: java_vectors write|check DIR".to_string()),
    };
    match result {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("wire round trip: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(dir: &Path) -> Result<String, String> {
    let frames = frames();
    let text: String = frames.iter().map(|frame| describe(frame)).collect();
    let save = |name: &str, bytes: &[u8]| {
        fs::write(dir.join(name), bytes).map_err(|error| format!("{name}: {error}"))
    };
    save("vectors.bin", &frames.concat())?;
    save("vectors.txt", text.as_bytes())?;
    Ok(format!("Rust: {} frames of {} messages written", frames.len(), catalogue().len()))
}

fn check(dir: &Path) -> Result<String, String> {
    let load = |name: &str| fs::read(dir.join(name)).map_err(|error| format!("{name}: {error}"));
    let (ours, theirs) = (load("vectors.txt")?, load("java.txt")?);
    compare_text(&ours, &theirs)?;
    let (ours, theirs) = (load("vectors.bin")?, load("java.bin")?);
    let mut rest = theirs.as_slice();
    let mut frame_count = 0;
    for frame in frames() {
        let Some((found, tail)) = rest.split_at_checked(frame.len()) else {
            return Err(format!("java.bin ends in frame {frame_count}"));
        };
        if found != frame {
            let at = frame.iter().zip(found).position(|(a, b)| a != b).unwrap_or(0);
            return Err(format!(
                "frame {frame_count} differs from byte {at} on; Rust wrote\n{}Java wrote\n{}",
                describe(&frame),
                describe(found)
            ));
        }
        rest = tail;
        frame_count += 1;
    }
    if !rest.is_empty() || ours != theirs {
        return Err("java.bin is longer than vectors.bin".to_string());
    }
    Ok(format!("Rust: {frame_count} frames came back from Java, equal in text and in every byte"))
}

fn compare_text(ours: &[u8], theirs: &[u8]) -> Result<(), String> {
    let (ours, theirs) = (String::from_utf8_lossy(ours), String::from_utf8_lossy(theirs));
    for (index, (a, b)) in ours.lines().zip(theirs.lines()).enumerate() {
        if a != b {
            return Err(format!("line {}: Rust wrote {a}, Java read {b}", index + 1));
        }
    }
    if ours.lines().count() != theirs.lines().count() {
        return Err("vectors.txt and java.txt differ in length".to_string());
    }
    Ok(())
}

/// Chance enough for values, the same in every run: splitmix64.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Fills a field: numbers of any length, texts of printable characters and padding.
    fn fill(&mut self, field: &FieldInfo, bytes: &mut [u8]) {
        bytes.fill(0);
        if ["clOrdId", "symbol", "label"].contains(&field.schema_type) {
            let len = usize::try_from(self.next()).expect("64 bits") % (bytes.len() + 1);
            for byte in &mut bytes[..len] {
                *byte = b'!' + (self.next() % 94) as u8;
            }
        } else if self.next().is_multiple_of(2) && bytes.len() <= 8 {
            // Small numbers, so that codes are hit and high bytes are zero.
            bytes[0] = (self.next() % 128) as u8;
        } else {
            bytes.fill_with(|| self.next() as u8);
        }
    }
}

/// A message of type `M` with values that it can have.
fn draw_message<M: Message>(draw: &mut Draw, number: u64) -> M {
    let mut block = vec![0; M::BLOCK_LENGTH];
    for field in M::FIELDS {
        let place = field.offset..field.offset + field.size;
        match number {
            0 => {}
            1 => block[place].fill(0xFF),
            _ => draw.fill(field, &mut block[place]),
        }
    }
    // A field whose value has no meaning is named by the error and drawn again.
    for _ in 0..DRAWS_MAX {
        match M::decode_block(&block) {
            Ok(message) => return message,
            Err(DecodeError::FieldOutOfRange { index, .. }) => {
                let field = &M::FIELDS[usize::from(index) - 1];
                draw.fill(field, &mut block[field.offset..field.offset + field.size]);
            }
            Err(error) => panic!("{}: {error}", M::NAME),
        }
    }
    panic!("{}: no valid value found in {DRAWS_MAX} draws", M::NAME);
}

fn put_plain<M: Message>(frames: &mut Vec<Vec<u8>>) {
    put_with::<M>(frames, |_, _, _| {});
}

fn put_grouped<M: Message, E: Message>(frames: &mut Vec<Vec<u8>>) {
    put_with::<M>(frames, |draw, number, out| {
        let entries: Vec<E> = (0..number % 5).map(|i| draw_message(draw, number + i)).collect();
        put_group(&entries, out);
    });
}

fn put_with_token<M: Message>(frames: &mut Vec<Vec<u8>>) {
    put_with::<M>(frames, |draw, number, out| {
        let token: Vec<u8> = (0..7 * (number % 20)).map(|_| draw.next() as u8).collect();
        put_data(&token, out);
    });
}

fn put_with<M: Message>(
    frames: &mut Vec<Vec<u8>>,
    put_tail: impl Fn(&mut Draw, u64, &mut Vec<u8>),
) {
    let mut draw = Draw(u64::from(M::TEMPLATE_ID));
    for number in 0..FRAMES_PER_MESSAGE {
        let mut frame = Vec::new();
        put_frame_with(&mut frame, |out| {
            put_message(&draw_message::<M>(&mut draw, number), out);
            put_tail(&mut draw, number, out);
        });
        frames.push(frame);
    }
}

/// Frames of every message of the catalogue. Messages that hold another one (`Defined`, `Import`)
/// come without it: in the schema they are their own fields only.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let to = &mut frames;
    put_grouped::<Logon, ResumePoint>(to);
    put_grouped::<LogonAck, PartitionState>(to);
    put_plain::<LogonReject>(to);
    put_plain::<Logout>(to);
    put_plain::<Heartbeat>(to);
    put_plain::<Reject>(to);
    put_plain::<NewOrder>(to);
    put_plain::<ReplaceOrder>(to);
    put_plain::<CancelOrder>(to);
    put_plain::<MassCancel>(to);
    put_plain::<DefineInstrument>(to);
    put_plain::<DefineFirm>(to);
    put_plain::<DefineAccount>(to);
    put_plain::<DefineSession>(to);
    put_plain::<Transfer>(to);
    put_plain::<SetPhase>(to);
    put_plain::<KillSwitch>(to);
    put_plain::<ExecutionReport>(to);
    put_plain::<RequestRejected>(to);
    put_plain::<RequestDone>(to);
    put_plain::<PhaseChanged>(to);
    put_plain::<Checkpoint>(to);
    put_plain::<Defined>(to);
    put_with_token::<FetchOrders>(to);
    put_with_token::<OrderPage>(to);
    put_grouped::<OrderPageBody, OrderRow>(to);
    put_plain::<Import>(to);
    put_plain::<Tick>(to);
    put_plain::<SessionLost>(to);
    let expected = catalogue().len() * FRAMES_PER_MESSAGE as usize;
    assert_eq!(frames.len(), expected, "a message of the catalogue is missing here");
    frames
}

/// The fields of a frame as text, by the names and in the order of the schema.
fn describe(frame: &[u8]) -> String {
    let Framing::Frame { message: Ok(raw), .. } = next_frame(frame, usize::MAX) else {
        return "(not a frame)\n".to_string();
    };
    let info: &MessageInfo =
        weir_wire::catalogue::message_info(raw.template_id).expect("the catalogue has it");
    let mut text = format!("message {}\n", info.name);
    describe_block(info.fields, raw.block(), &mut text);
    match info.tail {
        Tail::Group(group) => describe_group(&group, raw.rest(), &mut text),
        Tail::Data(name) => {
            let hex = hex(&raw.rest()[2..]);
            writeln!(text, "{}={hex}", camel_case(name)).expect("a string takes any text");
        }
        Tail::None | Tail::Definition => {}
    }
    text
}

fn describe_group(group: &GroupInfo, bytes: &[u8], text: &mut String) {
    let entries = &bytes[4..];
    let count = entries.len() / group.block_length;
    writeln!(text, "{}={count}", camel_case(group.name)).expect("a string takes any text");
    for (index, entry) in entries.chunks(group.block_length).enumerate() {
        writeln!(text, "entry {index}").expect("a string takes any text");
        describe_block(group.fields, entry, text);
    }
}

fn describe_block(fields: &[FieldInfo], block: &[u8], text: &mut String) {
    for field in fields {
        let bytes = &block[field.offset..field.offset + field.size];
        let name = field.schema_name();
        let mut line = |name: String, value: String| {
            writeln!(text, "{name}={value}").expect("a string takes any text");
        };
        match field.schema_type {
            "cash" => {
                line(format!("{name}.low"), unsigned(&bytes[..8]).to_string());
                line(format!("{name}.high"), signed(&bytes[8..]).to_string());
            }
            "stageTimes" => {
                line(format!("{name}.t0"), unsigned(&bytes[..8]).to_string());
                for (index, word) in bytes[8..].chunks(4).enumerate() {
                    line(format!("{name}.t{}", index + 1), unsigned(word).to_string());
                }
            }
            "price" | "int8" | "int16" | "int32" | "int64" => line(name, signed(bytes).to_string()),
            _ if bytes.len() > 8 => line(name, hex(bytes)),
            _ => line(name, unsigned(bytes).to_string()),
        }
    }
}

fn unsigned(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn signed(bytes: &[u8]) -> i64 {
    let unused_bits = 64 - 8 * u32::try_from(bytes.len()).expect("at most eight bytes");
    (unsigned(bytes) << unused_bits).cast_signed() >> unused_bits
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
