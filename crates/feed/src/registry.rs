//! The registry of feeds: a feed is selected by its name at run time.
//!
//! A new feed is one line of the list below, and the file that it names. Configurations, tools and
//! their help read [`FEEDS`].

use weir_types::Nanos;

use crate::moldudp64::MoldSession;
use crate::{
    Context, Feed, FeedError, Packet, Profile, UpdateSink, cta, dbn, iex, itch, opra, weir,
};

/// The midnight from which times of day count if no day is configured.
const NO_DAY: Nanos = Nanos(0);

/// Declares the feeds: each codec with the profiles that it serves and their initial states.
macro_rules! feeds {
    ($($(#[$doc:meta])* $name:ident($codec:ty) { $($profile:expr => $new:expr),+ $(,)? })+) => {
        /// One of the supported feeds.
        #[derive(Clone, Debug)]
        pub enum AnyFeed {
            $($(#[$doc])* $name(Box<$codec>),)+
        }

        /// All feeds, ordered by name.
        pub const FEEDS: &[FeedEntry] = &[$($(FeedEntry {
            profile: &$profile,
            feed: || AnyFeed::$name(Box::new($new)),
        },)+)+];

        impl Feed for AnyFeed {
            fn profile(&self) -> &'static Profile {
                match self { $(AnyFeed::$name(feed) => feed.profile(),)+ }
            }

            fn begin_day(&mut self, midnight: Nanos) {
                match self { $(AnyFeed::$name(feed) => feed.begin_day(midnight),)+ }
            }

            fn begin_session(&mut self, name: MoldSession, ts_recv: Nanos) {
                match self { $(AnyFeed::$name(feed) => feed.begin_session(name, ts_recv),)+ }
            }

            fn of_run(&mut self, run: u64) {
                match self { $(AnyFeed::$name(feed) => feed.of_run(run),)+ }
            }

            fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError> {
                match self { $(AnyFeed::$name(feed) => feed.packet(datagram),)+ }
            }

            fn next_message<'a>(
                &self,
                messages: &'a [u8],
            ) -> Result<(&'a [u8], &'a [u8]), FeedError> {
                match self { $(AnyFeed::$name(feed) => feed.next_message(messages),)+ }
            }

            fn look_ahead(&self, messages: &[u8]) {
                match self { $(AnyFeed::$name(feed) => feed.look_ahead(messages),)+ }
            }

            fn decode(
                &mut self,
                context: &Context,
                message: &[u8],
                sink: &mut impl UpdateSink,
            ) -> Result<(), FeedError> {
                match self { $(AnyFeed::$name(feed) => feed.decode(context, message, sink),)+ }
            }
        }
    };
}

feeds! {
    /// CQS and CTS.
    Cta(cta::Cta) {
        cta::CQS => cta::Cta::new(cta::CtaFeed::Quotes),
        cta::CTS => cta::Cta::new(cta::CtaFeed::Trades),
    }
    /// Files of DBN.
    Dbn(dbn::Dbn) { dbn::PROFILE => dbn::Dbn::new() }
    /// DEEP, DEEP+ and TOPS over IEX-TP.
    Iex(iex::Iex) {
        iex::DEEP => iex::Iex::new(iex::Protocol::Deep),
        iex::DEEP_PLUS => iex::Iex::new(iex::Protocol::DeepPlus),
        iex::TOPS => iex::Iex::new(iex::Protocol::Tops),
    }
    /// ITCH 5.0 over MoldUDP64.
    Itch(itch::Itch) { itch::PROFILE => itch::Itch::new(NO_DAY) }
    /// OPRA.
    Opra(opra::Opra) { opra::PROFILE => opra::Opra::new() }
    /// Weir's own feed.
    Weir(weir::Weir) { weir::PROFILE => weir::Weir::new() }
}

/// An entry of the registry.
#[derive(Clone, Copy, Debug)]
pub struct FeedEntry {
    /// The feed's properties, equal to [`Feed::profile`].
    pub profile: &'static Profile,
    /// Creates the feed in its state at the beginning of a day.
    pub feed: fn() -> AnyFeed,
}

/// Returns the feed of this name.
#[must_use]
pub fn feed_by_name(name: &str) -> Option<&'static FeedEntry> {
    FEEDS.iter().find(|entry| entry.profile.name == name)
}

/// The names of all feeds.
pub fn feed_names() -> impl Iterator<Item = &'static str> {
    FEEDS.iter().map(|entry| entry.profile.name)
}

/// The names of the feeds over MoldUDP64: they have day files and servers for lost messages and
/// snapshots.
pub fn mold_feed_names() -> impl Iterator<Item = &'static str> {
    FEEDS.iter().map(|entry| entry.profile).filter(|profile| profile.is_mold()).map(|p| p.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feed_has_the_profile_of_its_entry_and_is_found_by_its_name() {
        for entry in FEEDS {
            assert_eq!((entry.feed)().profile(), entry.profile);
            let found = feed_by_name(entry.profile.name).expect("it is registered");
            assert_eq!(found.profile, entry.profile);
        }
        assert!(
            FEEDS.is_sorted_by_key(|entry| entry.profile.name),
            "the first entry would hide one"
        );
        assert!(feed_by_name("itch4").is_none());
        let over_mold: Vec<_> = mold_feed_names().collect();
        assert_eq!(over_mold, ["itch", "weir"]);
    }

    /// The names in the first column of the page's table of feeds.
    fn names_on_the_page() -> Vec<String> {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/feeds.md");
        let page = std::fs::read_to_string(page).expect("the page is there");
        let (_, table) = page.split_once("| feed | protocol |\n| --- | --- |\n").expect("a table");
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        let first = rows.filter_map(|row| row.split('|').nth(1).map(str::to_owned));
        let mut names: Vec<String> = first
            .flat_map(|cell| {
                cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_page_lists_exactly_the_registered_feeds() {
        assert_eq!(names_on_the_page(), feed_names().collect::<Vec<_>>());
    }
}
