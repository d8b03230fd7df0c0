//! The demo's recordings: the Bitstamp day that ships with the program, and LOBSTER's stocks where
//! `WEIR_DATA` names a folder that has them, each on several instruments.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use weir_client::Admin;
use weir_client::flow::{self, PackedFlow, Plan, ReplayConfig};
use weir_client::load::setup::hire_all;
use weir_client::load::{OrderGenerator, Playback, PlaybackAccount, SetupPlan};
use weir_types::{AccountId, InstrumentId, Nanos, PartitionId, Phase};
use weir_wire::Request;
use weir_wire::event::OrderEvent;
use weir_wire::reference::DefineInstrument;

use super::day::{
    DYNAMIC_COLLAR, Day, DayInstrument, OWN_TRADERS, VOLATILITY_CALL, call_qty, own_instrument,
};
use crate::listing::{Terms, list_copies};

/// The day that ships with the program.
const BITSTAMP_DAY: &[u8] = include_bytes!("../../../../data/bitstamp-2015-05-01.wflow");
/// LOBSTER's samples that are played where they are.
const LOBSTER_DAYS: [&str; 2] = ["AAPL_2012-06-21_1", "AMZN_2012-06-21_1"];
/// Identifiers of what the demo defines count up from here.
const FIRST_ID: u32 = 100;
/// The delay of each copy's begin after the one before, in the time of the replay.
const SHIFT: Nanos = Nanos(50_000_000);

/// A recording and its orders.
struct Recording {
    flow: PackedFlow,
    plan: Plan,
}

/// The recorded day that ships with the program.
///
/// # Errors
/// When the program was built with a damaged file.
pub(crate) fn recorded_day() -> anyhow::Result<PackedFlow> {
    flow::decode(BITSTAMP_DAY).context("the recorded day in the program")
}

/// All that is played.
pub(super) struct Recordings {
    all: Vec<Recording>,
    copies: u32,
}

/// The sessions and accounts that play it.
pub(super) struct Cast {
    /// One session a copy of a recording.
    pub(super) traders: Vec<weir_client::load::Trader>,
    /// The instrument and account of each copy, recording by recording.
    pub(super) stages: Vec<PlaybackAccount>,
    /// With a day of calls: what each is, the demo's own instrument last.
    listed: Vec<DayInstrument>,
    /// The accounts that trade the demo's own instrument.
    own: Vec<AccountId>,
}

impl Cast {
    /// The instrument that the second follower follows.
    pub(super) fn first_instrument(&self) -> InstrumentId {
        self.stages.first().map_or(InstrumentId::NONE, |stage| stage.instrument_id)
    }
}

impl Recordings {
    /// Finds what there is to play.
    pub(super) fn find(copies: u32) -> anyhow::Result<Recordings> {
        let mut all = vec![Recording::of(recorded_day()?)];
        if let Some(data) = std::env::var_os("WEIR_DATA") {
            let folder = PathBuf::from(data).join("lobster");
            for name in LOBSTER_DAYS {
                let path = folder.join(format!("LOBSTER_SampleFile_{name}.zip"));
                if path.is_file() {
                    all.push(Recording::of(flow::load(&path)?));
                }
            }
        }
        Ok(Recordings { all, copies })
    }

    /// A line for each recording.
    pub(super) fn describe(&self) -> Vec<String> {
        let lines = self.all.iter().map(|recording| {
            let header = &recording.flow.header;
            let (name, orders) = (&header.instrument, recording.plan.len());
            format!("{name}: {orders} orders, on {} instruments ({})", self.copies, header.source)
        });
        lines.collect()
    }

    /// Defines instruments, accounts and sessions; with calls the instruments begin in one, and the
    /// demo's own instrument and its traders come behind the others.
    pub(super) fn define(&self, admin: &mut Admin, has_calls: bool) -> anyhow::Result<Cast> {
        let mut instruments: Vec<DefineInstrument> = Vec::new();
        let mut seeds = Vec::new();
        let terms = if has_calls {
            Terms {
                phase: Phase::OpeningCall,
                dynamic_collar: DYNAMIC_COLLAR,
                volatility_call: VOLATILITY_CALL,
                ..Terms::default()
            }
        } else {
            Terms::default()
        };
        for recording in &self.all {
            let first_id = FIRST_ID + instruments.len() as u32;
            let listed = list_copies(admin, &recording.flow, first_id, self.copies, terms)?;
            instruments.extend(listed);
            seeds.resize(instruments.len(), Some(recording.plan.seed_count()));
        }
        let mut trader_count = instruments.len() as u32;
        if has_calls {
            let first = instruments.first().context("the demo plays something")?;
            let id = InstrumentId(FIRST_ID + trader_count);
            let own = own_instrument(id, first.partition_id);
            admin.define_instrument(own)?;
            instruments.push(own);
            seeds.push(None);
            trader_count += OWN_TRADERS;
        }
        let setup = SetupPlan {
            first_id: FIRST_ID,
            session_count: trader_count,
            instrument_count: 0,
            unanswered_count_max: 1 << 20,
        };
        let traders = hire_all(admin, &setup)?;
        let cast = instruments.iter().zip(&traders).enumerate();
        let stages = cast.map(|(trader, (instrument, hired))| PlaybackAccount {
            instrument_id: instrument.instrument_id,
            partition_id: instrument.partition_id,
            account_id: hired.account_id,
            trader,
        });
        let mut stages: Vec<PlaybackAccount> = stages.collect();
        let listed = instruments.iter().zip(&stages).zip(seeds);
        let listed = listed.map(|((instrument, stage), seed_count)| DayInstrument {
            stage: *stage,
            seed_count,
            call_qty: call_qty(instrument.qty_exponent),
        });
        let listed = if has_calls { listed.collect() } else { Vec::new() };
        stages.truncate(self.copies as usize * self.all.len());
        let own = traders[stages.len()..].iter().map(|trader| trader.account_id).collect();
        Ok(Cast { traders, stages, listed, own })
    }

    /// The orders of a day with calls that ends at the latest after `at_most`.
    pub(super) fn play_day<'a>(
        &'a self,
        cast: &'a Cast,
        speed: NonZeroU64,
        at_most: Duration,
    ) -> Day<'a> {
        let flow = self.play(cast, speed);
        let span = flow.span(speed).min(at_most);
        Day::new(flow, cast.listed.clone(), &cast.own, span)
    }

    /// The orders of all recordings, each when it is due.
    pub(super) fn play<'a>(&'a self, cast: &'a Cast, speed: NonZeroU64) -> RecordingSet<'a> {
        let config = ReplayConfig { speed, copies: self.copies, shift: SHIFT };
        let stages = cast.stages.chunks(self.copies as usize);
        let playbacks = self.all.iter().zip(stages);
        let playbacks =
            playbacks.map(|(one, stages)| Playback::new(one.plan.replay(config), stages)).collect();
        RecordingSet { playbacks, recordings: self }
    }
}

impl Recording {
    fn of(flow: PackedFlow) -> Recording {
        let plan = Plan::of(&flow.items);
        Recording { flow, plan }
    }
}

/// Several recordings played at once.
pub(super) struct RecordingSet<'a> {
    playbacks: Vec<Playback<'a>>,
    recordings: &'a Recordings,
}

impl RecordingSet<'_> {
    /// Its duration.
    pub(super) fn span(&self, speed: NonZeroU64) -> Duration {
        let longest = self.recordings.all.iter().map(|r| r.plan.span(speed).0).max();
        let shifts = SHIFT.0 * u64::from(self.recordings.copies);
        Duration::from_nanos(longest.unwrap_or(0) + shifts)
    }

    fn first_due(&self) -> Option<usize> {
        let dues = self.playbacks.iter().enumerate();
        let dues = dues.filter_map(|(index, playback)| Some((playback.peek()?, index)));
        dues.min().map(|(_, index)| index)
    }
}

impl OrderGenerator for RecordingSet<'_> {
    fn peek(&self) -> Option<Nanos> {
        self.playbacks.iter().filter_map(OrderGenerator::peek).min()
    }

    fn next(&mut self) -> (usize, PartitionId, Request) {
        let index = self.first_due().expect("the caller looked before");
        self.playbacks[index].next()
    }

    fn on_report(&mut self, trader: usize, event: &OrderEvent) {
        // Traders are dealt out recording by recording, one a copy.
        self.playbacks[trader / self.recordings.copies as usize].on_report(trader, event);
    }
}

#[cfg(test)]
mod tests {
    use weir_types::TimeInForce;
    use weir_wire::Destination;

    use super::*;

    fn cast(recordings: &Recordings) -> Cast {
        let stage = |trader: usize| {
            let id = FIRST_ID + u32::try_from(trader).unwrap();
            let (instrument_id, account_id) = (InstrumentId(id), AccountId(id));
            PlaybackAccount { instrument_id, partition_id: PartitionId(1), account_id, trader }
        };
        let stages: Vec<_> = (0..recordings.copies as usize).map(stage).collect();
        let seed_count = Some(recordings.all[0].plan.seed_count());
        let listed = |stage: &PlaybackAccount| DayInstrument {
            stage: *stage,
            seed_count,
            call_qty: call_qty(0),
        };
        let mut all: Vec<_> = stages.iter().map(listed).collect();
        all.push(DayInstrument { seed_count: None, ..listed(&stage(stages.len())) });
        let own = vec![AccountId(1), AccountId(2)];
        Cast { traders: Vec::new(), stages, listed: all, own }
    }

    /// The role of a request in an instrument's day.
    fn step(request: &Request) -> String {
        match request {
            Request::SetPhase(set) => format!("{:?}", set.phase),
            Request::NewOrder(order) if order.time_in_force == TimeInForce::AtTheOpen => {
                "open".to_owned()
            }
            Request::NewOrder(order) if order.time_in_force == TimeInForce::AtTheClose => {
                "close".to_owned()
            }
            _ => "flow".to_owned(),
        }
    }

    #[test]
    fn a_day_opens_behind_what_stood_before_and_closes_behind_all_else() {
        let recordings = Recordings::find(2).unwrap();
        let cast = cast(&recordings);
        let seed_count = recordings.all[0].plan.seed_count();
        assert!(seed_count > 0, "the day that ships begins with a book");
        // An hour of the market in a second and a half; the rest is cut off.
        let speed = NonZeroU64::new(2_400).unwrap();
        let mut day = recordings.play_day(&cast, speed, Duration::from_millis(1_500));
        let mut steps: Vec<Vec<String>> = vec![Vec::new(); cast.listed.len()];
        let mut before = Nanos(0);
        while let Some(due) = day.peek() {
            assert!(due >= before, "due times never fall");
            before = due;
            let (trader, _, request) = day.next();
            let told = match request.destination() {
                Destination::Instrument(id) => (id.0 - FIRST_ID) as usize,
                other => panic!("{other:?}"),
            };
            assert!(matches!(request, Request::SetPhase(_)) == (trader == day.operator()));
            steps[told].push(step(&request));
        }
        let calls = ["close", "close", "ClosingCall", "Closed"];
        for of_copy in &steps[..2] {
            assert!(of_copy[..seed_count].iter().all(|step| step == "flow"));
            assert_eq!(of_copy[seed_count..seed_count + 3], ["open", "open", "Continuous"]);
            let (flow, end) = of_copy[seed_count + 3..].split_at(of_copy.len() - seed_count - 7);
            assert!(flow.iter().all(|step| step == "flow") && end == calls);
        }
        assert_eq!(steps[2].last_chunk::<4>().unwrap(), &calls);
    }
}
