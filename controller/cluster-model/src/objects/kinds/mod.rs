//! Kinds of objects: a file for each, with its declaration and the part of an object that is kept in the
//! World.

pub(super) mod api_service;
pub(super) mod cdi;
pub(super) mod cdi_config;
pub(super) mod config_map;
pub(super) mod controller_revision;
pub(super) mod daemon_set;
pub(super) mod data_import_cron;
pub(super) mod data_source;
pub(super) mod data_volume;
pub(super) mod deployment;
pub(super) mod endpoint_slice;
pub(super) mod event;
pub(super) mod kubevirt;
pub(super) mod lease;
pub(super) mod migration_policy;
pub(super) mod mutating_webhooks;
pub(super) mod namespace;
pub(super) mod network_attachment_definition;
pub(super) mod node;
pub(super) mod persistent_volume;
pub(super) mod persistent_volume_claim;
pub(super) mod pod;
pub(super) mod replica_set;
pub(super) mod resource_claim;
pub(super) mod resource_quota;
pub(super) mod resource_slice;
pub(super) mod secret;
pub(super) mod service;
pub(super) mod storage_class;
pub(super) mod storage_profile;
pub(super) mod subject_access_review;
pub(super) mod token_review;
pub(super) mod upload_token_request;
pub(super) mod validating_webhooks;
pub(super) mod virtual_machine;
pub(super) mod virtual_machine_cluster_instancetype;
pub(super) mod virtual_machine_cluster_preference;
pub(super) mod virtual_machine_instance;
pub(super) mod virtual_machine_instance_migration;
pub(super) mod virtual_machine_instance_preset;
pub(super) mod virtual_machine_instancetype;
pub(super) mod virtual_machine_pool;
pub(super) mod virtual_machine_preference;
pub(super) mod volume_clone_source;
pub(super) mod volume_import_source;
pub(super) mod volume_upload_source;
mod workload;

pub use api_service::{NAMES as API_SERVICES, UPLOADS};
pub use cdi::NAME as CDI;
pub use config_map::{AGGREGATION, BUNDLE, CDI_REMOVED, REMOVED, VM_LABELS};
pub use controller_revision::{REVISION, Revision, is_revision, object_labels};
pub use data_volume::ADOPTS;
pub use kubevirt::NAME as KUBEVIRT;
pub use lease::NAME as LEASE;
pub use mutating_webhooks::{CDI_NAME as CDI_MUTATOR, NAME as MUTATOR};
pub use namespace::{Namespace, selects};
pub use node::{
    ABILITIES, CPU_MANAGER, CPU_MANAGER_OF_KUBEVIRT, HEARTBEAT, Node, OBSOLETE_HOST_MODEL, REALTIME,
    SCHEDULABLE, TSC_SCHEDULING,
};
pub use persistent_volume::{ClaimReference, PersistentVolume};
pub use persistent_volume_claim::{MIGRATION_NAME, PRIME, PersistentVolumeClaim};
pub use pod::{Condition, Container, FOUND_BY, LAUNCHER, Pod, PodPhase};
pub use resource_quota::ResourceQuota;
pub use secret::{
    API_CERTIFICATE, AUTHORITY, CONTROLLER_CERTIFICATE, HANDLER_CERTIFICATE, Secret, certificates,
};
pub use storage_class::StorageClass;
pub use validating_webhooks::{CDI_NAME as CDI_VALIDATOR, NAME as VALIDATOR};
pub use virtual_machine_instance::{
    FINALIZER, HANDLER_STATUS_FIELDS, OF_VM, OUTDATED, SOURCE_MIGRATION_FIELDS, TARGET_MIGRATION_FIELDS,
    claim_of, claims_of, destinations_of, is_waiting, waiting_for_disks, was_handed_over,
};
pub use virtual_machine_instance_migration::{
    MIGRATED_VMI, MIGRATION_FINALIZER, PENDING_REASON, migration_phase, migrations_of, target_pod,
};
pub use workload::Component;
