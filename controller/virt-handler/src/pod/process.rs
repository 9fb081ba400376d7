//! Handle of a process of a pod that stays valid: if its PID is reused, the handle does not refer to the new
//! process.
//!
//! ```text
//!  a connection ──SO_PEERPIDFD──► pidfd: this very process, whatever its number is called by then
//!      │            (before Linux 6.5: the number, by pidfd_open)
//!      └─SO_PEERCRED──► number ─► /proc/NUMBER, opened once; the pidfd still lives ─► the number was its own all the time
//!                                     └─► cgroup, root, ns/mnt, ns/net: all of this one descriptor
//! ```
//!
//! The peer of a socket is the process that called `listen` or `connect`. That process may have passed the
//! descriptor on and ended, and its PID may be reused, even by a process of the host. So the PID alone is never trusted,
//! and the cgroups decide to which pod the process belongs. Its root, mounts and network are those of its
//! container only if it has no user namespace of its own.
#![expect(clippy::disallowed_methods, reason = "the kernel's own files, by what is held")]

use super::confined::Folder;
use crate::error::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, pidfd_open, prlimit};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Flags to open a folder as a root.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// Longest `/proc` file that is read.
const LONGEST: u64 = 64 << 10;

/// Handle of a process.
#[derive(Debug)]
pub struct Process {
    /// Becomes readable when the process ends.
    pidfd: OwnedFd,
    /// `/proc/PID`, which becomes invalid with the end of the process.
    folder: OwnedFd,
    number: u32,
}

impl Process {
    /// The process that has this PID now.
    pub fn of(number: u32) -> Result<Process> {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::refused(format!("{number} is not a process ID")))?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| ended_error(number, e))?;
        Process::held(pidfd, number)
    }

    /// The process at the other end of a connection: the one that called `listen` or `connect`. `None` if it is
    /// not in the PID namespace of this process.
    pub fn peer(stream: &UnixStream) -> Result<Option<Process>> {
        let number = peer::number(stream)
            .map_err(|e| Error::io("cannot read the process ID at the other end of a socket", e))?;
        if number == 0 {
            return Ok(None);
        }
        match peer::pidfd(stream) {
            Ok(pidfd) => Process::held(pidfd, number).map(Some),
            // An older kernel: the process that has the PID now. Its cgroups tell whether it belongs to the
            // pod.
            Err(Errno::NOPROTOOPT) => Process::of(number).map(Some),
            Err(e) => Err(ended_error(number, e)),
        }
    }

    fn held(pidfd: OwnedFd, number: u32) -> Result<Process> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, format!("/proc/{number}"), flags, Mode::empty())
            .map_err(|e| ended_error(number, e))?;
        let process = Process { pidfd, folder, number };
        // If the process is alive now, it had this PID when the folder was opened.
        match process.is_alive() {
            true => Ok(process),
            false => Err(ended_error(number, Errno::SRCH)),
        }
    }

    /// True if the process has not ended.
    pub fn is_alive(&self) -> bool {
        let mut ended = [PollFd::new(&self.pidfd, PollFlags::IN)];
        // An error counts as an end.
        poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|events| events == 0)
    }

    /// Refuses a process that does not belong to a pod according to its cgroups.
    pub fn check_pod(&self, uid: &str) -> Result<()> {
        let number = self.number;
        match is_of(&self.groups()?, uid) {
            true => Ok(()),
            false => Err(Error::failed(format!("the process {number} does not belong to the pod {uid}"))),
        }
    }

    /// Refuses a process that does not belong to this container of a pod. `id`: the runtime's ID from the
    /// pod's status.
    pub(crate) fn check_container(&self, uid: &str, id: &str) -> Result<()> {
        let number = self.number;
        match is_in(&self.groups()?, uid, id) {
            true => Ok(()),
            false => Err(Error::failed(format!(
                "the process {number} does not belong to the container {id} of the pod {uid}"
            ))),
        }
    }

    fn groups(&self) -> Result<String> {
        let mut groups = String::new();
        let read = File::from(self.open("cgroup", OFlags::RDONLY)?).take(LONGEST).read_to_string(&mut groups);
        read.map_err(|e| Error::io(format!("cannot read the cgroups of the process {}", self.number), e))?;
        Ok(groups)
    }

    /// Root of the process, with the mounts in it.
    pub fn root(&self) -> Result<Folder> {
        Ok(Folder::from_fd(self.of_its_container("root", FOLDER)?, self.display_path("root")))
    }

    /// Root of the process, without the mounts in it.
    pub fn image(&self) -> Result<Folder> {
        Ok(Folder::unmixed(self.of_its_container("root", FOLDER)?, self.display_path("root")))
    }

    /// Opens a file of the process, unless it has a user namespace of its own. In such a namespace, any user
    /// may mount, change the root and make networks, so the process could present false ones. No process can
    /// leave its user namespace for an outer one. So a process that is in ours after the file was opened has
    /// never been in another.
    fn of_its_container(&self, name: &str, flags: OFlags) -> Result<OwnedFd> {
        let found = self.open(name, flags)?;
        let own = openat(CWD, "/proc/self/ns/user", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let cannot = |e| Error::io("cannot compare the user namespace of a pod's process", e);
        let number = |users: &OwnedFd| fstat(users).map(|found| (found.st_dev, found.st_ino)).map_err(cannot);
        match number(&self.open("ns/user", OFlags::RDONLY)?)? == number(&own.map_err(cannot)?)? {
            true => Ok(found),
            false => Err(Error::refused(format!(
                "the process {} is in a user namespace of its own, where it may mount what it likes and make networks: \
                 its {name} is not trusted",
                self.number
            ))),
        }
    }

    /// Raises a limit of the process, and never lowers it. Later child processes inherit it.
    pub(crate) fn raise(&self, resource: Resource, limit: u64) -> Result<()> {
        let number = self.number;
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        let pid = pid.filter(|_| self.is_alive()).ok_or_else(|| ended_error(number, Errno::SRCH))?;
        let has = self.limit(resource)?;
        let wanted = larger(has, limit);
        if wanted == has {
            return Ok(());
        }
        let set = prlimit(Some(pid), resource, wanted);
        // If the process is alive now, the PID was its own all the time. Otherwise another process may have
        // had the PID, and gets its old limit back.
        if !self.is_alive() {
            let undone = set.and_then(|before| prlimit(Some(pid), resource, before));
            return Err(ended_error(number, undone.err().unwrap_or(Errno::SRCH)));
        }
        set.map(drop).map_err(|e| {
            let what = name_of(resource).unwrap_or("a limit").to_lowercase();
            Error::io(format!("cannot raise {what} of the process {number} to {limit}"), e)
        })
    }

    /// A limit of the process, read by the handle.
    fn limit(&self, resource: Resource) -> Result<Rlimit> {
        let cannot = || format!("cannot read the limits of the process {}", self.number);
        let mut limits = String::new();
        let file = File::from(self.open("limits", OFlags::RDONLY)?);
        file.take(LONGEST).read_to_string(&mut limits).map_err(|e| Error::io(cannot(), e))?;
        name_of(resource).and_then(|name| said_limit(&limits, name)).ok_or_else(|| Error::failed(cannot()))
    }

    /// CPUs that the process may run on.
    pub(crate) fn cpus(&self) -> Result<BTreeSet<u32>> {
        let mut status = String::new();
        let cannot = || format!("cannot read the CPUs of the process {}", self.number);
        let file = File::from(self.open("status", OFlags::RDONLY)?);
        file.take(LONGEST).read_to_string(&mut status).map_err(|e| Error::io(cannot(), e))?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.and_then(api::cpus::read).ok_or_else(|| Error::failed(cannot()))
    }

    /// Mount namespace of the process.
    pub fn mounts(&self) -> Result<OwnedFd> {
        self.of_its_container("ns/mnt", OFlags::RDONLY)
    }

    /// Network namespace of the process.
    pub fn network(&self) -> Result<OwnedFd> {
        self.of_its_container("ns/net", OFlags::RDONLY)
    }

    fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd> {
        openat(&self.folder, name, flags | OFlags::CLOEXEC, Mode::empty()).map_err(|e| match e {
            Errno::SRCH | Errno::NOENT => ended_error(self.number, e),
            e => Error::io(format!("cannot open {}", self.display_path(name).display()), e),
        })
    }

    pub(super) fn display_path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.number))
    }
}

/// Error for a process that has ended. It is not `NotFound`, which means a socket that does not exist yet.
fn ended_error(number: u32, e: Errno) -> Error {
    Error::new(ErrorKind::Failed, format!("the process {number} has ended")).because(std::io::Error::from(e))
}

/// The kernel's information about the peer of a connection.
mod peer {
    #![allow(unsafe_code)] // rustix has no SO_PEERPIDFD, and cannot say that a process is not seen

    use super::{Errno, OwnedFd, UnixStream};
    use std::ffi::c_int;
    use std::os::fd::{AsRawFd as _, FromRawFd as _};

    /// PID in our namespace; 0 if it has none.
    pub(super) fn number(stream: &UnixStream) -> Result<u32, Errno> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        // SAFETY: SO_PEERCRED writes a `ucred`.
        unsafe { get(stream, libc::SO_PEERCRED, &mut found) }?;
        Ok(u32::try_from(found.pid).unwrap_or_default())
    }

    /// Pidfd of the peer.
    pub(super) fn pidfd(stream: &UnixStream) -> Result<OwnedFd, Errno> {
        let mut found: c_int = -1;
        // SAFETY: SO_PEERPIDFD writes a descriptor, which is ours from then on.
        unsafe {
            get(stream, libc::SO_PEERPIDFD, &mut found)?;
            Ok(OwnedFd::from_raw_fd(found))
        }
    }

    /// # Safety
    /// `option` is one of SOL_SOCKET that writes a `T`, of which each pattern of bits is one.
    unsafe fn get<T>(stream: &UnixStream, option: c_int, found: &mut T) -> Result<(), Errno> {
        let mut length = size_of::<T>() as libc::socklen_t;
        let found: *mut T = found;
        // SAFETY: the kernel writes at most `length` bytes to a place that has them.
        let done = unsafe {
            libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, option, found.cast(), &raw mut length)
        };
        match done {
            0 if length as usize == size_of::<T>() => Ok(()),
            0 => Err(Errno::INVAL),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
        }
    }
}

/// A limit in the text of `/proc/PID/limits`.
fn said_limit(limits: &str, name: &str) -> Option<Rlimit> {
    let mut words = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut next = || match words.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(Rlimit { current: next()?, maximum: next()? })
}

/// Name of a limit in `/proc/PID/limits`.
fn name_of(resource: Resource) -> Option<&'static str> {
    match resource {
        Resource::Memlock => Some("Max locked memory"),
        Resource::Rtprio => Some("Max realtime priority"),
        Resource::Nofile => Some("Max open files"),
        _ => None,
    }
}

/// The limit, raised to at least this value. `None` is unlimited.
fn larger(has: Rlimit, limit: u64) -> Rlimit {
    let at_least = |value: Option<u64>| value.map(|value| value.max(limit));
    Rlimit { current: at_least(has.current), maximum: at_least(has.maximum) }
}

/// True if these cgroups belong to a pod.
fn is_of(groups: &str, uid: &str) -> bool {
    paths(groups).any(|path| path.split('/').any(|part| is_pods(part, uid)))
}

/// True if these cgroups belong to a container of a pod. The runtime makes its cgroup within the pod's, with
/// the name `ID`, or, with systemd, `cri-containerd-ID.scope` or `crio-ID.scope`.
fn is_in(groups: &str, uid: &str, id: &str) -> bool {
    let is_containers = |part: &str| {
        let part = part.strip_suffix(".scope").unwrap_or(part);
        !id.is_empty() && (part == id || part.ends_with(&format!("-{id}")))
    };
    paths(groups).any(|path| {
        let mut parts = path.split('/').skip_while(|part| !is_pods(part, uid)).skip(1);
        parts.next().is_some_and(is_containers)
    })
}

/// Cgroup paths in `/proc/PID/cgroup`.
fn paths(groups: &str) -> impl Iterator<Item = &str> {
    groups.lines().filter_map(|line| line.splitn(3, ':').nth(2))
}

/// True for the name of a pod's cgroup. It contains the UID, with `_` for `-` if systemd made it.
fn is_pods(part: &str, uid: &str) -> bool {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let names = [format!("pod{uid}"), format!("pod{}", uid.replace('-', "_"))];
    names.iter().any(|name| part == name || part.ends_with(&format!("-{name}")))
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
