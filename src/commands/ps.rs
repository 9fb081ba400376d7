//! `coracle ps` and `coracle status`.

use super::machine::{self, MachineArgs};
use crate::ui;
use crate::vm::place::HomeArgs;
use crate::vm::record::{Standing, Vm};
use api::launcher::{Accelerator, Link, State};
use cdi::Result;
use serde::Serialize;
use std::fmt::Write as _;

/// List the machines that run
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Those that have ended, too
    #[arg(short, long)]
    all: bool,

    /// Print only names
    #[arg(short, long, conflicts_with = "output")]
    quiet: bool,

    /// Print JSON
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,

    #[command(flatten)]
    home: HomeArgs,
}

/// Show how it is with a machine
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    machine: MachineArgs,

    /// Print JSON
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Json,
}

#[derive(Debug, Serialize)]
struct Listed {
    schema: &'static str,
    machines: Vec<Shown>,
}

/// A machine as people and programs see it.
#[derive(Debug, Serialize)]
struct Shown {
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
    accelerator: &'static str,
    ports: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    phases: Vec<(&'static str, String)>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let home = args.home.home()?;
    machine::sweep(&home)?;
    let mut machines = vec![];
    for (name, vm) in Vm::all(&home)? {
        let shown = vm.and_then(|vm| Ok(Shown::of(&vm, &vm.standing()?)));
        match shown {
            Ok((shown, up)) if up || args.all => machines.push(shown),
            Ok(_) => {}
            Err(e) => ui::say(&format!("coracle: {name}: {e}")),
        }
    }
    if args.output == Some(Format::Json) {
        return ui::json(&Listed { schema: "coracle.ps/v1", machines });
    }
    if args.quiet {
        return ui::out(&machines.iter().map(|shown| format!("{}\n", shown.name)).collect::<String>());
    }
    ui::out(&table(&machines))
}

pub(crate) fn status(args: &StatusArgs) -> Result<()> {
    let vm = args.machine.open()?;
    let (shown, _) = Shown::of(&vm, &vm.standing()?);
    if args.output == Some(Format::Json) {
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
    line("since", shown.since.as_deref().unwrap_or_default());
    line("created", &shown.created);
    line("from", &shown.source);
    line("runs by", shown.accelerator);
    line("agent", if shown.agent { "answers" } else { "does not answer" });
    line("process", &shown.qemu_pid.map(|pid| pid.to_string()).unwrap_or_default());
    for port in &shown.ports {
        line("port", port);
    }
    for (life, since) in &shown.phases {
        line("", "");
        line(life, since);
    }
    ui::out(&text)
}

impl Shown {
    fn of(vm: &Vm, standing: &Standing) -> (Shown, bool) {
        let state: Option<&State> = match standing {
            Standing::Known(state) => Some(state),
            Standing::Left(state) => state.as_ref(),
        };
        let resolved = &vm.record.sync.resolved;
        let shown = Shown {
            name: vm.name().to_owned(),
            state: standing.word().to_owned(),
            phase: state.map(|state| state.life.phase()),
            reason: state.and_then(|state| state.reason.clone()),
            message: state.and_then(|state| state.message.clone()),
            since: state.map(|state| state.since.clone()),
            created: vm.record.created.clone(),
            source: vm.record.source.clone(),
            qemu_pid: state.and_then(|state| state.qemu_pid),
            agent: state.is_some_and(|state| state.agent),
            accelerator: match resolved.accelerator {
                Accelerator::Kvm => "kvm",
                Accelerator::Emulation => "emulation",
            },
            ports: resolved.interfaces.values().flat_map(ports).collect(),
            phases: state.map(phases).unwrap_or_default(),
        };
        (shown, standing.is_up())
    }
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
    let Link::User { forwards, .. } = link else { return vec![] };
    let shown = forwards.iter().map(|f| format!("{}:{}->{}/{}", f.address, f.port, f.guest_port, f.protocol));
    shown.collect()
}

fn table(machines: &[Shown]) -> String {
    let width = |of: fn(&Shown) -> &str, least: usize| {
        machines.iter().map(|shown| of(shown).chars().count()).max().unwrap_or(0).max(least)
    };
    let (names, states, sources) = (width(|s| &s.name, 4), width(|s| &s.state, 5), width(|s| &s.source, 4));
    let mut text =
        format!("{:names$}  {:states$}  {:19}  {:sources$}  PORTS\n", "NAME", "STATE", "SINCE", "FROM");
    for shown in machines {
        // Whole seconds are enough here.
        let since = shown.since.as_deref().and_then(|since| since.split('.').next()).unwrap_or("-");
        let line = format!(
            "{:names$}  {:states$}  {since:19}  {:sources$}  {}",
            shown.name,
            shown.state,
            shown.source,
            shown.ports.join(", ")
        );
        text += line.trim_end();
        text.push('\n');
    }
    text
}
