//! The verb `coracle run`.

use super::complete;
use super::hardware::{HardwareArgs, VmObjects};
use super::image_name::names_help;
use super::start_args::StartArgs;
use super::vms;
use crate::console::Input;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use api::launcher::{Forward, State};
use api::wire::Wire as _;
use cdi::run::watch::Watch;
use clap_complete::engine::ArgValueCompleter;
use container_disk::meaning::{Meaning, Role};
use container_disk::open::Places;
use local_vm::confined;
use local_vm::manifest::{self, Objects, Selection, is_manifest, refusal};
use local_vm::new_name::{NewName, VmSource};
use local_vm::place::Home;
use local_vm::record::Vm;
use local_vm::resolve::image::Images;
use local_vm::resolve::memory;
use local_vm::start::{StartOptions, Starter};
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
#[command(after_help = names_help!("Examples:\n  \
    coracle run vm.yaml\n  \
    coracle run docker://registry.example/os:12 --ssh-key ~/.ssh/id_ed25519.pub -p 2222:22\n  \
    coracle run -d --name web disk.qcow2 --memory 2G\n  \
    coracle run installer.iso --disk new.img:20G\n  \
    coracle run windows.iso --disk windows.img:64G --efi --tpm --memory 4G\n  \
    coracle run disk.qcow2 --dry-run -o yaml > vm.yaml"))]
pub(crate) struct Args {
    /// Source of the VM: a manifest, image, disk, ISO or http:// address
    #[arg(value_name = "SRC", add = ArgValueCompleter::new(complete::source), required_unless_present = "files")]
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

    /// Start every VM of a manifest (requires -d or --dry-run)
    #[arg(long, conflicts_with = "name")]
    all: bool,

    /// Print the objects without starting the VM, after the checks of a start
    #[arg(long)]
    dry_run: bool,

    /// Output format of --dry-run
    #[arg(short, long, value_enum, default_value = "yaml", value_name = "FORMAT")]
    output: OutputFormat,

    /// Print the objects of --dry-run as JSON; -o json is the same
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OutputFormat {
    Yaml,
    Json,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.all && !args.detach && !args.dry_run {
        let what = "--all has no one console to attach to";
        return Err(Error::new(ErrorKind::Usage, what).with_hint("add -d, or --dry-run"));
    }
    let naming = match args.dry_run {
        true => Naming::DryRun,
        false => Naming::Run { remove: args.rm },
    };
    let mut prepared =
        Prepared::read(args.source.as_deref(), &args.files, &args.start, &args.hardware, naming)?;
    let which = match (&args.start.name, args.all) {
        (_, true) => Selection::All,
        (Some(name), _) => Selection::Named(name.clone()),
        (None, _) => Selection::Only,
    };
    if args.dry_run {
        return dry_run(args, &prepared, &which);
    }
    ui::on_interrupt(Arc::new(Watch::default()))?;
    let started = prepared.start(&args.start, &which, args.rm)?;
    // The records of the new VMs keep their disks, which may lie in the folder of a VM that is removed here.
    // The new VMs themselves stay until their end is told.
    let own: Vec<&str> = started.iter().map(|(vm, _)| vm.name()).collect();
    if let Err(e) = vms::sweep(&prepared.images.home, &own) {
        tracing::info!("VMs that have ended are not removed: {e}");
    }
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
    let over = super::console::attach(vm, Input::StaysAtEnd)?;
    let Some(state) = over else { return Ok(()) };
    if args.rm
        && let Err(e) = vms::remove_after_end(&vm.home, vm.name())
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
        let checked = options.check(written, name)?;
        // The objects may be for another computer, so a VM that is too large for this one is no error here.
        match memory::check(&checked.machine) {
            Ok(warning) => warning.iter().for_each(|warning| ui::say(warning)),
            Err(e) => ui::say(&format!("coracle: warning: {e}")),
        }
        let mut vmi = written.object.clone();
        vmi.metadata.name = Some(name.to_owned());
        documents.push(vmi.write());
    }
    let output = if args.json { OutputFormat::Json } else { args.output };
    match output {
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
        for Forward { protocol, address, port, guest_port } in link.forwards() {
            ui::say(&format!(
                "coracle: {address}:{port}/{protocol} is forwarded to port {guest_port} of {}",
                vm.name()
            ));
        }
    }
}

/// Rule by which a VM without a manifest gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// The name that a run would begin with. None is locked.
    DryRun,
    Run {
        /// True if the VM is removed after its end.
        remove: bool,
    },
    /// A name that neither a VM nor a disk of the pool has.
    Test,
}

impl Naming {
    /// Name of the VM of this source, with its lock unless the user wrote the name.
    fn choose(
        self,
        home: &Home,
        written: Option<&str>,
        source: &VmSource,
    ) -> Result<(String, Option<NewName>)> {
        let wanted = written.unwrap_or(&source.name);
        let claimed = match self {
            Naming::DryRun => None,
            Naming::Run { .. } if written.is_some() => None,
            Naming::Run { remove } => Some(NewName::derived(home, source, remove)?),
            Naming::Test => Some(NewName::unused(home, &test_name(wanted))?),
        };
        let name = claimed.as_ref().map_or(wanted, NewName::as_str).to_owned();
        if self != Naming::Test && name != wanted {
            let why = match home.vm(wanted).exists() {
                true => format!("{wanted} is another one; 'coracle rm {wanted}' frees that name"),
                false => {
                    format!(
                        "the disk {wanted} of the pool is one of another VM or of a manifest; 'coracle pool ls' lists it"
                    )
                }
            };
            ui::say(&format!("coracle: the VM is called {name}: {why}"));
        }
        Ok((name, claimed))
    }
}

/// Name of the VM of a test, before a number.
pub(super) fn test_name(name: &str) -> String {
    format!("{name}-test")
}

/// Objects of a verb's source, read and checked.
pub(super) struct Prepared {
    /// Name of the source in messages.
    pub(super) what: String,
    pub(super) objects: Objects,
    pub(super) images: Images,
    launcher: Option<PathBuf>,
    /// Source of a VM without a manifest.
    pub(super) source: Option<VmSource>,
    /// Name of that VM, unless the user wrote one.
    claimed: Option<NewName>,
    /// Objects of the VM besides the VMI, for `--dry-run`.
    beside: Vec<serde_json::Value>,
    /// Disks that are raw by the user's word.
    raws: Vec<PathBuf>,
}

impl Prepared {
    /// Reads SRC, or the files of `-f`.
    pub(super) fn read(
        source: Option<&str>,
        files: &[String],
        args: &StartArgs,
        hardware: &HardwareArgs,
        naming: Naming,
    ) -> Result<Prepared> {
        confined::tell_own();
        let home = args.home.home()?;
        let images = Images::new(args.places.settings(), home, args.quiet, ui::say);
        let launcher = args.launcher.find().ok();
        let manifest = |files: &[String]| {
            hardware.check_unused()?;
            Ok::<_, Error>((files.join(", "), manifest::read(files)?, vec![], (None, vec![])))
        };
        let mut claimed = None;
        let (what, objects, beside, (made_of, raws)) = match (source, source.and_then(manifest_path)) {
            (None, _) => manifest(files)?,
            (Some("-"), _) => manifest(&["-".to_owned()])?,
            (_, Some(path)) => manifest(&[path])?,
            (Some(source), None) => {
                let VmObjects { documents, source: made_of, raws } =
                    hardware.objects(source, args, &images, |source| {
                        let name;
                        (name, claimed) = naming.choose(&images.home, args.name.as_deref(), source)?;
                        Ok(name)
                    })?;
                let objects = manifest::made(source, documents.clone());
                let beside =
                    documents.into_iter().filter(|d| d["kind"] != "VirtualMachineInstance").collect();
                (source.to_owned(), objects, beside, (Some(made_of), raws))
            }
        };
        for warning in &objects.warnings {
            ui::say(&format!("coracle: warning: {warning}"));
        }
        let mut objects = objects;
        objects.is_for_test = naming == Naming::Test;
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
        Ok(Prepared { what, objects, images, launcher, source: made_of, claimed, beside, raws })
    }

    /// Starts the selected VMs.
    fn start(&mut self, args: &StartArgs, which: &Selection, remove: bool) -> Result<Vec<(Vm, State)>> {
        let launcher = self.launcher(args)?;
        let mut claimed = self.claimed.take();
        let start = Starter { remove, ..self.starter(args, &launcher) };
        let mut started = vec![];
        for written in self.objects.choose(&self.what, which)? {
            let own = written.object.metadata.name.clone().unwrap_or_default();
            let name = args.name.clone().unwrap_or(own);
            let claimed = claimed.take();
            let claim = || claimed.map_or_else(|| NewName::given(&self.images.home, &name), Ok);
            started.push(start.start(written, &name, claim)?);
        }
        Ok(started)
    }

    /// The locked name of the VM of a test. `own`: name of that VM in a manifest.
    pub(super) fn name_of_test(&mut self, args: &StartArgs, own: &str) -> Result<NewName> {
        match self.claimed.take() {
            Some(claimed) => Ok(claimed),
            None => Ok(NewName::unused(&self.images.home, &test_name(args.name.as_deref().unwrap_or(own)))?),
        }
    }

    /// Starts the selected VM under this name, to be removed by this process, whose mark is `owner`.
    pub(super) fn start_as(
        &self,
        args: &StartArgs,
        which: &Selection,
        name: NewName,
        owner: &str,
    ) -> Result<Vm> {
        let launcher = self.launcher(args)?;
        let chosen = self.objects.choose(&self.what, which)?;
        let first = chosen.first().ok_or_else(|| Error::refused(format!("{} has no VM", self.what)))?;
        let start = Starter { remove: true, owner: Some(owner), ..self.starter(args, &launcher) };
        let text = name.as_str().to_owned();
        Ok(start.start(first, &text, || Ok(name))?.0)
    }

    fn launcher(&self, args: &StartArgs) -> Result<PathBuf> {
        self.launcher.clone().map_or_else(|| args.launcher.find(), Ok)
    }

    fn starter<'a>(&'a self, args: &'a StartArgs, launcher: &'a Path) -> Starter<'a> {
        let made_from = self.source.as_ref();
        Starter { options: self.options(args), launcher, remove: false, made_from, owner: None }
    }

    fn options<'a>(&'a self, args: &'a StartArgs) -> StartOptions<'a> {
        StartOptions {
            images: &self.images,
            objects: &self.objects,
            accelerator: args.accel.into(),
            policy: args.pull.map(|pull| pull.policy()),
            forwards: args.publish.clone(),
            publish_all: args.publish_all,
            hooks: &args.hooks,
            raws: &self.raws,
            source: &self.what,
        }
    }
}

/// True if a path looks like a manifest.
fn is_text(path: &Path) -> bool {
    path.is_dir() || is_manifest(path)
}

/// The path of a source that is a manifest.
fn manifest_path(source: &str) -> Option<String> {
    match Meaning::of(source, Role::DiskTarget, &Places::new(None)) {
        Ok(Meaning::File(path)) if is_text(&path) => Some(path.to_str().unwrap_or(source).to_owned()),
        _ => None,
    }
}
