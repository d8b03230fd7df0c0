//! The benchmark's crowd of hostile clients on its own thread, round after round.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use weir_bench::isolation::hostile;
use weir_bench::isolation::hostile::{Cast, Credentials, ROUND, Tallies};

use crate::support::{INSTRUMENT, Who, trader_of};

/// The sessions of hostile clients that are allowed to log on.
pub const INSIDERS: [Who; 20] = {
    let mut insiders = [trader_of(101); 20];
    let mut index = 0;
    while index < insiders.len() {
        insiders[index] = trader_of(101 + index as u32);
        index += 1;
    }
    insiders
};

/// The state that the thread and its owner share.
#[derive(Default)]
struct Shared {
    is_on: AtomicBool,
    is_over: AtomicBool,
    rounds: AtomicU64,
    tallies: Mutex<Tallies>,
}

pub struct Crowd {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Starts the thread with a crowd of `count`, not yet sent in. The logon of `victim` is
    /// replayed.
    pub fn gather(node: SocketAddr, count: usize, victim: Who) -> Crowd {
        let shared = Arc::new(Shared::default());
        let of = |who: Who| Credentials { session_id: who.session_id, key: who.key() };
        let insiders = INSIDERS.map(of).into();
        let cast = Cast { count, victim: of(victim), insiders, instrument_id: INSTRUMENT };
        let theirs = shared.clone();
        let thread = std::thread::spawn(move || {
            let mut crowd = hostile::Crowd::gather(&cast);
            // The machine has few cores, and the node is measured, not a race with its attackers.
            let _ = rustix::process::nice(10);
            while !theirs.is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                crowd.round(theirs.is_on.load(Ordering::Relaxed).then_some(node));
                theirs.tallies.lock().expect("nobody panics with it").clone_from(crowd.tallies());
                theirs.rounds.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(ROUND.saturating_sub(begun.elapsed()));
            }
        });
        Crowd { shared, thread: Some(thread) }
    }

    /// Sends the crowd in, or withdraws it.
    pub fn set_on(&self, is_on: bool) {
        self.shared.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Returns the number of rounds so far, including idle ones.
    pub fn rounds(&self) -> u64 {
        self.shared.rounds.load(Ordering::Relaxed)
    }

    /// Withdraws the crowd for good.
    pub fn disperse(mut self) -> Tallies {
        self.set_on(false);
        let rounds = self.rounds();
        while self.rounds() < rounds + 2 {
            std::thread::yield_now();
        }
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("the crowd does not panic");
        self.shared.tallies.lock().expect("nobody panics with it").clone()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}
