//! The tests of the core, with the error types of two packages that lie above one another.

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    Lost,
    Broken,
}

impl ErrorKind for Lower {
    fn may_retry(self) -> bool {
        self == Lower::Lost
    }
}

impl OfIo for Lower {
    const FAILED: Lower = Lower::Lost;
    const MALFORMED: Lower = Lower::Broken;
    const NEVER: Lower = Lower::Broken;
}

#[derive(Default)]
pub struct Offset(Option<u64>);

impl Details for Offset {
    fn write(&self, sentence: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(offset) => write!(f, "{sentence} at {offset}"),
            None => f.write_str(sentence),
        }
    }
}

crate::error! {
    /// The error of the lower package.
    pub struct Reading(Lower, Offset);
}

crate::error! {
    /// The error of the upper package.
    pub struct Copying(Lower) from io: Reading;
}

impl From<Reading> for Copying {
    fn from(error: Reading) -> Copying {
        let text = error.to_string();
        Copying(Core { cause: error.into_core().cause, ..Core::new(Lower::Broken, text) })
    }
}

#[test]
fn an_error_shows_sentence_details_and_hints_but_not_its_cause() {
    let mut error =
        Reading::new(Lower::Lost, "no magic").with_hint("look").with_hint("ask").because("it was cut");
    error.0.details = Offset(Some(8));
    assert_eq!(error.to_string(), "no magic at 8; look; ask");
    assert_eq!(error.hint(), Some("look; ask"));
    assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("it was cut"));
    assert_eq!(error.chain(), "no magic at 8; look; ask: it was cut");
    assert_eq!(format!("{error:?}"), "Lost: no magic at 8; look; ask: it was cut");
    assert!(error.may_retry());
}

#[test]
fn an_error_that_travelled_as_io_comes_out_as_what_it_was() {
    let own = Copying::io("cannot copy", io::Error::from(Copying::new(Lower::Broken, "own")));
    assert_eq!((own.kind(), own.chain()), (Lower::Broken, "own".to_owned()));
    let lower =
        Copying::io("cannot copy", io::Error::from(Reading::new(Lower::Lost, "theirs").because("why")));
    assert_eq!((lower.kind(), lower.chain()), (Lower::Broken, "theirs: why".to_owned()));
    let system = Copying::io("cannot copy", io::Error::from(io::ErrorKind::UnexpectedEof));
    assert_eq!((system.kind(), system.to_string().as_str()), (Lower::Broken, "cannot copy"));
}

#[test]
fn a_full_file_system_says_what_to_do() {
    let full = Copying::io("cannot write /x", io::Error::from(io::ErrorKind::StorageFull));
    assert!(full.to_string().ends_with("make room there or choose another place"), "{full}");
}

#[test]
fn an_errno_that_can_never_succeed_is_final_and_one_of_the_state_of_the_system_is_not() {
    let kind = |errno| Copying::io("cannot write /x", io::Error::from_raw_os_error(errno)).kind();
    // E2BIG, EINVAL, EFBIG, ESPIPE, ENAMETOOLONG, ENOSYS, EOVERFLOW, EILSEQ, EOPNOTSUPP.
    for errno in [7, 22, 27, 29, 36, 38, 75, 84, 95] {
        assert_eq!(kind(errno), Lower::Broken, "errno {errno}");
    }
    // EPERM, ENOENT, EIO, ENXIO, ENOMEM, EACCES, ENOTDIR, EMFILE, ENOSPC, EROFS, ECONNRESET, ESTALE, EDQUOT.
    for errno in [1, 2, 5, 6, 12, 13, 20, 24, 28, 30, 104, 116, 122] {
        assert_eq!(kind(errno), Lower::Lost, "errno {errno}");
    }
}

#[test]
fn a_cause_that_ends_the_line_already_is_said_once() {
    let error =
        Copying::new(Lower::Lost, "cannot reach it: refused").because(Copying::new(Lower::Lost, "refused"));
    assert_eq!(error.chain(), "cannot reach it: refused");
    assert_eq!(causes(&error).count(), 1);
}
