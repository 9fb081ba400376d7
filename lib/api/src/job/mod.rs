//! Jobs of programs that move the bytes of a disk. `coracle run` passes one to its worker process, and
//! virt-controller to a pod.
//!
//! ```text
//!  DataVolume ──check──► every fault with its field                            check.rs
//!      │ Import::from_data_volume: its Secrets and ConfigMaps become values or files         import.rs
//!      ▼
//!  Import { source, target, size, preallocate } ──JSON──► cdi::import ──► Report            report.rs
//!
//!  the PVC that is cloned: Serve { disk, client } ──JSON──► cdi-worker serve ──TLS──► Source::Clone of an Import   clone.rs
//!  annotations of a PVC ──export::Request──► every fault; Export { disk, target, … } ──JSON──► cdi::export ──► Report
//!  the template of a DataImportCron ──► Poll { source } ──JSON──► cdi-worker poll ──► Report with a digest              poll.rs
//! ```
//!
//! The DataVolume is forgiving, the [`Import`] is strict. A source that is not supported, or a field of one,
//! is refused by its name in [`check`](fn@check) and nowhere else. `Debug` of a job shows no secret; its JSON
//! holds the values of those that are not in files.

mod check;
mod clone;
mod confidential;
pub mod export;
mod import;
mod poll;
mod report;

pub use check::{check, check_in_cluster, names_object};
pub use clone::{Clone, Serve};
pub use confidential::Confidential;
pub use export::Export;
pub use import::{
    Files, Gcs, Http, Import, MountedImage, References, Refusal, Registry, S3, SecretFiles, Source, Target,
    Upload,
};
pub use poll::Poll;
pub use report::{Report, Stage};
