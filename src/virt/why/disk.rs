//! The page of `why` about a DataVolume, a PVC or a DataImportCron, which need not belong to a VM.

use super::disks::{explaining_condition, filling};
use super::event::{Event, EventFilter};
use super::fetch::kept;
use super::page::{Parts, containers, row, troubles, written};
use super::{Finding, Quote};
use crate::error::Result;
use crate::virt::client::Cluster;
use crate::virt::json::{self, annotation_text, condition, list, moment, name, phase, text};
use api::cdi::annotations::{
    EXPORT_MESSAGE, EXPORT_PHASE, EXPORT_REASON, EXPORT_SINCE, EXPORT_TARGET, RUNNING, RUNNING_MESSAGE,
    RUNNING_REASON,
};
use cluster_model::objects::{Kind, Work};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

/// Work of the pods that are named after their PVC.
const WORKERS: [Work; 3] = [Work::Import, Work::Upload, Work::Export];

/// The object that the page is about, with related objects and events.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) namespace: String,
    /// The object itself first, then the related ones: DataVolume, PVC, pods.
    pub(super) objects: Vec<(Kind, Value)>,
    pub(super) events: Vec<Event>,
    /// Objects that could not be read, with the reason.
    pub(super) unread: Vec<String>,
}

/// Reads the object and everything that belongs to it.
pub(crate) async fn fetch(cluster: &Cluster, kind: Kind, name_of_it: &str) -> Result<Disk> {
    let namespace = cluster.namespace();
    let doing = format!("cannot read {kind} {name_of_it} in namespace {namespace}");
    let found = cluster.object(kind, name_of_it, &doing).await?;
    let mut disk = Disk {
        kind,
        name: name_of_it.to_owned(),
        namespace: namespace.to_owned(),
        objects: vec![(kind, found)],
        events: Vec::new(),
        unread: Vec::new(),
    };
    let claim = disk.claim();
    if let Some(claim) = &claim {
        let workers = WORKERS.map(|work| (Kind::Pod, work.pod(claim)));
        let all = [(Kind::DataVolume, claim.clone()), (Kind::PersistentVolumeClaim, claim.clone())];
        for (other, name) in all.into_iter().chain(workers).filter(|(other, _)| *other != kind) {
            let found = cluster.find(&other.object(namespace, &name)).await;
            let found = kept(&mut disk.unread, other, &name, found).flatten();
            disk.objects.extend(found.map(|found| (other, found)));
        }
    }
    let filter = EventFilter {
        claims: claim.into_iter().collect(),
        crons: BTreeSet::from_iter((kind == Kind::DataImportCron).then(|| name_of_it.to_owned())),
        pods: disk.of(Kind::Pod).map(|pod| name(pod).to_owned()).collect(),
        ..EventFilter::default()
    };
    let events = cluster.list(&Kind::Event.collection(namespace)).await;
    disk.events = filter.select(kept(&mut disk.unread, Kind::Event, "(all)", events));
    Ok(disk)
}

impl Disk {
    fn of(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |(of, _)| *of == kind).map(|(_, object)| object)
    }

    fn one(&self, kind: Kind) -> Option<&Value> {
        self.of(kind).next()
    }

    /// Name of the PVC: that of the DataVolume, or for a DataImportCron that of its newest import.
    fn claim(&self) -> Option<String> {
        match self.kind {
            Kind::DataImportCron => {
                let last = list(self.one(self.kind)?, "/status/currentImports").next()?;
                text(last, "/DataVolumeName").map(str::to_owned)
            }
            _ => Some(self.name.clone()),
        }
    }

    /// Text of the page. `program` is the name of the command in its hints.
    pub(crate) fn page(&self, program: &str, now: Timestamp) -> String {
        let mut rows = Vec::new();
        for (kind, object) in &self.objects {
            let phase = if phase(object).is_empty() { "no phase" } else { phase(object) };
            let state = match kind {
                Kind::DataImportCron => text(object, "/spec/schedule").map_or_else(
                    || "without a schedule".to_owned(),
                    |schedule| format!("schedule {schedule}"),
                ),
                _ => phase.to_owned(),
            };
            rows.push(row(&kind.to_string(), name(object), state));
            // A DataVolume that is filled has no worker pod, so its condition Running is not a fault.
            if !(*kind == Kind::DataVolume && phase == "Succeeded") {
                rows.extend(troubles(object, now));
            }
            rows.extend(containers(object));
        }
        let all = format!(
            "kubectl get events -n {} --field-selector involvedObject.name={}",
            self.namespace, self.name
        );
        written(self.find(), &Parts { rows, unread: &self.unread, events: &self.events, all }, program, now)
    }

    /// Reason why the DataVolume, PVC or DataImportCron waits or has failed, with the first warning event, if any.
    pub(super) fn find(&self) -> Finding {
        let found = match self.kind {
            Kind::DataImportCron => self.of_cron(),
            Kind::DataVolume => self.of_volume(),
            _ => self.of_claim(),
        };
        let warning = self.events.iter().find(|event| event.is_warning);
        found.quote_event(warning)
    }

    fn of_volume(&self) -> Finding {
        let (name, namespace) = (&self.name, &self.namespace);
        let Some(volume) = self.one(Kind::DataVolume) else { return self.of_claim() };
        let said = explaining_condition(volume);
        let with_quotes = |finding: Finding| {
            finding.quote(said.map(|said| Quote::new(said.shown(), said.message_or_reason())))
        };
        if phase(volume) == "Failed" {
            return with_quotes(Finding::new(format!("DataVolume {name} has failed"))).advise(format!(
                "fix the cause of the failure, then delete it, and create it again: kubectl delete datavolume {name} -n {namespace}"
            ));
        }
        let since = condition(volume, "Running", "True").and_then(|running| running.since);
        let since = since.or_else(|| moment(volume, "/metadata/creationTimestamp"));
        match filling(volume, name, namespace) {
            Some((what, advice)) => {
                with_quotes(Finding::new(format!("DataVolume {name}, {what}")).since(since)).advise(advice)
            }
            None => self.export().unwrap_or_else(|| {
                Finding::new(format!("DataVolume {name} is filled, and waits for nothing"))
            }),
        }
    }

    fn of_claim(&self) -> Finding {
        let name = &self.name;
        let claim = self.one(Kind::PersistentVolumeClaim);
        let Some(claim) = claim else { return Finding::new(format!("PVC {name} does not exist")) };
        if let Some(volume) = self.one(Kind::DataVolume)
            && !matches!(phase(volume), "Succeeded" | "")
        {
            let of_volume = self.of_volume();
            return Finding { says: format!("PVC {name} waits: {}", of_volume.says), ..of_volume };
        }
        let since = moment(claim, "/metadata/creationTimestamp");
        match phase(claim) {
            "Lost" => Finding::new(format!("PVC {name} has lost its volume"))
                .advise("restore the volume from a backup, or make another PVC"),
            "Bound" => self
                .export()
                .or_else(|| worker(claim, name))
                .unwrap_or_else(|| Finding::new(format!("PVC {name} has its volume, and waits for nothing"))),
            _ => {
                let class = text(claim, "/spec/storageClassName").map_or_else(
                    || "without a storage class".to_owned(),
                    |class| format!("of storage class {class}"),
                );
                let said = annotation_text(claim, RUNNING_MESSAGE);
                Finding::new(format!("PVC {name} {class} waits for a volume"))
                    .since(since)
                    .quote(said.map(|said| Quote::new(format!("the annotation {RUNNING_MESSAGE}"), said)))
                    .advise("compare the PVC with what can be had: kubectl get storageclass,pv")
                    .advise(
                        "a class with WaitForFirstConsumer makes the volume when the first pod uses the PVC",
                    )
            }
        }
    }

    /// Finding about an export that waits, runs or has failed.
    fn export(&self) -> Option<Finding> {
        let claim = self.one(Kind::PersistentVolumeClaim)?;
        let phase = annotation_text(claim, EXPORT_PHASE).filter(|phase| *phase != "Succeeded")?;
        let target = annotation_text(claim, EXPORT_TARGET).unwrap_or("an image");
        let since = annotation_text(claim, EXPORT_SINCE).and_then(|since| since.parse().ok());
        let source = format!(
            "the annotation {EXPORT_MESSAGE}, {}",
            annotation_text(claim, EXPORT_REASON).unwrap_or(phase)
        );
        Some(
            Finding::new(format!("PVC {} is to be exported to {target}: {phase}", self.name))
                .since(since)
                .quote(annotation_text(claim, EXPORT_MESSAGE).map(|said| Quote::new(source, said))),
        )
    }

    fn of_cron(&self) -> Finding {
        let name = &self.name;
        let Some(cron) = self.one(Kind::DataImportCron) else {
            return Finding::new(format!("DataImportCron {name} does not exist"));
        };
        if let Some(done) = condition(cron, "UpToDate", "True") {
            let finding = Finding::new(format!("DataImportCron {name} is up to date")).since(done.since);
            // The condition also reports the failure of the last poll.
            let said = done.message.contains("; ").then(|| Quote::new(done.shown(), done.message));
            return finding.quote(said);
        }
        let Some(stands) = condition(cron, "UpToDate", "False") else {
            return Finding::new(format!(
                "DataImportCron {name} waits for virt-controller, which has not looked at it yet"
            ))
            .advise("see whether virt-controller runs: kubectl get pods -A -l kubevirt.io=virt-controller");
        };
        let finding = Finding::new(format!("DataImportCron {name} is not up to date"))
            .since(stands.since)
            .quote([Quote::new(stands.shown(), stands.message_or_reason())]);
        match self.one(Kind::DataVolume).filter(|volume| phase(volume) != "Succeeded") {
            Some(volume) => {
                let import = json::name(volume);
                let said = explaining_condition(volume);
                let finding = finding.quote(said.map(|said| said.quote("", Kind::DataVolume, import)));
                finding.advise(format!("look at the import: $virt why dv/{import} -n {}", self.namespace))
            }
            None => finding.advise(
                "fix the cause in the message above; the next poll comes by the schedule, or after a pause",
            ),
        }
    }
}

/// Finding about a worker pod that does not run, by the annotations of its PVC.
fn worker(claim: &Value, name: &str) -> Option<Finding> {
    let message = annotation_text(claim, RUNNING_MESSAGE)?;
    let runs = annotation_text(claim, RUNNING) == Some("true");
    let reason = annotation_text(claim, RUNNING_REASON).unwrap_or_default();
    let is_done = matches!(reason, "Completed" | "Import Complete" | "Upload Complete");
    (!runs && !is_done).then(|| {
        Finding::new(format!("PVC {name} has its volume, and waits for its worker pod"))
            .quote([Quote::new(format!("the annotation {RUNNING_MESSAGE}, {reason}"), message)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn disk(kind: Kind, objects: Vec<(Kind, Value)>) -> Disk {
        let (name, namespace) = ("disk".to_owned(), "blue".to_owned());
        Disk { kind, name, namespace, objects, events: Vec::new(), unread: Vec::new() }
    }

    fn object(notes: &Value, status: &Value) -> Value {
        json!({"metadata": {"name": "disk", "annotations": notes}, "spec": {"storageClassName": "fast"}, "status": status})
    }

    fn says(kind: Kind, objects: Vec<(Kind, Value)>) -> (String, String, String) {
        let disk = disk(kind, objects);
        let page = disk.page("virtctl", "2026-09-01T10:10:00Z".parse().unwrap());
        assert!(page.contains("\nObjects\n") && !page.contains("$virt"), "{page}");
        let found = disk.find();
        let words: Vec<String> =
            found.quotes.iter().map(|words| format!("{}: {}", words.source, words.text)).collect();
        (found.says, words.join(" | "), found.advice.join("; "))
    }

    const VOLUME: Kind = Kind::DataVolume;
    const CLAIM: Kind = Kind::PersistentVolumeClaim;
    const CRON: Kind = Kind::DataImportCron;

    #[test]
    fn a_data_volume_a_pvc_and_a_cron_say_what_they_wait_for() {
        let none = json!({});
        let failed = json!({"phase": "Failed", "conditions": [
            {"type": "Running", "status": "False", "reason": "NotFound", "message": "404: no such image"},
        ]});
        let exported = json!({
            "cdi.kubevirt.io/storage.export.target": "docker://h/a:1", "cdi.kubevirt.io/storage.export.phase": "Pending",
            "cdi.kubevirt.io/storage.export.reason": "FailedMount", "cdi.kubevirt.io/storage.export.message": "no Secret",
        });
        let upload = json!({
            "cdi.kubevirt.io/storage.condition.running": "false",
            "cdi.kubevirt.io/storage.condition.running.reason": "Pending",
            "cdi.kubevirt.io/storage.condition.running.message": "no node",
        });
        let bound = json!({"phase": "Bound"});
        let cron = |status: &str, message: &str| json!({"conditions": [{"type": "UpToDate", "status": status, "reason": "NoDigest", "message": message}]});
        for (kind, objects, wanted, words, advice) in [
            (
                VOLUME,
                vec![(VOLUME, object(&none, &json!({"phase": "Succeeded"})))],
                "DataVolume disk is filled",
                "",
                "",
            ),
            (
                VOLUME,
                vec![(VOLUME, object(&none, &failed))],
                "DataVolume disk has failed",
                "condition Running, NotFound: 404: no such image",
                "kubectl delete datavolume disk -n blue",
            ),
            (
                VOLUME,
                vec![(VOLUME, object(&none, &json!({"phase": "ImportInProgress", "progress": "42%"})))],
                "DataVolume disk, which is being filled (ImportInProgress, 42%)",
                "",
                "-w",
            ),
            (
                CLAIM,
                vec![(CLAIM, object(&none, &bound)), (VOLUME, object(&none, &failed))],
                "PVC disk waits: DataVolume disk has failed",
                "condition Running, NotFound: 404: no such image",
                "delete",
            ),
            (
                CLAIM,
                vec![(CLAIM, object(&none, &bound))],
                "PVC disk has its volume, and waits for nothing",
                "",
                "",
            ),
            (
                CLAIM,
                vec![(CLAIM, object(&exported, &bound))],
                "PVC disk is to be exported to docker://h/a:1: Pending",
                "the annotation cdi.kubevirt.io/storage.export.message, FailedMount: no Secret",
                "",
            ),
            (
                CLAIM,
                vec![(CLAIM, object(&upload, &bound))],
                "PVC disk has its volume, and waits for its worker pod",
                "the annotation cdi.kubevirt.io/storage.condition.running.message, Pending: no node",
                "",
            ),
            (
                CLAIM,
                vec![(CLAIM, object(&none, &json!({"phase": "Pending"})))],
                "PVC disk of storage class fast waits for a volume",
                "",
                "kubectl get storageclass,pv",
            ),
            (
                CRON,
                vec![(CRON, object(&none, &cron("True", "Latest")))],
                "DataImportCron disk is up to date",
                "",
                "",
            ),
            (
                CRON,
                vec![(CRON, object(&none, &cron("False", "No source digest; the last poll failed: login")))],
                "DataImportCron disk is not up to date",
                "condition UpToDate, NoDigest: No source digest; the last poll failed: login",
                "the next poll",
            ),
            (
                CRON,
                vec![(CRON, object(&none, &cron("False", "x"))), (VOLUME, object(&none, &failed))],
                "DataImportCron disk is not up to date",
                "condition UpToDate, NoDigest: x | condition Running, NotFound of DataVolume disk: 404: no such image",
                "$virt why dv/disk -n blue",
            ),
            (
                CRON,
                vec![(CRON, object(&none, &none))],
                "DataImportCron disk waits for virt-controller",
                "",
                "virt-controller",
            ),
        ] {
            let (said, by, to_do) = says(kind, objects);
            assert!(said.starts_with(wanted), "{said}");
            assert_eq!(by, words, "{said}");
            assert!(to_do.contains(advice) && (!advice.is_empty() || to_do.is_empty()), "{said}: {to_do}");
        }
    }

    #[test]
    fn odd_objects_make_a_page_too() {
        for kind in [VOLUME, CLAIM, CRON] {
            for odd in [json!(null), json!(7), json!({"status": {"conditions": {"a": 1}}, "metadata": 3})] {
                assert!(!says(kind, vec![(kind, odd)]).0.is_empty());
            }
            assert!(!disk(kind, Vec::new()).find().says.is_empty());
        }
        let last = json!({"status": {"currentImports": [{"DataVolumeName": "os-1"}]}});
        assert_eq!(disk(CRON, vec![(CRON, last)]).claim().as_deref(), Some("os-1"));
    }
}
