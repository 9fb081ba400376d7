//! The verb `coracle host`.

use super::json_args::JsonArgs;
use super::vm_args::HomeArgs;
use super::vm_args::LauncherArgs;
use crate::error::{Error, Result};
use crate::ui;
use api::launcher::Accelerator;
use api::node::{Device, Missing, Node, Verdict};
use cdi::size::human;
use cdi::source::image::architecture;
use error_core::causes;
use guard::confine::{self, Confined};
use local_vm::place::Home;
use local_vm::resolve::accelerator::{asked, kvm, node};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// Show the support of this computer for VMs, missing parts, and the
/// confinement of programs that read foreign disks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: JsonArgs,

    #[command(flatten)]
    home: HomeArgs,

    #[command(flatten)]
    launcher: LauncherArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let known = match args.launcher.find().and_then(|launcher| by_launcher(args, &launcher)) {
        Ok(node) => Facts::All(Box::new(node)),
        Err(e) => Facts::Basic(BasicFacts::without_launcher(&e)),
    };
    let host = Host { known, confinement: confine::offered() };
    if args.output.is_json() { ui::json(&host) } else { ui::out(&text(&host)) }
}

fn by_launcher(args: &Args, launcher: &Path) -> Result<Node> {
    let made = |home: Home| home.make(&home.launcher_cache()).map(|()| home).map_err(Error::from);
    match args.home.home().and_then(made) {
        Ok(home) => Ok(node(launcher, &home, true)?),
        Err(e) => Ok(without_home(asked(launcher, None)?, &e)),
    }
}

/// Adds an unusable folder for VMs to the missing parts; the report is otherwise the same.
fn without_home(mut node: Node, why: &Error) -> Node {
    node.missing.push(Missing {
        what: format!("a folder for VMs: {why}"),
        effect: "no VM can be started, and existing VMs were not checked".into(),
        mend: "set HOME to your home folder, or CORACLE_HOME to a folder of your own (mode 0700)".into(),
    });
    node
}

/// Report on this computer: support for VMs, and confinement of compromised parsers.
#[derive(Debug, Serialize)]
struct Host {
    #[serde(flatten)]
    known: Facts,
    confinement: Confined,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Facts {
    /// Facts that virt-launcher has probed.
    All(Box<Node>),
    /// Facts that need no virt-launcher.
    Basic(BasicFacts),
}

/// Fields of a [`Node`] that need no virt-launcher.
#[derive(Debug, Serialize)]
struct BasicFacts {
    arch: &'static str,
    cpu: Cpus,
    devices: Vec<Device>,
    missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
struct Cpus {
    count: usize,
}

impl BasicFacts {
    fn without_launcher(why: &Error) -> BasicFacts {
        let what = causes(why).fold(why.sentence().to_owned(), |what, cause| format!("{what}: {cause}"));
        let missing = Missing {
            what: format!("virt-launcher: {what}"),
            effect: "no VM can be started, and what libvirt and QEMU can do here is not known".into(),
            mend: why.hint().unwrap_or("install it beside coracle, or name it by --launcher").to_owned(),
        };
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let (cpu, devices) = (Cpus { count }, vec![kvm()]);
        BasicFacts { arch: architecture(), cpu, devices, missing: vec![missing] }
    }
}

fn text(Host { known, confinement }: &Host) -> String {
    let (mut text, devices, missing) = match known {
        Facts::All(node) => (about(node), &node.devices, &node.missing),
        Facts::Basic(little) => {
            let text = lines(&[("arch", little.arch.into()), ("CPUs", little.cpu.count.to_string())]);
            (text, &little.devices, &little.missing)
        }
    };
    for device in devices {
        let state = match (&device.usable, &device.reason) {
            (true, _) => "usable".to_owned(),
            (false, reason) => reason.clone().unwrap_or_else(|| "cannot be opened".into()),
        };
        text += &lines(&[("device", format!("{}: {state}", device.path))]);
    }
    text += &lines(&[
        ("landlock", confinement.landlock.to_string()),
        ("seccomp", confinement.seccomp.to_string()),
    ]);
    for missing in missing {
        let _ = write!(text, "\nmissing: {}\n  {}\n  {}\n", missing.what, missing.effect, missing.mend);
    }
    text
}

/// Facts from virt-launcher, without devices and missing parts.
fn about(node: &Node) -> String {
    let verdict = match node.kvm.verdict {
        Verdict::Full => "runs kernels",
        Verdict::Limited => "runs firmware, and kernels perhaps not: they are emulated",
        Verdict::None => "not here: guests are emulated",
    };
    let reason = node.kvm.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let accelerators = node.accelerators.iter().map(|accelerator| match accelerator {
        Accelerator::Kvm => "kvm",
        Accelerator::Emulation => "emulation",
    });
    let mut text = lines(&[
        ("kvm", format!("{verdict}{reason}")),
        ("arch", node.arch.clone()),
        ("libvirt", node.libvirt.clone().unwrap_or_else(|| "missing".into())),
        ("qemu", node.qemu.clone().unwrap_or_else(|| "missing".into())),
        ("runs by", accelerators.collect::<Vec<_>>().join(", ")),
        ("CPUs", format!("{} × {}", node.cpu.count, node.cpu.vendor.as_deref().unwrap_or("unknown"))),
        ("host-model", node.cpu.host_model.clone().unwrap_or_default()),
        ("machine types", shortened(&node.machine_types)),
        ("CPU models", shortened(&node.cpu.models)),
    ]);
    for firmware in &node.firmware {
        let secure = if firmware.secure_boot { ", secure boot" } else { "" };
        text += &lines(&[("efi", format!("{}{secure}", firmware.code))]);
    }
    for pages in &node.hugepages {
        let told = format!("{} of {}, {} free", pages.total, human(pages.size), pages.free);
        text += &lines(&[("hugepages", told)]);
    }
    text
}

/// A line for each name with a value.
fn lines(named: &[(&str, String)]) -> String {
    let known = named.iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| format!("{name:<13} {value}\n")).collect()
}

fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let first = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
