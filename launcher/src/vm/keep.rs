//! Files for a new launcher: the VM to run, and its last state.

use super::handle::judge;
use crate::error::{Error, ErrorKind, Result};
use crate::hypervisor::embed::write_durable;
use crate::root::Root;
use api::launcher::{State, Sync};
use api::machine::Machine;
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

/// Content of the record of a launcher that receives its VM. That of a source is the identity of the migration.
pub(super) const RECEPTION: &str = "reception";

/// Records that the VM may be at another launcher from now on. The record outlives this launcher and its host.
pub(super) fn migration(root: &Root, id: &str) -> Result<()> {
    let path = root.migration();
    let cannot = || format!("cannot record the migration in {}", path.display());
    write_durable(&path, id.as_bytes()).map_err(|e| Error::io(cannot(), e))
}

/// Removes that record: the VM has stayed.
pub(super) fn no_migration(root: &Root) {
    match fs::remove_file(root.migration()) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("cannot remove {}: {e}", root.migration().display());
        }
        _ => {}
    }
}

/// True if the VM may be at another launcher.
pub(super) fn may_have_moved(root: &Root) -> bool {
    // A record that cannot be read counts.
    root.migration().symlink_metadata().map_or_else(|e| e.kind() != io::ErrorKind::NotFound, |_| true)
}

/// True if the record is that of a launcher that receives its VM.
pub(super) fn is_reception(root: &Root) -> bool {
    fs::read_to_string(root.migration()).is_ok_and(|text| text == RECEPTION)
}

/// The checked spec of the VM of an earlier launcher.
pub(super) fn machine(sync: &Sync) -> Result<Machine> {
    judge(&sync.vmi).map_err(|faults| {
        let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Error::refused(format!("the VM of an earlier launcher is not understood: {}", all.join("; ")))
    })
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
