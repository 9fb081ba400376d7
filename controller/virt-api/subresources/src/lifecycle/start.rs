//! Start of a VM: the changes for its run strategy.

use super::{
    Changes, is_final, needs_recovery, phase, requests, runs, strategy_name, subject, to_start, to_stop,
    without_failures,
};
use crate::refusal::{Refusal, Result};
use api::vm::{RunStrategy, VirtualMachine};
use api::vmi::{Phase, VirtualMachineInstance};
use cluster_model::metadata::OFFLINE_MIGRATION;
use serde::Deserialize;

/// Body of a start request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StartOptions {
    pub(crate) paused: bool,
    pub(crate) dry_run: Vec<String>,
}

/// The changes that start a VM.
pub(crate) fn start(
    vm: &VirtualMachine,
    vmi: Option<&VirtualMachineInstance>,
    options: &StartOptions,
) -> Result<Changes> {
    let runs_already = |vmi: &VirtualMachineInstance| {
        !is_final(vmi) && !matches!(phase(vmi), Phase::Unknown | Phase::Other(_))
    };
    // The VMI of an offline migration moves the disks of a stopped VM. The VM starts when that VMI has ended.
    let vmi = vmi.filter(|vmi| !vmi.metadata.annotations.contains_key(OFFLINE_MIGRATION));
    if vmi.is_some_and(runs_already) {
        return Err(Refusal::conflict(subject(vm), "VM is already running"));
    }
    needs_recovery(vm)?;
    let strategy = vm.run_strategy();
    let ask = |wanted: &[_]| Ok(Changes { status: Some(requests(vm, wanted)?), ..Changes::default() });
    match strategy {
        // virt-controller sets the spec after it has seen the request.
        RunStrategy::Halted if options.paused => ask(&[to_start(true)]),
        RunStrategy::Halted => {
            Ok(Changes { spec: Some(runs(vm, true)), status: without_failures(vm), ..Changes::default() })
        }
        RunStrategy::RerunOnFailure | RunStrategy::Manual => {
            let wanted = to_start(options.paused);
            match vmi.map(|vmi| (vmi, phase(vmi))) {
                Some((_, Phase::Failed)) if strategy == RunStrategy::RerunOnFailure => {
                    Err(Refusal::conflict(
                        subject(vm),
                        "RerunOnFailure does not support starting VM from failed state",
                    ))
                }
                Some((vmi, phase)) if phase.is_final() => ask(&[to_stop(vmi), wanted]),
                _ => ask(&[wanted]),
            }
        }
        _ => {
            let why = format!("{} does not support manual start requests", strategy_name(&strategy));
            Err(Refusal::conflict(subject(vm), &why))
        }
    }
}
