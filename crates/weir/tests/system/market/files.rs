//! Files as the source of a gateway: a wrong one is refused at the start, a damaged one is told.

use std::path::Path;
use std::process::{Command, Output};

use weir_feed::capture::Datagram;
use weir_marketgate::capture::CaptureWriter;
use weir_types::{FeedState, MarketContent, Nanos, Side};

use super::{Subscriber, Venue, Wanted, addresses};
use crate::support::{ALICE, Home, open_market, until};
use crate::tools::weir_at;

/// Writes a capture with a few packets of ITCH.
fn capture(path: &Path) {
    let mut venue = Venue::new("127.0.0.1:9".parse().unwrap(), "FILE");
    venue.packets = Some(Vec::new());
    venue.directory(1, "ODD1");
    venue.send();
    for order in 1..=5 {
        venue.add(1, order, Side::Buy, 100, 900_000);
        venue.send();
    }
    let mut writer = CaptureWriter::create(path).unwrap();
    for (number, payload) in (0..).zip(venue.packets.expect("they are kept")) {
        let (src, dst) = ("10.0.0.1:9".parse().unwrap(), "239.1.2.3:1000".parse().unwrap());
        let ts_recv = Nanos(1_000_000_000 + number);
        writer.write(&Datagram { ts_recv, src, dst, payload: &payload }).unwrap();
    }
    writer.finish().unwrap();
}

fn serve(dir: &Path, file: &Path, feed: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["market", "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.args(["--market-listen", "127.0.0.1:0", "--feed", feed, "--dir"]).arg(dir);
    command.arg("--capture").arg(file).output().unwrap()
}

#[test]
fn a_file_that_is_none_of_the_feed_is_refused_before_the_gateway_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("text"), "Dear reader, this is no capture.\n").unwrap();
    std::fs::write(path("empty"), "").unwrap();
    capture(&path("good.pcap"));
    let bytes = std::fs::read(path("good.pcap")).unwrap();
    std::fs::write(path("head.pcap"), &bytes[..30]).unwrap();
    for (name, feed, wants) in [
        ("text", "itch", "neither a capture nor a day file"),
        ("empty", "itch", "the file ends inside"),
        ("head.pcap", "itch", "the file ends inside what begins at byte 24"),
        ("good.pcap", "iex-deep", "they are of the feed itch"),
        ("good.pcap", "dbn", "the feed dbn has files of DBN"),
    ] {
        let refused = serve(&path("data"), &path(name), feed);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(wants), "{name} {feed}: {said}");
        assert!(said.contains(&path(name).display().to_string()), "{said}");
        assert!(!String::from_utf8_lossy(&refused.stdout).contains("ready"));
    }
}

#[test]
fn a_file_that_ends_inside_a_packet_is_told_to_operators_and_subscribers() {
    let dir = tempfile::tempdir().unwrap();
    let (good, cut) = (dir.path().join("good.pcap"), dir.path().join("cut.pcap"));
    capture(&good);
    let bytes = std::fs::read(&good).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 7]).unwrap();
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n[market_gateway.feed]\nname = \"itch\"\n\
         [market_gateway.feed.capture]\nfile = {cut:?}\nspeed = \"max\"\n"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE]);
    let receive = until("the file is read", || {
        let receive = node.status()["market"]["receive"].clone();
        (receive["is_over"] == true).then_some(receive)
    });
    let problem = receive["file_problem"].as_str().expect("it was cut off");
    assert!(problem.contains("the file ends inside"), "{problem}");
    assert_eq!((&receive["is_failed"], &receive["messages"]), (&true.into(), &6.into()));
    assert_eq!(receive["channels"][0]["state"], "Stale");
    let (_, metrics) = node.get("/metrics");
    assert!(metrics.contains("\nweir_market_file_failed 1\n"), "{metrics}");
    let top = weir_at(&node, &["market", "top", "--once"]).output().unwrap();
    let top = String::from_utf8(top.stdout).unwrap();
    assert!(top.contains("capture not read to its end: the file ends inside"), "{top}");
    let wanted = [Wanted::new("*", MarketContent::Bbo)];
    let mut subscriber = Subscriber::new(addresses(&node)[0], &wanted);
    subscriber.until("it is told", |told| told.channels.contains(&FeedState::Stale));
    let said = home.said();
    assert!(said.contains("the capture was not read to its end"), "{said}");
}
