//! DataSources: a lasting name for a PVC that DataVolumes are cloned from.
//!
//! ```text
//!  DataSource ── spec.source.dataSource ──► DataSource ── spec.source.pvc ──► PVC, or the DataVolume that makes it
//!      │          (one step, one namespace)                                       │
//!      └──────────────────────◄── status.source, condition Ready ─────────────────┘
//! ```
//!
//! **Flow.** The resolved source is written into the status, with the condition `Ready`. It is true when the
//! DataVolume of the PVC has succeeded, or when there is a PVC without a DataVolume, and no annotation of the
//! PVC marks its disk as incomplete.
//! **Guarantees.** The spec is never written. A DataSource that names a DataSource which names another is
//! refused, so that there is no cycle.
//! **Assumptions.** The right to clone from the namespace of the PVC is checked when a DataVolume is created.
//! **Caveats.** A PVC may be in another namespace, as upstream. So the author of a DataSource learns if a PVC
//! or DataVolume of that name exists and can be cloned (`Ready`, `NotFound`, `NotReady`), and nothing else of
//! it. VolumeSnapshots are not supported yet.

#[cfg(test)]
mod tests;

use crate::volume_origin::unproven;
use api::cdi::{DataSource, DataSourceSource};
use api::data_volume::{Phase, PvcSource};
use api::fault::Fault;
use api::wire::Wire;
use cluster_model::conditions::{set, stamp};
use cluster_model::objects::{Kind, PersistentVolumeClaim, World};
use cluster_model::plan::Plan;
use jiff::Timestamp;

/// Condition of a DataSource, and its reason when it is true.
const READY: &str = "Ready";

/// Reason if the PVC of a DataSource does not exist.
const NOT_FOUND: &str = "NotFound";

/// Reason and message of a source that cannot be cloned.
type SourceProblem = (String, String);

/// Plan for a DataSource.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(source) = world.data_sources.get(namespace, name) else { return plan };
    if world.permissions().is_none() || source.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let mut should = source.clone();
    let status = should.status.get_or_insert_default();
    let meant = resolve_reference(world, source);
    status.source = meant.as_ref().ok().map(|meant| (*meant).clone());
    let (is, (reason, message)) = match meant.and_then(|meant| check(world, namespace, meant)) {
        Ok(()) => ("True", (READY.to_owned(), "DataSource is ready to be consumed".to_owned())),
        Err(why) => ("False", why),
    };
    set(&mut status.conditions, READY.to_owned(), (is, &reason, &message), &stamp(now));
    // The status is not a subresource.
    plan.update(Kind::DataSource, &source.metadata, &source.write(), &should.write(), false);
    plan
}

/// The source that a DataSource resolves to, if it can be cloned now. Otherwise the reason, as its own
/// namespace may know it.
pub(crate) fn resolved<'a>(
    world: &'a World,
    namespace: &str,
    name: &str,
) -> Result<&'a DataSourceSource, SourceProblem> {
    let Some(source) = world.data_sources.get(namespace, name) else {
        return Err(problem(NOT_FOUND, "it is not there"));
    };
    let meant = resolve_reference(world, source)?;
    check(world, namespace, meant).map(|()| meant)
}

fn problem(reason: &str, message: impl Into<String>) -> SourceProblem {
    (reason.to_owned(), message.into())
}

/// Source of a DataSource: its own, or that of the DataSource that it names.
fn resolve_reference<'a>(
    world: &'a World,
    source: &'a DataSource,
) -> Result<&'a DataSourceSource, SourceProblem> {
    let Some(named) = &source.spec.source.data_source else { return Ok(&source.spec.source) };
    let field = "spec.source.dataSource";
    let own = source.metadata.namespace.as_deref().unwrap_or_default();
    let PvcSource { namespace, name, .. } = named;
    if !namespace.is_empty() && namespace != own {
        let message = format!("{field}: a DataSource of another namespace ({namespace}) cannot be named");
        return Err(problem("CrossNamespaceReference", message));
    }
    if source.metadata.name.as_deref() == Some(name) {
        return Err(problem("SelfReference", format!("{field} names the DataSource itself")));
    }
    let Some(other) = world.data_sources.get(own, name) else {
        return Err(problem(
            NOT_FOUND,
            format!("{field}: DataSource {name} does not exist in this namespace"),
        ));
    };
    if other.spec.source.data_source.is_some() {
        let message = format!("{field}: DataSource {name} names another one; name that one instead");
        return Err(problem("MaxReferenceDepthReached", message));
    }
    Ok(&other.spec.source)
}

/// Checks if a source can be cloned. `own` is the namespace of the DataSource.
fn check(world: &World, own: &str, source: &DataSourceSource) -> Result<(), SourceProblem> {
    match (&source.pvc, &source.snapshot) {
        (Some(_), Some(_)) => {
            Err(problem("NoSource", "spec.source names a PVC and a VolumeSnapshot: leave one of them"))
        }
        (None, Some(_)) => Err(problem("Unsupported", Fault::not_yet("spec.source.snapshot").to_string())),
        (None, None) => Err(problem("NoSource", "spec.source names nothing: set spec.source.pvc")),
        (Some(pvc), None) => check_pvc(world, own, pvc),
    }
}

fn check_pvc(world: &World, own: &str, source: &PvcSource) -> Result<(), SourceProblem> {
    let namespace = if source.namespace.is_empty() { own } else { &source.namespace };
    let name = &source.name;
    check_disk(world, namespace, name).map_err(|(reason, message)| {
        if namespace == own || reason == NOT_FOUND {
            return (reason, message);
        }
        // The progress of a PVC is visible in its own namespace only.
        problem("NotReady", format!("PVC {namespace}/{name} is not ready"))
    })
}

/// Checks if a PVC can be cloned. The answer is meant for its own namespace.
pub(crate) fn check_disk(world: &World, namespace: &str, name: &str) -> Result<(), SourceProblem> {
    if let Some(volume) = world.data_volumes.get(namespace, name) {
        let phase = volume.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        return match phase {
            Phase::Succeeded => {
                world.pvcs.get(namespace, name).map_or(Ok(()), |claim| check_content(world, claim))
            }
            phase => {
                let word = if phase.as_str().is_empty() { Phase::Pending } else { phase };
                Err(problem(word.as_str(), format!("Import DataVolume phase {word}")))
            }
        };
    }
    match world.pvcs.get(namespace, name) {
        None => Err(problem(NOT_FOUND, format!("PVC {namespace}/{name} not found"))),
        Some(claim) => check_content(world, claim),
    }
}

/// Checks if the disk of a PVC is complete, and that of its source.
fn check_content(world: &World, claim: &PersistentVolumeClaim) -> Result<(), SourceProblem> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let shown = format!("{}/{}", text(&claim.meta.namespace), text(&claim.meta.name));
    unproven(world, claim).map_or(Ok(()), |why| Err(problem("Pending", format!("PVC {shown} {why}"))))
}
