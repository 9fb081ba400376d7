//! Virtual hardware by flags, for VMs that are made from a disk or an image.

use super::start_args::StartArgs;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use cdi::filter::refuse_raw;
use cdi::source::name_digest;
use container_disk::Name;
use container_disk::meaning::{Meaning, Role, Surroundings, expand, home, not_a_volume};
use local_vm::from_image::{Account, Drive, Loader, VmFlags, name_from};
use local_vm::host_disks;
use local_vm::new_name::VmSource;
use local_vm::path::absolute;
use local_vm::place::Home;
use local_vm::resolve::image::{Images, Policy, format_of};
use std::path::{Path, PathBuf};

/// Virtual hardware of a VM that is made from a disk or an image.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "For disks and images")]
pub(crate) struct HardwareArgs {
    /// Number of vCPUs [default: 2, at most the number of CPUs of this
    /// computer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    cpus: Option<u32>,

    /// Size of the guest memory [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = cdi::size::parse)]
    memory: Option<u64>,

    /// Additional disk: FILE, FILE:SIZE (created if missing), SIZE (empty at
    /// each start of the VM), or an image
    #[arg(long = "disk", value_name = "DISK")]
    disks: Vec<String>,

    /// File that is a raw disk, SRC or of --disk, whatever its guest wrote in
    /// front; once a VM starts, it stays known as one (repeatable)
    #[arg(long = "raw", value_name = "FILE")]
    raws: Vec<PathBuf>,

    /// Additional CD-ROM: an ISO file
    #[arg(long = "cdrom", value_name = "ISO")]
    cdroms: Vec<PathBuf>,

    /// File with user data for cloud-init
    #[arg(long, value_name = "FILE", conflicts_with_all = ["user", "password", "ssh_keys"])]
    cloud_init: Option<PathBuf>,

    /// Create this user by cloud-init
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Password of the user, set by cloud-init; - reads CORACLE_GUEST_PASSWORD
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,

    /// SSH public key of the user, set by cloud-init: a file, or the key itself
    #[arg(long = "ssh-key", value_name = "KEY")]
    ssh_keys: Vec<String>,

    /// Boot with EFI instead of BIOS
    #[arg(long)]
    efi: bool,

    /// Boot with EFI that starts signed boot loaders only
    #[arg(long)]
    secure_boot: bool,

    /// Add a TPM 2.0; its state and that of EFI are kept beside the disk, in
    /// DISK.state
    #[arg(long)]
    tpm: bool,

    /// Start the VM without a network
    #[arg(long)]
    no_network: bool,
}

/// Objects of a VM that is made from a disk or an image.
pub(super) struct VmObjects {
    pub(super) documents: Vec<serde_json::Value>,
    pub(super) source: VmSource,
    /// Disks that are raw by the user's word.
    pub(super) raws: Vec<PathBuf>,
}

impl HardwareArgs {
    /// Refuses these flags for a manifest, which has fields for all of them.
    pub(super) fn check_unused(&self) -> Result<()> {
        let used = [
            ("--cpus", self.cpus.is_some()),
            ("--memory", self.memory.is_some()),
            ("--disk", !self.disks.is_empty()),
            ("--raw", !self.raws.is_empty()),
            ("--cdrom", !self.cdroms.is_empty()),
            ("--cloud-init", self.cloud_init.is_some()),
            ("--user", self.user.is_some()),
            ("--password", self.password.is_some()),
            ("--ssh-key", !self.ssh_keys.is_empty()),
            ("--efi", self.efi),
            ("--secure-boot", self.secure_boot),
            ("--tpm", self.tpm),
            ("--no-network", self.no_network),
        ];
        match used.iter().find(|(_, used)| *used) {
            Some(("--raw", _)) => {
                let hint = "'coracle run FILE --raw FILE' notes it for every VM, also for one of a manifest";
                Err(Error::new(ErrorKind::Usage, "--raw is for disks and images").with_hint(hint))
            }
            Some((flag, _)) => {
                let what = format!("{flag} is for disks and images; write it into the manifest");
                Err(Error::new(ErrorKind::Usage, what))
            }
            None => Ok(()),
        }
    }

    /// Objects of a VM whose first drive is SRC. `choose` tells the name of the VM, which its disks of the pool have, too.
    pub(super) fn objects(
        &self,
        source: &str,
        args: &StartArgs,
        images: &Images,
        choose: impl FnOnce(&VmSource) -> Result<String>,
    ) -> Result<VmObjects> {
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let mut flags = VmFlags {
            cpus: self.cpus.unwrap_or(if available > 1 { 2 } else { 1 }),
            memory: self.memory.unwrap_or(1 << 30),
            user_data: self.user_data()?,
            boot: self.loader(),
            tpm: self.tpm,
            offline: self.no_network,
            ..VmFlags::default()
        };
        let (made_from, is_image) = self.first(source, args, images, &mut flags)?;
        for disk in &self.disks {
            flags.drives.push(further(disk, &*args.places.open())?);
        }
        let raws = self.raw_disks(&flags.drives)?;
        for cdrom in &self.cdroms {
            flags.drives.push(Drive::Cdrom(existing(cdrom)?));
        }
        let source = VmSource { name: name_from(source), made_from, is_image, drives: flags.drives.clone() };
        flags.name = choose(&source)?;
        Ok(VmObjects { documents: flags.objects(), source, raws })
    }

    fn loader(&self) -> Loader {
        match (self.secure_boot, self.efi) {
            (true, _) => Loader::SecureBoot,
            (false, true) => Loader::Efi,
            (false, false) => Loader::Bios,
        }
    }

    /// Adds the first drive. Returns SRC as a record keeps it, and true for an image.
    fn first(
        &self,
        source: &str,
        args: &StartArgs,
        images: &Images,
        flags: &mut VmFlags,
    ) -> Result<(String, bool)> {
        let name = match Meaning::of(source, Role::Disk, &*args.places.open())? {
            Meaning::Web(url) => {
                let made_from = format!("url {}", name_digest(&url));
                flags.drives.push(Drive::Web(url));
                return Ok((made_from, false));
            }
            Meaning::File(path) => {
                let path = existing(&path)?;
                let real = path
                    .canonicalize()
                    .map_err(|e| Error::io(format!("cannot find {}", path.display()), e))?;
                let is_raw = self.raws()?.iter().any(|raw| is_same_file(raw, &path));
                let drive = if is_raw { Drive::File(path, None) } else { drive_of(path, &images.home)? };
                flags.drives.push(drive);
                return Ok((format!("file {}", real.display()), false));
            }
            Meaning::Volume(volume) => return Err(not_a_volume(&volume).into()),
            Meaning::Pipe => {
                return Err(Error::new(ErrorKind::Usage, "a VM has no disk from standard input"));
            }
            Meaning::Image(name) => name,
        };
        let policy = match args.pull {
            Some(pull) => pull.policy(),
            None => Policy::parse(None, source)?,
        };
        // The manifest of the VM has the name as it is written, with the full path of an archive or a layout.
        let written = match name {
            Name::Registry(_) | Name::Store(_) => source.to_owned(),
            Name::Layout(..) | Name::OciArchive(..) | Name::DockerArchive(..) => name.to_string(),
        };
        let image = images.bring(name, policy).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::Failed if !source.contains("://") => {
                e.with_hint(format!("no file {source} exists either"))
            }
            _ => e,
        })?;
        flags.kernel = Images::boot(&image).map(|boot| (written.clone(), boot));
        if flags.kernel.is_none() || images.has_disk(&image)? {
            flags.drives.push(Drive::Image(written.clone()));
        }
        Ok((format!("image {written}"), true))
    }

    /// The files of `--raw`.
    fn raws(&self) -> Result<Vec<PathBuf>> {
        self.raws.iter().map(|raw| existing(raw)).collect()
    }

    /// Paths of the drives that are raw by the user's word.
    fn raw_disks(&self, drives: &[Drive]) -> Result<Vec<PathBuf>> {
        let mut disks = vec![];
        for raw in self.raws()? {
            if !raw.is_file() {
                let what = format!("--raw {}: only a file has a format of its own", raw.display());
                return Err(Error::new(ErrorKind::Usage, what));
            }
            let known = disks.len();
            disks.extend(drives.iter().filter_map(|drive| match drive {
                Drive::File(path, _) if is_same_file(&raw, path) => Some(path.clone()),
                _ => None,
            }));
            if disks.len() == known {
                let what = format!("--raw {} is not a disk of this VM", raw.display());
                return Err(Error::new(ErrorKind::Usage, what).with_hint("name it as SRC or by --disk, too"));
            }
        }
        Ok(disks)
    }

    fn user_data(&self) -> Result<Option<String>> {
        if let Some(path) = &self.cloud_init {
            let read = std::fs::read_to_string(full(path)?);
            return read.map(Some).map_err(|e| Error::io(format!("cannot read {}", path.display()), e));
        }
        let password = match self.password.as_deref() {
            Some("-") => Some(std::env::var("CORACLE_GUEST_PASSWORD").map_err(|_| {
                Error::new(ErrorKind::Usage, "--password - needs the variable CORACLE_GUEST_PASSWORD")
            })?),
            other => other.map(str::to_owned),
        };
        let mut keys = vec![];
        for key in &self.ssh_keys {
            keys.extend(key_lines(key)?);
        }
        let account = Account { user: self.user.clone(), password, keys };
        Ok((!account.is_empty()).then(|| account.user_data()))
    }
}

/// The first drive of a VM that boots from a file: an ISO image is a CD-ROM, unless it is a raw disk whose guest may have written
/// it.
fn drive_of(path: PathBuf, home: &Home) -> Result<Drive> {
    if !path.is_file() {
        return Ok(Drive::File(path, None));
    }
    // A record that cannot be read does not forbid an ISO, which is only read.
    let is_written = host_disks::is_written_raw(home, &path)?;
    let is_iso = match format_of(&path) {
        Err(e) if !is_written => return Err(e.into()),
        format => format.is_ok_and(|format| format == disk_format::Format::Iso),
    };
    if is_iso && is_written {
        ui::say(&format!(
            "coracle: {} begins like an ISO image, and is a disk here: a guest had it as one, and could write to it; a copy of it \
             is a CD-ROM",
            path.display()
        ));
    }
    Ok(if is_iso && !is_written { Drive::Cdrom(path) } else { Drive::File(path, None) })
}

/// True if both paths lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// A disk of `--disk`: without a scheme a path, or a size.
fn further(text: &str, around: &dyn Surroundings) -> Result<Drive> {
    let path = match Meaning::of(text, Role::DiskTarget, around)? {
        Meaning::Image(_) => return Ok(Drive::Image(text.to_owned())),
        Meaning::Web(url) => return Ok(Drive::Web(url)),
        Meaning::File(path) => path,
        Meaning::Volume(_) | Meaning::Pipe => {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("--disk {text}: a disk is a file, a size or an image"),
            ));
        }
    };
    if path.exists() {
        return Ok(Drive::File(existing(&path)?, None));
    }
    if let Ok(size) = cdi::size::parse(text) {
        return Ok(Drive::Empty(size));
    }
    if around.stored()?.iter().any(|stored| stored == text || *stored == format!("{text}:latest")) {
        let what = format!("--disk {text}: {text} is an image of the store, and no file of that name exists");
        return Err(
            Error::new(ErrorKind::NotFound, what).with_hint(format!("the image is written store:{text}"))
        );
    }
    let written = path.to_string_lossy();
    if let Some((file, size)) = written.rsplit_once(':')
        && let Ok(size) = cdi::size::parse(size)
        && size > 0
    {
        if refuse_raw(file, &[], 0, None).is_some() {
            let what =
                format!("--disk {text}: the disk that is made is raw, and its name promises another format");
            return Err(Error::new(ErrorKind::Usage, what).with_hint("give it a name like disk.img"));
        }
        return Ok(Drive::File(absolute(Path::new(file))?, Some(size)));
    }
    let what =
        format!("--disk {text}: file not found; write FILE:SIZE to make one, or docker://… for an image");
    Err(Error::new(ErrorKind::NotFound, what))
}

/// Public keys in a file, or the key itself.
fn key_lines(text: &str) -> Result<Vec<String>> {
    let is_key =
        |line: &str| line.starts_with("ssh-") || line.starts_with("ecdsa-") || line.starts_with("sk-");
    if is_key(text) && text.contains(' ') {
        return Ok(vec![text.to_owned()]);
    }
    let content = std::fs::read_to_string(full(Path::new(text))?)
        .map_err(|e| Error::io(format!("cannot read the key {text}"), e))?;
    let keys: Vec<String> =
        content.lines().map(str::trim).filter(|line| is_key(line)).map(str::to_owned).collect();
    if keys.is_empty() {
        let what = format!("{text} holds no public key; it is the file that ends in .pub");
        return Err(Error::new(ErrorKind::Usage, what));
    }
    Ok(keys)
}

/// The path of a flag, with `~` expanded: `--cdrom=~/a.iso` reaches the program as it is written.
fn full(path: &Path) -> Result<PathBuf> {
    Ok(path.to_str().map_or_else(|| Ok(path.to_owned()), |text| expand(text, home()))?)
}

fn existing(path: &Path) -> Result<PathBuf> {
    let path = &full(path)?;
    match path.exists() {
        true => Ok(absolute(path)?),
        false => Err(Error::new(ErrorKind::NotFound, format!("file {} not found", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use container_disk::open::Places;

    fn home(folder: &Path) -> Home {
        Home::from_env(Some(folder.join("h")), |_| None).unwrap()
    }

    /// A file that begins as an ISO image does.
    fn iso(folder: &Path) -> PathBuf {
        let path = folder.join("i.img");
        let mut bytes = vec![0; 64 << 10];
        bytes[(32 << 10) + 1..][..5].copy_from_slice(b"CD001");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Its guest wrote the mark of an ISO image, and would have had a CD-ROM that it cannot write to.
    #[test]
    fn a_raw_disk_is_no_cdrom_whatever_its_guest_writes() {
        let folder = tempfile::tempdir().unwrap();
        let (home, path) = (home(folder.path()), iso(folder.path()));
        assert_eq!(drive_of(path.clone(), &home).unwrap(), Drive::Cdrom(path.clone()));
        host_disks::note_raw(&home, &path).unwrap();
        assert_eq!(drive_of(path.clone(), &home).unwrap(), Drive::File(path, None));
    }

    /// An earlier version noted the ISO image of a CD-ROM as a raw disk, and the installer could have written to it.
    #[test]
    fn an_iso_in_a_list_of_an_earlier_version_stays_a_cdrom() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (home, path) = (home(folder.path()), iso(folder.path()));
        host_disks::note_raw(&home, &path).unwrap();
        let list = folder.path().join("h/data/raw-disks.json");
        let facts = std::fs::metadata(&path).unwrap();
        let entry = |size| {
            serde_json::json!({"schema": "coracle.raw-disks/v1", "disks": [
                {"path": path, "file": {"id": {"ino": facts.ino()}, "size": size}}
            ]})
        };
        for size in [facts.len(), 4096] {
            std::fs::write(&list, entry(size).to_string()).unwrap();
            assert_eq!(drive_of(path.clone(), &home).unwrap(), Drive::Cdrom(path.clone()));
        }
        host_disks::note_raw(&home, &path).unwrap();
        assert_eq!(drive_of(path.clone(), &home).unwrap(), Drive::File(path, None));
    }

    /// Every verb refused it afterwards, as one that its name says nothing true of.
    #[test]
    fn no_raw_disk_is_made_under_the_name_of_another_format() {
        let folder = tempfile::tempdir().unwrap();
        let around = Places::new(None);
        for (name, is_refused) in [("new.qcow2", true), ("new.QCOW2", true), ("new.img", false)] {
            let made = further(&format!("{}:16M", folder.path().join(name).display()), &around);
            assert_eq!(
                made.is_err_and(|e| e.to_string().contains("is raw, and its name")),
                is_refused,
                "{name}"
            );
        }
    }

    #[test]
    fn a_disk_is_raw_by_the_word_of_its_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = iso(folder.path());
        let link = folder.path().join("link.img");
        std::os::unix::fs::symlink("i.img", &link).unwrap();
        let args = HardwareArgs { raws: vec![link], ..HardwareArgs::default() };
        let e = args.raw_disks(&[Drive::Cdrom(path.clone())]).unwrap_err();
        assert!(e.kind() == ErrorKind::Usage && e.to_string().contains("is not a disk of this VM"), "{e}");
        // The objects have this path, and not that of the flag.
        assert_eq!(args.raw_disks(&[Drive::File(path.clone(), None)]).unwrap(), [path]);
        let args = HardwareArgs { raws: vec![folder.path().to_owned()], ..HardwareArgs::default() };
        let e = args.raw_disks(&[Drive::File(folder.path().to_owned(), None)]).unwrap_err();
        assert!(e.to_string().contains("only a file has a format"), "{e}");
        let e = args.check_unused().unwrap_err();
        assert!(e.to_string().contains("--raw"), "{e}");
    }
}
