//! The crowd of the benchmark on a thread of its own, round after round.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use weir_bench::isolation::hostile;
use weir_bench::isolation::hostile::{Cast, Credentials, ROUND, Tallies};

use crate::common::{INSTRUMENT, Who, trader_of};

/// The sessions of those who may log on and mean no good all the same.
pub const INSIDERS: [Who; 20] = {
    let mut insiders = [trader_of(101); 20];
    let mut index = 0;
    while index < insiders.len() {
        insiders[index] = trader_of(101 + index as u32);
        index += 1;
    }
    insiders
};

/// What the thread and its owner share.
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
    /// A crowd of `count` that is not there yet. `victim` is whose logon is replayed.
    pub fn gather(node: SocketAddr, count: usize, victim: Who) -> Crowd {
        let shared = Arc::new(Shared::default());
        let of = |who: Who| Credentials { session_id: who.session_id, key: who.key() };
        let insiders = INSIDERS.map(of).into();
        let cast = Cast { count, victim: of(victim), insiders, instrument_id: INSTRUMENT };
        let theirs = shared.clone();
        let thread = std::thread::spawn(move || {
            let mut crowd = hostile::Crowd::gather(&cast);
            // The machine's cores are few: what is measured is the node, not a race with its foes.
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

    /// Sends the crowd in, or away.
    pub fn set_on(&self, is_on: bool) {
        self.shared.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Rounds so far, idle ones too.
    pub fn rounds(&self) -> u64 {
        self.shared.rounds.load(Ordering::Relaxed)
    }

    /// Sends the crowd away for good.
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
