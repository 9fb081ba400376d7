//! The pod's network and the guest's: what is made in the pod's namespace before the machine begins.
//!
//! ```text
//!  Machine.interfaces + the namespace of /proc/PID/ns/net ──ready──► a Link per interface
//!      masquerade    bridge + tap, nftables      (not yet)
//!      bridge        bridge + tap, DHCP          (not yet)
//! ```
//!
//! Machines without interfaces have nothing to be made, and begin. Any other is refused by the field's name.

use super::error::{Error, Result};
use api::launcher::Link;
use api::machine::Machine;
use std::collections::BTreeMap;

/// Makes the links of a machine ready, in the network namespace of `process`.
pub fn ready(machine: &Machine, _process: u32) -> Result<BTreeMap<String, Link>> {
    match machine.interfaces.first() {
        None => Ok(BTreeMap::new()),
        Some(interface) => Err(Error::refused(format!(
            "spec.domain.devices.interfaces ('{}'): interfaces are not attached by this version; set \
             spec.domain.devices.autoattachPodInterface: false and name no interface",
            interface.name
        ))),
    }
}
