//! seccomp: the system calls that can be made, and their arguments.

use super::InForce;
use super::calls::{ACCEPTS, ANY, ANY_OLDER, FILES, FILES_OLDER, NETWORK, SOCKETS};
use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The kind of thread or program that a filter is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Profile {
    /// A thread that parses.
    Parser,
    /// A program without network.
    Local,
    /// A program that connects to servers.
    Network,
}

/// Applies the filter to every thread of the program, which may also take connections.
pub(super) fn apply_to_all(kind: Profile, accepts: bool) -> InForce {
    InForce::of(programs(kind, accepts).and_then(|programs| {
        programs
            .iter()
            .try_for_each(|program| seccompiler::apply_filter_all_threads(program))
            .map_err(|e| e.to_string())?;
        Ok(None)
    }))
}

/// Applies the parser's filter to the calling thread. The filter is compiled once.
pub(super) fn apply_here() -> InForce {
    static PARSER: OnceLock<Result<Vec<BpfProgram>, String>> = OnceLock::new();
    let programs = PARSER.get_or_init(|| programs(Profile::Parser, false));
    InForce::of(programs.as_ref().map_err(String::clone).and_then(|programs| {
        programs
            .iter()
            .try_for_each(|program| seccompiler::apply_filter(program))
            .map_err(|e| e.to_string())?;
        Ok(None)
    }))
}

/// A condition: index of the argument, its width, operator, value.
pub(super) type Condition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

/// The allowed calls, each with alternative rules for its arguments; no rule: any arguments.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Flags of `clone` that make a thread of this process: no new namespaces, no child with its own memory.
const THREAD: u64 = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
/// Flags of `clone` that make anything other than a thread.
const NOT_A_THREAD: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_VFORK) as u64;

/// Two filters: the list, and one that answers `clone3` and `openat2` as if they did not exist. The arguments
/// of these two lie in memory, where no filter sees them; the C library then uses `clone` and `openat`. The
/// kernel takes the stricter answer of both filters for each call, and the later one's of two that are
/// equally strict.
fn programs(kind: Profile, accepts: bool) -> Result<Vec<BpfProgram>, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|e| e.to_string())?;
    let rules = rules(kind, accepts).map_err(|e| e.to_string())?;
    let list =
        SeccompFilter::new(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow, arch);
    let unknown = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_clone3, vec![]), (libc::SYS_openat2, vec![])]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        arch,
    );
    [list, unknown]
        .into_iter()
        .map(|filter| filter.and_then(BpfProgram::try_from).map_err(|e| e.to_string()))
        .collect()
}

fn rules(kind: Profile, accepts: bool) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    let mut any = |calls: &[c_long]| rules.extend(calls.iter().map(|call| (*call, vec![])));
    any(ANY);
    any(ANY_OLDER);
    any(&[libc::SYS_clone3, libc::SYS_openat2]);
    if kind != Profile::Parser {
        any(FILES);
        any(FILES_OLDER);
        any(SOCKETS);
        any(&[libc::SYS_mmap, libc::SYS_mprotect]);
    }
    if kind == Profile::Network {
        any(NETWORK);
    }
    if accepts {
        any(ACCEPTS);
    }
    let own = u64::from(std::process::id());
    let mut only = |call: c_long, each: Vec<Vec<Condition>>| -> Result<(), BackendError> {
        rules.insert(call, each.into_iter().map(rule).collect::<Result<_, _>>()?);
        Ok(())
    };
    only(libc::SYS_clone, vec![vec![(0, Qword, MaskedEq(THREAD | NOT_A_THREAD), THREAD)]])?;
    only(libc::SYS_fcntl, fcntls())?;
    only(libc::SYS_prctl, PRCTLS.iter().map(|option| vec![(0, Dword, Eq, *option as u64)]).collect())?;
    only(libc::SYS_ioctl, IOCTLS.iter().map(|request| vec![(1, Dword, Eq, *request)]).collect())?;
    // Limits of the process itself can be read; none can be set.
    only(libc::SYS_prlimit64, vec![vec![(0, Dword, Eq, 0), (2, Qword, Eq, 0)]])?;
    match kind {
        Profile::Parser => {
            let not_run = || vec![vec![(2, Dword, MaskedEq(libc::PROT_EXEC as u64), 0)]];
            only(libc::SYS_mmap, not_run())?;
            only(libc::SYS_mprotect, not_run())?;
            // A handler runs in whichever thread a signal is sent to, with the rights of that thread. So a
            // parser may only end the program (abort), and restore the two handlers by which std reports a
            // stack overflow; it may read all of them.
            only(libc::SYS_tgkill, vec![vec![(0, Dword, Eq, own), (2, Dword, Eq, libc::SIGABRT as u64)]])?;
            let of = |signal: libc::c_int| vec![(0, Dword, Eq, signal as u64)];
            let asked = vec![(1, Qword, Eq, 0)];
            only(libc::SYS_rt_sigaction, vec![of(libc::SIGSEGV), of(libc::SIGBUS), asked])?;
        }
        Profile::Local | Profile::Network => {
            only(libc::SYS_tgkill, vec![vec![(0, Dword, Eq, own)]])?;
            only(libc::SYS_rt_sigaction, vec![])?;
            // A pair of stream sockets reaches no other process; tokio wakes its signal handler by one. One
            // end of a pair of datagram sockets could send to any other such socket of the host.
            let unix = (0, Dword, Eq, libc::AF_UNIX as u64);
            only(
                libc::SYS_socketpair,
                vec![vec![unix, (1, Dword, MaskedEq(TYPE), libc::SOCK_STREAM as u64)]],
            )?;
            // The mode counts only where the call may create a file; otherwise the register may hold
            // anything.
            let opened = |flags, mode| vec![vec![no_set_id(mode)], vec![(flags, Dword, MaskedEq(MAKES), 0)]];
            only(libc::SYS_openat, opened(2, 3))?;
            only(libc::SYS_mkdirat, vec![vec![no_set_id(2)]])?;
            #[cfg(target_arch = "x86_64")]
            {
                only(libc::SYS_open, opened(1, 2))?;
                only(libc::SYS_mkdir, vec![vec![no_set_id(1)]])?;
            }
        }
    }
    if kind == Profile::Network {
        let socket =
            |family, kind| vec![(0, Dword, Eq, family as u64), (1, Dword, MaskedEq(TYPE), kind as u64)];
        only(
            libc::SYS_socket,
            vec![
                socket(libc::AF_INET, libc::SOCK_STREAM),
                socket(libc::AF_INET6, libc::SOCK_STREAM),
                socket(libc::AF_INET, libc::SOCK_DGRAM),
                socket(libc::AF_INET6, libc::SOCK_DGRAM),
            ],
        )?;
    }
    Ok(rules)
}

/// A rule that applies if all of these conditions do.
pub(super) fn rule(all: Vec<Condition>) -> Result<SeccompRule, BackendError> {
    let all = all.into_iter().map(|(at, len, op, value)| SeccompCondition::new(at, len, op, value));
    SeccompRule::new(all.collect::<Result<_, _>>()?)
}

/// A socket's type; SOCK_NONBLOCK and SOCK_CLOEXEC are above it.
const TYPE: u64 = 0xf;

/// The flags of `open` that make a file, with a name and without.
const MAKES: u64 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u64;

/// Condition: a mode without setuid and setgid. A user who runs such a file later would act with the rights
/// of its owner.
fn no_set_id(mode: u8) -> Condition {
    (mode, Dword, MaskedEq((libc::S_ISUID | libc::S_ISGID) as u64), 0)
}

/// Copies, flags and locks of descriptors. Setting which process is signalled when one becomes ready
/// (`F_SETOWN`, `F_SETSIG`) is left out, since that could be any process of the user.
fn fcntls() -> Vec<Vec<Condition>> {
    let command = |command: &libc::c_int| (1, Dword, Eq, *command as u64);
    let set_flags = vec![command(&libc::F_SETFL), (2, Dword, MaskedEq(libc::O_ASYNC as u64), 0)];
    FCNTLS.iter().map(|each| vec![command(each)]).chain([set_flags]).collect()
}
const FCNTLS: &[libc::c_int] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
    libc::F_GETPIPE_SZ,
    libc::F_SETPIPE_SZ,
];

/// Names of threads and of memory, and giving up more rights.
const PRCTLS: &[libc::c_int] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_SECCOMP,
    libc::PR_SET_VMA,
];

/// Queries of a terminal (typing into it is left out), and the size and the zeroing of block devices.
const IOCTLS: &[u64] = &[
    libc::TCGETS,
    TCGETS2,
    libc::TIOCGWINSZ,
    libc::FIONBIO,
    libc::FIONREAD,
    FIOCLEX,
    BLKSSZGET,
    BLKPBSZGET,
    BLKGETSIZE64,
    BLKROGET,
    FS_IOC_GETFLAGS,
];
const TCGETS2: u64 = 0x802c_542a;
const FIOCLEX: u64 = 0x5451;
const BLKROGET: u64 = 0x125e;
const BLKSSZGET: u64 = 0x1268;
const BLKPBSZGET: u64 = 0x127b;
const BLKGETSIZE64: u64 = 0x8008_1272;
const FS_IOC_GETFLAGS: u64 = 0x8008_6601;
