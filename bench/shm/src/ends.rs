//! The transports: each end can send a message to the other process and receive one, without
//! waiting.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use weir_shm::{Options, Read, Reader, Writer};

/// The length of a message in bytes: its number, padded to the length of a quote.
pub const LEN: usize = 256;
/// A message.
pub type Message = [u8; LEN];

/// One end of a transport.
pub trait End {
    /// Sends a message; a socket may buffer it until `flush`.
    fn send(&mut self, message: &Message);
    /// Sends buffered messages.
    fn flush(&mut self) {}
    /// Receives the next message, if there is one.
    fn receive(&mut self) -> Option<Message>;
}

/// A stream that never waits for bytes.
pub struct Stream<S> {
    stream: S,
    input: Vec<u8>,
    taken: usize,
    output: Vec<u8>,
}

impl<S: std::io::Read + std::io::Write> Stream<S> {
    fn new(stream: S) -> Stream<S> {
        Stream { stream, input: Vec::new(), taken: 0, output: Vec::new() }
    }
}

impl<S: std::io::Read + std::io::Write> End for Stream<S> {
    fn send(&mut self, message: &Message) {
        self.output.extend_from_slice(message);
    }

    fn flush(&mut self) {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => panic!("the other end: {error}"),
            }
        }
        self.output.clear();
    }

    fn receive(&mut self) -> Option<Message> {
        if self.input.len() - self.taken < LEN {
            self.input.drain(..std::mem::take(&mut self.taken));
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the other end is gone"),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("the other end: {error}"),
            }
        }
        let message = self.input[self.taken..].first_chunk::<LEN>().copied()?;
        self.taken += LEN;
        Some(message)
    }
}

/// Weir's ring, one in each direction.
pub struct Rings {
    writer: Writer,
    reader: Reader,
    record: Vec<u8>,
}

impl End for Rings {
    fn send(&mut self, message: &Message) {
        self.writer.write(message).expect("it fits");
    }

    fn receive(&mut self) -> Option<Message> {
        match self.reader.read(&mut self.record) {
            Read::Record(_) => Some(*self.record.first_chunk().expect("a whole one")),
            Read::Nothing | Read::Lost => None,
            Read::Broken => panic!("the ring is broken"),
        }
    }
}

/// Services of iceoryx2, one in each direction.
pub struct Services {
    publisher: Publisher<ipc::Service, Message, ()>,
    subscriber: Subscriber<ipc::Service, Message, ()>,
    _node: Node<ipc::Service>,
}

impl End for Services {
    fn send(&mut self, message: &Message) {
        self.publisher.send_copy(*message).expect("it sends");
    }

    fn receive(&mut self) -> Option<Message> {
        let sample = self.subscriber.receive().expect("it receives")?;
        Some(*sample.payload())
    }
}

/// The most messages that may wait for a subscriber, for iceoryx2 and for the ring.
const WAITING: usize = 4_096;

/// Opens this process's end of a transport; both processes do, the first one before the second.
pub fn open(way: &str, dir: &Path, is_first: bool) -> Box<dyn End> {
    let names = if is_first { ["there", "back"] } else { ["back", "there"] };
    match way {
        "tcp" => {
            let place = dir.join("port");
            let stream = if is_first {
                let listener = TcpListener::bind("127.0.0.1:0").expect("it listens");
                let port = listener.local_addr().expect("it has one").port();
                std::fs::write(dir.join("port.new"), port.to_string()).expect("it is written");
                std::fs::rename(dir.join("port.new"), place).expect("it is renamed");
                listener.accept().expect("the other end").0
            } else {
                let port = until(|| std::fs::read_to_string(&place).ok());
                TcpStream::connect(("127.0.0.1", port.parse().expect("a port")))
                    .expect("it connects")
            };
            stream.set_nodelay(true).expect("it is set");
            stream.set_nonblocking(true).expect("it is set");
            Box::new(Stream::new(stream))
        }
        "unix" => {
            let place = dir.join("socket");
            let stream = if is_first {
                UnixListener::bind(place).expect("it listens").accept().expect("the other end").0
            } else {
                until(|| UnixStream::connect(&place).ok())
            };
            stream.set_nonblocking(true).expect("it is set");
            Box::new(Stream::new(stream))
        }
        "ring" => {
            let [out, back] = names.map(|name| Path::new("/dev/shm").join(label(dir, name)));
            let options = Options { len: (WAITING * LEN) as u64 * 2, mode: 0o600 };
            let writer = Writer::create(&out, &options).expect("it is made");
            let reader = until(|| Reader::open(&back).ok());
            Box::new(Rings { writer, reader, record: Vec::new() })
        }
        "iceoryx2" => {
            let node = NodeBuilder::new().create::<ipc::Service>().expect("a node");
            let [out, back] = names.map(|name| service(&node, &label(dir, name)));
            let publisher = out.publisher_builder().create().expect("a publisher");
            let subscriber =
                back.subscriber_builder().buffer_size(WAITING).create().expect("a subscriber");
            Box::new(Services { publisher, subscriber, _node: node })
        }
        other => panic!("unknown way {other}"),
    }
}

type Service =
    iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, Message, ()>;

/// Opens a service that never waits for a subscriber.
pub fn service(node: &Node<ipc::Service>, name: &str) -> Service {
    try_service(node, name).expect("a service")
}

/// As [`service`], but returns the error if the service does not open.
pub fn try_service(node: &Node<ipc::Service>, name: &str) -> Result<Service, String> {
    let name = name.try_into().expect("a name");
    let builder = node.service_builder(&name).publish_subscribe::<Message>();
    let builder = builder.enable_safe_overflow(true).subscriber_max_buffer_size(WAITING);
    builder.open_or_create().map_err(|error| format!("{error:?}"))
}

/// Removes the lock files of the rings.
pub fn clear(dir: &Path) {
    for name in ["there", "back"] {
        let lock = label(dir, name) + ".lock";
        let _ = std::fs::remove_file(Path::new("/dev/shm").join(lock));
    }
}

fn label(dir: &Path, name: &str) -> String {
    let last = dir.file_name().expect("a folder").to_string_lossy();
    format!("{last}-{name}")
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
