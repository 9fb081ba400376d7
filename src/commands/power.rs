//! The verbs that change whether a machine runs: `stop`, `kill`, `restart`, `pause`, `unpause`, `rm`.

use super::machine::{self, MachinesArgs};
use crate::ui;
use crate::vm::record::Vm;
use api::launcher::{Life, Request};
use cdi::Result;
use std::time::Duration;

/// Ask machines to end; after the grace period they are cut off
#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    machines: MachinesArgs,

    /// The grace period in seconds [default: the machine's own]
    #[arg(short, long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Do not wait until they have ended
    #[arg(long)]
    no_wait: bool,
}

/// Cut machines off, as pulling the plug does
#[derive(Debug, clap::Args)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    machines: MachinesArgs,
}

/// Stop machines, and start them again
///
/// What a machine writes to an image's disk is gone with that; what it
/// writes to its own disks stays. One that has ended is started.
#[derive(Debug, clap::Args)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    machines: MachinesArgs,

    /// The grace period in seconds [default: the machine's own]
    #[arg(short, long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

/// Stop the processors of machines
#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    machines: MachinesArgs,
}

/// Let the processors of machines run on
#[derive(Debug, clap::Args)]
pub(crate) struct UnpauseArgs {
    #[command(flatten)]
    machines: MachinesArgs,
}

/// Remove machines that have ended; disks of claims stay
#[derive(Debug, clap::Args)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    machines: MachinesArgs,

    /// Those that run too: they are cut off
    #[arg(short, long)]
    force: bool,
}

pub(crate) fn stop(args: &StopArgs) -> Result<()> {
    args.machines.each(|home, name| {
        let vm = Vm::open(home, name)?;
        if !vm.standing()?.is_up() {
            ui::say(&format!("coracle: {name} does not run"));
            return Ok(());
        }
        let client = vm.launcher()?;
        vm.ask(&client, &Request::Shutdown { grace: args.timeout })?;
        if !args.no_wait {
            vm.wait_for_end(&client, Some(patience(&vm, args.timeout)))?;
        }
        Ok(())
    })?;
    machine::sweep(&args.machines.home.home()?)
}

/// The grace period, and a while for what comes after it.
fn patience(vm: &Vm, grace: Option<u64>) -> Duration {
    let own = vm.record.sync.vmi["spec"]["terminationGracePeriodSeconds"].as_u64();
    Duration::from_secs(grace.or(own).unwrap_or(30).saturating_add(30).min(86_400 * 365))
}

pub(crate) fn kill(args: &KillArgs) -> Result<()> {
    args.machines.each(|home, name| {
        let vm = Vm::open(home, name)?;
        vm.up()?;
        machine::cut_off(&vm)
    })?;
    machine::sweep(&args.machines.home.home()?)
}

pub(crate) fn restart(args: &RestartArgs) -> Result<()> {
    args.machines.each(|home, name| {
        let vm = Vm::open(home, name)?;
        if vm.standing()?.is_up() {
            let client = vm.launcher()?;
            vm.ask(&client, &Request::Shutdown { grace: args.timeout })?;
            vm.wait_for_end(&client, Some(patience(&vm, args.timeout)))?;
        }
        machine::again(&vm).and_then(|state| machine::ended(&vm, &state))
    })
}

pub(crate) fn pause(args: &PauseArgs) -> Result<()> {
    args.machines.each(|home, name| change(&Vm::open(home, name)?, &Request::Pause, "pause", Life::Paused))
}

pub(crate) fn unpause(args: &UnpauseArgs) -> Result<()> {
    args.machines
        .each(|home, name| change(&Vm::open(home, name)?, &Request::Unpause, "run on", Life::Running))
}

fn change(vm: &Vm, request: &Request, what: &str, wanted: Life) -> Result<()> {
    let client = vm.up()?;
    if !vm.ask(&client, request)? {
        return Ok(());
    }
    let patience = Some(Duration::from_secs(30));
    let state =
        vm.wait_for(&client, what, patience, |state| state.life == wanted || state.life.is_final())?;
    machine::ended(vm, &state)
}

pub(crate) fn rm(args: &RmArgs) -> Result<()> {
    args.machines.each(|home, name| machine::remove(home, name, args.force))
}
