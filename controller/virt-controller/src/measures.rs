//! Metrics of virt-controller: the state of VMs and VMIs, the durations of their phases, and its own work.
//!
//! Names and labels are those that dashboards use. Everything but the durations is computed from the World at
//! each scrape. The only state is the words of guests and users (`words`). A label that a user writes is cut
//! ([`cut`]); the number of labels and values of an object is bounded by the size of an object.

mod cdi;
mod exports;
mod interfaces;
mod label_values;
mod migrations;
#[cfg(test)]
mod tests;
mod vmis;
mod vms;

use api::migration::VirtualMachineInstanceMigration;
use api::vmi::{Phase, VirtualMachineInstance};
use cluster_client::metrics::{ANSWERS, Histograms, Page};
use cluster_model::metrics::cut;
use cluster_model::objects::World;
use jiff::Timestamp;
use label_values::LabelValues;
use serve::health::Ask;
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// Durations of phases and plans, and waiting times, since this program leads.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    between: Histograms,
    from_creation: Histograms,
    from_deletion: Histograms,
    migrations: Histograms,
    waits: Histograms,
    plans: Histograms,
}

impl Default for Times {
    fn default() -> Self {
        let [between, from_creation, from_deletion, migrations] = Default::default();
        Times {
            between,
            from_creation,
            from_deletion,
            migrations,
            waits: Histograms::new(ANSWERS),
            plans: Histograms::new(ANSWERS),
        }
    }
}

/// Workload of this program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Objects that wait for a decision.
    pub(crate) waiting: usize,
    /// Number of decisions so far.
    pub(crate) decided: u64,
    /// Number of plans that failed.
    pub(crate) failed: u64,
    /// Age in seconds of the oldest plan that is being carried out.
    pub(crate) longest: f64,
    /// Sum of the ages in seconds of all plans that are being carried out.
    pub(crate) unfinished: f64,
}

impl Times {
    /// An object waited so many seconds for a decision.
    pub(crate) fn record_wait(&mut self, seconds: f64) {
        self.waits.took(vec![("name", "virt-controller".to_owned())], seconds);
    }

    /// A plan was carried out, or failed, after so many seconds.
    pub(crate) fn record_plan(&mut self, seconds: f64) {
        self.plans.took(vec![("name", "virt-controller".to_owned())], seconds);
    }

    /// Records that a VMI has gone to another phase, with the times since its last phase, its creation and its deletion.
    pub(crate) fn record_transition(
        &mut self,
        before: &VirtualMachineInstance,
        now: &VirtualMachineInstance,
    ) {
        let (old, new) = (super::vmi::phase(before), super::vmi::phase(now));
        if old == new || before.metadata.uid != now.metadata.uid {
            return;
        }
        let steps = now.status.as_ref().map_or(&[][..], |status| &status.phase_transition_timestamps);
        let when = |phase: &Phase| {
            let step = steps.iter().rev().find(|step| step.phase.as_ref() == Some(phase))?;
            seconds(step.phase_transition_timestamp.as_deref())
        };
        let Some(end) = when(&new) else { return };
        let took = |since: Option<f64>| since.map(|since| (end - since).max(0.0));
        let phase = || ("phase", phase(&new).to_owned());
        if let Some(took) = took(when(&old)) {
            self.between.took(vec![phase(), ("last_phase", self::phase(&old).to_owned())], took);
        }
        if let Some(took) = took(seconds(now.metadata.creation_timestamp.as_deref())) {
            self.from_creation.took(vec![phase()], took);
        }
        if let Some(took) = took(seconds(now.metadata.deletion_timestamp.as_deref())) {
            self.from_deletion.took(vec![phase()], took);
        }
    }

    /// Records the phases that a migration has gone to, each with the time since the migration was created. There may be several at once.
    pub(crate) fn record_migration(
        &mut self,
        before: &VirtualMachineInstanceMigration,
        now: &VirtualMachineInstanceMigration,
    ) {
        if before.metadata.uid != now.metadata.uid {
            return;
        }
        let Some(created) = seconds(now.metadata.creation_timestamp.as_deref()) else { return };
        let count = |object: &VirtualMachineInstanceMigration| {
            object.status.as_ref().map_or(0, |status| status.phase_transition_timestamps.len())
        };
        let steps = now.status.iter().flat_map(|status| &status.phase_transition_timestamps);
        for step in steps.skip(count(before)) {
            let (phase, end) = (step.phase.as_ref(), seconds(step.phase_transition_timestamp.as_deref()));
            if let (Some(phase), Some(end)) = (phase, end) {
                let phase = vec![("phase", migrations::phase(phase).to_owned())];
                self.migrations.took(phase, (end - created).max(0.0));
            }
        }
    }
}

/// State of the loop at the time of a scrape.
pub(crate) struct Snapshot {
    pub(crate) world: World,
    pub(crate) times: Times,
    pub(crate) work: Work,
    pub(crate) now: Timestamp,
}

/// Renders the pages of a replica that acts in a task beside the loop: a page of thousands of VMs takes long.
/// One page is rendered at a time, and one more snapshot waits.
pub(crate) struct Renderer(mpsc::Sender<(Snapshot, Ask)>);

/// Place of one snapshot in the queue of the renderer.
pub(crate) struct Scrape<'a> {
    place: mpsc::Permit<'a, (Snapshot, Ask)>,
    ask: Ask,
}

impl Renderer {
    /// Starts the task, which ends with the renderer.
    pub(crate) fn start() -> Renderer {
        let (to, mut scrapes) = mpsc::channel::<(Snapshot, Ask)>(1);
        tokio::spawn(async move {
            let mut words = LabelValues::default();
            while let Some((snapshot, ask)) = scrapes.recv().await {
                if !ask.is_closed() {
                    let _ = ask.send(page(&snapshot, &mut words));
                }
            }
        });
        Renderer(to)
    }

    /// Waits for a free place and for a scrape whose client still waits.
    pub(crate) async fn next(&self, asked: &mut mpsc::Receiver<Ask>) -> Option<Scrape<'_>> {
        let place = self.0.reserve().await.ok()?;
        loop {
            let ask = asked.recv().await?;
            if !ask.is_closed() {
                return Some(Scrape { place, ask });
            }
        }
    }
}

impl Scrape<'_> {
    /// Hands the snapshot to the task.
    pub(crate) fn render(self, snapshot: Snapshot) {
        self.place.send((snapshot, self.ask));
    }
}

/// The page of a replica that acts.
fn page(snapshot: &Snapshot, words: &mut LabelValues) -> String {
    let Snapshot { world, times, work, now } = snapshot;
    let (work, now) = (*work, *now);
    let mut page = Page::default();
    common(&mut page, &world.facts.version, true);
    words.begin_page(world);
    vms::write(&mut page, world, words, now);
    vmis::write(&mut page, world, words, now);
    migrations::write(&mut page, world);
    nodes(&mut page, world);
    cdi::write(&mut page, world);
    exports::write(&mut page, world);
    page.histogram("kubevirt_vmi_phase_transition_time_seconds", &times.between);
    page.histogram("kubevirt_vmi_phase_transition_time_from_creation_seconds", &times.from_creation);
    page.histogram("kubevirt_vmi_phase_transition_time_from_deletion_seconds", &times.from_deletion);
    let name = "kubevirt_vmi_migration_phase_transition_time_from_creation_seconds";
    page.histogram(name, &times.migrations);
    let name = [("name", "virt-controller")];
    page.family("kubevirt_workqueue_depth").sample(&name, work.waiting as f64);
    page.family("kubevirt_workqueue_adds_total").sample(&name, work.decided as f64);
    page.family("kubevirt_workqueue_retries_total").sample(&name, work.failed as f64);
    page.family("kubevirt_workqueue_longest_running_processor_seconds").sample(&name, work.longest);
    page.family("kubevirt_workqueue_unfinished_work_seconds").sample(&name, work.unfinished);
    page.histogram("kubevirt_workqueue_queue_duration_seconds", &times.waits);
    page.histogram("kubevirt_workqueue_work_duration_seconds", &times.plans);
    page.text()
}

/// The page of a replica in waiting.
pub(crate) fn standby_page(version: &str) -> String {
    let mut page = Page::default();
    common(&mut page, version, false);
    page.text()
}

fn common(page: &mut Page, version: &str, leads: bool) {
    page.family("kubevirt_info").sample(&[("kubeversion", version)], 1.0);
    page.family("kubevirt_virt_controller_ready_status").sample(&[], 1.0);
    let leads = if leads { 1.0 } else { 0.0 };
    page.family("kubevirt_virt_controller_leading_status").sample(&[], leads);
    page.requests();
}

fn nodes(page: &mut Page, world: &World) {
    let takes = world.nodes.all().filter(|node| node.takes_vmis() && !node.cordoned).count();
    page.family("kubevirt_allocatable_nodes").sample(&[], takes as f64);
    let kvm = world.nodes.all().filter(|node| node.kvm).count();
    page.family("kubevirt_nodes_with_kvm").sample(&[], kvm as f64);
    let emulates = world.config().use_emulation;
    page.family("kubevirt_configuration_emulation_enabled").sample(&[], f64::from(u8::from(emulates)));
}

/// Label of an object without a value.
const NONE: &str = "<none>";

/// Label of an unknown phase of a VMI.
const OTHER: &str = "Other";

/// Phase of a VMI as a label. Nodes report phases, and a compromised node may invent them, so unknown ones
/// share one label.
fn phase(phase: &Phase) -> &str {
    match phase {
        Phase::Other(word) if !word.is_empty() => OTHER,
        known => known.as_str(),
    }
}

/// Text of a user, as a label.
fn label(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).map_or(NONE.to_owned(), cut)
}

/// Labels about the guest, from the annotations of a VMI or of a VMI template.
fn system(annotations: &BTreeMap<String, String>) -> [(&'static str, String); 3] {
    let said = |name: &str| label(annotations.get(&format!("vm.kubevirt.io/{name}")).map(String::as_str));
    [("os", said("os")), ("workload", said("workload")), ("flavor", said("flavor"))]
}

fn names(meta: &api::meta::ObjectMeta) -> [(&'static str, &str); 2] {
    [
        ("namespace", meta.namespace.as_deref().unwrap_or_default()),
        ("name", meta.name.as_deref().unwrap_or_default()),
    ]
}

/// Seconds since 1970 of a time as objects hold it.
fn seconds(time: Option<&str>) -> Option<f64> {
    let time: Timestamp = time?.parse().ok()?;
    Some(time.as_second() as f64)
}
