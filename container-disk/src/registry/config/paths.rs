//! Paths of the registry settings.

use crate::{Error, Result};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum size of a settings file.
const MOST: u64 = 1 << 20;

/// Files and folders with settings, in order of increasing precedence.
#[derive(Debug, Clone, Default)]
pub struct SettingsPaths {
    /// `registries.toml` of the host and of the user.
    pub ours: Vec<PathBuf>,
    /// `registries.conf`. Only the last existing file is used.
    pub conf: Vec<PathBuf>,
    /// Folders with further `.conf` files. All files are used.
    pub conf_d: Vec<PathBuf>,
    /// `certs.d` folders. The first one with a subfolder for the host is used.
    pub certs_d: Vec<PathBuf>,
}

impl SettingsPaths {
    /// The default paths. `environment` returns environment variables.
    pub fn of_user(environment: &dyn Fn(&str) -> Option<OsString>) -> SettingsPaths {
        let set = |name| environment(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = set("HOME");
        let settings = set("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
        // Container tools ignore XDG_CONFIG_HOME for these two.
        let containers = home.as_ref().map(|home| home.join(".config/containers"));
        let mut paths = SettingsPaths {
            ours: vec!["/etc/coracle/registries.toml".into()],
            conf: vec!["/etc/containers/registries.conf".into()],
            conf_d: vec!["/etc/containers/registries.conf.d".into()],
            certs_d: vec![],
        };
        paths.ours.extend(settings.map(|settings| settings.join("coracle/registries.toml")));
        if let Some(containers) = containers {
            paths.conf.push(containers.join("registries.conf"));
            paths.conf_d.push(containers.join("registries.conf.d"));
            paths.certs_d.push(containers.join("certs.d"));
        }
        paths.conf.extend(set("CONTAINERS_REGISTRIES_CONF"));
        paths.certs_d.extend(["/etc/containers/certs.d".into(), "/etc/docker/certs.d".into()]);
        paths
    }
}

/// Reads a text file. `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    let shown = path.display();
    let cannot = |e: io::Error| Error::failed(format!("cannot read {shown}")).because(e);
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => return Err(cannot(e)),
    };
    let mut text = String::new();
    file.take(MOST + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > MOST {
        return Err(Error::usage(format!(
            "{shown} is larger than {} MiB: this is not a settings file",
            MOST >> 20
        )));
    }
    Ok(Some(text))
}

/// The files in a folder with one of these name endings, sorted by name. Empty if the folder does not exist
/// or cannot be read.
pub(super) fn list(folder: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return vec![],
        Err(e) => {
            tracing::warn!(folder = %folder.display(), error = %e, "a settings folder cannot be read and is ignored");
            return vec![];
        }
    };
    let named = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ends.iter().any(|end| name.ends_with(end) && name.len() > end.len())
    };
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| named(path)).collect();
    found.sort();
    found
}

/// Line number of a byte offset, counted from 1.
pub(super) fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_files_come_after_the_hosts() {
        let environment = |set: &'static [(&str, &str)]| {
            move |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v))
        };
        let paths = SettingsPaths::of_user(&environment(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")]));
        assert_eq!(paths.ours.last().unwrap(), Path::new("/c/coracle/registries.toml"));
        assert_eq!(paths.certs_d[0], Path::new("/h/.config/containers/certs.d"));
        let paths =
            SettingsPaths::of_user(&environment(&[("HOME", "/h"), ("CONTAINERS_REGISTRIES_CONF", "/r")]));
        assert_eq!(paths.ours.last().unwrap(), Path::new("/h/.config/coracle/registries.toml"));
        assert_eq!(paths.conf.last().unwrap(), Path::new("/r"));
        assert_eq!(SettingsPaths::of_user(&|_| None).ours.len(), 1);
    }
}
