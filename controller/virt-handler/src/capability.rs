//! libvirt's capability cache of this node, copied to each pod: a VMI then starts seconds earlier.
//!
//! ```text
//!  virt-launcher node-info --cache FINDINGS/cache/{kvm,emulation}   once per node and image (init containers)
//!     └─► FINDINGS/cache/…/<key>/*.xml ──give──► ROOT/cache/qemu/capabilities/ of a pod, before its VMI starts
//! ```
//!
//! libvirt reads the files when it starts a domain, and uses one only while the ctimes of its programs, the
//! processor and the presence of KVM are unchanged. So a wrong file costs time, but never leads to a wrong
//! result. No file is ever removed from a pod.

use super::error::{Error, Result};
use super::pod::Folder;
use super::pod::confined::LAUNCHER;
use std::io::{Read as _, Write as _};
use std::path::Path;

/// Folder of libvirt's QEMU driver, below the launcher's root.
const INTO: &str = "cache/qemu/capabilities";
/// Most files, and largest file.
const MOST: (usize, u64) = (64, 8 << 20);

/// Copies the cache of this node to a launcher's folder. Existing files stay. Returns the number of copied
/// files.
pub(crate) fn copy_cache(findings: &Path, kvm: bool, root: &Folder) -> Result<usize> {
    let cache = findings.join("cache").join(if kvm { "kvm" } else { "emulation" });
    let Ok(cache) = Folder::open(&cache) else { return Ok(0) };
    let mut given = 0;
    let into = root.create_all(INTO)?;
    let there = into.names(MOST.0)?;
    for key in cache.names(MOST.0)? {
        let Ok(folder) = cache.folder(&key) else { continue };
        for name in folder.names(MOST.0)?.into_iter().filter(|name| name.ends_with(".xml")) {
            if there.contains(&name) {
                continue;
            }
            copy(&folder, &into, &name)?;
            given += 1;
        }
    }
    Ok(given)
}

fn copy(from: &Folder, into: &Folder, name: &str) -> Result<()> {
    let shown = into.display_path().join(name);
    let mut bytes = Vec::new();
    let read = from.read(name)?.take(MOST.1 + 1).read_to_end(&mut bytes);
    read.map_err(|e| Error::io(format!("cannot read {}", from.display_path().join(name).display()), e))?;
    if bytes.len() as u64 > MOST.1 {
        return Err(Error::refused(format!(
            "{} is too large for a capability file of libvirt",
            from.display_path().join(name).display()
        )));
    }
    let partial = format!("{name}.{LAUNCHER}.partial");
    into.remove(&partial)?;
    let written = into.create(&partial)?.write_all(&bytes);
    written.map_err(|e| Error::io(format!("cannot write {}", shown.display()), e))?;
    match into.rename(&partial, name) {
        // The launcher was quicker, and has written the file itself.
        Err(_) if into.names(MOST.0)?.iter().any(|there| there == name) => into.remove(&partial),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_pod_is_given_what_fits_its_accelerator_and_keeps_what_it_has() {
        let place = tempfile::tempdir().unwrap();
        let (findings, root) = (place.path().join("findings"), place.path().join("root"));
        for (kind, name) in
            [("kvm", "a.xml"), ("emulation", "b.xml"), ("emulation", "c.xml"), ("emulation", "d.tmp")]
        {
            let folder = findings.join("cache").join(kind).join("0123456789abcdef");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), kind).unwrap();
        }
        fs::create_dir_all(root.join(INTO)).unwrap();
        fs::write(root.join(INTO).join("c.xml"), "its own").unwrap();
        let root_folder = Folder::open(&root).unwrap();
        assert_eq!(copy_cache(&findings, false, &root_folder).unwrap(), 1);
        let mut names: Vec<_> = root_folder.folder(INTO).unwrap().names(9).unwrap();
        names.sort();
        assert_eq!(names, ["b.xml", "c.xml"]);
        assert_eq!(fs::read_to_string(root.join(INTO).join("c.xml")).unwrap(), "its own");
        assert_eq!(copy_cache(&place.path().join("none"), false, &root_folder).unwrap(), 0);
    }

    #[test]
    fn a_folder_that_is_a_link_is_not_written_to() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let findings = place.path().join("cache/emulation/k");
        fs::create_dir_all(&findings).unwrap();
        fs::write(findings.join("a.xml"), "x").unwrap();
        let root = place.path().join("root");
        fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), root.join("cache")).unwrap();
        let said = copy_cache(place.path(), false, &Folder::open(&root).unwrap()).unwrap_err();
        assert!(said.to_string().contains("link"), "{said}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
