//! An image, and how the launcher sees files of it.
//!
//! ```text
//!  mounted     the kubelet has mounted it in the launcher's container: a file is where it is
//!  held out    a container of the image itself runs beside: a file is shown over an empty one in the launcher's own
//!              folder, where nobody else sees it
//! ```
//!
//! What is shown already is not shown again, so that all may be done again.

use super::Parts;
use crate::node::error::{Error, Kind, Result};
use crate::node::pod::layout::Beside;
use crate::node::pod::{Folder, Process, mounts};
use std::path::PathBuf;

/// Folders that are in a container's root whatever its image holds: the runtime, the kubelet and we make them. One of an
/// image that is called so is left out too: no disk is there.
const MADE: [&str; 7] = ["container-disk-binary", "container-disks", "dev", "etc", "proc", "run", "sys"];

/// An image.
pub struct Image<'a> {
    folder: Folder,
    way: Way<'a>,
}

enum Way<'a> {
    Mounted(&'a str),
    HeldOut { beside: &'a Beside, process: Process, parts: &'a Parts<'a> },
}

impl<'a> Image<'a> {
    /// One that is mounted.
    pub fn mounted(mount: &'a str, folder: Folder) -> Image<'a> {
        Image { folder, way: Way::Mounted(mount) }
    }

    /// One that a container beside the launcher holds out.
    pub fn held_out(beside: &'a Beside, parts: &'a Parts<'a>) -> Result<Image<'a>> {
        let process = parts.place.beside(&beside.socket).map_err(|e| {
            let what = format!("the container that holds {} out does not answer", beside.name);
            // It may not listen yet, or be gone: neither is a fault of the machine's.
            Error::failed(what).because(e)
        })?;
        let folder = process.image()?;
        Ok(Image { folder, way: Way::HeldOut { beside, process, parts } })
    }

    /// Its root.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Folders at its root that are not its own.
    pub fn not_its_own(&self) -> &'static [&'static str] {
        match self.way {
            Way::Mounted(_) => &[],
            Way::HeldOut { .. } => &MADE,
        }
    }

    /// Where the launcher sees a file of it. `ending` tells several files of one image apart.
    pub fn seen(&self, path: &str, ending: &str) -> Result<PathBuf> {
        match &self.way {
            Way::Mounted(mount) => Ok(PathBuf::from(mount).join(path)),
            Way::HeldOut { beside, process, parts } => {
                let name = format!("{}.{ending}", beside.name);
                let source = self.folder.held(path)?;
                let into = parts.root.within(&beside.folder)?;
                let target = match into.held(&name) {
                    Err(e) if e.kind() == Kind::NotFound => {
                        drop(into.create(&name)?);
                        into.held(&name)?
                    }
                    held => held?,
                };
                if !target.is(&source) {
                    mounts::show(&source, process, &target, &Process::of(parts.process)?)?;
                }
                Ok(PathBuf::from(&beside.folder).join(name))
            }
        }
    }
}
