//! A sender that begins again inside its session, repeats itself and contradicts itself: a running
//! gateway and the commands that read files tell each apart.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use serde_json::{Value, json};
use weir_feed::capture::Datagram;
use weir_marketgate::capture::CaptureWriter;
use weir_types::{FeedState, InstrumentId, MarketContent, Nanos, Price, Qty, Side};

use super::{Received, Subscriber, Wanted, addresses, free_udp};
use crate::support::{ALICE, Home, Node, open_market, until};
use crate::tools::{weir, weir_at};

const WEIR: InstrumentId = InstrumentId(1);
/// Bytes of a message of DEEP behind its length, and with it.
const MESSAGE_LEN: u16 = 30;
const BLOCK_LEN: u64 = MESSAGE_LEN as u64 + 2;
const SENT: u64 = 1_700_000_000_000_000_000;

/// A datagram of DEEP, sent so many milliseconds after the first: without a level a heartbeat. A
/// level of the bid has a price in whole units and a size.
fn deep(sequence: u64, offset: u64, sent_ms: u64, level: Option<(i64, u32)>) -> Vec<u8> {
    let count = u16::from(level.is_some());
    let mut datagram = vec![1, 0, 0x04, 0x80, 1, 0, 0, 0, 7, 0, 0, 0];
    datagram.extend((count * (MESSAGE_LEN + 2)).to_le_bytes());
    datagram.extend(count.to_le_bytes());
    for number in [offset, sequence, SENT + sent_ms * 1_000_000] {
        datagram.extend(number.to_le_bytes());
    }
    if let Some((price, size)) = level {
        datagram.extend(MESSAGE_LEN.to_le_bytes());
        datagram.extend([b'8', 1]);
        datagram.extend(SENT.to_le_bytes());
        datagram.extend(b"WEIR    ");
        datagram.extend(size.to_le_bytes());
        datagram.extend((price * 10_000).to_le_bytes());
    }
    datagram
}

/// The datagrams in the order in which they are sent.
struct Sent {
    /// Two levels of the first run.
    first: [Vec<u8>; 2],
    /// The sender begins again: a heartbeat, then a level.
    again: [Vec<u8>; 2],
    /// A position in the stream that the second message cannot have.
    lie: Vec<u8>,
    /// The second message.
    next: Vec<u8>,
}

fn sent() -> Sent {
    Sent {
        first: [deep(1, 0, 0, Some((100, 10))), deep(2, BLOCK_LEN, 1, Some((99, 20)))],
        again: [deep(1, 0, 2, None), deep(1, 0, 3, Some((101, 7)))],
        lie: deep(2, 7, 4, Some((500, 1))),
        next: deep(2, BLOCK_LEN, 5, Some((100, 8))),
    }
}

/// A gateway of DEEP, and the address of its line.
fn gateway() -> (Node, Home, SocketAddr) {
    let feed = free_udp();
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n\
         [market_gateway.feed]\nname = \"iex-deep\"\nsilence_ms = 0\n\
         [[market_gateway.feed.lines]]\na = \"{feed}\"\n"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE]);
    (node, home, feed)
}

fn channel(node: &Node) -> Value {
    node.status()["market"]["receive"]["channels"][0].clone()
}

fn bids(told: &Received) -> Option<Vec<(i64, u64)>> {
    let levels = told.levels.get(&WEIR)?;
    let bid = |(side, price, size, _): &(Side, Price, Qty, u32)| {
        assert_eq!(*side, Side::Buy);
        (price.0 / 1_000_000_000, size.0)
    };
    Some(levels.iter().map(bid).collect())
}

#[test]
fn a_restart_a_repetition_and_a_contradiction_are_told_apart_by_a_running_gateway() {
    let (node, _home, feed) = gateway();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |datagram: &[u8]| {
        socket.send_to(datagram, feed).unwrap();
    };
    let Sent { first, again, lie, next } = sent();
    first.iter().for_each(|datagram| send(datagram));
    until("the first run", || (channel(&node)["next"] == 3).then_some(()));
    let mut subscriber =
        Subscriber::new(addresses(&node)[0], &[Wanted::new("*", MarketContent::Levels)]);
    subscriber.until("its book", |told| bids(told) == Some(vec![(100, 10), (99, 20)]));
    send(&again[0]);
    subscriber.until("the clear", |told| bids(told) == Some(vec![]));
    send(&again[1]);
    subscriber.until("the next run", |told| bids(told) == Some(vec![(101, 7)]));
    // A repetition, and a late packet of the first run.
    send(&again[1]);
    send(&first[1]);
    until("both are counted", || {
        let channel = channel(&node);
        (channel["repeated"] == 1 && channel["old_packets"] == 1).then_some(())
    });
    assert_eq!(
        (&channel(&node)["state"], &channel(&node)["restarts"]),
        (&json!("Live"), &json!(1))
    );
    assert!(!subscriber.told.channels.contains(&FeedState::Stale));
    send(&lie);
    subscriber.until("it is stale", |told| told.channels.last() == Some(&FeedState::Stale));
    send(&next);
    subscriber.until("the message behind it", |told| bids(told) == Some(vec![(101, 7), (100, 8)]));

    let told = until("all is counted", || {
        let channel = channel(&node);
        (channel["next"] == 3 && channel["contradictions"] == 1).then_some(channel)
    });
    for (figure, want) in [
        ("state", json!("Stale")),
        ("lost", json!(0)),
        ("handed_on", json!(4)),
        ("repeated", json!(1)),
        ("restarts", json!(1)),
        ("old_packets", json!(1)),
    ] {
        assert_eq!(told[figure], want, "{figure}: {told}");
    }
    let metrics = node.get("/metrics").1;
    for figure in ["restarts", "repeated", "old_packets", "contradictions"] {
        let name = format!("weir_market_channel_{figure}_total");
        let line = format!("\n{name}{{pair=\"0\",channel=\"1\"}} 1\n");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let top = weir_at(&node, &["market", "top", "--once"]).output().unwrap();
    let text = String::from_utf8(top.stdout).unwrap();
    let line = "channel 0.1 Stale, next 3, 0 lost, 1 repeated, 1 restarts, 1 old packets, 1 \
                contradictions\n";
    assert!(text.contains(line), "{text}");
    let top = weir_at(&node, &["market", "top", "--once", "--json"]).output().unwrap();
    let page: Value = serde_json::from_slice(&top.stdout).unwrap();
    assert_eq!(page["receive"]["channels"][0], told);
}

/// Writes a capture of all of it.
fn capture(path: &Path) {
    let Sent { first, again, lie, next } = sent();
    let [begins, level] = again;
    let late = first[1].clone();
    let [one, two] = first;
    let mut writer = CaptureWriter::create(path).unwrap();
    let all = [one, two, begins, level.clone(), level, late, lie, next];
    for (number, payload) in (0..).zip(&all) {
        let (src, dst) = ("10.0.0.1:9".parse().unwrap(), "239.1.2.3:1000".parse().unwrap());
        let ts_recv = Nanos(SENT + number * 1_000_000);
        writer.write(&Datagram { ts_recv, src, dst, payload }).unwrap();
    }
    writer.finish().unwrap();
}

/// Returns the output of a command that reads a capture of DEEP, whose place in it is `FILE`.
fn read(words: &[&str], path: &Path) -> String {
    let file = path.to_str().unwrap();
    let mut words: Vec<&str> =
        words.iter().map(|word| if *word == "FILE" { file } else { *word }).collect();
    words.extend(["--feed", "iex-deep"]);
    let output = weir(&words, &[]);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_commands_that_read_files_count_a_restart_a_repetition_and_a_contradiction() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("restarts.pcap");
    capture(&path);
    let text = read(&["feed", "inspect", "FILE"], &path);
    let line = "channel 1: 7 messages in 1 sessions, 0 gaps of 0 messages, 1 sent again, 1 \
                restarts, 1 packets of before, 1 contradictions\n";
    assert!(text.contains(line), "{text}");
    let text = read(&["feed", "stats", "FILE"], &path);
    let line = "0 gaps of 0 messages, 1 restarts, 1 contradictions\n";
    assert!(text.starts_with("7 messages in ") && text.contains(line), "{text}");
    for command in ["inspect", "stats"] {
        let text = read(&["feed", command, "FILE", "--json"], &path);
        let page: Value = serde_json::from_str(&text).unwrap();
        let want = json!({
            "channel": 1, "sessions": 1, "messages": 7, "gaps": 0, "missing": 0, "repeated": 1,
            "restarts": 1, "old_packets": 1, "contradictions": 1,
        });
        assert_eq!(page["groups"][0]["channels"], json!([want]), "{command}");
        let sums = ["restarts", "contradictions", "gaps", "missing"].map(|name| &page[name]);
        assert_eq!(sums.map(Value::as_u64), [1, 1, 0, 0].map(Some), "{command}");
    }
    let text = read(&["book", "WEIR", "--capture", "FILE"], &path);
    let line = "1 messages repeated, 1 restarts, 1 packets of before, 1 contradictions\n";
    assert!(text.contains("  STALE\n") && text.contains(line), "{text}");
    let text = read(&["book", "WEIR", "--capture", "FILE", "--json"], &path);
    let page: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(page["is_stale"], true);
    for (figure, want) in
        [("lost", 0), ("repeated", 1), ("restarts", 1), ("old_packets", 1), ("contradictions", 1)]
    {
        assert_eq!(page[figure], want, "{figure}: {page}");
    }
    let prices: Vec<&Value> =
        page["bids"].as_array().unwrap().iter().map(|bid| &bid["price"]).collect();
    assert_eq!(prices, [&json!("101.00"), &json!("100.00")], "nothing of the first run");
}
