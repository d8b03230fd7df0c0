//! The limits of a broker, and its behaviour when one is reached.
//!
//! Sizes are in bytes, times in nanoseconds. A subscription may have a quota and an expiry of its
//! own, up to the configuration's, which apply to all others. Opening a broker with inconsistent
//! sizes panics.

use weir_types::{Durability, Nanos};

use crate::name::OriginMarks;

/// The most bytes of one message's body.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The limits beyond which a subscription is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of bodies not taken.
    pub bytes_max: u64,
    /// Messages not taken.
    pub messages_max: u64,
    /// Age of the oldest message not taken.
    pub age_max: Nanos,
}

impl Default for Quota {
    /// 1 GiB, 16 million messages, a week.
    fn default() -> Quota {
        let week = Nanos(7 * 24 * 3600 * 1_000_000_000);
        Quota { bytes_max: 1 << 30, messages_max: 1 << 24, age_max: week }
    }
}

impl Quota {
    /// Returns this quota with nothing in it above `limit`'s.
    #[must_use]
    pub fn within(self, limit: Quota) -> Quota {
        Quota {
            bytes_max: self.bytes_max.min(limit.bytes_max),
            messages_max: self.messages_max.min(limit.messages_max),
            age_max: self.age_max.min(limit.age_max),
        }
    }
}

/// The terms of a new subscription. Those above the configuration's count as the configuration's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Its quota; none for the configuration's.
    pub quota: Option<Quota>,
    /// The time without an attached client after which it expires; none for the configuration's.
    pub expire_after: Option<Nanos>,
    /// The participant that creates it, to be counted by; zero for none.
    pub created_by: u32,
    /// The last mark of each source that it does not want: messages up to there that a producer
    /// repeats after a restart are not for it.
    pub after: OriginMarks,
}

/// The behaviour when neither memory nor disk has room for messages that were not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// The subscription that is furthest behind is evicted: publishing goes on.
    #[default]
    Evict,
    /// Publishing is refused with a reason until there is room: no subscription loses anything.
    Refuse,
}

/// The configuration of a broker.
#[derive(Clone, Debug)]
pub struct Config {
    /// The broker's identity if this opening creates it: a random number.
    pub id_if_new: u128,
    /// The failure that an acknowledged message survives until every subscription has taken it.
    pub durability: Durability,
    /// The memory of all messages in bytes, overhead included. From half of it on, messages not
    /// taken go to disk.
    pub memory_bytes_max: u64,
    /// The least bytes of a block that is written because memory is short.
    pub block_bytes: usize,
    /// The size in bytes from which a spill file takes no further block.
    pub file_bytes: u64,
    /// The bytes that spill files may take on the disk.
    pub disk_bytes_max: u64,
    /// At `os` and `disk`: the time that a message whose subscribers are all attached waits to be
    /// taken before it is written. A message taken by then is never written.
    pub hold: Nanos,
    /// The interval at which the table of subscriptions is saved if only acknowledgements have
    /// changed.
    pub save_every: Nanos,
    /// The interval at which quotas and expiry are checked.
    pub sweep_every: Nanos,
    /// The time after which a full disk is tried again.
    pub full_pause: Nanos,
    /// The longest time without an attached client until a subscription is due to expire, and the
    /// time of one that is created without its own.
    pub expire_after: Nanos,
    /// The time for which a subscription that is due to expire is kept all the same, and at least
    /// after an opening: a client that attaches in it finds its messages.
    pub expire_grace: Nanos,
    /// The largest quota, and the quota of subscriptions that are created without one.
    pub quota: Quota,
    /// The behaviour when there is no room.
    pub on_full: OnFull,
    /// The most subscriptions.
    pub subscriptions_max: usize,
    /// The most messages that a subscriber may have before it acknowledges the first of them.
    pub window_max: usize,
}

impl Config {
    /// Returns the defaults: level `disk`, 256 MiB of memory, blocks of 256 KiB, files of 16 MiB,
    /// 64 GiB of disk, 2 ms of hold, the table each second, expiry after 30 days and an hour of
    /// grace.
    #[must_use]
    pub fn new(id_if_new: u128) -> Config {
        Config {
            id_if_new,
            durability: Durability::default(),
            memory_bytes_max: 256 << 20,
            block_bytes: 256 << 10,
            file_bytes: 16 << 20,
            disk_bytes_max: 64 << 30,
            hold: Nanos(2_000_000),
            save_every: Nanos(1_000_000_000),
            sweep_every: Nanos(10_000_000),
            full_pause: Nanos(50_000_000),
            expire_after: Nanos(30 * 24 * 3600 * 1_000_000_000),
            expire_grace: Nanos(3600 * 1_000_000_000),
            quota: Quota::default(),
            on_full: OnFull::default(),
            subscriptions_max: 100_000,
            window_max: 4096,
        }
    }

    /// # Panics
    /// If the sizes are inconsistent.
    pub(crate) fn check(&self) {
        assert!((512..=16 << 20).contains(&self.block_bytes), "a block has 512 bytes to 16 MiB");
        assert!(self.memory_bytes_max >= 4 * self.block_bytes as u64, "memory holds four blocks");
        assert!(self.file_bytes >= self.block_bytes as u64, "a file holds a block");
        assert!(self.window_max > 0, "a subscriber takes at least one message at a time");
    }
}
