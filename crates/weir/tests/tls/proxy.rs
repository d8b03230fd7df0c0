//! A proxy between a client and a node that changes the bytes as networks and attackers do.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A fault on the way to the node.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// Sends every byte as its own segment.
    Dribble,
    /// Passes this number of bytes, then ends the connection without a `close_notify` alert.
    CutAfter(usize),
    /// Flips a bit of the stream's byte at this offset.
    Flip { byte: usize, bit: u8 },
    /// Injects its own bytes towards the node once triggered.
    Inject,
}

pub struct Proxy {
    address: SocketAddr,
    inject: Arc<AtomicBool>,
}

impl Proxy {
    /// Serves any number of connections to `node`, until the test's process ends.
    pub fn start(node: SocketAddr, way: Way) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inject = Arc::new(AtomicBool::new(false));
        let told = inject.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, told) = (client.unwrap(), told.clone());
                let server = TcpStream::connect(node).unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || pass(back.0, back.1));
                std::thread::spawn(move || carry(client, server, way, &told));
            }
        });
        Proxy { address, inject }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Injects garbage before the client's next bytes.
    pub fn inject(&self) {
        self.inject.store(true, Ordering::Relaxed);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    // The end of either side ends both.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

fn carry(mut from: TcpStream, mut to: TcpStream, way: Way, inject: &AtomicBool) {
    let mut buffer = [0; 4096];
    let mut passed = 0;
    while let Ok(len) = from.read(&mut buffer) {
        if len == 0 {
            break;
        }
        let bytes = &mut buffer[..len];
        let sent = match way {
            Way::Dribble => bytes.chunks(1).try_for_each(|byte| to.write_all(byte)),
            Way::CutAfter(at) if passed + len >= at => {
                let _ = to.write_all(&bytes[..at - passed.min(at)]);
                break;
            }
            Way::CutAfter(_) => to.write_all(bytes),
            Way::Flip { byte, bit } => {
                if (passed..passed + len).contains(&byte) {
                    bytes[byte - passed] ^= 1 << bit;
                }
                to.write_all(bytes)
            }
            Way::Inject => {
                if inject.load(Ordering::Relaxed) {
                    // A well-formed record of application data without a valid seal.
                    let _ = to.write_all(&[23, 3, 3, 0, 32]).and_then(|()| to.write_all(&[7; 32]));
                }
                to.write_all(bytes)
            }
        };
        if sent.is_err() {
            break;
        }
        passed += len;
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
