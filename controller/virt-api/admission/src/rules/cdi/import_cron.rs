//! DataImportCrons: source, schedule and retention.

use super::{LABEL, judged, name_fits, volume, wrong};
use crate::rules::{AdmissionResponse, Request};
use api::cdi::{DataImportCron, DataImportCronSpec, GarbageCollect, Schedule};
use api::data_volume::Source;
use api::fault::Fault;

/// Validates a new or changed DataImportCron.
pub(crate) fn judge(request: &Request) -> AdmissionResponse {
    let refusal = ("spec", "Cannot update DataImportCron Spec");
    judged::<DataImportCron>(
        request,
        |old, new| old.spec == new.spec,
        refusal,
        |cron| {
            name_fits(cron.metadata.name.as_deref(), LABEL)?;
            spec(&cron.spec)
        },
    )
}

fn spec(spec: &DataImportCronSpec) -> Result<(), Vec<Fault>> {
    let template = &spec.template.spec;
    let source = template.source.as_ref();
    // Upstream accepts only the first two.
    let is_polled = |source: &Source| {
        source.registry.is_some() || source.pvc.is_some() || source.http.is_some() || source.s3.is_some()
    };
    if !source.is_some_and(is_polled) {
        return Err(wrong("spec.Template", "Missing source"));
    }
    if template.source_ref.is_some()
        || template.content_type.as_ref().is_some_and(|word| !word.as_str().is_empty())
        || !template.checkpoints.is_empty()
        || template.final_checkpoint == Some(true)
    {
        let message = "Unsettable fields: SourceRef, ContentType, Checkpoints, FinalCheckpoint";
        return Err(wrong("spec.Template", message));
    }
    volume::spec(template, "Template")?;
    if spec.service_account_name.as_ref().is_some_and(|name| !name.is_empty()) {
        let message = "serviceAccountName is not supported: nothing of another namespace is imported, in whose name ever; leave it out";
        return Err(wrong("spec.serviceAccountName", message));
    }
    let illegal = |field: &str, what: &str| Err(wrong(format!("spec.{field}"), format!("Illegal {what}")));
    if let Some(why) = against_schedule(&spec.schedule) {
        // Upstream's message, followed by the reason.
        return illegal("Schedule", &format!("cron schedule: {why}"));
    }
    if spec.imports_to_keep.is_some_and(|count| count < 0) {
        return illegal("ImportsToKeep", "ImportsToKeep value");
    }
    if matches!(spec.garbage_collect, Some(GarbageCollect::Other(_))) {
        return illegal("GarbageCollect", "GarbageCollect value");
    }
    if spec.managed_data_source.is_empty() {
        return illegal("ManagedDataSource", "ManagedDataSource value");
    }
    name_fits(Some(&spec.managed_data_source), LABEL)
}

/// Reason against a schedule. Time zones other than UTC are refused, as for upstream's CronJobs.
fn against_schedule(schedule: &str) -> Option<String> {
    match Schedule::read(schedule) {
        _ if schedule.is_empty() => None,
        Ok(Schedule::At(times)) if !times.are_utc() => {
            Some("its time zone is another than UTC; leave out TZ=, and write the times in UTC".to_owned())
        }
        Ok(_) => None,
        Err(why) => Some(why),
    }
}
