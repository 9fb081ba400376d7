//! The default folder of the store.

use crate::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// The store below `CORACLE_HOME`: beside the disks there.
const BELOW: &str = "data/store";

/// The folder of the user's store: `$CORACLE_STORE`, else `$CORACLE_HOME/data/store`, else
/// `$XDG_DATA_HOME/coracle/store`, else `~/.local/share/coracle/store`. Warns once if the images of an earlier
/// version are in another one.
pub fn folder() -> Result<PathBuf> {
    static WARNED: Once = Once::new();
    let folder = default_folder()?;
    if let Some(old) = left_behind(|name| std::env::var_os(name), &folder) {
        WARNED.call_once(|| {
            let (new, old) = (folder.display(), old.display());
            tracing::warn!(
                "the store is {new} now, since CORACLE_HOME is set, and your images are in {old}: move that folder there, or name \
                 it by CORACLE_STORE"
            );
        });
    }
    Ok(folder)
}

/// As [`folder`], without a warning: for the processes of a program that has warned.
pub fn default_folder() -> Result<PathBuf> {
    from_variables(|name| std::env::var_os(name))
}

/// The message about a relative `CORACLE_HOME`, with the absolute path that was probably meant.
pub fn relative_home(home: &Path) -> String {
    let absolute = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
    format!(
        "the folder {} of CORACLE_HOME or --root is relative, and would be another one in each folder; write {}",
        home.display(),
        absolute.display()
    )
}

/// The folders above the store that only the user may write to.
pub(super) fn above(store: &Path) -> Vec<PathBuf> {
    above_of(path(&|name: &str| std::env::var_os(name), "CORACLE_HOME"), store)
}

fn above_of(home: Option<PathBuf>, store: &Path) -> Vec<PathBuf> {
    let parent = store.parent().map(Path::to_owned);
    match home.filter(|home| home.join(BELOW) == store) {
        Some(home) => std::iter::once(home).chain(parent).collect(),
        None => parent.filter(|above| above.ends_with("coracle")).into_iter().collect(),
    }
}

fn path(variable: &impl Fn(&str) -> Option<OsString>, name: &str) -> Option<PathBuf> {
    variable(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    if let Some(store) = path(&variable, "CORACLE_STORE") {
        return Ok(store);
    }
    if let Some(home) = path(&variable, "CORACLE_HOME") {
        return match home.is_absolute() {
            true => Ok(home.join(BELOW)),
            false => Err(Error::usage(relative_home(&home))),
        };
    }
    // The XDG specification requires that relative paths are ignored.
    let data = path(&variable, "XDG_DATA_HOME").filter(|data| data.is_absolute());
    let data = data.or_else(|| path(&variable, "HOME").map(|home| home.join(".local/share")));
    match data {
        Some(data) => Ok(data.join("coracle/store")),
        None => Err(Error::usage("HOME is not set, so the store has no folder; set CORACLE_STORE to one")),
    }
}

/// The store that earlier versions used despite `CORACLE_HOME`, if it exists and `folder` does not.
fn left_behind(variable: impl Fn(&str) -> Option<OsString>, folder: &Path) -> Option<PathBuf> {
    let is_moved = path(&variable, "CORACLE_STORE").is_none() && path(&variable, "CORACLE_HOME").is_some();
    let old = from_variables(|name| variable(name).filter(|_| name != "CORACLE_HOME")).ok();
    let is_store = |folder: &Path| folder.join("oci-layout").is_file();
    old.filter(|old| is_moved && is_store(old) && !is_store(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable<'a>(set: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    fn folder(set: &[(&str, &str)]) -> Result<PathBuf> {
        from_variables(variable(set))
    }

    #[test]
    fn the_nearest_variable_decides() {
        let (own, data, home) = (("CORACLE_STORE", "s"), ("XDG_DATA_HOME", "/d"), ("HOME", "/h"));
        let moved = ("CORACLE_HOME", "/m");
        for (set, want) in [
            (&[own, moved, data, home][..], "s"),
            (&[moved, data, home], "/m/data/store"),
            (&[moved], "/m/data/store"),
            (&[("CORACLE_HOME", ""), data, home], "/d/coracle/store"),
            (&[data, home], "/d/coracle/store"),
            (&[("XDG_DATA_HOME", "d"), home], "/h/.local/share/coracle/store"),
            (&[("CORACLE_STORE", ""), home], "/h/.local/share/coracle/store"),
        ] {
            assert_eq!(folder(set).unwrap(), PathBuf::from(want), "{set:?}");
        }
        assert!(folder(&[]).unwrap_err().to_string().contains("CORACLE_STORE"));
        let relative = folder(&[("CORACLE_HOME", "m"), home]).unwrap_err().to_string();
        let absolute = std::env::current_dir().unwrap().join("m");
        assert!(relative.ends_with(&format!("write {}", absolute.display())), "{relative}");
    }

    #[test]
    fn a_store_that_is_left_behind_is_named_until_there_is_a_new_one() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name).display().to_string();
        let (home, moved) = (at("h"), at("m"));
        let set = [("HOME", home.as_str()), ("CORACLE_HOME", moved.as_str())];
        let left = |set: &[(&str, &str)]| left_behind(variable(set), &folder(set).unwrap());
        assert_eq!(left(&set), None, "there is no store at all");
        let old = place.path().join("h/.local/share/coracle/store");
        let make = |store: &Path| {
            std::fs::create_dir_all(store).unwrap();
            std::fs::write(store.join("oci-layout"), "").unwrap();
        };
        make(&old);
        assert_eq!(left(&set), Some(old.clone()));
        assert_eq!(left(&set[..1]), None, "CORACLE_HOME is not set");
        let named = [set[0], set[1], ("CORACLE_STORE", old.to_str().unwrap())];
        assert_eq!(left(&named), None, "the old one is named");
        make(&place.path().join("m/data/store"));
        assert_eq!(left(&set), None, "the new one is used");
    }

    #[test]
    fn the_folders_above_a_store_are_the_users_own() {
        let of = |home: Option<&str>, store: &str| above_of(home.map(PathBuf::from), Path::new(store));
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(of(Some("/m"), "/m/data/store"), paths(&["/m", "/m/data"]));
        assert_eq!(of(Some("/m"), "/d/coracle/store"), paths(&["/d/coracle"]));
        assert_eq!(of(None, "/m/data/store"), paths(&[]), "a folder that CORACLE_STORE names");
    }
}
