//! Mutations by seed.

use crate::feeds::{Framing, MutatedFeed, seal};

/// A changed recording.
#[derive(Debug)]
pub struct Mutant {
    /// Its datagrams, which a gateway is sent, or the messages of its file.
    pub datagrams: Vec<Vec<u8>>,
    /// Its capture or other file, which commands read.
    pub file: Vec<u8>,
}

/// The splitmix64 generator.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a small number");
        usize::try_from(self.next() % end).expect("it is below a size")
    }
}

/// Makes the mutant of a seed.
pub fn mutant(feed: &MutatedFeed, seed: u64) -> Mutant {
    let mut random = Random(seed);
    let mut datagrams = (feed.session)(1 + seed % 3);
    for _ in 0..=random.below(4) {
        mutate(feed, &mut datagrams, &mut random);
    }
    let mut file = (feed.file)(&datagrams);
    if random.below(4) == 0 {
        mutate_file(&mut file, &mut random);
    }
    Mutant { datagrams, file }
}

fn mutate(feed: &MutatedFeed, datagrams: &mut Vec<Vec<u8>>, random: &mut Random) {
    let at = random.below(datagrams.len());
    match random.below(10) {
        0 => flip_bits(&mut datagrams[at], random),
        1 | 2 => set_to_an_end(feed.framing, &mut datagrams[at], random),
        3 => {
            // A field of all packets from one on, as a sender with a wrong clock or number.
            let field = random.below(feed.framing.fields.len());
            let (end, change) = (End::any(random), random.below(2));
            for datagram in &mut datagrams[at..] {
                end.put(feed.framing, field, datagram);
                if change == 1 {
                    seal(feed.framing, datagram);
                }
            }
        }
        4 => {
            let len = random.below(datagrams[at].len() + 1);
            datagrams[at].truncate(len);
        }
        5 => {
            let copy = datagrams[at].clone();
            let place = random.below(datagrams.len());
            datagrams.insert(place, copy);
        }
        6 => {
            let other = random.below(datagrams.len());
            datagrams.swap(at, other);
        }
        7 => {
            let other = random.below(datagrams.len());
            let cut = random.below(datagrams[at].len().min(datagrams[other].len()) + 1);
            let tail = datagrams[other][cut..].to_vec();
            datagrams[at].truncate(cut);
            datagrams[at].extend(tail);
        }
        8 => {
            // The sender begins again, in its session or another one.
            let session = 1 + random.next() % 5;
            let again = (feed.session)(session);
            let place = random.below(again.len());
            datagrams.extend_from_slice(&again[place..]);
        }
        _ => {
            let extra = random.below(200);
            datagrams[at].extend((0..extra).map(|_| random.next() as u8));
        }
    }
    if random.below(4) > 0
        && let Some(datagram) = datagrams.get_mut(at)
    {
        seal(feed.framing, datagram);
    }
    if datagrams.iter().all(Vec::is_empty) {
        datagrams.push(vec![0]);
    }
}

fn flip_bits(datagram: &mut [u8], random: &mut Random) {
    if datagram.is_empty() {
        return;
    }
    for _ in 0..=random.below(8) {
        let at = random.below(datagram.len());
        datagram[at] ^= 1 << random.below(8);
    }
}

/// A value at an end of a field's range, or next to one.
#[derive(Clone, Copy, Debug)]
struct End {
    fill: u8,
    edge: u8,
    is_last_edge: bool,
}

impl End {
    fn any(random: &mut Random) -> End {
        let fill = [0, 0xff][random.below(2)];
        let edge = [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff][random.below(7)];
        End { fill, edge, is_last_edge: random.below(2) == 0 }
    }

    fn put(self, framing: &Framing, field: usize, datagram: &mut [u8]) {
        let Some(field) = datagram.get_mut(framing.fields[field].clone()) else { return };
        field.fill(self.fill);
        let edge = if self.is_last_edge { field.last_mut() } else { field.first_mut() };
        edge.into_iter().for_each(|byte| *byte = self.edge);
    }
}

fn set_to_an_end(framing: &Framing, datagram: &mut [u8], random: &mut Random) {
    let field = random.below(framing.fields.len());
    End::any(random).put(framing, field, datagram);
}

/// Changes the file around the packets: its headers, times of receipt and length.
fn mutate_file(file: &mut Vec<u8>, random: &mut Random) {
    match random.below(3) {
        0 => {
            let len = random.below(file.len());
            file.truncate(len);
        }
        1 => flip_bits(file, random),
        _ => {
            let at = random.below(file.len().saturating_sub(8).max(1));
            let fill = [0, 0x7f, 0xff][random.below(3)];
            let end = (at + 1 + random.below(8)).min(file.len());
            file[at..end].fill(fill);
        }
    }
}
