//! The pod of an export: that of a worker, with the PVC mounted read-only.

use super::answer::Answer;
use crate::data_volume::pod::{MountedObjects, Part, worker};
use crate::data_volume::registries::RegistrySettings;
use api::cdi::annotations::EXPORT_REQUEST;
use api::job::export::{Disk, Request};
use cluster_model::objects::{PersistentVolumeClaim, Work, World};
use cluster_model::worker::{DEVICE, DISK};
use serde_json::{Map, Value, json};

/// The pod that exports the disk of a PVC.
pub(super) fn pod(
    request: &Request,
    claim: &PersistentVolumeClaim,
    world: &World,
    answer: &Answer,
    told: &RegistrySettings,
) -> Value {
    let is_block = claim.is_block();
    let disk = if is_block { Disk::Device(DEVICE.into()) } else { Disk::File(DISK.into()) };
    let mut mounted = MountedObjects::default();
    let Ok(mut job) = request.job(disk, &mut mounted);
    told.apply_to_job(&mut job.target);
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    mounted.add(&mut volumes, &mut mounts);
    let mut pod = worker(Part {
        world,
        work: Work::Export,
        name: &Work::Export.pod(claim.meta.name.as_deref().unwrap_or_default()),
        claim,
        // A job is made of texts and numbers alone.
        job: serde_json::to_string(&job).unwrap_or_default(),
        is_block,
        attempt: answer.restarts,
        labels: Map::new(),
        volumes,
        mounts,
        tls: None,
    });
    pod["metadata"]["annotations"][EXPORT_REQUEST] = json!(answer.request);
    pod
}
