//! Disk in a container image that is mounted into the pod.

use crate::error::{Error, ErrorKind, Result};
use crate::pod::Folder;
use crate::pod::confined::{Access, PathHandle};
use api::launcher::Format;
use container_disk::locate::mounted::{self, Form, HEAD, Listed};
use rustix::fs::FileType;
use std::io::Read as _;

/// Most files that are listed.
const MOST: usize = 1 << 12;
/// Deepest folder below `/disk` that is listed.
const DEEPEST: usize = 8;

/// A disk in an image.
#[derive(Debug)]
pub struct Disk {
    /// The file, held open by path after its checks.
    pub file: PathHandle,
    pub path: String,
    /// Format of the disk.
    pub format: Format,
}

/// Finds the disk of an image with the root `folder`. No guest has written to it, so its header is trusted
/// for the format. `not_its_own`: folders at the root that are not part of the image, and are ignored.
pub fn disk(folder: &Folder, image: &str, path: Option<&str>, not_its_own: &[&str]) -> Result<Disk> {
    let mut listed = Vec::new();
    list(folder, "", &mut listed, 0)?;
    listed.retain(|(name, found)| *found != Listed::Folder || !not_its_own.contains(&name.as_str()));
    if let Some(path) = path {
        way(folder, path.trim_matches('/'), &mut listed)?;
    }
    let path = mounted::mounted(image, listed, path).map_err(|e| convert_error(&e))?;
    let mut head = Vec::new();
    let file = folder.held(&path)?;
    file.open(Access::Read)?
        .take(HEAD as u64)
        .read_to_end(&mut head)
        .map_err(|e| Error::io(format!("cannot read {path} of the image {image}"), e))?;
    let format =
        match mounted::form(&format!("{path} of the image {image}"), &head).map_err(|e| convert_error(&e))? {
            Form::Raw => Format::Raw,
            Form::Qcow2 => Format::Qcow2,
        };
    Ok(Disk { file, path, format })
}

/// Lists the root, and all of `/disk`.
fn list(folder: &Folder, at: &str, listed: &mut Vec<(String, Listed)>, depth: usize) -> Result<()> {
    for name in folder.names(MOST)? {
        let path = if at.is_empty() { name.clone() } else { format!("{at}/{name}") };
        let found = entry_type(folder, &name)?;
        if found == Listed::Folder && (depth > 0 || name == "disk") && depth < DEEPEST {
            list(&folder.folder(&name)?, &path, listed, depth + 1)?;
        }
        listed.push((path, found));
        if listed.len() > MOST {
            return Err(Error::refused(format!(
                "{} holds more than {MOST} files",
                folder.display_path().display()
            )));
        }
    }
    Ok(())
}

/// Lists the parts of a path.
fn way(folder: &Folder, path: &str, listed: &mut Vec<(String, Listed)>) -> Result<()> {
    let mut here = folder.folder(".")?;
    let mut at = String::new();
    for part in path.split('/') {
        let found = match entry_type(&here, part) {
            Ok(found) => found,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        at = if at.is_empty() { part.to_owned() } else { format!("{at}/{part}") };
        listed.push((at.clone(), found.clone()));
        if found != Listed::Folder {
            return Ok(());
        }
        here = here.folder(part)?;
    }
    Ok(())
}

fn entry_type(folder: &Folder, name: &str) -> Result<Listed> {
    let held = folder.metadata(name)?;
    Ok(match held.kind() {
        FileType::RegularFile => Listed::File(held.size()),
        FileType::Directory => Listed::Folder,
        FileType::Symlink => Listed::Other("a link".into()),
        FileType::BlockDevice | FileType::CharacterDevice => Listed::Other("a device".into()),
        _ => Listed::Other("neither a file nor a folder".into()),
    })
}

fn convert_error(e: &container_disk::Error) -> Error {
    let kind = match e.kind() {
        container_disk::ErrorKind::NotFound => ErrorKind::NotFound,
        container_disk::ErrorKind::Refused => ErrorKind::Refused,
        _ => ErrorKind::Failed,
    };
    Error::new(kind, e.to_string())
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
