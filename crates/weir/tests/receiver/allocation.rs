//! A receiver in steady state does not allocate.

use weir_feed::{Definition, Update};
use weir_marketgate::receiver::{ChannelEvent, ChannelKey, Origin, Output};
use weir_types::Nanos;

use crate::day::Day;
use crate::memory::allocation_count;
use crate::rig::{Parts, Rig};
use crate::venue::Faults;

#[derive(Default)]
struct Silent {
    updates: u64,
    events: u64,
}

impl Output for Silent {
    fn define(&mut self, _: &Origin, _: &Definition) {}
    fn update(&mut self, origin: &Origin, _: Update) {
        assert!(origin.ts_recv > Nanos(0));
        self.updates += 1;
    }
    fn channel(&mut self, _: ChannelKey, _: &ChannelEvent) {
        self.events += 1;
    }
    fn end_of_packet(&mut self, _: &Origin) {}
}

#[test]
fn a_receiver_that_has_seen_losses_allocates_nothing_for_further_ones() {
    let faults = Faults { seed: 5, loss: [100_000; 2], delay: 100_000, ..Faults::default() };
    let parts = Parts { requests: true, ..Parts::default() };
    let mut rig = Rig::new(Day::made_up(1, 12_000, 2), faults, parts);
    let mut out = Silent::default();
    run(&mut rig, &mut out, 12_000);
    let before = rig.channel().counts;
    out = Silent::default();
    let allocated = run(&mut rig, &mut out, 24_000);
    let after = rig.channel().counts;
    assert_eq!(allocated, 0, "allocations for {} updates", out.updates);
    assert!(out.updates > 9_000 && out.events > 10, "{} {}", out.updates, out.events);
    let filled = after.gaps_filled - before.gaps_filled;
    assert!(filled > 10 && after.requests > before.requests, "{filled} holes were filled");
}

/// Publishes up to this message and receives it; returns the number of the receiver's allocations.
fn run(rig: &mut Rig, out: &mut Silent, until: usize) -> u64 {
    let mut allocated = 0;
    while rig.venue.published < until {
        rig.venue.publish(40);
        // First the lines, then the requested messages, each as far as they have arrived.
        for _ in 0..4 {
            let start = allocation_count();
            while rig.receiver.poll(Nanos(rig.clock), out) > 0 {}
            allocated += allocation_count() - start;
            rig.venue.serve();
            rig.clock += 100_000;
        }
    }
    allocated
}
