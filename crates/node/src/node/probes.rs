//! The probes of a node: the drain with its rings, the clock, and the watch for hiccups.

use weir_probe::ring::heap_ring;
use weir_probe::thread::Share;
use weir_probe::{ClockReader, ClockWriter, Drain, DrainOptions, HiccupOptions, Hiccups, Recorder};
use weir_runtime::Runner;

use super::threads::background;
use crate::config::Config;
use crate::probe_drain::{ProbeDrain, RECORDS_MAX, RING_RECORDS};

/// Figures can wait, but not for ever.
pub(super) const KEEPER_SHARE: Share = Share::Fair { niceness: 10 };

/// The probe rings before they reach the drain.
pub(super) struct Probes {
    pub(super) drain: Option<Drain>,
    pub(super) clock: Option<ClockReader>,
}

impl Probes {
    /// Starts a drain, when probes are on and the machine's counter is reliable.
    pub(super) fn start(config: &Config, notes: &mut Vec<String>) -> Probes {
        let writer = match ClockWriter::start() {
            Ok(writer) => writer,
            Err(error) => {
                notes.push(format!("orders are not stamped: {error}"));
                return Probes { drain: None, clock: None };
            }
        };
        let clock = writer.reader();
        if !config.probes.enabled {
            // The cores are watched in any case.
            return Probes { drain: None, clock: Some(clock) };
        }
        let options = DrainOptions { records_max: RECORDS_MAX, ..DrainOptions::default() };
        let mut drain = Drain::new(writer, options);
        if let Some(path) = &config.probes.capture {
            let captured = std::fs::File::create(path)
                .and_then(|file| drain.capture_to(Box::new(std::io::BufWriter::new(file))));
            if let Err(error) = captured {
                notes.push(format!("stamps are not captured in {}: {error}", path.display()));
            }
        }
        Probes { drain: Some(drain), clock: Some(clock) }
    }

    /// Returns a recorder for one thread.
    pub(super) fn recorder(&mut self, name: &str) -> Recorder {
        let Some(drain) = &mut self.drain else { return Recorder::disabled() };
        match heap_ring(RING_RECORDS) {
            Ok((producer, consumer)) => {
                drain.add_ring(name, consumer);
                Recorder::new(producer)
            }
            Err(error) => {
                tracing::warn!(part = name, %error, "not stamped");
                Recorder::disabled()
            }
        }
    }
}

/// Returns the thread that drains the probe rings, if there are any.
pub(super) fn keeper(drain: Option<Drain>) -> Runner {
    let keeper = background("keeper", KEEPER_SHARE).giving_way();
    match drain {
        Some(drain) => keeper.with_agent(ProbeDrain::new(drain)),
        None => keeper,
    }
}

pub(super) fn start_hiccups(
    config: &Config,
    clock: Option<&ClockReader>,
    notes: &mut Vec<String>,
) -> Option<Hiccups> {
    let clock = clock.filter(|_| config.probes.hiccups)?;
    let cores = weir_probe::thread::usable_cores();
    let cores = cores.into_iter().map(|core| (core, Recorder::disabled())).collect();
    match Hiccups::start(cores, HiccupOptions::default(), clock) {
        Ok(hiccups) => Some(hiccups),
        Err(error) => {
            notes.push(format!("hiccups are not watched: {error}"));
            None
        }
    }
}
