//! Stub for platforms without Landlock and seccomp, and for architectures whose system call numbers are not
//! listed.

use super::{Attributes, Confined, Process, Use};
use std::fs::File;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, fchown};
use std::path::PathBuf;

pub(super) fn process(_: &Process) -> Confined {
    none()
}

pub(super) fn parser() -> Confined {
    none()
}

pub(super) fn before_exec(_: &[(PathBuf, Use)]) -> Confined {
    none()
}

pub(super) fn set(file: &File, wish: Attributes) -> io::Result<()> {
    match wish {
        Attributes::Mode(mode) => file.set_permissions(std::fs::Permissions::from_mode(mode)),
        Attributes::Owner(uid, gid) => fchown(file, Some(uid), Some(gid)),
    }
}

fn none() -> Confined {
    Confined::off("only Linux on x86_64 and aarch64 has it")
}
