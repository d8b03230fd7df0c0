//! A relay to a node that cuts the first connection on which a message of one kind comes, and does
//! not pass that message on.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_wire::frame::{Framing, next_frame};

/// The longest frame of a client.
const FRAME_LEN_MAX: usize = 1 << 16;

/// The relay's address, and whether it has cut a connection.
pub struct Cutter {
    pub address: SocketAddr,
    pub has_cut: Arc<AtomicBool>,
}

/// Starts a relay to `node` that cuts at the first message with this template id.
pub fn start(node: SocketAddr, template_id: u16) -> Cutter {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let has_cut = Arc::new(AtomicBool::new(false));
    let flag = has_cut.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, node) = (client.unwrap(), TcpStream::connect(node).unwrap());
            let (from_node, to_client) = (node.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || pass(from_node, to_client, |_| true));
            let flag = flag.clone();
            std::thread::spawn(move || {
                pass(client, node, |id| id != template_id || flag.swap(true, Ordering::SeqCst));
            });
        }
    });
    Cutter { address, has_cut }
}

/// Passes whole frames on until one is not permitted or a side ends; then closes both.
fn pass(mut from: TcpStream, mut to: TcpStream, permit: impl Fn(u16) -> bool) {
    let (mut held, mut block) = (Vec::new(), [0; 1 << 16]);
    'relay: while let Ok(count @ 1..) = from.read(&mut block) {
        held.extend_from_slice(&block[..count]);
        while let Framing::Frame { len, message } = next_frame(&held, FRAME_LEN_MAX) {
            if !permit(message.unwrap().template_id) || to.write_all(&held[..len]).is_err() {
                break 'relay;
            }
            held.drain(..len);
        }
    }
    // The other side's end is no failure of the relay.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
