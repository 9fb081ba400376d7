//! The macro `object!`: one description of an object, its fields with their names on the wire.

/// A struct that is a JSON object on the wire.
///
/// ```
/// api::object! {
///     /// Something that can be switched.
///     pub struct Switch {
///         /// Whether it is on.
///         pub on: Option<bool> = "enabled",
///     }
/// }
/// let switch: Switch = serde_json::from_str(r#"{"enabled": true, "colour": "red"}"#).unwrap();
/// assert_eq!(switch.on, Some(true));
/// assert_eq!(serde_json::to_string(&switch).unwrap(), r#"{"colour":"red","enabled":true}"#);
/// assert_eq!(api::wire::unknown(&switch)[0].path.as_str(), "colour");
/// ```
///
/// The schema needs four further notes. `pub struct Condition by "type"` has a field that identifies the
/// entries of a list, so that several owners can have one entry each. `pub struct LabelSelector (atomic)` has
/// one owner. `= "type" (optional)` may be left out by clients, although we always write it. `Option<Value> =
/// "affinity" as Option<Affinity>` keeps its JSON unchanged, and has the schema of another type.
#[macro_export]
macro_rules! object {
    (
        $(#[$($meta:tt)*])*
        pub struct $name:ident $(by $by:literal)? $(($way:ident))? {
            $( $(#[$($field_meta:tt)*])* pub $field:ident : $type:ty = $key:literal $(($mark:ident))? $(as $shape:ty)? ),* $(,)?
        }
    ) => {
        $(#[$($meta)*])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $( $(#[$($field_meta)*])* pub $field: $type, )*
            /// Unknown fields, which are kept and written again.
            pub other: $crate::wire::Other,
        }

        impl $crate::wire::Wire for $name {
            fn read(
                value: ::serde_json::Value,
                at: &$crate::wire::Path,
                faults: &mut ::std::vec::Vec<$crate::fault::Fault>,
            ) -> ::std::option::Option<Self> {
                #[allow(unused_mut)]
                let mut fields = $crate::wire::fields(value, at, faults)?;
                ::std::option::Option::Some($name {
                    $( $field: $crate::wire::Field::read_field(
                        $crate::wire::remove(&mut fields, $key), &at.child($key), faults), )*
                    other: fields,
                })
            }

            fn write(&self) -> ::serde_json::Value {
                #[allow(unused_mut)]
                let mut fields = $crate::wire::Other::new();
                $( $crate::wire::insert(&mut fields, $key, $crate::wire::Field::write_field(&self.$field)); )*
                fields.extend(self.other.clone());
                ::serde_json::Value::Object(fields)
            }

            fn unknown(&self, at: &$crate::wire::Path, found: &mut ::std::vec::Vec<$crate::wire::Unknown>) {
                $( $crate::wire::Field::collect_unknown(&self.$field, &at.child($key), found); )*
                $crate::wire::unknown_fields(found, at, self.other.keys(), &[$($key),*]);
            }

            fn schema() -> $crate::wire::Schema {
                $crate::wire::Schema::object($crate::docs!($([$($meta)*])*))
                    $( .field(
                        $key,
                        $crate::docs!($([$($field_meta)*])*),
                        $crate::form!($type $(, $shape)?)$(.$mark())?,
                    ) )*
                    $( .by($by) )?
                    $( .$way() )?
            }
        }

        $crate::always!($name);
        $crate::serde_by_value!($name);
    };
}

/// A type that is always written, unless it is in an `Option`.
#[doc(hidden)]
#[macro_export]
macro_rules! always {
    ($name:ident) => {
        impl $crate::wire::Field for $name {
            fn read_field(
                value: ::std::option::Option<::serde_json::Value>,
                at: &$crate::wire::Path,
                faults: &mut ::std::vec::Vec<$crate::fault::Fault>,
            ) -> Self {
                value.and_then(|value| $crate::wire::Wire::read(value, at, faults)).unwrap_or_default()
            }

            fn write_field(&self) -> ::std::option::Option<::serde_json::Value> {
                ::std::option::Option::Some($crate::wire::Wire::write(self))
            }

            fn collect_unknown(
                &self,
                at: &$crate::wire::Path,
                found: &mut ::std::vec::Vec<$crate::wire::Unknown>,
            ) {
                $crate::wire::Wire::unknown(self, at, found);
            }

            fn form() -> $crate::wire::Schema {
                <$name as $crate::wire::Wire>::schema().bare()
            }
        }
    };
}

/// `serde` for a type of the wire, so that it can be a part of other messages.
#[doc(hidden)]
#[macro_export]
macro_rules! serde_by_value {
    ($name:ident) => {
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                $crate::wire::Wire::write(self).serialize(serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let value = <::serde_json::Value as ::serde::Deserialize>::deserialize(deserializer)?;
                $crate::wire::read(value).map_err(|faults| $crate::wire::all::<D::Error>(&faults))
            }
        }
    };
}

/// Schema of a field: that of its own type, or of another.
#[doc(hidden)]
#[macro_export]
macro_rules! form {
    ($type:ty) => {
        <$type as $crate::wire::Field>::form()
    };
    ($type:ty, $shape:ty) => {
        <$shape as $crate::wire::Field>::form()
    };
}

/// The text of doc comments among attributes.
#[doc(hidden)]
#[macro_export]
macro_rules! docs {
    (@ doc = $text:literal) => { concat!($text, "\n") };
    (@ $($other:tt)*) => { "" };
    ($([$($attribute:tt)*])*) => { concat!($($crate::docs!(@ $($attribute)*)),*) };
}
