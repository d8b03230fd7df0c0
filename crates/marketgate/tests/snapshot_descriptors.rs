//! The snapshot server and the tables' file system in a process without free descriptors. A process
//! of its own: the limit holds for all of its threads.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_feed::session_name::Calendar;
use weir_feed::soupbin::{Access, Login, SoupPacket};
use weir_marketgate::post::{FileSystem, Storage as _};
use weir_marketgate::publish::{
    EventPublisherParts, SnapshotAgent, SnapshotFigures, SnapshotLimits, SnapshotParts,
};
use weir_partition::event_reader::EventReader;
use weir_runtime::Agent;
use weir_types::{Nanos, PartitionId};

const NOW: Nanos = Nanos(1_000_000_000);
const HANG: Duration = Duration::from_secs(60);

/// Tests that set the limit wait for each other.
fn alone() -> MutexGuard<'static, ()> {
    static LIMIT: Mutex<()> = Mutex::new(());
    LIMIT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_table_without_a_free_descriptor_gets_its_name_once_there_is_one_or_not_at_all() {
    let _limit = alone();
    let dir = tempfile::tempdir().unwrap();
    let [part, whole] = ["bars.parquet.part", "bars.parquet"].map(|name| dir.path().join(name));
    std::fs::write(&part, b"rows").unwrap();
    let usual = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..usual }).unwrap();
    let refused = FileSystem.rename(&part, &whole);
    let is_there = [&part, &whole].map(|path| path.is_file());
    setrlimit(Resource::Nofile, usual).unwrap();
    assert!(refused.is_err());
    assert_eq!(is_there, [true, false], "a table that counts as lost has no name");
    FileSystem.rename(&part, &whole).unwrap();
    assert!(whole.is_file());
}

#[test]
fn a_server_without_free_descriptors_goes_on_and_accepts_once_there_are() {
    let _limit = alone();
    let dir = tempfile::tempdir().unwrap();
    let config = weir_log::TailConfig { segment_words: 64, segments: 2, first_record: 1 };
    let (_tail, handle) = weir_log::tail(config);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let mut agent = SnapshotAgent::new(SnapshotParts {
        events: EventPublisherParts {
            partition_id: PartitionId(1),
            events: EventReader::new(&handle, dir.path().to_owned(), 1),
            begins_with: None,
            event_count: 0,
            calendar: Calendar::new(PartitionId(1), 0),
        },
        listener,
        access: Access::Everybody,
        limits: SnapshotLimits { clients_max: 4, per_address_max: 4 },
        timeout: Nanos(3_600_000_000_000),
        look_interval: NOW,
        figures: Arc::new(SnapshotFigures::new(address)),
    });
    let mut peer = TcpStream::connect(address).unwrap();
    let mut bytes = Vec::new();
    let login = Login::new("firm11", "secret").unwrap();
    assert!(SoupPacket::LoginRequest(login).write(&mut bytes));
    peer.write_all(&bytes).unwrap();
    peer.set_nonblocking(true).unwrap();

    let usual = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..usual }).unwrap();
    for _ in 0..100 {
        agent.do_work(NOW);
        assert!(agent.next_deadline(NOW).is_some(), "it looks again by itself");
    }
    assert!(peer.read(&mut [0; 64]).is_err(), "it was not accepted");
    setrlimit(Resource::Nofile, usual).unwrap();
    let begun = Instant::now();
    let answer = loop {
        agent.do_work(NOW);
        match peer.read(&mut [0; 64]) {
            Ok(len) => break len,
            Err(_) => assert!(begun.elapsed() < HANG, "no answer comes"),
        }
    };
    assert!(answer > 0);
}
