//! Standard input. A redirected file is as good as its path; anything else is a stream, read once.

use super::{FileSource, Source, SourceFacts};
use crate::{Error, ErrorKind, Result};
use disk_format::ReadAt;
use std::io::{self, IsTerminal, Read};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

#[derive(Debug)]
pub struct StdinSource(FileSource);

impl StdinSource {
    /// Standard input of this process; refused if it is a terminal.
    pub fn open() -> Result<Self> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            let what = "a disk cannot be typed in; send it to standard input through a pipe, or name a file";
            return Err(Error::new(ErrorKind::Usage, what));
        }
        let fd = stdin.as_fd().try_clone_to_owned();
        StdinSource::of(fd.map_err(|e| Error::io("cannot use standard input", e))?)
    }

    fn of(fd: OwnedFd) -> Result<Self> {
        FileSource::of(fd, "standard input".to_owned()).map(StdinSource)
    }
}

impl Source for StdinSource {
    fn facts(&self) -> &SourceFacts {
        self.0.facts()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.0.file()
    }

    fn check_unused(&self) -> Result<()> {
        self.0.check_unused()
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        self.0.read_at()
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        self.0.stream(from)
    }

    fn unchanged(&self) -> Result<()> {
        self.0.unchanged()
    }

    fn marks_its_end(&self) -> bool {
        self.0.marks_its_end()
    }

    fn data_map(&self) -> Option<Box<dyn Iterator<Item = Range<u64>> + Send>> {
        self.0.data_map()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn a_pipe_is_read_once_from_its_beginning() {
        let (read, mut write) = io::pipe().unwrap();
        write.write_all(b"bytes").unwrap();
        drop(write);
        let source = StdinSource::of(read.into()).unwrap();
        assert_eq!((source.facts().seekable, source.facts().size), (false, None));
        assert_eq!(source.facts().identity, None);
        assert!(source.read_at().is_none() && source.data_map().is_none());
        assert_eq!(source.stream(3).err().unwrap().kind(), ErrorKind::Usage);
        let mut all = String::new();
        source.stream(0).unwrap().read_to_string(&mut all).unwrap();
        assert_eq!(all, "bytes");
        assert!(source.stream(0).err().unwrap().to_string().contains("read already"));
        source.unchanged().unwrap();
    }

    #[test]
    fn a_redirected_file_can_seek_only_from_its_beginning() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let source = StdinSource::of(file.try_clone().unwrap().into()).unwrap();
        assert_eq!((source.facts().seekable, source.facts().size), (true, Some(10)));
        assert!(source.facts().identity.as_ref().unwrap().is_proof());
        let mut rest = String::new();
        source.stream(4).unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "456789");

        file.seek(SeekFrom::Start(7)).unwrap();
        let source = StdinSource::of(file.into()).unwrap();
        assert!(!source.facts().seekable && source.read_at().is_none());
        rest.clear();
        source.stream(0).unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "789");
    }
}
