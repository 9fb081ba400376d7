//! Files for a new launcher: the VM to run, and its last state.

use crate::error::{Error, ErrorKind, Result};
use crate::hypervisor::embed::write_durable;
use crate::root::Root;
use api::launcher::{State, Sync};
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::Path;

/// Writes the VM to run. Only our own user can read the folder: the file holds passwords.
pub(super) fn sync(root: &Root, sync: &Sync) -> Result<()> {
    let cannot = || format!("cannot keep the VM in {}", root.vm().display());
    let text = serde_json::to_vec(sync).map_err(|e| Error::new(ErrorKind::Failed, cannot()).because(e))?;
    // Without the file a new launcher could not continue.
    write_durable(&root.vm(), &text).map_err(|e| Error::io(cannot(), e))
}

/// The VM of an earlier launcher, if there was one.
pub(super) fn kept(root: &Root) -> Result<(Option<Sync>, Option<State>)> {
    // The state is only a record, so a broken one is treated as missing.
    let state = read(&root.state()).unwrap_or_else(|e| {
        tracing::warn!("{}", e.chain());
        None
    });
    Ok((read(&root.vm())?, state))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let cannot = || format!("cannot read {}, which an earlier launcher wrote", path.display());
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(cannot(), e)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|e| Error::refused(cannot()).because(e))
}
