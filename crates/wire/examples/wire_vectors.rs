//! Test vectors for round trips with codecs generated from `schema/weir.xml` by other tools.
//!
//! ```text
//! wire_vectors write DIR   writes DIR/frames.bin and DIR/frames.txt
//! wire_vectors check DIR   compares DIR/frames.bin, another codec's, with what `write` writes
//! ```
//! The other codec decodes `frames.bin`, compares every value with `frames.txt`, encodes the values
//! of `frames.txt` into a `frames.bin` of its own, and `check` requires the same bytes. Every run
//! makes the same frames: the values come from a fixed pseudo-random sequence.
//!
//! `frames.bin` holds frames back to back. A frame is 6 bytes of framing header (length of the
//! whole frame, 4 bytes big-endian; 0xEB50, 2 bytes big-endian), SBE's message header, the block,
//! then the message's group or data field, if it has one. `Import` and `Defined` come without the
//! definition that follows them in a log.
//!
//! `frames.txt` is ASCII, one value per line, each line ended by one LF, in the order of the frames
//! and, within a frame, of the schema. N is the frame's index in the file from 0; names are the
//! schema's:
//!
//! ```text
//! Message.N.field=value                 a field of the block
//! Message.N.group.count=K               a group's number of entries, 0 too
//! Message.N.group.I.field=value         a field of its entry I, from 0
//! Message.N.data=value                  a data field
//! ```
//! Values by the schema type of the field (nothing is quoted or escaped; a value may be empty and
//! may contain `=`, so split at the first one):
//!
//! ```text
//! integers                    decimal; 64-bit unsigned ones are written as unsigned
//! char arrays                 the characters before the first NUL; NUL fills the rest
//! uint8 arrays, data          lower-case hexadecimal, two digits a byte
//! enums                       the name of the value, as validValue's `name`
//! sets                        the names of the choices set, joined by commas, lowest bit first
//! composites                  their members in order, joined by commas, each as above:
//!                             cash is low,high (unsigned, signed); stageTimes is t0,t1,...,t6
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weir_wire::catalogue::{Codec, GroupInfo, Tail, codes, message_info};
use weir_wire::frame::{Framing, next_frame, put_frame_with};
use weir_wire::group::put_data;
use weir_wire::message::camel_case;
use weir_wire::{FieldInfo, MessageInfo, SCHEMA_ID, SCHEMA_VERSION, catalogue};

/// The number of frames per message type: enough for every enumeration code to occur in every
/// field.
const ROUND_COUNT: usize = 160;
const FRAME_LEN_MAX: usize = 1 << 20;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", dir] => write(Path::new(dir)),
        ["check", dir] => check(Path::new(dir)),
        _ => Err("usage: wire_vectors write DIR | wire_vectors check DIR".to_owned()),
    };
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(complaint) => {
            eprintln!("wire_vectors: {complaint}");
            ExitCode::FAILURE
        }
    }
}

fn write(dir: &Path) -> Result<String, String> {
    let vectors = Vectors::make();
    let put = |path: PathBuf, bytes: &[u8]| {
        std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))
    };
    std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    put(dir.join("frames.bin"), &vectors.frames)?;
    put(dir.join("frames.txt"), vectors.text.as_bytes())?;
    Ok(format!("{} frames, {} bytes", vectors.frame_count, vectors.frames.len()))
}

fn check(dir: &Path) -> Result<String, String> {
    let path = dir.join("frames.bin");
    let theirs = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let vectors = Vectors::make();
    let (mut ours, mut theirs) = (&vectors.frames[..], &theirs[..]);
    for index in 0..vectors.frame_count {
        let (our_frame, our_rest) = split_frame(ours, index)?;
        let (their_frame, their_rest) = split_frame(theirs, index)?;
        if our_frame != their_frame {
            return Err(difference(index, our_frame, their_frame));
        }
        (ours, theirs) = (our_rest, their_rest);
    }
    if !theirs.is_empty() {
        return Err(format!("{} bytes after the last frame", theirs.len()));
    }
    Ok(format!("{} frames are equal", vectors.frame_count))
}

fn split_frame(bytes: &[u8], index: usize) -> Result<(&[u8], &[u8]), String> {
    match next_frame(bytes, FRAME_LEN_MAX) {
        Framing::Frame { len, message: Ok(_) } => Ok(bytes.split_at(len)),
        other => Err(format!("frame {index} cannot be read: {other:?}")),
    }
}

/// Describes the first difference of two frames, with the field's name if it is in the block.
fn difference(index: usize, ours: &[u8], theirs: &[u8]) -> String {
    let differs = ours.iter().zip(theirs).position(|(a, b)| a != b);
    let at = differs.unwrap_or(ours.len().min(theirs.len()));
    let template_id = u16::from_le_bytes([ours[8], ours[9]]);
    let info = message_info(template_id).expect("ours are in the catalogue");
    let block_at = weir_wire::frame::FRAME_HEADER_LEN;
    let field = info.fields.iter().find(|field| {
        (block_at + field.offset..block_at + field.offset + field.size).contains(&at)
    });
    format!(
        "frame {index}, {}: {} and {} bytes differ at byte {at}, field {}",
        info.name,
        ours.len(),
        theirs.len(),
        field.map_or("none of the block".to_owned(), FieldInfo::schema_name)
    )
}

/// The frames and their text form.
struct Vectors {
    frames: Vec<u8>,
    text: String,
    frame_count: usize,
    random: SplitMix,
}

impl Vectors {
    fn make() -> Vectors {
        let random = SplitMix(0x5745_4952);
        let mut vectors = Vectors { frames: vec![], text: String::new(), frame_count: 0, random };
        for round in 0..ROUND_COUNT {
            for info in catalogue() {
                vectors.push(info, round);
            }
        }
        vectors
    }

    fn push(&mut self, info: &'static MessageInfo, round: usize) {
        let name = format!("{}.{}", info.name, self.frame_count);
        let mut body = vec![];
        self.push_block(&name, &info.codec, info.fields, &mut body, round);
        match info.tail {
            Tail::Group(group) => self.push_group(&name, &group, &mut body, round),
            Tail::Data(names) => {
                for data_name in names {
                    self.push_data(&format!("{name}.{}", camel_case(data_name)), &mut body);
                }
            }
            Tail::None | Tail::Definition => {}
        }
        put_frame_with(&mut self.frames, |out| {
            let block_length = u16::try_from(info.block_length).expect("blocks are short");
            for word in [block_length, info.template_id, SCHEMA_ID, SCHEMA_VERSION] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&body);
        });
        self.frame_count += 1;
    }

    /// Appends a block of arbitrary values, encoded through the message's own struct.
    fn push_block(
        &mut self,
        name: &str,
        codec: &Codec,
        fields: &[FieldInfo],
        out: &mut Vec<u8>,
        round: usize,
    ) {
        let mut block = vec![];
        for field in fields {
            assert_eq!(block.len(), field.offset, "{name}.{}", field.name);
            value_bytes(field, round, &mut self.random, &mut block);
            assert_eq!(block.len(), field.offset + field.size, "{name}.{}", field.name);
        }
        codec.recode(&block, out).unwrap_or_else(|e| panic!("{name}: {e}"));
        let text = &mut self.text;
        let shown = codec.visit(&block, &mut |field, value| {
            let bytes = &block[field.offset..field.offset + field.size];
            let value = value_text(field, value.to_string(), bytes);
            writeln!(text, "{name}.{}={value}", field.schema_name()).expect("strings take all");
        });
        shown.unwrap_or_else(|e| panic!("{name}: {e}"));
    }

    fn push_group(&mut self, name: &str, group: &GroupInfo, out: &mut Vec<u8>, round: usize) {
        let name = format!("{name}.{}", camel_case(group.name));
        let count = if round == 0 { 0 } else { self.random.below(12) };
        writeln!(self.text, "{name}.count={count}").expect("strings take all");
        for word in [group.block_length as u64, count] {
            out.extend_from_slice(&u16::try_from(word).expect("both are small").to_le_bytes());
        }
        for i in 0..count {
            let name = format!("{name}.{i}");
            self.push_block(&name, &group.codec, group.fields, out, round);
            if let Some(data_name) = group.data {
                self.push_data(&format!("{name}.{data_name}"), out);
            }
        }
    }

    fn push_data(&mut self, name: &str, out: &mut Vec<u8>) {
        let len = self.random.below(3) * self.random.below(120);
        let data: Vec<u8> = (0..len).map(|_| self.random.byte()).collect();
        writeln!(self.text, "{name}={}", hex(&data)).expect("strings take all");
        put_data(&data, out);
    }
}

/// Appends a value of the field's type: the lowest, the highest, then random ones.
fn value_bytes(field: &FieldInfo, round: usize, random: &mut SplitMix, out: &mut Vec<u8>) {
    if let Some(codes) = codes(field.schema_type) {
        assert!(codes.len() <= ROUND_COUNT, "{}: too few rounds", field.schema_type);
        // The first rounds take each code once, so that none is left out.
        let index =
            if round < codes.len() { round } else { random.below(codes.len() as u64) as usize };
        return out.extend_from_slice(&codes[index].to_le_bytes()[..field.size]);
    }
    match (field.schema_type, round) {
        ("clOrdId" | "symbol" | "label" | "statusReason", _) => {
            let len = if round < 2 {
                round * field.size
            } else {
                random.below(field.size as u64 + 1) as usize
            };
            let text = (0..len).map(|_| 0x21 + (random.below(0x7f - 0x21)) as u8);
            out.extend(text.chain(std::iter::repeat_n(0, field.size - len)));
        }
        (_, 0) => out.extend(std::iter::repeat_n(0, field.size)),
        (_, 1) => out.extend(std::iter::repeat_n(0xff, field.size)),
        // The lowest and the highest signed value.
        (_, 2) => out.extend((1..=field.size).map(|i| if i == field.size { 0x80 } else { 0 })),
        (_, 3) => out.extend((1..=field.size).map(|i| if i == field.size { 0x7f } else { 0xff })),
        _ => out.extend((0..field.size).map(|_| random.byte())),
    }
}

/// Formats the value for `frames.txt`; only secrets and 128-bit numbers differ from
/// `Field::write_text`.
fn value_text(field: &FieldInfo, shown: String, bytes: &[u8]) -> String {
    match field.schema_type {
        "apiKey" => hex(bytes),
        "cash" => {
            let cash: i128 = shown.parse().expect("cash is shown in decimal");
            format!("{},{}", cash as u64, (cash >> 64) as i64)
        }
        _ => shown,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SplitMix64: yields the same sequence on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[7]
    }
}
