//! A wire message as a Python dictionary: its fields by name, numbers as numbers, codes by name,
//! texts as texts. A reason that a message does not have is None.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_wire::Message;

/// Field types whose values are texts even if they look like numbers.
const TEXTS: [&str; 4] = ["clOrdId", "symbol", "label", "stageTimes"];

/// The name of the reason of messages without one.
const NO_REASON: &str = "None";

/// Converts the message's fields, with its name as `type`.
pub fn to_dict<'py, M: Message>(py: Python<'py>, message: &M) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("type", M::NAME)?;
    let mut failed = None;
    message.visit_fields(&mut |field, value| {
        let text = value.to_string();
        let set = match text.parse::<i128>() {
            _ if field.schema_type == "reason" && text == NO_REASON => {
                dict.set_item(field.name, py.None())
            }
            Ok(number) if !TEXTS.contains(&field.schema_type) => dict.set_item(field.name, number),
            _ => dict.set_item(field.name, text),
        };
        failed = failed.take().or(set.err());
    });
    failed.map_or(Ok(dict), Err)
}
