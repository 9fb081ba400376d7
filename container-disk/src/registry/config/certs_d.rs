//! `certs.d/HOST[:PORT]/`, in the form of docker and podman: `*.crt` are trusted CAs, `NAME.cert` with
//! `NAME.key` is a client certificate.

use super::paths;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// The certificates in a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerCertificates {
    pub(super) ca: Vec<PathBuf>,
    pub(super) client: Option<(PathBuf, PathBuf)>,
}

/// Reads the first of `folders` that has a subfolder for the address.
pub(super) fn find(folders: &[PathBuf], address: &str) -> Result<ServerCertificates> {
    let folder = folders.iter().map(|folder| folder.join(address)).find(|folder| folder.is_dir());
    folder.map_or(Ok(ServerCertificates::default()), |folder| {
        sort(&folder, paths::list(&folder, &[".crt", ".cert", ".key"]))
    })
}

fn sort(folder: &Path, files: Vec<PathBuf>) -> Result<ServerCertificates> {
    let has = |path: &PathBuf, end: &str| path.extension().is_some_and(|e| e == end);
    let certs: Vec<&PathBuf> = files.iter().filter(|path| has(path, "cert")).collect();
    let keys: Vec<&PathBuf> = files.iter().filter(|path| has(path, "key")).collect();
    let alone = |cert: &&&PathBuf| !keys.contains(&&cert.with_extension("key"));
    if let Some(cert) = certs.iter().find(alone) {
        return Err(Error::usage(format!(
            "{} has no .key file next to it; add the key or remove the certificate",
            cert.display()
        )));
    }
    if let Some(key) = keys.iter().find(|key| !certs.contains(&&key.with_extension("cert"))) {
        return Err(Error::usage(format!(
            "{} has no .cert file next to it; add the certificate or remove the key",
            key.display()
        )));
    }
    if certs.len() > 1 {
        tracing::warn!(folder = %folder.display(), "several client certificates; the first one is used");
    }
    let client = certs.first().map(|cert| (cert.to_path_buf(), cert.with_extension("key")));
    Ok(ServerCertificates { client, ca: files.into_iter().filter(|path| has(path, "crt")).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(names: &[&str]) -> Result<ServerCertificates> {
        sort(Path::new("/d"), names.iter().map(|name| Path::new("/d").join(name)).collect())
    }

    #[test]
    fn authorities_and_our_own_certificate_are_told_apart() {
        let found = sorted(&["a.crt", "b.crt", "me.cert", "me.key"]).unwrap();
        assert_eq!(found.ca, [Path::new("/d/a.crt"), Path::new("/d/b.crt")]);
        assert_eq!(found.client, Some(("/d/me.cert".into(), "/d/me.key".into())));
        assert_eq!(sorted(&[]).unwrap(), ServerCertificates::default());
        assert!(sorted(&["me.cert"]).unwrap_err().to_string().contains("no .key"));
        assert!(sorted(&["me.key"]).unwrap_err().to_string().contains("no .cert"));
    }

    #[test]
    fn the_first_folder_that_knows_the_address_counts() {
        let [near, far] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let folders = [near.path().to_owned(), far.path().to_owned()];
        std::fs::create_dir(far.path().join("h:5000")).unwrap();
        std::fs::write(far.path().join("h:5000/ca.crt"), "").unwrap();
        assert_eq!(find(&folders, "h:5000").unwrap().ca, [far.path().join("h:5000/ca.crt")]);
        std::fs::create_dir(near.path().join("h:5000")).unwrap();
        assert_eq!(find(&folders, "h:5000").unwrap(), ServerCertificates::default());
        assert_eq!(find(&folders, "other").unwrap(), ServerCertificates::default());
    }
}
