//! Reads all objects of a page from the API server. Objects that the user may not read are listed on the
//! page.

use super::event::EventFilter;
use super::{Facts, Volume};
use crate::error::Result;
use crate::virt::client::Cluster;
use crate::virt::failure::Failure;
use crate::virt::json::{list, name, text};
use cluster_model::objects::{Kind, MIGRATED_VMI, escaped, names};
use futures_util::future::{join_all, join3};
use serde_json::Value;
use std::collections::BTreeSet;

/// Reads a VM, or a VMI without a VM, and everything that belongs to it.
pub(crate) async fn fetch(cluster: &Cluster, name_of_vm: &str) -> Result<Facts> {
    let namespace = cluster.namespace();
    let mut facts =
        Facts { name: name_of_vm.to_owned(), namespace: namespace.to_owned(), ..Facts::default() };
    let get = async |kind: Kind| cluster.get(&kind.object(namespace, name_of_vm)).await;
    let events_path = Kind::Event.collection(namespace);
    let (vm, vmi, events) =
        join3(get(Kind::VirtualMachine), get(Kind::VirtualMachineInstance), cluster.list(&events_path)).await;
    let (vm, vmi) = match (vm, vmi) {
        (Err(no_vm), Err(no_vmi)) => {
            let of_vmi = no_vm.code() == 404 && no_vmi.code() != 404;
            let (kind, failure) = match of_vmi {
                true => (Kind::VirtualMachineInstance, no_vmi),
                false => (Kind::VirtualMachine, no_vm),
            };
            let doing = format!("cannot read {kind} {name_of_vm} in namespace {namespace}");
            return Err(failure.into_error(&doing));
        }
        found => found,
    };
    let unread = &mut facts.unread;
    facts.vm = kept(unread, Kind::VirtualMachine, name_of_vm, vm);
    facts.vmi = kept(unread, Kind::VirtualMachineInstance, name_of_vm, vmi);
    facts.volumes = volumes(facts.vm.as_ref(), facts.vmi.as_ref());

    let pods_path = pods(namespace, name_of_vm, facts.vmi.as_ref());
    let claims = facts.volumes.iter().map(|volume| {
        let of = |kind: Kind| kind.object(namespace, &volume.claim);
        let (claim, data_volume) = (of(Kind::PersistentVolumeClaim), of(Kind::DataVolume));
        async move { (cluster.find(&claim).await, cluster.find(&data_volume).await) }
    });
    let migrations_path = migrations(namespace, name_of_vm);
    let (claims, pods, migrations) =
        join3(join_all(claims), cluster.list(&pods_path), cluster.list(&migrations_path)).await;
    for (volume, (claim, data_volume)) in facts.volumes.iter_mut().zip(claims) {
        volume.is_known = claim.is_ok() && data_volume.is_ok();
        volume.pvc = kept(unread, Kind::PersistentVolumeClaim, &volume.claim, claim).flatten();
        volume.data_volume = kept(unread, Kind::DataVolume, &volume.claim, data_volume).flatten();
    }
    facts.pods = kept(unread, Kind::Pod, "(launcher)", pods).unwrap_or_default();
    newest_first(&mut facts.pods);
    let migrations = kept(unread, Kind::VirtualMachineInstanceMigration, "(of the VMI)", migrations);
    facts.migrations = migrations.unwrap_or_default();
    // The label may be of another VMI whose long name begins alike.
    facts.migrations.retain(|migration| text(migration, "/spec/vmiName") == Some(name_of_vm));
    newest_first(&mut facts.migrations);

    let of_vmi = facts.vmi.as_ref().and_then(|vmi| text(vmi, "/status/nodeName"));
    let of_pod = facts.pods.first().and_then(|pod| text(pod, "/spec/nodeName"));
    if let Some(node) = of_vmi.or(of_pod).map(str::to_owned) {
        let found = cluster.get(&Kind::Node.object("", &node)).await;
        facts.node = kept(unread, Kind::Node, &node, found);
    }
    let filter = EventFilter {
        vm: name_of_vm.to_owned(),
        claims: facts.volumes.iter().map(|volume| volume.claim.clone()).collect(),
        migrations: facts.migrations.iter().map(|migration| name(migration).to_owned()).collect(),
        pods: facts.pods.iter().map(|pod| name(pod).to_owned()).collect(),
        ..EventFilter::default()
    };
    facts.events = filter.select(kept(unread, Kind::Event, "(all)", events));
    Ok(facts)
}

/// What was read. A failure is noted; an object that does not exist is not a failure.
pub(super) fn kept<T>(
    unread: &mut Vec<String>,
    kind: Kind,
    of: &str,
    found: Result<T, Failure>,
) -> Option<T> {
    found
        .inspect_err(|failure| {
            if failure.code() != 404 {
                unread.push(format!("{kind} {of}: {}", failure.message()));
            }
        })
        .ok()
}

/// Path of the launcher pods: by the VMI's uid, or without a VMI by their label with its name.
fn pods(namespace: &str, vm: &str, vmi: Option<&Value>) -> String {
    let selector = match vmi.and_then(|vmi| text(vmi, "/metadata/uid")) {
        Some(uid) => format!("kubevirt.io/created-by={uid}"),
        None => format!("kubevirt.io=virt-launcher,vm.kubevirt.io/name={vm}"),
    };
    format!("{}?labelSelector={}", Kind::Pod.collection(namespace), escaped(&selector))
}

/// Path of the migrations of a VMI.
fn migrations(namespace: &str, vmi: &str) -> String {
    let selector = escaped(&format!("{MIGRATED_VMI}={}", names::label(vmi)));
    format!("{}?labelSelector={selector}", Kind::VirtualMachineInstanceMigration.collection(namespace))
}

fn newest_first(objects: &mut [Value]) {
    objects.sort_by(|one, other| {
        let made = |object: &Value| text(object, "/metadata/creationTimestamp").map(str::to_owned);
        made(other).cmp(&made(one))
    });
}

/// Volumes of the VMI, or of the VM's template, that are PVCs.
pub(super) fn volumes(vm: Option<&Value>, vmi: Option<&Value>) -> Vec<Volume> {
    let of_vmi = vmi.into_iter().flat_map(|vmi| list(vmi, "/spec/volumes"));
    let of_vm = vm.into_iter().flat_map(|vm| list(vm, "/spec/template/spec/volumes"));
    let mut seen = BTreeSet::new();
    let mut volumes = Vec::new();
    for volume in of_vmi.chain(of_vm) {
        let data_volume = text(volume, "/dataVolume/name");
        let claim = data_volume
            .or(text(volume, "/persistentVolumeClaim/claimName"))
            .or(text(volume, "/ephemeral/persistentVolumeClaim/claimName"));
        if let Some(claim) = claim
            && seen.insert(claim)
        {
            volumes.push(Volume {
                name: text(volume, "/name").unwrap_or_default().to_owned(),
                claim: claim.to_owned(),
                is_data_volume: data_volume.is_some(),
                ..Volume::default()
            });
        }
    }
    volumes
}
