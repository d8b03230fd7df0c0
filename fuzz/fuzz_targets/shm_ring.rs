//! A ring's file of arbitrary content.
//!
//! Checks that opening and reading never panic and never read outside of the file, that no record
//! exceeds a ring's longest, and that sequence numbers increase.
#![no_main]

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use weir_shm::{Read, Reader};

const WORDS_AT: usize = 512;
/// The number of words of the ring.
const RING: usize = 64;
const RECORD_LEN_MAX: usize = (RING / 8 - 2) * 8;

struct RingFile {
    path: PathBuf,
    file: File,
}

thread_local! {
    static RING_FILE: RefCell<Option<RingFile>> = const { RefCell::new(None) };
}

fn ring_file() -> RingFile {
    let dir = if PathBuf::from("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let path = PathBuf::from(dir).join(format!("weir-fuzz-ring-{}", std::process::id()));
    let file = File::create(&path).expect("a file");
    // Unlinked at once, so that the fuzzer leaves no file; opened through /proc/self/fd.
    let open = std::os::fd::AsRawFd::as_raw_fd(&file);
    std::fs::remove_file(&path).expect("it is there");
    RingFile { path: PathBuf::from(format!("/proc/self/fd/{open}")), file }
}

fuzz_target!(|data: &[u8]| {
    let mut words = vec![0_u64; WORDS_AT + RING];
    let mut bytes = data.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let mut next = || bytes.next().unwrap_or(0);
    words[0] = u64::from_le_bytes(*b"WEIRSHM1");
    words[1] = RING as u64;
    // Small numbers exercise the ring; other ones come now and then.
    let (is_wild, positions) = (next() % 4 == 0, [next(), next()]);
    let [intent, tail] = positions.map(|at| if is_wild { at } else { at % 256 });
    (words[16], words[32]) = (intent, tail);
    words[WORDS_AT..].iter_mut().for_each(|word| *word = next());
    let image: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    RING_FILE.with_borrow_mut(|slot| {
        let RingFile { path, file } = slot.get_or_insert_with(ring_file);
        // The reader starts at the tail that it finds; the tail is changed afterwards.
        file.write_all_at(&image, 0).expect("it is written");
        file.write_all_at(&0_u64.to_le_bytes(), 32 * 8).expect("it is written");
        let mut reader = Reader::open(path).expect("a ring");
        file.write_all_at(&tail.to_le_bytes(), 32 * 8).expect("it is written");
        let (mut record, mut last) = (vec![], None);
        for _ in 0..2 * RING {
            match reader.read(&mut record) {
                Read::Record(sequence) => {
                    assert!(record.len() <= RECORD_LEN_MAX && last < Some(sequence));
                    last = Some(sequence);
                }
                Read::Nothing | Read::Broken => break,
                Read::Lost => {}
            }
        }
        let _ = (reader.lost(), reader.has_writer());
    });
});
