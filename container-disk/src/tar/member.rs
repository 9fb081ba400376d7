//! Type and name of a member.

use super::header::Header;
use super::quoted;
use super::sparse::Map;

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Path of parts joined by single slashes, none of them `.` or `..`. Empty for the root.
    pub name: String,
    /// Type of the member.
    pub what: What,
    /// Size of a file in bytes, including its holes.
    pub size: u64,
    /// Offset of its data in the tar.
    pub at: u64,
    pub uid: u64,
    pub gid: u64,
    pub mode: u64,
    /// Positions of the data in the file, if it is sparse.
    pub map: Option<Map>,
}

/// Type of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    File,
    Folder,
    /// A hard link to another member, whose name is as written.
    HardLink(String),
    /// A symbolic link to a path as written.
    Symlink(String),
    /// A device or a pipe, in words.
    Special(&'static str),
    /// Metadata of GNU tar: a volume label (`V`), or the list of a folder's contents (`D`).
    Note(char),
}

/// Limit of bytes in a name or a link's target (PATH_MAX). It bounds the memory of a member.
const LONGEST: usize = 4096;
/// Limit of bytes in one component of a name (NAME_MAX).
const LONGEST_PART: usize = 255;

/// The member's type from its header.
pub(super) fn what(header: &Header<'_>, name: &str, is_folders: bool, link: &[u8]) -> Result<What, String> {
    if link.len() > LONGEST {
        return Err(format!("{} is a link to a name that is longer than 4096 bytes", quoted(name)));
    }
    let link = || String::from_utf8_lossy(link).into_owned();
    let what = match header.kind() {
        // Before ustar a folder was a file whose name ends with a slash.
        0 if is_folders => What::Folder,
        b'0' | b'7' | b'S' if is_folders => {
            return Err(format!(
                "{} is a file, but its name ends with a slash like that of a folder",
                quoted(name)
            ));
        }
        0 | b'0' | b'7' | b'S' => What::File,
        b'1' => What::HardLink(link()),
        b'2' => What::Symlink(link()),
        b'3' => What::Special("character device"),
        b'4' => What::Special("block device"),
        b'5' => What::Folder,
        b'6' => What::Special("pipe"),
        kind @ (b'D' | b'V') => What::Note(char::from(kind)),
        b'M' => return Err(format!("{} continues from another volume", quoted(name))),
        other => {
            return Err(format!("{} has the unknown type {:?}", quoted(name), char::from(other)));
        }
    };
    if name.is_empty() && !matches!(what, What::Folder | What::Note(_)) {
        return Err("the archive's root is not a folder".to_owned());
    }
    Ok(what)
}

/// The name as a path below the root. The flag is true if it is written like a folder's, with a slash or a
/// dot at its end.
pub(super) fn clean(written: &[u8]) -> Result<(String, bool), String> {
    let Ok(text) = std::str::from_utf8(written) else {
        return Err(format!("the name {} is not UTF-8", quoted(&String::from_utf8_lossy(written))));
    };
    if text.is_empty() {
        return Err("a member has an empty name".to_owned());
    }
    if text.starts_with('/') {
        return Err(format!("the absolute name {} leads outside of the archive", quoted(text)));
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(format!("the name {} leads outside of the archive", quoted(text)));
    }
    if text.len() > LONGEST || parts.iter().any(|part| part.len() > LONGEST_PART) {
        return Err(format!(
            "the name {} is longer than 4096 bytes, or than 255 bytes in one part",
            quoted(text)
        ));
    }
    let is_folders = text.ends_with('/') || text.ends_with("/.") || text == ".";
    Ok((parts.join("/"), is_folders))
}
