//! Arbitrary bytes as a cold segment, and a real one with mutations under valid checksums.
//!
//! Checks that opening and reading never panic, that pages hold rows in the order of their places,
//! and that a real file with one mutated byte and old checksums never yields other rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_cold::{
    Archive, Change, ColdConfig, EntryKind, Filter, Header, Keys, PageLimits, ROW_LEN,
};
use weir_fuzz::Recipe;
use weir_io::{Disk, SimDisk};
use weir_types::{ChangeId, Epoch, FirmId, Nanos, PartitionId, Rec, Seq};
use weir_wire::delivery::OrderRow;
use weir_wire::{DecodeError, Message};

const HEADER_LEN: usize = 128;
const FOOTER_LEN: usize = 64;
const INDEX_ENTRY_LEN: usize = 872;

fuzz_target!(|bytes: &[u8]| {
    let header = Header {
        source: PartitionId(1),
        epoch: Epoch(1),
        after: ChangeId::START,
        to: ChangeId::new(Seq(9), Rec(9)),
        first_time: Nanos(1),
        last_time: Nanos(9),
        closed_at: Nanos(9),
    };
    read(&header.file_name(), bytes);

    let mut recipe = Recipe::new(bytes);
    let (name, sound) = real_segment(&mut recipe);
    let want = read(&name, &sound);
    let at = usize::from(recipe.short()) % sound.len();
    let flip = recipe.byte();
    let mut changed = sound.clone();
    changed[at] ^= flip;
    let got = read(&name, &changed);
    assert!(flip == 0 || got.is_empty() || got == want, "byte {at} changed unnoticed");
    while !recipe.is_empty() {
        let at = usize::from(recipe.short()) % sound.len();
        changed[at] = recipe.byte();
    }
    seal(&mut changed);
    read(&name, &changed);
});

fn config() -> ColdConfig {
    ColdConfig { block_entries: 4, ..ColdConfig::new(PartitionId(1), Epoch(1)) }
}

/// The rows of a directory with this file in it; empty when the file is refused.
fn read(name: &str, bytes: &[u8]) -> Vec<u8> {
    let disk = SimDisk::new(1);
    disk.plant(name, bytes);
    let (mut archive, _) = Archive::open(disk, config()).expect("no fault was asked for");
    let limits = PageLimits { rows_max: 5, bytes_max: 2_000, scan_max: 9, blocks_max: 2 };
    let mut out = Vec::new();
    for firm in [0, 1] {
        let filter = Filter { firm_id: FirmId(firm), ..Filter::default() };
        let mut after = archive.floor();
        loop {
            let Ok(page) = archive.page(after, &filter, &limits, &mut out) else {
                return Vec::new();
            };
            assert!(page.next > after || !page.is_cut, "a page moves its reader on");
            after = page.next;
            if !page.is_cut {
                break;
            }
        }
    }
    out
}

fn real_segment(recipe: &mut Recipe<'_>) -> (String, Vec<u8>) {
    let disk = SimDisk::new(1);
    let (mut archive, _) = Archive::open(disk.clone(), config()).expect("no fault was asked for");
    let mut row = OrderRow::decode_block(&blank_row()).expect("zeros with codes are a row");
    for seq in 1..=u64::from(recipe.byte() % 16) + 1 {
        let keys = Keys { firm_id: FirmId(u32::from(recipe.byte() % 3)), ..Keys::default() };
        (row.seq, row.rec, row.firm_id) =
            (Seq(seq), Rec(1 + u64::from(recipe.byte() % 8)), keys.firm_id);
        let mut block = Vec::with_capacity(ROW_LEN);
        row.encode_block(&mut block);
        let change = Change {
            standing: if recipe.one_in(4) { EntryKind::Ended } else { EntryKind::Live },
            first: Seq(1),
            change_count: 1,
            history: [0; 7],
            keys,
            next_keys: Keys::default(),
            row: &block,
            attributes: recipe.bytes_up_to(20),
        };
        archive.take(&change).expect("it is a change");
    }
    archive.close().expect("no fault was asked for");
    let name = disk.clone().list().expect("no fault was asked for").remove(0);
    let bytes = disk.contents(&name).expect("it is listed");
    (name, bytes)
}

/// A row of zeros, or of the first valid code for fields in which zero is invalid.
fn blank_row() -> Vec<u8> {
    let mut block = vec![0; ROW_LEN];
    for field in OrderRow::FIELDS {
        for code in 0..=255 {
            block[field.offset] = code;
            let is_named = matches!(
                OrderRow::decode_block(&block),
                Err(DecodeError::FieldOutOfRange { field: at, .. }) if at == field.name
            );
            if !is_named {
                break;
            }
        }
    }
    block
}

/// Recomputes the checksums of the mutated file, as far as its structure can be followed.
fn seal(bytes: &mut [u8]) {
    let len = bytes.len();
    put_crc(bytes, 0, HEADER_LEN - 4, HEADER_LEN - 4);
    let footer = len - FOOTER_LEN;
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
    };
    let (index, blocks) = (word(bytes, footer + 8), word(bytes, footer + 20));
    if index + blocks.saturating_mul(INDEX_ENTRY_LEN) <= footer {
        for block in 0..blocks {
            let entry = index + block * INDEX_ENTRY_LEN;
            let mut from = word(bytes, entry);
            for part in (0..3).map(|part| entry + 44 + 12 * part) {
                let end = from.saturating_add(word(bytes, part));
                if end <= index {
                    put_crc(bytes, from, end, part + 8);
                }
                from = end;
            }
        }
        put_crc(bytes, index, index + blocks * INDEX_ENTRY_LEN, footer + 16);
    }
    put_crc(bytes, 0, HEADER_LEN, footer + 32);
    put_crc(bytes, footer, len - 4, len - 4);
}

fn put_crc(bytes: &mut [u8], from: usize, end: usize, at: usize) {
    let crc = crc32c::crc32c(&bytes[from..end]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}
