//! Declares the wire's enumerations: each variant with its code, and the conversion in both
//! directions.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$vdoc:meta])* $variant:ident = $code:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $code,)* }

        impl $name {
            /// All variants, in the order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Returns the code on the wire and in the logs.
            #[must_use]
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// Returns the variant with this code, or `None` for an unassigned code.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<$name> {
                match code {
                    $($code => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

pub(crate) use codes;
