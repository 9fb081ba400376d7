//! The core of the error types of all packages: a kind to branch on, one sentence, a hint, the cause, and whether to
//! retry.
//!
//! A package lists its own kinds in an enum, implements [`ErrorKind`] for it, and makes its error type with [`error!`]:
//!
//! ```
//! /// What a caller may branch on.
//! #[derive(Clone, Copy, Debug, PartialEq, Eq)]
//! pub enum ErrorKind {
//!     /// The input is refused; trying again does not help.
//!     Refused,
//!     /// It was tried and failed.
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
//! A package whose errors need more than a sentence, such as the offset in a file, uses [`bare_error!`] and writes the
//! constructors itself. `Display` of an error is its sentence and hint, without the cause; the place that prints prints the causes
//! ([`chain`](fn@chain)), once.

mod macros;

use std::error::Error;
use std::fmt;
use std::io;

/// Why something failed, as an error of any type.
pub type Cause = Box<dyn Error + Send + Sync>;

/// The kinds of errors of one package.
pub trait ErrorKind: Copy + fmt::Debug {
    /// Whether the same call may succeed later, although nobody changes the input or the request.
    fn may_retry(self) -> bool;
}

/// The kinds of errors of a package that reads and writes files or sockets. A package names those that its callers tell
/// apart.
pub trait OfIo: ErrorKind {
    /// It was tried and failed.
    const FAILED: Self;
    /// What is named is not there.
    const NOT_FOUND: Self = Self::FAILED;
    /// There is no room left.
    const NO_SPACE: Self = Self::FAILED;
    /// The bytes that were read end too early or are not what they should be.
    const MALFORMED: Self = Self::FAILED;
    /// The system does not do what was asked, and never will ([`is_never`]).
    const NEVER: Self = Self::FAILED;

    /// The kind of an error of the system.
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

/// True for an error that the same system call always gives: the request itself is wrong (a file or a name that is too long, an
/// operation that the file system does not have). Files, devices, users and free room may change, and so are not meant.
pub fn is_never(e: &io::Error) -> bool {
    /// A number that does not fit, and a name that the file system cannot write; `io::ErrorKind` has no word for them.
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

/// What an error of one package knows besides its sentence, such as the offset in a file.
pub trait Details {
    /// Writes the sentence; the details may stand around it.
    fn write(&self, sentence: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(sentence)
    }
}

impl Details for () {}

/// What every error type consists of.
pub struct Core<K, D = ()> {
    /// What a caller may branch on.
    pub kind: K,
    /// Which object (path, URL, field, pod) failed and how.
    pub sentence: String,
    /// What a person can do about it.
    pub hint: Option<String>,
    /// What the package adds.
    pub details: D,
    /// Why it failed.
    pub cause: Option<Cause>,
}

impl<K, D: Default> Core<K, D> {
    /// A core without hint and cause.
    pub fn new(kind: K, sentence: impl Into<String>) -> Self {
        Core { kind, sentence: sentence.into(), hint: None, details: D::default(), cause: None }
    }
}

impl<K, D> Core<K, D> {
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
    // Of the error itself: a reference to an error is an error too.
    std::iter::successors(error.source(), |cause| (**cause).source())
}

/// What a person can do about an error of the system, as the end of a sentence; empty where its own text says enough.
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
