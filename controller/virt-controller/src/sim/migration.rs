//! A live migration, as its launchers and the virt-handler of the target do it. What virt-controller and the virt-handler of the source
//! do is decided by their own code.
//!
//! ```text
//!  target: address ─► source: its launcher begins ─► the end that a history has chosen (`MigrationEnd`)
//! ```

use super::others::{OtherPrograms, uid};
use super::{Sim, is_going, is_over};
use api::launcher::{Ending, Life, MIGRATED, Migration, MigrationPhase, NOT_RECEIVED, State};
use cluster_model::conditions::stamp;
use cluster_model::objects::{Key, Kind, MIGRATED_VMI, MIGRATION_FINALIZER};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// End of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MigrationEnd {
    /// The guest arrives. The number is the order of the reports that follow.
    Arrives(u8),
    /// The source gives up, and the guest stays.
    Fails,
    /// The guest arrives, and the virt-handler of the source never says so.
    ArrivesUnheard,
    /// The answer of the target is lost: it holds the guest, and the guest goes on at the source. The virt-handler of the source says so,
    /// or says nothing while its launcher ends.
    HeldAndStays { is_heard: bool },
    /// The launcher of the target ends.
    TargetEnds,
    /// The virt-handler of the target does nothing.
    TargetHangs,
    /// The source does not come, and the target gives up.
    TargetGivesUp,
}

/// What follows when a guest has left its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    SourceEnded,
    TargetReady,
    LauncherEnds,
    /// The virt-handler of the source says that the guest has stayed.
    SourceStays,
}

/// The launchers and virt-handlers that take part in migrations.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Migrations {
    /// The end of the next migration of a VMI.
    ends: BTreeMap<Key, MigrationEnd>,
    /// Migrations of launchers that send their guest, by the uids of their pods.
    sources: BTreeMap<String, Migration>,
    /// Source launchers whose guest has left, by the uids of their pods.
    moved: BTreeSet<String>,
    /// Pods of sources whose virt-handler says nothing.
    mute: BTreeSet<String>,
    /// Migrations whose nodes do nothing any more.
    hung: BTreeSet<String>,
    /// Target launchers that received nothing.
    empty: BTreeSet<String>,
    /// Target launchers that hold a guest which goes on at its source.
    held: BTreeSet<String>,
    /// Reports to come, by the uid of the migration.
    reports: BTreeMap<String, VecDeque<Report>>,
}

const ORDERS: [[Report; 3]; 6] = [
    [Report::SourceEnded, Report::TargetReady, Report::LauncherEnds],
    [Report::SourceEnded, Report::LauncherEnds, Report::TargetReady],
    [Report::TargetReady, Report::SourceEnded, Report::LauncherEnds],
    [Report::TargetReady, Report::LauncherEnds, Report::SourceEnded],
    [Report::LauncherEnds, Report::SourceEnded, Report::TargetReady],
    [Report::LauncherEnds, Report::TargetReady, Report::SourceEnded],
];

/// A user asks for a migration. Half of these objects have passed the webhook.
pub(crate) fn ask(sim: &mut Sim, vmi: &Key) -> Option<Key> {
    let phase = sim.get(vmi)["status"]["phase"].as_str().unwrap_or_default();
    if ["Succeeded", "Failed"].contains(&phase) {
        return None;
    }
    let mut meta = json!({"namespace": vmi.namespace, "name": format!("migration-{}", sim.version)});
    if sim.version.is_multiple_of(2) {
        meta["labels"] = json!({MIGRATED_VMI: vmi.name});
        meta["finalizers"] = json!([MIGRATION_FINALIZER]);
    }
    let spec = json!({"vmiName": vmi.name});
    Some(sim.put(Kind::VirtualMachineInstanceMigration, json!({"metadata": meta, "spec": spec})))
}

/// A user cancels the oldest migration of a VMI that has not ended.
pub(crate) fn cancel(sim: &mut Sim, vmi: &Key) {
    let is_open = |key: &Key| {
        let object = sim.get(key);
        object["spec"]["vmiName"] == vmi.name
            && !["Succeeded", "Failed"].contains(&object["status"]["phase"].as_str().unwrap_or_default())
    };
    let open = sim.keys(Kind::VirtualMachineInstanceMigration).into_iter().find(is_open);
    open.into_iter().for_each(|key| sim.delete(&key));
}

/// The target pod of the last migration of a VMI.
pub(crate) fn target(sim: &Sim, vmi: &Key) -> Option<Key> {
    let vmi_uid = uid(sim.objects.get(vmi)?);
    let is_target = |key: &Key| {
        let labels = &sim.get(key)["metadata"]["labels"];
        labels["kubevirt.io/created-by"] == vmi_uid
            && labels[cluster_model::objects::MIGRATION_JOB].is_string()
            && super::others::guest_pod(sim, vmi).as_ref() != Some(key)
            && !is_over(sim.get(key))
    };
    sim.keys(Kind::Pod).into_iter().find(is_target)
}

impl OtherPrograms {
    /// The end of the migration that goes on, or of the next one.
    pub(crate) fn ends(&mut self, vmi: &Key, end: MigrationEnd) {
        self.migrations.ends.insert(vmi.clone(), end);
    }

    /// The launchers and the target's virt-handler of a VMI that migrates take a step.
    pub(super) fn migrate(&mut self, sim: &mut Sim, vmi: &Key) {
        let Some(object) = sim.objects.get(vmi).cloned() else { return };
        let state = &object["status"]["migrationState"];
        let has_ended = state["completed"] == true;
        let pod = |end: &str| Key::new(Kind::Pod, &vmi.namespace, state[end].as_str().unwrap_or_default());
        let (source, target) = (pod("sourcePod"), pod("targetPod"));
        self.check_held(sim, &object, &target);
        let id = state["migrationUid"].as_str().unwrap_or_default().to_owned();
        if let Some(report) = self.migrations.reports.get(&id).and_then(|reports| reports.front().copied()) {
            return self.report(sim, vmi, (&id, report), (&source, &target));
        }
        if id.is_empty() || has_ended {
            return;
        }
        let life = |key: &Key| sim.objects.get(key).and_then(|pod| self.lives.get(&uid(pod))).copied();
        let (from, to) = (life(&source), life(&target));
        let Some(from_uid) = sim.objects.get(&source).map(uid).filter(|_| from == Some(Life::Running)) else {
            let has_left = self.migrations.reports.contains_key(&id);
            // The launcher of the target ends with a connection that brought nothing.
            if !has_left && to == Some(Life::Empty) {
                self.receives_nothing(sim, &target);
            }
            return;
        };
        let can_receive =
            to == Some(Life::Empty) && sim.objects.get(&target).is_some_and(|pod| !is_over(pod));
        let is_aborted = state["abortRequested"] == true || is_going(&object);
        let ready = state["targetNodeAddress"].is_string();
        let has_begun = self.migrations.sources.get(&from_uid).is_some_and(|known| known.id == id);
        match self.migrations.ends.get(vmi) {
            Some(MigrationEnd::TargetHangs) if !ready => {
                self.migrations.ends.remove(vmi);
                self.migrations.hung.insert(id.clone());
            }
            Some(MigrationEnd::TargetGivesUp) if ready && !has_begun => {
                self.migrations.ends.remove(vmi);
                self.migrations.hung.insert(id.clone());
                write(sim, vmi, json!({"targetFailureReason": "nobody came"}));
            }
            _ => {}
        }
        if self.migrations.hung.contains(&id) {
            return;
        }
        match self.migrations.sources.get_mut(&from_uid).filter(|known| known.id == id) {
            None if self.silent || is_aborted || !can_receive => {}
            None if state["targetNodeAddress"].is_null() => {
                write(sim, vmi, json!({"targetNodeAddress": "192.0.2.2", "targetCertificate": "0b"}));
            }
            None => {
                let migration = Migration { id, started: stamp(sim.now), ..Migration::default() };
                self.migrations.sources.insert(from_uid, migration);
            }
            Some(known) if known.phase == MigrationPhase::Running => match self.migrations.ends.remove(vmi) {
                _ if is_aborted => known.phase = MigrationPhase::Aborted,
                _ if !can_receive => fail(known, "the target has closed the connection"),
                Some(MigrationEnd::Fails) => fail(known, "no progress"),
                Some(MigrationEnd::TargetEnds) => self.receives_nothing(sim, &target),
                // Too late for these.
                Some(MigrationEnd::TargetHangs | MigrationEnd::TargetGivesUp) => {}
                Some(MigrationEnd::Arrives(order)) => {
                    known.phase = MigrationPhase::Succeeded;
                    let order = ORDERS[usize::from(order) % ORDERS.len()].to_vec();
                    self.leave(sim, &id, from_uid, (&target, order));
                }
                Some(MigrationEnd::ArrivesUnheard) => {
                    known.phase = MigrationPhase::Succeeded;
                    let order = vec![Report::TargetReady, Report::LauncherEnds];
                    self.leave(sim, &id, from_uid, (&target, order));
                }
                Some(MigrationEnd::HeldAndStays { is_heard }) => {
                    fail(known, "the answer was lost");
                    write(sim, vmi, json!({"targetNodeDomainDetected": true}));
                    self.migrations.held.insert(uid(sim.get(&target)));
                    self.migrations.mute.insert(from_uid);
                    let report = if is_heard { Report::SourceStays } else { Report::LauncherEnds };
                    self.migrations.reports.insert(id, VecDeque::from([report]));
                }
                None => {}
            },
            Some(_) => {}
        }
    }

    /// A guest that is held is released by its virt-handler once the VMI is on that node, and then the source's has not ended elsewhere.
    fn check_held(&mut self, sim: &Sim, vmi: &Value, target: &Key) {
        let Some(pod) = sim.objects.get(target).filter(|pod| self.migrations.held.contains(&uid(pod))) else {
            return;
        };
        let (status, uid) = (&vmi["status"], uid(pod));
        assert_ne!(
            status["nodeName"], status["migrationState"]["targetNode"],
            "a guest that has stayed was released: {target}"
        );
        if is_going(pod) && !is_over(pod) {
            self.migrations.held.remove(&uid);
            self.receives_nothing(sim, target);
        }
    }

    /// The guest goes from its source to a target.
    fn leave(&mut self, sim: &Sim, id: &str, source: String, (target, order): (&Key, Vec<Report>)) {
        self.migrations.reports.insert(id.to_owned(), order.into());
        self.migrations.mute.insert(source.clone());
        self.lives.insert(uid(sim.get(target)), Life::Running);
        self.lives.insert(source.clone(), Life::Stopping);
        self.migrations.moved.insert(source);
    }

    /// What follows when the guest has left.
    fn report(
        &mut self,
        sim: &mut Sim,
        vmi: &Key,
        (id, report): (&str, Report),
        (source, target): (&Key, &Key),
    ) {
        let life = sim.objects.get(target).and_then(|pod| self.lives.get(&uid(pod))).copied();
        let has_ended = sim.get(vmi)["status"]["migrationState"]["completed"] == true;
        let source = sim.objects.get(source).map(uid).unwrap_or_default();
        match report {
            // The virt-handlers report it later.
            Report::SourceEnded | Report::SourceStays | Report::TargetReady if self.silent => return,
            Report::SourceEnded | Report::SourceStays => drop(self.migrations.mute.remove(&source)),
            Report::TargetReady if life == Some(Life::Running) && !has_ended => {
                let now = stamp(sim.now);
                write(
                    sim,
                    vmi,
                    json!({"targetNodeDomainDetected": true, "targetNodeDomainReadyTimestamp": now}),
                );
            }
            Report::TargetReady => {}
            Report::LauncherEnds => {
                self.lives.insert(source, Life::Succeeded);
            }
        }
        self.migrations.reports.get_mut(id).and_then(VecDeque::pop_front);
    }

    fn receives_nothing(&mut self, sim: &Sim, target: &Key) {
        let Some(pod) = sim.objects.get(target) else { return };
        self.migrations.empty.insert(uid(pod));
        self.lives.insert(uid(pod), Life::Failed);
    }

    /// The virt-handler of a pod's node says nothing.
    pub(super) fn is_mute(&self, pod: &str) -> bool {
        self.migrations.mute.contains(pod)
    }

    /// True if the guest of a launcher has left it.
    pub(super) fn has_moved(&self, pod: &str) -> bool {
        self.migrations.moved.contains(pod)
    }

    /// The state of a launcher with its migration.
    pub(super) fn migrating(&self, pod: &str, state: Box<State>) -> Box<State> {
        let migration = self.migrations.sources.get(pod).cloned();
        match self.has_moved(pod) {
            true => Box::new(State {
                life: Life::Succeeded,
                reason: Some(MIGRATED.to_owned()),
                migration,
                ..*state
            }),
            false => Box::new(State { migration, ..*state }),
        }
    }

    /// The guest is shut down: its launcher aborts its migration first.
    pub(super) fn abort(&mut self, pod: &str) {
        if let Some(known) = self.migrations.sources.get_mut(pod).filter(|known| known.phase.is_open()) {
            known.phase = MigrationPhase::Aborted;
        }
    }

    /// How a launcher left its VMI to the kubelet, where it took part in a migration.
    pub(super) fn ending(&self, pod: &str) -> Option<Ending> {
        let ending =
            |life, reason: &str| Some(Ending { life, reason: Some(reason.to_owned()), message: None });
        match (self.has_moved(pod), self.migrations.empty.contains(pod)) {
            (true, _) => ending(Life::Succeeded, MIGRATED),
            (_, true) => ending(Life::Failed, NOT_RECEIVED),
            _ => None,
        }
    }
}

/// Writes fields of the migration's state.
fn write(sim: &mut Sim, vmi: &Key, change: Value) {
    sim.change(vmi, json!({"status": {"migrationState": change}}));
}

fn fail(known: &mut Migration, why: &str) {
    known.phase = MigrationPhase::Failed;
    known.message = Some(why.to_owned());
}
