//! Status of a VMI, as far as the node writes it. Pure.
//!
//! | field | from |
//! |---|---|
//! | `phase`, `phaseTransitionTimestamps`, `reason` | the life of the VMI; forward only |
//! | `conditions`: Paused, AgentConnected, AgentVersionNotSupported, AccessCredentialsSynchronized, Synchronized, LiveMigratable, SoftwareEmulation | its state; those of others stay |
//! | `volumeStatus[].target` | the disks as the guest names them; the rest of each entry stays |
//! | `interfaces` | the spec, the pod's network, the guest agent |
//! | `guestOSInfo` | the guest agent |
//! | `fsFreezeStatus`, `selinuxContext`, `kernelBootStatus` | the launcher |
//! | `migrationMethod`, of `migrationState` the fields of the source | the spec; the launcher |
//! | `machine`, `memory`, `currentCPUTopology` | the spec, once it runs; `memory.memoryOverhead` is virt-controller's |

use super::decide::{DecisionInput, Event, Launcher};
use super::interfaces::interfaces;
use super::keeper::{MigrationEnd, has_moved, is_held, source_state};
use super::migratable::{self, Obstacle};
use crate::agent;
use crate::bounds;
use crate::now::Now;
use api::launcher::{AGENT_OFFLINE, GuestInfo, Life, NO_SPACE, State};
use api::machine::Machine;
use api::machine::machine_type_map::of_distribution;
use api::vmi::{
    Checksum, Condition, ConditionType, CpuTopology, GuestOsInfo, InterfaceStatus, KernelBootStatus,
    MachineType, Phase, PhaseTransition, Status, VirtualMachineInstance, VolumeStatus,
};
use cluster_model::conditions::{self, OF_CONTROLLER, SYNC_FAILED, is_unsynchronized};
use cluster_model::metadata::{CARRIER_STOPPED, is_stopped_carrier};

/// Facts about a VMI from which its status is made.
#[derive(Debug)]
pub(crate) struct StatusFacts<'a> {
    vmi: &'a VirtualMachineInstance,
    state: Option<&'a State>,
    guest: Option<&'a GuestInfo>,
    left_out: Option<&'a str>,
    interfaces: &'a [InterfaceStatus],
    trouble: Option<String>,
    emulated: bool,
    migration: Option<&'a MigrationEnd>,
    /// End of the VMI, which overrides its state.
    end: Option<(Phase, String)>,
}

impl<'a> StatusFacts<'a> {
    /// Facts from the input of a decision.
    pub(super) fn from_input(seen: &DecisionInput<'a>) -> StatusFacts<'a> {
        let state = match seen.launcher {
            Launcher::NotYet => None,
            Launcher::Speaks(state) => Some(&**state),
            Launcher::Gone { last, .. } => last.as_deref(),
        };
        let trouble = seen.trouble.map(|trouble| trouble.message.clone());
        StatusFacts {
            vmi: seen.vmi,
            state,
            guest: seen.guest,
            left_out: seen.left_out,
            interfaces: seen.interfaces,
            trouble,
            emulated: seen.emulated,
            migration: seen.migration,
            end: None,
        }
    }

    /// Ends the VMI.
    pub(super) fn end_vmi(&mut self, phase: Phase, why: &str) {
        self.end = Some((phase, why.to_owned()));
    }

    /// True if the guest has gone to another node, or may have.
    fn has_moved(&self) -> bool {
        let status = self.vmi.status.as_ref();
        status.zip(self.state).is_some_and(|(status, state)| has_moved(status, state))
    }

    fn phase(&self) -> Option<Phase> {
        match (&self.end, self.state) {
            (Some((phase, _)), _) => Some(phase.clone()),
            _ if self.has_moved() => None,
            (None, Some(state)) => Some(Phase::from(state.life.phase())),
            (None, None) => None,
        }
    }

    /// State of a VMI whose processors run, or may continue.
    fn lives(&self) -> Option<&'a State> {
        let lives = |state: &&State| matches!(state.life, Life::Running | Life::Paused | Life::Stopping);
        self.state.filter(lives).filter(|_| self.end.is_none())
    }

    /// Reason of a start that waits for space.
    fn waiting_reason(&self) -> Option<String> {
        let state = self.state.filter(|state| state.reason.as_deref() == Some(NO_SPACE))?;
        let why = state.message.as_deref().unwrap_or_default();
        Some(format!("{why}; the start is tried again until there is space"))
    }

    /// Reason of a failed start, or of an unexpected end.
    fn failure_reason(&self) -> Option<&str> {
        match (&self.end, self.state) {
            (Some((_, why)), _) => Some(why),
            (None, Some(state)) if state.life == Life::Failed && !self.has_moved() => {
                state.message.as_deref()
            }
            _ => None,
        }
    }
}

/// The new status.
pub(super) fn status(old: &Status, story: &StatusFacts<'_>, now: &Now) -> Status {
    let mut new = old.clone();
    let before = old.phase.clone().unwrap_or_default();
    if let Some(phase) = story.phase().filter(|phase| before.may_become(phase)) {
        new.phase_transition_timestamps.push(PhaseTransition {
            phase: Some(phase.clone()),
            phase_transition_timestamp: Some(now.text.clone()),
            ..PhaseTransition::default()
        });
        new.phase = Some(phase);
        new.reason = None;
    }
    let machine = story.lives().and_then(|_| Machine::check_again(story.vmi).ok());
    conditions(&mut new, story, machine.as_ref(), now);
    // As upstream: only frozen file systems have a value.
    new.fs_freeze_status = story.lives().filter(|state| state.frozen).map(|_| FROZEN.to_owned());
    if let Some(state) = story.lives() {
        launcher(&mut new, state);
        volumes(&mut new, state, story.vmi);
        guest(&mut new, state, story);
        hardware(&mut new, story.vmi, machine.as_ref());
    }
    if let Some(migration) = source_state(old, story.state, story.migration, &now.text) {
        new.migration_state = Some(migration);
    }
    new
}

fn conditions(new: &mut Status, story: &StatusFacts<'_>, machine: Option<&Machine>, now: &Now) {
    let is_final = new.phase.as_ref().is_some_and(Phase::is_final);
    let is_of_controller = is_unsynchronized(&new.conditions, &OF_CONTROLLER);
    let mut tell = |kind: ConditionType, said: Option<(&str, &str, String)>| {
        set(&mut new.conditions, kind, said, now);
    };
    let lives = story.lives();
    let paused = lives.filter(|state| state.life == Life::Paused);
    let is_paused = paused.map(|state| {
        let reason = state.reason.as_deref().unwrap_or("PausedByUser");
        ("True", reason, state.message.clone().unwrap_or_default())
    });
    // A guest that has arrived and is held still has the condition of its source, which tells whether it goes on.
    if !paused.is_some_and(is_held) {
        tell(ConditionType::Paused, is_paused);
    }
    tell(
        ConditionType::AgentConnected,
        lives.filter(|state| state.agent).map(|_| match story.left_out {
            Some(left_out) => ("True", "Truncated", left_out.to_owned()),
            None => ("True", "", String::new()),
        }),
    );
    tell(
        ConditionType::AccessCredentialsSynchronized,
        lives.and_then(|state| state.credentials.as_ref()).map(|told| {
            let is = if told.synchronized { "True" } else { "False" };
            (is, told.reason.as_str(), told.message.clone())
        }),
    );
    if let Some(state) = lives {
        match story.guest.filter(|_| state.agent) {
            Some(guest) => tell(
                ConditionType::AgentVersionNotSupported,
                agent::unsupported(story.vmi, &guest.commands).map(|(reason, why)| ("True", reason, why)),
            ),
            // If the agent was not queried yet, the last result stays.
            None if state.agent => {}
            None => tell(ConditionType::AgentVersionNotSupported, None),
        }
    }
    let refused = story
        .failure_reason()
        .map(str::to_owned)
        .or_else(|| story.waiting_reason())
        .or_else(|| story.trouble.clone());
    match refused {
        // virt-controller removes its own condition: otherwise two programs would write in turn.
        _ if !is_final && is_of_controller => {}
        Some(why) => tell(ConditionType::Synchronized, Some(("False", SYNC_FAILED, why))),
        // A condition from before the start stays until there is a domain.
        None if lives.is_some() => tell(ConditionType::Synchronized, None),
        None => {}
    }
    if lives.is_some() {
        let told = match machine.and_then(|machine| migratable::obstacle(story.vmi, machine)) {
            Some(Obstacle { reason, message }) => ("False", reason, message),
            None => ("True", "", String::new()),
        };
        tell(ConditionType::LiveMigratable, Some(told));
        let why = "the guest's processors are emulated: this is slow".to_owned();
        tell(ConditionType::SoftwareEmulation, story.emulated.then_some(("True", "NoKvm", why)));
    }
    if is_final {
        tell(ConditionType::LiveMigratable, None);
        tell(ConditionType::AgentVersionNotSupported, None);
    }
}

/// Value of `fsFreezeStatus` for frozen file systems.
const FROZEN: &str = "frozen";
/// Sets a condition, or removes it. Its time is that of the last change.
fn set(list: &mut Vec<Condition>, kind: ConditionType, said: Option<(&str, &str, String)>, now: &Now) {
    let text = |text: &str| bounds::text(text, bounds::SENTENCE);
    match said {
        Some((status, reason, message)) => {
            conditions::set(list, kind, (status, &text(reason), &text(&message)), &now.text);
        }
        None => conditions::remove(list, &kind),
    }
}

/// Findings of the launcher at the start of the VMI.
fn launcher(new: &mut Status, state: &State) {
    if state.selinux.is_some() {
        new.selinux_context.clone_from(&state.selinux);
    }
    if let Some(found) = state.kernel_boot {
        let of = |checksum| Checksum { checksum: Some(checksum), ..Checksum::default() };
        new.kernel_boot_status = Some(KernelBootStatus {
            kernel_info: Some(of(found.kernel)),
            initrd_info: found.initrd.map(of),
            ..KernelBootStatus::default()
        });
    }
}

fn volumes(new: &mut Status, state: &State, vmi: &VirtualMachineInstance) {
    for volume in &vmi.spec.volumes {
        let Some(target) = state.targets.get(&volume.name) else { continue };
        match new.volume_status.iter_mut().find(|known| known.name == volume.name) {
            Some(known) => known.target.clone_from(target),
            None => new.volume_status.push(VolumeStatus {
                name: volume.name.clone(),
                target: target.clone(),
                ..VolumeStatus::default()
            }),
        }
        let known = new.volume_status.iter_mut().find(|known| known.name == volume.name);
        let size = state.sizes.get(&volume.name).and_then(|size| i64::try_from(*size).ok());
        if let (Some(known), true) = (known, size.is_some()) {
            known.size = size;
        }
    }
    new.volume_status.sort_by(|a, b| a.name.cmp(&b.name));
}

fn guest(new: &mut Status, state: &State, story: &StatusFacts<'_>) {
    let guest = story.guest.filter(|_| state.agent);
    // The guest agent is connected but was not queried yet: the earlier information stays for the moment.
    if guest.is_some() || !state.agent {
        new.interfaces = interfaces(&new.interfaces, story.interfaces, guest, story.vmi);
    }
    let Some(guest) = guest else {
        if !state.agent {
            new.guest_os_info = None;
        }
        return;
    };
    let said = |key: &str| guest.os.get(key).filter(|text| !text.is_empty()).cloned();
    new.guest_os_info = Some(GuestOsInfo {
        name: said("name"),
        kernel_release: said("kernel-release"),
        version: said("version"),
        pretty_name: said("pretty-name"),
        version_id: said("version-id"),
        kernel_version: said("kernel-version"),
        machine: said("machine"),
        id: said("id"),
        ..GuestOsInfo::default()
    })
    .filter(|info| *info != GuestOsInfo::default());
}

fn hardware(new: &mut Status, vmi: &VirtualMachineInstance, checked: Option<&Machine>) {
    let domain = &vmi.spec.domain;
    if new.machine.is_none() && domain.machine.is_some() {
        // A distribution's alias is resolved to QEMU's own name.
        let resolved = |name: &String| of_distribution(name).unwrap_or_else(|| name.clone());
        new.machine = domain
            .machine
            .as_ref()
            .map(|machine| MachineType { r#type: resolved(&machine.r#type), ..MachineType::default() });
    }
    new.migration_method = checked.map(|machine| migratable::method(vmi, machine));
    let has_memory = new.memory.as_ref().is_some_and(|memory| memory.guest_at_boot.is_some());
    if has_memory && new.current_cpu_topology.is_some() {
        return;
    }
    let Some(machine) = checked else { return };
    if !has_memory {
        let amount = domain.memory.as_ref().and_then(|memory| memory.guest.clone());
        let amount = amount.unwrap_or_else(|| api::quantity::Quantity::of_bytes(machine.memory.guest));
        let memory = new.memory.get_or_insert_default();
        memory.guest_at_boot = Some(amount.clone());
        memory.guest_current = Some(amount.clone());
        memory.guest_requested = Some(amount);
    }
    if new.current_cpu_topology.is_none() {
        let (cores, sockets, threads) = (machine.cpu.cores, machine.cpu.sockets, machine.cpu.threads);
        new.current_cpu_topology = Some(CpuTopology {
            cores: Some(cores),
            sockets: Some(sockets),
            threads: Some(threads),
            ..CpuTopology::default()
        });
    }
}

/// Events about a change of the status.
pub(super) fn events(old: &Status, new: &Status, story: &StatusFacts<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    if old.phase != new.phase {
        match &new.phase {
            Some(Phase::Running) => events.push(Event::normal("Started", "VirtualMachineInstance started.")),
            Some(Phase::Succeeded) => {
                events.push(Event::normal("Stopped", "The VirtualMachineInstance was shut down."));
            }
            Some(Phase::Failed) if is_stopped_carrier(story.vmi) => {
                events.push(Event::normal("Stopped", CARRIER_STOPPED));
            }
            Some(Phase::Failed) => {
                let why = story.failure_reason().unwrap_or("the launcher gave no reason");
                events.push(Event::warning("Stopped", format!("The VirtualMachineInstance crashed: {why}")));
            }
            _ => {}
        }
    }
    let is_final = new.phase.as_ref().is_some_and(Phase::is_final);
    // A VMI that never had a domain cannot lose one.
    if is_final && old.phase == Some(Phase::Running) {
        events.push(Event::normal("Deleted", "Signaled Deletion"));
    }
    let pause = |status: &Status| {
        status.conditions.iter().find(|condition| condition.r#type == ConditionType::Paused).cloned()
    };
    match (pause(old), pause(new)) {
        (None, Some(pause)) => {
            let warning = pause.reason.as_deref() != Some("PausedByUser");
            let why = pause.message.or(pause.reason).unwrap_or_default();
            let message = format!("VirtualMachineInstance paused: {why}");
            events.push(Event { warning, reason: "Paused", message });
        }
        (Some(_), None) if !is_final => {
            events.push(Event::normal("Resumed", "VirtualMachineInstance resumed."));
        }
        _ => {}
    }
    events.extend(of_credentials(old, new));
    let said = |status: &Status| -> Option<String> {
        let of = |condition: &&Condition| {
            condition.r#type == ConditionType::Synchronized && condition.status == "False"
        };
        status.conditions.iter().find(of)?.message.clone()
    };
    if let Some(message) = said(new).filter(|message| said(old).as_ref() != Some(message))
        && !is_final
    {
        events.push(Event::warning("SyncFailed", message));
    }
    events
}

/// Events about keys and passwords, with upstream's messages. As a difference, a missing guest agent is not a
/// failure.
fn of_credentials(old: &Status, new: &Status) -> Option<Event> {
    let of = |status: &Status| {
        let kind = ConditionType::AccessCredentialsSynchronized;
        status.conditions.iter().find(|condition| condition.r#type == kind).cloned()
    };
    let told = |condition: &Condition| (condition.status.clone(), condition.message.clone());
    let now = of(new).filter(|now| of(old).as_ref().map(told) != Some(told(now)))?;
    match now.status.as_str() {
        "True" => Some(Event::normal("AccessCredentialsSyncSuccess", "Access credentials sync successful.")),
        _ if now.reason.as_deref() == Some(AGENT_OFFLINE) => None,
        _ => {
            let why = now.message.unwrap_or_default();
            Some(Event::warning(
                "AccessCredentialsSyncFailed",
                format!("Access credentials sync failed: {why}"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_status_has_the_machine_type_of_qemu() {
        for (written, resolved) in [("pc-q35-rhel9.4.0", "pc-q35-7.2"), ("pc-q35-6.2", "pc-q35-6.2")] {
            let vmi = json!({"metadata": {"name": "a"}, "spec": {"domain": {"machine": {"type": written}}}});
            let vmi: VirtualMachineInstance = api::wire::read(vmi).unwrap();
            let mut status = Status::default();
            hardware(&mut status, &vmi, None);
            assert_eq!(status.machine.unwrap().r#type, resolved);
        }
    }
}
