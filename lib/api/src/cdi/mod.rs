//! The kinds of `cdi.kubevirt.io/v1beta1` beside the DataVolume ([`crate::data_volume`]): settings of imports,
//! what storage can do, where images come from, and requests to fill a PVC.
//!
//! ```text
//!  CDI ── spec.config ──► CDIConfig `config`   settings; its status has them resolved          (installation, config)
//!  StorageClass ────────► StorageProfile       modes and ways to clone that the class can do   (storage_profile)
//!  DataImportCron ──────► DataVolume ────────► DataSource ◄── sourceRef of a DataVolume        (data_import_cron, data_source)
//!  PVC ── dataSourceRef ► VolumeImportSource, VolumeUploadSource, VolumeCloneSource            (populator)
//!  ObjectTransfer                              refused, deprecated upstream                    (object_transfer)
//!  UploadTokenRequest                          of `upload.cdi.kubevirt.io`; never stored       (upload_token)
//! ```
//!
//! Each is read forgivingly: an unknown word is kept. virt-api's webhooks decide which values may be written.
//! [`crate::crd`] has names, columns and subresources. [`served`] lists the effect of each setting.
//! `schedule` reads the schedule of a DataImportCron, `percent` a filesystem overhead.
//! **Absent:** the controllers that act on them.

pub mod annotations;
mod condition;
mod config;
mod data_import_cron;
mod data_source;
mod installation;
mod object_transfer;
mod percent;
mod populator;
mod schedule;
pub mod served;
mod storage_profile;
mod upload_token;

pub use condition::*;
pub use config::*;
pub use data_import_cron::*;
pub use data_source::*;
pub use installation::*;
pub use object_transfer::*;
pub use percent::*;
pub use populator::*;
pub use schedule::*;
pub use storage_profile::*;
pub use upload_token::*;

/// The group of these kinds, and of the DataVolume.
pub const GROUP: &str = "cdi.kubevirt.io";
/// The version of these kinds.
pub const VERSION: &str = "v1beta1";
