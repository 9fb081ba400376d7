//! Disks that outlive VMs: what PVCs and DataVolumes are on a laptop.
//!
//! ```text
//!  pool/PVC/disk.img            the disk, raw
//!          /disk.img.partial    on its way; the engine goes on with it
//!          /disk.json           a Note: what it was made from, and that it is whole
//!          /lock                one makes it; others wait
//! ```
//!
//! A disk that is whole is kept and used again, whatever the manifest says now: it holds what the guest has written. It
//! grows when its PVC has grown, and never shrinks.

use super::folder;
use super::image::Images;
use crate::ui;
use crate::vm::apart::Task;
use crate::vm::manifest::{Objects, Written};
use crate::vm::place::Lock;
use crate::vm::record::{now, write_whole};
use api::datavolume::{self, DataVolume};
use api::job::{Confidential, Files, Import, References, Refusal, Target};
use api::launcher::{Format, Source};
use cdi::size::human;
use cdi::{Error, ErrorKind, Result, import, source};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

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

/// The pool, while one VM's disks are made ready.
pub(crate) struct Pool<'a> {
    /// Registries, folders, progress.
    pub(crate) images: &'a Images,
    /// What the manifest says of PVCs.
    pub(crate) objects: &'a Objects,
}

impl Pool<'_> {
    /// Whether a PVC has a disk.
    pub(crate) fn has(images: &Images, pvc: &str) -> bool {
        let folder = images.home.pool().join(pvc);
        folder.join("disk.json").is_file() && folder.join("disk.img").exists()
    }

    /// Whether the disk of a PVC is there, or could be made or filled, as far as the manifest tells.
    pub(crate) fn check(&self, pvc: &str) -> Result<()> {
        if Pool::has(self.images, pvc) {
            return Ok(());
        }
        match self.objects.data_volumes.get(pvc) {
            Some(volume) => self.import_of(pvc, &volume.object, None).map(drop),
            None => self.size_of(pvc).map(drop),
        }
    }

    /// The disk of a PVC, made or filled where it is not there yet.
    pub(crate) fn disk(&self, pvc: &str) -> Result<Source> {
        crate::vm::place::check_name(pvc)?;
        let folder = self.images.home.pool().join(pvc);
        self.images.home.make(&folder)?;
        let _lock = Lock::wait(&folder.join("lock"))?;
        let volume = self.objects.data_volumes.get(pvc);
        let disk = folder.join("disk.img");
        let note = match (Pool::has(self.images, pvc), volume) {
            (true, _) => self.kept(pvc, &folder, volume)?,
            (false, Some(volume)) => self.fill(pvc, &folder, &volume.object)?,
            (false, None) => self.claimed(pvc, &folder)?,
        };
        Ok(Source::File { path: disk, format: Format::Raw, preallocated: note.preallocated })
    }

    /// A disk that is there: grown where its PVC has grown.
    fn kept(&self, pvc: &str, folder: &Path, volume: Option<&Written<DataVolume>>) -> Result<Note> {
        let path = folder.join("disk.json");
        let bytes =
            std::fs::read(&path).map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
        let note: Note = serde_json::from_slice(&bytes).map_err(|e| {
            Error::refused(format!("{} is not what coracle wrote", path.display())).because(e)
        })?;
        if let Some(volume) = volume
            && source_of(&volume.object) != source::shown(&note.from)
        {
            let was = printable::line(&source::shown(&note.from));
            ui::say(&format!("coracle: {pvc} keeps the disk that it has, which was made from {was}"));
        }
        let wanted = match volume {
            Some(volume) => volume.object.spec.size().and_then(|size| size.bytes()),
            None => self.wanted(pvc),
        };
        let disk = folder.join("disk.img");
        let cannot = |e| Error::io(format!("cannot grow {}", disk.display()), e);
        let now = std::fs::metadata(&disk).map_err(cannot)?.len();
        if let Some(wanted) = wanted.map(whole).filter(|&wanted| wanted > now) {
            let file = std::fs::File::options().write(true).open(&disk).map_err(cannot)?;
            file.set_len(wanted).and_then(|()| file.sync_all()).map_err(cannot)?;
            ui::say(&format!("coracle: the disk {pvc} grew from {} to {}", human(now), human(wanted)));
        }
        Ok(note)
    }

    fn wanted(&self, pvc: &str) -> Option<u64> {
        self.objects.pvcs.get(pvc)?.object.spec.storage()?.bytes()
    }

    /// The size of a disk that nothing fills.
    fn size_of(&self, pvc: &str) -> Result<u64> {
        let Some(written) = self.objects.pvcs.get(pvc) else {
            let what = format!(
                "there is no disk {pvc:?}: neither a PersistentVolumeClaim nor a DataVolume of the manifest is called so, \
                 and {} has none from before",
                self.images.home.pool().display()
            );
            return Err(Error::new(ErrorKind::NotFound, what));
        };
        let refused =
            |field: &str, what: &str| Error::refused(written.origin.finding(field, what).to_string());
        let spec = &written.object.spec;
        if spec.data_source.is_some() || spec.data_source_ref.is_some() {
            return Err(refused("spec.dataSource", "not supported yet"));
        }
        let size = self.wanted(pvc).filter(|&size| size > 0);
        size.ok_or_else(|| refused("spec.resources.requests.storage", "an empty disk must say its size"))
    }

    /// The empty disk of a PVC that nothing fills.
    fn claimed(&self, pvc: &str, folder: &Path) -> Result<Note> {
        let (source, size) = (api::job::Source::Blank, Some(self.size_of(pvc)?));
        let target = Target::File(folder.join("disk.img"));
        self.import(pvc, folder, Import { source, target, size, preallocate: false })
    }

    /// Fills a disk from where its DataVolume says.
    fn fill(&self, pvc: &str, folder: &Path, volume: &DataVolume) -> Result<Note> {
        self.import(pvc, folder, self.import_of(pvc, volume, Some(folder))?)
    }

    /// What a DataVolume asks for. Without a folder for it nothing is made: it is only seen whether all is there.
    fn import_of(&self, pvc: &str, volume: &DataVolume, folder: Option<&Path>) -> Result<Import> {
        let target = Target::File(folder.unwrap_or(Path::new("")).join("disk.img"));
        Import::of(volume, target, &mut Given { pool: self, folder }).map_err(|refusal| match refusal {
            // The manifest was refused for these before.
            Refusal::Faults(faults) => {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                Error::refused(format!("the DataVolume {pvc}: {}", faults.join("; ")))
            }
            Refusal::Reference(e) => e,
        })
    }

    /// Has a disk filled, and notes what it was made from.
    fn import(&self, pvc: &str, folder: &Path, import: Import) -> Result<Note> {
        let import = Import { size: import.size.map(whole), ..import };
        // The name without what is secret in it: the note stays beside the disk.
        let (from, preallocated) = (import::shown(&import.source), import.preallocate);
        if import.source.address().is_some() {
            ui::say(&format!("coracle: importing {} as the disk {pvc}", printable::line(&from)));
        }
        let size: u64 = self.images.ask(Task::Import(Box::new(import)))?;
        let disk = folder.join("disk.img");
        let cannot = |e| Error::io(format!("cannot complete {}", disk.display()), e);
        let file = std::fs::File::options().write(true).open(&disk).map_err(cannot)?;
        let now = file.metadata().map_err(cannot)?.len();
        file.set_len(whole(now)).and_then(|()| file.sync_all()).map_err(cannot)?;
        let schema = "coracle.disk/v1".into();
        let note = Note { schema, from, size, created: self::now(), preallocated };
        note.write(folder)?;
        Ok(note)
    }
}

/// The Secrets and ConfigMaps of the manifest: values of the job, and folders for those that are read as files.
struct Given<'a> {
    pool: &'a Pool<'a>,
    /// The PVC's own, under its lock: another manifest may have a ConfigMap of the same name.
    folder: Option<&'a Path>,
}

impl References for Given<'_> {
    type Error = Error;

    fn secret(&mut self, name: &str) -> Result<Files> {
        let secret = self.pool.objects.secrets.get(name).ok_or_else(|| missing("Secret", name))?;
        let files = folder::of_secret(&secret.object)?;
        Ok(Files::Values(files.into_iter().map(|(key, bytes)| (key, Confidential(bytes))).collect()))
    }

    fn config_map(&mut self, name: &str) -> Result<PathBuf> {
        let map = self.pool.objects.config_maps.get(name).ok_or_else(|| missing("ConfigMap", name))?;
        let files = folder::of_config_map(&map.object)?;
        match self.folder {
            Some(folder) => folder::write(&folder.join("certificates").join(name), &files),
            None => Ok(PathBuf::new()),
        }
    }
}

fn missing(kind: &str, name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("the manifest has no {kind} {name:?}, which is needed; add it"))
}

/// What a DataVolume's disk is made from, as it may be shown.
fn source_of(volume: &DataVolume) -> String {
    let address = volume.spec.source.as_ref().and_then(datavolume::Source::address);
    address.map_or_else(|| "nothing".to_owned(), source::shown)
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
