//! The macro `string_enum!`: enumerations of texts that keep unknown values.

/// An enumeration of texts on the wire.
///
/// ```
/// api::string_enum! {
///     /// A colour.
///     pub enum Colour {
///         /// Like blood.
///         Red = "red",
///     }
/// }
/// let known: Colour = serde_json::from_str(r#""red""#).unwrap();
/// let other: Colour = serde_json::from_str(r#""mauve""#).unwrap();
/// assert_eq!((known.as_str(), other.as_str()), ("red", "mauve"));
/// assert_eq!(other, Colour::Other("mauve".into()));
/// ```
#[macro_export]
macro_rules! string_enum {
    (
        $(#[$($meta:tt)*])*
        pub enum $name:ident {
            $( $(#[$word_meta:meta])* $word:ident = $text:literal ),* $(,)?
        }
    ) => {
        $(#[$($meta)*])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $( $(#[$word_meta])* $word, )*
            /// An unknown text, which is kept and written again.
            Other(::std::string::String),
        }

        impl $name {
            /// The texts that this version knows, in the order of the variants.
            pub const KNOWN: &'static [&'static str] = &[$($text),*];

            /// The text on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( $name::$word => $text, )*
                    $name::Other(text) => text,
                }
            }
        }

        impl ::std::convert::From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( $text => $name::$word, )*
                    other => $name::Other(other.to_owned()),
                }
            }
        }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                $name::from("")
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::wire::Wire for $name {
            fn read(
                value: ::serde_json::Value,
                at: &$crate::wire::Path,
                faults: &mut ::std::vec::Vec<$crate::fault::Fault>,
            ) -> ::std::option::Option<Self> {
                let text = <::std::string::String as $crate::wire::Wire>::read(value, at, faults)?;
                ::std::option::Option::Some($name::from(text.as_str()))
            }

            fn write(&self) -> ::serde_json::Value {
                ::serde_json::Value::from(self.as_str())
            }

            fn unknown(&self, _: &$crate::wire::Path, _: &mut ::std::vec::Vec<$crate::wire::Unknown>) {}

            fn schema() -> $crate::wire::Schema {
                $crate::wire::Schema::words($crate::docs!($([$($meta)*])*), $name::KNOWN)
            }
        }

        $crate::always!($name);
        $crate::serde_by_value!($name);
    };
}
