//! Network between the pod and the guest: links that are made in the pod's namespace before the VMI starts.
//!
//! ```text
//!  namespace: a thread in the network of the pod's process
//!    look    the pod's card, as the cluster's network made it (netlink)
//!    plan    Machine.interfaces + Card ─► steps, and a Link for the launcher (pure)
//!    apply   steps ─► the kernel (netlink, rules, tap); each looks first, so all may be done again
//!  status    interfaces of the VMI's status (pure)
//! ```
//!
//! `status` reports the interfaces; `advertise` sends router advertisements to running guests.
//!
//! A network of Multus has a card of its own in the pod, which is found by its name and never by the pod's
//! annotations: a tenant may write those.
//!
//! **Owns** everything of ours in a pod's network namespace: the names are in `names`. **Called by** the
//! keeper of a VMI, from a thread that may block, before each hand-over to a launcher. **Guarantees:** a card
//! is not changed before all its settings are kept beside it; a second call changes nothing under a running
//! guest.

mod advertise;
mod apply;
mod devices;
mod facts;
mod look;
mod names;
mod namespace;
mod netlink;
mod plan;
mod rules;
mod status;
mod tap;

pub(crate) use advertise::{Advertisers, advertisers, may_advertise};
pub(crate) use devices::devices;
pub(crate) use status::{info, status};

use super::error::{Error, ErrorKind, Result};
use super::pod::Process;
use api::launcher::Link;
use api::machine::network::Network;
use api::machine::{Binding, Interface, Machine};
use plan::{PlanInput, of_sidecar, plan};
use std::collections::BTreeMap;

/// Prepares the links of a VMI, in the network namespace of `process`.
pub(crate) fn prepare(machine: &Machine, process: &Process) -> Result<BTreeMap<String, Link>> {
    if machine.interfaces.is_empty() {
        return Ok(BTreeMap::new());
    }
    namespace::run_in_namespace(process, || {
        let open = |e| Error::io("cannot open a netlink socket for the pod's network", e);
        let mut socket = netlink::Socket::route().map_err(open)?;
        let mut plans = BTreeMap::new();
        // All plans come first: a fault in the last interface leaves the first unchanged.
        for (position, interface) in machine.interfaces.iter().enumerate() {
            // Virtual functions are not in the pod's network: see `devices`.
            if interface.binding == Binding::Sriov {
                continue;
            }
            // The plugin or its sidecar makes what it needs: there may be no card.
            if interface.binding == Binding::Sidecar {
                plans.insert(interface.name.clone(), of_sidecar(interface));
                continue;
            }
            let card = look::card(&mut socket, &names::card(interface))
                .map_err(|e| with_card_origin(interface, e))?;
            let tap = look::tap(&mut socket, &card)?;
            let given = PlanInput { machine, interface, position, card: &card, tap: tap.as_deref() };
            plans.insert(interface.name.clone(), plan(&given)?);
        }
        for plan in plans.values() {
            for step in &plan.steps {
                tracing::debug!("{}: {step}", machine.domain_name());
            }
            apply::apply(&plan.steps)?;
        }
        Ok(plans.into_iter().map(|(name, plan)| (name, plan.link)).collect())
    })
}

/// Adds to an error about a missing card which component should have made it.
fn with_card_origin(interface: &Interface, error: Error) -> Error {
    match &interface.network {
        Network::Multus { name, .. } if error.kind() == ErrorKind::NotFound => {
            let what = format!(
                "{error}. Network {} is of the NetworkAttachmentDefinition {name}, which Multus attaches: the events of the \
                 launcher pod show what went wrong, and its annotation {} lists the attached networks",
                interface.name,
                cluster_model::networks::ATTACHED
            );
            Error::new(ErrorKind::NotFound, what)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests;
