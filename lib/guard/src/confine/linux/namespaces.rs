//! seccomp of a program that confines itself by namespaces, in a container that may not create any.
//!
//! A launcher pod's own filter answers `unshare` and `mount` with `EPERM`, and passt gives up then. Here
//! these calls do nothing and succeed. Where two filters both answer a call with an error the kernel takes
//! the later one's, so the pod's filter need not change. Nothing becomes allowed by it that was forbidden,
//! since an answered call is not made. Landlock restricts the program in place of the namespaces.

use super::InForce;
use libc::c_long;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use std::collections::BTreeMap;

/// System calls that move a program into namespaces and a root of its own.
const CALLS: [c_long; 4] = [libc::SYS_unshare, libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root];

pub(super) fn apply() -> InForce {
    InForce::of(program().and_then(|program| {
        seccompiler::apply_filter(&program).map_err(|e| e.to_string())?;
        Ok(None)
    }))
}

fn program() -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|e| e.to_string())?;
    let calls: BTreeMap<c_long, _> = CALLS.into_iter().map(|call| (call, vec![])).collect();
    // The error number 0 is success.
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(0), arch);
    filter.and_then(BpfProgram::try_from).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// On a thread of its own, which alone has the filters.
    fn unshare(filters: &[&BpfProgram]) -> i32 {
        let filters: Vec<BpfProgram> = filters.iter().map(|filter| (*filter).clone()).collect();
        let tried = thread::spawn(move || {
            for filter in &filters {
                seccompiler::apply_filter(filter).unwrap();
            }
            try_unshare()
        });
        tried.join().unwrap()
    }

    /// The number of its error.
    #[allow(unsafe_code)]
    fn try_unshare() -> i32 {
        // SAFETY: a call without memory; should it be made, it is about this thread alone.
        match unsafe { libc::unshare(libc::CLONE_NEWUSER) } {
            0 => 0,
            _ => std::io::Error::last_os_error().raw_os_error().unwrap_or(-1),
        }
    }

    #[test]
    fn a_namespace_that_the_pod_forbids_is_not_made_and_not_missed() {
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let calls = BTreeMap::from([(libc::SYS_unshare, vec![])]);
        let forbids =
            SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32), arch);
        let pod: BpfProgram = forbids.unwrap().try_into().unwrap();
        assert_eq!(unshare(&[&pod]), libc::EPERM);
        assert_eq!(unshare(&[&pod, &program().unwrap()]), 0);
        let before = std::fs::read_link("/proc/self/ns/user").unwrap();
        let own = thread::spawn(|| {
            apply();
            // A process of more than one thread would be refused by the kernel itself, were the call made.
            assert_eq!(try_unshare(), 0);
            std::fs::read_link("/proc/thread-self/ns/user").unwrap()
        });
        assert_eq!(own.join().unwrap(), before, "nothing was made");
    }
}
