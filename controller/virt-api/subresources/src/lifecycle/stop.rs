//! Stop of a VM: the changes for its run strategy.

use super::{Changes, Grace, is_final, requests, runs, strategy_name, subject, to_stop, without_failures};
use crate::refusal::{Refusal, Result};
use api::vm::{RunStrategy, VirtualMachine};
use api::vmi::VirtualMachineInstance;
use serde::Deserialize;

/// Body of a stop request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StopOptions {
    pub(crate) grace_period: Option<i64>,
    pub(crate) dry_run: Vec<String>,
}

/// The changes that stop a VM.
pub(crate) fn stop(
    vm: &VirtualMachine,
    vmi: Option<&VirtualMachineInstance>,
    options: &StopOptions,
) -> Result<Changes> {
    if options.grace_period.is_some_and(|seconds| seconds < 0) {
        return Err(Refusal::bad_request("gracePeriod has to be greater or equal to 0"));
    }
    let alive = vmi.filter(|vmi| !is_final(vmi));
    let before = alive.and_then(|vmi| vmi.spec.termination_grace_period_seconds);
    let grace = alive.and(options.grace_period).map(|seconds| Grace { seconds, before });
    let strategy = vm.run_strategy();
    match (&strategy, alive) {
        (RunStrategy::Always | RunStrategy::Once, _) => {
            let spec = Some(runs(vm, false));
            Ok(Changes { grace, spec, status: without_failures(vm) })
        }
        (RunStrategy::Halted, Some(vmi)) => {
            let is_shorter = |seconds: i64| before.is_none_or(|before| seconds < before);
            if !options.grace_period.is_some_and(is_shorter) {
                let why = format!(
                    "{} only supports manual stop requests with a shorter graceperiod",
                    strategy_name(&strategy)
                );
                return Err(Refusal::conflict(subject(vm), &why));
            }
            Ok(Changes { grace, status: Some(requests(vm, &[to_stop(vmi)])?), ..Changes::default() })
        }
        (RunStrategy::Manual | RunStrategy::RerunOnFailure, Some(vmi)) => {
            Ok(Changes { grace, status: Some(requests(vm, &[to_stop(vmi)])?), ..Changes::default() })
        }
        (RunStrategy::Halted | RunStrategy::Manual | RunStrategy::RerunOnFailure, None) => {
            Err(Refusal::conflict(subject(vm), "VM is not running"))
        }
        (RunStrategy::WaitAsReceiver | RunStrategy::Other(_), _) => {
            let why = format!("{} does not support manual stop requests", strategy_name(&strategy));
            Err(Refusal::conflict(subject(vm), &why))
        }
    }
}
