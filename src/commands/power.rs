//! The verbs that start, stop or remove VMs: `start`, `stop`, `kill`, `restart`, `pause`, `unpause`, `rm`.

use super::vms::{self, VmsArgs};
use crate::error::Result;
use crate::ui;
use api::launcher::{Life, Request};
use local_vm::record::Vm;
use local_vm::start;
use std::time::Duration;

/// Start VMs that have stopped, with the settings that they had
///
/// A new VM is started by 'coracle run'. Writes to the disk of an image, and
/// to a disk of --disk SIZE, are lost since the last run; writes to the VM's
/// own disks are kept.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    vms: VmsArgs,
}

/// Shut VMs down; power them off after the grace period
#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    vms: VmsArgs,

    /// Grace period in seconds [default: that of the VM]
    #[arg(short, long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Return without waiting until the VMs have stopped
    #[arg(long)]
    no_wait: bool,
}

/// Power VMs off immediately, without a shutdown of the guest
#[derive(Debug, clap::Args)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    vms: VmsArgs,
}

/// Stop VMs and start them again
///
/// Writes of a VM to the disk of an image are lost; writes to its own disks
/// are kept. A stopped VM is started.
#[derive(Debug, clap::Args)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    vms: VmsArgs,

    /// Grace period in seconds [default: that of the VM]
    #[arg(short, long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

/// Pause the vCPUs of VMs
#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    vms: VmsArgs,
}

/// Resume the vCPUs of paused VMs
#[derive(Debug, clap::Args)]
pub(crate) struct UnpauseArgs {
    #[command(flatten)]
    vms: VmsArgs,
}

/// Remove stopped VMs; the disks of PersistentVolumeClaims are kept
#[derive(Debug, clap::Args)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    vms: VmsArgs,

    /// Remove running VMs, too, after powering them off
    #[arg(short, long)]
    force: bool,
}

pub(crate) fn start(args: &StartArgs) -> Result<()> {
    args.vms.each(|home, name| {
        let vm = Vm::open(home, name)?;
        let standing = vm.standing()?;
        if standing.is_up() {
            ui::say(&format!("coracle: {name} runs already ({})", standing.word()));
            return Ok(());
        }
        vms::ended(&vm, &start::again(&vm, ui::say)?)
    })
}

pub(crate) fn stop(args: &StopArgs) -> Result<()> {
    args.vms.each(|home, name| {
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
    vms::sweep(&args.vms.home.home()?, &[])
}

/// Timeout of a stop: the grace period, and some time for the steps after it.
fn patience(vm: &Vm, grace: Option<u64>) -> Duration {
    let own = vm.record.sync.vmi["spec"]["terminationGracePeriodSeconds"].as_u64();
    Duration::from_secs(grace.or(own).unwrap_or(30).saturating_add(30).min(86_400 * 365))
}

pub(crate) fn kill(args: &KillArgs) -> Result<()> {
    args.vms.each(|home, name| {
        let vm = Vm::open(home, name)?;
        vm.up()?;
        vms::cut_off(&vm)
    })?;
    vms::sweep(&args.vms.home.home()?, &[])
}

pub(crate) fn restart(args: &RestartArgs) -> Result<()> {
    args.vms.each(|home, name| {
        let vm = Vm::open(home, name)?;
        if vm.standing()?.is_up() {
            // A guest that could not start again is not shut down.
            start::check_again(&vm)?;
            let client = vm.launcher()?;
            vm.ask(&client, &Request::Shutdown { grace: args.timeout })?;
            vm.wait_for_end(&client, Some(patience(&vm, args.timeout)))?;
        }
        vms::ended(&vm, &start::again(&vm, ui::say)?)
    })
}

pub(crate) fn pause(args: &PauseArgs) -> Result<()> {
    args.vms.each(|home, name| change(&Vm::open(home, name)?, &Request::Pause, "pause", Life::Paused))
}

pub(crate) fn unpause(args: &UnpauseArgs) -> Result<()> {
    args.vms.each(|home, name| change(&Vm::open(home, name)?, &Request::Unpause, "run on", Life::Running))
}

fn change(vm: &Vm, request: &Request, what: &str, wanted: Life) -> Result<()> {
    let client = vm.up()?;
    if !vm.ask(&client, request)? {
        return Ok(());
    }
    let patience = Some(Duration::from_secs(30));
    let state =
        vm.wait_for(&client, what, patience, |state| state.life == wanted || state.life.is_final())?;
    vms::ended(vm, &state)
}

pub(crate) fn rm(args: &RmArgs) -> Result<()> {
    args.vms.each(|home, name| vms::remove(home, name, args.force))
}
