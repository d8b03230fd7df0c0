//! The format page's examples equal the written bytes, which are built here by hand from its
//! tables.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use support::{config, topic};
use weir_broker::{Broker, Durability, Name, OriginMark, Quota, Source, Table, Terms};
use weir_io::SimDisk;
use weir_types::{Epoch, Nanos, Position};

const PAGE: &str = include_str!("../../../docs/protocols/broker-format.md");
const ID: u128 = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100;

/// Returns rows of sixteen bytes, without those that are all zeros.
fn rows(bytes: &[u8]) -> String {
    let line = |(at, row): (usize, &[u8])| {
        let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        (row.iter().any(|&byte| byte != 0)).then(|| format!("{:4}  {}", at * 16, hex.join(" ")))
    };
    bytes.chunks(16).enumerate().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// Puts a number of `size` bytes at the page's offset.
fn put(bytes: &mut [u8], at: usize, size: usize, value: u128) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// Returns the disk of a broker with one subscription that is away, and one message for it.
fn written() -> SimDisk {
    let disk = SimDisk::new(1);
    let mut config = config(Durability::Disk);
    config.id_if_new = ID;
    let (mut broker, _) = Broker::open(config, disk.clone(), Nanos(5)).unwrap();
    let name = Name::new("desk-11").unwrap();
    let quota = Quota { bytes_max: 1 << 20, messages_max: 1000, age_max: Nanos(1_000_000_000) };
    let day = Some(Nanos(86_400_000_000_000));
    let terms = Terms { quota: Some(quota), expire_after: day, created_by: 21, ..Terms::default() };
    let _saved_below = broker.create_on(&name, topic(11), terms, Nanos(7)).unwrap();
    support::settle(&mut broker, 7).unwrap();
    let mark = OriginMark { source: Source(1), epoch: Epoch(3), record: Position(12) };
    let _taken = broker.publish(topic(11), mark, b"hello, weir", Nanos(9)).unwrap();
    support::settle(&mut broker, 9).unwrap();
    disk
}

/// Returns the table of that broker, as a version of the format has it.
fn table(version: u32) -> Vec<u8> {
    let mut bytes = vec![0; 128];
    bytes[..8].copy_from_slice(b"WEIRSUBS");
    put(&mut bytes, 8, 4, version.into());
    put(&mut bytes, 12, 4, 1);
    put(&mut bytes, 16, 16, ID);
    put(&mut bytes, 32, 8, 3);
    put(&mut bytes, 48, 4, 1);
    bytes[52] = 3;
    put(&mut bytes, 56, 16, 1);
    if version > 1 {
        put(&mut bytes, 112, 8, 7);
    }
    bytes.extend_from_slice(&[0, 0, 0, 0, 7]);
    bytes.extend_from_slice(b"desk-11");
    for number in [1_u64 << 20, 1000, 1_000_000_000, 86_400_000_000_000, 7] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    if version > 1 {
        bytes.extend_from_slice(&21_u32.to_le_bytes());
    }
    bytes.push(1);
    bytes.extend_from_slice(&11_u32.to_le_bytes());
    bytes.extend_from_slice(&(1_u64 << 40).to_le_bytes());
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    let length = bytes.len() as u128 - 128;
    put(&mut bytes, 40, 8, length);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..124]), &bytes[128..]);
    put(&mut bytes, 124, 4, crc.into());
    bytes
}

#[test]
fn a_table_of_version_1_is_read_without_served_time_and_creators() {
    let [old, new] = [table(1), table(2)].map(|bytes| Table::decode(&bytes).unwrap());
    assert_eq!((old.served, old.rows[0].created_by), (Nanos(0), 0));
    assert_eq!((new.served, new.rows[0].created_by), (Nanos(7), 21));
    let mut upgraded = Table { served: new.served, ..old };
    upgraded.rows[0].created_by = 21;
    assert_eq!(upgraded, new);
}

#[test]
fn a_table_is_what_the_page_says_byte_by_byte() {
    let bytes = table(2);
    assert_eq!(written().contents("subscriptions-0.wtable").unwrap(), bytes);
    assert!(PAGE.contains(&rows(&bytes)), "the page should show:\n{}", rows(&bytes));
}

#[test]
fn a_spill_file_is_what_the_page_says_byte_by_byte() {
    let mut bytes = vec![0; 1024];
    bytes[..8].copy_from_slice(b"WEIRSPIL");
    put(&mut bytes, 8, 4, 1);
    put(&mut bytes, 16, 16, ID);
    put(&mut bytes, 32, 8, 1);
    put(&mut bytes, 40, 8, 1);
    let crc = crc32c::crc32c(&bytes[..508]);
    put(&mut bytes, 508, 4, crc.into());
    let (block, part, message) = (512, 512 + 64, 512 + 64 + 56);
    put(&mut bytes, message, 8, (1 << 40) + 1);
    put(&mut bytes, message + 8, 4, 1);
    put(&mut bytes, message + 12, 4, 3);
    put(&mut bytes, message + 16, 8, 12);
    put(&mut bytes, message + 24, 8, 9);
    put(&mut bytes, message + 32, 4, 11);
    bytes[message + 40..message + 51].copy_from_slice(b"hello, weir");
    let end = message + 56;
    bytes[part] = 1;
    put(&mut bytes, part + 4, 4, 11);
    put(&mut bytes, part + 8, 8, (1 << 40) + 1);
    put(&mut bytes, part + 16, 8, (1 << 40) + 1);
    put(&mut bytes, part + 24, 4, 1);
    put(&mut bytes, part + 28, 4, (end - part) as u128);
    put(&mut bytes, part + 32, 8, 9);
    put(&mut bytes, part + 40, 8, 9);
    put(&mut bytes, part + 52, 4, 11);
    let crc = crc32c::crc32c(&bytes[part..end]);
    put(&mut bytes, part + 48, 4, crc.into());
    bytes[block..block + 4].copy_from_slice(b"WBLK");
    let crc = crc32c::crc32c(&bytes[part..end]);
    put(&mut bytes, block + 8, 4, crc.into());
    put(&mut bytes, block + 12, 4, 1);
    put(&mut bytes, block + 16, 8, (end - part) as u128);
    put(&mut bytes, block + 24, 8, 1);
    put(&mut bytes, block + 40, 8, 1);
    let crc = crc32c::crc32c(&bytes[block..part]);
    put(&mut bytes, block + 4, 4, crc.into());
    assert_eq!(written().contents("00000000000000000001.wspill").unwrap(), bytes);
    assert!(PAGE.contains(&rows(&bytes)), "the page should show:\n{}", rows(&bytes));
}
