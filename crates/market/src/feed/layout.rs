//! Messages whose fields lie one after the other at fixed places.
//!
//! A feed's layouts are written once, as structures; what reads them, how long they are and how
//! tools list their fields all come from that. Nothing here knows a feed or judges a value.

use std::fmt;

/// A field's value as it stands in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A whole number without a sign.
    Unsigned(u64),
    /// A whole number with a sign.
    Signed(i64),
    /// Characters, with their padding.
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

/// What a field can be.
pub trait Field: Sized {
    /// Its bytes.
    const LEN: usize;

    /// Reads it from exactly [`Field::LEN`] bytes, least significant first.
    fn little(bytes: &[u8]) -> Self;

    /// Reads it from exactly [`Field::LEN`] bytes, most significant first.
    fn big(bytes: &[u8]) -> Self;

    /// Its value.
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

/// Structures read in the order of their fields, in the byte order named first.
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
            /// Its bytes.
            pub const LEN: usize = 0 $(+ <$kind as $crate::feed::layout::Field>::LEN)*;

            /// Reads it from the beginning of `bytes`; `None` when they are fewer than
            /// [`Self::LEN`].
            #[must_use]
            #[inline]
            pub fn read(bytes: &[u8]) -> Option<$name> {
                let rest = bytes.get(..$name::LEN)?;
                $(
                    let len = <$kind as $crate::feed::layout::Field>::LEN;
                    let (field, rest) = rest.split_at(len);
                    let $field = <$kind as $crate::feed::layout::Field>::$order(field);
                )*
                debug_assert!(rest.is_empty(), "LEN is the sum of the fields");
                Some($name { $($field,)* })
            }

            /// Names its fields in their order, with their values.
            #[allow(unused_variables)] // Some messages have a header and nothing else.
            pub fn fields(
                &self,
                each: &mut dyn FnMut(&'static str, $crate::feed::layout::Value<'_>),
            ) {
                $(each(stringify!($field), $crate::feed::layout::Field::value(&self.$field));)*
            }
        }
    )*};
}
pub(crate) use layouts;

/// A feed's messages, each with the two characters that name its kind.
macro_rules! kinds {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $kind:pat,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant)] // Lives on the stack, between reading and meaning.
        pub enum $name {
            $($(#[$what])* $variant($variant),)*
        }

        impl $name {
            /// Reads the fixed part of a message of this kind; also says what follows it.
            ///
            /// # Errors
            /// [`FeedError::UnknownType`], and [`FeedError::Length`] when it is too short.
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

            /// The name of its kind.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $($name::$variant(_) => stringify!($variant),)* }
            }

            /// Names its fields in their order, with their values.
            pub fn fields(
                &self,
                each: &mut dyn FnMut(&'static str, $crate::feed::layout::Value<'_>),
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
            /// A number with a sign.
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
