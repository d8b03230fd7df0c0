//! Candidates for the format of cold segments: bytes per row, rows per second written, and rows per
//! second read with and without a filter. Each reads its file back as rows of the wire, byte for
//! byte.
//!
//! `cargo run --release` here; the table goes into `docs/adr/0006-cold-segments.md`. `--quick`
//! makes a small run.

mod columns;
mod data;
mod parquet_file;
mod rows;

use std::time::Instant;

use data::{Data, FIRM_AT};

/// The compression of a block.
#[derive(Clone, Copy, Debug)]
pub enum Packer {
    /// LZ4 blocks.
    Lz4,
    /// Zstandard at this level.
    Zstd(i32),
}

impl Packer {
    /// Compresses.
    pub fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Packer::Lz4 => lz4_flex::block::compress(bytes),
            Packer::Zstd(level) => zstd::bulk::compress(bytes, level).expect("memory suffices"),
        }
    }

    /// Decompresses to `len` bytes.
    pub fn unpack(self, bytes: &[u8], len: usize, out: &mut Vec<u8>) {
        out.resize(len, 0);
        let got = match self {
            Packer::Lz4 => lz4_flex::block::decompress_into(bytes, out).expect("it was packed"),
            Packer::Zstd(_) => {
                zstd::bulk::decompress_to_buffer(bytes, &mut out[..]).expect("it was packed")
            }
        };
        assert_eq!(got, len);
    }
}

/// A format of rows in a file.
pub trait Format {
    /// Its name in the table.
    fn name(&self) -> String;
    /// Writes these rows as a file.
    fn write(&self, data: &Data) -> Vec<u8>;
    /// Appends the rows of `firm` (zero: of all) in the wire's form; returns their number.
    fn read(&self, file: &[u8], firm: u32, out: &mut Vec<u8>) -> usize;
}

fn main() {
    let is_quick = std::env::args().any(|arg| arg == "--quick");
    let count = if is_quick { 50_000 } else { 500_000 };
    let formats: [Box<dyn Format>; 8] = [
        Box::new(rows::RowBlocks { packer: Packer::Lz4 }),
        Box::new(rows::RowBlocks { packer: Packer::Zstd(1) }),
        Box::new(columns::ColumnBlocks { packer: Packer::Lz4 }),
        Box::new(columns::ColumnBlocks { packer: Packer::Zstd(1) }),
        Box::new(columns::ColumnBlocks { packer: Packer::Zstd(3) }),
        Box::new(parquet_file::ParquetFile { packer: Packer::Lz4 }),
        Box::new(parquet_file::ParquetFile { packer: Packer::Zstd(1) }),
        Box::new(parquet_file::ParquetFile { packer: Packer::Zstd(3) }),
    ];
    println!(
        "| rows | attributes | format | bytes a row | written/s | read/s | firm of 10 % \
         | of 0.5 % | none |"
    );
    println!("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for attributes in [0, 150, 440] {
        for data in [data::recorded(attributes), data::synthetic(count, attributes)] {
            for format in &formats {
                measure(format.as_ref(), &data);
            }
        }
    }
}

/// Returns the best of five runs, since the machine may be shared.
fn best<T>(mut run: impl FnMut() -> T) -> (f64, T) {
    let mut best: Option<(f64, T)> = None;
    for _ in 0..5 {
        let start = Instant::now();
        let made = run();
        let seconds = start.elapsed().as_secs_f64();
        if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
            best = Some((seconds, made));
        }
    }
    best.expect("it ran")
}

fn measure(format: &dyn Format, data: &Data) {
    let (write_s, file) = best(|| format.write(data));
    let mut out = Vec::new();
    let mut rates = Vec::new();
    for firm in [0, data::FIRM_LARGE, data::FIRM_SMALL, data::FIRM_NONE] {
        let want: Vec<u8> = data.wire_of(firm);
        let (read_s, _) = best(|| {
            out.clear();
            format.read(&file, firm, &mut out)
        });
        assert!(out == want, "{} changed rows of firm {firm} (at {FIRM_AT})", format.name());
        rates.push(format!("{:.2} M", data.rows.len() as f64 / read_s / 1e6));
    }
    println!(
        "| {} | {} | {} | {:.1} | {:.2} M | {} |",
        data.name,
        data.attributes,
        format.name(),
        file.len() as f64 / data.rows.len() as f64,
        data.rows.len() as f64 / write_s / 1e6,
        rates.join(" | "),
    );
}
