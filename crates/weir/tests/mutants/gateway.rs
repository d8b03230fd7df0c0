//! A running gateway that is sent the datagrams of mutants.

use std::net::{SocketAddr, UdpSocket};

use serde_json::Value;

use crate::commands::page;
use crate::feeds::MutatedFeed;
use crate::mutate::Mutant;
use crate::support::{Home, Node, until};

/// The memory of a gateway, in KiB: it has room for a million instruments and their books' indexes.
const MEMORY_KIB: u64 = 1 << 20;
/// The number of the session that an honest sender begins at the end; no mutant has it.
const HONEST: u64 = 1_000;

/// A gateway of one feed.
pub struct Gateway {
    feed: &'static MutatedFeed,
    home: Home,
    node: Node,
    to: SocketAddr,
    socket: UdpSocket,
    sent: u64,
}

impl Gateway {
    pub fn start(feed: &'static MutatedFeed) -> Gateway {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = format!(
            "[market_gateway]\nlisten = \"127.0.0.1:0\"\n[market_gateway.feed]\nname = \"{}\"\n\
             [market_gateway.feed.timing]\nreorder_us = 0\ngive_up_ms = 1\n\
             [[market_gateway.feed.lines]]\na = \"{to}\"\n",
            feed.name
        );
        let home = Home::with_config("memory", &config);
        let node = home.start();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Gateway { feed, home, node, to, socket, sent: 0 }
    }

    /// Sends a mutant's datagrams, and asks for the pages once they arrived.
    pub fn take(&mut self, mutant: &Mutant, seed: u64) {
        self.send(&mutant.datagrams, seed);
        page(&self.node, "/metrics", seed);
        assert!(!self.home.said().contains("panicked"), "seed {seed}: {}", self.home.said());
    }

    fn send(&mut self, datagrams: &[Vec<u8>], seed: u64) -> Value {
        for datagram in datagrams {
            self.socket.send_to(datagram, self.to).unwrap();
            self.sent += 1;
        }
        until("the datagrams", || {
            let status: Value = serde_json::from_str(&page(&self.node, "/status", seed)).unwrap();
            let receive = &status["market"]["receive"];
            let taken = ["datagrams", "dropped"].map(|key| receive[key].as_u64().unwrap());
            (taken[0] + taken[1] >= self.sent).then(|| receive.clone())
        })
    }

    /// Sends most of a session of an honest sender, which may look old by the packets of mutants.
    pub fn begin_an_honest_session(&mut self) {
        let packets = (self.feed.session)(HONEST);
        self.send(&packets[..packets.len() * 2 / 3], 0);
    }

    /// Sends the rest of it, whose numbers the gateway must follow: the session has been the only
    /// one for two seconds.
    pub fn follow_the_honest_session(&mut self) {
        let packets = (self.feed.session)(HONEST);
        let feed = weir_feed::feed_by_name(self.feed.name).expect("it is known");
        let feed = (feed.feed)();
        let last = weir_feed::Feed::packet(&feed, packets.last().expect("there are some"));
        let last = last.expect("it is one of the feed");
        let next = last.sequence + u64::from(last.count);
        self.send(&packets[packets.len() * 2 / 3..], 0);
        let honest = format!("the honest session of {}", self.feed.name);
        let receive = until(&honest, || {
            let status: Value = serde_json::from_str(&page(&self.node, "/status", 0)).unwrap();
            let receive = status["market"]["receive"].clone();
            let mut channels = receive["channels"].as_array().unwrap().iter();
            channels.any(|channel| channel["next"] == next).then_some(receive)
        });
        assert!(receive["messages"].as_u64() > Some(0), "{}: {receive}", self.feed.name);
    }

    /// Ends the gateway; returns the most memory that it had, in KiB.
    pub fn end(self) -> u64 {
        let path = format!("/proc/{}/status", self.node.pid());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a process's");
        let peak = line.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        let peak: u64 = peak.expect("a number of KiB");
        assert!(peak < MEMORY_KIB, "{}: {peak} KiB", self.feed.name);
        assert!(self.node.terminate().success(), "{}", self.home.said());
        peak
    }
}
