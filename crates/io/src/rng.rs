//! Random numbers from one seed, with one independent stream per purpose.
//!
//! A simulation draws its network, its disk faults and its workload from separate streams, so that
//! an additional draw in one leaves the others unchanged. Only [`OsRng`] is fit for secrets. A
//! seed's sequence is part of the tests' contract: changing it changes the meaning of every
//! recorded seed.

/// A source of random numbers.
pub trait Rng {
    /// Returns a number uniform over all 64-bit numbers.
    fn next_u64(&mut self) -> u64;

    /// Returns a number uniform in `0..bound`; `bound` must not be zero.
    fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no random number");
        // The high half of the product is uniform except for a bias of bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true in `parts` of `whole` cases.
    fn chance(&mut self, parts: u64, whole: u64) -> bool {
        self.below(whole) < parts
    }

    /// Fills `bytes` with random bytes.
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// A deterministic generator (xoshiro256**, seeded through SplitMix64).
#[derive(Clone, Debug)]
pub struct SeededRng {
    state: [u64; 4],
}

impl SeededRng {
    /// Returns the stream of `seed` for `purpose` (`"disk"`, `"network"`, `"workload"`).
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> SeededRng {
        let mut mixed = seed;
        for &byte in purpose.as_bytes() {
            mixed = split_mix(&mut (mixed ^ u64::from(byte)));
        }
        let mut state = [0; 4];
        for word in &mut state {
            *word = split_mix(&mut mixed);
        }
        SeededRng { state }
    }
}

/// Does one step of SplitMix64.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng for SeededRng {
    fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }
}

/// The operating system's generator, for identifiers and keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRng;

impl Rng for OsRng {
    fn next_u64(&mut self) -> u64 {
        let mut word = [0u8; 8];
        let mut filled = 0;
        while filled < word.len() {
            filled +=
                rustix::rand::getrandom(&mut word[filled..], rustix::rand::GetRandomFlags::empty())
                    .expect("getrandom of a few bytes does not fail once the system has started");
        }
        u64::from_le_bytes(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_a_purpose_differs() {
        let draw = |seed, purpose| SeededRng::new(seed, purpose).next_u64();
        assert_eq!(draw(1, "disk"), draw(1, "disk"));
        assert_ne!(draw(1, "disk"), draw(1, "network"));
        assert_ne!(draw(1, "disk"), draw(2, "disk"));
    }

    #[test]
    fn draws_stay_below_their_bound_and_reach_all_of_it() {
        let mut rng = SeededRng::new(7, "test");
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[usize::try_from(rng.below(5)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 5]);
    }

    #[test]
    fn the_system_generator_does_not_repeat() {
        assert_ne!(OsRng.next_u64(), OsRng.next_u64());
    }
}
