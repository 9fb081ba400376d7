//! Attempts of code that took over a parser, one after the other, in the calling thread.
//!
//! Only call [`try_everything`] where all of it should fail: attempts that succeed take effect. [`try_what_is_harmless`] is
//! for the other side of the proof, that the same attempts succeed where nothing keeps them from it.

use std::fs::File;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// One attempt.
#[derive(Debug)]
pub struct Attempt {
    /// The attempt.
    pub what: &'static str,
    /// The result.
    pub outcome: io::Result<()>,
}

impl Attempt {
    /// True if the system refused it for want of rights, and for no other reason. One call is refused as if it did
    /// not exist, so that the C library uses another one.
    pub fn is_refused(&self) -> bool {
        let code = self.outcome.as_ref().err().and_then(io::Error::raw_os_error);
        matches!(code, Some(libc::EPERM | libc::EACCES))
            || (self.what == OPENAT2 && code == Some(libc::ENOSYS))
    }
}

const OPENAT2: &str = "open past the filter of modes";

/// Those attempts that were not refused.
pub fn got_through(attempts: Vec<Attempt>) -> Vec<Attempt> {
    attempts.into_iter().filter(|attempt| !attempt.is_refused()).collect()
}

/// Attempts that do no harm where they succeed. `secret` is a file that has nothing to do with the work.
pub fn try_what_is_harmless(secret: &Path) -> Vec<Attempt> {
    let mut done = vec![];
    let mut attempt = |what, outcome: io::Result<()>| done.push(Attempt { what, outcome });
    attempt("read a file", File::open(secret).map(drop));
    attempt("write a file", File::options().write(true).open(secret).map(drop));
    attempt("look into a folder", std::fs::read_dir("/").map(drop));
    attempt("use UDP", UdpSocket::bind("127.0.0.1:0").map(drop));
    attempt("make a unix socket", std::os::unix::net::UnixDatagram::unbound().map(drop));
    attempt("start a program", Command::new("/bin/true").status().map(drop));
    done
}

/// Everything. Where one of these succeeds, the program may be another one afterwards, and ends with failure.
pub fn try_everything(secret: &Path) -> Vec<Attempt> {
    let mut done = try_what_is_harmless(secret);
    let mut attempt = |what, outcome: io::Result<()>| done.push(Attempt { what, outcome });
    attempt("make a file", File::create(secret.with_extension("new")).map(drop));
    attempt("rename a file", std::fs::rename(secret, secret.with_extension("old")));
    attempt("remove a file", std::fs::remove_file(secret));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    attempt("change a file's mode", std::fs::set_permissions(secret, mode));
    attempt("change a file's owner", std::os::unix::fs::chown(secret, Some(65534), None));
    attempt("connect by TCP", TcpStream::connect("127.0.0.1:9").map(drop));
    attempt("connect to a unix socket", UnixStream::connect("/run/docker.sock").map(drop));
    calls(&mut attempt);
    done
}

/// System calls that no safe function offers. The arguments are such that most of these fail for another reason where
/// they are allowed, and do no harm.
#[allow(unsafe_code)]
fn calls(attempt: &mut impl FnMut(&'static str, io::Result<()>)) {
    let parent = i64::from(std::os::unix::process::parent_id());
    let own = i64::from(std::process::id());
    let mut byte = 0u8;
    let vector = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let at = &raw const vector as i64;
    let new_user = i64::from(libc::CLONE_NEWUSER);
    let exec = i64::from(libc::PROT_READ | libc::PROT_EXEC);
    let private = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let raw = i64::from(libc::SOCK_RAW);
    let (unix, datagram) = (i64::from(libc::AF_UNIX), i64::from(libc::SOCK_DGRAM));
    let (set_owner, set_flags) = (i64::from(libc::F_SETOWN), i64::from(libc::F_SETFL));
    let (made, nameless) =
        (i64::from(libc::O_CREAT | libc::O_RDWR), i64::from(libc::O_TMPFILE | libc::O_RDWR));
    let mut room = [0u64; 3];
    let room = &raw mut room as i64;
    let (relative, empty) = (c"x".as_ptr() as i64, c"".as_ptr() as i64);
    let list: &[Call] = &[
        ("trace another process", libc::SYS_ptrace, [i64::from(libc::PTRACE_SEIZE), 0, 0, 0, 0, 0]),
        ("read another process's memory", libc::SYS_process_vm_readv, [parent, at, 1, at, 1, 0]),
        ("write another process's memory", libc::SYS_process_vm_writev, [parent, at, 1, at, 1, 0]),
        ("take another process's descriptor", libc::SYS_pidfd_getfd, [-1, 0, 0, 0, 0, 0]),
        ("signal another process", libc::SYS_kill, [parent, 0, 0, 0, 0, 0]),
        ("signal another process's thread", libc::SYS_tgkill, [parent, parent, 0, 0, 0, 0]),
        ("queue a signal", libc::SYS_rt_sigqueueinfo, [parent, 0, 0, 0, 0, 0]),
        ("use io_uring", libc::SYS_io_uring_setup, [0, 0, 0, 0, 0, 0]),
        ("load a BPF program", libc::SYS_bpf, [-1, 0, 0, 0, 0, 0]),
        ("measure the system", libc::SYS_perf_event_open, [0, 0, 0, 0, 0, 0]),
        ("handle page faults", libc::SYS_userfaultfd, [-1, 0, 0, 0, 0, 0]),
        ("mount", libc::SYS_mount, [0, 0, 0, 0, 0, 0]),
        ("make a user namespace", libc::SYS_unshare, [new_user, 0, 0, 0, 0, 0]),
        ("enter a namespace", libc::SYS_setns, [-1, 0, 0, 0, 0, 0]),
        ("change the root", libc::SYS_chroot, [0, 0, 0, 0, 0, 0]),
        ("read the keyring", libc::SYS_keyctl, [-1, 0, 0, 0, 0, 0]),
        ("make a file in memory", libc::SYS_memfd_create, [0, 0, 0, 0, 0, 0]),
        ("open by handle", libc::SYS_open_by_handle_at, [-1, 0, 0, 0, 0, 0]),
        // Not by std, which gives SIGPIPE back its default in this very process before it fails.
        ("become another program", libc::SYS_execve, [0, 0, 0, 0, 0, 0]),
        ("run a descriptor", libc::SYS_execveat, [-1, 0, 0, 0, 0, 0]),
        ("become another user", libc::SYS_setuid, [65534, 0, 0, 0, 0, 0]),
        ("raise a limit", libc::SYS_prlimit64, [0, 0, 1, 0, 0, 0]),
        ("type into the terminal", libc::SYS_ioctl, [0, 0x5412, &raw const byte as i64, 0, 0, 0]),
        ("switch dumps on", libc::SYS_prctl, [i64::from(libc::PR_SET_PTRACER), own, 0, 0, 0, 0]),
        ("make a raw socket", libc::SYS_socket, [i64::from(libc::AF_INET), raw, 1, 0, 0, 0]),
        ("make a netlink socket", libc::SYS_socket, [i64::from(libc::AF_NETLINK), raw, 0, 0, 0, 0]),
        (OPENAT2, libc::SYS_openat2, [-1, relative, room, 24, 0, 0]),
        ("make a setuid file", libc::SYS_openat, [-1, relative, made, 0o4755, 0, 0]),
        ("make a setuid file without a name", libc::SYS_openat, [-1, relative, nameless, 0o2755, 0, 0]),
        ("make a setgid folder", libc::SYS_mkdirat, [-1, relative, 0o2755, 0, 0, 0]),
        ("make an open file setuid", libc::SYS_fchmod, [-1, 0o4755, 0, 0, 0, 0]),
        ("make a pair of datagram sockets", libc::SYS_socketpair, [unix, datagram, 0, room, 0, 0]),
        ("empty a file by its path", libc::SYS_truncate, [empty, 0, 0, 0, 0, 0]),
        ("name another process to be signalled", libc::SYS_fcntl, [-1, set_owner, parent, 0, 0, 0]),
        ("choose the signal", libc::SYS_fcntl, [-1, 10, 9, 0, 0, 0]),
        ("ask for signals", libc::SYS_fcntl, [-1, set_flags, i64::from(libc::O_ASYNC), 0, 0, 0]),
        ("make a VM socket", libc::SYS_socket, [40, i64::from(libc::SOCK_STREAM), 0, 0, 0, 0]),
    ];
    // The older forms of the same calls.
    #[cfg(target_arch = "x86_64")]
    {
        each(
            attempt,
            &[
                ("make a setuid file by the older call", libc::SYS_open, [empty, made, 0o4755, 0, 0, 0]),
                ("make a setgid folder by the older call", libc::SYS_mkdir, [empty, 0o2755, 0, 0, 0, 0]),
            ],
        );
    }
    each(attempt, list);
    // The same call by a number of the x32 set, which lists of the usual numbers do not know.
    #[cfg(target_arch = "x86_64")]
    {
        let path = c"/etc/hostname";
        // SAFETY: the path ends with a zero.
        let back = unsafe { libc::syscall(0x4000_0000 | libc::SYS_open, path.as_ptr(), 0i64) };
        attempt("open by an x32 number", if back < 0 { Err(io::Error::last_os_error()) } else { Ok(()) });
    }
    // SAFETY: a fresh mapping that nobody uses.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, 0i64, 4096i64, exec, private, -1i64, 0i64) };
    attempt("run memory", if mapped < 0 { Err(io::Error::last_os_error()) } else { Ok(()) });
}

/// Attempts on the other threads of the program. A thread that parses may not make them; the other threads may.
pub fn try_other_threads() -> Vec<Attempt> {
    let mut done = vec![];
    let own = i64::from(std::process::id());
    let (signal, no_pointer) = (i64::from(libc::SIGUSR2), 8);
    each(
        &mut |what, outcome| done.push(Attempt { what, outcome }),
        &[
            ("set a handler for a signal", libc::SYS_rt_sigaction, [signal, no_pointer, 0, 8, 0, 0]),
            ("signal another thread", libc::SYS_tgkill, [own, own, 0, 0, 0, 0]),
        ],
    );
    done
}

/// The attempt, the call's number, and its arguments.
type Call = (&'static str, i64, [i64; 6]);

#[allow(unsafe_code)]
fn each(attempt: &mut impl FnMut(&'static str, io::Result<()>), calls: &[Call]) {
    for &(what, number, [a, b, c, d, e, f]) in calls {
        // SAFETY: numbers that are no valid pointers where the kernel wants one give an error; what is valid lives on.
        let back = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        attempt(what, if back < 0 { Err(io::Error::last_os_error()) } else { Ok(()) });
    }
}
