//! `coracle host`.

use crate::ui;
use crate::vm::launch::LauncherArgs;
use crate::vm::place::HomeArgs;
use crate::vm::resolve::accelerator::{asked, node};
use api::launcher::Accelerator;
use api::node::{Missing, Node, Verdict};
use cdi::size::human;
use cdi::{Error, Result};
use guard::confine::{self, Confined};
use serde::Serialize;
use std::fmt::Write as _;

/// Show the support of this computer for VMs, missing parts, and the
/// confinement of programs that read foreign disks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the result as JSON
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,

    #[command(flatten)]
    home: HomeArgs,

    #[command(flatten)]
    launcher: LauncherArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Json,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let launcher = args.launcher.find()?;
    let node = match args.home.home() {
        Ok(home) => node(&launcher, &home, true)?,
        Err(e) => without_home(asked(&launcher, None)?, &e),
    };
    let host = Host { node, confinement: confine::offered() };
    match args.output {
        Some(Format::Json) => ui::json(&host),
        None => ui::out(&text(&host)),
    }
}

/// The computer is the same without a folder for machines; that there is none is one of the things that are missing.
fn without_home(mut node: Node, why: &Error) -> Node {
    node.missing.push(Missing {
        what: format!("a folder for VMs: {why}"),
        effect: "no VM can be started, and existing VMs were not checked".into(),
        mend: "set HOME to your home folder, or CORACLE_HOME to a folder of your own (mode 0700)".into(),
    });
    node
}

/// What virt-launcher found out, and what keeps a parser that is taken over from reaching further.
#[derive(Debug, Serialize)]
struct Host {
    #[serde(flatten)]
    node: Node,
    confinement: Confined,
}

fn text(Host { node, confinement }: &Host) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "{name:<10} {value}");
        }
    };
    let verdict = match node.kvm.verdict {
        Verdict::Full => "runs kernels",
        Verdict::Limited => "runs firmware, and kernels perhaps not: they are emulated",
        Verdict::None => "not here: guests are emulated",
    };
    let reason = node.kvm.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    line("kvm", format!("{verdict}{reason}"));
    line("arch", node.arch.clone());
    line("libvirt", node.libvirt.clone().unwrap_or_else(|| "missing".into()));
    line("qemu", node.qemu.clone().unwrap_or_else(|| "missing".into()));
    let accelerators = node.accelerators.iter().map(|accelerator| match accelerator {
        Accelerator::Kvm => "kvm",
        Accelerator::Emulation => "emulation",
    });
    line("runs by", accelerators.collect::<Vec<_>>().join(", "));
    line("processor", format!("{} × {}", node.cpu.count, node.cpu.vendor.as_deref().unwrap_or("unknown")));
    line("host-model", node.cpu.host_model.clone().unwrap_or_default());
    line("machines", shortened(&node.machine_types));
    line("models", shortened(&node.cpu.models));
    for firmware in &node.firmware {
        let secure = if firmware.secure_boot { ", secure boot" } else { "" };
        line("efi", format!("{}{secure}", firmware.code));
    }
    for pages in &node.hugepages {
        line("hugepages", format!("{} of {}, {} free", pages.total, human(pages.size), pages.free));
    }
    for device in &node.devices {
        let state = match (&device.usable, &device.reason) {
            (true, _) => "usable".to_owned(),
            (false, reason) => reason.clone().unwrap_or_else(|| "cannot be opened".into()),
        };
        line("device", format!("{}: {state}", device.path));
    }
    line("landlock", confinement.landlock.to_string());
    line("seccomp", confinement.seccomp.to_string());
    for missing in &node.missing {
        let _ = write!(text, "\nmissing: {}\n  {}\n  {}\n", missing.what, missing.effect, missing.mend);
    }
    text
}

fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let first = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
