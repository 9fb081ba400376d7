//! Start of passt by libvirt: this program stands before passt in `PATH` (`embed`), confines itself, and
//! executes it.
//!
//! ```text
//!  libvirt ── passt --socket … ──► virt-launcher, by that name ── Landlock, seccomp ──► /usr/bin/passt
//! ```
//!
//! passt reads every packet that a guest sends, so it must be confined. It would enter new namespaces by
//! itself, which the seccomp filter of a launcher pod forbids, and then it does not start. So Landlock
//! restricts its file access here ([`guard::confine`]): it may read settings of the pod and create its
//! socket, and has no access to QEMU. passt installs its own filter of system calls. A kernel without
//! Landlock does not restrict its files. The launcher logs that ([`unconfined`]), since libvirt discards the
//! child's output.
//!
//! One option is added: without it the address of the guest's router would lead to 127.0.0.1 of the pod,
//! where sidecars listen.

use crate::error::Error;
use guard::confine::{InForce, Process, Use};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Name by which libvirt starts passt.
pub const NAME: &str = "passt";
const PROGRAM: &str = "/usr/bin/passt";
const NO_WAY_TO_THE_POD: &str = "--no-map-gw";
/// The program, and the folders of its libraries.
const RUNS: [&str; 4] = [PROGRAM, "/usr/lib", "/lib", "/lib64"];
/// Files that passt reads: resolvers, used ports, its own limits.
const READS: [&str; 2] = ["/etc", "/proc"];
const DEVICES: [&str; 2] = ["/dev/null", "/dev/urandom"];

/// True if this process was started in place of passt, by its first argument.
pub fn is_meant(arguments: &[OsString]) -> bool {
    arguments.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(NAME)))
}

/// Executes passt, while this process has one thread. Returns only in case of an error.
pub fn enter(arguments: &[OsString]) -> Error {
    let given = arguments.get(1..).unwrap_or_default();
    confined(given).before_exec();
    let failed = Command::new(PROGRAM).args(given).arg(NO_WAY_TO_THE_POD).exec();
    Error::io(format!("cannot start {PROGRAM}, which an interface with passtBinding needs"), failed)
}

/// The log message if files are not restricted.
pub fn unconfined(landlock: &InForce) -> Option<String> {
    let told = || format!("passt can open every file that the launcher can: Landlock is {landlock}");
    (!landlock.in_force).then(told)
}

/// Restrictions for passt: it may write only in the folder of its socket.
fn confined(given: &[OsString]) -> Process {
    let uses = |process: Process, paths: &[&str], how: Use| {
        paths.iter().fold(process, |process, path| process.uses(path, how))
    };
    let process = uses(Process::new(), &RUNS, Use::Run);
    let process = uses(process, &READS, Use::Read);
    let process = uses(process, &DEVICES, Use::Device);
    let socket = given.iter().skip_while(|word| *word != "--socket").nth(1);
    match socket.and_then(|socket| Path::new(socket).parent()) {
        Some(folder) => process.uses(folder, Use::Listen),
        None => process,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn it_is_passt_by_its_name_alone() {
        for (line, meant) in [
            ("passt --one-off", true),
            ("/root/programs/passt", true),
            ("/usr/bin/virt-launcher run passt", false),
            ("passt.avx2", false),
        ] {
            assert_eq!(is_meant(&words(line)), meant, "{line}");
        }
        assert!(!is_meant(&[]));
    }

    #[test]
    fn it_is_told_that_the_kernel_keeps_no_file_from_it() {
        let landlock = InForce { in_force: false, abi: None, reason: Some("not supported".to_owned()) };
        let told = unconfined(&landlock).unwrap();
        assert!(told.contains("not in force: not supported"), "{told}");
        assert_eq!(unconfined(&InForce { in_force: true, ..landlock }), None);
    }

    #[test]
    fn it_writes_where_its_socket_is_and_nowhere_else() {
        let given = words("--one-off --socket /r/run/qemu/passt/1-vm.socket --pid /r/run/qemu/passt/1.pid");
        let process = confined(&given);
        assert_eq!(process.use_of(Path::new("/r/run/qemu/passt")), Some(Use::Listen));
        assert_eq!(process.use_of(Path::new("/usr/bin/passt")), Some(Use::Run));
        assert_eq!(process.use_of(Path::new("/r")), None);
        assert!(!process.has_network());
    }
}
