//! [`error!`](crate::error!) and [`bare_error!`](crate::bare_error!): the error type of one package.

/// Makes the error type of a package from the enum of its kinds, with the constructors `new` and `io`.
///
/// With `from io: other::Error` the constructor `io` takes errors of that type out of an `io::Error` by `From`, as it does
/// with errors of its own type, so that kind and sentence survive a chain of readers.
#[macro_export]
macro_rules! error {
    (
        $(#[$meta:meta])*
        pub struct $Error:ident($Kind:ty $(, $Details:ty)?) $(from io: $($Other:ty),+)?;
    ) => {
        $crate::bare_error! {
            $(#[$meta])*
            pub struct $Error($Kind $(, $Details)?);
        }

        impl $Error {
            /// An error of a kind. The sentence names the object (path, URL, field) that failed, and how.
            pub fn new(kind: $Kind, sentence: impl Into<String>) -> $Error {
                $Error($crate::Core::new(kind, sentence))
            }

            /// An I/O error; the sentence names the object ("cannot read /x/y"). An error of this type inside
            /// the `io::Error` is taken out again.
            pub fn io(sentence: impl Into<String>, cause: impl Into<::std::io::Error>) -> $Error {
                let cause = match cause.into().downcast::<$Error>() {
                    Ok(own) => return own,
                    Err(cause) => cause,
                };
                $($(
                    let cause = match cause.downcast::<$Other>() {
                        Ok(other) => return other.into(),
                        Err(cause) => cause,
                    };
                )+)?
                let kind = <$Kind as $crate::OfIo>::of_io(&cause);
                $Error::new(kind, format!("{}{}", sentence.into(), $crate::advice(cause.kind()))).because(cause)
            }
        }
    };
}

/// Makes the error type of a package from the enum of its kinds, without constructors.
#[macro_export]
macro_rules! bare_error {
    (
        $(#[$meta:meta])*
        pub struct $Error:ident($Kind:ty $(, $Details:ty)?);
    ) => {
        $(#[$meta])*
        pub struct $Error($crate::Core<$Kind $(, $Details)?>);

        impl $Error {
            /// The same error with its cause.
            #[must_use]
            pub fn because(mut self, cause: impl Into<$crate::Cause>) -> $Error {
                self.0.cause = Some(cause.into());
                self
            }

            /// The same error with advice for the user.
            #[must_use]
            pub fn with_hint(mut self, hint: impl ::std::fmt::Display) -> $Error {
                self.0.add_hint(&hint);
                self
            }

            /// Kind that a caller may branch on.
            pub fn kind(&self) -> $Kind {
                self.0.kind
            }

            /// The object that failed and how, without details and hint.
            pub fn sentence(&self) -> &str {
                &self.0.sentence
            }

            /// Advice for the user.
            pub fn hint(&self) -> Option<&str> {
                self.0.hint.as_deref()
            }

            /// True if the same call may succeed later, with the same input and the same request.
            pub fn may_retry(&self) -> bool {
                $crate::ErrorKind::may_retry(self.0.kind)
            }

            /// The error and its causes in one line.
            pub fn chain(&self) -> String {
                $crate::chain(self)
            }

            /// The parts of the error, for a package that makes an error of its own from them.
            pub fn into_core(self) -> $crate::Core<$Kind $(, $Details)?> {
                self.0
            }
        }

        impl ::std::fmt::Display for $Error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl ::std::fmt::Debug for $Error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, "{:?}: {}", self.0.kind, $crate::chain(self))
            }
        }

        impl ::std::error::Error for $Error {
            fn source(&self) -> Option<&(dyn ::std::error::Error + 'static)> {
                self.0.cause.as_deref().map(|cause| cause as _)
            }
        }

        impl From<$Error> for ::std::io::Error {
            fn from(error: $Error) -> ::std::io::Error {
                ::std::io::Error::other(error)
            }
        }
    };
}
