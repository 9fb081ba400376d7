//! Resolution of a VM's volumes and networks on this computer: a `Machine` and a manifest's objects become
//! `Resolved`.
//!
//! ```text
//!  containerDisk, kernelBoot ──image──► store ──► disks/ (read-only)
//!  dataVolume, PVC ───────────pool───► pool/ (kept between runs)
//!  hostDisk ──────────────────────────► the file itself
//!  secret, configMap, sysprep ─folder─► secrets/ of the VM
//!  interfaces ────────────────network─► user-mode networks with forwards
//!  EFI variables, TPM ────────state───► beside the first disk that is kept
//! ```
//!
//! Seeds and empty disks are made by the launcher. Missing objects and unsupported volumes are reported
//! before anything is fetched: [`missing`], [`Resolver::check`].

pub mod accelerator;
pub(crate) mod disk_record;
pub mod folder;
pub mod image;
pub mod memory;
pub mod missing;
pub mod network;
pub mod pool;
pub(crate) mod pool_users;
mod port_holder;
pub(crate) mod state;

use crate::error::{Error, ErrorKind, Result};
use crate::host_disks;
use crate::manifest::Objects;
use api::launcher::{Accelerator, Format, Forward, Kernel, Resolved, Source};
use api::machine::Credential;
use api::machine::volume::{ConfigMapOrSecret, Text};
use api::machine::{CloudInit, Disk, Machine, Volume};
use container_disk::Name;
use image::{Images, Policy};
use pool::{DiskUse, HeldDisks, Pool};
use std::path::{Path, PathBuf};

/// Inputs for the resolution of one VM.
pub struct Resolver<'a> {
    pub images: &'a Images,
    /// Objects of the manifest besides the VM.
    pub objects: &'a Objects,
    /// Pull policy by flag, which overrides those of spec and image name.
    pub policy: Option<Policy>,
    /// HostDisks that are raw by the user's word, by the paths that the VM has them with.
    pub raws: &'a [PathBuf],
}

impl Resolver<'_> {
    /// Checks all volumes and networks without fetching or creating anything. [`Resolver::resolve`] begins
    /// with the same checks.
    pub fn check(&self, machine: &Machine, forwards: &[Forward]) -> Result<()> {
        network::links(&self.images.home, machine, forwards.to_vec())?;
        let boot = machine.firmware.kernel.as_ref().and_then(|boot| boot.image.as_ref());
        boot.map_or(Ok(()), |image| self.wanted(&image.name, image.pull_policy.as_deref()).map(drop))?;
        for disk in &machine.disks {
            self.check_volume(&disk.volume, machine)?;
        }
        for secret in machine.credentials.iter().map(Credential::secret) {
            self.files(&ConfigMapOrSecret::Secret(secret.to_owned()), false)?;
        }
        Ok(())
    }

    fn check_volume(&self, volume: &Volume, machine: &Machine) -> Result<()> {
        for secret in texts(volume) {
            self.files(&ConfigMapOrSecret::Secret(secret.to_owned()), false)?;
        }
        match volume {
            Volume::ContainerDisk { image, .. } => {
                self.wanted(&image.name, image.pull_policy.as_deref()).map(drop)
            }
            Volume::Claim { name, .. } | Volume::DataVolume { name } => {
                self.pool(machine).check(name, DiskUse::Written)
            }
            Volume::Ephemeral { claim } => self.pool(machine).check(claim, DiskUse::BelowOverlay),
            Volume::Host { path, create, .. } => self.host_disk(path, *create).map(drop),
            Volume::ConfigMap { name, optional, .. } => {
                self.files(&ConfigMapOrSecret::ConfigMap(name.clone()), *optional).map(drop)
            }
            Volume::Secret { name, optional, .. } => {
                self.files(&ConfigMapOrSecret::Secret(name.clone()), *optional).map(drop)
            }
            Volume::Sysprep { source } => self.files(source, false).map(drop),
            Volume::DownwardApi { .. } | Volume::ServiceAccount { .. } | Volume::ContainerPath { .. } => {
                Err(of_a_cluster())
            }
            Volume::Empty { .. }
            | Volume::NoDisc
            | Volume::DownwardMetrics
            | Volume::NoCloud(_)
            | Volume::ConfigDrive(_) => Ok(()),
        }
    }

    /// Locks the disks of the pool that a VM has. They are to be held until its record names them: a removal that
    /// comes meanwhile finds no VM with them.
    pub fn hold(&self, machine: &Machine) -> Result<HeldDisks> {
        HeldDisks::lock(self.images, machine.disks.iter().filter_map(|disk| claim(&disk.volume)))
    }

    /// Fetches and creates all volumes and networks of a VM. `name` is its name here, and `held` has its disks of the
    /// pool.
    pub fn resolve(
        &self,
        name: &str,
        machine: &Machine,
        forwards: Vec<Forward>,
        accelerator: Accelerator,
        held: &HeldDisks,
    ) -> Result<Resolved> {
        let claims = Claims { pool: self.pool(machine), held };
        let mut resolved = Resolved {
            accelerator,
            interfaces: network::links(&self.images.home, machine, forwards)?,
            kernel: self.kernel(machine)?,
            ..Resolved::default()
        };
        let secrets = self.images.home.vm(name).join("secrets");
        // Files of the user come last: their formats are told after all that takes long.
        let mut disks: Vec<&Disk> = machine.disks.iter().collect();
        disks.sort_by_key(|disk| matches!(disk.volume, Volume::Host { .. }));
        for disk in disks {
            if let Volume::ContainerDisk { image, .. } = &disk.volume
                && machine.firmware.kernel.is_none()
                && resolved.kernel.is_none()
            {
                resolved.kernel = self.labelled(&image.name, image.pull_policy.as_deref())?;
            }
            if let Some(source) = self.volume(disk, &secrets, &claims)? {
                resolved.volumes.insert(disk.name.clone(), source);
            }
            for secret in texts(&disk.volume) {
                let folder = self.folder(&secrets, &ConfigMapOrSecret::Secret(secret.to_owned()), false)?;
                resolved.secrets.extend(folder.map(|folder| (secret.to_owned(), folder)));
            }
        }
        for secret in machine.credentials.iter().map(Credential::secret) {
            let folder = self.folder(&secrets, &ConfigMapOrSecret::Secret(secret.to_owned()), false)?;
            resolved.secrets.extend(folder.map(|folder| (secret.to_owned(), folder)));
        }
        resolved.state = state::place(machine, &resolved);
        state::check_new(machine, &resolved)?;
        resolved.state.as_ref().map_or(Ok(()), state::ready)?;
        Ok(resolved)
    }

    fn volume(&self, disk: &Disk, secrets: &Path, claims: &Claims<'_>) -> Result<Option<Source>> {
        Ok(Some(match &disk.volume {
            Volume::ContainerDisk { image, path } => {
                let brought = self.bring(&image.name, image.pull_policy.as_deref())?;
                let (path, format) = self.images.disk(&brought, path.as_deref())?;
                Source::Image { path, format }
            }
            Volume::Claim { name, .. } | Volume::DataVolume { name } => {
                claims.disk(name, DiskUse::Written)?
            }
            Volume::Ephemeral { claim } => match claims.disk(claim, DiskUse::BelowOverlay)? {
                Source::File { path, format, .. } => Source::Image { path, format },
                other => other,
            },
            Volume::Host { path, create, .. } => match self.host_disk(path, *create)? {
                Some(source) => source,
                None => return Ok(None),
            },
            Volume::ConfigMap { name, optional, .. } => {
                self.iso(secrets, &ConfigMapOrSecret::ConfigMap(name.clone()), *optional)?
            }
            Volume::Secret { name, optional, .. } => {
                self.iso(secrets, &ConfigMapOrSecret::Secret(name.clone()), *optional)?
            }
            Volume::Sysprep { source } => self.iso(secrets, source, false)?,
            Volume::DownwardApi { .. } | Volume::ServiceAccount { .. } | Volume::ContainerPath { .. } => {
                return Err(of_a_cluster());
            }
            Volume::Empty { .. }
            | Volume::NoDisc
            | Volume::DownwardMetrics
            | Volume::NoCloud(_)
            | Volume::ConfigDrive(_) => {
                return Ok(None);
            }
        }))
    }

    /// Pulls an image by the policy of its spec or of the flag.
    pub fn bring(&self, image: &str, policy: Option<&str>) -> Result<image::Image> {
        let (name, policy) = self.wanted(image, policy)?;
        self.images.bring(name, policy)
    }

    /// Parsed name and pull policy of an image.
    fn wanted(&self, image: &str, policy: Option<&str>) -> Result<(Name, Policy)> {
        let policy = match self.policy {
            Some(policy) => policy,
            None => Policy::parse(policy, image)?,
        };
        Ok((image::name_of(image)?, policy))
    }

    fn pool<'a>(&'a self, machine: &'a Machine) -> Pool<'a> {
        let Machine { name, namespace, .. } = machine;
        Pool { images: self.images, objects: self.objects, namespace, vm: name }
    }

    fn kernel(&self, machine: &Machine) -> Result<Option<Kernel>> {
        let Some(boot) = &machine.firmware.kernel else { return Ok(None) };
        let Some(container) = &boot.image else { return Ok(None) };
        let brought = self.bring(&container.name, container.pull_policy.as_deref())?;
        // The labels of the image fill in what the manifest leaves open.
        let labels = Images::boot(&brought);
        let told = labels.as_ref();
        let kernel = boot.kernel_path.clone().or_else(|| told.map(|told| told.kernel.clone()));
        let Some(kernel) = kernel else {
            let what =
                format!("{} does not say which of its files is the kernel; write kernelPath", brought.name);
            return Err(Error::refused(what));
        };
        let initrd = match boot.kernel_path {
            Some(_) => boot.initrd_path.clone(),
            None => boot.initrd_path.clone().or_else(|| told.and_then(|told| told.initrd.clone())),
        };
        let args = boot.args.clone().or_else(|| told.map(|told| told.cmdline.clone()));
        self.images.kernel(&brought, &kernel, initrd.as_deref(), args).map(Some)
    }

    /// Kernel by the labels of an image, if they name one.
    fn labelled(&self, image: &str, policy: Option<&str>) -> Result<Option<Kernel>> {
        let brought = self.bring(image, policy)?;
        let Some(boot) = Images::boot(&brought) else { return Ok(None) };
        let initrd = boot.initrd.as_deref();
        self.images.kernel(&brought, &boot.kernel, initrd, Some(boot.cmdline.clone())).map(Some)
    }

    fn iso(&self, secrets: &Path, named: &ConfigMapOrSecret, optional: bool) -> Result<Source> {
        let folder = self.folder(secrets, named, optional)?;
        Ok(folder.map_or(Source::Absent, |path| Source::Folder { path }))
    }

    /// Writes the files of a Secret or a ConfigMap into a folder of the VM.
    fn folder(&self, secrets: &Path, named: &ConfigMapOrSecret, optional: bool) -> Result<Option<PathBuf>> {
        let Some(files) = self.files(named, optional)? else { return Ok(None) };
        let place = match named {
            ConfigMapOrSecret::Secret(name) => format!("secret-{name}"),
            ConfigMapOrSecret::ConfigMap(name) => format!("configmap-{name}"),
        };
        folder::write(&secrets.join(place), &files).map(Some)
    }

    fn files(&self, named: &ConfigMapOrSecret, optional: bool) -> Result<Option<folder::Files>> {
        let (kind, name, files) = match named {
            ConfigMapOrSecret::Secret(name) => {
                let found = self.objects.secrets.get(name);
                ("Secret", name, found.map(|found| folder::of_secret(&found.object)))
            }
            ConfigMapOrSecret::ConfigMap(name) => {
                let found = self.objects.config_maps.get(name);
                ("ConfigMap", name, found.map(|found| folder::of_config_map(&found.object)))
            }
        };
        match files {
            Some(files) => files.map(Some),
            None if optional => Ok(None),
            None => Err(Error::new(
                ErrorKind::NotFound,
                format!("the manifest has no {kind} {name:?}, but the VM refers to it; add the object"),
            )),
        }
    }

    /// A file or block device of the user. A file to be created is left to the launcher.
    fn host_disk(&self, path: &str, create: Option<u64>) -> Result<Option<Source>> {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        use std::os::unix::fs::FileTypeExt as _;
        let place = PathBuf::from(path);
        match std::fs::metadata(&place) {
            Ok(facts) if facts.file_type().is_block_device() => Ok(Some(Source::Block { path: place })),
            Ok(facts) if facts.is_file() => {
                let format = self.host_format(&place)?;
                Ok(Some(Source::File { path: place, format, preallocated: false }))
            }
            Ok(_) => Err(Error::refused(format!("{path} is neither a file nor a block device"))),
            Err(e) if matches!(e.kind(), NotFound | NotADirectory) && create.is_some() => {
                folder_of_new(&place).map(|()| None)
            }
            Err(e) => Err(Error::io(format!("cannot use the disk {path}"), e)),
        }
    }
}

impl Resolver<'_> {
    /// Format of a disk file of the user. One that a VM had as a raw disk stays raw: its guest may have written
    /// anything into it.
    fn host_format(&self, path: &Path) -> Result<Format> {
        if self.raws.iter().any(|raw| raw == path) {
            return Ok(Format::Raw);
        }
        host_disks::format_of_host_disk(&self.images.home, path, |path| self.images.judge(path))
    }
}

/// Checks that the folder of a disk that is to be made exists. It is not made: the path may have a slip.
fn folder_of_new(path: &Path) -> Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    match std::fs::metadata(folder) {
        Ok(facts) if facts.is_dir() => Ok(()),
        Ok(_) => {
            let what =
                format!("cannot make the disk {}: {} is not a folder", path.display(), folder.display());
            Err(Error::refused(what))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let what = format!(
                "cannot make the disk {}: the folder {} does not exist",
                path.display(),
                folder.display()
            );
            let hint = format!("make it first (mkdir -p {}), or name another one", folder.display());
            Err(Error::new(ErrorKind::NotFound, what).with_hint(hint))
        }
        Err(e) => Err(Error::io(format!("cannot use the folder {}", folder.display()), e)),
    }
}

/// The pool, with the disks of one VM locked.
struct Claims<'a> {
    pool: Pool<'a>,
    held: &'a HeldDisks,
}

impl Claims<'_> {
    fn disk(&self, name: &str, usage: DiskUse) -> Result<Source> {
        self.pool.disk(name, self.held, usage)
    }
}

/// Name of the PVC whose disk a volume has.
fn claim(volume: &Volume) -> Option<&str> {
    match volume {
        Volume::Claim { name, .. } | Volume::DataVolume { name } | Volume::Ephemeral { claim: name } => {
            Some(name)
        }
        _ => None,
    }
}

/// Error for a volume of a kind that only clusters have. The check reports it first, with its field.
fn of_a_cluster() -> Error {
    Error::refused("only a cluster has volumes of the kinds downwardAPI, serviceAccount and containerPath")
}

/// Names of Secrets that hold texts of cloud-init.
fn texts(volume: &Volume) -> Vec<&str> {
    let (Volume::NoCloud(seed) | Volume::ConfigDrive(seed)) = volume else { return vec![] };
    let CloudInit { user_data, network_data } = seed;
    [user_data, network_data]
        .into_iter()
        .filter_map(|text| match text {
            Some(Text::Secret(name)) => Some(name.as_str()),
            _ => None,
        })
        .collect()
}
