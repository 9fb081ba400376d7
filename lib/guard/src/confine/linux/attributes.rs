//! The mode and the owner of a written file, set after all other rights are given up.
//!
//! `fchmod` and `fchown` take any descriptor, also one that was opened for reading, and neither Landlock nor
//! a filter of system calls can tell these apart. As root, an attacker in the program could open the C
//! library for reading and make it writable for every user. So no list allows these calls. A second process,
//! forked before the first right is given up, makes them:
//!
//! ```text
//!  program ── a socket: mode, owner, and a descriptor ────► keeper: opened to be written? a plain file? no setuid?
//!          ◄─ 0, or why not ──────────────────────────────
//! ```
//!
//! The descriptor is of an open file of its own. A `flock` belongs to the open file: with the program's, a program that is
//! killed would leave its lock for as long as a busy file system takes to set the mode.
//!
//! So these calls reach only files that can be written anyway. **Owners** are looked up before the fork, and
//! so before a foreign byte is read: this user, and the owners of the files that will be replaced
//! ([`Process::replaces`](crate::confine::Process::replaces)). As root, an attacker could otherwise make a
//! file and give it to a user whose programs trust files of their own user.
//!
//! The keeper holds nothing but its end of the socket, takes no memory after the fork, can make the calls of
//! `keeper_filter.rs` and no other, and ends when the program does, however that is. It shows a name of its
//! own, so that a signal sent to the program by its command line (`pkill -f`) does not reach the keeper.

use super::keeper_filter::{self, Owner};
use crate::confine::Attributes;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use seccompiler::BpfProgram;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Mode, owner, group, each in four bytes.
type EncodedAttributes = [u8; 12];

/// The value by which `chown` leaves an ID as it is, and by which a message sets no mode.
const STAYS: u32 = u32::MAX;
const PERMISSIONS: u32 = 0o777;
/// The highest descriptor that is closed where descriptors are closed one by one.
const MOST_OPEN: u64 = 1 << 20;
/// The name in the process list.
const NAME: &[u8] = b"coracle: sets modes";

/// The program's end of the socket; unset in a program that gave up no rights.
static KEEPER: OnceLock<Mutex<OwnedFd>> = OnceLock::new();

/// Sets the owner and the group, or the permissions, of a file that is open to be written.
pub(crate) fn set(file: &File, wish: Attributes) -> io::Result<()> {
    let Some(keeper) = KEEPER.get() else { return Ok(apply(file.as_fd(), wish)?) };
    let parts = match wish {
        Attributes::Mode(mode) => [mode, STAYS, STAYS],
        Attributes::Owner(uid, gid) => [STAYS, uid, gid],
    };
    let wish: Vec<u8> = parts.iter().flat_map(|part| part.to_ne_bytes()).collect();
    // One request at a time, so that each gets its own answer.
    let keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
    send(&*keeper, file, &wish)?;
    let mut answer = [0; 4];
    match rustix::net::recv(&*keeper, &mut answer[..], RecvFlags::empty())?.0 {
        4 => match i32::from_ne_bytes(answer) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        },
        _ => Err(io::Error::other("the process that sets modes has ended")),
    }
}

/// Sends a request, with an open file of its own. Where the file cannot be opened again (no /proc, no permission), the program's
/// open file is sent.
fn send(keeper: impl AsFd, file: &File, wish: &[u8]) -> rustix::io::Result<()> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let own = rustix::fs::open(path, flags, Mode::empty());
    let fds = [own.as_ref().map_or(file.as_fd(), AsFd::as_fd)];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(keeper, &[IoSlice::new(wish)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Starts the keeper: the process that sets modes and owners of files for this one. It is started once in a program. The owners of the
/// files that will be replaced are looked up now.
pub(super) fn start(replaced: &[PathBuf]) -> io::Result<()> {
    let owners = owners(replaced);
    let filter = keeper_filter::program(&owners, PERMISSIONS);
    let filter = filter
        .inspect_err(|e| tracing::debug!("no system call filter for the process that sets modes: {e}"))
        .ok();
    let keeper = Keeper { owners, filter };
    let (ours, its) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    fork(&keeper, &its, &ours, arguments())?;
    let _ = KEEPER.set(Mutex::new(ours));
    Ok(())
}

/// The user of this process, and the present owners of these files.
fn owners(replaced: &[PathBuf]) -> Vec<Owner> {
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let of = |path: &PathBuf| {
        let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((stat.st_uid, stat.st_gid))
    };
    std::iter::once(own).chain(replaced.iter().filter_map(of)).collect()
}

/// Memory range of the command line that `ps` shows, from `/proc/self/stat`.
fn arguments() -> Option<Range<usize>> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields 48 and 49; the name before may hold anything, the third field follows it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(45);
    let mut next = || fields.next()?.parse().ok();
    let (from, to) = (next()?, next()?);
    (0 < from && from < to).then_some(from..to)
}

#[allow(unsafe_code)]
fn fork(
    keeper: &Keeper,
    socket: &OwnedFd,
    others: &OwnedFd,
    arguments: Option<Range<usize>>,
) -> io::Result<()> {
    // SAFETY: until it ends, the child only makes system calls on its own stack: it takes no memory and no lock, so it does
    // not matter what other threads were at.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            if let Some(shown) = arguments {
                rename(shown);
            }
            keeper.keep(socket, others);
            // SAFETY: ends this process, without what the program wants done at its own end.
            unsafe { libc::_exit(0) }
        }
        _ => Ok(()),
    }
}

/// Overwrites the command line of the process with the keeper's name.
#[allow(unsafe_code)]
fn rename(shown: Range<usize>) {
    let _ = rustix::thread::set_name(c"sets-modes");
    let at = std::ptr::with_exposed_provenance_mut::<u8>(shown.start);
    let len = NAME.len().min(shown.len() - 1);
    // SAFETY: the kernel put the arguments there for this process to read and write. It is this process's own
    // copy, and no code in it reads them again.
    unsafe {
        std::ptr::write_bytes(at, 0, shown.len());
        std::ptr::copy_nonoverlapping(NAME.as_ptr(), at, len);
    }
}

/// The keeper's state, complete before the fork.
struct Keeper {
    /// Owners that it may give a file to.
    owners: Vec<Owner>,
    filter: Option<BpfProgram>,
}

impl Keeper {
    #[allow(unsafe_code)]
    fn keep(&self, socket: &OwnedFd, others: &OwnedFd) {
        // Neither Ctrl-C nor a signal to the process group ends the keeper: a program that shuts down in
        // order still needs it.
        let _ = rustix::process::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: no handler is run.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        let at = socket.as_raw_fd();
        // A copy of the program's end of the socket must not stay open here, or the keeper would never see it
        // close.
        // SAFETY: this process never uses the descriptor, and exits before its owner would close it.
        unsafe { libc::close(others.as_raw_fd()) };
        close_range(at.saturating_add(1), i32::MAX);
        close_range(0, at.saturating_sub(1));
        if let Some(filter) = &self.filter {
            // Without one, where the kernel has none, it still does what it was made for and no more.
            let _ = seccompiler::apply_filter(filter);
        }
        while matches!(self.answer(socket), Ok(true) | Err(Errno::INTR)) {}
    }

    /// Answers one request; false at the end of the socket.
    fn answer(&self, socket: &OwnedFd) -> rustix::io::Result<bool> {
        let mut wish: EncodedAttributes = [0; 12];
        let (bytes, file) = receive(socket, &mut wish)?;
        if bytes == 0 {
            return Ok(false);
        }
        let done = match &file {
            Some(file) if bytes == wish.len() => self.check_and_apply(file, &wish),
            _ => Err(Errno::INVAL),
        };
        // The program may do anything with the file once it has the answer.
        drop(file);
        let errno = done.err().map_or(0, Errno::raw_os_error);
        rustix::net::send(socket, &errno.to_ne_bytes(), SendFlags::NOSIGNAL)?;
        Ok(true)
    }

    fn check_and_apply(&self, file: &OwnedFd, wish: &EncodedAttributes) -> rustix::io::Result<()> {
        let part = |at: usize| u32::from_ne_bytes([wish[at], wish[at + 1], wish[at + 2], wish[at + 3]]);
        let wish = match (part(0), part(4), part(8)) {
            (STAYS, uid, gid) => Attributes::Owner(uid, gid),
            (mode, ..) => Attributes::Mode(mode),
        };
        let access = rustix::fs::fcntl_getfl(file)?;
        let writes = access.intersects(OFlags::RDWR | OFlags::WRONLY) && !access.contains(OFlags::PATH);
        let plain = FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) == FileType::RegularFile;
        let known = match wish {
            Attributes::Owner(uid, gid) => self.owners.contains(&(uid, gid)),
            Attributes::Mode(_) => true,
        };
        if writes && plain && known { apply(file.as_fd(), wish) } else { Err(Errno::PERM) }
    }
}

/// Receives one request: the length of its message, and the file that came with it.
fn receive(socket: &OwnedFd, wish: &mut EncodedAttributes) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let parts = &mut [IoSliceMut::new(wish)];
    let got = rustix::net::recvmsg(socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((got.bytes, file))
}

/// Closes all descriptors in a range, since pipes and locks of the program are not the keeper's to hold.
/// Linux before 5.9 has no call for it, and some containers forbid it: then they are closed one by one.
#[allow(unsafe_code)]
fn close_range(from: i32, to: i32) {
    let (Ok(first), Ok(last)) = (libc::c_uint::try_from(from), libc::c_uint::try_from(to)) else { return };
    // SAFETY: this process does not use them.
    if from > to || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(MOST_OPEN);
    let most = i32::try_from(most.min(MOST_OPEN)).unwrap_or(i32::MAX);
    for fd in from..=to.min(most) {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }
}

fn apply(file: BorrowedFd<'_>, wish: Attributes) -> rustix::io::Result<()> {
    match wish {
        Attributes::Mode(mode) if mode & !PERMISSIONS != 0 => Err(Errno::PERM),
        Attributes::Mode(mode) => rustix::fs::fchmod(file, Mode::from_raw_mode(mode)),
        Attributes::Owner(uid, gid) => {
            let (uid, gid) = (Uid::from_raw_unchecked(uid), Gid::from_raw_unchecked(gid));
            rustix::fs::fchown(file, Some(uid), Some(gid))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    /// A run that was killed while its keeper set the mode left `NAME.partial` locked, and the next run was refused.
    ///
    /// The lock is asked of the received file while the program holds its own: with the program's open file the answer
    /// would be yes. Whether the lock goes with the program is not asked: a process that another test forks holds it, too.
    #[test]
    fn the_lock_of_a_program_does_not_go_with_a_request() {
        let written = tempfile::tempfile().unwrap();
        let (program, keeper) = pair();
        written.try_lock().unwrap();
        send(&program, &written, &[0; 12]).unwrap();
        let (_, received) = receive(&keeper, &mut [0; 12]).unwrap();
        File::from(received.unwrap()).try_lock().unwrap_err();
    }

    #[test]
    fn a_request_reaches_the_file_that_was_sent_also_without_a_name() {
        let file = tempfile::tempfile().unwrap();
        let (program, keeper) = pair();
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let state = Keeper { owners: vec![own], filter: None };
        let wish: Vec<u8> = [0o640, STAYS, STAYS].iter().flat_map(|part: &u32| part.to_ne_bytes()).collect();
        send(&program, &file, &wish).unwrap();
        assert_eq!(state.answer(&keeper), Ok(true));
        let mut answer = [1; 4];
        rustix::net::recv(&program, &mut answer[..], RecvFlags::empty()).unwrap();
        assert_eq!(i32::from_ne_bytes(answer), 0);
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_mode & 0o7777, 0o640);
    }
}
