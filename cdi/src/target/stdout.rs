//! Standard output: the disk from its first byte to its last, zeros written out, because a pipe has no holes.

use super::{Finished, Order, Target};
use crate::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Zeros are sent in pieces of this size, as long as the largest pipe.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// A pipe (or a redirected file) being written in guest order.
#[derive(Debug)]
pub struct StdoutTarget {
    pipe: Mutex<Pipe>,
}

#[derive(Debug)]
struct Pipe {
    file: File,
    /// Bytes sent, and so the next guest offset.
    sent: u64,
}

impl StdoutTarget {
    /// Standard output of this process; refused if it is a terminal.
    pub fn new() -> Result<Self> {
        let stdout = io::stdout();
        if stdout.is_terminal() {
            let what = "a disk cannot be written to a terminal; redirect the output to a file or a pipe";
            return Err(Error::new(ErrorKind::Usage, what));
        }
        let fd = stdout.as_fd().try_clone_to_owned();
        Ok(StdoutTarget::of(fd.map_err(|e| Error::io("cannot use standard output", e))?))
    }

    /// A target for any descriptor that takes bytes in order.
    pub fn of(fd: OwnedFd) -> Self {
        // A larger pipe means fewer switches between the two processes. If that is not allowed, it works as
        // it is.
        if let Err(e) = rustix::pipe::fcntl_setpipe_size(&fd, ZEROS.len()) {
            tracing::trace!("the pipe of standard output keeps its size: {e}");
        }
        StdoutTarget { pipe: Mutex::new(Pipe { file: File::from(fd), sent: 0 }) }
    }

    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pipe {
    fn at(&self, guest: u64) -> Result<()> {
        if guest == self.sent {
            return Ok(());
        }
        let what = format!("the disk is written out of order: offset {guest} follows {}", self.sent);
        Err(Error::failed(what))
    }

    fn send(&mut self, data: &[u8]) -> Result<()> {
        self.file.write_all(data).map_err(|e| match e.kind() {
            io::ErrorKind::BrokenPipe => {
                let what = format!("the reader of standard output went away after about {} bytes", self.sent);
                Error::failed(what).because(e)
            }
            _ => Error::io(format!("cannot write to standard output after {} bytes", self.sent), e),
        })?;
        self.sent += data.len() as u64;
        Ok(())
    }

    fn send_zeros(&mut self, len: u64) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let n = left.min(ZEROS.len() as u64);
            self.send(&ZEROS[..n as usize])?;
            left -= n;
        }
        Ok(())
    }
}

impl Target for StdoutTarget {
    fn order(&self) -> Order {
        Order::Guest
    }

    fn write(&self, guest: u64, data: &[u8]) -> Result<()> {
        let mut pipe = self.pipe();
        pipe.at(guest)?;
        pipe.send(data)
    }

    fn zero(&self, guest: u64, len: u64) -> Result<()> {
        let mut pipe = self.pipe();
        pipe.at(guest)?;
        pipe.send_zeros(len)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.pipe().at(size)
    }

    fn sync(&self) -> Result<()> {
        match rustix::fs::fdatasync(&self.pipe().file) {
            // A pipe, a socket: the sent bytes belong to the reader. EROFS is not among these errors: ext4
            // returns it for a file whose file system became read-only after an error of the device, when
            // bytes are lost.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP) => Ok(()),
            Err(e) => Err(Error::io("cannot sync standard output", e)),
        }
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        self.sync()?;
        Ok(Finished { allocated: self.pipe().sent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tests::failing_disk::FailingDisk;
    use std::io::Read;

    fn pipe() -> (io::PipeReader, StdoutTarget) {
        let (read, write) = io::pipe().unwrap();
        (read, StdoutTarget::of(write.into()))
    }

    #[test]
    fn sends_the_disk_in_order() {
        let (mut read, target) = pipe();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            read.read_to_end(&mut all).unwrap();
            all
        });
        target.write(0, b"abc").unwrap();
        target.zero(3, (3 << 20) + 5).unwrap();
        target.write((3 << 20) + 8, b"z").unwrap();
        assert_eq!(target.write(0, b"q").unwrap_err().kind(), ErrorKind::Failed);
        assert!(target.zero(1, 1).unwrap_err().to_string().contains("out of order"));
        target.set_size((3 << 20) + 9).unwrap();
        target.set_size(1).unwrap_err();
        target.sync().unwrap();
        let done = (Box::new(target) as Box<dyn Target>).finish().unwrap();
        assert_eq!(done.allocated, (3 << 20) + 9);
        let all = reader.join().unwrap();
        assert_eq!(all.len(), (3 << 20) + 9);
        assert!(all.starts_with(b"abc\0") && all.ends_with(b"\0z"));
        assert!(all[3..all.len() - 1].iter().all(|&b| b == 0));
    }

    #[test]
    fn a_reader_that_goes_away_is_named() {
        let (read, target) = pipe();
        drop(read);
        let e = target.write(0, &[1; 100]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Failed);
        assert!(e.to_string().contains("went away"), "{e}");
    }

    /// The shell opened the file, and its bytes were in the page cache when the file system gave up.
    #[test]
    fn a_file_whose_file_system_became_read_only_is_not_whole() {
        let Some(disk) = FailingDisk::new() else { return };
        let path = disk.path().join("disk.img");
        let target = StdoutTarget::of(File::create(&path).unwrap().into());
        target.write(0, &[1; 1 << 20]).unwrap();
        disk.give_up();
        let e = (Box::new(target) as Box<dyn Target>).finish().unwrap_err();
        assert_eq!((e.kind(), e.to_string().as_str()), (ErrorKind::Failed, "cannot sync standard output"));
    }

    #[test]
    fn zeros_for_a_reader_that_goes_away_fail_too() {
        let (read, target) = pipe();
        drop(read);
        assert!(target.zero(0, 100).unwrap_err().to_string().contains("went away"));
    }
}
