//! Images of VMs: pulled once into the store, their disk and kernel unpacked once.
//!
//! ```text
//!  name ──policy──► store (registry, mirrors, fail-over: container_disk's)
//!                     │ the manifest for this computer
//!                     ├──► disks/sha256-MANIFEST/HASH.disk    by the engine: checked, sparse, whole or not at all
//!                     └──► disks/sha256-MANIFEST/HASH.boot    kernel and initrd, checked to their layer's end
//! ```
//!
//! The hash is that of the path in the image (`unpacked.rs`).
//!
//! A name is resolved once in a command: the first lookup gives the digest of its manifest, and all later
//! steps use that digest, so that a tag which moves meanwhile cannot mix two images in one VM.
//!
//! A file under its final name there is never written again; VMs use it below overlays of their own. None of
//! it is read by this process: each arrow is a job of a process of its own ([`worker`]), which may write into
//! the folder of its image alone.

use crate::Notify;
use crate::error::{Error, ErrorKind, Result};
use crate::place::Home;
use crate::worker::{self, ImageInfo, PinnedImage, Task, folder_of, within};
use api::launcher::{Format, Kernel};
use container_disk::Name;
use container_disk::locate::Boot;
use container_disk::reference::{Local, Remote};
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Images of one command, with the store and folders that they go to.
pub struct Images {
    /// Path of the file with settings of registries.
    pub registries: Option<PathBuf>,
    /// Base folders of disks.
    pub home: Home,
    /// True if jobs show no progress.
    pub is_quiet: bool,
    /// Receiver of messages for the user.
    pub notify: Notify,
    /// Images that names were resolved to in this command.
    found: RefCell<HashMap<Name, Image>>,
}

/// An image in the store.
#[derive(Clone)]
pub struct Image {
    /// Name as the user wrote it.
    pub name: Name,
    /// Place and digest that its content is read from.
    here: PinnedImage,
    /// Kernel, initrd and command line, by its labels.
    boot: Option<Boot>,
    /// True if its registry was asked in this command.
    asked: bool,
}

/// Policy for asking the registry again (`imagePullPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Always,
    /// Only if the store does not have the image.
    IfNotPresent,
    Never,
}

impl Policy {
    /// The policy of a spec. Default: `Always` for an image of a registry with the tag `latest` or without tag and digest,
    /// else `IfNotPresent`.
    pub fn parse(word: Option<&str>, image: &str) -> Result<Policy> {
        match word {
            Some("Always") => Ok(Policy::Always),
            Some("IfNotPresent") => Ok(Policy::IfNotPresent),
            Some("Never") => Ok(Policy::Never),
            Some("") | None => {
                // A host may have a port: only the parsed name says whether there is a tag.
                let moves = match name_of(image) {
                    Ok(Name::Registry(remote)) => {
                        remote.digest.is_none() && remote.tag.is_none_or(|tag| tag == "latest")
                    }
                    _ => false,
                };
                Ok(if moves { Policy::Always } else { Policy::IfNotPresent })
            }
            Some(other) => {
                let what = format!("imagePullPolicy is Always, IfNotPresent or Never, not {other:?}");
                Err(Error::refused(what))
            }
        }
    }
}

/// Image name of a spec: with a scheme; `HOST/REPO` if the first part can only be a host; else a name in the
/// store.
pub fn name_of(text: &str) -> Result<Name> {
    if let Some(name) = Name::with_scheme(text) {
        return Ok(name?);
    }
    match Remote::by_host(text) {
        Some(remote) => Ok(Name::Registry(remote?)),
        None => Ok(Name::Store(Local::parse(text)?)),
    }
}

impl Images {
    /// An empty list; nothing is resolved yet.
    pub fn new(registries: Option<PathBuf>, home: Home, is_quiet: bool, notify: Notify) -> Images {
        Images { registries, home, is_quiet, notify, found: RefCell::default() }
    }

    /// Pulls an image if its policy asks for that. The first lookup of a name counts for all later ones.
    pub fn bring(&self, name: Name, policy: Policy) -> Result<Image> {
        let known = self.found.borrow().get(&name).cloned();
        let is_enough =
            |known: &Image| known.asked || policy != Policy::Always || !matches!(name, Name::Registry(_));
        if let Some(known) = known.as_ref().filter(|known| is_enough(known)) {
            return Ok(known.clone());
        }
        let image = self.look_up(name.clone(), policy)?;
        if known.is_some_and(|known| known.here.digest != image.here.digest) {
            let what = format!(
                "{name} is wanted as the store has it and as its registry has it now, which are two images; \
                 write the same imagePullPolicy wherever the manifest names it"
            );
            return Err(Error::refused(what));
        }
        self.found.borrow_mut().insert(name, image.clone());
        Ok(image)
    }

    fn look_up(&self, name: Name, policy: Policy) -> Result<Image> {
        let Name::Registry(remote) = &name else { return self.open(&name, name.clone(), None) };
        let store = Name::Store(remote.stored());
        // Any image may have the name in the store: a digest is looked for by itself.
        let digest = remote.digest.map(|digest| digest.to_string());
        let here: bool = self.ask(Task::Here { image: store.to_string(), digest: digest.clone() })?;
        let pull = match policy {
            Policy::Always => true,
            Policy::IfNotPresent => !here,
            Policy::Never if here => false,
            Policy::Never => {
                let what = format!("{name} is not in the store, and its imagePullPolicy is Never");
                return Err(Error::new(ErrorKind::NotFound, what));
            }
        };
        if !pull {
            return Ok(Image { asked: false, ..self.open(&store, name, digest)? });
        }
        let pulled: Result<String> = self.ask(Task::Pull { from: name.to_string(), to: store.to_string() });
        let digest = pulled.map_err(|e| match here {
            true => {
                e.with_hint("the store has it from before: use imagePullPolicy IfNotPresent (--pull missing)")
            }
            false => e,
        })?;
        self.open(&store, name, Some(digest))
    }

    /// Reads the labels of an image. One that was just pulled is opened by its digest, since its name in the
    /// store may have moved again, and so is one whose name has a digest.
    fn open(&self, place: &Name, name: Name, pulled: Option<String>) -> Result<Image> {
        let (image, asked) = (place.to_string(), pulled.is_some());
        let ImageInfo { digest, boot } = self.ask(Task::Look { image: image.clone(), digest: pulled })?;
        Ok(Image { name, here: PinnedImage { image, digest }, boot, asked })
    }

    /// Path and format of an image's disk, unpacked on first use.
    pub fn disk(&self, image: &Image, path: Option<&str>) -> Result<(PathBuf, Format)> {
        let job = |folder| Task::Disk { image: image.here.clone(), path: path.map(clean), folder };
        let path = self.unpacked(image, job)?;
        let format = usable(&path)?;
        Ok((path, format))
    }

    /// Format of a disk file of the user; an error if VMs cannot use it.
    pub fn judge(&self, path: &Path) -> Result<Format> {
        self.ask(Task::Judge { path: path.to_owned() })
    }

    /// Kernel, initrd and command line, by the labels of an image.
    pub fn boot(image: &Image) -> Option<Boot> {
        image.boot.clone()
    }

    /// True if an image contains a disk.
    pub fn has_disk(&self, image: &Image) -> Result<bool> {
        self.ask(Task::HasDisk { image: image.here.clone() })
    }

    /// Kernel and initrd of an image, as files.
    pub fn kernel(
        &self,
        image: &Image,
        kernel: &str,
        initrd: Option<&str>,
        args: Option<String>,
    ) -> Result<Kernel> {
        let file = |path: &str| {
            let job = |folder| Task::Boot { image: image.here.clone(), path: clean(path), folder };
            self.unpacked(image, job)
        };
        Ok(Kernel { kernel: file(kernel)?, initrd: initrd.map(file).transpose()?, args })
    }

    /// Runs a job that unpacks a file into the folder of its image, and makes the file read-only.
    fn unpacked(&self, image: &Image, job: impl FnOnce(PathBuf) -> Task) -> Result<PathBuf> {
        let folder = folder_of(&self.home.disks(), &image.here)?;
        self.home.make(&folder)?;
        let path = within(&folder, self.ask(job(folder.clone()))?)?;
        read_only(&path)?;
        Ok(path)
    }

    /// Runs a job in a confined process.
    pub(super) fn ask<T: DeserializeOwned>(&self, job: Task) -> Result<T> {
        worker::run_job(self.registries.as_deref(), self.is_quiet, job)
    }
}

/// Format of a file that no guest has written to yet. An empty file is refused.
pub fn format_of(path: &Path) -> Result<disk_format::Format> {
    Ok(disk_format::Format::probe(&head_of(path)?))
}

/// Name of the format, archive or compressed stream that a file begins like; `None` for a raw disk. An empty file is refused.
pub fn disguise_of(path: &Path) -> Result<Option<String>> {
    let head = head_of(path)?;
    if let Some(layer) = cdi::filter::detect(&head) {
        return Ok(Some(layer.to_string()));
    }
    Ok(match disk_format::Format::probe(&head) {
        disk_format::Format::Raw => None,
        format => Some(format.to_string()),
    })
}

fn head_of(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read as _;
    let cannot = |e| Error::io(format!("cannot read {}", path.display()), e);
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut head = vec![];
    file.take(disk_format::Format::HEAD as u64).read_to_end(&mut head).map_err(cannot)?;
    if head.is_empty() {
        return Err(cdi::plan::empty(&path.display().to_string()).into());
    }
    Ok(head)
}

/// Format of a disk in the terms of the launcher; an error if VMs cannot use it.
pub fn usable(path: &Path) -> Result<Format> {
    let head = head_of(path)?;
    if let Some(layer) = cdi::filter::detect(&head) {
        let what = format!(
            "{path} is {layer}, and a guest would write into it as into a raw disk: unpack it with coracle convert {path} \
             disk.img",
            path = path.display()
        );
        return Err(Error::refused(what));
    }
    match disk_format::Format::probe(&head) {
        disk_format::Format::Raw => {
            match cdi::filter::refuse_raw(&path.display().to_string(), &[], 0, None) {
                None => Ok(Format::Raw),
                Some(what) => Err(Error::refused(what).with_hint(format!(
                    "'coracle run' with '--raw {}' runs it as a raw disk",
                    path.display()
                ))),
            }
        }
        disk_format::Format::Iso => Ok(Format::Raw),
        disk_format::Format::Qcow2 => Ok(Format::Qcow2),
        other => {
            let what = format!(
                "{path} is a {other} image, but the disks of a VM are raw or qcow2: {}",
                other.remedy(&path.display().to_string(), "disk.qcow2", &[]),
                path = path.display(),
            );
            Err(Error::refused(what))
        }
    }
}

/// The path as images have it, without a leading slash.
fn clean(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

fn read_only(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    // The path cannot have become a link: the unpacking process cannot create one, and the folder is this
    // user's own.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o400))
        .map_err(|e| Error::io(format!("cannot protect {}", path.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_disk_is_not_taken_for_a_raw_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        for (head, layer) in [
            (&[0x1f, 0x8b, 0x08, 0][..], "gzip"),
            (&[0xfd, b'7', b'z', b'X', b'Z', 0, 0][..], "xz"),
            (&[0x28, 0xb5, 0x2f, 0xfd, 0][..], "zstd"),
        ] {
            std::fs::write(&path, [head, &[0; 4096]].concat()).unwrap();
            let refused = usable(&path).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Refused);
            assert!(refused.to_string().contains(&format!("is {layer}, and a guest")), "{refused}");
        }
        std::fs::write(&path, [&b"KDMV"[..], &[0; 4096]].concat()).unwrap();
        let refused = usable(&path).unwrap_err().to_string();
        // coracle convert reads no vmdk, and would say the same.
        let said = format!("qemu-img convert -O qcow2 {} disk.qcow2", path.display());
        assert!(refused.contains(&said) && !refused.contains("coracle convert"), "{refused}");
        std::fs::write(&path, [0; 4096]).unwrap();
        assert_eq!(usable(&path).unwrap(), Format::Raw);
    }

    #[test]
    fn a_policy_that_is_not_said_follows_the_name() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (image, policy) in [
            ("registry.example/os", Policy::Always),
            ("registry.example/os:latest", Policy::Always),
            ("docker://registry.example/os:12", Policy::IfNotPresent),
            ("docker://registry.example/os", Policy::Always),
            ("registry.example:5000/os", Policy::Always),
            ("docker://localhost:5000/os", Policy::Always),
            ("docker://[::1]:5000/os", Policy::Always),
            ("docker://localhost:5000/os:latest", Policy::Always),
            ("docker://localhost:5000/os:1", Policy::IfNotPresent),
            (&format!("docker://h/os@{digest}"), Policy::IfNotPresent),
            (&format!("docker://localhost:5000/os:latest@{digest}"), Policy::IfNotPresent),
        ] {
            assert_eq!(Policy::parse(None, image).unwrap(), policy, "{image}");
        }
        assert_eq!(Policy::parse(Some("Never"), "x:latest").unwrap(), Policy::Never);
        assert_eq!(Policy::parse(Some("never"), "x").unwrap_err().kind(), ErrorKind::Refused);
    }

    #[test]
    fn a_name_with_a_host_is_a_registrys_and_any_other_the_stores() {
        for (text, name) in [
            ("registry.example/os:1", "docker://registry.example/os:1"),
            ("localhost/os", "docker://localhost/os:latest"),
            ("h:5000/os", "docker://h:5000/os:latest"),
            ("docker://h/os:1", "docker://h/os:1"),
            ("group/os:1", "store:group/os:1"),
            ("os", "store:os:latest"),
            ("oci:dir", "oci:dir"),
        ] {
            assert_eq!(name_of(text).unwrap().to_string(), name, "{text}");
        }
    }
}
