//! The load generator against the echo: every request is answered, in open and closed loops.
//!
//! Only counts are asserted: the machine's speed does not decide the outcome.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_client::SessionConfig;
use weir_client::clock::WaitStrategy;
use weir_client::echo;
use weir_client::load::{
    Arrivals, Generator, Listing, LoadPlan, LoadReport, Mix, MixSource, Pace, Schedule, Trader,
};
use weir_types::{AccountId, InstrumentId, Nanos, Price, Qty, SessionId};
use weir_wire::session::ApiKey;

struct Echo {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

fn start_echo(strategy: WaitStrategy) -> Echo {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let thread = std::thread::spawn(move || echo::serve(&listener, strategy, &told).unwrap());
    Echo { address, stop, thread }
}

impl Echo {
    fn stop(self) {
        // SYNC: pairs with the echo's load; only the flag itself is communicated.
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

fn traders(count: u32) -> Vec<Trader> {
    (1..=count)
        .map(|id| Trader {
            session: SessionConfig {
                unanswered_count_max: 100_000,
                ..SessionConfig::new(SessionId(id), ApiKey([1; 32]))
            },
            account_id: AccountId(id),
        })
        .collect()
}

fn plan(pace: Pace, wait: WaitStrategy) -> LoadPlan {
    LoadPlan {
        pace,
        warm_up: Duration::from_millis(20),
        duration: Duration::from_millis(100),
        wait,
        late_after: Nanos(1_000_000),
        late_share_max: 1.0,
    }
}

fn source(count: u32, arrivals: Arrivals, rate: f64) -> MixSource {
    let listing = Listing {
        instrument_id: InstrumentId(1),
        partition_id: echo::PARTITION,
        tick_size: Price(1),
        lot_size: Qty(1),
        middle: Price(10_000),
    };
    let accounts: Vec<_> = (1..=count).map(AccountId).collect();
    let mut source = MixSource::new(Mix::default(), vec![listing], &accounts, 50);
    source.begin(Schedule::new(arrivals, rate, 1), 1);
    source
}

fn run(generator: &mut Generator, source: &mut MixSource, plan: &LoadPlan) -> LoadReport {
    let report = generator.run(plan, source, &mut |_| {}).unwrap();
    assert_eq!(report.counts.unanswered, 0);
    assert_eq!(report.counts.sent, report.counts.answered);
    report
}

#[test]
fn an_open_loop_sends_every_order_that_was_due_and_hears_of_each() {
    for wait in [WaitStrategy::Park, WaitStrategy::Yield] {
        let echo = start_echo(wait);
        let mut generator = Generator::connect(echo.address, &traders(7), 3).unwrap();
        for arrivals in ["poisson", "bursts:20"] {
            let arrivals: Arrivals = arrivals.parse().unwrap();
            let mut source = source(7, arrivals, 5_000.0);
            let report = run(&mut generator, &mut source, &plan(Pace::Open, wait));
            let (sent, want) = (report.counts.sent, 600);
            assert!(sent.abs_diff(want) < want / 4, "{sent} of about {want}");
            assert!(report.latency.count <= sent && report.latency.count > sent / 2);
            assert_eq!(report.latency.count, report.generator_lag.count);
        }
        generator.close(Duration::from_secs(10)).unwrap();
        echo.stop();
    }
}

#[test]
fn a_closed_loop_never_has_more_under_way_than_its_window() {
    let echo = start_echo(WaitStrategy::Park);
    // As many sessions as orders in flight: no session needs a second one.
    let mut few = traders(4);
    few.iter_mut().for_each(|trader| trader.session.unanswered_count_max = 1);
    let mut generator = Generator::connect(echo.address, &few, 1).unwrap();
    let mut source = source(4, Arrivals::Uniform, 1.0);
    let narrow = plan(Pace::Window(1), WaitStrategy::Park);
    let report = run(&mut generator, &mut source, &narrow);
    assert_eq!(report.counts.held_back, 0, "one under way needs one place");
    assert!(report.counts.sent > 1);
    let wide = plan(Pace::Window(4), WaitStrategy::Park);
    let report = run(&mut generator, &mut source, &wide);
    assert!(report.latency.count > 0);
    generator.close(Duration::from_secs(10)).unwrap();
    echo.stop();
}

#[test]
fn a_run_over_more_connections_than_fit_a_glance_is_answered_too() {
    let echo = start_echo(WaitStrategy::Park);
    let mut generator = Generator::connect(echo.address, &traders(80), 80).unwrap();
    let mut source = source(80, Arrivals::Uniform, 4_000.0);
    let plan = plan(Pace::Open, WaitStrategy::Park);
    assert!(run(&mut generator, &mut source, &plan).latency.count > 0);
    generator.close(Duration::from_secs(10)).unwrap();
    echo.stop();
}
