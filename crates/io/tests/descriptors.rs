//! A process without a free descriptor: the same scripts on the system's disks and sockets and on
//! the simulated ones. The limit is the whole process's, so all scripts are in one test.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_io::descriptors::DescriptorRoom;
use weir_io::disk::sim::Shortage;
use weir_io::net::sim::{SimDescriptors, SimNet};
use weir_io::net::{Listener, Stream};
use weir_io::{Access, Completion, Disk, DiskError, DiskErrorKind, Op, Outcome, SimDisk};
use weir_io::{ThreadDisk, UringDisk};

/// Leaves this process no free descriptor, until it is dropped.
struct Exhausted(Rlimit);

impl Exhausted {
    fn begin() -> Exhausted {
        let before = getrlimit(Resource::Nofile);
        // The lowest free descriptor is the next one: none below it is free.
        let next = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
        let current = Some(u64::try_from(next).unwrap());
        setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
        assert!(std::fs::File::open("/dev/null").is_err(), "no descriptor is left");
        Exhausted(before)
    }
}

impl Drop for Exhausted {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.0).unwrap();
    }
}

fn done<D: Disk>(disk: &mut D, op: Op) -> Outcome {
    let mut out: Vec<Completion> = Vec::new();
    disk.submit(1, op);
    while out.is_empty() {
        disk.wait();
        disk.reap(&mut out);
    }
    out.remove(0).outcome
}

fn is_refused<T: std::fmt::Debug>(result: Result<T, DiskError>) {
    assert_eq!(result.unwrap_err().kind, DiskErrorKind::NoDescriptors);
}

fn prepare(name: &str) -> Op {
    Op::Prepare { name: name.to_owned(), len: 100 }
}

/// A locked directory's names change without a descriptor, so that a log need not stop; nothing is
/// opened, created or listed. `begin` takes the descriptors until its result is dropped.
fn check_disk<D: Disk, T>(mut disk: D, begin: impl FnOnce() -> T) {
    disk.lock().unwrap();
    for name in ["renamed", "removed", "spare"] {
        assert_eq!(done(&mut disk, prepare(name)), Outcome::Done);
    }
    let file = disk.create("open").unwrap();
    let exhausted = begin();
    let rename = Op::Rename { from: "renamed".to_owned(), to: "segment".to_owned() };
    assert_eq!(done(&mut disk, rename), Outcome::Done);
    assert_eq!(done(&mut disk, Op::Remove { name: "removed".to_owned() }), Outcome::Done);
    disk.rename("spare", "next").unwrap();
    disk.sync_dir().unwrap();
    for name in ["new", "segment"] {
        let Outcome::Failed(error) = done(&mut disk, prepare(name)) else { panic!("prepared") };
        assert_eq!(error.kind, DiskErrorKind::NoDescriptors);
    }
    is_refused(disk.open("segment", Access::Read));
    is_refused(disk.create("new"));
    is_refused(disk.list());
    assert_eq!(disk.write(file, 0, b"bytes").unwrap(), 5);
    disk.sync(file).unwrap();
    let mut bytes = [0; 5];
    assert_eq!((disk.read(file, 0, &mut bytes).unwrap(), &bytes), (5, b"bytes"));
    drop(exhausted);
    assert_eq!(done(&mut disk, prepare("new")), Outcome::Done);
    assert_eq!(disk.list().unwrap(), ["new", "next", "open", "segment"]);
}

/// A connection that finds no descriptor waits, and is accepted when there is one.
fn check_accept<T>(
    listener: &Listener,
    connect: impl FnOnce() -> Stream,
    begin: impl FnOnce() -> T,
) {
    let stream = connect();
    let exhausted = begin();
    for _ in 0..2 {
        let error = listener.accept().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
    }
    drop(exhausted);
    let (ours, _) = listener.accept().unwrap();
    assert_eq!(ours.descriptor_room(), DescriptorRoom::Plenty);
    drop(stream);
}

struct Simulated<E: Fn()>(E);

impl<E: Fn()> Drop for Simulated<E> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn check_simulated() {
    let disk = SimDisk::new(1);
    let other = disk.clone();
    check_disk(disk.clone(), move || {
        other.set_shortage(Shortage { lacks_descriptors: true, ..Shortage::default() });
        Simulated(move || other.set_shortage(Shortage::default()))
    });
    let (net, address) = (SimNet::new(1), "10.0.0.1:7001".parse::<SocketAddr>().unwrap());
    let listener = Listener::Simulated(net.listen(address));
    let from = "10.0.0.9:40000".parse().unwrap();
    check_accept(
        &listener,
        || Stream::Simulated(net.connect(from, address).unwrap()),
        || {
            net.set_descriptors(address, SimDescriptors::Exhausted);
            let (net, free) = (net.clone(), SimDescriptors::Free(DescriptorRoom::Plenty));
            Simulated(move || net.set_descriptors(address, free))
        },
    );
    assert_eq!((net.counts().failed_accepts, net.first_waiting(address)), (2, None));
}

#[test]
fn without_descriptors_open_files_go_on_and_nothing_is_lost_that_waits() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    check_disk(ThreadDisk::open(dirs[0].path(), None).unwrap(), Exhausted::begin);
    match UringDisk::open(dirs[1].path(), None) {
        Ok(disk) => check_disk(disk, Exhausted::begin),
        Err(error) => weir_skip::skip(weir_skip::Need::IoUring, error),
    }
    let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listening.local_addr().unwrap();
    let listener = Listener::from_std(listening).unwrap();
    let connect = || {
        let stream = std::net::TcpStream::connect(address).unwrap();
        mio::net::TcpStream::from_std(stream).into()
    };
    check_accept(&listener, connect, Exhausted::begin);
    check_simulated();
}
