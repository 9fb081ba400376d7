//! Keeper of one VMI: a task that manages it from the hand-over to the end.
//!
//! ```text
//!  select ◄─┬─ the VMI or its pod changed                 ┐
//!           ├─ the launcher told a state, or broke off    ├─► decide ─► status, events, launcher ─► again, until
//!           ├─ the guest agent is asked again           │            there is nothing to do
//!           └─ what failed is tried again                 ┘
//! ```
//!
//! Besides a connection, it remembers only failures; both may be lost.

use super::apply::{self, Cluster};
use super::decide::{Actions, DecisionInput, Event, HandOverFailure, Launcher, SHUTTING_DOWN, decide, grace};
use super::pace::{self, Pace};
use super::patch::patch;
use super::permitted::Permitted;
use super::retry::Retry;
use crate::blocking::Blocking;
use crate::bounds;
use crate::capability;
use crate::devices;
use crate::error::{Error, ErrorKind, Result};
use crate::filesystems::Filesystems;
use crate::growing_disks::GrowingDisks;
use crate::launcher_client::{Client, States};
use crate::launchers::{Launchers, Listed};
use crate::limits;
use crate::measures;
use crate::network;
use crate::now::now;
use crate::pod::folder::NOT_SEEN;
use crate::pod::layout::COMPUTE;
use crate::pod::{Layout, Pod, PodFolder, Pods, Process};
use crate::volumes::{self, Parts};
use api::launcher::{Answer, GuestInfo, Link, Request, State, Sync};
use api::machine::Machine;
use api::vmi::{InterfaceStatus, Phase, VirtualMachineInstance};
use futures_util::FutureExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// Time limit for the first state of a launcher after the connection.
const FIRST: Duration = Duration::from_secs(20);
/// Time limit for the preparation of a VMI's volumes and network.
const PREPARING: Duration = Duration::from_secs(60);
/// Pauses between queries of the guest agent: after it connects, and later.
const ASK_AGENT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// A VMI and its pod in the cluster.
#[derive(Clone, Debug)]
pub(crate) struct KeeperInput {
    /// Current object of the VMI.
    pub(crate) object: Arc<Value>,
    /// Its pod on this node.
    pub(crate) pod: Option<Arc<Pod>>,
    /// Settings of the cluster.
    pub(crate) permitted: Permitted,
}

/// Parts that all keepers of a node share.
pub(crate) struct Node<C> {
    /// Client that writes statuses and events.
    pub(crate) cluster: C,
    /// The kubelet's folders of pods.
    pub(crate) pods: Pods,
    /// Folder with the results of `virt-launcher node-info`.
    pub(crate) findings: PathBuf,
    /// Registry of connected launchers.
    pub(crate) launchers: Launchers,
}

/// Manages one VMI, until it has ended or is no longer wanted.
pub(crate) async fn keep<C: Cluster>(node: Arc<Node<C>>, mut wanted: watch::Receiver<KeeperInput>) {
    let object = wanted.borrow_and_update().clone();
    let vmi = match apply::read((*object.object).clone()) {
        Ok(vmi) => vmi,
        Err(e) => return tracing::error!("{}", e.chain()),
    };
    let mut keeper = Keeper {
        node,
        pod: None,
        place: None,
        preparing: Blocking::new("the VMI", 1),
        object: object.object.clone(),
        vmi,
        permitted: object.permitted,
        contact: Contact::None,
        launcher: Launcher::NotYet,
        guest: None,
        left_out: None,
        filesystems: Filesystems::default(),
        links: BTreeMap::new(),
        advertisers: None,
        trouble: None,
        told: false,
        again: Retry::default(),
        ask_agent: None,
        asked: None,
        linked: None,
        router_again: Retry::default(),
        silent_since: None,
        pace: Pace::default(),
    };
    keeper.take_pod(object.pod);
    loop {
        keeper.connect().await;
        keeper.act().await;
        keeper.advertise().await;
        if is_final(&keeper.object) {
            return;
        }
        let (again, ask) = (keeper.again.at, keeper.ask_agent);
        let (write, listen) = (keeper.pace.write_at, keeper.pace.listen_at);
        tokio::select! {
            changed = wanted.changed() => match changed {
                Ok(()) => {
                    let now = wanted.borrow_and_update().clone();
                    keeper.take(now);
                }
                Err(_) => return,
            },
            state = keeper.contact.next(), if listen.is_none() => keeper.heard_all(state),
            () = until(listen) => keeper.pace.listen_at = None,
            () = until(write) => keeper.pace.write_at = None,
            () = until(again) => keeper.again.at = None,
            () = until(ask) => keeper.ask_the_agent().await,
        }
    }
}

struct Keeper<C> {
    node: Arc<Node<C>>,
    pod: Option<Arc<Pod>>,
    place: Option<Arc<PodFolder>>,
    /// One task at a time: work that hangs is not started a second time.
    preparing: Blocking,
    object: Arc<Value>,
    vmi: VirtualMachineInstance,
    permitted: Permitted,
    contact: Contact,
    launcher: Launcher,
    guest: Option<GuestInfo>,
    /// Message about omitted parts of the guest agent's report.
    left_out: Option<String>,
    /// Names under which its file systems are exported, kept over reconnects of the launcher.
    filesystems: Filesystems,
    /// Links that this keeper made for the VMI; empty if an earlier virt-handler made them.
    links: BTreeMap<String, Link>,
    /// Tasks that send router advertisements to the guest, once started.
    advertisers: Option<network::Advertisers>,
    trouble: Option<HandOverFailure>,
    told: bool,
    again: Retry,
    /// Retry of the guest's router.
    router_again: Retry,
    ask_agent: Option<Instant>,
    /// Launcher state and grace period of the last shutdown request, which is repeated if one of them changes.
    asked: Option<(u64, u64)>,
    /// Links and request of the last change of a link. The request is repeated only if one of them changes.
    linked: Option<(BTreeMap<String, bool>, Request)>,
    /// Time since which the launcher's socket is gone, while the end of its VMI is unknown.
    silent_since: Option<Instant>,
    pace: Pace,
}

/// Connection to the launcher.
enum Contact {
    None,
    There { client: Client, states: Box<States>, process: Option<Arc<Process>>, listed: Listed },
}

impl Contact {
    async fn next(&mut self) -> Result<Option<State>> {
        match self {
            Contact::None => std::future::pending().await,
            Contact::There { states, .. } => states.next().await,
        }
    }
}

impl<C: Cluster> Keeper<C> {
    // ---- Input ----

    fn take(&mut self, wanted: KeeperInput) {
        if is_newer(&wanted.object, &self.object) {
            match apply::read((*wanted.object).clone()) {
                Ok(vmi) => (self.object, self.vmi) = (wanted.object, vmi),
                Err(e) => tracing::error!("{}", e.chain()),
            }
        }
        if self.permitted != wanted.permitted {
            self.permitted = wanted.permitted;
            self.again.forget();
        }
        self.take_pod(wanted.pod);
    }

    fn take_pod(&mut self, pod: Option<Arc<Pod>>) {
        let Some(pod) = pod else { return };
        let uid = |pod: &Arc<Pod>| pod.metadata.uid.clone();
        if self.pod.as_ref().map(uid) != Some(uid(&pod)) {
            match Layout::of(&pod) {
                Ok(layout) => self.place = Some(Arc::new(PodFolder::new(&self.node.pods, layout))),
                Err(e) => self.trouble = Some(HandOverFailure { message: e.chain(), hopeless: false }),
            }
        }
        self.pod = Some(pod);
    }

    /// Takes a state and those that came meanwhile: the newest one counts.
    fn heard_all(&mut self, state: Result<Option<State>>) {
        self.heard(state);
        for _ in 0..pace::AT_ONCE {
            match self.contact.next().now_or_never() {
                Some(state) => self.heard(state),
                None => return,
            }
        }
    }

    fn heard(&mut self, state: Result<Option<State>>) {
        self.pace.heard();
        match state.map(|state| state.map(bounds::state)) {
            Ok(Some(state)) => {
                if state.agent && self.ask_agent.is_none() {
                    self.ask_agent =
                        Some(self.pace.questions.take(Instant::now()).err().unwrap_or_else(Instant::now));
                }
                if !state.agent {
                    (self.ask_agent, self.guest, self.left_out) = (None, None, None);
                }
                self.name_devices(&state);
                let before =
                    if let Launcher::Speaks(before) = &self.launcher { Some(&**before) } else { None };
                measures::count_panic(before, &state, &self.vmi.metadata);
                self.launcher = Launcher::Speaks(Box::new(state));
            }
            Ok(None) => self.contact = Contact::None,
            Err(e) => {
                tracing::warn!("{}", e.chain());
                self.contact = Contact::None;
            }
        }
    }

    /// Sets the device names of the metrics, which come from the spec, never from the launcher alone.
    fn name_devices(&self, state: &State) {
        let Contact::There { listed, .. } = &self.contact else { return };
        listed.see(state);
        let taps = self.links.iter().filter_map(|(name, link)| match link {
            Link::Tap { name: tap, .. } => Some((tap.clone(), name.clone())),
            Link::Device { .. } | Link::Sidecar { .. } | Link::Passt { .. } | Link::User { .. } => None,
        });
        let is_volume = |name: &str| self.vmi.spec.volumes.iter().any(|volume| volume.name == name);
        let targets = state.targets.iter().filter(|(name, _)| is_volume(name));
        let disks = targets.map(|(name, target)| (target.clone(), name.clone()));
        // The guest agent of a paused guest does not answer, and delays its callers.
        let asks_agent = state.agent && state.life == api::launcher::Life::Running;
        listed.devices(taps.collect(), disks.collect(), asks_agent);
    }

    // ---- The launcher ----

    async fn connect(&mut self) {
        if matches!(self.contact, Contact::There { .. }) || matches!(self.launcher, Launcher::Gone { .. }) {
            return;
        }
        // A launcher that breaks off again and again is not read more often than others.
        if self.pace.listen_at.is_some() {
            return;
        }
        let Some(place) = self.place.clone() else { return };
        if let Some(why) = self.pod.as_ref().and_then(|pod| pod.ended(COMPUTE)) {
            let last = self.last_state(&place).await;
            return self.gone(last, Some(why));
        }
        if self.again.at.is_some() {
            return;
        }
        let client = Client::new(&self.name(), place.clone());
        match client.watch().await {
            Ok((states, process)) => {
                let listed = self.node.launchers.list(&self.vmi.metadata, &client, &self.filesystems);
                let process = process.map(Arc::new);
                listed.runs(self.pod.as_deref(), process.clone(), &self.vmi.spec.domain);
                listed.grows(GrowingDisks::of(&self.vmi, &place));
                self.contact = Contact::There { client, states: Box::new(states), process, listed };
                self.first_state().await;
            }
            Err(e) if e.kind() == ErrorKind::NotFound && self.has_spoken() => self.fell_silent(&place).await,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                tracing::debug!("{}", e.chain());
                self.again.later();
            }
            Err(e) => {
                tracing::warn!("{}", e.chain());
                self.again.later();
            }
        }
    }

    /// Waits for the first state, which is due at once. A silent launcher is disconnected, and retried later.
    async fn first_state(&mut self) {
        let state = timeout(FIRST, self.contact.next()).await;
        match &state {
            Ok(Ok(Some(_))) => {
                self.again.forget();
                self.silent_since = None;
            }
            _ => self.again.later(),
        }
        let late = || Error::failed(format!("the launcher of {} sent no state in time", self.name()));
        let state = state.unwrap_or_else(|_| Err(late()));
        self.heard(state);
    }

    /// True if this or an earlier virt-handler was connected: a VMI runs only if its launcher listened.
    fn has_spoken(&self) -> bool {
        matches!(self.launcher, Launcher::Speaks(_))
            || self.vmi.status.as_ref().is_some_and(|status| status.phase == Some(Phase::Running))
    }

    async fn ask_the_agent(&mut self) {
        let Contact::There { client, listed, .. } = &self.contact else {
            self.ask_agent = None;
            return;
        };
        let first = self.guest.is_none();
        let said = client.guest_info().await;
        listed.load(said.as_ref().ok().and_then(|info| bounds::load(info.load?)));
        match said {
            Ok(info) => {
                let (info, left_out) = bounds::guest(info, &self.macs());
                (self.guest, self.left_out) = (Some(info), left_out);
            }
            Err(e) => tracing::debug!("{}", e.chain()),
        }
        self.ask_agent = Some(Instant::now() + if first { ASK_AGENT.0 } else { ASK_AGENT.1 });
    }

    /// MAC addresses of the interfaces of the spec.
    fn macs(&self) -> BTreeSet<String> {
        let known = self.vmi.status.iter().flat_map(|status| &status.interfaces);
        let all = self.interfaces().into_iter().chain(known.filter(|one| one.name.is_some()).cloned());
        all.filter_map(|one| Some(one.mac?.to_ascii_lowercase())).collect()
    }

    // ---- Decisions and actions ----

    /// Decides and acts until there is nothing more to do.
    async fn act(&mut self) {
        // Each round changes the input of the next; a round without changes is the last.
        for _ in 0..8 {
            let plan = self.plan();
            if plan == Actions::default() || !self.carry_out(plan).await {
                return;
            }
        }
    }

    fn plan(&self) -> Actions {
        let interfaces = self.interfaces();
        let emulated = self.place.as_ref().is_some_and(|place| !place.layout().kvm);
        let seen = DecisionInput {
            vmi: &self.vmi,
            launcher: &self.launcher,
            guest: self.guest.as_ref(),
            left_out: self.left_out.as_deref(),
            interfaces: &interfaces,
            trouble: self.trouble.as_ref(),
            may_begin: !self.told && self.again.at.is_none() && !self.permitted.is_not_known(),
            emulated,
            told_grace: self.asked.map(|(_, grace)| grace),
        };
        let mut plan = decide(&seen, &now());
        if let (Some(request @ Request::Link { .. }), Launcher::Speaks(state)) =
            (&plan.request, &self.launcher)
        {
            let same = |(links, asked): &(BTreeMap<String, bool>, Request)| {
                *links == state.links && asked == request
            };
            // An unchanged link is not requested again until something else has changed.
            if state.doing.is_some() || self.linked.as_ref().is_some_and(same) {
                plan.request = None;
            }
            return plan;
        }
        if let (Some(_), Launcher::Speaks(state)) = (&plan.request, &self.launcher)
            && self.asked == Some((state.number, grace(&self.vmi)))
        {
            plan.request = None;
            plan.events.retain(|event| event.reason != SHUTTING_DOWN);
        }
        plan
    }

    /// Interfaces of the spec, as known here.
    fn interfaces(&self) -> Vec<InterfaceStatus> {
        if self.vmi.spec.domain.devices.interfaces.is_empty() {
            return Vec::new();
        }
        let ips = self.pod.iter().flat_map(|pod| &pod.status.pod_ips).map(|ip| ip.ip.clone());
        let ips: Vec<String> = ips.collect();
        // Faults are reported at the hand-over.
        let mut all = Machine::check_again(&self.vmi)
            .map(|machine| network::status(&machine, &self.links, &ips))
            .unwrap_or_default();
        // The launcher's report counts, not the wanted state.
        if let Launcher::Speaks(state) = &self.launcher {
            for one in &mut all {
                if let Some(up) = one.name.as_ref().and_then(|name| state.links.get(name)) {
                    one.link_state = Some(if *up { "up" } else { "down" }.into());
                }
            }
        }
        all
    }

    /// Carries out the actions. Returns true if another decision should follow at once.
    async fn carry_out(&mut self, mut plan: Actions) -> bool {
        let mut more = false;
        let last =
            plan.status.as_ref().is_some_and(|status| status.phase.as_ref().is_some_and(Phase::is_final));
        if plan.status.is_some() && !self.pace.may_write(last) {
            // The status is decided again later, on the newest state, and its events are recorded with it.
            plan.status = None;
            plan.events.retain(|event| event.reason == SHUTTING_DOWN);
        }
        if plan.begin {
            match self.begin().await {
                Ok(events) => {
                    (self.told, self.trouble) = (true, None);
                    self.again.forget();
                    for event in events {
                        self.tell(&event, false).await;
                    }
                }
                Err(e) => {
                    tracing::warn!("{}: {}", self.name(), e.chain());
                    self.trouble = Some(HandOverFailure {
                        message: e.chain(),
                        hopeless: e.kind() == ErrorKind::Refused,
                    });
                    self.again.later();
                    more = true;
                }
            }
        }
        if let (Some(request), Contact::There { client, .. }) = (&plan.request, &self.contact) {
            match client.request(request).await {
                Ok(answer) => {
                    tracing::info!("sent {request:?} to {}: {answer:?}", self.name());
                    match (&self.launcher, request) {
                        (Launcher::Speaks(state), Request::Link { .. }) => {
                            self.linked = Some((state.links.clone(), request.clone()));
                        }
                        (Launcher::Speaks(state), _) => {
                            self.asked = Some((state.number, grace(&self.vmi)));
                        }
                        _ => {}
                    }
                }
                Err(e) => {
                    tracing::warn!("{}", e.chain());
                    self.again.later();
                }
            }
        }
        if let Some(status) = &plan.status {
            let change = patch(self.vmi.status.as_ref(), status).unwrap_or_default();
            match self.node.cluster.change(&self.vmi.metadata, &change).await {
                Ok(Some(object)) => match apply::read(object.clone()) {
                    Ok(vmi) => {
                        (self.object, self.vmi) = (Arc::new(object), vmi);
                        more = true;
                    }
                    Err(e) => tracing::error!("{}", e.chain()),
                },
                // The new object comes through the watch; if it does not, the write is retried.
                Ok(None) => {
                    self.again.later();
                    return false;
                }
                Err(e) => {
                    tracing::warn!("{}", e.chain());
                    self.again.later();
                    return false;
                }
            }
        }
        for event in &plan.events {
            self.tell(event, last).await;
        }
        more
    }

    /// Records an event, unless there were too many.
    async fn tell(&mut self, event: &Event, last: bool) {
        let Some(untold) = self.pace.may_tell(last) else { return };
        let mut event = event.clone();
        if untold > 0 {
            event.message = format!("{} ({untold} events before this one were omitted)", event.message);
        }
        self.node.cluster.tell(&self.vmi.metadata, &event).await;
    }

    /// Prepares everything and hands the VMI to its launcher.
    async fn begin(&mut self) -> Result<Vec<Event>> {
        let (Contact::There { client, process, .. }, Some(place)) = (&self.contact, &self.place) else {
            return Err(Error::failed(format!("the launcher of {} does not listen", self.name())));
        };
        let machine = self.permitted.machine(&self.vmi)?;
        let settings = self.permitted.settings();
        let (files, hardware) =
            settings.map(|settings| (settings.files, settings.hardware.clone())).unwrap_or_default();
        let process = process.clone().ok_or_else(|| Error::failed(NOT_SEEN))?;
        let (vmi, place, findings) = (self.vmi.clone(), place.clone(), self.node.findings.clone());
        // The newest object of the pod: its container IDs are known later than the pod.
        let pod = self.pod.clone().unwrap_or_default();
        let prepare = move || -> Result<volumes::Ready> {
            place.owns(&process)?;
            let root = process.root()?;
            let (vmi, place, process, root) = (&vmi, &place, &process, &root);
            let parts = Parts { vmi, machine: &machine, place, process, root, files };
            let mut ready = volumes::ready(&parts)?;
            ready.resolved.hardware = hardware.clone();
            devices::own(root, &machine)?;
            limits::raise(&machine, process, &pod, &place.kubelet())?;
            ready.resolved.interfaces = network::ready(&machine, process)?;
            let said = pod.metadata.annotations.get(cluster_model::networks::ATTACHED).map(String::as_str);
            ready.resolved.interfaces.extend(network::devices(&machine, said)?);
            ready.resolved.network_info = network::info(&machine, said);
            ready.resolved.vsock = devices::vsock::cid(&machine, vmi)?;
            // Without the cache the VMI starts some seconds later, but correctly.
            if let Err(e) = capability::give(&findings, place.layout().kvm, &place.root()?) {
                tracing::warn!("{}", e.chain());
            }
            Ok(ready)
        };
        let ready = self.preparing.run("preparing the volumes and the network", PREPARING, prepare).await?;
        self.links.clone_from(&ready.resolved.interfaces);
        let generation = u64::try_from(self.vmi.metadata.generation.unwrap_or_default()).unwrap_or_default();
        let sync = Sync { vmi: (*self.object).clone(), generation, resolved: ready.resolved };
        match client.sync(&sync).await? {
            Answer::Queued => measures::synced(),
            Answer::Ignored { reason } => tracing::info!("{}: {reason}", self.name()),
            // The refusal is about the state of the launcher, not about the VMI.
            Answer::Denied(denial) => return Err(Error::failed(denial.to_string())),
        }
        let mut events: Vec<Event> =
            ready.notes.into_iter().map(|(reason, message)| Event::warning(reason, message)).collect();
        events.push(Event::normal("Created", "VirtualMachineInstance defined."));
        Ok(events)
    }

    fn name(&self) -> String {
        let meta = &self.vmi.metadata;
        let said = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{}/{}", said(&meta.namespace), said(&meta.name))
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// True if `this` has a higher version, or if the versions are not numbers.
fn is_newer(this: &Value, than: &Value) -> bool {
    let version = |object: &Value| -> Option<u128> {
        object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
    };
    match (version(this), version(than)) {
        (Some(this), Some(than)) => this > than,
        _ => true,
    }
}

/// True if the VMI has ended.
pub(crate) fn is_final(object: &Value) -> bool {
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    phase.is_some_and(|phase| Phase::from(phase).is_final())
}

#[path = "keeper_ending.rs"]
mod ending;
#[path = "keeper_router.rs"]
mod router;
#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
