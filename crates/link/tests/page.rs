//! The page of the protocol lists the messages with the fields, offsets and types that they have.

use std::collections::BTreeMap;

use weir_link::message::{
    AskRecords, BindSession, BindingsNamed, ClaimEnded, ClaimSession, CommandBatch, CommandRefused,
    EpochEnded, EventBatch, FirmFollowed, FirmRecords, FollowFirm, HeldGrant, KeepClaims,
    LinkOpened, LinkPulse, LinkReady, LinkedCommand, LinkedEvent, LogId, OldRecord, OldRecords,
    OpenLink, RecordNo, ReleaseSession, SessionBound, SessionClaimed, SessionFirm, SessionFirms,
    SessionRecords, SessionUnbound, StageBatch, StageSpans, UnbindSession,
};
use weir_wire::Message;
use weir_wire::message::FieldInfo;

const PAGE: &str = include_str!("../../../docs/protocols/link.md");

/// A message as the page lists it: its first words, and the rows of its tables.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    is_sized: bool,
    rows: Vec<String>,
}

fn rows_of(fields: &[FieldInfo]) -> impl Iterator<Item = String> + '_ {
    fields.iter().map(|f| format!("| {} | `{}` | {} |", f.offset, f.schema_name(), f.schema_type))
}

fn of<M: Message>(entry: Option<&[FieldInfo]>) -> (&'static str, Listed) {
    let size = format!("Template {}, block of {} bytes.", M::TEMPLATE_ID, M::BLOCK_LENGTH);
    let rows = rows_of(M::FIELDS).chain(entry.into_iter().flat_map(rows_of)).collect();
    let part = part_of(M::NAME).replace('\n', " ");
    (M::NAME, Listed { is_sized: part.contains(&size), rows })
}

fn part_of(name: &str) -> &'static str {
    let mark = format!("<!-- generated: message {name} -->\n");
    let (_, part) = PAGE.split_once(&mark).unwrap_or_else(|| panic!("no {name} on the page"));
    part.split_once("<!-- end -->").expect("a part ends").0
}

#[test]
fn the_page_lists_the_messages_as_they_are() {
    let messages = [
        of::<OpenLink>(None),
        of::<LinkOpened>(None),
        of::<SessionFirms>(Some(SessionFirm::FIELDS)),
        of::<LinkReady>(None),
        of::<BindSession>(None),
        of::<SessionBound>(None),
        of::<SessionRecords>(Some(RecordNo::FIELDS)),
        of::<SessionUnbound>(None),
        of::<BindingsNamed>(None),
        of::<UnbindSession>(None),
        of::<CommandBatch>(Some(LinkedCommand::FIELDS)),
        of::<CommandRefused>(None),
        of::<EventBatch>(Some(LinkedEvent::FIELDS)),
        of::<StageBatch>(Some(StageSpans::FIELDS)),
        of::<EpochEnded>(None),
        of::<LinkPulse>(None),
        of::<AskRecords>(Some(RecordNo::FIELDS)),
        of::<OldRecords>(Some(OldRecord::FIELDS)),
        of::<FollowFirm>(None),
        of::<FirmFollowed>(None),
        of::<FirmRecords>(Some(RecordNo::FIELDS)),
        of::<ClaimSession>(None),
        of::<SessionClaimed>(None),
        of::<ClaimEnded>(None),
        of::<ReleaseSession>(None),
        of::<KeepClaims>(Some(HeldGrant::FIELDS)),
    ];
    let listed: BTreeMap<&str, Listed> = messages
        .iter()
        .map(|(name, _)| {
            let lines =
                part_of(name).lines().filter(|line| line.starts_with("| ") && line.contains('`'));
            let cells = |line: &str| line.splitn(5, " |").take(3).collect::<Vec<_>>().join(" |");
            (*name, Listed { is_sized: true, rows: lines.map(|line| cells(line) + " |").collect() })
        })
        .collect();
    assert_eq!(listed, messages.into_iter().collect());
    assert_eq!(PAGE.matches("<!-- generated: message ").count(), listed.len());
}

#[test]
fn the_worked_example_is_the_codecs() {
    use weir_types::{Epoch, PartitionId, SessionId};
    let (_, example) = PAGE.split_once("## Worked example").expect("the page has one");
    let shown: Vec<u8> = example
        .split("```")
        .nth(1)
        .expect("a block")
        .lines()
        .flat_map(|line| line.get(..47).unwrap_or(line).split_whitespace())
        .filter_map(|word| (word.len() == 2).then(|| u8::from_str_radix(word, 16).ok())?)
        .collect();
    let open = OpenLink {
        incarnation: 0x0102_0304_0506_0708,
        next_record: 9_000,
        window_bytes: 4 << 20,
        session_id: SessionId(501),
        epoch: Epoch(3),
        partition_id: PartitionId(1),
        log_id: LogId(*b"log of partition"),
    };
    let mut frame = Vec::new();
    weir_wire::frame::put_frame(&open, &mut frame);
    assert_eq!(shown, frame);
}
