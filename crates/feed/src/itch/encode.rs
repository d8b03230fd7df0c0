//! ITCH 5.0's messages as plain records that serialise to bytes, for Weir's own feed and for data
//! converted from other sources.
//!
//! The records are generated from the same table as the views of [`super::layout`]. A record is
//! written as it is: its codes and numbers are not validated.

use super::layout::{self, Field, HEADER_LEN, itch_messages};

/// The header fields of every message, except the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The number of the instrument; zero for none.
    pub stock_locate: u16,
    /// The venue's internal tracking number.
    pub tracking_number: u16,
    /// Nanoseconds since midnight, truncated to 48 bits.
    pub timestamp: u64,
}

impl Header {
    fn write(&self, kind: u8, bytes: &mut [u8]) {
        bytes[0] = kind;
        bytes[1..3].copy_from_slice(&self.stock_locate.to_be_bytes());
        bytes[3..5].copy_from_slice(&self.tracking_number.to_be_bytes());
        bytes[5..HEADER_LEN].copy_from_slice(&self.timestamp.to_be_bytes()[2..]);
    }
}

macro_rules! records {
    ($(
        $(#[$doc:meta])* $name:ident = $kind:literal, $len:literal {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty = $at:literal,)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $ty,)*
            }

            impl $name {
                /// Returns the bytes of the message.
                #[must_use]
                pub fn to_bytes(&self, header: &Header) -> [u8; $len] {
                    let mut bytes = [0; $len];
                    header.write($kind, &mut bytes);
                    $(self.$field.write(&mut bytes[$at..$at + size_of::<$ty>()]);)*
                    bytes
                }
            }

            impl From<layout::$name<'_>> for $name {
                fn from(view: layout::$name<'_>) -> $name {
                    $name { $($field: view.$field(),)* }
                }
            }
        )*

        /// Serialises a parsed message from its fields; yields the same bytes.
        pub fn rewrite(message: layout::Message<'_>, out: &mut Vec<u8>) {
            match message {
                $(layout::Message::$name(view) => {
                    let header = Header {
                        stock_locate: view.stock_locate(),
                        tracking_number: view.tracking_number(),
                        timestamp: view.timestamp(),
                    };
                    out.extend_from_slice(&$name::from(view).to_bytes(&header));
                })*
            }
        }
    };
}

itch_messages!(records);

/// Returns a symbol in eight bytes; `None` when it is longer or not printable ASCII.
#[must_use]
pub fn stock(symbol: &str) -> Option<[u8; 8]> {
    let symbol = symbol.as_bytes();
    if symbol.len() > 8 || !symbol.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return None;
    }
    let mut bytes = [b' '; 8];
    bytes[..symbol.len()].copy_from_slice(symbol);
    Some(bytes)
}
