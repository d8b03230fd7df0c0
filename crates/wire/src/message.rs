//! Messages: a template id and a block of fixed fields, declared once by `messages!`.
//!
//! For each message the macro makes the struct that the program works with and a layout over bytes
//! with the same fields in the same order, so that decoding is a bounds check, a copy and one check
//! per field that has invalid values. `schema/weir.xml` describes the same layout in SBE; a test
//! compares every offset.

use core::fmt;

/// The name, offset, size and schema type of one field of a message's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// The field's name, in snake case.
    pub name: &'static str,
    /// Its offset in the block, in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// The name of its type in the schema.
    pub schema_type: &'static str,
}

impl FieldInfo {
    /// Returns the field's name in the schema: in camel case. A name that is a keyword of a
    /// language for which codecs are generated is replaced: `switch` is `switchTo`.
    #[must_use]
    pub fn schema_name(&self) -> String {
        match self.name {
            "switch" => "switchTo".to_owned(),
            name => camel_case(name),
        }
    }
}

/// Converts a name to camel case: `cl_ord_id` becomes `clOrdId`.
#[must_use]
pub fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (head, tail) = word.split_at(1.min(word.len()));
        camel.push_str(&head.to_ascii_uppercase());
        camel.push_str(tail);
    }
    camel
}

/// The reason why bytes do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The block is shorter than the message's fields.
    #[error("{message}: the block has {got} bytes of {want}")]
    BlockTooShort {
        /// The message's name.
        message: &'static str,
        /// Bytes found.
        got: usize,
        /// Bytes needed.
        want: usize,
    },
    /// A field's value is invalid.
    #[error("{message}: field {field} has a value without meaning")]
    FieldOutOfRange {
        /// The message's name.
        message: &'static str,
        /// The field's name.
        field: &'static str,
        /// The field's index in the message, from 1.
        index: u16,
    },
    /// No message has this template id.
    #[error("no message has template id {0}")]
    UnknownTemplate(u16),
    /// The schema or its version is not supported.
    #[error("schema {schema} version {version} is not served")]
    UnknownSchema {
        /// The schema id found.
        schema: u16,
        /// The version found.
        version: u16,
    },
    /// The bytes end inside the header, a group or a data field.
    #[error("{0}: the bytes end early")]
    Truncated(&'static str),
    /// The message exists but is not allowed here.
    #[error("{0} has no place here")]
    Unexpected(&'static str),
    /// Bytes follow a message of our own version.
    #[error("{message}: {count} bytes too many")]
    TrailingBytes {
        /// The message's name.
        message: &'static str,
        /// The number of extra bytes.
        count: usize,
    },
}

/// A message with a fixed block.
pub trait Message: Copy + fmt::Debug {
    /// The template id, as in the schema.
    const TEMPLATE_ID: u16;
    /// The name, as in the schema.
    const NAME: &'static str;
    /// The block's length in bytes.
    const BLOCK_LENGTH: usize;
    /// The lengths that the block had before fields were appended to it, the oldest first: a block
    /// of such a length decodes with zeros in the places of the later fields.
    const BLOCK_LENGTHS_BEFORE: &'static [usize] = &[];
    /// The block's fields, in order.
    const FIELDS: &'static [FieldInfo];

    /// Decodes the block. Of a longer block, of a later version, it decodes the fields that this
    /// version knows.
    ///
    /// # Errors
    /// [`DecodeError::BlockTooShort`], [`DecodeError::FieldOutOfRange`].
    fn decode_block(block: &[u8]) -> Result<Self, DecodeError>;

    /// Appends the block.
    fn encode_block(&self, out: &mut Vec<u8>);

    /// Visits every field with its value, in order: for tools that print messages.
    fn visit_fields(&self, visit: &mut VisitField<'_>);
}

/// A visitor of fields and their values as text.
pub type VisitField<'a> = dyn FnMut(&'static FieldInfo, &dyn fmt::Display) + 'a;

/// Declares messages: `Name = template_id { field: Type, ... }`; `from LENGTH, ...` behind the
/// template id are the lengths that the block had before fields were appended. Another crate that
/// declares messages depends on `zerocopy` too.
#[macro_export]
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident = $template:literal $(from $($before:literal),+)? {
        $($(#[$fdoc:meta])* $field:ident : $type:ty,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name { $($(#[$fdoc])* pub $field: $type,)* }

            impl $crate::message::Message for $name {
                const TEMPLATE_ID: u16 = $template;
                const NAME: &'static str = stringify!($name);
                const BLOCK_LENGTH: usize = size_of::<layout::$name>();
                const BLOCK_LENGTHS_BEFORE: &'static [usize] = &[$($($before),+)?];
                const FIELDS: &'static [$crate::message::FieldInfo] = &[$(
                    $crate::message::FieldInfo {
                        name: stringify!($field),
                        offset: core::mem::offset_of!(layout::$name, $field),
                        size: size_of::<<$type as $crate::field::Field>::Wire>(),
                        schema_type: <$type as $crate::field::Field>::SCHEMA_TYPE,
                    },
                )*];

                #[inline]
                fn decode_block(
                    block: &[u8],
                ) -> Result<Self, $crate::message::DecodeError> {
                    use zerocopy::FromBytes;
                    let mut padded = [0; size_of::<layout::$name>()];
                    let block = if Self::BLOCK_LENGTHS_BEFORE.contains(&block.len()) {
                        padded[..block.len()].copy_from_slice(block);
                        &padded
                    } else {
                        block
                    };
                    let Ok((wire, _)) = layout::$name::ref_from_prefix(block) else {
                        return Err($crate::message::DecodeError::BlockTooShort {
                            message: Self::NAME,
                            got: block.len(),
                            want: Self::BLOCK_LENGTH,
                        });
                    };
                    let mut index = 0;
                    $(
                        index += 1;
                        let Some($field) = $crate::field::Field::from_wire(wire.$field) else {
                            return Err($crate::message::DecodeError::FieldOutOfRange {
                                message: Self::NAME,
                                field: stringify!($field),
                                index,
                            });
                        };
                    )*
                    let _ = index;
                    Ok($name { $($field,)* })
                }

                #[inline]
                fn encode_block(&self, out: &mut Vec<u8>) {
                    use zerocopy::IntoBytes;
                    let wire = layout::$name {
                        $($field: $crate::field::Field::to_wire(self.$field),)*
                    };
                    out.extend_from_slice(wire.as_bytes());
                }

                fn visit_fields(&self, visit: &mut $crate::message::VisitField<'_>) {
                    let mut infos = Self::FIELDS.iter();
                    $(
                        let info = infos.next().expect("one per field");
                        visit(info, &$crate::field::Text(&self.$field));
                    )*
                }
            }
        )*

        mod layout {
            use super::*;
            $(
                #[derive(
                    zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
                    zerocopy::KnownLayout, zerocopy::Unaligned,
                )]
                #[repr(C)]
                pub(super) struct $name {
                    $(pub(super) $field: <$type as $crate::field::Field>::Wire,)*
                }
            )*
        }
    };
}
pub(crate) use messages;
