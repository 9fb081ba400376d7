//! Into the network of a pod, with a thread of its own: a thread that went in never does anything else.

use crate::node::error::{Error, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::thread;

/// Does something in the network of a process.
pub(super) fn inside<T: Send>(process: u32, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let path = format!("/proc/{process}/ns/net");
    let cannot = || format!("cannot enter the network of the pod's process {process}");
    let target = File::open(&path).map_err(|e| Error::io(cannot(), e))?;
    not_the_hosts(&target, process)?;
    thread::scope(|scope| {
        let inner = move || {
            move_into_link_name_space(target.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|e| Error::io(cannot(), e))?;
            work()
        };
        let thread = thread::Builder::new().name("pod-network".into()).spawn_scoped(scope, inner);
        let thread = thread.map_err(|e| Error::io("cannot begin a thread for the pod's network", e))?;
        thread.join().unwrap_or_else(|_| Err(Error::failed("the node agent has a fault in a pod's network")))
    })
}

/// Rules and bridges of a guest must never be made in the network of the node itself.
fn not_the_hosts(target: &File, process: u32) -> Result<()> {
    let number = |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
    let hosts = ["/proc/self/ns/net", "/proc/1/ns/net"];
    let same = |path: &&str| File::open(path).ok().and_then(|file| number(&file)) == number(target);
    match hosts.iter().any(same) {
        true => Err(Error::refused(format!(
            "the pod's process {process} is in the node's own network (hostNetwork): a machine needs one of its own"
        ))),
        false => Ok(()),
    }
}
