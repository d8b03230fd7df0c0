//! Arbitrary messages: blocks made field by field from the catalogue, so that a new message or
//! field enters every test without a change here.

#![allow(dead_code, reason = "each test file uses its part")]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weir_wire::catalogue::{Codec, GroupInfo, MessageInfo, Tail, codes};
use weir_wire::frame::{Framing, RawMessage, next_frame, put_frame_with};
use weir_wire::{FieldInfo, Message, SCHEMA_ID, SCHEMA_VERSION, catalogue};

/// Longer than any frame of these tests.
pub(crate) const FRAME_LEN_MAX: usize = 1 << 20;

/// Arbitrary valid bytes of a field.
pub(crate) fn field_bytes(field: &FieldInfo) -> BoxedStrategy<Vec<u8>> {
    let size = field.size;
    if let Some(codes) = codes(field.schema_type) {
        return select(codes).prop_map(move |code| code.to_le_bytes()[..size].to_vec()).boxed();
    }
    match field.schema_type {
        "clOrdId" | "symbol" => vec(0x21u8..=0x7e, 0..=size)
            .prop_map(move |mut text| {
                text.resize(size, 0);
                text
            })
            .boxed(),
        // Extremes are where signs and widths go wrong.
        _ => prop_oneof![
            8 => vec(any::<u8>(), size),
            1 => Just(vec![0; size]),
            1 => Just(vec![0xff; size]),
        ]
        .boxed(),
    }
}

/// An arbitrary valid block.
pub(crate) fn block(fields: &'static [FieldInfo]) -> BoxedStrategy<Vec<u8>> {
    let parts: Vec<_> = fields.iter().map(field_bytes).collect();
    parts.prop_map(|parts| parts.concat()).boxed()
}

/// An arbitrary message.
pub(crate) fn message<M: Message + 'static>() -> BoxedStrategy<M> {
    block(M::FIELDS).prop_map(|block| M::decode_block(&block).expect("a valid block")).boxed()
}

/// An arbitrary valid body of a message: its block and its tail.
pub(crate) fn any_body(info: &'static MessageInfo) -> BoxedStrategy<Vec<u8>> {
    let block = block(info.fields);
    match info.tail {
        Tail::None | Tail::Definition => block,
        Tail::Data(names) => {
            // Names are shorter than tokens and bodies.
            let len_max = match *names {
                ["name"] => 49,
                ["pattern" | "symbol"] => 25,
                _ => 200,
            };
            (block, vec(vec(any::<u8>(), 0..len_max), names.len()))
                .prop_map(|(mut body, fields)| {
                    for data in fields {
                        weir_wire::group::put_data(&data, &mut body);
                    }
                    body
                })
                .boxed()
        }
        Tail::Group(group) => (block, vec(entry(group), 0..9))
            .prop_map(move |(mut body, entries)| {
                for word in [group.block_length, entries.len()] {
                    body.extend_from_slice(
                        &u16::try_from(word).expect("both are small").to_le_bytes(),
                    );
                }
                body.extend(entries.concat());
                body
            })
            .boxed(),
    }
}

/// An arbitrary valid entry of a group, with the data that follows its block.
fn entry(group: GroupInfo) -> BoxedStrategy<Vec<u8>> {
    let block = block(group.fields);
    if group.data.is_none() {
        return block;
    }
    (block, vec(any::<u8>(), 0..40))
        .prop_map(|(mut entry, data)| {
            weir_wire::group::put_data(&data, &mut entry);
            entry
        })
        .boxed()
}

/// Any message of the schema.
pub(crate) fn any_info() -> BoxedStrategy<&'static MessageInfo> {
    (0..catalogue().len()).prop_map(|i| &catalogue()[i]).boxed()
}

/// Any message of the schema, in a frame.
pub(crate) fn any_frame() -> BoxedStrategy<(&'static MessageInfo, Vec<u8>)> {
    any_info()
        .prop_flat_map(|info| any_body(info).prop_map(move |body| (info, frame_of(info, &body))))
        .boxed()
}

/// A frame around a body.
pub(crate) fn frame_of(info: &MessageInfo, body: &[u8]) -> Vec<u8> {
    frame_with([info.block_length as u16, info.template_id, SCHEMA_ID, SCHEMA_VERSION], body)
}

/// A frame with any message header: block length, template, schema, version.
pub(crate) fn frame_with(header: [u16; 4], body: &[u8]) -> Vec<u8> {
    let mut frame = vec![];
    put_frame_with(&mut frame, |out| {
        out.extend(header.iter().flat_map(|word| word.to_le_bytes()));
        out.extend_from_slice(body);
    });
    frame
}

/// The message of a whole frame.
pub(crate) fn raw_of(frame: &[u8]) -> RawMessage<'_> {
    match next_frame(frame, FRAME_LEN_MAX) {
        Framing::Frame { len, message: Ok(raw) } if len == frame.len() => raw,
        other => panic!("not one whole frame: {other:?}"),
    }
}

/// A block read and written again.
pub(crate) fn recode(codec: &Codec, block: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    codec.recode(block, &mut out).expect("a valid block");
    out
}
