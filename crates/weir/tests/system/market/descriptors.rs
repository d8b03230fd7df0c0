//! Market data of a gateway that has no free descriptor for a while: subscribers are told
//! everything, newcomers wait, and the audit has a gap at most.

use weir_client::market::{MarketClient, Wanted};
use weir_types::{MarketContent, MarketPolicy};

use super::{
    Day, INSTRUMENTS, Received, STEP, Subscriber, Venue, addresses, has_orders, has_quotes, settle,
    start, symbol_of,
};
use crate::support::{BOB, until};

#[test]
fn subscribers_are_told_everything_through_a_time_without_descriptors() {
    let kept = tempfile::tempdir().unwrap();
    let audit = kept.path().join("audit");
    let (node, home, feed) = start(&format!(
        "[market_gateway.post.audit]\ndir = {audit:?}\nblock_bytes = 65536\nflush_ms = 10\n\
         file_bytes = 65536\nretry_ms = 20\n"
    ));
    let mut venue = Venue::new(feed, "DAY");
    let mut day = Day { random: 0x2545_f491_4f6c_dd1d, next_order: 0, live: vec![] };
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    settle(&mut venue, &node);
    let all = [
        Wanted::new("*", MarketContent::Bbo),
        Wanted { policy: MarketPolicy::Keep, ..Wanted::new("*", MarketContent::Orders) },
    ];
    let at = addresses(&node)[0];
    let mut first = Subscriber::new(at, &all);
    let follow = |first: &mut Subscriber, venue: &Venue| {
        let books = &venue.books;
        first.until("its quotes are the books'", |told| has_quotes(told, books, |_| true));
        first.until("its orders", |told| has_orders(told, books));
    };
    let mut newcomer = MarketClient::new(at, BOB.config());
    let mut told = Received::default();
    node.without_descriptors(|| {
        all.iter().for_each(|one| {
            newcomer.subscribe(one.clone());
        });
        until("a file of the audit that finds no descriptor", || {
            (0..500).for_each(|_| day.step(&mut venue, INSTRUMENTS));
            venue.send();
            follow(&mut first, &venue);
            newcomer.poll(STEP, |message| told.take(message));
            home.said().contains("no audit is written").then_some(())
        });
        assert!(told.subscribed.is_empty(), "it is not accepted");
    });
    until("that the newcomer is served", || {
        newcomer.poll(STEP, |message| told.take(message));
        let _ended_before = newcomer.take_failure();
        (told.subscribed.len() >= all.len()).then_some(())
    });
    (0..500).for_each(|_| day.step(&mut venue, INSTRUMENTS));
    settle(&mut venue, &node);
    follow(&mut first, &venue);
    let mut late = Subscriber { client: newcomer, told };
    follow(&mut late, &venue);
    assert_eq!((first.told.gaps, first.told.stale), (0, 0));
    until("the audit goes on", || home.said().contains("the audit is written again").then_some(()));
    assert!(node.terminate().success());
}
