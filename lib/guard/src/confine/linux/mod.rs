//! Linux: Landlock first, as the filter of system calls forbids nothing that it needs, then seccomp.

mod attributes;
mod calls;
mod files;
mod filter;
mod keeper_filter;
mod namespaces;
mod network;
#[cfg(test)]
mod tests;

use super::{Confined, InForce, Process, Use};
pub(super) use attributes::set;
use files::Ports;
use filter::Profile;
use std::path::PathBuf;

/// Confines the whole program; the calling thread must be the only one for files to be covered.
pub(super) fn process(wanted: &Process) -> Confined {
    let mut paths = wanted.paths.clone();
    if wanted.network {
        paths.extend(network::files().into_iter().map(|path| (path, Use::Read)));
    }
    if paths.iter().any(|(_, how)| *how == Use::Write)
        && let Err(e) = attributes::start(&wanted.replaced)
    {
        tracing::warn!("modes and owners of files cannot be set from now on: {e}");
    }
    let ports = if wanted.network { Ports::Connect } else { Ports::None };
    let landlock = files::restrict(&paths, ports);
    let kind = if wanted.network { Profile::Network } else { Profile::Local };
    Confined { landlock, seccomp: filter::apply_to_all(kind, wanted.accepts) }
}

/// Confines the calling thread to what a parser needs.
pub(super) fn parser() -> Confined {
    let landlock = files::restrict(&[], Ports::None);
    Confined { landlock, seccomp: filter::apply_here() }
}

/// Confines the program that this process is about to become to these paths.
pub(super) fn before_exec(paths: &[(PathBuf, Use)]) -> Confined {
    Confined { landlock: files::restrict(paths, Ports::All), seccomp: namespaces::apply() }
}

impl InForce {
    fn of(done: Result<Option<u32>, String>) -> InForce {
        match done {
            Ok(abi) => InForce::yes(abi),
            Err(reason) => InForce::no(reason),
        }
    }
}
