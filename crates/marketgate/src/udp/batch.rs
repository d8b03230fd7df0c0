//! Receives many datagrams with one call of `recvmmsg`, each with the kernel's receive time, and
//! reads the kernel's count of dropped datagrams.
//!
//! The control messages are those of 64-bit Linux: `SCM_TIMESTAMPNS` and `SO_RXQ_OVFL` (socket(7)).

use std::mem::size_of;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::{io, ptr};

use weir_feed::capture::Datagram;
use weir_types::Nanos;

use super::super::{Datagrams, ReceiveCounts};
use super::plain::now;
use super::{Listen, is_nothing, listen};

/// The maximum number of datagrams of one call.
pub const BATCH_MAX: usize = 64;
/// Bytes kept of one datagram: more than any Ethernet frame carries, jumbo frames included.
const DATAGRAM_LEN_MAX: usize = 10_240;
/// The size of the control buffer of one datagram, in words: two messages are expected, of 4 and 3
/// words.
const CONTROL_WORDS: usize = 16;
/// The length of a control message's header: length, level, type.
const CONTROL_HEAD_LEN: usize = 16;

const _: () = assert!(size_of::<libc::cmsghdr>() == CONTROL_HEAD_LEN, "Linux on 64 bits");

/// Receives up to [`BATCH_MAX`] datagrams with one call.
pub struct BatchReceiver {
    socket: UdpSocket,
    dst: SocketAddr,
    buffers: Vec<[u8; DATAGRAM_LEN_MAX]>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    names: Vec<libc::sockaddr_in>,
    counts: ReceiveCounts,
    /// The kernel's own count of dropped datagrams, which wraps at 2^32.
    drops: u32,
}

impl std::fmt::Debug for BatchReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchReceiver")
            .field("dst", &self.dst)
            .field("counts", &self.counts)
            .finish()
    }
}

impl BatchReceiver {
    /// Opens a socket and enables time stamps and the drop count.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    pub fn open(to: &Listen) -> io::Result<BatchReceiver> {
        BatchReceiver::of(listen(to)?)
    }

    /// Wraps a bound socket and enables time stamps and the drop count.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    pub fn of(socket: UdpSocket) -> io::Result<BatchReceiver> {
        let dst = socket.local_addr()?;
        switch_on(&socket, libc::SO_TIMESTAMPNS)?;
        switch_on(&socket, libc::SO_RXQ_OVFL)?;
        let none = libc::in_addr { s_addr: 0 };
        let name =
            libc::sockaddr_in { sin_family: 0, sin_port: 0, sin_addr: none, sin_zero: [0; 8] };
        Ok(BatchReceiver {
            socket,
            dst,
            buffers: vec![[0; DATAGRAM_LEN_MAX]; BATCH_MAX],
            controls: vec![[0; CONTROL_WORDS]; BATCH_MAX],
            names: vec![name; BATCH_MAX],
            counts: ReceiveCounts { kernel_drops: Some(0), ..ReceiveCounts::default() },
            drops: 0,
        })
    }

    /// The local address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.dst
    }

    /// The socket, for sending and for polling.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Receives into the buffers, writes each datagram's length and flags to `filled`, and returns
    /// the number of datagrams.
    fn call(&mut self, filled: &mut [Filled; BATCH_MAX]) -> io::Result<usize> {
        let nothing = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        let mut parts = [nothing; BATCH_MAX];
        for (part, buffer) in parts.iter_mut().zip(&mut self.buffers) {
            *part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        }
        let head = libc::msghdr {
            msg_name: ptr::null_mut(),
            msg_namelen: 0,
            msg_iov: ptr::null_mut(),
            msg_iovlen: 0,
            msg_control: ptr::null_mut(),
            msg_controllen: 0,
            msg_flags: 0,
        };
        let mut heads = [libc::mmsghdr { msg_hdr: head, msg_len: 0 }; BATCH_MAX];
        for (index, libc::mmsghdr { msg_hdr: head, .. }) in heads.iter_mut().enumerate() {
            head.msg_name = ptr::from_mut(&mut self.names[index]).cast();
            head.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            head.msg_iov = &raw mut parts[index];
            head.msg_iovlen = 1;
            head.msg_control = self.controls[index].as_mut_ptr().cast();
            head.msg_controllen = size_of::<[u64; CONTROL_WORDS]>();
        }
        let fd = self.socket.as_raw_fd();
        // SAFETY: each of the BATCH_MAX headers points to its own name, part with buffer, and
        // control buffer, of the lengths that it states, which live and are not touched until the
        // call returns; the socket is open. No timeout is passed.
        let received = unsafe {
            let flags = libc::MSG_WAITFORONE;
            libc::recvmmsg(fd, heads.as_mut_ptr(), BATCH_MAX as u32, flags, ptr::null_mut())
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (filled, head) in filled.iter_mut().zip(&heads[..received]) {
            filled.len = (head.msg_len as usize).min(DATAGRAM_LEN_MAX);
            filled.control_len = head.msg_hdr.msg_controllen;
            filled.is_cut = head.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        }
        Ok(received)
    }

    fn note_drops(&mut self, drops: u32) {
        let more = u64::from(drops.wrapping_sub(self.drops));
        self.drops = drops;
        self.counts.kernel_drops = self.counts.kernel_drops.map(|before| before + more);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    len: usize,
    control_len: usize,
    is_cut: bool,
}

fn switch_on(socket: &UdpSocket, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value points to an `int` that lives until the call returns, and `len` is its
    // length; the socket is open.
    let done = unsafe {
        let fd = socket.as_raw_fd();
        libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const on).cast(), len)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Parses a datagram's control messages: its receive time and the kernel's drop count.
fn read_controls(control: &[u64], len: usize) -> (Option<Nanos>, Option<u32>) {
    let mut bytes = [0; CONTROL_WORDS * 8];
    for (place, word) in bytes.chunks_exact_mut(8).zip(control) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    let (mut time, mut drops) = (None, None);
    let mut rest = &bytes[..len.min(bytes.len())];
    while let Some((head, _)) = rest.split_first_chunk::<CONTROL_HEAD_LEN>() {
        let word = |at: usize| u64::from_ne_bytes(*head[at..].first_chunk().expect("a word"));
        let half = |at: usize| i32::from_ne_bytes(*head[at..].first_chunk().expect("half of one"));
        let len = usize::try_from(word(0)).unwrap_or(usize::MAX);
        let Some(data) = rest.get(CONTROL_HEAD_LEN..len) else { break };
        if half(8) == libc::SOL_SOCKET && half(12) == libc::SCM_TIMESTAMPNS {
            time = data.first_chunk::<16>().map(|spec| {
                let part = |at: usize| i64::from_ne_bytes(*spec[at..].first_chunk().expect("one"));
                let seconds = u64::try_from(part(0)).unwrap_or(0);
                let nanos = u64::try_from(part(8)).unwrap_or(0);
                Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
            });
        } else if half(8) == libc::SOL_SOCKET && half(12) == libc::SO_RXQ_OVFL {
            drops = data.first_chunk().map(|drops| u32::from_ne_bytes(*drops));
        }
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or(&[]);
    }
    (time, drops)
}

impl Datagrams for BatchReceiver {
    fn receive(&mut self, take: &mut dyn FnMut(&Datagram<'_>)) -> io::Result<usize> {
        let mut filled = [Filled::default(); BATCH_MAX];
        let received = match self.call(&mut filled) {
            Ok(received) => received,
            Err(error) if is_nothing(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        self.counts.calls += 1;
        for (index, Filled { len, control_len, is_cut }) in
            filled[..received].iter().copied().enumerate()
        {
            let (time, drops) = read_controls(&self.controls[index], control_len);
            if let Some(drops) = drops {
                self.note_drops(drops);
            }
            self.counts.datagrams += 1;
            self.counts.bytes += len as u64;
            self.counts.cut += u64::from(is_cut);
            let name = &self.names[index];
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            let src = SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into();
            let payload = &self.buffers[index][..len];
            let ts_recv = time.unwrap_or_else(now);
            take(&Datagram { ts_recv, src, dst: self.dst, payload });
        }
        Ok(received)
    }

    fn counts(&self) -> ReceiveCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(parts: &[(i32, &[u64])]) -> ([u64; CONTROL_WORDS], usize) {
        let mut words = Vec::new();
        for (kind, data) in parts {
            let head = libc::SOL_SOCKET.to_ne_bytes();
            let kind = kind.to_ne_bytes();
            let pair = [head, kind].concat();
            words.push((CONTROL_HEAD_LEN + data.len() * 8) as u64);
            words.push(u64::from_ne_bytes(*pair.first_chunk().expect("8 bytes")));
            words.extend_from_slice(data);
        }
        let len = words.len() * 8;
        words.resize(CONTROL_WORDS, 0);
        (*words.first_chunk().expect("as many as there are"), len)
    }

    #[test]
    fn control_messages_say_when_a_datagram_came_and_how_many_were_dropped() {
        let drops =
            u64::from_ne_bytes(*[7_u32.to_ne_bytes(), [0; 4]].concat().first_chunk().unwrap());
        let (words, len) =
            control(&[(libc::SCM_TIMESTAMPNS, &[3, 5]), (libc::SO_RXQ_OVFL, &[drops])]);
        assert_eq!(read_controls(&words, len), (Some(Nanos(3_000_000_005)), Some(7)));
        assert_eq!(read_controls(&words, 32), (Some(Nanos(3_000_000_005)), None));
        assert_eq!(read_controls(&words, 0), (None, None));
        let mut damaged = words;
        damaged[0] = u64::MAX;
        assert_eq!(read_controls(&damaged, len), (None, None), "longer than all of it");
        damaged[0] = 0;
        assert_eq!(read_controls(&damaged, len), (None, None), "shorter than its head");
    }
}
