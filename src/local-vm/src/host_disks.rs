//! Formats of the user's disk files (hostDisks), kept for a file and not for its path.
//!
//! ```text
//!  at the last start    now                                  format
//!  raw                  the same file, of the same size      raw, whatever its first bytes are: they may be its guest's
//!  raw                  another file, or of another size     raw, unless it begins as a qcow2 image: that is refused
//!  qcow2                a file                               by its first bytes, which a guest of a qcow2 cannot write
//! ```
//!
//! A raw disk that became a qcow2 is refused even under a new inode: a copy of a disk has the bytes of its guest, too, and some
//! network file systems number their files anew. `coracle run`, where the user names the file, takes it.
//!
//! A guest changes neither the size of a raw file nor its inode and time of birth. A file that was written over in place
//! (`cp`, `qemu-img convert`) keeps both, and is noticed by its size.

use crate::error::{Error, Result};
use crate::host_file::{HostDisk, HostDisks, HostFile, files};
use crate::place::Home;
use crate::raw_disks;
use crate::record::{Record, Vm};
use api::launcher::{Format, Source};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The hostDisks of a record, whose files were `files` before their formats were told.
pub fn recorded(record: &Record, files: BTreeMap<String, (PathBuf, HostFile)>) -> HostDisks {
    let formats = &record.sync.resolved.volumes;
    let disks = files.into_iter().filter_map(|(volume, (_, file))| match formats.get(&volume) {
        Some(Source::File { format, .. }) => Some((volume, HostDisk { file, format: *format })),
        _ => None,
    });
    disks.collect()
}

/// Adds the files that the launcher has made since: they are raw. True if there are any.
pub fn add_made(record: &mut Record) -> Result<bool> {
    let made = files(&record.sync.vmi)?.into_iter().filter_map(|(volume, (_, file))| {
        let is_made =
            !record.sync.resolved.volumes.contains_key(&volume) && !record.host_disks.contains_key(&volume);
        is_made.then_some((volume, HostDisk { file, format: Format::Raw }))
    });
    let made: HostDisks = made.collect();
    let any = !made.is_empty();
    record.host_disks.extend(made);
    Ok(any)
}

/// Tells the formats of a record's hostDisks again, before its VM starts again.
pub fn refresh(record: &mut Record, judge: impl Fn(&Path) -> Result<Format>) -> Result<()> {
    let mut now = HostDisks::new();
    for (volume, (path, file)) in files(&record.sync.vmi)? {
        let source = record.sync.resolved.volumes.get_mut(&volume);
        let format = match (record.host_disks.get(&volume), &source) {
            (Some(known), _) => known.format_of(&path, &file, &judge)?,
            // A record of an earlier version says nothing about the file.
            (None, Some(Source::File { format, .. })) => *format,
            // The launcher made it, or makes it now.
            (None, _) => Format::Raw,
        };
        if let Some(Source::File { format: told, .. }) = source {
            *told = format;
        }
        now.insert(volume, HostDisk { file, format });
    }
    record.host_disks = now;
    Ok(())
}

/// True if a VM has used the very file at this path as a raw disk. `unreadable` gets the first record that cannot be read.
pub fn is_known_raw(home: &Home, path: &Path, unreadable: &mut Option<Error>) -> Result<bool> {
    let Some(now) = HostFile::find(path)? else { return Ok(false) };
    let records = Vm::all(home)?
        .into_iter()
        .map(|(_, vm)| vm.and_then(|vm| raw_disks::of_record(&vm.record.sync, &vm.record.host_disks)));
    // The kept ones are read last: a record that is removed meanwhile has its disks there.
    for disks in records.chain(std::iter::once_with(|| raw_disks::kept(home))) {
        match disks {
            Err(e) => *unreadable = unreadable.take().or(Some(e)),
            Ok(disks) if disks.iter().any(|disk| disk.file.is_unchanged(&now)) => return Ok(true),
            Ok(_) => {}
        }
    }
    Ok(false)
}

#[cfg(test)]
#[path = "host_disks_tests.rs"]
mod tests;
