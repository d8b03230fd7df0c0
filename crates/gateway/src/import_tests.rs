//! Definitions on their way to a partition, and the requests that name them. Lines drive the
//! gateway; the tests run the importer.

use weir_types::{FirmId, InstrumentId, RequestNo, SessionId, Switch, Symbol};
use weir_wire::reference::{DefineFirm, SessionChoice};
use weir_wire::{Command, Definition};

use crate::second_protocol::{Client, Node, definition_of, instrument_of};

/// An instrument and a session that are not defined at the start.
const NEW_ONE: InstrumentId = InstrumentId(2);
const NEWEST: SessionId = SessionId(5);
/// The definitions at the start.
const FIRST: u64 = 6;
/// The definitions that the importer follows in a cycle.
const IMPORTS: u64 = 256;

/// Returns this many changes of the firm, which change nothing.
fn changes(count: usize) -> impl Iterator<Item = Definition> {
    let firm = DefineFirm {
        request_no: RequestNo::NONE,
        name: Symbol::new("FIRM").unwrap(),
        session_id: SessionId(1),
        firm_id: FirmId(1),
        live_orders_max: 0,
        fields: 0,
    };
    std::iter::repeat_n(Definition::DefineFirm(firm), count)
}

/// Returns this many changes, and then the new instrument.
fn changes_and_instrument(count: usize) -> impl Iterator<Item = Definition> {
    let symbol = Symbol::new("NEW").unwrap();
    changes(count).chain([Definition::DefineInstrument(instrument_of(NEW_ONE, symbol))])
}

/// Returns a node whose importer has followed the past, and a client with a session.
fn importing(ring_len: usize) -> (Node, Client) {
    let mut node = Node::new();
    node.import_through(ring_len);
    node.import();
    let mut client = node.connect();
    assert_eq!(client.say(&mut node, "logon 3 7\n").len(), 1);
    (node, client)
}

fn enter(node: &mut Node, client: &mut Client, number: u32) -> Vec<String> {
    client.say(node, &format!("new 3 {number} {NEW_ONE} buy 10 100\n"))
}

/// With a thousand definitions in one commit the gateway knew the last one at once, and the
/// importer, which takes 256 in a cycle, had not handed it over: an order for it was refused by its
/// engine.
#[test]
fn the_gateway_knows_no_definition_that_the_importer_has_not_handed_over() {
    let (mut node, mut client) = importing(8_192);
    node.define_at_once(changes_and_instrument(999));
    for (number, imported) in [(1, 0), (2, IMPORTS), (3, 2 * IMPORTS), (4, 3 * IMPORTS)] {
        let unknown = format!("reject 3 {number} UnknownInstrument ");
        assert_eq!(enter(&mut node, &mut client, number), [unknown]);
        assert_eq!(node.definition_count(), FIRST + imported);
        node.import();
    }
    client.listen(&mut node, 1);
    let entered = enter(&mut node, &mut client, 5);
    assert!(entered[0].starts_with("report 3 1 5 New "), "{entered:?}");
    assert_eq!(node.definition_count(), FIRST + 1_000);
}

#[test]
fn requests_wait_for_definitions_that_a_full_ring_holds_up_and_nothing_else_does() {
    let (mut node, mut client) = importing(4);
    node.is_stalled = true;
    node.define_at_once(
        changes_and_instrument(10)
            .chain([Definition::DefineSession(definition_of(NEWEST, 9))])
            .chain(changes(1)),
    );
    node.import();
    client.listen(&mut node, 1);
    assert_eq!(enter(&mut node, &mut client, 1), [""; 0], "it waits");
    assert_eq!(node.definition_count(), FIRST + 13, "the gateway has read all");
    // The new session logs on, and its choice waits too.
    let mut other = node.connect();
    let welcome = other.say(&mut node, "bind 5 9\n");
    assert!(welcome[0].starts_with("welcome 5 "), "{welcome:?}");
    assert_eq!(node.submissions(), []);

    node.is_stalled = false;
    let mut lines = Vec::new();
    while lines.is_empty() {
        node.import();
        lines = client.listen(&mut node, 1);
    }
    assert!(lines[0].starts_with("report 3 1 1 New "), "{lines:?}");
}

#[test]
fn a_choice_follows_the_definition_of_its_session() {
    let (mut node, mut client) = importing(4);
    node.is_stalled = true;
    let session = Definition::DefineSession(definition_of(NEWEST, 9));
    node.define_at_once(changes(10).chain([session]));
    node.import();
    client.listen(&mut node, 20);
    let mut other = node.connect();
    other.say(&mut node, "bind 5 9\n");
    let choice = SessionChoice { session_id: NEWEST, cancel_on_disconnect: Switch::On };
    for _ in 0..2 {
        assert_eq!(node.submissions(), []);
        assert_eq!(node.take_imports(), 4);
        node.import();
        client.listen(&mut node, 1);
    }
    assert_eq!(node.submissions(), [Command::SessionChoice(choice)]);
    assert_eq!(node.take_imports(), 3, "they came before it");
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bugs_of_imports_are_found() {
    use crate::plant::{self, Plant};
    let found_by: [(Plant, fn()); 2] = [
        (
            Plant::ControlReadAhead,
            the_gateway_knows_no_definition_that_the_importer_has_not_handed_over,
        ),
        (
            Plant::DefinitionsUnawaited,
            requests_wait_for_definitions_that_a_full_ring_holds_up_and_nothing_else_does,
        ),
    ];
    for (bug, test) in found_by {
        assert!(plant::is_found(bug, test), "{bug:?}");
    }
}
