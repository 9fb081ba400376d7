//! seccomp: which system calls can be made, and with which arguments.

use super::InForce;
use super::calls::{ANY, ANY_OLDER, FILES, FILES_OLDER, NETWORK, SOCKETS};
use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Whose filter it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of a thread that parses.
    Parser,
    /// Of a program that talks to nobody.
    Local,
    /// Of one that talks to servers.
    Network,
}

/// Applies it to every thread of the program.
pub(super) fn apply_to_all(kind: Kind) -> InForce {
    InForce::of(programs(kind).and_then(|programs| {
        programs
            .iter()
            .try_for_each(|program| seccompiler::apply_filter_all_threads(program))
            .map_err(|e| e.to_string())?;
        Ok(None)
    }))
}

/// Applies that of a parser to the calling thread. It is made once.
pub(super) fn apply_here() -> InForce {
    static PARSER: OnceLock<Result<Vec<BpfProgram>, String>> = OnceLock::new();
    let programs = PARSER.get_or_init(|| programs(Kind::Parser));
    InForce::of(programs.as_ref().map_err(String::clone).and_then(|programs| {
        programs
            .iter()
            .try_for_each(|program| seccompiler::apply_filter(program))
            .map_err(|e| e.to_string())?;
        Ok(None)
    }))
}

/// A condition: which argument, how wide, compared how, with what.
type Condition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

/// The calls, each with what its arguments may be: one of the rules; none: any.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Threads of this process and nothing else: no new namespaces, no child with memory of its own.
const THREAD: u64 = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
/// Everything that makes something other than a thread.
const APART: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_VFORK) as u64;

/// Two filters, of which the kernel takes the stricter answer for each call: the list, and one that says of `clone3` that
/// it does not exist. Its flags lie in memory where no filter sees them, and the C library then uses `clone`.
fn programs(kind: Kind) -> Result<Vec<BpfProgram>, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|e| e.to_string())?;
    let rules = rules(kind).map_err(|e| e.to_string())?;
    let list =
        SeccompFilter::new(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow, arch);
    let unknown = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_clone3, vec![])]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        arch,
    );
    [list, unknown]
        .into_iter()
        .map(|filter| filter.and_then(BpfProgram::try_from).map_err(|e| e.to_string()))
        .collect()
}

fn rules(kind: Kind) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    let mut any = |calls: &[c_long]| rules.extend(calls.iter().map(|call| (*call, vec![])));
    any(ANY);
    any(ANY_OLDER);
    any(&[libc::SYS_clone3]);
    if kind != Kind::Parser {
        any(FILES);
        any(FILES_OLDER);
        any(SOCKETS);
        any(&[libc::SYS_mmap, libc::SYS_mprotect]);
    }
    if kind == Kind::Network {
        any(NETWORK);
    }
    let own = u64::from(std::process::id());
    let mut only = |call: c_long, each: Vec<Vec<Condition>>| -> Result<(), BackendError> {
        let each = each.into_iter().map(|all| {
            let all = all.into_iter().map(|(at, len, op, value)| SeccompCondition::new(at, len, op, value));
            SeccompRule::new(all.collect::<Result<_, _>>()?)
        });
        rules.insert(call, each.collect::<Result<_, _>>()?);
        Ok(())
    };
    only(libc::SYS_clone, vec![vec![(0, Qword, MaskedEq(THREAD | APART), THREAD)]])?;
    only(libc::SYS_tgkill, vec![vec![(0, Dword, Eq, own)]])?;
    only(libc::SYS_prctl, PRCTLS.iter().map(|option| vec![(0, Dword, Eq, *option as u64)]).collect())?;
    only(libc::SYS_ioctl, IOCTLS.iter().map(|request| vec![(1, Dword, Eq, *request)]).collect())?;
    // What is asked of itself is told; nothing is set.
    only(libc::SYS_prlimit64, vec![vec![(0, Dword, Eq, 0), (2, Qword, Eq, 0)]])?;
    match kind {
        Kind::Parser => {
            let not_run = || vec![vec![(2, Dword, MaskedEq(libc::PROT_EXEC as u64), 0)]];
            only(libc::SYS_mmap, not_run())?;
            only(libc::SYS_mprotect, not_run())?;
        }
        Kind::Local | Kind::Network => {
            // A pair reaches nobody; tokio wakes its signal handler by one.
            only(libc::SYS_socketpair, vec![vec![(0, Dword, Eq, libc::AF_UNIX as u64)]])?;
        }
    }
    if kind == Kind::Network {
        // SOCK_NONBLOCK and SOCK_CLOEXEC are above the type.
        let socket =
            |family, kind| vec![(0, Dword, Eq, family as u64), (1, Dword, MaskedEq(0xf), kind as u64)];
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

/// Names of threads and of memory, and giving up more.
const PRCTLS: &[libc::c_int] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_SECCOMP,
    libc::PR_SET_VMA,
];

/// Asking a terminal (never typing into one), and the size and the zeroing of block devices.
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
