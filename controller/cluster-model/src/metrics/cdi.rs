//! Metrics of DataVolumes, uploads and exports.

use super::{Metric, counter, gauge};

const OWNER: &[&str] = &["ownerUID"];

/// Metrics of CDI objects, on the page of virt-controller.
pub(super) const CONTROLLER: &[Metric] = &[
    counter(
        "kubevirt_cdi_import_progress_total",
        OWNER,
        "Progress of an import, in percent; by the UID of the PVC.",
    ),
    counter(
        "kubevirt_cdi_clone_progress_total",
        OWNER,
        "Progress of a clone, in percent; by the UID of the PVC.",
    ),
    gauge("kubevirt_cdi_datavolume_pending", &[], "DataVolumes that wait for a default StorageClass."),
    gauge(
        "kubevirt_cdi_storageprofile_info",
        &[
            "storageclass",
            "provisioner",
            "complete",
            "default",
            "virtdefault",
            "rwx",
            "smartclone",
            "degraded",
        ],
        "1 for each StorageProfile, with what is known of the volumes of its StorageClass.",
    ),
    gauge("kubevirt_cdi_cr_ready", &[], "1 if all programs of the installation are ready."),
    gauge(
        "kubevirt_cdi_dataimportcron_outdated",
        &["ns", "cron_name", "pending"],
        "1 for a DataImportCron whose DataSource does not lead to the newest image.",
    ),
    gauge("coracle_cdi_exports", &["phase"], "PVCs whose last export is in this phase."),
    counter(
        "coracle_cdi_export_progress_total",
        OWNER,
        "Progress of an export, in percent; by the UID of the PVC.",
    ),
];

pub(super) const UPLOAD_PROXY: &[Metric] = &[
    gauge("kubevirt_cdi_upload_proxy_ready", &[], "1 if this replica answers."),
    gauge("kubevirt_cdi_upload_proxy_requests", &[], "Uploads with a good token that are under way."),
    counter(
        "kubevirt_cdi_upload_proxy_requests_total",
        &["code"],
        "Uploads that have ended, by the status of the answer; `<broken off>` where the client did not wait.",
    ),
    counter("kubevirt_cdi_upload_proxy_bytes_total", &[], "Bytes of uploads that upload pods have taken."),
    gauge("kubevirt_cdi_upload_proxy_connections", &[], "Connections that are open."),
    counter(
        "kubevirt_cdi_upload_proxy_connections_ended_total",
        &["reason"],
        "Connections that cdi-uploadproxy ended: for others that came, for a client that was slow, or at once.",
    ),
];

/// Metrics of worker pods. Those of exports have `export` in place of `import`.
pub(super) const WORKERS: &[Metric] = &[
    counter("kubevirt_cdi_import_progress_total", OWNER, "Progress of the import of this pod, in percent."),
    counter("kubevirt_cdi_clone_progress_total", OWNER, "Progress of the clone of this pod, in percent."),
    counter("coracle_export_progress_total", OWNER, "Progress of the export of this pod, in percent."),
    gauge("coracle_import_done_bytes", OWNER, "Bytes of the disk that are done."),
    gauge("coracle_import_total_bytes", OWNER, "Bytes of the disk."),
    gauge("coracle_import_bytes_per_second", OWNER, "Bytes of the disk that are done each second."),
    gauge("coracle_import_resumed_bytes", OWNER, "Bytes that an earlier attempt left; known at the end."),
    counter("coracle_import_failures_total", OWNER, "Attempts that failed and were followed by another."),
    gauge("coracle_export_done_bytes", OWNER, "Bytes of the disk that are done."),
    gauge("coracle_export_total_bytes", OWNER, "Bytes of the disk."),
    gauge("coracle_export_bytes_per_second", OWNER, "Bytes of the disk that are done each second."),
    gauge("coracle_export_resumed_bytes", OWNER, "Bytes that an earlier attempt left; known at the end."),
    counter("coracle_export_failures_total", OWNER, "Attempts that failed and were followed by another."),
];
