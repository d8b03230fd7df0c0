//! The check of a file as the source of a feed: each command that reads one tells by it why the
//! file is no source, or no whole one.

use std::fs;
use std::path::Path;

use weir_feed::recognise::{Fit, Recogniser, fit_of};
use weir_feed::{AnyFeed, FeedEntry, Transport, mold_feed_names};

use super::file::{CaptureFile, FileError, FileKind, Item};

/// Datagrams of the feed that are enough to take the file for one of it.
const ENOUGH: u64 = 256;
/// Datagrams read before a file is served.
const HEAD_MAX: u64 = 100_000;

/// The reason a file is no source of a feed, or no whole one.
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// It cannot be read to its end.
    #[error(transparent)]
    Unreadable(#[from] FileError),
    /// It is of a kind that the feed does not have.
    #[error("{is}; the feed {feed} has {wants}")]
    Kind {
        /// The feed's name.
        feed: &'static str,
        /// The kind of this file.
        is: &'static str,
        /// The kinds of files that the feed has.
        wants: String,
    },
    /// Its datagrams are not of the feed.
    #[error("of {datagrams} datagrams {whole} are of the feed {feed}; {}", seen_text(.seen))]
    OtherFeed {
        /// The feed's name.
        feed: &'static str,
        /// Datagrams looked at.
        datagrams: u64,
        /// Datagrams that are of the feed from the first byte to the last.
        whole: u64,
        /// The feed that most of them are of, if it is known.
        seen: Option<&'static str>,
    },
}

fn seen_text(seen: &Option<&'static str>) -> String {
    seen.map_or_else(
        || "they are of no feed that is known".to_owned(),
        |name| format!("they are of the feed {name}"),
    )
}

/// Judges whether a file's datagrams are of a feed.
#[derive(Clone, Debug)]
pub struct FileCheck {
    name: &'static str,
    feed: AnyFeed,
    recogniser: Recogniser,
    datagrams: u64,
    whole: u64,
    /// Datagrams whose header may be the feed's, and the rest is not.
    header_only: u64,
}

impl FileCheck {
    /// Begins the check of a file of this kind.
    ///
    /// # Errors
    /// [`FileProblem::Kind`]: the feed has no such files.
    pub fn new(entry: &FeedEntry, kind: FileKind) -> Result<FileCheck, FileProblem> {
        let profile = entry.profile;
        let is_dbn = profile.transport == Transport::DbnFiles;
        let (is, is_right) = match kind {
            FileKind::Dbn => ("this is a file of DBN, for the feed dbn", is_dbn),
            FileKind::Capture => ("this is a capture", !is_dbn),
            FileKind::Records => ("this is a day file", profile.is_mold()),
        };
        if !is_right {
            let wants = match profile.transport {
                Transport::DbnFiles => "files of DBN".to_owned(),
                Transport::MoldUdp64 => "captures and day files".to_owned(),
                Transport::Datagrams => {
                    let names: Vec<_> = mold_feed_names().collect();
                    format!("captures; a day file is of {}", names.join(" or "))
                }
            };
            return Err(FileProblem::Kind { feed: profile.name, is, wants });
        }
        Ok(FileCheck {
            name: profile.name,
            feed: (entry.feed)(),
            recogniser: Recogniser::new(),
            datagrams: 0,
            whole: 0,
            header_only: 0,
        })
    }

    /// Looks at a datagram of the file.
    pub fn datagram(&mut self, payload: &[u8]) {
        if self.is_enough() {
            return;
        }
        self.datagrams += 1;
        self.recogniser.note(payload);
        match fit_of(&self.feed, payload) {
            Fit::Whole => self.whole += 1,
            Fit::HeaderOnly => self.header_only += 1,
            Fit::Stranger => {}
        }
    }

    /// Returns true once no datagram can change the verdict.
    fn is_enough(&self) -> bool {
        self.whole >= ENOUGH && self.whole > self.header_only
    }

    /// Returns the verdict on the datagrams so far: a file may hold several feeds, so that one of
    /// them is of this feed if some datagrams are, and more than seem so by their header alone. A
    /// file without datagrams is of any feed.
    ///
    /// # Errors
    /// [`FileProblem::OtherFeed`].
    pub fn verdict(&self) -> Result<(), FileProblem> {
        if self.datagrams == 0 || self.whole > 0 && self.whole >= self.header_only {
            return Ok(());
        }
        Err(FileProblem::OtherFeed {
            feed: self.name,
            datagrams: self.datagrams,
            whole: self.whole,
            seen: self.recogniser.feed(),
        })
    }
}

/// Opens a file that is served as the source of a feed, once its beginning was checked.
///
/// # Errors
/// [`FileProblem`]: nothing can be read of it, or its beginning is not of the feed. Damage after
/// the first item is left to its reader.
pub fn open_for(entry: &FeedEntry, path: &Path) -> Result<CaptureFile, FileProblem> {
    let mut file = CaptureFile::open(path)?;
    let check = FileCheck::new(entry, file.kind())?;
    // The bytes of a pipe come once.
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    if !is_file {
        return Ok(file);
    }
    check_head(check, &mut file)?;
    Ok(CaptureFile::open(path)?)
}

fn check_head(mut check: FileCheck, file: &mut CaptureFile) -> Result<(), FileProblem> {
    let mut items = 0;
    while items < HEAD_MAX && !check.is_enough() {
        let more = file.next(&mut |item| {
            items += 1;
            if let Item::Datagram(datagram) = item {
                check.datagram(datagram.payload);
            }
        });
        match more {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if items == 0 => return Err(error.into()),
            Err(_) => break,
        }
    }
    check.verdict()
}
