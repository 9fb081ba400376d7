//! The members of a tar file, by name.

use crate::manifest::read_bounded;
use crate::members::Members;
use crate::section::{Cursor, Section};
use crate::tar::{Seekable, What, quoted};
use crate::{Error, ErrorKind, Result};
use disk_format::ReadAt;
use disk_format::read_at::FileAt;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Limit of members. An image archive has a handful.
const MOST: usize = 1 << 16;

/// An open archive and the positions of its members.
pub(super) struct Contents {
    /// Name for messages: `oci-archive:FILE`.
    pub(super) name: String,
    bytes: Arc<dyn ReadAt>,
    members: BTreeMap<String, Located>,
}

enum Located {
    File {
        at: u64,
        size: u64,
    },
    /// Target of the symbolic link, as a path from the root of the archive.
    Link(String),
}

impl Contents {
    pub(super) fn open(scheme: &str, path: &Path) -> Result<Contents> {
        let name = format!("{scheme}:{}", path.display());
        let cannot = |e| Error::io(format!("cannot open {}", path.display()), e);
        let file = File::open(path).map_err(cannot)?;
        // An archive that is written under this name and `.partial` takes the place of that file at its
        // beginning, and must not take the place of the one that is read for it. A file system without locks
        // answers with an error.
        if let Err(e) = file.try_lock_shared() {
            tracing::debug!("{} is not locked while it is read: {e}", path.display());
        }
        let facts = file.metadata().map_err(cannot)?;
        if !facts.is_file() {
            return Err(Error::usage(format!("{} is not a file", path.display())));
        }
        Contents::index(name, Arc::new(FileAt::new(file, facts.len())))
    }

    pub(super) fn index(name: String, bytes: Arc<dyn ReadAt>) -> Result<Contents> {
        refuse_compressed(&name, &*bytes)?;
        let mut tar = Members::new(name.clone(), Seekable::new(Arc::clone(&bytes)));
        let mut members = BTreeMap::new();
        while let Some(member) = tar.next()? {
            let place = match member.what {
                What::File => Located::File { at: member.at, size: member.size },
                What::Folder => continue,
                What::Symlink(to) => match beside(&member.name, &to) {
                    Some(to) => Located::Link(to),
                    None => return Err(strange(&name, &member.name, "a link that leads out of it")),
                },
                What::HardLink(_) => return Err(strange(&name, &member.name, "a hard link")),
                What::Special(kind) => return Err(strange(&name, &member.name, &format!("a {kind}"))),
                What::Note(kind) => {
                    return Err(strange(&name, &member.name, &format!("a note of the type {kind:?}")));
                }
            };
            if members.len() == MOST {
                return Err(Error::refused(format!(
                    "{name} holds more than {MOST} files: an image archive has fewer"
                )));
            }
            if members.insert(member.name.clone(), place).is_some() {
                return Err(Error::refused(format!("{name} holds {} twice", quoted(&member.name))));
            }
        }
        Ok(Contents { name, bytes, members })
    }

    /// A file's bytes at any offset. A link returns its target's bytes. `None` if the archive has no member
    /// `path`.
    pub(super) fn file(&self, path: &str) -> Result<Option<Arc<dyn ReadAt>>> {
        let found = match self.members.get(path) {
            Some(Located::Link(to)) => self.members.get(to),
            found => found,
        };
        match found {
            Some(&Located::File { at, size }) => {
                let name = format!("{} of {}", quoted(path), self.name);
                Ok(Some(Arc::new(Section::new(&name, Arc::clone(&self.bytes), at, size)?)))
            }
            Some(Located::Link(_)) => {
                Err(Error::refused(format!("{} of {} is a link to a link", quoted(path), self.name)))
            }
            None => Ok(None),
        }
    }

    /// Reads a small file into memory. A missing file is an error of kind `NotFound`.
    pub(super) fn document(&self, path: &str) -> Result<Vec<u8>> {
        let Some(file) = self.file(path)? else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("{} has no file {}", self.name, quoted(path)),
            ));
        };
        read_bounded(&format!("{} of {}", quoted(path), self.name), Cursor::new(file, 0))
    }
}

/// Resolves the link `to` of the member `name`. `None` if it leads out of the archive.
fn beside(name: &str, to: &str) -> Option<String> {
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    if to.starts_with('/') {
        return None;
    }
    for part in to.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn refuse_compressed(name: &str, bytes: &dyn ReadAt) -> Result<()> {
    let mut head = [0; 4];
    if bytes.size() < 4 || bytes.read_exact_at(&mut head, 0).is_err() {
        return Ok(());
    }
    let (how, tool) = match head {
        [0x1f, 0x8b, ..] => ("gzip", "gunzip"),
        [0x28, 0xb5, 0x2f, 0xfd] => ("zstd", "unzstd"),
        [0xfd, b'7', b'z', b'X'] => ("xz", "unxz"),
        [b'B', b'Z', b'h', _] => ("bzip2", "bunzip2"),
        _ => return Ok(()),
    };
    Err(Error::refused(format!("{name} is compressed with {how}; unpack it first: {tool}")))
}

fn strange(name: &str, member: &str, what: &str) -> Error {
    Error::refused(format!("{} of {name} is {what}, which no image archive has", quoted(member)))
}
