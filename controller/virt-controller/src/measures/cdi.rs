//! DataVolumes and StorageProfiles, by the names that upstream's dashboards and alerts look for.
//!
//! Their table is `cluster_model::metrics`.

use api::cdi::{CloneStrategy, StorageProfile};
use api::data_volume::{DataVolume, Phase};
use cluster_client::metrics::Page;
use cluster_model::objects::{Component, World};
use serde_json::Value;

pub(super) fn write(page: &mut Page, world: &World) {
    import_crons(page, world);
    progress(page, world, "kubevirt_cdi_import_progress_total", is_import);
    progress(page, world, "kubevirt_cdi_clone_progress_total", is_clone);
    let pending = world.data_volumes.all().filter(|volume| waits_for_class(world, volume)).count();
    page.family("kubevirt_cdi_datavolume_pending").sample(&[], pending as f64);
    let mut family = page.family("kubevirt_cdi_storageprofile_info");
    for profile in world.storage_profiles.all() {
        let name = profile.metadata.name.as_deref().unwrap_or_default();
        if let Some(class) = world.storage_classes.get("", name) {
            let about = ClassProperties::from_profile(profile);
            let word = |is: bool| if is { "true" } else { "false" };
            let labels = [
                ("storageclass", name),
                ("provisioner", class.provisioner.as_str()),
                ("complete", word(about.complete)),
                ("default", word(class.is_default())),
                ("virtdefault", word(class.is_default_of_vms())),
                ("rwx", word(about.rwx)),
                ("smartclone", word(about.smart_clone)),
                ("degraded", word(!about.rwx || !about.smart_clone)),
            ];
            family.sample(&labels, 1.0);
        }
    }
    let ready = if is_ready(world) { 1.0 } else { 0.0 };
    page.family("kubevirt_cdi_cr_ready").sample(&[], ready);
}

fn progress(page: &mut Page, world: &World, name: &'static str, is_so: fn(&DataVolume) -> bool) {
    let mut family = page.family(name);
    for volume in world.data_volumes.all().filter(|volume| is_so(volume)) {
        let status = volume.status.as_ref();
        let percent = status.and_then(|status| percent(status.progress.as_deref()?));
        let [(_, namespace), (_, name)] = super::names(&volume.metadata);
        let owner = world.pvcs.get(namespace, name).and_then(|claim| claim.meta.uid.as_deref());
        if let (Some(percent), Some(owner)) = (percent, owner) {
            family.sample(&[("ownerUID", owner)], percent);
        }
    }
}

/// Progress in percent. A user who may write a DataVolume may write its status, so values outside of 0 to 100
/// are not shown.
fn percent(said: &str) -> Option<f64> {
    said.strip_suffix('%')?.parse().ok().filter(|percent| (0.0..=100.0).contains(percent))
}

fn phase(volume: &DataVolume) -> Option<&Phase> {
    volume.status.as_ref()?.phase.as_ref()
}

fn is_import(volume: &DataVolume) -> bool {
    phase(volume) == Some(&Phase::ImportInProgress)
}

fn is_clone(volume: &DataVolume) -> bool {
    phase(volume) == Some(&Phase::CloneInProgress)
}

/// True if the DataVolume waits for a default StorageClass: it names none, and the cluster has none.
fn waits_for_class(world: &World, volume: &DataVolume) -> bool {
    let spec = &volume.spec;
    let of_pvc = spec.pvc.as_ref().and_then(|pvc| pvc.storage_class_name.as_deref());
    let named = of_pvc.or_else(|| spec.storage.as_ref()?.storage_class_name.as_deref());
    let is_pending = matches!(phase(volume), None | Some(Phase::Pending));
    is_pending && named.is_none() && world.storage_class(None, true).is_none()
}

/// Properties of the volumes of a class.
struct ClassProperties {
    complete: bool,
    rwx: bool,
    smart_clone: bool,
}

impl ClassProperties {
    fn from_profile(profile: &StorageProfile) -> ClassProperties {
        let status = profile.status.as_ref();
        let sets = status.map_or(&[][..], |status| &status.claim_property_sets);
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let is_known = conditions.iter().any(|is| is.r#type == "Recognized" && is.status == "True");
        let clones = status.and_then(|status| status.clone_strategy.as_ref());
        ClassProperties {
            complete: is_known || !profile.spec.claim_property_sets.is_empty(),
            rwx: sets.iter().any(|set| set.access_modes.iter().any(|mode| mode == "ReadWriteMany")),
            smart_clone: matches!(clones, Some(CloneStrategy::Snapshot | CloneStrategy::CsiClone)),
        }
    }
}

fn import_crons(page: &mut Page, world: &World) {
    let mut family = page.family("kubevirt_cdi_dataimportcron_outdated");
    for cron in world.data_import_crons.all() {
        let said = |kind: &str| {
            let mut all = cron.status.iter().flat_map(|status| &status.conditions);
            all.find(|said| said.r#type == kind)
        };
        let is_outdated = said("UpToDate").is_none_or(|said| said.status != "True");
        let is_pending = said("Progressing").is_some_and(|said| said.reason.as_deref() == Some("Pending"));
        let [(_, namespace), (_, name)] = super::names(&cron.metadata);
        let pending = if is_pending { "true" } else { "false" };
        let labels = [("ns", namespace), ("cron_name", name), ("pending", pending)];
        family.sample(&labels, if is_outdated { 1.0 } else { 0.0 });
    }
}

/// True if all programs of the installation are ready. The KubeVirt object says so of all but the upload proxy.
fn is_ready(world: &World) -> bool {
    let home = &world.facts.namespace;
    let conditions = |object: &Value| object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_available = world.kubevirts.in_namespace(home).any(|object| {
        let mut conditions = conditions(&object.object).into_iter();
        conditions.any(|condition| condition["type"] == "Available" && condition["status"] == "True")
    });
    let proxy = world.deployments.get(home, "cdi-uploadproxy");
    is_available && proxy.is_none_or(Component::is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Sim;
    use cluster_model::objects::{Key, Kind};
    use serde_json::json;

    fn said(sim: &Sim) -> Vec<String> {
        let mut page = Page::default();
        write(&mut page, &sim.world);
        page.text().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    fn volume(name: &str, class: Option<&str>) -> Value {
        let storage = json!({"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class});
        let source = json!({"http": {"url": "http://h/x"}});
        json!({"metadata": {"namespace": "n", "name": name}, "spec": {"source": source, "storage": storage}})
    }

    #[test]
    fn a_data_import_cron_is_outdated_until_its_datasource_leads_to_the_newest_image() {
        let mut sim = Sim::new();
        let meta = json!({"namespace": "n", "name": "images"});
        let key =
            sim.put(Kind::DataImportCron, json!({"metadata": meta, "spec": {"managedDataSource": "os"}}));
        let said = |sim: &Sim| {
            let mut lines = said(sim);
            lines.retain(|line| line.starts_with("kubevirt_cdi_dataimportcron_outdated"));
            lines
        };
        let labels = "{ns=\"n\",cron_name=\"images\",pending=\"false\"}";
        assert_eq!(said(&sim), [format!("kubevirt_cdi_dataimportcron_outdated{labels} 1")]);
        sim.change(&key, json!({"status": {"conditions": [{"type": "UpToDate", "status": "True"}]}}));
        assert_eq!(said(&sim), [format!("kubevirt_cdi_dataimportcron_outdated{labels} 0")]);
    }

    #[test]
    fn data_volumes_and_profiles_are_measured_by_upstreams_names() {
        let mut sim = Sim::new();
        sim.put(Kind::DataVolume, volume("waits", None));
        sim.put(Kind::DataVolume, volume("named", Some("gone")));
        sim.settle();
        assert_eq!(said(&sim), ["kubevirt_cdi_datavolume_pending 1", "kubevirt_cdi_cr_ready 0"]);

        let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let meta = json!({"name": "fast", "annotations": annotations});
        sim.put(Kind::StorageClass, json!({"metadata": meta, "provisioner": "rook-ceph.rbd.csi.ceph.com"}));
        sim.put(Kind::StorageClass, json!({"metadata": {"name": "other"}, "provisioner": "x"}));
        sim.settle();
        let claim = Key::new(Kind::PersistentVolumeClaim, "n", "waits");
        let uid = sim.uid(&claim);
        let disk = Key::new(Kind::DataVolume, "n", "waits");
        sim.change(&disk, json!({"status": {"phase": "ImportInProgress", "progress": "12.50%"}}));
        let available = json!([{"type": "Available", "status": "True"}]);
        let meta = json!({"namespace": "kubevirt", "name": "kubevirt"});
        sim.put(Kind::KubeVirt, json!({"metadata": meta, "status": {"conditions": available}}));
        let lines = said(&sim);
        assert_eq!(lines[0], format!("kubevirt_cdi_import_progress_total{{ownerUID=\"{uid}\"}} 12.5"));
        assert_eq!(lines[1], "kubevirt_cdi_datavolume_pending 0");
        let profile = |name: &str, rest: &str| {
            format!("kubevirt_cdi_storageprofile_info{{storageclass=\"{name}\",{rest}}} 1")
        };
        let known = "provisioner=\"rook-ceph.rbd.csi.ceph.com\",complete=\"true\",default=\"true\",virtdefault=\"false\",\
                     rwx=\"true\",smartclone=\"true\",degraded=\"false\"";
        assert_eq!(lines[2], profile("fast", known));
        let unknown = "provisioner=\"x\",complete=\"false\",default=\"false\",virtdefault=\"false\",rwx=\"false\",\
                       smartclone=\"false\",degraded=\"true\"";
        assert_eq!(lines[3], profile("other", unknown));
        assert_eq!(lines[4..], ["kubevirt_cdi_cr_ready 1"]);
        sim.change(&disk, json!({"status": {"phase": "CloneInProgress", "progress": "N/A"}}));
        assert!(!said(&sim).iter().any(|line| line.contains("progress")), "nobody knows how far it is");
        sim.change(&disk, json!({"status": {"progress": "50.00%"}}));
        assert_eq!(said(&sim)[0], format!("kubevirt_cdi_clone_progress_total{{ownerUID=\"{uid}\"}} 50"));
        for forged in ["NaN%", "inf%", "-1%", "1e300%"] {
            sim.change(&disk, json!({"status": {"progress": forged}}));
            assert!(!said(&sim).iter().any(|line| line.contains("progress")), "{forged}");
        }
    }
}
