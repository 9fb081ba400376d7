//! Images on their way to a machine: pulled once into the store, their disk unpacked once, their kernel too.
//!
//! ```text
//!  name ──policy──► store (registry, mirrors, fail-over: container_disk's)
//!                     │ the manifest for this computer
//!                     ├──► disks/sha256-LAYER…/disk.raw|disk.qcow2    by the engine: checked, sparse, whole or not at all
//!                     └──► disks/sha256-MANIFEST/boot-…               kernel and initrd, checked to their layer's end
//! ```
//!
//! What is under a final name there is never written again; machines read it below overlays of their own.

use crate::ui::{self, Show};
use crate::vm::place::{Home, Lock, make};
use api::launcher::{Format, Kernel};
use cdi::convert::{Keep, Request, prepare};
use cdi::journal::Mode;
use cdi::plan::{Output, Wishes};
use cdi::run::watch::Watch;
use cdi::source::image::architecture;
use cdi::source::{Named, Options, image};
use cdi::{Error, Kind, Result};
use container_disk::image::{Config, choose};
use container_disk::locate::{self, Boot};
use container_disk::manifest::{Content, Document, Manifest};
use container_disk::open::{Found, Places};
use container_disk::reference::{Local, Remote};
use container_disk::registry::copy;
use container_disk::{Digest, Name};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where images come from, and where what is in them goes.
#[derive(Clone)]
pub(crate) struct Images {
    /// Registries and the store.
    pub(crate) places: Arc<Places>,
    /// Where disks are kept.
    pub(crate) home: Home,
    /// How progress is shown.
    pub(crate) show: Show,
}

/// An image that is here.
pub(crate) struct Image {
    /// What a person calls it.
    pub(crate) name: Name,
    /// Where it is read from.
    found: Found,
    /// Its manifest.
    document: Document,
    /// Its config.
    config: Config,
}

/// When an image is asked for anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Each time.
    Always,
    /// Where the store does not have it.
    IfNotPresent,
    /// Not at all.
    Never,
}

impl Policy {
    /// What a spec says, or else what the image's name says.
    pub(crate) fn of(word: Option<&str>, image: &str) -> Result<Policy> {
        match word {
            Some("Always") => Ok(Policy::Always),
            Some("IfNotPresent") => Ok(Policy::IfNotPresent),
            Some("Never") => Ok(Policy::Never),
            Some("") | None => {
                let image = image.strip_prefix("docker://").unwrap_or(image);
                let moves = image.ends_with(":latest") || !image.contains([':', '@']);
                Ok(if moves { Policy::Always } else { Policy::IfNotPresent })
            }
            Some(other) => {
                let what = format!("imagePullPolicy is Always, IfNotPresent or Never, not {other:?}");
                Err(Error::refused(what))
            }
        }
    }
}

/// The image that a spec means: with a scheme as everywhere; `HOST/REPO` where the first part can only be a host; else
/// a name in the store.
pub(crate) fn name_of(text: &str) -> Result<Name> {
    if let Some(name) = Name::with_scheme(text) {
        return Ok(name?);
    }
    match text.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => {
            Ok(Name::Registry(Remote::parse(text)?))
        }
        _ => Ok(Name::Store(Local::parse(text)?)),
    }
}

/// What an image of a registry is called in the store: with its host, so that two registries are two images.
fn kept_as(remote: &Remote) -> Result<Local> {
    let host = remote.host.replace([':', '[', ']'], "-");
    let tag = match (&remote.digest, &remote.tag) {
        (Some(digest), _) => digest.to_string().replace(':', "-"),
        (None, Some(tag)) => tag.clone(),
        (None, None) => "latest".to_owned(),
    };
    Ok(Local::parse(&format!("{}/{}:{tag}", host.trim_matches('-'), remote.repository))?)
}

impl Images {
    /// Brings an image here.
    pub(crate) fn bring(&self, text: &str, policy: Policy) -> Result<Image> {
        let name = name_of(text)?;
        let Name::Registry(remote) = &name else { return self.open(&name, name.clone()) };
        let local = kept_as(remote)?;
        let here = self.places.store()?.has_name(&local.to_string())?;
        let pull = match policy {
            Policy::Always => true,
            Policy::IfNotPresent => !here,
            Policy::Never if here => false,
            Policy::Never => {
                let what = format!("{name} is not in the store, and its imagePullPolicy is Never");
                return Err(Error::new(Kind::NotFound, what));
            }
        };
        if pull {
            self.pull(&name, &local).map_err(|e| match here {
                true => e.with_hint(
                    "the store has it from before: use imagePullPolicy IfNotPresent (--pull missing)",
                ),
                false => e,
            })?;
        }
        self.open(&Name::Store(local), name)
    }

    fn pull(&self, name: &Name, local: &Local) -> Result<()> {
        let found = self.places.find(name)?;
        let goal = self.places.goal(&Name::Store(local.clone()))?;
        let options = copy::Options { arch: Some(architecture().to_owned()), parallel: 3, judge: true };
        let progress = Arc::new(copy::Progress::default());
        let bar = ui::Progress::of_blobs("pulling", &progress, self.show);
        let copied =
            copy::copy(&*found.place, &found.which, &*goal.sink, goal.tag.as_deref(), &options, &progress);
        drop(bar);
        let copied = copied?;
        goal.sink.close()?;
        tracing::info!("{name}: {} blobs, {} bytes", copied.moved, copied.bytes);
        Ok(())
    }

    fn open(&self, name: &Name, shown: Name) -> Result<Image> {
        let found = self.places.find(name)?;
        let document = choose::manifest(&*found.place, &found.which, architecture())?;
        let config = Config::read(&*found.place, manifest(&shown, &document)?)?;
        Ok(Image { name: shown, found, document, config })
    }

    /// The disk of an image, unpacked.
    pub(crate) fn disk(&self, image: &Image, path: Option<&str>) -> Result<(PathBuf, Format)> {
        let index = self.folder(&image.document.digest)?.join(format!("disk{}", suffix(path)));
        if let Some(known) = known(&index) {
            return Ok(known);
        }
        let _lock = Lock::wait(&index.with_extension("lock"))?;
        if let Some(known) = known(&index) {
            return Ok(known);
        }
        let target = self.unpack(image, path)?;
        let bytes = format!("{}\n", target.display());
        crate::vm::record::write_whole(&index, bytes.as_bytes())?;
        known(&index).ok_or_else(|| Error::failed(format!("{} vanished while it was made", target.display())))
    }

    /// Unpacks the disk, unless another image has brought the same layer.
    fn unpack(&self, image: &Image, path: Option<&str>) -> Result<PathBuf> {
        let how = locate::Options { path: path.map(clean), one_pass: true, ..locate::Options::default() };
        let located = locate::disk(&*image.found.place, manifest(&image.name, &image.document)?, &how)?;
        let folder = self.folder(&located.digest)?;
        let inside = located.path.clone();
        drop(located);
        let name = inside.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_");
        let target = folder.join(&name);
        let _lock = Lock::wait(&folder.join(format!("{name}.lock")))?;
        if target.is_file() {
            return Ok(target);
        }
        let watch = Arc::new(Watch::default());
        let request = self.request(image, &target, Some(inside));
        let prepared = prepare(request, &watch)?;
        let bar = ui::Progress::of(&watch, self.show);
        let report = prepared.run(&watch);
        drop(bar);
        let report = report?;
        tracing::info!("{}", report.sentence());
        read_only(&target)?;
        Ok(target)
    }

    fn request(&self, image: &Image, target: &Path, path: Option<String>) -> Request {
        let options = Options {
            places: Arc::clone(&self.places),
            image: image::Options { path, ..image::Options::default() },
            ..Options::default()
        };
        let source = match &image.name {
            // It was brought into the store, under the name that it has there.
            Name::Registry(remote) => kept_as(remote).map_or_else(|_| image.name.clone(), Name::Store),
            other => other.clone(),
        };
        Request {
            source: Named::image_of(source),
            target: target.display().to_string(),
            source_format: None,
            keep: Keep::Yes,
            options,
            output: Output::Raw,
            checksum: None,
            wishes: wishes(),
            journal_every: None,
        }
    }

    /// What the labels of an image say of a kernel in it.
    pub(crate) fn boot(image: &Image) -> Option<Boot> {
        locate::boot(&image.config)
    }

    /// Whether an image has a disk.
    pub(crate) fn has_disk(image: &Image) -> Result<bool> {
        let how = locate::Options { one_pass: true, ..locate::Options::default() };
        match locate::disk(&*image.found.place, manifest(&image.name, &image.document)?, &how) {
            Ok(_) => Ok(true),
            Err(e) if matches!(e.kind(), container_disk::Kind::Refused | container_disk::Kind::NotFound) => {
                Ok(false)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// A kernel and an initrd of an image, as files.
    pub(crate) fn kernel(
        &self,
        image: &Image,
        kernel: &str,
        initrd: Option<&str>,
        args: Option<String>,
    ) -> Result<Kernel> {
        let folder = self.folder(&image.document.digest)?;
        let _lock = Lock::wait(&folder.join("boot.lock"))?;
        let file = |path: &str| self.boot_file(image, &folder, path);
        Ok(Kernel { kernel: file(kernel)?, initrd: initrd.map(file).transpose()?, args })
    }

    fn boot_file(&self, image: &Image, folder: &Path, path: &str) -> Result<PathBuf> {
        let target = folder.join(format!("boot{}", suffix(Some(path))));
        if target.is_file() {
            return Ok(target);
        }
        let how = locate::Options { path: Some(clean(path)), one_pass: true, ..locate::Options::default() };
        let mut located = locate::disk(&*image.found.place, manifest(&image.name, &image.document)?, &how)?;
        let mut partial = target.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let cannot = |e| Error::io(format!("cannot write {}", partial.display()), e);
        let mut file = std::fs::File::create(&partial).map_err(cannot)?;
        // The end of the stream tells whether the layer is what was promised.
        std::io::copy(&mut located.stream()?, &mut file).map_err(cannot)?;
        file.flush().and_then(|()| file.sync_all()).map_err(cannot)?;
        read_only(&partial)?;
        std::fs::rename(&partial, &target).map_err(cannot)?;
        Ok(target)
    }

    fn folder(&self, digest: &Digest) -> Result<PathBuf> {
        let folder = self.home.disks().join(digest.to_string().replace(':', "-"));
        make(&folder)?;
        Ok(folder)
    }
}

/// What the engine is wished for a machine's disk.
pub(super) fn wishes() -> Wishes {
    Wishes {
        checksum: false,
        verify: false,
        preallocate: false,
        threads: std::thread::available_parallelism().map_or(2, usize::from),
        memory: 256 << 20,
        beside: vec![],
        max_size: 16 << 40,
        resize: None,
        resume: Mode::Auto,
        connections: 8,
    }
}

/// How the bytes of a file are laid out that a guest has not written to yet.
pub(crate) fn format_of(path: &Path) -> Result<disk_format::Format> {
    use std::io::Read as _;
    let cannot = |e| Error::io(format!("cannot read {}", path.display()), e);
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut head = vec![];
    file.take(disk_format::Format::HEAD as u64).read_to_end(&mut head).map_err(cannot)?;
    Ok(disk_format::Format::probe(&head))
}

/// The format in the words of launchers, where a machine can have such a disk.
pub(crate) fn usable(path: &Path) -> Result<Format> {
    match format_of(path)? {
        disk_format::Format::Raw | disk_format::Format::Iso => Ok(Format::Raw),
        disk_format::Format::Qcow2 => Ok(Format::Qcow2),
        other => {
            let what = format!(
                "{} is a {} image; a machine can have raw and qcow2 disks: coracle convert makes one of it",
                path.display(),
                other.name()
            );
            Err(Error::refused(what))
        }
    }
}

/// The disk that this note leads to, if it is still there.
fn known(index: &Path) -> Option<(PathBuf, Format)> {
    let path = PathBuf::from(std::fs::read_to_string(index).ok()?.trim_end());
    let format = usable(&path).ok()?;
    Some((path, format))
}

fn manifest<'a>(name: &Name, document: &'a Document) -> Result<&'a Manifest> {
    match &document.content {
        Content::Manifest(manifest) => Ok(manifest),
        Content::Index(_) => Err(Error::refused(format!("{name} is an index where an image was expected"))),
    }
}

/// `/disk/a.img` as images know it.
fn clean(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

/// Part of a file's name for a path in an image.
fn suffix(path: Option<&str>) -> String {
    path.map_or_else(String::new, |path| {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        // Two paths that differ only in signs are two files.
        let sum = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let tail: String =
            path.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().map(plain).collect();
        format!("-{tail}-{sum:016x}")
    })
}

fn read_only(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o400))
        .map_err(|e| Error::io(format!("cannot protect {}", path.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_is_not_said_follows_the_name() {
        for (image, policy) in [
            ("registry.example/os", Policy::Always),
            ("registry.example/os:latest", Policy::Always),
            ("docker://registry.example/os:12", Policy::IfNotPresent),
            ("docker://registry.example/os", Policy::Always),
            ("registry.example:5000/os", Policy::IfNotPresent),
        ] {
            assert_eq!(Policy::of(None, image).unwrap(), policy, "{image}");
        }
        assert_eq!(Policy::of(Some("Never"), "x:latest").unwrap(), Policy::Never);
        assert_eq!(Policy::of(Some("never"), "x").unwrap_err().kind(), Kind::Refused);
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

    #[test]
    fn two_registries_are_two_images_in_the_store() {
        let kept = |text: &str| kept_as(&Remote::parse(text).unwrap()).unwrap().to_string();
        assert_eq!(kept("registry.example:5000/a/os:1"), "registry.example-5000/a/os:1");
        assert_eq!(kept("registry.example/os"), "registry.example/os:latest");
        assert_eq!(kept("[::1]:5000/os"), "1--5000/os:latest");
        let digest = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(kept(&format!("h/os@{digest}")), format!("h/os:{}", digest.replace(':', "-")));
    }
}
