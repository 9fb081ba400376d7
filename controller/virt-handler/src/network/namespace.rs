//! Work in the network namespace of a pod, on a thread of its own that does nothing else afterwards.
#![expect(clippy::disallowed_methods, reason = "all of it is work of virt_handler::blocking")]

use crate::error::{Error, Result};
use crate::pod::Process;
use rustix::fs::fstat;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

/// Runs `work` in the network namespace of a process.
pub(super) fn run_in_namespace<T: Send>(
    process: &Process,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let target = process.network()?;
    not_the_hosts(&target)?;
    thread::scope(|scope| {
        let inner = move || {
            move_into_link_name_space(target.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|e| Error::io("cannot enter the network of the pod's process", e))?;
            work()
        };
        let thread = thread::Builder::new().name("pod-network".into()).spawn_scoped(scope, inner);
        let thread = thread.map_err(|e| Error::io("cannot start a thread for the pod's network", e))?;
        thread.join().unwrap_or_else(|_| Err(Error::failed("bug in virt-handler: panic in a pod's network")))
    })
}

/// Refuses the node's own network, in which rules and bridges of a guest must never be made.
fn not_the_hosts(target: &OwnedFd) -> Result<()> {
    let number = |network: &OwnedFd| {
        let found = fstat(network).map_err(|e| Error::io("cannot compare network namespaces", e))?;
        Ok((found.st_dev, found.st_ino))
    };
    for host in [std::process::id(), 1] {
        // If virt-handler cannot see a process of the host, it is not in its network either.
        let Ok(network) = Process::of(host).and_then(|process| process.network()) else { continue };
        if number(&network)? == number(target)? {
            let what =
                "the pod's process is in the node's own network (hostNetwork): a VMI needs one of its own";
            return Err(Error::refused(what));
        }
    }
    Ok(())
}
