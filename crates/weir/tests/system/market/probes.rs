//! The stage times of a gateway's messages.

use serde_json::Value;

use super::*;

/// An interval long enough that held quotes show up in the stage times.
const HELD: &str = "bbo_interval_us = 100000\nurgent_move_ppm = 0\n";

/// Returns the stages by name, each with the number of timed messages.
fn stages_of(node: &Node) -> (bool, BTreeMap<String, u64>) {
    let stages = node.status()["market"]["stages"].clone();
    let counts = stages["stages"].as_array().unwrap().iter().map(|one| {
        let count = one["count"].as_u64().unwrap();
        for quantile in ["p50_ns", "p99_ns", "p999_ns", "max_ns"] {
            assert_eq!(one[quantile].is_u64(), count > 0, "{one}");
            assert_eq!(one[quantile] == Value::Null, count == 0, "{one}");
        }
        (one["stage"].as_str().unwrap().to_owned(), count)
    });
    (stages["has_kernel_time"] == true, counts.collect())
}

/// Asserts that messages of a datagram feed pass each probe point, and that no part is longer than
/// the whole.
fn every_point_is_passed(more: &str) {
    let (node, _home, feed) = start(more);
    let mut venue = Venue::new(feed, "DAY");
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    settle(&mut venue, &node);
    let wanted = [Wanted::new("*", MarketContent::Bbo), Wanted::new("*", MarketContent::Trades)];
    let mut subscriber = Subscriber::new(addresses(&node)[0], &wanted);
    let mut day = Day { random: 0x2545_f491_4f6c_dd1d, ..Day::default() };
    let begun = Instant::now();
    let counts = loop {
        assert!(begun.elapsed() < HANG, "never all points: {:?}", stages_of(&node));
        // Some packets with one message, and some with many, which merge.
        (0..10).for_each(|_| {
            day.step(&mut venue, INSTRUMENTS);
            venue.send();
        });
        (0..200).for_each(|_| day.step(&mut venue, INSTRUMENTS));
        settle(&mut venue, &node);
        subscriber.poll();
        let (has_kernel_time, counts) = stages_of(&node);
        assert!(has_kernel_time);
        if counts.values().all(|count| *count > 5) {
            break counts;
        }
    };
    let names = ["flush", "held", "inside", "queue", "receive", "socket", "total", "update"]
        .map(str::to_owned);
    assert_eq!(counts.keys().cloned().collect::<Vec<_>>(), names);
    assert!(counts["update"] <= counts["receive"] && counts["socket"] <= counts["flush"]);
    let market = node.status()["market"].clone();
    let longest = |stage: &str| {
        let stages = market["stages"]["stages"].as_array().unwrap();
        stages.iter().find(|one| one["stage"] == stage).unwrap()["max_ns"].as_u64().unwrap()
    };
    assert!(longest("total") >= longest("socket") && longest("inside") >= longest("socket"));
    let metrics = node.get("/metrics").1;
    for stage in names {
        let line = format!("weir_market_stage_seconds_bucket{{stage=\"{stage}\",le=\"+Inf\"}} ");
        let count = metrics.lines().find_map(|text| text.strip_prefix(&line)).unwrap();
        assert!(count.parse::<u64>().unwrap() > 5, "{stage}: {count}");
    }
    let top = weir_at(&node, &["market", "top", "--once"]).output().unwrap();
    let text = String::from_utf8(top.stdout).unwrap();
    assert!(text.contains("stage receive p50 ") && text.contains("stage total "), "{text}");
}

#[test]
fn a_message_is_timed_at_every_point_from_the_kernel_to_the_socket() {
    every_point_is_passed(HELD);
}

#[test]
fn the_same_points_are_passed_with_a_thread_for_each_stage() {
    every_point_is_passed(&format!("stages = \"staged\"\nflush_threads = 2\n{HELD}"));
}

#[test]
fn what_comes_from_a_file_has_no_kernel_time_and_says_so() {
    let mut venue = Venue::new("127.0.0.1:9".parse().unwrap(), "FILE");
    let (mut file, mut day) = (vec![], Day { random: 88_172_645_463_325_252, ..Day::default() });
    venue.kept = Some(vec![]);
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    (0..500).for_each(|_| day.step(&mut venue, INSTRUMENTS));
    for message in venue.kept.take().expect("it keeps") {
        file.extend_from_slice(&u16::try_from(message.len()).unwrap().to_be_bytes());
        file.extend_from_slice(&message);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("day.itch");
    std::fs::write(&path, file).unwrap();
    let config = format!(
        "[market_gateway]\nlisten = \"127.0.0.1:0\"\n[market_gateway.feed]\nname = \"itch\"\n\
         [market_gateway.feed.capture]\nfile = {path:?}\nspeed = \"max\"\n"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE]);
    until("updates are timed", || (stages_of(&node).1["update"] > 0).then_some(()));
    let (has_kernel_time, counts) = stages_of(&node);
    assert!(!has_kernel_time);
    assert!(!counts.contains_key("receive") && !counts.contains_key("total"), "{counts:?}");
    assert!(!node.get("/metrics").1.contains("stage=\"receive\""));
    let top = weir_at(&node, &["market", "top", "--once"]).output().unwrap();
    let text = String::from_utf8(top.stdout).unwrap();
    assert!(text.contains("no kernel time") && !text.contains("stage receive p50"), "{text}");
}
