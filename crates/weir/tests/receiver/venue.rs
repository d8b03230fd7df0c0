//! A venue: a publisher on two lines that loses, duplicates and reorders packets, a request server,
//! and a SoupBinTCP server for snapshots or for the feed itself. All use real sockets and act only
//! when called.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::rc::Rc;

use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome, Request};
use weir_marketgate::udp::sender;

use crate::day::{Chance, Day};
use crate::snapshot::{Reference, SoupServer};

/// The faults, in millionths of packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub seed: u64,
    pub loss: [u64; 2],
    pub duplication: u64,
    /// Packets delayed behind up to eight later ones.
    pub delay: u64,
    pub answer_loss: u64,
}

/// The most bytes in a datagram.
const DATAGRAM_LEN: usize = 1_472;

pub struct Venue {
    day: Rc<Day>,
    pub session: MoldSession,
    writer: PacketWriter,
    /// The number of messages sent in this session.
    pub published: usize,
    pub faults: Faults,
    chance: Chance,
    socket: UdpSocket,
    pub lines: Vec<SocketAddr>,
    pub is_dead: [bool; 2],
    delayed: [Vec<(u64, Vec<u8>)>; 2],
    /// The number of datagrams sent on each line.
    pub sent: [u64; 2],
    requests: UdpSocket,
    pub is_answering: bool,
    pub requests_seen: u64,
    pub answers_sent: u64,
    pub reference: Reference,
    pub soup: SoupServer,
}

impl Venue {
    pub fn new(day: Rc<Day>, faults: Faults) -> Venue {
        let session = MoldSession::new("DAY1").expect("a name");
        let requests = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        requests.set_nonblocking(true).expect("it is set");
        Venue {
            day,
            session,
            writer: PacketWriter::new(session, 1, DATAGRAM_LEN),
            published: 0,
            faults,
            chance: Chance(faults.seed),
            socket: sender(Ipv4Addr::LOCALHOST, 0).expect("a sender"),
            lines: Vec::new(),
            is_dead: [false; 2],
            delayed: Default::default(),
            sent: [0; 2],
            requests,
            is_answering: true,
            requests_seen: 0,
            answers_sent: 0,
            reference: Reference::new(),
            soup: SoupServer::new(),
        }
    }

    /// Returns the address of the request server.
    pub fn request_address(&self) -> SocketAddr {
        self.requests.local_addr().expect("it is bound")
    }

    /// Begins another session at its first message.
    pub fn restart(&mut self, name: &str) {
        self.session = MoldSession::new(name).expect("a name");
        self.writer = PacketWriter::new(self.session, 1, DATAGRAM_LEN);
        self.published = 0;
        self.reference = Reference::new();
        self.delayed = Default::default();
    }

    pub fn is_over(&self) -> bool {
        self.published == self.day.messages.len()
    }

    /// Publishes the next messages in as few datagrams as possible; returns their number.
    pub fn publish(&mut self, count: usize) -> usize {
        let end = (self.published + count).min(self.day.messages.len());
        let day = Rc::clone(&self.day);
        let messages = &day.messages[self.published..end];
        for message in messages {
            self.reference.take(message);
            if self.writer.push(message) == PushOutcome::Full {
                self.send_packet();
                assert_eq!(self.writer.push(message), PushOutcome::Added);
            }
        }
        self.send_packet();
        self.published = end;
        messages.len()
    }

    /// Publishes the next messages, each in its own datagram.
    pub fn publish_singly(&mut self, count: usize) {
        for _ in 0..count {
            self.publish(1);
        }
    }

    /// Sends one message, by its number, on one line.
    pub fn send_again(&mut self, line: usize, sequence: u64) {
        let mut writer = PacketWriter::new(self.session, sequence, DATAGRAM_LEN);
        let place = usize::try_from(sequence - 1).expect("a number");
        assert_eq!(writer.push(&self.day.messages[place]), PushOutcome::Added);
        let datagram = writer.take(<[u8]>::to_vec).expect("a message");
        self.send(line, &datagram);
    }

    fn send_packet(&mut self) {
        if let Some(datagram) = self.writer.take(<[u8]>::to_vec) {
            self.send_on_lines(&datagram);
        }
    }

    pub fn heartbeat(&mut self) {
        let datagram = self.writer.heartbeat().to_vec();
        (0..self.lines.len()).for_each(|line| self.send(line, &datagram));
    }

    /// Ends the session, after all delayed packets.
    pub fn end(&mut self) {
        for line in 0..self.lines.len() {
            for (_, datagram) in std::mem::take(&mut self.delayed[line]) {
                self.send(line, &datagram);
            }
        }
        let datagram = self.writer.end_of_session().to_vec();
        (0..self.lines.len()).for_each(|line| self.send(line, &datagram));
    }

    fn send_on_lines(&mut self, datagram: &[u8]) {
        for line in 0..self.lines.len() {
            if self.chance.happens(self.faults.loss[line]) {
                continue;
            }
            if self.chance.happens(self.faults.delay) {
                let after = 1 + self.chance.below(8);
                self.delayed[line].push((after, datagram.to_vec()));
                continue;
            }
            self.send(line, datagram);
            if self.chance.happens(self.faults.duplication) {
                self.send(line, datagram);
            }
            self.send_delayed(line);
        }
    }

    fn send_delayed(&mut self, line: usize) {
        self.delayed[line].iter_mut().for_each(|(after, _)| *after -= 1);
        while let Some(place) = self.delayed[line].iter().position(|(after, _)| *after == 0) {
            let (_, datagram) = self.delayed[line].remove(place);
            self.send(line, &datagram);
        }
    }

    /// Sends a datagram on a line, unless the line is dead.
    pub fn send(&mut self, line: usize, datagram: &[u8]) {
        if !self.is_dead[line] {
            self.socket.send_to(datagram, self.lines[line]).expect("it sends");
            self.sent[line] += 1;
        }
    }

    /// Answers requests and serves connections; returns the amount of work done.
    pub fn serve(&mut self) -> usize {
        let mut done = 0;
        let mut buffer = [0; 64];
        while let Ok((len, from)) = self.requests.recv_from(&mut buffer) {
            done += 1;
            self.requests_seen += 1;
            let request = Request::read(&buffer[..len]).expect("a request");
            let is_lost = self.chance.happens(self.faults.answer_loss);
            if self.is_answering && request.session == self.session && !is_lost {
                self.answer(&request, from);
            }
        }
        let messages = &self.day.messages[..self.published];
        done + self.soup.serve(&self.reference, self.session, messages)
    }

    /// Answers with one datagram that holds as many messages as fit, as real servers do.
    fn answer(&mut self, request: &Request, to: SocketAddr) {
        let mut writer = PacketWriter::new(self.session, request.sequence, DATAGRAM_LEN);
        let from = usize::try_from(request.sequence - 1).expect("a number");
        let asked = self.day.messages[..self.published].iter().skip(from);
        for message in asked.take(usize::from(request.count)) {
            if writer.push(message) != PushOutcome::Added {
                break;
            }
        }
        writer.take(|datagram| self.requests.send_to(datagram, to).expect("it sends"));
        self.answers_sent += 1;
    }
}
