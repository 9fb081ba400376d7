//! The verbs `coracle ps` and `coracle status`.

use super::json_args::JsonArgs;
use super::vm_args::HomeArgs;
use super::vms::{self, VmArgs};
use crate::error::Result;
use crate::relative_time::ago;
use crate::ui;
use api::launcher::{Accelerator, Credentials, GuestInfo, Link, State};
use local_vm::record::{Standing, Vm};
use serde::Serialize;
use std::fmt::Write as _;

/// List the running VMs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List stopped VMs, too
    #[arg(short, long)]
    all: bool,

    /// Print the names only
    #[arg(short, long, conflicts_with_all = ["json", "output"])]
    quiet: bool,

    #[command(flatten)]
    output: JsonArgs,

    #[command(flatten)]
    home: HomeArgs,
}

/// Show the status of a VM
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    vm: VmArgs,

    #[command(flatten)]
    output: JsonArgs,
}

#[derive(Debug, Serialize)]
struct VmList {
    schema: &'static str,
    #[serde(rename = "machines")]
    vms: Vec<VmStatus>,
}

/// A VM in the output of both verbs.
#[derive(Debug, Serialize)]
struct VmStatus {
    name: String,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    created: String,
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    qemu_pid: Option<u32>,
    agent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<Credentials>,
    accelerator: &'static str,
    ports: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    phases: Vec<(&'static str, String)>,
    /// Report of the guest agent; `status` alone asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    guest: Option<GuestInfo>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut vms = vec![];
    for (name, asked) in vms::list(&args.home.home()?)? {
        match asked {
            Ok((vm, standing)) if standing.is_up() || args.all => vms.push(VmStatus::new(&vm, &standing)),
            Ok(_) => {}
            Err(e) => ui::say(&format!("coracle: {name}: {e}")),
        }
    }
    if args.output.is_json() {
        return ui::json(&VmList { schema: "coracle.ps/v1", vms });
    }
    if args.quiet {
        return ui::out(&vms.iter().map(|shown| format!("{}\n", shown.name)).collect::<String>());
    }
    ui::out(&table(&vms))
}

pub(crate) fn status(args: &StatusArgs) -> Result<()> {
    let vm = args.vm.open()?;
    let mut shown = VmStatus::new(&vm, &vm.standing()?);
    if shown.agent && shown.state == "Running" {
        // The status is shown without the report if the agent fails to answer.
        shown.guest = vm.client()?.guest_info().ok();
    }
    if args.output.is_json() {
        return ui::json(&shown);
    }
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{name:<9} {value}");
        }
    };
    line("name", &shown.name);
    line("state", &shown.state);
    line("reason", shown.reason.as_deref().unwrap_or_default());
    line("message", shown.message.as_deref().unwrap_or_default());
    line("since", &shown.since.as_deref().map(ago).unwrap_or_default());
    line("created", &ago(&shown.created));
    line("from", &shown.source);
    line("runs by", shown.accelerator);
    line("agent", if shown.agent { "answers" } else { "does not answer" });
    line("keys", &shown.credentials.as_ref().map(of_credentials).unwrap_or_default());
    line("process", &shown.qemu_pid.map(|pid| pid.to_string()).unwrap_or_default());
    for port in &shown.ports {
        line("port", port);
    }
    for (name, value) in shown.guest.iter().flat_map(of_guest) {
        line(name, &value);
    }
    for (life, since) in &shown.phases {
        line(life, &ago(since));
    }
    ui::out(&text)
}

impl VmStatus {
    fn new(vm: &Vm, standing: &Standing) -> VmStatus {
        let state: Option<&State> = match standing {
            Standing::Known(state) => Some(state),
            Standing::Left(state) => state.as_ref(),
        };
        let resolved = &vm.record.sync.resolved;
        VmStatus {
            name: vm.name().to_owned(),
            state: standing.word().to_owned(),
            phase: state.map(|state| state.life.phase()),
            reason: state.and_then(|state| state.reason.clone()),
            message: state.and_then(|state| state.message.clone()).or_else(|| unwatched(vm, standing)),
            since: state.map(|state| state.since.clone()),
            created: vm.record.created.clone(),
            source: vm.record.source.clone(),
            qemu_pid: state.and_then(|state| state.qemu_pid),
            agent: state.is_some_and(|state| state.agent),
            credentials: state.and_then(|state| state.credentials.clone()),
            accelerator: match resolved.accelerator {
                Accelerator::Kvm => "kvm",
                Accelerator::Emulation => "emulation",
            },
            ports: resolved.interfaces.values().flat_map(ports).collect(),
            phases: state.map(phases).unwrap_or_default(),
            guest: None,
        }
    }
}

/// Explanation of the state Unwatched.
fn unwatched(vm: &Vm, standing: &Standing) -> Option<String> {
    let name = vm.name();
    standing.is_unwatched().then(|| {
        format!(
            "the VM runs, but the virt-launcher that watched it has ended; the next verb on the VM, such as \
             'coracle console {name}', starts another one"
        )
    })
}

/// State of the guest's SSH keys and passwords.
fn of_credentials(credentials: &Credentials) -> String {
    match credentials.synchronized {
        true => "the guest has them".to_owned(),
        false => printable::line(&credentials.message),
    }
}

/// Labelled facts about the guest.
fn of_guest(guest: &GuestInfo) -> Vec<(&'static str, String)> {
    let system = ["prettyName", "name", "id"].iter().find_map(|name| guest.os.get(*name));
    let mut lines = vec![
        ("system", system.cloned().unwrap_or_default()),
        ("host", guest.hostname.clone().unwrap_or_default()),
    ];
    let cards = guest.interfaces.iter().filter(|card| card.name != "lo" && !card.ips.is_empty());
    lines.extend(cards.map(|card| ("card", format!("{} {}", card.name, card.ips.join(", ")))));
    if let Some(load) = &guest.load {
        let said = [load.load1m, load.load5m, load.load15m].into_iter();
        let said = said.map(|load| load.map_or_else(|| "-".to_owned(), |load| format!("{load:.2}")));
        lines.push(("load", said.collect::<Vec<_>>().join(" ")));
    }
    // The guest chooses these texts, so control characters are escaped.
    lines.into_iter().map(|(name, text)| (name, printable::line(&text))).collect()
}

fn phases(state: &State) -> Vec<(&'static str, String)> {
    state.phases.iter().map(|(life, since)| (name(*life), since.clone())).collect()
}

fn name(life: api::launcher::Life) -> &'static str {
    use api::launcher::Life;
    match life {
        Life::Empty => "empty",
        Life::Preparing => "preparing",
        Life::Running => "running",
        Life::Paused => "paused",
        Life::Stopping => "stopping",
        Life::Succeeded => "succeeded",
        Life::Failed => "failed",
    }
}

fn ports(link: &Link) -> Vec<String> {
    let shown =
        link.forwards().iter().map(|f| format!("{}:{}->{}/{}", f.address, f.port, f.guest_port, f.protocol));
    shown.collect()
}

/// The VMs as a table.
fn table(vms: &[VmStatus]) -> String {
    let head = ["NAME", "STATE", "SINCE", "FROM", "PORTS"].map(str::to_owned);
    let rows = vms.iter().map(|shown| {
        let since = shown.since.as_deref().map_or_else(|| "-".to_owned(), ago);
        [shown.name.clone(), shown.state.clone(), since, shown.source.clone(), shown.ports.join(", ")]
    });
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text += line.trim_end();
        text.push('\n');
    }
    text
}
