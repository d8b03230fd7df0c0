//! Message layouts: fields at fixed, consecutive offsets.
//!
//! A feed's layouts are declared once, as structures; the reader, the length and the field listing
//! are generated from them. Nothing here knows a feed or validates a value.

use std::fmt;

/// The value of a field in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// Text, with its padding.
    Text(&'a [u8]),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unsigned(number) => write!(f, "{number}"),
            Value::Signed(number) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "{}", text.escape_ascii()),
        }
    }
}

/// A type of a field.
pub trait Field: Sized {
    /// The length of the field in bytes.
    const LEN: usize;

    /// Reads the field from exactly [`Field::LEN`] bytes, little-endian.
    fn little(bytes: &[u8]) -> Self;

    /// Reads the field from exactly [`Field::LEN`] bytes, big-endian.
    fn big(bytes: &[u8]) -> Self;

    /// Returns the field's value.
    fn value(&self) -> Value<'_>;
}

macro_rules! number {
    ($($kind:ty as $wide:ty, $value:ident;)*) => {$(
        impl Field for $kind {
            const LEN: usize = size_of::<$kind>();

            fn little(bytes: &[u8]) -> $kind {
                <$kind>::from_le_bytes(bytes.try_into().expect("whoever reads takes LEN bytes"))
            }

            fn big(bytes: &[u8]) -> $kind {
                <$kind>::from_be_bytes(bytes.try_into().expect("whoever reads takes LEN bytes"))
            }

            fn value(&self) -> Value<'_> {
                Value::$value(<$wide>::from(*self))
            }
        }
    )*};
}

number! {
    u8 as u64, Unsigned;
    u16 as u64, Unsigned;
    u32 as u64, Unsigned;
    u64 as u64, Unsigned;
    i32 as i64, Signed;
    i64 as i64, Signed;
}

impl<const N: usize> Field for [u8; N] {
    const LEN: usize = N;

    fn little(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("whoever reads takes LEN bytes")
    }

    fn big(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("whoever reads takes LEN bytes")
    }

    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

/// Declares structures that are read field by field, in the byte order named first.
macro_rules! layouts {
    ($order:ident; $(
        $(#[$about:meta])*
        $name:ident { $($(#[$what:meta])* $field:ident: $kind:ty,)* }
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$what])* pub $field: $kind,)*
        }

        impl $name {
            /// The length of the structure in bytes.
            pub const LEN: usize = 0 $(+ <$kind as $crate::layout::Field>::LEN)*;

            /// Reads the structure from the beginning of `bytes`; `None` when they are fewer than
            /// [`Self::LEN`].
            #[must_use]
            #[inline]
            pub fn read(bytes: &[u8]) -> Option<$name> {
                let rest = bytes.get(..$name::LEN)?;
                $(
                    let len = <$kind as $crate::layout::Field>::LEN;
                    let (field, rest) = rest.split_at(len);
                    let $field = <$kind as $crate::layout::Field>::$order(field);
                )*
                debug_assert!(rest.is_empty(), "LEN is the sum of the fields");
                Some($name { $($field,)* })
            }

            /// Passes `each` the name and value of every field, in order.
            #[allow(unused_variables)] // Some messages have a header and nothing else.
            pub fn fields(
                &self,
                each: &mut dyn FnMut(&'static str, $crate::layout::Value<'_>),
            ) {
                $(each(stringify!($field), $crate::layout::Field::value(&self.$field));)*
            }
        }
    )*};
}
pub(crate) use layouts;

/// Declares a feed's messages, each with the two characters of its kind.
macro_rules! kinds {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $kind:pat,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant)] // It lives on the stack, from parsing to decoding.
        pub enum $name {
            $($(#[$what])* $variant($variant),)*
        }

        impl $name {
            /// Reads the fixed part of a message of this kind; returns it with the remaining bytes.
            ///
            /// # Errors
            /// [`FeedError::UnknownType`], and [`FeedError::Length`] when the bytes are too few.
            #[inline]
            pub fn read(kind: [u8; 2], bytes: &[u8]) -> Result<($name, &[u8]), FeedError> {
                match &kind {
                    $($kind => match $variant::read(bytes) {
                        Some(message) => {
                            Ok(($name::$variant(message), &bytes[$variant::LEN..]))
                        }
                        None => {
                            let (len, want) = (bytes.len(), $variant::LEN);
                            Err(FeedError::Length { kind, len, want })
                        }
                    },)*
                    _ => Err(FeedError::UnknownType { kind }),
                }
            }

            /// Returns the name of the message's kind.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $($name::$variant(_) => stringify!($variant),)* }
            }

            /// Passes `each` the name and value of every field, in order.
            pub fn fields(
                &self,
                each: &mut dyn FnMut(&'static str, $crate::layout::Value<'_>),
            ) {
                match self { $($name::$variant(message) => message.fields(each),)* }
            }
        }
    };
}
pub(crate) use kinds;

#[cfg(test)]
mod tests {
    layouts! {
        big;
        /// Three fields.
        Sample {
            /// A number.
            number: u16,
            /// Characters.
            text: [u8; 3],
            /// A signed number.
            signed: i32,
        }
    }

    #[test]
    fn fields_are_read_in_their_order_and_listed_in_it() {
        let bytes = [1, 2, b'a', b' ', 7, 0xff, 0xff, 0xff, 0xfe, 9];
        assert_eq!(Sample::LEN, 9);
        let sample = Sample::read(&bytes).expect("it is long enough");
        assert_eq!(sample, Sample { number: 258, text: *b"a \x07", signed: -2 });
        let mut listed = String::new();
        sample.fields(&mut |name, value| listed.push_str(&format!("{name}={value};")));
        assert_eq!(listed, r"number=258;text=a \x07;signed=-2;");
        for len in 0..Sample::LEN {
            assert_eq!(Sample::read(&bytes[..len]), None);
        }
    }
}
