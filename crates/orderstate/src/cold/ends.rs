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
use weir_partition::event_reader::{EventReader, ReadEvent, assert_kept};
use weir_types::{ChangeId, Epoch, Position, Rec, Seq};
use weir_wire::{Event, PlainEvent};

/// The first line of the file.
const TITLE: &str = "weir past-ends 1";

/// Returns the last valid change id of each ended epoch, oldest first. Those that `file` does not
/// have are read from the events, and kept in it.
///
/// # Errors
/// When the event log cannot be read up to the last end, or no longer has the change before an end.
/// An archive that misses an end would keep lost changes, and honour tokens for them.
pub fn places_of(events: EventReader, file: &Path) -> anyhow::Result<Vec<(Epoch, ChangeId)>> {
    let place = || format!("the ends of past epochs in {}", file.display());
    let ended = events.epochs().ended().to_vec();
    let known = read_file(file).with_context(place)?;
    let is_same = |(epoch, to): &(Epoch, Position)| {
        known.get(epoch).filter(|(known_to, _)| known_to == to).map(|(_, id)| (*epoch, *id))
    };
    let mut places: Vec<_> = ended.iter().map_while(is_same).collect();
    if places.len() < ended.len() {
        read_events(events, &mut places)?;
        write_file(file, &ended, &places).with_context(place)?;
    }
    Ok(places)
}

/// Adds the ends behind those in `places`.
fn read_events(mut events: EventReader, places: &mut Vec<(Epoch, ChangeId)>) -> anyhow::Result<()> {
    let (first, known) = (events.next_record(), places.len());
    let (mut record, mut head, mut told) = (Vec::new(), ChangeId::START, 0);
    while !events.has_told_ends() {
        match events.next(&mut record) {
            ReadEvent::EpochEnded(change) => {
                assert_kept(&change);
                told += 1;
                if told > known {
                    let epoch = change.ended.epoch;
                    ensure!(
                        first == 1 || head != ChangeId::START,
                        "the events before {first} are past the retention, and with them the last \
                         change of epoch {epoch}"
                    );
                    places.push((epoch, head));
                }
            }
            ReadEvent::Record(_) => {
                let event = Event::decode(&record).expect("the event log holds our own messages");
                if let Event::Plain(PlainEvent::OrderEvent(order)) = &event
                    && !order.rec.is_none()
                {
                    head = head.max(ChangeId::new(order.seq, order.rec));
                }
            }
            // All ends lie before the log's end.
            ReadEvent::UpToDate | ReadEvent::Missing => {
                bail!("the event log cannot be read up to the end of epoch {}", events.epoch())
            }
        }
    }
    Ok(())
}

/// Returns the epochs of the file, each with the position up to which it survives and its last
/// change; none when there is no file.
fn read_file(file: &Path) -> anyhow::Result<BTreeMap<Epoch, (Position, ChangeId)>> {
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

fn write_file(
    file: &Path,
    ended: &[(Epoch, Position)],
    places: &[(Epoch, ChangeId)],
) -> anyhow::Result<()> {
    let mut text = format!("{TITLE}\n");
    for ((epoch, to), (_, id)) in ended.iter().zip(places) {
        writeln!(text, "{} {} {} {}", epoch.0, to.0, id.seq.0, id.rec.0)?;
    }
    weir_io::durable::write_file(file, text.as_bytes(), 0o600)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::{epochs, log_of};

    #[test]
    fn an_epoch_ends_at_the_last_change_that_no_later_loss_took() {
        let dir = tempfile::tempdir().unwrap();
        let epochs = epochs(6, &[(1, 10), (2, 8), (4, 15), (5, 20)]);
        let (_writer, events) = log_of(dir.path(), 20, epochs);
        let at = |number| ChangeId::new(Seq(number), Rec(number));
        let ends = [(1, 8), (2, 8), (4, 15), (5, 20)].map(|(epoch, to)| (Epoch(epoch), at(to)));
        let file = dir.path().join("past-ends");
        assert_eq!(places_of(events, &file).unwrap(), ends);
    }

    #[test]
    fn an_end_behind_events_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (_writer, events) = log_of(dir.path(), 20, epochs(2, &[(1, 10)]));
        for file in std::fs::read_dir(dir.path().join("events")).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        let error = places_of(events, &dir.path().join("past-ends")).unwrap_err();
        assert_eq!(error.to_string(), "the event log cannot be read up to the end of epoch 1");
    }

    #[test]
    fn an_end_is_known_when_its_events_are_past_the_retention() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("past-ends");
        let at = |number| ChangeId::new(Seq(number), Rec(number));
        let (_writer, events) = log_of(dir.path(), 2_000, epochs(3, &[(1, 10), (2, 1_900)]));
        let ends = [(Epoch(1), at(10)), (Epoch(2), at(1_900))];
        assert_eq!(places_of(events, &file).unwrap(), ends);
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
            places_of(events, &file)
        };
        assert_eq!(later(&[(1, 10), (2, 1_900)]).unwrap(), ends);
        // One more epoch has ended, and the third loss reaches back into the second.
        let more = [ends[0], ends[1], (Epoch(3), at(1_950))];
        assert_eq!(later(&[(1, 10), (2, 1_900), (3, 1_950)]).unwrap(), more);
        let back = [ends[0], (Epoch(2), at(1_850)), (Epoch(3), at(1_850))];
        assert_eq!(later(&[(1, 10), (2, 1_900), (3, 1_850)]).unwrap(), back);
        std::fs::remove_file(&file).unwrap();
        let error = later(&[(1, 10), (2, 1_900)]).unwrap_err().to_string();
        assert!(error.contains("past the retention") && error.contains("epoch 1"), "{error}");
        std::fs::write(&file, "weir past-ends 1\n1 10 x 10\n").unwrap();
        let error = format!("{:#}", later(&[(1, 10), (2, 1_900)]).unwrap_err());
        assert!(error.contains("1 10 x 10"), "{error}");
    }
}
