//! Restart of a VM: the changes for its run strategy.

use super::{
    Changes, Grace, is_final, leaves_its_disk, needs_recovery, requests, strategy_name, subject, to_start,
    to_stop,
};
use crate::refusal::{Refusal, Result};
use api::vm::{RunStrategy, VirtualMachine};
use api::vmi::VirtualMachineInstance;
use serde::Deserialize;

/// Grace period of an immediate restart, in seconds. With zero, the kubelet would not wait for the launcher
/// to close the disks.
const AT_ONCE: i64 = 1;

/// Body of a restart request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RestartOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) dry_run: Vec<String>,
}

/// The changes that restart a VM.
pub(crate) fn restart(
    vm: &VirtualMachine,
    vmi: Option<&VirtualMachineInstance>,
    options: &RestartOptions,
) -> Result<Changes> {
    match options.grace_period_seconds {
        Some(1..) => {
            return Err(Refusal::bad_request("For force restart, only gracePeriod=0 is supported for now"));
        }
        Some(..0) => return Err(Refusal::bad_request("gracePeriod has to be greater or equal to 0")),
        Some(0) | None => {}
    }
    let strategy = vm.run_strategy();
    if !matches!(strategy, RunStrategy::Always | RunStrategy::Manual | RunStrategy::RerunOnFailure) {
        let why = format!("RunStategy {} does not support manual restart requests", strategy_name(&strategy));
        return Err(Refusal::conflict(subject(vm), &why));
    }
    needs_recovery(vm)?;
    let Some(vmi) = vmi else {
        return Err(Refusal::conflict(subject(vm), "VM is not running: Halted"));
    };
    leaves_its_disk(vm, vmi)?;
    let grace = options.grace_period_seconds.filter(|_| !is_final(vmi));
    let before = vmi.spec.termination_grace_period_seconds;
    Ok(Changes {
        grace: grace.map(|_| Grace { seconds: AT_ONCE, before }),
        status: Some(requests(vm, &[to_stop(vmi), to_start(false)])?),
        ..Changes::default()
    })
}
