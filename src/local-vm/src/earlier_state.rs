//! EFI variables and TPM that the launcher keeps in its own folder for a stopped VM, while another VM takes the VM's place.
//!
//! ```text
//!  root/nvram  root/lib/swtpm ── copied ─► root/earlier/ ── the new VM starts ─► removed
//!                                             └── it does not start ─► brought back
//! ```
//!
//! The launcher of a VM that keeps no such state begins by removing what is there.

use crate::error::{Error, Result};
use crate::launch;
use crate::place::{Home, gone, make};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders of the launcher's root with such state.
const STATE: [&str; 2] = ["nvram", "lib/swtpm"];
/// Folder of the copies in the launcher's root.
const EARLIER: &str = "earlier";

/// Copy of the state of a stopped VM.
#[derive(Debug)]
pub(crate) struct EarlierState {
    root: PathBuf,
}

impl EarlierState {
    /// Copies the state of the VM of this name.
    pub(crate) fn copy(home: &Home, name: &str) -> Result<EarlierState> {
        let earlier = EarlierState { root: launch::root(home, name) };
        earlier.remove()?;
        for part in STATE {
            let (from, to) = (earlier.root.join(part), earlier.root.join(EARLIER).join(part));
            if from.is_dir() {
                make(&to)?;
                copy(&from, &to).map_err(|e| Error::io(format!("cannot copy {}", from.display()), e))?;
            }
        }
        Ok(earlier)
    }

    /// Brings the state back as it was. No QEMU runs.
    pub(crate) fn bring_back(&self) -> Result<()> {
        for part in STATE {
            let (now, before) = (self.root.join(part), self.root.join(EARLIER).join(part));
            if before.is_dir() {
                let cannot = |e| Error::io(format!("cannot bring back {}", now.display()), e);
                gone(fs::remove_dir_all(&now)).and_then(|()| fs::rename(&before, &now)).map_err(cannot)?;
            }
        }
        self.remove()
    }

    /// Removes the copy.
    pub(crate) fn remove(&self) -> Result<()> {
        let earlier = self.root.join(EARLIER);
        gone(fs::remove_dir_all(&earlier))
            .map_err(|e| Error::io(format!("cannot remove {}", earlier.display()), e))
    }
}

/// Copies the content of a folder. A link stays one, and sockets are left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&to)?;
            fs::set_permissions(&to, entry.metadata()?.permissions())?;
            copy(&entry.path(), &to)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, &to)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}
