//! The verbs that start, stop or pause a VM: `start`, `stop`, `restart`, `pause`, `unpause`, `soft-reboot`,
//! `reset`.

use super::args::{DryRunArg, TypedArg, VmArg, VmiArg, ask, doing};
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use cluster_model::objects::Kind;
use serde_json::{Value, json};

const VM: Kind = Kind::VirtualMachine;
const VMI: Kind = Kind::VirtualMachineInstance;

/// Start a stopped VM
#[derive(Debug, clap::Args)]
pub(super) struct StartArgs {
    #[command(flatten)]
    vm: VmArg,

    /// Start the VM with paused vCPUs
    #[arg(long)]
    paused: bool,

    #[command(flatten)]
    dry_run: DryRunArg,
}

/// Stop a running VM
#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    #[command(flatten)]
    vm: VmArg,

    #[command(flatten)]
    force: ForceArgs,

    #[command(flatten)]
    dry_run: DryRunArg,
}

/// Restart a running VM
#[derive(Debug, clap::Args)]
pub(super) struct RestartArgs {
    #[command(flatten)]
    vm: VmArg,

    #[command(flatten)]
    force: ForceArgs,

    #[command(flatten)]
    dry_run: DryRunArg,
}

/// Flags about the grace period.
#[derive(Debug, clap::Args)]
struct ForceArgs {
    /// Power the VM off after --grace-period, with the loss of data that
    /// the guest has not written
    #[arg(long)]
    force: bool,

    /// Grace period in seconds; 0 powers the VM off immediately; only with
    /// --force
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    grace_period: Option<i64>,
}

impl ForceArgs {
    fn seconds(&self) -> Result<Option<i64>> {
        match self.force == self.grace_period.is_some() {
            true => Ok(self.grace_period),
            false => {
                let what = "Must both use --force=true and set --grace-period.";
                Err(Error::new(ErrorKind::Usage, what))
            }
        }
    }
}

/// Pause the vCPUs of a VM
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    object: TypedArg,

    #[command(flatten)]
    dry_run: DryRunArg,
}

/// Resume the vCPUs of a paused VM
#[derive(Debug, clap::Args)]
pub(super) struct UnpauseArgs {
    #[command(flatten)]
    object: TypedArg,

    #[command(flatten)]
    dry_run: DryRunArg,
}

/// Reboot a VM by its guest agent, or by ACPI
#[derive(Debug, clap::Args)]
pub(super) struct SoftRebootArgs {
    #[command(flatten)]
    vmi: VmiArg,
}

/// Reset a VM, like the button: the guest is not asked
#[derive(Debug, clap::Args)]
pub(super) struct ResetArgs {
    #[command(flatten)]
    vmi: VmiArg,
}

impl StartArgs {
    #[cfg(test)]
    pub(super) fn is_dry(&self) -> bool {
        self.dry_run.dry_run
    }
}

pub(super) async fn start(args: &StartArgs, cluster: &Cluster) -> Result<()> {
    let paused = args.paused.then_some(true);
    let options = args.dry_run.options(json!({"paused": paused}))?;
    change("start", &args.vm, &options, cluster).await
}

pub(super) async fn stop(args: &StopArgs, cluster: &Cluster) -> Result<()> {
    let options = args.dry_run.options(json!({"gracePeriod": args.force.seconds()?}))?;
    change("stop", &args.vm, &options, cluster).await
}

pub(super) async fn restart(args: &RestartArgs, cluster: &Cluster) -> Result<()> {
    let options = args.dry_run.options(json!({"gracePeriodSeconds": args.force.seconds()?}))?;
    change("restart", &args.vm, &options, cluster).await
}

async fn change(verb: &str, vm: &VmArg, options: &Value, cluster: &Cluster) -> Result<()> {
    ask(cluster, verb, (VM, &vm.name), verb, Some(options)).await?;
    ui::out(&format!("VM {} was scheduled to {verb}\n", vm.name))
}

pub(super) async fn pause(args: &PauseArgs, cluster: &Cluster) -> Result<()> {
    of_vmi("pause", &args.object, &args.dry_run, cluster).await
}

pub(super) async fn unpause(args: &UnpauseArgs, cluster: &Cluster) -> Result<()> {
    of_vmi("unpause", &args.object, &args.dry_run, cluster).await
}

/// Sends a request to the VMI of a VM. If the VMI does not exist, the error says that the VM is not set to
/// run.
async fn of_vmi(verb: &str, object: &TypedArg, dry_run: &DryRunArg, cluster: &Cluster) -> Result<()> {
    let TypedArg { kind, name } = object;
    let what = doing(verb, *kind, name, cluster);
    let vm = match *kind == VM {
        true => Some(cluster.object(VM, name, &what).await?),
        false => None,
    };
    let options = dry_run.options(json!({}))?;
    let path = VMI.part(cluster.namespace(), name, verb);
    if let Err(failure) = cluster.put(&path, Some(&options)).await {
        let is_off = |vm: &Value| vm["spec"]["runStrategy"] == "Halted" || vm["spec"]["running"] == false;
        let error = match (failure.code(), vm) {
            (404, Some(vm)) if is_off(&vm) => {
                let error = Error::new(ErrorKind::NotFound, format!("{what}: it is not set to run"));
                error.with_hint("start it first")
            }
            _ => failure.into_error(&what),
        };
        return Err(error);
    }
    ui::out(&format!("VMI {name} was scheduled to {verb}\n"))
}

pub(super) async fn soft_reboot(args: &SoftRebootArgs, cluster: &Cluster) -> Result<()> {
    let name = &args.vmi.name;
    ask(cluster, "reboot", (VMI, name), "softreboot", None).await?;
    ui::out(&format!("VMI {name} was scheduled to soft-reboot\n"))
}

pub(super) async fn reset(args: &ResetArgs, cluster: &Cluster) -> Result<()> {
    let name = &args.vmi.name;
    ask(cluster, "reset", (VMI, name), "reset", None).await?;
    ui::out(&format!("VMI {name} was scheduled to reset\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn force_and_grace_period_go_together() {
        for (force, grace_period, wanted) in [
            (false, None, Some(None)),
            (true, Some(0), Some(Some(0))),
            (true, None, None),
            (false, Some(5), None),
        ] {
            let found = ForceArgs { force, grace_period }.seconds();
            assert_eq!(found.as_ref().ok().copied(), wanted);
            if let Err(e) = found {
                assert_eq!(e.to_string(), "Must both use --force=true and set --grace-period.");
            }
        }
    }

    #[test]
    fn options_have_only_what_was_said() {
        let options =
            |dry_run, fields| DryRunArg { dry_run }.options(fields).map(|value| value.to_string()).unwrap();
        assert_eq!(options(false, json!({"paused": null})), "{}");
        assert_eq!(options(false, json!({"gracePeriod": 0})), r#"{"gracePeriod":0}"#);
        assert_eq!(options(true, json!({})), r#"{"dryRun":["All"]}"#);
    }
}
