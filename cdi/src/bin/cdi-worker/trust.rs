//! The authorities of the proxy that the cluster has for imports: beside the system's, in the file where everything that speaks TLS
//! looks for whom it trusts.

use crate::pod;
use cdi::{Error, Result};
use std::path::Path;

/// Certificates (PEM); virt-controller sets it, with the name of the file in `SSL_CERT_FILE`.
const AUTHORITIES: &str = "CDI_PROXY_CA";
/// The file that programs look into.
const FILE: &str = "SSL_CERT_FILE";
/// The system's authorities, as the image of cdi-worker has them.
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Writes the file, where there are any. Before the first connection, and before the process is confined.
pub(crate) fn write() -> Result<()> {
    let Ok(pem) = std::env::var(AUTHORITIES) else { return Ok(()) };
    let path = pod::setting(FILE)?;
    let all = join(&system(Path::new(SYSTEM))?, &pem);
    std::fs::write(&path, all)
        .map_err(|e| Error::io(format!("cannot write the authorities of the proxy to {path}"), e))
}

/// Those of the system; none where it has none.
fn system(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(|e| Error::io(format!("cannot read {}", path.display()), e)),
    }
}

/// One file after the other, whether or not the first ends with a line break.
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
