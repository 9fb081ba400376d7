//! The digest of the unchanged file.

use super::Digest;
use crate::{Error, Result};
use sha2::{Digest as _, Sha256};
use std::io::Read;

/// Hashes `head` and the rest behind it; also returns the length of the rest.
pub(super) fn of(head: &[u8], mut rest: Box<dyn Read + Send>, name: &str) -> Result<(Digest, u64)> {
    let mut hash = Sha256::new();
    hash.update(head);
    let mut buf = vec![0; 1 << 20];
    let mut read = 0;
    loop {
        match rest.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => {
                hash.update(&buf[..n]);
                read += n as u64;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io(format!("cannot read {name} to its end"), e)),
        }
    }
    let value = hex::encode(hash.finalize());
    Ok((Digest { algorithm: "sha256", of: "file", value }, read))
}
