//! The section of a configuration that selects a feed and its source.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use weir_feed::line::{LateJoin, LineConfig, RequestConfig};
use weir_feed::soupbin::Login;
use weir_feed::{Profile, Transport, feed_by_name};
use weir_runtime::ConfigError;
use weir_runtime::civil::{Date, TimeOfDay, UtcOffset};
use weir_tls::{SecretError, read_secret_text};
use weir_types::Nanos;

use crate::capture::Speed;

/// A feed and its source. Exactly one kind of source: lines, a connection or a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedSection {
    /// The feed's name, one of [`FEEDS`](weir_feed::FEEDS).
    pub name: String,
    /// `itch` only: the venue's day, `2026-11-23`, from whose midnight its times count; if absent,
    /// the day on which each session's first packet arrives.
    pub day: Option<Date>,
    /// `itch` only: the venue's offset from UTC, `-05:00`, positive if ahead. If absent, times
    /// count from midnight.
    pub utc_offset: Option<UtcOffset>,
    /// Pairs of lines over UDP. With a capture they select the groups taken from it and mark the B
    /// lines; without them all groups are taken.
    #[serde(default)]
    pub lines: Vec<LinesSection>,
    /// `itch` only: SoupBinTCP instead of lines.
    pub tcp: Option<TcpSection>,
    /// A capture, a day file or a DBN file instead of lines.
    pub capture: Option<CaptureSection>,
    /// The size of each socket's kernel buffer in bytes, as far as the system allows.
    #[serde(default = "default_receive_buffer_bytes")]
    pub receive_buffer_bytes: usize,
    /// The time in milliseconds for which all lines may be silent before their data counts as
    /// outdated; zero: unlimited. If absent, 5 s for feeds with a heartbeat each second (`itch`,
    /// `weir` and IEX's), unlimited for others.
    pub silence_ms: Option<u64>,
    /// The limits of waiting for missing messages.
    #[serde(default)]
    pub timing: TimingSection,
}

/// One pair of lines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinesSection {
    /// The first line.
    pub a: LineAddress,
    /// The only sender accepted on line A; a group is joined for this source only.
    pub a_source: Option<Ipv4Addr>,
    /// The second line.
    pub b: Option<LineAddress>,
    /// The only sender accepted on line B.
    pub b_source: Option<Ipv4Addr>,
    /// `itch` and `weir`: the MoldUDP64 server for retransmission requests.
    pub request: Option<SocketAddrV4>,
    /// `itch` and `weir`: the server of snapshots.
    pub glimpse: Option<GlimpseSection>,
}

/// `GROUP:PORT@INTERFACE`, a multicast group and the address of the interface on which to join it,
/// or `ADDRESS:PORT` of this machine. Port zero: any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LineAddress {
    /// The group or address.
    pub address: SocketAddrV4,
    /// The interface's address; unspecified for an address of this machine.
    pub interface: Ipv4Addr,
}

impl FromStr for LineAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<LineAddress, String> {
        let wrong = || format!("`{text}` is neither GROUP:PORT@INTERFACE nor ADDRESS:PORT");
        let (address, interface) = match text.split_once('@') {
            Some((address, interface)) => (address, Some(interface)),
            None => (text, None),
        };
        let address: SocketAddrV4 = address.parse().map_err(|_| wrong())?;
        // A group joined on an interface of the system's choice would often receive nothing.
        if address.ip().is_multicast() != interface.is_some() {
            return Err(wrong());
        }
        let interface = interface.map_or(Ok(Ipv4Addr::UNSPECIFIED), str::parse);
        Ok(LineAddress { address, interface: interface.map_err(|_| wrong())? })
    }
}

impl TryFrom<String> for LineAddress {
    type Error = String;

    fn try_from(text: String) -> Result<LineAddress, String> {
        text.parse()
    }
}

/// A GLIMPSE server, the login for it, and the time limits of a snapshot.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlimpseSection {
    /// The server.
    pub address: SocketAddr,
    /// Up to 6 characters; empty if absent, for servers that admit anyone.
    #[serde(default)]
    pub username: String,
    /// A file with the password, up to 10 characters; if absent, the password is empty.
    pub password_file: Option<PathBuf>,
    /// Set to false if the venue names the sessions of snapshots differently from those of its
    /// lines. Then only the sequence numbers tie a snapshot to the current session.
    #[serde(default = "default_same_session")]
    pub same_session: bool,
    /// The time for which the lines are held back before the login, in milliseconds: longer than
    /// the server may lag behind the lines, or the messages in between are lost.
    #[serde(default = "default_lead_ms")]
    pub lead_ms: u64,
    /// The maximum duration of a snapshot, in milliseconds.
    #[serde(default = "default_snapshot_timeout_ms")]
    pub timeout_ms: u64,
    /// The time within which the lines must reach the snapshot's sequence number, in milliseconds.
    #[serde(default = "default_reach_timeout_ms")]
    pub reach_timeout_ms: u64,
    /// The pause after a failed snapshot, in milliseconds; doubled after each further failure.
    #[serde(default = "default_retry_min_ms")]
    pub retry_min_ms: u64,
    /// The longest pause, in milliseconds.
    #[serde(default = "default_retry_max_ms")]
    pub retry_max_ms: u64,
}

/// A feed over SoupBinTCP.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpSection {
    /// The server.
    pub address: SocketAddr,
    /// Up to 6 characters.
    pub username: String,
    /// A file with the password, up to 10 characters.
    pub password_file: PathBuf,
    /// The pause before reconnecting, in milliseconds; doubled each time.
    #[serde(default = "default_retry_min_ms")]
    pub retry_min_ms: u64,
    /// The longest pause, in milliseconds.
    #[serde(default = "default_retry_max_ms")]
    pub retry_max_ms: u64,
}

/// Keeps login names out of logs.
macro_rules! debug_by_address {
    ($($name:ident)*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("address", &self.address).finish()
            }
        }
    )*};
}

debug_by_address!(GlimpseSection TcpSection);

/// A file as the source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureSection {
    /// The capture, a day file for `itch` and `weir`, or a DBN file for `dbn`; compressed by gzip
    /// or Zstandard, or plain.
    pub file: PathBuf,
    /// The speed: a multiple of the recorded one, or `max`.
    #[serde(default = "default_speed", deserialize_with = "speed")]
    pub speed: Speed,
}

/// The limits of waiting for missing messages; see [`LineConfig`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimingSection {
    /// The time for which the other line may fill a hole before it is requested, in microseconds.
    pub reorder_us: u64,
    /// The time after its detection at which a hole is given up, in milliseconds.
    pub give_up_ms: u64,
    /// The most packets held behind a hole, or for a snapshot.
    pub held_packets_max: u32,
    /// The most bytes of held packets.
    pub held_bytes_max: usize,
    /// The largest gap, in messages, that is waited for or requested.
    pub gap_messages_max: u64,
    /// True to request all messages from the session's first one after a late join.
    pub from_start: bool,
    /// The most messages of one request.
    pub request_count_max: u16,
    /// The time between two requests, in microseconds.
    pub request_interval_us: u64,
    /// The time from an unanswered request to its repetition, in milliseconds.
    pub request_timeout_ms: u64,
    /// The most requests for the same messages.
    pub request_attempts_max: u32,
}

impl Default for TimingSection {
    fn default() -> TimingSection {
        let (lines, requests) = (LineConfig::default(), RequestConfig::default());
        TimingSection {
            reorder_us: lines.reorder.0 / 1_000,
            give_up_ms: lines.give_up.0 / MILLISECOND,
            held_packets_max: 65_536,
            held_bytes_max: 64 << 20,
            gap_messages_max: lines.gap_messages_max,
            from_start: false,
            request_count_max: requests.count_max,
            request_interval_us: requests.interval.0 / 1_000,
            request_timeout_ms: requests.timeout.0 / MILLISECOND,
            request_attempts_max: requests.attempts_max,
        }
    }
}

const MILLISECOND: u64 = 1_000_000;
/// The longest time that can be set, in milliseconds: a day.
const DAY_MS: u64 = 24 * 3_600 * 1_000;

fn default_receive_buffer_bytes() -> usize {
    16 << 20
}

fn default_same_session() -> bool {
    true
}

fn default_lead_ms() -> u64 {
    100
}

fn default_snapshot_timeout_ms() -> u64 {
    120_000
}

fn default_reach_timeout_ms() -> u64 {
    10_000
}

fn default_retry_min_ms() -> u64 {
    500
}

fn default_retry_max_ms() -> u64 {
    30_000
}

fn default_speed() -> Speed {
    Speed::Max
}

fn speed<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Speed, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn out<T>(key: &'static str, value: impl ToString, want: &'static str) -> Result<T, ConfigError> {
    Err(ConfigError::OutOfRange { key, value: value.to_string(), want })
}

fn within(ranges: &[(&'static str, u64, u64, u64, &'static str)]) -> Result<(), ConfigError> {
    for (key, value, least, most, want) in ranges {
        if !(*least..=*most).contains(value) {
            return out(key, value, want);
        }
    }
    Ok(())
}

impl FeedSection {
    /// Reads a section's text, without its heading, and checks it.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str) -> Result<FeedSection, ConfigError> {
        let section: FeedSection = toml::from_str(text).map_err(Box::new)?;
        section.check()?;
        Ok(section)
    }

    /// Checks that values are in range and fit each other.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`], naming the first wrong value.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Some(entry) = feed_by_name(&self.name) else {
            return out("feed.name", &self.name, "the name of a feed that there is");
        };
        match (&self.tcp, &self.capture, self.lines.is_empty()) {
            (None, None, true) => {
                return out("feed.lines", "(none)", "lines, feed.tcp or feed.capture");
            }
            (Some(_), Some(_), _) => {
                return out("feed.tcp", "(given)", "none with feed.capture");
            }
            (Some(_), None, false) => return out("feed.tcp", "(given)", "none with feed.lines"),
            _ => {}
        }
        let profile = entry.profile;
        let is_file = self.capture.is_some() && self.lines.is_empty();
        if profile.transport == Transport::DbnFiles && !is_file {
            return out("feed.capture", "(none)", "a file alone: `dbn` comes over no network");
        }
        self.check_profile(profile)?;
        for lines in &self.lines {
            lines.check(self.capture.is_some())?;
        }
        if let Some(tcp) = &self.tcp {
            let keys = ["feed.tcp.retry_min_ms", "feed.tcp.retry_max_ms"];
            check_retries(keys, tcp.retry_min_ms, tcp.retry_max_ms)?;
        }
        self.timing.check()?;
        within(&[
            (
                "feed.receive_buffer_bytes",
                self.receive_buffer_bytes as u64,
                4_096,
                1 << 30,
                "4 KiB to 1 GiB",
            ),
            ("feed.silence_ms", self.silence_ms.unwrap_or(0), 0, DAY_MS, "0 to a day's"),
        ])
    }

    /// Refuses options that do not apply to the feed.
    fn check_profile(&self, profile: &Profile) -> Result<(), ConfigError> {
        let has = |is_there: fn(&LinesSection) -> bool| self.lines.iter().any(is_there);
        let (request, glimpse) =
            (has(|lines| lines.request.is_some()), has(|lines| lines.glimpse.is_some()));
        let absolute = "none: this feed's times do not count from midnight";
        let soupbin = "none: this feed does not come over SoupBinTCP";
        let mold = "none: this feed does not come over MoldUDP64";
        let options = [
            ("feed.day", self.day.is_some(), profile.counts_from_midnight, absolute),
            ("feed.utc_offset", self.utc_offset.is_some(), profile.counts_from_midnight, absolute),
            ("feed.tcp", self.tcp.is_some(), profile.is_over_soupbin, soupbin),
            ("feed.lines.request", request, profile.is_mold(), mold),
            ("feed.lines.glimpse", glimpse, profile.is_mold(), mold),
        ];
        let wrong = options.into_iter().find(|(_, is_given, applies, _)| *is_given && !applies);
        if let Some((key, _, _, want)) = wrong {
            return out(key, "(given)", want);
        }
        if self.day.is_some() && self.utc_offset.is_none() {
            return out("feed.utc_offset", "(none)", "the offset of the venue's day from UTC");
        }
        if self.timing.from_start && !request {
            return out("feed.timing.from_start", true, "false without feed.lines.request");
        }
        Ok(())
    }

    /// The time for which all lines may be silent; `None`: unlimited.
    #[must_use]
    pub(super) fn silence(&self) -> Option<Nanos> {
        let Some(silence_ms) = self.silence_ms else {
            return feed_by_name(&self.name).and_then(|entry| entry.profile.silence_max);
        };
        (silence_ms > 0).then_some(Nanos(silence_ms.saturating_mul(MILLISECOND)))
    }

    pub(super) fn day(&self) -> Day {
        Day { date: self.day, offset: self.utc_offset }
    }
}

impl LinesSection {
    fn check(&self, is_capture: bool) -> Result<(), ConfigError> {
        if self.b.is_some_and(|b| b.address == self.a.address && b.address.port() != 0) {
            return out("feed.lines.b", "(that of line A)", "another group, address or port");
        }
        if self.b_source.is_some() && self.b.is_none() {
            return out("feed.lines.b_source", "(given)", "none without feed.lines.b");
        }
        let of_others = [
            ("feed.lines.request", self.request.is_some()),
            ("feed.lines.glimpse", self.glimpse.is_some()),
        ];
        if let Some((key, _)) = of_others.into_iter().find(|(_, is_given)| *is_given && is_capture)
        {
            return out(key, "(given)", "none with feed.capture: nobody answers for a file");
        }
        if self.request.is_some_and(|server| server.port() == 0) {
            return out("feed.lines.request", "port 0", "a port from 1 on");
        }
        let Some(glimpse) = &self.glimpse else { return Ok(()) };
        within(&[
            ("feed.lines.glimpse.lead_ms", glimpse.lead_ms, 0, 10_000, "0 to 10000"),
            ("feed.lines.glimpse.timeout_ms", glimpse.timeout_ms, 100, DAY_MS, "100 to a day's"),
            (
                "feed.lines.glimpse.reach_timeout_ms",
                glimpse.reach_timeout_ms,
                100,
                DAY_MS,
                "100 to a day's",
            ),
        ])?;
        let keys = ["feed.lines.glimpse.retry_min_ms", "feed.lines.glimpse.retry_max_ms"];
        check_retries(keys, glimpse.retry_min_ms, glimpse.retry_max_ms)
    }

    /// The configuration of the lines' channels, with retransmission requests if there is a server.
    pub(super) fn line_config(&self, timing: &TimingSection) -> LineConfig {
        LineConfig { request: self.request.map(|_| timing.request()), ..timing.lines() }
    }
}

fn check_retries(keys: [&'static str; 2], min: u64, max: u64) -> Result<(), ConfigError> {
    let [min_key, max_key] = keys;
    within(&[
        (min_key, min, 1, DAY_MS, "1 to a day's"),
        (max_key, max, 1, DAY_MS, "1 to a day's"),
    ])?;
    if max < min { out(max_key, max, "no less than retry_min_ms") } else { Ok(()) }
}

impl TimingSection {
    fn check(&self) -> Result<(), ConfigError> {
        let day_us = DAY_MS * 1_000;
        let held_packets = u64::from(self.held_packets_max);
        let requests = u64::from(self.request_count_max);
        let attempts = u64::from(self.request_attempts_max);
        within(&[
            ("feed.timing.reorder_us", self.reorder_us, 0, day_us, "0 to a day's"),
            ("feed.timing.give_up_ms", self.give_up_ms, 1, DAY_MS, "1 to a day's"),
            ("feed.timing.held_packets_max", held_packets, 1, 1 << 24, "1 to 16777216"),
            (
                "feed.timing.held_bytes_max",
                self.held_bytes_max as u64,
                64 << 10,
                64 << 30,
                "64 KiB to 64 GiB",
            ),
            ("feed.timing.gap_messages_max", self.gap_messages_max, 1, u64::MAX, "1 or more"),
            ("feed.timing.request_count_max", requests, 1, 65_534, "1 to 65534"),
            (
                "feed.timing.request_interval_us",
                self.request_interval_us,
                1,
                day_us,
                "1 to a day's",
            ),
            ("feed.timing.request_timeout_ms", self.request_timeout_ms, 1, DAY_MS, "1 to a day's"),
            ("feed.timing.request_attempts_max", attempts, 1, 1_000, "1 to 1000"),
        ])
    }

    fn request(&self) -> RequestConfig {
        RequestConfig {
            count_max: self.request_count_max,
            interval: Nanos(self.request_interval_us.saturating_mul(1_000)),
            timeout: Nanos(self.request_timeout_ms.saturating_mul(MILLISECOND)),
            attempts_max: self.request_attempts_max,
        }
    }

    /// The configuration of channels without retransmission requests.
    pub(super) fn lines(&self) -> LineConfig {
        LineConfig {
            held_packets_max: self.held_packets_max,
            held_bytes_max: self.held_bytes_max,
            reorder: Nanos(self.reorder_us.saturating_mul(1_000)),
            give_up: Nanos(self.give_up_ms.saturating_mul(MILLISECOND)),
            request: None,
            gap_messages_max: self.gap_messages_max,
            late_join: if self.from_start { LateJoin::FromStart } else { LateJoin::FromHere },
        }
    }
}

/// An error that leaves a login without its password.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The file cannot be read, or other users can read it.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The name or the password does not fit a login.
    #[error("{path}: a login has up to 6 printable characters of name and 10 of password")]
    NoLogin {
        /// The password's file.
        path: PathBuf,
    },
}

/// Builds a login from this name and the password in a file; without a file the password is empty.
///
/// # Errors
/// [`PasswordError`].
pub fn login(username: &str, path: Option<&Path>) -> Result<Login, PasswordError> {
    let text = path.map_or(Ok(String::new()), read_secret_text)?;
    let path = || path.map_or_else(|| "(no file)".into(), Path::to_owned);
    let login = Login::new(username, text.trim_end_matches(['\r', '\n']));
    login.ok_or_else(|| PasswordError::NoLogin { path: path() })
}

fn millis(count: u64) -> Nanos {
    Nanos(count.saturating_mul(MILLISECOND))
}

/// The parameters of snapshot recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct SnapshotRecovery {
    pub address: SocketAddr,
    pub login: Login,
    pub is_same_session: bool,
    pub lead: Nanos,
    pub timeout: Nanos,
    pub reach_timeout: Nanos,
    pub retry_min: Nanos,
    pub retry_max: Nanos,
}

impl GlimpseSection {
    pub(super) fn settings(&self) -> Result<SnapshotRecovery, PasswordError> {
        Ok(SnapshotRecovery {
            address: self.address,
            login: login(&self.username, self.password_file.as_deref())?,
            is_same_session: self.same_session,
            lead: millis(self.lead_ms),
            timeout: millis(self.timeout_ms),
            reach_timeout: millis(self.reach_timeout_ms),
            retry_min: millis(self.retry_min_ms),
            retry_max: millis(self.retry_max_ms),
        })
    }
}

/// The parameters of a feed over a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamSettings {
    pub address: SocketAddr,
    pub login: Login,
    pub retry_min: Nanos,
    pub retry_max: Nanos,
}

impl TcpSection {
    pub(super) fn settings(&self) -> Result<StreamSettings, PasswordError> {
        Ok(StreamSettings {
            address: self.address,
            login: login(&self.username, Some(&self.password_file))?,
            retry_min: millis(self.retry_min_ms),
            retry_max: millis(self.retry_max_ms),
        })
    }
}

/// The midnight from which a feed's times count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Day {
    date: Option<Date>,
    offset: Option<UtcOffset>,
}

impl Day {
    /// The midnight of the configured day, or of the day on which the session began; zero while
    /// neither is known.
    pub fn midnight(&self, began: Option<Nanos>) -> Nanos {
        let Some(offset) = self.offset else { return Nanos(0) };
        let date = self.date.or(began.map(|moment| Date::at(moment, offset)));
        let midnight = TimeOfDay::try_from("00:00:00".to_owned()).ok();
        let moment = date.zip(midnight).and_then(|(date, time)| date.moment(time, offset));
        moment.unwrap_or(Nanos(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "name = \"itch\"\n[[lines]]\na = \"239.1.1.1:5000@127.0.0.1\"\n";

    #[test]
    fn a_feed_is_its_name_and_its_lines() {
        let section = FeedSection::parse(LINES).expect("a feed");
        let a = section.lines[0].a;
        assert_eq!(a.address.to_string(), "239.1.1.1:5000");
        assert_eq!(a.interface, Ipv4Addr::LOCALHOST);
        let config = section.lines[0].line_config(&section.timing);
        assert_eq!((config.request, config.reorder), (None, Nanos(500_000)));
        assert_eq!(section.silence(), Some(Nanos(5_000_000_000)));
        let more = format!("{LINES}request = \"10.0.0.1:7\"\n[timing]\nrequest_attempts_max = 9\n");
        let section = FeedSection::parse(&more).expect("a feed");
        let config = section.lines[0].line_config(&section.timing);
        assert_eq!(config.request.expect("a server").attempts_max, 9);
    }

    #[test]
    fn a_line_is_a_group_with_its_interface_or_an_address() {
        for (text, is_good) in [
            ("239.1.1.1:5000@10.0.0.1", true),
            ("127.0.0.1:5000", true),
            ("239.1.1.1:5000", false),
            ("127.0.0.1:5000@10.0.0.1", false),
            ("239.1.1.1@10.0.0.1", false),
            ("239.1.1.1:5000@eth0", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<LineAddress>().is_ok(), is_good, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let glimpse = "[lines.glimpse]\naddress = \"127.0.0.1:1\"\nusername = \"u\"\n\
                       password_file = \"p\"\n";
        let iex = LINES.replace("itch", "iex-tops");
        let weir = LINES.replace("itch", "weir");
        for (text, named) in [
            ("name = \"itch\"".to_owned(), "feed.lines"),
            (LINES.replace("itch", "itch4"), "feed.name"),
            (format!("nmae = 1\n{LINES}"), "nmae"),
            (format!("{LINES}c = \"1\"\n"), "unknown field `c`"),
            (LINES.replace("@127.0.0.1", ""), "GROUP:PORT@INTERFACE"),
            (format!("{LINES}b = \"239.1.1.1:5000@127.0.0.1\"\n"), "feed.lines.b"),
            (format!("{LINES}b_source = \"10.0.0.1\"\n"), "feed.lines.b_source"),
            (format!("{LINES}request = \"10.0.0.1:0\"\n"), "feed.lines.request"),
            (format!("{iex}request = \"10.0.0.1:7\"\n"), "feed.lines.request"),
            (format!("{iex}{glimpse}"), "feed.lines.glimpse"),
            (LINES.replace("itch", "dbn"), "feed.capture"),
            (format!("{LINES}{glimpse}timeout_ms = 1\n"), "feed.lines.glimpse.timeout_ms"),
            (format!("{LINES}{glimpse}lead_ms = 10001\n"), "feed.lines.glimpse.lead_ms"),
            (format!("{LINES}{glimpse}retry_max_ms = 1\n"), "feed.lines.glimpse.retry_max_ms"),
            (format!("{LINES}{glimpse}password = \"p\"\n"), "password"),
            (format!("day = \"2026-11-23\"\n{LINES}"), "feed.utc_offset"),
            (format!("day = \"2026-02-30\"\n{LINES}"), "2026-02-30"),
            (format!("utc_offset = \"-05:00\"\n{iex}"), "feed.utc_offset"),
            (format!("utc_offset = \"-05:00\"\n{weir}"), "feed.utc_offset"),
            (format!("silence_ms = 100000000\n{LINES}"), "feed.silence_ms"),
            (format!("receive_buffer_bytes = 1\n{LINES}"), "feed.receive_buffer_bytes"),
            (format!("{LINES}[timing]\nheld_packets_max = 0\n"), "feed.timing.held_packets_max"),
            (format!("{LINES}[timing]\nrequest_count_max = 65535\n"), "feed.timing.request_count"),
            (format!("{LINES}[timing]\nfrom_start = true\n"), "feed.timing.from_start"),
            (format!("{LINES}[capture]\nfile = \"f\"\nspeed = \"0\"\n"), "above 0"),
            (
                format!("{LINES}request = \"10.0.0.1:7\"\n[capture]\nfile = \"f\"\n"),
                "feed.lines.request",
            ),
            (
                format!(
                    "{LINES}[tcp]\naddress = \"127.0.0.1:1\"\nusername = \"u\"\n\
                     password_file = \"p\"\n"
                ),
                "feed.tcp",
            ),
        ] {
            let error = FeedSection::parse(&text).expect_err(&text).to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn times_count_from_the_midnight_of_the_day_or_of_the_first_packet() {
        let day = |text: &str| FeedSection::parse(&format!("{text}{LINES}")).expect("a feed").day();
        // 2026-11-23T03:00:00Z is the evening of the 22nd in New York.
        let evening = Nanos(1_795_402_800_000_000_000);
        let day_ns = 86_400_000_000_000;
        let midnight = Nanos(1_795_323_600_000_000_000);
        assert_eq!(day("").midnight(Some(evening)), Nanos(0));
        let any = day("utc_offset = \"-05:00\"\n");
        assert_eq!((any.midnight(None), any.midnight(Some(evening))), (Nanos(0), midnight));
        let next = day("day = \"2026-11-23\"\nutc_offset = \"-05:00\"\n");
        assert_eq!(next.midnight(Some(evening)), Nanos(midnight.0 + day_ns));
        assert_eq!(next.midnight(None), Nanos(midnight.0 + day_ns));
    }

    #[test]
    fn a_password_is_read_from_its_file_and_shown_to_nobody() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("password");
        let section = GlimpseSection {
            address: "127.0.0.1:1".parse().expect("an address"),
            username: "weir".to_owned(),
            password_file: Some(path.clone()),
            same_session: true,
            lead_ms: 1,
            timeout_ms: 1,
            reach_timeout_ms: 1,
            retry_min_ms: 1,
            retry_max_ms: 1,
        };
        assert!(matches!(
            section.settings(),
            Err(PasswordError::Secret(SecretError::Unreadable { .. }))
        ));
        weir_io::durable::write_file(&path, b"secret\n", 0o600).expect("it is written");
        let settings = section.settings().expect("a login");
        assert_eq!(&settings.login.password, b"secret    ");
        weir_io::durable::write_file(&path, b"much too long a password\n", 0o600)
            .expect("it is written");
        assert!(matches!(section.settings(), Err(PasswordError::NoLogin { .. })));
        assert!(!format!("{section:?}").contains("weir"));
        let anyone = GlimpseSection { password_file: None, username: String::new(), ..section };
        let login = anyone.settings().expect("a login").login;
        assert_eq!((login.username, login.password), ([b' '; 6], [b' '; 10]));
    }
}
