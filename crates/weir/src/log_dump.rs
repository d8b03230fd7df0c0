//! `weir log dump`: entries of a log as columns, or as JSON objects with the fields' own names.
//!
//! An entry is shown as its message lies in the log, without anything from elsewhere: prices and
//! quantities are the protocol's integers, since the log of a partition need not hold the
//! definition of an instrument from the entry on at which a dump begins. Every field is in JSON;
//! columns leave out zeros, empty texts and `None`.

use std::fmt::Write as _;

use anyhow::Context;
use serde_json::{Map, Value, json};
use weir_log::Entry;
use weir_runtime::civil;
use weir_types::Nanos;
use weir_wire::catalogue::message_info;
use weir_wire::event::OrderEvent;
use weir_wire::frame::{RawMessage, parse_message};
use weir_wire::message::{FieldInfo, Message, VisitField};

/// Types of the schema whose values are texts, also where one has only digits.
const TEXT_TYPES: [&str; 3] = ["clOrdId", "symbol", "credential"];
/// A type of the schema whose values may need 128 bits; they are texts in JSON.
const WIDE_TYPE: &str = "cash";
/// Types of the schema that are sets of flags.
const FLAG_TYPES: [&str; 1] = ["execInst"];

/// The name and the fields of a message in a log.
struct Record {
    name: &'static str,
    fields: Vec<(&'static FieldInfo, String)>,
    /// The definition that an import, or a definition's event, carries.
    definition: Option<Box<Record>>,
}

/// The heading of the columns.
pub(super) fn heading() -> String {
    format!("{:>10}  {:<30}  {:>5}  {:<15}  fields", "position", "log time", "epoch", "message")
}

/// Returns an entry's line.
///
/// # Errors
/// When it is not an entry that this version wrote.
pub(super) fn line(entry: &Entry<'_>, is_json: bool) -> anyhow::Result<String> {
    let (position, time, epoch) = (entry.position.0, entry.log_time, entry.epoch.0);
    let record = record_of(entry.bytes).with_context(|| format!("entry {position}"))?;
    if is_json {
        let mut object = json!({"position": position, "log_time": time.0, "epoch": epoch});
        record.put_into(&mut object);
        return Ok(object.to_string());
    }
    let columns = format!(
        "{position:>10}  {:<30}  {epoch:>5}  {:<15}  {}",
        moment(time),
        record.name,
        record.text()
    );
    Ok(columns.trim_end().to_owned())
}

fn record_of(bytes: &[u8]) -> anyhow::Result<Record> {
    let raw = parse_message(bytes)?;
    let info = message_info(raw.template_id).context("no message has its template id")?;
    // An event log holds the head of an execution report, without stage times.
    let is_order_event = raw.template_id == OrderEvent::TEMPLATE_ID;
    let mut fields = Vec::new();
    let mut put = |info, value: &dyn std::fmt::Display| fields.push((info, value.to_string()));
    if is_order_event {
        raw.decode_whole::<OrderEvent>()?.visit_fields(&mut put);
    } else {
        visit(&raw, &mut put)?;
    }
    let rest = raw.rest();
    let definition = match rest.is_empty() {
        true => None,
        false => Some(Box::new(record_of(rest)?)),
    };
    let name = if is_order_event { OrderEvent::NAME } else { info.name };
    Ok(Record { name, fields, definition })
}

fn visit(raw: &RawMessage<'_>, put: &mut VisitField<'_>) -> anyhow::Result<()> {
    let info = message_info(raw.template_id).context("no message has its template id")?;
    Ok(info.codec.visit(raw.block(), put)?)
}

impl Record {
    /// Adds the members `message`, `fields` and `definition` to a JSON object.
    fn put_into(&self, object: &mut Value) {
        let fields: Map<String, Value> = self
            .fields
            .iter()
            .map(|(info, text)| (info.name.to_owned(), value(info, text)))
            .collect();
        object["message"] = self.name.into();
        object["fields"] = fields.into();
        if let Some(definition) = &self.definition {
            object["definition"] = json!({});
            definition.put_into(&mut object["definition"]);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (info, value) in &self.fields {
            if matches!(value.as_str(), "" | "0" | "None") {
                continue;
            }
            let joint = if text.is_empty() { "" } else { " " };
            write!(text, "{joint}{}={value}", info.name).expect("a string takes all");
        }
        if let Some(definition) = &self.definition {
            let joint = if text.is_empty() { "" } else { "  " };
            write!(text, "{joint}{}  {}", definition.name, definition.text())
                .expect("a string takes all");
        }
        text
    }
}

fn value(info: &FieldInfo, text: &str) -> Value {
    if FLAG_TYPES.contains(&info.schema_type) {
        return text.split(',').filter(|name| !name.is_empty()).collect::<Vec<_>>().into();
    }
    if TEXT_TYPES.contains(&info.schema_type) || info.schema_type == WIDE_TYPE {
        return text.into();
    }
    let unsigned = text.parse::<u64>().map(Value::from);
    unsigned.or_else(|_| text.parse::<i64>().map(Value::from)).unwrap_or_else(|_| text.into())
}

fn moment(at: Nanos) -> String {
    let second = civil::utc(at);
    format!("{}.{:09}Z", second.trim_end_matches('Z'), at.0 % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use weir_types::{Epoch, FirmId, Position, RequestNo, SessionId, Switch, Symbol};
    use weir_wire::reference::{DefineFirm, SessionLost};
    use weir_wire::{Command, Definition};

    use super::*;

    fn line_of(command: &Command, is_json: bool) -> String {
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        let entry = Entry {
            position: Position(7),
            log_time: Nanos(1_000_000_000_000_000_001),
            epoch: Epoch(2),
            ends_batch: true,
            bytes: &bytes,
        };
        line(&entry, is_json).expect("our own entry")
    }

    fn import() -> Command {
        let firm = DefineFirm {
            request_no: RequestNo(0),
            name: Symbol::new("42").expect("a short name"),
            session_id: SessionId(1),
            firm_id: FirmId(11),
            live_orders_max: 0,
            fields: 0,
        };
        Command::Import(Position(3), Definition::DefineFirm(firm))
    }

    #[test]
    fn an_entry_is_a_json_object_of_its_fields() {
        let lost = SessionLost { session_id: SessionId(11), cancel_on_disconnect: Switch::On };
        let cases = [
            (
                Command::SessionLost(lost),
                json!({
                    "position": 7, "log_time": 1_000_000_000_000_000_001_u64, "epoch": 2,
                    "message": "SessionLost",
                    "fields": {"session_id": 11, "cancel_on_disconnect": "On"},
                }),
            ),
            (
                import(),
                json!({
                    "position": 7, "log_time": 1_000_000_000_000_000_001_u64, "epoch": 2,
                    "message": "Import", "fields": {"control_position": 3},
                    "definition": {
                        "message": "DefineFirm",
                        "fields": {
                            "request_no": 0, "name": "42", "session_id": 1, "firm_id": 11,
                            "live_orders_max": 0, "fields": 0,
                        },
                    },
                }),
            ),
        ];
        for (command, want) in cases {
            let object: Value = serde_json::from_str(&line_of(&command, true)).expect("JSON");
            assert_eq!(object, want);
        }
    }

    #[test]
    fn columns_leave_out_empty_fields() {
        let line = line_of(&import(), false);
        let words: Vec<_> = line.split_whitespace().collect();
        let fields = ["control_position=3", "DefineFirm", "name=42", "session_id=1", "firm_id=11"];
        assert_eq!(words[..4], ["7", "2001-09-09T01:46:40.000000001Z", "2", "Import"]);
        assert_eq!(words[4..], fields);
    }
}
