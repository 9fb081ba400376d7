//! The authorities of the cluster's proxy for imports: they are added to the system's, in the file that every
//! TLS client reads.

use crate::pod;
use cdi::{Error, Result};
use std::path::Path;

/// Certificates (PEM); virt-controller sets the variable, and the name of the file in `SSL_CERT_FILE`.
const AUTHORITIES: &str = "CDI_PROXY_CA";
/// The variable with the file of trusted authorities.
const FILE: &str = "SSL_CERT_FILE";
/// The system's authorities, in the image of cdi-worker.
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Writes the file, if there are such authorities. Called before the first connection, and before the process
/// is confined.
pub(crate) fn write() -> Result<()> {
    let Ok(pem) = std::env::var(AUTHORITIES) else { return Ok(()) };
    let path = pod::setting(FILE)?;
    let all = join(&system(Path::new(SYSTEM))?, &pem);
    std::fs::write(&path, all)
        .map_err(|e| Error::io(format!("cannot write the authorities of the proxy to {path}"), e))
}

/// The system's authorities; empty if the file does not exist.
fn system(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(|e| Error::io(format!("cannot read {}", path.display()), e)),
    }
}

/// Joins two files, with or without a line break at the end of the first.
fn join(first: &str, second: &str) -> String {
    let between = if first.is_empty() || first.ends_with('\n') { "" } else { "\n" };
    format!("{first}{between}{second}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_authorities_stay() {
        assert_eq!(join("a", "b\n"), "a\nb\n");
        assert_eq!((join("a\n", "b"), join("", "b")), ("a\nb".to_owned(), "b".to_owned()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.pem");
        assert_eq!(system(&path).unwrap(), "");
        std::fs::write(&path, "a").unwrap();
        assert_eq!(system(&path).unwrap(), "a");
    }
}
