//! Files of Secrets and ConfigMaps: in the job, or in a folder where a pod has them mounted.
//!
//! A mounted folder has a file per key and, for the kubelet's own use, names that begin with `..`; those are
//! left out.

pub(super) use crate::source::options::header;

use crate::source::options::Mutual;
use crate::{Error, Result};
use api::job::{Files, SecretFiles};
use container_disk::registry::config::Login;
use fetch::Secret;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The key of a Secret with a docker `config.json`.
const DOCKER: &str = ".dockerconfigjson";
/// The key of a Secret with the key file of a service account.
const KEY_FILE: &str = "credentials.json";
/// The most bytes of a file of a Secret; an API server accepts a Secret of 1 MiB.
const LARGEST: u64 = 1 << 20;
/// The most files of a folder.
const MOST: usize = 1000;

/// The headers in the files of a Secret, in the order of the keys.
pub(super) fn headers(secret: &SecretFiles) -> Result<Vec<(String, String)>> {
    let name = &secret.secret;
    let files = read(secret)?;
    let lines = files.into_values().map(|bytes| {
        let line = String::from_utf8(bytes)
            .map_err(|_| Error::refused(format!("a header in the Secret {name} is not text in UTF-8")))?;
        header(&line).ok_or_else(|| {
            let what = format!("a header in the Secret {name} is not written 'Name: value': it has no colon");
            Error::refused(what)
        })
    });
    lines.collect()
}

/// User and password of a login.
pub(super) fn login(secret: &SecretFiles) -> Result<(String, String)> {
    let name = &secret.secret;
    let mut files = read(secret)?;
    let mut text = |key: &str| {
        let bytes = files.remove(key).ok_or_else(|| {
            Error::refused(format!("the Secret {name} has no key {key}, which a login needs"))
        })?;
        String::from_utf8(bytes)
            .map_err(|_| Error::refused(format!("the key {key} of the Secret {name} is not text in UTF-8")))
    };
    Ok((text("accessKeyId")?, text("secretKey")?))
}

/// Login to a registry: a user, or a Secret of the type `kubernetes.io/dockerconfigjson`.
pub(super) fn registry(secret: &SecretFiles) -> Result<Login> {
    let name = &secret.secret;
    match read(secret)?.remove(DOCKER) {
        None => login(secret).map(|(user, password)| Login::Basic(user, Secret::new(password))),
        Some(bytes) => {
            let text = String::from_utf8(bytes).map_err(|_| {
                Error::refused(format!("the key {DOCKER} of the Secret {name} is not text in UTF-8"))
            })?;
            Ok(Login::Config(Secret::new(text)))
        }
    }
}

/// The key file of a service account: by its usual name, or the only file there is.
pub(super) fn key_file(secret: &SecretFiles) -> Result<Vec<u8>> {
    let mut files = read(secret)?;
    let usual = files.remove(KEY_FILE);
    usual.or_else(|| files.pop_first().filter(|_| files.is_empty()).map(|(_, bytes)| bytes)).ok_or_else(
        || {
            let name = &secret.secret;
            Error::refused(format!(
                "the Secret {name} has no key {KEY_FILE} with the key file of a service account"
            ))
        },
    )
}

/// The files in a folder of certificates, by name.
pub(super) fn certificates(folder: &Path) -> Result<Vec<PathBuf>> {
    list(folder)
}

/// The files of a Secret by which two workers authenticate each other.
pub(super) fn mutual(folder: &Path) -> Mutual {
    let file = |name: &str| folder.join(name);
    Mutual { certificate: file("tls.crt"), key: file("tls.key"), authority: file("ca.crt") }
}

fn read(secret: &SecretFiles) -> Result<BTreeMap<String, Vec<u8>>> {
    match &secret.files {
        Files::Values(values) => {
            Ok(values.iter().map(|(key, value)| (key.clone(), value.0.clone())).collect())
        }
        Files::Folder(folder) => {
            let files = list(folder)?.into_iter().map(|path| {
                let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok((key, file(&path)?))
            });
            files.collect()
        }
    }
}

fn file(path: &Path) -> Result<Vec<u8>> {
    let cannot = |e| Error::io(format!("cannot read {}", path.display()), e);
    let mut bytes = vec![];
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::refused(format!("{} is larger than 1 MiB, which no Secret is", path.display())));
    }
    Ok(bytes)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot = |e| Error::io(format!("cannot read the folder {}", folder.display()), e);
    let mut files = vec![];
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with("..") && path.is_file() {
            files.push(path);
        }
        if files.len() > MOST {
            return Err(Error::refused(format!("{} has more than {MOST} files", folder.display())));
        }
    }
    files.sort();
    Ok(files)
}
