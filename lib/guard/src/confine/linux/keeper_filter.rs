//! seccomp of the process that sets modes and owners (`attributes.rs`): it can receive requests on its
//! socket, answer them, and carry them out. No call of the list takes a path, so Landlock has nothing to add.

use super::filter::{Condition, rule};
use libc::c_long;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};
use std::collections::BTreeMap;

/// User ID and group ID.
pub(super) type Owner = (u32, u32);

/// Requests, answers, checks of the received descriptor, and the end.
const ANY: &[c_long] = &[
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_fstat,
    libc::SYS_close,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
];

/// The filter. A file can be given to one of these owners, and gets no mode bits but `permissions`.
pub(super) fn program(owners: &[Owner], permissions: u32) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|e| e.to_string())?;
    let rules = rules(owners, permissions).map_err(|e| e.to_string())?;
    let filter =
        SeccompFilter::new(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow, arch);
    filter.and_then(BpfProgram::try_from).map_err(|e| e.to_string())
}

fn rules(owners: &[Owner], permissions: u32) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<_, _> = ANY.iter().map(|call| (*call, vec![])).collect();
    let mut only = |call, each: Vec<Vec<Condition>>| -> Result<(), BackendError> {
        rules.insert(call, each.into_iter().map(rule).collect::<Result<_, _>>()?);
        Ok(())
    };
    only(libc::SYS_fcntl, vec![vec![(1, Dword, Eq, libc::F_GETFL as u64)]])?;
    only(libc::SYS_fchmod, vec![vec![(1, Dword, MaskedEq(u64::from(!permissions)), 0)]])?;
    let to = |owner: &Owner| vec![(1, Dword, Eq, owner.0.into()), (2, Dword, Eq, owner.1.into())];
    only(libc::SYS_fchown, owners.iter().map(to).collect())?;
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    /// A call, up to three arguments, and the error that it must end with; 0: none.
    type Attempt = (c_long, [i64; 3], i32);

    /// Runs the attempts in a process that has the filter, or none: which of them did not end as it must.
    #[allow(unsafe_code)]
    fn from_inside(filter: Option<&BpfProgram>, attempts: &[Attempt]) -> Option<usize> {
        // SAFETY: the child takes no memory and no lock: it makes system calls alone, and ends.
        match unsafe { libc::fork() } {
            0 => {
                let is_applied = filter.is_none_or(|filter| seccompiler::apply_filter(filter).is_ok());
                let failed = attempts.iter().position(|(call, [a, b, c], wanted)| {
                    // SAFETY: no argument leads to memory that is not there; where it would do harm, the test fails.
                    let done = unsafe { libc::syscall(*call, *a, *b, *c, 0, 0, 0) };
                    // SAFETY: the place of this thread's errno.
                    let errno = if done == -1 { unsafe { *libc::__errno_location() } } else { 0 };
                    errno != *wanted
                });
                let code = if is_applied { failed.map_or(0, |at| at + 1) } else { 255 };
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::try_from(code).unwrap_or(254)) }
            }
            child => {
                let mut status = 0;
                // SAFETY: the child that was just started, and a place for its status.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert!(libc::WIFEXITED(status), "it ended by a signal: {status}");
                usize::try_from(libc::WEXITSTATUS(status)).unwrap().checked_sub(1)
            }
        }
    }

    #[test]
    fn what_sets_modes_can_do_nothing_else() {
        if !crate::confine::offered().seccomp.in_force {
            eprintln!("skipped: {}", crate::confine::offered());
            return;
        }
        let file = tempfile::tempfile().unwrap();
        let fd = i64::from(file.as_raw_fd());
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let filter = program(&[own, (65533, 65533)], 0o777).unwrap();
        let (uid, gid) = (i64::from(own.0), i64::from(own.1));
        let mut stat = [0u8; 512];
        let stat = (&raw mut stat).expose_provenance() as i64;
        let here = i64::from(libc::AT_FDCWD);
        // A name that is not there, below a descriptor that is not open: without the filter nothing happens to any file.
        let path = c"no-file-of-this-name".as_ptr().expose_provenance() as i64;
        let needed: [Attempt; 5] = [
            (libc::SYS_fcntl, [fd, libc::F_GETFL.into(), 0], 0),
            (libc::SYS_fstat, [fd, stat, 0], 0),
            (libc::SYS_fchmod, [fd, 0o640, 0], 0),
            (libc::SYS_fchown, [fd, uid, gid], 0),
            (libc::SYS_close, [-1, 0, 0], libc::EBADF),
        ];
        assert_eq!(from_inside(Some(&filter), &needed), None);
        let (unix, stream) = (i64::from(libc::AF_UNIX), i64::from(libc::SOCK_STREAM));
        let forbidden = [
            (libc::SYS_openat, [here, path, libc::O_RDONLY.into()]),
            (libc::SYS_newfstatat, [here, path, stat]),
            (libc::SYS_unlinkat, [-1, path, 0]),
            (libc::SYS_renameat2, [-1, path, -1]),
            (libc::SYS_fchmodat, [-1, path, 0]),
            (libc::SYS_fchownat, [-1, path, 0]),
            (libc::SYS_execve, [0, 0, 0]),
            (libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0]),
            (libc::SYS_kill, [std::process::id().into(), 0, 0]),
            (libc::SYS_ptrace, [-1, 0, 0]),
            (libc::SYS_mmap, [0, 0, 0]),
            (libc::SYS_mprotect, [0, 0, 0]),
            (libc::SYS_socket, [unix, stream, 0]),
            (libc::SYS_sendmsg, [-1, 0, 0]),
            (libc::SYS_read, [fd, stat, 0]),
            (libc::SYS_write, [fd, stat, 0]),
            (libc::SYS_ftruncate, [fd, 0, 0]),
            (libc::SYS_ioctl, [fd, 0, 0]),
            (libc::SYS_fcntl, [fd, libc::F_GETFD.into(), 0]),
            (libc::SYS_getpid, [0, 0, 0]),
            (libc::SYS_fchmod, [fd, 0o4640, 0]),
            (libc::SYS_fchmod, [fd, 0o1777, 0]),
        ];
        for (call, arguments) in forbidden {
            let attempt = [(call, arguments, libc::EPERM)];
            assert_eq!(from_inside(Some(&filter), &attempt), None, "call {call} {arguments:?}");
            // Without the filter it ends otherwise; a child of a child ends as this one does.
            if call != libc::SYS_clone {
                assert_eq!(from_inside(None, &attempt), Some(0), "call {call} {arguments:?} proves nothing");
            }
        }
        // For users other than root these prove nothing.
        for (uid, gid) in [(65534, 65534), (65533, gid), (uid, 65533), (65533, -1), (-1, 65533)] {
            let attempt = [(libc::SYS_fchown, [fd, uid, gid], libc::EPERM)];
            let is_alike = (uid, gid) == (i64::from(own.0), i64::from(own.1));
            assert!(is_alike || from_inside(Some(&filter), &attempt).is_none(), "to {uid}:{gid}");
        }
        if rustix::process::geteuid().is_root() {
            let named = [(libc::SYS_fchown, [fd, 65533, 65533], 0)];
            assert_eq!(from_inside(Some(&filter), &named), None, "one that was named");
            let other = [(libc::SYS_fchown, [fd, 65534, 65534], libc::EPERM)];
            assert_eq!(from_inside(None, &other), Some(0), "root may do that");
        }
    }
}
