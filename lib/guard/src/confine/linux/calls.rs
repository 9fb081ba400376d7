//! The lists of allowed system calls. All others fail with `EPERM`.
//!
//! A call belongs to [`ANY`] if a thread that only computes, and reads and writes open descriptors, may need
//! it; to [`FILES`] if it opens, makes, renames or removes something (which Landlock then checks by its
//! path); to [`NETWORK`] if it connects to a server; to [`ACCEPTS`] if it takes connections of clients. Calls
//! that are allowed with some arguments only are in `filter.rs`. Never listed: exec, fork, ptrace and the
//! memory of other processes, namespaces and mounts, io_uring (it opens and connects past this filter),
//! modes, owners and attributes of files (Landlock does not check them; `attributes.rs` sets some), memfd,
//! bpf, keys, and all calls of an administrator.

use libc::c_long;

/// Allowed for every thread.
pub(super) const ANY: &[c_long] = &[
    // Open descriptors.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fadvise64,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_readahead,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_restart_syscall,
    // Memory. `filter.rs` forbids a parser to map memory that is both written and run.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    // Threads.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_gettid,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_getcpu,
    // Signals to the process itself. `filter.rs` limits the handlers that a thread may set and the threads
    // that it may signal.
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // Clocks, IDs and resources.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_times,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Further confinement.
    libc::SYS_seccomp,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
];

/// Allowed for every thread, on CPUs that have the older form of a call.
#[cfg(target_arch = "x86_64")]
pub(super) const ANY_OLDER: &[c_long] = &[
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_time,
    libc::SYS_arch_prctl,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_sync_file_range,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ANY_OLDER: &[c_long] = &[];

/// Allowed for all threads but those of parsers. Calls that take a mode (open, mkdir) are in `filter.rs`.
/// `truncate` by path is missing, since Landlock checks it only from its ABI 3 on.
pub(super) const FILES: &[c_long] = &[
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_statfs,
    libc::SYS_getcwd,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_umask,
    libc::SYS_sync,
    libc::SYS_syncfs,
];

/// The older forms of these calls.
#[cfg(target_arch = "x86_64")]
pub(super) const FILES_OLDER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_link,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const FILES_OLDER: &[c_long] = &[];

/// Allowed for programs that connect to servers; `socket` itself is in `filter.rs`.
pub(super) const NETWORK: &[c_long] = &[
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
];

/// Allowed for programs that take connections of clients.
pub(super) const ACCEPTS: &[c_long] = &[libc::SYS_accept4, libc::SYS_getsockname, libc::SYS_getpeername];

/// Calls on an existing socket: a pair that the program made for itself, or a standard stream that is a
/// socket.
pub(super) const SOCKETS: &[c_long] = &[
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];
