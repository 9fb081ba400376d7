//! Disk pressure of the node: guests are paused before their disks bring it to the threshold at which the
//! kubelet evicts pods.
//!
//! ```text
//!  keepers ──► launchers ── VMIs with disks in an emptyDir ─┐
//!  statfs of the kubelet's folder ──────────────────────────┼─► decide (pure) ──► launcher: PauseForDiskPressure,
//!  the kubelet's thresholds (kubelet, thresholds) ──────────┤                               ResumeAfterDiskPressure
//!  blocks that the disks take ──────────────────────────────┘
//! ```
//!
//! Overlays of containerDisks and of `ephemeral` volumes, and emptyDisks, use space of the node as their
//! guests write. QEMU pauses a guest when the disk is really full, but the kubelet evicts pods before that.
//! The launcher reports the pause in its state, and the keeper of the VMI writes it as the condition
//! `Paused`.
//!
//! **Guarantees.** A VMI whose disks do not grow is never paused here, nor one with a liveness probe, and a VMI
//! that a user paused is never resumed. No state is kept that a new virt-handler would miss: a VMI that is
//! paused for its node reports that itself. **Costs** one `statfs`, and a look at each disk, every two seconds while VMIs have such
//! disks, and more often as the room shrinks. A tenant's folder that does not answer delays its own VMI only.
//!
//! **Assumes** that a guest writes at most 2 GiB/s. Images that are pulled, logs and emptyDirs of other pods,
//! hostDisks and PVCs in folders of the node can bring it to the threshold all the same: pausing guests does
//! not stop those.

mod decide;
mod kubelet;
mod thresholds;

use super::blocking::Blocking;
use super::error::Result;
use super::growing_disks::{GrowingDisks, Vcpus};
use super::launchers::{Entry, Launchers};
use super::pod::Folder;
use api::launcher::{Answer, Request};
use cluster_model::config::node::{EVICTION_HARD, NodeSettings};
use decide::{Decision, DiskSpace, Growing, Pressure};
use kubelet::Kubelet;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thresholds::Thresholds;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// The interval of looks while no VMI has disks that grow.
const IDLE: Duration = Duration::from_secs(2);
/// The interval at which the kubelet's thresholds are read.
const KUBELET: Duration = Duration::from_secs(60);
/// Time for a look at the file system of the node.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for a look at the disks of a VMI.
const MEASURE: Duration = Duration::from_millis(250);
/// Time after which a launcher is asked again.
const AGAIN: Duration = Duration::from_secs(2);

/// Pauses and resumes the VMIs of a node.
pub(crate) struct DiskPressure {
    pub(crate) node: String,
    pub(crate) launchers: Launchers,
    /// The folder of the kubelet's pods.
    pub(crate) pods: PathBuf,
    /// The processes of the node.
    pub(crate) proc: PathBuf,
    /// Settings of the cluster, which may say the thresholds.
    pub(crate) settings: watch::Receiver<Option<NodeSettings>>,
}

/// A VMI with disks that grow.
struct Vmi {
    entry: Entry,
    disks: GrowingDisks,
}

/// Requests that launchers have not carried out yet, by UIDs of their VMIs: the awaited state, and the time.
#[derive(Debug, Default)]
struct Unanswered(BTreeMap<String, (Vcpus, Instant)>);

impl Unanswered {
    /// Forgets requests that are carried out, or were sent long ago.
    fn forget(&mut self, vmis: &[Growing], now: Instant) {
        let is_there =
            |uid: &String, awaited: Vcpus| vmis.iter().any(|vmi| vmi.uid == *uid && vmi.vcpus == awaited);
        self.0.retain(|uid, (awaited, at)| now.duration_since(*at) < AGAIN && !is_there(uid, *awaited));
    }

    /// Notes a request; false if one is not carried out yet.
    fn add(&mut self, uid: &str, awaited: Vcpus, now: Instant) -> bool {
        if self.0.contains_key(uid) {
            return false;
        }
        self.0.insert(uid.to_owned(), (awaited, now));
        true
    }
}

impl DiskPressure {
    /// Runs as long as the program.
    pub(crate) async fn run(self) {
        let kubelet =
            Mutex::new(Kubelet { thresholds: Thresholds::default(), has_images: true, is_known: false });
        tokio::join!(self.watch_thresholds(&kubelet), self.watch(&kubelet));
    }

    /// Reads the kubelet's thresholds regularly.
    async fn watch_thresholds(&self, known: &Mutex<Kubelet>) {
        let blocking = Blocking::new("the kubelet", 1);
        let (mut failed, mut settings) = (String::new(), self.settings.clone());
        loop {
            let said = settings.borrow_and_update().as_ref().and_then(|said| said.eviction_hard.clone());
            let (proc, pods) = (self.proc.clone(), self.pods.clone());
            let read = move || Kubelet::of_node(&proc, &pods, said.as_deref());
            match blocking.run("reading the eviction thresholds", PATIENCE, read).await {
                Ok(kubelet) => {
                    failed.clear();
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    if *known != kubelet {
                        tracing::info!(
                            "guests are paused before these thresholds of the kubelet: {kubelet:?}"
                        );
                        *known = kubelet;
                    }
                }
                Err(e) => {
                    let why = e.chain();
                    if why != failed {
                        tracing::warn!(
                            "cannot read the eviction thresholds of the kubelet, keeping the last ones ({why}); the annotation \
                             {EVICTION_HARD} of the KubeVirt object can set them"
                        );
                        failed = why;
                    }
                }
            }
            tokio::select! {
                () = sleep(KUBELET) => {}
                Ok(()) = settings.changed() => {}
            }
        }
    }

    async fn watch(&self, kubelet: &Mutex<Kubelet>) {
        let blocking = Blocking::new("the node's disk", 1);
        let (mut pressure, mut asked) = (Pressure::default(), Unanswered::default());
        loop {
            let vmis = self.vmis();
            let after = if vmis.is_empty() {
                (pressure, asked) = (Pressure::default(), Unanswered::default());
                IDLE
            } else {
                let kubelet = kubelet.lock().unwrap_or_else(PoisonError::into_inner).clone();
                match self.disk_space(&blocking, &kubelet).await {
                    Ok(room) => self.balance(room, &vmis, &mut pressure, &mut asked).await,
                    Err(e) => {
                        tracing::warn!(
                            "cannot check the disk of the node, so no guest is paused: {}",
                            e.chain()
                        );
                        IDLE
                    }
                }
            };
            sleep(after).await;
        }
    }

    /// VMIs with disks that grow.
    fn vmis(&self) -> Vec<Vmi> {
        let all = self.launchers.all().into_iter();
        all.filter_map(|entry| Some(Vmi { disks: entry.growing.clone()?, entry })).collect()
    }

    async fn disk_space(&self, blocking: &Blocking, kubelet: &Kubelet) -> Result<DiskSpace> {
        let (pods, kubelet) = (self.pods.clone(), kubelet.clone());
        let look = move || {
            let folder = Folder::open(&pods)?;
            let (available, capacity) = (folder.free_space()?, folder.capacity()?);
            let threshold = kubelet.thresholds.bytes(capacity, kubelet.has_images);
            Ok(DiskSpace { available, capacity, threshold })
        };
        blocking.run("looking at the free space", PATIENCE, look).await
    }

    /// Pauses and resumes VMIs once. Returns the time until the next look.
    async fn balance(
        &self,
        room: DiskSpace,
        vmis: &[Vmi],
        pressure: &mut Pressure,
        asked: &mut Unanswered,
    ) -> Duration {
        let measured = vmis.iter().map(|vmi| async move {
            let taken = vmi.disks.place.disks(Arc::clone(&vmi.disks.names), MEASURE).await;
            let taken = taken.inspect_err(|e| tracing::debug!("{}", e.chain())).ok();
            Growing { uid: vmi.entry.uid.clone(), vcpus: vmi.disks.vcpus, taken }
        });
        let measured = futures_util::future::join_all(measured).await;
        let Decision { pause, resume, after } = pressure.step(room, &measured);
        let now = Instant::now();
        asked.forget(&measured, now);
        for vmi in vmis {
            let Entry { uid, namespace, name, client, .. } = &vmi.entry;
            let (request, awaited) = if pause.contains(uid) {
                (Request::PauseForDiskPressure { message: self.message() }, Vcpus::PausedForDisk)
            } else if resume.contains(uid) {
                (Request::ResumeAfterDiskPressure, Vcpus::Running)
            } else {
                continue;
            };
            if !asked.add(uid, awaited, now) {
                continue;
            }
            tracing::warn!("sending {request:?} to the launcher of {namespace}/{name}: {room:?}");
            let (client, who) = (client.clone(), format!("{namespace}/{name}"));
            tokio::spawn(async move {
                match client.request(&request).await {
                    Ok(Answer::Queued) => {}
                    Ok(answer) => tracing::info!("{who}: {answer:?}"),
                    Err(e) => tracing::warn!("{}", e.chain()),
                }
            });
        }
        after
    }

    /// Message of the condition. Tenants read it, so it contains no numbers of the node.
    fn message(&self) -> String {
        format!(
            "VMI was paused: the disk of node {} is nearly full, and this VMI's containerDisks, emptyDisks or ephemeral volumes grow \
             on it. Soon the kubelet would evict pods. Make room on the node, and the VMI goes on by itself",
            self.node
        )
    }
}

#[cfg(test)]
mod tests;
