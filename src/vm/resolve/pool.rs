//! Disks that outlive machines: what claims and DataVolumes are on a laptop.
//!
//! ```text
//!  pool/CLAIM/disk.img          the disk, raw
//!            /disk.img.partial  on its way; the engine goes on with it
//!            /disk.json         a Note: what it was made from, and that it is whole
//!            /lock              one makes it; others wait
//! ```
//!
//! A disk that is whole is kept and used again, whatever the manifest says now: it holds what the guest has written. It
//! grows when its claim has grown, and never shrinks.

use super::folder;
use super::image::Images;
use crate::ui;
use crate::vm::apart::{Import, Job};
use crate::vm::manifest::{Objects, Written, size};
use crate::vm::place::Lock;
use crate::vm::record::{now, write_whole};
use api::datavolume::{DataVolume, Http};
use api::launcher::{Format, Source};
use cdi::size::human;
use cdi::source;
use cdi::target::{FileOptions, FileTarget, Target};
use cdi::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What is noted of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// `coracle.disk/v1`.
    schema: String,
    /// What it was made from.
    from: String,
    /// The guest's bytes when it was made.
    size: u64,
    /// When, RFC 3339.
    created: String,
    /// All its blocks are there.
    #[serde(default)]
    preallocated: bool,
}

/// The pool, while one machine's disks are made ready.
pub(crate) struct Pool<'a> {
    /// Registries, folders, progress.
    pub(crate) images: &'a Images,
    /// What the manifest says of claims.
    pub(crate) objects: &'a Objects,
}

impl Pool<'_> {
    /// Whether a claim has a disk.
    pub(crate) fn has(images: &Images, claim: &str) -> bool {
        let folder = images.home.pool().join(claim);
        folder.join("disk.json").is_file() && folder.join("disk.img").exists()
    }

    /// The disk of a claim, made or filled where it is not there yet.
    pub(crate) fn disk(&self, claim: &str) -> Result<Source> {
        crate::vm::place::check_name(claim)?;
        let folder = self.images.home.pool().join(claim);
        self.images.home.make(&folder)?;
        let _lock = Lock::wait(&folder.join("lock"))?;
        let volume = self.objects.data_volumes.get(claim);
        let disk = folder.join("disk.img");
        let note = match (Pool::has(self.images, claim), volume) {
            (true, _) => self.kept(claim, &folder, volume)?,
            (false, Some(volume)) => self.fill(claim, &folder, &volume.object)?,
            (false, None) => self.claimed(claim, &folder)?,
        };
        Ok(Source::File { path: disk, format: Format::Raw, preallocated: note.preallocated })
    }

    /// A disk that is there: grown where its claim has grown.
    fn kept(&self, claim: &str, folder: &Path, volume: Option<&Written<DataVolume>>) -> Result<Note> {
        let path = folder.join("disk.json");
        let bytes =
            std::fs::read(&path).map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
        let note: Note = serde_json::from_slice(&bytes).map_err(|e| {
            Error::refused(format!("{} is not what coracle wrote", path.display())).because(e)
        })?;
        if let Some(volume) = volume
            && source::shown(&source_of(&volume.object)) != source::shown(&note.from)
        {
            let was = source::shown(&note.from);
            ui::say(&format!("coracle: {claim} keeps the disk that it has, which was made from {was}"));
        }
        let wanted = match volume {
            Some(volume) => size(&volume.object).and_then(|size| size.bytes()),
            None => self.wanted(claim),
        };
        let disk = folder.join("disk.img");
        let cannot = |e| Error::io(format!("cannot grow {}", disk.display()), e);
        let now = std::fs::metadata(&disk).map_err(cannot)?.len();
        if let Some(wanted) = wanted.map(whole).filter(|&wanted| wanted > now) {
            let file = std::fs::File::options().write(true).open(&disk).map_err(cannot)?;
            file.set_len(wanted).and_then(|()| file.sync_all()).map_err(cannot)?;
            ui::say(&format!("coracle: the disk {claim} grew from {} to {}", human(now), human(wanted)));
        }
        Ok(note)
    }

    fn wanted(&self, claim: &str) -> Option<u64> {
        self.objects.claims.get(claim)?.object.spec.storage()?.bytes()
    }

    /// The empty disk of a claim that nothing fills.
    fn claimed(&self, claim: &str, folder: &Path) -> Result<Note> {
        let Some(written) = self.objects.claims.get(claim) else {
            let what = format!(
                "there is no disk {claim:?}: neither a PersistentVolumeClaim nor a DataVolume of the manifest is called so, \
                 and {} has none from before",
                self.images.home.pool().display()
            );
            return Err(Error::new(Kind::NotFound, what));
        };
        let spec = &written.object.spec;
        if spec.data_source.is_some() || spec.data_source_ref.is_some() {
            let finding = written.origin.finding("spec.dataSource", "not supported yet");
            return Err(Error::refused(finding.to_string()));
        }
        match self.wanted(claim).filter(|&size| size > 0) {
            Some(size) => blank(folder, size, false),
            None => {
                let what = "an empty disk must say its size";
                let finding = written.origin.finding("spec.resources.requests.storage", what);
                Err(Error::refused(finding.to_string()))
            }
        }
    }

    /// Fills a disk from where its DataVolume says.
    fn fill(&self, claim: &str, folder: &Path, volume: &DataVolume) -> Result<Note> {
        let wanted = size(volume).and_then(|size| size.bytes()).map(whole);
        let source = volume.spec.source.as_ref();
        let preallocate = volume.spec.preallocation == Some(true);
        if let (Some(size), true) = (wanted, source.is_some_and(|source| source.blank.is_some())) {
            return blank(folder, size, preallocate);
        }
        let http = source.and_then(|source| source.http.as_ref());
        let registry = source.and_then(|source| source.registry.as_ref());
        if registry
            .is_some_and(|registry| registry.secret_ref.is_some() || registry.cert_config_map.is_some())
        {
            let what = format!(
                "the DataVolume {claim}: secretRef and certConfigMap of a registry are not supported yet; \
                 put the login or the certificate into registries.toml"
            );
            return Err(Error::refused(what));
        }
        let name = source_of(volume);
        let mut import = Import {
            source: name.clone(),
            target: folder.join("disk.img"),
            arch: registry.and_then(|r| r.platform.as_ref()).and_then(|p| p.architecture.clone()),
            checksum: http.and_then(|http| http.checksum.clone()),
            preallocate,
            size: wanted,
            ..Import::default()
        };
        if let Some(http) = http {
            self.ask_server(http, &mut import)?;
        }
        // The name without what is secret in it: the note stays beside the disk.
        let name = source::shown(&name);
        ui::say(&format!("coracle: importing {name} as the disk {claim}"));
        let virtual_size: u64 = self.images.ask(Job::Import(Box::new(import)))?;
        let disk = folder.join("disk.img");
        let cannot = |e| Error::io(format!("cannot complete {}", disk.display()), e);
        let file = std::fs::File::options().write(true).open(&disk).map_err(cannot)?;
        let size = file.metadata().map_err(cannot)?.len();
        file.set_len(whole(size)).and_then(|()| file.sync_all()).map_err(cannot)?;
        let note = Note {
            schema: "coracle.disk/v1".into(),
            from: name,
            size: virtual_size,
            created: now(),
            preallocated: preallocate,
        };
        note.write(folder)?;
        Ok(note)
    }

    /// What a web server is told, and how it is believed.
    fn ask_server(&self, http: &Http, import: &mut Import) -> Result<()> {
        let header = |line: &String| {
            let parts =
                line.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
            parts.ok_or_else(|| Error::refused("a header of extraHeaders is written 'Name: value'"))
        };
        import.headers = http.extra_headers.iter().map(header).collect::<Result<_>>()?;
        import.insecure_tls = http.insecure_skip_verify == Some(true);
        for name in &http.secret_extra_headers {
            for (_, value) in self.secret(name)? {
                let line = String::from_utf8(value).map_err(|_| {
                    Error::refused(format!("a header in the Secret {name} is not text in UTF-8"))
                })?;
                import.headers.push(header(&line)?);
            }
        }
        if let Some(name) = &http.secret_ref {
            let files = self.secret(name)?;
            let text = |key: &str| {
                let bytes = files.get(key).cloned().ok_or_else(|| {
                    Error::refused(format!(
                        "the secret {name} has no key {key}, which logins to web servers need"
                    ))
                })?;
                String::from_utf8(bytes).map_err(|_| {
                    Error::refused(format!("the key {key} of the Secret {name} is not text in UTF-8"))
                })
            };
            import.user = Some(text("accessKeyId")?);
            import.password = Some(text("secretKey")?);
        }
        if let Some(name) = &http.cert_config_map {
            let Some(map) = self.objects.config_maps.get(name) else {
                return Err(missing("ConfigMap", name));
            };
            let folder = self.images.home.pool().join(".certificates").join(name);
            let files = folder::of_config_map(&map.object)?;
            let folder = folder::write(&folder, &files)?;
            import.ca_files = files.keys().map(|key| folder.join(key)).collect();
        }
        Ok(())
    }

    fn secret(&self, name: &str) -> Result<folder::Files> {
        let secret = self.objects.secrets.get(name).ok_or_else(|| missing("Secret", name))?;
        folder::of_secret(&secret.object)
    }
}

fn missing(kind: &str, name: &str) -> Error {
    Error::new(Kind::NotFound, format!("the manifest has no {kind} {name:?}, which is needed; add it"))
}

/// What a DataVolume's disk is made from, as the engine calls it.
fn source_of(volume: &DataVolume) -> String {
    let source = volume.spec.source.as_ref();
    let http = || Some(source?.http.as_ref()?.url.clone());
    let registry = || source?.registry.as_ref()?.url.clone();
    http().or_else(registry).unwrap_or_else(|| "nothing".to_owned())
}

/// An empty disk.
fn blank(folder: &Path, size: u64, preallocate: bool) -> Result<Note> {
    let size = whole(size);
    let options = FileOptions { size: Some(size), preallocate, ..FileOptions::default() };
    let target: Box<dyn Target> = Box::new(FileTarget::create(&folder.join("disk.img"), options)?);
    target.finish()?;
    let note = Note {
        schema: "coracle.disk/v1".into(),
        from: "nothing".into(),
        size,
        created: now(),
        preallocated: preallocate,
    };
    note.write(folder)?;
    Ok(note)
}

/// A disk is of whole blocks: past the host's cache, QEMU cannot write to the end of any other.
fn whole(size: u64) -> u64 {
    size.checked_next_multiple_of(4096).unwrap_or(size)
}

impl Note {
    fn write(&self, folder: &Path) -> Result<()> {
        let text =
            serde_json::to_vec_pretty(self).map_err(|e| Error::failed("cannot write a note").because(e))?;
        write_whole(&folder.join("disk.json"), &text)
    }
}
