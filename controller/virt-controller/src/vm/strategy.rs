//! Effect of a run strategy on a VMI. Pure, and a table in its tests.
//!
//! ```text
//!                 no VMI                   succeeded       failed            Stop asked     Start asked
//! Always          make                     delete, make    delete, make*     delete         –
//! RerunOnFailure  make at first, if asked  leave           delete, make*     delete         make
//! Manual          if asked                 leave           leave             delete         make
//! Halted          –                        delete          delete            delete         becomes Always, if paused
//! Once            make at first            leave           leave             delete         –
//!                                                                            * later each time, while starts fail
//! ```

use super::change;
use api::vm::{RunStrategy, StateChange, VirtualMachine};
use api::vmi::{Phase, VirtualMachineInstance};
use jiff::Timestamp;

/// Next action for the VMI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Create the VMI; with `paused`, its vCPUs stay stopped.
    Start { paused: bool },
    /// Create a VMI without a guest, for an offline migration ([`super::carrier`]).
    Carry,
    /// Create the VMI later.
    Wait { until: Timestamp },
    /// Delete the VMI; its guest is shut down.
    Stop,
    /// Set the run strategy to Always.
    Run,
    /// Leave the VMI as it is.
    Leave,
}

/// `vm` with the failures counted.
pub(super) fn decide(
    vm: &VirtualMachine,
    strategy: &RunStrategy,
    vmi: Option<&VirtualMachineInstance>,
    now: Timestamp,
) -> Act {
    let first = vm.status.as_ref().and_then(|status| status.run_strategy.as_ref()) != Some(strategy);
    let asked = change::next_request(vm, &StateChange::Start);
    let paused = asked.is_some_and(change::is_paused);
    let start = || match super::failure::wait_until(vm, now).filter(|&until| until > now) {
        Some(until) => Act::Wait { until },
        None => Act::Start { paused },
    };
    let Some(vmi) = vmi else {
        return match strategy {
            RunStrategy::Always => start(),
            RunStrategy::RerunOnFailure | RunStrategy::Once if first => start(),
            RunStrategy::RerunOnFailure | RunStrategy::Manual if asked.is_some() => start(),
            RunStrategy::Halted if asked.is_some() => Act::Run,
            _ => Act::Leave,
        };
    };
    if change::is_stop_requested(vm, vmi) {
        return Act::Stop;
    }
    let phase = super::super::vmi::phase(vmi);
    match (strategy, phase) {
        (RunStrategy::Halted, _) => Act::Stop,
        (RunStrategy::Always, Phase::Succeeded | Phase::Failed) => Act::Stop,
        (RunStrategy::RerunOnFailure, Phase::Failed) => Act::Stop,
        // A VMI that has ended makes room for a requested start.
        (RunStrategy::Manual | RunStrategy::RerunOnFailure, Phase::Succeeded | Phase::Failed)
            if asked.is_some() =>
        {
            Act::Stop
        }
        _ => Act::Leave,
    }
}
