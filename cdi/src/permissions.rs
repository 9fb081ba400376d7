//! Files and programs of the host that a command will use. They are stated before it begins, so that the
//! program can give up all other rights ([`guard::confine`]).
//!
//! | work | reads | writes | network |
//! |---|---|---|---|
//! | a source: a path, `-` | the file or device; the kernel's lists of mounts and locks, its counters of devices, and the state of the programs that have started this one | – | – |
//! | a source: `http://`, `docker://` | `--cacert`, the certificates of the registry, those of a clone | – | yes |
//! | a source: `store:`, `oci:`, an archive | the folder or file | – | – |
//! | a source: an empty disk, an upload | – | – | – |
//! | a target: a file | the same lists | its folder: `.partial`, journal, spool | – |
//! | a target: a device | the same | the device; the folder of its journal, in a pod | – |
//! | a folder that an archive is unpacked into | – | the folder and what is below it | – |
//! | a target: `-`, or none | – | files without a name, made before | – |
//! | an image that is written | an archive: the same lists | the store's folder, the layout, or the archive's folder | a registry: yes |
//!
//! Settings, logins and secrets are read here or before, never later: credential helpers
//! (`docker-credential-…`) cannot be started once the rest is given up.

use crate::Result;
use crate::source::{Options, SourceSpec};
use crate::target::Destination as Target;
use container_disk::Name;
use container_disk::open::Places;
use guard::confine::{Confined, Process, Use};
use rustix::fs::{FileType, Stat, fstat, stat};
use std::io;
use std::path::{Path, PathBuf};

/// The most spools in use at once: the disk in its own order, data that waits for its tables, a qcow2 for a
/// pipe.
const SPOOLS: usize = 3;

/// The paths and the network that one command uses. Each step adds to it.
#[derive(Debug, Default)]
pub struct Permissions {
    process: Process,
}

impl Permissions {
    /// No path and no network.
    pub fn new() -> Permissions {
        Permissions::default()
    }

    /// Adds a disk, or an image, that is read. The meaning of its name was decided before.
    pub fn source(self, named: &SourceSpec, options: &Options) -> Result<Permissions> {
        Ok(match named {
            SourceSpec::Image(image) => return self.image(image, &options.places),
            SourceSpec::Stdin => Permissions { process: examined(self.process, fstat(io::stdin())) },
            SourceSpec::Blank(_) | SourceSpec::Upload(_) => self,
            SourceSpec::Web(_) => {
                let mutual = options.mutual.iter();
                let mutual = mutual.flat_map(|files| [&files.certificate, &files.key, &files.authority]);
                Permissions {
                    process: options.ca_files.iter().chain(mutual).fold(self.process.network(), read),
                }
            }
            SourceSpec::Path(path) => self.file(path),
        })
    }

    /// Adds a file or a device that is read.
    pub fn file(self, path: &Path) -> Permissions {
        Permissions { process: examined(self.process.uses(path, Use::Read), stat(path)) }
    }

    /// Adds an image that is read. Logins are looked up now.
    pub fn image(self, name: &Name, places: &Places) -> Result<Permissions> {
        let process = match name {
            Name::Registry(_) => places.ready(name)?.iter().fold(self.process.network(), read),
            Name::Store(_) => self.process.uses(places.store_folder()?, Use::Read),
            Name::Layout(path, _) | Name::OciArchive(path, _) | Name::DockerArchive(path, _) => {
                self.process.uses(path, Use::Read)
            }
        };
        Ok(Permissions { process })
    }

    /// Adds a disk that is written. An image that it becomes a layer of is added by [`Permissions::goal`].
    pub fn target(self, place: &Target) -> Permissions {
        let process = match place {
            Target::Stdout | Target::Null => return self.spool(),
            Target::Image(_) => self.process,
            Target::Device(path) => {
                return Permissions { process: lists(self.process).uses(path, Use::Device) }.spool();
            }
            Target::File(path) => lists(self.process).uses(folder_of(path), Use::Write).replaces(path),
        };
        Permissions { process }
    }

    /// Adds a folder that files are unpacked into.
    pub fn folder(self, path: &Path) -> Permissions {
        Permissions { process: self.process.uses(path, Use::Write) }
    }

    /// Reserves anonymous files in the temporary folder. They are made now, since the folder also holds files
    /// of other programs and stays forbidden.
    pub fn spool(self) -> Permissions {
        let folder = std::env::temp_dir();
        if let Err(e) = container_disk::reserve(&folder, SPOOLS) {
            // Perhaps none is needed.
            tracing::debug!("no temporary file can be made in {}: {e}", folder.display());
        }
        self
    }

    /// Adds an image that is written. The store's folder is created if the image goes there.
    pub fn goal(self, name: &Name, places: &Places) -> Result<Permissions> {
        let process = match name {
            Name::Registry(_) => return self.image(name, places),
            Name::Store(_) => return self.store(places),
            Name::Layout(path, _) => lists(self.process).uses(nearest(path), Use::Write),
            Name::OciArchive(path, _) | Name::DockerArchive(path, _) => {
                lists(self.process).uses(folder_of(path), Use::Write)
            }
        };
        Ok(Permissions { process })
    }

    /// Adds the store's folder, which is created if missing.
    pub fn store(self, places: &Places) -> Result<Permissions> {
        Ok(Permissions { process: self.process.uses(places.make_store_folder()?, Use::Write) })
    }

    /// The collected paths, for confinement.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Gives up everything else, for the whole program and for good. No other thread may have been started
    /// before.
    pub fn enter(&self) -> Confined {
        // The records of VMs cannot be read later.
        storage::protected::load();
        self.process.enter()
    }
}

/// Adds the kernel's lists of users and its counters of devices, if this is a file or a device.
fn examined(process: Process, examined: rustix::io::Result<Stat>) -> Process {
    match examined.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::BlockDevice | FileType::RegularFile) => lists(process),
        _ => process,
    }
}

/// Adds the kernel's lists of users of files and devices, and the state of the programs that have started this one.
fn lists(process: Process) -> Process {
    storage::facts().iter().fold(process, |process, list| process.uses(list, Use::Read))
}

fn read(process: Process, path: &PathBuf) -> Process {
    process.uses(path, Use::Read)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// The folder itself, or the nearest existing one above it.
fn nearest(path: &Path) -> &Path {
    path.ancestors().find(|path| path.as_os_str().is_empty() || path.exists()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_uses_what_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { ca_files: vec!["/ca.pem".into()], ..Options::default() };
        let of = |source: &str| {
            let named = match source.ends_with(".img") && !source.contains(':') {
                true => SourceSpec::Path(source.into()),
                false => SourceSpec::resolve(source, &options).unwrap(),
            };
            Permissions::new().source(&named, &options).unwrap()
        };

        let to = |name: &Path| Target::from_name(name.as_os_str()).unwrap();
        let local = of("/disks/a.img").target(&to(&folder.path().join("b.img")));
        assert_eq!(local.process().use_of(Path::new("/disks/a.img")), Some(Use::Read));
        assert_eq!(local.process().use_of(folder.path()), Some(Use::Write));
        assert_eq!(local.process().use_of(&folder.path().join("b.img")), None);
        assert_eq!(local.process().replaced(), [folder.path().join("b.img")], "whose owner the new one gets");
        let starter = format!("/proc/{}/stat", std::os::unix::process::parent_id());
        assert_eq!(local.process().use_of(Path::new(&starter)), Some(Use::Read), "it may hold a lock for us");
        assert!(!local.process().has_network());

        let remote = of("https://h/a.img");
        assert_eq!(remote.process().use_of(Path::new("/ca.pem")), Some(Use::Read));
        assert!(remote.process().has_network());

        assert_eq!(*of("-").process(), Process::new());
        assert_eq!(
            of("a.img").target(&to(Path::new("b.img"))).process().use_of(Path::new(".")),
            Some(Use::Write)
        );
        // Other programs keep their secrets where temporary files are.
        assert_eq!(*of("-").target(&to(Path::new("-"))).process(), Process::new());
        assert_eq!(*of("-").spool().process(), Process::new());
    }

    #[test]
    fn images_are_used_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::new(None).with_store(folder.path().join("store"));
        let goal = |name: &str| Permissions::new().goal(&Name::of_image(name).unwrap(), &places).unwrap();
        let store = goal("os:1");
        assert_eq!(store.process().use_of(&folder.path().join("store")), Some(Use::Write));
        assert!(folder.path().join("store").is_dir() && !store.process().has_network());

        let read = Permissions::new().image(&Name::of_image("os:1").unwrap(), &places).unwrap();
        assert_eq!(
            read.process().use_of(&folder.path().join("store")),
            Some(Use::Read),
            "tags stay as they are"
        );

        let new = folder.path().join("new/layout");
        assert_eq!(goal(&format!("oci:{}", new.display())).process().use_of(folder.path()), Some(Use::Write));
        let archive = format!("oci-archive:{}", folder.path().join("os.tar").display());
        assert_eq!(goal(&archive).process().use_of(folder.path()), Some(Use::Write));
        let read = Permissions::new().image(&Name::of_image(&archive).unwrap(), &places).unwrap();
        assert_eq!(read.process().use_of(&folder.path().join("os.tar")), Some(Use::Read));
    }
}
