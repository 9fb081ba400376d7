//! Faults of the host below a conversion, a pull, a build and a VM: a device that fails writes, a full disk, a
//! killed process. After each of them no wrong byte has a final name, and the same command completes with the
//! right ones.
//!
//! | file | fault | needs |
//! |---|---|---|
//! | `device.rs` | a device that cannot write what it holds nothing of yet | root: ext4 on a loop device on a tmpfs, one with an overlay above |
//! | `full_disk.rs` | no room, at each phase | root: a tmpfs |
//! | `vm.rs` | no room for the files of a VM that is started | root: a tmpfs; virt-launcher |
//! | `overlap.rs` | a source below its target | root: loop devices |
//! | `guest.rs` | a guest that runs from an unfinished file | qemu-io |
//! | `locked.rs` | a source that a program has locked | flock |
//! | `kill.rs` | kill -9 at a system call | |
//! | `verify.rs` | bytes that change below a run | |
//!
//! Without root the first four print that and are skipped. With `CORACLE_TEST_TIER=all` each system call is
//! tested, else always the same twentieth of them.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod device;
mod full_disk;
mod guest;
mod held;
mod kill;
mod locked;
mod overlap;
mod verify;
mod vm;

use std::path::Path;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_coracle");

/// True for the long tier.
fn is_long() -> bool {
    std::env::var_os("CORACLE_TEST_TIER").is_some_and(|tier| tier == "all")
}

/// True if a command succeeds; its error is printed as the reason of a skip.
fn done(program: &str, args: &[&str]) -> bool {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            println!("{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
            false
        }
        Err(e) => {
            println!("{program}: {e}");
            false
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
