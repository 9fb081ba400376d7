//! An image, and how the launcher sees files of it.
//!
//! ```text
//!  mounted     the kubelet has mounted it in the launcher's container
//!  held out    a container of the image itself runs beside, in whose root it is
//! ```
//!
//! Either way the launcher is shown the file that was looked at (see `shown`).

use super::Parts;
use crate::error::{Error, Result};
use crate::pod::beneath::{Access, Held};
use crate::pod::layout::Beside;
use crate::pod::{Folder, Process};
use std::path::{Path, PathBuf};

/// Folders that are in a container's root whatever its image holds: the runtime, the kubelet and we make them. One of an
/// image that is called so is left out too: no disk is there.
const MADE: [&str; 7] = ["container-disk-binary", "container-disks", "dev", "etc", "proc", "run", "sys"];

/// An image.
pub struct Image<'a> {
    folder: Folder,
    way: Way<'a>,
    parts: &'a Parts<'a>,
}

enum Way<'a> {
    Mounted(&'a str),
    HeldOut(Process),
}

impl<'a> Image<'a> {
    /// One that is mounted.
    pub fn mounted(mount: &'a str, parts: &'a Parts<'a>) -> Result<Image<'a>> {
        Ok(Image { folder: parts.mounted(mount)?, way: Way::Mounted(mount), parts })
    }

    /// One that a container beside the launcher holds out.
    pub fn held_out(beside: &Beside, parts: &'a Parts<'a>) -> Result<Image<'a>> {
        let process = parts.place.beside(&beside.socket).map_err(|e| {
            let what = format!("the container that holds {} out does not answer", beside.name);
            // It may not listen yet, or be gone: neither is a fault of the VMI's.
            Error::failed(what).because(e)
        })?;
        Ok(Image { folder: process.image()?, way: Way::HeldOut(process), parts })
    }

    /// Its root.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Folders at its root that are not its own.
    pub fn not_its_own(&self) -> &'static [&'static str] {
        match self.way {
            Way::Mounted(_) => &[],
            Way::HeldOut(_) => &MADE,
        }
    }

    /// Where the launcher sees a file of it: the one that is held, which is at `path` in the image. `name` is what the
    /// launcher's own name for it is.
    pub fn seen(&self, file: &Held, path: &str, name: &str) -> Result<PathBuf> {
        let (of, there) = match &self.way {
            Way::Mounted(mount) => (self.parts.process, Some(Path::new(mount).join(path))),
            Way::HeldOut(process) => (process, None),
        };
        self.parts.show(file, of, name, Access::Read, there)
    }
}
