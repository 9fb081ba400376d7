//! Volumes of a VMI in its pod: from a `Machine` and a pod, the volumes are prepared and become `Resolved`.
//!
//! ```text
//!  containerDisk, kernelBoot ─image──► the one disk in the mounted image, only read; or in one that another container of
//!                                      the pod provides
//!  claim, DataVolume ─────────claim──► disk.img, made or grown, the launcher's own      or a block device
//!  hostDisk ──────────────────claim──► the file in its folder: its namespace's and the launcher's, or made where it may be
//!  configMap, secret, sysprep ───────► the folder; the launcher writes the ISO image
//!  downwardAPI, serviceAccount ──────► the same
//!  a file system ────────────────────► the socket of the container that serves it
//!  hook sidecars ────────────────────► the folder of each, in which it listens
//!  EFI variables, TPM ────────state──► folders of the PVC for them, made, the launcher's own
//!
//!  each file that was found ────mount► a name in the launcher's own folder, over which that very file is mounted
//! ```
//!
//! **Called** on a thread that may block (`virt_handler::blocking`), before the hand-over to the launcher.
//! **Guarantees:** every fault is reported, not only the first; nothing outside the pod's own roots is
//! touched; an existing file is never made smaller. Empty disks and cloud-init seeds are made by the launcher
//! itself. **Given to the launcher:** new files; the `disk.img` and the device of a claim that this pod
//! mounts, if reached without a link, a further mount or a second hard link. An existing file of the host is
//! never given away: the error names its owner. **Location of a volume:** only mounts are trusted, since code
//! in the launcher's container can create folders and links below the launcher's own folder. The folder of a
//! hostDisk is known from the node, and never taken for a claim. **Two VMIs on this node** do not use one
//! disk at once, unless both share it: see `image_locks`.

pub mod claim;
pub mod container_image;
mod file_mounts;
pub mod image;
mod image_locks;
mod state;

use super::error::{Error, Result};
use super::pod::confined::{Access, PathHandle};
use super::pod::{Folder, Layout, PodFolder, Process, mounts};
use api::launcher::{Accelerator, Format, Hook, Kernel, Resolved, Source};
use api::machine::volume::{ConfigMapOrSecret, Text};
use api::machine::{CloudInit, Credential, Disk, Files, Machine, Volume, hook};
use api::vmi::{ClaimInfo, VirtualMachineInstance};
use cluster_model::launcher;
use image_locks::{DiskAccess, refuse_in_use};
use rustix::fs::FileType;
use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Input: a VMI and its pod.
pub struct Parts<'a> {
    /// Object of the VMI.
    pub vmi: &'a VirtualMachineInstance,
    /// Checked form of the spec of the VMI.
    pub machine: &'a Machine,
    /// The pod's folder on this node, with its layout.
    pub place: &'a PodFolder,
    /// Process of the launcher, …
    pub process: &'a Process,
    /// … and its root.
    pub root: &'a Folder,
    /// Settings for new disk files.
    pub files: Files,
    /// The guest migrates to this pod. Disks that are not copied are those of its source, which uses them meanwhile.
    pub receives: bool,
}

/// Result of the preparation.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Description for the launcher.
    pub resolved: Resolved,
    /// Notes for the user: reason and message of an event.
    pub notes: Vec<(&'static str, String)>,
}

/// Prepares the volumes of a VMI.
pub fn prepare(parts: &Parts<'_>) -> Result<Ready> {
    let accelerator = if parts.layout().kvm { Accelerator::Kvm } else { Accelerator::Emulation };
    let mut ready = Ready { resolved: Resolved { accelerator, ..Resolved::default() }, notes: Vec::new() };
    let mut faults = Vec::new();
    for disk in &parts.machine.disks {
        match parts.source(disk, &mut ready.notes) {
            Ok(Some(source)) => drop(ready.resolved.volumes.insert(disk.name.clone(), source)),
            Ok(None) => {}
            Err(e) => faults.push(e),
        }
    }
    for filesystem in &parts.machine.filesystems {
        let name = &filesystem.name;
        match parts.layout().filesystems.get(name) {
            Some(socket) => drop(ready.resolved.filesystems.insert(name.clone(), socket.into())),
            None => {
                let what = format!("no container of the launcher pod serves the file system '{name}'");
                faults.push(Error::refused(what));
            }
        }
    }
    match parts.hooks() {
        Ok(hooks) => ready.resolved.hooks = hooks,
        Err(e) => faults.push(e),
    }
    match parts.kernel() {
        Ok(kernel) => ready.resolved.kernel = kernel,
        Err(e) => faults.push(e),
    }
    match parts.state() {
        Ok(state) => ready.resolved.state = state,
        Err(e) => faults.push(e),
    }
    for secret in parts.secrets() {
        match parts.layout().secrets.get(secret) {
            Some(path) => drop(ready.resolved.secrets.insert(secret.to_owned(), path.into())),
            None => faults.push(Error::refused(format!("the secret {secret} is not in the launcher pod"))),
        }
    }
    match faults.len() {
        0 => Ok(ready),
        1 => Err(faults.remove(0)),
        _ => {
            let kind = faults[0].kind();
            let all: Vec<String> = faults.iter().map(Error::chain).collect();
            Err(Error::new(kind, all.join("; ")))
        }
    }
}

impl Parts<'_> {
    fn layout(&self) -> &Layout {
        self.place.layout()
    }

    /// Hook sidecars of the pod. They must be as many as the annotation names; otherwise the VMI would start
    /// without some of them.
    fn hooks(&self) -> Result<Vec<Hook>> {
        let (found, wanted) = (&self.layout().hooks, self.machine.hooks.len());
        if found.len() != wanted {
            return Err(Error::refused(format!(
                "the annotation {} and the network binding plugins of the VMI name {wanted} hook sidecars, and the launcher pod \
                 has {}: they were changed after the pod was created; stop the VMI and start it again",
                hook::ANNOTATION,
                found.len()
            )));
        }
        let folder = |container: &str| PathBuf::from(hook::SOCKETS).join(container);
        Ok(found.iter().map(|name| Hook::Sidecar { container: name.clone(), folder: folder(name) }).collect())
    }

    fn source(&self, disk: &Disk, notes: &mut Vec<(&'static str, String)>) -> Result<Option<Source>> {
        let name = &disk.name;
        Ok(Some(match &disk.volume {
            Volume::ContainerDisk { image, path } => {
                let index = self.vmi.spec.volumes.iter().position(|volume| volume.name == *name);
                let held = launcher::held(index.unwrap_or_default());
                let whole = self.image(&held, || self.mount(name))?;
                let found = image::disk(whole.folder(), &image.name, path.as_deref(), whole.not_its_own())?;
                let path = whole.launcher_path(&found.file, &found.path, &disk_of(name))?;
                Source::Image { path, format: found.format }
            }
            Volume::Claim { name: claim, readonly } => self.claim(disk, claim, *readonly, notes)?,
            Volume::DataVolume { name: claim } => self.claim(disk, claim, false, notes)?,
            Volume::Ephemeral { claim } => match self.claim(disk, claim, true, notes)? {
                Source::File { path, format, .. } => Source::Image { path, format },
                other => other,
            },
            Volume::Host { path, create, .. } => {
                let mount = self.mount(name)?;
                let folder = self.host_folder(path, mount)?;
                let file = path.rsplit('/').next().filter(|file| !file.is_empty());
                let file = file
                    .ok_or_else(|| Error::refused(format!("{path} of the volume '{name}' names no file")))?;
                let create = create.filter(|_| !self.receives);
                let held = claim::host_disk(&folder, file, create, self.files, &self.machine.namespace)?;
                self.raw(&held, disk, (Access::Write, !disk.readonly), (mount, file), false)?
            }
            Volume::ConfigMap { optional, .. } | Volume::Secret { optional, .. } => {
                self.folder(name, *optional)?
            }
            Volume::DownwardApi { .. } | Volume::ServiceAccount { .. } => self.folder(name, false)?,
            Volume::Sysprep { source: ConfigMapOrSecret::ConfigMap(_) | ConfigMapOrSecret::Secret(_) } => {
                self.folder(name, false)?
            }
            Volume::Empty { .. }
            | Volume::NoDisc
            | Volume::NoCloud(_)
            | Volume::ConfigDrive(_)
            | Volume::DownwardMetrics
            | Volume::ContainerPath { .. } => {
                return Ok(None);
            }
        }))
    }

    fn claim(
        &self,
        disk: &Disk,
        claim: &str,
        readonly: bool,
        notes: &mut Vec<(&'static str, String)>,
    ) -> Result<Source> {
        let volume = disk.name.as_str();
        let writes = !readonly && !disk.readonly;
        // Only a claim's own mount may be given to the launcher, not another one under the name of the
        // volume.
        if self.layout().claims.get(volume).map(String::as_str) != Some(claim) {
            let what = format!("the volume '{volume}' of the pod is not the claim {claim}");
            return Err(Error::refused(what));
        }
        if let Some(device) = self.layout().devices.get(volume) {
            // The container's own node of the device: a bind mount there would be the host's.
            let held = self
                .root
                .open_in_root("/dev")?
                .alone()?
                .held(device.strip_prefix("/dev/").unwrap_or(device))?;
            if held.kind() != FileType::BlockDevice {
                return Err(Error::refused(format!("{device} of the claim {claim} is not a block device")));
            }
            let copied = self.size_at_source(volume, claim)?;
            let same = || self.known_size(volume).filter(|_| self.receives);
            if let Some(wanted) = copied.or_else(same) {
                // The container's own node is beyond the mounts of this process.
                let mut device = self.place.block_device(&held)?.open_block_device()?;
                let cannot = |e| Error::io(format!("cannot read the size of the claim {claim}"), e);
                let size = device.seek(SeekFrom::End(0)).map_err(cannot)?;
                // QEMU copies into a device of the same size only.
                if size != wanted && copied.is_none() {
                    return Err(Error::refused(format!(
                        "the block device of the claim {claim} has {size} bytes, and {wanted} at the source: it is not the same storage \
                         on both nodes, although its access modes say so"
                    )));
                }
                if size != wanted {
                    return Err(Error::refused(format!(
                        "the block device of the claim {claim} has {size} bytes, and the disk that is to be copied has {wanted}: a disk \
                         is copied into a device of the same size"
                    )));
                }
            }
            held.give_to_launcher()?;
            // A launcher outside a container sees the same node as all others.
            let path = match mounts::are_ours(self.process)? {
                true => device.into(),
                false => self.device(&held, disk, writes)?,
            };
            return Ok(Source::Block { path });
        }
        let mount = self.mount(volume)?;
        let folder = self.open_mount(mount)?.alone()?;
        self.refuse_host_disk(&folder, claim)?;
        let mut wish = claim::ClaimedDisk::from_claim(claim, self.claim_info(volume), readonly, self.files);
        if let Some(size) = self.size_at_source(volume, claim)? {
            wish = wish.copied(size, !self.receives);
        } else if self.receives {
            wish = wish.of_source(self.known_size(volume));
        }
        let (held, note) = claim::prepare(&folder, &wish)?;
        notes.extend(note.map(|note| ("ToleratedSmallPV", note)));
        let preallocated = self.claim_info(volume).is_some_and(|info| info.preallocated == Some(true));
        let access = if readonly { Access::Read } else { Access::Write };
        self.raw(&held, disk, (access, writes), (mount, claim::DISK), preallocated)
    }

    /// Block device of a claim. All launchers on this node get the same device node, which carries QEMU's
    /// locks.
    fn device(&self, own: &PathHandle, disk: &Disk, writes: bool) -> Result<PathBuf> {
        let (node, name) = (self.place.block_device(own)?, disk_of(&disk.name));
        if !self.is_shown(&node, &name)? && !self.is_of_source(disk) {
            refuse_in_use(&node.open_block_device()?, own.display_path(), access_of(disk, writes))?;
        }
        self.show_device(&node, &name)
    }

    /// A disk that is a file of a claim or of the host. It is always raw: a qcow2 header that a guest writes
    /// to its disk must not be trusted.
    fn raw(
        &self,
        file: &PathHandle,
        disk: &Disk,
        (access, writes): (Access, bool),
        (mount, path): (&str, &str),
        preallocated: bool,
    ) -> Result<Source> {
        let (there, name) = (PathBuf::from(mount).join(path), disk_of(&disk.name));
        if !self.is_shown(file, &name)? && !self.is_of_source(disk) {
            refuse_in_use(&file.open(Access::Read)?, file.display_path(), access_of(disk, writes))?;
        }
        let path = self.show(file, self.process, &name, access, Some(there))?;
        Ok(Source::File { path, format: Format::Raw, preallocated })
    }

    /// Folder of a hostDisk in the launcher's container. It must be the very folder of the path on the node,
    /// without a link on the way: the settings permit paths, and the kubelet follows links.
    fn host_folder(&self, path: &str, mount: &str) -> Result<Folder> {
        let (parent, kubelet) = (parent_of(path), self.place.kubelet());
        if Path::new(parent).starts_with(&kubelet) || kubelet.starts_with(parent) {
            return Err(Error::refused(format!("the hostDisk {path} lies in or above the kubelet's folder")));
        }
        let folder = self.open_mount(mount)?.alone()?;
        let of_node = self.place.of_node_without_links(parent).map_err(|e| {
            let what = format!("the folder of the hostDisk {path} cannot be used");
            Error::new(e.kind(), what).because(e)
        })?;
        match folder.is(&of_node)? {
            true => Ok(folder),
            false => Err(Error::refused(format!(
                "{} is not the folder {parent} of the node, in which the hostDisk {path} lies",
                folder.display_path().display()
            ))),
        }
    }

    /// The cluster's information about the claim of a volume.
    fn claim_info(&self, volume: &str) -> Option<&ClaimInfo> {
        let status = self.vmi.status.as_ref()?;
        status.volume_status.iter().find(|known| known.name == volume)?.persistent_volume_claim_info.as_ref()
    }

    /// True for a disk of a guest that migrates here, which its source uses until then. QEMU takes over the locks.
    fn is_of_source(&self, disk: &Disk) -> bool {
        let status = self.vmi.status.as_ref();
        let is_copied = status.is_some_and(|status| {
            status.migrated_volumes.iter().any(|migrated| migrated.volume_name == disk.name)
        });
        self.receives && !is_copied
    }

    /// Bytes of a disk, as the launcher of the guest tells them.
    fn known_size(&self, volume: &str) -> Option<u64> {
        let status = self.vmi.status.as_ref()?;
        let known = status.volume_status.iter().find(|known| known.name == volume)?;
        u64::try_from(known.size?).ok()
    }

    /// Bytes of a disk at the source of a live migration that copies it into this claim.
    fn size_at_source(&self, volume: &str, claim: &str) -> Result<Option<u64>> {
        let Some(status) = &self.vmi.status else { return Ok(None) };
        let mut migrated = status.migrated_volumes.iter();
        if !migrated.any(|one| one.volume_name == volume && one.destination() == Some(claim)) {
            return Ok(None);
        }
        let unknown = || Error::failed(format!("the status of the VMI has no size of the volume '{volume}'"));
        self.known_size(volume).map(Some).ok_or_else(unknown)
    }

    /// Folder of an ISO image. An optional volume that does not exist is an empty folder in the pod.
    fn folder(&self, volume: &str, optional: bool) -> Result<Source> {
        match self.layout().mounts.get(volume) {
            Some(mount) if optional && self.open_mount(mount)?.names(1 << 12)?.is_empty() => {
                Ok(Source::Absent)
            }
            Some(mount) => Ok(Source::Folder { path: mount.into() }),
            None if optional => Ok(Source::Absent),
            None => Err(self.not_there(volume)),
        }
    }

    fn kernel(&self) -> Result<Option<Kernel>> {
        let Some(boot) = &self.machine.firmware.kernel else { return Ok(None) };
        let Some(image) = &boot.image else {
            return Ok(None);
        };
        let mounted = || self.layout().kernel.as_deref().ok_or_else(|| self.not_there("kernel-boot"));
        let whole = self.image(launcher::HELD_KERNEL, mounted)?;
        let file = |path: &Option<String>, what: &str| -> Result<Option<PathBuf>> {
            let Some(path) = path else { return Ok(None) };
            let path = path.trim_start_matches('/');
            let found = whole.folder().held(path);
            let found = found.and_then(|found| found.open(Access::Read).map(|_| found)).map_err(|e| {
                Error::new(e.kind(), format!("the image {} has no {what} {path}", image.name)).because(e)
            })?;
            whole.launcher_path(&found, path, what).map(Some)
        };
        let kernel = file(&boot.kernel_path, "kernel")?;
        let initrd = file(&boot.initrd_path, "initrd")?;
        let none = || Error::refused("spec.domain.firmware.kernelBoot.container names no kernelPath");
        Ok(Some(Kernel { kernel: kernel.ok_or_else(none)?, initrd, args: boot.args.clone() }))
    }

    /// Secrets that the VMI names without a volume.
    fn secrets(&self) -> impl Iterator<Item = &str> {
        let texts = self.machine.disks.iter().filter_map(|disk| match &disk.volume {
            Volume::NoCloud(texts) | Volume::ConfigDrive(texts) => Some(texts),
            _ => None,
        });
        let texts =
            texts.flat_map(|CloudInit { user_data, network_data }| [user_data, network_data]).flatten();
        let texts = texts.filter_map(|text| match text {
            Text::Secret(name) => Some(name.as_str()),
            Text::Inline(_) => None,
        });
        let credentials = self.machine.credentials.iter().map(Credential::secret);
        texts.chain(credentials)
    }

    /// An image: provided by a container beside the launcher, or mounted.
    fn image<'a>(
        &'a self,
        held: &str,
        mounted: impl FnOnce() -> Result<&'a str>,
    ) -> Result<container_image::Image<'a>> {
        match self.layout().beside.get(held) {
            Some(beside) => container_image::Image::held_out(beside, self),
            None => container_image::Image::from_mount(mounted()?, self),
        }
    }

    fn mount(&self, volume: &str) -> Result<&str> {
        self.layout().mounts.get(volume).map(String::as_str).ok_or_else(|| self.not_there(volume))
    }

    /// Mount at a path of the launcher's container. Code in the container may write to the outermost mount on
    /// the way: entries below it are untrusted until they are known to be mounts.
    fn open_mount(&self, path: &str) -> Result<Folder> {
        let folder = self.seen(path)?;
        // A launcher outside a container has plain folders instead of mounts.
        if folder.is_mount()? || mounts::are_ours(self.process)? {
            return Ok(folder);
        }
        let shown = folder.display_path().display();
        Err(Error::refused(format!("{shown} is a plain folder: no volume is mounted there")))
    }

    /// A folder of the launcher's container. Links of its image are followed as far as the outermost mount,
    /// and none below.
    fn seen(&self, path: &str) -> Result<Folder> {
        let below = |mount: &String| {
            let rest = path.strip_prefix(mount.trim_end_matches('/'))?;
            Some((mount.len(), rest.strip_prefix('/')?))
        };
        match self.layout().mounts.values().filter_map(below).min() {
            Some((outermost, rest)) => self.root.open_in_root(&path[..outermost])?.folder(rest),
            None => self.root.open_in_root(path),
        }
    }

    /// Refuses the folder of a hostDisk in place of a claim, since files in it must not be given away. A
    /// tenant that may write to the parent folder of both mounts can exchange their names.
    fn refuse_host_disk(&self, folder: &Folder, claim: &str) -> Result<()> {
        for disk in &self.machine.disks {
            let Volume::Host { path, .. } = &disk.volume else { continue };
            let of_host = self.place.of_node(parent_of(path))?;
            if folder.is(&of_host)? {
                return Err(Error::refused(format!(
                    "{} is the folder of the hostDisk {path}, and not the claim {claim}",
                    folder.display_path().display()
                )));
            }
        }
        Ok(())
    }

    fn not_there(&self, volume: &str) -> Error {
        Error::refused(format!("the volume '{volume}' is not mounted in the launcher pod"))
    }
}

/// Folder of a file.
fn parent_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((parent, _)) if !parent.is_empty() => parent,
        _ => "/",
    }
}

/// Use of a disk by a VMI.
fn access_of(disk: &Disk, writes: bool) -> DiskAccess {
    DiskAccess { writes, is_shareable: disk.shareable }
}

/// File name of a volume's disk in the launcher's folder. That of a kernel has no extension.
fn disk_of(volume: &str) -> String {
    format!("{volume}.img")
}

#[cfg(test)]
mod tests;
