//! The core of the error types of all packages: a kind to branch on, one sentence, a hint, the cause, and whether to
//! retry.
//!
//! A package lists its own kinds in an enum, implements [`ErrorKind`] for it, and makes its error type with [`error!`]:
//!
//! ```
//! /// Kinds of errors that a caller may branch on.
//! #[derive(Clone, Copy, Debug, PartialEq, Eq)]
//! pub enum ErrorKind {
//!     /// The input is refused; trying again does not help.
//!     Refused,
//!     /// The operation was tried and failed.
//!     Failed,
//! }
//!
//! impl error_core::ErrorKind for ErrorKind {
//!     fn may_retry(self) -> bool {
//!         self == ErrorKind::Failed
//!     }
//! }
//!
//! impl error_core::OfIo for ErrorKind {
//!     const FAILED: ErrorKind = ErrorKind::Failed;
//! }
//!
//! error_core::error! {
//!     /// An error of this package.
//!     pub struct Error(ErrorKind);
//! }
//!
//! let error = Error::new(ErrorKind::Refused, "the header is too short").with_hint("is the file whole?");
//! assert_eq!(error.to_string(), "the header is too short; is the file whole?");
//! ```
//!
//! A package whose errors need more than a sentence, such as the offset in a file, uses [`bare_error!`] and
//! writes the constructors itself. `Display` of an error is its sentence and hint, without the cause. The
//! place that prints an error prints the causes too ([`chain`](fn@chain)), once.

mod macros;

use std::error::Error;
use std::fmt;
use std::io;

/// The cause of an error, as an error of any type.
pub type Cause = Box<dyn Error + Send + Sync>;

/// The kinds of errors of one package.
pub trait ErrorKind: Copy + fmt::Debug {
    /// True if the same call may succeed later, with the same input and the same request.
    fn may_retry(self) -> bool;
}

/// The kinds of errors of a package that reads and writes files or sockets. A package sets those that its
/// callers tell apart; the others are `FAILED`.
pub trait OfIo: ErrorKind {
    /// The operation was tried and failed.
    const FAILED: Self;
    /// The named file or object does not exist.
    const NOT_FOUND: Self = Self::FAILED;
    /// The disk or the quota is full.
    const NO_SPACE: Self = Self::FAILED;
    /// The bytes that were read end too early or are not what they should be.
    const MALFORMED: Self = Self::FAILED;
    /// The system refuses the call, and always will ([`is_never`]).
    const NEVER: Self = Self::FAILED;

    /// The kind for an I/O error.
    fn of_io(e: &io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::NotFound => Self::NOT_FOUND,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NO_SPACE,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Self::MALFORMED,
            _ if is_never(e) => Self::NEVER,
            _ => Self::FAILED,
        }
    }
}

/// True for an error that the same system call always gives, since the request itself is wrong: a file or a
/// name that is too long, an operation that the file system does not have. Errors of files, devices, users
/// and free space may pass, and are not included.
pub fn is_never(e: &io::Error) -> bool {
    /// EOVERFLOW (a number does not fit) and EILSEQ (the file system cannot write the name), which have no
    /// `io::ErrorKind`.
    const OVERFLOW: i32 = 75;
    const ILLEGAL_NAME: i32 = 84;
    let by_kind = matches!(
        e.kind(),
        io::ErrorKind::ArgumentListTooLong
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::NotSeekable
            | io::ErrorKind::Unsupported
    );
    by_kind || matches!(e.raw_os_error(), Some(OVERFLOW | ILLEGAL_NAME))
}

/// Package-specific data of an error besides its sentence, such as the offset in a file.
pub trait Details {
    /// Writes the sentence, with the details before or after it.
    fn write(&self, sentence: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(sentence)
    }
}

impl Details for () {}

/// The parts that every error type consists of.
pub struct Core<K, D = ()> {
    /// Kind that a caller may branch on.
    pub kind: K,
    /// The object (path, URL, field, pod) that failed, and how.
    pub sentence: String,
    /// Advice for the user.
    pub hint: Option<String>,
    /// Data that the package adds.
    pub details: D,
    pub cause: Option<Cause>,
}

impl<K, D: Default> Core<K, D> {
    /// A core without hint and cause.
    pub fn new(kind: K, sentence: impl Into<String>) -> Self {
        Core { kind, sentence: sentence.into(), hint: None, details: D::default(), cause: None }
    }
}

impl<K, D> Core<K, D> {
    /// The same parts with these details, for the error of another package.
    pub fn with_details<E>(self, details: E) -> Core<K, E> {
        let Core { kind, sentence, hint, cause, .. } = self;
        Core { kind, sentence, hint, details, cause }
    }

    /// Adds a hint; several are separated by semicolons.
    pub fn add_hint(&mut self, hint: &dyn fmt::Display) {
        self.hint = Some(match self.hint.take() {
            Some(before) => format!("{before}; {hint}"),
            None => hint.to_string(),
        });
    }
}

impl<K, D: Details> fmt::Display for Core<K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.details.write(&self.sentence, f)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// An error and its causes in one line. A cause whose text ends the line already is not repeated.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    for cause in causes(error) {
        let text = cause.to_string();
        if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
    }
    line
}

/// The causes of an error, the nearest first.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    // The iterator starts with the source: `error` itself is not one of its causes.
    std::iter::successors(error.source(), |cause| (**cause).source())
}

/// Advice about an I/O error, as the end of a sentence; empty where the error's own text says enough.
pub fn advice(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull => ": its file system is full; make room there or choose another place",
        io::ErrorKind::QuotaExceeded => {
            ": this user's quota there is used up; make room or choose another place"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests;
