//! VMIs: one run of a VM each, from its object to its pod, until virt-handler has it; and its end.
//!
//! ```text
//!            needs are there            pod runs: hand-over          virt-handler
//! Pending ─────────────────► Scheduling ──────────────► Scheduled ──────────► Running ──► Succeeded, Failed
//!    │  pod is made             │ pod is lost, ended        │ pod is lost         │             │
//!    ▼                          ▼                           ▼                     ▼             ▼
//!  Failed (deleted,          Failed                      Failed                Failed     pod down: finalizers go
//!  volume failed)
//! ```
//!
//! **Flow.** Each round looks at the VMI, its active pod and its volumes, makes a copy of the VMI as it should
//! be, and writes the difference at once: phase, conditions and finalizers go in one request.
//! **Guarantees.** Never two pods for one attempt (their name follows from the uid and the attempt), and one that may run
//! the guest ([`LauncherPods`]). A phase goes only where
//! `Phase::may_become` lets it. A pod of which a container has ended before the hand-over has ended as a whole: nobody starts
//! that container again, and the guest needs it. What waits says for what: the scheduler's, the kubelet's, the server's own words.
//! **Assumptions.** From `Scheduled` on, virt-handler alone says `Running` and how it ended; only a pod that is gone,
//! or over for [`PATIENCE`] with no word of virt-handler, ends a VMI from here: as its launcher left it to the kubelet, where it did.
//! **Caveats.** A pod on a node that is lost is gone only when the node, or somebody by force, says so: until then
//! the VMI stays, and says what it waits for, so that no second VMI writes to its disk.

mod claimed;
mod disk_conflict;
mod end;
#[cfg(test)]
mod ending_tests;
mod eviction;
mod needs;
mod networks;
mod outdated;
mod pod_state;
#[cfg(test)]
mod pod_tests;
mod ready;
mod state;
mod strangers;
#[cfg(test)]
mod strangers_tests;
#[cfg(test)]
mod tests;
mod volumes;
mod vsock;
mod waiting;
#[cfg(test)]
mod waiting_tests;

pub(crate) use outdated::is_outdated;

use super::pod::{self, Automatic, Surroundings};
use super::tsc;
use api::machine::Machine;
use api::quantity::Quantity;
use api::vmi::{ConditionType, Phase, PhaseTransition, Status, VirtualMachineInstance};
use api::wire::Wire;
use cluster_model::conditions::{self, UNHEARD, is_unsynchronized, say, stamp};
use cluster_model::config::Config;
use cluster_model::launcher::USER;
use cluster_model::metadata::{LeftOut, left_out};
use cluster_model::objects::{FINALIZER, Key, Kind, LauncherPods, OUTDATED, Pod, World, key};
use cluster_model::plan::{Plan, Step};
use jiff::{SignedDuration, Timestamp};
use needs::Needs;
use serde_json::json;

/// Says on which node it is; virt-handler looks for it.
pub(crate) const NODE: &str = "kubevirt.io/nodeName";
/// The pod of a VMI that is to have CPUs of its own is not of the class that has them.
const NOT_GUARANTEED: &str = "FailedGuaranteeResources";
/// How long virt-handler may take to say how a VMI ended whose pod is over.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Where the life of a VMI stands.
pub(crate) fn phase(vmi: &VirtualMachineInstance) -> Phase {
    vmi.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}

/// A VMI with all its defaults. The webhook has filled them in; where there is none they are the same, in memory only.
fn whole(vmi: &VirtualMachineInstance, config: &Config) -> VirtualMachineInstance {
    let mut whole = vmi.clone();
    let name = whole.metadata.name.clone().unwrap_or_default();
    api::defaults::apply(&mut whole, &config.given(api::uuid::of_vm(&name)));
    whole
}

/// A VMI with all its defaults, and what the check makes of it by the cluster's own settings; nothing where no pod is made of it.
pub(crate) fn checked(
    world: &World,
    vmi: &VirtualMachineInstance,
    config: &Config,
) -> Option<(VirtualMachineInstance, Machine)> {
    let whole = whole(vmi, config);
    let machine = Machine::check(&whole, &cluster_model::config::permitted(world)?).ok()?;
    Some((whole, machine))
}

/// What is to be done for a VMI.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(vmi) = world.vmis.get(namespace, name) else { return plan };
    let of = LauncherPods::of(vmi);
    let mut round = Round {
        world,
        vmi,
        pod: of.as_ref().and_then(|of| of.active(world.launcher_pods(of), |pod| &pod.meta)),
        of,
        now,
        phase: phase(vmi),
        next: vmi.clone(),
        before: Vec::new(),
        after: Plan::default(),
    };
    round.next.status.get_or_insert_with(|| Status { runtime_user: USER.into(), ..Status::default() });
    match round.phase.clone() {
        Phase::Scheduling => round.scheduling(),
        Phase::Scheduled | Phase::Running | Phase::Unknown => round.handed_over(),
        Phase::Succeeded | Phase::Failed => {}
        _ => round.pending(),
    }
    round.say_ready();
    round.say_eviction();
    if !round.phase.is_final() {
        round.say_volumes();
    }
    round.end();
    let Round { next, before, after, .. } = round;
    plan.steps = before;
    plan.update(Kind::VirtualMachineInstance, &vmi.metadata, &vmi.write(), &next.write(), false);
    plan.steps.extend(after.steps);
    plan.again = after.again;
    plan
}

/// One look at one VMI.
struct Round<'a> {
    world: &'a World,
    vmi: &'a VirtualMachineInstance,
    /// Which launcher pods are the VMI's.
    of: Option<LauncherPods>,
    /// Of these, the pod that may run the guest.
    pod: Option<&'a Pod>,
    now: Timestamp,
    phase: Phase,
    /// As it should be.
    next: VirtualMachineInstance,
    /// What is done before the VMI is changed, and after.
    before: Vec<Step>,
    after: Plan,
}

impl Round<'_> {
    fn status(&mut self) -> &mut Status {
        self.next.status.get_or_insert_default()
    }

    fn set_phase(&mut self, phase: Phase) {
        if !self.phase.may_become(&phase) {
            return;
        }
        let since = stamp(self.now);
        let status = self.status();
        status.phase_transition_timestamps.push(PhaseTransition {
            phase: Some(phase.clone()),
            phase_transition_timestamp: Some(since),
            ..PhaseTransition::default()
        });
        status.phase = Some(phase);
    }

    fn fail(&mut self, reason: &str) {
        if self.vmi.status.as_ref().is_none_or(|status| status.reason.is_none()) {
            self.status().reason = Some(reason.to_owned());
        }
        self.set_phase(Phase::Failed);
    }

    fn say(&mut self, kind: ConditionType, status: &str, reason: &str, message: &str) {
        let now = self.now;
        say(&mut self.status().conditions, kind, status, Some(reason), Some(message), now);
    }

    /// The pod's disappearance is believed only when the server says so too: our picture of pods may be older than
    /// that of VMIs.
    fn pod_is_gone(&mut self) {
        if let Some(of) = self.of.clone() {
            self.are_absent(&of);
        }
    }

    fn are_absent(&mut self, of: &LauncherPods) {
        self.before.extend(of.keys().map(|key| Step::Absent { key, of: Some(of.clone()) }));
    }

    fn is_deleted(&self) -> bool {
        self.vmi.metadata.deletion_timestamp.is_some()
    }

    fn tell(&mut self, warning: bool, reason: &'static str, message: impl Into<String>) {
        self.after.tell(Kind::VirtualMachineInstance, &self.vmi.metadata, warning, reason, message);
    }

    // ── Pending ─────────────────────────────────────────────────────────────────────────────────────────────────

    fn pending(&mut self) {
        if self.is_deleted() {
            return self.fail("Deleted");
        }
        if let Some(pod) = self.pod {
            if pod_state::is_over(pod) || pod.is_going() {
                return self.pod_ended(pod);
            }
            // It was made, and that was not written down: somebody was quicker, or the answer was lost.
            self.forget_waiting();
            self.say_data_is_there();
            return self.take_pod();
        }
        let config = Config::read(self.world);
        match needs::look(self.world, self.vmi) {
            Needs::Failed { volume, message } => {
                self.say(ConditionType::DataVolumesReady, "False", "NotAllDVsReady", &message);
                self.tell(
                    true,
                    "FailedDataVolumeImport",
                    format!("DataVolume {volume} import failed: {message}"),
                );
                self.fail("FailedDataVolumeImport");
            }
            Needs::Missing { message } => self.wait_for_claim(&message),
            Needs::Filling { message } => self.wait_for_data(&message),
            Needs::There(claims) => {
                self.say_data_is_there();
                // What keeps a VMI until its pod is gone is there before the pod is, also where no webhook stood.
                match self.has_finalizer() {
                    true => self.make_pod(&config, &claims),
                    false => {
                        self.hold();
                        self.set_phase(Phase::Pending);
                    }
                }
            }
        }
    }

    fn has_finalizer(&self) -> bool {
        self.vmi.metadata.finalizers.iter().any(|name| name == FINALIZER)
    }

    fn make_pod(
        &mut self,
        config: &Config,
        claims: &std::collections::BTreeMap<String, cluster_model::objects::PersistentVolumeClaim>,
    ) {
        let whole = whole(self.vmi, config);
        // Webhooks have asked the same; but they do not always stand, and the settings may be others by now.
        let Some(permitted) = cluster_model::config::permitted(self.world) else {
            let home = &self.world.facts.namespace;
            let message = format!(
                "there is no KubeVirt object in the namespace {home}, and so nothing says what is permitted: no pod is made \
                 until there is one"
            );
            return self.wait("KubeVirtNotFound", &message);
        };
        let machine = match Machine::check(&whole, &permitted) {
            Ok(machine) => machine,
            Err(faults) => {
                let faults: Vec<String> = faults
                    .iter()
                    .take(10)
                    .map(|fault| format!("{}: {}", fault.field, fault.message))
                    .collect();
                return self.wait("InvalidSpec", &faults.join("; "));
            }
        };
        if let Some(message) = pod::without_files(&machine, claims) {
            return self.wait("InvalidSpec", &message);
        }
        if machine.cpu.wants_invariant_tsc() && machine.cpu.tsc.is_none() && !config.use_emulation {
            return self.choose_frequency(config);
        }
        let image_volumes =
            config.image_volumes && self.world.facts.image_volumes && self.world.nodes_mount_images();
        let Some((state, missing)) = self.state(&machine, config) else { return };
        let state = state.as_deref();
        let limits = Automatic::of(self.world, config, &machine.namespace);
        let around = Surroundings { config, facts: &self.world.facts, image_volumes, claims, state, limits };
        let pod = pod::pod(&whole, &machine, &around);
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let key = Key::new(Kind::Pod, machine.namespace.clone(), name.clone());
        let Some(rivals) = self.rivals_for_disks() else { return };
        if self.waits_after_failure(&machine) {
            return;
        }
        self.forget_waiting();
        rivals.iter().for_each(|of| self.are_absent(of));
        self.before.extend(missing);
        self.before.push(match pod::on_networks(&machine) {
            networks if networks.is_empty() => Step::Create { key, object: pod },
            networks => Step::CreateOnNetworks { key, object: pod, networks },
        });
        self.tell(false, "SuccessfulCreate", format!("Created virtual machine pod {name}"));
        self.tell_left_out();
        self.take_pod();
    }

    /// Chooses the frequency of the guest's time stamp counter: it is written first, and the pod asks for a node that supports it.
    fn choose_frequency(&mut self, config: &Config) {
        let Some(hertz) = tsc::of_cluster(self.world, config) else {
            let message = "the CPU feature invtsc needs a node with a time stamp counter of a constant frequency, and none that takes \
                           VMIs says that it has one (label cpu-timer.node.kubevirt.io/tsc-frequency): take the feature out, or set \
                           developerConfiguration.minimumClusterTSCFrequency in the KubeVirt object";
            return self.wait("NoTSCFrequency", message);
        };
        let hints = self.status().topology_hints.get_or_insert_default();
        hints.tsc_frequency = i64::try_from(hertz).ok();
        self.set_phase(Phase::Pending);
    }

    /// Who wrote it through others (a tool, a template) has not seen the webhook's warning.
    fn tell_left_out(&mut self) {
        let policy = Config::read(self.world).annotations;
        let LeftOut { labels, annotations } = left_out(&self.vmi.metadata, policy);
        let left: Vec<&str> = labels.into_iter().chain(annotations).collect();
        if !left.is_empty() {
            let message = format!("Labels and annotations that its pod does not get: {}", left.join(", "));
            self.tell(false, "NotPassedOn", message);
        }
    }

    /// The pod is there: the VMI waits for it now.
    fn take_pod(&mut self) {
        self.hold();
        self.set_phase(Phase::Scheduling);
        self.status().device_status = None; // It is known when the pod runs.
        if let Some(pod) = self.pod {
            self.repeat(pod);
        }
    }

    // ── Scheduling ──────────────────────────────────────────────────────────────────────────────────────────────

    fn scheduling(&mut self) {
        let Some(pod) = self.pod else {
            self.pod_is_gone();
            return self.fail("PodNotExists");
        };
        self.hold();
        self.repeat(pod);
        self.say_networks(pod);
        if pod_state::is_over(pod) || pod_state::lost(pod).is_some() || pod.is_going() {
            return self.pod_ended(pod);
        }
        if self.is_deleted() {
            return self.delete_pod(pod);
        }
        if pod_state::is_up(pod)
            && self.lacks_cpus(pod).is_none()
            && let Some(node) = pod.node.clone()
            && self.devices_are_told(pod, &node)
        {
            self.hand_over(pod, &node);
        }
    }

    fn hand_over(&mut self, pod: &Pod, node: &str) {
        self.say_place(pod, node);
        self.say_cid();
        self.set_phase(Phase::Scheduled);
    }

    /// Why a VMI that is to have CPUs of its own has none: only a pod of the class `Guaranteed` has. Another class says that
    /// somebody has changed the pod on its way, a webhook of a mesh as a rule.
    fn lacks_cpus(&self, pod: &Pod) -> Option<String> {
        let cpu = self.vmi.spec.domain.cpu.as_ref();
        cpu.filter(|cpu| cpu.dedicated_cpu_placement == Some(true))?;
        let class = pod.qos.as_deref().filter(|class| *class != "Guaranteed")?;
        Some(format!(
            "the launcher pod is {class}, not Guaranteed, and so has no CPUs of its own: some container of it has no limits \
             that equal its requests. A webhook may have added one: keep it from this pod, or give that container limits"
        ))
    }

    /// Says where it is, as its pod has it. It is said in every round: what else stands there was written by somebody else,
    /// while no webhook stood.
    fn say_place(&mut self, pod: &Pod, node: &str) {
        self.next.metadata.labels.insert(NODE.to_owned(), node.to_owned());
        let uid = pod.meta.uid.clone().unwrap_or_default();
        let qos = pod.qos.clone();
        let labels = &mut self.next.metadata.labels;
        match is_outdated(pod, &self.world.facts.launcher_image) {
            true => drop(labels.insert(OUTDATED.to_owned(), String::new())),
            false => drop(labels.remove(OUTDATED)),
        }
        let own = self.of.as_ref().map(|of| self.world.launcher_pods(of)).unwrap_or_default();
        let status = self.status();
        status.node_name = Some(node.to_owned());
        status.migration_transport = Some(api::vmi::MigrationTransport::Unix);
        status.active_pods.retain(|uid, _| own.iter().any(|pod| pod.meta.uid.as_ref() == Some(uid)));
        status.active_pods.insert(uid, node.to_owned());
        status.qos_class = qos;
        status.launcher_container_image_version = pod.image.clone();
        if let Some(bytes) = pod.meta.annotations.get(pod::MEMORY_OVERHEAD).and_then(|text| text.parse().ok())
        {
            status.memory.get_or_insert_default().memory_overhead = Some(Quantity::of_bytes(bytes));
        }
    }

    /// Nobody takes it away while its pod may run its guest.
    fn hold(&mut self) {
        let finalizers = &mut self.next.metadata.finalizers;
        if self.vmi.metadata.deletion_timestamp.is_none() && !finalizers.iter().any(|name| name == FINALIZER)
        {
            finalizers.push(FINALIZER.to_owned());
        }
    }

    fn pod_ended(&mut self, pod: &Pod) {
        let (reason, message) = pod_state::end(pod);
        self.say(ConditionType::Synchronized, "False", &reason, &message);
        self.fail(&reason);
    }

    /// Nothing was wrong in this until now. An event tells where trouble begins; a kubelet that tries again and again has
    /// other words each time, which the condition alone follows.
    fn is_news(&self, kind: &ConditionType) -> bool {
        let list = self.vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
        conditions::of(list, kind).is_none_or(|said| said.status != "False")
    }

    /// Repeats what the scheduler, the kubelet and the runtime say of the pod.
    fn repeat(&mut self, pod: &Pod) {
        match pod.unscheduled() {
            Some(condition) => {
                let reason = condition.reason.as_deref().unwrap_or_default();
                let message = condition.message.as_deref().unwrap_or_default();
                if self.is_news(&ConditionType::PodScheduled) {
                    self.tell(true, "FailedScheduling", message);
                }
                self.say(ConditionType::PodScheduled, "False", reason, message);
            }
            None => conditions::drop(&mut self.status().conditions, &ConditionType::PodScheduled),
        }
        let warned = || {
            let warning = self.world.warning(pod).filter(|_| !pod_state::is_up(pod))?;
            Some((warning.reason.clone(), warning.message.clone()))
        };
        let lacks = || Some((NOT_GUARANTEED.to_owned(), self.lacks_cpus(pod)?));
        let trouble = pod_state::trouble(pod).or_else(warned).or_else(lacks);
        match trouble.or_else(|| self.unallocated(pod)).or_else(|| self.unattached(pod)) {
            Some((reason, message)) => {
                if self.is_news(&ConditionType::Synchronized) {
                    match reason == NOT_GUARANTEED {
                        true => self.tell(true, NOT_GUARANTEED, message.as_str()),
                        false => self.tell(true, "FailedStart", format!("{reason}: {message}")),
                    }
                }
                self.say(ConditionType::Synchronized, "False", &reason, &message);
            }
            None => self.forget_trouble(),
        }
    }

    // ── Scheduled, Running ──────────────────────────────────────────────────────────────────────────────────────

    fn handed_over(&mut self) {
        let Some(pod) = self.pod else {
            self.pod_is_gone();
            return match self.world.ending(self.vmi) {
                Some(ending) => self.ended_as(ending),
                None => self.fail("PodNotExists"),
            };
        };
        self.hold();
        if let Some(node) = &pod.node {
            self.say_place(pod, node);
        }
        self.say_cid();
        self.say_networks(pod);
        if pod_state::is_over(pod) {
            let since = self.world.over_since(pod).unwrap_or(self.now);
            return match (since.checked_add(PATIENCE), pod.ending()) {
                // Nobody on its node has time any more: it is gone at any moment.
                (_, Some(ending)) if pod.is_going() => self.ended_as(&ending),
                (Ok(until), _) if until > self.now => self.after.look_again(until),
                (_, Some(ending)) => self.ended_as(&ending),
                (_, None) => self.pod_ended(pod),
            };
        }
        self.say_node(pod);
        self.end_late(pod);
        self.tell_pod_paused(pod);
    }

    /// Says that nothing is heard of the node, and what would help; what the node's virt-handler says is its own.
    fn say_node(&mut self, pod: &Pod) {
        let Some(name) = pod.node.as_deref() else { return };
        let until = super::node::heard_until(self.world, name);
        if until.is_some_and(|until| until <= self.now) {
            let message = format!(
                "{}. Whether the VMI runs is not known, so its disks are given to no other until its pod is gone: that \
                 is when the node is back, or is deleted, or has the taint node.kubernetes.io/out-of-service",
                super::node::silent(name)
            );
            return self.say(ConditionType::Synchronized, "False", UNHEARD, &message);
        }
        let list = &mut self.status().conditions;
        if is_unsynchronized(list, &[UNHEARD]) {
            conditions::drop(list, &ConditionType::Synchronized);
        }
        if let Some(until) = until {
            self.after.look_again(until);
        }
    }

    /// One that is deleted, and that nobody on its node ends in time, is ended by its kubelet.
    fn end_late(&mut self, pod: &Pod) {
        let since = self.vmi.metadata.deletion_timestamp.as_deref().and_then(|since| since.parse().ok());
        let Some(since): Option<Timestamp> = since.filter(|_| !pod.is_going()) else { return };
        match since.checked_add(SignedDuration::from_secs(pod::grace(self.vmi))) {
            Ok(until) if until > self.now => self.after.look_again(until),
            _ => self.delete_pod(pod),
        }
    }

    /// Services leave a paused VMI out: its pod is not ready then.
    fn tell_pod_paused(&mut self, pod: &Pod) {
        let list = self.vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let wanted = if conditions::is(list, &ConditionType::Paused) { "False" } else { "True" };
        if pod.is_going() || pod.condition(pod::UNPAUSED).is_some_and(|condition| condition.status == wanted)
        {
            return;
        }
        let (reason, message) = match wanted {
            "True" => ("NotPaused", "the virtual machine is not paused"),
            _ => ("Paused", "the virtual machine is paused"),
        };
        let change = json!({"status": {"conditions": [{
            "type": pod::UNPAUSED,
            "status": wanted,
            "reason": reason,
            "message": message,
            "lastTransitionTime": stamp(self.now),
        }]}});
        self.after.steps.push(Step::Patch {
            key: key(Kind::Pod, &pod.meta),
            version: String::new(),
            change,
            part: Some("status"),
        });
    }
}

/// The key of the VMI.
fn key_of(vmi: &VirtualMachineInstance) -> Key {
    key(Kind::VirtualMachineInstance, &vmi.metadata)
}
