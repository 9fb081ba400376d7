//! The verb `coracle run`.

use super::registry_args::RegistryArgs;
use super::vm_args::HomeArgs;
use super::vm_args::LauncherArgs;
use super::vms;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use api::launcher::{Forward, Link, State};
use api::wire::Wire as _;
use cdi::run::watch::Watch;
use local_vm::confined;
use local_vm::from_image::{Account, Drive, Loader, VmFlags, name_from};
use local_vm::manifest::{self, Objects, Selection, is_manifest, refusal};
use local_vm::record::Vm;
use local_vm::resolve::accelerator;
use local_vm::resolve::image::{Images, Policy, format_of, name_of};
use local_vm::resolve::network;
use local_vm::start::{StartOptions, Starter, absolute, free_name};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Run a virtual machine: from a manifest, an image, a disk or an ISO
///
/// SRC is a manifest (a file or a folder; -f - reads standard input) with a
/// VirtualMachine or a VirtualMachineInstance and related objects, an image
/// with a disk or a kernel in it, a disk, an ISO, or a disk's http:// address.
/// The terminal becomes the VM's serial console; Ctrl-] leaves the console,
/// and the VM keeps running.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle run vm.yaml\n  \
    coracle run docker://registry.example/os:12 --ssh-key ~/.ssh/id_ed25519.pub -p 2222:22\n  \
    coracle run -d --name web disk.qcow2 --memory 2G\n  \
    coracle run installer.iso --disk new.img:20G\n  \
    coracle run windows.iso --disk windows.img:64G --efi --tpm --memory 4G\n  \
    coracle run disk.qcow2 --dry-run -o yaml > vm.yaml")]
pub(crate) struct Args {
    /// Source of the VM: a manifest, image, disk, ISO or http:// address
    #[arg(value_name = "SRC", required_unless_present = "files")]
    source: Option<String>,

    /// Manifest: a file, a folder, or - for standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with = "source")]
    files: Vec<String>,

    #[command(flatten)]
    start: StartArgs,

    #[command(flatten)]
    hardware: HardwareArgs,

    /// Detach: print the name of the VM and exit once it has started
    #[arg(short, long)]
    detach: bool,

    /// Remove the VM when it has stopped
    #[arg(long)]
    rm: bool,

    /// Start every VM of a manifest (requires -d)
    #[arg(long, conflicts_with = "name", requires = "detach")]
    all: bool,

    /// Print the objects without starting the VM, after the checks of a start
    #[arg(long)]
    dry_run: bool,

    /// Output format of --dry-run
    #[arg(short, long, value_enum, default_value = "yaml", value_name = "FORMAT")]
    output: OutputFormat,
}

/// Accelerator that the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AcceleratorChoice {
    /// KVM if it boots kernels, else emulation.
    Auto,
    /// KVM, without a probe.
    Kvm,
    /// Emulation by QEMU (TCG).
    Emulation,
}

impl From<AcceleratorChoice> for accelerator::Choice {
    fn from(choice: AcceleratorChoice) -> accelerator::Choice {
        match choice {
            AcceleratorChoice::Auto => accelerator::Choice::Auto,
            AcceleratorChoice::Kvm => accelerator::Choice::Kvm,
            AcceleratorChoice::Emulation => accelerator::Choice::Emulation,
        }
    }
}

/// Options for the start of a VM, shared by `run` and `test`.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// Name of the VM [default: from the manifest, or derived from SRC]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,

    /// Forward a port to the guest: HOST:GUEST or ADDRESS:HOST:GUEST, and /udp
    #[arg(short, long = "publish", value_name = "PORTS", value_parser = network::forward)]
    publish: Vec<Forward>,

    /// Forward the ports of the interfaces in the manifest, too
    #[arg(short = 'P', long)]
    publish_all: bool,

    /// Accelerator of the VM
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    accel: AcceleratorChoice,

    /// Program that changes the libvirt domain before each start: it is called
    /// with --vmi JSON and --domain XML, and prints the domain (repeatable)
    #[arg(long = "hook", value_name = "FILE", value_hint = clap::ValueHint::ExecutablePath)]
    hooks: Vec<PathBuf>,

    /// Image pull policy [default: from the manifest]
    #[arg(long, value_enum, value_name = "WHEN")]
    pull: Option<Pull>,

    /// Hide the progress bar
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    pub(super) home: HomeArgs,

    #[command(flatten)]
    pub(super) launcher: LauncherArgs,

    #[command(flatten)]
    places: RegistryArgs,
}

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

    /// Additional disk: FILE, FILE:SIZE (created if missing), SIZE (empty,
    /// deleted with the VM), or an image
    #[arg(long = "disk", value_name = "DISK")]
    disks: Vec<String>,

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Pull {
    Always,
    Missing,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OutputFormat {
    Yaml,
    Json,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let prepared = Prepared::read(args.source.as_deref(), &args.files, &args.start, &args.hardware)?;
    let which = match (&args.start.name, args.all) {
        (_, true) => Selection::All,
        (Some(name), _) => Selection::Named(name.clone()),
        (None, _) => Selection::Only,
    };
    if args.dry_run {
        return dry_run(args, &prepared, &which);
    }
    vms::sweep(&prepared.images.home)?;
    ui::on_interrupt(Arc::new(Watch::default()))?;
    let started = prepared.start(&args.start, &which, args.rm)?;
    if args.detach {
        for (vm, state) in &started {
            tell_forwards(vm);
            ui::out(&format!("{}\n", vm.name()))?;
            vms::ended(vm, state)?;
        }
        return Ok(());
    }
    let Some((vm, _)) = started.first() else { return Ok(()) };
    tell_forwards(vm);
    let over = super::console::attach(vm, true)?;
    let Some(state) = over else { return Ok(()) };
    if args.rm
        && let Err(e) = vms::remove(&vm.home, vm.name(), true)
    {
        // Another command removes it now, or a later one will.
        tracing::info!("{} is not removed yet: {e}", vm.name());
    }
    vms::ended(vm, &state)
}

fn dry_run(args: &Args, prepared: &Prepared, which: &Selection) -> Result<()> {
    let mut documents = prepared.beside.clone();
    let options = prepared.options(&args.start);
    for written in prepared.objects.choose(&prepared.what, which)? {
        let own = written.object.metadata.name.clone().unwrap_or_default();
        let name = args.start.name.as_deref().unwrap_or(&own);
        options.check(written, name)?;
        let mut vmi = written.object.clone();
        vmi.metadata.name = Some(name.to_owned());
        documents.push(vmi.write());
    }
    match args.output {
        OutputFormat::Yaml => ui::out(&manifest::text(&documents)),
        OutputFormat::Json if documents.len() == 1 => ui::json(&documents[0]),
        OutputFormat::Json => {
            ui::json(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": documents}))
        }
    }
}

/// Prints the addresses of the guest's forwarded ports.
fn tell_forwards(vm: &Vm) {
    for link in vm.record.sync.resolved.interfaces.values() {
        let Link::User { forwards, .. } = link else { continue };
        for Forward { protocol, address, port, guest_port } in forwards {
            ui::say(&format!(
                "coracle: {address}:{port}/{protocol} is forwarded to port {guest_port} of {}",
                vm.name()
            ));
        }
    }
}

/// Objects of a verb's source, read and checked.
pub(super) struct Prepared {
    /// Name of the source in messages.
    pub(super) what: String,
    pub(super) objects: Objects,
    pub(super) images: Images,
    launcher: Option<PathBuf>,
    /// True if the VM's name is derived from an image, and may get a number appended.
    is_image: bool,
    /// Objects of the VM besides the VMI, for `--dry-run`.
    beside: Vec<serde_json::Value>,
}

impl Prepared {
    /// Reads SRC, or the files of `-f`.
    pub(super) fn read(
        source: Option<&str>,
        files: &[String],
        args: &StartArgs,
        hardware: &HardwareArgs,
    ) -> Result<Prepared> {
        confined::tell_own();
        let home = args.home.home()?;
        let images = Images::new(args.places.settings(), home, args.quiet, ui::say);
        let launcher = args.launcher.find().ok();
        let manifest = |files: &[String]| {
            hardware.check_unused()?;
            Ok::<_, Error>((files.join(", "), manifest::read(files)?, vec![], false))
        };
        let (what, objects, beside, is_image) = match source {
            None => manifest(files)?,
            Some("-") => manifest(&["-".to_owned()])?,
            Some(source) if is_text(Path::new(source)) => manifest(&[source.to_owned()])?,
            Some(source) => {
                let (documents, is_image) = hardware.objects(source, args, &images)?;
                let objects = manifest::made(source, documents.clone());
                let beside =
                    documents.into_iter().filter(|d| d["kind"] != "VirtualMachineInstance").collect();
                (source.to_owned(), objects, beside, is_image)
            }
        };
        for warning in &objects.warnings {
            ui::say(&format!("coracle: warning: {warning}"));
        }
        let mut objects = objects;
        let mut faults = std::mem::take(&mut objects.faults);
        // Faults of the VMs are reported together with those of all other objects.
        for written in &objects.vmis {
            let more = local_vm::start::faults(written);
            // A field that could not be read is not also reported as missing.
            faults.extend(
                more.into_iter()
                    .filter(|finding| !faults.iter().any(|known| known.covers(finding)))
                    .collect::<Vec<_>>(),
            );
        }
        if !faults.is_empty() {
            return Err(refusal(&what, faults).into());
        }
        Ok(Prepared { what, objects, images, launcher, is_image, beside })
    }

    /// Starts the selected VMs.
    fn start(&self, args: &StartArgs, which: &Selection, remove: bool) -> Result<Vec<(Vm, State)>> {
        let launcher = self.launcher(args)?;
        let start = self.starter(args, &launcher, remove);
        let mut started = vec![];
        for written in self.objects.choose(&self.what, which)? {
            let own = written.object.metadata.name.clone().unwrap_or_default();
            let name = match &args.name {
                Some(name) => name.clone(),
                None if self.is_image => free_name(&self.images.home, &own)?,
                None => own,
            };
            started.push(start.start(written, &name)?);
        }
        Ok(started)
    }

    /// Starts the selected VM under this name, to be removed after its end.
    pub(super) fn start_as(&self, args: &StartArgs, which: &Selection, name: &str) -> Result<Vm> {
        let launcher = self.launcher(args)?;
        let chosen = self.objects.choose(&self.what, which)?;
        let first = chosen.first().ok_or_else(|| Error::refused(format!("{} has no VM", self.what)))?;
        Ok(self.starter(args, &launcher, true).start(first, name)?.0)
    }

    fn launcher(&self, args: &StartArgs) -> Result<PathBuf> {
        self.launcher.clone().map_or_else(|| args.launcher.find(), Ok)
    }

    fn starter<'a>(&'a self, args: &'a StartArgs, launcher: &'a Path, remove: bool) -> Starter<'a> {
        Starter { options: self.options(args), launcher, remove }
    }

    fn options<'a>(&'a self, args: &'a StartArgs) -> StartOptions<'a> {
        StartOptions {
            images: &self.images,
            objects: &self.objects,
            accelerator: args.accel.into(),
            policy: args.pull.map(Pull::policy),
            forwards: args.publish.clone(),
            publish_all: args.publish_all,
            hooks: &args.hooks,
            source: &self.what,
        }
    }
}

impl Pull {
    fn policy(self) -> Policy {
        match self {
            Pull::Always => Policy::Always,
            Pull::Missing => Policy::IfNotPresent,
            Pull::Never => Policy::Never,
        }
    }
}

/// True if a path looks like a manifest.
fn is_text(path: &Path) -> bool {
    path.is_dir() || (is_manifest(path) && !path.to_string_lossy().contains("://"))
}

impl HardwareArgs {
    /// Refuses these flags for a manifest, which has fields for all of them.
    fn check_unused(&self) -> Result<()> {
        let used = [
            ("--cpus", self.cpus.is_some()),
            ("--memory", self.memory.is_some()),
            ("--disk", !self.disks.is_empty()),
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
            Some((flag, _)) => {
                let what = format!("{flag} is for disks and images; write it into the manifest");
                Err(Error::new(ErrorKind::Usage, what))
            }
            None => Ok(()),
        }
    }

    /// Objects of a VM whose first drive is SRC. True if SRC is an image.
    fn objects(
        &self,
        source: &str,
        args: &StartArgs,
        images: &Images,
    ) -> Result<(Vec<serde_json::Value>, bool)> {
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let mut flags = VmFlags {
            name: args.name.clone().unwrap_or_else(|| name_from(source)),
            cpus: self.cpus.unwrap_or(if available > 1 { 2 } else { 1 }),
            memory: self.memory.unwrap_or(1 << 30),
            user_data: self.user_data()?,
            boot: self.loader(),
            tpm: self.tpm,
            offline: self.no_network,
            ..VmFlags::default()
        };
        let is_image = self.first(source, args, images, &mut flags)?;
        for disk in &self.disks {
            flags.drives.push(self.further(disk)?);
        }
        for cdrom in &self.cdroms {
            flags.drives.push(Drive::Cdrom(existing(cdrom)?));
        }
        Ok((flags.objects(), is_image))
    }

    fn loader(&self) -> Loader {
        match (self.secure_boot, self.efi) {
            (true, _) => Loader::SecureBoot,
            (false, true) => Loader::Efi,
            (false, false) => Loader::Bios,
        }
    }

    fn first(&self, source: &str, args: &StartArgs, images: &Images, flags: &mut VmFlags) -> Result<bool> {
        if source.starts_with("http://") || source.starts_with("https://") {
            flags.drives.push(Drive::Web(source.to_owned()));
            return Ok(false);
        }
        let path = Path::new(source);
        if path.exists() {
            let path = existing(path)?;
            let is_iso = path.is_file() && format_of(&path)? == disk_format::Format::Iso;
            flags.drives.push(if is_iso { Drive::Cdrom(path) } else { Drive::File(path, None) });
            return Ok(false);
        }
        let policy = match args.pull {
            Some(pull) => pull.policy(),
            None => Policy::parse(None, source)?,
        };
        let image = images.bring(name_of(source)?, policy).map_err(|e| match e.kind() {
            ErrorKind::NotFound if !source.contains("://") => {
                e.with_hint(format!("no file {source} exists either"))
            }
            _ => e,
        })?;
        flags.kernel = Images::boot(&image).map(|boot| (source.to_owned(), boot));
        if flags.kernel.is_none() || images.has_disk(&image)? {
            flags.drives.push(Drive::Image(source.to_owned()));
        }
        Ok(true)
    }

    fn further(&self, text: &str) -> Result<Drive> {
        let path = Path::new(text);
        if path.exists() {
            return Ok(Drive::File(existing(path)?, None));
        }
        if let Ok(size) = cdi::size::parse(text) {
            return Ok(Drive::Empty(size));
        }
        if let Some((file, size)) = text.rsplit_once(':')
            && let Ok(size) = cdi::size::parse(size)
            && size > 0
            && !text.contains("://")
        {
            return Ok(Drive::File(absolute(Path::new(file))?, Some(size)));
        }
        if container_disk::Name::with_scheme(text).is_some() {
            return Ok(Drive::Image(text.to_owned()));
        }
        let what =
            format!("--disk {text}: file not found; write FILE:SIZE to make one, or docker://… for an image");
        Err(Error::new(ErrorKind::NotFound, what))
    }

    fn user_data(&self) -> Result<Option<String>> {
        if let Some(path) = &self.cloud_init {
            let read = std::fs::read_to_string(path);
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

/// Public keys in a file, or the key itself.
fn key_lines(text: &str) -> Result<Vec<String>> {
    let is_key =
        |line: &str| line.starts_with("ssh-") || line.starts_with("ecdsa-") || line.starts_with("sk-");
    if is_key(text) && text.contains(' ') {
        return Ok(vec![text.to_owned()]);
    }
    let content =
        std::fs::read_to_string(text).map_err(|e| Error::io(format!("cannot read the key {text}"), e))?;
    let keys: Vec<String> =
        content.lines().map(str::trim).filter(|line| is_key(line)).map(str::to_owned).collect();
    if keys.is_empty() {
        let what = format!("{text} holds no public key; it is the file that ends in .pub");
        return Err(Error::new(ErrorKind::Usage, what));
    }
    Ok(keys)
}

fn existing(path: &Path) -> Result<PathBuf> {
    match path.exists() {
        true => Ok(absolute(path)?),
        false => Err(Error::new(ErrorKind::NotFound, format!("file {} not found", path.display()))),
    }
}
