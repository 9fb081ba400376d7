//! Paths of hostDisks. In a manifest on this computer they may be relative to the folder of the manifest, or begin
//! with `~`; a cluster takes absolute paths alone.

use super::finding::Finding;
use super::object::Located;
use crate::error::Result;
use crate::path::absolute;
use api::vmi::VirtualMachineInstance;
use container_disk::meaning::{expand, home};
use std::path::Path;

/// Makes all paths of a VMI's hostDisks absolute; a finding for each that cannot be.
pub(super) fn locate(vmi: &mut Located<VirtualMachineInstance>) -> Vec<Finding> {
    let folder = Path::new(&*vmi.origin.file).parent().map(Path::to_owned).unwrap_or_default();
    let mut faults = vec![];
    for (i, volume) in vmi.object.spec.volumes.iter_mut().enumerate() {
        let Some(disk) = volume.host_disk.as_mut().filter(|disk| !disk.path.is_empty()) else { continue };
        match full(&folder, &disk.path) {
            Ok(path) => disk.path = path,
            Err(e) => {
                let field = format!("spec.volumes[{i}].hostDisk.path");
                let cause =
                    std::error::Error::source(&e).map(|cause| format!(": {cause}")).unwrap_or_default();
                faults.push(vmi.origin.finding(&field, format!("{e}{cause}")));
            }
        }
    }
    faults
}

fn full(folder: &Path, text: &str) -> Result<String> {
    let path = absolute(&folder.join(expand(text, home())?))?;
    Ok(path.to_str().map_or_else(|| text.to_owned(), str::to_owned))
}
