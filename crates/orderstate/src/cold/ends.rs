//! The ends of the partition's past epochs as change ids: the events tell them as positions, and
//! segments are named by change ids.
//!
//! The events around an end may be past the retention at a later start, so the ends are also kept
//! in a file. A line of it is used while its epoch still survives up to the same position; a loss
//! that reaches back further is a new end, whose events are retained.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use weir_partition::event_reader::{EventReader, PastRead, ReadEvent, assert_kept};
use weir_types::{ChangeId, Epoch, Position, Rec, Seq};
use weir_wire::frame::parse_message;
use weir_wire::{Event, PlainEvent};

/// The first line of the file.
const TITLE: &str = "weir past-ends 1";

/// The ends of past epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastEnds {
    /// The last valid change id of each, oldest first, as far as they are known.
    pub known: Vec<(Epoch, ChangeId)>,
    /// The newest epoch whose end is not known: the events around it are past the retention.
    pub unknown: Option<Epoch>,
}

/// The state of the recovered engine, which has applied all commands of the log.
#[derive(Clone, Copy, Debug)]
pub struct LogEnd {
    /// The last command.
    pub position: Position,
    /// The newest change of an order.
    pub last_seq: Seq,
}

/// Returns the last valid change id of each ended epoch. Those that `file` does not have are read
/// from the events, and kept in it. An archive that misses an end must have no file of that epoch:
/// it would keep lost changes, and honour tokens for them.
///
/// # Errors
/// When the event log cannot be read up to the last end.
pub fn places_of(events: EventReader, end: LogEnd, file: &Path) -> anyhow::Result<PastEnds> {
    let place = || format!("the ends of past epochs in {}", file.display());
    let ended = events.epochs().ended().to_vec();
    let mut known = read_file(file).with_context(place)?;
    // A loss that reaches back further moved these ends.
    known.retain(|epoch, (to, _)| ended.contains(&(*epoch, *to)));
    let is_unknown = |known: &KnownEnds, epoch: &Epoch| !known.contains_key(epoch);
    if ended.iter().any(|(epoch, _)| is_unknown(&known, epoch)) {
        read_events(events, end, &mut known)?;
        write_file(file, &known).with_context(place)?;
    }
    let unknown = ended.iter().map(|(epoch, _)| *epoch).rfind(|epoch| is_unknown(&known, epoch));
    let known = known.into_iter().map(|(epoch, (_, id))| (epoch, id)).collect();
    Ok(PastEnds { known, unknown })
}

/// Adds an epoch that ended behind all commands of the log, so that all its changes are valid. Its
/// end is where the events may be gone by the next start.
///
/// # Errors
/// When the file cannot be read or written.
pub fn add_end(epoch: Epoch, end: LogEnd, file: &Path) -> anyhow::Result<()> {
    let place = || format!("the ends of past epochs in {}", file.display());
    let mut known = read_file(file).with_context(place)?;
    known.insert(epoch, (end.position, last_before(Seq(end.last_seq.0 + 1))));
    write_file(file, &known).with_context(place)
}

/// The known ends by epoch, each with the position up to which the epoch survives.
type KnownEnds = BTreeMap<Epoch, (Position, ChangeId)>;

/// Adds the ends that are not in `known`, as far as the events tell them.
fn read_events(mut events: EventReader, end: LogEnd, known: &mut KnownEnds) -> anyhow::Result<()> {
    let first = events.next_record();
    let mut record = Vec::new();
    // The last command of which events may be gone. A segment may begin in the middle of a
    // command's events, so this is the one of the first retained event.
    let gone = match (first, events.read_at(first, &mut record)) {
        (1, _) => Position::NONE,
        (_, PastRead::Found) => command_of(&record),
        // There is none.
        (_, PastRead::Missing | PastRead::Deleted) => end.position,
    };
    let (mut head, mut before_first) = (ChangeId::START, Vec::new());
    while !events.has_told_ends() {
        match events.next(&mut record) {
            ReadEvent::EpochEnded(change) => {
                assert_kept(&change);
                let (epoch, to) = (change.ended.epoch, change.ended.last_valid);
                if known.contains_key(&epoch) {
                    continue;
                }
                if first == 1 || head != ChangeId::START {
                    known.insert(epoch, (to, head));
                } else if to >= gone {
                    before_first.push((epoch, to));
                }
            }
            ReadEvent::Record(_) => {
                if let Some(change_id) = change_of(&record) {
                    tell_before(change_id.seq, &mut before_first, known);
                    head = head.max(change_id);
                }
            }
            // All ends lie before the log's end.
            ReadEvent::UpToDate | ReadEvent::Missing => {
                bail!("the event log cannot be read up to the end of epoch {}", events.epoch())
            }
        }
    }
    while !before_first.is_empty()
        && let ReadEvent::Record(_) = events.next(&mut record)
    {
        if let Some(change_id) = change_of(&record) {
            tell_before(change_id.seq, &mut before_first, known);
        }
    }
    tell_before(Seq(end.last_seq.0 + 1), &mut before_first, known);
    Ok(())
}

/// Adds ends with all changes before `next` and none later: no event is gone behind them.
fn tell_before(next: Seq, ends: &mut Vec<(Epoch, Position)>, known: &mut KnownEnds) {
    known.extend(ends.drain(..).map(|(epoch, to)| (epoch, (to, last_before(next)))));
}

/// Returns a change id behind all changes before `next`, and before all later ones.
fn last_before(next: Seq) -> ChangeId {
    ChangeId { seq: Seq(next.0 - 1), rec: Rec(u64::MAX) }
}

/// Returns the command that caused an event.
fn command_of(record: &[u8]) -> Position {
    let raw = parse_message(record).expect("the event log holds our own messages");
    let (position, _) = raw.block().split_first_chunk().expect("each event begins with it");
    Position(u64::from_le_bytes(*position))
}

/// Returns the change that an event reports, if it is one.
fn change_of(record: &[u8]) -> Option<ChangeId> {
    let event = Event::decode(record).expect("the event log holds our own messages");
    match event {
        Event::Plain(PlainEvent::OrderEvent(order)) if !order.rec.is_none() => {
            Some(ChangeId::new(order.seq, order.rec))
        }
        _ => None,
    }
}

/// Returns the epochs of the file, each with the position up to which it survives and its last
/// change; none when there is no file.
fn read_file(file: &Path) -> anyhow::Result<KnownEnds> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        text => text?,
    };
    let mut lines = text.lines();
    ensure!(lines.next() == Some(TITLE), "it does not begin with {TITLE:?}");
    let entry = |line: &str| -> anyhow::Result<_> {
        let numbers = line.split(' ').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>();
        let [epoch, to, seq, rec] = numbers?[..] else { bail!("not four numbers") };
        let id = ChangeId { seq: Seq(seq), rec: Rec(rec) };
        Ok((Epoch(u32::try_from(epoch)?), (Position(to), id)))
    };
    lines.map(|line| entry(line).with_context(|| format!("{line:?}"))).collect()
}

fn write_file(file: &Path, known: &KnownEnds) -> anyhow::Result<()> {
    let mut text = format!("{TITLE}\n");
    for (epoch, (to, id)) in known {
        writeln!(text, "{} {} {} {}", epoch.0, to.0, id.seq.0, id.rec.0)?;
    }
    weir_io::durable::write_file(file, text.as_bytes(), 0o600)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::{accepted, epochs, log_of};

    const END: LogEnd = LogEnd { position: Position(2_000), last_seq: Seq(2_000) };

    fn all(known: &[(Epoch, ChangeId)]) -> PastEnds {
        PastEnds { known: known.to_vec(), unknown: None }
    }

    #[test]
    fn an_epoch_ends_at_the_last_change_that_no_later_loss_took() {
        let dir = tempfile::tempdir().unwrap();
        let epochs = epochs(6, &[(1, 10), (2, 8), (4, 15), (5, 20)]);
        let (_writer, events) = log_of(dir.path(), 20, epochs);
        let at = |number| ChangeId::new(Seq(number), Rec(number));
        let ends = [(1, 8), (2, 8), (4, 15), (5, 20)].map(|(epoch, to)| (Epoch(epoch), at(to)));
        let file = dir.path().join("past-ends");
        assert_eq!(places_of(events, END, &file).unwrap(), all(&ends));
    }

    /// Segments break off anywhere in the events of a command. The events 11 to 30 are those of
    /// command 11, which is the first of epoch 2, and the first ten of them are gone.
    #[test]
    fn an_end_before_a_command_that_lost_its_first_events_is_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let events = dir.path().join("events");
        let disk = weir_io::ThreadDisk::open(&events, None).unwrap();
        let config = weir_log::EventLogConfig::new(weir_types::PartitionId(1), 7);
        let (mut log, _) = weir_log::EventLog::open(config, Position(21), disk).unwrap();
        for number in 21..=40 {
            let position = if number <= 30 { Position(11) } else { Position(number) };
            let event = weir_wire::event::OrderEvent { position, ..accepted(number) };
            let mut record = Vec::new();
            Event::Plain(PlainEvent::OrderEvent(event)).encode(&mut record);
            assert_eq!(log.append(Position(number), &record), weir_log::EventAppend::Taken);
        }
        log.close().unwrap();
        let end = LogEnd { position: Position(40), last_seq: Seq(40) };
        // The end of epoch 1 lies before command 11, and within the events that are there.
        for (to, want) in [
            (10, PastEnds { known: Vec::new(), unknown: Some(Epoch(1)) }),
            (11, all(&[(Epoch(1), ChangeId { seq: Seq(30), rec: Rec(30) })])),
        ] {
            let tail = weir_log::TailConfig::new(1 << 20, 41);
            let (_writer, handle) = weir_log::tail_in(tail, epochs(2, &[(1, to)]));
            let reader = EventReader::new(&handle, events.clone(), 21);
            let file = dir.path().join(format!("past-ends-{to}"));
            assert_eq!(places_of(reader, end, &file).unwrap(), want, "{to}");
        }
    }

    /// An epoch that is begun after the ends were read, in a log whose events around it go later.
    #[test]
    fn an_end_that_was_added_is_known_when_its_events_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("past-ends");
        let end = LogEnd { position: Position(20), last_seq: Seq(18) };
        let last = ChangeId { seq: Seq(18), rec: Rec(u64::MAX) };
        let later = |name: &str, is_added: bool| {
            let file = dir.path().join(name);
            if is_added {
                add_end(Epoch(1), end, &file).unwrap();
            }
            let (_writer, mut events) = log_of(dir.path(), 40, epochs(2, &[(1, 20)]));
            events.skip_to(31, Epoch(1));
            places_of(events, END, &file).unwrap()
        };
        assert_eq!(later("past-ends", true), all(&[(Epoch(1), last)]));
        assert_eq!(read_file(&file).unwrap()[&Epoch(1)], (Position(20), last));
        assert_eq!(later("none", false).unknown, Some(Epoch(1)));
    }

    #[test]
    fn an_end_behind_events_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (_writer, events) = log_of(dir.path(), 20, epochs(2, &[(1, 10)]));
        for file in std::fs::read_dir(dir.path().join("events")).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        let error = places_of(events, END, &dir.path().join("past-ends")).unwrap_err();
        assert_eq!(error.to_string(), "the event log cannot be read up to the end of epoch 1");
    }

    #[test]
    fn an_end_is_known_when_its_events_are_past_the_retention() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("past-ends");
        let at = |number| ChangeId::new(Seq(number), Rec(number));
        let (_writer, events) = log_of(dir.path(), 2_000, epochs(3, &[(1, 10), (2, 1_900)]));
        let ends = [(Epoch(1), at(10)), (Epoch(2), at(1_900))];
        assert_eq!(places_of(events, END, &file).unwrap(), all(&ends));
        let remove_files = || {
            let files = std::fs::read_dir(dir.path().join("events")).unwrap();
            let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
            files.retain(|path| path.extension().is_some_and(|suffix| suffix == "wevt"));
            files.sort();
            assert!(files.len() > 2);
            let first: u64 = {
                let name = files[1].file_name().unwrap().to_str().unwrap();
                name.split_once('-').unwrap().0.parse().unwrap()
            };
            std::fs::remove_file(&files[0]).unwrap();
            first
        };
        let later = |ended: &[(u32, u64)]| {
            let current = ended.last().unwrap().0 + 1;
            let (_writer, events) = log_of(dir.path(), 2_000, epochs(current, ended));
            let first = remove_files();
            assert!((11..1_900).contains(&first), "{first}");
            let mut events = events;
            events.skip_to(first, Epoch(1));
            places_of(events, END, &file)
        };
        assert_eq!(later(&[(1, 10), (2, 1_900)]).unwrap(), all(&ends));
        // One more epoch has ended, and the third loss reaches back into the second.
        let more = [ends[0], ends[1], (Epoch(3), at(1_950))];
        assert_eq!(later(&[(1, 10), (2, 1_900), (3, 1_950)]).unwrap(), all(&more));
        let back = [ends[0], (Epoch(2), at(1_850)), (Epoch(3), at(1_850))];
        assert_eq!(later(&[(1, 10), (2, 1_900), (3, 1_850)]).unwrap(), all(&back));
        std::fs::remove_file(&file).unwrap();
        let without_the_first = PastEnds { known: vec![ends[1]], unknown: Some(Epoch(1)) };
        assert_eq!(later(&[(1, 10), (2, 1_900)]).unwrap(), without_the_first);
        assert_eq!(later(&[(1, 10), (2, 1_900)]).unwrap(), without_the_first, "from the file");
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "weir past-ends 1\n1 10 x 10\n").unwrap();
        let error = format!("{:#}", later(&[(1, 10), (2, 1_900)]).unwrap_err());
        assert!(error.contains("1 10 x 10"), "{error}");
    }
}
