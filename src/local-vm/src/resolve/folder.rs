//! Secrets and ConfigMaps as folders: a file for each key, readable for the user alone.
//!
//! The launcher makes ISO images of them and reads keys and passwords there. They are written anew for each
//! run, so that a key which the manifest no longer has is removed from the folder.

use crate::error::{Error, Result};
use crate::place::{gone, make};
use api::config_map::ConfigMap;
use api::secret::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Contents of files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Files of a Secret. `stringData` overrides `data`.
pub(crate) fn of_secret(secret: &Secret) -> Result<Files> {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let mut files = decoded(&format!("the secret {name}"), "data", &secret.data)?;
    for (key, text) in &secret.string_data {
        check_key(&format!("the secret {name}"), key)?;
        files.insert(key.clone(), text.clone().into_bytes());
    }
    Ok(files)
}

/// Files of a ConfigMap.
pub(crate) fn of_config_map(map: &ConfigMap) -> Result<Files> {
    let name = map.metadata.name.as_deref().unwrap_or_default();
    let what = format!("the config map {name}");
    let mut files = decoded(&what, "binaryData", &map.binary_data)?;
    for (key, text) in &map.data {
        check_key(&what, key)?;
        files.insert(key.clone(), text.clone().into_bytes());
    }
    Ok(files)
}

fn decoded(what: &str, field: &str, data: &BTreeMap<String, String>) -> Result<Files> {
    let mut files = Files::new();
    for (key, text) in data {
        check_key(what, key)?;
        let compact: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let bytes = STANDARD.decode(compact).map_err(|_| {
            let hint = if field == "data" { "; plain text goes into stringData" } else { "" };
            Error::refused(format!("{what}: {field}.{key} is not in base64{hint}"))
        })?;
        files.insert(key.clone(), bytes);
    }
    Ok(files)
}

/// Checks a key by the rules of Kubernetes, so that no key leads out of the folder.
fn check_key(what: &str, key: &str) -> Result<()> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if !key.is_empty() && key.len() <= 253 && key.bytes().all(word) && key != "." && !key.starts_with("..") {
        return Ok(());
    }
    Err(Error::refused(format!("{what} has the key {key:?}; a key is of letters, digits, '-', '_' and '.'")))
}

/// Writes the files, and removes all earlier ones.
pub fn write(folder: &Path, files: &Files) -> Result<PathBuf> {
    gone(std::fs::remove_dir_all(folder))
        .map_err(|e| Error::io(format!("cannot empty {}", folder.display()), e))?;
    make(folder)?;
    for (key, bytes) in files {
        let path = folder.join(key);
        let mut options = std::fs::File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(bytes))
            .map_err(|e| Error::io(format!("cannot write {}", path.display()), e))?;
    }
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn secret(text: &str) -> Secret {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_secret_becomes_files_for_the_user_alone() {
        let text = r#"{"metadata":{"name":"s"},"data":{"a":"aGVs\nbG8=","b":"eA=="},"stringData":{"b":"y"}}"#;
        let files = of_secret(&secret(text)).unwrap();
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("s");
        write(&folder, &Files::from([("old".into(), vec![1])])).unwrap();
        write(&folder, &files).unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "hello");
        assert_eq!(std::fs::read_to_string(folder.join("b")).unwrap(), "y");
        assert!(!folder.join("old").exists());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("a"))), (0o700, 0o600));
    }

    #[test]
    fn no_key_leads_out_of_the_folder() {
        for key in ["../x", "a/b", "", "..", ".", "..x", "a b"] {
            let secret =
                Secret { string_data: [(key.to_owned(), String::new())].into(), ..Secret::default() };
            assert!(of_secret(&secret).unwrap_err().to_string().contains("a key is of"), "{key}");
        }
        let e = of_secret(&secret(r#"{"metadata":{"name":"s"},"data":{"a":"not base64!"}}"#)).unwrap_err();
        assert!(e.to_string().contains("stringData"), "{e}");
    }
}
