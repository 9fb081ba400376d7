//! The paths and the network that a program will use, stated before it opens anything.

use super::{Confined, is_switched_off, system};
use std::path::{Path, PathBuf};

/// Files, programs and sockets of the host that a program will use. Paths that do not exist are left out,
/// since they cannot be opened either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    pub(super) paths: Vec<(PathBuf, Use)>,
    pub(super) network: bool,
    pub(super) accepts: bool,
    pub(super) replaced: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Read a file, or everything below a folder.
    Read,
    /// Create, write, rename and remove files in a folder and below it.
    Write,
    /// Read and write a device, and send it ioctls.
    Device,
    /// As [`Use::Read`], and run programs and their libraries.
    Run,
    /// As [`Use::Write`], and create sockets.
    Listen,
}

impl Process {
    /// A process that may use open descriptors only.
    pub fn new() -> Process {
        Process::default()
    }

    /// Adds a path and its use.
    pub fn uses(mut self, path: impl AsRef<Path>, how: Use) -> Process {
        let path = path.as_ref();
        // The folder of a bare file name.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let wanted = (path.to_owned(), how);
        if !self.paths.contains(&wanted) {
            self.paths.push(wanted);
        }
        self
    }

    /// Allows connections to servers: TCP and UDP, and the files with their addresses and with trusted
    /// certificates.
    pub fn network(mut self) -> Process {
        self.network = true;
        self
    }

    /// Allows to accept connections on sockets that are listening already. New listening sockets stay
    /// forbidden.
    pub fn accepts(mut self) -> Process {
        self.accepts = true;
        self
    }

    /// Names a file that will be replaced. The new file may be given to the owner that this one has now.
    pub fn replaces(mut self, path: impl AsRef<Path>) -> Process {
        self.replaced.push(path.as_ref().to_owned());
        self
    }

    /// The files that will be replaced.
    pub fn replaced(&self) -> &[PathBuf] {
        &self.replaced
    }

    /// True if connections to servers are allowed.
    pub fn has_network(&self) -> bool {
        self.network
    }

    /// Gives up every other path for the program that this process is about to become with `exec`, and keeps
    /// all TCP and UDP ports. For a program that wants to confine itself by namespaces: the calls for that
    /// only seem to succeed. No other thread may exist when it is called.
    pub fn before_exec(&self) -> Confined {
        system::before_exec(&self.paths)
    }

    /// The use of a path that was named itself, not only by a folder above it.
    pub fn use_of(&self, path: &Path) -> Option<Use> {
        self.paths.iter().find(|(known, _)| known == path).map(|(_, how)| *how)
    }

    /// Gives up all other rights, for the whole program and for good. No other thread may exist when it is
    /// called (see [`super`]). Logs the result at `-v`.
    pub fn enter(&self) -> Confined {
        let confined = if is_switched_off() {
            Confined::off(&format!("{}=off", super::SWITCH))
        } else {
            system::process(self)
        };
        tracing::info!("confined: {confined}");
        confined
    }
}
