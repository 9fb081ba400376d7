//! Hand-over of a VMI to its launcher: volumes, devices and networks are prepared, then the launcher is told.

use super::effects::{Effects, LiveEvent, LiveState, PREPARING};
use super::event::KeeperEvent;
use super::facts::Facts;
use super::migration::Role;
use super::state::Links;
use crate::capability;
use crate::devices;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::measures;
use crate::network;
use crate::pod::folder::NOT_SEEN;
use crate::vmi::apply::Cluster;
use crate::vmi::decide::{Event, HandOverFailure};
use crate::volumes::{self, Parts};
use api::launcher::{Answer, Sync};
use api::machine::Machine;

impl<C: Cluster> Effects<C> {
    /// Hands the VMI to its launcher.
    pub(super) async fn hand_over(&self, state: &LiveState, facts: &Facts) -> LiveEvent {
        let ready = match self.prepare(state, facts).await {
            Ok(ready) => ready,
            Err(e) => return failure_event(facts, None, &e),
        };
        let links = ready.resolved.interfaces.clone();
        let warnings = ready.notes.into_iter().map(|(reason, message)| Event::warning(reason, message));
        let mut events: Vec<Event> = warnings.collect();
        let generation = u64::try_from(facts.vmi.metadata.generation.unwrap_or_default()).unwrap_or_default();
        let sync = Sync { vmi: facts.object_of_launcher(), generation, resolved: ready.resolved };
        match self.sync(state, facts, &sync).await {
            Ok(()) => {
                events.push(match facts.role {
                    Role::Guest => Event::normal("Created", "VirtualMachineInstance defined."),
                    Role::Target => {
                        Event::normal("PreparingTarget", "VirtualMachineInstance Migration Target Prepared.")
                    }
                });
                KeeperEvent::HandedOver { links, events }
            }
            Err(e) => failure_event(facts, Some(links), &e),
        }
    }

    /// Prepares the volumes, devices and networks of the VMI in its pod.
    async fn prepare(&self, state: &LiveState, facts: &Facts) -> Result<volumes::Ready> {
        let (Some(connection), Ok(place)) = (state.connection(), &facts.place) else {
            return Err(not_listening(facts));
        };
        let machine = with_macs(facts.permitted.machine(&facts.vmi)?, facts);
        let settings = facts.permitted.settings();
        let (files, hardware) =
            settings.map(|settings| (settings.files, settings.hardware.clone())).unwrap_or_default();
        let process = connection.process.clone().ok_or_else(|| Error::failed(NOT_SEEN))?;
        let (vmi, place, findings) = (facts.vmi.clone(), place.clone(), self.node.findings.clone());
        let pod = facts.pod.clone();
        let receives = facts.role == Role::Target;
        let prepare = move || -> Result<volumes::Ready> {
            place.check_process(&process)?;
            let root = process.root()?;
            let (vmi, place, process, root) = (&vmi, &place, &process, &root);
            let parts = Parts { vmi, machine: &machine, place, process, root, files, receives };
            let mut ready = volumes::prepare(&parts)?;
            ready.resolved.hardware = hardware.clone();
            devices::own_device_nodes(root, &machine)?;
            limits::raise(&machine, process, &pod, &place.kubelet())?;
            ready.resolved.interfaces = network::prepare(&machine, process)?;
            let said = pod.metadata.annotations.get(cluster_model::networks::ATTACHED).map(String::as_str);
            ready.resolved.interfaces.extend(network::devices(&machine, said)?);
            ready.resolved.network_info = network::info(&machine, said);
            ready.resolved.vsock = devices::vsock::cid(&machine, vmi)?;
            // Without the cache the VMI starts some seconds later, but correctly.
            if let Err(e) = capability::copy_cache(&findings, place.layout().kvm, &place.root()?) {
                tracing::warn!("{}", e.chain());
            }
            Ok(ready)
        };
        self.preparing.run("preparing the volumes and the network", PREPARING, prepare).await
    }

    async fn sync(&self, state: &LiveState, facts: &Facts, sync: &Sync) -> Result<()> {
        let connection = state.connection().ok_or_else(|| not_listening(facts))?;
        match connection.client.sync(sync).await? {
            Answer::Queued => measures::synced(),
            Answer::Ignored { reason } => tracing::info!("{}: {reason}", facts.name()),
            // The refusal is about the state of the launcher, not about the VMI.
            Answer::Denied(denial) => return Err(Error::failed(denial.to_string())),
        }
        Ok(())
    }
}

/// The VM with the MAC addresses that the guest knows, where it migrates to this node: a card of this pod may have another one.
fn with_macs(mut machine: Machine, facts: &Facts) -> Machine {
    let known = facts.vmi.status.iter().flat_map(|status| &status.interfaces);
    for one in known.filter(|_| facts.role == Role::Target) {
        let own = machine.interfaces.iter_mut().find(|own| one.name.as_ref() == Some(&own.name));
        if let Some(own) = own.filter(|own| own.mac.is_none()) {
            own.mac.clone_from(&one.mac);
        }
    }
    machine
}

fn not_listening(facts: &Facts) -> Error {
    Error::failed(format!("the launcher of {} does not listen", facts.name()))
}

fn failure_event(facts: &Facts, links: Option<Links>, error: &Error) -> LiveEvent {
    tracing::warn!("{}: {}", facts.name(), error.chain());
    let failure = HandOverFailure { message: error.chain(), hopeless: error.kind() == ErrorKind::Refused };
    KeeperEvent::NotHandedOver { links, failure }
}
