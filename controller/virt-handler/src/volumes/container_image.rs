//! Container images with disks, and how the launcher gets their files.
//!
//! ```text
//!  mounted     the kubelet has mounted it in the launcher's container
//!  held out    a container of the image itself runs beside, in whose root it is
//! ```
//!
//! In both cases the checked file is mounted for the launcher (see `file_mounts`).

use super::Parts;
use crate::error::{Error, Result};
use crate::pod::confined::{Access, PathHandle};
use crate::pod::layout::ImageContainer;
use crate::pod::{Folder, Process};
use std::path::{Path, PathBuf};

/// Folders at a container's root that the runtime, the kubelet or we create. A folder of the image with such
/// a name is skipped too, as there is no disk in it.
const MADE: [&str; 7] = ["container-disk-binary", "container-disks", "dev", "etc", "proc", "run", "sys"];

/// A container image with disks.
pub struct Image<'a> {
    folder: Folder,
    way: ImageAccess<'a>,
    parts: &'a Parts<'a>,
}

enum ImageAccess<'a> {
    Mounted(&'a str),
    HeldOut(Process),
}

impl<'a> Image<'a> {
    /// An image that is mounted.
    pub fn from_mount(mount: &'a str, parts: &'a Parts<'a>) -> Result<Image<'a>> {
        Ok(Image { folder: parts.open_mount(mount)?, way: ImageAccess::Mounted(mount), parts })
    }

    /// An image that a container beside the launcher provides.
    pub fn held_out(beside: &ImageContainer, parts: &'a Parts<'a>) -> Result<Image<'a>> {
        let process = parts.place.image_process(&beside.socket).map_err(|e| {
            let what = format!("the container with the image {} does not answer", beside.name);
            // It may not listen yet, or be gone: neither is a fault of the VMI.
            Error::failed(what).because(e)
        })?;
        Ok(Image { folder: process.image()?, way: ImageAccess::HeldOut(process), parts })
    }

    /// Root folder of the image.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Folders at its root that are not part of the image.
    pub fn not_its_own(&self) -> &'static [&'static str] {
        match self.way {
            ImageAccess::Mounted(_) => &[],
            ImageAccess::HeldOut(_) => &MADE,
        }
    }

    /// Path of a file of the image for the launcher. `file`: the held file; `path`: its path in the image;
    /// `name`: its name in the launcher's folder.
    pub fn launcher_path(&self, file: &PathHandle, path: &str, name: &str) -> Result<PathBuf> {
        let (of, there) = match &self.way {
            ImageAccess::Mounted(mount) => (self.parts.process, Some(Path::new(mount).join(path))),
            ImageAccess::HeldOut(process) => (process, None),
        };
        self.parts.show(file, of, name, Access::Read, there)
    }
}
