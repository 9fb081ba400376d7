//! What a whole program will use: stated before it begins.

use super::{Confined, is_switched_off, system};
use std::path::{Path, PathBuf};

/// Files, programs and sockets of the host that a program will use. Paths that do not exist are left out: they cannot be
/// opened either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    pub(super) paths: Vec<(PathBuf, Use)>,
    pub(super) network: bool,
    pub(super) accepts: bool,
    pub(super) replaced: Vec<PathBuf>,
}

/// How a path is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A file, or everything below a folder, is read.
    Read,
    /// Files in a folder (and below it) are made, written, renamed and removed.
    Write,
    /// A device is read, written and asked by ioctl.
    Device,
    /// The same as [`Use::Read`], and programs and their libraries are run.
    Run,
    /// The same as [`Use::Write`], and sockets are made.
    Listen,
}

impl Process {
    /// Nothing: descriptors that are open already, and no more.
    pub fn new() -> Process {
        Process::default()
    }

    /// Uses a path.
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

    /// Connects to servers: TCP and UDP, and the files that tell their addresses and whom to trust.
    pub fn network(mut self) -> Process {
        self.network = true;
        self
    }

    /// Takes connections on sockets that it listens on already, and makes none itself.
    pub fn accepts(mut self) -> Process {
        self.accepts = true;
        self
    }

    /// Writes a file in the place of this one. The new one may be given to its owner, whoever that is now.
    pub fn replaces(mut self, path: impl AsRef<Path>) -> Process {
        self.replaced.push(path.as_ref().to_owned());
        self
    }

    /// The files in whose place it writes others.
    pub fn replaced(&self) -> &[PathBuf] {
        &self.replaced
    }

    /// Whether it connects to servers.
    pub fn has_network(&self) -> bool {
        self.network
    }

    /// Gives everything else up but TCP and UDP, for the program that this process is about to become: one that wants to
    /// confine itself by namespaces, which the calls for them only seem to make. Call it while no other thread exists.
    pub fn before_exec(&self) -> Confined {
        system::placed(&self.paths)
    }

    /// How a path is used, where it was named itself.
    pub fn use_of(&self, path: &Path) -> Option<Use> {
        self.paths.iter().find(|(known, _)| known == path).map(|(_, how)| *how)
    }

    /// Gives everything else up, for the whole program and for ever. Call it while no other thread exists: see the head
    /// of this module. Says at `-v` what is in force.
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
