//! One member: what it is, and its name.

use super::header::Header;
use super::quoted;
use super::sparse::Map;

/// One member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Parts joined by single slashes, none of them `.` or `..`; empty for the root.
    pub name: String,
    /// File, folder, link.
    pub what: What,
    /// Bytes of a file, with its holes.
    pub size: u64,
    /// Where its data begins in the tar.
    pub at: u64,
    /// Owner.
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Permissions.
    pub mode: u64,
    /// Where the data belongs, if the file is sparse.
    pub map: Option<Map>,
}

/// What a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// To another member, by its name as written.
    HardLink(String),
    /// To a path as written.
    Symlink(String),
    /// A device or a pipe.
    Special(&'static str),
    /// A note of GNU tar: a volume's label (`V`), a list of a folder's contents (`D`).
    Note(char),
}

/// Bytes of a name or of a link's target (PATH_MAX), and of one part of a name (NAME_MAX): what is kept of a member is small.
const LONGEST: usize = 4096;
const LONGEST_PART: usize = 255;

/// What a header says its member is.
pub(super) fn what(header: &Header<'_>, name: &str, is_folders: bool, link: &[u8]) -> Result<What, String> {
    if link.len() > LONGEST {
        return Err(format!(
            "{} is a link to a name that is longer than any file system takes",
            quoted(name)
        ));
    }
    let link = || String::from_utf8_lossy(link).into_owned();
    let what = match header.kind() {
        // Before ustar a folder was a file whose name ends so.
        0 if is_folders => What::Folder,
        b'0' | b'7' | b'S' if is_folders => {
            return Err(format!("{} is a file, and its name ends like a folder's", quoted(name)));
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
            return Err(format!("{} is of type {:?}, which is not known", quoted(name), char::from(other)));
        }
    };
    if name.is_empty() && !matches!(what, What::Folder | What::Note(_)) {
        return Err("the archive's root is something else than a folder".to_owned());
    }
    Ok(what)
}

/// A name as parts below the root, and whether it is written as a folder's: with a slash at its end, or a dot.
pub(super) fn clean(written: &[u8]) -> Result<(String, bool), String> {
    let Ok(text) = std::str::from_utf8(written) else {
        return Err(format!("the name {} is not UTF-8", quoted(&String::from_utf8_lossy(written))));
    };
    if text.is_empty() {
        return Err("a member has no name".to_owned());
    }
    if text.starts_with('/') {
        return Err(format!("the absolute name {} leads outside of the archive", quoted(text)));
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(format!("the name {} leads outside of the archive", quoted(text)));
    }
    if text.len() > LONGEST || parts.iter().any(|part| part.len() > LONGEST_PART) {
        return Err(format!("the name {} is longer than any file system takes", quoted(text)));
    }
    let is_folders = text.ends_with('/') || text.ends_with("/.") || text == ".";
    Ok((parts.join("/"), is_folders))
}
