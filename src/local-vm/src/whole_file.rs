//! A private file of the user that is written whole or not at all.

use crate::error::{Error, Result};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use storage::publish::sync_folder;

/// Writes a private file of the user, whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot write {}", path.display()), e);
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut options = std::fs::File::options();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(&partial).map_err(cannot)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(cannot)?;
    std::fs::rename(&partial, path).map_err(cannot)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = std::fs::File::open(parent).map_err(cannot)?;
    sync_folder(&folder).map_err(|e| cannot(e.into()))
}
