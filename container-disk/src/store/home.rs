//! The default folder of the store.

use crate::{Error, Result};
use std::ffi::OsString;
use std::path::PathBuf;

/// The folder of the user's store: `$CORACLE_STORE`, else `$XDG_DATA_HOME/coracle/store`, else
/// `~/.local/share/coracle/store`.
pub fn folder() -> Result<PathBuf> {
    from_variables(|name| std::env::var_os(name))
}

fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(store) = path("CORACLE_STORE") {
        return Ok(store);
    }
    // The XDG specification requires that relative paths are ignored.
    let data = path("XDG_DATA_HOME").filter(|data| data.is_absolute());
    let data = data.or_else(|| path("HOME").map(|home| home.join(".local/share")));
    match data {
        Some(data) => Ok(data.join("coracle/store")),
        None => Err(Error::usage("HOME is not set, so the store has no folder; set CORACLE_STORE to one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(set: &[(&str, &str)]) -> Result<PathBuf> {
        from_variables(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_nearest_variable_decides() {
        let (own, data, home) = (("CORACLE_STORE", "s"), ("XDG_DATA_HOME", "/d"), ("HOME", "/h"));
        for (set, want) in [
            (&[own, data, home][..], "s"),
            (&[data, home], "/d/coracle/store"),
            (&[("XDG_DATA_HOME", "d"), home], "/h/.local/share/coracle/store"),
            (&[("CORACLE_STORE", ""), home], "/h/.local/share/coracle/store"),
        ] {
            assert_eq!(folder(set).unwrap(), PathBuf::from(want), "{set:?}");
        }
        assert!(folder(&[]).unwrap_err().to_string().contains("CORACLE_STORE"));
    }
}
