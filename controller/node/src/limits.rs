//! Limits that the kernel sets to a launcher, and that some VMIs need raised: only root may, so it is done here, before the
//! launcher is handed its VMI. QEMU has them from the launcher.
//!
//! | VMI | limit | to |
//! |---|---|---|
//! | `memory.reservedOverhead.memLock: Required` | memory that it may lock | the guest's, and [`BESIDE`] |
//! | `cpu.realtime` | the priority of real-time threads | [`PRIORITY`], for a launcher with CPUs of its own alone |
//!
//! A thread with real-time priority keeps all others from its CPU. So nobody has one on CPUs that others share, whatever the
//! VMI says: which CPUs the launcher has, the kernel says.

use crate::error::{Error, Result};
use crate::pod::Process;
use api::machine::Machine;
use rustix::process::Resource;

/// Memory that is locked beside the guest's.
const BESIDE: u64 = 1 << 30;
/// What vCPUs need: more than any thread without real time, less than all others with it.
const PRIORITY: u64 = 1;

/// Raises what a VMI needs raised.
pub(crate) fn raise(machine: &Machine, process: &Process) -> Result<()> {
    if machine.memory.locked {
        process.raise(Resource::Memlock, machine.memory.guest.saturating_add(BESIDE))?;
    }
    if !machine.cpu.realtime.is_empty() {
        let cpus = process.cpus()?;
        if !are_own(cpus.len(), machine.cpu.own()) {
            return Err(Error::failed(format!(
                "domain.cpu.realtime: the launcher has the CPUs {}, and {} of its own were asked for: the kubelet of this node \
                 has given it none (its CPU manager must have the policy static, and the pod the class Guaranteed)",
                api::cpus::write(cpus),
                machine.cpu.own()
            )));
        }
        process.raise(Resource::Rtprio, PRIORITY)?;
    }
    Ok(())
}

/// A launcher with as many CPUs as it asked for has them for itself: the kubelet lets all others have the rest.
fn are_own(has: usize, asked: u32) -> bool {
    u32::try_from(has).is_ok_and(|has| has == asked && asked > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_cpus_are_not_a_launchers_own() {
        assert!(are_own(3, 3));
        assert!(!are_own(8, 3), "all of the node's, and others have them too");
        assert!(!are_own(0, 0) && !are_own(2, 3));
    }
}
