//! The cluster's settings of registries, written to files. They are in the job, since a pod cannot mount a
//! ConfigMap of another namespace; and they refer to one another by path (`ca = "corp.pem"`).

use api::job::Registry;
use cdi::{Error, Result};
use guard::folder::{Parents, ensure_private};
use std::path::{Path, PathBuf};

/// The main file, which refers to the others.
const MAIN: &str = "registries.toml";

/// Writes a job's settings of its registry to a folder of this process. Returns the main file, if there is
/// one.
pub(crate) fn write(registry: Option<&Registry>) -> Result<Option<PathBuf>> {
    let Some(registry) = registry.filter(|registry| registry.settings.contains_key(MAIN)) else {
        return Ok(None);
    };
    let folder = std::env::temp_dir().join(format!("cdi-registries-{}", std::process::id()));
    let cannot = |e| Error::io(format!("cannot write settings of registries to {}", folder.display()), e);
    // A folder of an earlier process with the same ID is removed.
    match std::fs::remove_dir_all(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(cannot(e)),
        _ => {}
    }
    ensure_private(&folder, Parents::Named).map_err(|e| {
        Error::failed(format!("cannot write settings of registries to {}", folder.display())).because(e)
    })?;
    for (name, text) in &registry.settings {
        let is_name =
            !name.is_empty() && !name.starts_with("..") && Path::new(name).components().count() == 1;
        if !is_name || name.contains('/') {
            return Err(Error::refused(format!(
                "the settings of registries have a file {name:?}, which is not a valid file name"
            )));
        }
        std::fs::write(folder.join(name), text).map_err(cannot)?;
    }
    Ok(Some(folder.join(MAIN)))
}
